//! The router as a program: configuration, start, signals, reload, stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use namely_wire::FaceUri;
use namely_wire::text::Plain;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::DaemonArgs;
use crate::config::{Config, default_socket};
use crate::exit::{Exit, Failure};
use crate::key::RouterKey;
use crate::log;
use crate::privileges;
use crate::router::Router;
use crate::service::{self, Watchdog};

/// Runs a router until a signal ends it: what `namelyd` and `namely up` do.
///
/// # Errors
/// [`Failure`] says what is wrong, what to do, and with which exit status to end.
pub fn run(args: &DaemonArgs) -> Result<(), Failure> {
    // The same file at each reload: whoever the router becomes may find others, or none.
    let args = &DaemonArgs { config: args.config_file(), ..args.clone() };
    if args.check {
        let file = check(args)?.map_or("the default".into(), |path| path.display().to_string());
        say(&format!("configuration ok: {file}"));
        return Ok(());
    }
    let config = load(args)?;
    log::set(&config.log.level, config.log.format);
    let given = service::take()?;
    let key = RouterKey::read(&config)?;
    let taken = privileges::give_up(&config, args.config.as_deref())?;
    // Before anything is announced: a signal that comes at once must not end the process by itself.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|error| Failure::new(Exit::Failed, format!("no signals: {error}")))?;
    let end_of_signals = signals.handle();
    let router = Router::start_keyed(config, key, taken, given, move || end_of_signals.close())?;
    announce(router.listening(), router.metrics());
    service::ready();
    let watchdog = Watchdog::start(router.health());
    let stop = wait_for_stop(&mut signals, args, &router);
    service::stopping();
    drop(watchdog);
    if !router.stop_in_time() {
        tracing::error!("the router did not end in time: what it still does ends with the process");
    }
    match stop {
        Some(signal) => {
            tracing::info!("stopped by signal {signal}");
            Ok(())
        }
        None => Err(Failure::new(Exit::Failed, "the router could not go on; its log says why")),
    }
}

/// Checks the configuration without starting anything; the file that it is in, if it is in one.
///
/// # Errors
/// [`Failure`] says what is wrong, and where.
pub fn check(args: &DaemonArgs) -> Result<Option<PathBuf>, Failure> {
    Router::check(&load(args)?)?;
    Ok(args.config_file())
}

/// Reloads until a signal says stop; `None` if the router ended by itself.
fn wait_for_stop(signals: &mut Signals, args: &DaemonArgs, router: &Router) -> Option<i32> {
    for signal in signals {
        if signal != SIGHUP {
            return Some(signal);
        }
        reload(args, router);
    }
    None
}

fn load(args: &DaemonArgs) -> Result<Config, Failure> {
    args.load().map_err(|error| Failure::new(Exit::Configuration, error.to_string()))
}

fn reload(args: &DaemonArgs, router: &Router) {
    service::reloading();
    if let Err(failure) = load(args).and_then(|config| router.reload(config)) {
        tracing::error!("not reloaded, the configuration in force stays: {failure}");
    }
    service::ready();
}

/// Prints where the router is and what to do next. Scripts read the lines that begin with
/// 'listening on' and 'ready'.
fn announce(listening: &[FaceUri], metrics: Option<SocketAddr>) {
    say(concat!("namelyd ", env!("CARGO_PKG_VERSION")));
    for uri in listening {
        say(&format!("listening on {uri}"));
    }
    if let Some(address) = metrics {
        say(&format!("metrics at http://{address}/metrics"));
    }
    let default = default_socket();
    let is_default =
        |uri: &&FaceUri| matches!(uri, FaceUri::Unix(path) if default.as_os_str() == path.as_str());
    // Over anything else commands need a key that the configuration names.
    let is_for_applications = |uri: &&FaceUri| match uri {
        FaceUri::Unix(_) | FaceUri::Memif { .. } => true,
        FaceUri::Tcp(_) => uri.address().is_some_and(|address| address.ip().is_loopback()),
        _ => false,
    };
    let router = match (listening.iter().find(is_default), listening.iter().find(is_for_applications)) {
        (Some(_), _) => String::new(),
        (None, Some(uri)) => format!(" --router {uri}"),
        (None, None) => {
            return say("ready; for this machine's applications, --listen unix:///PATH as well");
        }
    };
    say(&format!("ready; try: namely{router} status, or namely{router} serve DIR --prefix /NAME"));
}

/// Standard output may be closed: nothing depends on it.
fn say(line: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "{}", Plain::new(line)).and_then(|()| output.flush()).ok();
}

//! The router as a program: configuration, start, signals, reload, stop.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use namely_wire::FaceUri;
use namely_wire::text::Plain;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{CommandLine, DaemonArgs};
use crate::config::{Config, default_socket};
use crate::exit::{Exit, Failure};
use crate::key::RouterKey;
use crate::log::{self, Announcement, LogFormat};
use crate::preflight::{self, Checked};
use crate::privileges;
use crate::router::Router;
use crate::systemd::{self, Watchdog};

/// Runs a router until a signal stops it, for `namelyd` and `namely up`.
///
/// # Errors
/// [`Failure`] contains the error, a hint and the exit status.
pub fn run(args: &DaemonArgs) -> Result<(), Failure> {
    // Every reload reads the same file, because the user of the router may have other default
    // files.
    let args = &DaemonArgs { config: args.config_file(), ..args.clone() };
    if args.log_format == Some(LogFormat::Json) {
        log::use_json();
    }
    if args.check {
        let checked = check(args)?;
        let file = checked.file.map_or("the default".into(), |path| path.display().to_string());
        let lines = std::iter::once(format!("configuration ok: {file}"));
        let mut lines = lines.chain(checked.remarks.iter().map(|remark| format!("note: {remark}")));
        return written(lines.try_for_each(|line| print(&line)));
    }
    // A file with errors can still ask for JSON.
    let config = load(args).inspect_err(|_| {
        if args.is_log_json() {
            log::use_json()
        }
    })?;
    if config.log.format == LogFormat::Json {
        log::use_json();
    }
    log::set(&config.log.level, config.log.format);
    let given = systemd::take()?;
    let key = RouterKey::read(&config)?;
    let taken = privileges::give_up(&config, args.config.as_deref())?;
    // Set up before the first announcement, because an early signal must not kill the process.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(Failure::system("no signals"))?;
    let end_of_signals = signals.handle();
    let (started, ended) = (config.clone(), move || end_of_signals.close());
    let router = Router::start_keyed(config, key, taken, given, ended).map_err(move |failure| {
        // The start ends at the first error of the configuration. The check finds all of them.
        let all = (failure.exit == Exit::Configuration).then(|| Router::check(&started).err()).flatten();
        all.unwrap_or(failure)
    })?;
    announce(router.listening(), router.metrics());
    systemd::ready();
    let watchdog = Watchdog::start(router.health());
    let stop = wait_for_stop(&mut signals, args, &router);
    systemd::stopping();
    drop(watchdog);
    if !router.stop_in_time() {
        tracing::error!("the router did not end in time: its remaining work ends with the process");
    }
    match stop {
        Some(signal) => {
            tracing::info!(signal, "stopped by signal {signal}");
            Ok(())
        }
        None => Err(Failure::failed("the router has failed; its log has the reason")),
    }
}

/// Checks the configuration without starting a router.
///
/// # Errors
/// [`Failure`] contains all errors and their positions, and all reasons for which this machine
/// would refuse the start.
pub fn check(args: &DaemonArgs) -> Result<Checked, Failure> {
    let config = load(args)?;
    Router::check(&config)?;
    let remarks = preflight::check(&config)?;
    Ok(Checked { file: args.config_file(), remarks })
}

/// Handles reloads until a signal stops the router; `None` if the router stopped by itself. The
/// first signal begins the drain, if Interests are pending. The drain ends the signals.
fn wait_for_stop(signals: &mut Signals, args: &DaemonArgs, router: &Router) -> Option<i32> {
    let mut draining = None;
    for signal in signals {
        match (signal, draining) {
            (SIGHUP, None) => reload(args, router),
            (SIGHUP, Some(_)) => tracing::warn!("not reloaded: the router is about to stop"),
            (_, None) if router.drain() => draining = Some(signal),
            _ => return Some(signal),
        }
    }
    draining
}

fn load(args: &DaemonArgs) -> Result<Config, Failure> {
    Ok(args.load()?)
}

fn reload(args: &DaemonArgs, router: &Router) {
    systemd::reloading();
    if let Err(failure) = load(args).and_then(|config| router.reload(config)) {
        // A line of the log for each error, because a line break in one is escaped.
        for error in failure.to_string().lines() {
            tracing::error!("not reloaded, the old configuration stays in force: {}", error.trim_start());
        }
    }
    systemd::ready();
}

/// Prints the addresses and a first command. Scripts read the lines that begin with 'listening on'
/// and 'ready'.
fn announce(listening: &[FaceUri], metrics: Option<SocketAddr>) {
    if log::is_json() {
        return announce_as_json(listening, metrics);
    }
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
    // Commands over any other face need a configured key.
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

/// The same lines as JSON, beside those of the log: a collector of logs takes both from one stream.
fn announce_as_json(listening: &[FaceUri], metrics: Option<SocketAddr>) {
    Announcement::of("the router starts").with("version", env!("CARGO_PKG_VERSION")).write();
    for uri in listening {
        Announcement::of("listening").with("uri", uri.to_string()).write();
    }
    if let Some(address) = metrics {
        Announcement::of("metrics are served").with("url", format!("http://{address}/metrics")).write();
    }
    Announcement::of("ready").write();
}

/// The router runs on if this line cannot be written.
fn say(line: &str) {
    print(line).ok();
}

fn print(line: &str) -> io::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{}", Plain::new(line))?;
    output.flush()
}

/// The result of a command whose only purpose is its output. A reader that has left is no failure.
fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Parses the command line of `namelyd`. Prints the help, the version or an error of the command
/// line otherwise.
///
/// # Errors
/// The exit status for the printed text.
pub fn command_line() -> Result<CommandLine, ExitCode> {
    CommandLine::try_parse().map_err(|error| {
        let printed = error.print().and_then(|()| io::stdout().flush());
        match written(printed) {
            Err(failure) if !error.use_stderr() => failure.end("namelyd"),
            _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
        }
    })
}

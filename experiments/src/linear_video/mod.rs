//! Live video to many viewers, over TCP and over names: the load of the server (HT-32; figures 7
//! and 8 of Sardara, Muscariello and Compagno, ICN'18, scaled). docs/experiments/linear-video.md
//! has the results and the commands that make them.
//!
//! Every part is a process of its own: the origin, the server (a caching HTTP proxy, or the egress
//! gateway with a producer socket for each channel), the router, the audience.

mod audience;
mod experiment;
mod live;
mod options;
mod origin;
mod plot;
mod viewers;

use std::net::SocketAddr;
use std::path::PathBuf;

use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_testbed::Interrupt;

use self::experiment::{Mode, Outcome, Programs};
use self::options::{Experiment, Role};
use self::viewers::ChannelSource;

pub use self::options::LinearVideo;

/// Runs the experiment, or one of its processes.
///
/// # Errors
/// Returns an error of the environment, or of a program that the experiment runs.
pub fn run(options: &LinearVideo) -> Result<(), Error> {
    match &options.role {
        Some(Role::Origin { listen, scale }) => origin::run(*listen, *scale)
            .map_err(|e| Error::Subject(format!("the origin at {listen} fails: {e}"))),
        Some(Role::Audience { experiment, population, http, router }) => {
            watch(experiment, *population, *http, router.as_deref())
        }
        None => compare(options),
    }
}

fn watch(
    experiment: &Experiment,
    population: u64,
    http: Option<SocketAddr>,
    router: Option<&str>,
) -> Result<(), Error> {
    let via = match (http, router) {
        (Some(server), _) => ChannelSource::Http(server),
        (None, router) => ChannelSource::Names {
            router: router.unwrap_or_default().to_owned(),
            prefix: "/http".parse().map_err(|_| Error::Subject("no prefix".into()))?,
        },
    };
    let seen = viewers::run(population, experiment.habits(), &via).map_err(Error::Subject)?;
    output::line(serde_json::to_string(&seen).map_err(|e| Error::Subject(e.to_string()))?);
    Ok(())
}

fn compare(cli: &LinearVideo) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let programs = programs(cli.no_proxy)?;
    let mut outcomes = Vec::new();
    if !cli.json {
        output::line(format_args!("machine: {}", Machine::read()));
        let proxy = if programs.varnishd.is_some() {
            "varnishd, cache of 1 GiB"
        } else {
            "none: viewers ask the origin itself"
        };
        output::line(format_args!("caching proxy over TCP: {proxy}"));
        output::line(HEADER);
    }
    for viewers in &cli.viewers {
        for mode in [Mode::Tcp, Mode::Names] {
            let outcome = experiment::run(mode, *viewers, &cli.experiment, &programs, &interrupt)?;
            if cli.json {
                output::line(serde_json::to_string(&outcome).map_err(|e| Error::Subject(e.to_string()))?);
            } else {
                output::line(line(&outcome));
            }
            outcomes.push(outcome);
        }
    }
    if let Some(path) = &cli.plot {
        plot::write(path, &outcomes)
            .map_err(|e| Error::Subject(format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(())
}

/// The programs, beside this one or on PATH.
fn programs(no_proxy: bool) -> Result<Programs, Error> {
    let own = std::env::current_exe().map_err(|e| Error::Subject(format!("where is this program? {e}")))?;
    let beside = |name: &str| {
        let dir =
            std::env::var_os("NAMELY_BIN_DIR").map(PathBuf::from).or_else(|| own.parent().map(PathBuf::from));
        let found = dir.map(|dir| dir.join(name)).filter(|path| path.is_file());
        found.ok_or_else(|| {
            Error::Subject(format!("{name} is not beside this program: build it, or set NAMELY_BIN_DIR"))
        })
    };
    let on_path = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        folders.map(|dir| dir.join(name)).find(|path| path.is_file())
    };
    let varnishd = if no_proxy { None } else { on_path("varnishd") };
    Ok(Programs { namely: beside("namely")?, namelyd: beside("namelyd")?, varnishd, own })
}

const HEADER: &str = "viewers  over    requests at the server  of the viewers' %  at the origin  server MiB  server CPU s  router MiB  router CPU s  \
                      segments  stalls  failed  tuning in ms  Mbit/s to viewers";

fn line(o: &Outcome) -> String {
    let share = o.server_requests as f64 / o.seen.requests.max(1) as f64 * 100.0;
    let dash = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let mode = if o.mode == Mode::Tcp { "TCP" } else { "names" };
    format!(
        "{:>7}  {mode:<6}  {:>22}  {share:>17.1}  {:>13}  {:>10.1}  {:>12.1}  {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>12}  {:>17.1}",
        o.viewers,
        o.server_requests,
        o.origin_requests,
        o.server_mib,
        o.server_cpu_s,
        dash(o.router_mib),
        dash(o.router_cpu_s),
        o.seen.segments,
        o.seen.stalls,
        o.seen.failed + o.seen.wrong,
        o.seen.tuning_ms / o.seen.tuned.max(1),
        o.seen.octets as f64 * 8.0 / 1e6 / o.seconds,
    )
}

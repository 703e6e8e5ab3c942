//! One run: origin, server, intermediate systems, and audience, each a process of its own, and the
//! load of the server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use namely_bench::error::Error;
use namely_bench::probe;
use namely_testbed::{Interrupt, Process};
use serde::Serialize;

use super::audience::ViewerCounters;
use super::options::Experiment;

/// Maximum time in which a program may begin.
const START: Duration = Duration::from_secs(20);

/// The connection between viewers and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Each viewer has a TCP connection to the server, a caching proxy.
    Tcp,
    /// Each viewer requests names; the server has a producer socket for each channel.
    Names,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) mode: Mode,
    pub(crate) viewers: u64,
    /// The counters of the audience.
    pub(crate) seen: ViewerCounters,
    /// Requests that the server's application answered.
    pub(crate) server_requests: u64,
    /// Requests that reached the origin behind it.
    pub(crate) origin_requests: u64,
    /// Resident memory of the server at the end, MiB.
    pub(crate) server_mib: f64,
    /// Resident memory of the router between viewers and server at the end, MiB (names only).
    pub(crate) router_mib: Option<f64>,
    /// CPU time of the server, s.
    pub(crate) server_cpu_s: f64,
    /// CPU time of the router, s (names only).
    pub(crate) router_cpu_s: Option<f64>,
    /// The duration, s.
    pub(crate) seconds: f64,
}

/// The programs that a run needs in addition to this one.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) own: PathBuf,
    pub(crate) namely: PathBuf,
    pub(crate) namelyd: PathBuf,
    /// A caching HTTP proxy. Without it, viewers over TCP send their requests to the origin.
    pub(crate) varnishd: Option<PathBuf>,
}

/// Runs `viewers` viewers over `mode`.
pub(crate) fn run(
    mode: Mode,
    viewers: u64,
    experiment: &Experiment,
    programs: &Programs,
    interrupt: &Interrupt,
) -> Result<Outcome, Error> {
    let dir = tempfile::tempdir().map_err(|e| Error::Subject(format!("no temporary folder: {e}")))?;
    let dir = dir.path();
    let mut command = Command::new(&programs.own);
    command.args([
        "linear-video",
        "origin",
        "--listen",
        "127.0.0.1:0",
        "--scale",
        &experiment.scale.to_string(),
    ]);
    let origin_log = dir.join("origin.out");
    let origin = Process::start("origin", command, dir, Some(&origin_log))?;
    let address: SocketAddr =
        first_line(&origin_log)?.parse().map_err(|_| Error::Subject("the origin has no address".into()))?;
    let mut outcome = match mode {
        Mode::Tcp => over_tcp(viewers, experiment, programs, address, dir, interrupt)?,
        Mode::Names => over_names(viewers, experiment, programs, address, dir, interrupt)?,
    };
    std::thread::sleep(Duration::from_millis(500));
    outcome.origin_requests = last_number(&origin_log);
    if outcome.mode == Mode::Tcp && programs.varnishd.is_none() {
        (outcome.server_cpu_s, outcome.server_mib) = usage(&origin);
    }
    Ok(outcome)
}

fn over_tcp(
    viewers: u64,
    experiment: &Experiment,
    programs: &Programs,
    origin: SocketAddr,
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<Outcome, Error> {
    let proxy = match &programs.varnishd {
        None => None,
        Some(varnishd) => {
            let address = free_address()?;
            let mut command = Command::new(varnishd);
            command.arg("-F").arg("-n").arg(dir.join("varnish"));
            command.args(["-a", &address.to_string(), "-b", &origin.to_string(), "-s", "default,1g"]);
            let proxy = Process::start("varnishd", command, dir, None)?;
            until(|| TcpStream::connect(address).is_ok(), "the caching proxy does not listen")?;
            Some((proxy, address))
        }
    };
    let at = proxy.as_ref().map_or(origin, |(_, address)| *address);
    let started = Instant::now();
    let seen = audience(viewers, experiment, programs, &["--http", &at.to_string()], dir, interrupt)?;
    let (server_cpu_s, server_mib) = proxy.as_ref().map_or((0.0, 0.0), |(proxy, _)| usage(proxy));
    Ok(Outcome {
        mode: Mode::Tcp,
        viewers,
        // The server answers every request of every viewer.
        server_requests: seen.requests,
        origin_requests: 0,
        seen,
        server_mib,
        router_mib: None,
        server_cpu_s,
        router_cpu_s: None,
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn over_names(
    viewers: u64,
    experiment: &Experiment,
    programs: &Programs,
    origin: SocketAddr,
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<Outcome, Error> {
    let socket = dir.join("namely.sock");
    let router_uri = format!("unix://{}", socket.display());
    let mut command = Command::new(&programs.namelyd);
    command.args(["--no-config", "--listen", &router_uri]).env("HOME", dir);
    let router = Process::start("namelyd", command, dir, None)?;
    probe::wait_for_socket(&socket, START, interrupt)?;
    let mut command = Command::new(&programs.namely);
    command.args(["--json", "--router", &router_uri, "proxy", "egress"]).env("HOME", dir);
    // Viewers request only the last seconds of a live channel.
    command.args(["--buffer", "1"]);
    command.args((0..experiment.channels).map(|channel| format!("ch{channel}=http://{origin}")));
    let (counts, mut server) = (dir.join("egress.json"), None);
    let egress = server.insert(Process::start("egress", command, dir, Some(&counts))?);
    let channels = experiment.channels as usize;
    until(
        || fs::read_to_string(&counts).is_ok_and(|text| text.lines().count() == channels),
        "the egress does not begin",
    )?;
    let started = Instant::now();
    let seen = audience(viewers, experiment, programs, &["--router", &router_uri], dir, interrupt)?;
    let seconds = started.elapsed().as_secs_f64();
    let ((server_cpu_s, server_mib), (router_cpu_s, router_mib)) = (usage(egress), usage(&router));
    if let Some(egress) = server {
        egress.stop();
    }
    let text = fs::read_to_string(&counts).unwrap_or_default();
    let counted: serde_json::Value =
        serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_default();
    let server_requests = counted["requests"].as_u64();
    Ok(Outcome {
        mode: Mode::Names,
        viewers,
        seen,
        server_requests: server_requests
            .ok_or_else(|| Error::Subject(format!("the egress printed no summary: {text}")))?,
        origin_requests: 0,
        server_mib,
        router_mib: Some(router_mib),
        server_cpu_s,
        router_cpu_s: Some(router_cpu_s),
        seconds,
    })
}

/// Runs the audience as a process of its own and reads its counters.
fn audience(
    viewers: u64,
    experiment: &Experiment,
    programs: &Programs,
    via: &[&str],
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<ViewerCounters, Error> {
    let mut command = Command::new(&programs.own);
    command.args(["linear-video", "audience"]).args(via).env("HOME", dir);
    command.args(["--viewers", &viewers.to_string()]).args(experiment.habits_args());
    let limit = Duration::from_secs(experiment.seconds * 2 + 60);
    let seen = dir.join("seen.json");
    Process::run("audience", command, dir, Some(&seen), limit, interrupt)?;
    let text = fs::read_to_string(&seen).unwrap_or_default();
    serde_json::from_str(&text).map_err(|e| Error::Subject(format!("the audience printed no result: {e}")))
}

/// Processor time (s) and resident memory (MiB) of a process and the processes that it started.
fn usage(process: &Process) -> (f64, f64) {
    (process.family_cpu_time().as_secs_f64(), process.family_rss_mib())
}

fn first_line(path: &Path) -> Result<String, Error> {
    let line = || fs::read_to_string(path).ok().and_then(|text| Some(text.split_once('\n')?.0.to_owned()));
    until(|| line().is_some(), "the origin does not begin")?;
    line().ok_or_else(|| Error::Subject("the origin does not begin".into()))
}

fn last_number(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().skip(1).last().and_then(|line| line.parse().ok()).unwrap_or(0)
}

fn until(mut ready: impl FnMut() -> bool, otherwise: &str) -> Result<(), Error> {
    let deadline = Instant::now() + START;
    while !ready() {
        if Instant::now() > deadline {
            return Err(Error::Subject(otherwise.into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// An address whose port is free now.
fn free_address() -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map_err(|e| Error::Subject(format!("no free port: {e}")))
}

//! The paper's network: R1 leads to R4 through R2 and R3. Each router is in a namespace of its own;
//! its neighbors are at the other ends of its links.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use namely_bench::error::Error;
use namely_bench::probe;
use namely_bench::programs::{Program, READY_LIMIT};
use namely_client::Client;
use namely_messages::CsDiskStatus;
use namely_security::Signer;
use namely_testbed::{Interrupt, Net, Process, command};

use super::arm::Case;
use super::consumer::{self, Load, Outcome, Progress};
use super::content::{self, Content, PROBES};
use super::throttle::Throttle;

/// The routers.
pub(super) const ROUTERS: [&str; 4] = ["r1", "r2", "r3", "r4"];

/// Links: from, to. Each has a network of its own, in which these are the first and second host.
const LINKS: [(usize, usize); 4] = [(0, 1), (0, 2), (1, 3), (2, 3)];

/// Octets of a link's frame: a Data in one piece.
const MTU: u32 = 9000;

const TCP_PORT: u16 = 6363;

/// Interval between two samples of the pending requests of each router.
const SAMPLE: Duration = Duration::from_millis(20);

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) content: &'a Content,
    /// The routers' disks, which are copied for each run.
    pub(super) disks: &'a Path,
    /// The folder of the copies.
    pub(super) folder: &'a Path,
    /// Factor by which everything is slower than in the paper.
    pub(super) slower: f64,
    /// Interests a second without congestion control, at the paper's pace.
    pub(super) offered: f64,
    pub(super) limit: Duration,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) outcome: Outcome,
    /// The status of each router's disk at the end.
    pub(super) disks: Vec<CsDiskStatus>,
    /// Samples of the five queues, each with its time, ms. The first queue has the Interests that
    /// were due and not yet accepted by R1. The others have the requests that were pending at the
    /// disks of R1 to R4, or the packets in the queues of blocking routers.
    pub(super) waiting: Vec<(f64, [u64; 5])>,
}

/// Makes the network, runs one case on it, and takes it down.
pub(super) fn run(setting: Setting<'_>, case: Case, seed: u64, interrupt: &Interrupt) -> Result<Run, Error> {
    let dir =
        tempfile::tempdir_in(setting.folder).map_err(|e| Error::environment("cannot make a folder", e))?;
    let lab = Lab::build(setting, case, dir.path(), interrupt)?;
    for name in PROBES {
        probe::wait_for_answer(&lab.socket(0), name, READY_LIMIT, interrupt)?;
    }
    let names = setting.content.names(seed);
    let rate = setting.offered / setting.slower;
    let load = if case.arm.has_window() { Load::Window } else { Load::Rate(rate as u64) };
    let (progress, is_over, samples) = (Progress::default(), AtomicBool::new(false), Mutex::new(Vec::new()));
    let outcome = thread::scope(|scope| {
        let begun = Instant::now();
        let (samples, is_over, progress) = (&samples, &is_over, &progress);
        for router in 0..ROUTERS.len() {
            let mut client = client(&lab.socket(router)).ok();
            scope.spawn(move || {
                sample(router + 1, begun, is_over, samples, |_| {
                    client
                        .as_mut()
                        .and_then(|client| client.cs_disk().ok().flatten())
                        .map(|disk| disk.pending)
                })
            });
        }
        let all = names.len() as f64;
        scope.spawn(move || {
            sample(0, begun, is_over, samples, |now| {
                let due = if load == Load::Window { 0.0 } else { (now.as_secs_f64() * rate).min(all) };
                Some((due as u64).saturating_sub(progress.taken.load(Ordering::Relaxed) as u64))
            })
        });
        let outcome = consumer::run(&lab.socket(0), &names, load, setting.limit, progress, interrupt);
        is_over.store(true, Ordering::Relaxed);
        outcome
    })?;
    let disks = (0..ROUTERS.len()).map(|router| lab.disk(router)).collect::<Result<_, Error>>();
    let disks = disks
        .map_err(|error| Error::Subject(format!("{} on {}: {error}", case.arm.label(), case.disk.label())))?;
    let waiting = joined(samples.into_inner().unwrap_or_default());
    let mut outcome = outcome;
    if case.arm.blocks() {
        // The socket of a blocking router accepts all Interests at once. So the time at which its
        // queue was last not empty counts.
        let last = waiting.iter().rev().find(|(_, of)| of[1] > 0);
        outcome.taken_ms = outcome.taken_ms.max(last.map_or(0.0, |(at_ms, _)| *at_ms));
    }
    Ok(Run { waiting, outcome, disks })
}

/// A sample of one of the five queues: the time, ms, the queue, the length.
type Sample = (f64, usize, u64);

/// Repeatedly samples `of` for the queue `which` of the five.
fn sample(
    which: usize,
    begun: Instant,
    is_over: &AtomicBool,
    samples: &Mutex<Vec<Sample>>,
    mut of: impl FnMut(Duration) -> Option<u64>,
) {
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(SAMPLE);
        let seen = of(begun.elapsed());
        if let (Some(seen), Ok(mut samples)) = (seen, samples.lock()) {
            samples.push((begun.elapsed().as_secs_f64() * 1e3, which, seen));
        }
    }
}

/// Joins the samples into rows with the latest value of every router.
fn joined(mut samples: Vec<Sample>) -> Vec<(f64, [u64; 5])> {
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut latest = [0; 5];
    let mut lines = Vec::new();
    for (at_ms, which, seen) in samples {
        latest[which] = seen;
        lines.push((at_ms, latest));
    }
    lines
}

fn client(socket: &Path) -> Result<Client, Error> {
    let uri = format!("unix://{}", socket.display());
    Client::find(Some(&uri), Signer::digest_sha256()).map_err(|e| Error::Subject(e.to_string()))
}

/// The namespaces and the processes in them, which end first.
#[derive(Debug)]
struct Lab<'a> {
    routers: Vec<Process>,
    /// Held, not used.
    _throttles: Vec<Throttle>,
    net: Net,
    dir: &'a Path,
}

impl<'a> Lab<'a> {
    fn build(setting: Setting<'_>, case: Case, dir: &'a Path, interrupt: &Interrupt) -> Result<Self, Error> {
        let namelyd = Program::find(&["namelyd"], "NAMELY_BIN_DIR", true);
        if let Some(missing) = namelyd.missing() {
            return Err(Error::Subject(missing));
        }
        let own = std::env::current_exe().map_err(|e| Error::environment("cannot find this program", e))?;
        let net = Net::new(&ROUTERS).map_err(Error::Usage)?;
        for (n, (from, to)) in LINKS.into_iter().enumerate() {
            join(&net, n, from, to).map_err(Error::Usage)?;
        }
        let mut lab = Lab { routers: Vec::new(), _throttles: Vec::new(), net, dir };
        // The routers that receive requests from others start first.
        for (router, name) in ROUTERS.iter().enumerate().rev() {
            content::copy(&setting.disks.join(name), &dir.join(name))?;
            let file = dir.join(format!("{name}.toml"));
            let config = lab.configuration(router) + &case.config(setting.slower);
            fs::write(&file, config).map_err(|e| Error::environment("cannot write a configuration", e))?;
            let mut command = command(Path::new("ip"), dir);
            command.args(["netns", "exec", lab.net.name(name)]);
            match case.prototype(setting.slower) {
                Some(parts) => command.arg(&own).arg("nb-cache-router").args(parts),
                None => command.arg(namelyd.path()),
            };
            command.arg("--config").arg(&file);
            let process = Process::start(&format!("router {name}"), command, dir, None)?;
            if let Some(per_s) = case.throttled_per_s(setting.slower) {
                let throttle = Throttle::new(name, dir, per_s)?;
                throttle.hold(process.id())?;
                lab._throttles.push(throttle);
            }
            lab.routers.push(process);
            probe::wait_for_socket(&lab.socket(router), READY_LIMIT, interrupt)?;
        }
        Ok(lab)
    }

    fn socket(&self, router: usize) -> PathBuf {
        self.dir.join(format!("{}.sock", ROUTERS[router]))
    }

    /// The status of a router's disk. A case may leave the disk with seconds of work, so the router
    /// has [`READY_LIMIT`] to answer.
    fn disk(&self, router: usize) -> Result<CsDiskStatus, Error> {
        let until = Instant::now() + READY_LIMIT;
        let name = ROUTERS[router];
        loop {
            let status = client(&self.socket(router))
                .and_then(|mut client| client.cs_disk().map_err(|e| Error::Subject(e.to_string())));
            match status {
                Ok(Some(disk)) => return Ok(disk),
                Ok(None) => return Err(Error::Subject(format!("router {name} has no disk"))),
                Err(_) if Instant::now() < until => {}
                Err(error) => return Err(Error::Subject(format!("router {name}: {error}"))),
            }
        }
    }

    /// Returns the configuration of a router. It has one worker, as the paper has one thread for
    /// the content store. Its memory is so small that the disk serves nearly all hits.
    fn configuration(&self, router: usize) -> String {
        let mut listen = vec![format!("unix://{}", self.socket(router).display())];
        let mut routes = String::new();
        for (n, (from, to)) in LINKS.into_iter().enumerate() {
            if to == router {
                listen.push(format!("tcp://{}:{TCP_PORT}", address(n, 2)));
            }
            if from == router {
                // The first route of half of the names leads through R2, of the other half through
                // R3. The other path is the second route.
                for (prefix, first) in [("/a", 1), ("/b", 2)] {
                    let cost = u32::from(router == 0 && to != first);
                    routes += &format!(
                        "[[route]]\nprefix = \"{prefix}\"\nto = \"tcp://{}:{TCP_PORT}\"\ncost = {cost}\n",
                        address(n, 2)
                    );
                }
            }
        }
        format!(
            "[faces]\nworkers = 1\nlisten = {listen:?}\n[discovery]\nenabled = false\n[tables]\ncs_packets_max = 16\n\
             {routes}[cs.disk]\nfolder = \"{}\"\n",
            self.dir.join(ROUTERS[router]).display()
        )
    }
}

fn address(link: usize, host: usize) -> String {
    format!("10.84.{link}.{host}")
}

fn join(net: &Net, link: usize, from: usize, to: usize) -> Result<(), String> {
    let (from, to) = (ROUTERS[from], ROUTERS[to]);
    let (near, far) = (format!("to-{to}"), format!("to-{from}"));
    let addresses = [1, 2].map(|host| format!("{}/24", address(link, host)));
    net.join([(from, &near, &addresses[0]), (to, &far, &addresses[1])])?;
    for (node, device) in [(from, &near), (to, &far)] {
        net.ip(&format!("-n {{{node}}} link set {device} mtu {MTU}"))?;
    }
    Ok(())
}

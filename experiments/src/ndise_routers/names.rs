//! The cost of a table of file names for a router (rows VI-03 and VI-17): pings and a fetch below
//! names of a catalogue, and the catalogue read again while both run.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use namely_bench::error::Error;
use namely_bench::output;
use namely_bench::stats::percentile;
use namely_bench::{probe, programs};
use namely_client::{Client, ClientError};
use namely_security::Signer;
use namely_sim::table::Table;
use namely_testbed::{Interrupt, Lab, Testbed};
use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::ends::{self, CONTENT_OCTETS, Choice, ConsumerResult, Habit};
use super::network::{error, node};
use super::throughput::median;
use crate::ndise_ping::load::{Pings, Trips};

/// Maximum number of names that a router accepts.
pub(super) const NAMES_MAX: usize = 1_000_000;

/// Files of a block. The paper has 60,000 files in 6,000 blocks.
const FILES: usize = 10;
/// Maximum number of blocks.
const BLOCKS_MAX: usize = 6_000;

/// The fetched object, its Interests under way, and its packets.
const FETCHED: usize = 0;
const WINDOW: usize = 32;
const PACKETS: u64 = 1024;

/// Length of a slot, short enough that requests are counted in a short run too.
const PERIOD_MS: u64 = 500;

/// Time before the fetch is measured.
const WARM: Duration = Duration::from_millis(200);

/// Time of pings between two checks for the router's new catalogue.
const PART: Duration = Duration::from_millis(100);

/// Maximum time of a router to read a catalogue.
const READ_LIMIT: Duration = Duration::from_secs(120);

/// Maximum time in which the fetch finishes its current object.
const GRACE: Duration = Duration::from_secs(30);

/// The result of a run.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// Round trips of pings without other load.
    pings: Pings,
    /// The rate of the fetch alone, and the router's processor time for each of its packets.
    bps: f64,
    cpu_us: f64,
    /// Time until the router has read the catalogue, and its memory then.
    ready_s: f64,
    rss_mib: f64,
    /// The reload of the catalogue, if there is one: its duration, and the load during it.
    reload: Option<Reload>,
    /// The result of the fetch.
    got: ConsumerResult,
    /// VIPs that the router counted.
    demand: f64,
}

#[derive(Clone, Debug, Default)]
struct Reload {
    took_s: f64,
    bps: f64,
    pings: Pings,
}

/// The parameters of the experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    /// Names of the catalogue; 0: no catalogue and no VIP.
    pub(super) names: &'a [usize],
    pub(super) runs: u64,
    /// Duration of each of three parts: pings, the fetch, and both while the router reads a new
    /// catalogue. The last part may take longer.
    pub(super) third: Duration,
    pub(super) has_lines: bool,
}

impl Names<'_> {
    /// Runs all, and prints lines or a table.
    pub(super) fn run(&self, interrupt: &Interrupt) -> Result<(), Error> {
        let mut rows: Vec<(usize, Vec<Outcome>)> =
            self.names.iter().map(|names| (*names, Vec::new())).collect();
        for run in 1..=self.runs {
            for (names, outcomes) in &mut rows {
                let outcome = self.once(*names, interrupt)?;
                if self.has_lines {
                    output::line(self.line(*names, run, &outcome));
                }
                outcomes.push(outcome);
            }
        }
        if !self.has_lines {
            output::line(format_args!("\n{}", table(&rows)));
        }
        Ok(())
    }

    fn once(&self, names: usize, interrupt: &Interrupt) -> Result<Outcome, Error> {
        let failed = |e| Error::environment("cannot make a folder", e);
        let folder = tempfile::tempdir().map_err(failed)?;
        let file = folder.path().join("blocks.tsv");
        write(&file, names, 1)?;
        let testbed = Testbed::parse(&topology(names, &file), Path::new("names.toml"))
            .map_err(|e| Error::Usage(e.to_string()))?;
        let began = Instant::now();
        let mut lab = Lab::build(testbed, &folder.path().join("lab"), interrupt).map_err(error)?;
        let (uri, octets) = (lab.router(&node(0)), AtomicU64::new(0));
        let (is_over, is_unserved) = (AtomicBool::new(false), AtomicBool::new(false));
        if names > 0 {
            let mut client = connect(&uri)?;
            while version(&mut client)? != Some(1) {
                if began.elapsed() > READ_LIMIT {
                    let what = "the catalogue is in force".to_owned();
                    return Err(Error::TimedOut { what, after: READ_LIMIT });
                }
                interrupt.sleep(Duration::from_millis(10))?;
            }
        }
        let ready_s = began.elapsed().as_secs_f64();
        let outcome = thread::scope(|scope| {
            let source = scope.spawn(|| ends::serve(&uri, &is_unserved));
            let watched = (|| -> Result<Outcome, Error> {
                let socket = Path::new(uri.trim_start_matches("unix://"));
                let name = format!("{}/seg=0", ends::file(FETCHED));
                probe::wait_for_answer(socket, &name, programs::READY_LIMIT, interrupt)?;
                // The last name of the catalogue: another application answers it.
                let mut trips = Trips::start(&uri, &ends::file(names.saturating_sub(1).max(FETCHED + 1)))?;
                let pings = trips.ping(self.third, interrupt)?;
                let habit = Habit {
                    window: WINDOW,
                    interval_ns: 0,
                    packets: PACKETS,
                    choice: Choice::Always(FETCHED),
                };
                let (near, come, is_over) = (&uri, &octets, &is_over);
                let fetch = scope.spawn(move || ends::read_on(near, habit, come, is_over, GRACE));
                let outcome = self.with_fetch(&mut lab, &mut trips, &octets, names, &file, interrupt);
                is_over.store(true, Ordering::Relaxed);
                let got = fetch.join().map_err(|_| Error::Subject("the consumer panicked".into()))??;
                Ok(Outcome { pings, got, ..outcome? })
            })();
            is_unserved.store(true, Ordering::Relaxed);
            source.join().map_err(|_| Error::Subject("the source panicked".into()))??;
            watched
        });
        Ok(Outcome { ready_s, ..outcome? })
    }

    /// The measurements during the fetch.
    fn with_fetch(
        &self,
        lab: &mut Lab,
        trips: &mut Trips,
        octets: &AtomicU64,
        names: usize,
        file: &Path,
        interrupt: &Interrupt,
    ) -> Result<Outcome, Error> {
        interrupt.sleep(WARM)?;
        let come = || octets.load(Ordering::Relaxed);
        let uri = lab.router(&node(0));
        let router = lab.router_process(&node(0)).ok_or_else(|| Error::Subject("no router".into()))?;
        let (began, first, cpu) = (Instant::now(), come(), router.cpu_time());
        interrupt.sleep(self.third)?;
        let (length, came) = (began.elapsed().as_secs_f64(), come() - first);
        let cpu_us = (router.cpu_time() - cpu).as_secs_f64() * 1e6;
        let mut outcome = Outcome {
            bps: came as f64 * 8.0 / length,
            cpu_us: cpu_us / (came / CONTENT_OCTETS as u64).max(1) as f64,
            rss_mib: router.rss_mib().unwrap_or(0.0),
            ..Outcome::default()
        };
        if names == 0 {
            return Ok(outcome);
        }
        let mut client = connect(&uri)?;
        write(file, names, 2)?;
        let (began, first, mut reload) = (Instant::now(), come(), Reload::default());
        let pid = rustix::process::Pid::from_raw(router.id() as i32);
        let pid = pid.ok_or_else(|| Error::Subject("the router has no number".into()))?;
        kill_process(pid, Signal::HUP).map_err(|e| Error::environment("cannot signal it", e))?;
        while reload.took_s == 0.0 || began.elapsed() < self.third {
            let more = trips.ping(PART, interrupt)?;
            reload.pings.through_us.extend(more.through_us);
            reload.pings.store_us.extend(more.store_us);
            reload.pings.lost += more.lost;
            if reload.took_s == 0.0 && version(&mut client)? == Some(2) {
                reload.took_s = began.elapsed().as_secs_f64();
            }
            if began.elapsed() > READ_LIMIT {
                let what = "the new catalogue is in force".to_owned();
                return Err(Error::TimedOut { what, after: READ_LIMIT });
            }
        }
        reload.bps = (come() - first) as f64 * 8.0 / began.elapsed().as_secs_f64();
        let objects = client.vip_objects().map_err(refused)?;
        let demand: u64 = objects.iter().map(|object| object.asked).sum();
        outcome.demand = demand as f64 / namely_vip::UNIT as f64;
        outcome.reload = Some(reload);
        Ok(outcome)
    }

    fn line(&self, names: usize, run: u64, outcome: &Outcome) -> serde_json::Value {
        let of = |pings: &Pings| {
            let us = trips_us(pings);
            json!({
                "count": us.len(), "p50_us": percentile(&us, 50.0), "p99_us": percentile(&us, 99.0),
                "max_us": percentile(&us, 100.0), "lost": pings.lost,
            })
        };
        let reload = outcome
            .reload
            .as_ref()
            .map(|reload| json!({ "took_s": reload.took_s, "bps": reload.bps, "pings": of(&reload.pings) }));
        json!({
            "experiment": "names", "names": names, "run": run, "third_s": self.third.as_secs_f64(),
            "pings": of(&outcome.pings), "bps": outcome.bps, "cpu_us": outcome.cpu_us,
            "ready_s": outcome.ready_s, "rss_mib": outcome.rss_mib, "reload": reload,
            "retransmissions": outcome.got.retransmissions, "wrong": outcome.got.wrong,
            "finished": outcome.got.has_finished, "asked": outcome.demand,
        })
    }
}

fn refused(error: ClientError) -> Error {
    Error::Subject(error.to_string())
}

fn connect(router: &str) -> Result<Client, Error> {
    Client::find(Some(router), Signer::digest_sha256()).map_err(refused)
}

/// Returns the version of the router's catalogue.
fn version(client: &mut Client) -> Result<Option<u64>, Error> {
    Ok(client.vip_status().map_err(refused)?.map(|status| status.version))
}

/// All round trips: nothing is cached here.
fn trips_us(pings: &Pings) -> Vec<f64> {
    pings.through_us.iter().chain(&pings.store_us).copied().collect()
}

/// Writes a catalogue; none without names.
fn write(file: &Path, names: usize, version: u64) -> Result<(), Error> {
    if names == 0 {
        return Ok(());
    }
    let failed = |e| Error::environment("cannot write the catalogue", e);
    let blocks = names.div_ceil(FILES).min(BLOCKS_MAX);
    let (octets, mut text) = (PACKETS * CONTENT_OCTETS as u64, format!("catalogue\t{version}\n"));
    for block in 0..blocks {
        let files = (block..names).step_by(blocks);
        text += &format!("/b{block}\t{}\n", files.clone().count() as u64 * octets);
        files.for_each(|file| text += &format!("\t/{file}/f\t{octets}\n"));
    }
    // In one step, as a publisher of a catalogue should.
    let new = file.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, file)).map_err(failed)
}

fn topology(names: usize, file: &Path) -> String {
    let mut config = String::from("[tables]\ncs_packets_max = 0\n[discovery]\nenabled = false\n");
    if names > 0 {
        config += &format!(
            "[vip]\nrouter = \"n0\"\ncatalogue = \"{}\"\nprefix = \"/store\"\nregister = \"top:400\"\n\
             period_ms = {PERIOD_MS}\nsegment_octets = {CONTENT_OCTETS}\n",
            file.display()
        );
    }
    format!("[testbed]\nname = \"names\"\n[[node]]\nname = \"{}\"\nconfig = '''\n{config}'''\n", node(0))
}

fn table(rows: &[(usize, Vec<Outcome>)]) -> String {
    let heads = [
        "names",
        "p50 us",
        "p99 us",
        "Mbit/s",
        "CPU us",
        "ready s",
        "MiB",
        "new one s",
        "p99 us",
        "longest ms",
        "Mbit/s",
        "lost",
    ];
    let mut table = Table::new(&heads);
    for (names, outcomes) in rows {
        let number = |of: &dyn Fn(&Outcome) -> f64, digits: usize| {
            let value = median(outcomes, of);
            format!("{value:.digits$}")
        };
        let of_reload = |of: &dyn Fn(&Reload) -> f64, digits: usize| match names {
            0 => String::new(),
            _ => number(&|outcome| outcome.reload.as_ref().map_or(0.0, of), digits),
        };
        let us = |pings: &Pings, percent: f64| percentile(&trips_us(pings), percent).unwrap_or(0.0);
        let lost = |outcome: &Outcome| {
            let pings = outcome.pings.lost + outcome.reload.as_ref().map_or(0, |reload| reload.pings.lost);
            pings + outcome.got.retransmissions
        };
        table.row([
            names.to_string(),
            number(&|of| us(&of.pings, 50.0), 0),
            number(&|of| us(&of.pings, 99.0), 0),
            number(&|of| of.bps / 1e6, 0),
            number(&|of| of.cpu_us, 1),
            number(&|of| of.ready_s, 2),
            number(&|of| of.rss_mib, 0),
            of_reload(&|of| of.took_s, 2),
            of_reload(&|of| us(&of.pings, 99.0), 0),
            of_reload(&|of| us(&of.pings, 100.0) / 1e3, 1),
            of_reload(&|of| of.bps / 1e6, 0),
            outcomes.iter().map(lost).sum::<u64>().to_string(),
        ]);
    }
    table.text()
}

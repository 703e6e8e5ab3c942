//! `ndise`: the networks of N-DISE (ICN 2022, section 5.2; rows VI-24 to VI-29) in virtual time,
//! with VIP and with the methods of caching and forwarding that it is compared with; memory over
//! disks, and faults.
//!
//! Runs of different seeds run in parallel. The result of each depends on its seed alone.

mod faults;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use clap::{Args, ValueEnum};
use namely_bench::error::Error;
use namely_bench::output;
use namely_sim::SECOND;
use namely_sim::ndise::{self, Arm, ConsumerResult, NdiseTopology, Outcome};
use namely_sim::table::Table;
use serde_json::json;

use crate::plot::{self, Bar};
use crate::statistics;

/// Maximum length of a run, minutes: a day of virtual time.
const MINUTES_MAX: u64 = 24 * 60;
/// Maximum number of seeds.
const SEEDS_MAX: u64 = 30;

/// One of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// Two forwarders in a line
    Service,
    /// The same with 2 Gbit/s to the server
    Narrow,
    /// Two ways to the server
    Multipath,
    /// Two forwarders in a line, each with a disk below its memory
    Tiers,
    /// A router that stops, a link that goes down, a router that claims V = 0 for everything
    Faults,
}

impl Experiment {
    const ALL: [Experiment; 5] = [
        Experiment::Service,
        Experiment::Narrow,
        Experiment::Multipath,
        Experiment::Tiers,
        Experiment::Faults,
    ];

    /// The network on which the methods are compared without a fault.
    fn topology(self) -> Option<NdiseTopology> {
        match self {
            Experiment::Service => Some(NdiseTopology::Service),
            Experiment::Narrow => Some(NdiseTopology::Narrow),
            Experiment::Multipath => Some(NdiseTopology::Multipath),
            Experiment::Tiers => Some(NdiseTopology::Tiers),
            Experiment::Faults => None,
        }
    }
}

/// Options of `ndise`.
#[derive(Args, Debug)]
pub struct Ndise {
    /// Experiments, all by default
    #[arg(long, value_delimiter = ',')]
    pub experiment: Vec<Experiment>,
    /// Ways of caching and forwarding, as the table calls them; all by default
    #[arg(long)]
    pub arm: Vec<String>,
    /// Runs of each arm, with the seeds 1, 2 …
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    pub seeds: u64,
    /// Virtual time of a run, of which the last third is measured, of faults each quarter
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..=MINUTES_MAX))]
    pub minutes: u64,
    /// Runs at once
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// A line of JSON for each run instead of tables
    #[arg(long)]
    pub json: bool,
    /// Tables and plot of the lines that --json printed before, instead of runs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["arm", "seeds", "minutes", "threads", "json"])]
    pub from: Option<PathBuf>,
    /// An SVG file to write
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// One run and its result.
type Run = (ndise::Ndise, Outcome);

/// Runs `ndise`.
///
/// # Errors
/// Returns an error if a file cannot be read or written.
pub fn run(options: &Ndise) -> Result<(), Error> {
    let all = options.experiment.is_empty().then_some(Experiment::ALL);
    let wanted = all.iter().flatten().chain(&options.experiment);
    let known = options.from.as_deref().map(read).transpose()?;
    let mut bars = Vec::new();
    for experiment in wanted {
        let Some(topology) = experiment.topology() else {
            // The lines of `faults` contain all of its table.
            if known.is_none() {
                faults::run(options)?;
            }
            continue;
        };
        let runs = match &known {
            Some(known) => known.iter().filter(|(run, _)| run.topology == topology).cloned().collect(),
            None => runs(topology, options),
        };
        if runs.is_empty() {
            continue;
        }
        if options.json {
            runs.iter().for_each(|run| output::line(line(run)));
        } else {
            output::line(table(topology, &runs));
        }
        bars.extend(bars_of(topology, &runs));
    }
    let Some(path) = &options.plot else { return Ok(()) };
    plot::write(path, &bars)
}

/// All runs of a network, by arm and seed.
fn runs(topology: NdiseTopology, options: &Ndise) -> Vec<Run> {
    let wanted = |arm: &Arm| options.arm.is_empty() || options.arm.contains(&arm.label());
    let arms = topology.arms().into_iter().filter(wanted);
    let jobs = arms.flat_map(|arm| (1..=options.seeds).map(move |seed| (arm, seed)));
    let jobs: Vec<ndise::Ndise> = jobs
        .map(|(arm, seed)| ndise::Ndise::new(topology, arm, seed).lasting(options.minutes * 60 * SECOND))
        .collect();
    side_by_side(options.threads, &jobs, ndise::Ndise::run)
}

/// Runs all jobs, `threads` at a time. Returns each job with its result.
fn side_by_side<J, O>(threads: u16, jobs: &[J], run: impl Fn(&J) -> O + Sync) -> Vec<(J, O)>
where
    J: Copy + Send + Sync,
    O: Send,
{
    let (waiting, done) = (Mutex::new(jobs.iter().enumerate()), Mutex::new(Vec::new()));
    let next = || waiting.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((i, job)) = next() {
                    let outcome = run(job);
                    if let Ok(mut done) = done.lock() {
                        done.push((i, (*job, outcome)));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, run)| run).collect()
}

fn of_arm(runs: &[Run], arm: Arm) -> impl Iterator<Item = &Outcome> {
    runs.iter().filter(move |(run, _)| run.arm == arm).map(|(_, outcome)| outcome)
}

/// A mean with its interval.
fn cell(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let (mean, half) = statistics::mean(&values.collect::<Vec<_>>());
    half.map_or_else(|| format!("{mean:.digits$}"), |half| format!("{mean:.digits$}±{half:.digits$}"))
}

fn table(topology: NdiseTopology, runs: &[Run]) -> String {
    let [(one, _), (other, _)] = topology.consumers();
    let heads = [
        topology.label().to_owned(),
        format!("{one} Mbit/s"),
        "ms".into(),
        format!("{other} Mbit/s"),
        "ms".into(),
        "hits %".into(),
        "of disks %".into(),
        "written".into(),
    ];
    let has_disks = topology == NdiseTopology::Tiers;
    let columns = if has_disks { heads.len() } else { heads.len() - 2 };
    let heads: Vec<&str> = heads.iter().map(String::as_str).take(columns).collect();
    let mut table = Table::new(&heads);
    for arm in topology.arms().into_iter().filter(|arm| of_arm(runs, *arm).next().is_some()) {
        let of = |value: &dyn Fn(&Outcome) -> f64, digits| cell(of_arm(runs, arm).map(value), digits);
        let bps = |i: usize| of(&|outcome| outcome.got[i].bps / 1e6, 2);
        let ms = |i: usize| of(&|outcome| outcome.got[i].delay_ms, 1);
        let hits = of(&|outcome| outcome.hits * 100.0, 1);
        let row = [arm.label(), bps(0), ms(0), bps(1), ms(1), hits];
        if has_disks {
            let disk_hits = of(&|outcome| outcome.disk_hits * 100.0, 1);
            let [label, a, b, c, d, hits] = row;
            table.row([label, a, b, c, d, hits, disk_hits, of(&|outcome| outcome.disk_written, 1)]);
        } else {
            table.row(row);
        }
    }
    let mut text = table.text();
    for (run, outcome) in runs.iter().filter(|(run, _)| run.arm.is_vip()) {
        for (held, which) in outcome.held.iter().zip(["first", "second"]) {
            if let Some((ranks, slots)) = held.first() {
                let of: usize = held.iter().map(|(_, slots)| slots).sum();
                let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
                let ranks = ranks.join(" ");
                let (way, seed) = (run.arm.label(), run.seed);
                text += &format!("{way}, seed {seed}: {which} keeps {ranks} in {slots} of {of} slots\n");
            }
        }
    }
    text
}

fn line((run, outcome): &Run) -> serde_json::Value {
    let names = run.topology.consumers();
    let got = names.iter().zip(outcome.got).map(|((name, _), got)| {
        json!({
            "consumer": name, "bps": got.bps, "delay_ms": got.delay_ms,
            "retransmissions": got.retransmissions,
        })
    });
    json!({
        "place": run.topology.label(), "arm": run.arm.label(), "seed": run.seed,
        "measured_s": run.counted_ns / SECOND, "consumers": got.collect::<Vec<_>>(),
        "hit_ratio": outcome.hits, "disk_hit_ratio": outcome.disk_hits,
        "disk_written_objects": outcome.disk_written, "held": outcome.held, "exchange_octets": outcome.exchange_octets,
    })
}

/// Runs that were printed with --json.
fn read(path: &Path) -> Result<Vec<Run>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::environment(format!("cannot read {}", path.display()), e))?;
    let run = |(n, line): (usize, &str)| {
        let refused = || Error::Usage(format!("{}, line {}: no run of ndise", path.display(), n + 1));
        serde_json::from_str(line).ok().as_ref().and_then(run_of).ok_or_else(refused)
    };
    text.lines().enumerate().map(run).collect()
}

/// The run of a line that [`line`] made.
fn run_of(value: &serde_json::Value) -> Option<Run> {
    let topology = NdiseTopology::ALL.into_iter().find(|topology| value["place"] == topology.label())?;
    let arm = topology.arms().into_iter().find(|arm| value["arm"] == arm.label())?;
    let consumers = value["consumers"].as_array()?;
    let got = |i: usize| {
        let consumer = consumers.get(i)?;
        Some(ConsumerResult {
            bps: consumer["bps"].as_f64()?,
            delay_ms: consumer["delay_ms"].as_f64()?,
            retransmissions: consumer["retransmissions"].as_u64()?,
        })
    };
    let measured_ns = value["measured_s"].as_u64()?.checked_mul(SECOND)?;
    let run = ndise::Ndise::new(topology, arm, value["seed"].as_u64()?).lasting(measured_ns.checked_mul(3)?);
    let outcome = Outcome {
        got: [got(0)?, got(1)?],
        hits: value["hit_ratio"].as_f64()?,
        disk_hits: value["disk_hit_ratio"].as_f64()?,
        disk_written: value["disk_written_objects"].as_f64()?,
        held: serde_json::from_value(value["held"].clone()).ok()?,
        exchange_octets: value["exchange_octets"].as_f64()?,
    };
    Some((run, outcome))
}

fn bars_of(topology: NdiseTopology, runs: &[Run]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut add = |what: String, value: &dyn Fn(&Outcome) -> f64| {
        for arm in topology.arms() {
            let values: Vec<f64> = of_arm(runs, arm).map(value).collect();
            let (mean, half) = statistics::mean(&values);
            let half = half.unwrap_or(0.0);
            let panel = format!("{}: {what}", topology.label());
            bars.push(Bar { panel, label: arm.label(), value: mean, low: mean - half, high: mean + half });
        }
    };
    for (i, (name, _)) in topology.consumers().into_iter().enumerate() {
        add(format!("throughput at {name}, Mbit/s"), &|outcome| outcome.got[i].bps / 1e6);
        add(format!("delay at {name}, ms"), &|outcome| outcome.got[i].delay_ms);
    }
    add("hit ratio, %".into(), &|outcome| outcome.hits * 100.0);
    bars
}

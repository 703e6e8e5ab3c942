//! The throughput test of N-DISE's section 5.1 (figure 5, row VI-23): 6, 9 and 12 consumers that
//! read files over one link, with and without a cache before the source, beside plain relays.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use namely_bench::error::Error;
use namely_bench::output;
use namely_sim::table::Table;
use namely_testbed::Interrupt;
use serde_json::json;

use super::line::{Rates, RouterChain};
use super::network::node;
use super::relay::Relays;

/// Packets of a file. At the end of each file a round trip passes with less than a window.
const PACKETS: u64 = 1024;

/// The path of the octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OctetPath {
    Relays,
    Routers { has_cache: bool },
}

const WAYS: [OctetPath; 3] =
    [OctetPath::Relays, OctetPath::Routers { has_cache: false }, OctetPath::Routers { has_cache: true }];

impl OctetPath {
    fn label(self) -> &'static str {
        match self {
            OctetPath::Relays => "plain relays",
            OctetPath::Routers { has_cache: false } => "routers, no cache",
            OctetPath::Routers { has_cache: true } => "routers, cache at the server",
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
struct Outcome {
    rates: Rates,
    retransmissions: u64,
    wrong: u64,
    cpu_s: f64,
}

/// The results of a number of consumers by one way.
#[derive(Clone, Debug)]
struct Cell {
    way: OctetPath,
    consumers: usize,
    outcomes: Vec<Outcome>,
}

impl Cell {
    fn mean_bps(&self) -> f64 {
        median(&self.outcomes, |of| of.rates.mean_bps)
    }
}

/// The parameters of the experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throughput<'a> {
    /// Labels of the ways to measure; all if empty.
    pub(super) ways: &'a [String],
    pub(super) consumers: &'a [usize],
    pub(super) rate_bps: u64,
    pub(super) runs: u64,
    pub(super) warm: Duration,
    pub(super) counted: Duration,
    pub(super) has_lines: bool,
}

impl Throughput<'_> {
    /// Runs all, and prints lines or a table.
    pub(super) fn run(&self, interrupt: &Interrupt) -> Result<(), Error> {
        let wanted = |way: &OctetPath| self.ways.is_empty() || self.ways.iter().any(|one| one == way.label());
        let cells =
            WAYS.into_iter().filter(wanted).flat_map(|way| self.consumers.iter().map(move |n| (way, *n)));
        let mut cells: Vec<Cell> =
            cells.map(|(way, consumers)| Cell { way, consumers, outcomes: Vec::new() }).collect();
        if cells.is_empty() {
            let known = WAYS.map(OctetPath::label).join("; ");
            return Err(Error::Usage(format!("throughput has these ways: {known}")));
        }
        for run in 1..=self.runs {
            for cell in &mut cells {
                let outcome = self.once(cell.way, cell.consumers, interrupt)?;
                if self.has_lines {
                    output::line(self.line(cell, run, &outcome));
                }
                cell.outcomes.push(outcome);
            }
        }
        if !self.has_lines {
            output::line(format_args!("\n{}", self.table(&cells)));
        }
        Ok(())
    }

    fn network(&self, way: OctetPath, consumers: usize) -> RouterChain {
        let has_cache = way == OctetPath::Routers { has_cache: true };
        let room = if has_cache { consumers as u64 * PACKETS } else { 0 };
        RouterChain { routers: 2, rate_bps: self.rate_bps, room }
    }

    fn once(&self, way: OctetPath, consumers: usize, interrupt: &Interrupt) -> Result<Outcome, Error> {
        let folder = tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))?;
        let line = self.network(way, consumers);
        let mut lab = line.build(&folder.path().join("lab"), interrupt)?;
        let watch = |counts: &[AtomicU64]| {
            interrupt.sleep(self.warm)?;
            Rates::watch(counts, self.counted, interrupt)
        };
        if way == OctetPath::Relays {
            let relays = Relays::open(&lab, consumers)?;
            let counts: Vec<AtomicU64> = (0..consumers).map(|_| AtomicU64::new(0)).collect();
            let is_over = AtomicBool::new(false);
            let rates = thread::scope(|scope| {
                relays.run(scope, line.window(), &counts, &is_over);
                let rates = watch(&counts);
                is_over.store(true, Ordering::Relaxed);
                rates
            })?;
            return Ok(Outcome { rates, ..Outcome::default() });
        }
        let (rates, got) =
            line.load(&mut lab, consumers, PACKETS, Duration::ZERO, interrupt, |_, counts| watch(counts))?;
        let cpu =
            |n: usize| lab.router_process(&node(n)).map_or(0.0, |router| router.cpu_time().as_secs_f64());
        Ok(Outcome {
            rates,
            retransmissions: got.iter().map(|got| got.retransmissions).sum(),
            wrong: got.iter().map(|got| got.wrong).sum(),
            cpu_s: [0, 1].map(cpu).into_iter().sum(),
        })
    }

    fn line(&self, &Cell { way, consumers, .. }: &Cell, run: u64, outcome: &Outcome) -> serde_json::Value {
        json!({
            "experiment": "throughput", "way": way.label(), "consumers": consumers, "run": run,
            "link_bps": self.rate_bps, "window": self.network(way, consumers).window(),
            "measured_s": self.counted.as_secs_f64(), "mean_bps": outcome.rates.mean_bps,
            "peak_bps": outcome.rates.peak_bps(), "retransmissions": outcome.retransmissions,
            "wrong": outcome.wrong, "cpu_s": outcome.cpu_s,
        })
    }

    fn table(&self, cells: &[Cell]) -> String {
        let heads = [
            "throughput, Mbit/s",
            "consumers",
            "mean",
            "peak",
            "more %",
            "of relays",
            "again",
            "wrong",
            "CPU s",
        ];
        let mut table = Table::new(&heads);
        for cell in cells {
            let Cell { way, consumers, outcomes } = cell;
            // The row is compared with the fewest consumers by the same way, and with as many
            // consumers by relays.
            let fewest = cells.iter().find(|other| other.way == *way).map_or(0.0, Cell::mean_bps);
            let is_beside = |other: &&Cell| other.way == OctetPath::Relays && other.consumers == *consumers;
            let relays = cells.iter().find(is_beside).map(Cell::mean_bps);
            table.row([
                way.label().to_owned(),
                consumers.to_string(),
                format!("{:.1}", cell.mean_bps() / 1e6),
                format!("{:.1}", median(outcomes, |of| of.rates.peak_bps()) / 1e6),
                format!("{:+.0}", (cell.mean_bps() / fewest.max(1.0) - 1.0) * 100.0),
                relays.map_or(String::new(), |relays| format!("{:.3}", cell.mean_bps() / relays.max(1.0))),
                outcomes.iter().map(|of| of.retransmissions).sum::<u64>().to_string(),
                outcomes.iter().map(|of| of.wrong).sum::<u64>().to_string(),
                format!("{:.1}", median(outcomes, |of| of.cpu_s)),
            ]);
        }
        let window = self.network(OctetPath::Relays, 0).window();
        table.text() + &format!("links of {} Mbit/s, windows of {window}\n", self.rate_bps / 1_000_000)
    }
}

/// The median of the runs' results.
pub(super) fn median<T>(outcomes: &[T], of: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = outcomes.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

//! Congestion controls over 40 paths of 10 to 10,000 Mbit/s and 1 to 300 ms: the share of the link
//! that one fetch uses, and its queue.
//!
//! The results of runs are lines of text. [`run`] skips the runs whose lines it is given, so that a
//! long series may be interrupted.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use namely_transport::congestion::Algorithm;

use crate::bottleneck::{Bottleneck, Outcome};
use crate::table::Table;
use crate::{MS, SECOND};

/// Smallest queue in packets, whatever the capacity of the path is.
const QUEUE_PACKETS_MIN: usize = 4;

/// Octets of Content in each Data, and about those of its packet.
const CONTENT_OCTETS: usize = 8_000;
const PACKET_OCTETS: usize = 8_100;

/// Data of a run after the start, at most: a fast link is measured for a shorter time.
const DATA_MAX: u64 = 400_000;

/// Seeds of each cell; a link of 10 Gbit/s has one.
const SEEDS: u64 = 5;

/// Words of a complete line: path, rule, seed, share, queue, repeated Interests.
const FIELDS: usize = 6;

/// Congestion controls, by their words.
pub const RULES: [&str; 4] = ["cubic", "rfc9438", "bbr", "bbr3"];

/// The rule of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// It drops new packets when the queue is full.
    Tail,
    /// CoDel: it marks, then drops.
    Codel,
    /// It marks only.
    Marks,
}

/// A path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Rate, Mbit/s.
    pub rate_mbps: u64,
    /// Round trip, ms.
    pub rtt_ms: u64,
    /// Frames lost each way, per million.
    pub loss_ppm: u32,
    /// Size of the queue in percent of the path's capacity.
    pub queue_percent: usize,
    /// The router before it.
    pub router: Discipline,
}

const fn tail(rate_mbps: u64, rtt_ms: u64, loss_ppm: u32, queue_percent: usize) -> Cell {
    Cell { rate_mbps, rtt_ms, loss_ppm, queue_percent, router: Discipline::Tail }
}

const fn managed(rate_mbps: u64, rtt_ms: u64, loss_ppm: u32, router: Discipline) -> Cell {
    Cell { rate_mbps, rtt_ms, loss_ppm, queue_percent: 100, router }
}

/// The paths, slow ones first.
pub const CELLS: [Cell; 40] = [
    tail(10, 20, 0, 100),
    tail(10, 20, 0, 10),
    tail(10, 100, 0, 100),
    tail(10, 100, 1_000, 100),
    tail(10, 100, 10_000, 100),
    tail(10, 300, 0, 100),
    managed(10, 100, 0, Discipline::Codel),
    managed(10, 100, 0, Discipline::Marks),
    tail(100, 1, 0, 100),
    tail(100, 20, 0, 100),
    tail(100, 20, 0, 10),
    tail(100, 20, 1_000, 100),
    tail(100, 100, 0, 100),
    tail(100, 100, 0, 10),
    tail(100, 100, 1_000, 100),
    tail(100, 100, 10_000, 100),
    tail(100, 300, 0, 100),
    tail(100, 300, 10_000, 100),
    managed(100, 20, 0, Discipline::Codel),
    managed(100, 100, 0, Discipline::Codel),
    managed(100, 100, 10_000, Discipline::Codel),
    managed(100, 100, 0, Discipline::Marks),
    tail(400, 20, 0, 100),
    tail(400, 100, 0, 100),
    tail(400, 100, 0, 10),
    tail(400, 100, 1_000, 100),
    tail(400, 100, 10_000, 100),
    managed(400, 100, 0, Discipline::Codel),
    managed(400, 100, 0, Discipline::Marks),
    tail(1_000, 1, 0, 100),
    tail(1_000, 20, 0, 100),
    tail(1_000, 20, 0, 10),
    tail(1_000, 100, 0, 100),
    tail(1_000, 100, 1_000, 100),
    tail(1_000, 100, 10_000, 100),
    tail(1_000, 300, 0, 100),
    managed(1_000, 100, 0, Discipline::Marks),
    tail(10_000, 1, 0, 100),
    tail(10_000, 20, 0, 100),
    tail(10_000, 100, 0, 100),
];

impl Cell {
    /// Its name, a word: `100M-20ms-0.1%-1BDP-tail`.
    pub fn name(&self) -> String {
        let router = match self.router {
            Discipline::Tail => "tail",
            Discipline::Codel => "codel",
            Discipline::Marks => "marks",
        };
        let (loss, queue) = (f64::from(self.loss_ppm) / 1e4, self.queue_percent as f64 / 100.0);
        format!("{}M-{}ms-{loss}%-{queue}BDP-{router}", self.rate_mbps, self.rtt_ms)
    }

    /// The capacity of the path in octets.
    fn capacity(&self) -> usize {
        (self.rate_mbps * self.rtt_ms * 125) as usize
    }

    /// One or more fetches over it. They begin together, and the measurement begins with the third
    /// second, at 10 Gbit/s with the sixth.
    pub fn bottleneck(&self, congestion: Algorithm, flows: usize, seed: u64) -> Bottleneck {
        let queue_octets = self.capacity() * self.queue_percent / 100;
        let warm_up_ns = if self.rate_mbps >= 10_000 { 5 * SECOND } else { 2 * SECOND };
        let data_ns = DATA_MAX * PACKET_OCTETS as u64 * 8_000 / self.rate_mbps;
        Bottleneck {
            rate_bps: self.rate_mbps * 1_000_000,
            rtt_ns: self.rtt_ms * MS,
            queue_octets_max: queue_octets.max(QUEUE_PACKETS_MIN * PACKET_OCTETS),
            marks: self.router != Discipline::Tail,
            drops: self.router == Discipline::Codel,
            content_octets: CONTENT_OCTETS,
            stagger_ns: 0,
            warm_up_ns,
            measured_ns: data_ns.clamp(2 * SECOND, 20 * SECOND),
            seed,
            ..Bottleneck::new(congestion, flows, self.loss_ppm)
        }
    }

    /// The 95th percentile of the wait in its queue, in round trips: in capacities of the path.
    pub fn queue_p95(&self, outcome: &Outcome) -> f64 {
        outcome.wait_ms_p95 / self.rtt_ms as f64
    }
}

/// A fetch over a path.
#[derive(Clone, Copy, Debug)]
struct Run {
    cell: Cell,
    rule: &'static str,
    seed: u64,
}

impl Run {
    fn head(&self) -> String {
        format!("{} {} {}", self.cell.name(), self.rule, self.seed)
    }

    fn line(&self) -> String {
        // Every word of `RULES` parses.
        let congestion = self.rule.parse().unwrap_or(Algorithm::Aimd);
        let outcome = self.cell.bottleneck(congestion, 1, self.seed).run(|_| ());
        let again: u64 = outcome.counters.iter().map(|counters| counters.retransmissions).sum();
        let data: u64 = outcome.counters.iter().map(|counters| counters.data).sum();
        format!(
            "{} {:.3} {:.2} {:.4}",
            self.head(),
            outcome.utilisation,
            self.cell.queue_p95(&outcome),
            again as f64 / data.max(1) as f64
        )
    }
}

/// The path, rule and seed of a line.
fn head_of(line: &str) -> String {
    line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

fn runs() -> Vec<Run> {
    let of_cell = |cell: &Cell| {
        let cell = *cell;
        let seeds = if cell.rate_mbps >= 10_000 { 1 } else { SEEDS };
        RULES.into_iter().flat_map(move |rule| (1..=seeds).map(move |seed| Run { cell, rule, seed }))
    };
    let mut runs: Vec<Run> = CELLS.iter().flat_map(of_cell).collect();
    // An interrupted series has whole seeds.
    runs.sort_by_key(|run| run.seed);
    runs
}

/// Runs those of all cells, rules and seeds that have no line in `known` and whose first words
/// contain `filter`, by `threads` threads. `done` gets each new line.
pub fn run(known: &str, filter: &str, threads: usize, done: impl Fn(&str) + Sync) {
    // A line that an interruption has cut lacks fields.
    let complete = |line: &&str| line.split_whitespace().count() == FIELDS;
    let heads: Vec<String> = known.lines().filter(complete).map(head_of).collect();
    let is_due = |head: &String| head.contains(filter) && !heads.contains(head);
    let runs: Vec<Run> = runs().into_iter().filter(|run| is_due(&run.head())).collect();
    let (next, output) = (AtomicUsize::new(0), Mutex::new(()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(run) = runs.get(next.fetch_add(1, Relaxed)) {
                    let line = run.line();
                    let _alone = output.lock();
                    done(&line);
                }
            });
        }
    });
}

/// Returns true if the first words of a run contain `filter`.
pub fn has_run(filter: &str) -> bool {
    runs().iter().any(|run| run.head().contains(filter))
}

/// The medians over seeds of the lines: for each path with a result and each rule the share of the
/// link, and the 95th percentile of the queue.
pub fn table(lines: &str) -> String {
    let mut heads = vec!["share, queue of path"];
    heads.extend(RULES);
    let mut table = Table::new(&heads);
    for name in CELLS.iter().map(Cell::name) {
        let medians = RULES.map(|rule| [3, 4].map(|field| median(lines, &name, rule, field)));
        if medians.iter().all(|[share, _]| share == "-") {
            continue;
        }
        let [a, b, c, d] = medians.map(|both| both.join(" "));
        table.row([name, a, b, c, d]);
    }
    table.text()
}

/// The median of a field over the seeds, or `-`.
fn median(lines: &str, cell: &str, rule: &str, field: usize) -> String {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_asked = words.len() == FIELDS && words[0] == cell && words[1] == rule;
        is_asked.then(|| words[field].to_owned())
    };
    let mut values: Vec<String> = lines.lines().filter_map(of_line).collect();
    // All have the same number of digits after the point.
    values.sort_by_key(|value| (value.len(), value.clone()));
    values.get(values.len() / 2).cloned().unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forty_paths_have_distinct_names() {
        let mut names: Vec<String> = CELLS.iter().map(Cell::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 40);
    }

    #[test]
    fn known_runs_are_skipped() {
        let lines = Mutex::new(Vec::new());
        let filter = "10M-20ms-0%-1BDP-tail cubic";
        let known = (2..=SEEDS).map(|seed| format!("{filter} {seed} 0.5 0.5 0\n")).collect::<String>();
        run(&known, filter, 2, |line| lines.lock().unwrap().push(line.to_owned()));
        let lines = lines.into_inner().unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("{filter} 1 0.")), "{lines:?}");
        assert!(table(&known).contains("0.5"), "medians of the known runs");
    }

    #[test]
    fn a_cut_line_is_run_again() {
        let filter = "10M-20ms-0%-1BDP-tail cubic 1";
        let count = AtomicUsize::new(0);
        run(&format!("{filter} 0.9"), filter, 1, |_| _ = count.fetch_add(1, Relaxed));
        assert_eq!(count.load(Relaxed), 1);
        assert!(has_run(filter) && !has_run("no such path"), "no run has this text");
    }
}

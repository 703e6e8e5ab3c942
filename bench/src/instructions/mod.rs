//! `instructions` counts the instructions of fixed work, and compares the counts with a snapshot.
//! The work is an exchange in the core, and a segment of a file in `namely serve` and in `namely
//! get`.
//!
//! Instructions do not depend on the load of the machine, so a change of a few percent is visible
//! in one run. A count is the difference between a run and another one with twice the repetitions,
//! so that the start of the program and of its tables cancels out.

mod files;
mod lockstep;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};

use self::files::Subject;
use crate::error::Error;
use crate::output;
use crate::tables::{BATCH, Bench, Case, Kind, Pace};

/// Options of `instructions`.
#[derive(Debug, Args)]
pub struct Instructions {
    /// The file of counts to compare with
    #[arg(long, default_value = "bench/instructions.json")]
    pub snapshot: PathBuf,
    /// Write the counts to the file instead of comparing them
    #[arg(long)]
    pub renew: bool,
}

/// Options of counted work.
#[derive(Debug, Args)]
pub struct InstructionsWork {
    /// The work
    pub work: Work,
    /// Number of repetitions
    pub times: u64,
}

/// Work that is counted. The names are those in the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Exchanges with names of 4 components
    #[value(name = "exchange-4c")]
    Exchange4c,
    /// Exchanges with names of 16 components
    #[value(name = "exchange-16c")]
    Exchange16c,
    /// Exchanges without a content store
    #[value(name = "exchange-4c-nocs")]
    Exchange4cNoCs,
    /// Interests that the content store answers
    #[value(name = "cs-hit-4c")]
    CsHit4c,
    /// Segments of 1200 octets that `namely serve` sends
    #[value(name = "serve-1200")]
    Serve1200,
    /// Segments of 8000 octets that `namely serve` sends
    #[value(name = "serve-8000")]
    Serve8000,
    /// Segments of 1200 octets that `namely get` fetches, verifies and writes
    #[value(name = "get-1200")]
    Get1200,
    /// Segments of 8000 octets that `namely get` fetches, verifies and writes
    #[value(name = "get-8000")]
    Get8000,
}

/// Repetitions of work of the core. The second run has twice as many.
const TIMES: u64 = 64 * BATCH as u64;

/// Segments of a file. The second file is twice as long. Both lengths are whole groups of a
/// manifest.
const SEGMENTS: u64 = 2048;

/// Tolerance in percent. A count above it fails. A count below it suggests a renewal of the
/// snapshot.
const TOLERANCE_PERCENT: u64 = 3;

/// Advance of the core's clock for each packet, ns.
const PACKET_NS: u64 = 250;

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Exchange4c => "exchange-4c",
            Work::Exchange16c => "exchange-16c",
            Work::Exchange4cNoCs => "exchange-4c-nocs",
            Work::CsHit4c => "cs-hit-4c",
            Work::Serve1200 => "serve-1200",
            Work::Serve8000 => "serve-8000",
            Work::Get1200 => "get-1200",
            Work::Get8000 => "get-8000",
        }
    }

    /// Returns the program that transfers a file, and the octets of its segments; none for work of
    /// the core.
    fn file(self) -> Option<(Subject, u64)> {
        match self {
            Work::Serve1200 => Some((Subject::Server, 1200)),
            Work::Serve8000 => Some((Subject::Server, 8000)),
            Work::Get1200 => Some((Subject::Client, 1200)),
            Work::Get8000 => Some((Subject::Client, 8000)),
            Work::Exchange4c | Work::Exchange16c | Work::Exchange4cNoCs | Work::CsHit4c => None,
        }
    }

    /// Returns the number of instructions of one repetition.
    fn instructions(self) -> Result<u64, Error> {
        let Some((subject, octets)) = self.file() else {
            return Ok(counted(self, 2 * TIMES)?.saturating_sub(counted(self, TIMES)?) / TIMES);
        };
        let of = |segments| files::pass(subject, octets, segments).and_then(|log| count_in(&log));
        Ok(of(2 * SEGMENTS)?.saturating_sub(of(SEGMENTS)?) / SEGMENTS)
    }

    /// Returns a case with small tables that are full from the start, so that every exchange does
    /// the same work.
    fn case(self) -> Case {
        let case = Case {
            kind: Kind::Exchange,
            components: 4,
            routes: 1000,
            pending: 100,
            batch: BATCH,
            cached: 500,
            workers: 1,
            run_ns: 0,
            warm_up: 2000,
        };
        match self {
            Work::Exchange4c => case,
            Work::Exchange16c => Case { components: 16, ..case },
            Work::Exchange4cNoCs => Case { cached: 0, ..case },
            Work::CsHit4c => Case { kind: Kind::CsHit, pending: 0, warm_up: case.cached as u64, ..case },
            Work::Serve1200 | Work::Serve8000 | Work::Get1200 | Work::Get8000 => case,
        }
    }
}

/// Does only the work. valgrind, which runs this process, counts the instructions.
pub fn work(options: &InstructionsWork) -> Result<(), Error> {
    if let Some((_, octets)) = options.work.file() {
        return files::pass(Subject::None, octets, options.times).map(drop);
    }
    let case = options.work.case();
    let bench = Bench::new(&case)?;
    bench.add_routes()?;
    let mut worker = bench.worker(0)?;
    worker.set_pace(Pace::Fixed(PACKET_NS));
    worker.request(case.pending as u64);
    worker.exchange(case.warm_up);
    worker.expect_sent(case.pending as u64 + case.warm_up, case.warm_up)?;
    match case.kind {
        Kind::CsHit => {
            worker.request_cached(options.times, case.cached as u64);
            worker.expect_sent(0, options.times)
        }
        _ => {
            worker.exchange(options.times);
            worker.expect_sent(options.times, options.times)
        }
    }
}

type Counts = BTreeMap<String, u64>;

/// Counts the instructions of all work, and compares the counts with the snapshot or renews it.
pub fn run(options: &Instructions) -> Result<(), Error> {
    if cfg!(debug_assertions) {
        return Err(Error::Usage("counts of a debug build mean nothing: build with --release".to_owned()));
    }
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        output::line("skipped: valgrind is not installed");
        return Ok(());
    }
    let mut counts = Counts::new();
    for work in Work::value_variants() {
        counts.insert(work.name().to_owned(), work.instructions()?);
    }
    if options.renew {
        return write(&options.snapshot, &counts);
    }
    let (lines, failed) = compare(&read(&options.snapshot)?, &counts);
    lines.iter().for_each(output::line);
    if failed { Err(Error::Subject(ADVICE.to_owned())) } else { Ok(()) }
}

const ADVICE: &str = "more instructions than in the snapshot. If the change is worth it: \
    cargo run --release -p namely-bench -- instructions --renew";

/// Returns the number of instructions of a whole process that repeats `work` `times` times.
fn counted(work: Work, times: u64) -> Result<u64, Error> {
    let program = std::env::current_exe().map_err(|e| Error::environment("cannot find this program", e))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["instructions-work", work.name(), &times.to_string()])
        .output()
        .map_err(|e| Error::environment("cannot start valgrind", e))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        count_in(&log)
    } else {
        Err(Error::Subject(format!("the work failed: {log}")))
    }
}

fn count_in(log: &str) -> Result<u64, Error> {
    collected(log).ok_or_else(|| Error::Subject(format!("valgrind counted nothing: {log}")))
}

/// Returns the count in the output of callgrind.
fn collected(log: &str) -> Option<u64> {
    let line = log.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

/// Returns a line for each work, and true if any count is too high or cannot be compared.
fn compare(snapshot: &Counts, counts: &Counts) -> (Vec<String>, bool) {
    let mut failed = false;
    let line = |(name, count): (&String, &u64)| {
        let Some(before) = snapshot.get(name) else {
            failed = true;
            return format!("{name}: {count} instructions, not in the snapshot");
        };
        let change = *count as f64 / (*before).max(1) as f64 - 1.0;
        let verdict = if count * 100 > before * (100 + TOLERANCE_PERCENT) {
            failed = true;
            "FAILED"
        } else if count * 100 < before * (100 - TOLERANCE_PERCENT) {
            "fewer: worth renewing the snapshot"
        } else {
            "ok"
        };
        format!("{name}: {count} instructions, snapshot {before} ({:+.1} %): {verdict}", change * 100.0)
    };
    let lines = counts.iter().map(line).collect();
    (lines, failed)
}

fn read(path: &Path) -> Result<Counts, Error> {
    let reading = |e: std::io::Error| Error::environment(format!("cannot read {}", path.display()), e);
    let text = std::fs::read_to_string(path).map_err(reading)?;
    serde_json::from_str(&text).map_err(|e| reading(e.into()))
}

fn write(path: &Path, counts: &Counts) -> Result<(), Error> {
    let writing = |e: std::io::Error| Error::environment(format!("cannot write {}", path.display()), e);
    let text = serde_json::to_string_pretty(counts).map_err(|e| writing(e.into()))?;
    std::fs::write(path, text + "\n").map_err(writing)?;
    counts.iter().for_each(|(name, count)| output::line(format_args!("{name}: {count} instructions")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> Counts {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn instructions_may_grow_three_percent() {
        let snapshot = counts(&[("a", 1000)]);
        assert!(!compare(&snapshot, &counts(&[("a", 1030)])).1);
        assert!(compare(&snapshot, &counts(&[("a", 1031)])).1);
        assert!(compare(&snapshot, &counts(&[("b", 1)])).1, "work without a snapshot cannot pass");
        let (lines, failed) = compare(&snapshot, &counts(&[("a", 900)]));
        assert!(!failed && lines[0].contains("-10.0 %") && lines[0].contains("renewing"), "{lines:?}");
    }

    #[test]
    fn the_callgrind_count_is_parsed() {
        let log = "==1== Events    : Ir\n==1== Collected : 12345\n==1==\n";
        assert_eq!(collected(log), Some(12345));
        assert_eq!(collected("==1== nothing"), None);
    }

    #[test]
    fn the_instruction_snapshot_has_every_work() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.json");
        let snapshot = read(&path).expect("the snapshot");
        let names: Vec<&str> = Work::value_variants().iter().map(|work| work.name()).collect();
        assert!(names.iter().all(|name| snapshot.contains_key(*name)), "{snapshot:?}");
        assert_eq!(snapshot.len(), names.len());
    }

    #[test]
    fn the_command_line_names_each_work() {
        for kind in Work::value_variants() {
            let value = kind.to_possible_value().map(|v| v.get_name().to_owned());
            assert_eq!(value.as_deref(), Some(kind.name()));
            if kind.file().is_some() {
                // `tests/instructions.rs` transfers files, because the programs are available only
                // there.
                continue;
            }
            work(&InstructionsWork { work: *kind, times: 2 * BATCH as u64 }).expect("done");
        }
    }
}

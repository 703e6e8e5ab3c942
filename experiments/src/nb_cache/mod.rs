//! `nb-cache`: the network of NB-Cache (Pan et al., ToN 2021, section VI) with real routers: a
//! consumer, four `namelyd` in network namespaces, a disk each, and the paper's cases (NB-21 to
//! NB-30). The simulator has the same network in virtual time (docs/experiments/nb-cache.md).
//!
//! Disks and the consumer's rate are slower than in the paper by one factor, so that two cores
//! suffice. Disks are real files that are read past the page cache. The store's own queue slows
//! them.

mod arm;
mod consumer;
mod content;
mod network;
mod prototype;
pub mod router;
mod tables;
mod throttle;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use namely_bench::error::Error;
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_testbed::TestbedError;
use namely_testbed::sandbox::{self, SandboxSide};

pub use arm::{Arm, Disk, Writes};
use arm::{Case, NO_THRESHOLD};
use content::Content;
use network::{Run, Setting};
use throttle::Throttle;

/// Options of `nb-cache`.
#[derive(Debug, Args)]
pub struct NbCache {
    /// The measurement
    #[arg(long, value_delimiter = ',', default_value = "cases")]
    pub tables: Vec<Table>,
    /// Runs of each row; they alternate
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// The cases of the table of cases
    #[arg(long, value_delimiter = ',', default_value = "A,B,C,D,A+ECN,B+ECN,B+NB-CC")]
    pub cases: Vec<Arm>,
    /// Thresholds of their table
    #[arg(long, value_delimiter = ',', default_value = "0,16,64,256,512,1024,none", value_parser = threshold)]
    pub thresholds: Vec<usize>,
    /// Threads of their table
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub threads: Vec<usize>,
    /// The disk of all tables except that of disks
    #[arg(long, default_value = "ssd")]
    pub disk: Disk,
    /// The way in which Data is written to the routers' disks
    #[arg(long, default_value = "grouped")]
    pub writes: Writes,
    /// Delay of the report of a read to the router, ms, before it is slowed: 12.5 in the paper's
    /// prototype, where 64 reads take 18.7 ms and the disk has a part of that
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = heard_late)]
    pub heard_late: f64,
    /// Approximate number of Data
    #[arg(long, default_value_t = 3900, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(500..=4000))]
    pub packets: usize,
    /// Factor by which disks and the consumer are slower than the paper's
    #[arg(long, default_value_t = 4.0)]
    pub slower: f64,
    /// Interests a second without congestion control, before they are slowed. The paper offers
    /// 100,000, of which its R1 takes in about half as many
    #[arg(long, default_value_t = 50_000.0)]
    pub offered: f64,
    /// Maximum time of a run, seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// The folder in which the routers' disks are made
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// One JSON object a run instead of tables
    #[arg(long)]
    pub json: bool,
}

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// Round trip and throughput of each case (NB-24 to NB-26), and the routers that answered
    Cases,
    /// Round trip and throughput of B and B+NB-CC by threshold (NB-27)
    Thresholds,
    /// Round trip and throughput of B+NB-CC by the number of threads (NB-28)
    Threads,
    /// Round trip and throughput of B+NB-CC on an SSD, an HDD, one that the kernel slows, and the
    /// available disk (NB-29)
    Disks,
    /// The queues in A and B, with their packets (NB-30)
    Balance,
    /// The time of each path through R1 in A and B (NB-23)
    Paths,
}

fn threshold(text: &str) -> Result<usize, String> {
    match text {
        "none" => Ok(NO_THRESHOLD),
        number => number.parse().map_err(|_| format!("{number}: use a number, or none")),
    }
}

fn heard_late(text: &str) -> Result<f64, String> {
    let ms = text.parse().ok().filter(|ms| (0.0..=1e4).contains(ms));
    ms.ok_or_else(|| format!("{text}: use 0 to 10000"))
}

impl NbCache {
    /// The rows of a table.
    fn rows(&self, table: Table) -> Vec<Case> {
        let case = |arm| Case {
            disk: self.disk,
            writes: self.writes,
            heard_late_ms: self.heard_late,
            ..Case::new(arm)
        };
        match table {
            Table::Cases => self.cases.iter().map(|arm| case(*arm)).collect(),
            Table::Thresholds => {
                let of = |arm| {
                    self.thresholds.iter().map(move |threshold| Case { threshold: *threshold, ..case(arm) })
                };
                // B+NB-CC needs a threshold that marks: without marks, nothing limits its window.
                let is_sound =
                    |case: &Case| case.arm == Arm::B || (1..NO_THRESHOLD).contains(&case.threshold);
                of(Arm::B).chain(of(Arm::BNbCc)).filter(is_sound).collect()
            }
            Table::Threads => {
                self.threads.iter().map(|threads| Case { threads: *threads, ..case(Arm::BNbCc) }).collect()
            }
            Table::Disks => {
                let disks = [Disk::Ssd, Disk::Hdd, Disk::Throttled, Disk::Own];
                disks.map(|disk| Case { disk, ..case(Arm::BNbCc) }).to_vec()
            }
            Table::Balance => [Arm::A, Arm::B].map(case).to_vec(),
            Table::Paths => vec![case(Arm::A), case(Arm::B)],
        }
    }
}

/// Runs the experiment in a sandbox and prints its tables.
///
/// # Errors
/// Returns the error that prevented the run.
pub fn run(options: &NbCache) -> Result<(), Error> {
    let interrupt = match sandbox::enter().map_err(error)? {
        SandboxSide::Inside(interrupt) => interrupt,
        SandboxSide::Done(0) => return Ok(()),
        SandboxSide::Done(status) => std::process::exit(i32::from(status)),
    };
    let unable = |e| Error::environment("cannot make a folder", e);
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder).map_err(unable)?,
        None => tempfile::tempdir().map_err(unable)?,
    };
    let content = Content::new(options.packets);
    let disks = folder.path().join("disks");
    content.store(&disks)?;
    let setting = Setting {
        content: &content,
        disks: &disks,
        folder: folder.path(),
        slower: options.slower.max(0.01),
        offered: options.offered.max(1.0),
        limit: Duration::from_secs(options.seconds),
    };
    if !options.json {
        output::line(format_args!("machine: {}", Machine::read()));
        output::line(format_args!(
            "{} Data of 4096 octets of 500 files; disks and rates slower than the paper's by {}; writes {}; reads heard \
             of {} ms late; {} runs of each row, alternating; mean±95 % confidence",
            content.names(1).len(),
            options.slower,
            if options.writes == Writes::Alone { "alone" } else { "grouped" },
            options.heard_late * options.slower,
            options.runs
        ));
    }
    for table in &options.tables {
        let cases = options.rows(*table);
        let can = |case: &Case| {
            let limit = case.throttled_per_s(options.slower);
            let tried = limit.map_or(Ok(()), |limit| Throttle::new("probe", folder.path(), limit).map(drop));
            tried.inspect_err(|e| output::say(format_args!("{} is left out: {e}", case.disk.label()))).is_ok()
        };
        let mut rows: Vec<(Case, Vec<Run>)> =
            cases.into_iter().filter(can).map(|case| (case, Vec::new())).collect();
        for n in 0..options.runs {
            for (case, runs) in &mut rows {
                let run = network::run(setting, *case, u64::from(n) + 1, &interrupt)?;
                if options.json {
                    output::line(tables::value(*table, *case, &run));
                }
                runs.push(run);
            }
        }
        if !options.json {
            output::lines(format_args!("\n{}", tables::text(*table, &rows)));
        }
    }
    Ok(())
}

fn error(error: TestbedError) -> Error {
    match error {
        TestbedError::Process(error) => error.into(),
        error => Error::Subject(error.to_string()),
    }
}

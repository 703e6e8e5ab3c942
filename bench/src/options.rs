//! Options of `compare`.

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::output;
use crate::scenario::{Plan, Scenario};
use crate::subject::SubjectName;

/// Number of runs, and form of the output: of all commands that compare.
#[derive(Debug, Args)]
pub struct Repeats {
    /// Runs of each row, alternating [default: 5; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// One JSON object a line instead of tables
    #[arg(long)]
    pub json: bool,
    /// Small, and one run: shows that everything works, not how fast it is
    #[arg(long)]
    pub quick: bool,
}

impl Repeats {
    /// Returns the number of runs.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Prints progress. It is kept apart from the JSON output.
    pub fn say(&self, line: &str) {
        if self.json { output::say(line) } else { output::line(line) }
    }
}

/// Options of a disk's measurement.
#[derive(Debug, Args)]
pub struct OnDisk {
    /// Folder on the disk that is measured; a folder of its own is made in it and removed
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Octets of content of each record
    #[arg(long, value_name = "N", default_value_t = 4000)]
    pub octets: usize,
    /// JSON objects in the place of text
    #[arg(long)]
    pub json: bool,
}

impl OnDisk {
    /// Creates a folder there, which is removed when the value is dropped.
    ///
    /// # Errors
    /// Environment: it cannot be made.
    pub fn folder(&self) -> Result<tempfile::TempDir, Error> {
        let dir = tempfile::tempdir_in(&self.dir);
        dir.map_err(|e| Error::environment(format!("cannot write to {}", self.dir.display()), e))
    }
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The subjects to compare
    #[arg(long, value_delimiter = ',', default_value = "namely,nfd,ndnd,relay")]
    pub subject: Vec<SubjectName>,
    /// The scenarios to measure; all if not given
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<Scenario>,
    /// Object size of the file scenarios, MiB (a quarter of it in unix-1200 and memory)
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=480))]
    pub object_mib: u64,
    /// Maximum time of one fetch, seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Directory of objects, outputs and sockets; memory (/dev/shm) if not given, so that no disk
    /// is measured
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Stay in the present network namespace even if root
    #[arg(long)]
    pub no_namespace: bool,
    /// Number of runs, and form of the output.
    #[command(flatten)]
    pub repeats: Repeats,
}

impl Compare {
    /// Returns the sizes of the measurements.
    pub fn plan(&self) -> Plan {
        if self.repeats.quick { Plan::quick() } else { Plan::full(self.object_mib) }
    }
}

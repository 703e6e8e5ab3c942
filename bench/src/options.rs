//! What `compare` is asked for.

use std::path::PathBuf;

use clap::Args;

use crate::scenario::{Plan, Scenario};
use crate::subject::SubjectName;

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// What to compare
    #[arg(long, value_delimiter = ',', default_value = "namely,nfd,ndnd,relay")]
    pub subject: Vec<SubjectName>,
    /// Which scenarios; all when not given
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<Scenario>,
    /// Runs of each subject in each scenario [default: 5; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// One JSON object a line instead of tables
    #[arg(long)]
    pub json: bool,
    /// Small objects and one run: shows that everything works, not how fast it is
    #[arg(long)]
    pub quick: bool,
    /// Object size of the file scenarios, MiB (a quarter of it in unix-1200 and memory)
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=480))]
    pub object_mib: u64,
    /// How long one fetch may take, seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Where objects, outputs and sockets go; memory (/dev/shm) when not given, so that no disk is
    /// measured
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Stay in the present network namespace even if root
    #[arg(long)]
    pub no_namespace: bool,
}

impl Compare {
    /// How many runs.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// How large everything is.
    pub fn plan(&self) -> Plan {
        if self.quick { Plan::quick() } else { Plan::full(self.object_mib) }
    }
}

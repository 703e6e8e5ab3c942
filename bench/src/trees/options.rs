//! Options of `trees`.

use std::path::PathBuf;

use clap::Args;

use crate::options::Repeats;

/// Options of `trees`.
#[derive(Debug, Args)]
pub struct Trees {
    /// Files of the tree, a hundred in each directory [default: 20000; with --quick 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub files: Option<u32>,
    /// Octets of each file
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub octets: u32,
    /// Directories on the file systems to measure, each with source and copy; memory (/dev/shm) and
    /// /var/tmp when not given
    #[arg(long = "dir", value_name = "DIR", value_delimiter = ',')]
    pub dirs: Vec<PathBuf>,
    /// Number of runs, and form of the output.
    #[command(flatten)]
    pub repeats: Repeats,
}

impl Trees {
    pub(super) fn files(&self) -> u32 {
        self.files.unwrap_or(if self.repeats.quick { 500 } else { 20_000 })
    }

    pub(super) fn dirs(&self) -> Vec<PathBuf> {
        match self.dirs.is_empty() {
            true => ["/dev/shm", "/var/tmp"].map(PathBuf::from).into_iter().filter(|d| d.is_dir()).collect(),
            false => self.dirs.clone(),
        }
    }
}

//! `namely completions` and `namely man`: files made from the command tree.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use super::Context;
use crate::args::Cli;
use crate::failure::{Failure, io_failure};

/// Print shell completions.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  namely completions bash > ~/.local/share/bash-completion/completions/namely"
)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

impl Completions {
    /// Prints the script.
    pub fn run(&self, _: &Context<'_>) -> Result<(), Failure> {
        clap_complete::generate(self.shell, &mut Cli::command(), "namely", &mut std::io::stdout().lock());
        Ok(())
    }
}

/// Write the man pages.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely man ~/.local/share/man/man1")]
pub struct Man {
    /// The directory that gets namely.1, namely-get.1 and so on; made if it is missing.
    dir: PathBuf,
}

impl Man {
    /// Writes one page for each command.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.dir).map_err(|e| io_failure("make", &self.dir, e))?;
        clap_mangen::generate_to(Cli::command(), &self.dir)
            .map_err(|e| io_failure("write to", &self.dir, e))?;
        ctx.out.remark(format!("man pages written to {}", self.dir.display()));
        Ok(())
    }
}

//! `namely cat`: prints files by name, verified.

use clap::Args;
use namely_wire::{ByteRange, Name};

use super::get::Get;
use crate::context::Context;
use crate::failure::Failure;
use crate::fetching::Transfer;
use crate::keys::Trust;
use crate::options::name;

/// Print files by name to standard output. Only verified octets are printed; after a failure the
/// further files are printed, too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely cat /lab/data/numbers.txt
  namely cat /lab/data/a.csv /lab/data/b.csv | sort
  namely cat /lab/data/run7.root --range 0-1023 | xxd

Of several failures the gravest decides the exit status: 130, 6, 1, 3, 7, 5, 4.")]
pub struct Cat {
    /// The names.
    #[arg(value_parser = name, required = true, value_name = "NAME")]
    names: Vec<Name>,
    /// Only these octets of each file, counted from 0: 0-1023, or 1024- for the rest.
    #[arg(long, value_name = "FIRST-LAST")]
    range: Option<ByteRange>,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    transfer: Transfer,
}

impl Cat {
    /// Prints the files. A reader that has enough ends the command.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let first = self.names.first().cloned().unwrap_or_default();
        let get = Get::to_stdout_of(first, self.range, self.trust.clone(), self.transfer.clone());
        get.print(ctx, &self.names)
    }
}

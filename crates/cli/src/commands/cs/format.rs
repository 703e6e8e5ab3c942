//! `namely cs format`: gives a device to a content store, without a router.

use std::path::PathBuf;

use clap::Args;
use namely_store::tier::{self, TierError};
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::octets_text;

/// Give a block device, or an ordinary file that stands for one, to a content store.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cs format /dev/disk/by-id/nvme-EXAMPLE-part3\n  namely cs format --force /dev/sdx9\n\nWhat it holds is lost. A device that holds nothing needs no format: a router takes it by itself. One that holds something else than a cache is taken with --force alone, and one that is mounted, or that a router has, never."
)]
pub struct Format {
    /// The device.
    device: PathBuf,
    /// Whatever it holds, such as a file system.
    #[arg(long)]
    force: bool,
}

impl Format {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let octets = tier::format(&self.device, self.force).map_err(|error| self.refused(&error))?;
        let device = self.device.display().to_string();
        ctx.out.answer(
            || {
                let octets = octets_text(octets);
                format!("{device} is for a content store of {octets}: namelyd --cs-disk {device}")
            },
            || json!({"device": device, "octets": octets}),
        );
        Ok(())
    }

    fn refused(&self, error: &TierError) -> Failure {
        let device = self.device.display();
        match error {
            TierError::Foreign { what, .. } => {
                Failure::failed(format!("{device} holds {what}, which would be lost"))
                    .hint(format!("if it may be: namely cs format --force {device}"))
            }
            TierError::NoDevice(_) => Failure::failed(error.to_string()).hint("lsblk shows which there are"),
            TierError::ReadOnly(_) => {
                Failure::failed(format!("{device} may not be written")).hint("be root, or its user")
            }
            error => Failure::failed(error.to_string()),
        }
    }
}

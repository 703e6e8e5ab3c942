//! `namely cs format`: formats a device for a content store, without a router.

use std::path::PathBuf;

use clap::Args;
use namely_tier::{self as tier, TierError};
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::octets_text;

/// Format a block device, or a regular file in place of one, for a content store.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cs format /dev/disk/by-id/nvme-EXAMPLE-part3\n  namely cs format --force /dev/sdx9\n\nThe contents of the device are lost. An empty device needs no format: the router formats it. A device with other contents than a cache needs --force. A device that is mounted, or that a router uses, is never formatted."
)]
pub struct Format {
    /// The device.
    device: PathBuf,
    /// Format it even if it has other contents, such as a file system.
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
            TierError::UntrustedFile { what, .. } => {
                Failure::failed(format!("{device} holds {what}, which would be lost"))
                    .hint(format!("to overwrite it: namely cs format --force {device}"))
            }
            TierError::NoDevice(_) => Failure::failed(error.to_string()).hint("`lsblk` lists the devices"),
            TierError::ReadOnly(_) => {
                Failure::failed(format!("{device} is not writable")).hint("run it as root or its user")
            }
            error => Failure::failed(error.to_string()),
        }
    }
}

//! `namely mount`: a directory by name as a read-only file system.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use namely_files::GetError;
use namely_mount::{MountError, MountOptions, mount};
use namely_wire::Name;
use serde_json::json;

use super::poke::STOP_POLL;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::fetching::{Transfer, consumer_of_all, get_failure};
use crate::keys::Trust;
use crate::options::name;

/// Mount a directory by name, read-only and verified, until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mkdir copy; namely mount /lab/data copy &     # cat copy/numbers.txt
  fusermount3 -u copy                           # unmounts, as Ctrl-C does

An open file keeps its version; a file opened after a change has the new one.")]
pub struct MountArgs {
    /// The directory's name.
    #[arg(value_parser = name)]
    name: Name,
    /// The directory to mount at.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    /// Give all users of this machine access.
    #[arg(long)]
    allow_other: bool,
    /// Time for which names and sizes are used without a new request, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=86400))]
    valid: u64,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    transfer: Transfer,
}

impl MountArgs {
    /// Mounts, and waits for a signal or for another program that unmounts.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let consumer = consumer_of_all(ctx, &self.trust, &self.transfer)?;
        let options =
            MountOptions { attributes_valid: Duration::from_secs(self.valid), allow_other: self.allow_other };
        let mounted = mount(consumer, &self.name, &self.directory, &options).map_err(mount_failure)?;
        let directory = mounted.directory().display().to_string();
        ctx.out.remark(format!("mounted {} at {directory}, read-only; Ctrl-C unmounts", self.name));
        if ctx.out.is_json() {
            let value = json!({"kind": "mounted", "name": self.name.to_string(), "directory": directory});
            ctx.out.answer(String::new, || value);
        }
        while !stop.load(Ordering::Relaxed) && !mounted.is_unmounted() {
            std::thread::sleep(STOP_POLL);
        }
        mounted.unmount().map_err(mount_failure)
    }
}

fn mount_failure(error: MountError) -> Failure {
    let hint = error.hint();
    let failure = match error {
        MountError::Fetch(error) => return get_failure(GetError::Fetch(error)),
        MountError::NotDirectory { .. } => Failure::new(Exit::NotFound, error.to_string()),
        MountError::NoMountPoint { .. } | MountError::Stale { .. } | MountError::System { .. } => {
            Failure::failed(error.to_string())
        }
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

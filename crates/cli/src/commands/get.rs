//! `namely get`: fetches a file or a directory by name, verified.

mod tree;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use namely_files::get::{CLOCK_SKEW_MAX, check_age, find_file};
use namely_files::{GetError, GetOptions, get_object, get_to_writer};
use namely_security::validity::UtcTime;
use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{ByteRange, Name};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure, io_failure};
use crate::fetching::{Transfer, Watch, consumer_of_all, get_failure, summary_json, summary_text};
use crate::keys::{self, Trust};
use crate::options::name;
use crate::output::octets_text;

/// Age in s from which on the answer for the newest version is reported as old.
const OLD_S: u64 = 3600;

/// Fetch a file or a directory by name, verified.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely get /lab/data/run7.root\n  namely get /lab/data/run7.root results/\n  namely get /lab/data --recursive copy\n  namely get /lab/data --recursive copy --delete --dry-run\n  namely get /lab/data/run7.root -o - | sha256sum\n  namely get /lab/data/run7.root --range 0-1023 -o head"
)]
pub struct Get {
    /// The name.
    #[arg(value_parser = name)]
    name: Name,
    /// The file to write, or a directory: one that exists, or a path that ends in a slash. `-` is
    /// standard output. By default the last part of the name, in this directory.
    #[arg(value_name = "PATH", conflicts_with = "output")]
    path: Option<PathBuf>,
    /// The same as PATH.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Fetch a directory with its contents, except for files that exist in the copy with the same
    /// size and time.
    #[arg(long, short)]
    recursive: bool,
    /// With --recursive: fetch also files that exist in the copy.
    #[arg(long, requires = "recursive", conflicts_with = "resume")]
    again: bool,
    /// With --recursive: remove entries from the copy that the producer does not have. Links are
    /// removed, never followed.
    #[arg(long, requires = "recursive")]
    delete: bool,
    /// With --recursive: only print the changes; fetch, write and remove nothing.
    #[arg(long, short = 'n', requires = "recursive")]
    dry_run: bool,
    /// Only these octets of the file, counted from 0: 0-1023, or 1024- for the rest. The producer
    /// cuts the range; it ends at the end of the file.
    #[arg(long, value_name = "FIRST-LAST", conflicts_with = "recursive")]
    range: Option<ByteRange>,
    /// Continue an earlier, interrupted get.
    #[arg(long)]
    resume: bool,
    /// Sync the file to the disk before it gets its name.
    #[arg(long)]
    sync: bool,
    /// Maximum age of the producer's answer for the newest version, s. An older answer is refused.
    #[arg(long, value_name = "SECONDS")]
    max_age: Option<u64>,
    /// Allow an older version to replace the one that was fetched before.
    #[arg(long)]
    allow_older: bool,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    transfer: Transfer,
}

impl Get {
    /// Fetches the file. No unverified data remains under the final name.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let consumer = consumer_of_all(ctx, &self.trust, &self.transfer)?;
        let watch = Watch::new(ctx, &self.name)?;
        if self.recursive {
            return self.tree(ctx, &consumer, watch);
        }
        let name = self.object_name()?;
        let mut object = find_file(&consumer, &name).map_err(|error| self.not_found(error))?;
        report_age(ctx, object.as_of_ns);
        let mut see = |progress: &_| watch.see("", progress);
        if self.local_path() == Some(Path::new("-")) {
            check_age(&object, &self.options()).map_err(get_failure)?;
            let mut stdout = ctx.out.content();
            let progress = get_to_writer(&consumer, &object, &mut stdout, &mut see).map_err(get_failure)?;
            drop(watch);
            ctx.out.remark(summary_text(&progress));
            return Ok(());
        }
        let (options, target) = (self.options(), self.target()?);
        let mut got = get_object(&consumer, &object, &target, options, &mut see);
        if let Err(error @ GetError::Changed { .. }) = &got {
            watch.remark(ctx.out, format!("{error}; fetching the new version"));
            object = find_file(&consumer, &name).map_err(|error| self.not_found(error))?;
            got = get_object(&consumer, &object, &target, options, &mut see);
        }
        let got = got.map_err(get_failure)?;
        drop(watch);
        let verified =
            got.reason.as_ref().map_or_else(|| "each packet's signature".into(), |r| r.to_string());
        ctx.out.answer(
            || {
                let resumed = match got.resumed_octets {
                    0 => String::new(),
                    octets => format!(", {} from an earlier fetch", octets_text(octets)),
                };
                [
                    format!("{}: {}{resumed}", got.path.display(), summary_text(&got.progress)),
                    format!("  {verified}"),
                ]
            },
            || {
                let mut value = summary_json(&got.progress);
                value["name"] = json!(got.object.to_string());
                value["path"] = json!(got.path);
                value["resumed_octets"] = json!(got.resumed_octets);
                value["verified"] = json!(verified);
                value
            },
        );
        Ok(())
    }

    fn options(&self) -> GetOptions {
        let secret = keys::resume_secret();
        GetOptions {
            resume: self.resume,
            sync: self.sync,
            secret,
            allow_older: self.allow_older,
            age_max: self.max_age.map(Duration::from_secs),
            delete: self.delete,
            dry_run: self.dry_run,
            ..GetOptions::default()
        }
    }

    /// Returns the name of the file, or of the requested range of it.
    fn object_name(&self) -> Result<Name, Failure> {
        let Some(range) = self.range else { return Ok(self.name.clone()) };
        if self.name.components().any(|component| component.typ != GENERIC_COMPONENT) {
            return Err(Failure::failed(format!("{} cannot be fetched by range", self.name))
                .hint("name the file without version: a range is of its newest version"));
        }
        Ok(range.name_of(self.name.as_name()))
    }

    fn not_found(&self, error: GetError) -> Failure {
        let failure = get_failure(error);
        match self.range {
            Some(range) if failure.exit == Exit::NotFound => Failure {
                unrouted: None,
                ..failure.hint(format!(
                    "the file may end before octet {}, or its producer serves no ranges: `namely get {}` fetches the whole file",
                    range.first(),
                    self.name
                ))
            },
            _ => failure,
        }
    }

    fn local_path(&self) -> Option<&Path> {
        self.path.as_deref().or(self.output.as_deref())
    }

    /// Returns the path for a tree: the argument, or the last plain component of the name.
    fn tree_target(&self) -> Result<PathBuf, Failure> {
        self.local_path().map_or_else(|| self.last_part(), |local_path| Ok(local_path.to_owned()))
    }

    /// Returns the path for a file: the argument, or, if the argument is a directory, the last part
    /// of the name in it.
    fn target(&self) -> Result<PathBuf, Failure> {
        let Some(local_path) = self.local_path() else { return self.last_part() };
        let ends_in_slash = local_path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if !ends_in_slash && !local_path.is_dir() {
            return Ok(local_path.to_owned());
        }
        std::fs::create_dir_all(local_path).map_err(|e| io_failure("make", local_path, e))?;
        Ok(local_path.join(self.last_part()?))
    }

    /// Returns the last plain component of the name.
    fn last_part(&self) -> Result<PathBuf, Failure> {
        let last = self.name.components().filter(|c| c.typ == GENERIC_COMPONENT).last();
        let text = last.and_then(|c| std::str::from_utf8(c.value).ok());
        match text.filter(|t| !t.is_empty() && *t != "." && *t != ".." && !t.contains(['/', '\0'])) {
            Some(text) => Ok(match self.range {
                Some(range) => PathBuf::from(format!("{text}.{range}")),
                None => PathBuf::from(text),
            }),
            None => Err(Failure::new(Exit::Failed, format!("{} does not end in a file name", self.name))
                .hint("give a path with -o PATH")),
        }
    }
}

/// Reports the age of the answer for the newest version if it is old, or if its time is in the
/// future.
fn report_age(ctx: &Context<'_>, as_of_ns: Option<u64>) {
    let Some(as_of_ns) = as_of_ns else { return };
    let now_ns = namely_host::clock::unix_ns();
    let (age_s, as_of) = (now_ns.saturating_sub(as_of_ns) / 1_000_000_000, UtcTime(as_of_ns / 1_000_000_000));
    let ahead = Duration::from_nanos(as_of_ns.saturating_sub(now_ns));
    if age_s > OLD_S {
        ctx.out.remark(format!("as of {as_of}: the producer's newest version at that time"));
    } else if ahead > CLOCK_SKEW_MAX {
        ctx.out.remark(format!("the producer's time {as_of} is in the future: check this machine's clock"));
    }
}

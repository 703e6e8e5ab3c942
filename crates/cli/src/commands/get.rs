//! `namely get`: fetches a file or a directory by name, verified.

mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use namely_files::get::{CLOCK_SKEW_MAX, check_age, find_file, get_newest, get_newest_to_writer};
use namely_files::{FetchedFile, GetError, GetOptions};
use namely_security::validity::UtcTime;
use namely_socket::{Consumer, FetchError, Flow};
use namely_transport::object::{Object, ObjectError, Progress};
use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{ByteRange, Name};
use serde_json::json;

use self::tree::TreeArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, io_failure};
use crate::fetching::{Transfer, Watch, consumer_of_all, get_failure, summary_json, summary_text};
use crate::keys::{self, Trust};
use crate::options::name;
use crate::output::octets_text;

/// Age in s from which on the answer for the newest version is reported as old.
const OLD_S: u64 = 3600;

/// Number of damaged ranges that are named.
const DAMAGED_NAMED_MAX: usize = 10;

/// Fetch a file or a directory by name, verified.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely get /lab/data/run7.root\n  namely get /lab/data/run7.root results/\n  namely get /lab/data --recursive copy\n  namely get /lab/data --recursive copy --delete --dry-run\n  namely get /lab/data -r copy --include '*.root' --include '*/' --exclude '*'\n  namely get /lab/data/run7.root -o - | sha256sum\n  namely get /lab/data/run7.root --range 0-1023 -o head"
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
    #[command(flatten)]
    of_tree: TreeArgs,
    /// Only these octets of the file, counted from 0: 0-1023, or 1024- for the rest. The producer
    /// cuts the range; it ends at the end of the file.
    #[arg(long, value_name = "FIRST-LAST", conflicts_with = "recursive")]
    range: Option<ByteRange>,
    /// Continue an earlier, interrupted get: the default.
    #[arg(long)]
    resume: bool,
    /// Discard what an earlier, interrupted get has left.
    #[arg(long, conflicts_with = "resume")]
    no_resume: bool,
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
        let object = find_file(&consumer, &name).map_err(|error| self.not_found(error))?;
        report_age(ctx, object.as_of_ns);
        if self.local_path() == Some(Path::new("-")) {
            return self.to_stdout(ctx, &consumer, object, watch);
        }
        let target = self.target()?;
        let mut is_continued = false;
        let mut see = |progress: &Progress| {
            let kept = progress.octets_done.saturating_sub(progress.octets);
            if kept > 0 && !std::mem::replace(&mut is_continued, true) {
                let kept = octets_text(kept);
                watch.remark(
                    ctx.out,
                    format!("continuing an earlier fetch: {kept} are there; --no-resume starts again"),
                );
            }
            watch.see("", progress)
        };
        let mut changed =
            |error: &GetError| watch.remark(ctx.out, format!("{error}; fetching the new version"));
        let got = get_newest(&consumer, object, &target, self.options(), &mut changed, &mut see);
        drop(watch);
        match got {
            Ok(got) => report(ctx, &got),
            Err(error) if is_closed_pipe(&error) => {}
            Err(error) => return Err(self.failure(error)),
        }
        Ok(())
    }

    /// Writes the file to standard output. A reader that has enough ends the command.
    fn to_stdout(
        &self,
        ctx: &Context<'_>,
        consumer: &Consumer,
        object: Object,
        watch: Watch,
    ) -> Result<(), Failure> {
        check_age(&object, &self.options()).map_err(|error| self.failure(error))?;
        let mut see = |progress: &Progress| -> Flow { watch.see("", progress) };
        let mut changed =
            |error: &GetError| watch.remark(ctx.out, format!("{error}; fetching the new version"));
        let mut stdout = ctx.out.content();
        let written = get_newest_to_writer(consumer, object, &mut stdout, &mut changed, &mut see);
        drop(watch);
        match written {
            Ok(progress) => ctx.out.remark(summary_text(&progress)),
            Err(error) if is_closed_pipe(&error) => {}
            Err(error) => return Err(self.failure(error)),
        }
        Ok(())
    }

    fn options(&self) -> GetOptions {
        let secret = keys::resume_secret();
        GetOptions {
            resume: !self.no_resume,
            sync: self.sync,
            secret,
            allow_older: self.allow_older,
            age_max: self.max_age.map(Duration::from_secs),
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

    /// Converts the error of a fetch. A range of a file has a name that its user has not given.
    fn failure(&self, error: GetError) -> Failure {
        let mut failure = get_failure(error);
        if let Some(range) = self.range {
            let inner = range.name_of(self.name.as_name()).to_string();
            let shown = format!("octets {range} of {}", self.name);
            failure.message = failure.message.replace(&inner, &shown);
            failure.hint = failure.hint.map(|hint| hint.replace(&inner, &self.name.to_string()));
        }
        failure
    }

    fn not_found(&self, error: GetError) -> Failure {
        let failure = self.failure(error);
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

/// Returns true if the reader of a pipe has closed it: it has read enough.
fn is_closed_pipe(error: &GetError) -> bool {
    matches!(
        error.fetch_error(),
        Some(FetchError::Object(ObjectError::Sink(error))) if error.kind() == io::ErrorKind::BrokenPipe
    )
}

/// Reports a fetched file.
fn report(ctx: &Context<'_>, got: &FetchedFile) {
    for range in got.damaged.iter().take(DAMAGED_NAMED_MAX) {
        let path = got.path.display();
        ctx.out.remark(format!(
            "{path}: octets {} to {} had changed since they were fetched; fetched again",
            range.start,
            range.end.saturating_sub(1)
        ));
    }
    let verified = got.reason.as_ref().map_or_else(|| "each packet's signature".into(), |r| r.to_string());
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
            let damaged: Vec<_> = got.damaged.iter().map(|range| [range.start, range.end]).collect();
            let mut value = summary_json(&got.progress);
            value["name"] = json!(got.object.to_string());
            value["path"] = json!(got.path);
            value["resumed_octets"] = json!(got.resumed_octets);
            value["damaged"] = json!(damaged);
            value["verified"] = json!(verified);
            value
        },
    );
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

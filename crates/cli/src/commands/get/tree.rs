//! `namely get --recursive`: fetches a directory with its contents.

use std::path::Path;

use namely_files::get::{FetchedTree, TreeEvent};
use namely_files::{GetError, GetOptions, get_tree};
use namely_socket::{Consumer, Flow};
use serde_json::json;

use super::Get;
use crate::context::Context;
use crate::failure::Failure;
use crate::fetching::{Watch, files_text, get_failure};
use crate::output::{Text, octets_text};

/// Maximum number of skipped or failed entries that are named. Further entries are only counted.
const NAMED_MAX: u64 = 10;

impl Get {
    pub(super) fn tree(&self, ctx: &Context<'_>, consumer: &Consumer, watch: Watch) -> Result<(), Failure> {
        let options = GetOptions { resume: !self.again, ..self.options() };
        let target = self.tree_target()?;
        let mut events = Events { ctx, watch: &watch, dry_run: self.dry_run, left_out: 0, failed: 0 };
        let got = get_tree(consumer, &self.name, &target, options, &mut |event| events.take(&event));
        drop(watch);
        let got = got.map_err(|error| {
            let is_short = !matches!(error, GetError::NotDirectory { .. });
            let failure = get_failure(error);
            match failure.hint {
                None if is_short => failure.hint("run the same command again to fetch the missing files"),
                _ => failure,
            }
        })?;
        ctx.out.answer(
            || self.summary(&target, &got),
            || {
                json!({
                    "name": self.name.to_string(), "path": target.display().to_string(), "files": got.files,
                    "octets": got.octets, "unchanged": got.unchanged, "directories": got.directories,
                    "deleted": got.deleted, "left_out": got.left_out, "failed": got.failures,
                    "dry_run": self.dry_run,
                })
            },
        );
        let count = got.failures;
        match got.failed.into_iter().next() {
            None => Ok(()),
            Some((_, error)) => {
                let first = get_failure(error);
                let message = match count {
                    1 => format!("1 file was not fetched: {first}"),
                    _ => format!("{count} files were not fetched; the first: {first}"),
                };
                Err(Failure::new(first.exit, message)
                    .hint("run the same command again to fetch the missing files"))
            }
        }
    }

    fn summary(&self, target: &Path, got: &FetchedTree) -> String {
        let files = files_text(got.files);
        let fetched = match self.dry_run {
            true => format!("{files} would be fetched"),
            false => format!("{files} ({}) fetched", octets_text(got.octets)),
        };
        let count = |number: u64, what: &str| match number {
            0 => String::new(),
            number => format!(", {number} {what}"),
        };
        let directories = if got.directories == 1 { "directory" } else { "directories" };
        format!(
            "{}: {fetched}, {} unchanged, {} {directories}{}{}{}",
            target.display(),
            got.unchanged,
            got.directories,
            count(got.deleted, if self.dry_run { "would be deleted" } else { "deleted" }),
            count(got.left_out, "not served"),
            count(got.failures, "failed"),
        )
    }
}

/// Prints the events of a tree's fetch.
struct Events<'a> {
    ctx: &'a Context<'a>,
    watch: &'a Watch,
    dry_run: bool,
    left_out: u64,
    failed: u64,
}

impl Events<'_> {
    fn take(&mut self, event: &TreeEvent<'_>) -> Flow {
        match event {
            TreeEvent::Progress(progress) => return self.watch.see_tree(progress),
            TreeEvent::Failed(path, error) => {
                self.failed += 1;
                if self.failed <= NAMED_MAX {
                    self.say(format!("failed: {}: {error}", path.display()));
                }
            }
            TreeEvent::LeftOut(path, reason) => {
                self.left_out += 1;
                if self.left_out <= NAMED_MAX {
                    self.say(format!("not served: {}: {reason}", path.display()));
                }
            }
            TreeEvent::Changed(path) if path.as_os_str().is_empty() => {
                self.say("the directory changed while it was fetched; fetching it again");
            }
            TreeEvent::Changed(path) => {
                self.say(format!("{} changed while it was fetched; fetching it again", path.display()));
            }
            TreeEvent::PlannedFile(path, octets) => self.list("fetch", path, *octets),
            TreeEvent::Deleted(path) if self.dry_run => self.list("delete", path, None),
            TreeEvent::Deleted(path) => self.say(format!("deleted: {}", path.display())),
        }
        Flow::Continue
    }

    fn say(&self, text: impl Into<Text>) {
        self.watch.remark(self.ctx.out, text);
    }

    /// Prints a line of a dry run.
    fn list(&self, what: &str, path: &Path, octets: Option<u64>) {
        let size = octets.map_or_else(String::new, |octets| format!(" ({})", octets_text(octets)));
        self.ctx.out.answer(
            || format!("would {what} {}{size}", path.display()),
            || json!({ "would": what, "path": path.display().to_string(), "octets": octets }),
        );
    }
}

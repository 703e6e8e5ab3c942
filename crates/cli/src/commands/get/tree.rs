//! `namely get --recursive`: fetches a directory with its contents.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use namely_files::GetOptions;
use namely_files::get::{FetchedTree, Filter, TreeEvent, TreeRules, get_tree_by_rules};
use namely_socket::{Consumer, Flow};
use namely_wire::Name;
use serde_json::json;

use super::{Fetched, Get, Session, Unfinished};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::fetching::{Watch, files_text, get_failure, rate_text};
use crate::output::{Text, octets_text};

/// Maximum number of skipped or failed entries that are named. Further entries are only counted.
const NAMED_MAX: u64 = 10;

/// The remedy for failures that may pass.
const AGAIN: &str = "run the same command again to fetch the missing files";

/// Options of a fetch of a directory.
#[derive(Debug, Default, Args)]
pub(super) struct TreeArgs {
    /// With --recursive: fetch also files that exist in the copy.
    #[arg(long, requires = "recursive", conflicts_with = "resume")]
    again: bool,
    /// With --recursive: compare the contents of files instead of their sizes and times.
    #[arg(long, requires = "recursive", conflicts_with_all = ["again", "dry_run"])]
    compare_content: bool,
    /// With --recursive: remove entries from the copy that the producer does not have. Links are
    /// removed, never followed.
    #[arg(long, requires = "recursive")]
    delete: bool,
    /// With --delete: remove at most N entries, with those in removed directories. By default, at
    /// most half of a copy of more than ten entries.
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,
    /// With --recursive: make symbolic links that stay in the tree as links, instead of copies of
    /// the files that they lead to.
    #[arg(long, requires = "recursive")]
    links: bool,
    /// With --recursive: only print the changes; fetch, write and remove nothing.
    #[arg(long, short = 'n', requires = "recursive")]
    dry_run: bool,
    #[command(flatten)]
    patterns: Patterns,
}

/// The patterns of --include and --exclude, in their order on the command line.
#[derive(Debug, Default)]
struct Patterns(Filter);

impl Args for Patterns {
    fn augment_args(command: Command) -> Command {
        let pattern = |name: &'static str, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                .requires("recursive")
                .help(help)
        };
        command
            .arg(pattern(
                "include",
                "With --recursive: fetch entries that match the pattern; the first pattern that an entry matches decides",
            ))
            .arg(pattern(
                "exclude",
                "With --recursive: leave out entries that match the pattern, and keep them in the copy: `*.tmp`, `/logs/`, `a/**/b`",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Patterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut patterns = Vec::new();
        for (name, is_include) in [("include", true), ("exclude", false)] {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            let indices = matches.indices_of(name).into_iter().flatten();
            patterns.extend(indices.zip(values).map(|(at, pattern)| (at, pattern, is_include)));
        }
        patterns.sort_unstable();
        let mut filter = Filter::default();
        for (_, pattern, is_include) in patterns {
            let refused =
                |error| clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{error}\n"));
            filter.push(pattern, is_include).map_err(refused)?;
        }
        Ok(Patterns(filter))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Get {
    /// Fetches the directory `name` to `target`.
    pub(super) fn tree(
        &self,
        session: &Session<'_>,
        consumer: &Consumer,
        name: &Name,
        target: &Path,
    ) -> Result<Fetched, Unfinished> {
        let (ctx, args, started) = (session.ctx, &self.of_tree, Instant::now());
        let options = GetOptions {
            resume: !args.again,
            delete: args.delete,
            delete_max: args.max_delete,
            dry_run: args.dry_run,
            compare_content: args.compare_content,
            links: args.links,
            jobs: self.jobs,
            ..self.options(session)
        };
        let watch = Watch::stopped_by(ctx, name, session.stop.clone());
        let rules = TreeRules { filter: &args.patterns.0, checksums: session.checksums() };
        let mut events = Events { ctx, watch: &watch, dry_run: args.dry_run, left_out: 0, failed: 0 };
        let mut take = |event: TreeEvent<'_>| events.take(&event);
        let got = get_tree_by_rules(consumer, name, target, options, rules, &mut take);
        drop(watch);
        let got = got.map_err(|error| {
            let is_again = error.may_pass();
            let unfinished = self.unfinished(name, error);
            match unfinished.failure.hint {
                None if is_again => Unfinished { failure: unfinished.failure.hint(AGAIN), ..unfinished },
                _ => unfinished,
            }
        })?;
        if got.indexes != 1 {
            session.is_version_partial.store(true, Ordering::Relaxed);
        }
        let changes = got.files + got.links + got.deleted + got.failures;
        if changes > 0 || !session.is_repeated {
            self.report_tree(ctx, name, target, &got, started.elapsed());
        }
        let fetched = Fetched { files: got.files, octets: got.octets };
        tree_failure(name, got).map_or(Ok(fetched), Err)
    }

    /// Reports a fetched tree.
    fn report_tree(
        &self,
        ctx: &Context<'_>,
        name: &Name,
        target: &Path,
        got: &FetchedTree,
        elapsed: Duration,
    ) {
        let seconds = elapsed.as_secs_f64();
        let rate = if seconds > 0.0 { got.octets as f64 / seconds } else { 0.0 };
        let rate_of =
            || if got.octets > 0 { format!("; {seconds:.2} s, {}", rate_text(rate)) } else { String::new() };
        let text = || self.summary(target, got) + &rate_of();
        let value = || {
            json!({
                "name": name.to_string(), "path": target.display().to_string(), "files": got.files,
                "octets": got.octets, "unchanged": got.unchanged, "directories": got.directories,
                "deleted": got.deleted, "left_out": got.left_out, "failed": got.failures,
                "links": got.links, "dry_run": self.of_tree.dry_run, "unlisted": got.unlisted,
                "missing": got.missing.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
                "elapsed_s": seconds, "goodput_mbps": rate * 8.0 / 1e6,
            })
        };
        // A dry run is made for its output.
        if self.of_tree.dry_run { ctx.out.answer(text, value) } else { ctx.out.report(text, value) }
    }

    fn summary(&self, target: &Path, got: &FetchedTree) -> String {
        let files = files_text(got.files);
        let dry_run = self.of_tree.dry_run;
        let fetched = match dry_run {
            true => format!("{files} would be fetched"),
            false => format!("{files} ({}) fetched", octets_text(got.octets)),
        };
        let count = |number: u64, what: &str| match number {
            0 => String::new(),
            number => format!(", {number} {what}"),
        };
        let directories = if got.directories == 1 { "directory" } else { "directories" };
        format!(
            "{}: {fetched}, {} unchanged, {} {directories}{}{}{}{}{}",
            target.display(),
            got.unchanged,
            got.directories,
            count(got.links, if dry_run { "links would be made" } else { "links made" }),
            count(got.deleted, if dry_run { "would be deleted" } else { "deleted" }),
            count(got.left_out, "not served"),
            count(got.unlisted, "without a checksum"),
            count(got.failures, "failed"),
        )
    }
}

/// Returns the failure of a tree of which a part was not fetched: the gravest of its failures.
fn tree_failure(name: &Name, got: FetchedTree) -> Option<Unfinished> {
    let count = got.failures;
    // The same command helps only if the reason of a failure may pass.
    let is_again = got.failed.iter().any(|(_, error)| error.may_pass());
    let may_pass = got.failed.iter().any(|(_, error)| error.is_of_path());
    let failures = got.failed.into_iter().map(|(_, error)| get_failure(error));
    let Some(gravest) = failures.min_by_key(|failure| failure.exit.gravity()) else {
        return missing_failure(name, &got.missing);
    };
    let message = match count {
        1 => format!("1 file was not fetched: {gravest}"),
        _ => format!("{count} files were not fetched; the gravest failure: {gravest}"),
    };
    let failure = Failure { hint: gravest.hint, ..Failure::new(gravest.exit, message) };
    let failure = if is_again { failure.hint(AGAIN) } else { failure };
    Some(Unfinished { failure, may_pass, concerns_all: false })
}

/// Returns the failure of a tree that lacks files of the list of checksums.
fn missing_failure(name: &Name, missing: &[PathBuf]) -> Option<Unfinished> {
    let first = missing.first()?.display();
    let message = match missing.len() {
        1 => format!("{name} lacks a file of the list of checksums: {first}"),
        count => format!("{name} lacks {count} files of the list of checksums; the first: {first}"),
    };
    let failure = Failure::new(Exit::NotFound, message)
        .hint("leave them out with --exclude, or remove them from the list");
    Some(Unfinished { failure, may_pass: false, concerns_all: false })
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

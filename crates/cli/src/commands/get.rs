//! `namely get`: fetches files and directories by name, verified.

mod file;
mod follow;
mod jobs;
mod retry;
mod session;
mod tree;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use namely_files::GetError;
use namely_files::get::{JOBS_MAX, Jobs};
use namely_socket::Consumer;
use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{ByteRange, Name};
use serde_json::json;

use self::jobs::{Destination, Job};
use self::retry::{Retry, Unfinished, wait};
use self::session::{Fetched, Session};
use self::tree::TreeArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::fetching::{Total, Transfer, files_text, get_failure, rate_text};
use crate::keys::Trust;
use crate::options::name;
use crate::output::octets_text;
use crate::turns::Turns;

/// Fetch a file or a directory by name, verified.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely get /lab/data/run7.root
  namely get /lab/data/run7.root results/
  namely get /lab/data/a /lab/data/b -o results/ -j 2
  namely get /lab/data --recursive copy
  namely get /lab/data --recursive copy --delete --dry-run
  namely get /lab/data -r copy --include '*.root' --include '*/' --exclude '*'
  namely get /lab/data -r copy --delete --watch=60 --retry 5
  namely get /lab/data -r copy --checksum SHA256SUMS --limit-rate 2M
  namely get /lab/data/run7.root -o - | sha256sum
  namely get /lab/data/run7.root --range 0-1023 -o head

Of several failures the gravest decides the exit status: 130, 6, 1, 3, 7, 5, 4.

Exit status: 0 fetched, 1 failed, 4 no such data, 5 no answer in time, 6 not
verified, or another checksum, 130 interrupted.")]
pub struct Get {
    /// The name.
    #[arg(value_parser = name)]
    name: Name,
    /// The file to write, or a directory: one that exists, or a path that ends in a slash. `-` is
    /// standard output. By default the last part of the name, in this directory. Arguments before
    /// it, and with --output all, are further names.
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    path: Vec<PathBuf>,
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
    /// Discard what an earlier, interrupted get has left; with --recursive, --again does.
    #[arg(long, conflicts_with_all = ["resume", "recursive"])]
    no_resume: bool,
    /// Sync the file to the disk before it gets its name.
    #[arg(long)]
    sync: bool,
    /// Maximum age of the producer's answer for the newest version, s. An older answer is refused.
    /// With 0 the answer is made after the start of the command: for a few seconds, answers of
    /// caches are requested again.
    #[arg(long, value_name = "SECONDS")]
    max_age: Option<u64>,
    /// Allow an older version to replace the one that was fetched before.
    #[arg(long)]
    allow_older: bool,
    /// Compare each file with this list of `sha256sum`, `sha512sum`, `sha1sum`, `md5sum` or
    /// `xrdadler32`. A file of another digest keeps the name of its part. Paths of the list are
    /// below the directory, or end the name of the file. SHA-1, MD5 and Adler-32 detect accidents
    /// only: the signature proves the content.
    #[arg(long, value_name = "FILE", conflicts_with = "range")]
    checksum: Option<PathBuf>,
    /// Fetch again whenever the producer has a new version, until Ctrl-C. The version is requested
    /// each 10 s, or in this interval. Failures are reported, and pauses after them grow.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        value_parser = clap::value_parser!(u64).range(1..=86400),
        conflicts_with_all = ["range", "dry_run"]
    )]
    watch: Option<u64>,
    /// Fetch N names, or files of a directory, at once; 1: one after the other. By default as many
    /// as fill a window, 16 at most. The order of the output is that of the names.
    #[arg(long, short, value_name = "N", value_parser = jobs_number)]
    jobs: Option<usize>,
    #[command(flatten)]
    retry: Retry,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    transfer: Transfer,
}

impl Get {
    /// Returns the command that prints files to standard output.
    pub(super) fn to_stdout_of(
        name: Name,
        range: Option<ByteRange>,
        trust: Trust,
        transfer: Transfer,
    ) -> Self {
        Get {
            name,
            path: Vec::new(),
            output: None,
            recursive: false,
            of_tree: TreeArgs::default(),
            range,
            resume: false,
            no_resume: false,
            sync: false,
            max_age: None,
            allow_older: false,
            checksum: None,
            watch: None,
            jobs: None,
            retry: Retry::default(),
            trust,
            transfer,
        }
    }

    /// Fetches the names. No unverified data remains under a final name.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let jobs = self.jobs()?;
        let mut session = Session::new(ctx, self.jobs)?;
        match self.watch {
            None => self.round(&mut session, &jobs),
            Some(seconds) => self.follow(&mut session, &jobs, Duration::from_secs(seconds)),
        }
    }

    /// Prints the files `names`.
    pub(super) fn print(&self, ctx: &Context<'_>, names: &[Name]) -> Result<(), Failure> {
        let job = |name: &Name| Job { name: name.clone(), to: Destination::Stdout };
        let mut session = Session::new(ctx, self.jobs)?;
        session.is_summarized = false;
        self.round(&mut session, &names.iter().map(job).collect::<Vec<_>>())
    }

    /// Fetches each name once, or as often as it may be repeated.
    fn round(&self, session: &mut Session<'_>, jobs: &[Job]) -> Result<(), Failure> {
        session.read_checksums(self.checksum.as_deref())?;
        if let [job] = jobs {
            return self.fetch(session, job).map(|_| ()).map_err(|unfinished| unfinished.failure);
        }
        let started = Instant::now();
        let results = self.each(session, jobs)?;
        if session.ctx.out.is_content_unread() {
            return Ok(());
        }
        let (mut total, mut failures) = (Fetched::default(), Vec::new());
        for (job, result) in jobs.iter().zip(results) {
            match result {
                Some(Ok(fetched)) => total.add(fetched),
                Some(Err(failure)) => failures.push((&job.name, failure)),
                None => {}
            }
        }
        if jobs.iter().all(|job| job.to != Destination::Stdout) {
            report_total(session.ctx, jobs.len(), failures.len(), total, started.elapsed());
        }
        let count = failures.len();
        let Some((name, gravest)) = failures.into_iter().min_by_key(|(_, failure)| failure.exit.gravity())
        else {
            return Ok(());
        };
        let reason = of_name(name, &gravest);
        let message = match count {
            1 => format!("1 of {} names was not fetched: {reason}", jobs.len()),
            _ => format!("{count} of {} names were not fetched; the gravest failure: {reason}", jobs.len()),
        };
        Err(Failure { hint: gravest.hint, ..Failure::new(gravest.exit, message) })
    }

    /// Fetches several names, some at once, and reports each, in their order. The result of a name
    /// is none if an earlier failure prevents its fetch.
    fn each(&self, session: &Session<'_>, jobs: &[Job]) -> Result<Vec<Option<NameResult>>, Failure> {
        // A directory fetches several files at once itself. Standard output has one file at a time.
        let is_single = self.recursive || jobs.iter().any(|job| job.to == Destination::Stdout);
        let single = is_single.then(|| Jobs::new(Some(1)));
        let at_once = single.as_ref().unwrap_or(&session.jobs);
        let total = (at_once.count() > 1).then(|| Total::new(session.ctx, jobs.len()));
        let (turns, is_over) = (Arc::new(Turns::default()), AtomicBool::new(false));
        let work = |(number, job): (usize, &Job), send: &dyn Fn((usize, NameResult))| {
            let bar = total.as_ref().and_then(|total| total.bar());
            let out = session.ctx.out.of_job(number, &turns, bar);
            if !is_over.load(Ordering::Relaxed) && !out.is_content_unread() {
                let ctx = Context { global: session.ctx.global, out: &out };
                let part = total.as_ref().map(|total| total.part(number));
                let fetched = self.fetch(&session.of_name(&ctx, part), job);
                let result = fetched.map_err(|Unfinished { failure, concerns_all, .. }| {
                    if concerns_all || failure.exit == Exit::Interrupted {
                        is_over.store(true, Ordering::Relaxed);
                    }
                    report_failure(&ctx, job, &failure);
                    failure
                });
                send((number, result));
            }
            out.end_job();
            total.iter().for_each(|total| total.end_one());
        };
        let mut results: Vec<Option<NameResult>> = jobs.iter().map(|_| None).collect();
        let mut take = |(number, result): (usize, NameResult)| {
            if let Some(place) = results.get_mut(number) {
                *place = Some(result);
            }
        };
        let run = at_once.run(jobs.iter().enumerate(), work, &mut take);
        run.map_err(|error| Failure::failed(format!("no thread can be started: {error}")))?;
        Ok(results)
    }

    /// Fetches one name, repeatedly if the options allow it.
    fn fetch(&self, session: &Session<'_>, job: &Job) -> Result<Fetched, Unfinished> {
        let mut number = 0;
        loop {
            let consumer = session.consumer(self);
            let attempt = match &consumer {
                Ok(consumer) => self.attempt(session, consumer, job),
                Err(failure) => Err(failure.clone().into()),
            };
            let unfinished = match attempt {
                Err(unfinished) => unfinished,
                fetched => return fetched,
            };
            let Some(pause) = self.retry.pause(number).filter(|_| unfinished.may_pass) else {
                return Err(unfinished);
            };
            number += 1;
            // The next attempt connects anew: the router may have been restarted.
            session.forget(consumer.as_ref().ok());
            session.ctx.out.remark(format!(
                "{}; repetition {number} of {} in {} s",
                unfinished.failure,
                self.retry.count(),
                pause.as_secs()
            ));
            if !wait(pause, &session.stop) {
                return Err(Failure::new(Exit::Interrupted, "stopped before the repetition").into());
            }
        }
    }

    fn attempt(&self, session: &Session<'_>, consumer: &Consumer, job: &Job) -> Result<Fetched, Unfinished> {
        match &job.to {
            Destination::Path(path) if self.recursive => self.tree(session, consumer, &job.name, path),
            Destination::Path(path) => self.file(session, consumer, &job.name, path),
            Destination::Stdout => self.to_stdout(session, consumer, &job.name),
        }
    }

    /// Returns the name of the file, or of the requested range of it.
    fn object_name(&self, name: &Name) -> Result<Name, Failure> {
        let Some(range) = self.range else { return Ok(name.clone()) };
        if name.components().any(|component| component.typ != GENERIC_COMPONENT) {
            return Err(Failure::failed(format!("{name} cannot be fetched by range"))
                .hint("name the file without version: a range is of its newest version"));
        }
        Ok(range.name_of(name.as_name()))
    }

    /// Converts the error of a fetch of `name`.
    fn unfinished(&self, name: &Name, error: GetError) -> Unfinished {
        let (may_pass, concerns_all) = (error.is_of_path(), error.concerns_all());
        let mut failure = self.failure(name, error);
        if may_pass && failure.exit == Exit::Timeout && self.retry.count() == 0 {
            let option = "`--retry N` repeats the fetch by itself";
            let hint = failure.hint.map_or_else(|| option.to_owned(), |hint| format!("{hint}; {option}"));
            failure.hint = Some(hint);
        }
        Unfinished { failure, may_pass, concerns_all }
    }

    /// Converts the error of a fetch. A range of a file has a name that its user has not given.
    fn failure(&self, name: &Name, error: GetError) -> Failure {
        let mut failure = get_failure(error);
        if let Some(range) = self.range {
            let inner = range.name_of(name.as_name()).to_string();
            let shown = format!("octets {range} of {name}");
            failure.message = failure.message.replace(&inner, &shown);
            failure.hint = failure.hint.map(|hint| hint.replace(&inner, &name.to_string()));
        }
        failure
    }

    /// Converts the error of finding `name`.
    fn not_found(&self, name: &Name, error: GetError) -> Unfinished {
        let unfinished = self.unfinished(name, error);
        match self.range {
            Some(range) if unfinished.failure.exit == Exit::NotFound => {
                let hint = format!(
                    "the file may end before octet {}, or its producer serves no ranges: `namely get {name}` fetches the whole file",
                    range.first()
                );
                let failure = Failure { unrouted: None, ..unfinished.failure.hint(hint) };
                Unfinished { failure, ..unfinished }
            }
            _ => unfinished,
        }
    }
}

/// The result of one of several names.
type NameResult = Result<Fetched, Failure>;

/// Parses the number of objects that are fetched at once.
fn jobs_number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=JOBS_MAX).contains(number));
    number.ok_or_else(|| format!("give a number from 1 to {JOBS_MAX}"))
}

/// The failure of `name`, which many messages begin with.
fn of_name(name: &Name, failure: &Failure) -> String {
    let (name, reason) = (name.to_string(), failure.to_string());
    if reason.starts_with(&name) { reason } else { format!("{name}: {reason}") }
}

/// Reports the failure of one of several names.
fn report_failure(ctx: &Context<'_>, job: &Job, failure: &Failure) {
    ctx.out.remark(format!("failed: {}", of_name(&job.name, failure)));
    // Standard output may have the content of files instead.
    if ctx.out.is_json() && job.to != Destination::Stdout {
        let exit = failure.exit as u8;
        ctx.out.json(&json!({
            "name": job.name.to_string(), "error": failure.message, "hint": failure.hint, "exit": exit,
        }));
    }
}

/// Reports the sums of several names.
fn report_total(ctx: &Context<'_>, names: usize, failed: usize, total: Fetched, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { total.octets as f64 / seconds } else { 0.0 };
    ctx.out.report(
        || {
            let failed = match failed {
                0 => String::new(),
                1 => ", 1 name failed".into(),
                _ => format!(", {failed} names failed"),
            };
            let (files, octets) = (files_text(total.files), octets_text(total.octets));
            format!("{names} names: {files} ({octets}) fetched{failed}; {seconds:.2} s, {}", rate_text(rate))
        },
        || {
            json!({
                "names": names, "failed": failed, "files": total.files, "octets": total.octets,
                "elapsed_s": seconds, "goodput_mbps": rate * 8.0 / 1e6,
            })
        },
    );
}

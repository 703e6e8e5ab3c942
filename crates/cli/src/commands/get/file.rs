//! The fetch of one file, to a path or to standard output.

use std::io;
use std::path::Path;
use std::time::Duration;

use namely_files::get::{CLOCK_SKEW_MAX, CheckedWriter, find_newest, get_newest, get_newest_to_writer};
use namely_files::{FetchedFile, GetError, GetOptions};
use namely_security::validity::UtcTime;
use namely_security::{ContentDigest, DigestAlgorithm};
use namely_socket::{Consumer, FetchError, Flow};
use namely_transport::object::{Object, ObjectError, Progress};
use namely_wire::Name;
use serde_json::json;

use super::{Fetched, Get, Session, Unfinished};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::fetching::{Watch, summary_json, summary_text};
use crate::output::octets_text;

/// Age in s from which on the answer for the newest version is reported as old.
const OLD_S: u64 = 3600;

/// Number of damaged ranges that are named.
const DAMAGED_NAMED_MAX: usize = 10;

impl Get {
    /// Fetches the file `name` to `path`.
    pub(super) fn file(
        &self,
        session: &Session<'_>,
        consumer: &Consumer,
        name: &Name,
        path: &Path,
    ) -> Result<Fetched, Unfinished> {
        let ctx = session.ctx;
        let options = GetOptions { digest: session.digest_of(name)?, ..self.options(session) };
        let checked = options.digest.as_ref().map(ContentDigest::algorithm);
        let watch = Watch::of_part(ctx, name, session.stop.clone(), session.part.clone());
        let object = self.find(ctx, consumer, name, &options)?;
        let octets = object.octets().unwrap_or(0);
        let stopped = || Failure::new(Exit::Interrupted, format!("stopped before {name}"));
        let mut job = session.jobs.begin(octets, &|| session.is_stopped()).ok_or_else(stopped)?;
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
            job.left(octets.saturating_sub(progress.octets_done));
            watch.see("", progress)
        };
        let mut changed =
            |error: &GetError| watch.remark(ctx.out, format!("{error}; fetching the new version"));
        let got = get_newest(consumer, object, path, options, &mut changed, &mut see);
        drop(watch);
        match got {
            Ok(got) => {
                report(ctx, &got, checked);
                Ok(Fetched { files: 1, octets: got.progress.octets })
            }
            Err(error) if is_closed_pipe(&error) => Ok(Fetched::default()),
            Err(error) => {
                let unfinished = self.unfinished(name, error);
                // The reader of a pipe would receive the first octets again.
                let is_pipe = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
                Err(Unfinished { may_pass: unfinished.may_pass && !is_pipe, ..unfinished })
            }
        }
    }

    /// Writes the file `name` to standard output. A reader that has enough ends the command.
    pub(super) fn to_stdout(
        &self,
        session: &Session<'_>,
        consumer: &Consumer,
        name: &Name,
    ) -> Result<Fetched, Unfinished> {
        let ctx = session.ctx;
        let digest = session.digest_of(name)?;
        let watch = Watch::stopped_by(ctx, name, session.stop.clone());
        let object = self.find(ctx, consumer, name, &self.options(session))?;
        let mut see = |progress: &Progress| -> Flow { watch.see("", progress) };
        let mut changed =
            |error: &GetError| watch.remark(ctx.out, format!("{error}; fetching the new version"));
        let mut stdout = ctx.out.content();
        let mut writer = CheckedWriter::new(&mut stdout, digest);
        let written = get_newest_to_writer(consumer, object, &mut writer, &mut changed, &mut see);
        drop(watch);
        let octets = writer.octets();
        let checked = written.and_then(|progress| {
            writer.check(Path::new(&name.to_string()))?;
            Ok(progress)
        });
        match checked {
            Ok(progress) => {
                if session.is_summarized {
                    ctx.out.remark(summary_text(&progress));
                }
                Ok(Fetched { files: 1, octets })
            }
            Err(error) if is_closed_pipe(&error) => Ok(Fetched::default()),
            Err(error) => {
                let unfinished = self.unfinished(name, error);
                // The reader would receive the first octets again.
                Err(Unfinished { may_pass: unfinished.may_pass && octets == 0, ..unfinished })
            }
        }
    }

    /// Finds the file, or the requested range of it.
    fn find(
        &self,
        ctx: &Context<'_>,
        consumer: &Consumer,
        name: &Name,
        options: &GetOptions,
    ) -> Result<Object, Unfinished> {
        let object_name = self.object_name(name)?;
        let object =
            find_newest(consumer, &object_name, options).map_err(|error| self.not_found(name, error))?;
        report_age(ctx, object.as_of_ns);
        Ok(object)
    }

    pub(super) fn options(&self, session: &Session<'_>) -> GetOptions {
        GetOptions {
            resume: !self.no_resume,
            sync: self.sync,
            secret: session.secret,
            allow_older: self.allow_older,
            as_of_min_ns: self.max_age.map(|age_s| {
                namely_host::clock::unix_ns().saturating_sub(age_s.saturating_mul(1_000_000_000))
            }),
            ..GetOptions::default()
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

/// The verification of an object without metadata, whose signer would stand for all packets.
const EACH_VERIFIED: &str = "verified packet by packet: the name of a version has no metadata";

/// Reports a fetched file, and the algorithm of the listed checksum that it matched.
fn report(ctx: &Context<'_>, got: &FetchedFile, checked: Option<DigestAlgorithm>) {
    for range in got.damaged.iter().take(DAMAGED_NAMED_MAX) {
        let path = got.path.display();
        ctx.out.remark(format!(
            "{path}: octets {} to {} had changed since they were fetched; fetched again",
            range.start,
            range.end.saturating_sub(1)
        ));
    }
    let verified = got.reason.as_ref().map_or_else(|| EACH_VERIFIED.into(), |reason| reason.to_string());
    ctx.out.report(
        || {
            let resumed = match got.resumed_octets {
                0 => String::new(),
                octets => format!(", {} from an earlier fetch", octets_text(octets)),
            };
            let mut lines = vec![
                format!("{}: {}{resumed}", got.path.display(), summary_text(&got.progress)),
                format!("  {verified}"),
            ];
            lines.extend(checked.map(|algorithm| format!("  the {} checksum matches", algorithm.name())));
            lines
        },
        || {
            let damaged: Vec<_> = got.damaged.iter().map(|range| [range.start, range.end]).collect();
            let mut value = summary_json(&got.progress);
            value["name"] = json!(got.object.to_string());
            value["path"] = json!(got.path);
            value["resumed_octets"] = json!(got.resumed_octets);
            value["damaged"] = json!(damaged);
            value["verified"] = json!(verified);
            value["checksum"] = json!(checked.map(DigestAlgorithm::name));
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

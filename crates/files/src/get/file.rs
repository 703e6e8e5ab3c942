//! Fetches one file: finds it, follows its versions, and writes it to its target.

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use namely_security::{ContentDigest, TrustReason, Verified};
use namely_socket::{Consumer, FetchError, Flow, Sink};
use namely_transport::object::{Object, ObjectError, Part, Progress, SignatureMode};
use namely_wire::Name;
use namely_wire::tree_index::EntryStamp;

use super::checksum::CheckedWriter;
use super::error::GetError;
use super::options::GetOptions;
use super::own;
use super::part::PartFile;
use super::reuse::{EqualPart, Sizes, damaged_part, equal_part};
use super::target::Target;
use super::version::{check_age, find_recent, note_stamp, note_version};

/// New versions that a fetch follows while its file changes.
///
/// Octets that the versions have in common are not fetched again.
///
/// # Limit
/// The fetch ends with the error that the file has changed.
/// - Tests: `a_fetch_follows_a_changing_file`
pub const RESTARTS_MAX: usize = 10;

/// Pauses before metadata is requested again, because a cache has an older copy. Each takes twice
/// as long as the one before, the first a tenth of a second.
const METADATA_PAUSES: u32 = 4;

/// A file that was fetched.
#[derive(Clone, Debug)]
pub struct FetchedFile {
    /// The versioned name.
    pub object: Name,
    /// The path of the file.
    pub path: PathBuf,
    /// Statistics of the fetch.
    pub progress: Progress,
    /// Octets reused from an earlier fetch.
    pub resumed_octets: u64,
    /// Ranges of the partial file with octets that had changed since an earlier fetch verified
    /// them. They were fetched again.
    pub damaged: Vec<Range<u64>>,
    /// The reason for trusting its metadata; none for an object without metadata.
    pub reason: Option<TrustReason>,
}

/// Finds the file `name`, in its newest version unless `name` has a version.
///
/// # Errors
/// [`GetError::IsDirectory`], or the file is not found.
pub fn find_file(consumer: &Consumer, name: &Name) -> Result<Object, GetError> {
    find_newest(consumer, name, &GetOptions::default())
}

/// Finds the file `name` as [`find_file`] does. If a cache returns an answer that is a little older
/// than [`GetOptions::as_of_min_ns`], the file is requested again for a few seconds.
///
/// # Errors
/// As [`find_file`] and [`check_age`].
pub fn find_newest(consumer: &Consumer, name: &Name, options: &GetOptions) -> Result<Object, GetError> {
    let object = find_recent(|| consumer.find(name), options)?;
    if object.metadata.as_ref().is_some_and(|metadata| metadata.is_directory()) {
        return Err(GetError::IsDirectory { name: name.clone() });
    }
    Ok(object)
}

/// Fetches the file `name` to the path `target`, which is replaced if it exists. If the file
/// changes meanwhile, its new version is fetched.
///
/// # Errors
/// As [`find_file`] and [`get_newest`].
pub fn get(
    consumer: &Consumer,
    name: &Name,
    target: &Path,
    options: GetOptions,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<FetchedFile, GetError> {
    let object = find_newest(consumer, name, &options)?;
    get_newest(consumer, object, target, options, &mut |_| (), watch)
}

/// Fetches a found object to the path `target`, or a newer version of it if the file changes
/// meanwhile. `changed` receives the error of each fetch that was not completed for this reason.
///
/// # Errors
/// As [`get_object`]; [`GetError::Changed`] after [`RESTARTS_MAX`] changes.
pub fn get_newest(
    consumer: &Consumer,
    object: Object,
    target: &Path,
    options: GetOptions,
    changed: &mut dyn FnMut(&GetError),
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<FetchedFile, GetError> {
    let mut options = options;
    following(consumer, object, changed, &mut |object| {
        let got = get_object(consumer, object, target, options, watch);
        // The next version may have octets of this one.
        options.resume = true;
        got
    })
}

/// Writes a found object to `writer`, or a newer version of it if the file changes before the first
/// octet is written.
///
/// # Errors
/// As [`get_to_writer`]; [`GetError::Changed`] after [`RESTARTS_MAX`] changes, or if octets of the
/// earlier version are written.
pub fn get_newest_to_writer(
    consumer: &Consumer,
    object: Object,
    writer: &mut dyn Write,
    changed: &mut dyn FnMut(&GetError),
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<Progress, GetError> {
    let mut counting = CountingWriter { writer, octets: 0 };
    let mut fetch = |object: &Object| {
        let fetched = get_to_writer(consumer, object, &mut counting, watch);
        match fetched {
            Err(GetError::Fetch(error)) => Err(match newer_version(consumer, &error, object) {
                Some(newer) => {
                    GetError::Changed { object: object.name.clone(), newer, octets: counting.octets }
                }
                None => GetError::Fetch(error),
            }),
            other => other,
        }
    };
    following(consumer, object, changed, &mut fetch)
}

/// Runs `fetch` until it fails otherwise than by a change, with the newest version each time.
fn following<T>(
    consumer: &Consumer,
    object: Object,
    changed: &mut dyn FnMut(&GetError),
    fetch: &mut dyn FnMut(&Object) -> Result<T, GetError>,
) -> Result<T, GetError> {
    let mut object = object;
    for _ in 0..RESTARTS_MAX {
        match fetch(&object) {
            Err(error @ GetError::Changed { octets: 0, .. }) => {
                changed(&error);
                let found = find_file(consumer, &object.name.as_name().without_last(1).to_name())?;
                // Another cache may return an earlier copy. Then the version is gone once more.
                if found.as_of_ns >= object.as_of_ns {
                    object = found;
                }
            }
            other => return other,
        }
    }
    fetch(&object)
}

/// Fetches a found object to the path `target`, which is replaced if it exists. A target that is
/// not a regular file, such as a pipe or `/dev/null`, is written directly.
///
/// # Errors
/// The object cannot be fetched or verified; its version has changed; the target cannot be written.
/// [`GetError::Interrupted`] and [`GetError::NoSpace`] report the octets kept for a later fetch.
pub fn get_object(
    consumer: &Consumer,
    object: &Object,
    target: &Path,
    options: GetOptions,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<FetchedFile, GetError> {
    check_age(object, &options)?;
    let target = Target::named(target)?;
    if let Some(mut special) = target.special()? {
        let mut writer = CheckedWriter::new(&mut special, options.digest);
        let progress = get_to_writer(consumer, object, &mut writer, watch)?;
        writer.check(&target.path())?;
        return Ok(got(object, &target, progress));
    }
    get_file(consumer, object, &target, None, options, watch)
}

/// Fetches a found object to a target that becomes a regular file in any case. The file gets the
/// `stamp` of the producer's file, if it is known.
pub(super) fn get_file(
    consumer: &Consumer,
    object: &Object,
    target: &Target,
    stamp: Option<EntryStamp>,
    options: GetOptions,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<FetchedFile, GetError> {
    check_age(object, &options)?;
    if !options.allow_older {
        target.check_newer(object)?;
    }
    let group = if object.signature_mode == SignatureMode::Manifests { object.manifest_entries } else { 1 };
    let mut part = PartFile::open(target, object, group, &options, watch)?;
    if let Err(full) = check_space(&part, object) {
        part.abandon();
        return Err(full);
    }
    let Filled { progress, resumed_octets, damaged } = match fill(consumer, object, &mut part, watch) {
        Ok(filled) => filled,
        Err(error) => return Err(ended(consumer, error, object, part)),
    };
    let octets = part.octets();
    if let Some(expected_octets) = object.octets().filter(|expected| *expected != octets) {
        part.discard();
        return Err(GetError::Size { object: object.name.clone(), expected_octets, octets });
    }
    let mut part = with_digest(part, object, options.digest)?;
    // The attributes are set while this user may write the file.
    note_version(part.file(), object);
    if let Some(stamp) = stamp {
        note_stamp(part.file(), stamp);
    }
    let mode = object.metadata.as_ref().and_then(|metadata| metadata.mode).map(|mode| mode as u32);
    let mode = mode.filter(|_| options.keep_mode);
    match part.finish(options.sync, own::permissions(mode, options.keep_mode)) {
        Ok(file) => set_time(file, object),
        Err(error) => {
            let kept_octets = part.abandon();
            return Err(failure(error, target.path(), object, kept_octets));
        }
    }
    Ok(FetchedFile { resumed_octets, damaged, ..got(object, target, progress) })
}

/// Returns the complete partial file, if it has the `expected` digest. Otherwise the file keeps its
/// name.
fn with_digest(
    mut part: PartFile,
    object: &Object,
    expected: Option<ContentDigest>,
) -> Result<PartFile, GetError> {
    let Some(expected) = expected else { return Ok(part) };
    let path = part.target_path();
    match part.digest(expected.algorithm()) {
        Ok(found) if found == expected => Ok(part),
        Ok(found) => {
            let kept = part.path().to_owned();
            part.withhold(object.segments);
            Err(GetError::Checksum { path, part: Some(kept), expected: expected.into(), found: found.into() })
        }
        Err(error) => {
            let kept_octets = part.abandon();
            Err(failure(error, path, object, kept_octets))
        }
    }
}

/// A partial file that has all octets.
struct Filled {
    progress: Progress,
    resumed_octets: u64,
    damaged: Vec<Range<u64>>,
}

/// Fetches the octets that the partial file lacks: those that were damaged, and those behind the
/// octets that it shares with the object.
fn fill(
    consumer: &Consumer,
    object: &Object,
    part: &mut PartFile,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<Filled, FetchError> {
    let fault = |error| FetchError::from(ObjectError::Sink(error));
    check_kept(consumer, object, part, watch)?;
    let damaged = part.damaged().to_vec();
    let lost: u64 = damaged.iter().map(|range| range.end - range.start).sum();
    let whole_octets = part.resumed().1.saturating_sub(lost);
    if whole_octets > 0 && watch(&kept_progress(object, whole_octets)) == Flow::Stop {
        return Err(ObjectError::Stopped.into());
    }
    if !damaged.is_empty() {
        // The caller receives the ranges in its result, and reports them.
        tracing::debug!(file = %part.path().display(), ?damaged, "octets of an earlier fetch were changed");
        repair(consumer, object, part, watch)?;
    }
    if part.others() > 0 {
        let mut read = |octets: &mut [u8], offset| part.read_at(octets, offset);
        let equal = equal_part(consumer, object, part.others(), &mut read, watch);
        let EqualPart { segments, octets, error } = equal;
        part.keep(segments, octets).map_err(fault)?;
        if let Some(error) = error {
            return Err(error);
        }
    }
    let (segment, kept_octets) = part.resumed();
    let is_whole = kept_octets > 0 && object.segments == Some(segment);
    let progress = match is_whole {
        true => Progress::default(),
        false => consumer.fetch_into(object, Part::from(segment), part, watch)?,
    };
    Ok(Filled { progress, resumed_octets: kept_octets.saturating_sub(lost), damaged })
}

/// Compares the octets of an earlier fetch with the manifests of the object, unless they were
/// compared with digests in the journal.
fn check_kept(
    consumer: &Consumer,
    object: &Object,
    part: &mut PartFile,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<(), FetchError> {
    let Some(sizes) = part.unchecked() else { return Ok(()) };
    let (segments, _) = part.resumed();
    let mut read = |octets: &mut [u8], offset| part.read_at(octets, offset);
    let damaged = damaged_part(consumer, object, sizes, segments, &mut read, watch)?;
    part.checked(damaged);
    Ok(())
}

/// The progress of a fetch that has `octets_done` from an earlier one.
fn kept_progress(object: &Object, octets_done: u64) -> Progress {
    Progress {
        octets_done,
        octets_total: object.octets(),
        segments_total: object.segments,
        ..Progress::default()
    }
}

/// Fetches the damaged octets of the partial file again.
fn repair(
    consumer: &Consumer,
    object: &Object,
    part: &mut PartFile,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<(), FetchError> {
    let fault = |error| FetchError::from(ObjectError::Sink(error));
    let Some(sizes) = Sizes::of(object) else {
        // The damaged octets belong to segments whose numbers are not known.
        return part.start_again().map_err(fault);
    };
    for range in part.damaged().to_vec() {
        consumer.fetch_into(object, sizes.segments_of(&range), &mut part.repair(sizes), watch)?;
    }
    part.repaired().map_err(fault)
}

/// The error of a fetch that ended early. Its octets are retained, also for another version.
fn ended(consumer: &Consumer, error: FetchError, object: &Object, part: PartFile) -> GetError {
    let newer = newer_version(consumer, &error, object);
    let (path, target) = (part.path().to_owned(), part.target_path());
    let kept_octets = part.abandon();
    match (newer, error) {
        (Some(newer), _) => GetError::Changed { object: object.name.clone(), newer, octets: 0 },
        (None, FetchError::Object(ObjectError::Sink(error))) => failure(error, target, object, kept_octets),
        (None, error) => GetError::Interrupted { error: Box::new(error), part: path, kept_octets },
    }
}

/// Writes an object to `writer`, verified, in order.
///
/// # Errors
/// The object cannot be fetched, verified, or written.
pub fn get_to_writer(
    consumer: &Consumer,
    object: &Object,
    writer: &mut dyn Write,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<Progress, GetError> {
    let mut sink = WriterSink(writer);
    let progress = consumer.fetch_into(object, Part::from(0), &mut sink, watch)?;
    sink.0.flush().map_err(|error| FetchError::from(ObjectError::Sink(error)))?;
    Ok(progress)
}

struct WriterSink<'a>(&'a mut dyn Write);

impl Sink for WriterSink<'_> {
    fn write(&mut self, _: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
        self.0.write_all(data.content())
    }
}

/// Counts the octets that reach `writer`.
struct CountingWriter<'a> {
    writer: &'a mut dyn Write,
    octets: u64,
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(octets)?;
        self.octets += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

fn got(object: &Object, target: &Target, progress: Progress) -> FetchedFile {
    FetchedFile {
        object: object.name.clone(),
        path: target.path(),
        progress,
        resumed_octets: 0,
        damaged: Vec::new(),
        reason: object.reason.clone(),
    }
}

/// Returns an error before the fetch if the object is known not to fit.
fn check_space(part: &PartFile, object: &Object) -> Result<(), GetError> {
    let kept_octets = part.resumed().1;
    let Some(needed) = object.octets() else { return Ok(()) };
    let Ok(disk) = rustix::fs::fstatvfs(part.folder()) else { return Ok(()) };
    if disk.f_blocks == 0 {
        // Some file systems do not report their size.
        return Ok(());
    }
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed.saturating_sub(kept_octets.max(part.others())) > free {
        return Err(GetError::NoSpace { path: part.target_path(), needed_octets: Some(needed), kept_octets });
    }
    Ok(())
}

/// Returns the version that replaced `object`, if that explains why its segments are unavailable.
fn newer_version(consumer: &Consumer, error: &FetchError, object: &Object) -> Option<Name> {
    let may_be_gone =
        matches!(error, FetchError::Object(ObjectError::Fetch { .. } | ObjectError::Refused { .. }));
    if !may_be_gone || object.metadata.is_none() {
        return None;
    }
    // Only metadata that was made later than that of the fetch states a newer version.
    let is_later = |found: &Object| found.as_of_ns.is_none() || found.as_of_ns > object.as_of_ns;
    let name = object.name.as_name().without_last(1).to_name();
    let mut found = consumer.find(&name).ok()?;
    for pauses in 0..METADATA_PAUSES {
        if is_later(&found) {
            break;
        }
        // A cache may return an earlier copy as long as that is fresh.
        std::thread::sleep(Duration::from_millis(100 << pauses));
        found = consumer.find(&name).ok()?;
    }
    (is_later(&found) && found.name != object.name).then_some(found.name)
}

/// The error of an operation on the partial file.
fn failure(error: io::Error, path: PathBuf, object: &Object, kept_octets: u64) -> GetError {
    match error.kind() {
        io::ErrorKind::StorageFull => GetError::NoSpace { path, needed_octets: object.octets(), kept_octets },
        _ => GetError::Target { path, error },
    }
}

/// Sets the file's time to the producer's, if known. A later fetch of a tree compares this time.
fn set_time(file: &std::fs::File, object: &Object) {
    let mtime_ns = object.metadata.as_ref().and_then(|metadata| metadata.mtime_ns);
    let time = mtime_ns.and_then(|ns| SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(ns)));
    if let Some(time) = time
        && let Err(error) = file.set_modified(time)
    {
        tracing::debug!(%error, "the file keeps the time at which it was fetched");
    }
}

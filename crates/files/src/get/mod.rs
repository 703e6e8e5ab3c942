//! Fetches files: verified, streamed to disk, and under the final name only when complete.
//!
//! Works with namely's file server, with others that implement the ndn6-file-server protocol, and
//! with any segmented object; a [`Consumer`] finds and verifies the objects.

mod error;
mod journal;
mod options;
mod own;
mod part;
mod target;
mod tree;
mod version;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use namely_host::disk::UntrustedFile;
use namely_security::{TrustReason, Verified};
use namely_socket::{Consumer, FetchError, Flow, Sink};
use namely_transport::object::{Object, ObjectError, Part, Progress, SignatureMode};
use namely_wire::Name;

pub use self::error::GetError;
pub use self::journal::ResumeSecret;
pub use self::options::GetOptions;
pub use self::part::PART_SUFFIX;
use self::part::PartFile;
use self::target::Target;
pub use self::tree::{DEPTH_MAX, FAILED_MAX, FetchedTree, TreeEvent, TreeProgress, get_tree};
use self::version::note_version;
pub use self::version::{CLOCK_SKEW_MAX, check_age};

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
    /// The reason for trusting its metadata; none for an object without metadata.
    pub reason: Option<TrustReason>,
}

/// Finds the file `name`, in its newest version unless `name` has a version.
///
/// # Errors
/// [`GetError::IsDirectory`], or the file is not found.
pub fn find_file(consumer: &Consumer, name: &Name) -> Result<Object, GetError> {
    let object = consumer.find(name)?;
    if object.metadata.as_ref().is_some_and(|metadata| metadata.is_directory()) {
        return Err(GetError::IsDirectory { name: name.clone() });
    }
    Ok(object)
}

/// Fetches the file `name` to the path `target`, which is replaced if it exists.
///
/// # Errors
/// As [`find_file`] and [`get_object`].
pub fn get(
    consumer: &Consumer,
    name: &Name,
    target: &Path,
    options: GetOptions,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<FetchedFile, GetError> {
    let object = find_file(consumer, name)?;
    get_object(consumer, &object, target, options, watch)
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
        let progress = get_to_writer(consumer, object, &mut special, watch)?;
        return Ok(got(object, &target, progress, 0));
    }
    get_file(consumer, object, &target, options, watch)
}

/// Fetches a found object to a target that becomes a regular file in any case.
fn get_file(
    consumer: &Consumer,
    object: &Object,
    target: &Target,
    options: GetOptions,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<FetchedFile, GetError> {
    check_age(object, &options)?;
    if !options.allow_older {
        target.check_newer(object)?;
    }
    let group = if object.signature_mode == SignatureMode::Manifests { object.manifest_entries } else { 1 };
    let mut part = PartFile::open(target, object, group, &options)?;
    let (segment, resumed_octets) = part.resumed();
    if let Err(full) = check_space(&part, object) {
        part.abandon();
        return Err(full);
    }
    let is_whole = resumed_octets > 0 && object.segments == Some(segment);
    let fetched = match is_whole {
        true => Ok(Progress::default()),
        false => consumer.fetch_into(object, Part::from(segment), &mut part, watch),
    };
    let path = part.path().to_owned();
    let progress = match fetched {
        Ok(progress) => progress,
        Err(error) => {
            let Some(newer) = newer_version(consumer, &error, object) else {
                return Err(interrupted(error, path, object, part.abandon()));
            };
            part.discard();
            return Err(GetError::Changed { object: object.name.clone(), newer });
        }
    };
    let octets = part.octets();
    if let Some(expected_octets) = object.octets().filter(|expected| *expected != octets) {
        part.discard();
        return Err(GetError::Size { object: object.name.clone(), expected_octets, octets });
    }
    let mode = object.metadata.as_ref().and_then(|metadata| metadata.mode).map(|mode| mode as u32);
    let mode = mode.filter(|_| options.keep_mode);
    let file = match part.finish(options.sync, own::permissions(mode, options.keep_mode)) {
        Ok(file) => file,
        Err(error) => {
            let kept_octets = part.abandon();
            return Err(failure(error, path, object, kept_octets));
        }
    };
    set_time(file, object);
    note_version(file, object);
    Ok(got(object, target, progress, resumed_octets))
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

fn got(object: &Object, target: &Target, progress: Progress, resumed_octets: u64) -> FetchedFile {
    FetchedFile {
        object: object.name.clone(),
        path: target.path(),
        progress,
        resumed_octets,
        reason: object.reason.clone(),
    }
}

/// Returns an error before the fetch if the object is known not to fit.
fn check_space(part: &PartFile, object: &Object) -> Result<(), GetError> {
    let Some(needed) = object.octets() else { return Ok(()) };
    let Ok(disk) = rustix::fs::fstatvfs(part.folder()) else { return Ok(()) };
    if disk.f_blocks == 0 {
        // Some file systems do not report their size.
        return Ok(());
    }
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed.saturating_sub(part.resumed().1) > free {
        let kept_octets = part.resumed().1;
        return Err(GetError::NoSpace {
            path: part.path().to_owned(),
            needed_octets: Some(needed),
            kept_octets,
        });
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
    let found = consumer.find(&object.name.as_name().without_last(1).to_name()).ok()?;
    (found.name != object.name).then_some(found.name)
}

fn interrupted(error: FetchError, part: PathBuf, object: &Object, kept_octets: u64) -> GetError {
    match error {
        FetchError::Object(ObjectError::Sink(error)) if error.kind() == io::ErrorKind::StorageFull => {
            GetError::NoSpace { path: part, needed_octets: object.octets(), kept_octets }
        }
        FetchError::Object(ObjectError::Sink(error)) => GetError::Target { path: part, error },
        error => GetError::Interrupted { error: Box::new(error), part, kept_octets },
    }
}

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

//! The version and the age of an object, and the version of the file that it replaces.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use namely_socket::FetchError;
use namely_transport::object::Object;
use namely_wire::Name;
use namely_wire::tree_index::EntryStamp;
use rustix::fs::Stat;

use super::error::GetError;
use super::options::GetOptions;
use crate::content::FileStamp;

/// Time that a producer's clock may be ahead of this machine's.
///
/// # Limit
/// A later timestamp is reported, and refused with `--max-age`.
/// - Tests: `stale_and_future_versions_are_refused`
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(300);

/// Time for which an answer is requested again that was made shortly before
/// [`GetOptions::as_of_min_ns`]: a few caches one after another, each of which keeps metadata fresh
/// for a second, may have it.
const CACHES: Duration = Duration::from_secs(4);

/// Pause before such a request.
const CACHES_PAUSE: Duration = Duration::from_millis(100);

/// The attribute of a file that has the versioned name.
const VERSION_ATTRIBUTE: &str = "user.namely.version";

/// The attribute of a file that has the stamp of the producer's file.
const STAMP_ATTRIBUTE: &str = "user.namely.stamp";

/// Finds an object. If a cache has a statement about its newest version that was made shortly
/// before [`GetOptions::as_of_min_ns`], the object is requested until that copy expires.
///
/// # Errors
/// Those of `find` and [`check_age`].
pub(super) fn find_recent(
    find: impl Fn() -> Result<Object, FetchError>,
    options: &GetOptions,
) -> Result<Object, GetError> {
    let began = Instant::now();
    loop {
        let object = find()?;
        match check_age(&object, options) {
            Err(GetError::TooOld { age, age_max, .. })
                if age.saturating_sub(age_max) < CACHES && began.elapsed() < CACHES =>
            {
                std::thread::sleep(CACHES_PAUSE);
            }
            checked => return checked.map(|()| object),
        }
    }
}

/// Checks the time of the producer's statement about its newest version against
/// [`GetOptions::as_of_min_ns`]: it must be neither too old nor from the future.
///
/// # Errors
/// [`GetError::TooOld`], [`GetError::Future`], [`GetError::Undated`].
pub fn check_age(object: &Object, options: &GetOptions) -> Result<(), GetError> {
    let (Some(min_ns), Some(_)) = (options.as_of_min_ns, &object.metadata) else { return Ok(()) };
    let name = || object.name.clone();
    let Some(as_of_ns) = object.as_of_ns else { return Err(GetError::Undated { object: name() }) };
    let now_ns = namely_host::clock::unix_ns();
    let ahead = Duration::from_nanos(as_of_ns.saturating_sub(now_ns));
    if ahead > CLOCK_SKEW_MAX {
        return Err(GetError::Future { object: name(), ahead });
    }
    if as_of_ns >= min_ns {
        return Ok(());
    }
    let [age, age_max] = [as_of_ns, min_ns].map(|ns| Duration::from_nanos(now_ns.saturating_sub(ns)));
    Err(GetError::TooOld { object: name(), age, age_max })
}

/// Returns an error if `target` was fetched from a newer version of `object`. A peer that answers
/// in the producer's place may replay old signed packets.
pub(super) fn check_newer(object: &Object, target: impl AsFd, path: &Path) -> Result<(), GetError> {
    let version = |name: &Name| name.as_name().last().and_then(|last| last.version());
    match noted_version(target) {
        Some(there)
            if there.as_name().without_last(1) == object.name.as_name().without_last(1)
                && version(&object.name) < version(&there) =>
        {
            Err(GetError::Older { object: object.name.clone(), there, path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Returns the versioned name that was stored as an attribute. Without the attribute the version is
/// unknown; some file systems have no attributes.
pub(super) fn noted_version(file: impl AsFd) -> Option<Name> {
    let mut there = [0; 4096];
    let octets = rustix::fs::fgetxattr(file, VERSION_ATTRIBUTE, &mut there[..]).ok()?;
    std::str::from_utf8(there.get(..octets)?).ok()?.parse().ok()
}

/// Stores the stamp of the producer's file as an attribute of the copy.
pub(super) fn note_stamp(file: impl AsFd, stamp: EntryStamp) {
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::fsetxattr(file, STAMP_ATTRIBUTE, &stamp.to_octets(), flags) {
        tracing::debug!(%error, "the stamp of a file cannot be recorded");
    }
}

/// Returns true if the copy, of status `found`, was made of the producer's file with this stamp. If
/// no stamp was stored, the file must not have changed since the copy was made, by the clocks of
/// both hosts.
pub(super) fn is_of_stamp(file: impl AsFd, found: &Stat, stamp: EntryStamp) -> bool {
    let mut there = [0; EntryStamp::OCTETS];
    match rustix::fs::fgetxattr(file, STAMP_ATTRIBUTE, &mut there[..]) {
        Ok(octets) => octets == there.len() && there == stamp.to_octets(),
        Err(_) => is_newer_than(found, stamp.changed_ns),
    }
}

/// Returns true if the file of status `found` was put there after `changed_ns`, the time of a
/// change at the producer. The clocks may differ by [`CLOCK_SKEW_MAX`].
pub(super) fn is_newer_than(found: &Stat, changed_ns: u64) -> bool {
    let skew_ns = u64::try_from(CLOCK_SKEW_MAX.as_nanos()).unwrap_or(u64::MAX);
    FileStamp::of(found).ctime.ns().is_some_and(|made_ns| made_ns > changed_ns.saturating_add(skew_ns))
}

/// Stores the version as an attribute of the file.
pub(super) fn note_version(file: impl AsFd, object: &Object) {
    if object.metadata.is_none() {
        return;
    }
    let version = object.name.to_string();
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::fsetxattr(file, VERSION_ATTRIBUTE, version.as_bytes(), flags) {
        tracing::debug!(%error, "the file's version cannot be recorded");
    }
}

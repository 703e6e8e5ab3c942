//! The version and the age of an object, and the version of the file that it replaces.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

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

/// The attribute of a file that has the versioned name.
const VERSION_ATTRIBUTE: &str = "user.namely.version";

/// The attribute of a file that has the stamp of the producer's file.
const STAMP_ATTRIBUTE: &str = "user.namely.stamp";

/// Checks the age of the producer's statement about its newest version against
/// [`GetOptions::age_max`]: it must be neither too old nor from the future.
///
/// # Errors
/// [`GetError::TooOld`], [`GetError::Future`], [`GetError::Undated`].
pub fn check_age(object: &Object, options: &GetOptions) -> Result<(), GetError> {
    let (Some(age_max), Some(_)) = (options.age_max, &object.metadata) else { return Ok(()) };
    let name = || object.name.clone();
    let Some(as_of_ns) = object.as_of_ns else { return Err(GetError::Undated { object: name() }) };
    let now_ns = namely_host::clock::unix_ns();
    let ahead = Duration::from_nanos(as_of_ns.saturating_sub(now_ns));
    if ahead > CLOCK_SKEW_MAX {
        return Err(GetError::Future { object: name(), ahead });
    }
    let age = Duration::from_nanos(now_ns.saturating_sub(as_of_ns));
    if age > age_max { Err(GetError::TooOld { object: name(), age, age_max }) } else { Ok(()) }
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

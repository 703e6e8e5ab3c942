//! The version and the age of an object, and the version of the file that it replaces.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use namely_transport::object::Object;
use namely_wire::Name;

use super::error::GetError;
use super::options::GetOptions;

/// Time that a producer's clock may be ahead of this machine's.
///
/// # Limit
/// A later timestamp is reported, and refused with `--max-age`.
/// - Tests: `stale_and_future_versions_are_refused`
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(300);

/// The attribute of a file that has the versioned name.
const VERSION_ATTRIBUTE: &str = "user.namely.version";

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
    let mut there = [0; 4096];
    // Without the attribute the version is unknown; some file systems have no attributes.
    let Ok(octets) = rustix::fs::fgetxattr(target, VERSION_ATTRIBUTE, &mut there[..]) else { return Ok(()) };
    let there = there.get(..octets).and_then(|text| std::str::from_utf8(text).ok()?.parse::<Name>().ok());
    let version = |name: &Name| name.as_name().last().and_then(|last| last.version());
    match there {
        Some(there)
            if there.as_name().without_last(1) == object.name.as_name().without_last(1)
                && version(&object.name) < version(&there) =>
        {
            Err(GetError::Older { object: object.name.clone(), there, path: path.to_owned() })
        }
        _ => Ok(()),
    }
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

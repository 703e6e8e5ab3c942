//! The folder of a tier: one tier takes it at a time. It holds the key and the segments.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use namely_host::disk::{Folder, OpenError, Writers};
use rustix::fs::OFlags;

use super::error::TierError;
use super::record::Key;
use namely_host::disk::Lock;

/// Takes the folder for this tier, and makes it if necessary.
pub(crate) fn take_folder(path: &Path, writers: Writers) -> Result<(Folder, Lock), TierError> {
    let fault = |error| TierError::new(path, error);
    let folder = Folder::open_or_make_durable(path).map_err(fault)?;
    let checked = folder.stat().map(|found| writers.check_folder(&found)).map_err(fault)?;
    checked.map_err(|foreign| TierError::Shared { path: path.to_owned(), foreign })?;
    if let Some(first) = folder.names().map_err(fault)?.into_iter().filter(is_store_file).min() {
        return Err(TierError::Others(path.join(first)));
    }
    // Checked before the lock file is made, so that the folder of another program stays unchanged.
    refuse_others(&folder)?;
    let lock = folder.open_or_create("lock", OFlags::RDWR, writers);
    let lock = lock.map_err(|error| TierError::of(&path.join("lock"), error))?;
    let lock = Lock::take(lock.into_inner()).map_err(fault)?;
    Ok((folder, lock.ok_or_else(|| TierError::InUse(path.to_owned()))?))
}

/// Returns true for a file of a producer's store (`namely_store`). Such a folder also has a file
/// "lock" as a cache's folder does, but it holds the only copy of its packets.
fn is_store_file(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("packets-") && name.ends_with(".log"))
}

/// Refuses a folder that has files but none of a cache. The files belong to another program, and a
/// cache deletes files from its folder.
fn refuse_others(folder: &Folder) -> Result<(), TierError> {
    let mut other = None;
    for name in folder.names().map_err(|error| TierError::new(folder.path(), error))? {
        let is_segment = name.to_str().is_some_and(|name| name.starts_with("segment-"));
        if is_segment || OF_A_CACHE.iter().any(|own| name == *own) {
            return Ok(());
        }
        // Every ext4 file system has this folder in its root.
        if name != "lost+found" {
            other.get_or_insert(name);
        }
    }
    other.map_or(Ok(()), |name| Err(TierError::Others(folder.path().join(name))))
}

/// A cache's files beside its segments. After a crash any of them may be the only file.
const OF_A_CACHE: [&str; 5] = ["lock", "key", "key.new", "erased", "erased.new"];

/// Octets of a folder's key.
pub(crate) const KEY_OCTETS: u64 = 32;

/// Returns the folder's key, or makes a new one if none is complete.
pub(crate) fn key(folder: &Folder, writers: Writers) -> Result<Key, TierError> {
    let path = folder.path().join("key");
    let fault = |error| TierError::new(&path, error);
    let octets = match folder.read("key", KEY_OCTETS, writers) {
        // A longer file is no key. With a new key the old segments count as broken.
        Err(OpenError::System(error)) if error.kind() == io::ErrorKind::FileTooLarge => Vec::new(),
        read => read.map_err(|error| TierError::of(&path, error))?.unwrap_or_default(),
    };
    if let Ok(key) = <&[u8; KEY_OCTETS as usize]>::try_from(&*octets) {
        return Ok(Key::new(key));
    }
    let key: [u8; 32] = namely_host::random().map_err(|error| fault(error.into()))?;
    folder.replace("key", "key.new", &key).and_then(|()| folder.sync()).map_err(fault)?;
    Ok(Key::new(&key))
}

/// The numbers of the segments in `folder`, in ascending order.
pub(crate) fn numbers(folder: &Folder) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for name in folder.names()? {
        let number = name.to_str().and_then(|name| name.strip_prefix("segment-")?.strip_suffix(".log"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

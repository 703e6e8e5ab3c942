//! Open directories: the listing at the time of the `opendir`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fuser::FileType;
use namely_socket::Consumer;
use namely_wire::rdr::{listing, listing_name};
use namely_wire::{Component, Name};

use crate::error::errno;
use crate::filesystem::Failure;

/// Octets of a listed name (`FUSE_NAME_MAX` of the kernel, which fails a whole listing with a
/// longer one).
///
/// # Limit
/// The entry is left out.
/// - Value: 1024
/// - Tests: `longer_names_are_left_out`
const NAME_OCTETS_MAX: usize = 1024;

/// A listed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedFile {
    name: Vec<u8>,
    is_directory: bool,
}

impl ListedFile {
    pub(crate) fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    /// The name of the file in `directory`.
    pub(crate) fn name_in(&self, directory: &Name) -> Name {
        directory.join(Component::generic(&self.name))
    }

    /// Whether it stands for the directory itself or for the directory above it.
    pub(crate) fn is_dot(&self) -> bool {
        self.name == b"." || self.name == b".."
    }

    pub(crate) fn kind(&self) -> FileType {
        if self.is_directory { FileType::Directory } else { FileType::RegularFile }
    }
}

/// An open directory. A change after the `opendir` does not shift its entries.
pub(crate) struct OpenDirectory {
    pub(crate) name: Arc<Name>,
    /// `.`, `..` and the listed files.
    pub(crate) files: Vec<ListedFile>,
}

impl OpenDirectory {
    /// Fetches the listing of the directory `name`.
    pub(crate) fn open(consumer: &Consumer, name: Arc<Name>) -> Result<Self, Failure> {
        let octets = consumer
            .fetch(&listing_name(name.as_name()))
            .map_err(|error| Failure::new(errno(&error), &error))?;
        let listed = files_of(&octets)
            .ok_or_else(|| Failure::new(fuser::Errno::EBADMSG, &"the producer's listing is malformed"))?;
        let dot = |name: &[u8]| ListedFile { name: name.to_vec(), is_directory: true };
        let mut files = vec![dot(b"."), dot(b"..")];
        files.extend(listed);
        Ok(OpenDirectory { name, files })
    }
}

/// The number of entries of all open directories.
pub(crate) struct OpenEntries {
    count: AtomicUsize,
    max: usize,
}

impl OpenEntries {
    pub(crate) fn new(max: usize) -> Self {
        OpenEntries { count: AtomicUsize::new(0), max }
    }

    /// Adds the entries of a directory. Returns false if there would be too many.
    pub(crate) fn add(&self, entries: usize) -> bool {
        let added = |count: usize| count.checked_add(entries).filter(|count| *count <= self.max);
        // The number guards no other memory.
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).is_ok()
    }

    /// Removes the entries of a directory that was added.
    pub(crate) fn remove(&self, entries: usize) {
        self.count.fetch_sub(entries, Ordering::Relaxed);
    }
}

/// The entries of a listing. The decoder refuses names that could lead out of the directory.
fn files_of(octets: &[u8]) -> Option<Vec<ListedFile>> {
    let is_long = |name: &[u8]| name.len() > NAME_OCTETS_MAX;
    let entries = listing(octets).filter(|entry| !matches!(entry, Ok(entry) if is_long(entry.name)));
    let entries = entries.map(|entry| {
        let entry = entry.ok()?;
        Some(ListedFile { name: entry.name.to_vec(), is_directory: entry.is_directory })
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn longer_names_are_left_out() {
        let listing = |name_octets: usize| [&vec![b'x'; name_octets][..], b"\0y\0"].concat();
        let listed = |name_octets| files_of(&listing(name_octets)).unwrap().len();
        assert_eq!([NAME_OCTETS_MAX, NAME_OCTETS_MAX + 1].map(listed), [2, 1]);
    }

    #[test]
    fn open_entries_are_limited() {
        let entries = OpenEntries::new(5);
        assert!(entries.add(3) && entries.add(2) && !entries.add(1) && !entries.add(usize::MAX));
        entries.remove(3);
        assert!(!entries.add(4) && entries.add(3));
    }

    proptest! {
        #[test]
        fn no_listing_leads_out_of_its_directory(octets in prop::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), Just(0u8), any::<u8>()], 0..200)) {
            for file in files_of(&octets).into_iter().flatten() {
                let name = file.file_name().as_bytes();
                prop_assert!(!name.is_empty() && name != b"." && name != b"..");
                prop_assert!(!name.contains(&b'/') && !name.contains(&0));
            }
        }
    }
}

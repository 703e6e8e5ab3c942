//! Files that must survive a crash, and files in folders that other users write. All operations on
//! them are in this module. An operation reaches a file through the descriptor of its [`Folder`],
//! follows no link, and never blocks. Only names from a user or the configuration are opened as
//! paths ([`open_named`], [`read_named`]).
//!
//! A test can make each operation fail, be torn, or be lost at a power cut (module `faults`), and
//! can have another process rename and link before each system call (module `step`); both need the
//! feature `faults`. Without it each operation is only the system's call.
//!
//! The module never retries, and never hides an error of the system.

mod beneath;
#[cfg(feature = "faults")]
pub mod faults;
mod folder;
mod foreign;
mod lock;
mod named;
#[cfg(feature = "faults")]
pub mod step;

use std::ffi::OsStr;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use self::beneath::{Links, open_again, open_beneath, open_by_component};
pub use self::folder::Folder;
pub use self::foreign::{OpenError, UntrustedFile, Writers};
pub use self::lock::Lock;
pub use self::named::{open_named, open_named_file, read_named, read_named_secret};

#[cfg(feature = "faults")]
use self::{
    faults::{is_real, run},
    step::step,
};

/// Maximum number of replacements of a file while it is opened.
pub const RACES_MAX: usize = 16;

/// A name in a folder.
#[cfg_attr(not(feature = "faults"), expect(dead_code, reason = "only tests look at it"))]
#[derive(Clone, Copy, Debug)]
struct FolderEntry<'a> {
    folder: &'a Path,
    name: &'a OsStr,
}

/// An operation, for the fault injection of tests.
#[cfg_attr(not(feature = "faults"), expect(dead_code, reason = "only tests look at it"))]
#[derive(Debug)]
enum Operation<'a> {
    /// Makes a file.
    Create(FolderEntry<'a>),
    MakeFolder(FolderEntry<'a>),
    Read,
    Write(&'a std::fs::File, &'a [u8], u64),
    SetLen(&'a std::fs::File, u64),
    Sync(&'a std::fs::File),
    SyncFolder(&'a Path),
    Rename(FolderEntry<'a>, FolderEntry<'a>),
    Remove(FolderEntry<'a>),
}

/// The hook of a test before a system call.
#[cfg(not(feature = "faults"))]
#[inline(always)]
const fn step(_: &'static str) {}

/// Returns true if a synchronization must reach a real disk. A simulated disk records it itself.
#[cfg(not(feature = "faults"))]
#[inline(always)]
const fn is_real() -> bool {
    true
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
fn run<T>(_: &Operation<'_>, real: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    real()
}

/// An open file. Further methods are those of [`std::fs::File`]; none of them is used to change the
/// content.
#[derive(Debug)]
pub struct File(std::fs::File);

impl Deref for File {
    type Target = std::fs::File;

    fn deref(&self) -> &std::fs::File {
        &self.0
    }
}

impl File {
    /// Fills `octets` with the content from `offset` on.
    ///
    /// # Errors
    /// The system's; the file is shorter than that.
    pub fn read_exact_at(&self, octets: &mut [u8], offset: u64) -> io::Result<()> {
        run(&Operation::Read, || self.0.read_exact_at(octets, offset))
    }

    /// Writes `octets` from `offset` on. After a failure, some of them may have been written.
    ///
    /// # Errors
    /// The system's.
    pub fn write_all_at(&self, octets: &[u8], offset: u64) -> io::Result<()> {
        run(&Operation::Write(&self.0, octets, offset), || self.0.write_all_at(octets, offset))
    }

    /// Truncates the file to `octets`, or extends it with zeros.
    ///
    /// # Errors
    /// The system's.
    pub fn set_len(&self, octets: u64) -> io::Result<()> {
        run(&Operation::SetLen(&self.0, octets), || self.0.set_len(octets))
    }

    /// Makes the file `octets` long and allocates its blocks, if the file system supports that.
    ///
    /// # Errors
    /// The system's, above all a full disk.
    pub fn allocate(&self, octets: u64) -> io::Result<()> {
        run(&Operation::SetLen(&self.0, octets), || {
            match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, octets) {
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.0.set_len(octets),
                allocated => Ok(allocated?),
            }
        })
    }

    /// Writes the file's data to the disk. After a failure, data that was not on the disk may be
    /// lost although it can still be read, and a later successful call does not report it.
    ///
    /// # Errors
    /// The system's.
    pub fn sync_data(&self) -> io::Result<()> {
        run(&Operation::Sync(&self.0), || if is_real() { self.0.sync_data() } else { Ok(()) })
    }

    /// A file that was opened otherwise.
    pub fn from_inner(file: std::fs::File) -> Self {
        File(file)
    }

    /// The system's file.
    pub fn into_inner(self) -> std::fs::File {
        self.0
    }
}

/// Returns the id of this boot of the machine; empty if the system does not provide it.
pub fn boot_id() -> String {
    #[cfg(feature = "faults")]
    if let Some(boot) = faults::boot_id() {
        return boot;
    }
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

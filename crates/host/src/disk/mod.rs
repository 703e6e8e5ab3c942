//! Files that must outlive a crash, and files in places where others write too: every operation on
//! them goes through here. They are reached from the descriptor of their [`Folder`], follow no
//! link, and never wait; paths are only what a user or the configuration names ([`open_named`],
//! [`read_named`]).
//!
//! A test can let each operation fail, be torn, or be lost when the power goes (module `faults`),
//! and have somebody else rename and link before each system call (module `step`); both with the
//! feature `faults`. Without it these are the system's calls and nothing else.
//!
//! Never retries, and never hides what the system says.

mod beneath;
#[cfg(feature = "faults")]
pub mod faults;
mod folder;
mod foreign;
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
pub use self::foreign::{Foreign, OpenError, Writers};
pub use self::named::{open_named, open_named_file, read_named};

#[cfg(feature = "faults")]
use self::{
    faults::{is_real, run},
    step::step,
};

/// How often something else may take a file's place while it is opened.
pub const RACES_MAX: usize = 16;

/// A name in a folder.
#[cfg_attr(not(feature = "faults"), expect(dead_code, reason = "only tests look at it"))]
#[derive(Clone, Copy, Debug)]
struct At<'a> {
    folder: &'a Path,
    name: &'a OsStr,
}

/// An operation, as whoever lets it fail sees it.
#[cfg_attr(not(feature = "faults"), expect(dead_code, reason = "only tests look at it"))]
#[derive(Debug)]
enum Operation<'a> {
    /// Makes a file.
    Create(At<'a>),
    MakeFolder(At<'a>),
    Read,
    Write(&'a std::fs::File, &'a [u8], u64),
    SetLen(&'a std::fs::File, u64),
    Sync(&'a std::fs::File),
    SyncFolder(&'a Path),
    Rename(At<'a>, At<'a>),
    Remove(At<'a>),
}

/// What a test does before a system call.
#[cfg(not(feature = "faults"))]
#[inline(always)]
const fn step(_: &'static str) {}

/// Whether what is synchronised has to be on a disk; one that is simulated knows it without.
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

/// An open file. What it does not have itself is [`std::fs::File`]'s; nothing of that changes what
/// is in the file.
#[derive(Debug)]
pub struct File(std::fs::File);

impl Deref for File {
    type Target = std::fs::File;

    fn deref(&self) -> &std::fs::File {
        &self.0
    }
}

impl File {
    /// Fills `octets` with what lies from `offset` on.
    ///
    /// # Errors
    /// The system's; the file is shorter than that.
    pub fn read_exact_at(&self, octets: &mut [u8], offset: u64) -> io::Result<()> {
        run(&Operation::Read, || self.0.read_exact_at(octets, offset))
    }

    /// Writes `octets` from `offset` on. Where it fails some of them may have been written.
    ///
    /// # Errors
    /// The system's.
    pub fn write_all_at(&self, octets: &[u8], offset: u64) -> io::Result<()> {
        run(&Operation::Write(&self.0, octets, offset), || self.0.write_all_at(octets, offset))
    }

    /// Cuts the file off at `octets`, or extends it by zeros.
    ///
    /// # Errors
    /// The system's.
    pub fn set_len(&self, octets: u64) -> io::Result<()> {
        run(&Operation::SetLen(&self.0, octets), || self.0.set_len(octets))
    }

    /// Makes the file `octets` long and takes the room for them, as far as the file system knows
    /// how.
    ///
    /// # Errors
    /// The system's: above all that there is no room.
    pub fn allocate(&self, octets: u64) -> io::Result<()> {
        run(&Operation::SetLen(&self.0, octets), || {
            match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, octets) {
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.0.set_len(octets),
                allocated => Ok(allocated?),
            }
        })
    }

    /// Puts what was written on the disk. Where it fails, what was not on the disk before may be
    /// lost although it can still be read: no later call that succeeds says anything of that.
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

/// What tells this boot of the machine from others; empty if the system does not say.
pub fn boot_id() -> String {
    #[cfg(feature = "faults")]
    if let Some(boot) = faults::boot_id() {
        return boot;
    }
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

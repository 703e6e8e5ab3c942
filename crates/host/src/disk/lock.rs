//! The lock of a folder that one process at a time may use.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

/// An exclusive lock on a file, held until dropped by the process that took it.
///
/// The kernel frees such a lock when the last copy of its descriptor is closed, and every process
/// that was forked meanwhile has a copy until it starts its program. The lock is therefore released
/// explicitly, and only by the process that took it: a child that drops its copy must not release
/// the parent's lock.
#[derive(Debug)]
pub struct Lock {
    file: File,
    process: Pid,
}

impl Lock {
    /// Takes the lock; `None` while another descriptor holds it.
    ///
    /// # Errors
    /// The system's.
    pub fn take(file: File) -> io::Result<Option<Self>> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { file, process: getpid() })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if getpid() == self.process {
            // If it fails, closing the file frees the lock nevertheless.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_lock_is_free_despite_forks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let take = || Lock::take(File::options().create(true).append(true).open(&path).unwrap()).unwrap();
        let held = take().unwrap();
        let inherited = held.file.try_clone().unwrap();
        assert!(take().is_none());
        drop(held);
        assert!(take().is_some());
        drop(inherited);
    }

    #[test]
    fn a_forked_copy_leaves_the_lock_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let take = || Lock::take(File::options().create(true).append(true).open(&path).unwrap()).unwrap();
        let held = take().unwrap();
        let parent = rustix::process::getppid().unwrap();
        drop(Lock { file: held.file.try_clone().unwrap(), process: parent });
        assert!(take().is_none());
    }
}

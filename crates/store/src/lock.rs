//! The lock of a store's folder: nobody else opens a store that is open.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

/// An exclusive lock on a file, held until dropped by the process that took it.
///
/// The kernel frees such a lock when the last copy of its descriptor is closed, and every process
/// that was forked meanwhile has one until it starts its program. So it is released explicitly, and
/// only by who took it: a child that drops its copy leaves the parent's alone.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    process: Pid,
}

impl Lock {
    /// Takes the lock, or gives `None` when somebody else has it.
    pub(crate) fn take(file: File) -> io::Result<Option<Self>> {
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
            // Should it fail, closing the file frees the lock all the same.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_free_once_dropped_although_a_forked_process_has_its_descriptor_still() {
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
    fn a_forked_process_that_drops_its_copy_leaves_the_lock_with_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let take = || Lock::take(File::options().create(true).append(true).open(&path).unwrap()).unwrap();
        let held = take().unwrap();
        let parent = rustix::process::getppid().unwrap();
        drop(Lock { file: held.file.try_clone().unwrap(), process: parent });
        assert!(take().is_none());
    }
}

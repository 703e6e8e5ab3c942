//! Where the octets of a segment are: in a file of its own, or in a region of a device.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use namely_host::disk::File;
use parking_lot::Mutex;

/// Regions of a device that no segment has.
pub(crate) type Free = Arc<Mutex<VecDeque<usize>>>;

/// A region of a device, for one segment at a time. It is free again once it is dropped: while
/// somebody reads from a segment that was thrown away nothing else is written there.
#[derive(Debug)]
pub(crate) struct Region {
    /// Which of the device's.
    pub(crate) at: usize,
    /// What tells its segment from all that were there before.
    pub(crate) salt: u64,
    free: Free,
}

impl Region {
    /// A free one, if there is any, for a segment with this salt.
    pub(crate) fn take(free: &Free, salt: u64) -> Option<Self> {
        let at = free.lock().pop_front()?;
        Some(Region { at, salt, free: free.clone() })
    }

    /// One that has a segment already.
    pub(crate) fn of_segment(free: &Free, at: usize, salt: u64) -> Self {
        Region { at, salt, free: free.clone() }
    }
}

/// A segment that is there, and was not looked at yet.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    /// Of a device.
    pub(crate) region: Option<Region>,
}

impl Drop for Region {
    fn drop(&mut self) {
        self.free.lock().push_back(self.at);
    }
}

/// The place of a segment's octets.
#[derive(Debug)]
pub(crate) struct Extent {
    file: Arc<File>,
    /// Where it begins in the file.
    start: u64,
    region: Option<Region>,
}

impl From<File> for Extent {
    fn from(file: File) -> Self {
        Extent { file: Arc::new(file), start: 0, region: None }
    }
}

impl Extent {
    /// A region of a device, which begins at `start`.
    pub(crate) fn of_region(device: &Arc<File>, start: u64, region: Region) -> Self {
        Extent { file: device.clone(), start, region: Some(region) }
    }

    pub(crate) fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    /// What goes into the checks of its records beside the key.
    pub(crate) fn salt(&self) -> Option<u64> {
        self.region.as_ref().map(|region| region.salt)
    }

    /// Where an offset of the segment is in what [`AsRawFd`] names.
    pub(crate) fn position(&self, offset: u64) -> u64 {
        self.start + offset
    }

    pub(crate) fn read_exact_at(&self, octets: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(octets, self.position(offset))
    }

    pub(crate) fn write_all_at(&self, octets: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(octets, self.position(offset))
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives back what lies behind; a region keeps its room.
    pub(crate) fn cut_off(&self, octets: u64) -> io::Result<()> {
        if self.region.is_some() { Ok(()) } else { self.file.set_len(octets) }
    }
}

impl AsRawFd for Extent {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

//! The location of a segment's octets: a file of its own, or a region of a device.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use namely_host::disk::File;
use parking_lot::Mutex;

/// Regions of a device without a segment.
pub(crate) type Free = Arc<Mutex<VecDeque<usize>>>;

/// A region of a device, for one segment at a time. Dropping it frees the region, so nothing
/// overwrites an evicted segment that a reader still has open.
#[derive(Debug)]
pub(crate) struct Region {
    /// The region's index on the device.
    pub(crate) at: usize,
    /// Distinguishes its segment from all earlier segments of the region.
    pub(crate) salt: u64,
    free: Free,
}

impl Region {
    /// Takes a free region, if there is one, for a segment with this salt.
    pub(crate) fn take(free: &Free, salt: u64) -> Option<Self> {
        let at = free.lock().pop_front()?;
        Some(Region { at, salt, free: free.clone() })
    }

    /// The region of an existing segment.
    pub(crate) fn of_segment(free: &Free, at: usize, salt: u64) -> Self {
        Region { at, salt, free: free.clone() }
    }
}

/// A segment that exists and was not examined yet.
#[derive(Debug)]
pub(crate) struct FoundSegment {
    pub(crate) number: u64,
    /// Its region, on a device.
    pub(crate) region: Option<Region>,
}

impl Drop for Region {
    fn drop(&mut self) {
        self.free.lock().push_back(self.at);
    }
}

/// The location of a segment's octets.
#[derive(Debug)]
pub(crate) struct Extent {
    file: Arc<File>,
    /// Start of the segment in the file.
    start: u64,
    region: Option<Region>,
}

impl From<File> for Extent {
    fn from(file: File) -> Self {
        Extent { file: Arc::new(file), start: 0, region: None }
    }
}

impl Extent {
    /// The extent of a region of a device, at `start`.
    pub(crate) fn of_region(device: &Arc<File>, start: u64, region: Region) -> Self {
        Extent { file: device.clone(), start, region: Some(region) }
    }

    pub(crate) fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    /// Returns the input to the checks of the segment's records, in addition to the key.
    pub(crate) fn salt(&self) -> Option<u64> {
        self.region.as_ref().map(|region| region.salt)
    }

    /// Translates an offset in the segment to a position in the file that [`AsRawFd`] names.
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

    /// Truncates the file to `octets`. A region keeps its size.
    pub(crate) fn cut_off(&self, octets: u64) -> io::Result<()> {
        if self.region.is_some() { Ok(()) } else { self.file.set_len(octets) }
    }
}

impl AsRawFd for Extent {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

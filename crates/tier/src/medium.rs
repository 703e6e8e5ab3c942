//! The medium of a tier: a folder of files, or a device ([`device`](super::device)). Both hold
//! segments, an index for each sealed segment, a key, and the list of erasures.

use std::io;
use std::path::{Path, PathBuf};

use namely_host::disk::{self, File, OpenError, Writers, open_named};
use rustix::fs::{FileType, OFlags};

use super::above::PrefixEntry;
use super::buffer::Buffer;
use super::device::Device;
use super::error::TierError;
use super::extent::{Extent, FoundSegment};
use super::folder;
use super::limits::{BLOCK_OCTETS, ERASED_OCTETS_MAX, OCTETS_MAX, OCTETS_MIN};
use super::options::Options;
use super::place::{SEGMENT_OCTETS_MAX, SEGMENTS_MAX};
use super::record::Key;
use super::sealing::{self, SegmentIndex};
use super::segment::{IndexRecord, Kind, Segment, index_name, kind, open_file, remove_files, segment_name};
use namely_host::disk::Lock;

/// The medium of a tier.
#[derive(Debug)]
pub(crate) enum Medium {
    Folder(Folder),
    Device(Device),
}

/// A folder with a file for each segment.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: disk::Folder,
    writers: Writers,
    segment_octets: u64,
    direct: bool,
}

/// Returns whether `path` is a device, or a regular file in place of one.
pub fn is_device(path: &Path) -> bool {
    // O_PATH does not open the device itself; opening a device may have effects.
    let found = open_named(path, OFlags::PATH).ok().and_then(|file| rustix::fs::fstat(file).ok());
    let kind = found.map(|found| FileType::from_raw_mode(found.st_mode));
    matches!(kind, Some(FileType::BlockDevice | FileType::RegularFile))
}

impl Medium {
    /// Takes the medium at `path` and its key, for as long as the lock is held. Makes a folder if
    /// the path does not exist.
    pub(crate) fn take(path: &Path, options: &Options) -> Result<(Self, Key, Lock), TierError> {
        if is_device(path) {
            let (device, key, lock) = Device::take(path, options)?;
            return Ok((Medium::Device(device), key, lock));
        }
        let writers = Writers::this_user().and_group(options.group);
        let (folder, lock) = folder::take_folder(path, writers)?;
        let key = folder::key(&folder, writers)?;
        let (segment_octets, direct) = (options.segment_octets(), options.direct);
        Ok((Medium::Folder(Folder { folder, writers, segment_octets, direct }), key, lock))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Medium::Folder(folder) => folder.folder.path(),
            Medium::Device(device) => device.path(),
        }
    }

    /// Octets of a new segment.
    pub(crate) fn segment_octets(&self) -> u64 {
        match self {
            Medium::Folder(folder) => folder.segment_octets,
            Medium::Device(device) => device.segment_octets(),
        }
    }

    /// Maximum number of segments.
    pub(crate) fn segments_max(&self) -> usize {
        let most = SEGMENTS_MAX - 1;
        match self {
            Medium::Folder(_) => most,
            Medium::Device(device) => most.min(device.segments_max()),
        }
    }

    /// Returns the budget nearest to `octets`: at least four segments, and at most the size of the
    /// medium.
    pub(crate) fn budget(&self, octets: u64) -> u64 {
        let least = OCTETS_MIN.max(4 * self.segment_octets());
        let most = match self {
            Medium::Folder(_) => OCTETS_MAX,
            Medium::Device(_) => self.segments_max() as u64 * self.segment_octets(),
        };
        // Not `clamp`, which panics if a small device has less than the minimum.
        octets.min(most).max(least)
    }

    /// Returns the existing segments, oldest first.
    pub(crate) fn found(&self, key: &Key) -> Result<Vec<FoundSegment>, TierError> {
        match self {
            Medium::Folder(folder) => {
                let fault = |error| TierError::new(folder.folder.path(), error);
                let numbers = folder::numbers(&folder.folder).map_err(fault)?;
                Ok(numbers.into_iter().map(|number| FoundSegment { number, region: None }).collect())
            }
            Medium::Device(device) => device.found(key),
        }
    }

    /// Opens a found segment. Removes an incomplete segment and returns none for it.
    pub(crate) fn open(
        &self,
        found: FoundSegment,
        slot: usize,
        key: &Key,
    ) -> Result<Option<Segment>, TierError> {
        let FoundSegment { number, region } = found;
        let folder = match self {
            Medium::Folder(folder) => folder,
            Medium::Device(device) => return Ok(region.map(|region| device.segment(number, slot, region))),
        };
        let name = segment_name(number);
        let path = folder.folder.path().join(&name);
        let fault = |error| TierError::new(&path, error);
        let file = open_file(&folder.folder, &name, folder.direct, folder.writers);
        let file = file.map_err(|error| TierError::of(&path, error))?;
        let Some(file) = file else { return Ok(None) };
        let octets = file.metadata().map_err(fault)?.len();
        match kind_of(&file, number, octets, key).map_err(fault)? {
            Kind::Other => Err(TierError::Version(path)),
            Kind::Broken => remove_files(&folder.folder, number).map(|()| None).map_err(fault),
            Kind::Segment => Ok(Some(Segment::new(number, slot, file.into(), octets, true))),
        }
    }

    /// Makes segment `number` durably. Returns none if there is no room because a reader still has
    /// an evicted segment open.
    pub(crate) fn create(&self, number: u64, slot: usize, key: &Key) -> io::Result<Option<Segment>> {
        let folder = match self {
            Medium::Folder(folder) => folder,
            Medium::Device(device) => return device.create(number, slot, key),
        };
        let octets = folder.segment_octets;
        let made = Segment::create(&folder.folder, number, slot, octets, folder.direct, key);
        // Synchronize the folder: records in the segment survive a crash only if its name does.
        made.and_then(|segment| folder.folder.sync().map(|()| Some(segment)))
            .inspect_err(|_| drop(remove_files(&folder.folder, number)))
    }

    /// Removes a segment. Its index is removed first.
    pub(crate) fn remove(&self, segment: &Segment) -> io::Result<()> {
        match self {
            Medium::Folder(folder) => remove_files(&folder.folder, segment.number),
            Medium::Device(device) => device.remove(segment),
        }
    }

    /// Writes the index of a segment of which `octets` are in use. The index is sound or counts as
    /// missing. Returns false if it does not fit.
    pub(crate) fn write_index(
        &self,
        key: &Key,
        segment: &Segment,
        octets: u64,
        records: &[IndexRecord],
        heads: &[PrefixEntry],
    ) -> io::Result<bool> {
        let salt = segment.extent.salt();
        let index = sealing::encode(key, segment.number, octets, salt, records, heads);
        match self {
            Medium::Folder(folder) => {
                sealing::write_index(&folder.folder, segment.number, &index).map(|()| true)
            }
            Medium::Device(device) => device.write_index(segment, &index),
        }
    }

    /// Reads the index of a segment; none if it is missing, damaged, or of another segment.
    pub(crate) fn read_index(&self, key: &Key, segment: &Segment, base_ms: u64) -> Option<SegmentIndex> {
        let index = match self {
            Medium::Folder(folder) => sealing::read_index(&folder.folder, segment.number, folder.writers)?,
            Medium::Device(device) => device.read_index(segment)?,
        };
        let sealed = sealing::decode(key, &index, segment, base_ms)?;
        // A sealed file was cut off at the octets in use, so it has as many octets as its index
        // states.
        let is_whole = matches!(self, Medium::Device(_)) || sealed.octets == segment.end();
        is_whole.then_some(sealed)
    }

    /// Removes an index that may be mistaken for a sound one.
    pub(crate) fn forget_index(&self, segment: &Segment) {
        if let Medium::Folder(folder) = self {
            // Ignored: the digest and the length show whether it is sound.
            let _ = folder.folder.remove_if_there(index_name(segment.number));
        }
    }

    /// Makes the creation and removal of indexes durable.
    pub(crate) fn sync_indexes(&self) -> io::Result<()> {
        match self {
            Medium::Folder(folder) => folder.folder.sync(),
            Medium::Device(device) => device.sync(),
        }
    }

    /// Writes the list of erasures: whole, or not at all.
    pub(crate) fn save_erased(&self, key: &Key, octets: &[u8]) -> io::Result<()> {
        let folder = match self {
            Medium::Folder(folder) => folder,
            Medium::Device(device) => return device.save_erased(key, octets),
        };
        folder.folder.replace("erased", "erased.new", octets)?;
        folder.folder.sync()
    }

    /// Reads the list of erasures that was written last.
    pub(crate) fn load_erased(&self, key: &Key) -> Option<Vec<u8>> {
        match self {
            Medium::Folder(folder) => erased_of(&folder.folder, folder.writers),
            Medium::Device(device) => device.load_erased(key),
        }
    }

    /// The path to report when a segment cannot be written.
    pub(crate) fn path_of(&self, number: u64) -> PathBuf {
        match self {
            Medium::Folder(folder) => folder.folder.path().join(segment_name(number)),
            Medium::Device(device) => device.path().to_owned(),
        }
    }
}

fn kind_of(file: &File, number: u64, octets: u64, key: &Key) -> io::Result<Kind> {
    let is_possible = (BLOCK_OCTETS..=SEGMENT_OCTETS_MAX).contains(&octets);
    if !is_possible || !octets.is_multiple_of(BLOCK_OCTETS) {
        return Ok(Kind::Broken);
    }
    let mut block = Buffer::new(BLOCK_OCTETS as usize);
    file.read_exact_at(&mut block, 0)?;
    Ok(kind(&block, number, key))
}

/// Reads the list of erasures of a folder.
pub(crate) fn erased_of(folder: &disk::Folder, writers: Writers) -> Option<Vec<u8>> {
    folder.read("erased", ERASED_OCTETS_MAX as u64 + 4096, writers).ok()?
}

/// Opens a segment for reading, even while another process has the tier open. Returns its octets,
/// too.
pub(crate) fn of_folder(
    folder: &disk::Folder,
    number: u64,
    key: &Key,
    writers: Writers,
) -> Result<Option<(Extent, u64)>, OpenError> {
    let file = folder.open_file(segment_name(number), OFlags::RDONLY, writers)?;
    let Some(file) = file else { return Ok(None) };
    let octets = file.metadata()?.len() / BLOCK_OCTETS * BLOCK_OCTETS;
    let is_one = octets > 0 && kind_of(&file, number, octets, key)? == Kind::Segment;
    Ok(is_one.then(|| (file.into(), octets)))
}

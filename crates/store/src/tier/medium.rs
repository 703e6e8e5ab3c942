//! What a tier lies on: a folder of files, or a device ([`device`](super::device)). Both have
//! segments, an index for each that is sealed, a key, and what is being erased.

use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use namely_host::disk::{self, File};
use rustix::fs::OFlags;

use super::above::Head;
use super::buffer::Buffer;
use super::device::Device;
use super::error::TierError;
use super::extent::{Extent, Region};
use super::options::{BLOCK_OCTETS, OCTETS_MAX, OCTETS_MIN, Options};
use super::place::{SEGMENT_OCTETS_MAX, SEGMENTS_MAX};
use super::record::Key;
use super::recovery;
use super::sealing::{self, Sealed};
use super::segment::{Kind, Recorded, Segment, kind, open_file, remove_files, segment_path};
use crate::lock::Lock;

/// What a tier lies on.
#[derive(Debug)]
pub(crate) enum Medium {
    Folder(Folder),
    Device(Device),
}

/// A folder with a file for each segment.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    segment_octets: u64,
    direct: bool,
}

/// A segment that is there, and was not looked at yet.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    /// Of a device.
    pub(crate) region: Option<Region>,
}

/// Whether what is at `path` is a device, or a file that stands for one.
pub fn is_device(path: &Path) -> bool {
    let is_one = |kind: FileType| kind.is_block_device() || kind.is_file();
    std::fs::metadata(path).is_ok_and(|found| is_one(found.file_type()))
}

impl Medium {
    /// Takes what is at `path`, with its key, for as long as the lock is held; makes a folder if
    /// nothing is there.
    pub(crate) fn take(path: &Path, options: &Options) -> Result<(Self, Key, Lock), TierError> {
        if is_device(path) {
            let (device, key, lock) = Device::take(path, options.direct)?;
            return Ok((Medium::Device(device), key, lock));
        }
        let lock = recovery::take_folder(path)?;
        let key = recovery::key(path)?;
        let segment_octets = options.segment_octets();
        let (path, direct) = (path.to_owned(), options.direct);
        Ok((Medium::Folder(Folder { path, segment_octets, direct }), key, lock))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Medium::Folder(folder) => &folder.path,
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
        let others = SEGMENTS_MAX - 1;
        match self {
            Medium::Folder(_) => others,
            Medium::Device(device) => others.min(device.segments_max()),
        }
    }

    /// The budget that is nearest to `octets`: at least four segments, and no more than there are.
    pub(crate) fn budget(&self, octets: u64) -> u64 {
        let least = OCTETS_MIN.max(4 * self.segment_octets());
        let most = match self {
            Medium::Folder(_) => OCTETS_MAX,
            Medium::Device(_) => self.segments_max() as u64 * self.segment_octets(),
        };
        octets.min(most).max(least)
    }

    /// Segments that are there, the oldest first.
    pub(crate) fn found(&self, key: &Key) -> Result<Vec<Found>, TierError> {
        match self {
            Medium::Folder(folder) => {
                let fault = |error| TierError::new(&folder.path, error);
                let numbers = recovery::numbers(&folder.path).map_err(fault)?;
                Ok(numbers.into_iter().map(|number| Found { number, region: None }).collect())
            }
            Medium::Device(device) => device.found(key),
        }
    }

    /// Opens a segment that was found; none if it is not whole: then it is gone.
    pub(crate) fn open(&self, found: Found, slot: usize, key: &Key) -> Result<Option<Segment>, TierError> {
        let Found { number, region } = found;
        let folder = match self {
            Medium::Folder(folder) => folder,
            Medium::Device(device) => return Ok(region.map(|region| device.segment(number, slot, region))),
        };
        let path = segment_path(&folder.path, number);
        let fault = |error| TierError::new(&path, error);
        let file = open_file(&path, OFlags::empty(), folder.direct).map_err(fault)?;
        let octets = file.metadata().map_err(fault)?.len();
        match kind_of(&file, (number, octets), key).map_err(fault)? {
            Kind::Other => Err(TierError::Version(path)),
            Kind::Broken => remove_files(&folder.path, number).map(|()| None).map_err(fault),
            Kind::Segment => Ok(Some(Segment::new(number, slot, file.into(), octets, true))),
        }
    }

    /// Makes segment `number`, which is there from then on; none while there is no room because
    /// somebody still reads from one that was thrown away.
    pub(crate) fn create(&self, number: u64, slot: usize, key: &Key) -> io::Result<Option<Segment>> {
        let folder = match self {
            Medium::Folder(folder) => folder,
            Medium::Device(device) => return device.create(number, slot, key),
        };
        let octets = folder.segment_octets;
        let made = Segment::create(&folder.path, (number, slot, octets), folder.direct, key);
        // What is written to it counts as there once its name is.
        made.and_then(|segment| disk::sync_folder(&folder.path).map(|()| Some(segment)))
            .inspect_err(|_| drop(remove_files(&folder.path, number)))
    }

    /// Removes a segment, and its index before it.
    pub(crate) fn remove(&self, segment: &Segment) -> io::Result<()> {
        match self {
            Medium::Folder(folder) => remove_files(&folder.path, segment.number),
            Medium::Device(device) => device.remove(segment),
        }
    }

    /// Writes the index of a segment of which `octets` count: whole, or not at all. Returns whether
    /// there was room for it.
    pub(crate) fn write_index(
        &self,
        key: &Key,
        (segment, octets): (&Segment, u64),
        contents: (&[Recorded], &[Head]),
    ) -> io::Result<bool> {
        let index = sealing::encode(key, (segment.number, octets, segment.extent.salt()), contents);
        match self {
            Medium::Folder(folder) => {
                sealing::write_index(&folder.path, segment.number, &index).map(|()| true)
            }
            Medium::Device(device) => device.write_index(segment, &index),
        }
    }

    /// What the index of a segment says; none if it is missing, damaged or of another one.
    pub(crate) fn read_index(&self, key: &Key, segment: &Segment, base_ms: u64) -> Option<Sealed> {
        let index = match self {
            Medium::Folder(folder) => sealing::read_index(&folder.path, segment.number)?,
            Medium::Device(device) => device.read_index(segment)?,
        };
        let sealed = sealing::decode(key, &index, segment, base_ms)?;
        // A file has been cut off at what counts.
        let is_whole = matches!(self, Medium::Device(_)) || sealed.octets == segment.octets;
        is_whole.then_some(sealed)
    }

    /// No index that cannot be told from a sound one stays.
    pub(crate) fn forget_index(&self, segment: &Segment) {
        if let Medium::Folder(folder) = self {
            let _ = disk::remove_if_there(&super::segment::index_path(&folder.path, segment.number));
        }
    }

    /// Puts on the disk which indexes there are.
    pub(crate) fn sync_indexes(&self) -> io::Result<()> {
        match self {
            Medium::Folder(folder) => disk::sync_folder(&folder.path),
            Medium::Device(device) => device.sync(),
        }
    }

    /// Writes what is being erased: whole, or not at all.
    pub(crate) fn save_erased(&self, key: &Key, octets: &[u8]) -> io::Result<()> {
        let folder = match self {
            Medium::Folder(folder) => folder,
            Medium::Device(device) => return device.save_erased(key, octets),
        };
        let path = folder.path.join("erased");
        let temporary = path.with_extension("new");
        sealing::write_file(&temporary, octets)?;
        disk::rename(&temporary, &path)?;
        disk::sync_folder(&folder.path)
    }

    /// What was being erased, as it was written last.
    pub(crate) fn load_erased(&self, key: &Key) -> Option<Vec<u8>> {
        match self {
            Medium::Folder(folder) => std::fs::read(folder.path.join("erased")).ok(),
            Medium::Device(device) => device.load_erased(key),
        }
    }

    /// What to name when a segment cannot be written.
    pub(crate) fn path_of(&self, number: u64) -> PathBuf {
        match self {
            Medium::Folder(folder) => segment_path(&folder.path, number),
            Medium::Device(device) => device.path().to_owned(),
        }
    }
}

fn kind_of(file: &File, (number, octets): (u64, u64), key: &Key) -> io::Result<Kind> {
    let is_possible = (BLOCK_OCTETS..=SEGMENT_OCTETS_MAX).contains(&octets);
    if !is_possible || !octets.is_multiple_of(BLOCK_OCTETS) {
        return Ok(Kind::Broken);
    }
    let mut block = Buffer::new(BLOCK_OCTETS as usize);
    file.read_exact_at(&mut block, 0)?;
    Ok(kind(&block, number, key))
}

/// A segment's octets, to be read beside whoever has the tier.
pub(crate) fn of_folder(folder: &Path, number: u64, key: &Key) -> io::Result<Option<(Extent, u64)>> {
    let file = File::open(&segment_path(folder, number), OFlags::RDONLY, 0)?;
    let octets = file.metadata()?.len() / BLOCK_OCTETS * BLOCK_OCTETS;
    let is_one = octets > 0 && kind_of(&file, (number, octets), key)? == Kind::Segment;
    Ok(is_one.then(|| (file.into(), octets)))
}

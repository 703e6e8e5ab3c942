//! A tier on a device without a file system, or on a file that stands for one. Its octets are drawn
//! in the module's documentation.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_host::disk::{File, OpenError, Writers, open_named};
use rustix::fs::{FileType, OFlags, SeekFrom, Stat, fcntl_setfl, fstat};
use rustix::io::Errno;

use super::buffer::Buffer;
use super::error::TierError;
use super::extent::{Extent, Found, Free, Region};
use super::limits::{BLOCK_OCTETS, DEVICE_OCTETS_MIN, ERASED_OCTETS_MAX, OCTETS_MAX};
use super::options::Options;
use super::place::{SEGMENT_OCTETS_MAX, SEGMENTS_MAX};
use super::record::Key;
use super::segment::Segment;
use crate::lock::Lock;

const MAGIC: &[u8; 16] = b"namely-device-01";
/// What the superblocks of all versions begin with.
const FAMILY: &[u8] = b"namely-device-";
const REGION_MAGIC: &[u8; 16] = b"namely-region-01";
const SUPERBLOCK_OCTETS: usize = 108;
const DIGEST_OCTETS: usize = 32;

/// What is being erased lies here, twice: the one with the higher number counts.
const ERASED_AT: u64 = BLOCK_OCTETS;
/// Before it: its number, its length; behind it a digest.
const ERASED_HEADER_OCTETS: usize = 12;
const ERASED_OCTETS: u64 =
    ((ERASED_HEADER_OCTETS + ERASED_OCTETS_MAX + DIGEST_OCTETS) as u64).next_multiple_of(BLOCK_OCTETS);
const REGIONS_AT: u64 = ERASED_AT + 2 * ERASED_OCTETS;

/// Of a region so much is for the index of its segment: enough for records of a kilobyte. Where
/// they are shorter, a segment may have none and is read whole when the tier is opened.
const INDEX_PART: u64 = 16;

/// File systems, tables of partitions and the like have something in the first or the last of so
/// many octets.
const PROBED_OCTETS: u64 = 1 << 20;

/// What the superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Octets of the device when it was given to the cache.
    octets: u64,
    segment_octets: u64,
    index_octets: u64,
    regions: u32,
}

impl Layout {
    fn new(octets: u64) -> Self {
        let room = octets - REGIONS_AT;
        Self::with_segments(octets, Options::new(room.min(OCTETS_MAX)).segment_octets())
    }

    fn with_segments(octets: u64, segment_octets: u64) -> Self {
        let index_octets = (segment_octets / INDEX_PART).next_multiple_of(BLOCK_OCTETS);
        let regions = (octets - REGIONS_AT) / (segment_octets + index_octets);
        Layout { octets, segment_octets, index_octets, regions: regions.min(SEGMENTS_MAX as u64) as u32 }
    }

    /// Whether a device can be so.
    fn is_sound(&self) -> bool {
        let is_blocks = |octets: u64| octets > 0 && octets.is_multiple_of(BLOCK_OCTETS);
        is_blocks(self.segment_octets)
            && is_blocks(self.index_octets)
            && self.segment_octets <= SEGMENT_OCTETS_MAX
            && self.index_octets <= self.segment_octets
            && (6..=SEGMENTS_MAX as u32).contains(&self.regions)
            && self.region_at(self.regions as usize) <= self.octets
    }

    /// Where a region begins: its segment, and then the segment's index.
    fn region_at(&self, at: usize) -> u64 {
        REGIONS_AT + at as u64 * (self.segment_octets + self.index_octets)
    }

    fn encode(&self, key: &[u8; 32]) -> Buffer {
        let mut block = Buffer::new(BLOCK_OCTETS as usize);
        block[..16].copy_from_slice(MAGIC);
        block[16..24].copy_from_slice(&self.octets.to_le_bytes());
        block[24..32].copy_from_slice(&self.segment_octets.to_le_bytes());
        block[32..40].copy_from_slice(&self.index_octets.to_le_bytes());
        block[40..44].copy_from_slice(&self.regions.to_le_bytes());
        block[44..76].copy_from_slice(key);
        let digest = blake3::hash(&block[..76]);
        block[76..SUPERBLOCK_OCTETS].copy_from_slice(digest.as_bytes());
        block
    }

    fn decode(block: &[u8]) -> Option<(Self, Key)> {
        let (body, digest) = block.get(..SUPERBLOCK_OCTETS)?.split_at(76);
        if !body.starts_with(MAGIC) || blake3::hash(body).as_bytes() != digest {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(*body[at..].first_chunk()?));
        let layout = Layout {
            octets: number(16)?,
            segment_octets: number(24)?,
            index_octets: number(32)?,
            regions: u32::from_le_bytes(*body[40..].first_chunk()?),
        };
        let key = Key::new(body[44..].first_chunk()?);
        layout.is_sound().then_some((layout, key))
    }
}

/// A device that is open.
#[derive(Debug)]
pub(crate) struct Device {
    path: PathBuf,
    file: Arc<File>,
    layout: Layout,
    free: Free,
    /// The number of what is being erased, as it was written last.
    erased: AtomicU64,
}

/// What a device holds.
#[derive(Debug)]
enum Holds {
    Cache(Layout, Key),
    /// Nothing, or a superblock that was not written whole.
    Nothing,
    /// A cache of another version.
    OtherVersion,
    /// A superblock that is damaged, or of a device that was larger.
    Damaged,
    Other(&'static str),
}

/// Gives a device to a cache: what it holds is lost. Unless `takes_all`, only one that holds
/// nothing, or a cache. Returns the octets that the cache has.
///
/// # Errors
/// [`TierError`]: it holds something else, is in use, too small, or cannot be written.
pub fn format(path: &Path, takes_all: bool) -> Result<u64, TierError> {
    if !super::medium::is_device(path) {
        return Err(TierError::NoDevice(path.to_owned()));
    }
    let (file, _lock) = open(path, true, None)?;
    let fault = |error| TierError::new(path, error);
    match holds(&file).map_err(fault)? {
        Holds::Other(what) if !takes_all => Err(TierError::Foreign { path: path.to_owned(), what }),
        _ => {
            let layout = initialise(path, &file, Layout::new)?.0;
            Ok(u64::from(layout.regions) * layout.segment_octets)
        }
    }
}

/// Writes a superblock with a new key: what was of a cache before counts no more.
fn initialise(path: &Path, file: &File, layout: impl Fn(u64) -> Layout) -> Result<(Layout, Key), TierError> {
    let fault = |error| TierError::new(path, error);
    let octets = octets_of(file).map_err(fault)?;
    if octets < DEVICE_OCTETS_MIN {
        return Err(TierError::Small { path: path.to_owned(), octets });
    }
    let layout = layout(octets);
    let key: [u8; 32] = namely_host::random().map_err(|error| fault(error.into()))?;
    file.write_all_at(&layout.encode(&key), 0).and_then(|()| file.sync_data()).map_err(fault)?;
    Ok((layout, Key::new(&key)))
}

/// The same with segments of a size that a test wants.
#[cfg(test)]
pub(crate) fn format_with_segments(path: &Path, segment_octets: u64) -> Result<(), TierError> {
    let (file, _lock) = open(path, true, None)?;
    initialise(path, &file, |octets| Layout::with_segments(octets, segment_octets)).map(drop)
}

/// Opens a device for this process alone: the kernel refuses one that is mounted, or that another
/// has opened so.
fn open(path: &Path, direct: bool, writers: Option<Writers>) -> Result<(File, Lock), TierError> {
    let fault = |error| TierError::new(path, error);
    let (_, found) = open_once(path, OFlags::RDONLY, writers)?;
    let is_block = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
    let alone = if is_block { OFlags::EXCL } else { OFlags::empty() };
    let (lock, locked) = open_once(path, OFlags::RDWR | alone, writers)?;
    let lock = Lock::take(lock.into_inner()).map_err(fault)?;
    let lock = lock.ok_or_else(|| TierError::Busy(path.to_owned()))?;
    let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let (file, opened) = match open_once(path, OFlags::RDWR | direct, writers) {
        // Its file system cannot: the page cache copes.
        Err(TierError::Io(_, error)) if is_invalid(&error) => open_once(path, OFlags::RDWR, writers)?,
        opened => opened?,
    };
    if (opened.st_dev, opened.st_ino) != (locked.st_dev, locked.st_ino) {
        return Err(TierError::Busy(path.to_owned()));
    }
    let file = match file.read_exact_at(&mut block(), 0) {
        // Its blocks are larger than ours.
        Err(error) if is_invalid(&error) => {
            fcntl_setfl(&*file, OFlags::empty()).map_err(|errno| fault(errno.into()))?;
            file
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(TierError::Small { path: path.to_owned(), octets: 0 });
        }
        read => read.map(|()| file).map_err(fault)?,
    };
    Ok((file, lock))
}

fn is_invalid(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::INVAL)
}

/// Opens the block device that the configuration names, or a file that stands for one and that
/// `writers` alone may write; without them, that its owner alone may. Never waits.
fn open_once(path: &Path, flags: OFlags, writers: Option<Writers>) -> Result<(File, Stat), TierError> {
    let fault = |errno: Errno| TierError::new(path, errno.into());
    let unwaiting = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match open_named(path, flags | unwaiting) {
        Err(OpenError::System(error)) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
            return Err(TierError::Busy(path.to_owned()));
        }
        opened => opened.map_err(|error| TierError::of(path, error))?,
    };
    let found = fstat(&file).map_err(fault)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::BlockDevice {
        let writers = writers.unwrap_or(Writers::user(found.st_uid));
        let shared = |foreign| TierError::Shared { path: path.to_owned(), foreign };
        writers.check_file(&found).map_err(shared)?;
    }
    fcntl_setfl(&file, flags & OFlags::DIRECT).map_err(fault)?;
    Ok((File::from_inner(file.into()), found))
}

fn block() -> Buffer {
    Buffer::new(BLOCK_OCTETS as usize)
}

/// Octets of a device, in whole blocks: its file has no length of its own.
fn octets_of(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::seek(&**file, SeekFrom::End(0))? / BLOCK_OCTETS * BLOCK_OCTETS)
}

fn holds(file: &File) -> io::Result<Holds> {
    let octets = octets_of(file)?;
    let probed = PROBED_OCTETS.min(octets);
    let mut first = Buffer::new(probed as usize);
    file.read_exact_at(&mut first, 0)?;
    if let Some((layout, key)) = Layout::decode(&first) {
        return Ok(if layout.octets <= octets { Holds::Cache(layout, key) } else { Holds::Damaged });
    }
    let mut last = Buffer::new(probed as usize);
    file.read_exact_at(&mut last, octets - probed)?;
    let is_zero = |octets: &[u8]| octets.iter().all(|octet| *octet == 0);
    let (start, rest) = first.split_at((BLOCK_OCTETS as usize).min(first.len()));
    let is_empty_else = is_zero(rest) && is_zero(&last[last.len().min(BLOCK_OCTETS as usize)..]);
    // Of a superblock that was being written a part may be there, and of one that is damaged all
    // but what says where the rest is.
    let known = start.iter().zip(MAGIC).take_while(|(is, of)| is == of).count();
    let own = if known == MAGIC.len() { SUPERBLOCK_OCTETS } else { known };
    Ok(match () {
        () if is_empty_else && is_zero(start.get(own..).unwrap_or_default()) => Holds::Nothing,
        () if start.starts_with(MAGIC) => Holds::Damaged,
        () if start.starts_with(FAMILY) => Holds::OtherVersion,
        () => Holds::Other(what_is_there(&first)),
    })
}

/// What begins so, as far as it is known by what it has at one place.
fn what_is_there(first: &[u8]) -> &'static str {
    const SIGNS: [(usize, &[u8], &str); 9] = [
        (0x438, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
        (0, b"XFSB", "an XFS file system"),
        (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
        (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
        (512, b"LABELONE", "a physical volume of LVM"),
        (512, b"EFI PART", "a table of partitions (GPT)"),
        (4086, b"SWAPSPACE2", "swap space"),
        (3, b"NTFS    ", "an NTFS file system"),
        (510, &[0x55, 0xaa], "a boot sector, or a table of partitions"),
    ];
    let has = |at: usize, sign: &[u8]| first.get(at..at + sign.len()) == Some(sign);
    SIGNS.iter().find(|(at, sign, _)| has(*at, sign)).map_or("something that is no cache", |(.., what)| what)
}

impl Device {
    /// Opens a device that holds a cache, or nothing yet.
    pub(crate) fn take(path: &Path, options: &Options) -> Result<(Self, Key, Lock), TierError> {
        let writers = Writers::this_user().and_group(options.group);
        let (file, lock) = open(path, options.direct, Some(writers))?;
        let (layout, key) = match holds(&file).map_err(|error| TierError::new(path, error))? {
            Holds::Nothing => initialise(path, &file, Layout::new)?,
            held => cache(path, held)?,
        };
        Ok((Device::new(path, file, layout), key, lock))
    }

    /// The same to read beside whoever has it.
    pub(crate) fn look(path: &Path) -> Result<(Self, Key), TierError> {
        let fault = |error| TierError::new(path, error);
        let file = open_once(path, OFlags::RDONLY, None)?.0;
        let (layout, key) = cache(path, holds(&file).map_err(fault)?)?;
        Ok((Device::new(path, file, layout), key))
    }

    fn new(path: &Path, file: File, layout: Layout) -> Self {
        let (path, file) = (path.to_owned(), Arc::new(file));
        Device { path, file, layout, free: Free::default(), erased: AtomicU64::new(0) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn segment_octets(&self) -> u64 {
        self.layout.segment_octets
    }

    /// One region is for the next segment while somebody reads from one that was thrown away.
    pub(crate) fn segments_max(&self) -> usize {
        self.layout.regions as usize - 1
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Segments that are there, the oldest first; all other regions are free.
    pub(crate) fn found(&self, key: &Key) -> Result<Vec<Found>, TierError> {
        let (mut found, mut block) = (Vec::new(), block());
        let mut free = Vec::new();
        for at in 0..self.layout.regions as usize {
            let read = self.file.read_exact_at(&mut block, self.layout.region_at(at));
            read.map_err(|error| TierError::new(&self.path, error))?;
            match read_header(&block, key) {
                Some((number, salt)) => {
                    let region = Region::of_segment(&self.free, at, salt);
                    found.push(Found { number, region: Some(region) });
                }
                None => free.push(at),
            }
        }
        self.free.lock().extend(free);
        found.sort_by_key(|found| found.number);
        Ok(found)
    }

    /// The segment in a region.
    pub(crate) fn segment(&self, number: u64, slot: usize, region: Region) -> Segment {
        let start = self.layout.region_at(region.at);
        let extent = Extent::of_region(&self.file, start, region);
        Segment::new(number, slot, extent, self.layout.segment_octets, true)
    }

    /// The octets of a segment, for who only reads.
    pub(crate) fn look_at(&self, region: &Region) -> (Extent, u64) {
        let start = self.layout.region_at(region.at);
        let region = Region::of_segment(&self.free, region.at, region.salt);
        (Extent::of_region(&self.file, start, region), self.layout.segment_octets)
    }

    /// Begins segment `number` in a free region; none if none is free now.
    pub(crate) fn create(&self, number: u64, slot: usize, key: &Key) -> io::Result<Option<Segment>> {
        let salt = u64::from_le_bytes(namely_host::random()?);
        let Some(region) = Region::take(&self.free, salt) else { return Ok(None) };
        let segment = self.segment(number, slot, region);
        segment.is_sealed.store(false, Ordering::Release);
        // It counts as there once it has its header. What was there before has none then.
        let written = segment.extent.write_all_at(&header(number, salt, key), 0).and_then(|()| self.sync());
        if written.is_err() {
            let _ = self.remove(&segment);
        }
        written.map(|()| Some(segment))
    }

    /// Takes the header of a segment away.
    pub(crate) fn remove(&self, segment: &Segment) -> io::Result<()> {
        segment.extent.write_all_at(&block(), 0)
    }

    /// Where the index of a segment is: behind its octets.
    fn index_at(&self, segment: &Segment) -> Option<u64> {
        let region = segment.extent.region()?;
        Some(self.layout.region_at(region.at) + self.layout.segment_octets)
    }

    /// Whether there was room.
    pub(crate) fn write_index(&self, segment: &Segment, index: &[u8]) -> io::Result<bool> {
        let octets = (8 + index.len() as u64).next_multiple_of(BLOCK_OCTETS);
        let Some(at) = self.index_at(segment).filter(|_| octets <= self.layout.index_octets) else {
            return Ok(false);
        };
        let mut buffer = Buffer::new(octets as usize);
        buffer[..8].copy_from_slice(&(index.len() as u64).to_le_bytes());
        buffer[8..8 + index.len()].copy_from_slice(index);
        self.file.write_all_at(&buffer, at)?;
        self.sync().map(|()| true)
    }

    /// What lies where the index of a segment is.
    pub(crate) fn read_index(&self, segment: &Segment) -> Option<Vec<u8>> {
        let at = self.index_at(segment)?;
        let mut first = block();
        self.file.read_exact_at(&mut first, at).ok()?;
        let length = u64::from_le_bytes(*first.first_chunk()?);
        if length > self.layout.index_octets - 8 {
            return None;
        }
        let mut buffer = Buffer::new((8 + length).next_multiple_of(BLOCK_OCTETS) as usize);
        self.file.read_exact_at(&mut buffer, at).ok()?;
        Some(buffer[8..8 + length as usize].to_vec())
    }

    /// Writes what is being erased where it does not lie now.
    pub(crate) fn save_erased(&self, key: &Key, octets: &[u8]) -> io::Result<()> {
        let number = self.erased.load(Ordering::Relaxed) + 1;
        let end = ERASED_HEADER_OCTETS + octets.len();
        let whole = (end + DIGEST_OCTETS).next_multiple_of(BLOCK_OCTETS as usize);
        if whole as u64 > ERASED_OCTETS {
            return Err(Errno::NOSPC.into());
        }
        let mut buffer = Buffer::new(whole);
        buffer[..8].copy_from_slice(&number.to_le_bytes());
        buffer[8..ERASED_HEADER_OCTETS].copy_from_slice(&(octets.len() as u32).to_le_bytes());
        buffer[ERASED_HEADER_OCTETS..end].copy_from_slice(octets);
        let digest = key.digest(&buffer[..end]);
        buffer[end..end + DIGEST_OCTETS].copy_from_slice(&digest);
        self.file.write_all_at(&buffer, erased_at(number))?;
        self.sync()?;
        self.erased.store(number, Ordering::Relaxed);
        Ok(())
    }

    /// What was being erased, as it was written last.
    pub(crate) fn load_erased(&self, key: &Key) -> Option<Vec<u8>> {
        let of = |number: u64| {
            let mut buffer = Buffer::new(ERASED_OCTETS as usize);
            self.file.read_exact_at(&mut buffer, erased_at(number)).ok()?;
            let octets = u32::from_le_bytes(*buffer[8..].first_chunk()?) as usize;
            let end = ERASED_HEADER_OCTETS.checked_add(octets)?;
            let (body, digest) = (buffer.get(..end)?, buffer.get(end..end.checked_add(DIGEST_OCTETS)?)?);
            let number = u64::from_le_bytes(*body.first_chunk()?);
            (key.digest(body) == digest).then(|| (number, body[ERASED_HEADER_OCTETS..].to_vec()))
        };
        let (number, erased) = [0, 1].into_iter().filter_map(of).max_by_key(|(number, _)| *number)?;
        self.erased.store(number, Ordering::Relaxed);
        Some(erased)
    }
}

/// The cache that is there, or why there is none.
fn cache(path: &Path, held: Holds) -> Result<(Layout, Key), TierError> {
    let path = path.to_owned();
    match held {
        Holds::Cache(layout, key) => Ok((layout, key)),
        Holds::Nothing => Err(TierError::Foreign { path, what: "no cache" }),
        Holds::OtherVersion => Err(TierError::Foreign { path, what: "a cache of another version" }),
        Holds::Damaged => Err(TierError::Foreign { path, what: "a cache whose first block is damaged" }),
        Holds::Other(what) => Err(TierError::Foreign { path, what }),
    }
}

fn erased_at(number: u64) -> u64 {
    ERASED_AT + number % 2 * ERASED_OCTETS
}

/// The first block of a region that has a segment.
fn header(number: u64, salt: u64, key: &Key) -> Buffer {
    let mut block = block();
    block[..16].copy_from_slice(REGION_MAGIC);
    block[16..24].copy_from_slice(&number.to_le_bytes());
    block[24..32].copy_from_slice(&salt.to_le_bytes());
    let digest = key.digest(&block[..32]);
    block[32..64].copy_from_slice(&digest);
    block
}

/// The number and the salt of the segment of a region; none if it has none.
fn read_header(block: &[u8], key: &Key) -> Option<(u64, u64)> {
    let number = |at: usize| Some(u64::from_le_bytes(*block.get(at..)?.first_chunk()?));
    let (number, salt) = (number(16)?, number(24)?);
    (block[..64] == header(number, salt, key)[..64]).then_some((number, salt))
}

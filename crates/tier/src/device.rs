//! A tier on a device without a file system, or on a regular file in its place. The crate's
//! documentation draws its layout.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_host::disk::{File, OpenError, Writers, open_named};
use rustix::fs::{FileType, OFlags, SeekFrom, Stat, fcntl_setfl, fstat};
use rustix::io::Errno;

use super::buffer::Buffer;
use super::error::TierError;
use super::extent::{Extent, FoundSegment, Free, Region};
use super::limits::{BLOCK_OCTETS, DEVICE_OCTETS_MIN, ERASED_OCTETS_MAX, OCTETS_MAX};
use super::options::Options;
use super::place::{SEGMENT_OCTETS_MAX, SEGMENTS_MAX};
use super::record::Key;
use super::segment::Segment;
use namely_host::disk::Lock;

const MAGIC: &[u8; 16] = b"namely-device-01";
/// Prefix of the superblocks of all versions.
const FAMILY: &[u8] = b"namely-device-";
const REGION_MAGIC: &[u8; 16] = b"namely-region-01";
const SUPERBLOCK_OCTETS: usize = 108;
const DIGEST_OCTETS: usize = 32;

/// Start of the two copies of the erasure list, of which the one with the higher number is valid.
const ERASED_AT: u64 = BLOCK_OCTETS;
/// Octets before the list: its number and its length. A digest follows the list.
const ERASED_HEADER_OCTETS: usize = 12;
const ERASED_OCTETS: u64 =
    ((ERASED_HEADER_OCTETS + ERASED_OCTETS_MAX + DIGEST_OCTETS) as u64).next_multiple_of(BLOCK_OCTETS);
const REGIONS_AT: u64 = ERASED_AT + 2 * ERASED_OCTETS;

/// Octets of a segment's index on a device.
///
/// The constant is the divisor of the segment's octets. The area suffices for records of a
/// kilobyte.
///
/// # Limit
/// A segment without an index is read whole when the tier is opened, and evicted when a part of it
/// is erased.
/// - Value: a sixteenth of the segment
/// - Counter: `evicted`
/// - Tests:
///   `a_device_segment_without_index_is_scanned`
const INDEX_PART: u64 = 16;

/// Octets to probe at the start and at the end of a device: file systems, partition tables and the
/// like have data in one of these places.
const PROBED_OCTETS: u64 = 1 << 20;

/// Content of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Octets of the device when it was formatted.
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

    /// Returns whether a device can have this layout.
    fn is_sound(&self) -> bool {
        let is_blocks = |octets: u64| octets > 0 && octets.is_multiple_of(BLOCK_OCTETS);
        is_blocks(self.segment_octets)
            && is_blocks(self.index_octets)
            && self.segment_octets <= SEGMENT_OCTETS_MAX
            && self.index_octets <= self.segment_octets
            && (6..=SEGMENTS_MAX as u32).contains(&self.regions)
            && self.region_at(self.regions as usize) <= self.octets
    }

    /// Start of a region: its segment, followed by the segment's index.
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
        // The digest has no key, because the key is in the body.
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

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    path: PathBuf,
    file: Arc<File>,
    layout: Layout,
    free: Free,
    /// The number of the erasure list that was written last.
    erased: AtomicU64,
}

/// Content of a device.
#[derive(Debug)]
enum DeviceContent {
    Cache(Layout, Key),
    /// Nothing, or a superblock that was not written whole.
    Nothing,
    /// A cache of another version.
    OtherVersion,
    /// A damaged superblock, or the superblock of a larger device.
    Damaged,
    Other(&'static str),
}

/// Formats a device for a cache. The content of the device is lost. Unless `takes_all` is true, the
/// device must hold nothing or a cache. Returns the octets of the cache.
///
/// # Errors
/// [`TierError`]: the device holds something else, is in use, is too small, or cannot be written.
pub fn format(path: &Path, takes_all: bool) -> Result<u64, TierError> {
    if !super::medium::is_device(path) {
        return Err(TierError::NoDevice(path.to_owned()));
    }
    let (file, _lock) = open(path, true, None)?;
    let fault = |error| TierError::new(path, error);
    match holds(&file).map_err(fault)? {
        DeviceContent::Other(what) if !takes_all => {
            Err(TierError::UntrustedFile { path: path.to_owned(), what })
        }
        _ => {
            let layout = initialize(path, &file, Layout::new)?.0;
            Ok(u64::from(layout.regions) * layout.segment_octets)
        }
    }
}

/// Writes a superblock with a new key, which invalidates the content of an earlier cache.
fn initialize(path: &Path, file: &File, layout: impl Fn(u64) -> Layout) -> Result<(Layout, Key), TierError> {
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

/// Like `format`, with the given segment size, for tests.
#[cfg(test)]
pub(crate) fn format_with_segments(path: &Path, segment_octets: u64) -> Result<(), TierError> {
    let (file, _lock) = open(path, true, None)?;
    initialize(path, &file, |octets| Layout::with_segments(octets, segment_octets)).map(drop)
}

/// Opens a device for this process alone. The kernel refuses a device that is mounted or that
/// another process opened exclusively.
fn open(path: &Path, direct: bool, writers: Option<Writers>) -> Result<(File, Lock), TierError> {
    let fault = |error| TierError::new(path, error);
    // The kind of the file is read first: without O_CREAT, O_EXCL is defined for block devices
    // only.
    let (_, found) = open_once(path, OFlags::RDONLY, writers)?;
    let is_block = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
    let alone = if is_block { OFlags::EXCL } else { OFlags::empty() };
    let (lock, locked) = open_once(path, OFlags::RDWR | alone, writers)?;
    let lock = Lock::take(lock.into_inner()).map_err(fault)?;
    let lock = lock.ok_or_else(|| TierError::Busy(path.to_owned()))?;
    let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let (file, opened) = match open_once(path, OFlags::RDWR | direct, writers) {
        // The file system does not support direct reads: use the page cache.
        Err(TierError::Io(_, error)) if is_invalid(&error) => open_once(path, OFlags::RDWR, writers)?,
        opened => opened?,
    };
    // The path may have been replaced in between, and the lock must be on the file that is written.
    if (opened.st_dev, opened.st_ino) != (locked.st_dev, locked.st_ino) {
        return Err(TierError::Busy(path.to_owned()));
    }
    let file = match file.read_exact_at(&mut block(), 0) {
        // The device has larger blocks than the tier, so the page cache is used.
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

/// Opens the configured block device, or a regular file that only `writers` may write; without
/// `writers`, only its owner. Never blocks.
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
    // O_NONBLOCK was for the opening only.
    fcntl_setfl(&file, flags & OFlags::DIRECT).map_err(fault)?;
    Ok((File::from_inner(file.into()), found))
}

fn block() -> Buffer {
    Buffer::new(BLOCK_OCTETS as usize)
}

/// Octets of a device in whole blocks. A device file has no length of its own, so this seeks to the
/// end.
fn octets_of(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::seek(&**file, SeekFrom::End(0))? / BLOCK_OCTETS * BLOCK_OCTETS)
}

fn holds(file: &File) -> io::Result<DeviceContent> {
    let octets = octets_of(file)?;
    let probed = PROBED_OCTETS.min(octets);
    let mut first = Buffer::new(probed as usize);
    file.read_exact_at(&mut first, 0)?;
    if let Some((layout, key)) = Layout::decode(&first) {
        return Ok(if layout.octets <= octets {
            DeviceContent::Cache(layout, key)
        } else {
            DeviceContent::Damaged
        });
    }
    let mut last = Buffer::new(probed as usize);
    file.read_exact_at(&mut last, octets - probed)?;
    let is_zero = |octets: &[u8]| octets.iter().all(|octet| *octet == 0);
    let (start, rest) = first.split_at((BLOCK_OCTETS as usize).min(first.len()));
    let is_empty_else = is_zero(rest) && is_zero(&last[last.len().min(BLOCK_OCTETS as usize)..]);
    // An interrupted write of a superblock leaves a beginning of the magic number, or all of it
    // with any part of the rest. All other probed octets are zeros then.
    let known = start.iter().zip(MAGIC).take_while(|(is, of)| is == of).count();
    let own = if known == MAGIC.len() { SUPERBLOCK_OCTETS } else { known };
    Ok(match () {
        () if is_empty_else && is_zero(start.get(own..).unwrap_or_default()) => DeviceContent::Nothing,
        () if start.starts_with(MAGIC) => DeviceContent::Damaged,
        () if start.starts_with(FAMILY) => DeviceContent::OtherVersion,
        () => DeviceContent::Other(content_name(&first)),
    })
}

/// Names the content of a device by its signature, if the signature is known.
fn content_name(first: &[u8]) -> &'static str {
    const SIGNS: [(usize, &[u8], &str); 9] = [
        (0x438, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
        (0, b"XFSB", "an XFS file system"),
        (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
        (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
        (512, b"LABELONE", "a physical volume of LVM"),
        (512, b"EFI PART", "a table of partitions (GPT)"),
        (4086, b"SWAPSPACE2", "swap space"),
        (3, b"NTFS    ", "an NTFS file system"),
        // This mark is the last, because GPT disks and NTFS have it, too.
        (510, &[0x55, 0xaa], "a boot sector, or a table of partitions"),
    ];
    let has = |at: usize, sign: &[u8]| first.get(at..at + sign.len()) == Some(sign);
    SIGNS.iter().find(|(at, sign, _)| has(*at, sign)).map_or("something that is no cache", |(.., what)| what)
}

impl Device {
    /// Opens a device that holds a cache or nothing.
    pub(crate) fn take(path: &Path, options: &Options) -> Result<(Self, Key, Lock), TierError> {
        let writers = Writers::this_user().and_group(options.group);
        let (file, lock) = open(path, options.direct, Some(writers))?;
        let (layout, key) = match holds(&file).map_err(|error| TierError::new(path, error))? {
            DeviceContent::Nothing => initialize(path, &file, Layout::new)?,
            held => cache(path, held)?,
        };
        Ok((Device::new(path, file, layout), key, lock))
    }

    /// Opens a device read-only, even while another process has it open.
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

    /// One region is reserved: the next segment needs it while a reader still has an evicted
    /// segment open.
    pub(crate) fn segments_max(&self) -> usize {
        self.layout.regions as usize - 1
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Returns the segments, oldest first; all other regions are free.
    pub(crate) fn found(&self, key: &Key) -> Result<Vec<FoundSegment>, TierError> {
        let (mut found, mut block) = (Vec::new(), block());
        let mut free = Vec::new();
        for at in 0..self.layout.regions as usize {
            let read = self.file.read_exact_at(&mut block, self.layout.region_at(at));
            read.map_err(|error| TierError::new(&self.path, error))?;
            match read_header(&block, key) {
                Some((number, salt)) => {
                    let region = Region::of_segment(&self.free, at, salt);
                    found.push(FoundSegment { number, region: Some(region) });
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

    /// The octets of a segment, for a reader that never writes.
    pub(crate) fn look_at(&self, region: &Region) -> (Extent, u64) {
        let start = self.layout.region_at(region.at);
        // Dropping it enters the region into the free list, which a reader never uses.
        let region = Region::of_segment(&self.free, region.at, region.salt);
        (Extent::of_region(&self.file, start, region), self.layout.segment_octets)
    }

    /// Begins segment `number` in a free region. Returns none if no region is free.
    pub(crate) fn create(&self, number: u64, slot: usize, key: &Key) -> io::Result<Option<Segment>> {
        let salt = u64::from_le_bytes(namely_host::random()?);
        let Some(region) = Region::take(&self.free, salt) else { return Ok(None) };
        let segment = self.segment(number, slot, region);
        // Release pairs with the Acquire loads. No other thread has the segment yet.
        segment.is_sealed.store(false, Ordering::Release);
        // The segment exists once its header is written, which replaces the header of the previous
        // segment.
        let written = segment.extent.write_all_at(&header(number, salt, key), 0).and_then(|()| self.sync());
        if written.is_err() {
            // Ignored: the failed write is reported, and a region without records is freed at the
            // next opening.
            let _ = self.remove(&segment);
        }
        written.map(|()| Some(segment))
    }

    /// Erases the header of a segment.
    pub(crate) fn remove(&self, segment: &Segment) -> io::Result<()> {
        segment.extent.write_all_at(&block(), 0)
    }

    /// Position of a segment's index: after the segment's octets.
    fn index_at(&self, segment: &Segment) -> Option<u64> {
        let region = segment.extent.region()?;
        Some(self.layout.region_at(region.at) + self.layout.segment_octets)
    }

    /// Writes the index of a segment. Returns false if it does not fit.
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

    /// Reads the octets at the position of a segment's index.
    pub(crate) fn read_index(&self, segment: &Segment) -> Option<Vec<u8>> {
        let at = self.index_at(segment)?;
        let mut first = block();
        self.file.read_exact_at(&mut first, at).ok()?;
        let length = u64::from_le_bytes(*first.first_chunk()?);
        // Checked before the allocation, because the octets may be remains of other data.
        if length > self.layout.index_octets - 8 {
            return None;
        }
        let mut buffer = Buffer::new((8 + length).next_multiple_of(BLOCK_OCTETS) as usize);
        self.file.read_exact_at(&mut buffer, at).ok()?;
        Some(buffer[8..8 + length as usize].to_vec())
    }

    /// Writes the erasure list over the older of its two copies.
    pub(crate) fn save_erased(&self, key: &Key, octets: &[u8]) -> io::Result<()> {
        // Relaxed: the number is set when the tier is opened, and by the keeper afterwards, never
        // by two threads at a time.
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
        // Stored after the copy is on the disk. A failed write is then repeated over the same copy,
        // and the other copy stays valid.
        self.erased.store(number, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the erasure list that was written last.
    pub(crate) fn load_erased(&self, key: &Key) -> Option<Vec<u8>> {
        let of = |number: u64| {
            let mut buffer = Buffer::new(ERASED_OCTETS as usize);
            self.file.read_exact_at(&mut buffer, erased_at(number)).ok()?;
            let octets = u32::from_le_bytes(*buffer[8..].first_chunk()?) as usize;
            // The length is not trusted before the digest is compared.
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

/// Returns the cache on the device, or an error that names its content.
fn cache(path: &Path, held: DeviceContent) -> Result<(Layout, Key), TierError> {
    let path = path.to_owned();
    match held {
        DeviceContent::Cache(layout, key) => Ok((layout, key)),
        DeviceContent::Nothing => Err(TierError::UntrustedFile { path, what: "no cache" }),
        DeviceContent::OtherVersion => {
            Err(TierError::UntrustedFile { path, what: "a cache of another version" })
        }
        DeviceContent::Damaged => {
            Err(TierError::UntrustedFile { path, what: "a cache whose first block is damaged" })
        }
        DeviceContent::Other(what) => Err(TierError::UntrustedFile { path, what }),
    }
}

fn erased_at(number: u64) -> u64 {
    ERASED_AT + number % 2 * ERASED_OCTETS
}

/// The first block of a region that holds a segment.
fn header(number: u64, salt: u64, key: &Key) -> Buffer {
    let mut block = block();
    block[..16].copy_from_slice(REGION_MAGIC);
    block[16..24].copy_from_slice(&number.to_le_bytes());
    block[24..32].copy_from_slice(&salt.to_le_bytes());
    let digest = key.digest(&block[..32]);
    block[32..64].copy_from_slice(&digest);
    block
}

/// Reads the number and the salt of a region's segment; none if the region holds none.
fn read_header(block: &[u8], key: &Key) -> Option<(u64, u64)> {
    let number = |at: usize| Some(u64::from_le_bytes(*block.get(at..)?.first_chunk()?));
    let (number, salt) = (number(16)?, number(24)?);
    (block[..64] == header(number, salt, key)[..64]).then_some((number, salt))
}

//! Lists the packets of a folder or a device below a prefix. The listing opens the segments for
//! reading only, even while a router has them open. It cannot use an index, which has only hashes
//! of names.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use namely_host::disk::{Folder, Writers};
use namely_wire::NameRef;

use super::device::Device;
use super::erased::{Erased, decode};
use super::error::TierError;
use super::extent::{Extent, FoundSegment};
use super::folder::{KEY_OCTETS, numbers};
use super::medium::{erased_of, is_device, of_folder};
use super::record::Key;
use super::segment::segment_name;
use super::window::Window;

/// A packet in a folder or on a device.
#[derive(Clone, Copy, Debug)]
pub struct ListedPacket<'a> {
    /// Its name.
    pub name: NameRef<'a>,
    /// Octets of the packet.
    pub octets: usize,
    /// End of the packet's freshness, in ms since the Unix epoch; 0: no end.
    pub expires_ms: u64,
}

/// Calls `found` with each packet below `prefix` in `folder`, or on that device: newest segments
/// first, each name once. Calls `read` with the octets of the segments read so far and of all
/// segments. Reads the segments whole and changes nothing. Packets that are written meanwhile, or
/// not on the disk yet, may be missing. Packets that were dropped from the index for want of room
/// may be listed.
///
/// # Errors
/// [`TierError`]: the path is no folder or device of a tier, or it cannot be read.
pub fn list(
    folder: &Path,
    prefix: NameRef<'_>,
    found: &mut dyn FnMut(ListedPacket<'_>),
    read: &mut dyn FnMut(u64, u64),
) -> Result<(), TierError> {
    let source = Listing::open(folder)?;
    let (mut done, all) = (0, source.segments.iter().map(|(_, octets)| octets).sum());
    let mut known = HashSet::new();
    for (segment, octets) in source.segments.iter().rev() {
        let mut packets = Vec::new();
        source.of_segment(segment, &mut |name, octets, expires_ms| {
            let is_erased = source.erased.iter().any(|erased| erased.covers(segment.number, name));
            if prefix.is_prefix_of(name) && !is_erased {
                packets.push((name.to_name(), octets, expires_ms));
            }
        })?;
        done += octets;
        // Of two records of one name the later one counts.
        for (name, octets, expires_ms) in packets.into_iter().rev() {
            // Hashes take less memory than names, and a collision would only leave a packet out.
            if known.insert(source.key.hash(name.as_bytes())) {
                found(ListedPacket { name: name.as_name(), octets, expires_ms });
            }
        }
        read(done, all);
    }
    Ok(())
}

/// The medium of a listing.
enum Of {
    Device(Device),
    Folder(Folder, Writers),
}

/// The listed medium, as it was when the listing began.
struct Listing {
    path: PathBuf,
    of: Of,
    key: Key,
    erased: Vec<Erased>,
    /// Segments, oldest first, each with its octets.
    segments: Vec<(FoundSegment, u64)>,
}

impl Listing {
    fn open(path: &Path) -> Result<Self, TierError> {
        if is_device(path) {
            let (device, key) = Device::look(path)?;
            let octets = device.segment_octets();
            let segments = device.found(&key)?.into_iter().map(|found| (found, octets)).collect();
            let erased = device.load_erased(&key);
            return Ok(Listing::new(path, Of::Device(device), key, erased, segments));
        }
        let fault = |error| TierError::new(path, error);
        let folder = Folder::open(path).map_err(|error| TierError::of(path, error))?;
        let found = folder.stat().map_err(fault)?;
        // The group in the router's configuration is unknown here, so the folder's group may write.
        let writers = Writers::user(found.st_uid).and_group(Some(found.st_gid)).or_root();
        let at = path.join("key");
        let key = folder.read("key", KEY_OCTETS, writers).map_err(|error| TierError::of(&at, error))?;
        let key = key.ok_or_else(|| TierError::new(&at, io::ErrorKind::NotFound.into()))?;
        let key = Key::new(<&[u8; 32]>::try_from(&*key).map_err(|_| TierError::Version(at))?);
        let octets = |number| {
            // For the progress only, so a segment that was evicted meanwhile counts as empty.
            let found = folder.look(segment_name(number)).ok().flatten();
            found.and_then(|found| u64::try_from(found.st_size).ok()).unwrap_or(0)
        };
        let numbers = numbers(&folder).map_err(fault)?;
        let segments =
            numbers.into_iter().map(|number| (FoundSegment { number, region: None }, octets(number)));
        let segments = segments.collect();
        let erased = erased_of(&folder, writers);
        Ok(Listing::new(path, Of::Folder(folder, writers), key, erased, segments))
    }

    fn new(
        path: &Path,
        of: Of,
        key: Key,
        erased: Option<Vec<u8>>,
        segments: Vec<(FoundSegment, u64)>,
    ) -> Self {
        let erased = erased.and_then(|octets| decode(&key, &octets)).unwrap_or_default();
        Listing { path: path.to_owned(), of, key, erased, segments }
    }

    /// Calls `found` with the name, octets and expiry of each whole record.
    fn of_segment(
        &self,
        segment: &FoundSegment,
        found: &mut dyn FnMut(NameRef<'_>, usize, u64),
    ) -> Result<(), TierError> {
        let opened = match (&self.of, &segment.region) {
            (Of::Device(device), region) => region.as_ref().map(|region| device.look_at(region)),
            (Of::Folder(folder, writers), _) => {
                let opened = of_folder(folder, segment.number, &self.key, *writers);
                opened.map_err(|error| TierError::of(&self.path, error))?
            }
        };
        let read = |(extent, octets): (Extent, u64)| {
            let checks = self.key.checks(extent.salt());
            let found =
                |_, whole: super::record::Record<'_>| found(whole.name, whole.packet.len(), whole.expires_ms);
            Window::new(&extent, octets).records(&checks, found)
        };
        match opened.map(read).transpose() {
            // The segment was evicted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(TierError::new(&self.path, error)),
            Ok(_) => Ok(()),
        }
    }
}

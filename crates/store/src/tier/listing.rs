//! What a folder has below a prefix: read from its segments by whoever may read them, while a
//! router has the folder or while none has. The index in memory has hashes of names only.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use namely_host::disk::File;
use namely_wire::NameRef;
use rustix::fs::OFlags;

use super::buffer::Buffer;
use super::erasing::load;
use super::error::TierError;
use super::options::BLOCK_OCTETS;
use super::record::Key;
use super::recovery::numbers;
use super::segment::{Kind, kind, segment_path};
use super::window::Window;

/// A packet that is in a folder.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// Its name.
    pub name: NameRef<'a>,
    /// Octets of the packet.
    pub octets: usize,
    /// From when on it is no longer fresh, ms since the Unix epoch; 0: never.
    pub expires_ms: u64,
}

/// Calls `found` with each packet below `prefix` in `folder`, the newest segments first, each name
/// once, and `read` with the octets of the segments that were read and of all. It reads them whole
/// and changes nothing. What is written meanwhile, or not on the disk yet, may be missing; what has
/// gone from the index for want of room there may be told.
///
/// # Errors
/// [`TierError`]: the folder is none, or may not be read.
pub fn list(
    folder: &Path,
    prefix: NameRef<'_>,
    found: &mut dyn FnMut(Listed<'_>),
    read: &mut dyn FnMut(u64, u64),
) -> Result<(), TierError> {
    let fault = |path: &Path, error| TierError::new(path, error);
    let path = folder.join("key");
    let key = std::fs::read(&path).map_err(|error| fault(&path, error))?;
    let key = <&[u8; 32]>::try_from(&*key).map_err(|_| TierError::Version(path))?;
    let key = Key::new(key);
    let erased = load(folder, &key);
    let numbers = numbers(folder).map_err(|error| fault(folder, error))?;
    let octets = |number: &u64| std::fs::metadata(segment_path(folder, *number)).map_or(0, |file| file.len());
    let (mut done, all) = (0, numbers.iter().map(octets).sum());
    let mut known = HashSet::new();
    for number in numbers.into_iter().rev() {
        let path = segment_path(folder, number);
        let mut packets = Vec::new();
        let listed = of_segment(&path, number, &key, &mut |name, octets, expires_ms| {
            let is_erased = erased.iter().any(|erased| erased.covers(number, name));
            if prefix.is_prefix_of(name) && !is_erased {
                packets.push((name.to_name(), octets, expires_ms));
            }
        });
        match listed {
            Ok(octets) => done += octets,
            // It was thrown away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fault(&path, error)),
        }
        // Of two records of one name the later one counts.
        for (name, octets, expires_ms) in packets.into_iter().rev() {
            if known.insert(key.hash(name.as_bytes())) {
                found(Listed { name: name.as_name(), octets, expires_ms });
            }
        }
        read(done, all);
    }
    Ok(())
}

/// Calls `found` with the name, octets and expiry of each whole record; octets of the segment.
fn of_segment(
    path: &Path,
    number: u64,
    key: &Key,
    found: &mut dyn FnMut(NameRef<'_>, usize, u64),
) -> io::Result<u64> {
    let file = File::open(path, OFlags::RDONLY, 0)?;
    let octets = file.metadata()?.len() / BLOCK_OCTETS * BLOCK_OCTETS;
    if octets == 0 {
        return Ok(0);
    }
    let mut block = Buffer::new(BLOCK_OCTETS as usize);
    file.read_exact_at(&mut block, 0)?;
    if kind(&block, number, key) == Kind::Segment {
        Window::new(&file, octets)
            .records(key, |_, whole| found(whole.name, whole.packet.len(), whole.expires_ms))?;
    }
    Ok(octets)
}

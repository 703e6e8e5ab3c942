//! The index of a full file of packets: names and positions, so that opening a store does not read
//! every packet. The crate's documentation draws its layout.

use std::io;
use std::path::Path;

use namely_host::disk::{File, Folder, Writers};
use namely_wire::NameRef;

use crate::format::Format;

const MAGIC: &[u8; 16] = b"namely-index-003";
const DIGEST_OCTETS: usize = 32;

/// One packet of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Start of the packet's record.
    pub(crate) offset: u64,
    /// Octets of the packet.
    pub(crate) octets: u32,
    /// End of the packet's freshness, in ms since the Unix epoch; 0: no end.
    pub(crate) expires_ms: u64,
    /// The TLVs of the components of the packet's name.
    pub(crate) name: Box<[u8]>,
}

/// Writes the index of `file`, which has `file_octets` octets. The index is written whole or not at
/// all.
pub(crate) fn write(
    folder: &Folder,
    name: &str,
    file: &File,
    format: Format,
    file_octets: u64,
    entries: &[Entry],
) -> io::Result<()> {
    // Without packets a scan is as fast as an index.
    let Some(last) = entries.last() else { return Ok(()) };
    let mut octets = MAGIC.to_vec();
    octets.extend_from_slice(&file_octets.to_le_bytes());
    octets.extend_from_slice(&check_of(file, format, last)?);
    octets.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        octets.extend_from_slice(&entry.offset.to_le_bytes());
        octets.extend_from_slice(&entry.octets.to_le_bytes());
        octets.extend_from_slice(&entry.expires_ms.to_le_bytes());
        octets.extend_from_slice(&(entry.name.len() as u16).to_le_bytes());
        octets.extend_from_slice(&entry.name);
    }
    let digest = *blake3::hash(&octets).as_bytes();
    octets.extend_from_slice(&digest);
    folder.replace(name, Path::new(name).with_extension("new"), &octets)
}

/// Reads the index of `file`, which has `file_octets` octets in `format`. Returns none if the index
/// is missing or damaged, or if the file has changed since the index was written.
pub(crate) fn read(
    folder: &Folder,
    name: &str,
    file: &File,
    format: Format,
    file_octets: u64,
) -> Option<Vec<Entry>> {
    // Bounds the memory: an entry is smaller than its record.
    let octets_max = file_octets.saturating_mul(2).saturating_add(4096);
    let octets = folder.read(name, octets_max, Writers::this_user()).ok()??;
    let (body, digest) = octets.split_at_checked(octets.len().checked_sub(DIGEST_OCTETS)?)?;
    if blake3::hash(body).as_bytes() != digest {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    if u64::from_le_bytes(*take(&mut rest)?) != file_octets {
        return None;
    }
    let last_check = *take(&mut rest)?;
    let count = u32::from_le_bytes(*take(&mut rest)?);
    let mut entries = Vec::new();
    for _ in 0..count {
        let offset = u64::from_le_bytes(*take(&mut rest)?);
        let octets = u32::from_le_bytes(*take(&mut rest)?);
        let expires_ms = u64::from_le_bytes(*take(&mut rest)?);
        let length = u16::from_le_bytes(*take(&mut rest)?);
        let (name, behind) = rest.split_at_checked(length.into())?;
        // The digest has no key, so it does not prove that the names are valid.
        NameRef::parse_value(name).ok()?;
        rest = behind;
        entries.push(Entry { offset, octets, expires_ms, name: name.into() });
    }
    let fits = |last: &Entry| {
        let record_octets = format.header_octets() as u64 + u64::from(last.octets);
        last.offset.checked_add(record_octets).is_some_and(|end| end <= file_octets)
    };
    if !rest.is_empty() || !entries.iter().all(fits) {
        return None;
    }
    (check_of(file, format, entries.last()?).ok()? == last_check).then_some(entries)
}

/// Reads the check of a record in the file.
fn check_of(file: &File, format: Format, entry: &Entry) -> io::Result<[u8; 8]> {
    let mut check = [0; 8];
    file.read_exact_at(&mut check, entry.offset + format.header_octets() as u64 - 8)?;
    Ok(check)
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(head)
}

//! The index of a sealed segment: hashes and positions, so that opening a tier does not read every
//! record. The crate's documentation draws its layout.

use std::io;
use std::path::Path;

use namely_host::disk::{Folder, Writers};

use super::above::PrefixEntry;
use super::limits::BLOCK_OCTETS;
use super::place::{Expiry, RecordPosition, SEGMENT_OCTETS_MAX, UNIT_OCTETS};
use super::record::Key;
use super::segment::{IndexRecord, Segment, index_name};

const MAGIC: &[u8; 16] = b"namely-seg-idx-2";
/// The format without heads.
const MAGIC_OLD: &[u8; 16] = b"namely-seg-idx-1";
const HEADER_OCTETS: usize = 36;
const ENTRY_OCTETS: usize = 24;
const HEAD_OCTETS: usize = 16;
const DIGEST_OCTETS: usize = 32;

/// Content of a segment's index.
#[derive(Debug)]
pub(crate) struct SegmentIndex {
    /// Octets of the segment in use.
    pub(crate) octets: u64,
    pub(crate) records: Vec<IndexRecord>,
    /// Names above the records, which find them, too.
    pub(crate) heads: Vec<PrefixEntry>,
}

/// Encodes the index of segment `number`, of which `octets` are in use; `salt` is that of its
/// region.
pub(crate) fn encode(
    key: &Key,
    number: u64,
    octets: u64,
    salt: Option<u64>,
    records: &[IndexRecord],
    heads: &[PrefixEntry],
) -> Vec<u8> {
    let octets_of_all = records.len() * ENTRY_OCTETS + heads.len() * HEAD_OCTETS;
    let mut out = Vec::with_capacity(HEADER_OCTETS + octets_of_all + DIGEST_OCTETS);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&octets.to_le_bytes());
    out.extend_from_slice(&(records.len() as u32).to_le_bytes());
    for IndexRecord { hash, place, expires_ms } in records {
        out.extend_from_slice(&hash.to_le_bytes());
        out.extend_from_slice(&((place.offset() / UNIT_OCTETS as u64) as u32).to_le_bytes());
        out.extend_from_slice(&((place.octets() / UNIT_OCTETS) as u32).to_le_bytes());
        out.extend_from_slice(&expires_ms.to_le_bytes());
    }
    for PrefixEntry { above, hash } in heads {
        out.extend_from_slice(&above.to_le_bytes());
        out.extend_from_slice(&hash.to_le_bytes());
    }
    let digest = digest(key, &out, salt);
    out.extend_from_slice(&digest);
    out
}

/// The digest of an index. The salt invalidates an index that an earlier segment left in the
/// region.
fn digest(key: &Key, index: &[u8], salt: Option<u64>) -> [u8; DIGEST_OCTETS] {
    match salt {
        None => key.digest(index),
        Some(salt) => key.digest(&[index, &salt.to_le_bytes()].concat()),
    }
}

/// Writes the index of segment `number` to a file: whole, or not at all.
pub(crate) fn write_index(folder: &Folder, number: u64, index: &[u8]) -> io::Result<()> {
    let name = index_name(number);
    folder.replace(&name, Path::new(&name).with_extension("new"), index)
}

/// The octets of the index of segment `number`, if it has one.
pub(crate) fn read_index(folder: &Folder, number: u64, writers: Writers) -> Option<Vec<u8>> {
    // Bounds the memory: an entry is smaller than its record.
    folder.read(index_name(number), 2 * SEGMENT_OCTETS_MAX, writers).ok()?
}

/// Decodes the index of `segment`. Returns none if it is damaged or of another segment.
pub(crate) fn decode(key: &Key, index: &[u8], segment: &Segment, base_ms: u64) -> Option<SegmentIndex> {
    let (body, of_body) = index.split_at_checked(index.len().checked_sub(DIGEST_OCTETS)?)?;
    if digest(key, body, segment.extent.salt()) != of_body {
        return None;
    }
    let (header, entries) = body.split_at_checked(HEADER_OCTETS)?;
    let header = header.strip_prefix(MAGIC).or_else(|| header.strip_prefix(MAGIC_OLD))?;
    let header = header.strip_prefix(&segment.number.to_le_bytes())?;
    let (octets, count) = header.split_first_chunk()?;
    let octets = u64::from_le_bytes(*octets);
    if !(BLOCK_OCTETS..=segment.octets).contains(&octets) || !octets.is_multiple_of(BLOCK_OCTETS) {
        return None;
    }
    let count = u32::from_le_bytes(*count.first_chunk()?);
    let (entries, heads) = entries.split_at_checked((count as usize).checked_mul(ENTRY_OCTETS)?)?;
    if !heads.len().is_multiple_of(HEAD_OCTETS) {
        return None;
    }
    let entries = entries.chunks_exact(ENTRY_OCTETS);
    let recorded = |entry| recorded(entry, octets, segment.slot, base_ms);
    let records = entries.map(recorded).collect::<Option<_>>()?;
    Some(SegmentIndex { octets, records, heads: heads.chunks_exact(HEAD_OCTETS).filter_map(head).collect() })
}

fn head(octets: &[u8]) -> Option<PrefixEntry> {
    let (above, rest) = octets.split_first_chunk()?;
    Some(PrefixEntry { above: u64::from_le_bytes(*above), hash: u64::from_le_bytes(*rest.first_chunk()?) })
}

fn recorded(entry: &[u8], octets: u64, slot: usize, base_ms: u64) -> Option<IndexRecord> {
    let (hash, rest) = entry.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let (units, rest) = rest.split_first_chunk()?;
    let expires_ms = u64::from_le_bytes(*rest.first_chunk()?);
    let offset = u64::from(u32::from_le_bytes(*offset)) * UNIT_OCTETS as u64;
    let record_octets = u32::from_le_bytes(*units) as usize * UNIT_OCTETS;
    // The digest does not show that the places are within this segment.
    let fits = (UNIT_OCTETS..=super::record::RECORD_OCTETS_MAX).contains(&record_octets)
        && offset + record_octets as u64 <= octets;
    let expiry = Expiry::new(expires_ms, base_ms);
    fits.then(|| IndexRecord {
        hash: u64::from_le_bytes(*hash),
        place: RecordPosition::new(slot, offset, record_octets, expiry),
        expires_ms,
    })
}

//! The layout of records in a segment: as in a producer's store, but with a check keyed by the
//! folder's key, and each at a multiple of 16 octets.

use std::hash::Hasher;

use namely_wire::{DataView, NameRef, PACKET_OCTETS_MAX};
use siphasher::sip::SipHasher13;

use super::place::UNIT_OCTETS;

/// Octets before a packet: its length, its expiry, the check.
pub(crate) const HEADER_OCTETS: usize = 20;

/// Maximum octets of a record.
pub(crate) const RECORD_OCTETS_MAX: usize = (HEADER_OCTETS + PACKET_OCTETS_MAX).next_multiple_of(UNIT_OCTETS);

/// A folder's key. Only its owner can make octets that pass for a record.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    digests: [u8; 32],
    records: SipHasher13,
    names: SipHasher13,
}

impl Key {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        // Each use has its own key, so that the output of one use never passes for that of another.
        let of = |what: &[u8]| *blake3::keyed_hash(key, what).as_bytes();
        let hasher = |what: &[u8]| {
            let key = of(what);
            SipHasher13::new_with_key(key.first_chunk().expect("32 octets have 16"))
        };
        Key { digests: of(b"digests"), records: hasher(b"records"), names: hasher(b"names") }
    }

    /// Hashes a name for the index. `name` is the TLVs of its components.
    pub(crate) fn hash(&self, name: &[u8]) -> u64 {
        self.names.hash(name)
    }

    /// Returns the checks for the records of a segment. `salt` is the salt of the segment's region,
    /// which may still have records of earlier segments; none for a file.
    pub(crate) fn checks(&self, salt: Option<u64>) -> Checks {
        let mut hasher = self.records;
        if let Some(salt) = salt {
            hasher.write(&salt.to_le_bytes());
        }
        Checks(hasher)
    }

    /// The digest of a file that lists the content of a segment.
    pub(crate) fn digest(&self, octets: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.digests, octets).as_bytes()
    }
}

/// Computes the checks of a segment's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks(SipHasher13);

impl Checks {
    /// The check of a record. Each read computes it, so it is SipHash. BLAKE3 takes three times as
    /// long, because a packet is too short for its lanes.
    fn check(&self, length: [u8; 4], expires: [u8; 8], packet: &[u8]) -> [u8; 8] {
        let mut hasher = self.0;
        hasher.write(&length);
        hasher.write(&expires);
        hasher.write(packet);
        hasher.finish().to_le_bytes()
    }
}

/// Octets of a packet's record, up to the next record.
pub(crate) fn record_octets(packet_octets: usize) -> usize {
    (HEADER_OCTETS + packet_octets).next_multiple_of(UNIT_OCTETS)
}

/// Writes a record to the beginning of `out`, without its check.
pub(crate) fn write(packet: &[u8], expires_ms: u64, out: &mut [u8]) {
    let octets = HEADER_OCTETS + packet.len();
    out[..4].copy_from_slice(&(packet.len() as u32).to_le_bytes());
    out[4..12].copy_from_slice(&expires_ms.to_le_bytes());
    // `Log::queue` writes the check later. A used buffer may have an old check here.
    out[12..HEADER_OCTETS].fill(0);
    out[HEADER_OCTETS..octets].copy_from_slice(packet);
    out[octets..record_octets(packet.len())].fill(0);
}

/// Computes the check of the record at the beginning of `octets`.
pub(crate) fn check_of(checks: &Checks, octets: &[u8]) -> Option<[u8; 8]> {
    let header = Header::read(octets)?;
    Some(checks.check(header.length, header.expires, packet_unchecked(octets)?))
}

/// Returns the packet of the record at the beginning of `octets`, without the check of the record.
pub(crate) fn packet_unchecked(octets: &[u8]) -> Option<&[u8]> {
    octets.get(HEADER_OCTETS..HEADER_OCTETS + Header::read(octets)?.packet_octets()?)
}

/// The range of the check in a record.
pub(crate) const CHECK_AT: std::ops::Range<usize> = HEADER_OCTETS - 8..HEADER_OCTETS;

/// The header of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    length: [u8; 4],
    expires: [u8; 8],
    check: [u8; 8],
}

impl Header {
    pub(crate) fn read(octets: &[u8]) -> Option<Self> {
        let (length, rest) = octets.split_first_chunk()?;
        let (expires, rest) = rest.split_first_chunk()?;
        Some(Header { length: *length, expires: *expires, check: *rest.first_chunk()? })
    }

    /// Octets of the packet; none if that is no valid packet size.
    pub(crate) fn packet_octets(&self) -> Option<usize> {
        let octets = u32::from_le_bytes(self.length) as usize;
        (1..=PACKET_OCTETS_MAX).contains(&octets).then_some(octets)
    }

    /// End of the packet's freshness, in ms since the Unix epoch; 0: no end.
    pub(crate) fn expires_ms(&self) -> u64 {
        u64::from_le_bytes(self.expires)
    }

    /// Returns true if there is no record here: the rest of the block is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == [0; 4]
    }
}

/// A whole record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) packet: &'a [u8],
    pub(crate) name: NameRef<'a>,
    pub(crate) expires_ms: u64,
}

/// Reads the record at the beginning of `octets`; none if it is not whole.
pub(crate) fn read<'a>(checks: &Checks, octets: &'a [u8]) -> Option<Record<'a>> {
    let header = Header::read(octets)?;
    let packet = octets.get(HEADER_OCTETS..HEADER_OCTETS + header.packet_octets()?)?;
    if checks.check(header.length, header.expires, packet) != header.check {
        return None;
    }
    let name = DataView::parse(packet).ok()?.name;
    Some(Record { packet, name, expires_ms: header.expires_ms() })
}

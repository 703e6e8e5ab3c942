//! The formats of records: the present one and an earlier one.

use namely_wire::PACKET_OCTETS_MAX;

use crate::store::Record;

/// The format of a file's records. The file begins with its magic number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// Without the time at which a packet expires.
    One,
    /// The format of new files.
    #[default]
    Two,
}

impl Format {
    pub(crate) const fn magic(self) -> &'static [u8; 16] {
        match self {
            Format::One => b"namely-packets-1",
            Format::Two => b"namely-packets-2",
        }
    }

    pub(crate) fn of(magic: &[u8]) -> Option<Self> {
        [Format::One, Format::Two].into_iter().find(|format| format.magic() == magic)
    }

    /// Octets of a record before its packet.
    pub(crate) const fn header_octets(self) -> usize {
        match self {
            Format::One => 12,
            Format::Two => 20,
        }
    }
}

/// The magic number at the start of each new file of packets.
pub(crate) const MAGIC: &[u8; 16] = Format::Two.magic();

/// Octets of a packet's record, as they count against the store's limit.
pub fn record_octets(packet: &[u8]) -> u64 {
    (Format::Two.header_octets() + packet.len()) as u64
}

pub(crate) fn write_record(record: &Record<'_>, out: &mut Vec<u8>) {
    debug_assert!(record.packet.len() <= PACKET_OCTETS_MAX);
    let length = (record.packet.len() as u32).to_le_bytes();
    let expires = record.expires_ms.to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&expires);
    out.extend_from_slice(&checksum(length, expires, record.packet));
    out.extend_from_slice(record.packet);
}

/// The check of a record. Records of the first format have no expiry; their check has zero as an
/// input.
pub(crate) fn checksum(length: [u8; 4], expires: [u8; 8], packet: &[u8]) -> [u8; 8] {
    let digest = blake3::hash(packet);
    // The length is an input, so that a run of zeros is no record.
    std::array::from_fn(|i| digest.as_bytes()[i] ^ length[i % 4] ^ expires[i])
}

//! Erasures, and the erased prefixes as they are stored beside the segments.

use namely_wire::{Name, NameRef};
use parking_lot::RwLock;

use super::exact::ExactErasures;
use super::limits::DIGEST_OCTETS;
use super::record::Key;

const MAGIC: &[u8; 16] = b"namely-erased-01";

/// The erasures of a tier.
#[derive(Debug, Default)]
pub(crate) struct Erasures {
    /// Prefixes, with those whose records have all been removed.
    pub(crate) prefixes: RwLock<Vec<Erased>>,
    /// Single packets.
    pub(crate) packets: ExactErasures,
}

/// A prefix whose records must not be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Erased {
    pub(crate) prefix: Name,
    /// The last segment that may hold such records.
    pub(crate) segment: u64,
    /// Whether all such records have been removed from the indexes.
    pub(crate) is_done: bool,
}

impl Erased {
    /// Returns whether the erasure covers a record of this name in this segment.
    pub(crate) fn covers(&self, segment: u64, name: NameRef<'_>) -> bool {
        segment <= self.segment && self.prefix.as_name().is_prefix_of(name)
    }
}

pub(crate) fn encode(key: &Key, erased: &[Erased]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(erased.len() as u32).to_le_bytes());
    for Erased { prefix, segment, is_done } in erased {
        out.extend_from_slice(&segment.to_le_bytes());
        out.push((*is_done).into());
        out.extend_from_slice(&(prefix.as_bytes().len() as u16).to_le_bytes());
        out.extend_from_slice(prefix.as_bytes());
    }
    let digest = key.digest(&out);
    out.extend_from_slice(&digest);
    out
}

pub(crate) fn decode(key: &Key, octets: &[u8]) -> Option<Vec<Erased>> {
    let (body, digest) = octets.split_at_checked(octets.len().checked_sub(DIGEST_OCTETS)?)?;
    // The digest is compared first, so that no part of a damaged list is used.
    if key.digest(body) != digest {
        return None;
    }
    let (count, mut rest) = body.strip_prefix(MAGIC)?.split_first_chunk()?;
    let mut erased = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (segment, behind) = rest.split_first_chunk()?;
        let ([is_done], behind) = behind.split_first_chunk()?;
        let (name_octets, behind) = behind.split_first_chunk()?;
        let (name, behind) = behind.split_at_checked(u16::from_le_bytes(*name_octets).into())?;
        rest = behind;
        erased.push(Erased {
            prefix: NameRef::parse_value(name).ok()?.to_name(),
            segment: u64::from_le_bytes(*segment),
            is_done: *is_done == 1,
        });
    }
    rest.is_empty().then_some(erased)
}

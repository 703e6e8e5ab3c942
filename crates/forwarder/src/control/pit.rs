//! Pending Interests.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

use crate::limits::WALK_PLACES;
use crate::packet::PacketBuf;
use crate::pit::Pit;
use crate::pit::status::PitStatus;

/// The PIT: [`crate::Forwarder::pit`]. A walk locks one entry after the other.
pub struct PitControl<'a, B, R> {
    pub(crate) pit: &'a Pit<B, R>,
}

impl<B: PacketBuf, R: RawMutex> PitControl<'_, B, R> {
    /// Pending Interests, at most `count` of them. Released faces may still be listed.
    pub fn snapshot(&self, count: usize) -> Vec<PitStatus> {
        let mut entries = Vec::new();
        let mut from = None;
        while entries.len() < count {
            from = self.walk(from, &mut entries);
            if from.is_none() {
                break;
            }
        }
        entries.truncate(count);
        entries
    }

    /// Adds the pending Interests of [`WALK_PLACES`] slots to `entries`: the first ones, or those
    /// from a position that an earlier call returned. Returns the next position, if there is one.
    pub fn walk(&self, from: Option<u32>, entries: &mut Vec<PitStatus>) -> Option<u32> {
        self.pit.walk(from.unwrap_or(1), WALK_PLACES, |entry| {
            entries.push(PitStatus {
                name: NameRef::parse_value(entry.name()).map(Name::from).unwrap_or_default(),
                can_be_prefix: entry.can_be_prefix(),
                must_be_fresh: entry.must_be_fresh(),
                expires_at_ns: entry.expires_at_ns,
                downstreams: entry.in_records.iter().map(|r| r.face.id()).collect(),
                upstreams: entry.out_records.iter().map(|r| r.face.id()).collect(),
            });
        })
    }
}

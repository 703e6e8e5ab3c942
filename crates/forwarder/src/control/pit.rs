//! Pending Interests.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

use crate::face_id::{FaceId, FaceKey};
use crate::faces::Faces;
use crate::limits::WALK_PLACES;
use crate::packet::PacketBuf;
use crate::pit::Pit;
use crate::pit::entry::{PitEntry, Reading};
use crate::pit::status::PitStatus;

/// The PIT: [`crate::Forwarder::pit`]. A walk locks one entry after the other.
pub struct PitControl<'a, B, R> {
    pub(crate) pit: &'a Pit<B, R>,
    pub(crate) faces: &'a Faces<R>,
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

    /// Prepares the end of this router: from now on, new Interests from faces that are not local
    /// are refused with a NoRoute Nack. The content store still answers, pending Interests still
    /// receive their Data, and may be retransmitted. Packets that are processed at the time of the
    /// call may still become pending.
    pub fn drain(&self) {
        self.pit.drain();
    }

    /// Adds to `count` the Interests of [`WALK_PLACES`] slots whose answer a downstream may still
    /// receive. Those from or to `router`, the face of the router itself, are not counted: requests
    /// for its events are always pending. Positions are those of [`PitControl::walk`].
    pub fn count_answerable(
        &self,
        from: Option<u32>,
        router: FaceId,
        now_ns: u64,
        count: &mut usize,
    ) -> Option<u32> {
        self.pit.walk(from.unwrap_or(1), WALK_PLACES, |entry| {
            *count += usize::from(self.is_answerable(entry, router, now_ns));
        })
    }

    fn is_answerable(&self, entry: &PitEntry<B>, router: FaceId, now_ns: u64) -> bool {
        let is_other = |face: FaceKey| face.id() != router && self.faces.is_registered(face);
        let is_read = matches!(entry.reading, Reading::Parked { .. });
        entry.in_records.iter().any(|record| record.expires_at_ns > now_ns && is_other(record.face))
            && (is_read
                || entry.out_records.iter().any(|sent| sent.is_pending(now_ns) && is_other(sent.face)))
    }
}

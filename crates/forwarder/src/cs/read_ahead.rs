//! What a batch of packets will read of the content store, read before any of them is processed: see
//! [`crate::Batch`]. Nothing is decided here, and nothing changes.

use core::sync::atomic::Ordering::Relaxed;

use lock_api::RawMutex;

use super::Cs;
use crate::hash::NameHashes;
use crate::packet::PacketBuf;
use crate::slab::{Id, NONE};

/// Data that are looked at together: those of a batch's group of packets.
const GROUP: usize = 32;

/// Packets that are read together.
const PACKETS: usize = 8;

impl<B: PacketBuf, R: RawMutex> Cs<B, R> {
    /// Reads where lookups of Interests begin.
    pub(crate) fn read_names<'a>(&self, interests: impl Iterator<Item = &'a NameHashes>) -> u64 {
        if !self.serve.load(Relaxed) {
            return 0;
        }
        interests.fold(0, |read, hashes| read ^ self.index.read_name(hashes.whole()))
    }

    /// Reads the Data that Interests will find, once it is known where.
    pub(crate) fn read_found<'a>(&self, interests: impl Iterator<Item = &'a NameHashes>) -> u64 {
        if !self.serve.load(Relaxed) {
            return 0;
        }
        let mut ids = [NONE; GROUP];
        let mut found = 0;
        for id in interests.map(|hashes| self.index.read_entry(hashes.whole())).filter(|id| *id != NONE) {
            if let Some(place) = ids.get_mut(found) {
                *place = id;
                found += 1;
            }
        }
        let packets = ids[..found.next_multiple_of(PACKETS)].as_chunks::<PACKETS>().0;
        packets.iter().fold(0, |read, ids| read ^ self.index.read_packets(*ids))
    }

    /// Reads what insertions of Data will need, and the evictions that they cause.
    pub(crate) fn read_insertions<'a>(&self, data: impl Iterator<Item = &'a NameHashes> + Clone) -> u64 {
        let takes_any = self.admit.load(Relaxed) && self.limits.packets.load(Relaxed) > 0;
        if !takes_any || data.clone().next().is_none() {
            return 0;
        }
        let mut ids: [Id; GROUP] = [NONE; GROUP];
        let buckets = data.clone().fold(0, |read, hashes| read ^ self.index.read_buckets(hashes));
        let (lists, leaving) = self.books.0.lock().read_ahead(data.map(NameHashes::whole), &mut ids);
        ids[..leaving].iter().fold(buckets ^ lists, |read, id| read ^ self.index.read_leaving(*id))
    }
}

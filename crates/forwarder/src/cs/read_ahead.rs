//! Prefetches of content store memory for a batch of packets, before any of them is processed: see
//! [`crate::Batch`]. Prefetches affect no result and change no table.

use crate::cs::ids::Ids;
use crate::sync::plain::Ordering::Relaxed;

use lock_api::RawMutex;

use super::Cs;
use crate::hash::NameHashes;
use crate::packet::PacketBuf;
use crate::slab::NONE;

impl<B: PacketBuf, R: RawMutex> Cs<B, R> {
    /// Prefetches the first memory that lookups of Interests read.
    pub(crate) fn prefetch_names<'a>(&self, interests: impl Iterator<Item = &'a NameHashes>) {
        // Relaxed, as below: a flag that changes meanwhile only makes a prefetch useless.
        if self.serve.load(Relaxed) {
            interests.for_each(|hashes| self.index.prefetch_name(hashes.whole()));
        }
    }

    /// Prefetches the Data that Interests will find, once their names are prefetched.
    pub(crate) fn prefetch_found<'a>(&self, interests: impl Iterator<Item = &'a NameHashes>) -> Ids {
        let mut found = Ids::none();
        if self.serve.load(Relaxed) {
            let ids = interests.map(|hashes| self.index.prefetch_newest(hashes.whole()));
            ids.filter(|id| *id != NONE).for_each(|id| found.push(id));
        }
        found
    }

    /// Prefetches the packets of the found Data.
    pub(crate) fn prefetch_packets(&self, found: &Ids) {
        found.iter().for_each(|id| self.index.prefetch_packet(id));
    }

    /// Prefetches the first memory that insertions of Data read; returns the Data that will
    /// probably be evicted for them.
    pub(crate) fn prefetch_insertions<'a>(&self, data: impl Iterator<Item = &'a NameHashes> + Clone) -> Ids {
        let mut leaving = Ids::none();
        let takes_any = self.admit.load(Relaxed) && self.limits.packets.load(Relaxed) > 0;
        if takes_any && data.clone().next().is_some() {
            data.clone().for_each(|hashes| self.index.prefetch_buckets(hashes));
            // Locked once for the group and not for each packet.
            self.accounting.0.lock().prefetch(data.map(NameHashes::whole), &mut leaving);
            leaving.iter().for_each(|id| self.index.prefetch_entry(id));
        }
        leaving
    }

    /// Prefetches the links that insertions of Data change, once their buckets are in the cache.
    pub(crate) fn prefetch_lists<'a>(&self, data: impl Iterator<Item = &'a NameHashes>) {
        if self.admit.load(Relaxed) && self.limits.packets.load(Relaxed) > 0 {
            data.for_each(|hashes| self.index.prefetch_lists(hashes));
        }
    }

    /// Prefetches the memory for the removal of Data, once their entries are in the cache.
    pub(crate) fn prefetch_leaving(&self, leaving: &Ids) {
        leaving.iter().for_each(|id| self.index.prefetch_leaving(id));
    }
}

//! Batches of packets. The core waits for memory once or several times for each packet. In a batch,
//! these waits overlap.
//!
//! The first lookups of a packet are known as soon as its name is hashed. So all names of a batch
//! are hashed first. Then the cache lines of the tables that its packets need are prefetched
//! (`prefetch`); these misses overlap because nothing waits for them. Then the packets are
//! processed one by one, in order of arrival, as by [`crate::Forwarder::receive`]. Prefetches do
//! not affect results: if a table changes meanwhile, the lookup costs a cache miss.

use alloc::alloc::{Layout, handle_alloc_error};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use crate::error::ConfigError;
use crate::face_id::FaceId;
use crate::hash::NameHashes;
use crate::packet::Received;
use crate::pit::Satisfied;
use crate::pool::{HeapPart, boxed};
use crate::reserve::Reserve;

/// Packets that are prefetched together: more than the processor's concurrent misses, and few
/// enough for their table lines to stay in its first-level cache.
const AHEAD: usize = 32;

/// Packets to be processed together, each with its ingress face. The batch also owns the work
/// memory of their processing, so that it is not on the stack.
pub struct Batch<B> {
    pub(crate) packets: Vec<(FaceId, Received<B>)>,
    packets_max: usize,
    // Reused for each group of packets, because initializing a new array would write more memory
    // than a packet occupies. At least one, and at most as many as a batch had packets.
    pub(crate) hashes: Vec<NameHashes>,
    pub(crate) work: HeapPart<BatchScratch<B>>,
}

/// The work memory of a batch.
pub(crate) struct BatchScratch<B> {
    pub(crate) reserve: Reserve,
    /// Hashes of a name in a forwarding hint.
    pub(crate) hint: RefCell<Box<[NameHashes]>>,
    /// The entries that the current Data has satisfied.
    pub(crate) satisfied: Satisfied<B>,
}

impl<B> Batch<B> {
    /// Packets of a batch.
    ///
    /// [`Batch::with_room`] makes a batch of another capacity.
    ///
    /// # Limit
    /// A full batch returns a further packet to its caller; namelyd processes a batch as soon as it
    /// is full.
    /// - Value: 64, or the argument of `Batch::with_room`
    /// - Tests: `a_full_batch_returns_the_packet`
    pub const PACKETS_MAX: usize = 64;

    /// An empty batch with capacity for `PACKETS_MAX` packets. Its work memory grows with its
    /// packets. Aborts the process if the allocation fails: see [`Batch::with_room`].
    pub fn new() -> Self {
        let layout = Layout::new::<[(FaceId, Received<B>); 64]>();
        Batch::with(Self::PACKETS_MAX, 1).unwrap_or_else(|_| handle_alloc_error(layout))
    }

    /// An empty batch with capacity for `packets_max` packets. It allocates nothing afterwards.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn with_room(packets_max: usize) -> Result<Self, ConfigError> {
        Batch::with(packets_max, AHEAD)
    }

    fn with(packets_max: usize, ahead: usize) -> Result<Self, ConfigError> {
        let mut packets = Vec::new();
        packets.try_reserve_exact(packets_max).map_err(|_| ConfigError::OutOfMemory)?;
        let hashes = boxed(ahead, NameHashes::new)?.into_vec();
        let hint = RefCell::new(boxed(1, NameHashes::new)?);
        let work = || Ok(BatchScratch { reserve: Reserve::new(0), hint, satisfied: Satisfied::new() });
        Ok(Batch { packets, packets_max, hashes, work: HeapPart::new(work)? })
    }

    /// Adds a packet behind the others.
    ///
    /// # Errors
    ///
    /// The packet, if the batch is full.
    #[allow(clippy::result_large_err)]
    pub fn push(&mut self, face: FaceId, received: Received<B>) -> Result<(), Received<B>> {
        if self.is_full() {
            return Err(received);
        }
        self.packets.push((face, received));
        Ok(())
    }

    /// Allocates the hashes for the waiting packets, at most for those that are prefetched
    /// together. Without memory, fewer packets are prefetched together.
    #[inline]
    pub(crate) fn make_hashes(&mut self) {
        if self.hashes.len() < self.packets.len().min(AHEAD) {
            self.add_hashes();
        }
    }

    #[cold]
    #[inline(never)]
    fn add_hashes(&mut self) {
        let more = self.packets.len().min(AHEAD) - self.hashes.len();
        if self.hashes.try_reserve(more).is_ok() {
            // Made in place: a large frame on a small stack would hold them otherwise.
            self.hashes.extend(core::iter::repeat_with(NameHashes::new).take(more));
        }
    }

    /// The work memory for one packet outside the batch, while the batch is empty.
    pub(crate) fn work_memory(&mut self) -> (&mut BatchScratch<B>, &mut NameHashes) {
        (&mut *self.work, &mut self.hashes[0])
    }

    /// Packets that wait to be processed.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns true if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns true if the batch is full and must be processed.
    pub fn is_full(&self) -> bool {
        self.packets.len() >= self.packets_max
    }
}

impl<B: fmt::Debug> fmt::Debug for Batch<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("packets", &self.packets).finish_non_exhaustive()
    }
}

impl<B> Default for Batch<B> {
    fn default() -> Self {
        Batch::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_memory_grows_with_the_packets() {
        let mut batch = Batch::<[u8; 1]>::new();
        let mut sizes = Vec::new();
        for len in 1..=Batch::<[u8; 1]>::PACKETS_MAX {
            batch.push(FaceId::FIRST, Received::bare([0])).unwrap();
            batch.make_hashes();
            assert_eq!(batch.hashes.len(), len.min(AHEAD));
            sizes.push(batch.hashes.capacity());
        }
        sizes.dedup();
        assert!(sizes.len() <= 6, "{sizes:?}");
        assert_eq!(Batch::<[u8; 1]>::with_room(2).unwrap().hashes.len(), AHEAD);
    }
}

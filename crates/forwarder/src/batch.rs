//! Packets that were read together and are processed together, so that the core waits for memory
//! once for many of them instead of once, or several times, for each.
//!
//! What the first lookups of a packet will read is known as soon as its name is hashed. So a batch
//! is hashed first; then the table lines of all its packets are prefetched (`prefetch`), whose
//! misses overlap because nothing waits for them; then the packets are processed one by one, in the
//! order in which they came, as [`crate::Forwarder::receive`] does. Asking ahead decides nothing: a
//! table that changes meanwhile costs a miss.

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
use crate::pool::{Apart, boxed};
use crate::reserve::Reserve;

/// Packets that are read ahead together: more than the processor has misses under way at once, and
/// few enough for their table lines to stay in its first cache.
const AHEAD: usize = 32;

/// Packets to be processed together, each with the face that it came from, and the memory that
/// processing them takes: none of it is on the stack.
pub struct Batch<B> {
    pub(crate) packets: Vec<(FaceId, Received<B>)>,
    packets_max: usize,
    // Used again for each group: making them anew would clear more memory than a packet has.
    pub(crate) hashes: Box<[NameHashes]>,
    pub(crate) work: Apart<Work<B>>,
}

/// What a batch is processed with.
pub(crate) struct Work<B> {
    pub(crate) reserve: Reserve,
    /// Of a name of a forwarding hint.
    pub(crate) hint: RefCell<Box<[NameHashes]>>,
    /// What the Data that is processed has satisfied.
    pub(crate) satisfied: Satisfied<B>,
}

impl<B> Batch<B> {
    /// Maximum number of packets that a batch of [`Batch::new`] holds.
    pub const PACKETS_MAX: usize = 64;

    /// An empty batch, with memory for as many packets as it may hold. Without memory the process
    /// ends: see [`Batch::with_room`].
    pub fn new() -> Self {
        let layout = Layout::new::<[(FaceId, Received<B>); 64]>();
        Batch::with_room(Self::PACKETS_MAX).unwrap_or_else(|_| handle_alloc_error(layout))
    }

    /// An empty batch for so many packets, which allocates nothing from then on.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn with_room(packets_max: usize) -> Result<Self, ConfigError> {
        let mut packets = Vec::new();
        packets.try_reserve_exact(packets_max).map_err(|_| ConfigError::OutOfMemory)?;
        let hashes = boxed(AHEAD, NameHashes::new)?;
        let hint = RefCell::new(boxed(1, NameHashes::new)?);
        let work = || Ok(Work { reserve: Reserve::new(0), hint, satisfied: Satisfied::new() });
        Ok(Batch { packets, packets_max, hashes, work: Apart::new(work)? })
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

    /// What one packet beside the batch may be processed with, while no packet waits.
    pub(crate) fn work_memory(&mut self) -> (&Reserve, &RefCell<Box<[NameHashes]>>, &mut NameHashes) {
        let Work { reserve, hint, .. } = &*self.work;
        (reserve, hint, &mut self.hashes[0])
    }

    /// Packets that wait to be processed.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns true if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns true if it is time to process the batch: no more packets fit.
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

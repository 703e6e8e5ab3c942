//! Packets that were read together and are processed together, so that the core waits for memory
//! once for many of them instead of once, or several times, for each.
//!
//! What the first lookups of a packet will read is known as soon as its name is hashed. So a batch
//! is hashed first; then the table lines of all its packets are prefetched (`prefetch`), whose
//! misses overlap because nothing waits for them; then the packets are processed one by one, in the
//! order in which they came, as [`Forwarder::receive`] does. Asking ahead decides nothing: a table
//! that changes meanwhile costs a miss.

use alloc::alloc::{Layout, handle_alloc_error};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use lock_api::RawMutex;
use namely_wire::tlv::read_tlv;
use namely_wire::{PACKET_OCTETS_MAX, types};

use crate::error::ConfigError;
use crate::face_id::FaceId;
use crate::faces::batch_context::BatchContext;
use crate::forwarder::Forwarder;
use crate::hash::NameHashes;
use crate::packet::{Output, PacketBuf, Received};
use crate::pit::Satisfied;
use crate::pool::{Apart, boxed};
use crate::reserve::Reserve;

/// Packets that are read ahead together: more than the processor has misses under way at once, and
/// few enough for their table lines to stay in its first cache.
const AHEAD: usize = 32;

/// Packets to be processed together, each with the face that it came from, and the memory that
/// processing them takes: none of it is on the stack.
pub struct Batch<B> {
    packets: Vec<(FaceId, Received<B>)>,
    packets_max: usize,
    // Used again for each group: making them anew would clear more memory than a packet has.
    hashes: Box<[NameHashes]>,
    work: Apart<Work<B>>,
}

/// What a batch is processed with.
struct Work<B> {
    reserve: Reserve,
    /// Of a name of a forwarding hint.
    hint: RefCell<Box<[NameHashes]>>,
    /// What the Data that is processed has satisfied.
    satisfied: Satisfied<B>,
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

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Processes all packets of `batch`, in their order, and leaves it empty: the same as
    /// [`Forwarder::receive`] for each of them, in less time.
    pub fn receive_batch(&self, batch: &mut Batch<B>, now_ns: u64, out: &mut impl Output<B>) {
        let Batch { packets, hashes, work, .. } = batch;
        let Work { reserve, hint, satisfied } = &mut **work;
        let (reserve, hint) = (&*reserve, &*hint);
        reserve.begin(packets.len());
        let context = BatchContext::new(&self.faces, &self.counters, reserve, Some(hint), now_ns);
        let mut packets = packets.drain(..);
        while !packets.as_slice().is_empty() {
            let group = packets.as_slice().len().min(hashes.len());
            self.read_ahead(&packets.as_slice()[..group], hashes);
            for ((face, received), hashes) in packets.by_ref().take(group).zip(hashes.iter()) {
                self.process(&context, face, received, (hashes, satisfied), out);
                reserve.next();
            }
        }
        self.settle(reserve);
    }

    /// Hashes the names of packets, and brings what their lookups read first into the processor's
    /// cache. Not inlined, nor are the pipelines: each frame is on the stack only while its work is
    /// done.
    #[inline(never)]
    fn read_ahead(&self, packets: &[(FaceId, Received<B>)], hashes: &mut [NameHashes]) {
        for ((_, received), hashes) in packets.iter().zip(hashes.iter_mut()) {
            self.hasher.fill(name_octets(received.packet.as_ref()), hashes);
            self.pit.prefetch_bucket(hashes.whole());
            self.fib.prefetch_lengths(hashes);
        }
        let is_interest = |received: &Received<B>| {
            received.headers.nack.is_none()
                && received.packet.as_ref().first() == Some(&(types::INTEREST as u8))
        };
        let is_data = |received: &Received<B>| received.packet.as_ref().first() == Some(&(types::DATA as u8));
        let those = |is: fn(&Received<B>) -> bool| {
            let packets = packets.iter().zip(hashes.iter());
            packets.filter(move |((_, received), _)| is(received)).map(|(_, hashes)| hashes)
        };
        // Each step prefetches what the next one reads: as late as can be, so that it has come by
        // then.
        those(is_interest).for_each(|hashes| self.fib.prefetch_buckets(hashes));
        self.cs.prefetch_names(those(is_interest));
        let leaving = self.cs.prefetch_insertions(those(is_data));
        for ((_, received), hashes) in packets.iter().zip(hashes.iter()) {
            if is_interest(received) {
                self.fib.prefetch_entry(hashes);
            } else {
                self.pit.prefetch_entry(hashes.whole());
            }
        }
        let found = self.cs.prefetch_found(those(is_interest));
        self.cs.prefetch_leaving(&leaving);
        self.cs.prefetch_lists(those(is_data));
        self.cs.prefetch_packets(&found);
    }
}

/// The octets of the name in a packet that was not checked; `None` if there is no name where it
/// must be.
pub(crate) fn name_octets(packet: &[u8]) -> &[u8] {
    let name = || {
        let outer = read_tlv(packet).ok()?;
        let name = read_tlv(outer.value).ok().filter(|first| first.typ == types::NAME)?;
        (packet.len() <= PACKET_OCTETS_MAX).then_some(name.value)
    };
    name().unwrap_or_default()
}

//! Rings: one direction of packets, seen from either end.
//!
//! Slots are numbered by 16-bit counters that only grow (and wrap). The client owns the buffers of
//! both directions. On a ring from client to server, `head` counts the slots of written packets,
//! and `tail` the slots of read packets. On a ring from server to client, `head` counts the empty
//! buffers provided, and `tail` the buffers filled with packets. The client therefore always moves
//! `head` and the server `tail`, and each end trusts its own copy only.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::peer_waker::{self, WakePolicy};
use crate::shm::{Descriptor, Region, RingMemory};

/// The packet continues in the next slot.
const DESCRIPTOR_NEXT: u16 = 1;

/// The receiving end needs no interrupts (`MEMIF_RING_FLAG_MASK_INT`).
const RING_MASK_INTERRUPT: u16 = 1;

/// Slots of one packet sent by shared memory.
///
/// # Limit
/// The packet is dropped.
/// - Value: 64, and the slots of the ring
/// - Counter: `message_too_large`
/// - Tests: `a_long_packet_is_chained`
pub(crate) const CHAIN_SLOTS_MAX: usize = 64;

/// Packets after which the freed slots are published to the other end.
const PUBLISH_PACKETS: usize = 32;

/// The peer broke the rules of a ring. The fault is the peer's; the interface cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// An index of a memif ring moved further than the ring has slots.
    #[error("a ring's index moved further than there are slots")]
    BadIndex,
    /// A slot of a memif ring names a region that does not exist.
    #[error("a slot names a region that there is not")]
    BadRegion,
    /// The buffer of a memif slot is not wholly inside its region, or has no octets.
    #[error("a slot's buffer is not inside its region")]
    BadRange,
    /// A packet continues through the whole memif ring.
    #[error("a packet without an end")]
    EndlessChain,
}

impl RingFault {
    /// The name under which it is counted.
    pub fn label(self) -> &'static str {
        match self {
            RingFault::BadIndex => "memif_bad_index",
            RingFault::BadRegion => "memif_bad_region",
            RingFault::BadRange => "memif_bad_range",
            RingFault::EndlessChain => "memif_endless_chain",
        }
    }
}

/// The side of a ring, with the constants of that side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// The end that owns the buffers: slot n has the one at `first + n * octets` of region
    /// `region`.
    Client {
        region: u16,
        first: u32,
        octets: u32,
    },
    Server,
}

/// The state that both directions have in common.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) memory: RingMemory,
    /// Wakes the receiving end.
    pub(crate) event: OwnedFd,
    pub(crate) side: Side,
    /// The next slot that this end reads or writes.
    pub(crate) next: u16,
}

impl End {
    pub(crate) fn new(memory: RingMemory, event: OwnedFd, side: Side) -> Self {
        End { memory, event, side, next: 0 }
    }

    /// At the client's end: writes the descriptors of all buffers. Done before the ring is sent to
    /// the server, which reads the sizes of the buffers there.
    pub(crate) fn lay_out(&self) {
        for slot in 0..self.memory.size() {
            self.memory.set_descriptor(slot, self.own(slot).unwrap_or_default());
        }
    }

    /// At the client's receiving end: provides all buffers to the server. Done before the ring is
    /// sent to the server, so that the server may send at once. Done again when the client is
    /// connected, because libmemif has set the indexes of all rings to 0 in between.
    pub(crate) fn provide_all(&self) {
        self.publish(self.memory.size());
    }

    /// The buffer of a slot at the client's end.
    fn own(&self, slot: u16) -> Option<Descriptor> {
        match self.side {
            Side::Client { region, first, octets } => {
                let place = u32::from(slot & (self.memory.size() - 1));
                Some(Descriptor { flags: 0, region, octets, offset: first + place * octets })
            }
            Side::Server => None,
        }
    }

    /// At the receiving end: requests the other end to send interrupts, or none if `is_masked`.
    pub(crate) fn mask(&self, is_masked: bool) {
        // Relaxed: no data depends on this flag. Where a wake-up depends on it, both ends have a
        // fence beside the access (`TransmitRing::publish` and `Receiver::sleep`).
        self.memory.flags().store(if is_masked { RING_MASK_INTERRUPT } else { 0 }, Ordering::Relaxed);
    }

    /// Returns the other end's index. Acquire pairs with the Release of the peer: descriptors and
    /// octets that the peer wrote before it published the index are visible after this load.
    #[inline]
    fn theirs(&self) -> u16 {
        match self.side {
            Side::Client { .. } => self.memory.tail().load(Ordering::Acquire),
            Side::Server => self.memory.head().load(Ordering::Acquire),
        }
    }

    /// Publishes this end's index. Release: earlier writes are visible to an end that reads the
    /// index.
    #[inline]
    fn publish(&self, index: u16) {
        match self.side {
            Side::Client { .. } => self.memory.head().store(index, Ordering::Release),
            Side::Server => self.memory.tail().store(index, Ordering::Release),
        }
    }
}

/// The result of one receiving call on a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiveOutcome {
    pub(crate) packets: usize,
    pub(crate) too_long: u64,
    /// Whether `deliver` returned false.
    pub(crate) is_stopped: bool,
}

/// A part of a packet in a region, whose range was checked.
#[derive(Clone, Copy, Debug)]
struct Piece {
    region: usize,
    offset: usize,
    octets: usize,
}

/// A packet in the buffers of a ring. The peer can still change its octets, so only a copy may be
/// read.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedPacket<'a> {
    regions: &'a [Arc<Region>],
    pieces: &'a [Piece],
    octets: usize,
}

impl ReceivedPacket<'_> {
    /// Returns its length in octets, which is fixed.
    #[inline]
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Copies it to the front of `into`, as far as there is room.
    #[inline]
    pub fn copy_to(&self, into: &mut [u8]) {
        let mut rest = into;
        for piece in self.pieces {
            let (part, others) = rest.split_at_mut(piece.octets.min(rest.len()));
            let is_read =
                self.regions.get(piece.region).is_some_and(|region| region.read(piece.offset, part));
            debug_assert!(is_read, "its range was checked");
            rest = others;
        }
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    end: End,
    /// The peer's index when it was last read.
    seen: u16,
    /// Whether the slots up to `seen` hold the beginning of a packet without its end.
    is_partial: bool,
    /// The pieces of the packet that is being received.
    pieces: Vec<Piece>,
}

impl ReceiveRing {
    pub(crate) fn new(end: End) -> Self {
        ReceiveRing { end, seen: 0, is_partial: false, pieces: Vec::new() }
    }

    pub(crate) fn event(&self) -> &OwnedFd {
        &self.end.event
    }

    /// Slots to read.
    fn available(&mut self) -> Result<u16, RingFault> {
        self.seen = self.end.theirs();
        let available = self.seen.wrapping_sub(self.end.next);
        // A full ring is the limit for either end: the client provides no more buffers than there
        // are slots.
        if available > self.end.memory.size() { Err(RingFault::BadIndex) } else { Ok(available) }
    }

    /// Returns true if there is something to read, other than the beginning of a packet that was
    /// seen already.
    pub(crate) fn has_news(&self) -> bool {
        let theirs = self.end.theirs();
        theirs != self.end.next && !(self.is_partial && theirs == self.seen)
    }

    /// Requests the other end to send interrupts, or none if `is_masked`.
    pub(crate) fn mask(&self, is_masked: bool) {
        self.end.mask(is_masked);
    }

    /// Passes up to `packets_max` packets to `deliver`, until `deliver` returns false.
    pub(crate) fn receive(
        &mut self,
        regions: &[Arc<Region>],
        packets_max: usize,
        packet_octets_max: usize,
        deliver: &mut dyn FnMut(ReceivedPacket<'_>) -> bool,
    ) -> Result<ReceiveOutcome, RingFault> {
        let mut took = ReceiveOutcome::default();
        let mut available = 0;
        let first = self.end.next;
        self.is_partial = false;
        while took.packets < packets_max && !took.is_stopped {
            if available == 0 {
                available = self.available()?;
            }
            let Some((slots, octets)) = self.find_packet(regions, available, packet_octets_max)? else {
                // There is no packet, or its end is missing. If no more slots have arrived since,
                // the rest is read when more do.
                if self.available()? == available {
                    self.is_partial = available > 0;
                    break;
                }
                available = 0;
                continue;
            };
            if available > slots {
                self.prefetch(regions, slots);
            }
            match octets {
                Some(octets) => {
                    took.is_stopped = !deliver(ReceivedPacket { regions, pieces: &self.pieces, octets });
                }
                None => took.too_long += 1,
            }
            self.release(slots);
            available -= slots;
            took.packets += 1;
            if took.packets % PUBLISH_PACKETS == 0 {
                self.end.publish(self.index());
            }
        }
        if self.end.next != first {
            self.end.publish(self.index());
        }
        Ok(took)
    }

    /// Finds the next packet: its slots, and its octets unless it is too long. `None` if its end
    /// has not arrived yet.
    #[inline]
    fn find_packet(
        &mut self,
        regions: &[Arc<Region>],
        available: u16,
        packet_octets_max: usize,
    ) -> Result<Option<(u16, Option<usize>)>, RingFault> {
        self.pieces.clear();
        let mut packet_octets = 0usize;
        for n in 0..available {
            let slot = self.end.next.wrapping_add(n);
            let read = self.end.memory.descriptor(slot);
            let octets = read.octets as usize;
            // A client computes the region and the offset of its buffers. They are not read from
            // the slot, because the server may have overwritten them.
            let (region, offset) = match self.end.own(slot) {
                Some(own) if octets <= own.octets as usize => (own.region, own.offset),
                Some(_) => return Err(RingFault::BadRange),
                None => (read.region, read.offset),
            };
            let piece = Piece { region: usize::from(region), offset: offset as usize, octets };
            let memory = regions.get(piece.region).ok_or(RingFault::BadRegion)?;
            packet_octets = packet_octets.saturating_add(octets);
            if packet_octets <= packet_octets_max {
                if !memory.has(piece.offset, octets) {
                    return Err(RingFault::BadRange);
                }
                self.pieces.push(piece);
            }
            if read.flags & DESCRIPTOR_NEXT == 0 {
                let fits = packet_octets <= packet_octets_max;
                return Ok(Some((n + 1, fits.then_some(packet_octets))));
            }
        }
        if available == self.end.memory.size() { Err(RingFault::EndlessChain) } else { Ok(None) }
    }

    /// Prefetches the content of the slot `ahead` slots further on, which is in the other end's
    /// caches.
    #[inline]
    fn prefetch(&self, regions: &[Arc<Region>], ahead: u16) {
        let slot = self.end.next.wrapping_add(ahead);
        let read = self.end.memory.descriptor(slot);
        let (region, offset) =
            self.end.own(slot).map_or((read.region, read.offset), |own| (own.region, own.offset));
        if let Some(region) = regions.get(usize::from(region)) {
            region.prefetch(offset as usize, read.octets as usize);
        }
    }

    /// Releases slots. A client restores their descriptors, which the server may have overwritten.
    #[inline]
    fn release(&mut self, slots: u16) {
        for n in 0..slots {
            let slot = self.end.next.wrapping_add(n);
            if let Some(own) = self.end.own(slot) {
                self.end.memory.set_descriptor(slot, own);
            }
        }
        self.end.next = self.end.next.wrapping_add(slots);
    }

    /// Returns the index to publish. A client provides the slots that it has read again, so its
    /// index is one ring further on.
    fn index(&self) -> u16 {
        match self.end.side {
            Side::Client { .. } => self.end.next.wrapping_add(self.end.memory.size()),
            Side::Server => self.end.next,
        }
    }
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The packet is in the ring; [`Sender::publish`](crate::Sender::publish) makes it visible to
    /// the peer.
    Accepted,
    /// No slot is free.
    Full,
    /// The packet would not even fit an empty ring.
    TooLong,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct TransmitRing {
    end: End,
    /// Slots known to be free from `next` on.
    free: u16,
    /// The last published index.
    published: u16,
    /// The slots of a packet, read once.
    plan: Vec<Descriptor>,
    waking: WakePolicy,
}

impl TransmitRing {
    pub(crate) fn new(end: End, waking: WakePolicy) -> Self {
        TransmitRing { end, free: 0, published: 0, plan: Vec::with_capacity(CHAIN_SLOTS_MAX), waking }
    }

    /// Returns the octets of the smallest buffer, or `None` while they are unknown.
    pub(crate) fn buffer_octets(&self) -> Option<u32> {
        match self.end.side {
            Side::Client { octets, .. } => Some(octets),
            Side::Server => (0..self.end.memory.size())
                .map(|slot| self.end.memory.descriptor(slot).octets)
                .min()
                .filter(|octets| *octets > 0),
        }
    }

    /// Returns the number of free slots.
    fn room(&self) -> Result<u16, RingFault> {
        let size = self.end.memory.size();
        let free = match self.end.side {
            Side::Client { .. } => {
                let under_way = self.end.next.wrapping_sub(self.end.theirs());
                size.checked_sub(under_way)
            }
            Side::Server => Some(self.end.theirs().wrapping_sub(self.end.next)).filter(|free| *free <= size),
        };
        free.ok_or(RingFault::BadIndex)
    }

    /// Writes a packet of several parts.
    pub(crate) fn push(
        &mut self,
        regions: &[Arc<Region>],
        parts: &[&[u8]],
    ) -> Result<PushOutcome, RingFault> {
        let octets: usize = parts.iter().map(|part| part.len()).sum();
        if !self.plan(octets)? {
            let seen = self.free;
            self.free = self.room()?;
            if self.free == seen || !self.plan(octets)? {
                let slots_max = CHAIN_SLOTS_MAX.min(usize::from(self.end.memory.size()));
                let is_hopeless = self.plan.len() >= slots_max;
                return Ok(if is_hopeless { PushOutcome::TooLong } else { PushOutcome::Full });
            }
        }
        let mut parts = Parts { parts, at: 0 };
        let last = self.plan.len().saturating_sub(1);
        for (n, planned) in self.plan.iter().enumerate() {
            let region = regions.get(usize::from(planned.region)).ok_or(RingFault::BadRegion)?;
            let written = parts.copy_to(region, planned)?;
            let flags = if n < last { DESCRIPTOR_NEXT } else { 0 };
            let slot = self.end.next.wrapping_add(n as u16);
            self.end.memory.set_descriptor(slot, Descriptor { flags, octets: written, ..*planned });
        }
        let slots = self.plan.len() as u16;
        self.end.next = self.end.next.wrapping_add(slots);
        self.free -= slots;
        Ok(PushOutcome::Accepted)
    }

    /// Reads slots until `octets` fit. Returns false if there are not enough free ones.
    #[inline]
    fn plan(&mut self, octets: usize) -> Result<bool, RingFault> {
        self.plan.clear();
        let mut room = 0;
        for n in 0..self.free.min(CHAIN_SLOTS_MAX as u16) {
            let slot = self.end.next.wrapping_add(n);
            let planned = self.end.own(slot).unwrap_or_else(|| self.end.memory.descriptor(slot));
            if planned.octets == 0 {
                return Err(RingFault::BadRange);
            }
            room += planned.octets as usize;
            self.plan.push(planned);
            if room >= octets {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Publishes the pushed packets to the peer, and wakes it unless it has masked interrupts.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.published == self.end.next {
            return;
        }
        self.published = self.end.next;
        self.end.publish(self.end.next);
        // Pairs with the fence in `Receiver::sleep`: either this end sees the flag cleared, or the
        // peer sees the index.
        fence(Ordering::SeqCst);
        if self.end.memory.flags().load(Ordering::Relaxed) & RING_MASK_INTERRUPT == 0 {
            peer_waker::ring(&self.end.event, self.waking);
        }
    }
}

/// The unwritten rest of a packet's parts.
struct Parts<'a> {
    parts: &'a [&'a [u8]],
    at: usize,
}

impl Parts<'_> {
    /// Fills one slot's buffer. Returns the octets written.
    #[inline]
    fn copy_to(&mut self, region: &Region, slot: &Descriptor) -> Result<u32, RingFault> {
        let mut written = 0;
        while let Some((part, rest)) = self.parts.split_first() {
            let room = (slot.octets - written) as usize;
            let chunk = &part[self.at..];
            let chunk = &chunk[..chunk.len().min(room)];
            let offset = slot.offset as usize + written as usize;
            if !region.write(offset, chunk) {
                return Err(RingFault::BadRange);
            }
            written += chunk.len() as u32;
            self.at += chunk.len();
            if self.at < part.len() {
                break;
            }
            (self.parts, self.at) = (rest, 0);
        }
        Ok(written)
    }
}

//! Rings: one direction of packets, seen from either end.
//!
//! Slots are numbered by 16-bit counters that only grow (and wrap). The client owns the buffers of
//! both directions. On a ring from client to server `head` says how far packets were written and
//! `tail` how far they were read; on a ring from server to client `head` says how far empty buffers
//! were given and `tail` how far packets were written to them. So the client always moves `head`
//! and the server `tail`, and each end trusts its own copy only.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::bell::{self, Waking};
use crate::shm::{Descriptor, Region, RingMemory};

/// The packet goes on in the next slot.
const DESCRIPTOR_NEXT: u16 = 1;

/// The receiving end needs no interrupts (`MEMIF_RING_FLAG_MASK_INT`).
const RING_MASK_INTERRUPT: u16 = 1;

/// Slots that one packet may take when it is sent.
pub(crate) const CHAIN_SLOTS_MAX: usize = 64;

/// Packets after which the other end is told that their slots are free.
const PUBLISH_PACKETS: usize = 32;

/// How a peer broke the rules of a ring. Its fault; the interface cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFault {
    /// An index moved further than there are slots.
    BadIndex,
    /// A slot names a region that there is not.
    BadRegion,
    /// A slot's buffer is not wholly inside its region, or has no octets.
    BadRange,
    /// A packet goes on through the whole ring.
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

impl fmt::Display for RingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RingFault::BadIndex => "a ring's index moved further than there are slots",
            RingFault::BadRegion => "a slot names a region that there is not",
            RingFault::BadRange => "a slot's buffer is not inside its region",
            RingFault::EndlessChain => "a packet without an end",
        })
    }
}

impl std::error::Error for RingFault {}

/// Which end of a ring this is, and what it knows by itself.
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

/// What both directions have in common.
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

    /// At the client's end: names all buffers. Done before the server is told of the ring: it looks
    /// there for their size.
    pub(crate) fn lay_out(&self) {
        for slot in 0..self.memory.size() {
            self.memory.set_descriptor(slot, self.own(slot).unwrap_or_default());
        }
    }

    /// At the client's receiving end: all buffers are the server's to fill. Done before the server
    /// is told of the ring, so that it may send at once, and again when it is connected: libmemif
    /// sets the indexes of all rings to 0 before.
    pub(crate) fn give_all(&self) {
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

    /// At the receiving end: tells the other one whether to send interrupts.
    pub(crate) fn mask(&self, is_masked: bool) {
        // Nothing is read because of it alone: where a wake-up depends on it, a fence stands beside
        // it at both ends (`publish`, and `sleep` of the interface).
        self.memory.flags().store(if is_masked { RING_MASK_INTERRUPT } else { 0 }, Ordering::Relaxed);
    }

    /// The other end's index. Acquired: what the peer wrote before it published it, descriptors and
    /// the octets that they show, is read after it.
    #[inline]
    fn theirs(&self) -> u16 {
        match self.side {
            Side::Client { .. } => self.memory.tail().load(Ordering::Acquire),
            Side::Server => self.memory.head().load(Ordering::Acquire),
        }
    }

    /// Publishes this end's index: what was written before is seen by whoever sees it.
    #[inline]
    fn publish(&self, index: u16) {
        match self.side {
            Side::Client { .. } => self.memory.head().store(index, Ordering::Release),
            Side::Server => self.memory.tail().store(index, Ordering::Release),
        }
    }
}

/// What one call took from a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Took {
    pub(crate) packets: usize,
    pub(crate) too_long: u64,
    /// The packet's receiver wants no more.
    pub(crate) is_stopped: bool,
}

/// A part of a packet in a region, whose range was checked.
#[derive(Clone, Copy, Debug)]
struct Piece {
    region: usize,
    offset: usize,
    octets: usize,
}

/// A packet in the buffers of a ring. The peer can still change its octets, so that it is looked at
/// in a copy only.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    regions: &'a [Arc<Region>],
    pieces: &'a [Piece],
    octets: usize,
}

impl Arrived<'_> {
    /// Its octets: they do not change any more.
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
pub(crate) struct Inward {
    end: End,
    /// The peer's index when it was last read.
    seen: u16,
    /// Up to there lies the beginning of a packet, and no end.
    is_partial: bool,
    /// Where the packet lies that is being received.
    pieces: Vec<Piece>,
}

impl Inward {
    pub(crate) fn new(end: End) -> Self {
        Inward { end, seen: 0, is_partial: false, pieces: Vec::new() }
    }

    pub(crate) fn event(&self) -> &OwnedFd {
        &self.end.event
    }

    /// Slots to read.
    fn available(&mut self) -> Result<u16, RingFault> {
        self.seen = self.end.theirs();
        let available = self.seen.wrapping_sub(self.end.next);
        // Full is as far as either may go: the client gives no more buffers than there are slots.
        if available > self.end.memory.size() { Err(RingFault::BadIndex) } else { Ok(available) }
    }

    /// Returns true if there is something to read, other than the beginning of a packet that was
    /// seen already.
    pub(crate) fn has_news(&self) -> bool {
        let theirs = self.end.theirs();
        theirs != self.end.next && !(self.is_partial && theirs == self.seen)
    }

    /// Tells the other end whether to send interrupts.
    pub(crate) fn mask(&self, is_masked: bool) {
        self.end.mask(is_masked);
    }

    /// Shows up to `packets_max` packets to `deliver`, until that says false.
    pub(crate) fn receive(
        &mut self,
        regions: &[Arc<Region>],
        packets_max: usize,
        packet_octets_max: usize,
        deliver: &mut dyn FnMut(Arrived<'_>) -> bool,
    ) -> Result<Took, RingFault> {
        let mut took = Took::default();
        let mut available = 0;
        let first = self.end.next;
        self.is_partial = false;
        while took.packets < packets_max && !took.is_stopped {
            if available == 0 {
                available = self.available()?;
            }
            let Some((slots, octets)) = self.find_packet(regions, available, packet_octets_max)? else {
                // None there, or its end is not: then no more came since, and it is looked at when
                // more comes.
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
                    took.is_stopped = !deliver(Arrived { regions, pieces: &self.pieces, octets });
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

    /// Finds where the next packet lies: its slots, and its octets unless it is too long. `None` if
    /// its end has not come yet.
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
            // A client knows its buffers; what the server may have written over that is not looked
            // at.
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

    /// Asks the processor for what lies in the slot that is so far ahead: the other end has it in
    /// its caches.
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

    /// Gives slots back.
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

    /// This end's index: a client gives the slots it has read once more, a ring further on.
    fn index(&self) -> u16 {
        match self.end.side {
            Side::Client { .. } => self.end.next.wrapping_add(self.end.memory.size()),
            Side::Server => self.end.next,
        }
    }
}

/// What became of a packet that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring; [`Sender::publish`](crate::Sender::publish) shows it to the peer.
    Taken,
    /// No slot is free.
    Full,
    /// It would not even fit an empty ring.
    TooLong,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Outward {
    end: End,
    /// Slots known to be free from `next` on.
    free: u16,
    /// What was published.
    published: u16,
    /// The slots of a packet, read once.
    plan: Vec<Descriptor>,
    waking: Waking,
}

impl Outward {
    pub(crate) fn new(end: End, waking: Waking) -> Self {
        Outward { end, free: 0, published: 0, plan: Vec::with_capacity(CHAIN_SLOTS_MAX), waking }
    }

    /// Octets of the smallest buffer, as far as they are known.
    pub(crate) fn buffer_octets(&self) -> Option<u32> {
        match self.end.side {
            Side::Client { octets, .. } => Some(octets),
            Side::Server => (0..self.end.memory.size())
                .map(|slot| self.end.memory.descriptor(slot).octets)
                .min()
                .filter(|octets| *octets > 0),
        }
    }

    /// Slots that are free.
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
    pub(crate) fn push(&mut self, regions: &[Arc<Region>], parts: &[&[u8]]) -> Result<Pushed, RingFault> {
        let octets: usize = parts.iter().map(|part| part.len()).sum();
        if !self.plan(octets)? {
            let seen = self.free;
            self.free = self.room()?;
            if self.free == seen || !self.plan(octets)? {
                let slots_max = CHAIN_SLOTS_MAX.min(usize::from(self.end.memory.size()));
                let is_hopeless = self.plan.len() >= slots_max;
                return Ok(if is_hopeless { Pushed::TooLong } else { Pushed::Full });
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
        Ok(Pushed::Taken)
    }

    /// Reads slots until `octets` fit; false if there are not enough free ones.
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

    /// Shows the peer what was pushed, and wakes it if it asks for that.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.published == self.end.next {
            return;
        }
        self.published = self.end.next;
        self.end.publish(self.end.next);
        // Against `Receiver::sleep`: either this sees the flag cleared, or that one sees the index.
        fence(Ordering::SeqCst);
        if self.end.memory.flags().load(Ordering::Relaxed) & RING_MASK_INTERRUPT == 0 {
            bell::ring(&self.end.event, self.waking);
        }
    }
}

/// What of a packet's parts is not written yet.
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

//! A connected interface: its sender, its receiver, and the link that watches the peer.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use namely_host::shares::Share;

use crate::link::Link;
use crate::message::Text;
pub use crate::ring::{PushOutcome, ReceivedPacket};
use crate::ring::{ReceiveRing, RingFault, TransmitRing};
use crate::shm::Region;

/// A connected interface. Its parts may be used by different threads. The memory is unmapped when
/// the last of them is dropped.
#[derive(Debug)]
pub struct Interface {
    /// Sends.
    pub sender: Sender,
    /// Receives.
    pub receiver: Receiver,
    /// Watches the peer.
    pub link: Link,
    /// The peer's name for itself.
    pub peer: Text<32>,
    /// The shares to which the memory of a server is charged.
    pub shares: Vec<Arc<Share>>,
}

/// The result of one call of [`Receiver::receive`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets taken from the rings.
    pub packets: usize,
    /// Of these, dropped because they were longer than `packet_octets_max`.
    pub too_long: u64,
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiver {
    rings: Vec<ReceiveRing>,
    regions: Vec<Arc<Region>>,
    packet_octets_max: usize,
    packet: Vec<u8>,
    /// The ring with which the next call begins, so that no ring starves.
    first: usize,
    masks: bool,
    is_awake: bool,
}

impl Receiver {
    pub(crate) fn new(
        rings: Vec<ReceiveRing>,
        regions: Vec<Arc<Region>>,
        packet_octets_max: usize,
        masks: bool,
    ) -> Self {
        Receiver { rings, regions, packet_octets_max, packet: Vec::new(), first: 0, masks, is_awake: false }
    }

    /// Takes up to `packets_max` packets and passes a private copy of each to `deliver`, until
    /// `deliver` returns false.
    ///
    /// # Errors
    /// The peer's: a ring that breaks the rules.
    pub fn receive(
        &mut self,
        packets_max: usize,
        deliver: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Received, RingFault> {
        let mut copy = std::mem::take(&mut self.packet);
        let received = self.receive_each(packets_max, &mut |arrived| {
            let octets = arrived.octets();
            if copy.len() < octets {
                copy.resize(octets, 0);
            }
            arrived.copy_to(&mut copy[..octets]);
            deliver(&copy[..octets])
        });
        self.packet = copy;
        received
    }

    /// Like `receive`, but `deliver` makes the copy itself, directly to its destination.
    ///
    /// # Errors
    /// The peer's: a ring that breaks the rules.
    pub fn receive_each(
        &mut self,
        packets_max: usize,
        deliver: &mut dyn FnMut(ReceivedPacket<'_>) -> bool,
    ) -> Result<Received, RingFault> {
        let mut received = Received::default();
        let rings = self.rings.len();
        for n in 0..rings {
            let Some(ring) = self.rings.get_mut((self.first + n) % rings) else { break };
            let packets_max = packets_max - received.packets;
            let took = ring.receive(&self.regions, packets_max, self.packet_octets_max, deliver)?;
            received.packets += took.packets;
            received.too_long += took.too_long;
            if took.is_stopped || took.packets == packets_max {
                break;
            }
        }
        self.first = (self.first + 1) % rings.max(1);
        Ok(received)
    }

    /// Requests the peer not to wake this end, which polls by itself. This has no effect if the
    /// peer is another implementation. Such a peer (libmemif) does not order the store of its index
    /// before the load of the flag, so a wake-up could be lost.
    pub fn stay_awake(&mut self) {
        if self.masks && !self.is_awake {
            self.is_awake = true;
            self.rings.iter().for_each(|ring| ring.mask(true));
        }
    }

    /// Requests the peer to wake this end. Returns false if a packet has arrived meanwhile: the
    /// caller must not sleep then.
    pub fn sleep(&mut self) -> bool {
        if self.masks && self.is_awake {
            self.is_awake = false;
            self.rings.iter().for_each(|ring| ring.mask(false));
            // Pairs with the fence in `TransmitRing::publish`: either the peer sees the flag, or
            // this end sees the peer's index.
            fence(Ordering::SeqCst);
        }
        !self.rings.iter().any(ReceiveRing::has_news)
    }
}

/// The sending half.
#[derive(Debug)]
pub struct Sender {
    rings: Vec<TransmitRing>,
    regions: Vec<Arc<Region>>,
}

impl Sender {
    pub(crate) fn new(rings: Vec<TransmitRing>, regions: Vec<Arc<Region>>) -> Self {
        Sender { rings, regions }
    }

    /// Returns the octets of the peer's smallest buffer, or `None` while they are unknown. A packet
    /// up to this length takes one buffer.
    pub fn buffer_octets(&self) -> Option<u32> {
        self.rings.iter().filter_map(TransmitRing::buffer_octets).min()
    }

    /// Writes a packet, whose octets are `parts` in order, into the first ring that has room for
    /// it. Packets are in order as long as the first ring has room.
    ///
    /// # Errors
    /// The peer's: a ring that breaks the rules.
    #[inline]
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<PushOutcome, RingFault> {
        let mut pushed = PushOutcome::Full;
        for ring in &mut self.rings {
            pushed = ring.push(&self.regions, parts)?;
            if pushed != PushOutcome::Full {
                break;
            }
        }
        Ok(pushed)
    }

    /// Publishes the pushed packets to the peer, and wakes it if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        self.rings.iter_mut().for_each(TransmitRing::publish);
    }
}

//! A connected interface: what sends, what receives, what watches.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use namely_host::shares::Share;

use crate::link::Link;
use crate::message::Text;
pub use crate::ring::{Arrived, Pushed};
use crate::ring::{Inward, Outward, RingFault};
use crate::shm::Region;

/// A connected interface. Its parts may go to different threads; the memory is unmapped when the
/// last of them is gone.
#[derive(Debug)]
pub struct Interface {
    /// Sends.
    pub sender: Sender,
    /// Receives.
    pub receiver: Receiver,
    /// Watches the peer.
    pub link: Link,
    /// How the peer calls itself.
    pub peer: Text<32>,
    /// What the memory is charged to, of a server.
    pub shares: Vec<Arc<Share>>,
}

/// What one call of [`Receiver::receive`] did.
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
    rings: Vec<Inward>,
    regions: Vec<Arc<Region>>,
    packet_octets_max: usize,
    packet: Vec<u8>,
    /// Where the next call begins, so that no ring starves.
    first: usize,
    masks: bool,
    is_awake: bool,
}

impl Receiver {
    pub(crate) fn new(
        rings: Vec<Inward>,
        regions: Vec<Arc<Region>>,
        packet_octets_max: usize,
        masks: bool,
    ) -> Self {
        Receiver { rings, regions, packet_octets_max, packet: Vec::new(), first: 0, masks, is_awake: false }
    }

    /// Takes up to `packets_max` packets and hands a private copy of each to `deliver`, until that
    /// says false.
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

    /// The same, but `deliver` makes the copy, to where it wants to have the packet.
    ///
    /// # Errors
    /// The peer's: a ring that breaks the rules.
    pub fn receive_each(
        &mut self,
        packets_max: usize,
        deliver: &mut dyn FnMut(Arrived<'_>) -> bool,
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

    /// Asks the peer not to wake this end: it looks by itself. Without effect if the peer is no
    /// namely, since others (libmemif) do not order their index before their look at the flag, and
    /// a wake-up could be lost.
    pub fn stay_awake(&mut self) {
        if self.masks && !self.is_awake {
            self.is_awake = true;
            self.rings.iter().for_each(|ring| ring.mask(true));
        }
    }

    /// Asks the peer to wake this end. False if something has come meanwhile: there is no sleeping
    /// then.
    pub fn sleep(&mut self) -> bool {
        if self.masks && self.is_awake {
            self.is_awake = false;
            self.rings.iter().for_each(|ring| ring.mask(false));
            // Against `Sender::publish`: either the peer sees the flag, or this end sees its index.
            fence(Ordering::SeqCst);
        }
        !self.rings.iter().any(Inward::has_news)
    }
}

/// The sending half.
#[derive(Debug)]
pub struct Sender {
    rings: Vec<Outward>,
    regions: Vec<Arc<Region>>,
}

impl Sender {
    pub(crate) fn new(rings: Vec<Outward>, regions: Vec<Arc<Region>>) -> Self {
        Sender { rings, regions }
    }

    /// Octets of the peer's smallest buffer, if they are known by now: a packet that is not longer
    /// needs one only.
    pub fn buffer_octets(&self) -> Option<u32> {
        self.rings.iter().filter_map(Outward::buffer_octets).min()
    }

    /// Writes a packet, whose octets are `parts` in order, into the first ring that has room for
    /// it. Packets are in order as long as the first ring has room.
    ///
    /// # Errors
    /// The peer's: a ring that breaks the rules.
    #[inline]
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<Pushed, RingFault> {
        let mut pushed = Pushed::Full;
        for ring in &mut self.rings {
            pushed = ring.push(&self.regions, parts)?;
            if pushed != Pushed::Full {
                break;
            }
        }
        Ok(pushed)
    }

    /// Shows the peer what was pushed, and wakes it if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        self.rings.iter_mut().for_each(Outward::publish);
    }
}

//! Turns link packets into network packets: parses headers, reassembles fragments, and calls the
//! handler.

use std::ops::Range;

use namely_link::{
    LinkDrop, LinkDrops, LinkKind, LinkReceiver, PacketLocation, ReassemblyLimits, ReassemblyTotal,
    ReceivePolicy,
};
use namely_wire::{DataView, DecodeError, InterestView, LpHeaders, LpView, tlv, types};

use super::incoming::{Incoming, Packet};
use super::outbox::Outbox;
use super::shown;

/// Maximum octets of incomplete packets.
const REASSEMBLY_OCTETS_MAX: usize = 4 << 20;

/// Counters of a connection: traffic, and drops by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Link packets received.
    pub packets_in: u64,
    /// Octets of them.
    pub octets_in: u64,
    /// Reconnections to the router.
    pub reconnects: u64,
    /// Dropped: not an NDNLPv2 packet, an Interest or a Data.
    pub dropped_malformed: u64,
    /// Dropped: an unexpected fragment, or one that does not match the others of its packet.
    pub dropped_fragment: u64,
    /// Dropped: datagrams that the system refused, because they are too long for the link or there
    /// is no memory.
    pub dropped_unsent: u64,
    /// Dropped: Ethernet frames that did not fit into the ring.
    pub dropped_ring_full: u64,
    /// Streams closed because they could not be split into packets.
    pub streams_broken: u64,
    /// Interests dropped unprocessed: their lifetime ended before they were processed, so the
    /// answer is no longer awaited.
    pub interests_late: u64,
}

/// The times of a received link packet.
pub(super) struct Times<'a> {
    /// The time at which it was read.
    pub(super) received_ns: u64,
    /// The latest possible arrival time.
    pub(super) arrived_ns: u64,
    /// Reads the clock.
    pub(super) clock: &'a dyn Fn() -> u64,
}

impl Times<'_> {
    /// Returns true if an Interest has waited for longer than its lifetime.
    fn is_late(&self, interest: &InterestView<'_>) -> bool {
        // With a lifetime of 0 every Interest would be late.
        let lifetime_ns = interest.lifetime_or_default_ms().max(1).saturating_mul(1_000_000);
        // The clock is read again, because earlier packets of the batch took time.
        (self.clock)().saturating_sub(self.arrived_ns) > lifetime_ns
    }
}

/// Parses link packets.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Reassembles fragments; `None` on a stream, which has none.
    link: Option<LinkReceiver>,
    /// The times at which the present and the previous batch of frames were read.
    batch_ns: u64,
    before_ns: u64,
    /// Drops by reason. [`Counters`] groups them by cause.
    drops: LinkDrops,
    pub(super) counters: Counters,
}

impl Receiver {
    pub(super) fn new(is_datagrams: bool) -> Self {
        let link = is_datagrams.then(|| {
            let total = ReassemblyTotal::new(REASSEMBLY_OCTETS_MAX);
            LinkReceiver::new(ReassemblyLimits::default(), total)
        });
        let (drops, counters) = Default::default();
        Receiver { link, batch_ns: 0, before_ns: 0, drops, counters }
    }

    /// Parses one link packet and delivers its network packet. Returns false if it was dropped.
    pub(super) fn take(
        &mut self,
        frame: &[u8],
        outbox: &mut Outbox,
        times: &Times<'_>,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> bool {
        self.counters.packets_in += 1;
        self.counters.octets_in += frame.len() as u64;
        if self.batch_ns != times.received_ns {
            self.before_ns = std::mem::replace(&mut self.batch_ns, times.received_ns);
        }
        let found = match (whole(frame), &mut self.link) {
            (Ok(FrameContent::Idle(view)), _) => {
                // An IDLE packet may acknowledge a probe of the path, or be one. The sending half
                // answers.
                outbox.on_arrival(&view);
                Ok(None)
            }
            (Ok(FrameContent::Packet(headers, range)), _) => {
                Ok(Some((headers, PacketLocation::InFrame(range))))
            }
            (Err(Fault::Fragment), Some(link)) => {
                // Expired incomplete packets are removed first, to make room for this one. The
                // frames that arrived by the time of the previous batch have been read, but after a
                // stall of this process the next ones may still wait.
                link.tick(self.before_ns, &mut self.drops);
                reassembled(link, frame, times.received_ns, &mut self.drops)
            }
            (Err(fault), _) => Err(fault),
        };
        let handed = found.and_then(|found| match found {
            Some((headers, carried)) => {
                let handed = hand_over(headers, carried.octets(frame), times, outbox, handler);
                if let (PacketLocation::Reassembled(buffer), Some(link)) = (carried, &mut self.link) {
                    // Reassembly of the next packet then allocates nothing.
                    link.recycle(buffer);
                }
                handed
            }
            None => Ok(true),
        });
        match handed {
            Ok(is_handled) => {
                // A late Interest arrived intact, so it counts as processed and not as a fault of
                // the link.
                self.counters.interests_late += u64::from(!is_handled);
                return true;
            }
            Err(Fault::Malformed) => self.counters.dropped_malformed += 1,
            Err(Fault::Fragment) => self.counters.dropped_fragment += 1,
        }
        false
    }
}

/// The reason for which a link packet was dropped.
enum Fault {
    Malformed,
    Fragment,
}

impl From<DecodeError> for Fault {
    fn from(_: DecodeError) -> Self {
        Fault::Malformed
    }
}

/// The content of a link packet without fragmentation.
enum FrameContent<'a> {
    /// A network packet, and its range.
    Packet(LpHeaders, Range<usize>),
    /// Only link fields: an IDLE packet.
    Idle(LpView<'a>),
}

fn whole(frame: &[u8]) -> Result<FrameContent<'_>, Fault> {
    let view = LpView::parse(frame)?;
    if view.frag_count != 1 || view.frag_index != 0 {
        return Err(Fault::Fragment);
    }
    Ok(match view.fragment_range() {
        Some(range) => FrameContent::Packet(view.headers, range),
        None => FrameContent::Idle(view),
    })
}

/// Returns the network packet that a datagram contains or completes.
fn reassembled(
    link: &mut LinkReceiver,
    frame: &[u8],
    received_ns: u64,
    drops: &mut LinkDrops,
) -> Result<Option<(LpHeaders, PacketLocation)>, Fault> {
    // The MTU concerns senders only.
    const ACCEPTS: ReceivePolicy =
        ReceivePolicy { kind: LinkKind::Datagram { mtu: namely_link::MTU_OCTETS_MIN }, local_fields: false };
    match link.receive(&LpView::parse(frame)?, (), ACCEPTS, received_ns, drops) {
        Ok(delivered) => Ok(delivered.map(|delivered| (delivered.headers, delivered.packet))),
        Err(LinkDrop::Malformed(_)) => Err(Fault::Malformed),
        Err(_) => Err(Fault::Fragment),
    }
}

/// Delivers a packet. Returns false for an Interest that is late.
fn hand_over(
    headers: LpHeaders,
    wire: &[u8],
    times: &Times<'_>,
    outbox: &mut Outbox,
    handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
) -> Result<bool, Fault> {
    shown::received(&headers, wire);
    let (typ, _, _) = tlv::read_header(wire)?;
    let packet = match (typ, headers.nack) {
        (types::INTEREST, None) => Packet::Interest(InterestView::parse(wire)?),
        (types::INTEREST, Some(reason)) => Packet::Nack(InterestView::parse(wire)?, reason),
        (types::DATA, None) => Packet::Data(DataView::parse(wire)?),
        // Only Interests are refused by a Nack (NDNLPv2, Network NACK).
        _ => return Err(Fault::Malformed),
    };
    if let Packet::Interest(interest) = &packet
        && times.is_late(interest)
    {
        return Ok(false);
    }
    handler(Incoming { packet, headers: &headers, received_ns: times.received_ns }, outbox);
    Ok(true)
}

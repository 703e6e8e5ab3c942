//! From link packets to network packets: headers, reassembly of what came in fragments, and the
//! handler's call.

use std::ops::Range;

use namely_link::{
    Accepts, Carried, LinkDrop, LinkDrops, LinkKind, LinkReceiver, ReassemblyLimits, ReassemblyTotal,
};
use namely_wire::{DataView, DecodeError, InterestView, LpHeaders, LpView, tlv, types};

use super::incoming::{Incoming, Packet};
use super::outbox::Outbox;
use super::shown;

/// Octets of incomplete packets kept.
const REASSEMBLY_OCTETS_MAX: usize = 4 << 20;

/// What went through a connection, and what was dropped and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Link packets received.
    pub packets_in: u64,
    /// Octets of them.
    pub octets_in: u64,
    /// Dropped: not an NDNLPv2 packet, an Interest or a Data.
    pub dropped_malformed: u64,
    /// Dropped: a fragment where none is expected, or one that does not fit the others of its
    /// packet.
    pub dropped_fragment: u64,
    /// Dropped: datagrams that the system did not take, since they are too long for the link, or
    /// for want of memory.
    pub dropped_unsent: u64,
    /// Dropped: Ethernet frames for which the ring had no room.
    pub dropped_ring_full: u64,
    /// Streams given up because they could not be cut into packets.
    pub streams_broken: u64,
    /// Times the router was reached again after it had gone.
    pub reconnects: u64,
    /// Interests that were not looked at: their lifetime was over before their turn came, so that
    /// nobody waits for the answer.
    pub interests_late: u64,
}

/// When a link packet came.
pub(super) struct Times<'a> {
    /// When it was read.
    pub(super) received_ns: u64,
    /// When it was there at the latest.
    pub(super) arrived_ns: u64,
    /// What time it is.
    pub(super) clock: &'a dyn Fn() -> u64,
}

impl Times<'_> {
    /// Returns true if an Interest has waited for longer than its sender waits.
    fn is_late(&self, interest: &InterestView<'_>) -> bool {
        let lifetime_ns = interest.lifetime_or_default_ms().max(1).saturating_mul(1_000_000);
        (self.clock)().saturating_sub(self.arrived_ns) > lifetime_ns
    }
}

/// Takes link packets apart.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Reassembles; `None` on a stream, where nothing comes in fragments.
    link: Option<LinkReceiver>,
    /// By reason; [`Counters`] has them by who is to blame.
    drops: LinkDrops,
    pub(super) counters: Counters,
}

impl Receiver {
    pub(super) fn new(is_datagrams: bool) -> Self {
        let link = is_datagrams.then(|| {
            let total = ReassemblyTotal::new(REASSEMBLY_OCTETS_MAX);
            LinkReceiver::new(ReassemblyLimits::default(), total)
        });
        Receiver { link, drops: LinkDrops::default(), counters: Counters::default() }
    }

    /// Takes one link packet apart and hands over what it brought. Returns false if it was dropped.
    pub(super) fn take(
        &mut self,
        frame: &[u8],
        outbox: &mut Outbox,
        times: &Times<'_>,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> bool {
        self.counters.packets_in += 1;
        self.counters.octets_in += frame.len() as u64;
        let found = match (whole(frame), &mut self.link) {
            (Ok(Found::Idle(view)), _) => {
                // It may acknowledge a probe of the path, or be one: the sending half answers.
                outbox.on_arrival(&view);
                Ok(None)
            }
            (Ok(Found::Packet(headers, place)), _) => Ok(Some((headers, Carried::Whole(place)))),
            (Err(Fault::Fragment), Some(link)) => {
                reassembled(link, frame, times.received_ns, &mut self.drops)
            }
            (Err(fault), _) => Err(fault),
        };
        let handed = found.and_then(|found| match found {
            Some((headers, carried)) => {
                let handed = hand_over(headers, carried.octets(frame), times, outbox, handler);
                if let (Carried::Completed(buffer), Some(link)) = (carried, &mut self.link) {
                    link.recycle(buffer);
                }
                handed
            }
            None => Ok(true),
        });
        match handed {
            Ok(is_handled) => {
                self.counters.interests_late += u64::from(!is_handled);
                return true;
            }
            Err(Fault::Malformed) => self.counters.dropped_malformed += 1,
            Err(Fault::Fragment) => self.counters.dropped_fragment += 1,
        }
        false
    }
}

/// Why a link packet was dropped.
enum Fault {
    Malformed,
    Fragment,
}

impl From<DecodeError> for Fault {
    fn from(_: DecodeError) -> Self {
        Fault::Malformed
    }
}

/// What a link packet that is not cut brought.
enum Found<'a> {
    /// A network packet, and where it lies.
    Packet(LpHeaders, Range<usize>),
    /// Nothing but link fields: an IDLE packet.
    Idle(LpView<'a>),
}

fn whole(frame: &[u8]) -> Result<Found<'_>, Fault> {
    let view = LpView::parse(frame)?;
    if view.frag_count != 1 || view.frag_index != 0 {
        return Err(Fault::Fragment);
    }
    Ok(match view.fragment_range() {
        Some(place) => Found::Packet(view.headers, place),
        None => Found::Idle(view),
    })
}

/// The network packet that a datagram brought or completed.
fn reassembled(
    link: &mut LinkReceiver,
    frame: &[u8],
    received_ns: u64,
    drops: &mut LinkDrops,
) -> Result<Option<(LpHeaders, Carried)>, Fault> {
    // How long frames may be concerns who sends them.
    const ACCEPTS: Accepts =
        Accepts { kind: LinkKind::Datagram { mtu: namely_link::MTU_OCTETS_MIN }, local_fields: false };
    link.tick(received_ns, drops);
    match link.receive(&LpView::parse(frame)?, (), ACCEPTS, received_ns, drops) {
        Ok(delivered) => Ok(delivered.map(|delivered| (delivered.headers, delivered.packet))),
        Err(LinkDrop::Malformed(_)) => Err(Fault::Malformed),
        Err(_) => Err(Fault::Fragment),
    }
}

/// Returns false for an Interest that comes too late.
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

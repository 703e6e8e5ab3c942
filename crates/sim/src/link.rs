//! One direction of a link: the link service at its sending end, the bounded queue before it, and
//! losses and delays of a frame on the way.
//!
//! The queue is the daemon's. It drops new frames when it is full, and CoDel marks and later drops
//! frames at its head. A frame that finds the sender idle costs one event; one that waits costs
//! two.

use std::collections::VecDeque;
use std::sync::Arc;

use hdrhistogram::Histogram;
use namely_forwarder::{FaceId, Outgoing, Received};
use namely_link::{
    Codel, CodelConfig, Frame, LinkConfig, LinkKind, LinkService, Outbound, PacketLocation, Patch,
    ReassemblyTotal, Verdict,
};
use namely_wire::PACKET_OCTETS_MAX;

use crate::alarm::Alarm;
use crate::event::LinkEndId;
use crate::packet::Packet;
use crate::random::Random;

/// Maximum wait of a histogram in us.
const WAIT_US_MAX: u64 = 60_000_000;

/// Maximum octets of incomplete messages, over all links of one node.
pub(crate) const REASSEMBLY_OCTETS_MAX: usize = 16 << 20;

/// Properties of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Rate, bit/s; at least 1.
    pub rate_bps: u64,
    /// Propagation delay, ns.
    pub delay_ns: u64,
    /// Size of the queue in octets, without the frame being sent. A frame that does not fit is
    /// dropped (tail drop).
    pub queue_octets_max: usize,
    /// Frames lost on the way, per million.
    pub loss_ppm: u32,
    /// Frames delayed on the way, per million, so that later ones overtake them.
    pub reordered_ppm: u32,
    /// Their additional delay in ns.
    pub reordered_by_ns: u64,
    /// Octets that the medium adds to each frame.
    pub overhead_octets: usize,
    /// Largest frame, octets.
    pub mtu_octets: usize,
    /// Parameters of CoDel, which marks and later drops packets; `None` for tail drop only.
    pub codel: Option<CodelConfig>,
    /// True if the link service retransmits lost frames.
    pub reliability: bool,
}

impl Default for LinkSpec {
    /// 1 Gbit/s, 1 ms, a queue of 1 MiB, no loss or reordering, CoDel as in the daemon.
    fn default() -> Self {
        LinkSpec {
            rate_bps: 1_000_000_000,
            delay_ns: 1_000_000,
            queue_octets_max: 1 << 20,
            loss_ppm: 0,
            reordered_ppm: 0,
            reordered_by_ns: 0,
            overhead_octets: 0,
            mtu_octets: PACKET_OCTETS_MAX + 200,
            codel: Some(CodelConfig::default()),
            reliability: false,
        }
    }
}

/// Counters of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames sent.
    pub frames: u64,
    /// Octets sent, overhead included.
    pub octets: u64,
    /// Frames that did not fit the queue.
    pub queue_full: u64,
    /// Packets that CoDel dropped.
    pub codel: u64,
    /// Frames lost on the way. Frames to a port of a shared medium that is off its link are counted
    /// at that port.
    pub lost: u64,
    /// Frames delayed on the way.
    pub reordered: u64,
    /// Packets that were marked.
    pub marked: u64,
    /// Frames that the link service retransmitted.
    pub again: u64,
    /// Frames that the receiving end refused: malformed, duplicate, incomplete.
    pub refused: u64,
}

/// Traffic that has left a node by one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    /// Frames.
    pub frames: u64,
    /// Octets, overhead included.
    pub octets: u64,
}

/// A frame on its way. A bare packet is its own frame and is not copied.
pub(crate) struct Flight {
    pub(crate) at_ns: u64,
    pub(crate) octets: Packet,
}

/// The result of a call of a link end, in memory that all link ends use in turn.
#[derive(Default)]
pub(crate) struct LinkOutput {
    /// Frames that will arrive.
    pub(crate) flights: Vec<Flight>,
    /// Frames that the link service has emitted and that have not joined the queue.
    frames: Vec<Frame<Packet>>,
}

/// The sending end of one direction, and the receiving end of the other.
pub(crate) struct LinkEnd {
    pub(crate) face: FaceId,
    /// Receivers of its frames: the other end, or all others of a shared medium.
    pub(crate) peers: Vec<LinkEndId>,
    /// True for a face to a group.
    pub(crate) is_group: bool,
    /// For the face of a neighbor: the node's port to the group whose device it uses.
    pub(crate) beside: Option<usize>,
    /// Frames that arrived while the port was off its link, or that were too long for its device.
    pub(crate) missed: u64,
    pub(crate) carried: TrafficCounts,
    /// False while the port is off its link.
    pub(crate) is_up: bool,
    /// Outages that last.
    outages: u32,
    pub(crate) spec: LinkSpec,
    pub(crate) counts: LinkCounts,
    pub(crate) waits_us: Option<Histogram<u64>>,
    pub(crate) alarm: Alarm,
    random: Random,
    /// Distinguishes senders by their ports.
    service: LinkService<Packet, LinkEndId>,
    waiting: VecDeque<Waiting>,
    waiting_octets: usize,
    codel: Codel,
    /// True while the remaining frames of a packet are dropped, because CoDel dropped its first.
    is_dropping: bool,
    /// Time at which the frame being sent is out.
    idle_at_ns: u64,
}

/// A frame in the queue.
struct Waiting {
    frame: Frame<Packet>,
    joined_ns: u64,
    begins_packet: bool,
}

impl LinkEnd {
    pub(crate) fn new(
        face: FaceId,
        peers: Vec<LinkEndId>,
        spec: LinkSpec,
        total: Arc<ReassemblyTotal>,
        random: Random,
    ) -> Self {
        let mut config = LinkConfig::new(LinkKind::Datagram { mtu: spec.mtu_octets });
        config.marking = spec.codel.is_some();
        config.codel = spec.codel.unwrap_or_default();
        config.reliability = spec.reliability;
        LinkEnd {
            face,
            peers,
            is_group: false,
            beside: None,
            missed: 0,
            carried: TrafficCounts::default(),
            is_up: true,
            outages: 0,
            spec,
            counts: LinkCounts::default(),
            waits_us: None,
            alarm: Alarm::OFF,
            random,
            service: LinkService::new(config, total, 0),
            waiting: VecDeque::new(),
            waiting_octets: 0,
            codel: Codel::default(),
            is_dropping: false,
            idle_at_ns: 0,
        }
    }

    /// Returns the port as that of a neighbor's face, which uses the device of a port to a group.
    pub(crate) fn beside(self, group: usize) -> Self {
        LinkEnd { beside: Some(group), ..self }
    }

    /// Begins an outage, which may overlap with others, or ends one.
    pub(crate) fn set_outage(&mut self, begins: bool) {
        self.outages = if begins { self.outages + 1 } else { self.outages.saturating_sub(1) };
    }

    /// Returns true if frames pass the port.
    pub(crate) fn is_connected(&self) -> bool {
        self.is_up && self.outages == 0
    }

    /// Changes the longest frame of the link.
    pub(crate) fn set_mtu(&mut self, mtu_octets: usize) {
        self.spec.mtu_octets = mtu_octets;
        self.cut_to(mtu_octets);
    }

    /// Limits the length of frames from now on.
    pub(crate) fn cut_to(&mut self, mtu_octets: usize) {
        let kind = LinkKind::Datagram { mtu: mtu_octets };
        self.service.reconfigure(LinkConfig { kind, ..*self.service.config() });
    }

    /// Returns the wait of a frame that joins now.
    pub(crate) fn wait_ns(&self, now_ns: u64) -> u64 {
        self.idle_at_ns.saturating_sub(now_ns) + self.sending_ns(self.waiting_octets)
    }

    fn sending_ns(&self, octets: usize) -> u64 {
        const NS_PER_OCTET_AT_1_BPS: u64 = 8_000_000_000;
        let rate_bps = self.spec.rate_bps.max(1);
        match (octets as u64).checked_mul(NS_PER_OCTET_AT_1_BPS) {
            Some(ns) => ns.div_ceil(rate_bps),
            None => {
                let ns = octets as u128 * u128::from(NS_PER_OCTET_AT_1_BPS);
                u64::try_from(ns.div_ceil(u128::from(rate_bps))).unwrap_or(u64::MAX)
            }
        }
    }

    pub(crate) fn watch(&mut self) {
        self.waits_us = Histogram::new_with_bounds(1, WAIT_US_MAX, 2).ok();
    }

    /// Sends a packet. Frames that will arrive are added to `out`.
    pub(crate) fn send(&mut self, packet: Outgoing<Packet>, now_ns: u64, out: &mut LinkOutput) {
        let hop_limit = packet.hop_limit.map(|(offset, value)| Patch { offset, value });
        let outbound = Outbound { headers: packet.headers, packet: packet.packet, hop_limit };
        // A packet that does not fit the link is counted by the link service.
        let _ = self.service.send(outbound, now_ns, &mut |frame| out.frames.push(frame));
        self.counts.marked = self.service.congestion_marks();
        self.join(now_ns, out);
        self.leave(now_ns, out);
    }

    /// Appends the emitted frames, which are those of one packet, to the queue, all or none.
    fn join(&mut self, now_ns: u64, out: &mut LinkOutput) {
        let octets: usize = out.frames.iter().map(|frame| self.octets(frame)).sum();
        if !self.has_room(octets, now_ns) {
            return out.frames.clear();
        }
        for (part, frame) in out.frames.drain(..).enumerate() {
            self.waiting.push_back(Waiting { frame, joined_ns: now_ns, begins_packet: part == 0 });
        }
    }

    /// Appends each emitted frame of the link service itself to the queue, if it has room.
    fn join_each(&mut self, now_ns: u64, out: &mut LinkOutput) {
        for frame in out.frames.drain(..) {
            if self.has_room(self.octets(&frame), now_ns) {
                self.waiting.push_back(Waiting { frame, joined_ns: now_ns, begins_packet: true });
            }
        }
    }

    /// Takes room in the queue for frames of one packet. Returns false and counts them if there is
    /// none.
    fn has_room(&mut self, octets: usize, now_ns: u64) -> bool {
        let is_idle = self.waiting.is_empty() && self.idle_at_ns <= now_ns;
        if !is_idle && self.waiting_octets + octets > self.spec.queue_octets_max {
            self.counts.queue_full += 1;
            return false;
        }
        self.waiting_octets += octets;
        true
    }

    fn octets(&self, frame: &Frame<Packet>) -> usize {
        frame.octets() + self.spec.overhead_octets
    }

    /// Sends queued frames if no frame is being sent.
    fn leave(&mut self, now_ns: u64, out: &mut LinkOutput) {
        while self.idle_at_ns <= now_ns
            && let Some(Waiting { frame, joined_ns, begins_packet }) = self.waiting.pop_front()
        {
            self.waiting_octets -= self.octets(&frame);
            let wait_ns = now_ns - joined_ns;
            if let (Some(codel), true) = (&self.spec.codel, begins_packet) {
                let verdict = self.codel.on_leave(codel, wait_ns, self.waiting_octets, now_ns);
                self.is_dropping = verdict == Verdict::Drop;
                self.counts.codel += u64::from(self.is_dropping);
                if verdict == Verdict::Mark {
                    self.service.mark_next(1);
                }
            }
            if self.is_dropping {
                continue;
            }
            if let Some(waits_us) = &mut self.waits_us {
                waits_us.saturating_record(wait_ns / 1000);
            }
            self.put_on_the_wire(&frame, now_ns, out);
        }
    }

    fn put_on_the_wire(&mut self, frame: &Frame<Packet>, now_ns: u64, out: &mut LinkOutput) {
        let octets = self.octets(frame);
        self.idle_at_ns = now_ns + self.sending_ns(octets);
        self.counts.frames += 1;
        self.counts.octets += octets as u64;
        if self.random.happens(self.spec.loss_ppm) {
            self.counts.lost += 1;
            return;
        }
        let mut at_ns = self.idle_at_ns + self.spec.delay_ns;
        if self.random.happens(self.spec.reordered_ppm) {
            self.counts.reordered += 1;
            at_ns += self.spec.reordered_by_ns;
        }
        out.flights.push(Flight { at_ns, octets: octets_of(frame) });
    }

    /// Returns the time at which [`LinkEnd::leave`] has to act; `None` while the queue is empty.
    fn leaves_at_ns(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.idle_at_ns)
    }

    /// Receives a frame from the other end. Returns the packet that the frame completes, if any.
    pub(crate) fn receive(
        &mut self,
        frame: &Packet,
        from: LinkEndId,
        now_ns: u64,
        out: &mut LinkOutput,
    ) -> Option<Received<Packet>> {
        let received = self.service.receive(frame, from, now_ns, &mut |frame| out.frames.push(frame));
        let received = match received {
            Ok(delivered) => delivered.map(|delivered| {
                let headers = delivered.headers;
                Received { packet: self.packet_of(frame, delivered.packet), headers }
            }),
            Err(_) => {
                self.counts.refused += 1;
                None
            }
        };
        self.join_each(now_ns, out);
        self.leave(now_ns, out);
        received
    }

    /// Returns a delivered packet. One that is the whole frame is shared with it.
    fn packet_of(&mut self, frame: &Packet, location: PacketLocation) -> Packet {
        match location {
            PacketLocation::InFrame(range) if range == (0..frame.len()) => frame.clone(),
            PacketLocation::InFrame(range) => Packet::new(|octets| octets.extend_from_slice(&frame[range])),
            PacketLocation::Reassembled(buffer) => {
                let packet = Packet::new(|octets| octets.extend_from_slice(&buffer));
                self.service.recycle(buffer);
                packet
            }
        }
    }

    /// Performs the due actions of the link service.
    pub(crate) fn tick(&mut self, now_ns: u64, out: &mut LinkOutput) {
        self.service.tick(now_ns, &mut |frame| out.frames.push(frame));
        self.counts.again = self.service.retransmitted();
        self.join_each(now_ns, out);
        self.leave(now_ns, out);
    }

    /// Returns the time at which [`LinkEnd::tick`] has to act.
    pub(crate) fn due_ns(&self) -> u64 {
        let due_ns = self.service.due_ns().unwrap_or(u64::MAX);
        due_ns.min(self.leaves_at_ns().unwrap_or(u64::MAX))
    }
}

/// Returns the octets of a frame: the packet itself if it is sent bare and unchanged.
fn octets_of(frame: &Frame<Packet>) -> Packet {
    if let Some(payload) = frame.payload()
        && frame.header().is_empty()
        && payload.patch.is_none()
        && payload.range.len() == payload.packet.len()
    {
        return payload.packet.clone();
    }
    Packet::new(|octets| frame.slices().iter().for_each(|slice| octets.extend_from_slice(slice)))
}

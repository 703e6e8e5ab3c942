//! NDNLPv2, link layer reliability: frames carry TxSequence, the peer acknowledges what it got, and
//! what it did not get goes again, up to [`RETRANSMISSIONS_MAX`] times (NFD `LpReliability`).
//!
//! A frame counts as lost when [`LATER_ACKS_OF_LOSS`] frames sent after it were acknowledged, or
//! after the retransmission timeout (RFC 6298). A frame that goes again gets a new TxSequence and
//! keeps its Sequence, by which the receiver knows it if both arrive.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use namely_wire::{LpFraming, LpHeaders};

use crate::counters::{DropCounters, LinkDrop};
use crate::frame::{FRAME_HEADER_OCTETS_MAX, Frame, Payload};

/// How often a lost frame goes again before its packet is dropped.
pub const RETRANSMISSIONS_MAX: u8 = 3;

/// Maximum number of frames that wait for an acknowledgement; the oldest makes room for a new one.
pub const UNACKED_FRAMES_MAX: usize = 4096;

/// Acknowledgements of frames sent later that make a frame lost.
const LATER_ACKS_OF_LOSS: u8 = 3;

/// Maximum number of acknowledgements that wait to be sent; the oldest makes room for a new one.
const PENDING_ACKS_MAX: usize = 4096;

/// How long an acknowledgement waits for a frame to ride on, ns.
const ACK_DELAY_NS: u64 = 5_000_000;

/// Sequences remembered to know frames that arrive twice.
const RECENT_SEQUENCES_MAX: usize = 1024;

/// Octets of one Ack element.
const ACK_OCTETS: usize = 12;

/// Acknowledgements that an IDLE frame carries.
const IDLE_ACKS_MAX: usize = (FRAME_HEADER_OCTETS_MAX - 4) / ACK_OCTETS;

/// Everything to build a frame again but what changes each time: TxSequence and acknowledgements.
#[derive(Clone, Debug)]
pub(crate) struct Outline<P> {
    /// Those of the packet.
    pub(crate) headers: LpHeaders,
    pub(crate) sequence: u64,
    pub(crate) frag_index: u64,
    pub(crate) frag_count: u64,
    pub(crate) payload: Payload<P>,
}

impl<P> Outline<P> {
    /// Headers of the network packet go on the first fragment.
    pub(crate) fn own_headers(&self) -> LpHeaders {
        if self.frag_index == 0 { self.headers } else { LpHeaders::default() }
    }

    fn message(&self) -> u64 {
        self.sequence.wrapping_sub(self.frag_index)
    }
}

#[derive(Debug)]
struct Unacked<P> {
    outline: Outline<P>,
    sent_ns: u64,
    retransmissions: u8,
    later_acks: u8,
}

/// The reliability state of one face.
#[derive(Debug)]
pub(crate) struct Reliability<P> {
    mtu: usize,
    next_tx_sequence: u64,
    /// By TxSequence, hence by time of sending.
    unacked: BTreeMap<u64, Unacked<P>>,
    pending_acks: VecDeque<u64>,
    acks_due_ns: u64,
    rtt: RttEstimator,
    recent: RecentSequences,
    /// Packets of which a lost frame is longer than the link takes by now: to be cut anew.
    too_long: Vec<(LpHeaders, Payload<P>)>,
    /// Frames sent again.
    pub(crate) retransmitted: u64,
}

impl<P: Clone + AsRef<[u8]>> Reliability<P> {
    pub(crate) fn new(mtu: usize, first_tx_sequence: u64) -> Self {
        Reliability {
            mtu,
            next_tx_sequence: first_tx_sequence,
            unacked: BTreeMap::new(),
            pending_acks: VecDeque::new(),
            acks_due_ns: 0,
            rtt: RttEstimator::default(),
            recent: RecentSequences::default(),
            too_long: Vec::new(),
            retransmitted: 0,
        }
    }

    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// Packets to be sent once more in shorter frames, with their headers and what is changed in
    /// them.
    pub(crate) fn take_too_long(&mut self) -> Vec<(LpHeaders, Payload<P>)> {
        core::mem::take(&mut self.too_long)
    }

    /// Sends a frame for the first time and remembers it until it is acknowledged.
    pub(crate) fn send(
        &mut self,
        outline: Outline<P>,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        drops: &mut DropCounters,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        if self.unacked.len() >= UNACKED_FRAMES_MAX {
            self.unacked.pop_first();
            drops.count(LinkDrop::UnackedEvicted.label());
        }
        self.transmit(outline, 0, now_ns, scratch, emit);
    }

    fn transmit(
        &mut self,
        outline: Outline<P>,
        retransmissions: u8,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        let tx_sequence = self.next_tx_sequence;
        self.next_tx_sequence = tx_sequence.wrapping_add(1);
        if let Some(frame) = self.encode(&outline, tx_sequence, scratch) {
            emit(frame);
        }
        self.unacked
            .insert(tx_sequence, Unacked { outline, sent_ns: now_ns, retransmissions, later_acks: 0 });
    }

    /// The frame, with as many waiting acknowledgements as fit.
    fn encode(&mut self, outline: &Outline<P>, tx_sequence: u64, scratch: &mut Vec<u8>) -> Option<Frame<P>> {
        let mut framing = LpFraming {
            sequence: Some(outline.sequence),
            frag_index: outline.frag_index,
            frag_count: outline.frag_count,
            tx_sequence: Some(tx_sequence),
            acks: Vec::new(),
            padding_octets: 0,
        };
        let payload = || Some(outline.payload.clone());
        let headers = outline.own_headers();
        let frame = Frame::with_header(&headers, &framing, payload(), scratch)?;
        // The outer LENGTH may grow by 2 octets.
        let header_room = FRAME_HEADER_OCTETS_MAX.saturating_sub(scratch.len() + 2);
        let mtu_room = self.mtu.saturating_sub(frame.octets() + 2);
        let acks = self.pending_acks.len().min(header_room.min(mtu_room) / ACK_OCTETS);
        if acks == 0 {
            return Some(frame);
        }
        framing.acks = self.pending_acks.drain(..acks).collect();
        Frame::with_header(&headers, &framing, payload(), scratch)
    }

    /// Whether the frame does not fit the link, as its MTU has become smaller since it was made.
    fn is_too_long(&self, outline: &Outline<P>, scratch: &mut Vec<u8>) -> bool {
        let framing = LpFraming {
            sequence: Some(outline.sequence),
            frag_index: outline.frag_index,
            frag_count: outline.frag_count,
            tx_sequence: Some(u64::MAX),
            ..LpFraming::default()
        };
        let payload = Some(outline.payload.clone());
        Frame::with_header(&outline.own_headers(), &framing, payload, scratch)
            .is_some_and(|frame| frame.octets() > self.mtu)
    }

    /// Records a received TxSequence, to be acknowledged.
    pub(crate) fn on_tx_sequence(&mut self, tx_sequence: u64, now_ns: u64, drops: &mut DropCounters) {
        if self.pending_acks.is_empty() {
            self.acks_due_ns = now_ns.saturating_add(ACK_DELAY_NS);
        }
        if self.pending_acks.len() >= PENDING_ACKS_MAX {
            self.pending_acks.pop_front();
            drops.count(LinkDrop::AckEvicted.label());
        }
        self.pending_acks.push_back(tx_sequence);
        if self.pending_acks.len() >= IDLE_ACKS_MAX {
            self.acks_due_ns = now_ns;
        }
    }

    /// Returns true if a frame with this Sequence came before.
    pub(crate) fn is_duplicate(&mut self, sequence: u64) -> bool {
        !self.recent.insert(sequence)
    }

    /// Handles one Ack; frames that it shows to be lost go again.
    pub(crate) fn on_ack(
        &mut self,
        tx_sequence: u64,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        drops: &mut DropCounters,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        let Some(acked) = self.unacked.remove(&tx_sequence) else { return };
        if acked.retransmissions == 0 {
            self.rtt.sample(now_ns.saturating_sub(acked.sent_ns));
        }
        let mut lost = Vec::new();
        for (sequence, unacked) in self.unacked.range_mut(..tx_sequence) {
            unacked.later_acks += 1;
            if unacked.later_acks >= LATER_ACKS_OF_LOSS {
                lost.push(*sequence);
            }
        }
        for sequence in lost {
            self.on_loss(sequence, now_ns, scratch, drops, emit);
        }
    }

    /// Sends what timed out again, and acknowledgements that waited long enough.
    pub(crate) fn tick(
        &mut self,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        drops: &mut DropCounters,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        let mut timed_out = false;
        while let Some((sequence, unacked)) = self.unacked.first_key_value() {
            if unacked.sent_ns.saturating_add(self.rtt.rto_ns()) > now_ns {
                break;
            }
            timed_out = true;
            self.on_loss(*sequence, now_ns, scratch, drops, emit);
        }
        if timed_out {
            self.rtt.back_off();
        }
        while !self.pending_acks.is_empty() && self.acks_due_ns <= now_ns {
            let acks = self
                .pending_acks
                .len()
                .min(IDLE_ACKS_MAX)
                .min(self.mtu.saturating_sub(4) / ACK_OCTETS)
                .max(1);
            let framing =
                LpFraming { acks: self.pending_acks.drain(..acks).collect(), ..LpFraming::default() };
            if let Some(frame) = Frame::with_header(&LpHeaders::default(), &framing, None, scratch) {
                emit(frame);
            }
        }
    }

    fn on_loss(
        &mut self,
        tx_sequence: u64,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        drops: &mut DropCounters,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        let Some(lost) = self.unacked.remove(&tx_sequence) else { return };
        let message = lost.outline.message();
        if lost.retransmissions < RETRANSMISSIONS_MAX {
            self.retransmitted += 1;
            if !self.is_too_long(&lost.outline, scratch) {
                self.transmit(lost.outline, lost.retransmissions + 1, now_ns, scratch, emit);
                return;
            }
            // A fragment cannot be cut further: the whole packet goes once more.
            self.unacked.retain(|_, unacked| unacked.outline.message() != message);
            let Outline { headers, payload, .. } = lost.outline;
            let octets = payload.packet.as_ref().len() as u32;
            self.too_long.push((headers, Payload { range: 0..octets, ..payload }));
            return;
        }
        // Without this fragment the others of its packet are of no use.
        self.unacked.retain(|_, unacked| unacked.outline.message() != message);
        drops.count(LinkDrop::RetransmissionsExhausted.label());
    }

    /// When [`Reliability::tick`] has something to do, ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let acks = (!self.pending_acks.is_empty()).then_some(self.acks_due_ns);
        let oldest = self.unacked.first_key_value();
        let timeout = oldest.map(|(_, unacked)| unacked.sent_ns.saturating_add(self.rtt.rto_ns()));
        acks.into_iter().chain(timeout).min()
    }
}

/// Round-trip time and retransmission timeout (RFC 6298), in integers.
#[derive(Clone, Debug, Default)]
struct RttEstimator {
    smoothed_ns: Option<u64>,
    variation_ns: u64,
    backoff: u32,
}

const RTO_NS_INITIAL: u64 = 1_000_000_000;
const RTO_NS_MIN: u64 = 200_000_000;
const RTO_NS_MAX: u64 = 4_000_000_000;

impl RttEstimator {
    fn sample(&mut self, rtt_ns: u64) {
        self.backoff = 0;
        match self.smoothed_ns {
            None => {
                self.smoothed_ns = Some(rtt_ns);
                self.variation_ns = rtt_ns / 2;
            }
            Some(smoothed_ns) => {
                self.variation_ns = (3 * self.variation_ns + smoothed_ns.abs_diff(rtt_ns)) / 4;
                self.smoothed_ns = Some((7 * smoothed_ns + rtt_ns) / 8);
            }
        }
    }

    fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(8);
    }

    fn rto_ns(&self) -> u64 {
        let base_ns = match self.smoothed_ns {
            None => RTO_NS_INITIAL,
            Some(smoothed_ns) => (smoothed_ns + 4 * self.variation_ns).max(RTO_NS_MIN),
        };
        base_ns.saturating_mul(1 << self.backoff).min(RTO_NS_MAX)
    }
}

/// The last [`RECENT_SEQUENCES_MAX`] Sequences.
#[derive(Debug, Default)]
struct RecentSequences {
    known: BTreeSet<u64>,
    order: VecDeque<u64>,
}

impl RecentSequences {
    /// Returns true if the number is new.
    fn insert(&mut self, sequence: u64) -> bool {
        if !self.known.insert(sequence) {
            return false;
        }
        self.order.push_back(sequence);
        if self.order.len() > RECENT_SEQUENCES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

//! NDNLPv2, link layer reliability: frames carry TxSequence, the peer acknowledges received frames,
//! and lost frames are retransmitted up to [`RETRANSMISSIONS_MAX`] times (NFD `LpReliability`).
//!
//! A frame is overtaken when [`LATER_ACKS_OF_LOSS`] frames sent after it were acknowledged and it
//! was not. All acknowledgements in one frame are processed together. A frame is lost if it was
//! overtaken and stays unacknowledged for a part of the round trip after that (as in RFC 8985,
//! because frames are reordered within a burst), or after the retransmission timeout (RFC 6298). A
//! retransmitted frame receives a new TxSequence and keeps its Sequence, so that the receiver
//! detects a duplicate if both arrive. An acknowledgement of any of its TxSequences completes it.

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;

use namely_wire::{LpFraming, LpHeaders, encode_lp_announced_header, encode_lp_header};

use crate::counters::{LinkDrop, LinkDrops};
use crate::frame::{FRAME_HEADER_OCTETS_MAX, Frame, Payload, ready};
use crate::ordered::{NumberedMap, Ordered};
use crate::rtt::{ReorderTimeout, RttEstimator};

/// Retransmissions of one frame.
///
/// A frame is lost when three later frames were acknowledged and a quarter of a round trip and 5 ms
/// have passed since, or after the retransmission timeout.
///
/// # Limit
/// The packet of the frame is dropped.
/// - Counter: `retransmissions_exhausted`
/// - Tests: `a_dead_peer_costs_three_retransmissions`
pub const RETRANSMISSIONS_MAX: u8 = 3;

/// Unacknowledged frames of a face.
///
/// # Limit
/// The oldest frame is evicted and not retransmitted.
/// - Counter: `unacked_evicted`
/// - Tests: `unacknowledged_frames_are_bounded`
pub const UNACKED_FRAMES_MAX: usize = 4096;

/// TxSequences from the oldest unacknowledged frame to the youngest.
///
/// Acknowledged ones in between count, too.
///
/// # Limit
/// The oldest frame is evicted and not retransmitted.
/// - Value: 8192
/// - Counter: `unacked_evicted`
/// - Tests: `one_unacknowledged_frame_holds_bounded_places`
const UNACKED_SPAN_MAX: usize = 2 * UNACKED_FRAMES_MAX;

/// A frame is overtaken by this number of acknowledgements of later frames.
const LATER_ACKS_OF_LOSS: usize = 3;

/// Acknowledgements of a face that wait to be sent.
///
/// # Limit
/// The oldest acknowledgement is evicted.
/// - Counter: `ack_evicted`
/// - Tests: `waiting_acknowledgements_are_bounded`
const PENDING_ACKS_MAX: usize = 4096;

/// Maximum time that an acknowledgement waits for a frame that carries it, ns; as in NFD.
pub(crate) const ACK_DELAY_NS: u64 = 5_000_000;

/// Number of Sequences remembered to detect duplicates.
const RECENT_SEQUENCES_MAX: usize = 1024;

/// Octets of one Ack element.
const ACK_OCTETS: usize = 12;

/// Number of acknowledgements in an IDLE frame.
const IDLE_ACKS_MAX: usize = (FRAME_HEADER_OCTETS_MAX - 4) / ACK_OCTETS;

/// All parts of a frame except TxSequence and acknowledgements, which change with each
/// transmission.
#[derive(Clone, Debug)]
pub(crate) struct FrameTemplate<P> {
    /// The headers of the packet.
    pub(crate) headers: LpHeaders,
    pub(crate) sequence: u64,
    pub(crate) frag_index: u64,
    pub(crate) frag_count: u64,
    pub(crate) payload: Payload<P>,
    /// Octets before the network packet in `payload.packet`: its PrefixAnnouncement, and the TYPE
    /// and LENGTH of the first Fragment; 0 without an announcement.
    pub(crate) announcement_octets: u32,
}

impl<P> FrameTemplate<P> {
    /// Builds the frame with the TxSequence, acknowledgements and padding of `framing`. `None` if
    /// there is no memory. The first fragment carries the headers of the network packet and its
    /// announcement.
    pub(crate) fn into_frame(self, framing: LpFraming<'_>, scratch: &mut Vec<u8>) -> Option<Frame<P>> {
        let FrameTemplate { headers, sequence, frag_index, frag_count, payload, announcement_octets } = self;
        let framing = LpFraming { sequence: Some(sequence), frag_index, frag_count, ..framing };
        let headers = if frag_index == 0 { headers } else { LpHeaders::default() };
        if announcement_octets > 0 && frag_index == 0 {
            return Frame::announced(&headers, &framing, payload, scratch);
        }
        Frame::with_header(&headers, &framing, Some(payload), scratch)
    }

    /// Length of its header with `framing`; `None` if there is no memory.
    fn header_octets(&self, framing: &LpFraming<'_>, scratch: &mut Vec<u8>) -> Option<usize> {
        let FrameTemplate { sequence, frag_index, frag_count, .. } = *self;
        let framing = LpFraming { sequence: Some(sequence), frag_index, frag_count, ..framing.clone() };
        let headers = if frag_index == 0 { &self.headers } else { &LpHeaders::default() };
        ready(scratch).ok()?;
        let octets = self.payload.range.len();
        if self.announcement_octets > 0 && frag_index == 0 {
            encode_lp_announced_header(headers, &framing, octets, scratch);
        } else {
            encode_lp_header(headers, &framing, None, Some(octets), scratch);
        }
        Some(scratch.len())
    }

    fn message(&self) -> u64 {
        self.sequence.wrapping_sub(self.frag_index)
    }
}

#[derive(Debug)]
struct Unacked<P> {
    outline: FrameTemplate<P>,
    sent_ns: u64,
    retransmissions: u8,
    later_acks: usize,
    /// The time at which an overtaken frame counts as lost.
    lost_ns: Option<u64>,
    /// Its previous TxSequences, as many as retransmissions.
    earlier: [u64; RETRANSMISSIONS_MAX as usize],
}

/// The reliability state of one face.
#[derive(Debug)]
pub(crate) struct Reliability<P> {
    mtu: usize,
    /// Unacknowledged frames by TxSequence, which is the order of sending.
    unacked: NumberedMap<Unacked<P>>,
    /// Overtaken frames, by the time at which they count as lost.
    overtaken: Ordered<(u64, u64)>,
    /// Maps a previous TxSequence of a frame to the present one.
    renamed: Ordered<(u64, u64)>,
    /// TxSequences that the current frame acknowledges.
    acked: Vec<u64>,
    pending_acks: VecDeque<u64>,
    acks_due_ns: u64,
    rtt: RttEstimator,
    patience: ReorderTimeout,
    recent: RecentSequences,
    /// Packets with a lost frame that is longer than the present MTU. They are fragmented again.
    too_long: Vec<(LpHeaders, Payload<P>)>,
    /// Number of retransmitted frames.
    pub(crate) retransmitted: u64,
    /// Number of retransmitted frames that were only late.
    pub(crate) needless: u64,
}

impl<P: Clone + AsRef<[u8]>> Reliability<P> {
    pub(crate) fn new(mtu: usize, first_tx_sequence: u64) -> Self {
        Reliability {
            mtu,
            unacked: NumberedMap::new(first_tx_sequence),
            overtaken: Ordered::default(),
            renamed: Ordered::default(),
            acked: Vec::new(),
            pending_acks: VecDeque::new(),
            acks_due_ns: 0,
            rtt: RttEstimator::default(),
            patience: ReorderTimeout::default(),
            recent: RecentSequences::default(),
            too_long: Vec::new(),
            retransmitted: 0,
            needless: 0,
        }
    }

    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// Takes the packets to send again in shorter frames, with their headers and patches.
    pub(crate) fn take_too_long(&mut self) -> Vec<(LpHeaders, Payload<P>)> {
        core::mem::take(&mut self.too_long)
    }

    /// Reserves memory for `frames` more frames.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn reserve(&mut self, frames: usize) -> Result<(), TryReserveError> {
        self.unacked.reserve(frames)
    }

    /// Sends a frame for the first time and stores it until it is acknowledged. Its memory must be
    /// reserved.
    pub(crate) fn send(
        &mut self,
        outline: FrameTemplate<P>,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        drops: &mut LinkDrops,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        while self.unacked.len() >= UNACKED_FRAMES_MAX || self.unacked.span() >= UNACKED_SPAN_MAX {
            let oldest = self.unacked.first().map(|(tx_sequence, _)| tx_sequence);
            oldest.and_then(|tx_sequence| self.forget(tx_sequence));
            drops.count(LinkDrop::UnackedEvicted);
        }
        self.transmit(outline, 0, [0; RETRANSMISSIONS_MAX as usize], now_ns, scratch, emit);
    }

    /// Sends a frame with its number of retransmissions and its previous TxSequences.
    fn transmit(
        &mut self,
        outline: FrameTemplate<P>,
        retransmissions: u8,
        earlier: [u64; RETRANSMISSIONS_MAX as usize],
        now_ns: u64,
        scratch: &mut Vec<u8>,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        let tx_sequence = self.unacked.next();
        if let Some(frame) = self.encode(&outline, tx_sequence, scratch) {
            emit(frame);
        }
        for earlier in &earlier[..usize::from(retransmissions)] {
            // Without memory a late acknowledgement is not recognized.
            let _ = self.renamed.insert((*earlier, tx_sequence));
        }
        let (later_acks, lost_ns) = (0, None);
        let unacked = Unacked { outline, sent_ns: now_ns, retransmissions, later_acks, lost_ns, earlier };
        self.unacked.push(unacked);
    }

    /// Removes a frame from the unacknowledged ones.
    fn forget(&mut self, tx_sequence: u64) -> Option<Unacked<P>> {
        let unacked = self.unacked.remove(tx_sequence)?;
        unacked.lost_ns.into_iter().for_each(|lost_ns| self.overtaken.remove(&(lost_ns, tx_sequence)));
        for earlier in &unacked.earlier[..usize::from(unacked.retransmissions)] {
            self.renamed.remove(&(*earlier, tx_sequence));
        }
        Some(unacked)
    }

    /// Removes all frames of a packet.
    fn forget_message(&mut self, message: u64) {
        // Without a frame there is no first TxSequence. Counting from 0 would take years, because a
        // link begins with a random one.
        let Some((first, _)) = self.unacked.first() else { return };
        for tx_sequence in first..self.unacked.next() {
            if self.unacked.get(tx_sequence).is_some_and(|unacked| unacked.outline.message() == message) {
                self.forget(tx_sequence);
            }
        }
    }

    /// Builds the frame, with as many waiting acknowledgements as fit.
    fn encode(
        &mut self,
        outline: &FrameTemplate<P>,
        tx_sequence: u64,
        scratch: &mut Vec<u8>,
    ) -> Option<Frame<P>> {
        let mut framing = LpFraming { tx_sequence: Some(tx_sequence), ..LpFraming::default() };
        let mut acks = 0;
        if !self.pending_acks.is_empty() {
            let header = outline.header_octets(&framing, scratch)?;
            // The outer LENGTH may grow by 2 octets.
            let header_room = FRAME_HEADER_OCTETS_MAX.saturating_sub(header + 2);
            let mtu_room = self.mtu.saturating_sub(header + outline.payload.range.len() + 2);
            acks = self.pending_acks.len().min(header_room.min(mtu_room) / ACK_OCTETS);
            framing.acks = &self.pending_acks.make_contiguous()[..acks];
        }
        let frame = outline.clone().into_frame(framing, scratch);
        self.pending_acks.drain(..acks);
        frame
    }

    /// Returns true if the frame no longer fits, because the MTU was reduced since the frame was
    /// built.
    fn is_too_long(&self, outline: &FrameTemplate<P>, scratch: &mut Vec<u8>) -> bool {
        let framing = LpFraming { tx_sequence: Some(u64::MAX), ..LpFraming::default() };
        let header = outline.header_octets(&framing, scratch);
        header.is_some_and(|header| header + outline.payload.range.len() > self.mtu)
    }

    /// Records a received TxSequence for acknowledgement.
    pub(crate) fn on_tx_sequence(&mut self, tx_sequence: u64, now_ns: u64, drops: &mut LinkDrops) {
        if self.pending_acks.is_empty() {
            self.acks_due_ns = now_ns.saturating_add(ACK_DELAY_NS);
        }
        if self.pending_acks.len() >= PENDING_ACKS_MAX {
            self.pending_acks.pop_front();
            drops.count(LinkDrop::AckEvicted);
        }
        if self.pending_acks.try_reserve(1).is_err() {
            drops.count(LinkDrop::NoMemory);
            return;
        }
        self.pending_acks.push_back(tx_sequence);
        if self.pending_acks.len() >= IDLE_ACKS_MAX {
            self.acks_due_ns = now_ns;
        }
    }

    /// Returns true if a frame with this Sequence was received before.
    pub(crate) fn is_duplicate(&mut self, sequence: u64) -> bool {
        !self.recent.insert(sequence)
    }

    /// Processes the Acks of a frame. Overtaken frames receive a short delay before they count as
    /// lost.
    pub(crate) fn on_acks(&mut self, acks: impl Iterator<Item = u64>, now_ns: u64) {
        let mut acked = core::mem::take(&mut self.acked);
        acked.clear();
        for tx_sequence in acks {
            // Without memory for it, the acknowledgement overtakes no frames.
            if self.on_ack(tx_sequence, now_ns) && acked.try_reserve(1).is_ok() {
                acked.push(tx_sequence);
            }
        }
        acked.sort_unstable();
        let lost_ns = now_ns.saturating_add(self.patience.wait_ns(&self.rtt));
        let last = acked.last().copied().unwrap_or(0);
        for (tx_sequence, unacked) in self.unacked.iter_mut().take_while(|(number, _)| *number < last) {
            unacked.later_acks += acked.len() - acked.partition_point(|acked| *acked < tx_sequence);
            // Without memory the next acknowledgement overtakes it, or it times out.
            if unacked.later_acks >= LATER_ACKS_OF_LOSS
                && unacked.lost_ns.is_none()
                && self.overtaken.insert((lost_ns, tx_sequence)).is_ok()
            {
                unacked.lost_ns = Some(lost_ns);
            }
        }
        self.acked = acked;
    }

    /// Returns true if a frame was unacknowledged until this acknowledgement.
    fn on_ack(&mut self, tx_sequence: u64, now_ns: u64) -> bool {
        let renamed = self.renamed.first_from(&(tx_sequence, 0)).copied();
        if let Some((_, renamed)) = renamed.filter(|(earlier, _)| *earlier == tx_sequence) {
            self.needless += 1;
            self.patience.on_needless();
            return self.forget(renamed).is_some();
        }
        let Some(acked) = self.forget(tx_sequence) else { return false };
        if acked.retransmissions == 0 {
            self.rtt.sample(now_ns.saturating_sub(acked.sent_ns));
        }
        true
    }

    /// Retransmits lost frames, and sends acknowledgements that are due.
    pub(crate) fn tick(
        &mut self,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        drops: &mut LinkDrops,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        while let Some((lost_ns, tx_sequence)) = self.overtaken.first().copied()
            && lost_ns <= now_ns
        {
            self.patience.on_loss();
            self.on_loss(tx_sequence, now_ns, scratch, drops, emit);
        }
        let mut timed_out = false;
        while let Some((sequence, unacked)) = self.unacked.first() {
            if unacked.sent_ns.saturating_add(self.rtt.rto_ns()) > now_ns {
                break;
            }
            timed_out = true;
            self.on_loss(sequence, now_ns, scratch, drops, emit);
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
                LpFraming { acks: &self.pending_acks.make_contiguous()[..acks], ..LpFraming::default() };
            let frame = Frame::with_header(&LpHeaders::default(), &framing, None, scratch);
            self.pending_acks.drain(..acks);
            if let Some(frame) = frame {
                emit(frame);
            }
        }
    }

    fn on_loss(
        &mut self,
        tx_sequence: u64,
        now_ns: u64,
        scratch: &mut Vec<u8>,
        drops: &mut LinkDrops,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        let Some(lost) = self.forget(tx_sequence) else { return };
        let message = lost.outline.message();
        if lost.retransmissions < RETRANSMISSIONS_MAX {
            self.retransmitted += 1;
            if !self.is_too_long(&lost.outline, scratch) {
                if self.reserve(1).is_err() {
                    self.forget_message(message);
                    return drops.count(LinkDrop::NoMemory);
                }
                let mut earlier = lost.earlier;
                earlier[usize::from(lost.retransmissions)] = tx_sequence;
                let retransmissions = lost.retransmissions + 1;
                return self.transmit(lost.outline, retransmissions, earlier, now_ns, scratch, emit);
            }
            // A fragment cannot be fragmented further, so the whole packet is sent again.
            self.forget_message(message);
            let FrameTemplate { headers, payload, announcement_octets, .. } = lost.outline;
            let octets = payload.packet.as_ref().len() as u32;
            if self.too_long.try_reserve(1).is_err() {
                return drops.count(LinkDrop::NoMemory);
            }
            if announcement_octets > 0 {
                drops.count(LinkDrop::AnnouncementLeftOut);
            }
            self.too_long.push((headers, Payload { range: announcement_octets..octets, ..payload }));
            return;
        }
        // The other fragments of the packet are useless without this one.
        self.forget_message(message);
        drops.count(LinkDrop::RetransmissionsExhausted);
    }

    /// The time of the next [`Reliability::tick`], ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let acks = (!self.pending_acks.is_empty()).then_some(self.acks_due_ns);
        let oldest = self.unacked.first();
        let timeout = oldest.map(|(_, unacked)| unacked.sent_ns.saturating_add(self.rtt.rto_ns()));
        let overtaken = self.overtaken.first().map(|(lost_ns, _)| *lost_ns);
        acks.into_iter().chain(timeout).chain(overtaken).min()
    }
}

/// The last [`RECENT_SEQUENCES_MAX`] Sequences.
#[derive(Debug, Default)]
struct RecentSequences {
    known: Ordered<u64>,
    order: VecDeque<u64>,
}

impl RecentSequences {
    /// Returns true if the number is new.
    fn insert(&mut self, sequence: u64) -> bool {
        // Without memory the number is not stored, and a duplicate is not detected.
        if self.order.try_reserve(1).is_err() {
            return true;
        }
        match self.known.insert(sequence) {
            Ok(true) => self.order.push_back(sequence),
            Ok(false) => return false,
            Err(_) => return true,
        }
        if self.order.len() > RECENT_SEQUENCES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

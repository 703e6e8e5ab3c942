//! NDNLPv2, link layer reliability: frames carry TxSequence, the peer acknowledges what it got, and
//! what it did not get goes again, up to [`RETRANSMISSIONS_MAX`] times (NFD `LpReliability`).
//!
//! A frame is overtaken when [`LATER_ACKS_OF_LOSS`] frames sent after it were acknowledged and it
//! was not, all acknowledgements of one frame taken together. It counts as lost when it was
//! overtaken and has stayed out for a part of the round trip after that (as in RFC 8985: within a
//! burst frames change places), or after the retransmission timeout (RFC 6298). A frame that goes
//! again gets a new TxSequence and keeps its Sequence, by which the receiver knows it if both
//! arrive; an acknowledgement of any of its TxSequences ends it.

use alloc::collections::{TryReserveError, VecDeque};
use alloc::vec::Vec;

use namely_wire::{LpFraming, LpHeaders, encode_lp_announced_header, encode_lp_header};

use crate::counters::{LinkDrop, LinkDrops};
use crate::frame::{FRAME_HEADER_OCTETS_MAX, Frame, Payload, ready};
use crate::ordered::{Numbered, Ordered};
use crate::rtt::{Patience, RttEstimator};

/// How often a lost frame goes again before its packet is dropped.
pub const RETRANSMISSIONS_MAX: u8 = 3;

/// Maximum number of frames that wait for an acknowledgement; the oldest makes room for a new one.
pub const UNACKED_FRAMES_MAX: usize = 4096;

/// Maximum number of frames from the oldest that waits to the youngest, with those in between that
/// were acknowledged.
const UNACKED_SPAN_MAX: usize = 2 * UNACKED_FRAMES_MAX;

/// Acknowledgements of frames sent later by which a frame is overtaken.
const LATER_ACKS_OF_LOSS: usize = 3;

/// Maximum number of acknowledgements that wait to be sent; the oldest makes room for a new one.
const PENDING_ACKS_MAX: usize = 4096;

/// How long an acknowledgement waits for a frame to ride on, ns; NFD's too.
pub(crate) const ACK_DELAY_NS: u64 = 5_000_000;

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
    /// What precedes the network packet in `payload.packet`: its PrefixAnnouncement, and the first
    /// Fragment's TYPE and LENGTH; nothing where it has none.
    pub(crate) announcement_octets: u32,
}

impl<P> Outline<P> {
    /// The frame with `framing`'s TxSequence, acknowledgements and padding; `None` if there is no
    /// memory for it. Headers of the network packet, and its announcement, go on the first
    /// fragment.
    pub(crate) fn into_frame(self, framing: LpFraming<'_>, scratch: &mut Vec<u8>) -> Option<Frame<P>> {
        let Outline { headers, sequence, frag_index, frag_count, payload, announcement_octets } = self;
        let framing = LpFraming { sequence: Some(sequence), frag_index, frag_count, ..framing };
        let headers = if frag_index == 0 { headers } else { LpHeaders::default() };
        if announcement_octets > 0 && frag_index == 0 {
            return Frame::announced(&headers, &framing, payload, scratch);
        }
        Frame::with_header(&headers, &framing, Some(payload), scratch)
    }

    /// How long its header would be with `framing`; `None` if there is no memory for it.
    fn header_octets(&self, framing: &LpFraming<'_>, scratch: &mut Vec<u8>) -> Option<usize> {
        let Outline { sequence, frag_index, frag_count, .. } = *self;
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
    outline: Outline<P>,
    sent_ns: u64,
    retransmissions: u8,
    later_acks: usize,
    /// When it counts as lost, since it was overtaken.
    lost_ns: Option<u64>,
    /// The TxSequences that it had before, as many as retransmissions.
    earlier: [u64; RETRANSMISSIONS_MAX as usize],
}

/// The reliability state of one face.
#[derive(Debug)]
pub(crate) struct Reliability<P> {
    mtu: usize,
    /// By TxSequence, hence by time of sending.
    unacked: Numbered<Unacked<P>>,
    /// Those that were overtaken, by the time at which they count as lost.
    overtaken: Ordered<(u64, u64)>,
    /// By a TxSequence that a frame had before: the one that it has.
    renamed: Ordered<(u64, u64)>,
    /// TxSequences that a frame has acknowledged.
    acked: Vec<u64>,
    pending_acks: VecDeque<u64>,
    acks_due_ns: u64,
    rtt: RttEstimator,
    patience: Patience,
    recent: RecentSequences,
    /// Packets of which a lost frame is longer than the link takes by now: to be cut anew.
    too_long: Vec<(LpHeaders, Payload<P>)>,
    /// Frames sent again.
    pub(crate) retransmitted: u64,
    /// Of these, such that had only been late.
    pub(crate) needless: u64,
}

impl<P: Clone + AsRef<[u8]>> Reliability<P> {
    pub(crate) fn new(mtu: usize, first_tx_sequence: u64) -> Self {
        Reliability {
            mtu,
            unacked: Numbered::new(first_tx_sequence),
            overtaken: Ordered::default(),
            renamed: Ordered::default(),
            acked: Vec::new(),
            pending_acks: VecDeque::new(),
            acks_due_ns: 0,
            rtt: RttEstimator::default(),
            patience: Patience::default(),
            recent: RecentSequences::default(),
            too_long: Vec::new(),
            retransmitted: 0,
            needless: 0,
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

    /// Makes room for so many frames more.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn reserve(&mut self, frames: usize) -> Result<(), TryReserveError> {
        self.unacked.reserve(frames)
    }

    /// Sends a frame for the first time, for which there is room, and remembers it until it is
    /// acknowledged.
    pub(crate) fn send(
        &mut self,
        outline: Outline<P>,
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
        self.transmit(outline, (0, [0; RETRANSMISSIONS_MAX as usize]), now_ns, scratch, emit);
    }

    /// Sends a frame that has been sent again so often, under these TxSequences.
    fn transmit(
        &mut self,
        outline: Outline<P>,
        (retransmissions, earlier): (u8, [u64; RETRANSMISSIONS_MAX as usize]),
        now_ns: u64,
        scratch: &mut Vec<u8>,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        let tx_sequence = self.unacked.next();
        if let Some(frame) = self.encode(&outline, tx_sequence, scratch) {
            emit(frame);
        }
        for earlier in &earlier[..usize::from(retransmissions)] {
            // Without memory for it, an acknowledgement that comes late is not known for one.
            let _ = self.renamed.insert((*earlier, tx_sequence));
        }
        let (later_acks, lost_ns) = (0, None);
        let unacked = Unacked { outline, sent_ns: now_ns, retransmissions, later_acks, lost_ns, earlier };
        self.unacked.push(unacked);
    }

    /// Takes a frame out of what waits for acknowledgement.
    fn forget(&mut self, tx_sequence: u64) -> Option<Unacked<P>> {
        let unacked = self.unacked.remove(tx_sequence)?;
        unacked.lost_ns.into_iter().for_each(|lost_ns| self.overtaken.remove(&(lost_ns, tx_sequence)));
        for earlier in &unacked.earlier[..usize::from(unacked.retransmissions)] {
            self.renamed.remove(&(*earlier, tx_sequence));
        }
        Some(unacked)
    }

    /// The same of all frames of a packet.
    fn forget_message(&mut self, message: u64) {
        let first = self.unacked.first().map_or(0, |(tx_sequence, _)| tx_sequence);
        for tx_sequence in first..self.unacked.next() {
            if self.unacked.get(tx_sequence).is_some_and(|unacked| unacked.outline.message() == message) {
                self.forget(tx_sequence);
            }
        }
    }

    /// The frame, with as many waiting acknowledgements as fit.
    fn encode(&mut self, outline: &Outline<P>, tx_sequence: u64, scratch: &mut Vec<u8>) -> Option<Frame<P>> {
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

    /// Whether the frame does not fit the link, as its MTU has become smaller since it was made.
    fn is_too_long(&self, outline: &Outline<P>, scratch: &mut Vec<u8>) -> bool {
        let framing = LpFraming { tx_sequence: Some(u64::MAX), ..LpFraming::default() };
        let header = outline.header_octets(&framing, scratch);
        header.is_some_and(|header| header + outline.payload.range.len() > self.mtu)
    }

    /// Records a received TxSequence, to be acknowledged.
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

    /// Returns true if a frame with this Sequence came before.
    pub(crate) fn is_duplicate(&mut self, sequence: u64) -> bool {
        !self.recent.insert(sequence)
    }

    /// Handles the Acks of a frame. What they show to be overtaken is waited for a little longer.
    pub(crate) fn on_acks(&mut self, acks: impl Iterator<Item = u64>, now_ns: u64) {
        let mut acked = core::mem::take(&mut self.acked);
        acked.clear();
        for tx_sequence in acks {
            // What cannot be noted overtakes nothing.
            if self.on_ack(tx_sequence, now_ns) && acked.try_reserve(1).is_ok() {
                acked.push(tx_sequence);
            }
        }
        acked.sort_unstable();
        let lost_ns = now_ns.saturating_add(self.patience.wait_ns(&self.rtt));
        let last = acked.last().copied().unwrap_or(0);
        for (tx_sequence, unacked) in self.unacked.iter_mut().take_while(|(number, _)| *number < last) {
            unacked.later_acks += acked.len() - acked.partition_point(|acked| *acked < tx_sequence);
            // Without memory for it, it is overtaken by the next acknowledgement, or times out.
            if unacked.later_acks >= LATER_ACKS_OF_LOSS
                && unacked.lost_ns.is_none()
                && self.overtaken.insert((lost_ns, tx_sequence)).is_ok()
            {
                unacked.lost_ns = Some(lost_ns);
            }
        }
        self.acked = acked;
    }

    /// Returns true if a frame was waiting for this.
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

    /// Sends what is lost again, and acknowledgements that waited long enough.
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
                let history = (lost.retransmissions + 1, earlier);
                return self.transmit(lost.outline, history, now_ns, scratch, emit);
            }
            // A fragment cannot be cut further: the whole packet goes once more.
            self.forget_message(message);
            let Outline { headers, payload, announcement_octets, .. } = lost.outline;
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
        // Without this fragment the others of its packet are of no use.
        self.forget_message(message);
        drops.count(LinkDrop::RetransmissionsExhausted);
    }

    /// When [`Reliability::tick`] has something to do, ns.
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
        // What cannot be noted is not known when it comes again.
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

//! The sending half of a link service: fragments, congestion marks, unacknowledged frames.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use namely_wire::{LpFraming, LpHeaders, LpView, PACKET_OCTETS_MAX};

use crate::counters::{LinkDrop, LinkDrops};
use crate::fragment::FragmentPlan;
use crate::frame::{FRAME_HEADER_OCTETS_MAX, Frame, Patch, Payload, ready};
use crate::path::{PATH_OCTETS_BASE, Path};
use crate::reliability::{FrameTemplate, Reliability};
use crate::service::{LinkConfig, LinkKind, Outbound};

/// The sending half of the link service of one face. Several threads may send on a face, one at a
/// time, so the sender is protected by the face's lock. `P` is a shared packet.
///
/// [`LinkSender::tick`] must be called at [`LinkSender::due_ns`].
#[derive(Debug)]
pub struct LinkSender<P> {
    config: LinkConfig,
    /// The longest frame to send, octets: that of the settings, or less if the path carries less.
    mtu: usize,
    /// Packets longer than this are reported to `path`.
    long_octets: usize,
    path: Option<Box<Path>>,
    next_sequence: u64,
    /// Number of next packets that receive a congestion mark.
    mark_next: u32,
    reliability: Option<Box<Reliability<P>>>,
    fragmented: u64,
    congestion_marks: u64,
    drops: LinkDrops,
    scratch: Vec<u8>,
}

impl<P: Clone + AsRef<[u8]>> LinkSender<P> {
    /// Creates a sender. `first_sequence` should be random, so that peers do not take the frames of
    /// a restarted router for duplicates.
    #[inline(never)]
    pub fn new(config: LinkConfig, first_sequence: u64) -> Self {
        let mut sender = LinkSender {
            config,
            mtu: usize::MAX,
            long_octets: usize::MAX,
            path: None,
            // Halved, so that numbers never wrap and their order is the order of sending.
            next_sequence: first_sequence >> 1,
            mark_next: 0,
            reliability: None,
            fragmented: 0,
            congestion_marks: 0,
            drops: LinkDrops::default(),
            scratch: Vec::new(),
        };
        sender.reconfigure(config);
        sender
    }

    /// The settings.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes settings. Turning reliability off drops the unacknowledged frames.
    pub fn reconfigure(&mut self, config: LinkConfig) {
        self.config = config;
        match (config.kind, config.reliability) {
            (LinkKind::Datagram { mtu }, true) => {
                let first = self.next_sequence;
                self.reliability.get_or_insert_with(|| Box::new(Reliability::new(mtu, first)));
            }
            _ => self.reliability = None,
        }
        if let (LinkKind::Datagram { mtu }, Some(path)) = (config.kind, &mut self.path) {
            path.set_reported(mtu);
        }
        self.follow_path();
    }

    /// Enables or disables probing of the path. If enabled, the MTU of the settings is the system's
    /// report of the path, and probes verify it. Frames become shorter if long probes are lost.
    /// Peers that receive no long packets are not probed.
    pub fn discover_path(&mut self, is_wanted: bool) {
        match self.config.kind {
            LinkKind::Datagram { mtu } if is_wanted && mtu > PATH_OCTETS_BASE => {
                let first = self.next_sequence;
                self.path.get_or_insert_with(|| Box::new(Path::new(mtu, first)));
            }
            _ => self.path = None,
        }
        self.long_octets = if self.path.is_some() { PATH_OCTETS_BASE } else { usize::MAX };
        self.follow_path();
    }

    /// The longest frame that is sent, octets; `None` on a stream.
    pub fn mtu(&self) -> Option<usize> {
        matches!(self.config.kind, LinkKind::Datagram { .. }).then_some(self.mtu)
    }

    fn follow_path(&mut self) {
        let LinkKind::Datagram { mtu } = self.config.kind else { return };
        self.mtu = self.path.as_ref().map_or(mtu, |path| path.octets());
        if let Some(reliability) = &mut self.reliability {
            reliability.set_mtu(self.mtu);
        }
    }

    /// Records that a packet of `octets` is sent, in one piece and possibly not through this link
    /// service. A path is probed only if long packets are sent.
    #[inline]
    pub fn note_packet(&mut self, octets: usize, now_ns: u64) {
        if octets > self.long_octets
            && let Some(path) = &mut self.path
        {
            path.on_long_packet(now_ns);
        }
    }

    /// Packets sent in fragments.
    pub fn fragmented(&self) -> u64 {
        self.fragmented
    }

    /// Frames retransmitted by the reliability service.
    pub fn retransmitted(&self) -> u64 {
        self.reliability.as_ref().map_or(0, |reliability| reliability.retransmitted)
    }

    /// Retransmitted frames that were only late, because their acknowledgements arrived.
    pub fn needless(&self) -> u64 {
        self.reliability.as_ref().map_or(0, |reliability| reliability.needless)
    }

    /// Packets that were marked for congestion here.
    pub fn congestion_marks(&self) -> u64 {
        self.congestion_marks
    }

    /// Drops by reason.
    pub fn drops(&self) -> &LinkDrops {
        &self.drops
    }

    /// Marks `packets` more of the next packets for congestion, because the face has a standing
    /// queue. No effect if marking is off.
    pub fn mark_next(&mut self, packets: u32) {
        self.mark_next = if self.config.marking { self.mark_next.saturating_add(packets) } else { 0 };
    }

    /// Sends a packet. `emit` receives its frames in order.
    ///
    /// # Errors
    /// [`LinkDrop::MtuTooSmall`], [`LinkDrop::NoMemory`]: nothing was emitted; counted.
    pub fn send(
        &mut self,
        outbound: Outbound<P>,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        let Outbound { mut headers, packet, hop_limit: patch } = outbound;
        self.own_headers(&mut headers);
        let octets = packet.as_ref().len();
        self.send_payload(&headers, Payload { packet, range: 0..octets as u32, patch }, now_ns, emit)
    }

    /// Sends a packet with its PrefixAnnouncement. The announcement is in the first frame, like all
    /// headers. If it does not fit, the packet is sent without it. `share` creates a shared packet
    /// from the octets that are sent.
    ///
    /// # Errors
    /// As [`LinkSender::send`]'s.
    pub fn send_announced(
        &mut self,
        outbound: Outbound<P>,
        announcement: &[u8],
        share: impl FnOnce(Vec<u8>) -> P,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        let Outbound { mut headers, packet, hop_limit } = outbound;
        self.own_headers(&mut headers);
        let octets = packet.as_ref().len();
        let cut = self.cut_announced(&headers, octets, announcement.len());
        let together = cut.ok().and_then(|cut| {
            let first_octets = cut.as_ref().map_or(octets, |plan| plan.range(0).len());
            Some((cut, announced(announcement, first_octets, packet.as_ref())?))
        });
        let Some((cut, (together, announcement_octets))) = together else {
            self.drops.count(LinkDrop::AnnouncementLeftOut);
            let payload = Payload { packet, range: 0..octets as u32, patch: hop_limit };
            return self.send_payload(&headers, payload, now_ns, emit);
        };
        let range = announcement_octets..together.len() as u32;
        let offset = announcement_octets as usize;
        let patch = hop_limit.map(|patch| Patch { offset: patch.offset + offset, ..patch });
        let payload = Payload { packet: share(together), range, patch };
        self.note_packet(octets, now_ns);
        let sent = match cut {
            None => self.send_whole(&headers, payload, announcement_octets, now_ns, emit),
            Some(cut) => self.send_cut(&headers, payload, announcement_octets, cut, now_ns, emit),
        };
        sent.inspect_err(|drop| self.drops.count(*drop))
    }

    /// Plans the fragments of a packet of `octets` with an announcement in its first frame, if it
    /// fits.
    fn cut_announced(
        &mut self,
        headers: &LpHeaders,
        octets: usize,
        announcement_octets: usize,
    ) -> Result<Option<FragmentPlan>, LinkDrop> {
        let field_octets = announcement_octets + ANNOUNCEMENT_FIELD_OCTETS;
        let octets_max = match self.config.kind {
            // NFD accepts no longer link packet on a stream.
            LinkKind::Stream => PACKET_OCTETS_MAX,
            LinkKind::Datagram { .. } => self.mtu,
        };
        if announcement_octets > ANNOUNCEMENT_OCTETS_MAX {
            return Err(LinkDrop::AnnouncementLeftOut);
        }
        let header_octets = self.header_octets(headers, octets_max, 1)?.max(PLAIN_HEADER_OCTETS);
        if octets + field_octets + header_octets <= octets_max {
            return Ok(None);
        }
        match self.config.kind {
            LinkKind::Stream => Err(LinkDrop::AnnouncementLeftOut),
            LinkKind::Datagram { .. } => self.plan(headers, octets, field_octets).map(Some),
        }
    }

    /// Adjusts the headers to this peer.
    fn own_headers(&mut self, headers: &mut LpHeaders) {
        // Incoming face indication and consumer-controlled forwarding are for local applications
        // only.
        if !self.config.local_fields {
            headers.incoming_face_id = None;
            headers.next_hop_face_id = None;
        }
        // Congestion marking: 1 is NFD's mark.
        if self.mark_next > 0 {
            self.mark_next -= 1;
            self.congestion_marks += 1;
            headers.congestion_mark = Some(1);
        }
    }

    /// Sends a whole packet, in one frame if it fits.
    #[inline]
    fn send_payload(
        &mut self,
        headers: &LpHeaders,
        payload: Payload<P>,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        let octets = payload.range.len();
        let fits = match self.config.kind {
            LinkKind::Stream => true,
            LinkKind::Datagram { .. } => {
                self.note_packet(octets, now_ns);
                let mtu = self.mtu;
                octets + FRAME_HEADER_OCTETS_MAX <= mtu
                    || self.header_octets(headers, mtu, 1).is_ok_and(|header| octets + header <= mtu)
            }
        };
        let sent = if fits {
            self.send_whole(headers, payload, 0, now_ns, emit)
        } else {
            let cut = self.plan(headers, octets, 0);
            cut.and_then(|cut| self.send_cut(headers, payload, 0, cut, now_ns, emit))
        };
        sent.inspect_err(|drop| self.drops.count(*drop))
    }

    /// Sends a packet in one frame. `payload` follows `announcement_octets` of announcement.
    #[inline]
    fn send_whole(
        &mut self,
        headers: &LpHeaders,
        payload: Payload<P>,
        announcement_octets: u32,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        if self.reliability.is_none() && announcement_octets == 0 && headers.is_empty() {
            emit(Frame::bare(payload));
            return Ok(());
        }
        match self.reliability {
            Some(_) => self.send_reliably(*headers, payload, announcement_octets, now_ns, emit),
            None => self.send_with_header(headers, payload, announcement_octets, emit),
        }
    }

    // These functions and those for fragments are not inlined, so that each has its own stack
    // frame.
    #[inline(never)]
    fn send_with_header(
        &mut self,
        headers: &LpHeaders,
        mut payload: Payload<P>,
        announcement_octets: u32,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        let framing = LpFraming::default();
        let frame = if announcement_octets > 0 {
            payload.range.start = 0;
            Frame::announced(headers, &framing, payload, &mut self.scratch)
        } else {
            Frame::with_header(headers, &framing, Some(payload), &mut self.scratch)
        };
        emit(frame.ok_or(LinkDrop::NoMemory)?);
        Ok(())
    }

    #[inline(never)]
    fn send_reliably(
        &mut self,
        headers: LpHeaders,
        mut payload: Payload<P>,
        announcement_octets: u32,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        if announcement_octets > 0 {
            payload.range.start = 0;
        }
        self.prepare(1)?;
        let sequence = self.take_sequences(1);
        let outline =
            FrameTemplate { headers, sequence, frag_index: 0, frag_count: 1, payload, announcement_octets };
        self.send_outline(outline, 0, now_ns, emit);
        Ok(())
    }

    /// Reserves memory for `frames` frames, so that either all frames of a packet are sent or none.
    fn prepare(&mut self, frames: usize) -> Result<(), LinkDrop> {
        let reserved = ready(&mut self.scratch).and_then(|()| match &mut self.reliability {
            Some(reliability) => reliability.reserve(frames),
            None => Ok(()),
        });
        reserved.map_err(|_| LinkDrop::NoMemory)
    }

    /// Plans the fragments of a packet of `octets` (indexed fragmentation). The first fragment
    /// carries the headers of the network packet, and `more_octets` beside them.
    fn plan(
        &mut self,
        headers: &LpHeaders,
        octets: usize,
        more_octets: usize,
    ) -> Result<FragmentPlan, LinkDrop> {
        let mtu = self.mtu;
        let first_header = self.header_octets(headers, mtu, crate::FRAGMENTS_MAX)? + more_octets;
        let rest_header = self.header_octets(&LpHeaders::default(), mtu, crate::FRAGMENTS_MAX)?;
        let plan = FragmentPlan::new(octets, mtu, first_header, rest_header)?;
        if self.reliability.is_none() && plan.count <= EQUAL_FRAGMENTS_MAX {
            let header = |index, headers: &LpHeaders, scratch: &mut Vec<u8>| {
                let framing = fragment_framing(0, index, plan.count);
                scratch.clear();
                namely_wire::encode_lp_header(headers, &framing, None, Some(mtu), scratch);
                scratch.len()
            };
            let first = header(0, headers, &mut self.scratch) + more_octets;
            let rest = header(1, &LpHeaders::default(), &mut self.scratch);
            if let Some(equal) = plan.equalized(mtu, first, rest) {
                return Ok(equal);
            }
        }
        Ok(plan)
    }

    /// Sends a packet's fragments. `payload` follows `announcement_octets` of announcement.
    #[inline(never)]
    fn send_cut(
        &mut self,
        headers: &LpHeaders,
        payload: Payload<P>,
        announcement_octets: u32,
        plan: FragmentPlan,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        self.prepare(plan.count as usize)?;
        self.fragmented += 1;
        let first_sequence = self.take_sequences(plan.count);
        let packet_start = payload.range.start;
        for frag_index in 0..plan.count {
            let Range { start, end } = plan.range(frag_index);
            let leading_octets = if frag_index == 0 { announcement_octets } else { 0 };
            let range = packet_start + start - leading_octets..packet_start + end;
            let outline = FrameTemplate {
                headers: *headers,
                sequence: first_sequence.wrapping_add(frag_index),
                frag_index,
                frag_count: plan.count,
                payload: Payload { range, ..payload.clone() },
                announcement_octets,
            };
            let is_last = frag_index + 1 == plan.count;
            self.send_outline(outline, if is_last { plan.padding_octets } else { 0 }, now_ns, emit);
        }
        Ok(())
    }

    /// `padding_octets` is used on links without reliability only.
    #[inline(never)]
    fn send_outline(
        &mut self,
        outline: FrameTemplate<P>,
        padding_octets: usize,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        if let Some(reliability) = &mut self.reliability {
            reliability.send(outline, now_ns, &mut self.scratch, &mut self.drops, emit);
            return;
        }
        let framing = LpFraming { padding_octets, ..LpFraming::default() };
        if let Some(frame) = outline.into_frame(framing, &mut self.scratch) {
            emit(frame);
        }
    }

    fn take_sequences(&mut self, n: u64) -> u64 {
        let first = self.next_sequence;
        self.next_sequence = first.wrapping_add(n);
        first
    }

    /// Returns the maximum number of header octets of a frame of at most `mtu` octets.
    fn header_octets(&mut self, headers: &LpHeaders, mtu: usize, frag_count: u64) -> Result<usize, LinkDrop> {
        let is_bare = headers.is_empty() && frag_count == 1 && self.reliability.is_none();
        if is_bare {
            return Ok(0);
        }
        let framing = LpFraming {
            sequence: (frag_count > 1 || self.reliability.is_some()).then_some(0),
            frag_index: frag_count - 1,
            frag_count,
            tx_sequence: self.reliability.as_ref().map(|_| 0),
            acks: &[],
            padding_octets: 0,
        };
        ready(&mut self.scratch).map_err(|_| LinkDrop::NoMemory)?;
        namely_wire::encode_lp_header(headers, &framing, None, Some(mtu), &mut self.scratch);
        Ok(self.scratch.len())
    }

    /// Passes a received frame to the reliability service and to path discovery. `emit` receives
    /// the answer to a probe.
    ///
    /// # Errors
    /// [`LinkDrop::DuplicateFrame`]: the frame was received before. The receiver counts it.
    pub fn on_arrival(
        &mut self,
        view: &LpView<'_>,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        if let Some(path) = &mut self.path {
            view.acks().for_each(|ack| path.on_ack(ack, now_ns));
            self.follow_path();
        }
        let Some(reliability) = &mut self.reliability else {
            self.answer_probe(view, emit);
            return Ok(());
        };
        let drops = &mut self.drops;
        reliability.on_acks(view.acks(), now_ns);
        let is_duplicate = view.tx_sequence.is_some_and(|tx_sequence| {
            reliability.on_tx_sequence(tx_sequence, now_ns, drops);
            view.sequence.is_some_and(|sequence| reliability.is_duplicate(sequence))
        });
        if is_duplicate { Err(LinkDrop::DuplicateFrame) } else { Ok(()) }
    }

    /// Sends packets again that have frames longer than the present MTU. Failures are counted.
    fn cut_anew(
        &mut self,
        packets: Vec<(LpHeaders, Payload<P>)>,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        for (headers, payload) in packets {
            let _ = self.send_payload(&headers, payload, now_ns, emit);
        }
    }

    /// Link layer reliability, even if the service is off: acknowledges an IDLE packet that
    /// requests it. Peers that probe a path send these. The answer is shorter.
    fn answer_probe(&mut self, view: &LpView<'_>, emit: &mut impl FnMut(Frame<P>)) {
        let is_stream = self.config.kind == LinkKind::Stream;
        let (None, Some(tx_sequence), false) = (view.fragment, view.tx_sequence, is_stream) else { return };
        let framing = LpFraming { acks: &[tx_sequence], ..LpFraming::default() };
        match Frame::with_header(&LpHeaders::default(), &framing, None, &mut self.scratch) {
            Some(frame) => emit(frame),
            None => self.drops.count(LinkDrop::NoMemory),
        }
    }

    /// Runs the tasks that are due: retransmits lost frames, acknowledges, probes the path.
    pub fn tick(&mut self, now_ns: u64, emit: &mut impl FnMut(Frame<P>)) {
        if let Some(path) = &mut self.path {
            let lost = path.tick(now_ns, &mut |tx_sequence, octets| {
                if let Some(frame) = Frame::probe(tx_sequence, octets, &mut self.scratch) {
                    emit(frame);
                }
            });
            if lost > 0 {
                self.drops.add(LinkDrop::PathProbeLost, lost);
            }
            self.follow_path();
        }
        if let Some(reliability) = &mut self.reliability {
            reliability.tick(now_ns, &mut self.scratch, &mut self.drops, emit);
            let too_long = reliability.take_too_long();
            self.cut_anew(too_long, now_ns, emit);
        }
    }

    /// The time of the next [`LinkSender::tick`], ns; `None` if there is none.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        let path = self.path.as_ref().and_then(|path| path.due_ns());
        let reliability = self.reliability.as_ref().and_then(|reliability| reliability.due_ns());
        path.into_iter().chain(reliability).min()
    }
}

/// Joins the announcement, the TYPE and LENGTH of the first Fragment, and the packet. Returns them
/// and the octets before the packet; `None` if there is no memory.
fn announced(announcement: &[u8], first_octets: usize, packet: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut together = Vec::new();
    let field_octets = announcement.len() + ANNOUNCEMENT_FIELD_OCTETS;
    together.try_reserve_exact(field_octets + FRAGMENT_FIELD_OCTETS + packet.len()).ok()?;
    namely_wire::encode_lp_announcement(announcement, first_octets, &mut together);
    let announcement_octets = together.len() as u32;
    together.extend_from_slice(packet);
    Some((together, announcement_octets))
}

/// Octets of a PrefixAnnouncement with a Data.
///
/// It is also the limit of an announcement that is accepted with a fragmented packet. A Data
/// without an announcement teaches a route to its object.
///
/// # Limit
/// The announcement is dropped, and its Data is forwarded without it.
/// - Counter: `announcement_dropped`, `announcement_left_out`
/// - Tests: `announcements_past_their_limits_are_dropped`,
///   `a_long_announcement_waits_for_no_fragments`,
///   `an_announcement_without_room_is_counted`
pub const ANNOUNCEMENT_OCTETS_MAX: usize = 2048;

/// Maximum octets of TYPE and LENGTH of PrefixAnnouncement, and of Fragment.
const ANNOUNCEMENT_FIELD_OCTETS: usize = 3 + 3;
const FRAGMENT_FIELD_OCTETS: usize = 1 + 3;

/// TYPE and LENGTH of a link packet without further fields, and of its Fragment.
const PLAIN_HEADER_OCTETS: usize = 1 + 3 + FRAGMENT_FIELD_OCTETS;

/// Maximum number of equally long fragments of a packet: up to this number each FragIndex takes one
/// octet.
const EQUAL_FRAGMENTS_MAX: u64 = 255;

fn fragment_framing(sequence: u64, frag_index: u64, frag_count: u64) -> LpFraming<'static> {
    LpFraming { sequence: Some(sequence), frag_index, frag_count, ..LpFraming::default() }
}

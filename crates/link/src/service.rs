//! The link service of one face.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_wire::lp::LpFraming;
use namely_wire::{DecodeError, LpHeaders, LpView, PACKET_OCTETS_MAX, types};

use crate::counters::{DropCounters, LinkDrop};
use crate::fragment::FragmentPlan;
use crate::frame::{FRAME_HEADER_OCTETS_MAX, Frame, Patch, Payload};
use crate::marking::{CongestionMarker, MarkingConfig};
use crate::reassembly::{Reassembler, ReassemblyLimits, ReassemblyTotal};
use crate::reliability::{Outline, Reliability};

/// What carries the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A reliable stream: frames of any size, no fragments, no reliability service.
    Stream,
    /// Datagrams.
    Datagram {
        /// Largest frame sent, octets; at least [`crate::MTU_OCTETS_MIN`].
        mtu: usize,
    },
}

/// Settings of a link service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// What carries the frames.
    pub kind: LinkKind,
    /// Whether IncomingFaceId is sent and NextHopFaceId accepted.
    pub local_fields: bool,
    /// Whether lost frames go again; datagrams between two only.
    pub reliability: bool,
    /// When to set congestion marks; none for never.
    pub marking: Option<MarkingConfig>,
    /// Limits on incomplete messages.
    pub reassembly: ReassemblyLimits,
}

impl LinkConfig {
    /// The defaults of a kind of link.
    pub fn new(kind: LinkKind) -> Self {
        LinkConfig {
            kind,
            local_fields: false,
            reliability: false,
            marking: Some(MarkingConfig::default()),
            reassembly: ReassemblyLimits::default(),
        }
    }
}

/// What a link service has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets sent in fragments.
    pub fragmented: u64,
    /// Packets received in fragments.
    pub reassembled: u64,
    /// Frames sent again by the reliability service.
    pub retransmitted: u64,
    /// Packets that got a congestion mark here.
    pub congestion_marks: u64,
    /// Drops by reason.
    pub drops: DropCounters,
}

/// A network packet to send.
#[derive(Clone, Debug)]
pub struct Outbound<P> {
    /// Its headers.
    pub headers: LpHeaders,
    /// Its octets, shared.
    pub packet: P,
    /// The octet to change on the way out, if any.
    pub hop_limit: Option<Patch>,
}

/// A network packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// Its headers. IncomingFaceId is never set: only a router may.
    pub headers: LpHeaders,
    /// Its octets: an Interest or a Data by their first TYPE, otherwise unchecked.
    pub packet: &'a [u8],
}

/// The link service of one face. `P` is a shared packet, `R` tells remote endpoints apart on a link with several.
///
/// [`LinkService::tick`] must be called at [`LinkService::due_ns`].
///
/// ```
/// use namely_link::{LinkConfig, LinkKind, LinkService, Outbound, ReassemblyTotal};
/// use namely_wire::LpHeaders;
///
/// let total = ReassemblyTotal::new(1 << 20);
/// let config = LinkConfig::new(LinkKind::Datagram { mtu: 500 });
/// let mut here: LinkService<Vec<u8>> = LinkService::new(config, total.clone(), 0);
/// let mut there: LinkService<Vec<u8>> = LinkService::new(config, total, 0);
///
/// let mut packet = vec![6, 253, 4, 0];
/// packet.resize(4 + 1024, 7);
/// let mut frames = Vec::new();
/// let outbound = Outbound { headers: LpHeaders::default(), packet: packet.clone(), hop_limit: None };
/// here.send(outbound, 0, 1, &mut |frame| frames.push(frame.slices().concat())).unwrap();
/// assert_eq!(frames.len(), 3);
///
/// let last = frames.pop().unwrap();
/// for frame in &frames {
///     assert!(there.receive(frame, (), 2, &mut |_| ()).unwrap().is_none());
/// }
/// assert_eq!(there.receive(&last, (), 2, &mut |_| ()).unwrap().unwrap().packet, packet);
/// ```
#[derive(Debug)]
pub struct LinkService<P, R = ()> {
    config: LinkConfig,
    next_sequence: u64,
    marker: CongestionMarker,
    reassembler: Reassembler<R>,
    /// The packet that was completed last, lent out until the next call.
    completed: Vec<u8>,
    reliability: Option<Box<Reliability<P>>>,
    counters: LinkCounters,
    scratch: Vec<u8>,
}

impl<P: Clone + AsRef<[u8]>, R: Ord + Copy> LinkService<P, R> {
    /// A link service. `first_sequence` should be random, so that a router that starts again is not taken for
    /// repeating itself.
    pub fn new(config: LinkConfig, total: Arc<ReassemblyTotal>, first_sequence: u64) -> Self {
        let mut service = LinkService {
            config,
            // Halved, so that numbers never wrap and their order is that of sending.
            next_sequence: first_sequence >> 1,
            marker: CongestionMarker::default(),
            reassembler: Reassembler::new(config.reassembly, total),
            completed: Vec::new(),
            reliability: None,
            counters: LinkCounters::default(),
            scratch: Vec::new(),
        };
        service.reconfigure(config);
        service
    }

    /// The settings.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes settings. Turning reliability off forgets what waits for acknowledgement; reassembly limits stay.
    pub fn reconfigure(&mut self, config: LinkConfig) {
        self.config = config;
        match (config.kind, config.reliability) {
            (LinkKind::Datagram { mtu }, true) => {
                let first = self.next_sequence;
                self.reliability.get_or_insert_with(|| Box::new(Reliability::new(mtu, first))).set_mtu(mtu);
            }
            _ => self.reliability = None,
        }
    }

    /// What it has done.
    pub fn counters(&self) -> LinkCounters {
        let retransmitted = self.reliability.as_ref().map_or(0, |r| r.retransmitted);
        LinkCounters { retransmitted, ..self.counters.clone() }
    }

    /// Sends a packet: `emit` gets its frames in order. `queue_octets` is what waits to be sent on this face.
    ///
    /// # Errors
    /// [`LinkDrop::MtuTooSmall`]: nothing was emitted; counted.
    pub fn send(
        &mut self,
        outbound: Outbound<P>,
        queue_octets: usize,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        let Outbound { mut headers, packet, hop_limit: patch } = outbound;
        if !self.config.local_fields {
            headers.incoming_face_id = None;
            headers.next_hop_face_id = None;
        }
        if let Some(marking) = &self.config.marking
            && self.marker.should_mark(marking, queue_octets, now_ns)
        {
            self.counters.congestion_marks += 1;
            headers.congestion_mark = Some(1);
        }
        let octets = packet.as_ref().len();
        let payload = Payload { packet, range: 0..octets as u32, patch };
        let fits = match self.config.kind {
            LinkKind::Stream => true,
            LinkKind::Datagram { mtu } => {
                octets + FRAME_HEADER_OCTETS_MAX <= mtu || {
                    octets + self.header_octets(&headers, mtu, 1) <= mtu
                }
            }
        };
        if fits {
            self.send_whole(headers, payload, now_ns, emit);
            return Ok(());
        }
        let sent = self.send_fragments(headers, payload, now_ns, emit);
        sent.inspect_err(|drop| self.counters.drops.count(drop.label()))
    }

    fn send_whole(
        &mut self,
        headers: LpHeaders,
        payload: Payload<P>,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) {
        if self.reliability.is_some() {
            let sequence = self.take_sequences(1);
            let outline = Outline { headers, sequence, frag_index: 0, frag_count: 1, payload };
            self.send_outline(outline, now_ns, emit);
        } else if headers.is_empty() {
            emit(Frame::bare(payload));
        } else if let Some(frame) =
            Frame::with_header(&headers, &LpFraming::default(), Some(payload), &mut self.scratch)
        {
            emit(frame);
        }
    }

    fn send_fragments(
        &mut self,
        headers: LpHeaders,
        payload: Payload<P>,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        let LinkKind::Datagram { mtu } = self.config.kind else { return Ok(()) };
        let first_header = self.header_octets(&headers, mtu, crate::FRAGMENTS_MAX);
        let rest_header = self.header_octets(&LpHeaders::default(), mtu, crate::FRAGMENTS_MAX);
        let plan = FragmentPlan::new(payload.range.len(), mtu, first_header, rest_header)?;
        self.counters.fragmented += 1;
        let first_sequence = self.take_sequences(plan.count);
        for frag_index in 0..plan.count {
            let outline = Outline {
                headers: if frag_index == 0 { headers } else { LpHeaders::default() },
                sequence: first_sequence.wrapping_add(frag_index),
                frag_index,
                frag_count: plan.count,
                payload: Payload { range: plan.range(frag_index), ..payload.clone() },
            };
            self.send_outline(outline, now_ns, emit);
        }
        Ok(())
    }

    fn send_outline(&mut self, outline: Outline<P>, now_ns: u64, emit: &mut impl FnMut(Frame<P>)) {
        if let Some(reliability) = &mut self.reliability {
            reliability.send(outline, now_ns, &mut self.scratch, &mut self.counters.drops, emit);
            return;
        }
        let framing = LpFraming {
            sequence: Some(outline.sequence),
            frag_index: outline.frag_index,
            frag_count: outline.frag_count,
            ..LpFraming::default()
        };
        if let Some(frame) =
            Frame::with_header(&outline.headers, &framing, Some(outline.payload), &mut self.scratch)
        {
            emit(frame);
        }
    }

    fn take_sequences(&mut self, n: u64) -> u64 {
        let first = self.next_sequence;
        self.next_sequence = first.wrapping_add(n);
        first
    }

    /// The most octets of header that a frame of at most `mtu` octets needs.
    fn header_octets(&mut self, headers: &LpHeaders, mtu: usize, frag_count: u64) -> usize {
        let is_bare = headers.is_empty() && frag_count == 1 && self.reliability.is_none();
        if is_bare {
            return 0;
        }
        let framing = LpFraming {
            sequence: (frag_count > 1 || self.reliability.is_some()).then_some(0),
            frag_index: frag_count - 1,
            frag_count,
            tx_sequence: self.reliability.as_ref().map(|_| 0),
            acks: Vec::new(),
        };
        self.scratch.clear();
        namely_wire::lp::encode_lp_header(headers, &framing, None, Some(mtu), &mut self.scratch);
        self.scratch.len()
    }

    /// Takes in a frame. `emit` gets frames that its acknowledgements show to be lost. Returns the network packet that
    /// arrived with it, if one did.
    ///
    /// # Errors
    /// Why the frame was dropped; counted. The face goes on as before.
    pub fn receive<'a>(
        &'a mut self,
        frame: &'a [u8],
        remote: R,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<Option<Delivered<'a>>, LinkDrop> {
        match self.take_in(frame, remote, now_ns, emit) {
            Ok(Arrival::None) => Ok(None),
            Ok(Arrival::Whole(headers, packet)) => Ok(Some(Delivered { headers, packet })),
            Ok(Arrival::Completed(headers)) => Ok(Some(Delivered { headers, packet: &self.completed })),
            Err(drop) => {
                self.counters.drops.count(drop.label());
                Err(drop)
            }
        }
    }

    fn take_in<'f>(
        &mut self,
        frame: &'f [u8],
        remote: R,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<Arrival<'f>, LinkDrop> {
        let view = LpView::parse(frame).map_err(LinkDrop::Malformed)?;
        self.receive_reliability(&view, now_ns, emit)?;
        let Some(fragment) = view.fragment else { return Ok(Arrival::None) };
        if view.frag_count == 1 && view.frag_index == 0 {
            let headers = self.check(view.headers, fragment)?;
            return Ok(Arrival::Whole(headers, fragment));
        }
        if self.config.kind == LinkKind::Stream {
            return Err(LinkDrop::FragmentOnStream);
        }
        let added = self.reassembler.add(&view, remote, now_ns, &mut self.counters.drops)?;
        let Some((headers, packet)) = added else { return Ok(Arrival::None) };
        let previous = core::mem::replace(&mut self.completed, packet);
        self.reassembler.recycle(previous);
        self.counters.reassembled += 1;
        self.check(headers, &self.completed).map(Arrival::Completed)
    }

    fn receive_reliability(
        &mut self,
        view: &LpView<'_>,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        let Some(reliability) = &mut self.reliability else { return Ok(()) };
        let drops = &mut self.counters.drops;
        for ack in view.acks() {
            reliability.on_ack(ack, now_ns, &mut self.scratch, drops, emit);
        }
        let Some(tx_sequence) = view.tx_sequence else { return Ok(()) };
        reliability.on_tx_sequence(tx_sequence, now_ns, drops);
        match view.sequence {
            Some(sequence) if reliability.is_duplicate(sequence) => Err(LinkDrop::DuplicateFrame),
            _ => Ok(()),
        }
    }

    /// Whether this may be a network packet, and whether these headers may stand on it (NFD
    /// `GenericLinkService::decode…`).
    fn check(&self, mut headers: LpHeaders, packet: &[u8]) -> Result<LpHeaders, LinkDrop> {
        if packet.len() > PACKET_OCTETS_MAX {
            return Err(LinkDrop::MessageTooLarge);
        }
        let typ = packet.first().map(|first| u32::from(*first));
        let is_interest = match typ.ok_or(LinkDrop::Malformed(DecodeError::Truncated))? {
            types::INTEREST => true,
            types::DATA => false,
            typ => return Err(LinkDrop::Malformed(DecodeError::UnexpectedType(typ))),
        };
        if headers.next_hop_face_id.is_some() && !self.config.local_fields {
            return Err(LinkDrop::LocalFieldRefused);
        }
        let is_request = is_interest && headers.nack.is_none();
        if headers.nack.is_some() && !is_interest
            || headers.next_hop_face_id.is_some() && !is_request
            || headers.cache_policy.is_some() && is_interest
        {
            return Err(LinkDrop::MisplacedField);
        }
        headers.incoming_face_id = None;
        Ok(headers)
    }

    /// Does what is due: gives up incomplete messages, sends lost frames again, acknowledges.
    pub fn tick(&mut self, now_ns: u64, emit: &mut impl FnMut(Frame<P>)) {
        self.reassembler.expire(now_ns, &mut self.counters.drops);
        if let Some(reliability) = &mut self.reliability {
            reliability.tick(now_ns, &mut self.scratch, &mut self.counters.drops, emit);
        }
    }

    /// When [`LinkService::tick`] has something to do, ns; none while nothing waits.
    pub fn due_ns(&self) -> Option<u64> {
        let reliability = self.reliability.as_ref().and_then(|r| r.due_ns());
        self.reassembler.due_ns().into_iter().chain(reliability).min()
    }
}

/// What a frame brought.
enum Arrival<'f> {
    None,
    Whole(LpHeaders, &'f [u8]),
    /// The packet is in `LinkService::completed`.
    Completed(LpHeaders),
}

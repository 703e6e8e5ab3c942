//! Both halves of the link service of one face, for callers that send and receive on one thread.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use namely_wire::{LpHeaders, LpView};

use crate::codel::CodelConfig;
use crate::counters::{LinkDrop, LinkDrops};
use crate::frame::{Frame, Patch};
use crate::reassembly::{ReassemblyLimits, ReassemblyTotalRef};
use crate::receiver::{LinkReceiver, ReceivePolicy};
use crate::sender::LinkSender;

/// The kind of link.
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
    /// The kind of link.
    pub kind: LinkKind,
    /// Whether IncomingFaceId is sent and NextHopFaceId accepted.
    pub local_fields: bool,
    /// Whether lost frames are retransmitted. Only for datagrams between two endpoints.
    pub reliability: bool,
    /// The CoDel settings of the queue of waiting frames. The owner of the queue applies them
    /// ([`crate::Codel`]).
    pub codel: CodelConfig,
    /// Whether a bad queue is reported by congestion marks.
    pub marking: bool,
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
            codel: CodelConfig::default(),
            marking: true,
            reassembly: ReassemblyLimits::default(),
        }
    }
}

/// Counters of a link service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets sent in fragments.
    pub fragmented: u64,
    /// Packets received in fragments.
    pub reassembled: u64,
    /// Frames retransmitted by the reliability service.
    pub retransmitted: u64,
    /// Retransmitted frames that were only late.
    pub needless: u64,
    /// Packets that were marked for congestion here.
    pub congestion_marks: u64,
    /// Drops by reason.
    pub drops: LinkDrops,
}

/// A network packet to send.
#[derive(Clone, Debug)]
pub struct Outbound<P> {
    /// Its headers.
    pub headers: LpHeaders,
    /// Its octets, shared.
    pub packet: P,
    /// The octet to change in the sent packet, if any.
    pub hop_limit: Option<Patch>,
}

/// The location of a received packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketLocation {
    /// In the frame, at this range.
    InFrame(Range<usize>),
    /// In a buffer of the receiver, reassembled from fragments. Return it
    /// ([`LinkReceiver::recycle`]) after the packet was copied.
    Reassembled(Vec<u8>),
}

impl PacketLocation {
    /// Its octets; `frame` is the frame that it arrived in.
    pub fn octets<'a>(&'a self, frame: &'a [u8]) -> &'a [u8] {
        match self {
            PacketLocation::InFrame(range) => &frame[range.clone()],
            PacketLocation::Reassembled(buffer) => buffer,
        }
    }
}

/// A received network packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredPacket<'a> {
    /// Its headers. IncomingFaceId is never set, because only a router may set it.
    pub headers: LpHeaders,
    /// Its octets. The first TYPE is that of an Interest or a Data; the rest is unchecked.
    pub packet: PacketLocation,
    /// The PrefixAnnouncement that came with it, unchecked.
    pub announcement: Option<Cow<'a, [u8]>>,
}

/// The link service of one face: both halves, for one thread. `P` is a shared packet, `R`
/// identifies remote endpoints on a link with several.
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
/// let headers = LpHeaders::default();
/// let outbound = Outbound { headers, packet: packet.clone(), hop_limit: None };
/// here.send(outbound, 1, &mut |frame| frames.push(frame.slices().concat())).unwrap();
/// assert_eq!(frames.len(), 3);
///
/// let last = frames.pop().unwrap();
/// for frame in &frames {
///     assert!(there.receive(frame, (), 2, &mut |_| ()).unwrap().is_none());
/// }
/// let delivered = there.receive(&last, (), 2, &mut |_| ()).unwrap().unwrap();
/// assert_eq!(delivered.packet.octets(&last), packet);
/// ```
#[derive(Debug)]
pub struct LinkService<P, R = ()> {
    sender: LinkSender<P>,
    receiver: LinkReceiver<R>,
    /// Drops of the receiving half.
    drops: LinkDrops,
}

impl<P: Clone + AsRef<[u8]>, R: Ord + Copy> LinkService<P, R> {
    /// Creates a link service. `first_sequence` should be random, so that peers do not take the
    /// frames of a restarted router for duplicates.
    #[inline(never)]
    pub fn new(config: LinkConfig, total: impl Into<ReassemblyTotalRef>, first_sequence: u64) -> Self {
        LinkService {
            sender: LinkSender::new(config, first_sequence),
            receiver: LinkReceiver::new(config.reassembly, total),
            drops: LinkDrops::default(),
        }
    }

    /// The settings.
    pub fn config(&self) -> &LinkConfig {
        self.sender.config()
    }

    /// Changes settings. Turning reliability off drops the unacknowledged frames. Reassembly limits
    /// do not change.
    pub fn reconfigure(&mut self, config: LinkConfig) {
        self.sender.reconfigure(config);
    }

    /// Enables or disables probing of the path ([`LinkSender::discover_path`]).
    pub fn discover_path(&mut self, is_wanted: bool) {
        self.sender.discover_path(is_wanted);
    }

    /// Records a packet that needs no fragments and is not sent through this link service
    /// ([`LinkSender::note_packet`]).
    #[inline]
    pub fn note_packet(&mut self, octets: usize, now_ns: u64) {
        self.sender.note_packet(octets, now_ns);
    }

    /// The longest frame that is sent, octets; `None` on a stream.
    pub fn mtu(&self) -> Option<usize> {
        self.sender.mtu()
    }

    /// The counters of both halves.
    pub fn counters(&self) -> LinkCounters {
        let mut drops = self.sender.drops().clone();
        drops.merge(&self.drops);
        LinkCounters {
            fragmented: self.sender.fragmented(),
            reassembled: self.receiver.reassembled(),
            retransmitted: self.sender.retransmitted(),
            needless: self.sender.needless(),
            congestion_marks: self.sender.congestion_marks(),
            drops,
        }
    }

    /// Packets that were marked for congestion here, as in [`LinkService::counters`].
    pub fn congestion_marks(&self) -> u64 {
        self.sender.congestion_marks()
    }

    /// Frames retransmitted by the reliability service, as in [`LinkService::counters`].
    pub fn retransmitted(&self) -> u64 {
        self.sender.retransmitted()
    }

    /// Marks `packets` more of the next packets for congestion, because the face has a standing
    /// queue. No effect if marking is off.
    pub fn mark_next(&mut self, packets: u32) {
        self.sender.mark_next(packets);
    }

    /// Sends a packet. `emit` receives its frames in order.
    ///
    /// # Errors
    /// [`LinkDrop::MtuTooSmall`], [`LinkDrop::NoMemory`]: nothing was emitted. The drop is counted.
    pub fn send(
        &mut self,
        outbound: Outbound<P>,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        self.sender.send(outbound, now_ns, emit)
    }

    /// Sends a packet with its PrefixAnnouncement ([`LinkSender::send_announced`]).
    ///
    /// # Errors
    /// As [`LinkService::send`]'s.
    pub fn send_announced(
        &mut self,
        outbound: Outbound<P>,
        announcement: &[u8],
        share: impl FnOnce(Vec<u8>) -> P,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<(), LinkDrop> {
        self.sender.send_announced(outbound, announcement, share, now_ns, emit)
    }

    /// Processes a received frame. `emit` receives the answer to a probe. Returns the network
    /// packet that the frame completes, if any.
    ///
    /// # Errors
    /// The reason for which the frame was dropped. The drop is counted, and the face continues.
    #[inline(never)]
    pub fn receive<'a>(
        &mut self,
        frame: &'a [u8],
        remote: R,
        now_ns: u64,
        emit: &mut impl FnMut(Frame<P>),
    ) -> Result<Option<DeliveredPacket<'a>>, LinkDrop> {
        let LinkService { sender, receiver, drops } = self;
        let config = sender.config();
        let accepts = ReceivePolicy { kind: config.kind, local_fields: config.local_fields };
        // Used by reference: moving it out of the result would copy its 224 octets.
        let parsed = LpView::parse(frame);
        let seen = match &parsed {
            Ok(view) => sender.on_arrival(view, now_ns, emit).map(|_| view),
            Err(error) => Err(LinkDrop::Malformed(*error)),
        };
        match seen {
            Ok(view) => receiver.receive(view, remote, accepts, now_ns, drops),
            Err(drop) => {
                drops.count(drop);
                Err(drop)
            }
        }
    }

    /// Returns the buffer of a reassembled packet for reuse ([`LinkReceiver::recycle`]).
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.receiver.recycle(buffer);
    }

    /// Runs the tasks that are due: drops incomplete messages that timed out, retransmits lost
    /// frames, acknowledges, probes the path.
    pub fn tick(&mut self, now_ns: u64, emit: &mut impl FnMut(Frame<P>)) {
        self.receiver.tick(now_ns, &mut self.drops);
        self.sender.tick(now_ns, emit);
    }

    /// The time of the next [`LinkService::tick`], ns; `None` if there is none.
    pub fn due_ns(&self) -> Option<u64> {
        self.receiver.due_ns().into_iter().chain(self.sender.due_ns()).min()
    }
}

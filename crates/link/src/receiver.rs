//! The receiving half of a link service: checks and reassembly.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_wire::{DecodeError, LpHeaders, LpView, PACKET_OCTETS_MAX, types};

use crate::counters::{LinkDrop, LinkDrops};
use crate::reassembly::{
    CompletePacket, Reassembler, ReassemblyLimits, ReassemblyShare, ReassemblyTotalRef, Share,
};
use crate::service::{DeliveredPacket, LinkKind, PacketLocation};

/// The frames that a receiver accepts on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivePolicy {
    /// The kind of link.
    pub kind: LinkKind,
    /// Whether NextHopFaceId is allowed.
    pub local_fields: bool,
}

/// The receiving half of the link service of one face. It belongs to the one thread that reads the
/// face. `R` identifies remote endpoints on a link with several.
///
/// [`LinkReceiver::tick`] must be called at [`LinkReceiver::due_ns`]. The caller passes the
/// counters of drops, because receivers are many and drops are few.
#[derive(Debug)]
pub struct LinkReceiver<R = ()> {
    reassembler: Reassembler<R>,
    reassembled: u64,
}

impl<R: Ord + Copy> LinkReceiver<R> {
    /// Creates a receiver of a new owner.
    pub fn new(limits: ReassemblyLimits, total: impl Into<ReassemblyTotalRef>) -> Self {
        LinkReceiver { reassembler: Reassembler::new(limits, Share::own(total)), reassembled: 0 }
    }

    /// Creates a receiver of an owner that may have others.
    pub fn of(limits: ReassemblyLimits, share: Arc<ReassemblyShare>) -> Self {
        LinkReceiver { reassembler: Reassembler::new(limits, Share::Several(share)), reassembled: 0 }
    }

    /// Packets received in fragments.
    pub fn reassembled(&self) -> u64 {
        self.reassembled
    }

    /// Processes a frame after the sending half ([`crate::LinkSender::on_arrival`]). Returns the
    /// network packet that it completes, if any.
    ///
    /// NDNLPv2, packet format (a bare packet is its own Fragment; a link packet without Fragment is
    /// IDLE) and indexed fragmentation.
    ///
    /// # Errors
    /// The reason for which the frame was dropped; counted. The face continues.
    #[inline]
    pub fn receive<'a>(
        &mut self,
        view: &LpView<'a>,
        remote: R,
        accepts: ReceivePolicy,
        now_ns: u64,
        drops: &mut LinkDrops,
    ) -> Result<Option<DeliveredPacket<'a>>, LinkDrop> {
        let taken = self.take_in(view, remote, accepts, now_ns, drops);
        taken.inspect_err(|drop| drops.count(*drop))
    }

    /// Returns the buffer of a reassembled packet ([`PacketLocation::Reassembled`]) for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.reassembler.recycle(buffer);
    }

    #[inline]
    fn take_in<'f>(
        &mut self,
        view: &LpView<'f>,
        remote: R,
        accepts: ReceivePolicy,
        now_ns: u64,
        drops: &mut LinkDrops,
    ) -> Result<Option<DeliveredPacket<'f>>, LinkDrop> {
        let (Some(fragment), Some(range)) = (view.fragment, view.fragment_range()) else { return Ok(None) };
        if view.frag_count == 1 && view.frag_index == 0 {
            let headers = check(view.headers, fragment, accepts)?;
            let announcement = view.prefix_announcement.map(Cow::Borrowed);
            return Ok(Some(DeliveredPacket {
                headers,
                packet: PacketLocation::InFrame(range),
                announcement,
            }));
        }
        if accepts.kind == LinkKind::Stream {
            return Err(LinkDrop::FragmentOnStream);
        }
        let added = self.reassembler.add(view, remote, now_ns, drops)?;
        let Some(CompletePacket { headers, octets, announcement }) = added else { return Ok(None) };
        self.reassembled += 1;
        match check(headers, &octets, accepts) {
            Ok(headers) => {
                let announcement = announcement.map(Cow::Owned);
                Ok(Some(DeliveredPacket {
                    headers,
                    packet: PacketLocation::Reassembled(octets),
                    announcement,
                }))
            }
            Err(drop) => {
                self.recycle(octets);
                Err(drop)
            }
        }
    }

    /// Drops messages that stayed incomplete for too long. The caller has read the frames that
    /// arrived by `now_ns`, or has waited for them long enough.
    pub fn tick(&mut self, now_ns: u64, drops: &mut LinkDrops) {
        self.reassembler.expire(now_ns, drops);
    }

    /// The time of the next [`LinkReceiver::tick`], ns; `None` if there is none.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        self.reassembler.due_ns()
    }
}

/// Checks that this may be a network packet, and that its headers are allowed (NFD
/// `GenericLinkService::decode…`).
fn check(mut headers: LpHeaders, packet: &[u8], accepts: ReceivePolicy) -> Result<LpHeaders, LinkDrop> {
    if packet.len() > PACKET_OCTETS_MAX {
        return Err(LinkDrop::MessageTooLarge);
    }
    // Packet format: a complete Fragment is an Interest or a Data.
    let typ = packet.first().map(|first| u32::from(*first));
    let is_interest = match typ.ok_or(LinkDrop::Malformed(DecodeError::Truncated))? {
        types::INTEREST => true,
        types::DATA => false,
        typ => return Err(LinkDrop::Malformed(DecodeError::UnexpectedType(typ))),
    };
    // Consumer-controlled forwarding: only for permitted applications of this machine.
    if headers.next_hop_face_id.is_some() && !accepts.local_fields {
        return Err(LinkDrop::LocalFieldRefused);
    }
    // Network Nack is allowed on Interests only, NextHopFaceId on Interests without Nack only, and
    // the local cache policy on Data only.
    let is_request = is_interest && headers.nack.is_none();
    if headers.nack.is_some() && !is_interest
        || headers.next_hop_face_id.is_some() && !is_request
        || headers.cache_policy.is_some() && is_interest
    {
        return Err(LinkDrop::MisplacedField);
    }
    // Incoming face indication is set by the router, and ignored from peers.
    headers.incoming_face_id = None;
    Ok(headers)
}

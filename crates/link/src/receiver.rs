//! The receiving half of a link service: checks and reassembly.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_wire::{DecodeError, LpHeaders, LpView, PACKET_OCTETS_MAX, types};

use crate::counters::{LinkDrop, LinkDrops};
use crate::reassembly::{Reassembler, ReassemblyLimits, ReassemblyShare, ReassemblyTotalRef, Share, Whole};
use crate::service::{Carried, Delivered, LinkKind};

/// What a receiver accepts on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// What carries the frames.
    pub kind: LinkKind,
    /// Whether NextHopFaceId may come.
    pub local_fields: bool,
}

/// The receiving half of the link service of one face. It belongs to the one thread that reads the
/// face. `R` tells remote endpoints apart on a link with several.
///
/// [`LinkReceiver::tick`] must be called at [`LinkReceiver::due_ns`]. Drops are counted where the
/// caller says, since receivers are many and drops are few.
#[derive(Debug)]
pub struct LinkReceiver<R = ()> {
    reassembler: Reassembler<R>,
    reassembled: u64,
}

impl<R: Ord + Copy> LinkReceiver<R> {
    /// A receiver of a holder of its own.
    pub fn new(limits: ReassemblyLimits, total: impl Into<ReassemblyTotalRef>) -> Self {
        LinkReceiver { reassembler: Reassembler::new(limits, Share::own(total)), reassembled: 0 }
    }

    /// A receiver of a holder that may have others.
    pub fn of(limits: ReassemblyLimits, share: Arc<ReassemblyShare>) -> Self {
        LinkReceiver { reassembler: Reassembler::new(limits, Share::Several(share)), reassembled: 0 }
    }

    /// Packets received in fragments.
    pub fn reassembled(&self) -> u64 {
        self.reassembled
    }

    /// Takes in a frame, which the sending half has seen ([`crate::LinkSender::on_arrival`]).
    /// Returns the network packet that is complete with it, if one is.
    ///
    /// NDNLPv2, packet format (a bare packet stands for its own Fragment; without one the link
    /// packet is IDLE) and indexed fragmentation.
    ///
    /// # Errors
    /// Why the frame was dropped; counted. The face goes on as before.
    #[inline]
    pub fn receive<'a>(
        &mut self,
        view: &LpView<'a>,
        remote: R,
        accepts: Accepts,
        now_ns: u64,
        drops: &mut LinkDrops,
    ) -> Result<Option<Delivered<'a>>, LinkDrop> {
        let taken = self.take_in(view, remote, accepts, now_ns, drops);
        taken.inspect_err(|drop| drops.count(*drop))
    }

    /// Takes back the buffer of a packet that came in fragments ([`Carried::Completed`]), for the
    /// next one.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.reassembler.recycle(buffer);
    }

    #[inline]
    fn take_in<'f>(
        &mut self,
        view: &LpView<'f>,
        remote: R,
        accepts: Accepts,
        now_ns: u64,
        drops: &mut LinkDrops,
    ) -> Result<Option<Delivered<'f>>, LinkDrop> {
        let (Some(fragment), Some(range)) = (view.fragment, view.fragment_range()) else { return Ok(None) };
        if view.frag_count == 1 && view.frag_index == 0 {
            let headers = check(view.headers, fragment, accepts)?;
            let announcement = view.prefix_announcement.map(Cow::Borrowed);
            return Ok(Some(Delivered { headers, packet: Carried::Whole(range), announcement }));
        }
        if accepts.kind == LinkKind::Stream {
            return Err(LinkDrop::FragmentOnStream);
        }
        let added = self.reassembler.add(view, remote, now_ns, drops)?;
        let Some(Whole { headers, octets, announcement }) = added else { return Ok(None) };
        self.reassembled += 1;
        match check(headers, &octets, accepts) {
            Ok(headers) => {
                let announcement = announcement.map(Cow::Owned);
                Ok(Some(Delivered { headers, packet: Carried::Completed(octets), announcement }))
            }
            Err(drop) => {
                self.recycle(octets);
                Err(drop)
            }
        }
    }

    /// Drops messages that stayed incomplete for too long.
    pub fn tick(&mut self, now_ns: u64, drops: &mut LinkDrops) {
        self.reassembler.expire(now_ns, drops);
    }

    /// When [`LinkReceiver::tick`] has something to do, ns; `None` while nothing waits.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        self.reassembler.due_ns()
    }
}

/// Whether this may be a network packet, and whether these headers may stand on it (NFD
/// `GenericLinkService::decode…`).
fn check(mut headers: LpHeaders, packet: &[u8], accepts: Accepts) -> Result<LpHeaders, LinkDrop> {
    if packet.len() > PACKET_OCTETS_MAX {
        return Err(LinkDrop::MessageTooLarge);
    }
    // Packet format: the Fragment, once complete, is an Interest or a Data.
    let typ = packet.first().map(|first| u32::from(*first));
    let is_interest = match typ.ok_or(LinkDrop::Malformed(DecodeError::Truncated))? {
        types::INTEREST => true,
        types::DATA => false,
        typ => return Err(LinkDrop::Malformed(DecodeError::UnexpectedType(typ))),
    };
    // Consumer-controlled forwarding: for applications of this machine that were allowed to.
    if headers.next_hop_face_id.is_some() && !accepts.local_fields {
        return Err(LinkDrop::LocalFieldRefused);
    }
    // Network Nack is on Interests alone, NextHopFaceId on Interests that are no Nack, and the
    // local cache policy on Data alone.
    let is_request = is_interest && headers.nack.is_none();
    if headers.nack.is_some() && !is_interest
        || headers.next_hop_face_id.is_some() && !is_request
        || headers.cache_policy.is_some() && is_interest
    {
        return Err(LinkDrop::MisplacedField);
    }
    // Incoming face indication is for the router to give, and ignored from peers.
    headers.incoming_face_id = None;
    Ok(headers)
}

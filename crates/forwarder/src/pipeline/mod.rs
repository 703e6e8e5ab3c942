//! What happens to a packet, from the face it came from to the faces it goes to.
//!
//! Rules name the section of NFD's developer guide (revision 11) that they follow: 4.2 for
//! Interests, 4.3 for Data, 4.4 for Nacks; or the page of the NDN packet format v0.3 or of NDNLPv2.

mod amend;
mod arrived;
mod data;
mod egress;
pub(crate) mod expire;
mod hooks;
mod hops;
mod interest;
mod learning;
mod nack;
pub(crate) mod read_ahead;
pub(crate) mod sweep;
mod tier;
mod upstreams;

use lock_api::RawMutex;
use namely_wire::{NameRef, PACKET_OCTETS_MAX, types};

use crate::counters::DropReason;
use crate::face_id::FaceId;
use crate::faces::FaceHold;
use crate::faces::batch_context::BatchContext;
use crate::hash::NameHashes;
use crate::packet::{Output, PacketBuf, Received};
use crate::pit::Satisfied;
use crate::tables::Tables;
use crate::tier::Tier;
use crate::trace::{Step, Tracer};

/// Namespace-based scope control: `/localhost` as the octets of a name: packets under it stay on
/// this host.
const LOCALHOST: &[u8] = b"\x08\x09localhost";

/// `/localhost/nfd`: the router's management.
const MANAGEMENT: &[u8] = b"\x08\x09localhost\x08\x03nfd";

/// `/localhop`: Interests under it go one hop.
const LOCALHOP: &[u8] = b"\x08\x08localhop";

fn is_localhost(name: NameRef<'_>) -> bool {
    name.as_bytes().starts_with(LOCALHOST)
}

/// Whether an Interest of this name may come in through the face (guide 4.2.1, scope control): what
/// is of this host from this host only, but for management where the face may ask it.
fn may_come(name: NameRef<'_>, ingress: &FaceHold<'_>) -> bool {
    !is_localhost(name)
        || ingress.is_local()
        || ingress.asks_management() && name.as_bytes().starts_with(MANAGEMENT)
}

fn is_localhop(name: NameRef<'_>) -> bool {
    name.as_bytes().starts_with(LOCALHOP)
}

/// Tells the tracer of `out`, if it has one.
#[inline(always)]
fn decided<B>(out: &mut impl Output<B>, step: Step) {
    if let Some(tracer) = out.tracer() {
        tracer.decided(step);
    }
}

/// The way of packets through the tables: the tables, and the state that packets of a batch share.
/// It has two words, and every step takes it by value.
pub(crate) struct Pipeline<'t, 'f, B, R> {
    tables: &'t Tables<B, R>,
    context: &'t BatchContext<'f, R>,
}

impl<B, R> Clone for Pipeline<'_, '_, B, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B, R> Copy for Pipeline<'_, '_, B, R> {}

impl<'t, 'f, B: PacketBuf, R: RawMutex> Pipeline<'t, 'f, B, R> {
    pub(crate) fn new(tables: &'t Tables<B, R>, context: &'t BatchContext<'f, R>) -> Self {
        Pipeline { tables, context }
    }

    /// Processes one packet that `face` received. `hashes` are those of its name, if it has one.
    /// `satisfied` is memory for the Interests that a Data satisfies, and is empty again when this
    /// returns.
    pub(crate) fn process<O: Output<B>>(
        self,
        face: FaceId,
        received: Received<B>,
        hashes: &NameHashes,
        satisfied: &mut Satisfied<B>,
        out: &mut O,
    ) {
        if let Some(tier) = out.tier() {
            tier.packet_begins();
        }
        let Some(ingress) = self.context.hold_ingress(face) else {
            self.tables.counters.dropped(DropReason::UnknownFace);
            return decided(out, Step::Drops(DropReason::UnknownFace));
        };
        let octets = received.packet.as_ref();
        let is = |typ: u32| octets.first().is_some_and(|first| u32::from(*first) == typ);
        let result = if octets.len() > PACKET_OCTETS_MAX {
            Err(DropReason::TooLarge)
        } else if let Some(reason) = received.headers.nack {
            self.receive_nack(&ingress, &received, hashes, reason, out)
        } else if is(types::INTEREST) {
            self.receive_interest(&ingress, received, hashes, out)
        } else if is(types::DATA) {
            self.receive_data(&ingress, received, hashes, satisfied, out)
        } else {
            Err(DropReason::Malformed)
        };
        if let Err(reason) = result {
            self.tables.counters.dropped(reason);
            decided(out, Step::Drops(reason));
        }
    }
}

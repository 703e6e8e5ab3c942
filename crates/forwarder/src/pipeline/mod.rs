//! The forwarding pipelines of a packet, from its ingress to its egresses.
//!
//! Comments name the section of NFD's developer guide (revision 11) that the code follows: 4.2 for
//! Interests, 4.3 for Data, 4.4 for Nacks; or the page of the NDN packet format v0.3 or of NDNLPv2.

mod amend;
mod checked_interest;
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

/// Namespace-based scope control: `/localhost` as the octets of a name. Packets under it stay on
/// this host.
const LOCALHOST: &[u8] = b"\x08\x09localhost";

/// `/localhost/nfd`: the router's management.
const MANAGEMENT: &[u8] = b"\x08\x09localhost\x08\x03nfd";

/// `/localhop`: Interests under it travel one hop.
const LOCALHOP: &[u8] = b"\x08\x08localhop";

fn is_localhost(name: NameRef<'_>) -> bool {
    // Compared as octets, so that no component is parsed. They contain the LENGTH, so a longer
    // component does not match.
    name.as_bytes().starts_with(LOCALHOST)
}

/// Returns true if an Interest of this name may arrive on the face (guide 4.2.1, scope control).
/// `/localhost` Interests must come from this host. Management Interests may also come from a face
/// with access to management.
fn ingress_allowed(name: NameRef<'_>, ingress: &FaceHold<'_>) -> bool {
    !is_localhost(name)
        || ingress.is_local()
        || ingress.is_management_client() && name.as_bytes().starts_with(MANAGEMENT)
}

fn is_localhop(name: NameRef<'_>) -> bool {
    name.as_bytes().starts_with(LOCALHOP)
}

/// Reports a step to the tracer of `out`, if it has one.
#[inline(always)]
fn decided<B>(out: &mut impl Output<B>, step: Step) {
    if let Some(tracer) = out.tracer() {
        tracer.decided(step);
    }
}

/// The pipelines over the tables and the state that packets of a batch share. It has two words, and
/// every step takes it by value.
pub(crate) struct Pipeline<'t, 'f, B, R> {
    tables: &'t Tables<B, R>,
    context: &'t BatchContext<'f, R>,
}

// Not derived: that would require clones of `B` and `R`.
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
    /// `satisfied` is memory for the Interests that a Data satisfies, and is empty again on return.
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
        // Held for the whole packet, so that no other face is registered in its cell meanwhile.
        let Some(ingress) = self.context.hold_ingress(face) else {
            self.tables.counters.dropped(DropReason::UnknownFace);
            return decided(out, Step::Drops(DropReason::UnknownFace));
        };
        let octets = received.packet.as_ref();
        let is = |typ: u32| octets.first().is_some_and(|first| u32::from(*first) == typ);
        // Checked first, because the tables store positions in a packet in 16 bits.
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

//! Self-learning: Interests that go everywhere because no route leads to their name, and those that
//! go along routes that were learned.
//!
//! NDNLPv2's NonDiscovery and NFD's self-learning strategy (version 1). None of this runs for other
//! strategies.

use lock_api::RawMutex;
use namely_wire::LpHeaders;
use namely_wire::mgmt::LinkType;

use super::interest::{Arrived, Refusal};
use super::upstreams::Routing;
use super::{is_localhop, is_localhost};
use crate::counters::{DropReason, HotCounter, Packets};
use crate::faces::{BatchContext, FaceKey};
use crate::forwarder::Forwarder;
use crate::inline_vec::InlineVec;
use crate::packet::{Outgoing, Output, PacketBuf};
use crate::pit::{LockedEntry, PitEntry};
use crate::strategy::{Chosen, Upstream, Verdict, may_be_sent_again};

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Sends an Interest as a discovery or along its routes.
    #[cold]
    #[inline(never)]
    pub(super) fn send_learning<'t>(
        &self,
        context: &'t BatchContext<'_, R>,
        arrived: &Arrived<'_, B>,
        mut locked: LockedEntry<'_, B, R>,
        routing: &mut Routing<'t>,
        verdict: Verdict,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        let is_discovery = matches!(verdict, Verdict::Discover);
        if is_discovery {
            self.add_discovery_faces(context, arrived, routing);
        }
        let mut chosen = Chosen::new();
        match verdict {
            Verdict::Along(Some(one)) => chosen.push(one),
            _ => (0..routing.upstreams.len()).for_each(|i| chosen.push(i)),
        }
        self.note_cut(&chosen);
        if chosen.is_empty() {
            self.withdraw(locked, arrived);
            let refusal = if routing.hop_limited { Refusal::HopLimit } else { Refusal::NoRoute };
            return self.refuse(arrived, refusal, out);
        }
        let Some(entry) = locked.entry() else { return Ok(()) };
        // Where a discovery of another host ends at applications, it is answered as one.
        let is_local = |i: &usize| routing.upstreams.get(*i).is_some_and(|upstream| upstream.face.is_local());
        let ends_here =
            || !arrived.headers.non_discovery && !arrived.ingress.is_local() && chosen.iter().all(is_local);
        if is_discovery || ends_here() {
            entry.memory = entry.memory.of_discovery();
        }
        chosen.retain(|i| {
            let Some(upstream) = routing.upstreams.get(*i) else { return false };
            let is_heard = was_heard_there(entry, upstream, arrived.now_ns);
            may_be_sent_again(&mut entry.out_records, upstream.key(), arrived.now_ns)
                && self.record_sending(entry, Some(upstream), arrived, arrived.nonce)
                && !is_heard
        });
        drop(locked);
        let hop_limit = arrived.hop_limit_out().map(|limit| (arrived.interest.view.hop_limit_offset, limit));
        for upstream in chosen.iter().filter_map(|i| routing.upstreams.get(*i)) {
            let headers = self.learning_headers(arrived, upstream, is_discovery);
            context.count(if upstream.is_bound { HotCounter::ToLocal } else { HotCounter::ToNetwork }, 1);
            let packet = Outgoing { packet: arrived.packet.clone(), headers, hop_limit };
            self.emit(&upstream.face, Packets::OutInterests, packet, out);
        }
        Ok(())
    }

    fn learning_headers(
        &self,
        arrived: &Arrived<'_, B>,
        upstream: &Upstream<'_>,
        is_discovery: bool,
    ) -> LpHeaders {
        LpHeaders {
            incoming_face_id: upstream.face.local_fields().then_some(arrived.ingress.id().0),
            congestion_mark: arrived.headers.congestion_mark,
            // Applications are not asked to discover anything.
            non_discovery: !is_discovery && !upstream.face.is_local(),
            ..LpHeaders::default()
        }
    }

    /// Adds the faces that are for discovery, as far as hop limit and links allow. What is of this
    /// host or link is not looked for.
    fn add_discovery_faces<'t>(
        &self,
        context: &'t BatchContext<'_, R>,
        arrived: &Arrived<'_, B>,
        routing: &mut Routing<'t>,
    ) {
        let name = arrived.interest.view.name;
        if is_localhost(name) || is_localhop(name) {
            return;
        }
        let mut keys: InlineVec<FaceKey, 8> = InlineVec::new();
        if !self.discovery.lock().iter().all(|key| keys.push(*key)) {
            self.counters.dropped(DropReason::NoMemory);
        }
        keys.iter().for_each(|key| self.add_discovery_face(context, arrived, *key, routing));
    }
}

/// Returns true if the Interest came from a link with several peers, which have therefore heard
/// it, and this router has not said it there yet: it need only listen for the answer. If none
/// comes, and the Interest again, it is said.
fn was_heard_there<B>(entry: &PitEntry<B>, upstream: &Upstream<'_>, now_ns: u64) -> bool {
    let key = upstream.key();
    upstream.face.link_type() != LinkType::PointToPoint
        && entry.in_records.iter().any(|record| record.face == key && record.expires_at_ns > now_ns)
        && entry.out_records.iter().all(|record| record.face != key)
}

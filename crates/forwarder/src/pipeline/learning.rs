//! Self-learning: Interests that go everywhere because no route leads to their name, and those that
//! go along routes that were learned.
//!
//! NDNLPv2's NonDiscovery and NFD's self-learning strategy (version 1). None of this runs for other
//! strategies.

use lock_api::RawMutex;
use namely_wire::mgmt::LinkType;
use namely_wire::{LpHeaders, NackReason};

use super::arrived::Arrived;
use super::egress::{emit, nack_downstream};
use super::interest::Refusal;
use super::upstreams::Routing;
use super::{Pipeline, is_localhop, is_localhost};
use crate::counters::Counters;
use crate::counters::{DropReason, HotCounter, Packets};
use crate::discovery_faces::{Discovery, Keys};
use crate::faces::Faces;
use crate::packet::{Outgoing, Output, PacketBuf};
use crate::pit::LockedEntry;
use crate::pit::Pit;
use crate::pit::entry::PitEntry;
use crate::strategy::suppression::may_be_sent_again;
use crate::strategy::{Chosen, Upstream, Verdict};

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// Sends an Interest as a discovery or along its routes.
    #[cold]
    #[inline(never)]
    pub(super) fn send_learning(
        self,
        arrived: &Arrived<'_, B>,
        mut locked: LockedEntry<'t, B, R>,
        routing: &mut Routing<'t>,
        verdict: Verdict,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        let is_discovery = matches!(verdict, Verdict::Discover);
        if is_discovery && let Some(entry) = locked.entry() {
            self.add_discovery_faces(arrived, entry, routing);
        }
        let mut chosen = Chosen::new();
        let mut is_probing = false;
        match verdict {
            Verdict::Along(Some(one)) => chosen.push(one),
            Verdict::Beside(one) => {
                chosen.push(one);
                is_probing = self.add_neighbours_beside(arrived, one, routing, &mut chosen);
            }
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
        let is_local =
            |i: &u32| routing.upstreams.get(*i as usize).is_some_and(|upstream| upstream.face.is_local());
        let ends_here =
            || !arrived.headers.non_discovery && !arrived.ingress.is_local() && chosen.iter().all(is_local);
        if is_discovery || is_probing || ends_here() {
            entry.memory = entry.memory.of_discovery();
        }
        chosen.retain(|i| {
            let Some(upstream) = routing.upstreams.get(*i as usize) else { return false };
            let is_heard = was_heard_there(entry, upstream, arrived.now_ns);
            may_be_sent_again(&mut entry.out_records, upstream.key(), arrived.now_ns)
                && self.record_sending(entry, Some(upstream), arrived, arrived.nonce)
                && !is_heard
        });
        // All out-records are entered: an answer that comes before the last copy is sent finds its
        // own.
        drop(locked);
        let hop_limit = arrived.hop_limit_out().map(|limit| (arrived.interest.view.hop_limit_offset, limit));
        for upstream in chosen.iter().filter_map(|i| routing.upstreams.get(*i as usize)) {
            let headers = self.learning_headers(arrived, upstream, is_discovery);
            self.context
                .count(if upstream.is_bound { HotCounter::ToLocal } else { HotCounter::ToNetwork }, 1);
            let packet = Outgoing { packet: arrived.packet.clone(), headers, hop_limit };
            emit(&self.tables.counters, &upstream.face, Packets::OutInterests, packet, out);
        }
        Ok(())
    }

    fn learning_headers(
        self,
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
    fn add_discovery_faces(self, arrived: &Arrived<'_, B>, entry: &PitEntry<B>, routing: &mut Routing<'t>) {
        let name = arrived.interest.view.name;
        if is_localhost(name) || is_localhop(name) {
            return;
        }
        let mut keys = Keys::new();
        if !self.tables.discovery.lock_under(entry).asked(&entry.in_records, arrived.now_ns, &mut keys) {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
        keys.iter().for_each(|key| self.add_discovery_face(arrived, *key, routing));
    }

    /// Adds the neighbours of the link whose group is upstream `one`, and chooses them: a route
    /// that was learned of a group moves to a neighbour when that has answered. True if there are
    /// any.
    fn add_neighbours_beside(
        self,
        arrived: &Arrived<'_, B>,
        one: usize,
        routing: &mut Routing<'t>,
        chosen: &mut Chosen,
    ) -> bool {
        let Some(group) = routing.upstreams.get(one).map(Upstream::key) else { return false };
        let mut keys = Keys::new();
        if !self.tables.discovery.lock().beside(group, arrived.now_ns, &mut keys) {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
        let before = routing.upstreams.len();
        keys.iter().for_each(|key| self.add_discovery_face(arrived, *key, routing));
        (before..routing.upstreams.len()).for_each(|i| chosen.push(i));
        routing.upstreams.len() > before
    }
}

/// A peer has refused an Interest that others may still answer. If these are only groups, which
/// refuse nothing, they are not waited for as long as the consumer would.
#[cold]
pub(super) fn await_groups<B: PacketBuf, R: RawMutex>(
    discovery: &Discovery<R>,
    pit: &Pit<B, R>,
    locked: &mut LockedEntry<'_, B, R>,
    now_ns: u64,
) {
    let Some(entry) = locked.entry().filter(|entry| entry.memory.is_of_discovery()) else { return };
    let wait_ns = discovery.lock_under(entry).wait_for_groups_ns(&entry.out_records, now_ns);
    if let Some(wait_ns) = wait_ns {
        pit.hasten(locked, now_ns.saturating_add(wait_ns), now_ns);
    }
}

/// A pending Interest has ended without an answer. Downstreams that still wait, because groups have
/// not answered after all others had refused, are refused.
#[cold]
pub(super) fn end_discovery<B: PacketBuf, R: RawMutex>(
    faces: &Faces<R>,
    counters: &Counters,
    entry: &PitEntry<B>,
    now_ns: u64,
    out: &mut impl Output<B>,
) {
    if !entry.memory.is_of_discovery() {
        return;
    }
    let waiting = entry.in_records.iter().filter(|record| record.expires_at_ns > now_ns);
    waiting.for_each(|record| {
        nack_downstream(faces, counters, &entry.packet, record, NackReason::NoRoute, out);
    });
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

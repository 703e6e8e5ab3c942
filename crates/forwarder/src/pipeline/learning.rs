//! Self-learning: discovery Interests, which are flooded because no route leads to their name, and
//! Interests along learned routes.
//!
//! NDNLPv2's NonDiscovery and NFD's self-learning strategy (version 1). None of this runs for other
//! strategies.

use lock_api::RawMutex;
use namely_messages::LinkType;
use namely_wire::{LpHeaders, NackReason};

use super::checked_interest::CheckedInterest;
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
use crate::strategy::{ChosenUpstreams, Upstream, Verdict};

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// Sends an Interest as a discovery or along its routes.
    #[cold]
    #[inline(never)]
    pub(super) fn send_learning(
        self,
        arrived: &CheckedInterest<'_, B>,
        mut locked: LockedEntry<'t, B, R>,
        routing: &mut Routing<'t>,
        verdict: Verdict,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        let is_discovery = matches!(verdict, Verdict::Discover);
        if is_discovery && let Some(entry) = locked.entry() {
            self.add_discovery_faces(arrived, entry, routing);
        }
        let mut chosen = ChosenUpstreams::new();
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
        // An Interest of another host without NonDiscovery counts as a discovery if all its
        // upstreams are local.
        let is_local =
            |i: &u32| routing.upstreams.get(*i as usize).is_some_and(|upstream| upstream.face.is_local());
        let ends_here =
            || !arrived.headers.non_discovery && !arrived.ingress.is_local() && chosen.iter().all(is_local);
        if is_discovery || is_probing || ends_here() {
            entry.memory = entry.memory.of_discovery();
        }
        chosen.retain(|i| {
            let Some(upstream) = routing.upstreams.get(*i as usize) else { return false };
            // Before `record_sending`, whose out-record would change the result.
            let came_by_link = arrived_by_link(entry, upstream, arrived.now_ns);
            may_be_sent_again(&mut entry.out_records, upstream.key(), arrived.now_ns)
                && self.record_sending(entry, Some(upstream), arrived, arrived.nonce)
                && !came_by_link
        });
        // All out-records are entered now, so an answer that arrives before the last copy is sent
        // finds its record.
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
        arrived: &CheckedInterest<'_, B>,
        upstream: &Upstream<'_>,
        is_discovery: bool,
    ) -> LpHeaders {
        LpHeaders {
            incoming_face_id: upstream.face.local_fields().then_some(arrived.ingress.id().0),
            congestion_mark: arrived.headers.congestion_mark,
            // Not for an application, which performs no discovery.
            non_discovery: !is_discovery && !upstream.face.is_local(),
            ..LpHeaders::default()
        }
    }

    /// Adds the discovery faces that hop limit and link types allow. Names of this host or link are
    /// not discovered.
    fn add_discovery_faces(
        self,
        arrived: &CheckedInterest<'_, B>,
        entry: &PitEntry<B>,
        routing: &mut Routing<'t>,
    ) {
        let name = arrived.interest.view.name;
        if is_localhost(name) || is_localhop(name) {
            return;
        }
        let mut keys = Keys::new();
        if !self.tables.discovery.lock_under(entry).select(&entry.in_records, arrived.now_ns, &mut keys) {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
        keys.iter().for_each(|key| self.add_discovery_face(arrived, *key, routing));
    }

    /// Adds the neighbors of the link whose group is upstream `one`, and chooses them. In this way
    /// a route that was learned from a group moves to a neighbor once that neighbor has answered.
    /// Returns true if any was added.
    fn add_neighbours_beside(
        self,
        arrived: &CheckedInterest<'_, B>,
        one: usize,
        routing: &mut Routing<'t>,
        chosen: &mut ChosenUpstreams,
    ) -> bool {
        let Some(group) = routing.upstreams.get(one).map(Upstream::key) else { return false };
        let mut keys = Keys::new();
        if !self.tables.discovery.lock().beside(group, arrived.now_ns, &mut keys) {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
        // Scope or HopLimit may exclude a neighbor, so only those that were added are chosen.
        let before = routing.upstreams.len();
        keys.iter().for_each(|key| self.add_discovery_face(arrived, *key, routing));
        (before..routing.upstreams.len()).for_each(|i| chosen.push(i));
        routing.upstreams.len() > before
    }
}

/// Handles a Nack for an Interest that other peers may still answer. If only groups remain, which
/// send no Nacks, the entry expires sooner than its downstreams requested.
#[cold]
pub(super) fn await_groups<B: PacketBuf, R: RawMutex>(
    discovery: &Discovery<R>,
    pit: &Pit<B, R>,
    locked: &mut LockedEntry<'_, B, R>,
    now_ns: u64,
) {
    let Some(entry) = locked.entry().filter(|entry| entry.memory.is_discovery()) else { return };
    let wait_ns = discovery.lock_under(entry).wait_for_groups_ns(&entry.out_records, now_ns);
    if let Some(wait_ns) = wait_ns {
        pit.hasten(locked, now_ns.saturating_add(wait_ns), now_ns);
    }
}

/// Handles a discovery that has ended without an answer. A downstream still waits only if all peers
/// have refused the Interest and the groups did not answer in time ([`await_groups`]). It receives
/// a Nack.
#[cold]
pub(super) fn end_discovery<B: PacketBuf, R: RawMutex>(
    faces: &Faces<R>,
    counters: &Counters,
    entry: &PitEntry<B>,
    now_ns: u64,
    out: &mut impl Output<B>,
) {
    if !entry.memory.is_discovery() {
        return;
    }
    let waiting = entry.in_records.iter().filter(|record| record.expires_at_ns > now_ns);
    waiting.for_each(|record| {
        nack_downstream(faces, counters, &entry.packet, record, NackReason::NoRoute, out);
    });
}

/// Returns true if the Interest came from the upstream's link, that link has several peers, and
/// this router has not sent the Interest there yet. Its peers have received the Interest, so the
/// router only waits for the answer. If none arrives, it forwards the next retransmission there.
fn arrived_by_link<B>(entry: &PitEntry<B>, upstream: &Upstream<'_>, now_ns: u64) -> bool {
    let key = upstream.key();
    upstream.face.link_type() != LinkType::PointToPoint
        && entry.in_records.iter().any(|record| record.face == key && record.expires_at_ns > now_ns)
        && entry.out_records.iter().all(|record| record.face != key)
}

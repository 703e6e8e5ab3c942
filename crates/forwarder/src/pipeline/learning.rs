//! Self-learning: Interests that go everywhere because no route leads to their name, and those that
//! go along routes that were learned; and the groups that are asked when nobody else answers.
//!
//! NDNLPv2's NonDiscovery and NFD's self-learning strategy (version 1). None of this runs for other
//! strategies.

use lock_api::RawMutex;
use namely_wire::mgmt::LinkType;
use namely_wire::{InterestView, LpHeaders, NackReason};

use super::interest::{Arrived, Refusal};
use super::upstreams::Routing;
use super::{is_localhop, is_localhost};
use crate::counters::{DropReason, HotCounter, Packets};
use crate::discovery_faces::{Keys, LAST_ANSWER_NS, Last};
use crate::faces::{BatchContext, FaceHold};
use crate::forwarder::Forwarder;
use crate::packet::{Outgoing, Output, PacketBuf};
use crate::pit::{LockedEntry, OutRecord, PitEntry};
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
        if is_discovery && let Some(entry) = locked.entry() {
            self.add_discovery_faces(context, arrived, entry, routing);
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
        let is_local =
            |i: &u32| routing.upstreams.get(*i as usize).is_some_and(|upstream| upstream.face.is_local());
        let ends_here =
            || !arrived.headers.non_discovery && !arrived.ingress.is_local() && chosen.iter().all(is_local);
        if is_discovery || ends_here() {
            entry.memory = entry.memory.of_discovery();
        }
        chosen.retain(|i| {
            let Some(upstream) = routing.upstreams.get(*i as usize) else { return false };
            let is_heard = was_heard_there(entry, upstream, arrived.now_ns);
            may_be_sent_again(&mut entry.out_records, upstream.key(), arrived.now_ns)
                && self.record_sending(entry, Some(upstream), arrived, arrived.nonce)
                && !is_heard
        });
        drop(locked);
        let hop_limit = arrived.hop_limit_out().map(|limit| (arrived.interest.view.hop_limit_offset, limit));
        for upstream in chosen.iter().filter_map(|i| routing.upstreams.get(*i as usize)) {
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

    /// Adds the faces that are for discovery, as far as hop limit and links allow, and those that
    /// are asked last if those before have said nothing to the last Interest. What is of this host
    /// or link is not looked for.
    fn add_discovery_faces<'t>(
        &self,
        context: &'t BatchContext<'_, R>,
        arrived: &Arrived<'_, B>,
        entry: &PitEntry<B>,
        routing: &mut Routing<'t>,
    ) {
        let name = arrived.interest.view.name;
        if is_localhost(name) || is_localhop(name) {
            return;
        }
        let mut keys = Keys::new();
        let mut discovery = self.discovery.lock();
        let last = Last {
            waiting: &entry.in_records,
            asked: &entry.out_records,
            is_own: arrived.ingress.is_local(),
            only_due: true,
        };
        if !discovery.iter().all(|key| keys.push(key))
            || !discovery.ask_last(&last, arrived.now_ns, &mut keys)
        {
            self.counters.dropped(DropReason::NoMemory);
        }
        drop(discovery);
        keys.iter().for_each(|key| self.add_discovery_face(context, arrived, *key, routing));
    }

    /// All who were asked at once have refused a discovery: has the groups asked in whose place
    /// that was, and no longer wait for them than [`LAST_ANSWER_NS`]. `None` if nobody is left.
    #[cold]
    pub(super) fn ask_last(
        &self,
        context: &BatchContext<'_, R>,
        locked: &mut LockedEntry<'_, B, R>,
    ) -> Option<AskedLast<B>> {
        let entry = locked.entry().filter(|entry| entry.memory.is_of_discovery())?;
        let packet = entry.packet.clone();
        let view = InterestView::parse(packet.as_ref()).ok()?;
        let (nonce, now_ns) = (view.nonce?, context.now_ns);
        let hop_limit = view.hop_limit.map(|limit| (view.hop_limit_offset, limit.saturating_sub(1)));
        if hop_limit.is_some_and(|(_, limit)| limit == 0) {
            return None;
        }
        let mut keys = Keys::new();
        let is_local = |key| context.hold_key(key).is_some_and(|face| face.is_local());
        let last = Last {
            waiting: &entry.in_records,
            asked: &entry.out_records,
            is_own: entry.in_records.iter().any(|record| is_local(record.face)),
            only_due: false,
        };
        if !self.discovery.lock().ask_last(&last, now_ns, &mut keys) {
            self.counters.dropped(DropReason::NoMemory);
        }
        let expires_at_ns = now_ns.saturating_add(LAST_ANSWER_NS);
        keys.retain(|face| {
            if entry.out_records.iter().any(|own| own.face == *face) {
                return false;
            }
            if entry.out_records.len() >= self.config.out_records_max {
                self.counters.dropped(DropReason::OutRecordsFull);
                return false;
            }
            let record = OutRecord {
                face: *face,
                nonce,
                sent_at_ns: now_ns,
                expires_at_ns,
                suppression_ns: 0,
                nack: None,
            };
            let is_in = self.pit.add_upstream(entry, record);
            if !is_in {
                self.counters.dropped(DropReason::NoMemory);
            }
            is_in
        });
        if keys.is_empty() {
            return None;
        }
        self.pit.hasten(locked, expires_at_ns, now_ns);
        Some(AskedLast { keys, packet, hop_limit })
    }

    /// Sends what groups are asked last.
    #[cold]
    pub(super) fn send_last(
        &self,
        context: &BatchContext<'_, R>,
        asked: AskedLast<B>,
        out: &mut impl Output<B>,
    ) {
        for face in asked.keys.iter().filter_map(|key| context.hold_key(*key)) {
            context.count(HotCounter::ToNetwork, 1);
            let (packet, hop_limit) = (asked.packet.clone(), asked.hop_limit);
            let packet = Outgoing { packet, headers: LpHeaders::default(), hop_limit };
            self.emit(&face, Packets::OutInterests, packet, out);
        }
    }

    /// Data has answered a discovery; true if it is of somebody whom nobody but a group's face
    /// reaches.
    #[cold]
    pub(super) fn answered_last(&self, ingress: &FaceHold<'_>, entry: &PitEntry<B>, now_ns: u64) -> bool {
        ingress.link_type() != LinkType::PointToPoint
            && self.discovery.lock().answered(ingress.key(), &entry.out_records, now_ns)
    }

    /// A pending Interest has ended without an answer. Who still waits, because groups that were
    /// asked last have not answered in time, is refused.
    #[cold]
    pub(super) fn end_discovery(&self, entry: &PitEntry<B>, now_ns: u64, out: &mut impl Output<B>) {
        if !entry.memory.is_of_discovery() {
            return;
        }
        self.discovery.lock().unanswered(&entry.out_records);
        let waiting = entry.in_records.iter().filter(|record| record.expires_at_ns > now_ns);
        waiting.for_each(|record| self.nack_downstream(&entry.packet, record, NackReason::NoRoute, out));
    }
}

/// An Interest for groups that are asked last.
pub(super) struct AskedLast<B> {
    keys: Keys,
    packet: B,
    hop_limit: Option<(usize, u8)>,
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

//! The pipelines of an incoming Interest: scope, hop limit, loop detection, content store, PIT,
//! strategy.
//!
//! Section numbers are those of NFD's developer guide, where the pipelines of an Interest are 4.2.
//! Other sections are of the NDN packet format v0.3 and of NDNLPv2.

use lock_api::RawMutex;
use namely_messages::LinkType;
use namely_wire::{AmendedInterest, InterestView, LpHeaders, NackReason};

use super::amend::with_nonce_of;
use super::checked_interest::CheckedInterest;
use super::egress::{DataHeaders, emit, send_data, send_nack};
use super::hooks::Hooks;
use super::tier::unpark_for;
use super::upstreams::{Forwarding, Routing};
use super::{Pipeline, decided, ingress_allowed};
use crate::congestion::{is_announcement, receive};
use crate::counters::{DropReason, HotCounter, Packets};
use crate::cs::{CS_DIGESTS_MAX, Lookup, UndigestedPacket};
use crate::face_id::FaceId;
use crate::faces::FaceHold;
use crate::hash::NameHashes;
use crate::interest_key::InterestKey;
use crate::packet::{Outgoing, Output, PacketBuf, Received};
use crate::pit::entry::{OutRecord, PitEntry};
use crate::pit::pending::PitFull;
use crate::pit::{InsertOutcome, LockedEntry};
use crate::strategy::memory_id::MemoryId;
use crate::strategy::{ChosenUpstreams, Pending, Upstream, Verdict};
use crate::tier::Tier;
use crate::trace::Step;

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// The Incoming Interest pipeline (NFD developer guide 4.2.1) from the checks that need no
    /// table to the sending of the Interest (4.2.5, Outgoing Interest).
    #[inline(never)]
    pub(crate) fn receive_interest<O: Output<B>>(
        self,
        ingress: &FaceHold<'_>,
        received: Received<B>,
        hashes: &NameHashes,
        out: &mut O,
    ) -> Result<(), DropReason> {
        ingress.count(Packets::InInterests);
        let headers = &received.headers;
        // `forwarding` is filled in place by the functions below. If three of them returned it, its
        // 300 octets would be copied each time, which is 70 instructions for an answer from the
        // content store. It is used when nothing borrows the packet any more, so that the last
        // upstream receives the packet itself.
        let (mut packet, mut forwarding) = (received.packet, None);
        // Repeated once if the Interest must be amended. The copy needs no further amendment.
        loop {
            // Used in place, because moving the view out of the result would copy its 176 octets.
            let parsed = InterestView::parse(packet.as_ref());
            let Ok(view) = &parsed else { return Err(DropReason::Malformed) };
            // Packet format, Interest, HopLimit: an Interest that arrives with HopLimit 0 is
            // dropped.
            if view.hop_limit == Some(0) {
                return Err(DropReason::HopLimit);
            }
            if !ingress_allowed(view.name, ingress) {
                return Err(DropReason::Scope);
            }
            // NDNLPv2, Consumer Controlled Forwarding: a packet with NextHopFaceId is dropped
            // unless the feature is enabled on the face.
            if headers.next_hop_face_id.is_some() && !ingress.local_fields() {
                return Err(DropReason::NextHopRefused);
            }
            if out.tier().is_some() && is_announcement(view.name) {
                receive(&self.tables.cs.tier, ingress, view, self.context.now_ns);
                return Ok(());
            }
            if let Some(amended) = self.amended(view)? {
                packet = amended;
                continue;
            }
            let interest = InterestKey::new(view, hashes);
            self.process_interest(ingress, &packet, interest, headers, &mut forwarding, out)?;
            break;
        }
        if let Some(forwarding) = forwarding {
            self.forward(ingress, &forwarding, packet, headers, out);
        }
        Ok(())
    }

    /// Returns a copy of the Interest with a Nonce that it lacks, or without a hint that it no
    /// longer needs, if it must be amended.
    #[inline]
    fn amended(self, view: &InterestView<'_>) -> Result<Option<B>, DropReason> {
        if view.nonce.is_some() && view.forwarding_hint_value.is_none() {
            return Ok(None);
        }
        self.amend(view)
    }

    #[cold]
    #[inline(never)]
    fn amend(self, view: &InterestView<'_>) -> Result<Option<B>, DropReason> {
        let strip = view.forwarding_hint_value.is_some() && self.is_in_producer_region(view);
        if !strip && view.nonce.is_some() {
            return Ok(None);
        }
        let nonce = view.nonce.is_none().then(|| self.tables.random.nonce());
        let amended = AmendedInterest::new(view, nonce, !strip);
        let packet = B::build(amended.octets(), |octets| amended.write(octets));
        packet.map(Some).ok_or(DropReason::NoBuffer)
    }

    /// Returns true if a name of the forwarding hint is a region of this router or a prefix of one.
    fn is_in_producer_region(self, view: &InterestView<'_>) -> bool {
        self.tables.regions.any_of(view.forwarding_hint())
    }

    /// Answers the Interest, or makes it pending; writes its upstreams to `forwarding`, if any.
    fn process_interest<O: Output<B>>(
        self,
        ingress: &FaceHold<'_>,
        packet: &B,
        interest: InterestKey<'_>,
        headers: &LpHeaders,
        forwarding: &mut Option<Forwarding<'t>>,
        out: &mut O,
    ) -> Result<(), DropReason> {
        let now_ns = self.context.now_ns;
        // Packet format, Interest, InterestLifetime: 4 s unless the Interest has another; a router
        // may shorten it. `Tables::new` made sure that the limit for other hosts is not longer than
        // that for this host.
        let lifetime_ms_max = if ingress.is_local() {
            self.tables.config.pit.interest_lifetime_ms_max
        } else {
            self.tables.config.pit.interest_lifetime_remote_ms_max
        };
        let lifetime_ms = interest.view.lifetime_or_default_ms().min(lifetime_ms_max);
        let arrived = CheckedInterest {
            ingress,
            packet,
            headers,
            interest,
            nonce: interest.view.nonce.ok_or(DropReason::Malformed)?,
            lifetime_ns: lifetime_ms.saturating_mul(1_000_000),
            now_ns,
            reserve: self.context.reserve,
        };
        // Guide 4.2.1, loop detection by the dead-nonce list: the PIT entry that had the Nonce may
        // have ended. Checked before the content store, so that a looping Interest is never
        // answered twice.
        if self.tables.dead_nonces.contains(interest.hashes.whole(), arrived.nonce, now_ns) {
            return self.refuse_loop(&arrived, out);
        }
        match self.find_cached::<O>(&arrived.interest) {
            Some(data) => {
                if let Some(tier) = out.tier() {
                    tier.answers_from_memory();
                }
                decided(out, Step::CacheHit);
                self.answer_from_cache(&arrived, data, out);
                Ok(())
            }
            None => {
                decided(out, Step::CacheMiss);
                self.insert_pending(&arrived, forwarding, out)
            }
        }
    }

    /// Looks in the content store. Digests of cached packets are computed only if the Interest
    /// requests one, and at most [`CS_DIGESTS_MAX`] of them: beyond that the lookup is a miss.
    fn find_cached<O: Output<B>>(self, interest: &InterestKey<'_>) -> Option<B> {
        let mut digests_left = CS_DIGESTS_MAX;
        loop {
            match self.tables.cs.find::<O>(interest, self.context.now_ns) {
                Lookup::Hit(packet) => {
                    self.context.count(HotCounter::CsHits, 1);
                    return Some(packet);
                }
                Lookup::DigestNeeded(cached) if digests_left > 0 => {
                    // Computed with no lock held, because a digest takes as long as hundreds of
                    // lookups. Another thread that computes the same digest meanwhile stores the
                    // same octets.
                    digests_left -= 1;
                    self.digest_cached(&cached);
                }
                Lookup::Miss | Lookup::DigestNeeded(_) => {
                    self.context.count(HotCounter::CsMisses, 1);
                    return None;
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn digest_cached(self, cached: &UndigestedPacket<B>) {
        self.tables.cs.set_digest(cached, (self.tables.config.sha256)(cached.packet.as_ref()));
    }

    /// The ContentStore Hit pipeline (guide 4.2.3).
    #[inline(never)]
    fn answer_from_cache(self, arrived: &CheckedInterest<'_, B>, packet: B, out: &mut impl Output<B>) {
        self.context.count(HotCounter::Satisfied, 1);
        if self.tables.objects.are_there() {
            self.tables.objects.count(arrived.interest.key(), arrived.ingress.key());
        }
        // The cache stands in for the producer, which would reflect the mark of a congested
        // upstream path.
        let congestion_mark = arrived.headers.congestion_mark;
        let data = DataHeaders { from: FaceId::CONTENT_STORE, congestion_mark };
        send_data(&self.tables.counters, arrived.ingress, arrived.headers.pit_token, packet, data, out);
    }

    /// The ContentStore Miss pipeline (guide 4.2.4): inserts the Interest into the PIT and runs
    /// the strategy. The strategy's decision is written to `forwarding`.
    #[inline(never)]
    fn insert_pending<O: Output<B>>(
        self,
        arrived: &CheckedInterest<'_, B>,
        forwarding: &mut Option<Forwarding<'t>>,
        out: &mut O,
    ) -> Result<(), DropReason> {
        let strategy = self.tables.strategies.find(arrived.interest.key());
        let forwarding = forwarding.insert(Forwarding::new(strategy));
        // Before the PIT entry is locked, so that no lock is held while FIB and BPT are read. An
        // Interest that is refused for its own headers makes no entry.
        self.add_upstreams(arrived, &mut forwarding.routing)?;
        if out.tracer().is_some() {
            self.trace_route(arrived, &forwarding.routing, out);
        }
        let mut has_room = false;
        let mut locked = loop {
            match self.insert_or_join::<O>(arrived) {
                Ok(locked) => break locked,
                // Tried once: if another Interest takes the slot meanwhile, this one is refused
                // instead of retried without end.
                Err(Refusal::Full(PitFull::Table)) if !has_room && self.make_room(arrived, out) => {
                    has_room = true;
                }
                Err(refusal) => return self.refuse(arrived, refusal, out),
            }
        };
        if out.tracer().is_some() {
            trace_pending(&mut locked, out);
        }
        if out.tier().is_some() {
            match self.query_tier(arrived, locked, &mut forwarding.routing, out) {
                Some(unanswered) => locked = unanswered,
                None => return Ok(()),
            }
        }
        self.send_pending(arrived, locked, forwarding, out)
    }

    /// Reports the route of an Interest to the tracer. An Interest with a forwarding hint does not
    /// follow the route of its own name.
    #[cold]
    fn trace_route(self, arrived: &CheckedInterest<'_, B>, routing: &Routing<'_>, out: &mut impl Output<B>) {
        if routing.is_explicit {
            return decided(out, Step::ChosenFace);
        }
        if arrived.interest.view.forwarding_hint_value.is_some() {
            return;
        }
        if let Some((components, _)) = self.tables.fib.longest_with_costs(arrived.interest.key()) {
            decided(out, Step::Route(components));
        }
    }

    /// Lets the strategy choose the upstreams of a pending Interest and enters their out-records.
    /// The choice is written to `forwarding`.
    #[inline(always)]
    pub(super) fn send_pending<O: Output<B>>(
        self,
        arrived: &CheckedInterest<'_, B>,
        mut locked: LockedEntry<'t, B, R>,
        forwarding: &mut Forwarding<'t>,
        out: &mut O,
    ) -> Result<(), DropReason> {
        let Forwarding { routing, chosen, hop_limit, probe } = forwarding;
        let verdict = self.decide(&mut locked, routing, arrived);
        if out.tracer().is_some() {
            trace_verdict(routing, &verdict, out);
        }
        match verdict {
            Verdict::Suppress => {
                self.context.count(HotCounter::Suppressed, 1);
                return Ok(());
            }
            Verdict::Forward(to) => {
                *chosen = to;
                self.note_cut(chosen);
                let Some(entry) = locked.entry() else { return Ok(()) };
                chosen.retain(|i| {
                    self.record_sending(entry, routing.upstreams.get(*i as usize), arrived, arrived.nonce)
                });
            }
            Verdict::Probe(to, other) => {
                let Some(entry) = locked.entry() else { return Ok(()) };
                let nonce = self.tables.random.nonce();
                let mut record =
                    |i, nonce| self.record_sending(entry, routing.upstreams.get(i), arrived, nonce);
                if record(to, arrived.nonce) {
                    chosen.push(to);
                }
                *probe = record(other, nonce).then_some((other, nonce));
            }
            verdict @ (Verdict::Along(_) | Verdict::Beside(_) | Verdict::Discover) => {
                return self.send_learning(arrived, locked, routing, verdict, out);
            }
            Verdict::NoUpstream => {
                if let Some(index) = self.add_explainer(arrived, routing) {
                    let Some(entry) = locked.entry() else { return Ok(()) };
                    if self.record_sending(entry, routing.upstreams.get(index), arrived, arrived.nonce) {
                        chosen.push(index);
                    }
                    *hop_limit = Some((arrived.interest.view.hop_limit_offset, 0));
                    return Ok(());
                }
                self.withdraw(locked, arrived);
                let refusal = if routing.hop_limited { Refusal::HopLimit } else { Refusal::NoRoute };
                return self.refuse(arrived, refusal, out);
            }
        }
        // Packet format, Interest, HopLimit: decremented by each router that forwards.
        *hop_limit = arrived.hop_limit_out().map(|limit| (arrived.interest.view.hop_limit_offset, limit));
        Ok(())
    }

    /// Runs the strategy, unless the application has chosen the upstream.
    fn decide(
        self,
        locked: &mut LockedEntry<'t, B, R>,
        routing: &Routing<'_>,
        arrived: &CheckedInterest<'_, B>,
    ) -> Verdict {
        let Some(entry) = locked.entry() else { return Verdict::Suppress };
        if routing.is_explicit {
            return Verdict::forward_to(0);
        }
        let mut pending = Pending {
            upstreams: &routing.upstreams,
            out_records: &mut entry.out_records,
            suppression_ns: &mut entry.suppression_ns,
            now_ns: arrived.now_ns,
        };
        if !routing.strategy.remembers() {
            return routing.strategy.after_receive_interest(&mut pending);
        }
        let (verdict, memory) =
            self.decide_with_memory(routing.strategy, &mut pending, routing.prefix_hash, arrived);
        // An entry that was a discovery stays one, even if it aggregates other Interests.
        entry.memory = if entry.memory.is_discovery() && memory != MemoryId::NONE {
            memory.of_discovery()
        } else {
            memory
        };
        verdict
    }

    /// Counts a choice that omits upstreams for lack of memory.
    #[inline]
    pub(super) fn note_cut(self, chosen: &ChosenUpstreams) {
        if chosen.is_cut() {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
    }

    /// Removes the downstream before it is refused for lack of an upstream. The entry remains if it
    /// has other downstreams.
    pub(super) fn withdraw(self, mut locked: LockedEntry<'t, B, R>, arrived: &CheckedInterest<'_, B>) {
        // The key is saved, because the entry is released before its bucket is locked.
        let key = locked.key();
        let Some(entry) = locked.entry() else { return };
        self.tables.pit.take_downstream(entry, arrived.ingress.key(), arrived.reserve);
        let is_alone = entry.in_records.is_empty();
        drop(locked);
        // Another downstream may still join before the entry is taken out. Then the entry stays.
        if !is_alone {
            return;
        }
        if let Some(mut entry) =
            self.tables.pit.take_if(key, |entry| entry.in_records.is_empty(), arrived.reserve)
        {
            self.tables.counters.unsatisfied.add(1);
            self.tables.dead_nonces.add_sent(&entry, &self.tables.names.hasher, arrived.now_ns);
            self.tables.pit.recycle(&mut entry);
        }
    }

    /// Finds or makes the PIT entry and adds the downstream: an Interest of the same name,
    /// selectors and hint is aggregated (guide 4.2.1).
    fn insert_or_join<O: Output<B>>(
        self,
        arrived: &CheckedInterest<'_, B>,
    ) -> Result<LockedEntry<'t, B, R>, Refusal> {
        let record = arrived.in_record();
        let CheckedInterest { packet, interest, now_ns, reserve, .. } = *arrived;
        let mut locked = match self.tables.pit.insert(packet, &interest, record, now_ns, reserve)? {
            InsertOutcome::New(locked) => {
                if self.tables.objects.are_there() {
                    self.tables.objects.count(interest.key(), record.face);
                }
                return Ok(locked);
            }
            InsertOutcome::Existing(locked) => locked,
        };
        // Checked before the downstream is added: its own record would make every Interest look
        // like a loop.
        if locked.entry().is_some_and(|entry| has_looped(entry, arrived)) {
            return Err(Refusal::Loop);
        }
        if self.tables.objects.are_there()
            && let Some(entry) = locked.entry()
            && entry.in_records.iter().all(|waiting| waiting.face != record.face)
        {
            self.tables.objects.count(interest.key(), record.face);
        }
        if O::Tier::MAY_BE
            && let Some(entry) = locked.entry()
        {
            unpark_for(entry, arrived);
        }
        self.tables.pit.add_downstream(&mut locked, record, now_ns, reserve)?;
        Ok(locked)
    }

    /// Evicts a pending Interest of an owner that has more than the owner of `arrived`, if there is
    /// one. Its downstreams receive a Nack, and its slot becomes free.
    #[cold]
    fn make_room(self, arrived: &CheckedInterest<'_, B>, out: &mut impl Output<B>) -> bool {
        let Some(mut entry) = self.tables.pit.take_from_largest(arrived.ingress.key(), arrived.reserve)
        else {
            return false;
        };
        self.tables.counters.dropped(DropReason::PitEvicted);
        if entry.memory != MemoryId::NONE {
            Hooks::of(self.tables).on_timeout(&entry, arrived.now_ns);
        }
        self.nack_all(&entry, NackReason::Congestion, arrived.now_ns, out);
        self.tables.pit.recycle(&mut entry);
        true
    }

    /// The part of the Outgoing Interest pipeline (guide 4.2.5) that runs under the entry's lock:
    /// adds or renews the out-record of an upstream. Returns false if the entry has too many.
    pub(super) fn record_sending(
        self,
        entry: &mut PitEntry<B>,
        upstream: Option<&Upstream<'_>>,
        arrived: &CheckedInterest<'_, B>,
        nonce: [u8; 4],
    ) -> bool {
        let Some(upstream) = upstream else { return false };
        let mut record = OutRecord {
            face: upstream.key(),
            nonce,
            sent_at_ns: arrived.now_ns,
            expires_at_ns: arrived.now_ns.saturating_add(arrived.lifetime_ns),
            suppression_ns: 0,
            nack: None,
        };
        // Renewed in place, with its current suppression interval. A Nack for an earlier
        // transmission no longer counts.
        if let Some(own) = entry.out_records.iter_mut().find(|own| own.face == record.face) {
            record.suppression_ns = own.suppression_ns;
            *own = record;
            return true;
        }
        if entry.out_records.len() >= self.tables.config.pit.out_records_max {
            self.tables.counters.dropped(DropReason::OutRecordsFull);
            return false;
        }
        let is_in = self.tables.pit.add_upstream(entry, record);
        if !is_in {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
        is_in
    }

    /// Sends the Interest `packet` to the chosen upstreams. The last one receives the packet itself
    /// and not a clone. The caller holds no lock, because the embedder may call back from
    /// `Output::send`.
    #[inline]
    pub(super) fn forward(
        self,
        ingress: &FaceHold<'_>,
        forwarding: &Forwarding<'_>,
        packet: B,
        headers: &LpHeaders,
        out: &mut impl Output<B>,
    ) {
        let Forwarding { routing, chosen, hop_limit, probe } = forwarding;
        let incoming = Incoming { from: ingress.id(), congestion_mark: headers.congestion_mark };
        if let Some((i, nonce)) = *probe
            && let Some(upstream) = routing.upstreams.get(i)
        {
            match with_nonce_of(&packet, nonce) {
                Some(packet) => self.send_beside(upstream, incoming, packet, *hop_limit, out),
                None => self.tables.counters.dropped(DropReason::NoBuffer),
            }
        }
        let mut upstreams = chosen.iter().filter_map(|i| routing.upstreams.get(*i as usize));
        let Some(mut last) = upstreams.next() else { return };
        for next in upstreams {
            self.send_beside(last, incoming, packet.clone(), *hop_limit, out);
            last = next;
        }
        self.send_interest(last, incoming, packet, *hop_limit, out);
    }

    /// Sends an Interest to one upstream, with its ingress and congestion mark.
    #[inline(always)]
    fn send_interest(
        self,
        upstream: &Upstream<'_>,
        incoming: Incoming,
        packet: B,
        hop_limit: Option<(usize, u8)>,
        out: &mut impl Output<B>,
    ) {
        self.context.count(if upstream.is_bound { HotCounter::ToLocal } else { HotCounter::ToNetwork }, 1);
        let headers = LpHeaders {
            incoming_face_id: upstream.face.local_fields().then_some(incoming.from.0),
            congestion_mark: incoming.congestion_mark,
            ..LpHeaders::default()
        };
        emit(
            &self.tables.counters,
            &upstream.face,
            Packets::OutInterests,
            Outgoing { packet, headers, hop_limit },
            out,
        );
    }

    /// As `send_interest`, to any upstream except the last. It is not inlined, so that its frame is
    /// on the stack only during the call.
    #[inline(never)]
    fn send_beside(
        self,
        upstream: &Upstream<'_>,
        incoming: Incoming,
        packet: B,
        hop_limit: Option<(usize, u8)>,
        out: &mut impl Output<B>,
    ) {
        self.send_interest(upstream, incoming, packet, hop_limit, out);
    }

    /// Sends a Nack to the downstream, if the refusal has one. Returns the reason of the drop as
    /// the error.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(
        self,
        arrived: &CheckedInterest<'_, B>,
        refusal: Refusal,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        let (nack, reason) = match refusal {
            Refusal::Loop => return self.refuse_loop(arrived, out),
            Refusal::HopLimit => (None, DropReason::HopLimit),
            Refusal::NoRoute => {
                (self.tables.config.nack_no_route.then_some(NackReason::NoRoute), DropReason::NoRoute)
            }
            // The downstream can try another next hop. Congestion would make it wait.
            Refusal::Full(PitFull::Draining) => (Some(NackReason::NoRoute), DropReason::Draining),
            Refusal::Full(PitFull::Table) => (Some(NackReason::Congestion), DropReason::PitFull),
            Refusal::Full(PitFull::Face) => (Some(NackReason::Congestion), DropReason::PitFaceFull),
            Refusal::Full(PitFull::Owner) => (Some(NackReason::Congestion), DropReason::PitOwnerFull),
            Refusal::Full(PitFull::Memory) => (Some(NackReason::Congestion), DropReason::NoMemory),
            Refusal::Full(PitFull::InRecords) => (Some(NackReason::Congestion), DropReason::InRecordsFull),
        };
        if let Some(nack) = nack {
            send_nack(
                &self.tables.counters,
                arrived.ingress,
                arrived.headers.pit_token,
                arrived.packet.clone(),
                nack,
                out,
            );
        }
        Err(reason)
    }

    /// The Interest Loop pipeline (guide 4.2.2).
    #[cold]
    #[inline(never)]
    fn refuse_loop(
        self,
        arrived: &CheckedInterest<'_, B>,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        let (token, packet) = (arrived.headers.pit_token, arrived.packet.clone());
        send_nack(&self.tables.counters, arrived.ingress, token, packet, NackReason::Duplicate, out);
        Err(DropReason::Loop)
    }
}

/// The headers that depend on the Interest's arrival.
#[derive(Clone, Copy)]
struct Incoming {
    from: FaceId,
    congestion_mark: Option<u64>,
}

/// The reason for which an Interest does not become pending, or does not stay so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Loop,
    HopLimit,
    NoRoute,
    Full(PitFull),
}

impl From<PitFull> for Refusal {
    fn from(full: PitFull) -> Self {
        Refusal::Full(full)
    }
}

/// Reports to the tracer the entry that an Interest joins.
fn trace_pending<B, R: RawMutex>(locked: &mut LockedEntry<'_, B, R>, out: &mut impl Output<B>) {
    let Some(entry) = locked.entry() else { return };
    match entry.in_records.len().saturating_sub(1) {
        0 if entry.out_records.is_empty() => {}
        0 => decided(out, Step::Retransmission),
        others => decided(out, Step::Aggregated(others)),
    }
}

/// Reports the strategy's verdict to the tracer. The upstreams are reported when packets are sent.
fn trace_verdict<B>(routing: &Routing<'_>, verdict: &Verdict, out: &mut impl Output<B>) {
    if !routing.is_explicit {
        decided(out, Step::Strategy(routing.strategy.label()));
    }
    match verdict {
        Verdict::Suppress => decided(out, Step::Suppressed),
        Verdict::Probe(..) => decided(out, Step::Probes),
        Verdict::Discover => decided(out, Step::Discovers),
        Verdict::Along(_) | Verdict::Beside(_) => decided(out, Step::Follows),
        Verdict::Forward(_) | Verdict::NoUpstream => {}
    }
}

/// Returns true if the Interest's Nonce is one that the pending entry has seen (guide 4.2.1,
/// duplicate Nonces). On a point-to-point link the same Nonce from the same face is a
/// retransmission, not a loop.
fn has_looped<B>(entry: &PitEntry<B>, arrived: &CheckedInterest<'_, B>) -> bool {
    let (ingress, nonce) = (arrived.ingress.key(), arrived.nonce);
    let from_same = entry.in_records.iter().any(|record| record.face == ingress && record.nonce == nonce);
    if from_same && arrived.ingress.link_type() == LinkType::PointToPoint {
        return false;
    }
    from_same
        || entry.in_records.iter().any(|record| record.nonce == nonce)
        || entry.out_records.iter().any(|record| record.nonce == nonce)
}

//! The tier below the content store in memory. An Interest is parked until a read completes, and is
//! then answered or sent upstream. None of this runs without a tier.

use lock_api::RawMutex;
use namely_wire::{DataView, InterestView, LpHeaders, NackReason, PACKET_OCTETS_MAX};

use super::amend::with_nonce_of;
use super::checked_interest::CheckedInterest;
use super::egress::{DataHeaders, send_data};
use super::upstreams::{Forwarding, Routing};
use super::{Pipeline, decided};
use crate::counters::{DropReason, HotCounter};
use crate::cs::cached::IncomingData;
use crate::face_id::{FaceId, FaceKey};
use crate::faces::FaceHold;
use crate::hash::NameHashes;
use crate::interest_key::InterestKey;
use crate::packet::{Output, PacketBuf};
use crate::pit::LockedEntry;
use crate::pit::entry::{InRecord, PitEntry, Reading};
use crate::pit::key::EntryKey;
use crate::prefix_table::Key;
use crate::tier::{Completion, Ticket, Tier, TierAnswer, TierRequest};
use crate::trace::Step;

/// Data that a read has found.
struct Found<B> {
    packet: B,
    fresh_until_ns: u64,
    is_busy: bool,
}

/// The match of a Data from the tier with the Interest that was parked for it.
enum TierMatch {
    Yes,
    Stale,
    No,
}

/// A parked Interest that must be sent.
struct ResumedInterest<'a, B> {
    downstream: InRecord,
    ingress: FaceHold<'a>,
    packet: B,
    lifetime_ns: u64,
    headers: LpHeaders,
}

/// Ends the parking of `entry` for a retransmission from the same face: see [`crate::Ticket`]'s
/// module.
#[cold]
pub(super) fn unpark_for<B>(entry: &mut PitEntry<B>, arrived: &CheckedInterest<'_, B>) {
    let is_again = entry.in_records.iter().any(|record| record.face == arrived.ingress.key());
    if is_again && matches!(entry.reading, Reading::Parked { .. }) {
        entry.reading = Reading::Bypassed;
    }
}

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// Requests from the tier the Data of an Interest that has just become pending. Returns the
    /// entry if it must be sent upstream; `None` if it is parked. The tier is called with no lock
    /// held.
    pub(super) fn query_tier(
        self,
        arrived: &CheckedInterest<'_, B>,
        mut locked: LockedEntry<'t, B, R>,
        routing: &mut Routing<'_>,
        out: &mut impl Output<B>,
    ) -> Option<LockedEntry<'t, B, R>> {
        let entry = locked.entry()?;
        match entry.reading {
            Reading::Bypassed => return Some(locked),
            Reading::Parked { .. } => {
                self.context.count(HotCounter::Suppressed, 1);
                return None;
            }
            Reading::NotQueried if routing.is_explicit || !self.tables.cs.serves(&arrived.interest) => {
                entry.reading = Reading::Bypassed;
                return Some(locked);
            }
            // Set before the tier is called, because the read may complete at once.
            Reading::NotQueried => entry.reading = parked(arrived.headers),
        }
        // The embedder is called with no lock held. Another thread may complete the read before
        // this one continues.
        let key = locked.key();
        drop(locked);
        let counters = &self.tables.cs.tier;
        let (answer, is_busy) = match out.tier() {
            Some(tier) => (tier.read(&wanted(arrived, routing, key)), tier.is_busy()),
            None => (TierAnswer::NoTier, false),
        };
        if is_busy && matches!(answer, TierAnswer::Busy | TierAnswer::Reading) {
            self.tables.announcements.notify(arrived.ingress, self.tables.announcing(), arrived.now_ns, out);
        }
        match answer {
            TierAnswer::Reading => {
                counters.reads.add(1);
                decided(out, Step::TierReads);
                return None;
            }
            TierAnswer::NoTier => {}
            TierAnswer::Absent => {
                counters.bypass_absent.add(1);
                decided(out, Step::TierAbsent);
            }
            TierAnswer::Busy => {
                counters.bypass_busy.add(1);
                decided(out, Step::TierBusy);
                exclude_congested(routing, arrived.now_ns);
            }
        }
        // The entry may have been answered or removed meanwhile: then there is nothing to send.
        let mut locked = self.tables.pit.lock(key)?;
        let entry = locked.entry()?;
        // Another worker may have sent it meanwhile.
        let is_parked = matches!(entry.reading, Reading::Parked { .. });
        entry.reading = Reading::Bypassed;
        is_parked.then_some(locked)
    }

    /// Handles the completion of a read that [`Tier::read`] began; see
    /// [`crate::Forwarder::tier_completed`].
    #[inline]
    pub(crate) fn tier_completed(
        self,
        hashes: &mut NameHashes,
        ticket: Ticket,
        completion: Completion<B>,
        out: &mut impl Output<B>,
    ) {
        let (key, counters) = (ticket.key(), &self.tables.cs.tier);
        let is_answered = match completion {
            Completion::Found { packet, fresh_until_ns, is_busy } => {
                self.handle_tier_data(hashes, key, Found { packet, fresh_until_ns, is_busy }, out)
            }
            Completion::Absent => {
                counters.misses.add(1);
                false
            }
            Completion::Failed => {
                counters.failed.add(1);
                false
            }
        };
        decided(out, if is_answered { Step::TierHit } else { Step::TierMiss });
        if !is_answered {
            self.resume(hashes, key, out);
        }
    }

    /// Answers with the Data that the tier has read; returns false if the Interest must be sent
    /// upstream. Not inlined, so that this and `resume` are not on a kernel's stack together.
    #[inline(never)]
    fn handle_tier_data(
        self,
        hashes: &mut NameHashes,
        key: EntryKey,
        found: Found<B>,
        out: &mut impl Output<B>,
    ) -> bool {
        let counters = &self.tables.cs.tier;
        let view = DataView::parse(found.packet.as_ref());
        let Some(view) = view.ok().filter(|view| view.wire.len() <= PACKET_OCTETS_MAX) else {
            counters.wrong.add(1);
            return false;
        };
        self.tables.names.hasher.fill(view.name.as_bytes(), hashes);
        let mut digest = None;
        match self.suits(key, &view, hashes.len(), found.fresh_until_ns, &mut digest) {
            None => counters.late.add(1),
            Some(TierMatch::Yes) => self.answer_from_tier(key, &found, &view, hashes, digest, out),
            Some(TierMatch::Stale) => {
                counters.misses.add(1);
                return false;
            }
            Some(TierMatch::No) => {
                counters.wrong.add(1);
                return false;
            }
        }
        true
    }

    /// Compares a Data with the request of an entry; `None` if the entry no longer exists.
    fn suits(
        self,
        key: EntryKey,
        view: &DataView<'_>,
        components: usize,
        fresh_until_ns: u64,
        digest: &mut Option<[u8; 32]>,
    ) -> Option<TierMatch> {
        // Compared by name and not by ticket alone, because a ticket that the embedder has forged
        // may identify any entry.
        let mut locked = self.tables.pit.lock(key)?;
        let entry = locked.entry()?;
        if !entry.may_match(view.name, components) {
            return Some(TierMatch::No);
        }
        if entry.must_be_fresh() && fresh_until_ns <= self.context.now_ns {
            return Some(TierMatch::Stale);
        }
        let Some(requested) = entry.digest().and_then(|requested| <[u8; 32]>::try_from(requested).ok())
        else {
            return Some(TierMatch::Yes);
        };
        // Released, so that no thread waits for a lock while the digest is computed.
        drop(locked);
        let own = (self.tables.config.sha256)(view.wire);
        *digest = Some(own);
        Some(if own == requested { TierMatch::Yes } else { TierMatch::No })
    }

    /// The ContentStore Hit pipeline (guide 4.2.3) for all downstreams that wait for the Data.
    #[inline(never)]
    fn answer_from_tier(
        self,
        key: EntryKey,
        found: &Found<B>,
        view: &DataView<'_>,
        hashes: &NameHashes,
        digest: Option<[u8; 32]>,
        out: &mut impl Output<B>,
    ) {
        let (packet, now_ns) = (&found.packet, self.context.now_ns);
        let Some(mut entry) = self.tables.pit.take_if(key, |_| true, self.context.reserve) else {
            return self.tables.cs.tier.late.add(1);
        };
        let (key, fresh_until_ns) = (Key::new(view.name, hashes), found.fresh_until_ns);
        let arriving = IncomingData { packet, view, key, digest, fresh_until_ns, from_tier: true };
        // Cached before the downstreams are answered, as in the pipeline of a Data.
        self.cache_by_plan(arriving, out);
        let may_bypass = || self.may_bypass(&entry, key);
        let is_congested = self.tables.config.cs_marking.marks(found.is_busy, may_bypass);
        if is_congested {
            self.tables.cs.tier.marked.add(1);
        }
        // The cache stands in for the producer, which would reflect the mark of the Interest.
        let is_marked = matches!(entry.reading, Reading::Parked { is_marked: true, .. }) || is_congested;
        let congestion_mark = is_marked.then_some(1);
        let data = DataHeaders { from: FaceId::CONTENT_STORE, congestion_mark };
        for record in entry.in_records.iter().filter(|record| record.expires_at_ns > now_ns) {
            match self.context.hold_key(record.face) {
                Some(face) => {
                    send_data(&self.tables.counters, &face, record.token, packet.clone(), data, out)
                }
                None => self.tables.counters.dropped(DropReason::FaceGone),
            }
        }
        self.tables.cs.tier.hits.add(1);
        self.context.count(HotCounter::Satisfied, 1);
        self.finish_satisfied(&entry, view, now_ns);
        self.tables.pit.recycle(&mut entry);
    }

    /// Returns true if another upstream could answer the entry: a next hop for `key` that has not
    /// announced congestion.
    fn may_bypass(self, entry: &PitEntry<B>, key: Key<'_>) -> bool {
        let is_downstream = |face| entry.in_records.iter().any(|record| record.face == face);
        let is_available = |face| {
            let hop = if face == FaceKey::LOCAL { self.tables.bpt.find(key) } else { Some(face) };
            hop.and_then(|hop| self.context.hold_key(hop))
                .is_some_and(|hop| hop.is_available(self.context.now_ns))
        };
        let faces = self.tables.fib.longest_match(key).faces;
        faces.iter().any(|face| !is_downstream(*face) && is_available(*face))
    }

    /// Sends a parked Interest upstream, on behalf of the first downstream that still waits.
    #[inline(never)]
    fn resume(self, hashes: &mut NameHashes, key: EntryKey, out: &mut impl Output<B>) {
        let Some(ResumedInterest { downstream, ingress, packet, lifetime_ns, headers }) = self.unpark(key)
        else {
            return;
        };
        let Some(packet) = with_nonce_of(&packet, downstream.nonce) else {
            return self.tables.counters.dropped(DropReason::NoBuffer);
        };
        let Ok(view) = InterestView::parse(packet.as_ref()) else { return };
        self.tables.names.hasher.fill(view.name.as_bytes(), hashes);
        let arrived = CheckedInterest {
            ingress: &ingress,
            packet: &packet,
            headers: &headers,
            interest: InterestKey::new(&view, hashes),
            nonce: downstream.nonce,
            lifetime_ns,
            now_ns: self.context.now_ns,
            reserve: self.context.reserve,
        };
        let mut forwarding = Forwarding::new(self.tables.strategies.find(arrived.interest.key()));
        match self.send_resumed(&arrived, key, &mut forwarding, out) {
            Ok(()) => self.forward(&ingress, &forwarding, packet, &headers, out),
            Err(reason) => {
                self.tables.counters.dropped(reason);
                self.refuse_others(key, reason, out);
            }
        }
    }

    /// Ends the parking of an entry whose read has ended; `None` if the entry was removed or sent
    /// already, or if no downstream waits.
    #[inline(never)]
    fn unpark(self, key: EntryKey) -> Option<ResumedInterest<'t, B>> {
        let Some(mut locked) = self.tables.pit.lock(key) else {
            self.tables.cs.tier.late.add(1);
            return None;
        };
        let entry = locked.entry()?;
        let Reading::Parked { is_marked, non_discovery } = entry.reading else { return None };
        let waiting = entry.in_records.iter().filter(|record| record.expires_at_ns > self.context.now_ns);
        let (downstream, ingress) =
            waiting.filter_map(|record| Some((*record, self.context.hold_key(record.face)?))).next()?;
        entry.reading = Reading::Bypassed;
        let congestion_mark = is_marked.then_some(1);
        let pit_token = downstream.token;
        Some(ResumedInterest {
            downstream,
            ingress,
            packet: entry.packet.clone(),
            lifetime_ns: entry.expires_at_ns.saturating_sub(self.context.now_ns),
            headers: LpHeaders { congestion_mark, non_discovery, pit_token, ..LpHeaders::default() },
        })
    }

    #[inline(never)]
    fn send_resumed(
        self,
        arrived: &CheckedInterest<'_, B>,
        key: EntryKey,
        forwarding: &mut Forwarding<'t>,
        out: &mut impl Output<B>,
    ) -> Result<(), DropReason> {
        self.add_upstreams(arrived, &mut forwarding.routing)?;
        // Locked again: the lock was released while FIB and BPT were read.
        let Some(mut locked) = self.tables.pit.lock(key) else { return Ok(()) };
        // Another worker may have sent it meanwhile, for a retransmission.
        if locked.entry().is_none_or(|entry| !entry.out_records.is_empty()) {
            return Ok(());
        }
        self.send_pending(arrived, locked, forwarding, out)
    }

    /// Ends a parked Interest that was refused to one downstream. Its other downstreams receive a
    /// Nack if the reason is a missing route.
    #[inline(never)]
    fn refuse_others(self, key: EntryKey, reason: DropReason, out: &mut impl Output<B>) {
        let was_never_sent = |entry: &PitEntry<B>| entry.out_records.is_empty();
        let Some(mut entry) = self.tables.pit.take_if(key, was_never_sent, self.context.reserve) else {
            return;
        };
        if reason == DropReason::NoRoute && self.tables.config.nack_no_route {
            self.nack_all(&entry, NackReason::NoRoute, self.context.now_ns, out);
        } else {
            self.tables.counters.unsatisfied.add(1);
        }
        self.tables.pit.recycle(&mut entry);
    }
}

fn parked(headers: &LpHeaders) -> Reading {
    Reading::Parked { is_marked: headers.is_marked(), non_discovery: headers.non_discovery }
}

/// Removes congested upstreams if there are others, so that a busy tier does not pass its load on
/// to other busy ones.
fn exclude_congested(routing: &mut Routing<'_>, now_ns: u64) {
    if routing.upstreams.iter().any(|hop| hop.face.is_available(now_ns)) {
        routing.upstreams.retain(|hop| hop.face.is_available(now_ns));
    }
}

fn wanted<'a, B>(arrived: &CheckedInterest<'a, B>, routing: &Routing<'_>, key: EntryKey) -> TierRequest<'a> {
    let InterestKey { view, components, digest, .. } = arrived.interest;
    TierRequest {
        name: view.name.prefix(components),
        digest,
        can_be_prefix: view.can_be_prefix && digest.is_none(),
        must_be_fresh: view.must_be_fresh,
        may_bypass: routing.upstreams.iter().any(|hop| hop.face.is_available(arrived.now_ns)),
        face: arrived.ingress.id(),
        ticket: Ticket::new(key),
    }
}

//! A Data arrives: PIT, content store, and the downstream faces.
//!
//! Sections are those of NFD's developer guide, where the pipelines of a Data are 4.3.

use core::cell::Cell;

use lock_api::RawMutex;
use namely_wire::mgmt::LinkType;
use namely_wire::{CACHE_POLICY_NO_CACHE, DataView, PitToken};

use super::hooks::Told;
use super::{DataOut, is_localhost};
use crate::config::UnsolicitedPolicy;
use crate::counters::{DropReason, HotCounter, Packets};
use crate::cs::Arriving;
use crate::faces::{BatchContext, FaceHold, FaceKey};
use crate::forwarder::Forwarder;
use crate::hash::NameHashes;
use crate::packet::{Learned, Output, PacketBuf, Received};
use crate::pit::{InRecord, Matched, PitEntry, Satisfied};
use crate::prefix_table::Key;
use crate::strategy::MemoryId;
use crate::trace::{Step, decided};

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// The Incoming Data pipeline (guide 4.3.1), with Outgoing Data (4.3.3) at its end. `satisfied`
    /// is empty, before and after: it lies with the batch, for it is large.
    #[inline(never)]
    pub(crate) fn receive_data<O: Output<B>>(
        &self,
        context: &BatchContext<'_, R>,
        ingress: &FaceHold<'_>,
        received: Received<B>,
        hashes: &NameHashes,
        satisfied: &mut Satisfied<B>,
        out: &mut O,
    ) -> Result<(), DropReason> {
        ingress.count(Packets::InData);
        let headers = &received.headers;
        let packet = received.packet;
        let now_ns = context.now_ns;
        // Used where it lies: taken out of the result, its 160 octets are copied.
        let parsed = DataView::parse(packet.as_ref());
        let Ok(view) = &parsed else { return Err(DropReason::Malformed) };
        // Scope control: what a non-local face sends for /localhost is dropped.
        if is_localhost(view.name) && !ingress.is_local() {
            return Err(DropReason::Scope);
        }
        let mut digest = None;
        let mut more = self.take_satisfied(context, ingress.key(), view, hashes, &mut digest, satisfied);
        let mut from = ingress.key();
        if satisfied.is_empty()
            && let Some(group) = self.group_asked_with(ingress)
        {
            from = group;
            more = self.take_satisfied(context, from, view, hashes, &mut digest, satisfied);
        }
        // The Data Unsolicited pipeline (guide 4.3.2). Beyond the guide it takes in what comes from
        // a face that was not asked: else whoever guesses a name could answer, and be cached, in
        // the place of who was asked.
        if satisfied.is_empty() {
            if !self.memory.is_empty() {
                self.after_late_data(ingress, Key::new(view.name, hashes), now_ns);
            }
            if !self.admits_unsolicited(ingress) {
                return Err(DropReason::Unsolicited);
            }
        }
        // NDNLPv2, Caching Policy.
        if headers.cache_policy == Some(CACHE_POLICY_NO_CACHE) {
            self.cs.refuse();
            decided(out, Step::NotCached);
        } else {
            self.cache(context, (&packet, view), hashes, digest, out);
        }
        let data = DataOut { from: ingress.id(), congestion_mark: headers.congestion_mark };
        let told = Cell::new(Told { data, answers_discovery: false });
        // Sent last, so that it gets the packet itself and not one more user of it.
        let mut last = None;
        loop {
            if !satisfied.is_empty() {
                decided(out, Step::Satisfies(satisfied.len()));
            }
            // A route is learned before anybody gets the Data: who has it may ask along that route
            // at once.
            let tell = |entry: &PitEntry<B>, out: &mut O| {
                if self.after_data(entry, ingress, headers, hashes, now_ns, &told) {
                    self.teach(ingress, &packet, view, now_ns, out);
                }
            };
            self.answer(context, satisfied, ingress, out, tell, |downstream, out| {
                if let Some((face, token)) = last.replace(downstream) {
                    self.send_data(&face, token, packet.clone(), told.get().data, out);
                }
            });
            context.count(HotCounter::Satisfied, satisfied.len() as u32);
            satisfied.iter().for_each(|entry| self.finish_satisfied(entry, view, now_ns));
            satisfied.iter_mut().for_each(|entry| self.pit.recycle(entry));
            satisfied.clear();
            if !more {
                break;
            }
            more = self.take_satisfied(context, from, view, hashes, &mut digest, satisfied);
        }
        if let Some((face, token)) = last {
            self.send_data(&face, token, packet, told.get().data, out);
        }
        Ok(())
    }

    /// Takes a Data into the content store.
    #[inline(never)]
    fn cache<O: Output<B>>(
        &self,
        context: &BatchContext<'_, R>,
        (packet, view): (&B, &DataView<'_>),
        hashes: &NameHashes,
        digest: Option<[u8; 32]>,
        out: &mut O,
    ) {
        let key = Key::new(view.name, hashes);
        let arriving = || Arriving::new(packet, view, key, digest, context.now_ns);
        if self.objects.are_there() {
            return self.cache_by_plan(context, arriving(), out);
        }
        self.cs.insert(arriving(), context.reserve, out);
    }

    /// The same where there are registered objects (`VI-17`).
    #[inline(never)]
    pub(super) fn cache_by_plan<O: Output<B>>(
        &self,
        context: &BatchContext<'_, R>,
        arriving: Arriving<'_, B>,
        out: &mut O,
    ) {
        match self.objects.find(arriving.key) {
            Some(found) => self.cs.insert_of_object(arriving, found, context.reserve, out),
            None if self.cs.refuses_unregistered() => {}
            None => self.cs.insert_apart(arriving, context.reserve, out),
        }
    }

    /// A discovery was answered.
    #[cold]
    #[inline(never)]
    fn teach<O: Output<B>>(
        &self,
        ingress: &FaceHold<'_>,
        packet: &B,
        view: &DataView<'_>,
        now_ns: u64,
        out: &mut O,
    ) {
        if ingress.is_local() {
            out.offered(ingress.id(), view.name, packet);
        } else {
            self.answered_by_group(ingress, now_ns);
            out.learned(Learned { face: ingress.id(), data: view.name, wire: view.wire });
        }
    }

    /// Takes PIT entries that the Data satisfies, as many as are taken at once; returns true if
    /// there may be more. The name decides, the digest where one is requested, and that the
    /// Interest was sent to the face that the Data comes from; a PIT token plays no part. What a
    /// group was asked is answered through the group's face, by whichever of its members.
    #[inline]
    fn take_satisfied(
        &self,
        context: &BatchContext<'_, R>,
        from: FaceKey,
        view: &DataView<'_>,
        hashes: &NameHashes,
        digest: &mut Option<[u8; 32]>,
        satisfied: &mut Satisfied<B>,
    ) -> bool {
        let reserve = context.reserve;
        loop {
            match self.pit.take_matches(from, view.name, hashes, digest.as_ref(), satisfied, reserve) {
                Matched::All => return false,
                Matched::Some => return true,
                Matched::DigestNeeded => *digest = Some((self.config.sha256)(view.wire)),
            }
        }
    }

    /// Tells the strategies that remember, and has the Data sent to each downstream of the entries
    /// with its own token, but not back where
    /// it came from unless that link is ad hoc. A face that waits at two entries with one token
    /// gets one Data.
    fn answer<'t, O>(
        &self,
        context: &'t BatchContext<'_, R>,
        satisfied: &Satisfied<B>,
        ingress: &FaceHold<'_>,
        out: &mut O,
        tell: impl Fn(&PitEntry<B>, &mut O),
        mut send: impl FnMut((FaceHold<'t>, Option<PitToken>), &mut O),
    ) {
        let waits = |record: &&InRecord| record.expires_at_ns > context.now_ns;
        for (i, entry) in satisfied.iter().enumerate() {
            if entry.memory != MemoryId::NONE {
                tell(entry, out);
            }
            for record in entry.in_records.iter().filter(waits) {
                let is_same = |other: &InRecord| other.face == record.face && other.token == record.token;
                let mut earlier =
                    satisfied.iter().take(i).flat_map(|entry| entry.in_records.iter().filter(waits));
                let is_back = record.face == ingress.key() && ingress.link_type() != LinkType::AdHoc;
                if is_back || earlier.any(is_same) {
                    continue;
                }
                match context.hold_key(record.face) {
                    Some(face) => send((face, record.token), out),
                    None => self.counters.dropped(DropReason::FaceGone),
                }
            }
        }
    }

    fn admits_unsolicited(&self, ingress: &FaceHold<'_>) -> bool {
        match self.config.unsolicited {
            UnsolicitedPolicy::DropAll => false,
            UnsolicitedPolicy::AdmitLocal => ingress.is_local(),
            UnsolicitedPolicy::AdmitNetwork => !ingress.is_local(),
            UnsolicitedPolicy::AdmitAll => true,
        }
    }

    /// Ends a satisfied entry: the Interest Finalize pipeline (guide 4.2.6). Its Nonces need
    /// remembering only if the Data may turn stale while the Interest still loops: otherwise the
    /// cache would answer it.
    pub(super) fn finish_satisfied(&self, entry: &PitEntry<B>, view: &DataView<'_>, now_ns: u64) {
        let fresh_ns = view.freshness_ms.saturating_mul(1_000_000);
        if entry.must_be_fresh() && fresh_ns < self.config.dead_nonce_lifetime_ns {
            self.record_dead_nonces(entry, now_ns);
        }
    }
}

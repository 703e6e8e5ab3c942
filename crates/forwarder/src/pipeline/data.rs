//! The pipelines of an incoming Data: PIT, content store, and the downstream faces.
//!
//! Section numbers are those of NFD's developer guide, where the pipelines of a Data are 4.3.

use core::cell::Cell;

use lock_api::RawMutex;
use namely_messages::LinkType;
use namely_wire::{CACHE_POLICY_NO_CACHE, DataView, PitToken};

use super::egress::{DataHeaders, send_data};
use super::hooks::{DataHookResult, Hooks};
use super::{Pipeline, decided, is_localhost};
use crate::config::UnsolicitedPolicy;
use crate::counters::{DropReason, HotCounter, Packets};
use crate::cs::cached::IncomingData;
use crate::face_id::FaceKey;
use crate::faces::FaceHold;
use crate::hash::NameHashes;
use crate::packet::{Learned, Output, PacketBuf, Received};
use crate::pit::entry::{InRecord, PitEntry};
use crate::pit::{DataMatch, Satisfied};
use crate::prefix_table::Key;
use crate::strategy::memory_id::MemoryId;
use crate::trace::Step;

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// The Incoming Data pipeline (guide 4.3.1), with Outgoing Data (4.3.3) at its end. `satisfied`
    /// is empty before and after. It is stored with the batch, because it is large.
    #[inline(never)]
    pub(crate) fn receive_data<O: Output<B>>(
        self,
        ingress: &FaceHold<'_>,
        received: Received<B>,
        hashes: &NameHashes,
        satisfied: &mut Satisfied<B>,
        out: &mut O,
    ) -> Result<(), DropReason> {
        ingress.count(Packets::InData);
        let headers = &received.headers;
        let packet = received.packet;
        let now_ns = self.context.now_ns;
        // Used in place, because moving the view out of the result would copy its 160 octets.
        let parsed = DataView::parse(packet.as_ref());
        let Ok(view) = &parsed else { return Err(DropReason::Malformed) };
        // Guide 4.3.1, scope control: Data for /localhost from a non-local face is dropped.
        if is_localhost(view.name) && !ingress.is_local() {
            return Err(DropReason::Scope);
        }
        let mut digest = None;
        let mut more = self.take_satisfied(ingress.key(), view, hashes, &mut digest, satisfied);
        let mut from = ingress.key();
        if satisfied.is_empty()
            && let Some(group) = self.tables.discovery.requested_group(ingress)
        {
            from = group;
            more = self.take_satisfied(from, view, hashes, &mut digest, satisfied);
        }
        // The Data Unsolicited pipeline (guide 4.3.2). Data from a face without an out-record is
        // unsolicited, too. The guide accepts it; this core drops it, because otherwise any peer
        // could answer any name that it guesses, and fill the cache with it.
        if satisfied.is_empty() {
            if !self.tables.memory.is_empty() {
                self.after_late_data(ingress, Key::new(view.name, hashes), now_ns);
            }
            if !self.admits_unsolicited(ingress) {
                return Err(DropReason::Unsolicited);
            }
        }
        // NDNLPv2, Caching Policy. The Data is cached before it is sent, so that a downstream that
        // requests it again at once finds it in the store.
        if headers.cache_policy == Some(CACHE_POLICY_NO_CACHE) {
            self.tables.cs.refuse();
            decided(out, Step::NotCached);
        } else {
            self.cache(&packet, view, hashes, digest, out);
        }
        let data = DataHeaders { from: ingress.id(), congestion_mark: headers.congestion_mark };
        // In a cell, because the closure that writes it and the one that reads it exist at the same
        // time.
        let result = Cell::new(DataHookResult { data, answers_discovery: false });
        // Sent last, so that the last downstream receives the packet itself and not a clone.
        let mut last = None;
        loop {
            if !satisfied.is_empty() {
                decided(out, Step::Satisfies(satisfied.len()));
            }
            // A route is learned before the Data is sent: a downstream may send an Interest along
            // that route as soon as it has the Data.
            let notify = |entry: &PitEntry<B>, out: &mut O| {
                if Hooks::of(self.tables).after_data(entry, ingress, headers, hashes, now_ns, &result) {
                    self.teach(ingress, &packet, view, now_ns, out);
                }
            };
            self.answer(satisfied, ingress, out, notify, |downstream, out| {
                if let Some((face, token)) = last.replace(downstream) {
                    send_data(&self.tables.counters, &face, token, packet.clone(), result.get().data, out);
                }
            });
            self.context.count(HotCounter::Satisfied, satisfied.len() as u32);
            // The entries were taken out of the table and belong to this thread alone, so nothing
            // below needs their locks.
            satisfied.iter().for_each(|entry| self.finish_satisfied(entry, view, now_ns));
            satisfied.iter_mut().for_each(|entry| self.tables.pit.recycle(entry));
            satisfied.clear();
            if !more {
                break;
            }
            more = self.take_satisfied(from, view, hashes, &mut digest, satisfied);
        }
        if let Some((face, token)) = last {
            send_data(&self.tables.counters, &face, token, packet, result.get().data, out);
        }
        Ok(())
    }

    /// Inserts a Data into the content store.
    #[inline(never)]
    fn cache<O: Output<B>>(
        self,
        packet: &B,
        view: &DataView<'_>,
        hashes: &NameHashes,
        digest: Option<[u8; 32]>,
        out: &mut O,
    ) {
        let key = Key::new(view.name, hashes);
        let arriving = || IncomingData::new(packet, view, key, digest, self.context.now_ns);
        if self.tables.objects.are_there() {
            return self.cache_by_plan(arriving(), out);
        }
        self.tables.cs.insert(arriving(), self.context.reserve, out);
    }

    /// As `cache`, when there are registered objects (`VI-17`).
    #[inline(never)]
    pub(super) fn cache_by_plan<O: Output<B>>(self, arriving: IncomingData<'_, B>, out: &mut O) {
        match self.tables.objects.find(arriving.key) {
            Some(found) => self.tables.cs.insert_object_data(arriving, found, self.context.reserve, out),
            None if self.tables.cs.refuses_unregistered() => {}
            None => self.tables.cs.insert_apart(arriving, self.context.reserve, out),
        }
    }

    /// Reports that a discovery was answered, to the embedder and to the list of discovery faces.
    #[cold]
    #[inline(never)]
    fn teach<O: Output<B>>(
        self,
        ingress: &FaceHold<'_>,
        packet: &B,
        view: &DataView<'_>,
        now_ns: u64,
        out: &mut O,
    ) {
        if ingress.is_local() {
            out.offered(ingress.id(), view.name, packet);
        } else {
            self.tables.discovery.answered_by(ingress, now_ns);
            out.learned(Learned { face: ingress.id(), data: view.name, wire: view.wire });
        }
    }

    /// Takes PIT entries that the Data satisfies, up to the maximum for one lookup; returns true if
    /// there may be more. An entry matches by its name, by its digest if it requests one, and if it
    /// was sent to the face that the Data comes from. The PIT token is not compared. An Interest
    /// that was sent to a group is answered through the group's face, by any of its members.
    #[inline]
    fn take_satisfied(
        self,
        from: FaceKey,
        view: &DataView<'_>,
        hashes: &NameHashes,
        digest: &mut Option<[u8; 32]>,
        satisfied: &mut Satisfied<B>,
    ) -> bool {
        let reserve = self.context.reserve;
        loop {
            match self.tables.pit.take_matches(from, view.name, hashes, digest.as_ref(), satisfied, reserve) {
                DataMatch::All => return false,
                DataMatch::Some => return true,
                // Computed with no lock held, and once for each Data: the next lookup uses it.
                DataMatch::DigestNeeded => *digest = Some((self.tables.config.sha256)(view.wire)),
            }
        }
    }

    /// Notifies the strategies that have memory, and sends the Data to each downstream of the
    /// entries with its own token. The Data is not sent back to its ingress unless that link is ad
    /// hoc. A face that waits at two entries with the same token receives one Data.
    fn answer<O>(
        self,
        satisfied: &Satisfied<B>,
        ingress: &FaceHold<'_>,
        out: &mut O,
        notify: impl Fn(&PitEntry<B>, &mut O),
        mut send: impl FnMut((FaceHold<'t>, Option<PitToken>), &mut O),
    ) {
        let waits = |record: &&InRecord| record.expires_at_ns > self.context.now_ns;
        for (i, entry) in satisfied.iter().enumerate() {
            if entry.memory != MemoryId::NONE {
                notify(entry, out);
            }
            for record in entry.in_records.iter().filter(waits) {
                let is_same = |other: &InRecord| other.face == record.face && other.token == record.token;
                let mut earlier =
                    satisfied.iter().take(i).flat_map(|entry| entry.in_records.iter().filter(waits));
                // Not sent back to its ingress, which has it. On an ad-hoc link another peer behind
                // the same face may lack it.
                let is_back = record.face == ingress.key() && ingress.link_type() != LinkType::AdHoc;
                if is_back || earlier.any(is_same) {
                    continue;
                }
                match self.context.hold_key(record.face) {
                    Some(face) => send((face, record.token), out),
                    None => self.tables.counters.dropped(DropReason::FaceGone),
                }
            }
        }
    }

    fn admits_unsolicited(self, ingress: &FaceHold<'_>) -> bool {
        match self.tables.config.unsolicited {
            UnsolicitedPolicy::DropAll => false,
            UnsolicitedPolicy::AdmitLocal => ingress.is_local(),
            UnsolicitedPolicy::AdmitNetwork => !ingress.is_local(),
            UnsolicitedPolicy::AdmitAll => true,
        }
    }

    /// Ends a satisfied entry: the Interest Finalize pipeline (guide 4.2.6). Its Nonces are
    /// recorded only if the Interest requests fresh Data, and the Data may turn stale while the
    /// Interest still loops. Otherwise the cache would answer the looping Interest.
    pub(super) fn finish_satisfied(self, entry: &PitEntry<B>, view: &DataView<'_>, now_ns: u64) {
        let fresh_ns = view.freshness_ms.saturating_mul(1_000_000);
        if entry.must_be_fresh() && fresh_ns < self.tables.config.dead_nonces.lifetime_ns {
            self.tables.dead_nonces.add_sent(entry, &self.tables.names.hasher, now_ns);
        }
    }
}

//! The hooks of strategies with memory. They report the outcome of an Interest after it was sent.
//!
//! None of these hooks runs for an Interest whose strategy has no memory, because its PIT entry
//! refers to none. So they are not inlined.

use core::cell::Cell;

use lock_api::RawMutex;
use namely_wire::LpHeaders;

use super::Pipeline;
use super::checked_interest::CheckedInterest;
use super::egress::DataHeaders;
use crate::face_id::FaceKey;
use crate::faces::FaceHold;
use crate::hash::{NameHasher, NameHashes};
use crate::packet::PacketBuf;
use crate::pit::entry::PitEntry;
use crate::prefix_table::Key;
use crate::random::Random;
use crate::strategy::StrategyMemory;
use crate::strategy::memory_id::MemoryId;
use crate::strategy::{Answer, Parameters, Pending, StrategyKind, Verdict};
use crate::tables::Tables;

/// The verdicts of strategies on a Data that satisfied their Interests.
#[derive(Clone, Copy)]
pub(super) struct DataHookResult {
    /// The headers that the Data is forwarded with.
    pub(super) data: DataHeaders,
    /// True if the Data answers a discovery.
    pub(super) answers_discovery: bool,
}

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// Runs a strategy with its memory of the FIB prefix that has `prefix_hash`, or without memory
    /// if its limit is reached. Returns the id by which the PIT entry finds the memory again.
    #[inline(never)]
    pub(super) fn decide_with_memory(
        self,
        kind: StrategyKind,
        pending: &mut Pending<'_>,
        prefix_hash: u64,
        arrived: &CheckedInterest<'_, B>,
    ) -> (Verdict, MemoryId) {
        let (now_ns, interest) = (pending.now_ns, &arrived.interest);
        let random = || self.tables.random.next();
        // A separate lookup, so that strategies without parameters do not pay for it.
        let parameters = if kind.takes_parameters() {
            self.tables.strategies.parameters(interest.key())
        } else {
            Parameters::default()
        };
        #[cfg(feature = "vip")]
        let (mut prefix_hash, mut direction) = (prefix_hash, None);
        #[cfg(feature = "vip")]
        if kind == StrategyKind::Vip {
            let Some(found) = self.tables.objects.find(interest.key()) else {
                return (kind.after_receive_interest(pending), MemoryId::NONE);
            };
            // All files of an object take the same path, so the memory is that of the object.
            (prefix_hash, direction) =
                (self.tables.names.hasher.of_object(found.id), self.tables.objects.direction(found.object));
        }
        let decided = self.tables.memory.lock_or_make(kind, prefix_hash, now_ns).and_then(|mut locked| {
            let verdict = locked.run(now_ns, interest.hash(), &random, |memory, hook| {
                (hook.parameters, hook.ingress) = (parameters, Some(arrived.ingress.key()));
                hook.is_non_discovery = arrived.headers.non_discovery;
                #[cfg(feature = "vip")]
                (hook.direction = direction);
                memory.after_receive_interest(pending, hook)
            });
            Some((verdict?, locked.id()))
        });
        decided.unwrap_or_else(|| (kind.after_receive_interest(pending), MemoryId::NONE))
    }

    /// Handles Data that no pending Interest requested: a slower upstream's answer, or unsolicited.
    #[cold]
    pub(super) fn after_late_data(self, ingress: &FaceHold<'_>, key: Key<'_>, now_ns: u64) {
        let kind = self.tables.strategies.find(key);
        if !kind.remembers() {
            return;
        }
        // The PIT entry with the record's id has ended, so the record is found by its prefix.
        let prefix_hash = self.tables.fib.longest_match(key).prefix_hash;
        let Some(mut locked) = self.tables.memory.lock_prefix(kind, prefix_hash) else { return };
        let has_prefix = |hash| (0..=key.hashes.len()).any(|n| key.hashes.hash(n) == hash);
        locked.run(now_ns, 0, &|| self.tables.random.next(), |memory, hook| {
            memory.after_late_data(ingress.key(), &has_prefix, hook);
        });
    }
}

/// The hooks that need only the strategies' memory.
pub(super) struct Hooks<'t, R> {
    memory: &'t StrategyMemory<R>,
    hasher: &'t NameHasher,
    random: &'t Random,
}

impl<'t, R: RawMutex> Hooks<'t, R> {
    pub(super) fn of<B>(tables: &'t Tables<B, R>) -> Self {
        Hooks { memory: &tables.memory, hasher: &tables.names.hasher, random: &tables.random }
    }

    /// Handles Data from `ingress` that satisfied an entry. `hashes` are those of the Data's name,
    /// which begins with the entry's name. `result` receives the strategy's verdict. Returns true
    /// for the first entry by which the Data answers a discovery.
    #[cold]
    pub(super) fn after_data<B: PacketBuf>(
        &self,
        entry: &PitEntry<B>,
        ingress: &FaceHold<'_>,
        headers: &LpHeaders,
        hashes: &NameHashes,
        now_ns: u64,
        result: &Cell<DataHookResult>,
    ) -> bool {
        // The record may have been removed since the Interest was sent.
        let Some(mut locked) = self.memory.lock(entry.memory) else { return false };
        let name_hash = hashes.hash(entry.components());
        let (face, is_marked) = (ingress.key(), headers.is_marked());
        let answer = Answer { face, out_records: &entry.out_records, is_marked };
        let verdict = locked
            .run(now_ns, name_hash, &|| self.random.next(), |memory, hook| memory.after_data(&answer, hook));
        let verdict = verdict.unwrap_or_default();
        let mut now = result.get();
        if verdict.absorbs_mark {
            now.data.congestion_mark = None;
        }
        let answers = verdict.teaches && entry.memory.is_discovery();
        // A Data adds one route, however many entries it satisfies.
        let is_first = answers && !core::mem::replace(&mut now.answers_discovery, answers);
        result.set(now);
        is_first
    }

    /// Handles a Nack from `face` that was recorded for an entry whose name has `name_hash`.
    #[cold]
    pub(super) fn after_nack(&self, memory: MemoryId, face: FaceKey, name_hash: u64, now_ns: u64) {
        if let Some(mut locked) = self.memory.lock(memory) {
            locked
                .run(now_ns, name_hash, &|| self.random.next(), |memory, hook| memory.after_nack(face, hook));
        }
    }

    /// Handles an entry that expired unsatisfied or was evicted.
    #[cold]
    pub(super) fn on_timeout<B: PacketBuf>(&self, entry: &PitEntry<B>, now_ns: u64) {
        let Some(mut locked) = self.memory.lock(entry.memory) else { return };
        let name_hash = self.hasher.whole(entry.name_without_digest());
        locked.run(now_ns, name_hash, &|| self.random.next(), |memory, hook| {
            memory.on_timeout(&entry.out_records, hook);
        });
    }
}

//! Memory of strategies. There is a record for each strategy with memory and each prefix of the FIB
//! that it has forwarded under, and in it a list of faces. (NFD calls its table of this
//! measurements.)
//!
//! **Bounds.** At most `strategy_prefixes_max` records, and in each at most `strategy_faces_max`
//! faces; both are allocated when a prefix or face is first used, not for each packet. A lack of
//! room is counted (`strategy_memory_full`), and the strategy then forwards as without memory. A
//! record that no Interest has used for [`LIFETIME_NS`] is removed. A new record allocates its
//! faces and at most a page of records and one of timers; the first one also the chains.
//!
//! **Names are not stored.** A record is found by the keyed 64-bit hash of its prefix, and peers
//! cannot make hashes collide. Two prefixes with one hash would share their measurements: a worse
//! choice, never a wrong answer.
//!
//! **Locks.** The table is in parts, chosen by the hash, each with a lock. It is taken last: under
//! that of a PIT entry or of the FIB's writers, and no other lock is taken under it. A router whose
//! strategies have no memory takes none of them: [`StrategyMemory::is_empty`] is one load.

use crate::lock_order::{MemoryGuard, MemoryLock};
use crate::strategy::hook::Counted;
use crate::strategy::hook::Hook;
use crate::strategy::memory_id::LIFETIME_NS;
use crate::strategy::memory_id::MemoryId;
use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::RawMutex;

use super::registry::AnyMemory;
use super::round_trips::{RoundTripCounters, RoundTripCounts};
use super::{FibChange, NextHopMeasurement, Parameters, StrategyKind};
use crate::counter::Counter;
use crate::error::ConfigError;
use crate::face_id::FaceKey;
use crate::hash::mix;
use crate::limits::{STRATEGY_PREFIXES_MAX, StrategyLimits, THREADS_MAX, parts_of};
use crate::ordered::Pieces;
use crate::pool::boxed;
use crate::slab::{Id, NONE};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::wheel::{TICK_SHIFT, Wheel};

/// Minimum number of records of a part.
const PART_RECORDS_MIN: usize = 256;

/// The records of all prefixes.
pub(crate) struct StrategyMemory<R> {
    parts: Box<[Part<R>]>,
    len: AtomicU32,
    prefixes_max: usize,
    faces_max: usize,
    counted: Counted,
}

#[repr(align(64))]
struct Part<R> {
    table: MemoryLock<R, Table>,
    /// The next time to check the timers; `u64::MAX` when none is set. Written under the lock.
    due_ns: AtomicU64,
}

/// Minimum and maximum number of chains of a part.
const CHAINS_MIN: usize = 16;
const CHAINS_MAX: usize = 1 << 14;

/// The records of a part, by the key of prefix and strategy and by their number, which counts from
/// 1.
#[derive(Default)]
struct Table {
    /// The first record of each chain, by the upper half of the key. Allocated with the first
    /// record.
    heads: Box<[Id]>,
    records: Pieces<Record>,
    free: Vec<Id>,
    wheel: Wheel,
}

struct Record {
    key: u64,
    /// The next one of its chain.
    next: Id,
    generation: u8,
    /// The strategy's memory; `None` while the record is free.
    memory: Option<AnyMemory>,
    /// The time for which the strategy has set its timer; `u64::MAX` if it is not set.
    timer_ns: u64,
    /// The time at which the record is removed, unless it is used before.
    idle_at_ns: u64,
    /// The tick for which the wheel is set; 0 when it is not.
    timer_tick: u64,
}

impl Record {
    /// The earlier of its two times.
    fn due_ns(&self) -> u64 {
        self.timer_ns.min(self.idle_at_ns)
    }
}

impl<R: RawMutex> StrategyMemory<R> {
    /// Creates the memory for at most the prefixes and faces that `limits` allow, for `threads_max`
    /// threads. Nothing is allocated for prefixes and faces yet.
    pub(crate) fn new(limits: &StrategyLimits, threads_max: usize) -> Result<Self, ConfigError> {
        let StrategyLimits { prefixes_max, faces_max, .. } = *limits;
        let parts = (prefixes_max / PART_RECORDS_MIN).clamp(1, parts_of(threads_max));
        let part = || Part { table: MemoryLock::new(Table::default()), due_ns: AtomicU64::new(u64::MAX) };
        let len = AtomicU32::new(0);
        Ok(StrategyMemory {
            parts: boxed(parts, part)?,
            len,
            prefixes_max,
            faces_max,
            counted: Counted {
                full: Counter::default(),
                round_trips: boxed(StrategyKind::all().count(), RoundTripCounters::default)?,
            },
        })
    }

    /// Prefixes with a record.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Returns true if no prefix has a record.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of times that a prefix or face found no room.
    pub(crate) fn full(&self) -> u64 {
        self.counted.full.value()
    }

    /// Round-trip times of upstreams, by the strategy that measured them.
    pub(crate) fn round_trips(&self) -> impl Iterator<Item = (StrategyKind, RoundTripCounts)> {
        let all = StrategyKind::all().zip(&self.counted.round_trips);
        all.filter(|(kind, _)| kind.measures()).map(|(kind, counters)| (kind, counters.read()))
    }

    /// The record of a prefix and strategy, under its lock; made if there is room for it.
    pub(crate) fn lock_or_make(
        &self,
        kind: StrategyKind,
        prefix_hash: u64,
        now_ns: u64,
    ) -> Option<LockedMemory<'_, R>> {
        let (number, key) = self.find(kind, prefix_hash);
        let part = &self.parts[number];
        let mut table = part.table.lock();
        let id = match table.find(key) {
            Some(id) => id,
            None => self.make(&mut table, kind, key)?,
        };
        // Every use moves the expiry of the record without a change of the wheel: the wheel fires
        // at the old time and is then set again.
        table.record(id)?.idle_at_ns = now_ns.saturating_add(LIFETIME_NS);
        Some(LockedMemory { table, part, number, id, counted: &self.counted })
    }

    /// The part and the key of a record. Two strategies that are chosen below one prefix of the FIB
    /// have separate records.
    fn find(&self, kind: StrategyKind, prefix_hash: u64) -> (usize, u64) {
        (prefix_hash as usize % self.parts.len(), prefix_hash ^ mix(kind as u64))
    }

    /// Makes a record; `None` without room or memory for it, which is counted.
    #[cold]
    fn make(&self, table: &mut Table, kind: StrategyKind, key: u64) -> Option<Id> {
        // Counted before it is made, so that all parts together stay within the limit.
        let one_more = |len: u32| ((len as usize) < self.prefixes_max).then_some(len + 1);
        if self.len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            self.counted.full.add(1);
            return None;
        }
        let id =
            AnyMemory::new(kind, self.faces_max).and_then(|memory| table.insert(key, memory, self.chains()));
        if id.is_none() {
            self.len.fetch_sub(1, Ordering::Relaxed);
            self.counted.full.add(1);
        }
        id
    }

    /// Chains of a part.
    fn chains(&self) -> usize {
        (self.prefixes_max / self.parts.len()).clamp(CHAINS_MIN, CHAINS_MAX).next_power_of_two()
    }

    /// The record that a PIT entry refers to, under its lock, if it is still there.
    pub(crate) fn lock(&self, id: MemoryId) -> Option<LockedMemory<'_, R>> {
        let part = self.parts.get(id.part())?;
        let mut table = part.table.lock();
        let record = table.record(id.id())?;
        // The number may belong to another prefix by now. Its generation differs then, as long as
        // no PIT entry outlives 128 uses of one number.
        if record.memory.is_none() || !id.has_generation(record.generation) {
            return None;
        }
        Some(LockedMemory { table, part, number: id.part(), id: id.id(), counted: &self.counted })
    }

    /// The record of a prefix and strategy under its lock, if there is one.
    pub(crate) fn lock_prefix(&self, kind: StrategyKind, prefix_hash: u64) -> Option<LockedMemory<'_, R>> {
        let (number, key) = self.find(kind, prefix_hash);
        let part = &self.parts[number];
        let table = part.table.lock();
        let id = table.find(key)?;
        Some(LockedMemory { table, part, number, id, counted: &self.counted })
    }

    /// Notifies the strategies with memory of a prefix that its next hops have changed.
    pub(crate) fn fib_changed(&self, prefix_hash: u64, change: FibChange) {
        if self.is_empty() {
            return;
        }
        // Longer names below the prefix may have other strategies, and their records are those of
        // the prefix, too.
        for kind in StrategyKind::all().filter(|kind| kind.remembers()) {
            if let Some(mut locked) = self.lock_prefix(kind, prefix_hash)
                && let Some(memory) = locked.record().and_then(|record| record.memory.as_mut())
            {
                memory.fib_changed(change);
            }
        }
    }

    /// Runs timers that are due, at most `budget` of them, and returns the time of the next call.
    pub(crate) fn run_timers(&self, now_ns: u64, mut budget: usize, random: &dyn Fn() -> u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        for (number, part) in self.parts.iter().enumerate() {
            while budget > 0 && part.due_ns.load(Ordering::Acquire) <= now_ns {
                budget -= 1;
                let mut table = part.table.lock();
                match table.wheel.pop_due(now_ns) {
                    Some(id) => {
                        let mut locked = LockedMemory { table, part, number, id, counted: &self.counted };
                        if locked.run_timer(now_ns, random) {
                            self.len.fetch_sub(1, Ordering::Relaxed);
                        }
                    }
                    None => {
                        let next_ns = table.wheel.next_deadline_ns();
                        // Stored under the part's lock, like every other store of it, so that no
                        // concurrent store is overwritten.
                        part.due_ns.store(next_ns.unwrap_or(u64::MAX), Ordering::Release);
                    }
                }
            }
        }
        let due_ns = self.parts.iter().map(|part| part.due_ns.load(Ordering::Acquire)).min();
        due_ns.filter(|due_ns| *due_ns != u64::MAX)
    }
}

impl Table {
    fn record(&mut self, id: Id) -> Option<&mut Record> {
        self.records.get_mut((id as usize).wrapping_sub(1))
    }

    fn find(&self, key: u64) -> Option<Id> {
        let mut id = *self.heads.get(self.chain(key))?;
        while let Some(record) = self.records.get((id as usize).wrapping_sub(1)) {
            if record.key == key {
                return Some(id);
            }
            id = record.next;
        }
        None
    }

    fn chain(&self, key: u64) -> usize {
        // The upper half: with 16 parts the lower bits have chosen the part.
        (key >> 32) as usize & self.heads.len().saturating_sub(1)
    }

    /// Unlinks a record from its chain.
    fn unlink(&mut self, id: Id, key: u64) {
        let chain = self.chain(key);
        let next = self.record(id).map_or(NONE, |record| record.next);
        if self.heads[chain] == id {
            self.heads[chain] = next;
            return;
        }
        let mut at = self.heads[chain];
        while let Some(before) = self.record(at) {
            if before.next == id {
                before.next = next;
                return;
            }
            at = before.next;
        }
    }

    /// Stores a memory in a free record; `None` if there is none and no memory for one. `chains`
    /// chains are allocated with the first record.
    fn insert(&mut self, key: u64, memory: AnyMemory, chains: usize) -> Option<Id> {
        if self.heads.is_empty() {
            self.heads = boxed(chains, || NONE).ok()?;
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.records.len() + 1 < STRATEGY_PREFIXES_MAX => {
                self.records.reserve(self.records.len() + 1).ok()?;
                // Reserved here, so that freeing a record needs no memory.
                self.free.try_reserve(self.records.len() + 1).ok()?;
                self.wheel.make_room(self.records.len() as Id + 1).ok()?;
                let pushed = self.records.push(Record {
                    key: 0,
                    next: NONE,
                    generation: 0,
                    memory: None,
                    timer_ns: u64::MAX,
                    idle_at_ns: 0,
                    timer_tick: 0,
                });
                pushed.ok()?;
                self.records.len() as Id
            }
            None => return None,
        };
        let chain = self.chain(key);
        let next = core::mem::replace(&mut self.heads[chain], id);
        let record = self.record(id)?;
        (record.key, record.next) = (key, next);
        (record.memory, record.timer_ns) = (Some(memory), u64::MAX);
        Some(id)
    }
}

/// The record of a prefix under its lock.
pub(crate) struct LockedMemory<'a, R: RawMutex> {
    table: MemoryGuard<'a, R, Table>,
    part: &'a Part<R>,
    number: usize,
    id: Id,
    counted: &'a Counted,
}

impl<R: RawMutex> LockedMemory<'_, R> {
    /// The id by which a PIT entry finds the record again.
    pub(crate) fn id(&mut self) -> MemoryId {
        let (number, id) = (self.number, self.id);
        self.record().map_or(MemoryId::NONE, |record| MemoryId::new(number, id, record.generation))
    }

    fn record(&mut self) -> Option<&mut Record> {
        self.table.record(self.id)
    }

    /// The strategy's measurement of a next hop.
    pub(crate) fn measured(&mut self, face: FaceKey) -> NextHopMeasurement {
        let memory = self.record().and_then(|record| record.memory.as_ref());
        memory.map_or_else(NextHopMeasurement::default, |memory| memory.measured(face))
    }

    /// Runs a hook, and ensures that the wheel fires no later than the strategy then requires;
    /// `None` if the record was removed. `name_hash` is [`Hook::name_hash`].
    pub(crate) fn run<T>(
        &mut self,
        now_ns: u64,
        name_hash: u64,
        random: &dyn Fn() -> u64,
        run: impl FnOnce(&mut AnyMemory, &mut Hook<'_>) -> T,
    ) -> Option<T> {
        let counted = self.counted;
        let record = self.record()?;
        let memory = record.memory.as_mut()?;
        let strategy = memory.kind() as usize;
        let mut hook = Hook {
            now_ns,
            name_hash,
            parameters: Parameters::default(),
            ingress: None,
            is_non_discovery: false,
            #[cfg(feature = "vip")]
            direction: None,
            random,
            timer_ns: &mut record.timer_ns,
            counted,
            strategy,
        };
        let result = run(memory, &mut hook);
        self.set_wheel(now_ns);
        Some(result)
    }

    /// Sets the wheel again if it would fire too late. If it fires too early, it is set again at
    /// that time. So an exchange that ends in time touches no wheel.
    fn set_wheel(&mut self, now_ns: u64) {
        let Table { records, wheel, .. } = &mut *self.table;
        let Some(record) = records.get_mut(self.id as usize - 1) else { return };
        let due_ns = record.due_ns();
        if record.timer_tick != 0 && record.timer_tick <= due_ns.div_ceil(1 << TICK_SHIFT) {
            return;
        }
        record.timer_tick = wheel.set(self.id, due_ns, now_ns);
        let at_ns = record.timer_tick << TICK_SHIFT;
        // Stored under the part's lock; Release pairs with the Acquire of `run_timers`, which loads
        // it without the lock.
        if at_ns < self.part.due_ns.load(Ordering::Relaxed) {
            self.part.due_ns.store(at_ns, Ordering::Release);
        }
    }

    /// Handles the wheel's timer of the record: returns true if the record was removed.
    fn run_timer(&mut self, now_ns: u64, random: &dyn Fn() -> u64) -> bool {
        let Some(record) = self.record() else { return false };
        record.timer_tick = 0;
        if record.timer_ns <= now_ns {
            record.timer_ns = u64::MAX;
            self.run(now_ns, 0, random, |memory, hook| memory.on_timer(hook));
        }
        let Some(record) = self.record() else { return false };
        if record.idle_at_ns > now_ns {
            self.set_wheel(now_ns);
            return false;
        }
        // The generation changes with the record, so that a PIT entry with the old number does not
        // match the next record.
        (record.memory, record.generation) = (None, record.generation.wrapping_add(1));
        let key = record.key;
        let tick = core::mem::take(&mut record.timer_tick);
        self.table.unlink(self.id, key);
        let Table { free, wheel, .. } = &mut *self.table;
        if tick != 0 {
            wheel.remove(self.id);
        }
        // There is capacity: it was reserved with the record.
        free.push(self.id);
        true
    }
}

const _: () = assert!(THREADS_MAX <= 16 && NONE == 0, "a part has 4 bits in an id, and no record has 0");

#[cfg(test)]
mod tests;

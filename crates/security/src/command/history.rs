//! The history of each key's commands. No command is accepted twice: not while the wall clock runs,
//! not after it is set, and not after a restart. If a store is available (`kept`), accepted
//! commands are persisted for the next process. Otherwise commands signed before the start are
//! refused.
//!
//! A step of the wall clock begins an *era*. A change of its difference from the monotonic clock
//! shows the step. For each key, the times of an ended era become a span, in which no command is
//! accepted any more. The order of times begins anew with the era. So after a clock was a year
//! ahead for a minute, only that minute is closed, not the year.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;

use namely_wire::{Name, SignatureInfoView};

use super::kept::{self, AcceptedCommand, AcceptedCommandStore, KeyDigest, Times};
use super::{COMMAND_GRACE_MS, COMMAND_KEYS_MAX, COMMAND_NONCES_MAX, CommandRefusal, CommandTime};

/// Time of a command before the start of the router.
///
/// The tolerance is for neighbors whose clock is a little behind.
///
/// # Limit
/// The command is refused.
/// - Value: 100 ms if the commands that the former router accepted are known, otherwise 0
/// - Counter: `before_start`
/// - Tests: `the_current_clock_decides_the_start_time`,
///   `replayed_commands_are_refused_after_restart`
pub(crate) const COMMAND_START_TOLERANCE_MS: u64 = 100;

/// Drift of the wall clock between two commands.
///
/// The drift is measured against the monotonic clock. Slewing causes less.
///
/// # Limit
/// The drift counts as a step: each key begins anew, and the times of its earlier commands are
/// closed.
/// - Tests: `a_slewed_clock_starts_no_era`
pub(crate) const COMMAND_CLOCK_STEP_MS: u64 = 1000;

/// Closed spans of time of a key.
///
/// The evicted keys together have as many.
///
/// # Limit
/// The two nearest spans are joined.
/// - Tests: `excess_spans_join_the_nearest`
pub(crate) const COMMAND_SPANS_MAX: usize = 8;

/// SignatureTime of a command before that of the key's latest command.
///
/// Several programs may share a key, and a command of one may overtake a command of another. A
/// command that an attacker delays for longer is refused once a later one was accepted.
///
/// # Limit
/// The command is refused.
/// - Counter: `replayed`
/// - Tests: `an_overtaken_command_is_accepted_once`
pub(crate) const COMMAND_OVERTAKEN_MS: u64 = 2000;

/// SignatureTimes remembered of one key, so that an overtaken command is accepted once.
///
/// # Limit
/// The earliest is removed, and no command up to its time is accepted any more.
/// - Tests: `excess_command_times_close_the_earliest`
pub(crate) const COMMAND_TIMES_MAX: usize = 64;

/// The history of accepted commands.
#[derive(Debug)]
pub(super) struct History {
    /// The monotonic time of the start.
    start_ms: u64,
    /// Wall clock minus monotonic clock at the last command, ms.
    offset_ms: i128,
    keys: HashMap<Name, Record>,
    /// The former process's records of keys that have sent no command to this process.
    former: HashMap<KeyDigest, Record>,
    /// The spans of all evicted keys. They apply to each key without a record in `keys`.
    evicted: Spans,
    tolerance_ms: u64,
    durable: Option<DurableHistory>,
}

/// Persists accepted commands for the next process.
#[derive(Debug)]
struct DurableHistory {
    store: Box<dyn AcceptedCommandStore>,
    /// Free slots.
    free: Vec<usize>,
}

/// The slot for the spans of evicted keys.
const EVICTED_SLOT: usize = COMMAND_KEYS_MAX;

#[derive(Debug, Default)]
struct Record {
    /// First and last SignatureTime of this era.
    accepted: Option<(u64, u64)>,
    /// The latest SignatureTimes of this era.
    times_ms: BTreeSet<u64>,
    /// Commands of this era up to this SignatureTime are refused, because their times may have
    /// been removed from `times_ms`.
    closed_ms: Option<u64>,
    /// The spans of ended eras.
    past: Spans,
    /// The monotonic time of the last command.
    last_ms: u64,
    /// The slot of this record in the store, if there is a store.
    slot: Option<usize>,
    seq_num: Option<u64>,
    nonces: VecDeque<Box<[u8]>>,
}

/// Disjoint spans of SignatureTime in ascending order, in ms, including both ends.
#[derive(Clone, Debug, Default)]
struct Spans(Vec<(u64, u64)>);

impl History {
    pub(super) fn new(start: CommandTime) -> Self {
        History {
            start_ms: start.monotonic_ms(),
            offset_ms: offset_ms(start),
            keys: HashMap::new(),
            former: HashMap::new(),
            evicted: Spans::default(),
            tolerance_ms: 0,
            durable: None,
        }
    }

    /// Persists accepted commands in `store`, and takes over the records of the former process.
    pub(super) fn persist_in(
        &mut self,
        mut store: Box<dyn AcceptedCommandStore>,
        former: &[AcceptedCommand],
        now: CommandTime,
    ) -> io::Result<()> {
        let mut free = Vec::new();
        for slot in (0..COMMAND_KEYS_MAX).rev() {
            let known = former.get(slot).and_then(kept::decode);
            let Some((key, times)) = known else {
                free.push(slot);
                continue;
            };
            let record = Record::former(times, slot, now);
            if record.may_be_replayed(now) {
                self.former.insert(key, record);
            } else {
                self.evicted.extend(&record.ended().0);
                free.push(slot);
            }
        }
        let evicted = former.get(EVICTED_SLOT).and_then(kept::decode);
        evicted.into_iter().for_each(|(_, times)| self.evicted.extend(&times.past));
        // The slots of evicted keys are free from here on. Their spans are persisted first, so that
        // a crash between the two writes loses no accepted command.
        store.keep(EVICTED_SLOT, &self.evicted.record())?;
        self.tolerance_ms = if former.is_empty() { 0 } else { COMMAND_START_TOLERANCE_MS };
        self.durable = Some(DurableHistory { store, free });
        Ok(())
    }

    /// Returns true if SignatureTime `time_ms` is before the start of this process, by the present
    /// wall clock. An earlier process may have accepted such a command.
    pub(super) fn is_before_start(&self, time_ms: u64, now: CommandTime) -> bool {
        let age_ms = now.monotonic_ms().saturating_sub(self.start_ms);
        time_ms.saturating_add(self.tolerance_ms) < now.unix_ms().saturating_sub(age_ms)
    }

    /// Accepts a command of `key`, if it is new.
    ///
    /// # Errors
    /// The peer's fault: the command is a replay. The environment's: there are too many keys, or
    /// the record cannot be persisted. In the last case the command counts as accepted, so a
    /// repetition of it is refused, too.
    pub(super) fn accept(
        &mut self,
        key: &Name,
        info: &SignatureInfoView<'_>,
        time_ms: u64,
        now: CommandTime,
    ) -> Result<(), CommandRefusal> {
        self.begin_era_if_stepped(now);
        let replayed = || CommandRefusal::Replayed { key: key.clone() };
        if !self.keys.contains_key(key) {
            self.make_room(now)?;
            if self.evicted.contains(time_ms) {
                return Err(replayed());
            }
            let mut record = self.former.remove(&kept::digest(key)).unwrap_or_default();
            record.last_ms = now.monotonic_ms();
            if let (None, Some(durable)) = (record.slot, &mut self.durable) {
                record.slot = Some(durable.free.pop().ok_or(CommandRefusal::TooManyKeys)?);
            }
            self.keys.insert(key.clone(), record);
        }
        let Some(record) = self.keys.get_mut(key).filter(|record| !record.is_replay(info, time_ms)) else {
            return Err(replayed());
        };
        record.add(info, time_ms);
        record.last_ms = now.monotonic_ms();
        // The record is persisted before the command takes effect, because the process may end at
        // any time.
        if let (Some(slot), Some(durable)) = (record.slot, &mut self.durable) {
            let record = kept::encode(kept::digest(key), &record.times());
            durable.store.keep(slot, &record).map_err(|error| CommandRefusal::NotPersisted(error.kind()))?;
        }
        Ok(())
    }

    /// Returns the result of [`accept`](Self::accept), and changes nothing.
    ///
    /// # Errors
    /// As of [`accept`](Self::accept), except that nothing is persisted.
    pub(super) fn check(
        &self,
        key: &Name,
        info: &SignatureInfoView<'_>,
        time_ms: u64,
        now: CommandTime,
    ) -> Result<(), CommandRefusal> {
        let is_stepped = self.is_stepped(now);
        let is_replay = match self.keys.get(key) {
            Some(record) => record.is_replay_if(info, time_ms, is_stepped),
            None => {
                let has_room = self.has_room();
                let former = self.former.get(&kept::digest(key));
                let former = former.filter(|record| has_room || record.may_be_replayed(now));
                let is_full = !has_room && self.old_keys(now).next().is_none();
                if is_full && (former.is_none() || self.keys.len() >= COMMAND_KEYS_MAX) {
                    return Err(CommandRefusal::TooManyKeys);
                }
                let evicted = if has_room { self.evicted.clone() } else { self.spans_after_eviction(now) };
                evicted.contains(time_ms)
                    || former.is_some_and(|record| record.is_replay_if(info, time_ms, is_stepped))
            }
        };
        if is_replay { Err(CommandRefusal::Replayed { key: key.clone() }) } else { Ok(()) }
    }

    fn is_stepped(&self, now: CommandTime) -> bool {
        offset_ms(now).abs_diff(self.offset_ms) > u128::from(COMMAND_CLOCK_STEP_MS)
    }

    /// Begins an era if the wall clock was set since the last command.
    fn begin_era_if_stepped(&mut self, now: CommandTime) {
        let is_stepped = self.is_stepped(now);
        self.offset_ms = offset_ms(now);
        if is_stepped {
            self.keys.values_mut().chain(self.former.values_mut()).for_each(Record::end_era);
        }
    }

    /// Returns true if another key can be added without evicting one.
    fn has_room(&self) -> bool {
        let has_slots = self.durable.as_ref().is_none_or(|durable| !durable.free.is_empty());
        self.keys.len() < COMMAND_KEYS_MAX && has_slots
    }

    /// The records that are old enough to be evicted.
    fn old_keys(&self, now: CommandTime) -> impl Iterator<Item = &Record> {
        let keys = self.keys.values().filter(move |record| record.is_old(now));
        keys.chain(self.former.values().filter(move |record| !record.may_be_replayed(now)))
    }

    /// Returns the spans of evicted keys once the old ones are evicted, too. Without its span, a
    /// command of an evicted key would count as new after the clock is set back.
    fn spans_after_eviction(&self, now: CommandTime) -> Spans {
        let mut evicted = self.evicted.clone();
        self.old_keys(now).for_each(|record| evicted.extend(&record.ended().0));
        evicted
    }

    fn make_room(&mut self, now: CommandTime) -> Result<(), CommandRefusal> {
        if !self.has_room() {
            let evicted = self.spans_after_eviction(now);
            // As in `persist_in`, the spans are persisted before a slot can be reused. If that
            // fails, no key is evicted, so the next command tries again.
            if let Some(durable) = &mut self.durable {
                let kept = durable.store.keep(EVICTED_SLOT, &evicted.record());
                kept.map_err(|error| CommandRefusal::NotPersisted(error.kind()))?;
                let slots = self.old_keys(now).filter_map(|record| record.slot).collect::<Vec<_>>();
                self.durable.iter_mut().for_each(|durable| durable.free.extend(&slots));
            }
            self.evicted = evicted;
            self.keys.retain(|_, record| !record.is_old(now));
            self.former.retain(|_, record| record.may_be_replayed(now));
        }
        if self.keys.len() >= COMMAND_KEYS_MAX { Err(CommandRefusal::TooManyKeys) } else { Ok(()) }
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }
}

/// Returns the monotonic time, ms, before which the last command of a key lets the key be evicted.
/// A command may be ahead of the clock by the grace period when it is accepted. It is therefore too
/// old only after twice the grace period.
fn oldest_ms(monotonic_ms: u64) -> u64 {
    monotonic_ms.saturating_sub(2 * COMMAND_GRACE_MS)
}

fn offset_ms(now: CommandTime) -> i128 {
    i128::from(now.unix_ms()) - i128::from(now.monotonic_ms())
}

impl Record {
    /// Converts a former process's record of a key. If its last command is further ahead of this
    /// clock than the grace period, the clock was set back in between, so the era has ended.
    fn former(times: Times, slot: usize, now: CommandTime) -> Self {
        let mut record = Record { slot: Some(slot), ..Record::default() };
        record.past.extend(&times.past);
        record.accepted = times.accepted;
        // The store has no single times of an era, so none up to the last one may be accepted.
        record.closed_ms = times.accepted.map(|(_, last_ms)| last_ms);
        if times.accepted.is_some_and(|(_, last_ms)| last_ms > now.unix_ms().saturating_add(COMMAND_GRACE_MS))
        {
            record.end_era();
        }
        record
    }

    /// Returns true if the record of a key may be evicted.
    fn is_old(&self, now: CommandTime) -> bool {
        self.last_ms < oldest_ms(now.monotonic_ms())
    }

    /// Returns true if an accepted command of the key may still be within the grace period, or
    /// ahead of it.
    fn may_be_replayed(&self, now: CommandTime) -> bool {
        let last_ms = self.ended().0.last().map_or(0, |(_, last_ms)| *last_ms);
        last_ms.saturating_add(COMMAND_GRACE_MS) >= now.unix_ms()
    }

    fn times(&self) -> Times {
        Times { accepted: self.accepted, past: self.past.0.clone() }
    }

    fn is_replay(&self, info: &SignatureInfoView<'_>, time_ms: u64) -> bool {
        self.is_replay_if(info, time_ms, false)
    }

    /// Returns the result of `is_replay`, but after the end of this era if `is_over`.
    fn is_replay_if(&self, info: &SignatureInfoView<'_>, time_ms: u64, is_over: bool) -> bool {
        let is_accepted = match is_over {
            true => self.ended().contains(time_ms),
            false => self.is_closed(time_ms) || self.past.contains(time_ms),
        };
        is_accepted
            || info.seq_num.is_some_and(|n| self.seq_num.is_some_and(|last| n <= last))
            || info.nonce.is_some_and(|n| self.nonces.iter().any(|known| **known == *n))
    }

    /// Returns true if a command of this era with SignatureTime `time_ms` may have been accepted,
    /// or is too long before the latest one.
    fn is_closed(&self, time_ms: u64) -> bool {
        self.times_ms.contains(&time_ms)
            || self.closed_ms.is_some_and(|closed_ms| time_ms <= closed_ms)
            || self
                .accepted
                .is_some_and(|(_, last_ms)| time_ms.saturating_add(COMMAND_OVERTAKEN_MS) < last_ms)
    }

    /// Returns the past spans including this era's.
    fn ended(&self) -> Spans {
        let mut past = self.past.clone();
        self.accepted.into_iter().for_each(|(first_ms, last_ms)| past.insert(first_ms, last_ms));
        past
    }

    fn add(&mut self, info: &SignatureInfoView<'_>, time_ms: u64) {
        let (first_ms, last_ms) = self.accepted.unwrap_or((time_ms, time_ms));
        self.accepted = Some((first_ms.min(time_ms), last_ms.max(time_ms)));
        self.times_ms.insert(time_ms);
        if self.times_ms.len() > COMMAND_TIMES_MAX {
            // Only `closed_ms` covers the removed time.
            self.closed_ms = self.times_ms.pop_first().max(self.closed_ms);
        }
        self.seq_num = info.seq_num.or(self.seq_num);
        if let Some(nonce) = info.nonce {
            if self.nonces.len() >= COMMAND_NONCES_MAX {
                self.nonces.pop_front();
            }
            self.nonces.push_back(nonce.into());
        }
    }

    fn end_era(&mut self) {
        self.past = self.ended();
        self.accepted = None;
        self.times_ms.clear();
        self.closed_ms = None;
    }
}

impl Spans {
    /// Encodes the spans of evicted keys for the store.
    fn record(&self) -> AcceptedCommand {
        kept::encode(KeyDigest::default(), &Times { accepted: None, past: self.0.clone() })
    }

    fn contains(&self, time_ms: u64) -> bool {
        self.0.iter().any(|(first_ms, last_ms)| (*first_ms..=*last_ms).contains(&time_ms))
    }

    fn extend(&mut self, spans: &[(u64, u64)]) {
        spans.iter().for_each(|(first_ms, last_ms)| self.insert(*first_ms, *last_ms));
    }

    fn insert(&mut self, mut first_ms: u64, mut last_ms: u64) {
        self.0.retain(|(first, last)| {
            let is_apart = *last < first_ms || *first > last_ms;
            if !is_apart {
                (first_ms, last_ms) = (first_ms.min(*first), last_ms.max(*last));
            }
            is_apart
        });
        let position = self.0.partition_point(|(first, _)| *first < first_ms);
        self.0.insert(position, (first_ms, last_ms));
        if self.0.len() > COMMAND_SPANS_MAX {
            self.join_nearest();
        }
    }

    fn join_nearest(&mut self) {
        let gap = |pair: &[(u64, u64)]| match pair {
            [(_, last), (first, _)] => first - last,
            _ => u64::MAX,
        };
        let nearest = self.0.windows(2).enumerate().min_by_key(|(_, pair)| gap(pair));
        if let Some((at, _)) = nearest {
            let (_, last_ms) = self.0.remove(at + 1);
            self.0[at].1 = last_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    const T: u64 = 1_800_000_000_000;
    const YEAR_MS: u64 = 365 * 86_400_000;

    fn at(monotonic_ms: u64, unix_ms: u64) -> CommandTime {
        CommandTime::new(monotonic_ms * 1_000_000, unix_ms)
    }

    fn info(time_ms: u64) -> SignatureInfoView<'static> {
        SignatureInfoView {
            signature_type: namely_wire::SignatureType::Ed25519,
            key_locator: None,
            nonce: None,
            time_ms: Some(time_ms),
            seq_num: None,
            validity: None,
        }
    }

    fn accept(history: &mut History, key: &str, time_ms: u64, now: CommandTime) -> bool {
        let info = info(time_ms);
        let key = key.parse().unwrap();
        // `check` must return the same result.
        let checked = history.check(&key, &info, time_ms, now);
        let accepted = history.accept(&key, &info, time_ms, now);
        assert_eq!(checked, accepted, "{time_ms} at {now:?}");
        accepted.is_ok()
    }

    /// Stores records as a file does, in memory.
    #[derive(Clone, Debug)]
    struct Memory {
        records: Arc<Mutex<Vec<AcceptedCommand>>>,
        fails: bool,
    }

    impl AcceptedCommandStore for Memory {
        fn keep(&mut self, slot: usize, record: &AcceptedCommand) -> io::Result<()> {
            self.records.lock().unwrap()[slot] = *record;
            if self.fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }

    fn memory() -> Memory {
        let records = vec![[0; super::kept::TAKEN_RECORD_OCTETS]; super::kept::TAKEN_RECORDS_MAX];
        Memory { records: Arc::new(Mutex::new(records)), fails: false }
    }

    /// The history of a process that starts at this time.
    fn started(memory: &Memory, now: CommandTime) -> History {
        let mut history = History::new(now);
        let former = memory.records.lock().unwrap().clone();
        history.persist_in(Box::new(memory.clone()), &former, now).unwrap();
        history
    }

    #[test]
    fn the_current_clock_decides_the_start_time() {
        const SLACK: u64 = COMMAND_START_TOLERANCE_MS;
        for (history, tolerance_ms) in
            [(History::new(at(1000, T)), 0), (started(&memory(), at(1000, T)), SLACK)]
        {
            for (time_ms, now, is_before) in [
                (T, at(1000, T), false),
                (T - tolerance_ms, at(1000, T), false),
                (T - tolerance_ms - 1, at(1000, T), true),
                // The result is the same a minute later.
                (T - tolerance_ms - 1, at(61_000, T + 60_000), true),
                (T, at(61_000, T + 60_000), false),
                // The clock was a year ahead at the start, and was then set right.
                (T - YEAR_MS, at(2000, T - YEAR_MS + 1000), false),
                (T - YEAR_MS - 1000, at(2000, T - YEAR_MS + 1000), true),
                // The clock was a year behind at the start.
                (T + YEAR_MS, at(2000, T + YEAR_MS + 1000), false),
                (T + YEAR_MS - 1000, at(2000, T + YEAR_MS + 1000), true),
            ] {
                assert_eq!(history.is_before_start(time_ms, now), is_before, "{time_ms} at {now:?}");
            }
        }
    }

    #[test]
    fn a_replay_is_refused_across_restarts() {
        let memory = memory();
        let mut first = started(&memory, at(0, T));
        for (key, time_ms) in [("/right", T + 10), ("/ahead", T + COMMAND_GRACE_MS)] {
            assert!(accept(&mut first, key, time_ms, at(10, T + 10)));
        }
        // The first process ends at once, and so does the second.
        for start_ms in [11, 12] {
            let now = at(start_ms, T + start_ms);
            let mut next = started(&memory, now);
            assert!(!accept(&mut next, "/right", T + 10, now));
            assert!(!accept(&mut next, "/ahead", T + COMMAND_GRACE_MS, now));
            assert!(accept(&mut next, "/right", T + start_ms, now), "the next command");
            assert!(accept(&mut next, &format!("/new{start_ms}"), T + 10, now), "another key's");
            assert!(!accept(&mut next, "/ahead", T + COMMAND_GRACE_MS, now), "still");
        }
    }

    #[test]
    fn a_clock_set_between_processes_blocks_no_command() {
        let memory = memory();
        let mut first = started(&memory, at(0, T + YEAR_MS));
        assert!(accept(&mut first, "/k", T + YEAR_MS, at(0, T + YEAR_MS)));
        let back = at(5000, T + 5000);
        let mut next = started(&memory, back);
        assert!(accept(&mut next, "/k", T + 5000, back), "the present");
        // A year later, another process still refuses that command.
        let later = at(0, T + YEAR_MS);
        let mut last = started(&memory, later);
        assert!(!accept(&mut last, "/k", T + YEAR_MS, later));
        assert!(accept(&mut last, "/k", T + YEAR_MS + 1, later));
    }

    #[test]
    fn command_keys_are_limited() {
        let memory = memory();
        let mut history = started(&memory, at(0, T));
        for n in 0..COMMAND_KEYS_MAX as u64 {
            assert!(accept(&mut history, &format!("/k{n}"), T + n, at(n, T + n)));
        }
        let now = at(COMMAND_KEYS_MAX as u64, T + COMMAND_KEYS_MAX as u64);
        assert!(!accept(&mut history, "/one/more", T + COMMAND_KEYS_MAX as u64, now));
        // The next process has the records of these keys, and no room for another key until their
        // commands are old. If the clock is then set back, none of the commands is accepted.
        let mut next = started(&memory, now);
        assert!(!accept(&mut next, "/k7", T + 7, now));
        assert!(!accept(&mut next, "/one/more", T + COMMAND_KEYS_MAX as u64, now));
        let later_ms = COMMAND_KEYS_MAX as u64 + 2 * COMMAND_GRACE_MS + 1;
        let later = at(later_ms, T + later_ms);
        assert!(accept(&mut next, "/one/more", T + later_ms, later));
        let back = at(later_ms + 1, T + 1);
        let mut last = started(&memory, back);
        assert!(!accept(&mut last, "/k1", T + 1, back), "taken before");
    }

    #[test]
    fn a_command_that_cannot_be_stored_is_refused() {
        let mut memory = memory();
        let former = memory.records.lock().unwrap().clone();
        memory.fails = true;
        assert!(History::new(at(0, T)).persist_in(Box::new(memory.clone()), &former, at(0, T)).is_err());
        memory.fails = false;
        let mut history = started(&memory, at(0, T));
        history.durable.as_mut().unwrap().store = Box::new(Memory { fails: true, ..memory });
        let (key, info) = ("/k".parse().unwrap(), info(T));
        let refused = history.accept(&key, &info, T, at(0, T));
        assert_eq!(refused, Err(CommandRefusal::NotPersisted(io::ErrorKind::StorageFull)));
        assert!(matches!(history.accept(&key, &info, T, at(0, T)), Err(CommandRefusal::Replayed { .. })));
    }

    #[test]
    fn a_failed_eviction_is_repeated() {
        let memory = memory();
        let mut history = started(&memory, at(0, T));
        for n in 0..COMMAND_KEYS_MAX as u64 {
            assert!(accept(&mut history, &format!("/k{n}"), T + n, at(n, T + n)));
        }
        let later_ms = COMMAND_KEYS_MAX as u64 + 2 * COMMAND_GRACE_MS + 1;
        let later = at(later_ms, T + later_ms);
        let set_store = |history: &mut History, fails| {
            history.durable.as_mut().unwrap().store = Box::new(Memory { fails, ..memory.clone() });
        };
        set_store(&mut history, true);
        let (key, info) = ("/one/more".parse().unwrap(), info(T + later_ms));
        let refused = history.accept(&key, &info, T + later_ms, later);
        assert_eq!(refused, Err(CommandRefusal::NotPersisted(io::ErrorKind::StorageFull)));
        assert_eq!(history.keys(), COMMAND_KEYS_MAX);
        set_store(&mut history, false);
        assert!(accept(&mut history, "/one/more", T + later_ms, later));
    }

    #[test]
    fn a_former_key_is_checked_against_evicted_spans() {
        let mut history = History::new(at(0, T));
        history.evicted.insert(T + 100, T + 200);
        let former = Times { accepted: Some((T, T + 10)), past: Vec::new() };
        let now = at(300, T + 300);
        let key: Name = "/k".parse().unwrap();
        history.former.insert(kept::digest(&key), Record::former(former, 0, now));
        assert!(!accept(&mut history, "/k", T + 150, now));
        assert!(accept(&mut history, "/k", T + 250, now));
    }

    #[test]
    fn a_clock_set_back_permits_no_replay() {
        let mut history = History::new(at(0, T));
        assert!(accept(&mut history, "/k", T + 10, at(10, T + 10)));
        // The clock is a year ahead for a minute.
        assert!(accept(&mut history, "/k", T + YEAR_MS, at(1000, T + YEAR_MS)));
        assert!(accept(&mut history, "/k", T + YEAR_MS + 50, at(1050, T + YEAR_MS + 50)));
        let back = at(61_000, T + 61_000);
        assert!(!accept(&mut history, "/k", T + 10, back), "from before the step");
        assert!(accept(&mut history, "/k", T + 61_000, back), "the present");
        assert!(!accept(&mut history, "/k", T + 61_000, back), "twice");
        // A year later only that minute is closed.
        for (time_ms, is_accepted) in [
            (T + YEAR_MS - 1, true),
            (T + YEAR_MS, false),
            (T + YEAR_MS + 50, false),
            (T + YEAR_MS + 51, true),
        ] {
            assert_eq!(
                accept(&mut history, "/k", time_ms, at(YEAR_MS, T + YEAR_MS)),
                is_accepted,
                "{time_ms}"
            );
        }
    }

    #[test]
    fn a_slewed_clock_starts_no_era() {
        for (moved_ms, is_accepted) in [(COMMAND_CLOCK_STEP_MS, false), (COMMAND_CLOCK_STEP_MS + 1, true)] {
            let mut history = History::new(at(0, T));
            let early_ms = T + 4000 - COMMAND_OVERTAKEN_MS - 1;
            assert!(accept(&mut history, "/k", T + 4000, at(0, T)));
            let now = at(5000, T + 5000 - moved_ms);
            assert_eq!(accept(&mut history, "/k", early_ms, now), is_accepted, "{moved_ms}");
        }
    }

    #[test]
    fn an_overtaken_command_is_accepted_once() {
        let mut history = History::new(at(0, T));
        let now = at(5000, T + 5000);
        assert!(accept(&mut history, "/k", T + 5000, now));
        let earliest_ms = T + 5000 - COMMAND_OVERTAKEN_MS;
        for (time_ms, is_accepted) in [(earliest_ms - 1, false), (earliest_ms, true), (T + 4999, true)] {
            assert_eq!(accept(&mut history, "/k", time_ms, now), is_accepted, "{time_ms}");
            assert!(!accept(&mut history, "/k", time_ms, now), "{time_ms}, again");
        }
        assert!(!accept(&mut history, "/k", T + 5000, now), "the first, again");
    }

    #[test]
    fn excess_command_times_close_the_earliest() {
        let mut history = History::new(at(0, T));
        let now = at(1000, T + 1000);
        for n in 0..COMMAND_TIMES_MAX as u64 {
            assert!(accept(&mut history, "/k", T + 10 * n, now));
        }
        assert!(accept(&mut history, "/k", T + 5, now), "room for all");
        // The next command removes the time `T + 5`, as the one above removed `T`.
        assert!(accept(&mut history, "/k", T + 1000, now));
        for (time_ms, is_accepted) in [(T, false), (T + 4, false), (T + 5, false), (T + 6, true)] {
            assert_eq!(accept(&mut history, "/k", time_ms, now), is_accepted, "{time_ms}");
        }
    }

    proptest! {
        /// In any order of commands, steps of the clock and restarts.
        #[test]
        fn no_command_is_accepted_twice(
            steps in prop::collection::vec((0..12u8, 0..3u8, 0..6000u64), 1..400),
        ) {
            let memory = memory();
            let (mut monotonic_ms, mut unix_ms) = (0, T);
            let mut history = started(&memory, at(monotonic_ms, unix_ms));
            let mut accepted = std::collections::HashSet::new();
            for (action, key, amount_ms) in steps {
                match action {
                    0 => history = started(&memory, at(monotonic_ms, unix_ms)),
                    1 => unix_ms = unix_ms + 3000 - amount_ms,
                    2 => (monotonic_ms, unix_ms) = (monotonic_ms + amount_ms, unix_ms + amount_ms),
                    _ => {
                        let (now, time_ms) = (at(monotonic_ms, unix_ms), unix_ms + 3000 - amount_ms);
                        // `CommandVerifier::check_time` refuses such commands.
                        let is_early = history.is_before_start(time_ms, now);
                        if !is_early && accept(&mut history, &format!("/k{key}"), time_ms, now) {
                            prop_assert!(accepted.insert((key, time_ms)), "{} at {:?}", time_ms, now);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_forgotten_key_permits_no_replay() {
        let mut history = History::new(at(0, T));
        for n in 0..COMMAND_KEYS_MAX as u64 {
            assert!(accept(&mut history, &format!("/k{n}"), T + n, at(n, T + n)));
        }
        let later_ms = 2 * COMMAND_GRACE_MS + COMMAND_KEYS_MAX as u64;
        assert!(accept(&mut history, "/new", T + later_ms, at(later_ms, T + later_ms)));
        assert_eq!(history.keys(), 1);
        let back = at(later_ms + 1, T + 1);
        assert!(!accept(&mut history, "/k1", T + 1, back), "taken before");
        assert!(accept(&mut history, "/k1", T + later_ms, back), "never taken");
    }

    #[test]
    fn excess_spans_join_the_nearest() {
        let mut spans = Spans::default();
        for n in 0..COMMAND_SPANS_MAX as u64 {
            spans.insert(100 * n, 100 * n + 10);
        }
        assert_eq!(spans.0.len(), COMMAND_SPANS_MAX);
        assert!(!spans.contains(115));
        spans.insert(120, 130);
        assert_eq!(spans.0.len(), COMMAND_SPANS_MAX);
        assert!(spans.contains(115) && !spans.contains(90) && !spans.contains(140));
        spans.insert(0, 10_000);
        assert_eq!(spans.0, [(0, 10_000)]);
    }
}

//! What each key has sent, so that no command is taken twice: while the wall clock runs, when it
//! is set, and after a restart. What a process has taken is kept for the next one where there is a
//! place for it (`kept`); where there is none, nothing is taken that was signed before the start.
//!
//! A step of the wall clock shows as a change of its distance from the monotonic clock. It begins
//! an *era*: the times of commands taken before are kept as spans in which nothing is taken again,
//! and each key begins anew. So a clock that was a year ahead for a minute closes that minute,
//! and not the year.

use std::collections::{HashMap, VecDeque};
use std::io;

use namely_wire::{Name, SignatureInfoView};

use super::kept::{self, KeyDigest, TakenRecord, TakenStore, Times};
use super::{COMMAND_GRACE_MS, COMMAND_KEYS_MAX, COMMAND_NONCES_MAX, CommandRefusal, CommandTime};

/// How much earlier than the start of the process SignatureTime may be where it is known what the
/// former process took: for neighbours whose clock is a little behind. Otherwise it may not.
pub(crate) const COMMAND_START_TOLERANCE_MS: u64 = 100;

/// How far the wall clock may move against the monotonic one between two commands before it was
/// set: what adjusts it without a step stays below.
pub(crate) const COMMAND_CLOCK_STEP_MS: u64 = 1000;

/// Spans of time kept of each key, and of the keys that were forgotten. When there is one more, the
/// two that lie nearest to each other become one.
pub(crate) const COMMAND_SPANS_MAX: usize = 8;

/// What was taken so far.
#[derive(Debug)]
pub(super) struct History {
    start_ms: u64,
    /// Wall clock less monotonic clock at the last command, ms.
    offset_ms: i128,
    keys: HashMap<Name, Record>,
    /// What the former process knew of keys that have sent nothing to this one.
    former: HashMap<KeyDigest, Record>,
    forgotten: Spans,
    tolerance_ms: u64,
    kept: Option<Kept>,
}

/// Where what is taken is kept for the next process.
#[derive(Debug)]
struct Kept {
    store: Box<dyn TakenStore>,
    /// Places of no key.
    free: Vec<usize>,
}

/// The place of what is known of keys that were forgotten.
const FORGOTTEN_PLACE: usize = COMMAND_KEYS_MAX;

#[derive(Debug, Default)]
struct Record {
    /// First and last SignatureTime of this era.
    taken: Option<(u64, u64)>,
    past: Spans,
    /// When the last one was taken, by the monotonic clock.
    last_ms: u64,
    /// Where it is kept, if it is.
    place: Option<usize>,
    seq_num: Option<u64>,
    nonces: VecDeque<Box<[u8]>>,
}

/// Disjoint spans of SignatureTime, in order, ms, with both ends.
#[derive(Clone, Debug, Default)]
struct Spans(Vec<(u64, u64)>);

impl History {
    pub(super) fn new(start: CommandTime) -> Self {
        History {
            start_ms: start.monotonic_ms(),
            offset_ms: offset_ms(start),
            keys: HashMap::new(),
            former: HashMap::new(),
            forgotten: Spans::default(),
            tolerance_ms: 0,
            kept: None,
        }
    }

    /// Keeps what is taken in `store`, and takes over what it has of the former process.
    pub(super) fn keep_in(
        &mut self,
        mut store: Box<dyn TakenStore>,
        former: &[TakenRecord],
        now: CommandTime,
    ) -> io::Result<()> {
        let mut free = Vec::new();
        for place in (0..COMMAND_KEYS_MAX).rev() {
            let known = former.get(place).and_then(kept::decode);
            let Some((key, times)) = known else {
                free.push(place);
                continue;
            };
            let record = Record::former(times, place, now);
            if record.may_come_again(now) {
                self.former.insert(key, record);
            } else {
                record.ended().0.iter().for_each(|span| self.forgotten.insert(*span));
                free.push(place);
            }
        }
        let forgotten = former.get(FORGOTTEN_PLACE).and_then(kept::decode);
        forgotten.into_iter().for_each(|(_, times)| {
            times.past.iter().for_each(|span| self.forgotten.insert(*span));
        });
        // Before a place is used again whose key is among the forgotten.
        store.keep(FORGOTTEN_PLACE, &self.forgotten.record())?;
        self.tolerance_ms = if former.is_empty() { 0 } else { COMMAND_START_TOLERANCE_MS };
        self.kept = Some(Kept { store, free });
        Ok(())
    }

    /// Returns true if a command of `time_ms` is older than this process, by the wall clock as it
    /// is now: what an earlier process has taken is not known here.
    pub(super) fn is_before_start(&self, time_ms: u64, now: CommandTime) -> bool {
        let age_ms = now.monotonic_ms().saturating_sub(self.start_ms);
        time_ms.saturating_add(self.tolerance_ms) < now.unix_ms().saturating_sub(age_ms)
    }

    /// Takes a command that `key` has signed, if it is a new one.
    ///
    /// # Errors
    /// The peer's fault, it is a replay; or the environment's, too many keys.
    pub(super) fn take(
        &mut self,
        key: &Name,
        info: &SignatureInfoView<'_>,
        time_ms: u64,
        now: CommandTime,
    ) -> Result<(), CommandRefusal> {
        self.notice_step(now);
        let replayed = || CommandRefusal::Replayed { key: key.clone() };
        if !self.keys.contains_key(key) {
            self.make_room(now)?;
            if self.forgotten.contains(time_ms) {
                return Err(replayed());
            }
            let mut record = self.former.remove(&kept::digest(key)).unwrap_or_default();
            record.last_ms = now.monotonic_ms();
            if let (None, Some(kept)) = (record.place, &mut self.kept) {
                record.place = Some(kept.free.pop().ok_or(CommandRefusal::TooManyKeys)?);
            }
            self.keys.insert(key.clone(), record);
        }
        let Some(record) = self.keys.get_mut(key).filter(|record| !record.is_known(info, time_ms)) else {
            return Err(replayed());
        };
        record.add(info, time_ms);
        record.last_ms = now.monotonic_ms();
        // Before anything is done for it: the process may end at any time.
        if let (Some(place), Some(kept)) = (record.place, &mut self.kept) {
            let record = kept::encode(kept::digest(key), &record.times());
            kept.store.keep(place, &record).map_err(|error| CommandRefusal::NotKept(error.kind()))?;
        }
        Ok(())
    }

    /// What [`take`](Self::take) would say, and changes nothing.
    ///
    /// # Errors
    /// As of [`take`](Self::take).
    pub(super) fn look(
        &self,
        key: &Name,
        info: &SignatureInfoView<'_>,
        time_ms: u64,
        now: CommandTime,
    ) -> Result<(), CommandRefusal> {
        let is_stepped = self.is_stepped(now);
        let known = self.keys.get(key).or_else(|| self.former.get(&kept::digest(key)));
        let is_known = match known {
            Some(record) => record.would_know(info, time_ms, is_stepped),
            None if self.has_room() => self.forgotten.contains(time_ms),
            None => {
                let oldest_ms = oldest_ms(now.monotonic_ms());
                let old = self.keys.values().filter(|record| record.last_ms < oldest_ms);
                let former = self.former.values().filter(|record| !record.may_come_again(now));
                let mut old = old.chain(former).peekable();
                old.peek().ok_or(CommandRefusal::TooManyKeys)?;
                let mut forgotten = self.forgotten.clone();
                old.for_each(|record| record.ended().0.iter().for_each(|span| forgotten.insert(*span)));
                forgotten.contains(time_ms)
            }
        };
        if is_known { Err(CommandRefusal::Replayed { key: key.clone() }) } else { Ok(()) }
    }

    fn is_stepped(&self, now: CommandTime) -> bool {
        offset_ms(now).abs_diff(self.offset_ms) > u128::from(COMMAND_CLOCK_STEP_MS)
    }

    /// Begins an era if the wall clock was set since the last command.
    fn notice_step(&mut self, now: CommandTime) {
        let is_stepped = self.is_stepped(now);
        self.offset_ms = offset_ms(now);
        if is_stepped {
            self.keys.values_mut().for_each(Record::end_era);
        }
    }

    /// Whether another key may be known without another's being forgotten.
    fn has_room(&self) -> bool {
        let has_places = self.kept.as_ref().is_none_or(|kept| !kept.free.is_empty());
        self.keys.len() < COMMAND_KEYS_MAX && has_places
    }

    fn make_room(&mut self, now: CommandTime) -> Result<(), CommandRefusal> {
        if !self.has_room() {
            let oldest_ms = oldest_ms(now.monotonic_ms());
            let (forgotten, mut places) = (&mut self.forgotten, Vec::new());
            let mut forget = |record: &Record| {
                // Should the clock be set back, they would be new.
                record.ended().0.iter().for_each(|span| forgotten.insert(*span));
                places.extend(record.place);
            };
            self.keys.retain(|_, record| {
                let is_recent = record.last_ms >= oldest_ms;
                if !is_recent {
                    forget(record);
                }
                is_recent
            });
            self.former.retain(|_, record| {
                let may_come_again = record.may_come_again(now);
                if !may_come_again {
                    forget(record);
                }
                may_come_again
            });
            if let Some(kept) = &mut self.kept {
                let forgotten = self.forgotten.record();
                kept.store
                    .keep(FORGOTTEN_PLACE, &forgotten)
                    .map_err(|error| CommandRefusal::NotKept(error.kind()))?;
                kept.free.extend(places);
            }
        }
        if self.keys.len() >= COMMAND_KEYS_MAX { Err(CommandRefusal::TooManyKeys) } else { Ok(()) }
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }
}

/// Keys that sent nothing since then may be forgotten: a command may have been ahead of the clock
/// by the grace period, and is too old when twice that has passed.
fn oldest_ms(monotonic_ms: u64) -> u64 {
    monotonic_ms.saturating_sub(2 * COMMAND_GRACE_MS)
}

fn offset_ms(now: CommandTime) -> i128 {
    i128::from(now.unix_ms()) - i128::from(now.monotonic_ms())
}

impl Record {
    /// What a former process knew of a key. Where its last command was further ahead of this clock
    /// than any may be, the clock was set since then.
    fn former(times: Times, place: usize, now: CommandTime) -> Self {
        let mut record = Record { place: Some(place), ..Record::default() };
        times.past.into_iter().for_each(|span| record.past.insert(span));
        record.taken = times.taken;
        if times.taken.is_some_and(|(_, last_ms)| last_ms > now.unix_ms().saturating_add(COMMAND_GRACE_MS)) {
            record.end_era();
        }
        record
    }

    /// Whether a command that was taken may be within the grace period, or ahead of it.
    fn may_come_again(&self, now: CommandTime) -> bool {
        let last_ms = self.ended().0.last().map_or(0, |(_, last_ms)| *last_ms);
        last_ms.saturating_add(COMMAND_GRACE_MS) >= now.unix_ms()
    }

    fn times(&self) -> Times {
        Times { taken: self.taken, past: self.past.0.clone() }
    }

    fn is_known(&self, info: &SignatureInfoView<'_>, time_ms: u64) -> bool {
        self.would_know(info, time_ms, false)
    }

    /// The same, if the era `is_over` first.
    fn would_know(&self, info: &SignatureInfoView<'_>, time_ms: u64, is_over: bool) -> bool {
        let is_taken = match is_over {
            true => self.ended().contains(time_ms),
            false => self.taken.is_some_and(|(_, last_ms)| time_ms <= last_ms) || self.past.contains(time_ms),
        };
        is_taken
            || info.seq_num.is_some_and(|n| self.seq_num.is_some_and(|last| n <= last))
            || info.nonce.is_some_and(|n| self.nonces.iter().any(|known| **known == *n))
    }

    /// What is past when this era is.
    fn ended(&self) -> Spans {
        let mut past = self.past.clone();
        self.taken.into_iter().for_each(|span| past.insert(span));
        past
    }

    fn add(&mut self, info: &SignatureInfoView<'_>, time_ms: u64) {
        self.taken = Some((self.taken.map_or(time_ms, |(first_ms, _)| first_ms), time_ms));
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
        self.taken = None;
    }
}

impl Spans {
    /// As it is kept of keys that were forgotten.
    fn record(&self) -> TakenRecord {
        kept::encode(KeyDigest::default(), &Times { taken: None, past: self.0.clone() })
    }

    fn contains(&self, time_ms: u64) -> bool {
        self.0.iter().any(|(first_ms, last_ms)| (*first_ms..=*last_ms).contains(&time_ms))
    }

    fn insert(&mut self, (mut first_ms, mut last_ms): (u64, u64)) {
        self.0.retain(|(first, last)| {
            let is_apart = *last < first_ms || *first > last_ms;
            if !is_apart {
                (first_ms, last_ms) = (first_ms.min(*first), last_ms.max(*last));
            }
            is_apart
        });
        let place = self.0.partition_point(|(first, _)| *first < first_ms);
        self.0.insert(place, (first_ms, last_ms));
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

    fn take(history: &mut History, key: &str, time_ms: u64, now: CommandTime) -> bool {
        let info = info(time_ms);
        let key = key.parse().unwrap();
        // Whoever looks first is told the same.
        let looked = history.look(&key, &info, time_ms, now);
        let taken = history.take(&key, &info, time_ms, now);
        assert_eq!(looked, taken, "{time_ms} at {now:?}");
        taken.is_ok()
    }

    /// Keeps records as a file does, for as long as the test wants.
    #[derive(Clone, Debug)]
    struct Memory {
        records: Arc<Mutex<Vec<TakenRecord>>>,
        fails: bool,
    }

    impl TakenStore for Memory {
        fn keep(&mut self, place: usize, record: &TakenRecord) -> io::Result<()> {
            self.records.lock().unwrap()[place] = *record;
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
        history.keep_in(Box::new(memory.clone()), &former, now).unwrap();
        history
    }

    #[test]
    fn what_is_older_than_the_process_is_told_by_the_clock_as_it_is_now() {
        const SLACK: u64 = COMMAND_START_TOLERANCE_MS;
        for (history, tolerance_ms) in
            [(History::new(at(1000, T)), 0), (started(&memory(), at(1000, T)), SLACK)]
        {
            for (time_ms, now, is_before) in [
                (T, at(1000, T), false),
                (T - tolerance_ms, at(1000, T), false),
                (T - tolerance_ms - 1, at(1000, T), true),
                // A minute later it is as old as it was.
                (T - tolerance_ms - 1, at(61_000, T + 60_000), true),
                (T, at(61_000, T + 60_000), false),
                // The clock was a year ahead when the process started, and was set right.
                (T - YEAR_MS, at(2000, T - YEAR_MS + 1000), false),
                (T - YEAR_MS - 1000, at(2000, T - YEAR_MS + 1000), true),
                // It was a year behind.
                (T + YEAR_MS, at(2000, T + YEAR_MS + 1000), false),
                (T + YEAR_MS - 1000, at(2000, T + YEAR_MS + 1000), true),
            ] {
                assert_eq!(history.is_before_start(time_ms, now), is_before, "{time_ms} at {now:?}");
            }
        }
    }

    #[test]
    fn what_a_former_process_took_is_not_taken_however_far_its_sender_is_ahead() {
        let memory = memory();
        let mut first = started(&memory, at(0, T));
        for (key, time_ms) in [("/right", T + 10), ("/ahead", T + COMMAND_GRACE_MS)] {
            assert!(take(&mut first, key, time_ms, at(10, T + 10)));
        }
        // It ends at once, and so does the next one.
        for start_ms in [11, 12] {
            let now = at(start_ms, T + start_ms);
            let mut next = started(&memory, now);
            assert!(!take(&mut next, "/right", T + 10, now));
            assert!(!take(&mut next, "/ahead", T + COMMAND_GRACE_MS, now));
            assert!(take(&mut next, "/right", T + start_ms, now), "the next command");
            assert!(take(&mut next, &format!("/new{start_ms}"), T + 10, now), "another key's");
            assert!(!take(&mut next, "/ahead", T + COMMAND_GRACE_MS, now), "still");
        }
    }

    #[test]
    fn a_clock_that_was_set_between_two_processes_shuts_nobody_out() {
        let memory = memory();
        let mut first = started(&memory, at(0, T + YEAR_MS));
        assert!(take(&mut first, "/k", T + YEAR_MS, at(0, T + YEAR_MS)));
        let back = at(5000, T + 5000);
        let mut next = started(&memory, back);
        assert!(take(&mut next, "/k", T + 5000, back), "the present");
        // A year later the command of then is still known, also to another process.
        let later = at(0, T + YEAR_MS);
        let mut last = started(&memory, later);
        assert!(!take(&mut last, "/k", T + YEAR_MS, later));
        assert!(take(&mut last, "/k", T + YEAR_MS + 1, later));
    }

    #[test]
    fn so_many_keys_are_kept_and_those_that_are_forgotten_too() {
        let memory = memory();
        let mut history = started(&memory, at(0, T));
        for n in 0..COMMAND_KEYS_MAX as u64 {
            assert!(take(&mut history, &format!("/k{n}"), T + n, at(n, T + n)));
        }
        let now = at(COMMAND_KEYS_MAX as u64, T + COMMAND_KEYS_MAX as u64);
        assert!(!take(&mut history, "/one/more", T + COMMAND_KEYS_MAX as u64, now));
        // The next process knows them, has no room for another one until they are old, and then
        // none of theirs is taken where the clock is set back.
        let mut next = started(&memory, now);
        assert!(!take(&mut next, "/k7", T + 7, now));
        assert!(!take(&mut next, "/one/more", T + COMMAND_KEYS_MAX as u64, now));
        let later_ms = COMMAND_KEYS_MAX as u64 + 2 * COMMAND_GRACE_MS + 1;
        let later = at(later_ms, T + later_ms);
        assert!(take(&mut next, "/one/more", T + later_ms, later));
        let back = at(later_ms + 1, T + 1);
        let mut last = started(&memory, back);
        assert!(!take(&mut last, "/k1", T + 1, back), "taken before");
    }

    #[test]
    fn what_cannot_be_kept_is_not_taken() {
        let mut memory = memory();
        let former = memory.records.lock().unwrap().clone();
        memory.fails = true;
        assert!(History::new(at(0, T)).keep_in(Box::new(memory.clone()), &former, at(0, T)).is_err());
        memory.fails = false;
        let mut history = started(&memory, at(0, T));
        history.kept.as_mut().unwrap().store = Box::new(Memory { fails: true, ..memory });
        let (key, info) = ("/k".parse().unwrap(), info(T));
        let refused = history.take(&key, &info, T, at(0, T));
        assert_eq!(refused, Err(CommandRefusal::NotKept(io::ErrorKind::StorageFull)));
        assert!(matches!(history.take(&key, &info, T, at(0, T)), Err(CommandRefusal::Replayed { .. })));
    }

    #[test]
    fn a_clock_that_was_set_back_lets_the_present_in_and_nothing_twice() {
        let mut history = History::new(at(0, T));
        assert!(take(&mut history, "/k", T + 10, at(10, T + 10)));
        // A year ahead for a minute, then right again.
        assert!(take(&mut history, "/k", T + YEAR_MS, at(1000, T + YEAR_MS)));
        assert!(take(&mut history, "/k", T + YEAR_MS + 50, at(1050, T + YEAR_MS + 50)));
        let back = at(61_000, T + 61_000);
        assert!(!take(&mut history, "/k", T + 10, back), "from before the step");
        assert!(take(&mut history, "/k", T + 61_000, back), "the present");
        assert!(!take(&mut history, "/k", T + 61_000, back), "twice");
        // A year later the minute of then is closed, and no more.
        for (time_ms, is_taken) in [
            (T + YEAR_MS - 1, true),
            (T + YEAR_MS, false),
            (T + YEAR_MS + 50, false),
            (T + YEAR_MS + 51, true),
        ] {
            assert_eq!(take(&mut history, "/k", time_ms, at(YEAR_MS, T + YEAR_MS)), is_taken, "{time_ms}");
        }
    }

    #[test]
    fn a_clock_that_is_slewed_begins_no_era() {
        for (moved_ms, is_taken) in [(COMMAND_CLOCK_STEP_MS, false), (COMMAND_CLOCK_STEP_MS + 1, true)] {
            let mut history = History::new(at(0, T));
            assert!(take(&mut history, "/k", T + 1000, at(0, T)));
            let now = at(5000, T + 5000 - moved_ms);
            assert_eq!(take(&mut history, "/k", T + 999, now), is_taken, "{moved_ms}");
        }
    }

    #[test]
    fn a_key_that_was_forgotten_is_not_believed_again_when_the_clock_goes_back() {
        let mut history = History::new(at(0, T));
        for n in 0..COMMAND_KEYS_MAX as u64 {
            assert!(take(&mut history, &format!("/k{n}"), T + n, at(n, T + n)));
        }
        let later_ms = 2 * COMMAND_GRACE_MS + COMMAND_KEYS_MAX as u64;
        assert!(take(&mut history, "/new", T + later_ms, at(later_ms, T + later_ms)));
        assert_eq!(history.keys(), 1);
        let back = at(later_ms + 1, T + 1);
        assert!(!take(&mut history, "/k1", T + 1, back), "taken before");
        assert!(take(&mut history, "/k1", T + later_ms, back), "never taken");
    }

    #[test]
    fn spans_beyond_the_limit_join_the_nearest() {
        let mut spans = Spans::default();
        for n in 0..COMMAND_SPANS_MAX as u64 {
            spans.insert((100 * n, 100 * n + 10));
        }
        assert_eq!(spans.0.len(), COMMAND_SPANS_MAX);
        assert!(!spans.contains(115));
        spans.insert((120, 130));
        assert_eq!(spans.0.len(), COMMAND_SPANS_MAX);
        assert!(spans.contains(115) && !spans.contains(90) && !spans.contains(140));
        spans.insert((0, 10_000));
        assert_eq!(spans.0, [(0, 10_000)]);
    }
}

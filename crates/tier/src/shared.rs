//! State that a tier's workers, engines and keeper share: lookups, reads and writes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use namely_host::shares::Owner;
use namely_wire::{Name, NameRef, PACKET_OCTETS_MAX};
use parking_lot::{Condvar, Mutex, RwLock};

use super::above::{PrefixEntry, PrefixIndex, heads};
use super::admission::Gate;
use super::ahead::{PART_OCTETS, PartKey, ReadAhead, ReadPlan, extent};
use super::buffer::{Buffer, Pool, blocks};
use super::completion::{
    Bypass, Inbox, LookupResult, NameMatch, ReadId, ReadOutcome, StoredData, Wakeups, WriteOutcome,
};
use super::erased::{Erased, Erasures};
use super::error::TierError;
use super::health::Health;
use super::index::{Index, IndexLookup};
use super::log::Log;
use super::medium::Medium;
use super::options::Options;
use super::place::{Expiry, RecordPosition};
use super::queue::{Job, Queue};
use super::record::{self, Key, Record};
use super::segment::{IndexRecord, Segment};
use super::status::{Count, Counters};

/// A read that waits for its octets.
#[derive(Debug)]
pub(crate) struct PendingRead {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) id: ReadId,
    pub(crate) hash: u64,
    pub(crate) place: RecordPosition,
    pub(crate) name: Box<[u8]>,
    pub(crate) below: NameMatch,
    /// The segment number of the name, if the name ends with one.
    pub(crate) segment: Option<u64>,
    /// Time at which the Data must be fresh; 0: no requirement.
    pub(crate) fresh_at_ms: u64,
    /// The holder of the read.
    pub(crate) holder: Owner,
}

/// The caller of a read, and its number for the read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadRequester<'a> {
    pub(crate) inbox: &'a Arc<Inbox>,
    pub(crate) id: ReadId,
    pub(crate) holder: Owner,
}

/// The readers of a request to the disk.
#[derive(Debug)]
pub(crate) enum Readers {
    One(PendingRead),
    /// All readers that wait for a part, including later ones.
    Part(PartKey),
}

/// Orders to the keeper.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Synchronizations requested and done, by number.
    pub(crate) syncs_asked: u64,
    pub(crate) syncs_done: u64,
    /// The last synchronization that a caller requested and that failed, with its error.
    pub(crate) failed: Option<(u64, String)>,
    /// The last synchronization that a caller requested. Only such a one reports a doubt: after a
    /// periodic one, the loss of written data would stay unreported.
    pub(crate) caller_sync: u64,
    /// Whether there may be work.
    pub(crate) is_woken: bool,
    pub(crate) is_closing: bool,
}

impl Orders {
    /// Requests a synchronization for a caller. Returns its number.
    pub(crate) fn request_sync(&mut self) -> u64 {
        // A synchronization in progress does not cover Data that was written since it began.
        self.syncs_asked += 1;
        self.caller_sync = self.syncs_asked;
        self.syncs_asked
    }

    /// Returns the error of the synchronization with this number, or of a later one.
    pub(crate) fn sync_failure(&self, number: u64) -> Option<String> {
        let covers = |failed: &&(u64, String)| number <= failed.0;
        self.failed.as_ref().filter(covers).map(|(_, message)| message.clone())
    }
}

/// A tier, as all its threads share it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) medium: Medium,
    pub(crate) options: Options,
    pub(crate) key: Key,
    /// Time of opening; the index counts expiries from it.
    pub(crate) base_ms: u64,
    pub(crate) index: Index,
    pub(crate) above: PrefixIndex,
    /// Segments by slot.
    pub(crate) segments: RwLock<Vec<Option<Arc<Segment>>>>,
    pub(crate) log: Mutex<Log>,
    pub(crate) queue: Queue<Readers>,
    pub(crate) ahead: ReadAhead<PendingRead>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) orders: Mutex<Orders>,
    /// Notifies the keeper of orders, and other threads of its progress.
    pub(crate) bell: Condvar,
    pub(crate) counters: Counters<Count>,
    pub(crate) budget: Budget,
    /// Number of pending requests from which on requests bypass the disk. Relaxed: a stale value
    /// only lets a few requests more or fewer pass.
    pub(crate) threshold: AtomicUsize,
    pub(crate) health: Health,
    pub(crate) erased: Erasures,
    pub(crate) retention: Retention,
    pub(crate) gate: Gate,
}

/// Octets of all segments, and their limit. Relaxed: the numbers guard no other memory.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) octets: AtomicU64,
    pub(crate) octets_max: AtomicU64,
}

/// Data that are written again when their segment is evicted.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    /// Prefixes with Data that are retained.
    pub(crate) pinned: RwLock<Vec<Name>>,
    pub(crate) wanted: RwLock<Option<RetentionFilter>>,
}

/// Decides by the name whether Data are written again when their segment is evicted.
pub(crate) struct RetentionFilter(pub(crate) Box<dyn Fn(NameRef<'_>) -> bool + Send + Sync>);

impl std::fmt::Debug for RetentionFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RetentionFilter")
    }
}

impl Shared {
    /// Hashes a name for the index. The name must have no implicit digest.
    pub(crate) fn hash(&self, name: NameRef<'_>) -> u64 {
        self.key.hash(name.as_bytes())
    }

    /// Returns the index entry of a record at `offset` of the segment in `slot`.
    pub(crate) fn recorded(&self, slot: usize, offset: u64, whole: &Record<'_>) -> IndexRecord {
        let expiry = Expiry::new(whole.expires_ms, self.base_ms);
        let place = RecordPosition::new(slot, offset, record::record_octets(whole.packet.len()), expiry);
        IndexRecord { hash: self.hash(whole.name), place, expires_ms: whole.expires_ms }
    }

    pub(crate) fn read(
        &self,
        name: NameRef<'_>,
        below: NameMatch,
        fresh_at_ms: Option<u64>,
        bypass: Bypass,
        asker: ReadRequester<'_>,
    ) -> LookupResult {
        let has_digest = name.last().is_some_and(|last| last.is_implicit_digest());
        // The index has names without the digest, which the caller compares.
        let name = if has_digest { name.without_last(1) } else { name };
        let (hash, below) = self.hash_below(self.hash(name), below);
        let is_over = |place: RecordPosition| {
            fresh_at_ms.is_some_and(|now_ms| place.expiry().is_over(now_ms, self.base_ms))
        };
        let mut segment = None;
        let look = self.index.look(hash, |place| {
            // The segment is taken under the shard's lock. While the lock is held, the record stays
            // in the index, and therefore its segment in the slot. Later the slot may belong to
            // another segment.
            segment = self.segments.read().get(place.slot()).cloned().flatten();
            if is_over(place) { place } else { place.read() }
        });
        let place = match look {
            IndexLookup::Filtered => {
                self.counters.bypassed_filter.add(1);
                return LookupResult::Absent;
            }
            IndexLookup::Missing => {
                self.counters.false_positives.add(1);
                return LookupResult::Absent;
            }
            IndexLookup::Found(place) if is_over(place) => {
                self.counters.stale.add(1);
                return LookupResult::Absent;
            }
            IndexLookup::Found(place) => place,
        };
        // The segment was evicted, and with it the record.
        let Some(segment) = segment else { return LookupResult::Absent };
        let fresh_at_ms = fresh_at_ms.unwrap_or(0);
        let reader = PendingRead {
            inbox: asker.inbox.clone(),
            id: asker.id,
            hash,
            place,
            name: name.as_bytes().into(),
            below,
            segment: name.last().and_then(|last| last.segment()),
            fresh_at_ms,
            holder: asker.holder,
        };
        self.begin(segment, reader, bypass)
    }

    /// Returns the hash to look up: that of the name or, if the index has no record of the name and
    /// Data below it matches, that of a packet below it.
    fn hash_below(&self, hash: u64, below: NameMatch) -> (u64, NameMatch) {
        let is_there = || matches!(self.index.look(hash, |place| place), IndexLookup::Found(_));
        match below {
            NameMatch::Prefix if !is_there() => match self.above.find(hash) {
                Some(of_other) => (of_other, NameMatch::Prefix),
                None => (hash, NameMatch::Exact),
            },
            _ => (hash, NameMatch::Exact),
        }
    }

    /// Records the names above a packet that has been written to a segment.
    pub(crate) fn enter_heads(&self, segment: &Segment, name: NameRef<'_>, hash: u64) {
        for head in heads(&self.key, name, hash) {
            self.above.insert(head);
            segment.heads.lock().push(head);
        }
    }

    /// Returns the names above a packet without recording them.
    pub(crate) fn heads_of(&self, name: NameRef<'_>, hash: u64) -> impl Iterator<Item = PrefixEntry> {
        heads(&self.key, name, hash)
    }

    /// Octets of memory of the index and of the other tables of names.
    pub(crate) fn memory_octets(&self) -> usize {
        self.index.memory_octets() + self.above.memory_octets() + self.gate.memory_octets()
    }

    fn begin(&self, segment: Arc<Segment>, reader: PendingRead, bypass: Bypass) -> LookupResult {
        let (place, holder) = (reader.place, reader.holder);
        // Acquire pairs with the Release in `seal`: all records of a sealed segment are in the
        // file. A group leaves the log only after its write has ended, so a record that the log
        // does not have is in the file, too.
        if !segment.is_sealed.load(Ordering::Acquire) {
            let log = self.log.lock();
            if let Some(octets) = log.record(&segment, place) {
                let mut buffer = self.pool.take(octets.len());
                // Copied, because the memory of the group is used again after its write.
                buffer.copy_from_slice(octets);
                drop(log);
                self.counters.hits_memory.add(1);
                let data =
                    self.data_unchecked(Arc::new(buffer), 0).filter(|data| self.is_wanted(data, &reader));
                let outcome = data.map_or(ReadOutcome::Absent, ReadOutcome::Found);
                // Delivered to the inbox like the result of the disk, because `Reading` promises
                // one completion.
                self.deliver(&segment, &reader, outcome, &mut Wakeups::default());
                return LookupResult::Reading;
            }
        }
        let threshold = self.threshold.load(Ordering::Relaxed);
        if bypass == Bypass::Possible && !self.queue.has_room(holder, threshold) {
            self.counters.bypassed_reads.add(1);
            return LookupResult::Busy;
        }
        // The check reserves no room, so concurrent callers may exceed the limit by one each.
        if !self.queue.has_room(holder, self.options.pending_max) {
            self.counters.refused_reads.add(1);
            return LookupResult::Busy;
        }
        let (reader, (offset, octets)) = match self.plan_read(&segment, reader) {
            ReadPlan::InMemory(reader, part) => {
                self.counters.hits_memory.add(1);
                let offset = place.offset() / PART_OCTETS * PART_OCTETS;
                self.finish_read(&segment, offset, &part, &reader, &mut Wakeups::default());
                return LookupResult::Reading;
            }
            ReadPlan::Pending => return LookupResult::Reading,
            ReadPlan::Read(part) => {
                self.counters.read_ahead.add(1);
                (Readers::Part(part), extent(&segment, part))
            }
            ReadPlan::Single(reader) => (Readers::One(reader), blocks(place.offset(), place.octets())),
        };
        let buffer = self.pool.take(octets);
        self.queue.push(Job::Read { segment, offset, buffer, reader, holder });
        LookupResult::Reading
    }

    fn plan_read(&self, segment: &Segment, reader: PendingRead) -> ReadPlan<PendingRead> {
        // Acquire pairs with the Release in `seal`, so that `extent` reads the segment's final end.
        if !self.options.read_ahead || !segment.is_sealed.load(Ordering::Acquire) {
            return ReadPlan::Single(reader);
        }
        self.ahead.ask(segment.number, reader.place, reader.segment, reader)
    }

    /// Reads the record at `start` of a buffer that is not on the disk yet. The check is not
    /// verified, because it may not be computed yet.
    fn data_unchecked(&self, octets: Arc<Buffer>, start: usize) -> Option<StoredData> {
        let whole = record::Header::read(octets.get(start..)?)?;
        let (packet_octets, expires_ms) = (whole.packet_octets()?, whole.expires_ms());
        Some(StoredData { octets, start, packet_octets, expires_ms })
    }

    /// Reads the record at `start` of octets that were read from a segment.
    fn data(&self, segment: &Segment, octets: &Arc<Buffer>, start: usize) -> Option<StoredData> {
        let checks = self.key.checks(segment.extent.salt());
        let whole = record::read(&checks, octets.get(start..)?)?;
        let (packet_octets, expires_ms) = (whole.packet.len(), whole.expires_ms);
        Some(StoredData { octets: octets.clone(), start, packet_octets, expires_ms })
    }

    /// Returns whether the Data has the requested name and freshness.
    fn is_wanted(&self, data: &StoredData, reader: &PendingRead) -> bool {
        let is_it = |name: NameRef<'_>| match reader.below {
            NameMatch::Exact => name.as_bytes() == &*reader.name,
            NameMatch::Prefix => name.as_bytes().starts_with(&reader.name),
        };
        let name = namely_wire::DataView::parse(data.packet()).map(|data| data.name);
        // Two names may have one hash, so the name in the packet decides.
        if name.is_ok_and(|name| !is_it(name)) {
            self.counters.collisions.add(1);
            return false;
        }
        if reader.fresh_at_ms > 0 && data.expires_ms != 0 && data.expires_ms <= reader.fresh_at_ms {
            self.counters.stale.add(1);
            return false;
        }
        true
    }

    /// Delivers the outcome to a reader; erased Data becomes absent.
    fn deliver(&self, segment: &Segment, reader: &PendingRead, outcome: ReadOutcome, bells: &mut Wakeups) {
        let is_erased = |data: &StoredData| {
            let erased = self.erased.prefixes.read();
            // Records of erasures that are done are out of the index, so the packet need not be
            // parsed.
            if erased.iter().all(|erased| erased.is_done) {
                return false;
            }
            // The Data's own name is compared. It may lie below the requested name, and be erased
            // although the requested name is not.
            let covers = |name: &[u8]| {
                let covers = |erased: &Erased| {
                    segment.number <= erased.segment && name.starts_with(erased.prefix.as_bytes())
                };
                erased.iter().any(|erased| !erased.is_done && covers(erased))
            };
            let name = namely_wire::DataView::parse(data.packet()).map(|data| data.name);
            name.map_or_else(|_| covers(&reader.name), |name| covers(name.as_bytes()))
        };
        let outcome = match outcome {
            ReadOutcome::Found(data) if is_erased(&data) || self.is_refused(&data) => ReadOutcome::Absent,
            outcome => outcome,
        };
        let is_found = matches!(outcome, ReadOutcome::Found(_));
        let count = if is_found { &self.counters.hits } else { &self.counters.misses };
        count.add(1);
        reader.inbox.deliver(reader.id, outcome, bells);
    }

    /// Returns whether this packet waits to be erased by its full name.
    fn is_refused(&self, data: &StoredData) -> bool {
        self.erased.packets.any(|erasure| erasure.is_of(data.packet()))
    }

    /// Returns whether the number of pending requests has reached the threshold.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.pending() >= self.threshold.load(Ordering::Relaxed)
    }

    pub(crate) fn write(&self, name: NameRef<'_>, packet: &[u8], expires_ms: u64) -> WriteOutcome {
        debug_assert!(!packet.is_empty() && packet.len() <= PACKET_OCTETS_MAX);
        if packet.is_empty() || packet.len() > PACKET_OCTETS_MAX {
            return WriteOutcome::Busy;
        }
        if self.health.is_resting() {
            self.counters.resting.add(1);
            return WriteOutcome::Busy;
        }
        // A record that was replaced before its removal would stay in the index of its segment, and
        // would be found again after a restart. So nothing replaces it until the keeper removed it.
        if self.erased.packets.any(|erasure| erasure.name.as_name() == name) {
            self.counters.known.add(1);
            return WriteOutcome::Duplicate;
        }
        let hash = self.hash(name);
        let expiry = Expiry::new(expires_ms, self.base_ms);
        let known = self.index.look(hash, |place| place);
        // Data with a later expiry replaces the record, because it can answer MustBeFresh for
        // longer.
        if matches!(known, IndexLookup::Found(place) if place.expiry() >= expiry && !self.may_be_erased(name))
        {
            self.counters.known.add(1);
            return WriteOutcome::Duplicate;
        }
        if self.is_busy() {
            self.counters.bypassed_writes.add(1);
            return WriteOutcome::Busy;
        }
        if self.index.records() >= self.options.records_max() {
            self.counters.no_room.add(1);
            self.wake_keeper();
            return WriteOutcome::Busy;
        }
        let mut log = self.log.lock();
        let groups = log.groups();
        let place = log.append(hash, packet, expires_ms, expiry);
        // Inserted under the log's lock, so that of two writes of one name the later one is found.
        if let Some(place) = place {
            self.index.insert(hash, place);
            if let Some(segment) = log.filled() {
                self.enter_heads(segment, name, hash);
            }
            if self.options.writes_alone {
                // Ignored: if too many groups wait, the record stays in its group and is written
                // with the next record.
                let _ = log.end_group();
            }
        }
        // The keeper is woken only if it has work, because a wake-up takes a lock and a system
        // call.
        let wakes = place.is_none() || log.groups() > groups || log.wants_segment();
        drop(log);
        if wakes {
            self.wake_keeper();
        }
        match place {
            Some(place) => {
                self.counters.written.add(1);
                self.counters.written_octets.add(place.octets() as u64);
                WriteOutcome::Accepted
            }
            None => {
                self.counters.no_room.add(1);
                WriteOutcome::Busy
            }
        }
    }

    /// Returns whether the record of a name may be unusable: a prefix of it is being erased.
    fn may_be_erased(&self, name: NameRef<'_>) -> bool {
        let is_below = |erased: &Erased| !erased.is_done && erased.prefix.as_name().is_prefix_of(name);
        self.erased.prefixes.read().iter().any(is_below)
    }

    pub(crate) fn wake_keeper(&self) {
        let mut orders = self.orders.lock();
        if !orders.is_woken {
            orders.is_woken = true;
            self.bell.notify_all();
        }
    }

    /// Ends a request with its result. Its readers are woken by `bells`.
    pub(crate) fn finish(&self, job: Job<Readers>, result: io::Result<()>, bells: &mut Wakeups) {
        match job {
            Job::Read { segment, offset, buffer, reader, holder } => {
                self.counters.disk_reads.add(1);
                // The request ends before the readers are notified, so that a reader with its
                // completion finds no request pending.
                self.queue.done(Some(holder));
                self.finish_reads(&segment, offset, Arc::new(buffer), reader, result, bells);
            }
            Job::Write(writing) => {
                self.counters.disk_writes.add(1);
                let number = writing.number;
                // The job's reference to the buffer must be gone, so that `finish_write` can reuse
                // the memory.
                drop(writing);
                self.finish_write(number, result);
                self.queue.done(None);
                self.wake_keeper();
            }
        }
    }

    fn finish_reads(
        &self,
        segment: &Segment,
        offset: u64,
        octets: Arc<Buffer>,
        readers: Readers,
        result: io::Result<()>,
        bells: &mut Wakeups,
    ) {
        let readers = match readers {
            Readers::One(reader) => vec![reader],
            Readers::Part(key) => self.ahead.done(key, result.is_ok().then_some(&octets)),
        };
        if let Err(error) = result {
            self.counters.read_errors.add(1);
            for reader in &readers {
                // The same read would probably fail again, so later Interests go upstream.
                self.index.remove(reader.hash, reader.place);
                self.deliver(segment, reader, ReadOutcome::Failed, bells);
            }
            self.note_fault(TierError::new(self.medium.path(), error), false);
            return;
        }
        for reader in &readers {
            self.finish_read(segment, offset, &octets, reader, bells);
        }
    }

    /// Delivers a reader's record from octets that were read from `offset` on.
    fn finish_read(
        &self,
        segment: &Segment,
        offset: u64,
        octets: &Arc<Buffer>,
        reader: &PendingRead,
        bells: &mut Wakeups,
    ) {
        let data = self.data(segment, octets, (reader.place.offset() - offset) as usize);
        if data.is_none() {
            self.counters.damaged.add(1);
            self.index.remove(reader.hash, reader.place);
        }
        let wanted = data.filter(|data| self.is_wanted(data, reader));
        self.counters.read_octets.add(wanted.as_ref().map_or(0, |data| data.packet().len()) as u64);
        self.deliver(segment, reader, wanted.map_or(ReadOutcome::Absent, ReadOutcome::Found), bells);
    }

    fn finish_write(&self, number: u64, result: io::Result<()>) {
        let mut log = self.log.lock();
        // Once the group has left the log, readers read its records from the disk and not from the
        // log's memory.
        let Some(group) = log.written(number) else { return };
        let is_written = result.is_ok();
        if is_written {
            group.segment.records.lock().extend_from_slice(&group.records);
        } else {
            // The records may be on the disk in part, so no read may find them.
            for record in &group.records {
                self.index.remove(record.hash, record.place);
            }
        }
        log.reuse(group.buffer);
        // Subtracted after the records are noted: at 0 the segment can be sealed with all of them.
        // Release pairs with the Acquire in `Log::take_ended`.
        group.segment.groups.fetch_sub(1, Ordering::Release);
        drop(log);
        if let Err(error) = result {
            self.note_write_error(TierError::new(self.medium.path(), error));
        }
    }

    /// Records a failed write.
    pub(crate) fn note_write_error(&self, error: TierError) {
        self.counters.write_errors.add(1);
        self.health.doubt(&error);
        self.note_fault(error, true);
    }

    /// Records a fault of the disk, which is logged once. If `rests`, writes are suspended for a
    /// while.
    pub(crate) fn note_fault(&self, error: TierError, rests: bool) {
        self.health.note_fault(self.medium.path(), &error);
        if rests {
            self.health.rest(self.options.rest);
        }
    }
}

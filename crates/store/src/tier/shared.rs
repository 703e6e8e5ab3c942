//! What workers, engines and the keeper of a tier share: looking up, reading and writing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use namely_host::shares::Holder;
use namely_wire::{Name, NameRef, PACKET_OCTETS_MAX};
use parking_lot::{Condvar, Mutex, RwLock};

use super::above::{Above, Head, heads};
use super::admission::Gate;
use super::ahead::{Ahead, PART_OCTETS, PartKey, Way, extent};
use super::buffer::{Buffer, Pool, blocks};
use super::completion::{Asked, Bells, Below, Bypass, Inbox, Outcome, ReadId, StoredData, Written};
use super::erased::Erased;
use super::error::TierError;
use super::index::{Index, Look};
use super::log::Log;
use super::medium::Medium;
use super::options::Options;
use super::place::{Expiry, Place};
use super::queue::{Job, Queue};
use super::record::{self, Key, Whole};
use super::segment::{Recorded, Segment};
use super::status::Counters;

/// A read that waits for its octets.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) id: ReadId,
    pub(crate) hash: u64,
    pub(crate) place: Place,
    pub(crate) name: Box<[u8]>,
    pub(crate) below: Below,
    /// Its segment, if the name ends with one.
    pub(crate) segment: Option<u64>,
    /// It must be fresh then; 0: whenever.
    pub(crate) fresh_at_ms: u64,
    /// For whom it is.
    pub(crate) holder: Holder,
}

/// For whom the disk is read.
#[derive(Debug)]
pub(crate) enum For {
    One(Reader),
    /// All who wait for a part, and those who will come.
    Part(PartKey),
}

/// What the keeper is asked to do.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Synchronisations that were asked for, that are under way, and that are done; what the last
    /// one said.
    pub(crate) syncs_asked: u64,
    pub(crate) syncs_done: u64,
    pub(crate) failed: Option<String>,
    /// Something may be to be done.
    pub(crate) is_woken: bool,
    pub(crate) is_closing: bool,
}

/// A tier, as all its threads have it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) medium: Medium,
    pub(crate) options: Options,
    pub(crate) key: Key,
    /// When it was opened: what the index counts expiries from.
    pub(crate) base_ms: u64,
    pub(crate) index: Index,
    pub(crate) above: Above,
    /// Segments by slot.
    pub(crate) segments: RwLock<Vec<Option<Arc<Segment>>>>,
    pub(crate) log: Mutex<Log>,
    pub(crate) queue: Queue<For>,
    pub(crate) ahead: Ahead<Reader>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) orders: Mutex<Orders>,
    /// Tells the keeper of orders, and others of what it did.
    pub(crate) bell: Condvar,
    pub(crate) counters: Counters,
    pub(crate) octets: AtomicU64,
    pub(crate) octets_max: AtomicU64,
    pub(crate) threshold: AtomicUsize,
    /// Until when nothing is written.
    pub(crate) rests_until: Mutex<Option<Instant>>,
    pub(crate) is_resting: AtomicBool,
    pub(crate) fault: Mutex<Option<String>>,
    /// What was written since the last synchronisation may not be on the disk.
    pub(crate) is_doubtful: AtomicBool,
    pub(crate) erased: RwLock<Vec<Erased>>,
    pub(crate) pinned: RwLock<Vec<Name>>,
    pub(crate) wanted: RwLock<Option<Wanted>>,
    pub(crate) gate: Gate,
}

/// Says of a name whether its Data are written again when their segment is thrown away.
pub(crate) struct Wanted(pub(crate) Box<dyn Fn(NameRef<'_>) -> bool + Send + Sync>);

impl std::fmt::Debug for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wanted")
    }
}

impl Shared {
    /// By what a name is found: without its implicit digest.
    pub(crate) fn hash(&self, name: NameRef<'_>) -> u64 {
        self.key.hash(name.as_bytes())
    }

    /// The index entry of a record at `offset` of the segment in `slot`.
    pub(crate) fn recorded(&self, slot: usize, offset: u64, whole: &Whole<'_>) -> Recorded {
        let expiry = Expiry::new(whole.expires_ms, self.base_ms);
        let place = Place::new(slot, offset, record::record_octets(whole.packet.len()), expiry);
        Recorded { hash: self.hash(whole.name), place, expires_ms: whole.expires_ms }
    }

    pub(crate) fn read(
        &self,
        (name, below): (NameRef<'_>, Below),
        fresh_at_ms: Option<u64>,
        bypass: Bypass,
        (inbox, id, holder): (&Arc<Inbox>, ReadId, Holder),
    ) -> Asked {
        let has_digest = name.last().is_some_and(|last| last.is_implicit_digest());
        let name = if has_digest { name.without_last(1) } else { name };
        let (hash, below) = self.hash_below(self.hash(name), below);
        let is_over =
            |place: Place| fresh_at_ms.is_some_and(|now_ms| place.expiry().is_over(now_ms, self.base_ms));
        let mut segment = None;
        let look = self.index.look(hash, |place| {
            // Taken while the record cannot be evicted: its slot may be another's a moment later.
            segment = self.segments.read().get(place.slot()).cloned().flatten();
            if is_over(place) { place } else { place.read() }
        });
        let place = match look {
            Look::Filtered => {
                self.counters.bypassed_filter.add(1);
                return Asked::Absent;
            }
            Look::Missing => {
                self.counters.false_positives.add(1);
                return Asked::Absent;
            }
            Look::There(place) if is_over(place) => {
                self.counters.stale.add(1);
                return Asked::Absent;
            }
            Look::There(place) => place,
        };
        let Some(segment) = segment else { return Asked::Absent };
        let fresh_at_ms = fresh_at_ms.unwrap_or(0);
        let reader = Reader {
            inbox: inbox.clone(),
            id,
            hash,
            place,
            name: name.as_bytes().into(),
            below,
            segment: name.last().and_then(|last| last.segment()),
            fresh_at_ms,
            holder,
        };
        self.begin(segment, reader, bypass)
    }

    /// Which record to look for: that of the name's hash or, where there is none and Data below the
    /// name will do, one of that.
    fn hash_below(&self, hash: u64, below: Below) -> (u64, Below) {
        let is_there = || matches!(self.index.look(hash, |place| place), Look::There(_));
        match below {
            Below::Wanted if !is_there() => match self.above.find(hash) {
                Some(of_other) => (of_other, Below::Wanted),
                None => (hash, Below::Unwanted),
            },
            _ => (hash, Below::Unwanted),
        }
    }

    /// The packet of a name has been written to a segment: names above it lead to it.
    pub(crate) fn enter_heads(&self, segment: &Segment, name: NameRef<'_>, hash: u64) {
        for head in heads(&self.key, name, hash) {
            self.above.insert(head);
            segment.heads.lock().push(head);
        }
    }

    /// What of a segment that is read whole leads to a record.
    pub(crate) fn heads_of(&self, name: NameRef<'_>, hash: u64) -> impl Iterator<Item = Head> {
        heads(&self.key, name, hash)
    }

    /// Octets of memory that the index takes, with what else is known of names.
    pub(crate) fn memory_octets(&self) -> usize {
        self.index.memory_octets() + self.above.memory_octets() + self.gate.memory_octets()
    }

    fn begin(&self, segment: Arc<Segment>, reader: Reader, bypass: Bypass) -> Asked {
        let (place, holder) = (reader.place, reader.holder);
        if !segment.is_sealed.load(Ordering::Acquire) {
            let log = self.log.lock();
            if let Some(octets) = log.record(&segment, place) {
                let mut buffer = self.pool.take(octets.len());
                buffer.copy_from_slice(octets);
                drop(log);
                self.counters.hits_memory.add(1);
                let data =
                    self.data_unchecked(Arc::new(buffer), 0).filter(|data| self.is_wanted(data, &reader));
                let outcome = data.map_or(Outcome::Absent, Outcome::Found);
                self.deliver(&segment, &reader, outcome, &mut Bells::default());
                return Asked::Reading;
            }
        }
        let threshold = self.threshold.load(Ordering::Relaxed);
        if bypass == Bypass::Possible && !self.queue.has_room(holder, threshold) {
            self.counters.bypassed_reads.add(1);
            return Asked::Busy;
        }
        if !self.queue.has_room(holder, self.options.pending_max) {
            self.counters.refused_reads.add(1);
            return Asked::Busy;
        }
        let (reader, (offset, octets)) = match self.way_ahead(&segment, reader) {
            Way::There(reader, part) => {
                self.counters.hits_memory.add(1);
                let offset = place.offset() / PART_OCTETS * PART_OCTETS;
                self.finish_read(&segment, (offset, &part), &reader, &mut Bells::default());
                return Asked::Reading;
            }
            Way::Waits => return Asked::Reading,
            Way::Read(part) => {
                self.counters.read_ahead.add(1);
                (For::Part(part), extent(&segment, part))
            }
            Way::Alone(reader) => (For::One(reader), blocks(place.offset(), place.octets())),
        };
        let buffer = self.pool.take(octets);
        self.queue.push(Job::Read { segment, offset, buffer, reader, holder });
        Asked::Reading
    }

    fn way_ahead(&self, segment: &Segment, reader: Reader) -> Way<Reader> {
        if !self.options.read_ahead || !segment.is_sealed.load(Ordering::Acquire) {
            return Way::Alone(reader);
        }
        self.ahead.ask((segment.number, reader.place), reader.segment, reader)
    }

    /// The record at `start` of a buffer that was not on the disk yet, so that its check is not
    /// there either.
    fn data_unchecked(&self, octets: Arc<Buffer>, start: usize) -> Option<StoredData> {
        let whole = record::Header::read(octets.get(start..)?)?;
        let (packet_octets, expires_ms) = (whole.packet_octets()?, whole.expires_ms());
        Some(StoredData { octets, start, packet_octets, expires_ms })
    }

    /// The record at `start` of what was read of a segment.
    fn data(&self, segment: &Segment, octets: &Arc<Buffer>, start: usize) -> Option<StoredData> {
        let checks = self.key.checks(segment.extent.salt());
        let whole = record::read(&checks, octets.get(start..)?)?;
        let (packet_octets, expires_ms) = (whole.packet.len(), whole.expires_ms);
        Some(StoredData { octets: octets.clone(), start, packet_octets, expires_ms })
    }

    /// Whether it is what was asked for.
    fn is_wanted(&self, data: &StoredData, reader: &Reader) -> bool {
        let is_it = |name: NameRef<'_>| match reader.below {
            Below::Unwanted => name.as_bytes() == &*reader.name,
            Below::Wanted => name.as_bytes().starts_with(&reader.name),
        };
        let name = namely_wire::DataView::parse(data.packet()).map(|data| data.name);
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

    /// Gives a reader what it waited for, or nothing if that was erased.
    fn deliver(&self, segment: &Segment, reader: &Reader, outcome: Outcome, bells: &mut Bells) {
        let is_erased = |data: &StoredData| {
            let erased = self.erased.read();
            if erased.iter().all(|erased| erased.is_done) {
                return false;
            }
            // What lies below the name that was asked for may be erased where that is not.
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
            Outcome::Found(data) if is_erased(&data) => Outcome::Absent,
            outcome => outcome,
        };
        let is_found = matches!(outcome, Outcome::Found(_));
        let count = if is_found { &self.counters.hits } else { &self.counters.misses };
        count.add(1);
        reader.inbox.deliver(reader.id, outcome, bells);
    }

    /// Whether as many requests pend as the threshold says.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.pending() >= self.threshold.load(Ordering::Relaxed)
    }

    pub(crate) fn write(&self, name: NameRef<'_>, packet: &[u8], expires_ms: u64) -> Written {
        debug_assert!(!packet.is_empty() && packet.len() <= PACKET_OCTETS_MAX);
        if packet.is_empty() || packet.len() > PACKET_OCTETS_MAX {
            return Written::Busy;
        }
        if self.is_resting.load(Ordering::Relaxed) {
            self.counters.resting.add(1);
            return Written::Busy;
        }
        let hash = self.hash(name);
        let expiry = Expiry::new(expires_ms, self.base_ms);
        let known = self.index.look(hash, |place| place);
        if matches!(known, Look::There(place) if place.expiry() >= expiry && !self.may_be_erased(name)) {
            self.counters.known.add(1);
            return Written::Known;
        }
        if self.is_busy() {
            self.counters.bypassed_writes.add(1);
            return Written::Busy;
        }
        if self.index.records() >= self.options.records_max() {
            self.counters.no_room.add(1);
            self.wake_keeper();
            return Written::Busy;
        }
        let mut log = self.log.lock();
        let groups = log.groups();
        let place = log.append(hash, packet, (expires_ms, expiry));
        // Under the log's lock, so that of two that write one name the later one is found.
        if let Some(place) = place {
            self.index.insert(hash, place);
            if let Some(segment) = log.filled() {
                self.enter_heads(segment, name, hash);
            }
            if self.options.writes_alone {
                let _ = log.end_group();
            }
        }
        let wakes = place.is_none() || log.groups() > groups || log.wants_segment();
        drop(log);
        if wakes {
            self.wake_keeper();
        }
        match place {
            Some(place) => {
                self.counters.written.add(1);
                self.counters.written_octets.add(place.octets() as u64);
                Written::Taken
            }
            None => {
                self.counters.no_room.add(1);
                Written::Busy
            }
        }
    }

    /// Whether what is there under a name may be of no use: a prefix of it is being erased.
    fn may_be_erased(&self, name: NameRef<'_>) -> bool {
        self.erased.read().iter().any(|erased| !erased.is_done && erased.prefix.as_name().is_prefix_of(name))
    }

    pub(crate) fn wake_keeper(&self) {
        let mut orders = self.orders.lock();
        if !orders.is_woken {
            orders.is_woken = true;
            self.bell.notify_all();
        }
    }

    /// A request was done, as `result` says. Who waits for it is woken by `bells`.
    pub(crate) fn finish(&self, job: Job<For>, result: io::Result<()>, bells: &mut Bells) {
        match job {
            Job::Read { segment, offset, buffer, reader, holder } => {
                self.counters.disk_reads.add(1);
                // Before anybody is told: who has the completion finds nothing pending.
                self.queue.done(Some(holder));
                self.finish_reads(&segment, (offset, Arc::new(buffer)), reader, (result, bells));
            }
            Job::Write(writing) => {
                self.counters.disk_writes.add(1);
                let number = writing.number;
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
        (offset, octets): (u64, Arc<Buffer>),
        readers: For,
        (result, bells): (io::Result<()>, &mut Bells),
    ) {
        let readers = match readers {
            For::One(reader) => vec![reader],
            For::Part(key) => self.ahead.done(key, result.is_ok().then_some(&octets)),
        };
        if let Err(error) = result {
            self.counters.read_errors.add(1);
            for reader in &readers {
                self.index.remove(reader.hash, reader.place);
                self.deliver(segment, reader, Outcome::Failed, bells);
            }
            self.note_fault(TierError::new(self.medium.path(), error), false);
            return;
        }
        for reader in &readers {
            self.finish_read(segment, (offset, &octets), reader, bells);
        }
    }

    /// Gives a reader its record of what was read from `offset` on.
    fn finish_read(
        &self,
        segment: &Segment,
        (offset, octets): (u64, &Arc<Buffer>),
        reader: &Reader,
        bells: &mut Bells,
    ) {
        let data = self.data(segment, octets, (reader.place.offset() - offset) as usize);
        if data.is_none() {
            self.counters.damaged.add(1);
            self.index.remove(reader.hash, reader.place);
        }
        let wanted = data.filter(|data| self.is_wanted(data, reader));
        self.counters.read_octets.add(wanted.as_ref().map_or(0, |data| data.packet().len()) as u64);
        self.deliver(segment, reader, wanted.map_or(Outcome::Absent, Outcome::Found), bells);
    }

    fn finish_write(&self, number: u64, result: io::Result<()>) {
        let mut log = self.log.lock();
        let Some(group) = log.written(number) else { return };
        let is_written = result.is_ok();
        if is_written {
            group.segment.records.lock().extend_from_slice(&group.records);
        } else {
            for record in &group.records {
                self.index.remove(record.hash, record.place);
            }
        }
        log.reuse(group.buffer);
        group.segment.groups.fetch_sub(1, Ordering::Release);
        drop(log);
        if let Err(error) = result {
            self.note_write_error(TierError::new(self.medium.path(), error));
        }
    }

    /// Something could not be written.
    pub(crate) fn note_write_error(&self, error: TierError) {
        self.counters.write_errors.add(1);
        self.is_doubtful.store(true, Ordering::Release);
        self.note_fault(error, true);
    }

    /// The disk has failed: it is told once, and, if `rests`, nothing is written for a while.
    pub(crate) fn note_fault(&self, error: TierError, rests: bool) {
        let told = error.to_string();
        let mut fault = self.fault.lock();
        if fault.as_ref() != Some(&told) {
            tracing::warn!(folder = %self.medium.path().display(), error = %told, "the content store's disk");
            *fault = Some(told);
        }
        drop(fault);
        if rests {
            *self.rests_until.lock() = Some(Instant::now() + self.options.rest);
            self.is_resting.store(true, Ordering::Relaxed);
        }
    }
}

//! The disk tier of a content store: a cache of Data in one folder, or on one device, which never
//! blocks its callers. It stores packets by name, and has no part in forwarding.
//!
//! A worker uses its [`Caller`]. [`Caller::read`] returns at once: the tier has no Data, the disk
//! is too busy, or a read has begun. [`Caller::completed`] returns completed reads, and the
//! caller's descriptor can be polled for them. [`Tier::write`] accepts Data or refuses it. Reads
//! and writes make no system call except the one that wakes a thread of the tier. Threads of the
//! tier do all other work: the keeper, and the threads of its engine.
//!
//! ```
//! use namely_tier::{LookupResult, Bypass, Options, ReadId, Tier, WriteOutcome};
//! # use namely_security::{Signer, sign_data};
//! # use namely_wire::{DataBuilder, Name};
//! # let directory = tempfile::tempdir()?;
//! # let folder = directory.path().join("cs");
//! # let name: Name = "/lab/run7/v=1".parse().expect("a name");
//! # let packet = &sign_data(&DataBuilder::new(name.as_name()), b"42", &Signer::digest_sha256())?;
//! let tier = Tier::open(&folder, &Options::new(64 << 20))?;
//! let mut worker = tier.caller()?;
//! let id = ReadId(1);
//! assert_eq!(worker.read(id, name.as_name(), None, Bypass::Possible), LookupResult::Absent);
//! assert_eq!(worker.write(name.as_name(), packet, 0), WriteOutcome::Accepted);
//!
//! assert_eq!(worker.read(id, name.as_name(), None, Bypass::Possible), LookupResult::Reading);
//! // The worker polls its faces and the caller's descriptor, which becomes readable.
//! let completion = std::iter::repeat_with(|| worker.completed()).find_map(|done| done);
//! let completion = completion.expect("a read ends");
//! assert_eq!(completion.id, id);
//! assert_eq!(completion.outcome.found().expect("it was written").packet(), &packet[..]);
//! drop(worker);
//! tier.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//!
//! ```text
//! lock                       held as long as a tier is open
//! key                        32 random octets
//! segment-<number>.log       records; the newest segment has the highest number, of ten digits
//! segment-<number>.index     hashes and positions of a sealed segment's records
//! erased                     prefixes; their records in older segments are invalid
//! ```
//!
//! All numbers are little-endian. Checks and digests are keyed, so that no packet from the network
//! can pass for a record.
//!
//! ```text
//! segment-<number>.log
//! 0                       16           24                  56    4096
//! | "namely-segment-2" (16) | number (8) | BLAKE3 of both (32) | 0 | group | group | ...
//!
//! group: records, and zeros up to the next multiple of 4096
//!
//! record: as in a producer's store, and zeros up to the next multiple of 16
//! 0            4             12          20
//! | length (4) | expires (8) | check (8) | packet (length octets): one Data
//!
//! segment-<number>.index
//! 0                       16           24           32            36
//! | "namely-seg-idx-2" (16) | number (8) | octets (8) | entries (4) | entry | ... | head | ...
//! | BLAKE3 (32)
//!
//! entry
//! 0          8            12          16            24
//! | hash (8) | offset (4) | octets (4) | expires (8) |
//!
//! head
//! 0           8
//! | above (8) | hash (8) |
//!
//! erased
//! 0                       16           20
//! | "namely-erased-01" (16) | prefixes (4) | prefix | ... | BLAKE3 (32)
//!
//! prefix
//! 0             8        9                 11
//! | segment (8) | 1 (1)  | name octets (2) | name: its components' TLVs
//! ```
//!
//! - `check` of a record: SipHash-1-3 of `length`, `expires` and `packet`, with another key.
//! - `segment` of a prefix: the last segment that may hold its records. The octet after it is 1
//!   once no index lists any of these records.
//! - `offset` and `octets` of an entry: position and size of its record, in units of 16 octets.
//!   `octets` of an index: the octets of the segment in use.
//! - `hash`: SipHash-1-3 of the name's components, with a key derived from the folder's.
//! - `above`: the same hash of the name without its last one or two components. An Interest for
//!   this shorter name finds the packet, too. An index of the older format ("namely-seg-idx-1") has
//!   no heads, and is read all the same.
//!
//! # A device
//!
//! A block device, or a regular file in its place, has the same content in regions of one size,
//! without file names. A region is a segment, of the same groups and records, followed by the
//! segment's index.
//!
//! ```text
//! 0            4096     569344   1134592
//! | superblock | erased | erased | region | region | ...
//!
//! superblock
//! 0                       16           24                   32                 40
//! | "namely-device-01" (16) | octets (8) | segment octets (8) | index octets (8) | ...
//! 40            44         76            108   4096
//! | regions (4) | key (32) | BLAKE3 (32) | 0
//!
//! erased: two copies, of which the one with the higher number is valid
//! 0            8            12
//! | number (8) | octets (4) | content of the file "erased" | BLAKE3 (32) | 0
//!
//! region
//! 0                       16           24         32            64    4096
//! | "namely-region-01" (16) | number (8) | salt (8) | BLAKE3 (32) | 0 | group | group | ...
//! ... segment octets        + 8
//! | octets of the index (8) | content of the file segment-<number>.index | 0
//! ```
//!
//! - `octets` of a superblock: the size of the device when it was formatted. `BLAKE3` of a
//!   superblock: the digest of all octets before it, without a key.
//! - `number` of an erasure list: one more than that of the previous list. `number` of a region:
//!   that of its segment.
//! - `salt`: random for each segment. It is an input to the checks of the segment's records, before
//!   `length`, and to the digest of its index, after the index. So the remains of an earlier
//!   segment match neither.
//! - A region without such a header is free. An index that does not fit is not written.
//!
//! # Crash recovery
//!
//! A read verifies the check of the record and compares its name, so a torn record counts as
//! absent. A segment without a sound index is read whole when the tier is opened. Two kinds of
//! segments lack one: those that were not sealed, and on a device those with many short packets.
//! Records that were written before [`Tier::sync`], or before the tier's last periodic
//! synchronization, survive.

mod above;
mod admission;
mod ahead;
mod buffer;
mod caller;
mod completion;
mod device;
mod engine;
mod erased;
mod erasing;
mod error;
mod exact;
mod extent;
mod fair_queue;
#[cfg(test)]
mod faulty_disk;
mod filter;
mod folder;
mod health;
mod index;
mod keeper;
mod limits;
mod listing;
mod log;
mod medium;
mod options;
mod place;
mod queue;
mod record;
mod recovery;
#[allow(unsafe_code, reason = "io_uring; see ARCHITECTURE.md, Invariants")]
mod ring;
mod sealing;
mod segment;
mod shared;
mod status;
#[cfg(test)]
mod tests;
mod window;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use namely_host::{Waker, clock};
use namely_wire::{Name, NameRef};
use parking_lot::{Condvar, Mutex, RwLock};

pub use self::admission::{Admission, GHOSTS_MAX, Gate};
pub use self::caller::Caller;
pub use self::completion::{
    Bypass, Completion, LookupResult, NameMatch, ReadId, ReadOutcome, StoredData, WriteOutcome,
};
pub use self::device::format;
pub use self::error::TierError;
pub use self::exact::Sha256;
pub use self::filter::FilterKind;
pub use self::limits::{DEVICE_OCTETS_MIN, ERASED_MAX};
pub use self::limits::{OCTETS_MAX, OCTETS_MIN, PENDING_MAX, PENDING_THRESHOLD, THREADS_MAX};
pub use self::listing::{ListedPacket, list};
pub use self::medium::is_device;
pub use self::options::{EngineKind, Fairness, Options, Slowness};
pub use self::place::SEGMENTS_MAX;
pub use self::status::{Counters, Status};

use self::above::PrefixIndex;
use self::ahead::ReadAhead;
use self::erased::Erasures;
use self::health::Health;
use self::index::Index;
use self::log::Log;
use self::medium::Medium;
use self::queue::Queue;
use self::ring::Ring;
use self::shared::{Budget, Orders, Readers, Retention, RetentionFilter, Shared};
use namely_host::disk::Lock;

/// Threads of the engine if io_uring is not available.
pub const THREADS: usize = 8;

/// Pinned prefixes of a tier.
///
/// # Limit
/// A further prefix is refused.
/// - Tests: `pinned_and_erased_prefixes_are_limited`
pub const PINNED_MAX: usize = 64;

/// A cache of Data in a folder or on a device, open for this tier alone. See the crate's
/// documentation.
#[derive(Debug)]
pub struct Tier {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
    engine: Vec<JoinHandle<()>>,
    engine_name: &'static str,
    /// Held for the lifetime of the tier.
    _lock: Lock,
}

impl Tier {
    /// Opens the tier at `folder`: a folder of this user, made if necessary, a device, or a regular
    /// file in place of a device. This may take a while: some seconds for 10 million records.
    ///
    /// # Errors
    /// [`TierError`]; each message includes a remedy.
    pub fn open(folder: &Path, options: &Options) -> Result<Self, TierError> {
        options.check()?;
        let (medium, key, lock) = Medium::take(folder, options)?;
        let options = &Options { octets_max: medium.budget(options.octets_max), ..options.clone() };
        let ring = ring(options.engine)?;
        let waker = if ring.is_some() { Some(waker(folder)?) } else { None };
        let log = Log::new(options.group_octets(medium.segment_octets()), options.groups_max());
        let shared = Arc::new(Shared {
            medium,
            options: options.clone(),
            key,
            base_ms: clock::unix_ms(),
            index: Index::new(options.filter, options.records_max() / 4),
            above: PrefixIndex::new(options.names_above()),
            segments: RwLock::default(),
            log: Mutex::new(log),
            queue: Queue::new(options.fairness, options.slowness, waker),
            ahead: ReadAhead::new(),
            pool: Arc::default(),
            orders: Mutex::new(Orders::default()),
            bell: Condvar::new(),
            counters: Counters::default(),
            budget: Budget { octets: AtomicU64::new(0), octets_max: AtomicU64::new(options.octets_max) },
            threshold: AtomicUsize::new(options.pending_threshold),
            health: Health::default(),
            erased: Erasures::default(),
            retention: Retention::default(),
            gate: Gate::new(options.admission, options.ghosts()),
        });
        shared.recover()?;
        // Prepares a segment before the first request, so that early writes find room.
        while shared.keep() {}
        let mut tier = Tier { shared, keeper: None, engine: Vec::new(), engine_name: "inline", _lock: lock };
        tier.start(ring)?;
        Ok(tier)
    }

    fn start(&mut self, ring: Option<Ring<Readers>>) -> Result<(), TierError> {
        let fault = |error| TierError::Io(self.shared.medium.path().to_owned(), error);
        (self.engine_name, self.engine) = match (self.shared.options.engine, ring) {
            (EngineKind::Inline, _) => return Ok(()),
            (_, Some(ring)) => ("io_uring", vec![engine::start_ring(&self.shared, ring).map_err(fault)?]),
            (kind, None) => {
                let threads = if let EngineKind::Threads(threads) = kind { threads } else { THREADS };
                ("threads", engine::start_threads(&self.shared, threads).map_err(fault)?)
            }
        };
        self.keeper = Some(engine::start("cs-disk", &self.shared, keeper::run).map_err(fault)?);
        Ok(())
    }

    /// Creates a caller with its own queue of completions.
    ///
    /// # Errors
    /// The process or the system has no descriptor left.
    pub fn caller(&self) -> Result<Caller, TierError> {
        Ok(Caller::new(self.shared.clone(), waker(self.shared.medium.path())?, true))
    }

    /// Like `caller`, with the waker of the embedder. The embedder resets the waker after each wait
    /// and then calls [`Caller::completed`].
    pub fn caller_of(&self, waker: Waker) -> Caller {
        Caller::new(self.shared.clone(), waker, false)
    }

    /// Offers the Data `packet` of `name`. `expires_ms` is the end of its freshness in ms since the
    /// Unix epoch, 0 if it never ends, and the time of arrival for Data that was never fresh.
    ///
    /// May be called from any thread. Never waits for the disk.
    pub fn write(&self, name: NameRef<'_>, packet: &[u8], expires_ms: u64) -> WriteOutcome {
        self.shared.write(name, packet, expires_ms)
    }

    /// Waits until everything written is on the disk.
    ///
    /// # Errors
    /// [`TierError::Lost`] with the error of the disk, if data written since the last call may be
    /// missing.
    pub fn sync(&self) -> Result<(), TierError> {
        let mut orders = self.shared.orders.lock();
        orders.is_woken = true;
        let mine = orders.request_sync();
        self.shared.bell.notify_all();
        while orders.syncs_done < mine {
            if self.keeper.is_some() {
                self.shared.bell.wait(&mut orders);
            } else {
                drop(orders);
                self.turn();
                orders = self.shared.orders.lock();
            }
        }
        orders.sync_failure(mine).map_or(Ok(()), |message| Err(TierError::Lost(message)))
    }

    /// With [`EngineKind::Inline`]: performs all due work and returns when there is none left.
    pub fn turn(&self) {
        // `|` and not `||`, so that each round calls both.
        while self.shared.keep() | engine::serve_one(&self.shared) {}
    }

    /// Returns the content and the counters of the tier.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        Status {
            engine: self.engine_name,
            direct: shared.options.direct,
            records: shared.index.records() as u64,
            octets: shared.budget.octets.load(Ordering::Relaxed),
            octets_max: shared.budget.octets_max.load(Ordering::Relaxed),
            segments: shared.segments.read().iter().flatten().count() as u64,
            index_octets: shared.memory_octets() as u64,
            admission: shared.gate.admission(),
            pending: shared.queue.pending() as u64,
            pending_threshold: shared.threshold.load(Ordering::Relaxed) as u64,
            fault: shared.health.fault(),
            erasing: shared.erased.prefixes.read().iter().filter(|erased| !erased.is_done).count() as u64,
            pinned: shared.retention.pinned.read().len() as u64,
            read_ns: u64::try_from(shared.queue.reading().as_nanos()).unwrap_or(u64::MAX),
            counters: shared.counters.read(),
        }
    }

    /// Returns the number of pending requests from which on requests bypass the disk.
    pub fn pending_threshold(&self) -> usize {
        self.shared.threshold.load(Ordering::Relaxed)
    }

    /// Sets the number of pending requests from which on requests bypass the disk; 0: they always
    /// bypass it.
    pub fn set_pending_threshold(&self, requests: usize) {
        self.shared.threshold.store(requests, Ordering::Relaxed);
    }

    /// Sets the budget in octets. It is at least [`OCTETS_MIN`] and four segments, and at most
    /// [`OCTETS_MAX`], or the size of the device. Segments beyond the budget are evicted soon.
    /// Segments keep their size until the tier is opened again.
    pub fn set_octets_max(&self, octets: u64) {
        // Relaxed: the lock that `wake_keeper` takes orders the store before the keeper's next
        // check.
        self.shared.budget.octets_max.store(self.shared.medium.budget(octets), Ordering::Relaxed);
        self.shared.wake_keeper();
    }

    /// Returns whether Data that is evicted from memory should be offered to [`Tier::write`]: the
    /// rule admits the Data, or its name is below a pinned prefix. `was_asked_for` is true if the
    /// Data had a hit while it was in memory.
    pub fn admits(&self, name: NameRef<'_>, was_asked_for: bool) -> bool {
        let gate = &self.shared.gate;
        gate.admits(self.shared.hash(name), was_asked_for) || self.is_pinned(name)
    }

    /// Changes the admission rule.
    pub fn set_admission(&self, admission: Admission) {
        self.shared.gate.set_admission(admission);
    }

    /// Changes the order of waiting requests.
    pub fn set_fairness(&self, fairness: Fairness) {
        self.shared.queue.set_fairness(fairness);
    }

    /// Simulates a slower disk, or ends the simulation.
    pub fn set_slowness(&self, slowness: Slowness) {
        self.shared.queue.set_slowness(slowness);
    }

    /// Stalls the disk for `time`, to test callers that must not wait for it.
    pub fn stall(&self, time: Duration) {
        self.shared.queue.stall(time);
    }

    /// Erases the records below `prefix` that were written before this call: no later read returns
    /// them. The tier then reads all segments to remove the records from the indexes. Once
    /// [`Status::erasing`] does not count the prefix any more, the erasure survives a crash. The
    /// room of the records is freed when their segments are evicted.
    ///
    /// # Errors
    /// [`TierError::TooMany`]: segments from before [`ERASED_MAX`] erasures still exist.
    pub fn erase(&self, prefix: NameRef<'_>) -> Result<(), TierError> {
        self.shared.erase(prefix)
    }

    /// Erases the packet with this full name, which ends with its implicit digest: no later read
    /// returns it. The tier then reads the record, and removes it if `sha256` computes that digest.
    /// From then on, another packet of its name can be written. A tier that is opened again does
    /// not have the packet, unless a crash came before its segment was full, the segment has no
    /// index, or an earlier record of the name, which this one replaced, has the same packet.
    ///
    /// A name without a digest, or of a packet that the tier does not have, has no effect.
    ///
    /// # Errors
    /// [`TierError::TooMany`]: too many packets are being erased.
    pub fn erase_exact(&self, full_name: NameRef<'_>, sha256: Sha256) -> Result<(), TierError> {
        self.shared.erase_exact(full_name, sha256)
    }

    /// Pins `prefix`: records below it are written again when their segment is evicted, up to a
    /// quarter of a segment.
    ///
    /// # Errors
    /// [`TierError::TooMany`]: [`PINNED_MAX`] prefixes are pinned.
    pub fn pin(&self, prefix: NameRef<'_>) -> Result<(), TierError> {
        let mut pinned = self.shared.retention.pinned.write();
        if pinned.iter().any(|known| known.as_name() == prefix) {
            return Ok(());
        }
        if pinned.len() >= PINNED_MAX {
            return Err(TierError::TooMany { what: "pinned", max: PINNED_MAX });
        }
        pinned.push(prefix.to_name());
        Ok(())
    }

    /// Returns whether `name` is below a pinned prefix.
    pub fn is_pinned(&self, name: NameRef<'_>) -> bool {
        self.shared.retention.pinned.read().iter().any(|prefix| prefix.as_name().is_prefix_of(name))
    }

    /// Selects further Data to write again when their segment is evicted, as far as there is room,
    /// in addition to Data that were read or are pinned. The keeper's thread calls `is_wanted` with
    /// the names of the other Data of the segment.
    pub fn set_retention_filter(&self, is_wanted: impl Fn(NameRef<'_>) -> bool + Send + Sync + 'static) {
        *self.shared.retention.wanted.write() = Some(RetentionFilter(Box::new(is_wanted)));
    }

    /// Returns whether writes are suspended because a write failed.
    pub fn is_resting(&self) -> bool {
        self.shared.health.is_resting()
    }

    /// The pinned prefixes.
    pub fn pinned(&self) -> Vec<Name> {
        self.shared.retention.pinned.read().clone()
    }

    /// Returns the budget in octets.
    pub fn octets_max(&self) -> u64 {
        self.shared.budget.octets_max.load(Ordering::Relaxed)
    }

    /// Unpins `prefix`. Returns whether it was pinned.
    pub fn unpin(&self, prefix: NameRef<'_>) -> bool {
        let mut pinned = self.shared.retention.pinned.write();
        let before = pinned.len();
        pinned.retain(|known| known.as_name() != prefix);
        pinned.len() < before
    }

    /// Writes everything to the disk and releases the folder. Dropping a tier does the same but
    /// reports no error.
    ///
    /// # Errors
    /// The error of the disk; data that could not be written is lost.
    pub fn close(mut self) -> Result<(), TierError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), TierError> {
        if self.shared.queue.is_closed() {
            return Ok(());
        }
        let synced = self.sync();
        self.shared.log.lock().end_segment();
        // Seals the ended segment. Ignored: without its index the segment is read whole at the next
        // opening.
        let _ = self.sync();
        self.shared.orders.lock().is_closing = true;
        self.shared.bell.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // Ignored: a panic must not keep the folder locked.
            let _ = keeper.join();
        }
        // Closed after the keeper has ended, because the keeper submits requests.
        self.shared.queue.close();
        for thread in self.engine.drain(..) {
            let _ = thread.join();
        }
        // The unused segment has no records, and the next opening would only remove it.
        if let Some(unused) = self.shared.log.lock().take_next() {
            self.shared.forget(&unused);
        }
        synced
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn waker(folder: &Path) -> Result<Waker, TierError> {
    Waker::new().map_err(|error| TierError::Io(folder.to_owned(), error.into()))
}

/// Creates a ring if `kind` selects one and the kernel provides it.
fn ring(kind: EngineKind) -> Result<Option<Ring<Readers>>, TierError> {
    match kind {
        EngineKind::Inline | EngineKind::Threads(_) => Ok(None),
        EngineKind::Uring => Ring::new().map(Some).map_err(TierError::Uring),
        EngineKind::Auto => Ok(Ring::new()
            .inspect_err(|error| tracing::info!(%error, "no io_uring: threads serve the disk"))
            .ok()),
    }
}

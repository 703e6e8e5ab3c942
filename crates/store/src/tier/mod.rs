//! The disk tier of a content store: a cache of Data in one folder, or on one device, which never
//! makes who asks it wait. It knows names and packets, and nothing of forwarding.
//!
//! A worker asks by its [`Caller`]: [`Caller::read`] says at once that there is nothing, that the
//! disk has enough to do, or that it reads; [`Caller::completed`] gives what was read, and the
//! caller's descriptor can be polled for it. [`Tier::write`] takes Data or does not. Neither makes
//! a system call but the one that wakes who serves the disk. All else is done by threads of the
//! tier: one that keeps it, and those of its engine.
//!
//! ```
//! use namely_store::tier::{Asked, Bypass, Options, ReadId, Tier, Written};
//! # use namely_security::{Signer, sign_data};
//! # use namely_wire::{DataBuilder, Name};
//! # let directory = tempfile::tempdir()?;
//! # let folder = directory.path().join("cs");
//! # let name: Name = "/lab/run7/v=1".parse().expect("a name");
//! # let packet = &sign_data(&DataBuilder::new(name.as_name()), b"42", &Signer::digest_sha256())?;
//! let tier = Tier::open(&folder, &Options::new(64 << 20))?;
//! let mut worker = tier.caller()?;
//! let id = ReadId(1);
//! assert_eq!(worker.read(id, name.as_name(), None, Bypass::Possible), Asked::Absent);
//! assert_eq!(worker.write(name.as_name(), packet, 0), Written::Taken);
//!
//! assert_eq!(worker.read(id, name.as_name(), None, Bypass::Possible), Asked::Reading);
//! // It polls its faces and the caller's descriptor, which becomes readable.
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
//! segment-<number>.index     what is where in a segment that is sealed
//! erased                     prefixes of which records in older segments do not count any more
//! ```
//!
//! All numbers are little-endian. Checks and digests are keyed: what comes from the network cannot
//! be made to look like a record.
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
//! - `check` of a record: SipHash-1-3 of `length`, `expires` and `packet`, by another key.
//! - `segment` of a prefix: the last one in which there may be such records. The octet behind it is
//!   1 once none is in an index any more.
//! - `offset`, `octets` of an entry: of its record, in units of 16; `octets` of an index: of the
//!   segment.
//! - `hash`: SipHash-1-3 of the name's components, by a key that follows from the folder's.
//! - `above`: the same of a name without its last components, by which the packet is found, too.
//!   Indexes of before ("namely-seg-idx-1") have no such heads and are read.
//!
//! # A device
//!
//! A block device, or an ordinary file that stands for one, has the same in regions of one size,
//! and no names: a region is its segment, of the same groups and records, and behind it the
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
//! erased: two, of which the one with the higher number counts
//! 0            8            12
//! | number (8) | octets (4) | what the file of that name has | BLAKE3 (32) | 0
//!
//! region
//! 0                       16           24         32            64    4096
//! | "namely-region-01" (16) | number (8) | salt (8) | BLAKE3 (32) | 0 | group | group | ...
//! ... segment octets        + 8
//! | octets of the index (8) | what the file segment-<number>.index has | 0
//! ```
//!
//! - `octets` of a superblock: of the device, as it was; `BLAKE3` there: of all before it, without
//!   a key.
//! - `number`: of erasures, one more than before; of a region, that of its segment.
//! - `salt`: drawn for each segment. It is hashed before `length` into the checks of its records,
//!   and behind the index into the digest of that: what another segment left there is neither.
//! - A region without such a header is free. An index that has no room is not there.
//!
//! # What a crash leaves
//!
//! Every record has its check, and its name is compared when it is read: what is torn is not there.
//! A segment without a sound index is read whole when the tier is opened; only those that were not
//! sealed have none, and on a device those with many short packets. What was written before
//! [`Tier::sync`], or before the last time that the tier did that itself, is there.

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
mod extent;
#[cfg(test)]
mod faulty_disk;
mod filter;
mod folder;
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
mod turns;
mod window;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use namely_host::{Waker, clock};
use namely_wire::{Name, NameRef};
use parking_lot::{Condvar, Mutex, RwLock};

pub use self::admission::{Admission, GHOSTS_MAX, Gate};
pub use self::caller::Caller;
pub use self::completion::{Asked, Below, Bypass, Completion, Outcome, ReadId, StoredData, Written};
pub use self::device::format;
pub use self::error::TierError;
pub use self::filter::FilterKind;
pub use self::limits::{DEVICE_OCTETS_MIN, ERASED_MAX};
pub use self::limits::{OCTETS_MAX, OCTETS_MIN, PENDING_MAX, PENDING_THRESHOLD, THREADS_MAX};
pub use self::listing::{Listed, list};
pub use self::medium::is_device;
pub use self::options::{EngineKind, Fairness, Options, Slowness};
pub use self::place::SEGMENTS_MAX;
pub use self::status::Status;

use self::above::Above;
use self::ahead::Ahead;
use self::index::Index;
use self::log::Log;
use self::medium::Medium;
use self::queue::Queue;
use self::ring::Ring;
use self::shared::{For, Orders, Shared, Wanted};
use crate::lock::Lock;

/// Threads of the engine where io_uring cannot be had.
pub const THREADS: usize = 8;

/// Maximum number of pinned prefixes.
pub const PINNED_MAX: usize = 64;

/// A cache of Data in a folder or on a device, open for this tier alone. See the module's
/// documentation.
#[derive(Debug)]
pub struct Tier {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
    engine: Vec<JoinHandle<()>>,
    engine_name: &'static str,
    /// Held, not used.
    _lock: Lock,
}

impl Tier {
    /// Opens or makes the tier in `folder`, which is this user's, or on the device that it is, or
    /// the file that stands for one. It may take a while: 10 million records are some seconds.
    ///
    /// # Errors
    /// [`TierError`], each of which says what to do.
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
            above: Above::new(options.names_above()),
            segments: RwLock::default(),
            log: Mutex::new(log),
            queue: Queue::new(options.fairness, options.slowness, waker),
            ahead: Ahead::new(),
            pool: Arc::default(),
            orders: Mutex::new(Orders::default()),
            bell: Condvar::new(),
            counters: status::Counters::default(),
            octets: AtomicU64::new(0),
            octets_max: AtomicU64::new(options.octets_max),
            threshold: AtomicUsize::new(options.pending_threshold),
            rests_until: Mutex::default(),
            is_resting: AtomicBool::new(false),
            fault: Mutex::default(),
            is_doubtful: AtomicBool::new(false),
            erased: RwLock::default(),
            pinned: RwLock::default(),
            wanted: RwLock::default(),
            gate: Gate::new(options.admission, options.ghosts()),
        });
        shared.recover()?;
        // Before anything is asked: what is offered at once finds room.
        while shared.keep() {}
        let mut tier = Tier { shared, keeper: None, engine: Vec::new(), engine_name: "inline", _lock: lock };
        tier.start(ring)?;
        Ok(tier)
    }

    fn start(&mut self, ring: Option<Ring<For>>) -> Result<(), TierError> {
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

    /// One who reads, with completions of its own.
    ///
    /// # Errors
    /// The process or the system has no descriptor left.
    pub fn caller(&self) -> Result<Caller, TierError> {
        Ok(Caller::new(self.shared.clone(), waker(self.shared.medium.path())?, true))
    }

    /// The same for who waits by a waker of its own, which it resets after each wait, and looks at
    /// [`Caller::completed`] then.
    pub fn caller_of(&self, waker: Waker) -> Caller {
        Caller::new(self.shared.clone(), waker, false)
    }

    /// Offers the Data `packet` of `name`. `expires_ms`: from when on it is no longer fresh, ms
    /// since the Unix epoch, 0: never; of Data that was never fresh, the time at which it came.
    ///
    /// Any thread may. It never waits for the disk.
    pub fn write(&self, name: NameRef<'_>, packet: &[u8], expires_ms: u64) -> Written {
        self.shared.write(name, packet, expires_ms)
    }

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// What the disk says; what was written since the last synchronisation may be lost then.
    pub fn sync(&self) -> Result<(), TierError> {
        let mut orders = self.shared.orders.lock();
        orders.syncs_asked += 1;
        orders.is_woken = true;
        let mine = orders.syncs_asked;
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
        match orders.failed.clone() {
            None => Ok(()),
            Some(told) => {
                Err(TierError::Io(self.shared.medium.path().to_owned(), std::io::Error::other(told)))
            }
        }
    }

    /// With [`EngineKind::Inline`]: does what is to be done, and returns once nothing is.
    pub fn turn(&self) {
        while self.shared.keep() | engine::serve_one(&self.shared) {}
    }

    /// What it holds and what it did.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let mut status = Status {
            engine: self.engine_name,
            direct: shared.options.direct,
            records: shared.index.records() as u64,
            octets: shared.octets.load(Ordering::Relaxed),
            octets_max: shared.octets_max.load(Ordering::Relaxed),
            segments: shared.segments.read().iter().flatten().count() as u64,
            index_octets: shared.memory_octets() as u64,
            admission: shared.gate.admission(),
            pending: shared.queue.pending() as u64,
            pending_threshold: shared.threshold.load(Ordering::Relaxed) as u64,
            fault: shared.fault.lock().clone(),
            erasing: shared.erased.read().iter().filter(|erased| !erased.is_done).count() as u64,
            pinned: shared.pinned.read().len() as u64,
            ..Status::default()
        };
        shared.counters.fill(&mut status);
        status.read_ns = u64::try_from(shared.queue.reading().as_nanos()).unwrap_or(u64::MAX);
        status
    }

    /// Requests that pend from which on there is a bypass.
    pub fn pending_threshold(&self) -> usize {
        self.shared.threshold.load(Ordering::Relaxed)
    }

    /// Requests that pend from which on there is a bypass; 0: always.
    pub fn set_pending_threshold(&self, requests: usize) {
        self.shared.threshold.store(requests, Ordering::Relaxed);
    }

    /// Octets that it may have, between [`OCTETS_MIN`], or four segments, and [`OCTETS_MAX`], or
    /// all of the device's. What is beyond them goes soon; the segments keep their size until the
    /// tier is opened anew.
    pub fn set_octets_max(&self, octets: u64) {
        self.shared.octets_max.store(self.shared.medium.budget(octets), Ordering::Relaxed);
        self.shared.wake_keeper();
    }

    /// Whether Data that leaves the memory is to be offered by [`Tier::write`]: by the rule, or
    /// since it is below a pinned prefix. `was_asked_for`: it was, while it was in memory.
    pub fn admits(&self, name: NameRef<'_>, was_asked_for: bool) -> bool {
        let gate = &self.shared.gate;
        gate.admits(self.shared.hash(name), was_asked_for) || self.is_pinned(name)
    }

    /// What is admitted from now on.
    pub fn set_admission(&self, admission: Admission) {
        self.shared.gate.set_admission(admission);
    }

    /// Which request is next when several wait.
    pub fn set_fairness(&self, fairness: Fairness) {
        self.shared.queue.set_fairness(fairness);
    }

    /// Makes the disk slower than it is, or no longer.
    pub fn set_slowness(&self, slowness: Slowness) {
        self.shared.queue.set_slowness(slowness);
    }

    /// The disk does nothing for so long: for tests of those who must not wait for it.
    pub fn stall(&self, time: Duration) {
        self.shared.queue.stall(time);
    }

    /// Nothing below `prefix` that was written before is read any more, from now on and after a
    /// crash. Its room comes back when its segments are thrown away. The tier reads all segments
    /// meanwhile: [`Status::erasing`] says whether it still does.
    ///
    /// # Errors
    /// [`TierError::TooMany`]: segments are there of before [`ERASED_MAX`] erasures.
    pub fn erase(&self, prefix: NameRef<'_>) -> Result<(), TierError> {
        self.shared.erase(prefix)
    }

    /// What is below `prefix` is kept when its segment is thrown away, as far as there is room:
    /// a quarter of a segment.
    ///
    /// # Errors
    /// [`TierError::TooMany`]: [`PINNED_MAX`] prefixes are pinned.
    pub fn pin(&self, prefix: NameRef<'_>) -> Result<(), TierError> {
        let mut pinned = self.shared.pinned.write();
        if pinned.iter().any(|known| known.as_name() == prefix) {
            return Ok(());
        }
        if pinned.len() >= PINNED_MAX {
            return Err(TierError::TooMany { what: "pinned", max: PINNED_MAX });
        }
        pinned.push(prefix.to_name());
        Ok(())
    }

    /// Whether a pinned prefix is above `name`.
    pub fn is_pinned(&self, name: NameRef<'_>) -> bool {
        self.shared.pinned.read().iter().any(|prefix| prefix.as_name().is_prefix_of(name))
    }

    /// Says whose Data are written again when their segment is thrown away, as far as there is
    /// room for that, beside what was read and what is pinned. `is_wanted` is called for each such
    /// Data by the thread that keeps the tier.
    pub fn set_wanted(&self, is_wanted: impl Fn(NameRef<'_>) -> bool + Send + Sync + 'static) {
        *self.shared.wanted.write() = Some(Wanted(Box::new(is_wanted)));
    }

    /// Whether nothing is written for a while because writing failed.
    pub fn is_resting(&self) -> bool {
        self.shared.is_resting.load(Ordering::Relaxed)
    }

    /// The pinned prefixes.
    pub fn pinned(&self) -> Vec<Name> {
        self.shared.pinned.read().clone()
    }

    /// The budget, octets.
    pub fn octets_max(&self) -> u64 {
        self.shared.octets_max.load(Ordering::Relaxed)
    }

    /// What is below `prefix` is thrown away like all else; whether it was pinned.
    pub fn unpin(&self, prefix: NameRef<'_>) -> bool {
        let mut pinned = self.shared.pinned.write();
        let before = pinned.len();
        pinned.retain(|known| known.as_name() != prefix);
        pinned.len() < before
    }

    /// Puts everything on the disk and gives the folder back. A tier that is dropped does the same
    /// and says nothing.
    ///
    /// # Errors
    /// What the disk says; what could not be written is lost.
    pub fn close(mut self) -> Result<(), TierError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), TierError> {
        if self.shared.queue.is_closed() {
            return Ok(());
        }
        let synced = self.sync();
        self.shared.log.lock().end_segment();
        let _ = self.sync();
        self.shared.orders.lock().is_closing = true;
        self.shared.bell.notify_all();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        self.shared.queue.close();
        for thread in self.engine.drain(..) {
            let _ = thread.join();
        }
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

/// A ring where one is wanted and can be had.
fn ring(kind: EngineKind) -> Result<Option<Ring<For>>, TierError> {
    match kind {
        EngineKind::Inline | EngineKind::Threads(_) => Ok(None),
        EngineKind::Uring => Ring::new().map(Some).map_err(TierError::Uring),
        EngineKind::Auto => Ok(Ring::new()
            .inspect_err(|error| tracing::info!(%error, "no io_uring: threads serve the disk"))
            .ok()),
    }
}

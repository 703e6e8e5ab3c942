//! What a tier holds and what it did.

use std::sync::atomic::{AtomicU64, Ordering};

use super::admission::Admission;

/// Counts of what happened since a tier was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: Count,
    pub(crate) hits_memory: Count,
    pub(crate) misses: Count,
    pub(crate) bypassed_filter: Count,
    pub(crate) false_positives: Count,
    pub(crate) bypassed_reads: Count,
    pub(crate) bypassed_writes: Count,
    pub(crate) refused_reads: Count,
    pub(crate) stale: Count,
    pub(crate) written: Count,
    pub(crate) written_octets: Count,
    pub(crate) known: Count,
    pub(crate) no_room: Count,
    pub(crate) resting: Count,
    pub(crate) evicted: Count,
    pub(crate) reinserted: Count,
    pub(crate) erased: Count,
    pub(crate) damaged: Count,
    pub(crate) collisions: Count,
    pub(crate) read_errors: Count,
    pub(crate) write_errors: Count,
    pub(crate) disk_reads: Count,
    pub(crate) read_octets: Count,
    pub(crate) disk_writes: Count,
    pub(crate) read_ahead: Count,
    pub(crate) syncs: Count,
}

/// One count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a tier holds, and what it did since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What reads and writes: `io_uring`, `threads` or `inline`.
    pub engine: &'static str,
    /// Whether that goes past the system's page cache.
    pub direct: bool,
    /// Records.
    pub records: u64,
    /// Octets of the folder's segments.
    pub octets: u64,
    /// The budget.
    pub octets_max: u64,
    /// Segments.
    pub segments: u64,
    /// Octets of memory of index, filter, and names that left the memory.
    pub index_octets: u64,
    /// What of the memory's leavings is written.
    pub admission: Admission,
    /// Requests that pend.
    pub pending: u64,
    /// The threshold of them.
    pub pending_threshold: u64,
    /// What the disk had last, and what to do; none while it works.
    pub fault: Option<String>,
    /// Prefixes that are being erased.
    pub erasing: u64,
    /// Prefixes that are pinned.
    pub pinned: u64,

    /// Reads that gave Data.
    pub hits: u64,
    /// Of these, from memory: not written yet, or read ahead.
    pub hits_memory: u64,
    /// Reads that gave none: damaged, of another name, erased, expired, or the disk failed.
    pub misses: u64,
    /// First-stage bypasses: the filter knew that there is nothing.
    pub bypassed_filter: u64,
    /// What the filter let pass although there is nothing.
    pub false_positives: u64,
    /// Second-stage bypasses of Interests: as many requests pended as the threshold says.
    pub bypassed_reads: u64,
    /// Second-stage bypasses of Data: the same.
    pub bypassed_writes: u64,
    /// Reads that were refused although there was no way around:
    /// [`PENDING_MAX`](super::PENDING_MAX).
    pub refused_reads: u64,
    /// What is there, but not fresh, as was asked.
    pub stale: u64,
    /// Data that was taken, and its octets.
    pub written: u64,
    /// Octets of [`written`](Self::written) as records.
    pub written_octets: u64,
    /// Data that is there already.
    pub known: u64,
    /// Data for which there was no room: groups that wait to be written, or records.
    pub no_room: u64,
    /// Data that was not taken while the disk rests after a fault.
    pub resting: u64,
    /// Records that went with their segment.
    pub evicted: u64,
    /// Records that were written again: read since they were written, pinned or wanted.
    pub reinserted: u64,
    /// Records that were erased.
    pub erased: u64,
    /// Records found damaged.
    pub damaged: u64,
    /// Records whose name has the hash of another.
    pub collisions: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and synchronisations that failed.
    pub write_errors: u64,
    /// Requests to the disk.
    pub disk_reads: u64,
    /// Octets of packets that came of these.
    pub read_octets: u64,
    /// For how long at least one of these pended, ns.
    pub read_ns: u64,
    /// The same, writes of groups.
    pub disk_writes: u64,
    /// Reads of more than was asked for.
    pub read_ahead: u64,
    /// How often what was written was put on the disk.
    pub syncs: u64,
}

impl Counters {
    pub(crate) fn fill(&self, status: &mut Status) {
        status.hits = self.hits.get();
        status.hits_memory = self.hits_memory.get();
        status.misses = self.misses.get();
        status.bypassed_filter = self.bypassed_filter.get();
        status.false_positives = self.false_positives.get();
        status.bypassed_reads = self.bypassed_reads.get();
        status.bypassed_writes = self.bypassed_writes.get();
        status.refused_reads = self.refused_reads.get();
        status.stale = self.stale.get();
        status.written = self.written.get();
        status.written_octets = self.written_octets.get();
        status.known = self.known.get();
        status.no_room = self.no_room.get();
        status.resting = self.resting.get();
        status.evicted = self.evicted.get();
        status.reinserted = self.reinserted.get();
        status.erased = self.erased.get();
        status.damaged = self.damaged.get();
        status.collisions = self.collisions.get();
        status.read_errors = self.read_errors.get();
        status.write_errors = self.write_errors.get();
        status.disk_reads = self.disk_reads.get();
        status.read_octets = self.read_octets.get();
        status.disk_writes = self.disk_writes.get();
        status.read_ahead = self.read_ahead.get();
        status.syncs = self.syncs.get();
    }
}

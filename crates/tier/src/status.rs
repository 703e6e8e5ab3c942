//! Content and counters of a tier.

use std::sync::atomic::{AtomicU64, Ordering};

use super::admission::Admission;

/// Counters of a tier since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters<C = u64> {
    /// Reads that found Data.
    pub hits: C,
    /// Of these, reads from memory: not written yet, or read ahead.
    pub hits_memory: C,
    /// Reads that found none: damaged, of another name, erased, expired, or the disk failed.
    pub misses: C,
    /// First-stage bypasses: the filter excluded the name of the Interest.
    pub bypassed_filter: C,
    /// Names that passed the filter although there is no record.
    pub false_positives: C,
    /// Second-stage bypasses of Interests: the number of pending requests had reached the
    /// threshold.
    pub bypassed_reads: C,
    /// Second-stage bypasses of Data, for the same reason.
    pub bypassed_writes: C,
    /// Reads that were refused because [`PENDING_MAX`](super::PENDING_MAX) requests were pending.
    pub refused_reads: C,
    /// Data that was found but was not as fresh as requested.
    pub stale: C,
    /// Data that was accepted.
    pub written: C,
    /// Octets of the records of [`written`](Self::written).
    pub written_octets: C,
    /// Data that was refused because the tier had it already.
    pub known: C,
    /// Data without room: too many groups wait to be written, or too many records.
    pub no_room: C,
    /// Data refused while writes were suspended after a fault.
    pub resting: C,
    /// Records evicted with their segment.
    pub evicted: C,
    /// Records that were written again: read since they were written, pinned or wanted.
    pub reinserted: C,
    /// Records that were erased.
    pub erased: C,
    /// Records found damaged. They are never served.
    pub damaged: C,
    /// Records with a name that has the hash of another name. They are never served for it.
    pub collisions: C,
    /// Reads that failed.
    pub read_errors: C,
    /// Writes and synchronizations that failed.
    pub write_errors: C,
    /// Reads of the disk.
    pub disk_reads: C,
    /// Octets of packets from these reads.
    pub read_octets: C,
    /// Writes of groups to the disk.
    pub disk_writes: C,
    /// Reads of a part of a segment, to read ahead.
    pub read_ahead: C,
    /// Synchronizations of the disk.
    pub syncs: C,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: a counter orders nothing.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Content of a tier, and its counters since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The engine that reads and writes: `io_uring`, `threads` or `inline`.
    pub engine: &'static str,
    /// Whether it bypasses the system's page cache.
    pub direct: bool,
    /// Records.
    pub records: u64,
    /// Octets of the folder's segments.
    pub octets: u64,
    /// The budget in octets.
    pub octets_max: u64,
    /// Segments.
    pub segments: u64,
    /// Octets of memory of the index, the filter and the remembered names.
    pub index_octets: u64,
    /// Selects the packets evicted from memory that are written.
    pub admission: Admission,
    /// Pending requests.
    pub pending: u64,
    /// Number of pending requests from which on requests bypass the disk.
    pub pending_threshold: u64,
    /// The disk's last fault with a remedy; none while it works.
    pub fault: Option<String>,
    /// Prefixes that are being erased.
    pub erasing: u64,
    /// Prefixes that are pinned.
    pub pinned: u64,
    /// Total time during which at least one read of the disk was pending, ns. `read_octets` divided
    /// by it is the rate at which the disk can be read.
    pub read_ns: u64,
    /// Its counters.
    pub counters: Counters,
}

impl Counters<Count> {
    /// Returns the present counts.
    pub(crate) fn read(&self) -> Counters {
        Counters {
            hits: self.hits.get(),
            hits_memory: self.hits_memory.get(),
            misses: self.misses.get(),
            bypassed_filter: self.bypassed_filter.get(),
            false_positives: self.false_positives.get(),
            bypassed_reads: self.bypassed_reads.get(),
            bypassed_writes: self.bypassed_writes.get(),
            refused_reads: self.refused_reads.get(),
            stale: self.stale.get(),
            written: self.written.get(),
            written_octets: self.written_octets.get(),
            known: self.known.get(),
            no_room: self.no_room.get(),
            resting: self.resting.get(),
            evicted: self.evicted.get(),
            reinserted: self.reinserted.get(),
            erased: self.erased.get(),
            damaged: self.damaged.get(),
            collisions: self.collisions.get(),
            read_errors: self.read_errors.get(),
            write_errors: self.write_errors.get(),
            disk_reads: self.disk_reads.get(),
            read_octets: self.read_octets.get(),
            disk_writes: self.disk_writes.get(),
            read_ahead: self.read_ahead.get(),
            syncs: self.syncs.get(),
        }
    }
}

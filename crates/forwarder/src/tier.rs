//! A tier below the content store in memory: a store on disk, which the embedder supplies.
//!
//! By [`Tier::read`] the core requests Data that the memory does not hold. It neither waits nor
//! does I/O: an Interest whose Data is being read is *parked* in its PIT entry, which waits for
//! [`Forwarder::tier_completed`](crate::Forwarder::tier_completed). [`Tier::write`] offers the tier
//! Data that leaves the memory.
//!
//! # Requests to the tier
//!
//! When an Interest makes a new PIT entry, its Data is requested from the tier once, unless the
//! Interest chooses its upstream itself (NextHopFaceId). An Interest that joins an entry is
//! aggregated. A retransmission from a face that waits for a parked entry, with any Nonce, is sent
//! upstream while the read continues, so that a stalled disk costs its consumers one
//! retransmission. The tier finds Data by the whole name. It may answer CanBePrefix with Data of a
//! longer name if it can find it. The core checks MustBeFresh when the read completes, by the time
//! that the tier returns.

use namely_wire::NameRef;

use crate::counter::Counter;
use crate::face_id::FaceId;
use crate::pit::key::EntryKey;

/// The embedder's tier, for the time of one call of the core.
pub trait Tier<B> {
    /// True if an embedder of this type may have a tier, now or later. The memory then records
    /// which Data answered Interests.
    // A constant, so that the compiler removes the code for embedders without a tier.
    const MAY_BE: bool = true;

    /// Requests Data that the memory does not hold. Called with no lock held; must not wait.
    fn read(&mut self, wanted: &TierRequest<'_>) -> TierAnswer;

    /// Returns true while the number of pending requests is at the threshold.
    fn is_busy(&self) -> bool {
        false
    }

    /// Offers a Data that is evicted from the memory and did not come from the tier. Called with no
    /// lock held; must not wait.
    fn write(&mut self, leaving: EvictedData<B>) -> TierWrite;

    /// A packet is about to be processed; it causes all following calls. For an embedder that
    /// measures times.
    fn packet_begins(&mut self) {}

    /// The memory answers an Interest with the next packet sent. For an embedder that measures
    /// times.
    fn answers_from_memory(&mut self) {}
}

/// No tier.
impl<B> Tier<B> for () {
    const MAY_BE: bool = false;

    fn read(&mut self, _: &TierRequest<'_>) -> TierAnswer {
        TierAnswer::NoTier
    }

    fn write(&mut self, _: EvictedData<B>) -> TierWrite {
        TierWrite::NoTier
    }
}

/// Identifies a parked Interest, which may be gone when its read completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

impl Ticket {
    pub(crate) fn new(key: EntryKey) -> Self {
        // The serial distinguishes the entry from a later one in its slot.
        Ticket(u64::from(key.serial) << 32 | u64::from(key.id))
    }

    pub(crate) fn key(self) -> EntryKey {
        EntryKey { id: self.0 as u32, serial: (self.0 >> 32) as u32 }
    }

    /// The ticket as a number, for example for a queue of the system.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The ticket of these `bits`. A forged number does no harm: it identifies no Interest, or one
    /// whose request the core compares with the Data.
    pub fn from_bits(bits: u64) -> Self {
        Ticket(bits)
    }
}

/// An Interest's request to the tier.
#[derive(Clone, Copy, Debug)]
pub struct TierRequest<'a> {
    /// The name, without an implicit digest.
    pub name: NameRef<'a>,
    /// The implicit digest that ended it.
    pub digest: Option<&'a [u8]>,
    /// Data with a longer name matches, too.
    pub can_be_prefix: bool,
    /// Stale Data does not match: a tier that knows the Data to be stale need not read it.
    pub must_be_fresh: bool,
    /// Another upstream is available: false if there is none, or all have announced congestion.
    /// Then a tier above its threshold should read nevertheless, as far as it can.
    pub may_bypass: bool,
    /// The face that the Interest came from.
    pub face: FaceId,
    /// The ticket to pass with the completion.
    pub ticket: Ticket,
}

/// The tier's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierAnswer {
    /// There is no tier now, although the embedder may have one. Not counted.
    NoTier,
    /// The tier certainly has no such Data: the first-stage bypass.
    Absent,
    /// The tier may have the Data, but is overloaded: the second-stage bypass.
    Busy,
    /// The tier reads, and [`Forwarder::tier_completed`](crate::Forwarder::tier_completed) will be
    /// called once with the ticket, from any thread, but not before this answer is returned.
    Reading,
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion<B> {
    /// The Data was found.
    Found {
        /// One bare Data TLV.
        packet: B,
        /// The time until which it is fresh, on the forwarder's clock; 0 if it is stale.
        fresh_until_ns: u64,
        /// The number of pending requests is at the threshold: the Data is marked for its
        /// consumers, by default only if no other upstream is available.
        is_busy: bool,
    },
    /// The tier does not have it after all.
    Absent,
    /// It could not be read.
    Failed,
}

/// A Data that is evicted from the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictedData<B> {
    /// One bare Data TLV.
    pub packet: B,
    /// The time until which it is fresh, on the forwarder's clock.
    pub fresh_until_ns: u64,
    /// It answered an Interest while it was in memory.
    pub was_requested: bool,
    /// It belongs to an object that is placed in the tier (`ObjectPlacement::Tier`), and is written
    /// even if the admission policy refuses it.
    pub is_planned: bool,
}

impl<B> EvictedData<B> {
    /// A Data of an object that is placed in the tier.
    #[cfg(feature = "vip")]
    pub(crate) fn planned(packet: B, fresh_until_ns: u64) -> Self {
        // As if requested: the plan has decided, so a policy must not refuse it for lack of demand.
        EvictedData { packet, fresh_until_ns, was_requested: true, is_planned: true }
    }
}

/// The tier's answer to an evicted Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierWrite {
    /// There is no tier. Not counted.
    NoTier,
    /// The tier writes it.
    Accepted,
    /// The tier does not admit it, by its policy or because it has it.
    Refused,
    /// The tier is overloaded: the second-stage bypass of Data.
    Busy,
}

/// The routers that mark Data from their tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TierMarking {
    /// No router.
    Never,
    /// A router whose tier has reached its threshold of pending requests.
    Threshold,
    /// As `Threshold`, but only if no upstream is left to which the router could pass its load
    /// (NB-Cache's lazy notification).
    #[default]
    Lazy,
}

impl TierMarking {
    /// Returns true if Data must be marked. `is_busy` is the tier's state, and `may_bypass` returns
    /// true if an upstream has not announced congestion.
    pub(crate) fn marks(self, is_busy: bool, may_bypass: impl FnOnce() -> bool) -> bool {
        match self {
            TierMarking::Never => false,
            TierMarking::Threshold => is_busy,
            // `may_bypass` reads the FIB, so it is called for a busy tier only.
            TierMarking::Lazy => is_busy && !may_bypass(),
        }
    }
}

/// Counts of the tier. All are 0 without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Pending Interests that Data from the disk satisfied.
    pub hits: u64,
    /// Interests sent upstream at once because the disk has no such Data: the first-stage bypass.
    pub bypass_absent: u64,
    /// Interests sent upstream at once because the disk was overloaded: the second-stage bypass.
    pub bypass_busy: u64,
    /// Interests that were parked until a read completes.
    pub reads: u64,
    /// Reads that found nothing, or stale Data for an Interest with MustBeFresh. The Interest then
    /// goes upstream.
    pub misses: u64,
    /// Reads that failed. The Interest then goes upstream.
    pub failed: u64,
    /// Reads that found Data which does not match the request. The Interest then goes upstream.
    pub wrong: u64,
    /// Reads that completed when no downstream waited any more.
    pub late: u64,
    /// Data evicted from memory that the disk accepted.
    pub writes: u64,
    /// Data evicted from memory that the disk did not admit.
    pub writes_refused: u64,
    /// Data that was not written because the disk was overloaded.
    pub writes_bypassed: u64,
    /// Data that was marked because the disk was overloaded and, by the default rule, no upstream
    /// could relieve it.
    pub marked: u64,
    /// Announcements of congestion, or of its end, that were sent to neighbors.
    pub announcements_sent: u64,
    /// Announcements of neighbors that labeled their faces.
    pub announcements_heard: u64,
    /// Announcements that came from no neighbor, or have an unknown name.
    pub announcements_refused: u64,
    /// Neighbors that received no announcement because 256 are on the list.
    pub announcements_full: u64,
}

impl TierCounts {
    /// Each with its counter's stable name.
    pub fn labelled(&self) -> [(&'static str, u64); 16] {
        [
            ("cs_disk_hits", self.hits),
            ("cs_disk_bypass_absent", self.bypass_absent),
            ("cs_disk_bypass_busy", self.bypass_busy),
            ("cs_disk_reads", self.reads),
            ("cs_disk_misses", self.misses),
            ("cs_disk_failed", self.failed),
            ("cs_disk_wrong", self.wrong),
            ("cs_disk_late", self.late),
            ("cs_disk_writes", self.writes),
            ("cs_disk_writes_refused", self.writes_refused),
            ("cs_disk_writes_bypassed", self.writes_bypassed),
            ("cs_disk_marked", self.marked),
            ("congestion_announced", self.announcements_sent),
            ("congestion_heard", self.announcements_heard),
            ("congestion_refused", self.announcements_refused),
            // Published names, so these keep their spelling.
            ("congestion_untold", self.announcements_full),
        ]
    }
}

/// The live counters of [`TierCounts`].
#[derive(Debug, Default)]
pub(crate) struct TierCounters {
    pub(crate) hits: Counter,
    pub(crate) bypass_absent: Counter,
    pub(crate) bypass_busy: Counter,
    pub(crate) reads: Counter,
    pub(crate) misses: Counter,
    pub(crate) failed: Counter,
    pub(crate) wrong: Counter,
    pub(crate) late: Counter,
    pub(crate) writes: Counter,
    pub(crate) writes_refused: Counter,
    pub(crate) writes_bypassed: Counter,
    pub(crate) marked: Counter,
    pub(crate) announcements_sent: Counter,
    pub(crate) announcements_heard: Counter,
    pub(crate) announcements_refused: Counter,
    pub(crate) announcements_full: Counter,
}

impl TierCounters {
    pub(crate) fn read(&self) -> TierCounts {
        TierCounts {
            hits: self.hits.value(),
            bypass_absent: self.bypass_absent.value(),
            bypass_busy: self.bypass_busy.value(),
            reads: self.reads.value(),
            misses: self.misses.value(),
            failed: self.failed.value(),
            wrong: self.wrong.value(),
            late: self.late.value(),
            writes: self.writes.value(),
            writes_refused: self.writes_refused.value(),
            writes_bypassed: self.writes_bypassed.value(),
            marked: self.marked.value(),
            announcements_sent: self.announcements_sent.value(),
            announcements_heard: self.announcements_heard.value(),
            announcements_refused: self.announcements_refused.value(),
            announcements_full: self.announcements_full.value(),
        }
    }

    pub(crate) fn wrote(&self, outcome: TierWrite) {
        let counter = match outcome {
            // Without a tier nothing was offered, so nothing is counted.
            TierWrite::NoTier => return,
            TierWrite::Accepted => &self.writes,
            TierWrite::Refused => &self.writes_refused,
            TierWrite::Busy => &self.writes_bypassed,
        };
        counter.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_follows_the_nb_cache_truth_table() {
        let marks = |rule: TierMarking| {
            [(false, true), (false, false), (true, true), (true, false)]
                .map(|(is_busy, may_bypass)| rule.marks(is_busy, || may_bypass))
        };
        assert_eq!(marks(TierMarking::Lazy), [false, false, false, true]);
        assert_eq!(marks(TierMarking::Threshold), [false, false, true, true]);
        assert_eq!(marks(TierMarking::Never), [false; 4]);
        assert_eq!(TierMarking::default(), TierMarking::Lazy);
    }
}

//! A tier below the content store in memory: a store on disk, which the home brings.
//!
//! By [`Tier::read`] the core requests Data that the memory does not hold. It neither waits nor
//! does I/O: an Interest whose Data is being read is *parked* in its PIT entry, which waits for
//! [`Forwarder::tier_completed`](crate::Forwarder::tier_completed). [`Tier::write`] offers it Data
//! that leaves the memory.
//!
//! # Requests to the tier
//!
//! An Interest that makes a new PIT entry, once, unless it chooses its upstream itself
//! (NextHopFaceId). One that joins an entry is aggregated; one that comes again from a face that
//! waits for a parked entry, with whatever Nonce, is sent upstream while the read goes on, so that
//! a disk that stands still costs its consumers one retransmission. The tier finds Data by the
//! whole name; it may answer CanBePrefix by Data with a longer one if it can find it. MustBeFresh
//! is checked by the core when the Data has come, by the time that the tier gives back.

use namely_wire::NameRef;

use crate::counter::Counter;
use crate::face_id::FaceId;
use crate::pit::key::EntryKey;

/// The tier of a home, for the time of one call of the core.
pub trait Tier<B> {
    /// True if a home of this type may have a tier, now or later: the memory then notes which Data
    /// were asked for.
    const MAY_BE: bool = true;

    /// An Interest requests Data that the memory does not hold. Called with no lock held; must not
    /// wait.
    fn read(&mut self, wanted: &Wanted<'_>) -> TierAnswer;

    /// Returns true while as many requests pend as the threshold says.
    fn is_busy(&self) -> bool {
        false
    }

    /// A Data leaves the memory to make room, and did not come from the tier. Called with no lock
    /// held; must not wait.
    fn write(&mut self, leaving: Leaving<B>) -> TierWrite;

    /// A packet is about to be processed; it causes all following calls. For a home that measures
    /// times.
    fn packet_begins(&mut self) {}

    /// The memory answers an Interest with the next packet sent. For a home that measures times.
    fn answers_from_memory(&mut self) {}
}

/// No tier.
impl<B> Tier<B> for () {
    const MAY_BE: bool = false;

    fn read(&mut self, _: &Wanted<'_>) -> TierAnswer {
        TierAnswer::NoTier
    }

    fn write(&mut self, _: Leaving<B>) -> TierWrite {
        TierWrite::NoTier
    }
}

/// Names a parked Interest, which may be gone when its read completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

impl Ticket {
    pub(crate) fn new(key: EntryKey) -> Self {
        Ticket(u64::from(key.serial) << 32 | u64::from(key.id))
    }

    pub(crate) fn key(self) -> EntryKey {
        EntryKey { id: self.0 as u32, serial: (self.0 >> 32) as u32 }
    }

    /// The ticket as a number, which may go through a queue of the system.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The ticket that has been made `bits`. Of any other number a ticket that names nothing, or an
    /// Interest that the Data does not satisfy: the core compares names.
    pub fn from_bits(bits: u64) -> Self {
        Ticket(bits)
    }
}

/// What an Interest wants of the tier.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The name, without an implicit digest.
    pub name: NameRef<'a>,
    /// The implicit digest that ended it.
    pub digest: Option<&'a [u8]>,
    /// Data with a longer name will do.
    pub can_be_prefix: bool,
    /// Stale Data will not do: a tier that knows it to be stale need not read it.
    pub must_be_fresh: bool,
    /// Somebody else can be asked: false if there is no upstream, or all have announced that they
    /// are congested. Then a tier above its threshold reads nevertheless, as far as it can.
    pub may_bypass: bool,
    /// Where the Interest came from.
    pub face: FaceId,
    /// What the completion is for.
    pub ticket: Ticket,
}

/// What the tier says to an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierAnswer {
    /// There is no tier: a home that may have one has none just now. Not counted.
    NoTier,
    /// It has no such Data for certain: the first-stage bypass.
    Absent,
    /// It may have it, but has too much to do: the second-stage bypass.
    Busy,
    /// It looks for it, and [`Forwarder::tier_completed`](crate::Forwarder::tier_completed) will be
    /// called once with the ticket, from whichever thread, but not before the answer was given.
    Reading,
}

/// What a read came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion<B> {
    /// The Data was found.
    Found {
        /// One bare Data TLV.
        packet: B,
        /// Until when it is fresh, on the clock of the forwarder's time; 0 if it is stale.
        fresh_until_ns: u64,
        /// As many requests pend as the threshold says: who asks is told, if nobody else can be
        /// asked.
        is_busy: bool,
    },
    /// It is not there after all.
    Absent,
    /// It could not be read.
    Failed,
}

/// A Data that leaves the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving<B> {
    /// One bare Data TLV.
    pub packet: B,
    /// Until when it is fresh, on the clock of the forwarder's time.
    pub fresh_until_ns: u64,
    /// It answered an Interest while it was in memory.
    pub was_asked_for: bool,
    /// It is of an object that is to be kept in the tier (`ObjectPlace::Tier`): whatever
    /// else is written, this is.
    pub is_planned: bool,
}

impl<B> Leaving<B> {
    /// One of an object that is to be kept in the tier.
    #[cfg(feature = "vip")]
    pub(crate) fn planned(packet: B, fresh_until_ns: u64) -> Self {
        Leaving { packet, fresh_until_ns, was_asked_for: true, is_planned: true }
    }
}

/// What the tier does with a Data that leaves the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierWrite {
    /// There is no tier. Not counted.
    NoTier,
    /// It writes it.
    Taken,
    /// It does not want it: its admission policy, or it has it.
    Refused,
    /// It has too much to do: the second-stage bypass of Data.
    Busy,
}

/// The routers that mark Data from their tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TierMarking {
    /// Nobody.
    Never,
    /// A router whose tier has as many pending requests as its threshold says.
    Threshold,
    /// The same, but only if no upstream is left to which it could pass its load (NB-Cache's lazy
    /// notification).
    #[default]
    Lazy,
}

impl TierMarking {
    /// Returns true if Data is to be marked, when the tier `is_busy` and there is an upstream that
    /// has not announced congestion, or not.
    pub(crate) fn marks(self, is_busy: bool, may_bypass: impl FnOnce() -> bool) -> bool {
        match self {
            TierMarking::Never => false,
            TierMarking::Threshold => is_busy,
            TierMarking::Lazy => is_busy && !may_bypass(),
        }
    }
}

/// What is counted of the tier. All are 0 for a home without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Pending Interests that Data from the tier satisfied.
    pub hits: u64,
    /// Interests that went on because the tier has no such Data: the first-stage bypass.
    pub bypass_absent: u64,
    /// Interests that went on because it had too much to do: the second-stage bypass.
    pub bypass_busy: u64,
    /// Interests that were parked until a read completes.
    pub reads: u64,
    /// Reads that found nothing, or stale Data for who wants it fresh.
    pub misses: u64,
    /// Reads that failed.
    pub failed: u64,
    /// Reads that found Data which is not what was asked for.
    pub wrong: u64,
    /// Reads that completed when nobody waited any more.
    pub late: u64,
    /// Data that was given to the tier when it left the memory.
    pub writes: u64,
    /// Data that the tier did not admit.
    pub writes_refused: u64,
    /// Data that was not written because the tier had too much to do.
    pub writes_bypassed: u64,
    /// Data that was marked because the tier had too much to do.
    pub marked: u64,
    /// Announcements of congestion, or that it is over, that were sent to neighbours.
    pub announcements_sent: u64,
    /// Announcements of neighbours that labelled their faces.
    pub announcements_heard: u64,
    /// Announcements that came from no neighbour, or say nothing known.
    pub announcements_refused: u64,
    /// Neighbours that were not told because too many are.
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
            TierWrite::NoTier => return,
            TierWrite::Taken => &self.writes,
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
    fn data_is_marked_by_the_truth_table_of_nb_cache() {
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

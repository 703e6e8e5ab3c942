//! Counters: packets by kind, per face and in total, and every drop by its reason.

use alloc::boxed::Box;
use core::cell::Cell;

use crate::counter::Counter;
use crate::error::ConfigError;
use crate::limits::parts_of;
use crate::pool::boxed;
use crate::tier::TierCounts;

/// The reason for which a packet was dropped. Each has one counter; [`DropReason::label`] is its
/// stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The octets are not one Interest or Data.
    Malformed,
    /// The packet has more than 8,800 octets.
    TooLarge,
    /// The packet came from a face that does not exist.
    UnknownFace,
    /// The egress face of the packet was released or is an orphan.
    FaceGone,
    /// A `/localhost` packet came from a non-local face, or would have left through one by
    /// NextHopFaceId.
    Scope,
    /// An Interest arrived with HopLimit 0, so it may not be forwarded.
    HopLimit,
    /// An Interest looped: its Nonce was seen before.
    Loop,
    /// A new Interest was refused because the PIT is full and no owner was found that has more
    /// entries than its own.
    PitFull,
    /// A new Interest was refused because its face has too many pending Interests.
    PitFaceFull,
    /// A new Interest was refused because its face's owner has too many pending Interests.
    PitOwnerFull,
    /// A pending Interest was evicted from an owner with many for a new one of an owner with fewer.
    /// It is answered with a Congestion Nack.
    PitEvicted,
    /// A new Interest of another host got a NoRoute Nack because the router drains.
    Draining,
    /// An Interest already has the maximum number of downstream faces.
    InRecordsFull,
    /// An Interest was not sent to a further upstream because its entry has too many out-records.
    OutRecordsFull,
    /// An Interest has no upstream face: there is no route, or only one to its own face.
    NoRoute,
    /// An Interest has a NextHopFaceId that does not exist.
    NextHopGone,
    /// An Interest carries NextHopFaceId but its face has not enabled local fields.
    NextHopRefused,
    /// The FIB led to the `local` face, but no application has bound a prefix of the name.
    NotBound,
    /// Data came that no pending Interest requested, or from a face to which no Interest for it was
    /// sent, and `cs_unsolicited` does not admit it to the content store. No face receives it.
    Unsolicited,
    /// A Nack matches no pending Interest, no upstream face, or not its Nonce.
    NackUnmatched,
    /// A Nack came from a multi-access or ad-hoc link, where Nacks are not used.
    NackLinkType,
    /// No packet buffer was free.
    NoBuffer,
    /// There was no memory for a record of an Interest: a further downstream, which is refused with
    /// a Congestion Nack, or further upstreams, to which it is then not sent.
    NoMemory,
}

impl DropReason {
    /// Every reason, in the order of their counters.
    pub const ALL: [DropReason; 23] = [
        DropReason::Malformed,
        DropReason::TooLarge,
        DropReason::UnknownFace,
        DropReason::FaceGone,
        DropReason::Scope,
        DropReason::HopLimit,
        DropReason::Loop,
        DropReason::PitFull,
        DropReason::PitFaceFull,
        DropReason::PitOwnerFull,
        DropReason::PitEvicted,
        DropReason::Draining,
        DropReason::InRecordsFull,
        DropReason::OutRecordsFull,
        DropReason::NoRoute,
        DropReason::NextHopGone,
        DropReason::NextHopRefused,
        DropReason::NotBound,
        DropReason::Unsolicited,
        DropReason::NackUnmatched,
        DropReason::NackLinkType,
        DropReason::NoBuffer,
        DropReason::NoMemory,
    ];

    /// The counter's stable name.
    pub fn label(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::TooLarge => "too_large",
            DropReason::UnknownFace => "unknown_face",
            DropReason::FaceGone => "face_gone",
            DropReason::Scope => "scope",
            DropReason::HopLimit => "hop_limit",
            DropReason::Loop => "loop",
            DropReason::PitFull => "pit_full",
            DropReason::PitFaceFull => "pit_face_full",
            DropReason::PitOwnerFull => "pit_holder_full",
            DropReason::PitEvicted => "pit_evicted",
            DropReason::Draining => "draining",
            DropReason::InRecordsFull => "in_records_full",
            DropReason::OutRecordsFull => "out_records_full",
            DropReason::NoRoute => "no_route",
            DropReason::NextHopGone => "next_hop_gone",
            DropReason::NextHopRefused => "next_hop_refused",
            DropReason::NotBound => "not_bound",
            DropReason::Unsolicited => "unsolicited",
            DropReason::NackUnmatched => "nack_unmatched",
            DropReason::NackLinkType => "nack_link_type",
            DropReason::NoBuffer => "no_buffer",
            DropReason::NoMemory => "no_memory",
        }
    }
}

/// The live counters of a forwarder that belong to no face.
#[derive(Debug)]
pub(crate) struct Counters {
    drops: [Counter; DropReason::ALL.len()],
    // Not among the hot ones: it changes only when an Interest expires or is refused.
    pub(crate) unsatisfied: Counter,
    pub(crate) faces_freed: Counter,
    pub(crate) faces_orphaned: Counter,
    /// The counters that every packet changes, in a power of two of parts.
    hot: Box<[HotCounters]>,
}

/// One part of the counters that every packet changes, indexed by [`HotCounter`]. Each part has a
/// cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct HotCounters([Counter; 6]);

impl Counters {
    /// Counters for `threads_max` threads.
    pub(crate) fn new(threads_max: usize) -> Result<Self, ConfigError> {
        Ok(Counters {
            drops: Default::default(),
            unsatisfied: Counter::default(),
            faces_freed: Counter::default(),
            faces_orphaned: Counter::default(),
            hot: boxed(parts_of(threads_max), HotCounters::default)?,
        })
    }

    pub(crate) fn dropped(&self, reason: DropReason) {
        // In range: `DropReason::ALL` has one element for each reason, which a test checks.
        self.drops[reason as usize].add(1);
    }

    pub(crate) fn drop_count(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].value()
    }

    /// The part for packets that came from the face in `slot`. A face is read by one worker, so
    /// workers seldom share a part.
    pub(crate) fn of(&self, slot: u32) -> &HotCounters {
        // The face selects the part, because the core cannot identify the thread that calls it.
        &self.hot[slot as usize & (self.hot.len() - 1)]
    }

    /// The sum of a counter over all parts.
    pub(crate) fn sum(&self, what: HotCounter) -> u64 {
        // Not a snapshot: a part may grow during the sum, and the next call includes that.
        self.hot.iter().map(|part| part.0[what as usize].value()).sum()
    }
}

/// The kinds of a face's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    InInterests,
    InData,
    InNacks,
    OutInterests,
    OutData,
    OutNacks,
}

/// The live packet counters of one face.
#[derive(Debug, Default)]
pub(crate) struct FaceCounters([Counter; 6]);

impl FaceCounters {
    pub(crate) fn add(&self, packets: Packets, n: u64) {
        self.0[packets as usize].add(n);
    }

    /// Resets the counters to 0, for another face.
    pub(crate) fn reset(&self) {
        // Without a lock: the cell has no user yet, so no other thread counts.
        self.0.iter().for_each(Counter::reset);
    }

    pub(crate) fn read(&self) -> PacketCounts {
        let [in_interests, in_data, in_nacks, out_interests, out_data, out_nacks] =
            self.0.each_ref().map(Counter::value);
        PacketCounts { in_interests, in_data, in_nacks, out_interests, out_data, out_nacks }
    }
}

/// Packets of a face that a worker has counted locally and not added to the shared counters yet: a
/// shared counter costs a locked operation each time.
#[derive(Debug, Default)]
pub(crate) struct FaceTally([Cell<u32>; 6]);

impl FaceTally {
    #[inline]
    pub(crate) fn add(&self, packets: Packets) {
        let tally = &self.0[packets as usize];
        // Cannot overflow: the tally is settled when the batch ends.
        tally.set(tally.get() + 1);
    }

    /// Adds the local counts to the face's counters.
    pub(crate) fn settle(&self, counters: &FaceCounters) {
        for (tally, counter) in self.0.iter().zip(&counters.0) {
            match tally.take() {
                // Most kinds are 0 after a batch, and an addition of 0 is a locked operation as
                // well.
                0 => {}
                n => counter.add(u64::from(n)),
            }
        }
    }
}

/// The counters of [`HotCounters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HotCounter {
    /// [`ForwarderCounters::satisfied`].
    Satisfied,
    /// [`ForwarderCounters::suppressed`].
    Suppressed,
    /// [`ForwarderCounters::to_network`].
    ToNetwork,
    /// [`ForwarderCounters::to_local`].
    ToLocal,
    /// [`crate::CsStatus::hits`].
    CsHits,
    /// [`crate::CsStatus::misses`].
    CsMisses,
}

/// As [`FaceTally`], for [`HotCounters`].
#[derive(Debug, Default)]
pub(crate) struct HotTally([Cell<u32>; 6]);

impl HotTally {
    #[inline]
    pub(crate) fn add(&self, what: HotCounter, n: u32) {
        let tally = &self.0[what as usize];
        tally.set(tally.get() + n);
    }

    /// Adds the local counts to one part of the counters.
    pub(crate) fn settle(&self, counters: &HotCounters) {
        for (tally, counter) in self.0.iter().zip(&counters.0) {
            match tally.take() {
                0 => {}
                n => counter.add(u64::from(n)),
            }
        }
    }
}

/// Network packets by kind and direction, of one face or of the whole forwarder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Interests received.
    pub in_interests: u64,
    /// Data received.
    pub in_data: u64,
    /// Nacks received.
    pub in_nacks: u64,
    /// Interests sent.
    pub out_interests: u64,
    /// Data sent.
    pub out_data: u64,
    /// Nacks sent.
    pub out_nacks: u64,
}

impl PacketCounts {
    pub(crate) fn add(&mut self, other: PacketCounts) {
        // Not saturating: 64 bits of packets do not overflow during the life of a router.
        self.in_interests += other.in_interests;
        self.in_data += other.in_data;
        self.in_nacks += other.in_nacks;
        self.out_interests += other.out_interests;
        self.out_data += other.out_data;
        self.out_nacks += other.out_nacks;
    }
}

/// A snapshot of all counters of a forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwarderCounters {
    /// Packets of all faces, including released ones.
    pub packets: PacketCounts,
    /// Pending Interests that Data satisfied, including the content store's hits.
    pub satisfied: u64,
    /// Pending Interests that expired or were refused.
    pub unsatisfied: u64,
    /// Retransmissions that the strategy suppressed: aggregated with the pending Interest.
    pub suppressed: u64,
    /// Interests that took the network-layer forwarding path: FIB to a face (`IS-02`).
    pub to_network: u64,
    /// Interests that took the local delivering path: FIB to `local`, BPT to an application
    /// (`IS-02`).
    pub to_local: u64,
    /// Faces that were unused when they were released.
    pub faces_freed: u64,
    /// Faces that a packet still held when they were released.
    pub faces_orphaned: u64,
    /// Faces that are orphans now: released, and still held for a packet.
    pub orphans: u64,
    /// The number of times that a strategy found no room for a record of a prefix or of a face.
    pub strategy_memory_full: u64,
    /// Counts of the tier below the content store.
    pub tier: TierCounts,
    /// Counts of the Data of registered objects.
    pub objects: ObjectCounts,
    /// Drops in the order of [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
}

/// The cached Data of all objects, and counts of their Data. All are 0 without registered objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// Objects with a reservation.
    pub held: usize,
    /// Data, including that of objects that are being evicted.
    pub packets: usize,
    /// Octets that these occupy.
    pub octets: u64,
    /// Octets that are reserved for objects.
    pub reserved: u64,
    /// Data admitted to memory.
    pub admitted: u64,
    /// Data that the plan does not cache in memory, or that found no room because no cached object
    /// is worth less.
    pub refused: u64,
    /// Data offered on arrival to the disk, where the plan keeps its object. The disk may have
    /// refused it.
    pub to_tier: u64,
    /// Objects evicted for one that is worth more, or removed with a catalogue.
    pub evicted: u64,
    /// Data evicted with them.
    pub evicted_data: u64,
    /// Data of no object that was refused because only objects are cached.
    pub unregistered: u64,
}

impl ObjectCounts {
    /// Each counter with its stable name.
    pub fn labelled(&self) -> [(&'static str, u64); 6] {
        [
            // Only counters: the held objects, and their packets and octets, are gauges.
            ("objects_admitted_data", self.admitted),
            ("objects_refused_data", self.refused),
            ("objects_data_to_disk", self.to_tier),
            ("objects_evicted", self.evicted),
            ("objects_evicted_data", self.evicted_data),
            ("objects_unregistered_data", self.unregistered),
        ]
    }
}

impl ForwarderCounters {
    /// The drops for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn each_drop_reason_has_its_own_counter() {
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
        }
        let labels: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.label()).collect();
        assert_eq!(labels.len(), DropReason::ALL.len());
        let counters = Counters::new(16).unwrap();
        counters.dropped(DropReason::NoBuffer);
        assert_eq!(counters.drop_count(DropReason::NoBuffer), 1);
        assert_eq!(counters.drop_count(DropReason::Malformed), 0);
    }
}

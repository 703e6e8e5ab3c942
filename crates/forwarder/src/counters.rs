//! What is counted: packets by kind, per face and in all, and every drop by its reason.

use alloc::boxed::Box;
use core::cell::Cell;

use crate::counter::Counter;
use crate::error::ConfigError;
use crate::pool::boxed;
use crate::tier::TierCounts;

/// Why a packet was dropped. Each has one counter; [`DropReason::label`] is its stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The octets are not one Interest or Data.
    Malformed,
    /// The packet is larger than [`namely_wire::PACKET_OCTETS_MAX`].
    TooLarge,
    /// The packet came from a face that does not exist.
    UnknownFace,
    /// The packet was meant for a face that is gone: the black hole of an orphaned face.
    FaceGone,
    /// A `/localhost` packet came from a non-local face, or was to leave through one by
    /// NextHopFaceId.
    Scope,
    /// An Interest arrived with HopLimit 0.
    HopLimit,
    /// An Interest came back: its Nonce was seen before.
    Loop,
    /// A new Interest was refused because the PIT is full.
    PitFull,
    /// A new Interest was refused because its face has too many pending ones.
    PitFaceFull,
    /// A new Interest was refused because its face's holder has too many pending ones.
    PitHolderFull,
    /// A pending Interest of a holder that has many gave way to a new one of who has fewer.
    PitEvicted,
    /// An Interest has too many downstream faces already.
    InRecordsFull,
    /// An Interest was to go to one more upstream face than its entry may record.
    OutRecordsFull,
    /// An Interest has no upstream face to go to.
    NoRoute,
    /// An Interest names a NextHopFaceId that does not exist.
    NextHopGone,
    /// An Interest carries NextHopFaceId but its face has not enabled local fields.
    NextHopRefused,
    /// The FIB led to the `local` face, but no application has bound a prefix of the name.
    NotBound,
    /// Data came that no pending Interest requested, and the policy does not cache it.
    Unsolicited,
    /// A Nack matches no pending Interest, no upstream face, or not its Nonce.
    NackUnmatched,
    /// A Nack came from a multi-access or ad-hoc link, where it means nothing.
    NackLinkType,
    /// No packet buffer was free.
    NoBuffer,
    /// There was no memory for what was to be recorded of an Interest: a further downstream, or
    /// further upstreams, to which it then does not go.
    NoMemory,
}

impl DropReason {
    /// Every reason, in the order of their counters.
    pub const ALL: [DropReason; 22] = [
        DropReason::Malformed,
        DropReason::TooLarge,
        DropReason::UnknownFace,
        DropReason::FaceGone,
        DropReason::Scope,
        DropReason::HopLimit,
        DropReason::Loop,
        DropReason::PitFull,
        DropReason::PitFaceFull,
        DropReason::PitHolderFull,
        DropReason::PitEvicted,
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
            DropReason::PitHolderFull => "pit_holder_full",
            DropReason::PitEvicted => "pit_evicted",
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
    pub(crate) unsatisfied: Counter,
    pub(crate) faces_freed: Counter,
    pub(crate) faces_orphaned: Counter,
    hot: Box<[HotCounters]>,
}

/// Parts of the counters that every packet moves.
const HOT_PARTS: usize = 16;

/// Counters that every packet moves, by [`HotCounter`], on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct HotCounters([Counter; 6]);

impl Counters {
    pub(crate) fn new() -> Result<Self, ConfigError> {
        Ok(Counters {
            drops: Default::default(),
            unsatisfied: Counter::default(),
            faces_freed: Counter::default(),
            faces_orphaned: Counter::default(),
            hot: boxed(HOT_PARTS, HotCounters::default)?,
        })
    }

    pub(crate) fn dropped(&self, reason: DropReason) {
        self.drops[reason as usize].add(1);
    }

    pub(crate) fn drop_count(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].value()
    }

    /// The part for packets that came from the face in `slot`. A face is read by one worker, so
    /// that workers seldom share one.
    pub(crate) fn of(&self, slot: u32) -> &HotCounters {
        &self.hot[slot as usize % HOT_PARTS]
    }

    /// The sum of a counter over all parts.
    pub(crate) fn sum(&self, what: HotCounter) -> u64 {
        self.hot.iter().map(|part| part.0[what as usize].value()).sum()
    }
}

/// What a face's packets are counted by.
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

    /// Starts again from 0, for another face.
    pub(crate) fn reset(&self) {
        self.0.iter().for_each(Counter::reset);
    }

    pub(crate) fn read(&self) -> PacketCounts {
        let [in_interests, in_data, in_nacks, out_interests, out_data, out_nacks] =
            self.0.each_ref().map(Counter::value);
        PacketCounts { in_interests, in_data, in_nacks, out_interests, out_data, out_nacks }
    }
}

/// Packets of a face that a worker has counted for itself and not for all yet: a counter that all
/// may see costs a locked operation each time.
#[derive(Debug, Default)]
pub(crate) struct FaceTally([Cell<u32>; 6]);

impl FaceTally {
    #[inline]
    pub(crate) fn add(&self, packets: Packets) {
        let tally = &self.0[packets as usize];
        tally.set(tally.get() + 1);
    }

    /// Adds what was counted to the face's counters.
    pub(crate) fn settle(&self, counters: &FaceCounters) {
        for (tally, counter) in self.0.iter().zip(&counters.0) {
            match tally.take() {
                0 => {}
                n => counter.add(u64::from(n)),
            }
        }
    }
}

/// What [`HotCounters`] count.
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

/// The same as [`FaceTally`] for [`HotCounters`].
#[derive(Debug, Default)]
pub(crate) struct HotTally([Cell<u32>; 6]);

impl HotTally {
    #[inline]
    pub(crate) fn add(&self, what: HotCounter, n: u32) {
        let tally = &self.0[what as usize];
        tally.set(tally.get() + n);
    }

    /// Adds what was counted to one part of the counters.
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
        self.in_interests += other.in_interests;
        self.in_data += other.in_data;
        self.in_nacks += other.in_nacks;
        self.out_interests += other.out_interests;
        self.out_data += other.out_data;
        self.out_nacks += other.out_nacks;
    }
}

/// A reading of all counters of a forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwarderCounters {
    /// Packets of all faces, those released included.
    pub packets: PacketCounts,
    /// Pending Interests that Data satisfied, the content store's hits included.
    pub satisfied: u64,
    /// Pending Interests that expired or were refused.
    pub unsatisfied: u64,
    /// Retransmissions that the strategy held back: aggregated with what is pending.
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
    /// Faces that are orphans now: released, and held by who has a packet for them.
    pub orphans: u64,
    /// How often a strategy found no room to remember a prefix or a face of it.
    pub strategy_memory_full: u64,
    /// What the tier below the content store in memory did.
    pub tier: TierCounts,
    /// What became of Data of registered objects.
    pub objects: ObjectCounts,
    /// Drops in the order of [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
}

/// What memory holds of all objects, and what became of their Data. All are 0 for a core
/// without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// Objects that have room.
    pub held: usize,
    /// Data, those of objects on their way out among them.
    pub packets: usize,
    /// Octets that these hold on to.
    pub octets: u64,
    /// Octets that objects have as their room.
    pub reserved: u64,
    /// Data that came in.
    pub admitted: u64,
    /// Data that were not to be kept, or found no room.
    pub refused: u64,
    /// Data that were given to the tier, which may have refused them.
    pub to_tier: u64,
    /// Objects that left.
    pub evicted: u64,
    /// Data that left with them.
    pub evicted_data: u64,
    /// Data of no object that were refused (`ObjectControl::only`).
    pub unregistered: u64,
}

impl ObjectCounts {
    /// Each counter with its stable name.
    pub fn labelled(&self) -> [(&'static str, u64); 6] {
        [
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
    /// Drops for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn each_reason_has_its_own_counter_and_label() {
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
        }
        let labels: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.label()).collect();
        assert_eq!(labels.len(), DropReason::ALL.len());
        let counters = Counters::new().unwrap();
        counters.dropped(DropReason::NoBuffer);
        assert_eq!(counters.drop_count(DropReason::NoBuffer), 1);
        assert_eq!(counters.drop_count(DropReason::Malformed), 0);
    }
}

//! The reference from a PIT entry to a strategy's memory.

use crate::slab::Id;

/// The time for which a record is retained after its last use, ns (NFD's lifetime of ASF's
/// measurements).
pub(super) const LIFETIME_NS: u64 = 300_000_000_000;

/// The bit of a [`MemoryId`] of an Interest that was sent as a discovery.
const DISCOVERY: u32 = 1 << 31;

/// The largest generation number in a [`MemoryId`].
const GENERATIONS: u8 = 0x7f;

/// Identifies a record during its lifetime; a PIT entry stores it. 4 bits are the part, 20 the
/// number in the part, and 7 count the earlier uses of that number. A number is reused after
/// [`LIFETIME_NS`] at the soonest, so no PIT entry lives until the 7 bits repeat. The last bit is
/// the entry's own: it was sent as a discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryId(u32);

impl MemoryId {
    /// No record: the strategy has no hooks for this Interest.
    pub(crate) const NONE: MemoryId = MemoryId(0);

    pub(super) fn new(part: usize, id: Id, generation: u8) -> Self {
        // Never `NONE`, because ids count from 1.
        MemoryId(u32::from(generation & GENERATIONS) << 24 | id << 4 | part as u32)
    }

    /// The id of an Interest that was sent as a discovery.
    pub(crate) fn of_discovery(self) -> Self {
        MemoryId(self.0 | DISCOVERY)
    }

    pub(crate) fn is_discovery(self) -> bool {
        self.0 & DISCOVERY != 0
    }

    pub(super) fn part(self) -> usize {
        (self.0 & 0xf) as usize
    }

    pub(super) fn id(self) -> Id {
        self.0 >> 4 & 0xf_ffff
    }

    /// Returns true if the generations match in their lower 7 bits.
    pub(super) fn has_generation(self, generation: u8) -> bool {
        generation & GENERATIONS == (self.0 >> 24) as u8 & GENERATIONS
    }
}

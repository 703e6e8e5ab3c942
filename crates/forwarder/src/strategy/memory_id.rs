//! The reference from a PIT entry to a strategy's memory.

use crate::slab::Id;

/// How long a record is kept after its last use, ns (NFD's lifetime of ASF's measurements).
pub(super) const LIFETIME_NS: u64 = 300_000_000_000;

/// The bit of a [`MemoryId`] that says that the Interest was sent as a discovery.
const DISCOVERY: u32 = 1 << 31;

/// How many numbers of generations a [`MemoryId`] has room for, less one.
const GENERATIONS: u8 = 0x7f;

/// Names a record for its lifetime; a PIT entry keeps it. It has the part in 4 bits, the number in
/// the part in 20, and in 7 how often that number was used before. A number is used again after
/// [`LIFETIME_NS`] at the soonest, so no PIT entry lives to see the 7 bits repeat. The last bit is
/// of the entry itself: whether it was sent as a discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryId(u32);

impl MemoryId {
    /// No record: the strategy is told nothing of this Interest.
    pub(crate) const NONE: MemoryId = MemoryId(0);

    pub(super) fn new(part: usize, id: Id, generation: u8) -> Self {
        MemoryId(u32::from(generation & GENERATIONS) << 24 | id << 4 | part as u32)
    }

    /// The same of an Interest that was sent as a discovery.
    pub(crate) fn of_discovery(self) -> Self {
        MemoryId(self.0 | DISCOVERY)
    }

    pub(crate) fn is_of_discovery(self) -> bool {
        self.0 & DISCOVERY != 0
    }

    pub(super) fn part(self) -> usize {
        (self.0 & 0xf) as usize
    }

    pub(super) fn id(self) -> Id {
        self.0 >> 4 & 0xf_ffff
    }

    /// Whether the record's number was used so often before, as far as 7 bits tell.
    pub(super) fn is_of_generation(self, generation: u8) -> bool {
        generation & GENERATIONS == (self.0 >> 24) as u8 & GENERATIONS
    }
}

//! The ids of a worker's listeners and transports. Outside this crate a face is identified only by
//! its [`crate::FaceTag`].

/// The id of a listener or transport: the worker that reads it, its slot at this worker, and the
/// generation of the slot. The generation changes with each use of the slot, so that an id of a
/// removed source is not valid for its successor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct SourceId(pub(crate) u64);

impl SourceId {
    /// Bits of the slot's index.
    const INDEX_BITS: u32 = 24;

    pub(crate) fn new(worker: usize, index: usize, generation: u32) -> Self {
        let worker = (worker as u64) << 56;
        // The 64 bits are 8 for the worker, 32 for the generation and 24 for the slot.
        SourceId(worker | u64::from(generation) << Self::INDEX_BITS | index as u64)
    }

    /// Returns the index of the slot, which is reused after the source was removed.
    #[inline]
    pub(crate) fn index(self) -> usize {
        (self.0 & ((1 << Self::INDEX_BITS) - 1)) as usize
    }

    /// Returns the number of the worker.
    #[inline]
    pub(crate) fn worker(self) -> usize {
        (self.0 >> 56) as usize
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        // The cast removes the bits of the worker.
        (self.0 >> Self::INDEX_BITS) as u32
    }
}

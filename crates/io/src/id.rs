//! What a worker knows its listeners and transports by. Outside this crate a face has its
//! [`crate::FaceTag`] only.

/// A listener or transport: the worker that reads it, and its slot there. An id is never used
/// again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct SourceId(pub(crate) u64);

impl SourceId {
    /// Slots of one worker.
    const INDEX_BITS: u32 = 24;

    pub(crate) fn new(worker: usize, index: usize, generation: u32) -> Self {
        let worker = (worker as u64) << 56;
        SourceId(worker | u64::from(generation) << Self::INDEX_BITS | index as u64)
    }

    /// The slot: small, and reused after the source has gone.
    #[inline]
    pub(crate) fn index(self) -> usize {
        (self.0 & ((1 << Self::INDEX_BITS) - 1)) as usize
    }

    /// The number of the worker.
    #[inline]
    pub(crate) fn worker(self) -> usize {
        (self.0 >> 56) as usize
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> Self::INDEX_BITS) as u32
    }
}

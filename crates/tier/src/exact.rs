//! Erasures of single packets by full name. The digest must agree, so that a report of Data that
//! the tier does not have erases nothing else.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use namely_wire::{DataView, Name, NameRef};
use parking_lot::Mutex;

use super::error::TierError;
use super::limits::EXACT_ERASURES_MAX;

/// Computes a SHA-256, such as the implicit digest of a packet. The embedder provides it, because
/// the tier needs it for erasures only.
pub type Sha256 = fn(&[u8]) -> [u8; 32];

/// A packet to erase.
#[derive(Clone, Debug)]
pub(crate) struct ExactErasure {
    /// The packet's name, without its digest.
    pub(crate) name: Name,
    digest: [u8; 32],
    sha256: Sha256,
}

impl ExactErasure {
    /// Returns none if `full_name` does not end with an implicit digest.
    pub(crate) fn new(full_name: NameRef<'_>, sha256: Sha256) -> Option<Self> {
        let last = full_name.last().filter(|last| last.is_implicit_digest())?;
        let digest = <[u8; 32]>::try_from(last.value).ok()?;
        Some(ExactErasure { name: full_name.without_last(1).to_name(), digest, sha256 })
    }

    /// Returns whether `packet` is the packet to erase.
    pub(crate) fn is_of(&self, packet: &[u8]) -> bool {
        let name = DataView::parse(packet).map(|data| data.name);
        // The name is compared first, because a digest takes longer.
        name.is_ok_and(|name| name == self.name.as_name()) && (self.sha256)(packet) == self.digest
    }
}

/// Erasures of single packets that the keeper has not performed yet, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct ExactErasures {
    waiting: Mutex<VecDeque<ExactErasure>>,
    /// Their number. A read takes the lock only if there are any.
    count: AtomicUsize,
}

impl ExactErasures {
    pub(crate) fn add(&self, erasure: ExactErasure) -> Result<(), TierError> {
        let mut waiting = self.waiting.lock();
        if waiting.iter().any(|known| known.name == erasure.name && known.digest == erasure.digest) {
            return Ok(());
        }
        if waiting.len() >= EXACT_ERASURES_MAX {
            return Err(TierError::TooMany { what: "being erased", max: EXACT_ERASURES_MAX });
        }
        waiting.push_back(erasure);
        // Release pairs with the Acquire in `any`: a read that follows the erasure takes the lock.
        self.count.store(waiting.len(), Ordering::Release);
        Ok(())
    }

    /// Returns a copy of the oldest erasure. It stays in the list until it is performed.
    pub(crate) fn first(&self) -> Option<ExactErasure> {
        self.waiting.lock().front().cloned()
    }

    /// Removes the oldest erasure from the list.
    pub(crate) fn end_first(&self) {
        let mut waiting = self.waiting.lock();
        waiting.pop_front();
        self.count.store(waiting.len(), Ordering::Release);
    }

    /// Returns whether one of the erasures fulfills a condition.
    pub(crate) fn any(&self, condition: impl Fn(&ExactErasure) -> bool) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.waiting.lock().iter().any(condition)
    }
}

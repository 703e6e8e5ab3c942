//! A few Data that a prefetch step has found, for the next step.

use crate::slab::{Id, NONE};

/// Data that are prefetched together: those of a batch's group of packets.
const GROUP: usize = 32;

/// Data that a step has found, for the next one.
pub(crate) struct Ids {
    ids: [Id; GROUP],
    len: usize,
}

impl Ids {
    pub(super) fn none() -> Self {
        Ids { ids: [NONE; GROUP], len: 0 }
    }

    /// Adds an id, if there is room for it.
    pub(super) fn push(&mut self, id: Id) {
        // A Data beyond the group is not prefetched, which costs time and does not change results.
        if let Some(slot) = self.ids.get_mut(self.len) {
            *slot = id;
            self.len += 1;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Id> + '_ {
        self.ids.iter().take(self.len).copied()
    }
}

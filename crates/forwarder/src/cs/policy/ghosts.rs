//! A queue of hashes that can be searched: evicted Data, to be recognized when it arrives again.
//! ARC must know the exact length of its queues.
//!
//! If two names share a hash, a policy mistakes one for the other; no answer depends on it.

use super::lists::Paged;
use super::sparse::Sparse;
use crate::error::ConfigError;
use crate::slab::{Id, NONE};

#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    hash: u64,
    /// The next of the chain, or of the free slots.
    next: Id,
    newer: Id,
    older: Id,
}

pub(super) struct Ghosts {
    slots: Paged<Ghost>,
    heads: Sparse<Id>,
    made: Id,
    free: Id,
    newest: Id,
    oldest: Id,
    len: usize,
}

const HEADS_MIN: usize = 16;
const HEADS_MAX: usize = 1 << 22;

impl Ghosts {
    /// A queue that is fastest with about `expected` hashes.
    pub(super) fn new(expected: usize) -> Result<Self, ConfigError> {
        let heads = Sparse::new(expected.clamp(HEADS_MIN, HEADS_MAX))?;
        let (free, newest, oldest) = (NONE, NONE, NONE);
        Ok(Ghosts { slots: Paged::default(), heads, made: 0, free, newest, oldest, len: 0 })
    }

    /// Allocates the memory for `hashes` hashes.
    pub(super) fn prepare(&mut self, hashes: usize) -> Result<(), ConfigError> {
        self.heads.prepare()?;
        self.slots.reach(hashes as Id + 1).then_some(()).ok_or(ConfigError::OutOfMemory)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn head(&self, hash: u64) -> Id {
        self.heads.get(hash).copied().unwrap_or(NONE)
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    fn find(&self, hash: u64) -> Option<Id> {
        let mut id = self.head(hash);
        while id != NONE && self.slots.at(id).hash != hash {
            id = self.slots.at(id).next;
        }
        (id != NONE).then_some(id)
    }

    /// Adds `hash` at the newest end, if there is memory for it. It must not be in the queue.
    pub(super) fn push(&mut self, hash: u64) {
        let id = if self.free == NONE { self.made + 1 } else { self.free };
        // Without memory the Data is not recognized later, and no answer depends on that.
        let Some(head) = self.heads.get_or_make(hash) else { return };
        // This comes before any list changes, so that a failure leaves nothing to undo.
        if !self.slots.reach(id) {
            return;
        }
        match self.free {
            NONE => self.made = id,
            free => self.free = self.slots.at(free).next,
        }
        let (next, older) = (core::mem::replace(head, id), self.newest);
        *self.slots.at_mut(id) = Ghost { hash, next, newer: NONE, older };
        match older {
            NONE => self.oldest = id,
            older => self.slots.at_mut(older).newer = id,
        }
        self.newest = id;
        self.len += 1;
    }

    /// Removes `hash`; returns true if it was there.
    pub(super) fn remove(&mut self, hash: u64) -> bool {
        let Some(id) = self.find(hash) else { return false };
        self.take(id);
        true
    }

    pub(super) fn pop_oldest(&mut self) -> bool {
        if self.oldest != NONE {
            self.take(self.oldest);
        }
        self.len > 0
    }

    fn take(&mut self, id: Id) {
        let Ghost { hash, next, newer, older } = *self.slots.at(id);
        let Some(head) = self.heads.get_mut(hash) else { return };
        if *head == id {
            *head = next;
        } else {
            let mut at = *head;
            // Singly linked: a chain has about one ghost, unless there are more than expected.
            while self.slots.at(at).next != id {
                at = self.slots.at(at).next;
            }
            self.slots.at_mut(at).next = next;
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slots.at_mut(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots.at_mut(older).newer = newer,
        }
        self.slots.at_mut(id).next = self.free;
        self.free = id;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ghosts_match_a_searched_queue(steps in proptest::collection::vec((0u8..3, 0u64..40), 0..200)) {
            let mut ghosts = Ghosts::new(4).unwrap();
            let mut model = Vec::new();
            for (step, hash) in steps {
                match step {
                    0 if !model.contains(&hash) => {
                        ghosts.push(hash);
                        model.push(hash);
                    }
                    1 => {
                        prop_assert_eq!(ghosts.remove(hash), model.contains(&hash));
                        model.retain(|known| *known != hash);
                    }
                    2 => {
                        if !model.is_empty() {
                            model.remove(0);
                        }
                        prop_assert_eq!(ghosts.pop_oldest(), !model.is_empty());
                    }
                    _ => {}
                }
                prop_assert_eq!(ghosts.len(), model.len());
                prop_assert!((0..40).all(|hash| ghosts.contains(hash) == model.contains(&hash)));
            }
        }
    }
}

//! A queue of hashes that can be searched: what left the store, to be recognized if it comes again. ARC must know
//! how long its queues are, to the last hash.
//!
//! A hash that two names share makes a policy mistake one for the other; no answer depends on it.

use alloc::vec;
use alloc::vec::Vec;

use super::lists::Chunked;
use crate::slab::{Id, NONE};

#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    hash: u64,
    /// The next of the chain, or of the free places.
    next: Id,
    newer: Id,
    older: Id,
}

pub(super) struct Ghosts {
    places: Chunked<Ghost>,
    heads: Vec<Id>,
    made: Id,
    free: Id,
    newest: Id,
    oldest: Id,
    len: usize,
}

const HEADS_MIN: usize = 16;
const HEADS_MAX: usize = 1 << 22;

impl Ghosts {
    /// Fastest with about `expected` hashes. Fresh heads are zeroed memory, which costs nothing until used.
    pub(super) fn new(expected: usize) -> Self {
        let heads = vec![NONE; expected.clamp(HEADS_MIN, HEADS_MAX).next_power_of_two()];
        Ghosts { places: Chunked::default(), heads, made: 0, free: NONE, newest: NONE, oldest: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn head(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    fn find(&self, hash: u64) -> Option<Id> {
        let mut id = self.heads[self.head(hash)];
        while id != NONE && self.places.at(id).hash != hash {
            id = self.places.at(id).next;
        }
        (id != NONE).then_some(id)
    }

    /// Puts `hash` to the newest end; it is not in the queue.
    pub(super) fn push(&mut self, hash: u64) {
        let id = match self.free {
            NONE => {
                self.made += 1;
                self.places.reach(self.made);
                self.made
            }
            free => {
                self.free = self.places.at(free).next;
                free
            }
        };
        let head = self.head(hash);
        let (next, older) = (self.heads[head], self.newest);
        *self.places.at_mut(id) = Ghost { hash, next, newer: NONE, older };
        self.heads[head] = id;
        match older {
            NONE => self.oldest = id,
            older => self.places.at_mut(older).newer = id,
        }
        self.newest = id;
        self.len += 1;
    }

    /// Takes `hash` out; says whether it was there.
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
        let Ghost { hash, next, newer, older } = *self.places.at(id);
        let head = self.head(hash);
        if self.heads[head] == id {
            self.heads[head] = next;
        } else {
            let mut at = self.heads[head];
            while self.places.at(at).next != id {
                at = self.places.at(at).next;
            }
            self.places.at_mut(at).next = next;
        }
        match newer {
            NONE => self.newest = older,
            newer => self.places.at_mut(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.places.at_mut(older).newer = newer,
        }
        self.places.at_mut(id).next = self.free;
        self.free = id;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ghosts_are_a_queue_that_can_be_searched(steps in proptest::collection::vec((0u8..3, 0u64..40), 0..200)) {
            let mut ghosts = Ghosts::new(4);
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

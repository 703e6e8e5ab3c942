//! Which Data leaves the content store first: the trait, and least recently used.

use alloc::vec::Vec;

use crate::slab::{Id, NONE};

/// Keeps the order in which cached packets leave. Called under the content store's lock.
pub(crate) trait Policy {
    /// A packet came in.
    fn inserted(&mut self, id: Id);
    /// A packet answered an Interest, or arrived again.
    fn used(&mut self, id: Id);
    /// A packet left, evicted or erased.
    fn removed(&mut self, id: Id);
    /// The packet to evict next.
    fn victim(&self) -> Option<Id>;
}

/// Least recently used leaves first: a doubly linked list through an array.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lru {
    links: Vec<Link>,
    newest: Id,
    oldest: Id,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    newer: Id,
    older: Id,
}

impl Policy for Lru {
    fn inserted(&mut self, id: Id) {
        if id as usize >= self.links.len() {
            self.links.resize(id as usize + 1, Link::default());
        }
        let older = core::mem::replace(&mut self.newest, id);
        self.links[id as usize] = Link { newer: NONE, older };
        match older {
            NONE => self.oldest = id,
            older => self.links[older as usize].newer = id,
        }
    }

    fn used(&mut self, id: Id) {
        if self.newest != id {
            self.removed(id);
            self.inserted(id);
        }
    }

    fn removed(&mut self, id: Id) {
        let Link { newer, older } = self.links[id as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }

    fn victim(&self) -> Option<Id> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_leaves_first() {
        let mut lru = Lru::default();
        (1..=4).for_each(|id| lru.inserted(id));
        lru.used(1);
        lru.used(3);
        lru.removed(4);
        let mut order = Vec::new();
        while let Some(id) = lru.victim() {
            order.push(id);
            lru.removed(id);
        }
        assert_eq!(order, [2, 1, 3]);
        assert_eq!(lru.victim(), None);
    }
}

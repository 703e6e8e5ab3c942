//! Entries in one array with a free list: an entry is named by a small number, not by a pointer.

use alloc::vec::Vec;

/// The number of an entry in a [`Slab`], counted from 1; [`NONE`] names no entry.
pub(crate) type Id = u32;

/// No entry. It is 0 so that fresh zeroed memory is an empty table.
pub(crate) const NONE: Id = 0;

/// Most entries a slab may be asked to hold; configuration beyond it is refused.
pub(crate) const ENTRIES_MAX: usize = 1 << 30;

#[derive(Clone, Debug)]
enum Slot<T> {
    Used(T),
    /// The next free slot.
    Free(Id),
}

/// A pool of entries. Callers bound how many they insert.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Id,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Slab { slots: Vec::new(), free: NONE, len: 0 }
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One more than the largest id ever used: where a walk over all entries ends.
    pub(crate) fn end(&self) -> Id {
        self.slots.len() as Id + 1
    }

    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        match self.slots.get((id as usize).wrapping_sub(1)) {
            Some(Slot::Used(entry)) => Some(entry),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        match self.slots.get_mut((id as usize).wrapping_sub(1)) {
            Some(Slot::Used(entry)) => Some(entry),
            _ => None,
        }
    }

    pub(crate) fn insert(&mut self, entry: T) -> Id {
        self.len += 1;
        let id = self.free;
        match self.slots.get_mut((id as usize).wrapping_sub(1)) {
            Some(slot) => {
                if let Slot::Free(next) = *slot {
                    self.free = next;
                }
                *slot = Slot::Used(entry);
                id
            }
            None => {
                self.slots.push(Slot::Used(entry));
                self.slots.len() as Id
            }
        }
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        let slot = self.slots.get_mut((id as usize).wrapping_sub(1))?;
        if let Slot::Free(_) = slot {
            return None;
        }
        let Slot::Used(entry) = core::mem::replace(slot, Slot::Free(self.free)) else { return None };
        self.free = id;
        self.len -= 1;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_places_are_used_again_and_stale_ids_find_nothing() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((a, b, slab.end()), (1, 2, 3));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.get(NONE), None);
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (Some(&'c'), Some(&'b'), 2));
        assert_eq!(slab.insert('d'), 3);
    }
}

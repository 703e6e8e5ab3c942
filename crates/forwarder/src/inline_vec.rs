//! A list that stores its first `N` items inline and allocates only beyond them.

use alloc::vec::Vec;

/// Capacity that is allocated when the inline items are full: nearly always the only allocation.
const MORE: usize = 28;

/// Items in the order they were pushed; the first `N` need no allocation.
#[derive(Clone, Debug)]
pub(crate) struct InlineVec<T, const N: usize> {
    // Filled from the front: an item in `more` means that every slot here is used.
    inline: [Option<T>; N],
    more: Vec<T>,
}

impl<T, const N: usize> InlineVec<T, N> {
    #[inline]
    pub(crate) fn new() -> Self {
        // A constant would be copied in full size. This only marks each slot as empty.
        InlineVec { inline: core::array::from_fn(|_| None), more: Vec::new() }
    }

    /// A list of one item.
    #[inline]
    pub(crate) fn of(item: T) -> Self {
        let mut first = Some(item);
        InlineVec { inline: core::array::from_fn(|_| first.take()), more: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.inline.iter().take_while(|slot| slot.is_some()).count() + self.more.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.get(0).is_none()
    }

    /// Adds an item; returns false if there is no memory for it.
    #[must_use]
    pub(crate) fn push(&mut self, item: T) -> bool {
        match self.inline.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(item);
                true
            }
            None => self.push_more(item),
        }
    }

    /// The next free inline slot. An item that is stored there becomes the last one.
    pub(crate) fn vacant(&mut self) -> Option<&mut Option<T>> {
        self.inline.iter_mut().find(|slot| slot.is_none())
    }

    #[cold]
    fn push_more(&mut self, item: T) -> bool {
        let more = if self.more.capacity() == 0 { MORE } else { 1 };
        let has_room = self.more.try_reserve(more).is_ok();
        if has_room {
            self.more.push(item);
        }
        has_room
    }

    pub(crate) fn iter(&self) -> Iter<'_, T, N> {
        Iter { list: self, next: 0 }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.inline.iter_mut().flatten().chain(self.more.iter_mut())
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        if i < N { self.inline[i].as_ref() } else { self.more.get(i - N) }
    }

    /// Retains the items for which `keep` returns true, in their order. `keep` is called once for
    /// each.
    #[inline]
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let mut free = 0;
        for i in 0..N {
            match &self.inline[i] {
                Some(item) if keep(item) => {
                    // In nearly all calls every item stays in its slot.
                    if free < i {
                        self.inline.swap(free, i);
                    }
                    free += 1;
                }
                Some(_) => self.inline[i] = None,
                // Filled from the front: no item follows.
                None => return,
            }
        }
        if !self.more.is_empty() {
            self.retain_more(free, keep);
        }
    }

    /// The rest of [`InlineVec::retain`]: the items beyond the first `N` move to the inline slots
    /// from `free` on.
    #[cold]
    fn retain_more(&mut self, free: usize, keep: impl FnMut(&T) -> bool) {
        self.more.retain(keep);
        let moved = self.more.drain(..self.more.len().min(N - free));
        self.inline[free..].iter_mut().zip(moved).for_each(|(slot, item)| *slot = Some(item));
    }

    /// Removes all items.
    pub(crate) fn clear(&mut self) {
        // Filled from the front.
        self.inline.iter_mut().take_while(|slot| slot.is_some()).for_each(|slot| *slot = None);
        self.more.clear();
    }

    /// Returns true if the next item needs storage that is not allocated yet; see
    /// [`InlineVec::lend`].
    pub(crate) fn needs_storage(&self) -> bool {
        self.more.capacity() == 0 && self.inline.iter().all(Option::is_some)
    }

    /// Lends storage for items beyond the first `N`, whose capacity is used instead of an
    /// allocation.
    pub(crate) fn lend(&mut self, storage: Vec<T>) {
        if self.more.is_empty() {
            self.more = storage;
            self.more.clear();
        }
    }

    /// Takes the storage out, if there is any, and removes all items.
    #[inline]
    pub(crate) fn reclaim(&mut self) -> Option<Vec<T>> {
        if self.more.capacity() == 0 {
            return None;
        }
        self.inline.iter_mut().for_each(|slot| *slot = None);
        let mut storage = core::mem::take(&mut self.more);
        storage.clear();
        Some(storage)
    }
}

/// Iterates over the items. With few items, one step here is cheaper than a step of two chained
/// iterators.
#[derive(Debug)]
pub(crate) struct Iter<'a, T, const N: usize> {
    list: &'a InlineVec<T, N>,
    next: usize,
}

impl<T, const N: usize> Clone for Iter<'_, T, N> {
    fn clone(&self) -> Self {
        Iter { ..*self }
    }
}

impl<'a, T, const N: usize> Iterator for Iter<'a, T, N> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        let item = self.list.get(self.next)?;
        self.next += 1;
        Some(item)
    }
}

impl<T, const N: usize> IntoIterator for InlineVec<T, N> {
    type Item = T;
    type IntoIter =
        core::iter::Chain<core::iter::Flatten<core::array::IntoIter<Option<T>, N>>, alloc::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.inline.into_iter().flatten().chain(self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_across_the_inline_boundary() {
        let mut list: InlineVec<u32, 2> = InlineVec::new();
        assert!(list.is_empty());
        for i in 0..5 {
            assert!(list.push(i));
        }
        assert_eq!(list.len(), 5);
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((list.get(1), list.get(2), list.get(5)), (Some(&1), Some(&2), None));
        list.retain(|i| i % 2 == 1);
        assert_eq!(list.clone().into_iter().collect::<Vec<_>>(), [1, 3]);
        assert!(list.push(9));
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [1, 3, 9]);
        list.retain(|i| *i != 1);
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [3, 9]);
    }

    #[test]
    fn storage_is_lent_and_reclaimed() {
        let mut list: InlineVec<u32, 1> = InlineVec::new();
        assert!(list.push(1));
        assert!(list.needs_storage());
        list.lend(Vec::with_capacity(8));
        assert!(!list.needs_storage());
        assert!(list.push(2));
        let storage = list.reclaim().unwrap();
        assert!(list.is_empty() && storage.is_empty() && storage.capacity() == 8);
        assert!(list.reclaim().is_none());
    }
}

//! A list that keeps its first `N` items in place and allocates only beyond them.

use alloc::vec::Vec;

/// Items in the order they were pushed; the first `N` need no allocation.
#[derive(Clone, Debug)]
pub(crate) struct Few<T, const N: usize> {
    // Filled from the front: an item in `more` means that every place here is taken.
    inline: [Option<T>; N],
    more: Vec<T>,
}

impl<T, const N: usize> Few<T, N> {
    pub(crate) const fn new() -> Self {
        Few { inline: [const { None }; N], more: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.inline.iter().flatten().count() + self.more.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(crate) fn push(&mut self, item: T) {
        match self.inline.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(item),
            None => self.more.push(item),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.inline.iter().flatten().chain(self.more.iter())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.inline.iter_mut().flatten().chain(self.more.iter_mut())
    }

    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        if i < N { self.inline[i].as_ref() } else { self.more.get(i - N) }
    }

    /// Keeps the items for which `keep` says so, in their order. `keep` is asked once for each.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for item in core::mem::replace(self, Self::new()) {
            if keep(&item) {
                self.push(item);
            }
        }
    }
}

impl<T, const N: usize> IntoIterator for Few<T, N> {
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
        let mut few: Few<u32, 2> = Few::new();
        assert!(few.is_empty());
        for i in 0..5 {
            few.push(i);
        }
        assert_eq!(few.len(), 5);
        assert_eq!(few.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((few.get(1), few.get(2), few.get(5)), (Some(&1), Some(&2), None));
        few.retain(|i| i % 2 == 1);
        assert_eq!(few.clone().into_iter().collect::<Vec<_>>(), [1, 3]);
        few.push(9);
        assert_eq!(few.iter().copied().collect::<Vec<_>>(), [1, 3, 9]);
    }
}

//! Containers of the reliability service with fallible allocation: frames by consecutive numbers,
//! and small ordered sets. Most insertions are at the end and most removals at the beginning, and
//! both are cheap.

use alloc::collections::{TryReserveError, VecDeque};

/// Values by consecutive numbers. Any of them may be removed.
#[derive(Debug)]
pub(crate) struct NumberedMap<T> {
    first: u64,
    /// The first value is present unless the container is empty.
    values: VecDeque<Option<T>>,
    len: usize,
}

impl<T> NumberedMap<T> {
    /// Creates an empty container; `first` is the number of the first value.
    pub(crate) fn new(first: u64) -> Self {
        NumberedMap { first, values: VecDeque::new(), len: 0 }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of positions from the first value to the last, including removed ones.
    pub(crate) fn span(&self) -> usize {
        self.values.len()
    }

    /// The number of the next value.
    pub(crate) fn next(&self) -> u64 {
        self.first.wrapping_add(self.values.len() as u64)
    }

    /// Reserves memory for `more` values.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), TryReserveError> {
        self.values.try_reserve(more)
    }

    /// Appends the next value. The memory must be reserved.
    pub(crate) fn push(&mut self, value: T) {
        self.values.push_back(Some(value));
        self.len += 1;
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.values.get(self.index_of(number)?)?.as_ref()
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let index = self.index_of(number)?;
        let value = self.values.get_mut(index)?.take()?;
        self.len -= 1;
        while let Some(None) = self.values.front() {
            self.values.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        Some(value)
    }

    /// The first value and its number.
    pub(crate) fn first(&self) -> Option<(u64, &T)> {
        Some((self.first, self.values.front()?.as_ref()?))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let first = self.first;
        self.values
            .iter_mut()
            .enumerate()
            .filter_map(move |(index, value)| Some((first + index as u64, value.as_mut()?)))
    }
}

/// A sorted set.
#[derive(Debug)]
pub(crate) struct Ordered<T>(VecDeque<T>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Ordered(VecDeque::new())
    }
}

impl<T: Ord> Ordered<T> {
    /// Inserts a value. Returns true if it is new.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn insert(&mut self, value: T) -> Result<bool, TryReserveError> {
        let Err(index) = self.0.binary_search(&value) else { return Ok(false) };
        self.0.try_reserve(1)?;
        self.0.insert(index, value);
        Ok(true)
    }

    pub(crate) fn remove(&mut self, value: &T) {
        if let Ok(index) = self.0.binary_search(value) {
            self.0.remove(index);
        }
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.0.front()
    }

    /// Returns the first value that is at least `least`.
    pub(crate) fn first_from(&self, least: &T) -> Option<&T> {
        self.0.get(self.0.partition_point(|value| value < least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn numbered_values_are_a_map(steps in prop::collection::vec((any::<bool>(), 0u64..60), 0..200)) {
            let (mut numbered, mut model, mut next) = (NumberedMap::new(10), BTreeMap::new(), 10);
            for (is_push, n) in steps {
                if is_push {
                    prop_assert_eq!(numbered.next(), next);
                    numbered.reserve(1).unwrap();
                    numbered.push(n);
                    model.insert(next, n);
                    next += 1;
                } else {
                    prop_assert_eq!(numbered.get(n), model.get(&n));
                    prop_assert_eq!(numbered.remove(n), model.remove(&n));
                }
                prop_assert_eq!(numbered.len(), model.len());
                let first = model.first_key_value().map(|(number, value)| (*number, value));
                prop_assert_eq!(numbered.first(), first);
                prop_assert_eq!(numbered.span() as u64, first.map_or(0, |(number, _)| next - number));
                let all = numbered.iter_mut().map(|(number, value)| (number, *value));
                prop_assert!(all.eq(model.iter().map(|(number, value)| (*number, *value))));
            }
        }

        #[test]
        fn ordered_values_are_a_set(steps in prop::collection::vec((any::<bool>(), 0u8..30), 0..200)) {
            let (mut ordered, mut model) = (Ordered::default(), BTreeSet::new());
            for (is_insert, value) in steps {
                if is_insert {
                    prop_assert_eq!(ordered.insert(value), Ok(model.insert(value)));
                } else {
                    ordered.remove(&value);
                    model.remove(&value);
                }
                prop_assert_eq!(ordered.first(), model.first());
                prop_assert_eq!(ordered.first_from(&value), model.range(value..).next());
            }
        }
    }
}

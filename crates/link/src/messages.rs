//! The incomplete messages of one face, by their keys and in the order of their last fragment.
//!
//! They are in reusable slots, linked from the oldest to the youngest. A sorted list of slot
//! numbers finds a key. The number of slots never exceeds the limit on messages plus one.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Slots that are retained when no message is left.
const IDLE_SLOTS_MAX: usize = 8;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<K, T> {
    key: K,
    /// `None` in a free slot.
    message: Option<T>,
    older: u32,
    /// In a free slot: the next free slot.
    newer: u32,
}

/// A slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex(u32);

#[derive(Debug)]
pub(crate) struct Messages<K, T> {
    slots: Vec<Slot<K, T>>,
    /// Slots in use, sorted by their keys.
    by_key: Vec<u32>,
    oldest: u32,
    newest: u32,
    free: u32,
}

impl<K: Ord + Copy, T> Messages<K, T> {
    pub(crate) fn new() -> Self {
        Messages { slots: Vec::new(), by_key: Vec::new(), oldest: NONE, newest: NONE, free: NONE }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    fn search(&self, key: &K) -> Result<usize, usize> {
        self.by_key.binary_search_by(|id| self.slots[*id as usize].key.cmp(key))
    }

    pub(crate) fn find(&self, key: &K) -> Option<SlotIndex> {
        self.search(key).ok().map(|at| SlotIndex(self.by_key[at]))
    }

    pub(crate) fn get(&self, index: SlotIndex) -> Option<&T> {
        self.slots[index.0 as usize].message.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: SlotIndex) -> Option<&mut T> {
        self.slots[index.0 as usize].message.as_mut()
    }

    /// Inserts a message with a new key, as the youngest.
    ///
    /// # Errors
    /// There is no memory for it; nothing has changed.
    pub(crate) fn insert(&mut self, key: K, message: T) -> Result<SlotIndex, TryReserveError> {
        self.by_key.try_reserve(1)?;
        let slot = Slot { key, message: Some(message), older: NONE, newer: NONE };
        let id = if self.free == NONE {
            self.slots.try_reserve(1)?;
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        } else {
            let id = self.free;
            let entry = &mut self.slots[id as usize];
            self.free = entry.newer;
            *entry = slot;
            id
        };
        let at = self.search(&key).unwrap_or_else(|at| at);
        self.by_key.insert(at, id);
        self.append(id);
        Ok(SlotIndex(id))
    }

    /// Makes a message the youngest.
    pub(crate) fn touch(&mut self, index: SlotIndex) {
        if self.newest != index.0 {
            self.unlink(index.0);
            self.append(index.0);
        }
    }

    /// Returns the message that was touched least recently.
    pub(crate) fn oldest(&self) -> Option<SlotIndex> {
        (self.oldest != NONE).then_some(SlotIndex(self.oldest))
    }

    pub(crate) fn remove(&mut self, index: SlotIndex) -> Option<T> {
        let slot = &mut self.slots[index.0 as usize];
        let (key, message) = (slot.key, slot.message.take()?);
        self.unlink(index.0);
        if let Ok(at) = self.search(&key) {
            self.by_key.remove(at);
        }
        self.slots[index.0 as usize].newer = self.free;
        self.free = index.0;
        if self.by_key.is_empty() && self.slots.len() > IDLE_SLOTS_MAX {
            *self = Messages::new();
        }
        Some(message)
    }

    fn append(&mut self, id: u32) {
        let before = core::mem::replace(&mut self.newest, id);
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.newer = id,
            None => self.oldest = id,
        }
        let slot = &mut self.slots[id as usize];
        (slot.older, slot.newer) = (before, NONE);
    }

    fn unlink(&mut self, id: u32) {
        let slot = &self.slots[id as usize];
        let (older, newer) = (slot.older, slot.newer);
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        self.by_key.iter().filter_map(|id| {
            let slot = &self.slots[*id as usize];
            Some((&slot.key, slot.message.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8),
        Touch(u8),
        Remove(u8),
        RemoveOldest,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u8..40).prop_map(Step::Insert),
            2 => (0u8..40).prop_map(Step::Touch),
            2 => (0u8..40).prop_map(Step::Remove),
            1 => Just(Step::RemoveOldest),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn messages_match_an_ordered_map(steps in prop::collection::vec(any_step(), 0..200)) {
            let mut messages = Messages::new();
            // The message, and the time of its last touch.
            let mut model: BTreeMap<u8, (usize, usize)> = BTreeMap::new();
            for (now, step) in steps.into_iter().enumerate() {
                let oldest = model.iter().min_by_key(|(_, (_, touched))| *touched).map(|(key, _)| *key);
                match step {
                    Step::Insert(key) => {
                        if messages.find(&key).is_none() {
                            messages.insert(key, now).unwrap();
                        }
                        model.entry(key).or_insert((now, now));
                    }
                    Step::Touch(key) => {
                        messages.find(&key).into_iter().for_each(|index| messages.touch(index));
                        model.entry(key).and_modify(|(_, touched)| *touched = now);
                    }
                    Step::Remove(key) => {
                        let removed = messages.find(&key).and_then(|index| messages.remove(index));
                        prop_assert_eq!(removed, model.remove(&key).map(|(message, _)| message));
                    }
                    Step::RemoveOldest => {
                        let removed = messages.oldest().and_then(|index| messages.remove(index));
                        let expected = oldest.and_then(|key| model.remove(&key));
                        prop_assert_eq!(removed, expected.map(|(message, _)| message));
                    }
                }
                prop_assert_eq!(messages.len(), model.len());
                prop_assert!(messages.iter().eq(model.iter().map(|(key, (message, _))| (key, message))));
                prop_assert!(messages.slots.len() <= 40);
            }
        }
    }

    #[test]
    fn flooded_slots_are_released_when_empty() {
        let mut messages = Messages::new();
        for key in 0..100 {
            messages.insert(key, ()).unwrap();
        }
        while let Some(oldest) = messages.oldest() {
            messages.remove(oldest);
        }
        assert_eq!((messages.len(), messages.slots.capacity(), messages.by_key.capacity()), (0, 0, 0));
        assert_eq!(messages.insert(7, ()), Ok(SlotIndex(0)));
    }
}

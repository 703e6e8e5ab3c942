//! Policies that are an order and nothing more: FIFO, LRU, LFU, and one for tests.

use alloc::boxed::Box;

use crate::cs::policy::eviction::{Arrival, Marks, OnHit, Policy};
use crate::cs::policy::lists::{List, Records};
use crate::error::ConfigError;
use crate::pool::boxed;
use crate::slab::Id;

/// First in, first out.
pub(crate) struct Fifo(List);

/// Least recently used leaves first.
pub(crate) struct Lru(List);

/// What came last leaves first.
pub(crate) struct Noop(List);

impl Default for Fifo {
    fn default() -> Self {
        Fifo(List::new(1))
    }
}

impl Default for Lru {
    fn default() -> Self {
        Lru(List::new(1))
    }
}

impl Default for Noop {
    fn default() -> Self {
        Noop(List::new(1))
    }
}

impl Policy for Fifo {
    fn on_hit(&self) -> OnHit {
        OnHit::Mark(0)
    }

    fn evict(&mut self, _arrival: Arrival, records: &mut Records, _marks: &impl Marks) -> Option<Id> {
        self.0.pop_oldest(records)
    }

    fn next(&self) -> Option<Id> {
        self.0.oldest()
    }

    fn inserted(&mut self, id: Id, _arrival: Arrival, records: &mut Records) {
        self.0.push(id, records);
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        self.0.remove(id, records);
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        show(&self.0);
    }
}

impl Policy for Lru {
    fn on_hit(&self) -> OnHit {
        OnHit::Lock
    }

    fn evict(&mut self, _arrival: Arrival, records: &mut Records, _marks: &impl Marks) -> Option<Id> {
        self.0.pop_oldest(records)
    }

    fn next(&self) -> Option<Id> {
        self.0.oldest()
    }

    fn inserted(&mut self, id: Id, _arrival: Arrival, records: &mut Records) {
        self.0.push(id, records);
    }

    fn hit(&mut self, id: Id, records: &mut Records) {
        self.0.renew(id, records);
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        self.0.remove(id, records);
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        show(&self.0);
    }
}

impl Policy for Noop {
    fn on_hit(&self) -> OnHit {
        OnHit::Mark(0)
    }

    fn evict(&mut self, _arrival: Arrival, records: &mut Records, _marks: &impl Marks) -> Option<Id> {
        let id = self.0.newest()?;
        self.0.remove(id, records);
        Some(id)
    }

    fn next(&self) -> Option<Id> {
        self.0.newest()
    }

    fn inserted(&mut self, id: Id, _arrival: Arrival, records: &mut Records) {
        self.0.push(id, records);
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        self.0.remove(id, records);
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        show(&self.0);
    }
}

/// Uses that LFU tells apart: more count as so many.
pub(super) const LFU_USES_MAX: usize = 255;

/// Least frequently used leaves first, the least recently used among those: a list for each number
/// of uses.
pub(crate) struct Lfu {
    /// The list at `n - 1` has what was used `n` times, and the number `n`.
    lists: Box<[List]>,
    /// No list below this one has anything in it.
    least: usize,
}

impl Lfu {
    pub(super) fn new() -> Result<Self, ConfigError> {
        let mut numbers = 1..=LFU_USES_MAX as u32;
        Ok(Lfu { lists: boxed(LFU_USES_MAX, || List::new(numbers.next().unwrap_or(0)))?, least: 0 })
    }
}

impl Policy for Lfu {
    fn on_hit(&self) -> OnHit {
        OnHit::Lock
    }

    fn evict(&mut self, _arrival: Arrival, records: &mut Records, _marks: &impl Marks) -> Option<Id> {
        while self.least < LFU_USES_MAX - 1 && self.lists[self.least].len() == 0 {
            self.least += 1;
        }
        self.lists[self.least].pop_oldest(records)
    }

    fn next(&self) -> Option<Id> {
        self.lists[self.least].oldest()
    }

    fn inserted(&mut self, id: Id, _arrival: Arrival, records: &mut Records) {
        self.least = 0;
        self.lists[0].push(id, records);
    }

    fn hit(&mut self, id: Id, records: &mut Records) {
        let uses = records.list(id) as usize;
        self.lists[uses - 1].remove(id, records);
        self.lists[uses.min(LFU_USES_MAX - 1)].push(id, records);
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        self.lists[records.list(id) as usize - 1].remove(id, records);
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        self.lists.iter().for_each(show);
    }
}

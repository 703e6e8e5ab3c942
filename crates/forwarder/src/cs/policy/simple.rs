//! Policies that need only an order of Data: FIFO, LRU, LFU, and one for tests.

use alloc::boxed::Box;

use crate::cs::policy::eviction::{Arrival, Marks, OnHit, Policy};
use crate::cs::policy::lists::{List, Records};
use crate::error::ConfigError;
use crate::pool::boxed;
use crate::slab::Id;

/// First in, first out.
pub(crate) struct Fifo(List);

/// The least recently used is evicted first.
pub(crate) struct Lru(List);

/// The newest is evicted first.
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
        // The exact order of uses changes a list at each hit, which needs the policy's lock.
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

/// Maximum number of uses that LFU counts.
pub(super) const LFU_USES_MAX: usize = 255;

/// The least frequently used is evicted first, the least recently used among equals: a list for
/// each number of uses.
pub(crate) struct Lfu {
    /// The list at index `n - 1` has the Data used `n` times, and the number `n`.
    lists: Box<[List]>,
    /// All lists below this one are empty.
    least: usize,
}

impl Lfu {
    pub(super) fn new() -> Result<Self, ConfigError> {
        let mut numbers = 1..=LFU_USES_MAX as u32;
        // The number 0 is never used: there are as many numbers as lists.
        Ok(Lfu { lists: boxed(LFU_USES_MAX, || List::new(numbers.next().unwrap_or(0)))?, least: 0 })
    }
}

impl Policy for Lfu {
    fn on_hit(&self) -> OnHit {
        OnHit::Lock
    }

    fn evict(&mut self, _arrival: Arrival, records: &mut Records, _marks: &impl Marks) -> Option<Id> {
        // At most 254 steps, and usually none: `inserted` starts again at the first list.
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
        // Beyond the maximum a Data stays in the last list, in which the least recent is evicted
        // first.
        self.lists[uses.min(LFU_USES_MAX - 1)].push(id, records);
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        self.lists[records.list(id) as usize - 1].remove(id, records);
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        self.lists.iter().for_each(show);
    }
}

//! SIEVE (Zhang et al., NSDI 2024): one queue in the order of arrival, and a hand that goes from
//! the oldest to the newest and round again, passing over what was requested since it last came by.

use crate::cs::policy::eviction::{Arrival, EVICTION_SCAN_MAX, Marks, OnHit, Policy};
use crate::cs::policy::lists::{List, Records};
use crate::slab::Id;

pub(crate) struct Sieve {
    queue: List,
    /// Where the hand is; `None` at the oldest.
    hand: Option<Id>,
}

impl Default for Sieve {
    fn default() -> Self {
        Sieve { queue: List::new(1), hand: None }
    }
}

impl Policy for Sieve {
    fn on_hit(&self) -> OnHit {
        OnHit::Mark(1)
    }

    fn evict(&mut self, _arrival: Arrival, records: &mut Records, marks: &impl Marks) -> Option<Id> {
        let mut id = self.hand.or(self.queue.oldest())?;
        for _ in 0..EVICTION_SCAN_MAX {
            if marks.mark(id) == 0 {
                break;
            }
            marks.set_mark(id, 0);
            id = records.newer(id).or(self.queue.oldest())?;
        }
        self.hand = records.newer(id);
        self.queue.remove(id, records);
        Some(id)
    }

    fn next(&self) -> Option<Id> {
        self.hand.or(self.queue.oldest())
    }

    fn inserted(&mut self, id: Id, _arrival: Arrival, records: &mut Records) {
        self.queue.push(id, records);
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        if self.hand == Some(id) {
            self.hand = records.newer(id);
        }
        self.queue.remove(id, records);
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        show(&self.queue);
    }
}

//! SIEVE (Zhang et al., NSDI 2024): one queue in order of arrival, and a hand that moves from the
//! oldest to the newest and around, and skips Data that was requested since its last visit.

use crate::cs::policy::eviction::{Arrival, EVICTION_SCAN_MAX, Marks, OnHit, Policy};
use crate::cs::policy::lists::{List, Records};
use crate::slab::Id;

pub(crate) struct Sieve {
    queue: List,
    /// The position of the hand; `None` at the oldest.
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
        // The paper scans without a limit. Here one insertion must not pay for a whole round.
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
        // Otherwise the hand would stay at a Data that is in no list.
        if self.hand == Some(id) {
            self.hand = records.newer(id);
        }
        self.queue.remove(id, records);
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        show(&self.queue);
    }
}

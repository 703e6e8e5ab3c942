//! Sources that wait for their part of a worker's turn.
//!
//! They have it by whom they are counted for, not one by one: each holder in its turn has one of
//! its sources served, so that a thousand busy faces of one give it no more than another has by
//! one. Each listener is served as a holder of its own.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{BitOr, BitOrAssign};

use namely_host::shares::Holder;

use crate::id::SourceId;

/// Queues of holders that have gone which are kept for others.
const SPARE_QUEUES_MAX: usize = 16;

/// Sources that are served in any turn, if there are as many: a poll is not worth fewer.
const SERVED_MIN: usize = 4;

/// Who is served in turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Whose {
    Listener(SourceId),
    Face(Holder),
}

/// What a source waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted(u8);

impl Wanted {
    pub(crate) const NOTHING: Wanted = Wanted(0);
    pub(crate) const READ: Wanted = Wanted(1);
    pub(crate) const WRITE: Wanted = Wanted(2);
    /// Its timer was due.
    pub(crate) const TIMER: Wanted = Wanted(4);

    pub(crate) fn has(self, other: Wanted) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Wanted {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Wanted(self.0 | other.0)
    }
}

impl BitOrAssign for Wanted {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// The sources that wait; each of them once.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queues: BTreeMap<Whose, VecDeque<SourceId>>,
    /// Those that have a queue, from the one that is served next.
    order: VecDeque<Whose>,
    spares: Vec<VecDeque<SourceId>>,
    /// How many are still to be served before each has been served as often as the others.
    left: usize,
    /// Served in this turn.
    served: usize,
    /// Nothing is left of somebody who was served in this turn.
    is_one_dry: bool,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Puts in a source that is not in.
    pub(crate) fn push(&mut self, whose: Whose, id: SourceId) {
        let (order, spares) = (&mut self.order, &mut self.spares);
        let queue = self.queues.entry(whose).or_insert_with(|| {
            order.push_back(whose);
            spares.pop().unwrap_or_default()
        });
        queue.push_back(id);
    }

    /// Begins a turn.
    pub(crate) fn begin(&mut self) {
        (self.left, self.served, self.is_one_dry) = (self.order.len(), 0, false);
    }

    /// The source that is served next. `None` at the end of a turn: when nothing waits, or each was
    /// served as often as the others and one of them, of whom nothing waits now, may have more by
    /// the next look at what is ready.
    pub(crate) fn next(&mut self) -> Option<SourceId> {
        if self.left == 0 {
            if self.is_one_dry && self.served >= SERVED_MIN {
                return None;
            }
            self.left = self.order.len();
        }
        let whose = self.order.pop_front()?;
        self.left = self.left.saturating_sub(1);
        self.served += 1;
        let queue = self.queues.get_mut(&whose)?;
        let id = queue.pop_front();
        if !queue.is_empty() {
            self.order.push_back(whose);
        } else if let Some(queue) = self.queues.remove(&whose) {
            self.is_one_dry = true;
            if self.spares.len() < SPARE_QUEUES_MAX {
                self.spares.push(queue);
            }
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(holder: u32, n: usize) -> SourceId {
        SourceId::new(holder as usize, n, 0)
    }

    /// Whose sources a turn serves, in order.
    fn turn(waiting: &mut Waiting) -> Vec<usize> {
        waiting.begin();
        std::iter::from_fn(|| waiting.next().map(SourceId::worker)).collect()
    }

    #[test]
    fn one_with_a_thousand_sources_has_no_more_turns_than_one_with_one() {
        let mut waiting = Waiting::default();
        let whose = |holder| Whose::Face(Holder::uid(holder));
        (0..1000).for_each(|n| waiting.push(whose(1), id(1, n)));
        let mut served = [0, 0, 0];
        for n in 0..100 {
            // Both have more again by the next look.
            waiting.push(whose(2), id(2, n));
            for holder in turn(&mut waiting) {
                served[holder] += 1;
            }
            assert!(waiting.queues.len() <= 1);
        }
        assert_eq!(served[2], 100);
        assert!(served[1] <= 100 * (SERVED_MIN - 1), "{served:?}");
        assert!(!waiting.is_empty(), "the others wait on");
    }

    #[test]
    fn sources_of_one_holder_are_all_served_in_order() {
        let mut waiting = Waiting::default();
        let whose = Whose::Face(Holder::Root);
        (0..100).for_each(|n| waiting.push(whose, id(3, n)));
        waiting.begin();
        let served: Vec<usize> = std::iter::from_fn(|| waiting.next().map(SourceId::index)).collect();
        assert_eq!(served, (0..100).collect::<Vec<_>>());
        assert!(waiting.is_empty());
    }

    #[test]
    fn holders_and_listeners_are_served_one_after_the_other() {
        let mut waiting = Waiting::default();
        for holder in 1..=3 {
            (0..4).for_each(|n| waiting.push(Whose::Face(Holder::uid(holder)), id(holder, n)));
        }
        waiting.push(Whose::Listener(id(4, 0)), id(4, 0));
        assert_eq!(turn(&mut waiting), [1, 2, 3, 4], "the listener may have more");
        assert_eq!(turn(&mut waiting), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(turn(&mut waiting), []);
    }
}

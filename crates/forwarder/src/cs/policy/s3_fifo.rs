//! S3-FIFO (Yang et al., SOSP 2023): most Data is never requested again, so it passes through a
//! small queue. Data that is requested there moves to the main queue, where each use grants another
//! round. Data evicted from the small queue is remembered for a while, and is inserted into the
//! main queue if it arrives again.

use super::recent::Recent;
use crate::cs::policy::eviction::{Arrival, EVICTION_SCAN_MAX, Marks, OnHit, Policy};
use crate::cs::policy::lists::{List, Records};
use crate::error::ConfigError;
use crate::slab::Id;

/// The divisor for the small queue's share of the store.
// The paper's 10 %.
const SMALL_SHARE: usize = 10;
/// Maximum number of uses that are counted.
// The paper's two bits.
const MARK_MAX: u8 = 3;
/// Uses in the small queue after which a Data moves to the main one.
// The paper's `freq > 1`.
const PROMOTE: u8 = 2;

pub(crate) struct S3Fifo {
    small: List,
    main: List,
    ghosts: Recent,
}

impl S3Fifo {
    pub(super) fn new(packets: usize) -> Result<Self, ConfigError> {
        Ok(S3Fifo { small: List::new(1), main: List::new(2), ghosts: Recent::new(packets)? })
    }

    fn packets(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// Evicted Data that S3-FIFO remembers (ghosts).
    ///
    /// They are as many as the main queue holds.
    ///
    /// # Limit
    /// The oldest ghost is forgotten.
    /// - Value: 9 for each 10 cached Data
    /// - Tests: `each_policy_matches_its_list_model`,
    ///   `recent_entries_are_known_until_taken`
    fn ghosts_most(&self) -> usize {
        (self.packets() - self.packets() / SMALL_SHARE).max(1)
    }
}

impl Policy for S3Fifo {
    fn on_hit(&self) -> OnHit {
        OnHit::Mark(MARK_MAX)
    }

    fn arriving(&mut self, hash: u64) -> Arrival {
        let most = self.ghosts_most();
        if self.ghosts.take(hash, most) { Arrival::Frequent } else { Arrival::New }
    }

    fn evict(&mut self, _arrival: Arrival, records: &mut Records, marks: &impl Marks) -> Option<Id> {
        let packets = self.packets();
        let mut examined = 0;
        loop {
            examined += 1;
            let is_last = examined > EVICTION_SCAN_MAX;
            let from_main = self.small.len() * SMALL_SHARE < packets && self.main.len() > 0;
            if from_main || self.small.len() == 0 {
                let id = self.main.oldest()?;
                let mark = marks.mark(id);
                // Unlike in the paper the scan is bounded, so that one insertion does not pay for
                // all marked Data.
                if mark == 0 || is_last {
                    self.main.remove(id, records);
                    return Some(id);
                }
                marks.set_mark(id, mark - 1);
                self.main.renew(id, records);
            } else {
                let id = self.small.pop_oldest(records)?;
                if marks.mark(id) < PROMOTE || is_last {
                    self.ghosts.enter(records.hash(id));
                    return Some(id);
                }
                // Uses in the small queue grant no round in the main one.
                marks.set_mark(id, 0);
                self.main.push(id, records);
            }
        }
    }

    fn prepare(&mut self, _packets: usize) -> Result<(), ConfigError> {
        self.ghosts.prepare()
    }

    fn next(&self) -> Option<Id> {
        self.small.oldest().or(self.main.oldest())
    }

    fn prefetch(&self, hash: u64) {
        self.ghosts.prefetch(hash);
    }

    fn inserted(&mut self, id: Id, arrival: Arrival, records: &mut Records) {
        if arrival == Arrival::New {
            self.small.push(id, records);
        } else {
            self.main.push(id, records);
        }
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        if records.list(id) == self.small.number() {
            self.small.remove(id, records);
        } else {
            self.main.remove(id, records);
        }
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        show(&self.small);
        show(&self.main);
    }

    #[cfg(test)]
    fn ghosts(&self) -> usize {
        self.ghosts.len(self.ghosts_most())
    }
}

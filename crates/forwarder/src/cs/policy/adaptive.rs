//! ARC (Megiddo and Modha, FAST 2003): a list for Data used once and one for Data used again, each
//! with ghosts of evicted Data. A miss whose hash is among the ghosts of a list moves the border
//! between the two lists in favor of that list.

use super::ghosts::Ghosts;
use crate::cs::policy::eviction::{Arrival, Marks, OnHit, Policy};
use crate::cs::policy::lists::{List, Records};
use crate::error::ConfigError;
use crate::slab::Id;

/// The number of parts of a packet in which the border is measured.
// Instead of the paper's real numbers, because the core uses no floats.
const PARTS: u64 = 256;

/// Evicted Data that ARC remembers (ghosts).
///
/// # Limit
/// The oldest ghost is forgotten.
/// - Value: as many as cached Data
/// - Tests: `each_policy_matches_its_list_model`
pub(crate) struct Adaptive {
    once: List,
    again: List,
    once_ghosts: Ghosts,
    again_ghosts: Ghosts,
    /// The target length of `once`, in [`PARTS`] of a packet.
    target: u64,
}

impl Adaptive {
    pub(super) fn new(packets: usize) -> Result<Self, ConfigError> {
        Ok(Adaptive {
            once: List::new(1),
            again: List::new(2),
            once_ghosts: Ghosts::new(packets)?,
            again_ghosts: Ghosts::new(packets)?,
            target: 0,
        })
    }

    fn packets(&self) -> usize {
        self.once.len() + self.again.len()
    }

    /// The step by which a ghost hit moves the border. The fewer ghosts of its kind there are, the
    /// larger it is.
    fn step(own: usize, other: usize) -> u64 {
        // The paper's delta: the ratio of the two ghost lists, but at least one packet.
        (other as u64 * PARTS / (own as u64).max(1)).max(PARTS)
    }

    fn evict_once(&mut self, remember: bool, records: &mut Records) -> Option<Id> {
        let id = self.once.pop_oldest(records)?;
        let hash = records.hash(id);
        // `Ghosts::push` requires that the hash is new, and two names may share one.
        if remember && !self.once_ghosts.contains(hash) {
            self.once_ghosts.push(hash);
        }
        Some(id)
    }

    fn evict_again(&mut self, records: &mut Records) -> Option<Id> {
        let id = self.again.pop_oldest(records)?;
        let hash = records.hash(id);
        if !self.again_ghosts.contains(hash) {
            self.again_ghosts.push(hash);
        }
        Some(id)
    }

    /// The paper's REPLACE.
    fn replace(&mut self, arrival: Arrival, records: &mut Records) -> Option<Id> {
        let once = self.once.len() as u64 * PARTS;
        let beyond = once > self.target || (arrival == Arrival::Frequent && once == self.target);
        if (beyond && once > 0) || self.again.len() == 0 {
            self.evict_once(true, records)
        } else {
            self.evict_again(records)
        }
    }
}

impl Policy for Adaptive {
    fn on_hit(&self) -> OnHit {
        OnHit::Lock
    }

    fn arriving(&mut self, hash: u64) -> Arrival {
        // Before the ghost is removed: the paper's delta counts it.
        let (once, again) = (self.once_ghosts.len(), self.again_ghosts.len());
        if self.once_ghosts.remove(hash) {
            self.target = (self.target + Self::step(once, again)).min(self.packets() as u64 * PARTS);
            Arrival::Recent
        } else if self.again_ghosts.remove(hash) {
            self.target = self.target.saturating_sub(Self::step(again, once));
            Arrival::Frequent
        } else {
            Arrival::New
        }
    }

    fn evict(&mut self, arrival: Arrival, records: &mut Records, _marks: &impl Marks) -> Option<Id> {
        let packets = self.packets();
        if arrival == Arrival::New {
            // The ghosts and the lists together have twice the entries of the store.
            if self.once.len() + self.once_ghosts.len() >= packets {
                if self.once.len() == packets {
                    while self.once_ghosts.pop_oldest() {}
                    return self.evict_once(false, records);
                }
                while self.once.len() + self.once_ghosts.len() >= packets && self.once_ghosts.pop_oldest() {}
            }
            while packets + self.once_ghosts.len() + self.again_ghosts.len() >= 2 * packets
                && self.again_ghosts.pop_oldest()
            {}
        }
        self.replace(arrival, records)
    }

    fn prepare(&mut self, packets: usize) -> Result<(), ConfigError> {
        self.once_ghosts.prepare(packets)?;
        self.again_ghosts.prepare(2 * packets)
    }

    fn next(&self) -> Option<Id> {
        self.once.oldest().or(self.again.oldest())
    }

    fn inserted(&mut self, id: Id, arrival: Arrival, records: &mut Records) {
        if arrival == Arrival::New {
            self.once.push(id, records);
        } else {
            self.again.push(id, records);
        }
    }

    fn hit(&mut self, id: Id, records: &mut Records) {
        if records.list(id) == self.once.number() {
            self.once.remove(id, records);
            self.again.push(id, records);
        } else {
            self.again.renew(id, records);
        }
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        if records.list(id) == self.once.number() {
            self.once.remove(id, records);
        } else {
            self.again.remove(id, records);
        }
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        show(&self.once);
        show(&self.again);
    }

    #[cfg(test)]
    fn ghosts(&self) -> usize {
        self.once_ghosts.len() + self.again_ghosts.len()
    }
}

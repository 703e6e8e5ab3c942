//! The trait that every policy implements, and what it is told.

use super::lists::{List, Records};
use crate::error::ConfigError;
use crate::slab::Id;

/// Entries that a policy examines at most for one eviction. Popular Data all over a list would
/// otherwise make one insertion pay for every hit since the last one.
pub(crate) const EVICTION_SCAN_MAX: usize = 256;

/// What a policy needs to be told of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnHit {
    /// Its mark is raised, up to so much: an atomic store, no lock. With 0 a hit is nothing to it.
    Mark(u8),
    /// [`Policy::hit`], under the policy's lock.
    Lock,
}

/// Marks of Data that were hit.
pub(crate) trait Marks {
    fn mark(&self, id: Id) -> u8;
    fn set_mark(&self, id: Id, mark: u8);
}

/// What a policy knows of a Data that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    /// It left not long ago, from the list for what came once.
    Recent,
    /// It left not long ago, from the list for what came more often.
    Frequent,
}

/// Keeps the order in which Data leave.
pub(crate) trait Policy: Send {
    fn on_hit(&self) -> OnHit;

    /// A Data whose name has this hash is about to come in. Called once for each, before room is
    /// made.
    fn arriving(&mut self, _hash: u64) -> Arrival {
        Arrival::New
    }

    /// Takes out the Data that leaves to make room for one that comes in so; `None` if there is no
    /// Data.
    fn evict(&mut self, arrival: Arrival, records: &mut Records, marks: &impl Marks) -> Option<Id>;

    /// Makes the memory for what is remembered of so many Data.
    fn prepare(&mut self, _packets: usize) -> Result<(), ConfigError> {
        Ok(())
    }

    /// What [`Policy::evict`] will probably choose, and after it what is newer: a hint for who
    /// reads ahead.
    fn next(&self) -> Option<Id>;

    /// Prefetches what is remembered of a hash, ahead of its use.
    fn prefetch(&self, _hash: u64) {}

    /// A Data came in.
    fn inserted(&mut self, id: Id, arrival: Arrival, records: &mut Records);

    /// A Data answered an Interest, or arrived again. Only called with [`OnHit::Lock`].
    fn hit(&mut self, _id: Id, _records: &mut Records) {}

    /// A Data was erased.
    fn removed(&mut self, id: Id, records: &mut Records);

    /// Shows its lists, what is to leave first first.
    fn lists(&self, show: &mut dyn FnMut(&List));

    /// How many Data that left it remembers.
    #[cfg(test)]
    fn ghosts(&self) -> usize {
        0
    }
}

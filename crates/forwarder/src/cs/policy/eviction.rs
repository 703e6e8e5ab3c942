//! The trait that every policy implements, and its arguments.

use super::lists::{List, Records};
use crate::error::ConfigError;
use crate::slab::Id;

/// Entries that a policy examines at most for one eviction. Popular Data all over a list would
/// otherwise make one insertion pay for every hit since the last one.
pub(crate) const EVICTION_SCAN_MAX: usize = 256;

/// The hits that a policy must see.
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

/// The history of an arriving Data, as far as a policy knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    /// It was evicted recently, from the list of Data requested once.
    Recent,
    /// It was evicted recently, from the list of Data requested more often.
    Frequent,
}

/// Keeps the order in which Data leave.
pub(crate) trait Policy: Send {
    fn on_hit(&self) -> OnHit;

    /// A Data with this hash of its name is about to arrive. Called once for each, before room is
    /// made.
    fn arriving(&mut self, _hash: u64) -> Arrival {
        Arrival::New
    }

    /// Takes out the Data that leaves to make room for one that comes in so; `None` if there is no
    /// Data.
    fn evict(&mut self, arrival: Arrival, records: &mut Records, marks: &impl Marks) -> Option<Id>;

    /// Allocates the memory for the records of so many Data.
    fn prepare(&mut self, _packets: usize) -> Result<(), ConfigError> {
        Ok(())
    }

    /// The Data that [`Policy::evict`] will probably choose, then newer ones: a hint for
    /// prefetching.
    fn next(&self) -> Option<Id>;

    /// Prefetches the record of a hash.
    fn prefetch(&self, _hash: u64) {}

    /// A Data came in.
    fn inserted(&mut self, id: Id, arrival: Arrival, records: &mut Records);

    /// A Data answered an Interest, or arrived again. Only called with [`OnHit::Lock`].
    fn hit(&mut self, _id: Id, _records: &mut Records) {}

    /// A Data was erased.
    fn removed(&mut self, id: Id, records: &mut Records);

    /// Shows its lists in order of eviction.
    fn lists(&self, show: &mut dyn FnMut(&List));

    /// How many Data that left it remembers.
    #[cfg(test)]
    fn ghosts(&self) -> usize {
        0
    }
}

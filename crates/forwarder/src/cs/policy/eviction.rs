//! The trait that every policy implements, and its arguments.

use super::lists::{List, Records};
use crate::error::ConfigError;
use crate::slab::Id;

/// Data that a policy examines for one eviction.
///
/// Without the limit, one insertion could pay for every hit since the previous insertion, if
/// popular Data fill a list.
///
/// # Limit
/// The last examined Data is evicted, although it was requested.
/// - Tests: `an_eviction_examines_bounded_popular_data`
pub(crate) const EVICTION_SCAN_MAX: usize = 256;

/// The hits that a policy is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnHit {
    /// A mark is raised, up to this maximum: an atomic store, no lock. With 0 the policy ignores
    /// hits.
    Mark(u8),
    /// [`Policy::hit`], under the policy's lock.
    Lock,
}

/// Marks of Data that were hit.
pub(crate) trait Marks {
    fn mark(&self, id: Id) -> u8;
    // By a shared reference: workers raise marks at the same time, without the policy's lock.
    fn set_mark(&self, id: Id, mark: u8);
}

/// The history of an arriving Data, as far as a policy remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    /// It was evicted recently, from the list of Data requested once.
    Recent,
    /// It was evicted recently, from the list of Data requested more often.
    Frequent,
}

/// Maintains the order of eviction.
pub(crate) trait Policy: Send {
    fn on_hit(&self) -> OnHit;

    /// A Data with this hash of its name is about to be inserted. Called once for each, before
    /// others are evicted for it.
    fn arriving(&mut self, _hash: u64) -> Arrival {
        Arrival::New
    }

    /// Detaches the Data to evict for an arrival of this kind; `None` if there is no Data.
    fn evict(&mut self, arrival: Arrival, records: &mut Records, marks: &impl Marks) -> Option<Id>;

    /// Allocates the memory for the records of `_packets` Data.
    fn prepare(&mut self, _packets: usize) -> Result<(), ConfigError> {
        Ok(())
    }

    /// The Data that [`Policy::evict`] will probably choose, followed by newer ones: a hint for
    /// prefetching.
    fn next(&self) -> Option<Id>;

    /// Prefetches the record of a hash.
    fn prefetch(&self, _hash: u64) {}

    /// A Data was inserted.
    fn inserted(&mut self, id: Id, arrival: Arrival, records: &mut Records);

    /// A Data answered an Interest, or arrived again. Only called with [`OnHit::Lock`].
    fn hit(&mut self, _id: Id, _records: &mut Records) {}

    /// A Data was erased.
    fn removed(&mut self, id: Id, records: &mut Records);

    /// Visits its lists in order of eviction.
    fn lists(&self, show: &mut dyn FnMut(&List));

    /// The number of ghosts.
    #[cfg(test)]
    fn ghosts(&self) -> usize {
        0
    }
}

//! The content store.

use lock_api::RawMutex;
use namely_wire::NameRef;

use crate::counters::{Counters, HotCounter};
use crate::cs::Cs;
use crate::cs::status::{CsChange, CsStatus};
use crate::name_keys::NameKeys;
use crate::packet::PacketBuf;
use crate::tier::Tier;

/// Data that are evicted at once when the content store shrinks.
const SHRUNK_AT_ONCE: usize = 256;

/// The content store: [`crate::Forwarder::cs`].
pub struct CsControl<'a, B, R> {
    pub(crate) names: &'a NameKeys<R>,
    pub(crate) cs: &'a Cs<B, R>,
    pub(crate) counters: &'a Counters,
}

impl<B: PacketBuf, R: RawMutex> CsControl<'_, B, R> {
    /// Changes the content store; evicts Data beyond a smaller capacity now.
    pub fn configure(&self, change: &CsChange) -> CsStatus {
        self.change(change);
        // In steps: each one makes the memory that it freed available to the workers.
        while self.shrink(SHRUNK_AT_ONCE) {}
        self.status()
    }

    /// Changes the content store's limits on index entries and octets, see [`crate::Config`];
    /// evicts Data beyond them now.
    pub fn limit(&self, entries_max: usize, octets_max: u64) {
        self.cs.limit(entries_max, octets_max);
        while self.shrink(SHRUNK_AT_ONCE) {}
    }

    /// As [`CsControl::configure`], but leaves two tasks to calls of [`CsControl::shrink`]: the
    /// eviction of Data beyond a smaller capacity, and the insertion of Data into the lists of
    /// another policy. For an embedder whose packets wait during a call. Until both tasks are done,
    /// the store does not admit Data that would evict more than a few others, and it evicts Data
    /// outside the new lists first.
    pub fn change(&self, change: &CsChange) {
        self.cs.configure(change);
    }

    /// Evicts up to `budget` Data beyond the content store's limits, and inserts as many into the
    /// lists of a new policy; returns true if there are more.
    pub fn shrink(&self, budget: usize) -> bool {
        self.cs.shrink(budget)
    }

    /// Evicts up to `count` Data, as a full store does, and offers them to `tier`: for an embedder
    /// that shuts down. Returns the number of evicted Data.
    pub fn spill(&self, count: usize, tier: &mut impl Tier<B>) -> usize {
        (0..count).take_while(|_| self.cs.spill(tier)).count()
    }

    /// The state of the content store.
    pub fn status(&self) -> CsStatus {
        self.cs.info(self.counters.sum(HotCounter::CsHits), self.counters.sum(HotCounter::CsMisses))
    }

    /// Calls `visit` for Data at or under `prefix` with its name, its octets, and the time until
    /// which it is fresh, until `visit` returns false. Visits a bounded number of slots from `from`
    /// on, and returns the position from which there may be more. Data that is inserted or removed
    /// meanwhile may be visited or not.
    pub fn walk(
        &self,
        prefix: NameRef<'_>,
        from: u32,
        visit: impl FnMut(NameRef<'_>, usize, u64) -> bool,
    ) -> Option<u32> {
        self.cs.walk(prefix, from, visit)
    }

    /// Erases up to `count` Data at or under `prefix`; returns the number of erased Data, and true
    /// if more remain.
    pub fn erase(&self, prefix: NameRef<'_>, count: usize) -> (usize, bool) {
        self.names.with(prefix, |key| self.cs.erase(key, count))
    }
}

//! The content store.

use lock_api::RawMutex;
use namely_wire::NameRef;

use crate::counters::{Counters, HotCounter};
use crate::cs::Cs;
use crate::cs::status::{CsChange, CsStatus};
use crate::name_keys::NameKeys;
use crate::packet::PacketBuf;
use crate::tier::Tier;

/// Data that are let go of at once when the content store shrinks.
const SHRUNK_AT_ONCE: usize = 256;

/// The content store: [`crate::Forwarder::cs`].
pub struct CsControl<'a, B, R> {
    pub(crate) names: &'a NameKeys<R>,
    pub(crate) cs: &'a Cs<B, R>,
    pub(crate) counters: &'a Counters,
}

impl<B: PacketBuf, R: RawMutex> CsControl<'_, B, R> {
    /// Changes the content store; Data beyond a smaller capacity leaves now.
    pub fn configure(&self, change: &CsChange) -> CsStatus {
        self.change(change);
        while self.shrink(SHRUNK_AT_ONCE) {}
        self.status()
    }

    /// Changes the content store's limits on index entries and octets, see [`crate::Config`]; Data
    /// beyond them leaves now.
    pub fn limit(&self, entries_max: usize, octets_max: u64) {
        self.cs.limit(entries_max, octets_max);
        while self.shrink(SHRUNK_AT_ONCE) {}
    }

    /// As [`CsControl::configure`], but Data beyond a smaller capacity leaves, and comes into the
    /// lists of another policy, with calls of [`CsControl::shrink`]: for a home that does nothing
    /// else during a call. Until then no Data is admitted that would evict more than a few, and
    /// Data outside the new lists is evicted first.
    pub fn change(&self, change: &CsChange) {
        self.cs.configure(change);
    }

    /// Lets go of up to `budget` Data that are beyond the content store's limits, and brings as
    /// many into the lists of a policy that was changed to; returns true if there are more.
    pub fn shrink(&self, budget: usize) -> bool {
        self.cs.shrink(budget)
    }

    /// Lets go of up to `count` Data as if room were needed, and offers them to `tier`: for a home
    /// that ends. Returns how many went.
    pub fn spill(&self, count: usize, tier: &mut impl Tier<B>) -> usize {
        (0..count).take_while(|_| self.cs.spill(tier)).count()
    }

    /// The state of the content store.
    pub fn status(&self) -> CsStatus {
        self.cs.info(self.counters.sum(HotCounter::CsHits), self.counters.sum(HotCounter::CsMisses))
    }

    /// Calls `visit` with the name of Data at or under `prefix`, its octets, and until when it is
    /// fresh, until it returns false: of a bounded number of places from `from` on. Returns the
    /// position from which there may be more. Data that comes or goes meanwhile may be visited or
    /// not.
    pub fn walk(
        &self,
        prefix: NameRef<'_>,
        from: u32,
        visit: impl FnMut(NameRef<'_>, usize, u64) -> bool,
    ) -> Option<u32> {
        self.cs.walk(prefix, from, visit)
    }

    /// Erases up to `count` Data at or under `prefix`; returns how many went and whether more
    /// remain.
    pub fn erase(&self, prefix: NameRef<'_>, count: usize) -> (usize, bool) {
        self.names.with(prefix, |key| self.cs.erase(key, count))
    }
}

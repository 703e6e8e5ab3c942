//! The accounting of the content store: the policy, and the three limits, behind one lock.
//!
//! A Data is on the policy's lists from its insertion until a thread detaches it. That thread then
//! owns the Data and removes it from the index next. A detached Data is no longer counted here, so
//! each worker may hold one Data beyond the limits for a moment.

use crate::cs::admission::AdmissionOutcome;
use crate::cs::admission::Amount;
use crate::cs::admission::EntryCost;
use crate::sync::plain::{AtomicU64, AtomicUsize, Ordering::Relaxed};
#[cfg(test)]
use alloc::vec::Vec;

use super::CsPolicy;
use super::index::{Handle, with_leaving};
use super::policy::AnyPolicy;
use crate::cs::ids::Ids;
#[cfg(feature = "vip")]
use crate::cs::objects::ObjectAccounting;
use crate::cs::policy::eviction::{Arrival, Marks, OnHit, Policy};
#[cfg(test)]
use crate::cs::policy::lists::List;
use crate::cs::policy::lists::Records;
use crate::error::ConfigError;
use crate::pool::HeapPart;
use crate::slab::Id;

/// The limits, readable without the lock and changed under it.
pub(super) struct Limits {
    pub(super) packets: AtomicUsize,
    pub(super) entries: AtomicUsize,
    pub(super) octets: AtomicU64,
}

pub(super) struct Accounting {
    pub(super) kind: CsPolicy,
    policy: AnyPolicy,
    /// [`Record::turn`] of the Data in the lists of `policy`.
    turn: bool,
    /// The previous policy, until all its Data are in the lists of `policy` or evicted.
    former: Option<ReplacedPolicy>,
    /// The policy that was requested last. A change to it starts when the former policy has no Data
    /// left.
    wanted: CsPolicy,
    pub(super) records: Records,
    /// Registered objects.
    #[cfg(feature = "vip")]
    pub(super) objects: ObjectAccounting,
    pub(super) packets: usize,
    pub(super) entries: usize,
    pub(super) octets: u64,
    pub(super) evicted: u64,
    /// True if the last insertion exceeded a limit, so that another Data had to be evicted.
    is_full: bool,
}

/// A policy that was replaced by another one.
struct ReplacedPolicy {
    policy: HeapPart<AnyPolicy>,
    /// Data in its lists.
    left: usize,
}

impl Accounting {
    #[inline(never)]
    pub(super) fn new(kind: CsPolicy, packets_max: usize) -> Result<Self, ConfigError> {
        Ok(Accounting {
            kind,
            policy: AnyPolicy::new(kind, packets_max)?,
            turn: false,
            former: None,
            wanted: kind,
            records: Records::default(),
            #[cfg(feature = "vip")]
            objects: ObjectAccounting::default(),
            packets: 0,
            entries: 0,
            octets: 0,
            evicted: 0,
            is_full: false,
        })
    }

    /// Allocates the memory for `packets` Data.
    pub(super) fn prepare(&mut self, packets: usize) -> Result<(), ConfigError> {
        self.records.prepare(with_leaving(packets) as Id)?;
        self.policy.prepare(packets)
    }

    pub(super) fn on_hit(&self) -> OnHit {
        self.policy.on_hit()
    }

    /// Returns true if all limits hold after the addition of `more` packets, entries and octets.
    pub(super) fn fits(&self, limits: &Limits, more: Amount) -> bool {
        // Relaxed: the limits are stored under the accounting's lock, which the caller holds.
        self.packets + more.packets <= limits.packets.load(Relaxed)
            && self.entries + more.entries <= limits.entries.load(Relaxed)
            && self.octets + more.octets <= limits.octets.load(Relaxed)
    }

    pub(super) fn arriving(&mut self, hash: u64) -> Arrival {
        self.policy.arriving(hash)
    }

    /// Detaches the next Data to evict.
    pub(super) fn evict(&mut self, arrival: Arrival, marks: &impl Marks) -> Option<Id> {
        let policy = match &mut self.former {
            // The former policy first: each eviction then shortens the change.
            Some(former) if former.left > 0 => &mut *former.policy,
            _ => &mut self.policy,
        };
        let id = policy.evict(arrival, &mut self.records, marks)?;
        self.evicted += 1;
        Some(self.settle(id))
    }

    /// Prefetches the list memory that insertions of `hashes` need, and adds to `leaving` the Data
    /// that they will probably evict.
    pub(super) fn prefetch(&self, hashes: impl Iterator<Item = u64>, leaving: &mut Ids) {
        let policy = match &self.former {
            Some(former) if former.left > 0 => &*former.policy,
            _ => &self.policy,
        };
        // While the store is not full no insertion evicts, and the prefetch would be wasted.
        let mut next = policy.next().filter(|_| self.is_full);
        for hash in hashes {
            self.policy.prefetch(hash);
            if let Some(leaves) = next {
                self.policy.prefetch(self.records.hash(leaves));
                leaving.push(leaves);
                next = self.records.newer(leaves);
            }
        }
    }

    /// Admits a Data if it fits, after the eviction of at most one other.
    pub(super) fn enter(
        &mut self,
        handle: Handle,
        need: EntryCost,
        arrival: Arrival,
        limits: &Limits,
        marks: &impl Marks,
    ) -> (AdmissionOutcome, Option<Id>) {
        let more = need.amount();
        let mut left = None;
        self.is_full = !self.fits(limits, more);
        if self.is_full {
            // At most one eviction under one hold of the lock: the caller removes the evicted Data
            // from the index without the lock.
            left = self.evict(arrival, marks);
            if !self.fits(limits, more) {
                return (
                    if left.is_some() { AdmissionOutcome::NotYet } else { AdmissionOutcome::Never },
                    left,
                );
            }
        }
        let mut record = need.record(handle);
        record.turn = self.turn;
        // The record is set before the sums change, so that a failed allocation leaves nothing to
        // undo.
        if !self.records.set(handle.id, record) {
            return (AdmissionOutcome::Never, left);
        }
        self.packets += more.packets;
        self.entries += more.entries;
        self.octets += more.octets;
        self.policy.inserted(handle.id, arrival, &mut self.records);
        (AdmissionOutcome::Yes, left)
    }

    /// Records a hit of a Data, if it is still listed.
    pub(super) fn hit(&mut self, handle: Handle) {
        let listed = self.records.listed(handle.id);
        // The generation distinguishes this Data from a later one in the same entry.
        let Some(record) = listed.filter(|record| record.generation == handle.generation) else { return };
        // Objects are evicted by plan, which hits do not change.
        if Accounting::is_object_record(record) {
            return;
        }
        let turn = record.turn;
        let (policy, records) = self.owner(turn);
        // The policy may have changed since the caller read `Cs::on_hit`. A policy with marks has
        // no order to update.
        if policy.on_hit() == OnHit::Lock {
            policy.hit(handle.id, records);
        }
    }

    /// The policy that has a Data with this [`Record::turn`] in its lists.
    fn owner(&mut self, turn: bool) -> (&mut AnyPolicy, &mut Records) {
        let policy = match &mut self.former {
            Some(former) if turn != self.turn => &mut *former.policy,
            _ => &mut self.policy,
        };
        (policy, &mut self.records)
    }

    /// Detaches a Data; `None` if another thread did, or it is not listed yet.
    pub(super) fn detach(&mut self, handle: Handle) -> Option<Id> {
        let record =
            self.records.listed(handle.id).filter(|record| record.generation == handle.generation)?;
        if Accounting::is_object_record(record) {
            return self.detach_object_data(handle);
        }
        let turn = record.turn;
        let (policy, records) = self.owner(turn);
        policy.removed(handle.id, records);
        Some(self.settle(handle.id))
    }

    /// Any Data.
    pub(super) fn any(&self) -> Option<Handle> {
        let former = self.former.as_ref().and_then(|former| first_of(&former.policy, &self.records));
        let first = former.or_else(|| first_of(&self.policy, &self.records));
        let first = first.or_else(|| self.any_object_data());
        first.map(|id| Handle { id, generation: self.records.record(id).generation })
    }

    /// Detaches any Data.
    pub(super) fn detach_any(&mut self) -> Option<Id> {
        let any = self.any()?;
        self.detach(any)
    }

    fn settle(&mut self, id: Id) -> Id {
        let record = self.records.record(id);
        self.packets -= 1;
        self.entries -= usize::from(record.components);
        self.octets -= u64::from(record.octets);
        if let Some(former) = &mut self.former
            && record.turn != self.turn
        {
            former.left -= 1;
        }
        id
    }

    /// Changes the policy. All Data stay, and [`Accounting::change_more`] moves them to the new
    /// policy. Data that was not moved yet is evicted before all other Data, in the order of the
    /// old policy. Without memory for the new policy the old one stays. During a change, the policy
    /// that is requested last takes effect after the change.
    pub(super) fn change(&mut self, kind: CsPolicy, packets_max: usize) {
        self.wanted = kind;
        if kind == self.kind || self.former.is_some() {
            return;
        }
        let Ok(mut policy) = HeapPart::new(|| AnyPolicy::new(kind, packets_max)) else {
            self.wanted = self.kind;
            return;
        };
        // `turn` flips with the policy. A record with the other value is on a list of the former
        // policy, so no walk over all records is needed.
        core::mem::swap(&mut *policy, &mut self.policy);
        (self.kind, self.turn) = (kind, !self.turn);
        self.former = Some(ReplacedPolicy { policy, left: self.packets });
    }

    /// Moves up to `budget` Data from a former policy to the new one, in eviction order, as if they
    /// had not been requested yet; returns true if there are more.
    pub(super) fn change_more(&mut self, budget: usize, packets_max: usize, marks: &impl Marks) -> bool {
        let Some(former) = &mut self.former else { return false };
        for _ in 0..budget.min(former.left) {
            let Some(id) = first_of(&former.policy, &self.records) else { break };
            former.policy.removed(id, &mut self.records);
            former.left -= 1;
            self.records.set_turn(id, self.turn);
            // A mark of the former policy has no meaning for the new one.
            marks.set_mark(id, 0);
            self.policy.inserted(id, Arrival::New, &mut self.records);
        }
        if former.left > 0 {
            return true;
        }
        self.former = None;
        self.change(self.wanted, packets_max);
        self.former.is_some()
    }

    /// Checks the accounting against its lists. Only for a store that is not in use.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        let mut totals = (0, 0, 0);
        let mut add = |list: &List, turn| {
            let ids: Vec<Id> = list.iter(&self.records).collect();
            assert_eq!(ids.len(), list.count());
            for id in ids {
                let record = self.records.listed(id).expect("what is in a list says so");
                assert_eq!(record.turn, turn, "it knows its policy");
                totals = (
                    totals.0 + 1,
                    totals.1 + usize::from(record.components),
                    totals.2 + u64::from(record.octets),
                );
            }
        };
        if let Some(former) = &self.former {
            let mut left = 0;
            former.policy.lists(&mut |list| {
                left += list.count();
                add(list, !self.turn);
            });
            assert_eq!(left, former.left);
        }
        self.policy.lists(&mut |list| add(list, self.turn));
        assert_eq!(totals, (self.packets, self.entries, self.octets));
        assert!(self.policy.ghosts() <= 2 * self.packets.max(8), "ghosts are bounded");
        self.packets + self.check_objects()
    }
}

/// The Data that a policy would evict first.
fn first_of(policy: &AnyPolicy, records: &Records) -> Option<Id> {
    let mut first = None;
    policy.lists(&mut |list| first = first.or_else(|| list.iter(records).next()));
    first
}

//! What is in the content store and what may be: the policy, and the three limits, behind one lock.
//!
//! A Data is on the policy's lists from its insertion until somebody takes it off them, who thereby
//! owns it and takes it out of the index next. What is on its way out is no longer counted here, so
//! each worker may hold one Data beyond the limits for a moment.

use crate::cs::admission::Admitted;
use crate::cs::admission::Amount;
use crate::cs::admission::Need;
use crate::sync::plain::{AtomicU64, AtomicUsize, Ordering::Relaxed};
#[cfg(test)]
use alloc::vec::Vec;

use super::CsPolicy;
use super::index::{Handle, with_leaving};
use super::policy::AnyPolicy;
use crate::cs::ids::Ids;
#[cfg(feature = "vip")]
use crate::cs::objects::Ledger;
use crate::cs::policy::eviction::{Arrival, Marks, OnHit, Policy};
#[cfg(test)]
use crate::cs::policy::lists::List;
use crate::cs::policy::lists::Records;
use crate::error::ConfigError;
use crate::pool::Apart;
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
    /// [`Record::turn`] of what is in the lists of `policy`.
    turn: bool,
    /// The policy before, until all that it has is in the lists of `policy` or gone.
    former: Option<Former>,
    /// The policy that is to follow when there is no former one any more.
    wanted: CsPolicy,
    pub(super) records: Records,
    /// Registered objects.
    #[cfg(feature = "vip")]
    pub(super) objects: Ledger,
    pub(super) packets: usize,
    pub(super) entries: usize,
    pub(super) octets: u64,
    pub(super) evicted: u64,
    /// True if the last Data that came in made another one leave.
    is_full: bool,
}

/// A policy that was changed for another one.
struct Former {
    policy: Apart<AnyPolicy>,
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
            objects: Ledger::default(),
            packets: 0,
            entries: 0,
            octets: 0,
            evicted: 0,
            is_full: false,
        })
    }

    /// Makes the memory for so many Data.
    pub(super) fn prepare(&mut self, packets: usize) -> Result<(), ConfigError> {
        self.records.prepare(with_leaving(packets) as Id)?;
        self.policy.prepare(packets)
    }

    /// Makes the next memory, for entries up to `made`; returns true if any was made.
    pub(super) fn grow(&mut self, made: Id) -> Result<bool, ConfigError> {
        self.records.grow(made)
    }

    pub(super) fn on_hit(&self) -> OnHit {
        self.policy.on_hit()
    }

    /// Returns true if all limits hold, with `more` packets, entries and octets.
    pub(super) fn fits(&self, limits: &Limits, more: Amount) -> bool {
        self.packets + more.packets <= limits.packets.load(Relaxed)
            && self.entries + more.entries <= limits.entries.load(Relaxed)
            && self.octets + more.octets <= limits.octets.load(Relaxed)
    }

    pub(super) fn arriving(&mut self, hash: u64) -> Arrival {
        self.policy.arriving(hash)
    }

    /// Takes off the lists what leaves next.
    pub(super) fn evict(&mut self, arrival: Arrival, marks: &impl Marks) -> Option<Id> {
        let policy = match &mut self.former {
            Some(former) if former.left > 0 => &mut *former.policy,
            _ => &mut self.policy,
        };
        let id = policy.evict(arrival, &mut self.records, marks)?;
        self.evicted += 1;
        Some(self.settle(id))
    }

    /// Prefetches what insertions of `hashes` need of the lists, and puts what will probably leave
    /// for them into `leaving`.
    pub(super) fn prefetch(&self, hashes: impl Iterator<Item = u64>, leaving: &mut Ids) {
        let policy = match &self.former {
            Some(former) if former.left > 0 => &*former.policy,
            _ => &self.policy,
        };
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

    /// Enters a Data if it fits, after at most one other has left for it.
    pub(super) fn enter(
        &mut self,
        handle: Handle,
        need: Need,
        arrival: Arrival,
        limits: &Limits,
        marks: &impl Marks,
    ) -> (Admitted, Option<Id>) {
        let more = need.amount();
        let mut left = None;
        self.is_full = !self.fits(limits, more);
        if self.is_full {
            left = self.evict(arrival, marks);
            if !self.fits(limits, more) {
                return (if left.is_some() { Admitted::NotYet } else { Admitted::Never }, left);
            }
        }
        let mut record = need.record(handle);
        record.turn = self.turn;
        // Before the sums change: without memory for the record nothing is to be taken back.
        if !self.records.set(handle.id, record) {
            return (Admitted::Never, left);
        }
        self.packets += more.packets;
        self.entries += more.entries;
        self.octets += more.octets;
        self.policy.inserted(handle.id, arrival, &mut self.records);
        (Admitted::Yes, left)
    }

    /// A Data was used, if it is still there.
    pub(super) fn hit(&mut self, handle: Handle) {
        let listed = self.records.listed(handle.id);
        let Some(record) = listed.filter(|record| record.generation == handle.generation) else { return };
        if Accounting::is_of_object(record) {
            return;
        }
        let turn = record.turn;
        let (policy, records) = self.owner(turn);
        if policy.on_hit() == OnHit::Lock {
            policy.hit(handle.id, records);
        }
    }

    /// The policy in whose lists a Data with this [`Record::turn`] is.
    fn owner(&mut self, turn: bool) -> (&mut AnyPolicy, &mut Records) {
        let policy = match &mut self.former {
            Some(former) if turn != self.turn => &mut *former.policy,
            _ => &mut self.policy,
        };
        (policy, &mut self.records)
    }

    /// Takes a Data off the lists; `None` if somebody else did, or it is not on them yet.
    pub(super) fn detach(&mut self, handle: Handle) -> Option<Id> {
        let record =
            self.records.listed(handle.id).filter(|record| record.generation == handle.generation)?;
        if Accounting::is_of_object(record) {
            return self.detach_of_object(handle);
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
        let first = first.or_else(|| self.any_of_objects());
        first.map(|id| Handle { id, generation: self.records.record(id).generation })
    }

    /// Takes any Data off the lists.
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

    /// Changes the policy. All Data stay, and come into the new one with
    /// [`Accounting::change_more`]; until then they leave by the old one, before all others.
    /// Without memory for the new one the old one stays. While a change is under way, the last one
    /// that is wanted follows it.
    pub(super) fn change(&mut self, kind: CsPolicy, packets_max: usize) {
        self.wanted = kind;
        if kind == self.kind || self.former.is_some() {
            return;
        }
        let Ok(mut policy) = Apart::new(|| AnyPolicy::new(kind, packets_max)) else {
            self.wanted = self.kind;
            return;
        };
        // The round flips with the policy. A record that has the other round is on a list of the
        // former policy, so no walk over all records is needed.
        core::mem::swap(&mut *policy, &mut self.policy);
        (self.kind, self.turn) = (kind, !self.turn);
        self.former = Some(Former { policy, left: self.packets });
    }

    /// Brings up to `budget` Data from a former policy into the new one, in the order in which they
    /// would have left, as if nobody had requested them yet; returns true if there are more.
    pub(super) fn change_more(&mut self, budget: usize, packets_max: usize, marks: &impl Marks) -> bool {
        let Some(former) = &mut self.former else { return false };
        for _ in 0..budget.min(former.left) {
            let Some(id) = first_of(&former.policy, &self.records) else { break };
            former.policy.removed(id, &mut self.records);
            former.left -= 1;
            self.records.set_turn(id, self.turn);
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

    /// Checks the ledger against its lists. Only for a store that nobody is using.
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

/// What is to leave first of the lists of a policy.
fn first_of(policy: &AnyPolicy, records: &Records) -> Option<Id> {
    let mut first = None;
    policy.lists(&mut |list| first = first.or_else(|| list.iter(records).next()));
    first
}

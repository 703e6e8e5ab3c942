//! The content store: cached Data, found by whole name, by any prefix, or by implicit digest; one
//! for all workers.
//!
//! Three limits are in force at once (`IS-35`): packets, index entries and octets. A Data is copied
//! nowhere: the store keeps a reference to the received packet and its index points into it.
//!
//! A lookup takes the lock of the Data that it finds, and that of a bucket if the first one does
//! not do; a hit takes the policy's lock too if the policy needs it ([`OnHit`]). An insertion takes
//! a bucket for each component, one after the other, then the policy's lock alone; what leaves for
//! it is taken out after that, again bucket by bucket.

mod accounting;
mod admission;
mod buckets;
#[cfg_attr(not(feature = "vip"), path = "by_plan/absent.rs")]
mod by_plan;
pub(crate) mod cached;
mod ids;
mod index;
#[cfg(feature = "vip")]
mod objects;
mod policy;
mod pool;
mod read_ahead;
pub(crate) mod status;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;

use crate::cs::cached::Arriving;
use crate::cs::cached::Cached;
use crate::cs::cached::kept_digest;
use crate::cs::index::CS_EXAMINED_MAX;
use crate::cs::status::CsChange;
use crate::cs::status::CsStatus;
use crate::sync::plain::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use lock_api::{Mutex, RawMutex};
use namely_wire::{DataView, Name, NameRef};

use crate::counter::Counter;
use crate::cs::admission::{Admitted, Amount, Need};
use crate::cs::policy::eviction::{Arrival, OnHit};
use crate::cs::status::CachedData;
use crate::error::ConfigError;
use crate::interest_key::InterestKey;
use crate::limits::CsLimits;
use crate::packet::{Output, PacketBuf};
use crate::pool::Apart;
use crate::prefix_table::Key;
use crate::reserve::Reserve;
use crate::slab::Id;
use crate::tier::{Leaving, Tier, TierCounters};
use accounting::{Accounting, Limits};
#[cfg(feature = "vip")]
use by_plan::ByPlan;
#[cfg(feature = "vip")]
pub(crate) use by_plan::NewObjects;
use index::{Handle, Index, Inserted};
#[cfg(feature = "vip")]
pub use objects::{ObjectHeld, ObjectPlace, ObjectPlan};
pub use policy::{CsPolicy, PolicyModel, UnknownPolicy};

/// Maximum number of digests that one Interest by digest has computed. They are kept, so that the
/// next one goes on behind them.
pub(crate) const CS_DIGESTS_MAX: usize = 4;

/// Maximum number of Data that leave for one that comes in. A large one among small ones needs so
/// many at most; more are there only while limits are being lowered, and then it is refused.
pub(crate) const EVICTED_PER_DATA_MAX: usize = 512;

/// Places that one [`ContentStore::walk`] looks at.
const WALKED_MAX: u32 = 1 << 16;

pub(crate) struct Cs<B, R> {
    index: Index<B, R>,
    accounting: Apart<LockedAccounting<R>>,
    limits: Limits,
    admit: AtomicBool,
    serve: AtomicBool,
    /// What the policy wants to know of a hit: its lock, or a mark up to so much.
    on_hit: AtomicU8,
    refused: Counter,
    /// What is to be done with registered objects.
    #[cfg(feature = "vip")]
    by_plan: ByPlan,
    /// What became of the tier's part.
    pub(crate) tier: Apart<TierCounters>,
}

/// What each insertion writes, apart from what lookups read.
#[repr(align(64))]
struct LockedAccounting<R>(Mutex<R, Accounting>);

/// In [`Cs::on_hit`].
const LOCK: u8 = u8::MAX;

/// What a lookup found.
pub(crate) enum Lookup<B> {
    Hit(B),
    Miss,
    /// Compute the digest of this packet, give it to [`Cs::set_digest`], and look again.
    DigestNeeded(Undigested<B>),
}

/// A cached packet whose digest is not known yet.
pub(crate) struct Undigested<B> {
    handle: Handle,
    pub(crate) packet: B,
}

impl<B: PacketBuf, R: RawMutex> Cs<B, R> {
    /// An empty store. `admit` is whether it takes Data in, `serve` whether it answers.
    pub(crate) fn new(
        limits: &CsLimits,
        policy: CsPolicy,
        admit: bool,
        serve: bool,
    ) -> Result<Self, ConfigError> {
        let accounting = Apart::new(|| {
            let accounting = Accounting::new(policy, limits.packets_max)?;
            Ok(LockedAccounting(Mutex::new(accounting)))
        })?;
        let on_hit = on_hit(&accounting.0.lock());
        Ok(Cs {
            index: Index::new(limits.packets_max, limits.entries_max)?,
            on_hit: AtomicU8::new(on_hit),
            accounting,
            limits: Limits {
                packets: AtomicUsize::new(limits.packets_max),
                entries: AtomicUsize::new(limits.entries_max),
                octets: AtomicU64::new(limits.octets_max),
            },
            admit: AtomicBool::new(admit),
            serve: AtomicBool::new(serve),
            refused: Counter::default(),
            #[cfg(feature = "vip")]
            by_plan: ByPlan::default(),
            tier: Apart::new(|| Ok(TierCounters::default()))?,
        })
    }

    /// Makes the memory for so many Data with so many components in all.
    pub(crate) fn prepare(&self, packets: usize, entries: usize) -> Result<(), ConfigError> {
        if packets == 0 {
            return Ok(());
        }
        self.index.prepare(packets, entries)?;
        self.accounting.0.lock().prepare(packets)
    }

    pub(crate) fn is_growth_due(&self) -> bool {
        self.limits.packets.load(Relaxed) > 0 && self.index.is_growth_due()
    }

    /// Makes the next memory; returns true if any was made.
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        if self.limits.packets.load(Relaxed) == 0 {
            return Ok(false);
        }
        let index = self.index.grow()?;
        Ok(index | self.accounting.0.lock().grow(self.index.made())?)
    }

    /// Its state; lookups are counted by who makes them.
    pub(crate) fn info(&self, hits: u64, misses: u64) -> CsStatus {
        let accounting = self.accounting.0.lock();
        CsStatus {
            packets_max: self.limits.packets.load(Relaxed),
            policy: accounting.kind,
            admit: self.admit.load(Relaxed),
            serve: self.serve.load(Relaxed),
            packets: accounting.packets,
            entries: accounting.entries,
            octets: accounting.octets,
            hits,
            misses,
            refused: self.refused.value(),
            evicted: accounting.evicted,
        }
    }

    /// Changes what is given; Data beyond a smaller capacity leaves, and comes into another policy,
    /// with [`ContentStore::shrink`].
    pub(crate) fn configure(&self, change: &CsChange) {
        let set = |flag: &AtomicBool, value: Option<bool>| {
            if let Some(value) = value {
                flag.store(value, Relaxed);
            }
        };
        // Relaxed, without the lock: a packet that is under way goes by the old or by the new flag.
        set(&self.admit, change.admit);
        set(&self.serve, change.serve);
        let mut accounting = self.accounting.0.lock();
        if let Some(packets) = change.packets_max {
            self.limits.packets.store(packets, Relaxed);
        }
        if let Some(policy) = change.policy {
            accounting.change(policy, self.limits.packets.load(Relaxed));
            // Under the policy's lock, with the policy. A hit that still reads the former value
            // marks in vain, or takes the lock in vain.
            self.on_hit.store(on_hit(&accounting), Relaxed);
        }
    }

    /// Changes how many index entries and octets there may be; Data beyond them leaves with
    /// [`ContentStore::shrink`].
    pub(crate) fn limit(&self, entries_max: usize, octets_max: u64) {
        // Under the lock, so that an admission sees both old limits or both new ones.
        let accounting = self.accounting.0.lock();
        self.limits.entries.store(entries_max, Relaxed);
        self.limits.octets.store(octets_max, Relaxed);
        drop(accounting);
    }

    /// Lets go of up to `budget` Data that are beyond the limits, and brings as many from a former
    /// policy into the new one; returns true if there are more of either.
    pub(crate) fn shrink(&self, budget: usize) -> bool {
        let reserve = Reserve::new(0);
        let mut accounting = self.accounting.0.lock();
        let is_changing =
            accounting.change_more(budget.max(1), self.limits.packets.load(Relaxed), &self.index);
        self.on_hit.store(on_hit(&accounting), Relaxed);
        drop(accounting);
        let mut is_more = true;
        for _ in 0..budget.max(1) {
            let mut accounting = self.accounting.0.lock();
            let fits = accounting.fits(&self.limits, Amount::default());
            let left = (!fits).then(|| accounting.evict(Arrival::New, &self.index)).flatten();
            // The index has locks of its own, and none is taken under the policy's.
            drop(accounting);
            is_more = left.is_some();
            let Some(left) = left else { break };
            self.take_out(left, &reserve);
        }
        self.settle(&reserve);
        is_more | is_changing
    }

    /// Lets go of one Data as if room were needed, and offers it to `tier`; false if there is
    /// none.
    pub(crate) fn spill(&self, tier: &mut impl Tier<B>) -> bool {
        let reserve = Reserve::new(0);
        let mut accounting = self.accounting.0.lock();
        let left = accounting.evict(Arrival::New, &self.index);
        drop(accounting);
        let Some(left) = left else { return false };
        let left = self.take_out(left, &reserve);
        self.settle(&reserve);
        self.offer(left, tier);
        true
    }

    /// Gives back what was taken for packets and not used.
    pub(crate) fn settle(&self, reserve: &Reserve) {
        self.index.settle(reserve);
    }

    /// Finds Data that satisfies `interest` at `now_ns`.
    pub(crate) fn find<O: Output<B>>(&self, interest: &InterestKey<'_>, now_ns: u64) -> Lookup<B> {
        match self.serves(interest) {
            true => self.search::<O>(interest, now_ns),
            false => Lookup::Miss,
        }
    }

    /// Returns true if an Interest may be answered, from here or from the tier.
    #[inline]
    pub(crate) fn serves(&self, interest: &InterestKey<'_>) -> bool {
        self.serve.load(Relaxed) && interest.components > 0
    }

    fn search<O: Output<B>>(&self, interest: &InterestKey<'_>, now_ns: u64) -> Lookup<B> {
        let mut lookup = Lookup::Miss;
        let mut hit = None;
        let below = interest.view.can_be_prefix && interest.digest.is_none();
        self.index.visit(
            interest.key(),
            interest.components,
            below,
            CS_EXAMINED_MAX,
            &mut |handle, cached| {
                if interest.view.must_be_fresh && now_ns >= cached.fresh_until_ns {
                    return false;
                }
                if let Some(asked) = interest.digest {
                    match &cached.digest {
                        None => {
                            lookup =
                                Lookup::DigestNeeded(Undigested { handle, packet: cached.packet.clone() });
                            return true;
                        }
                        Some(digest) if digest[0][..] != *asked => return false,
                        Some(_) => {}
                    }
                }
                if O::Tier::MAY_BE {
                    cached.was_asked_for = true;
                }
                lookup = Lookup::Hit(cached.packet.clone());
                hit = Some(handle);
                true
            },
        );
        if let Some(handle) = hit {
            self.used(handle);
        }
        lookup
    }

    /// Tells the policy that a Data answered, or arrived again.
    fn used(&self, handle: Handle) {
        match self.on_hit.load(Relaxed) {
            0 => {}
            LOCK => self.accounting.0.lock().hit(handle),
            most => self.index.raise(handle.id, most),
        }
    }

    pub(crate) fn set_digest(&self, of: &Undigested<B>, digest: [u8; 32]) {
        // Made with no lock held.
        let digest = kept_digest(digest);
        self.index.with(of.handle, |cached| cached.digest = digest);
    }

    /// [`Cs::insert`] apart from the way of most Data, into which it goes as it is.
    #[inline(never)]
    pub(crate) fn insert_apart<O: Output<B>>(
        &self,
        arriving: Arriving<'_, B>,
        reserve: &Reserve,
        out: &mut O,
    ) {
        self.insert(arriving, reserve, out);
    }

    /// Takes a Data in, or renews it if the very same packet is there. What leaves for it is
    /// offered to the tier of `out`.
    #[inline(always)]
    pub(crate) fn insert<O: Output<B>>(&self, arriving: Arriving<'_, B>, reserve: &Reserve, out: &mut O) {
        let Arriving { view, key, .. } = arriving;
        if !self.admit.load(Relaxed) || self.limits.packets.load(Relaxed) == 0 {
            return;
        }
        let (octets, components) = (arriving.octets(), key.hashes.len());
        let too_large = components > self.limits.entries.load(Relaxed)
            || octets as u64 > self.limits.octets.load(Relaxed)
            || octets > u32::MAX as usize;
        if components == 0 || too_large {
            self.refused.add(1);
            return;
        }
        // Linked first and owned after: Data in the index that is on no list of the policy belongs
        // to this thread alone, so no other thread removes it.
        let cached = Cached::new(&arriving);
        let inserted = self.index.insert(cached, key, |known| known.packet.as_ref() == view.wire, reserve);
        match inserted {
            Inserted::Renewed(handle) => self.used(handle),
            Inserted::Full => self.refused.add(1),
            Inserted::New(handle) => {
                let hash = key.hashes.whole();
                let need = Need { hash, entries: components as u8, octets: octets as u32 };
                self.enter(handle, need, reserve, out);
            }
        }
    }

    /// Enters a Data that is in the index, making room for it.
    fn enter<O: Output<B>>(&self, handle: Handle, need: Need, reserve: &Reserve, out: &mut O) {
        let mut arrival = None;
        for _ in 0..EVICTED_PER_DATA_MAX {
            let mut accounting = self.accounting.0.lock();
            let arrival = *arrival.get_or_insert_with(|| accounting.arriving(need.hash));
            let (entered, left) = accounting.enter(handle, need, arrival, &self.limits, &self.index);
            // One Data leaves for each turn of the lock, so that others come in between.
            drop(accounting);
            if let Some(left) = left {
                let left = self.take_out(left, reserve);
                if let Some(tier) = out.tier() {
                    self.offer(left, tier);
                }
            }
            match entered {
                Admitted::Yes => return,
                Admitted::NotYet => {}
                // The limits became smaller meanwhile.
                Admitted::Never => break,
            }
        }
        self.take_out(handle.id, reserve);
        self.refused.add(1);
    }

    /// Takes a Data out of the index, by its owner; its memory is given back with no lock held.
    fn take_out(&self, id: Id, reserve: &Reserve) -> Option<Cached<B>> {
        self.index.remove(id, reserve)
    }

    /// Offers a Data that made room to the tier.
    fn offer(&self, left: Option<Cached<B>>, tier: &mut impl Tier<B>) {
        if let Some(left) = left.filter(|left| !left.from_tier) {
            let Cached { packet, fresh_until_ns, was_asked_for, .. } = left;
            let leaving = Leaving { packet, fresh_until_ns, was_asked_for, is_planned: false };
            self.tier.wrote(tier.write(leaving));
        }
    }

    /// Counts a Data that was not to be cached.
    pub(crate) fn refuse(&self) {
        self.refused.add(1);
    }

    /// Removes up to `count` Data at or under `prefix`; returns how many went and whether more
    /// remain, or are coming in at this moment.
    pub(crate) fn erase(&self, prefix: Key<'_>, count: usize) -> (usize, bool) {
        let mut erased = 0;
        loop {
            if erased == count {
                return (erased, self.any_under(prefix).is_some());
            }
            let owned = if prefix.hashes.len() == 0 {
                self.accounting.0.lock().detach_any()
            } else {
                let Some(handle) = self.any_under(prefix) else { return (erased, false) };
                self.accounting.0.lock().detach(handle)
            };
            match owned {
                Some(id) => {
                    let reserve = Reserve::new(0);
                    self.take_out(id, &reserve);
                    self.settle(&reserve);
                }
                // Another thread owns this Data, or it is on no list yet: it is leaving or
                // arriving.
                None => return (erased, prefix.hashes.len() > 0),
            }
            erased += 1;
        }
    }

    /// Removes the Data of this very name that has this implicit digest; false if there is none.
    pub(crate) fn erase_exact(
        &self,
        name: Key<'_>,
        digest: &[u8],
        sha256: impl Fn(&[u8]) -> [u8; 32],
    ) -> bool {
        let mut found = None;
        self.index.visit(name, name.hashes.len(), false, CS_EXAMINED_MAX, &mut |handle, cached| {
            let is_it = sha256(cached.packet.as_ref())[..] == *digest;
            found = is_it.then_some(handle);
            is_it
        });
        let Some(owned) = found.and_then(|handle| self.accounting.0.lock().detach(handle)) else {
            return false;
        };
        let reserve = Reserve::new(0);
        self.take_out(owned, &reserve);
        self.settle(&reserve);
        true
    }

    /// Calls `visit` with the name, octets and freshness of each Data at or under `prefix` in a
    /// bounded number of places from `from` on, until it returns false. Where to go on; none at the
    /// end.
    pub(crate) fn walk(
        &self,
        prefix: NameRef<'_>,
        from: Id,
        mut visit: impl FnMut(NameRef<'_>, usize, u64) -> bool,
    ) -> Option<Id> {
        self.index.walk(from, WALKED_MAX, |cached| {
            let packet = cached.packet.as_ref();
            let name = DataView::parse(packet).map(|data| data.name);
            let name = name.ok().filter(|name| prefix.is_prefix_of(*name));
            name.is_none_or(|name| visit(name, packet.len(), cached.fresh_until_ns))
        })
    }

    /// A Data at or below `name`, the very name first; it does not count as used.
    pub(crate) fn peek(&self, name: Key<'_>) -> Option<CachedData> {
        let mut found = None;
        let components = name.hashes.len();
        self.index.visit(name, components, true, 1, &mut |_, cached| {
            found = Some(CachedData {
                name: NameRef::parse_value(cached.name()).map(Name::from).unwrap_or_default(),
                octets: cached.packet.as_ref().len(),
                fresh_until_ns: cached.fresh_until_ns,
            });
            true
        });
        found.filter(|_| components > 0)
    }

    fn any_under(&self, prefix: Key<'_>) -> Option<Handle> {
        if prefix.hashes.len() == 0 {
            return self.accounting.0.lock().any();
        }
        let mut any = None;
        self.index.visit(prefix, prefix.hashes.len(), true, 1, &mut |handle, _| {
            any = Some(handle);
            true
        });
        any
    }

    /// Checks what must hold whenever nobody is using the store.
    #[cfg(test)]
    fn check(&self) {
        let accounting = self.accounting.0.lock();
        let packets = accounting.check();
        assert!(accounting.fits(&self.limits, Amount::default()), "all limits hold");
        assert_eq!(self.index.check(), packets, "what is in the index is on a list");
    }
}

fn on_hit(accounting: &Accounting) -> u8 {
    match accounting.on_hit() {
        OnHit::Lock => LOCK,
        OnHit::Mark(most) => most,
    }
}

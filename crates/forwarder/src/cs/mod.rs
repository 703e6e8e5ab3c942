//! The content store: cached Data, found by whole name, by any prefix, or by implicit digest; one
//! store for all workers.
//!
//! Three limits apply at once (`IS-35`): packets, index entries and octets. No Data is copied: the
//! store holds a reference to the received packet, and its index points into it.
//!
//! A lookup locks the Data that it finds, and a bucket if the first Data does not match. A hit also
//! takes the policy's lock if the policy needs it ([`OnHit`]). An insertion locks the bucket of
//! each component, one after the other, then the policy alone. Evicted Data is removed after that,
//! again bucket by bucket.

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

use crate::cs::cached::CsEntry;
use crate::cs::cached::IncomingData;
use crate::cs::cached::boxed_digest;
use crate::cs::index::CS_EXAMINED_MAX;
use crate::cs::status::CsChange;
use crate::cs::status::CsStatus;
use crate::sync::plain::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use lock_api::{Mutex, RawMutex};
use namely_wire::{DataView, Name, NameRef};

use crate::counter::Counter;
use crate::cs::admission::{AdmissionOutcome, Amount, EntryCost};
use crate::cs::policy::eviction::{Arrival, OnHit};
use crate::cs::status::CachedData;
use crate::error::ConfigError;
use crate::interest_key::InterestKey;
use crate::limits::CsLimits;
use crate::packet::{Output, PacketBuf};
use crate::pool::HeapPart;
use crate::prefix_table::Key;
use crate::reserve::Reserve;
use crate::slab::Id;
use crate::tier::{EvictedData, Tier, TierCounters};
use accounting::{Accounting, Limits};
#[cfg(feature = "vip")]
pub(crate) use by_plan::NewObjects;
#[cfg(feature = "vip")]
use by_plan::PlanState;
use index::{Handle, Index, InsertOutcome};
#[cfg(feature = "vip")]
pub use objects::{ObjectPlacement, ObjectPlan, ObjectUsage};
pub use policy::{CsPolicy, PolicyModel, UnknownPolicy};

/// Digests of cached Data that one Interest by digest computes.
///
/// They are stored, so that the next Interest continues after them.
///
/// # Limit
/// The lookup is a miss.
/// - Counter: `misses`
/// - Tests: `a_digest_lookup_computes_at_most_four`
pub(crate) const CS_DIGESTS_MAX: usize = 4;

/// Maximum number of Data that are evicted for one insertion. A large Data among small ones needs
/// at most this number. More are needed only while limits are being lowered; the insertion is then
/// refused.
pub(crate) const EVICTED_PER_DATA_MAX: usize = 512;

/// Slots of the content store that one part of `cs/list` visits.
///
/// # Limit
/// The next part continues there.
/// - Tests: `memory_contents_are_listed_in_parts`
const WALKED_MAX: u32 = 1 << 16;

pub(crate) struct Cs<B, R> {
    index: Index<B, R>,
    accounting: HeapPart<LockedAccounting<R>>,
    limits: Limits,
    admit: AtomicBool,
    serve: AtomicBool,
    /// The policy's handling of a hit: its lock, or the maximum of a mark.
    on_hit: AtomicU8,
    refused: Counter,
    /// The state of registered objects for the data path.
    #[cfg(feature = "vip")]
    by_plan: PlanState,
    /// The tier's counters.
    pub(crate) tier: HeapPart<TierCounters>,
}

/// The state that each insertion writes, on cache lines apart from those that lookups read.
#[repr(align(64))]
struct LockedAccounting<R>(Mutex<R, Accounting>);

/// A value of [`Cs::on_hit`].
const LOCK: u8 = u8::MAX;

/// The result of a lookup.
pub(crate) enum Lookup<B> {
    Hit(B),
    Miss,
    /// Compute the digest of this packet, pass it to [`Cs::set_digest`], and look up again.
    DigestNeeded(UndigestedPacket<B>),
}

/// A cached packet whose digest is not known yet.
pub(crate) struct UndigestedPacket<B> {
    handle: Handle,
    pub(crate) packet: B,
}

impl<B: PacketBuf, R: RawMutex> Cs<B, R> {
    /// An empty store. `admit` enables insertions, `serve` enables answers.
    pub(crate) fn new(
        limits: &CsLimits,
        policy: CsPolicy,
        admit: bool,
        serve: bool,
    ) -> Result<Self, ConfigError> {
        let accounting = HeapPart::new(|| {
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
            by_plan: PlanState::default(),
            tier: HeapPart::new(|| Ok(TierCounters::default()))?,
        })
    }

    /// Allocates the memory for `packets` Data with `entries` components in total.
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

    /// Allocates the next memory; returns true if any was allocated.
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        if self.limits.packets.load(Relaxed) == 0 {
            return Ok(false);
        }
        self.index.grow()
    }

    /// The state of the store. The callers of lookups count `hits` and `misses`.
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

    /// Applies the given changes. `Cs::shrink` evicts Data beyond a smaller capacity, and moves
    /// Data to another policy.
    pub(crate) fn configure(&self, change: &CsChange) {
        let set = |flag: &AtomicBool, value: Option<bool>| {
            if let Some(value) = value {
                flag.store(value, Relaxed);
            }
        };
        // Relaxed, without the lock: a packet that is under way uses the old or the new flag.
        set(&self.admit, change.admit);
        set(&self.serve, change.serve);
        let mut accounting = self.accounting.0.lock();
        if let Some(packets) = change.packets_max {
            self.limits.packets.store(packets, Relaxed);
        }
        if let Some(policy) = change.policy {
            accounting.change(policy, self.limits.packets.load(Relaxed));
            // Stored under the policy's lock, with the policy. A hit that still reads the former
            // value sets a mark or takes the lock without effect.
            self.on_hit.store(on_hit(&accounting), Relaxed);
        }
    }

    /// Changes the limits on index entries and octets; `Cs::shrink` evicts Data beyond them.
    pub(crate) fn limit(&self, entries_max: usize, octets_max: u64) {
        // Under the lock, so that an admission sees both old limits or both new ones.
        let accounting = self.accounting.0.lock();
        self.limits.entries.store(entries_max, Relaxed);
        self.limits.octets.store(octets_max, Relaxed);
        drop(accounting);
    }

    /// Evicts up to `budget` Data beyond the limits, and moves as many from a former policy to the
    /// new one; returns true if there are more of either.
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
            // The index has locks of its own, and none may be taken under the policy's.
            drop(accounting);
            is_more = left.is_some();
            let Some(left) = left else { break };
            self.take_out(left, &reserve);
        }
        self.settle(&reserve);
        is_more | is_changing
    }

    /// Evicts one Data, as a full store does, and offers it to `tier`; returns false if there is
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

    /// Returns entries that were reserved for packets and not used.
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

    /// Returns true if an Interest may be answered, from the store or from the tier.
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
                if let Some(requested) = interest.digest {
                    match &cached.digest {
                        None => {
                            lookup = Lookup::DigestNeeded(UndigestedPacket {
                                handle,
                                packet: cached.packet.clone(),
                            });
                            return true;
                        }
                        Some(digest) if digest[0][..] != *requested => return false,
                        Some(_) => {}
                    }
                }
                if O::Tier::MAY_BE {
                    cached.was_requested = true;
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

    /// Notifies the policy that a Data answered an Interest, or arrived again.
    fn used(&self, handle: Handle) {
        match self.on_hit.load(Relaxed) {
            0 => {}
            LOCK => self.accounting.0.lock().hit(handle),
            most => self.index.raise(handle.id, most),
        }
    }

    pub(crate) fn set_digest(&self, of: &UndigestedPacket<B>, digest: [u8; 32]) {
        // Allocated with no lock held.
        let digest = boxed_digest(digest);
        self.index.with(of.handle, |cached| cached.digest = digest);
    }

    /// As [`Cs::insert`], but not inlined: for callers outside the common path.
    #[inline(never)]
    pub(crate) fn insert_apart<O: Output<B>>(
        &self,
        arriving: IncomingData<'_, B>,
        reserve: &Reserve,
        out: &mut O,
    ) {
        self.insert(arriving, reserve, out);
    }

    /// Inserts a Data, or renews it if the same packet is there. Evicted Data is offered to the
    /// tier of `out`.
    #[inline(always)]
    pub(crate) fn insert<O: Output<B>>(&self, arriving: IncomingData<'_, B>, reserve: &Reserve, out: &mut O) {
        let IncomingData { view, key, .. } = arriving;
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
        // Linked into the index first, and added to the lists of the policy afterwards. Data in the
        // index that is on no list belongs to this thread alone, so no other thread removes it.
        let cached = CsEntry::new(&arriving);
        let inserted = self.index.insert(cached, key, |known| known.packet.as_ref() == view.wire, reserve);
        match inserted {
            InsertOutcome::Renewed(handle) => self.used(handle),
            InsertOutcome::Full => self.refused.add(1),
            InsertOutcome::New(handle) => {
                let hash = key.hashes.whole();
                let need = EntryCost { hash, entries: components as u8, octets: octets as u32 };
                self.enter(handle, need, reserve, out);
            }
        }
    }

    /// Admits a Data that is in the index, and makes room for it.
    fn enter<O: Output<B>>(&self, handle: Handle, need: EntryCost, reserve: &Reserve, out: &mut O) {
        let mut arrival = None;
        for _ in 0..EVICTED_PER_DATA_MAX {
            let mut accounting = self.accounting.0.lock();
            let arrival = *arrival.get_or_insert_with(|| accounting.arriving(need.hash));
            let (entered, left) = accounting.enter(handle, need, arrival, &self.limits, &self.index);
            // One Data is evicted for each acquisition of the lock, so that other threads can take
            // it in between.
            drop(accounting);
            if let Some(left) = left {
                let left = self.take_out(left, reserve);
                if let Some(tier) = out.tier() {
                    self.offer(left, tier);
                }
            }
            match entered {
                AdmissionOutcome::Yes => return,
                AdmissionOutcome::NotYet => {}
                // The limits became smaller meanwhile.
                AdmissionOutcome::Never => break,
            }
        }
        self.take_out(handle.id, reserve);
        self.refused.add(1);
    }

    /// Removes a Data from the index; only its owner may call this. Its memory is freed with no
    /// lock held.
    fn take_out(&self, id: Id, reserve: &Reserve) -> Option<CsEntry<B>> {
        self.index.remove(id, reserve)
    }

    /// Offers an evicted Data to the tier.
    fn offer(&self, left: Option<CsEntry<B>>, tier: &mut impl Tier<B>) {
        if let Some(left) = left.filter(|left| !left.from_tier) {
            let CsEntry { packet, fresh_until_ns, was_requested, .. } = left;
            let leaving = EvictedData { packet, fresh_until_ns, was_requested, is_planned: false };
            self.tier.wrote(tier.write(leaving));
        }
    }

    /// Counts a Data that must not be cached.
    pub(crate) fn refuse(&self) {
        self.refused.add(1);
    }

    /// Removes up to `count` Data at or under `prefix`; returns the number removed, and true if
    /// more remain or are being inserted.
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
                // Another thread owns this Data, or it is on no list yet: it is being removed or
                // inserted.
                None => return (erased, prefix.hashes.len() > 0),
            }
            erased += 1;
        }
    }

    /// Removes the Data of exactly this name with this implicit digest; returns false if there is
    /// none.
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
    /// bounded number of entries from `from` on, until it returns false. Returns the next position;
    /// `None` at the end.
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

    /// A Data at or below `name`, preferably of exactly that name. This does not count as a use.
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

    /// Checks the invariants of a store that is not in use.
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

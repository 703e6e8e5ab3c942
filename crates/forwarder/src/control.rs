//! The control path: faces, routes, bindings, strategies, the content store, and readings of them
//! all.
//!
//! None of these waits for a packet to be processed; each takes the lock of one table at a time,
//! and long walks release it in between.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::mgmt::{FibEntry, NextHop, StrategyChoice};
use namely_wire::{Name, NameRef};

use crate::bpt::{BindError, Bound};
use crate::counters::{DropReason, ForwarderCounters, HotCounter};
use crate::cs::{CsChange, CsStatus};
use crate::faces::{FaceError, FaceHold, FaceId, FaceKey, FaceLayer, FaceProperties, FaceSnapshot, Released};
use crate::fib::FibError;
use crate::forwarder::Forwarder;
use crate::ordered::NoMemory;
use crate::packet::PacketBuf;
use crate::prefix_table::Key;
use crate::shares::{Holder, HolderId};
use crate::strategy::{ChosenStrategy, FibChange, Named, RoundTripCounts, StrategyError};
use crate::tier::Tier;

/// Data that are let go of at once when the content store shrinks.
const SHRUNK_AT_ONCE: usize = 256;

/// Entries of a released face that are cleared at once, of each kind.
pub(crate) const SWEPT_AT_ONCE_MAX: usize = 256;

/// Table places read under one hold of a lock.
pub const WALK_PLACES: u32 = 1024;

/// How full the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSizes {
    /// Pending Interests.
    pub pit: usize,
    /// Names with next hops.
    pub fib: usize,
    /// Bound prefixes.
    pub bindings: usize,
    /// Remembered Nonces.
    pub dead_nonces: usize,
    /// Cached Data.
    pub cs: usize,
    /// Prefixes that strategies remember.
    pub strategy_prefixes: usize,
}

/// A pending Interest in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PitStatus {
    /// Its name.
    pub name: Name,
    /// CanBePrefix.
    pub can_be_prefix: bool,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// When it ends.
    pub expires_at_ns: u64,
    /// The downstream faces.
    pub downstreams: Vec<FaceId>,
    /// The upstream faces.
    pub upstreams: Vec<FaceId>,
}

/// Faces.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Adds a face that pays alone for what it has in the tables.
    ///
    /// # Errors
    ///
    /// [`FaceError::TableFull`] if `faces_max` faces exist, [`FaceError::NoMemory`].
    pub fn face_register(&self, spec: FaceProperties) -> Result<FaceId, FaceError> {
        self.register(spec, Holder::Face)
    }

    /// Adds a face for which `holder` pays, together with its other faces.
    ///
    /// # Errors
    ///
    /// [`FaceError::TableFull`] if `faces_max` faces exist, [`FaceError::NoMemory`].
    pub fn face_register_for(&self, spec: FaceProperties, holder: HolderId) -> Result<FaceId, FaceError> {
        self.register(spec, |_| Holder::Given(holder))
    }

    /// What its release takes is made now: to release needs no memory.
    fn register(
        &self,
        spec: FaceProperties,
        holder_of: impl FnOnce(FaceKey) -> Holder,
    ) -> Result<FaceId, FaceError> {
        self.departed.lock().promise().map_err(|_| FaceError::NoMemory)?;
        let entered = self.faces.enter(spec).and_then(|key| match self.pit.open(key, holder_of(key)) {
            Ok(()) => Ok(key.id()),
            Err(NoMemory) => {
                // Nobody knows it yet.
                let _ = self.faces.release(key.id());
                Err(FaceError::NoMemory)
            }
        });
        if entered.is_err() {
            self.departed.lock().take_back();
        }
        entered
    }

    /// Removes a face with its next hops, bindings, and what it waits for: a pending Interest of
    /// which it was the only downstream ends. Never waits for packets that hold it; all
    /// but a few entries are cleared by later calls of [`Forwarder::expire`], and no packet goes to
    /// the face from now on.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face, [`FaceError::Permanent`] for
    /// [`FaceId::LOCAL`].
    pub fn face_release(&self, face: FaceId) -> Result<Released, FaceError> {
        self.face_release_within(face, SWEPT_AT_ONCE_MAX)
    }

    /// The same, but at most `budget` entries are cleared now.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn face_release_within(&self, face: FaceId, budget: usize) -> Result<Released, FaceError> {
        self.release(face, budget).map(|(_, released)| released)
    }

    /// The same, with the key that the face had.
    pub(crate) fn release(&self, face: FaceId, budget: usize) -> Result<(FaceKey, Released), FaceError> {
        let (key, released) = self.faces.release(face)?;
        match released {
            Released::Freed => self.counters.faces_freed.add(1),
            Released::Orphaned => self.counters.faces_orphaned.add(1),
        }
        self.discovery.lock().forget(key);
        self.departed.lock().add(key);
        self.sweep_departed(budget);
        Ok((key, released))
    }

    /// Whether discoveries of the strategy self-learning go to a face: to groups and neighbours,
    /// not to whoever happens to have asked something.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face, [`FaceError::TableFull`] if
    /// [`DISCOVERY_FACES_MAX`](crate::DISCOVERY_FACES_MAX) faces are for discovery.
    pub fn face_set_discovery(&self, face: FaceId, is_wanted: bool) -> Result<(), FaceError> {
        self.set_discovery(face, is_wanted, None)
    }

    /// Has discoveries go to a neighbour's face beside the face of its link's `group`, which is for
    /// discovery as well: for stations that are no neighbours.
    ///
    /// # Errors
    ///
    /// As [`Forwarder::face_set_discovery`].
    pub fn face_set_discovery_beside(&self, face: FaceId, group: FaceId) -> Result<(), FaceError> {
        let group = self.faces.hold(group).ok_or(FaceError::NotFound)?.key();
        self.set_discovery(face, true, Some(group))?;
        if self.has_gone(group) {
            self.discovery.lock().forget(group);
        }
        Ok(())
    }

    fn set_discovery(&self, face: FaceId, is_wanted: bool, group: Option<FaceKey>) -> Result<(), FaceError> {
        let key = self.faces.hold(face).ok_or(FaceError::NotFound)?.key();
        let mut faces = self.discovery.lock();
        if !is_wanted {
            faces.remove(key);
        } else if !faces.add(key, group) {
            return Err(FaceError::TableFull);
        }
        drop(faces);
        if self.has_gone(key) {
            self.discovery.lock().forget(key);
            return Err(FaceError::NotFound);
        }
        Ok(())
    }

    /// Data from these faces answers what their link's `group` was asked: the home sends them by
    /// unicast what it sends to the group. Those that were given before do so no longer.
    ///
    /// # Errors
    ///
    /// As [`Forwarder::face_set_discovery`].
    pub fn face_set_copied(&self, group: FaceId, faces: &[FaceId]) -> Result<(), FaceError> {
        let group = self.faces.hold(group).ok_or(FaceError::NotFound)?.key();
        let keys = faces.iter().filter_map(|face| self.faces.hold(*face)).map(|face| face.key());
        let has_room = self.discovery.lock().set_copied(group, keys);
        let held: bool = faces.iter().all(|face| self.faces.hold(*face).is_some());
        match (has_room, held) {
            (false, _) => Err(FaceError::TableFull),
            (true, false) => Err(FaceError::NotFound),
            (true, true) => Ok(()),
        }
    }

    /// The faces that discoveries go to.
    pub fn discovery_faces(&self) -> Vec<FaceId> {
        self.discovery.lock().iter().map(|key| key.id()).collect()
    }

    /// Holds a face: its cell stays until it is put, even if the face is released in between.
    pub fn face_hold(&self, face: FaceId) -> Option<FaceHold<'_>> {
        self.faces.hold(face)
    }

    /// Puts a held face. Dropping the hold does the same.
    pub fn face_put(&self, face: FaceHold<'_>) {
        drop(face);
    }

    /// Enables or disables IncomingFaceId and NextHopFaceId on a face.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face.
    pub fn face_set_local_fields(&self, face: FaceId, enabled: bool) -> Result<(), FaceError> {
        self.faces.set_local_fields(face, enabled)
    }

    /// Adds some registered faces, at most [`WALK_PLACES`], to `faces`; see
    /// [`Forwarder::fib_walk`].
    pub fn faces_walk(&self, from: Option<u32>, faces: &mut Vec<FaceSnapshot>) -> Option<u32> {
        self.faces.walk(from.unwrap_or(0), WALK_PLACES, faces)
    }

    /// All registered faces but `local`.
    pub fn faces_snapshot(&self) -> Vec<FaceSnapshot> {
        self.faces.snapshot()
    }

    /// Runs `with` on the key of `name`. What it does is short and comes by no other key: the
    /// hashes are in memory that control calls share, because they are more than a small stack has
    /// room for.
    pub(crate) fn with_key<T>(&self, name: NameRef<'_>, with: impl FnOnce(Key<'_>) -> T) -> T {
        with(Key::filled(&self.hasher, name, &mut self.scratch.lock().hashes[0]))
    }

    /// The key of a face that can be a next hop.
    pub(crate) fn key_of(&self, face: FaceId) -> Option<FaceKey> {
        if face == FaceId::LOCAL {
            return Some(FaceKey::LOCAL);
        }
        self.faces.hold(face).map(|hold| hold.key())
    }

    /// Returns true if a face has gone since its key was read. Who has entered something for it
    /// meanwhile takes it out again, because the sweep of its release may have come too early.
    pub(crate) fn has_gone(&self, key: FaceKey) -> bool {
        key != FaceKey::LOCAL && self.faces.hold_key(key).is_none()
    }
}

/// Next hops.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Adds a next hop to the FIB, or changes its cost. [`FaceId::LOCAL`] leads to the BPT.
    ///
    /// # Errors
    ///
    /// [`FibError`]: there is no such face, or a limit of the FIB is reached.
    pub fn fib_add_nexthop(&self, name: NameRef<'_>, face: FaceId, cost: u64) -> Result<(), FibError> {
        let key = self.key_of(face).ok_or(FibError::NoFace)?;
        self.enter_nexthop(name, key, cost)
    }

    fn enter_nexthop(&self, name: NameRef<'_>, key: FaceKey, cost: u64) -> Result<(), FibError> {
        self.fib_add(name, key, cost)?;
        if !self.has_gone(key) {
            return Ok(());
        }
        self.fib_remove(name, key);
        Err(FibError::NoFace)
    }

    /// Removes a next hop from the FIB; returns true if it was there.
    pub fn fib_remove_nexthop(&self, name: NameRef<'_>, face: FaceId) -> bool {
        let Some(key) = self.key_of(face) else { return false };
        self.fib_remove(name, key)
    }

    /// Adds a next hop to the FIB, or changes its cost, and tells the strategy that remembers the
    /// prefix.
    pub(crate) fn fib_add(&self, name: NameRef<'_>, face: FaceKey, cost: u64) -> Result<(), FibError> {
        self.with_key(name, |prefix| {
            self.fib.add(prefix, face, cost)?;
            self.fib_changed(prefix, FibChange::Added(face));
            Ok(())
        })
    }

    /// Removes a next hop from the FIB, and tells the strategy; returns true if it was there.
    pub(crate) fn fib_remove(&self, name: NameRef<'_>, face: FaceKey) -> bool {
        self.with_key(name, |prefix| {
            let removed = self.fib.remove(prefix, face);
            if removed {
                self.fib_changed(prefix, FibChange::Removed(face));
            }
            removed
        })
    }

    /// The next hops of the longest prefix of `name`, cheapest first, each with whether it leads to
    /// an application of this machine.
    pub fn fib_next_hops(&self, name: NameRef<'_>) -> Vec<(FaceId, bool)> {
        let hops = self.with_key(name, |key| self.fib.longest_with_costs(key));
        let hops = hops.map(|(_, hops)| hops).unwrap_or_default().into_iter().map(|hop| hop.face);
        let leads_here = |face: FaceKey| {
            face == FaceKey::LOCAL || self.faces.hold_key(face).is_some_and(|face| face.is_local())
        };
        hops.map(|face| (face.id(), leads_here(face))).collect()
    }

    /// All FIB entries.
    pub fn fib_snapshot(&self) -> Vec<FibEntry> {
        let mut entries = Vec::new();
        let mut from = None;
        loop {
            from = self.fib_walk(from, &mut entries);
            if from.is_none() {
                return entries;
            }
        }
    }

    /// Adds some FIB entries, at most [`WALK_PLACES`], to `entries`: the first ones, or those from
    /// the place on that an earlier call gave. Returns the next place, if there is one.
    pub fn fib_walk(&self, from: Option<u32>, entries: &mut Vec<FibEntry>) -> Option<u32> {
        self.fib_show(from, WALK_PLACES, |prefix, hops| {
            let next_hops = hops.map(|(face, cost)| NextHop { face_id: face.0, cost }).collect();
            entries.push(FibEntry { prefix: prefix.into(), next_hops });
            true
        })
    }

    /// Shows the FIB entries of `places` places of the table from `from` on, each with its next
    /// hops and their costs, until `show` returns false: without any memory, and with the FIB's
    /// lock held. Returns where to go on: the place of the entry that was refused, or the next one.
    pub fn fib_show(
        &self,
        from: Option<u32>,
        places: u32,
        mut show: impl FnMut(NameRef<'_>, &mut dyn Iterator<Item = (FaceId, u64)>) -> bool,
    ) -> Option<u32> {
        let octets = &mut self.scratch.lock().octets;
        self.fib.walk((from.unwrap_or(1), places), octets, |prefix, hops| {
            show(prefix, &mut hops.map(|hop| (hop.face.id(), hop.cost)))
        })
    }

    /// Names of the regions this router is in; see [`crate::Config::regions`].
    pub fn regions_set(&self, regions: Vec<Name>) {
        self.regions.set(regions);
    }
}

/// Bindings.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Binds a prefix to an application's face (`IS-06`, `IS-07`).
    ///
    /// # Errors
    ///
    /// [`BindError`]: the prefix overlaps one that is bound, there is no such face or it may not
    /// bind, or it or all have as many as they may.
    pub fn bpt_bind(&self, face: FaceId, prefix: NameRef<'_>) -> Result<Bound, BindError> {
        let hold = self.faces.hold(face).ok_or(BindError::NoFace)?;
        if hold.layer() != FaceLayer::Upper {
            return Err(BindError::NotUpper);
        }
        self.enter_binding(prefix, hold.key())
    }

    fn enter_binding(&self, prefix: NameRef<'_>, key: FaceKey) -> Result<Bound, BindError> {
        let bound = self.with_key(prefix, |name| {
            self.bpt.bind(name, key, self.pit.holder_of(key))?;
            let routed = self.fib.leads_to(name, FaceKey::LOCAL).is_some();
            Ok::<_, BindError>(if routed { Bound::Routed } else { Bound::NotRouted })
        })?;
        if !self.has_gone(key) {
            return Ok(bound);
        }
        self.with_key(prefix, |name| self.bpt.unbind(name, key));
        Err(BindError::NoFace)
    }

    /// How many components of `name` are the routable prefix that leads it to the face `local`;
    /// `None` if the FIB leads it elsewhere, or nowhere.
    pub fn bpt_routed(&self, name: NameRef<'_>) -> Option<usize> {
        self.with_key(name, |key| self.fib.leads_to(key, FaceKey::LOCAL))
    }

    /// Undoes a bind; returns true if there was one.
    pub fn bpt_unbind(&self, face: FaceId, prefix: NameRef<'_>) -> bool {
        let Some(key) = self.key_of(face) else { return false };
        self.with_key(prefix, |name| self.bpt.unbind(name, key))
    }

    /// How many prefixes a face has bound.
    pub fn bpt_count(&self, face: FaceId) -> usize {
        self.key_of(face).map_or(0, |key| self.bpt.count_of(key))
    }

    /// Whether this face has bound this very prefix.
    pub fn bpt_holds(&self, face: FaceId, prefix: &Name) -> bool {
        let Some(face) = self.key_of(face) else { return false };
        self.with_key(prefix.as_name(), |key| self.bpt.holds(key, face))
    }

    /// The face that has bound `name` or a prefix of it.
    pub fn bpt_bound_to(&self, name: NameRef<'_>) -> Option<FaceId> {
        self.with_key(name, |key| self.bpt.find(key)).map(FaceKey::id)
    }

    /// Adds some bindings, of at most [`WALK_PLACES`] places, to `bindings`; see
    /// [`Forwarder::fib_walk`].
    pub fn bpt_walk(&self, from: Option<u32>, bindings: &mut Vec<(Name, FaceId)>) -> Option<u32> {
        self.bpt_show(from, WALK_PLACES, |name, face| {
            bindings.push((name.into(), face));
            true
        })
    }

    /// Shows the bindings of `places` places of the table; see [`Forwarder::fib_show`].
    pub fn bpt_show(
        &self,
        from: Option<u32>,
        places: u32,
        show: impl FnMut(NameRef<'_>, FaceId) -> bool,
    ) -> Option<u32> {
        self.bpt.walk((from.unwrap_or(1), places), &mut self.scratch.lock().octets, show)
    }

    /// All bindings, in the order of their faces and names.
    pub fn bpt_snapshot(&self) -> Vec<(Name, FaceId)> {
        let (mut bindings, mut from) = (Vec::new(), None);
        loop {
            from = self.bpt_walk(from, &mut bindings);
            if from.is_none() {
                break;
            }
        }
        bindings.sort_unstable_by(|(name, face), (other, of)| (face, name).cmp(&(of, other)));
        bindings
    }
}

/// Strategies and the content store.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Chooses the strategy for a prefix, by its name with or without version.
    ///
    /// # Errors
    ///
    /// [`StrategyError::Unknown`] if no strategy has this name, [`StrategyError::TableFull`] if
    /// `strategy_choices_max` prefixes have a choice of their own.
    pub fn strategy_set(
        &self,
        prefix: NameRef<'_>,
        strategy: NameRef<'_>,
    ) -> Result<ChosenStrategy, StrategyError> {
        let named = Named::from_name(strategy)?;
        self.with_key(prefix, |key| self.strategies.set(key, named))?;
        Ok(ChosenStrategy(named))
    }

    /// Removes a prefix's own choice; returns true if there was one.
    ///
    /// # Errors
    ///
    /// [`StrategyError::Root`] for `/`, whose choice can be changed alone.
    pub fn strategy_unset(&self, prefix: NameRef<'_>) -> Result<bool, StrategyError> {
        self.with_key(prefix, |key| self.strategies.unset(key))
    }

    /// All choices, that of `/` first. Strategies are named with their version.
    pub fn strategy_snapshot(&self) -> Vec<StrategyChoice> {
        let (mut choices, mut from) = (Vec::new(), None);
        loop {
            from = self.strategy_show(from, WALK_PLACES, |prefix, chosen| {
                choices.push(StrategyChoice { prefix: prefix.into(), strategy: chosen.name() });
                true
            });
            if from.is_none() {
                return choices;
            }
        }
    }

    /// Shows the choices of `places` places of the table, that of `/` before all others; see
    /// [`Forwarder::fib_show`].
    pub fn strategy_show(
        &self,
        from: Option<u32>,
        places: u32,
        mut show: impl FnMut(NameRef<'_>, ChosenStrategy) -> bool,
    ) -> Option<u32> {
        let octets = &mut self.scratch.lock().octets;
        self.strategies
            .walk((from.unwrap_or(0), places), octets, |prefix, named| show(prefix, ChosenStrategy(named)))
    }

    /// Changes the content store; Data beyond a smaller capacity leaves now.
    pub fn cs_config(&self, change: &CsChange) -> CsStatus {
        self.cs_change(change);
        while self.cs_shrink(SHRUNK_AT_ONCE) {}
        self.cs_status()
    }

    /// Changes the content store's limits on index entries and octets, see [`crate::Config`]; Data
    /// beyond them leaves now.
    pub fn cs_limit(&self, entries_max: usize, octets_max: u64) {
        self.cs.limit(entries_max, octets_max);
        while self.cs_shrink(SHRUNK_AT_ONCE) {}
    }

    /// As [`Forwarder::cs_config`], but Data beyond a smaller capacity leaves, and comes into the
    /// lists of another policy, with calls of [`Forwarder::cs_shrink`]: for a home under whose
    /// calls nothing else runs. Until then no Data comes in for which more than a few would have to
    /// leave, and what is not in the new lists yet leaves first.
    pub fn cs_change(&self, change: &CsChange) {
        self.cs.configure(change);
    }

    /// Lets go of up to `budget` Data that are beyond the content store's limits, and brings as
    /// many into the lists of a policy that was changed to; returns true if there are more.
    pub fn cs_shrink(&self, budget: usize) -> bool {
        self.cs.shrink(budget)
    }

    /// Lets go of up to `count` Data as if room were needed, and offers them to `tier`: for a
    /// home that ends. Returns how many went.
    pub fn cs_spill(&self, count: usize, tier: &mut impl Tier<B>) -> usize {
        (0..count).take_while(|_| self.cs.spill(tier)).count()
    }

    /// The state of the content store.
    pub fn cs_status(&self) -> CsStatus {
        self.cs.info(self.counters.sum(HotCounter::CsHits), self.counters.sum(HotCounter::CsMisses))
    }

    /// Calls `visit` with the name of Data at or under `prefix`, its octets, and until when it is
    /// fresh, until it returns false: of a bounded number of places from `from` on. Returns from
    /// where on there may be more. What comes and goes meanwhile may be told or not.
    pub fn cs_walk(
        &self,
        prefix: NameRef<'_>,
        from: u32,
        visit: impl FnMut(NameRef<'_>, usize, u64) -> bool,
    ) -> Option<u32> {
        self.cs.walk(prefix, from, visit)
    }

    /// Erases up to `count` Data at or under `prefix`; returns how many went and whether more
    /// remain.
    pub fn cs_erase(&self, prefix: NameRef<'_>, count: usize) -> (usize, bool) {
        self.with_key(prefix, |key| self.cs.erase(key, count))
    }
}

/// Readings.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// How full the tables are.
    pub fn table_sizes(&self) -> TableSizes {
        TableSizes {
            pit: self.pit.len(),
            fib: self.fib.len(),
            bindings: self.bpt.len(),
            dead_nonces: self.dead_nonces.len(),
            cs: self.cs_status().packets,
            strategy_prefixes: self.memory.len(),
        }
    }

    /// How long upstreams took to answer, as each strategy saw it that measures it, by its name.
    pub fn round_trips(&self) -> impl Iterator<Item = (Name, RoundTripCounts)> {
        self.memory.round_trips().map(|(kind, counts)| (kind.name(), counts))
    }

    /// All counters.
    pub fn counters(&self) -> ForwarderCounters {
        let own = &self.counters;
        ForwarderCounters {
            packets: self.faces.packets(),
            satisfied: own.sum(HotCounter::Satisfied),
            unsatisfied: own.unsatisfied.value(),
            suppressed: own.sum(HotCounter::Suppressed),
            to_network: own.sum(HotCounter::ToNetwork),
            to_local: own.sum(HotCounter::ToLocal),
            faces_freed: own.faces_freed.value(),
            faces_orphaned: own.faces_orphaned.value(),
            orphans: self.faces.orphans() as u64,
            strategy_memory_full: self.memory.full(),
            tier: self.cs.tier.read(),
            objects: self.cs.object_counts(),
            drops: DropReason::ALL.map(|reason| own.drop_count(reason)),
        }
    }

    /// Pending Interests, at most `count` of them. Faces that have gone may still be listed.
    pub fn pit_snapshot(&self, count: usize) -> Vec<PitStatus> {
        let mut entries = Vec::new();
        let mut from = None;
        while entries.len() < count {
            from = self.pit_walk(from, &mut entries);
            if from.is_none() {
                break;
            }
        }
        entries.truncate(count);
        entries
    }

    /// Adds the pending Interests of some places, [`WALK_PLACES`], to `entries`: the first ones, or
    /// those from the place on that an earlier call gave. Returns the next place, if there is one.
    pub fn pit_walk(&self, from: Option<u32>, entries: &mut Vec<PitStatus>) -> Option<u32> {
        self.pit.walk(from.unwrap_or(1), WALK_PLACES, |entry| {
            entries.push(PitStatus {
                name: NameRef::parse_value(entry.name()).map(Name::from).unwrap_or_default(),
                can_be_prefix: entry.can_be_prefix(),
                must_be_fresh: entry.must_be_fresh(),
                expires_at_ns: entry.expires_at_ns,
                downstreams: entry.in_records.iter().map(|r| r.face.id()).collect(),
                upstreams: entry.out_records.iter().map(|r| r.face.id()).collect(),
            });
        })
    }
}

#[cfg(test)]
mod tests;

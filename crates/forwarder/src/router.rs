//! A forwarder with routes: for embedders in which applications, neighbors and administrators
//! control the FIB. An embedder whose FIB is computed elsewhere runs a [`Forwarder`] alone.
//!
//! The RIB changes the FIB through the same calls as any other user; the forwarder does not depend
//! on it. An embedder with routes calls the methods here to expire entries and release faces. Each
//! does the work of the forwarder's method of the same name, and the same work for the RIB.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Deref;

use lock_api::RawMutex;
use namely_messages::{RibEntry, Route, RouteOrigin};
use namely_wire::{Name, NameRef};

use crate::config::Config;
use crate::control::FibControl;
use crate::error::ConfigError;
use crate::face_id::{FaceId, FaceKey};
use crate::faces::{FaceError, Released};
use crate::fib::FibError;
use crate::forwarder::Forwarder;
use crate::limits::WALK_PLACES;
use crate::lock_order::{LeafLock, RibLock};
use crate::packet::{Output, PacketBuf};
use crate::pipeline::expire::{EXPIRED_PER_CALL_MAX, Expiry, TABLES_TURN_NS};
use crate::pipeline::sweep::SWEPT_AT_ONCE_MAX;
use crate::rib::{Install, MS_NS, Rib, RibError, RouteOwner};
use crate::shares::{Charge, Owner};

/// Lifetime of a route that was learned from Data alone.
///
/// # Limit
/// The route ends, and is learned anew.
/// - Tests: `a_learned_route_expires_by_itself`
pub const LEARNED_ROUTE_MS: u64 = 30_000;

/// Lifetime of a route by an announcement with Data.
///
/// It is NFD's value.
///
/// # Limit
/// The route ends, and is learned anew.
/// - Tests: `an_announced_route_lasts_its_period`
pub const ANNOUNCED_ROUTE_MS_MAX: u64 = 600_000;

/// The effect of a report that a consumer has refused a Data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalEffect {
    /// It was in the content store.
    pub erased: bool,
    /// Learned routes that were removed.
    pub routes: usize,
}

/// The cost of a learned route. Announced routes have the same cost, which is NFD's; other routes
/// usually cost less.
const LEARNED_COST: u64 = 2048;

/// Routes that one `expire` ends.
///
/// Each of them may change several tables.
///
/// # Limit
/// The rest is due again at once.
/// - Tests: `simultaneous_route_expiry_takes_turns`
const ROUTES_PER_CALL_MAX: usize = 64;

/// The delay of the next attempt if the control path holds the RIB.
const RIB_RETRY_NS: u64 = 10_000_000;

/// The interval of rounds that update the names that inherit routes.
const RIB_TURN_NS: u64 = 1_000_000;

/// A [`Forwarder`], to which it dereferences, and its RIB.
pub struct Router<B, R> {
    forwarder: Forwarder<B, R>,
    rib: RibLock<R, Rib>,
    /// Released faces that may have routes.
    departed: LeafLock<R, VecDeque<FaceKey>>,
}

impl<B, R> Deref for Router<B, R> {
    type Target = Forwarder<B, R>;

    fn deref(&self) -> &Forwarder<B, R> {
        &self.forwarder
    }
}

impl<B: PacketBuf, R: RawMutex> Router<B, R> {
    /// See [`Forwarder::new`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn new(config: Config, seed: u128) -> Result<Self, ConfigError> {
        let rib = Rib::new(&config.rib);
        let forwarder = Forwarder::new(config, seed)?;
        Ok(Router { forwarder, rib: RibLock::new(rib), departed: LeafLock::new(VecDeque::new()) })
    }

    /// As [`Forwarder::face_release`], and removes the face's routes.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn face_release(&self, face: FaceId) -> Result<Released, FaceError> {
        let (key, released) = self.forwarder.release(face, SWEPT_AT_ONCE_MAX)?;
        self.departed.lock().push_back(key);
        self.sweep(SWEPT_AT_ONCE_MAX);
        Ok(released)
    }

    /// As [`Forwarder::expire`], and removes expired routes.
    pub fn expire<O: Output<B>>(&self, now_ns: u64, out: &mut O) -> Option<u64> {
        self.expire_within(now_ns, EXPIRED_PER_CALL_MAX, out).next_ns
    }

    /// As [`Forwarder::expire_within`], and removes expired routes.
    pub fn expire_within<O: Output<B>>(&self, now_ns: u64, budget: usize, out: &mut O) -> Expiry {
        let tables = self.forwarder.expire_within(now_ns, budget, out);
        let budget = budget.max(1);
        let swept = self.sweep(budget).then(|| now_ns.saturating_add(TABLES_TURN_NS));
        Expiry::of([tables.next_ns, swept, self.expire_routes(now_ns, budget)], now_ns)
    }

    /// Removes expired routes. The RIB may be locked for a long computation, and forwarding does
    /// not wait for it.
    fn expire_routes(&self, now_ns: u64, budget: usize) -> Option<u64> {
        let Some(mut rib) = self.rib.try_lock() else { return Some(now_ns.saturating_add(RIB_RETRY_NS)) };
        let mut budget = budget.min(ROUTES_PER_CALL_MAX);
        while budget > 0 && rib.expire_one(now_ns, &mut self.installer()) {
            budget -= 1;
        }
        let is_behind = rib.catch_up(&mut self.installer());
        // The control path can take the lock in between.
        let more = is_behind.then(|| now_ns.saturating_add(RIB_TURN_NS));
        [rib.next_deadline_ns(), more].into_iter().flatten().min()
    }

    /// Removes routes over released faces. One call handles up to `count` names, and up to `count`
    /// faces. Returns true if more may remain.
    fn sweep(&self, count: usize) -> bool {
        let mut left = count.min(SWEPT_AT_ONCE_MAX);
        while left > 0 {
            let Some(face) = self.departed.lock().front().copied() else { return false };
            // Without waiting, because workers call this; the next round tries again.
            let Some(mut rib) = self.rib.try_lock() else { return true };
            let before = rib.len();
            if rib.remove_face(face, left, &mut self.installer()) {
                return true;
            }
            // A face without routes counts as one, because it costs something, too.
            left = left.saturating_sub((before - rib.len()).max(1));
            // Under the RIB's lock no other thread sweeps, and new faces are added at the other
            // end, so the first one is unchanged.
            self.departed.lock_under(&rib).pop_front();
        }
        !self.departed.lock().is_empty()
    }

    fn installer(&self) -> FibInstaller<'_, R> {
        FibInstaller { fib: self.forwarder.fib() }
    }
}

/// Routes.
impl<B: PacketBuf, R: RawMutex> Router<B, R> {
    /// Adds a route or renews the one with the same name, face and origin. The FIB has changed when
    /// this returns. If many longer names inherit the route, one round of them has changed, and
    /// calls of [`Router::expire`] update the rest. The route's ExpirationPeriod begins at
    /// `now_ns`. The route is charged to the router itself: see [`Router::rib_register_for`] for
    /// others.
    ///
    /// # Errors
    ///
    /// [`RibError`]: there is no such face, or a limit of the RIB or of the FIB is reached. Nothing
    /// has changed then.
    pub fn rib_register(&self, name: &Name, route: &Route, now_ns: u64) -> Result<(), RibError> {
        self.rib_register_for(Charge::Router, name, route, now_ns)
    }

    /// As `rib_register`, with the owner that is charged for the route.
    ///
    /// # Errors
    ///
    /// As above, and if the owner has reached its limit.
    pub fn rib_register_for(
        &self,
        charge: Charge,
        name: &Name,
        route: &Route,
        now_ns: u64,
    ) -> Result<(), RibError> {
        let key = self.tables.faces.key_of(FaceId(route.face_id)).ok_or(RibError::NoFace)?;
        let owner = match charge {
            Charge::Owner if key != FaceKey::LOCAL => self.tables.pit.owner_of(key),
            _ => Owner::ROUTER,
        };
        self.enter_route(name, RouteOwner { face: key, owner }, route, now_ns)
    }

    /// Adds a route learned from Data ([`crate::Learned`]). The route lasts [`LEARNED_ROUTE_MS`],
    /// costs as much as an announced one, and is charged to the owner of the face. Longer names
    /// with routes of their own do not inherit it.
    ///
    /// # Errors
    ///
    /// As for other routes.
    pub fn learn(&self, prefix: &Name, face: FaceId, now_ns: u64) -> Result<(), RibError> {
        self.learn_for(prefix, face, LEARNED_ROUTE_MS, now_ns)
    }

    /// As `learn`, for the prefix of a verified announcement and for its lifetime, but no longer
    /// than [`ANNOUNCED_ROUTE_MS_MAX`].
    ///
    /// # Errors
    ///
    /// As for other routes.
    pub fn learn_announced(
        &self,
        prefix: &Name,
        face: FaceId,
        lifetime_ms: u64,
        now_ns: u64,
    ) -> Result<(), RibError> {
        self.learn_for(prefix, face, lifetime_ms.min(ANNOUNCED_ROUTE_MS_MAX), now_ns)
    }

    /// Handles a consumer's report that the Data with this full name has a wrong signature or
    /// digest. The Data is removed from the content store, and the learned routes of its object are
    /// removed, so that the next Interest is a discovery. For [`DOUBTED_NS`](crate::DOUBTED_NS) the
    /// neighbors that the object was learned from receive discoveries only through their group. So
    /// a false report removes a cached copy and turns unicast into multicast, and has no other
    /// effect.
    ///
    /// A name without an implicit digest has no effect.
    pub fn data_refused(&self, full_name: NameRef<'_>, now_ns: u64) -> RefusalEffect {
        let Some(digest) = full_name.last().filter(|last| last.is_implicit_digest()) else {
            return RefusalEffect::default();
        };
        let name = full_name.prefix(full_name.len() - 1);
        let sha256 = self.tables.config.sha256;
        let erased =
            self.tables.names.with(name, |key| self.tables.cs.erase_exact(key, digest.value, sha256));
        let learned = |prefix: &Name| -> Vec<FaceId> {
            let routes = self.rib_routes(prefix, now_ns).into_iter();
            let learned = routes.filter(|route| route.origin == RouteOrigin::PREFIX_ANNOUNCEMENT);
            learned.map(|route| FaceId(route.face_id)).collect()
        };
        for components in (1..=name.len()).rev() {
            let prefix = name.prefix(components).to_name();
            let faces = learned(&prefix);
            if faces.is_empty() {
                continue;
            }
            for face in &faces {
                self.rib_unregister(&prefix, *face, RouteOrigin::PREFIX_ANNOUNCEMENT);
                if let Some(key) = self.tables.faces.key_of(*face) {
                    self.tables.discovery.lock().doubt(key, now_ns);
                }
            }
            // Only the longest prefix with learned routes, because Interests followed that one.
            return RefusalEffect { erased, routes: faces.len() };
        }
        RefusalEffect { erased, routes: 0 }
    }

    fn learn_for(&self, prefix: &Name, face: FaceId, lifetime_ms: u64, now_ns: u64) -> Result<(), RibError> {
        let route = Route {
            face_id: face.0,
            origin: RouteOrigin::PREFIX_ANNOUNCEMENT,
            cost: LEARNED_COST,
            flags: 0,
            expiration_period_ms: Some(lifetime_ms),
        };
        self.rib_register_for(Charge::Owner, prefix, &route, now_ns)
    }

    fn enter_route(
        &self,
        name: &Name,
        owner: RouteOwner,
        route: &Route,
        now_ns: u64,
    ) -> Result<(), RibError> {
        let expires_at_ns =
            route.expiration_period_ms.map(|period| now_ns.saturating_add(period.saturating_mul(MS_NS)));
        // Held until the FIB is updated, so that two changes of one name reach the FIB in their
        // order.
        self.rib.lock().register(name, owner, route, expires_at_ns, &mut self.installer())?;
        // The RIB's lock is released: the sweep takes it.
        if !self.tables.faces.was_released(owner.face) {
            return Ok(());
        }
        self.departed.lock().push_back(owner.face);
        self.sweep(SWEPT_AT_ONCE_MAX);
        Err(RibError::NoFace)
    }

    /// Removes a route; returns true if it was there.
    pub fn rib_unregister(&self, name: &Name, face: FaceId, origin: RouteOrigin) -> bool {
        let Some(key) = self.tables.faces.key_of(face) else { return false };
        self.rib.lock().unregister(name, key, origin, &mut self.installer())
    }

    /// The number of routes.
    pub fn rib_len(&self) -> usize {
        self.rib.lock().len()
    }

    /// All routes, in the order of their names, each with its remaining time at `now_ns`.
    pub fn rib_snapshot(&self, now_ns: u64) -> Vec<RibEntry> {
        let mut entries = Vec::new();
        let mut last = None;
        loop {
            last = self.rib_walk(last.as_ref(), now_ns, &mut entries);
            if last.is_none() {
                return entries;
            }
        }
    }

    /// The faces that exactly this name has routes to.
    pub fn rib_faces(&self, name: &Name) -> Vec<u64> {
        self.rib.lock().faces(name)
    }

    /// The routes of exactly this name, each with its remaining time at `now_ns`.
    pub fn rib_routes(&self, name: &Name, now_ns: u64) -> Vec<Route> {
        self.rib.lock().routes(name, now_ns)
    }

    /// Appends the routes of at most [`WALK_PLACES`] names to `entries`, in the order of names.
    /// Starts after the name `last`; `None` starts at the first name. Returns the last appended
    /// name if there are more names.
    pub fn rib_walk(&self, last: Option<&Name>, now_ns: u64, entries: &mut Vec<RibEntry>) -> Option<Name> {
        self.rib.lock().walk(last, WALK_PLACES as usize, now_ns, entries)
    }
}

/// Applies the RIB's changes to the FIB, which takes its writers' lock for each.
struct FibInstaller<'a, R> {
    fib: FibControl<'a, R>,
}

impl<R: RawMutex> Install for FibInstaller<'_, R> {
    fn add(&mut self, name: NameRef<'_>, face: FaceKey, cost: u64) -> Result<(), FibError> {
        self.fib.add(name, face, cost)
    }

    fn remove(&mut self, name: NameRef<'_>, face: FaceKey) {
        self.fib.remove(name, face);
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use super::*;
    use crate::faces::FaceProperties;

    /// A race, step by step: the face is released between two steps of a registration.
    #[test]
    fn a_route_for_a_released_face_is_refused() {
        let router = Router::<Arc<[u8]>, parking_lot::RawMutex>::new(Config::new(|_| [0; 32]), 1).unwrap();
        let id = router.face_register(FaceProperties::application()).unwrap();
        let key = router.tables.faces.key_of(id).unwrap();
        router.face_release(id).unwrap();
        let name: Name = "/a".parse().unwrap();
        let route = Route { face_id: id.0, ..Route::default() };
        let entered = router.enter_route(&name, RouteOwner { face: key, owner: Owner::Face(key) }, &route, 0);
        assert_eq!(entered, Err(RibError::NoFace));
        assert_eq!((router.table_sizes().fib, router.rib_len()), (0, 0));
    }
}

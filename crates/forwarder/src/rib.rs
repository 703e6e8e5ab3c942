//! The routing information base: the routes by name, face, origin and lifetime, and the FIB entries
//! computed from them.
//!
//! The next hops of a name are computed as in NFD, so that its users' routes have the same effect
//! here. First, each face has the name's own cheapest route. Then shorter names follow, from the
//! longest on. Each adds its cheapest CHILD_INHERIT route for every face that is not listed yet.
//! The name itself, or a shorter one, ends this if it has a CAPTURE route.
//!
//! A name's own next hops change with its routes, at once. Those of the longer names that inherit
//! follow in rounds of a bounded number of names ([`Rib::catch_up`]), because a short name may have
//! a whole table beneath it. Until then they keep their previous next hops.
//!
//! The RIB is not part of a [`crate::Forwarder`]: a [`crate::Router`] has both.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use namely_messages::{RibEntry, Route, RouteOrigin, route_flags};
use namely_wire::{Name, NameRef};

use crate::face_id::FaceKey;
use crate::fib::FibError;
use crate::limits::RibLimits;
use crate::shares::{ChargeOutcome, Owner, OwnerAccounting};

/// The reason for which a route was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RibError {
    /// There is no face with this id.
    NoFace,
    /// `rib_routes_max` routes exist.
    TableFull,
    /// The owner of the face has `rib_routes_per_holder_max` routes, or names of
    /// `rib_octets_per_holder_max` octets.
    OwnerFull,
    /// The FIB refused a next hop of the route.
    Fib(FibError),
}

impl fmt::Display for RibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RibError::NoFace => f.write_str("no such face: list the faces to see which exist"),
            RibError::TableFull => f.write_str("the RIB is full: remove routes or raise rib_routes_max"),
            RibError::OwnerFull => f.write_str(
                "this user or host has as many routes, or as long names, as one may: remove some, or raise \
                 rib_routes_per_holder_max and rib_octets_per_holder_max",
            ),
            RibError::Fib(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RibError {}

/// One ms, ns: the management protocol counts in ms.
pub(crate) const MS_NS: u64 = 1_000_000;

/// Names beneath changed ones that are updated in one round.
///
/// Tests have few names and need several rounds.
///
/// # Limit
/// The rest is updated in the next round.
/// - Value: 256, every ms
/// - Tests: `a_name_above_thousands_changes_in_turns`,
///   `a_short_name_is_entered_in_turns`
pub(crate) const BENEATH_PER_TURN_MAX: usize = if cfg!(test) { 3 } else { 256 };

/// Changed names whose longer names wait for an update.
///
/// # Limit
/// All names of the table are updated.
/// - Value: 256
/// - Tests: `many_changed_names_become_one_scan`
const STALE_MAX: usize = if cfg!(test) { 4 } else { 256 };

/// Applies the RIB's changes to the FIB.
pub(crate) trait Install {
    fn add(&mut self, name: NameRef<'_>, face: FaceKey, cost: u64) -> Result<(), FibError>;
    fn remove(&mut self, name: NameRef<'_>, face: FaceKey);
}

#[derive(Clone, Copy, Debug)]
struct StoredRoute {
    face: FaceKey,
    route: Route,
    /// The owner that is charged.
    owner: Owner,
    /// Ns on the forwarder's clock; `None` for never.
    expires_at_ns: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    routes: Vec<StoredRoute>,
    /// The next hops that the FIB has for this name.
    installed: Vec<(FaceKey, u64)>,
}

/// The names beneath a changed one, which must be updated.
#[derive(Clone, Debug)]
struct SubtreeUpdate {
    root: Name,
    /// The last updated name.
    at: Name,
    /// A name before `at` has changed meanwhile: restart from the beginning.
    again: bool,
}

/// The next hop of a route, and the owner that is charged for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteOwner {
    pub(crate) face: FaceKey,
    pub(crate) owner: Owner,
}

pub(crate) struct Rib {
    nodes: BTreeMap<Name, Node>,
    stale: VecDeque<SubtreeUpdate>,
    by_face: BTreeMap<FaceKey, BTreeSet<Name>>,
    deadlines: BTreeSet<(u64, Name, FaceKey, RouteOrigin)>,
    ledger: OwnerAccounting,
    len: usize,
    routes_max: usize,
}

impl Rib {
    /// An empty RIB. `holder_max` is the limit of one owner.
    pub(crate) fn new(limits: &RibLimits) -> Self {
        let (routes_max, holder_max) = (limits.routes_max, limits.per_holder_max());
        Rib {
            nodes: BTreeMap::new(),
            stale: VecDeque::new(),
            by_face: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ledger: OwnerAccounting::new(holder_max),
            len: 0,
            routes_max,
        }
    }

    /// Routes of all names.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a route, or renews the one with its name, face and origin, and charges it to its owner.
    /// If the FIB refuses a next hop of the name itself, nothing changes.
    pub(crate) fn register(
        &mut self,
        name: &Name,
        owner: RouteOwner,
        route: &Route,
        expires_at_ns: Option<u64>,
        fib: &mut impl Install,
    ) -> Result<(), RibError> {
        let RouteOwner { face, owner } = owner;
        let before = self.take(name, face, route.origin);
        if before.is_none() && self.len >= self.routes_max {
            return Err(RibError::TableFull);
        }
        if !self.put(name, StoredRoute { face, route: *route, owner, expires_at_ns }) {
            // Cannot fail: the previous route was within the limit.
            if let Some(before) = before {
                self.put(name, before);
            }
            return Err(RibError::OwnerFull);
        }
        let Err(error) = self.update(name, fib) else {
            self.mark_beneath(name);
            self.catch_up(fib);
            return Ok(());
        };
        self.take(name, face, route.origin);
        if let Some(before) = before {
            self.put(name, before);
        }
        // Cannot be refused: these next hops were installed before.
        self.update(name, fib).map_err(RibError::Fib)?;
        Err(RibError::Fib(error))
    }

    /// Removes a route; returns true if it was there.
    pub(crate) fn unregister(
        &mut self,
        name: &Name,
        face: FaceKey,
        origin: RouteOrigin,
        fib: &mut impl Install,
    ) -> bool {
        let found = self.remove(name, face, origin, fib);
        self.catch_up(fib);
        found
    }

    fn remove(&mut self, name: &Name, face: FaceKey, origin: RouteOrigin, fib: &mut impl Install) -> bool {
        let found = self.take(name, face, origin).is_some();
        if found {
            self.settle(name, fib);
        }
        found
    }

    /// Removes the routes of up to `count` names over a released face; returns true if more remain.
    /// [`Rib::catch_up`] updates the names that inherited them.
    pub(crate) fn remove_face(&mut self, face: FaceKey, count: usize, fib: &mut impl Install) -> bool {
        for _ in 0..count {
            // The last name first, so that the names beneath a name are removed before it and need
            // not be updated for each name above.
            let Some(name) = self.by_face.get(&face).and_then(BTreeSet::last).cloned() else { return false };
            let origins: Vec<RouteOrigin> = self.nodes.get(&name).map_or(Vec::new(), |node| {
                node.routes.iter().filter(|s| s.face == face).map(|s| s.route.origin).collect()
            });
            for origin in origins {
                self.take(&name, face, origin);
            }
            self.settle(&name, fib);
        }
        self.by_face.contains_key(&face)
    }

    /// Removes one expired route; returns true if there was one. [`Rib::catch_up`] updates the
    /// names that inherited it.
    pub(crate) fn expire_one(&mut self, now_ns: u64, fib: &mut impl Install) -> bool {
        let Some((at, name, face, origin)) = self.deadlines.first().cloned() else { return false };
        if at > now_ns {
            return false;
        }
        self.remove(&name, face, origin, fib)
    }

    /// Updates names below changed names, for one round. Returns true if more names remain.
    pub(crate) fn catch_up(&mut self, fib: &mut impl Install) -> bool {
        let mut left = BENEATH_PER_TURN_MAX;
        while let Some(mut stale) = self.stale.pop_front() {
            loop {
                let next = self.next_beneath(&stale.root, &stale.at).cloned();
                let Some(next) = next else { break };
                if left == 0 {
                    self.stale.push_front(stale);
                    return true;
                }
                left -= 1;
                // A refused hop can only be an inherited one. The name keeps the hops that the FIB
                // has.
                let _ = self.update(&next, fib);
                stale.at = next;
            }
            if stale.again {
                // Appended behind the others, so that a name that changes repeatedly does not delay
                // them.
                self.stale.push_back(SubtreeUpdate { at: stale.root.clone(), again: false, ..stale });
            }
        }
        false
    }

    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// The faces that exactly this name has routes to.
    pub(crate) fn faces(&self, name: &Name) -> Vec<u64> {
        let routes = self.nodes.get(name).map_or(&[][..], |node| &node.routes);
        routes.iter().map(|stored| stored.route.face_id).collect()
    }

    /// The routes of exactly this name, with their remaining time.
    pub(crate) fn routes(&self, name: &Name, now_ns: u64) -> Vec<Route> {
        let routes = self.nodes.get(name).map_or(&[][..], |node| &node.routes);
        routes.iter().map(|stored| stored.shown(now_ns)).collect()
    }

    /// Part of a snapshot: up to `count` entries after `from`; returns the next position.
    pub(crate) fn walk(
        &self,
        from: Option<&Name>,
        count: usize,
        now_ns: u64,
        entries: &mut Vec<RibEntry>,
    ) -> Option<Name> {
        let start = from.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        for (name, node) in self.nodes.range::<Name, _>((start, Bound::Unbounded)).take(count) {
            let routes = node.routes.iter().map(|stored| stored.shown(now_ns)).collect();
            entries.push(RibEntry { prefix: name.clone(), routes });
            last = Some(name);
        }
        last.filter(|last| {
            self.nodes.range::<Name, _>((Bound::Excluded(*last), Bound::Unbounded)).next().is_some()
        })
        .cloned()
    }

    /// Adds a route; returns false and changes nothing if its owner has reached the limit.
    fn put(&mut self, name: &Name, stored: StoredRoute) -> bool {
        if self.ledger.charge(stored.owner, name.as_name().as_bytes().len()) != ChargeOutcome::Yes {
            return false;
        }
        if let Some(at) = stored.expires_at_ns {
            self.deadlines.insert((at, name.clone(), stored.face, stored.route.origin));
        }
        self.by_face.entry(stored.face).or_default().insert(name.clone());
        self.nodes.entry(name.clone()).or_default().routes.push(stored);
        self.len += 1;
        true
    }

    fn take(&mut self, name: &Name, face: FaceKey, origin: RouteOrigin) -> Option<StoredRoute> {
        let node = self.nodes.get_mut(name)?;
        let i = node.routes.iter().position(|s| s.face == face && s.route.origin == origin)?;
        let stored = node.routes.remove(i);
        // Another route of the name over this face still needs the name in `by_face`.
        let others = node.routes.iter().any(|s| s.face == face);
        self.len -= 1;
        self.ledger.credit(stored.owner, name.as_name().as_bytes().len());
        if let Some(at) = stored.expires_at_ns {
            self.deadlines.remove(&(at, name.clone(), face, origin));
        }
        if let Some(names) = self.by_face.get_mut(&face).filter(|_| !others) {
            names.remove(name);
            if names.is_empty() {
                self.by_face.remove(&face);
            }
        }
        Some(stored)
    }

    /// Updates the FIB after the removal of routes of `name`.
    fn settle(&mut self, name: &Name, fib: &mut impl Install) {
        // Fewer routes need no more room. A refusal can only concern inherited hops, which are
        // added when there is room again.
        let _ = self.update(name, fib);
        self.mark_beneath(name);
    }

    /// Marks the names beneath `name` for an update, if there are any.
    fn mark_beneath(&mut self, name: &Name) {
        if self.next_beneath(name, name).is_none() {
            return;
        }
        if let Some(known) = self.stale.iter_mut().find(|known| known.root.is_prefix_of(name.as_name())) {
            // Names up to `at` were updated with the former routes of `name`.
            known.again |= known.at > *name;
            return;
        }
        let root = if self.stale.len() < STALE_MAX {
            name.clone()
        } else {
            // One walk over the whole table replaces all others, so that the list stays bounded.
            self.stale.clear();
            Name::new()
        };
        self.stale.push_back(SubtreeUpdate { at: root.clone(), root, again: false });
    }

    /// The first name after `at` that `root` is a prefix of.
    fn next_beneath(&self, root: &Name, at: &Name) -> Option<&Name> {
        let mut after = self.nodes.range::<Name, _>((Bound::Excluded(at), Bound::Unbounded));
        after.next().map(|(next, _)| next).filter(|next| root.is_prefix_of(next.as_name()))
    }

    /// Installs the difference between the FIB's next hops for `name` and the computed ones.
    fn update(&mut self, name: &Name, fib: &mut impl Install) -> Result<(), FibError> {
        let wanted = self.nexthops(name);
        let Some(node) = self.nodes.get_mut(name) else { return Ok(()) };
        // Removals first, so that new hops find room in a full FIB.
        node.installed.retain(|(face, _)| {
            let keep = wanted.iter().any(|(wanted, _)| wanted == face);
            if !keep {
                fib.remove(name.as_name(), *face);
            }
            keep
        });
        let mut result = Ok(());
        for hop in wanted {
            if node.installed.contains(&hop) {
                continue;
            }
            match fib.add(name.as_name(), hop.0, hop.1) {
                Ok(()) => {
                    node.installed.retain(|(face, _)| *face != hop.0);
                    node.installed.push(hop);
                }
                Err(error) => result = Err(error),
            }
        }
        if node.routes.is_empty() && node.installed.is_empty() {
            self.nodes.remove(name);
        }
        result
    }

    /// The next hops computed for `name`; none if it has no route of its own.
    fn nexthops(&self, name: &Name) -> Vec<(FaceKey, u64)> {
        let mut hops = Vec::new();
        let Some(node) = self.nodes.get(name).filter(|node| !node.routes.is_empty()) else { return hops };
        take_cheapest(&mut hops, node, |_| true);
        let mut captured = node.captures();
        // From the longest on, because the nearest CAPTURE ends the inheritance.
        for n in (0..name.len()).rev() {
            if captured {
                break;
            }
            let Some(ancestor) = self.nodes.get(&name.as_name().prefix(n).to_name()) else { continue };
            take_cheapest(&mut hops, ancestor, |route| route.flags & route_flags::CHILD_INHERIT != 0);
            captured = ancestor.captures();
        }
        hops
    }
}

impl StoredRoute {
    /// The route with its remaining time.
    fn shown(&self, now_ns: u64) -> Route {
        let left_ms = |at_ns: u64| at_ns.saturating_sub(now_ns) / MS_NS;
        Route { expiration_period_ms: self.expires_at_ns.map(left_ms), ..self.route }
    }
}

impl Node {
    fn captures(&self) -> bool {
        self.routes.iter().any(|stored| stored.route.flags & route_flags::CAPTURE != 0)
    }
}

/// Adds to `hops`, for each face not listed, the cheapest route of `node` for which `counts`
/// returns true.
fn take_cheapest(hops: &mut Vec<(FaceKey, u64)>, node: &Node, counts: impl Fn(&Route) -> bool) {
    let known = hops.len();
    for stored in node.routes.iter().filter(|stored| counts(&stored.route)) {
        match hops.iter().position(|(face, _)| *face == stored.face) {
            // As in NFD, an inherited route does not replace the name's own route over the same
            // face.
            Some(i) if i < known => {}
            Some(i) => hops[i].1 = hops[i].1.min(stored.route.cost),
            None => hops.push((stored.face, stored.route.cost)),
        }
    }
}

#[cfg(test)]
mod tests;

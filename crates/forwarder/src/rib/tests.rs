//! Compares the RIB with a list of routes, from which the next hops are computed anew each time.

use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::shares::Names;

fn face(slot: u32) -> FaceKey {
    FaceKey { slot, generation: 0 }
}

/// The owner of a face without an assigned owner.
fn paid(slot: u32) -> RouteOwner {
    RouteOwner { face: face(slot), owner: Owner::Face(face(slot)) }
}

/// Creates an empty RIB for `routes_max` routes of any owners.
fn rib(routes_max: usize) -> Rib {
    let (routes_per_holder_max, octets_per_holder_max) = (usize::MAX, usize::MAX);
    Rib::new(&RibLimits { routes_max, routes_per_holder_max, octets_per_holder_max })
}

fn uri(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn route(slot: u32) -> Route {
    Route { face_id: face(slot).id().0, flags: route_flags::CHILD_INHERIT, ..Route::default() }
}

/// A FIB with room for at most `room` names.
struct Fib {
    entries: BTreeMap<Name, BTreeMap<FaceKey, u64>>,
    room: usize,
}

impl Fib {
    fn new() -> Self {
        Fib { entries: BTreeMap::new(), room: usize::MAX }
    }

    fn hops(&self, name: &str) -> Vec<(u32, u64)> {
        let entry = self.entries.get(&uri(name));
        entry.map(|hops| hops.iter().map(|(face, cost)| (face.slot, *cost)).collect()).unwrap_or_default()
    }
}

impl Install for Fib {
    fn add(&mut self, name: NameRef<'_>, face: FaceKey, cost: u64) -> Result<(), FibError> {
        if self.entries.len() >= self.room && !self.entries.contains_key(&name.to_name()) {
            return Err(FibError::TableFull);
        }
        self.entries.entry(name.to_name()).or_default().insert(face, cost);
        Ok(())
    }

    fn remove(&mut self, name: NameRef<'_>, face: FaceKey) {
        let name = name.to_name();
        let hops = self.entries.get_mut(&name).expect("only what was added is removed");
        assert!(hops.remove(&face).is_some());
        if hops.is_empty() {
            self.entries.remove(&name);
        }
    }
}

fn register(rib: &mut Rib, fib: &mut Fib, name: &str, slot: u32, route: Route) {
    rib.register(&uri(name), paid(slot), &route, None, fib).unwrap();
}

fn register_until(rib: &mut Rib, fib: &mut Fib, name: &str, slot: u32, expires_at_ns: u64) {
    rib.register(&uri(name), paid(slot), &route(slot), Some(expires_at_ns), fib).unwrap();
}

#[test]
fn longer_names_inherit_the_nearest_routes() {
    let (mut rib, mut fib) = (rib(100), Fib::new());
    register(&mut rib, &mut fib, "/", 1, Route { cost: 10, ..route(1) });
    register(&mut rib, &mut fib, "/a", 1, Route { cost: 5, ..route(1) });
    register(&mut rib, &mut fib, "/a", 2, Route { cost: 7, flags: 0, ..route(2) });
    register(&mut rib, &mut fib, "/a/b/c", 3, route(3));
    assert_eq!(fib.hops("/a"), [(1, 5), (2, 7)]);
    assert_eq!(fib.hops("/a/b/c"), [(1, 5), (3, 0)]);
    assert!(rib.unregister(&uri("/a"), face(1), RouteOrigin(0), &mut fib));
    assert_eq!(fib.hops("/a/b/c"), [(1, 10), (3, 0)]);
    assert_eq!(fib.hops("/a"), [(1, 10), (2, 7)]);
}

#[test]
fn capture_blocks_routes_of_shorter_names() {
    let (mut rib, mut fib) = (rib(100), Fib::new());
    register(&mut rib, &mut fib, "/", 1, route(1));
    register(
        &mut rib,
        &mut fib,
        "/a",
        2,
        Route { flags: route_flags::CHILD_INHERIT | route_flags::CAPTURE, ..route(2) },
    );
    register(&mut rib, &mut fib, "/a/b", 3, route(3));
    assert_eq!(fib.hops("/a"), [(2, 0)]);
    assert_eq!(fib.hops("/a/b"), [(2, 0), (3, 0)]);
    assert!(rib.unregister(&uri("/a"), face(2), RouteOrigin(0), &mut fib));
    assert_eq!(fib.hops("/a"), []);
    assert_eq!(fib.hops("/a/b"), [(1, 0), (3, 0)]);
}

#[test]
fn the_cheapest_route_per_face_counts() {
    let (mut rib, mut fib) = (rib(100), Fib::new());
    register(&mut rib, &mut fib, "/a", 1, Route { origin: RouteOrigin(255), cost: 3, ..route(1) });
    register(&mut rib, &mut fib, "/a", 1, Route { origin: RouteOrigin(128), cost: 9, ..route(1) });
    assert_eq!((fib.hops("/a"), rib.len()), (vec![(1, 3)], 2));
    register(&mut rib, &mut fib, "/a", 1, Route { origin: RouteOrigin(255), cost: 20, ..route(1) });
    assert_eq!((fib.hops("/a"), rib.len()), (vec![(1, 9)], 2));
    assert!(rib.unregister(&uri("/a"), face(1), RouteOrigin(128), &mut fib));
    assert!(!rib.unregister(&uri("/a"), face(1), RouteOrigin(128), &mut fib));
    assert_eq!(fib.hops("/a"), [(1, 20)]);
}

/// NDNd stores a route's ExpirationPeriod and never enforces it.
#[test]
fn a_route_expires_unless_renewed() {
    let (mut rib, mut fib) = (rib(100), Fib::new());
    register_until(&mut rib, &mut fib, "/a", 1, 100);
    register_until(&mut rib, &mut fib, "/a", 2, 150);
    assert_eq!(rib.next_deadline_ns(), Some(100));
    assert!(!rib.expire_one(99, &mut fib));
    register_until(&mut rib, &mut fib, "/a", 1, 200);
    assert!(!rib.expire_one(149, &mut fib));
    assert!(rib.expire_one(150, &mut fib));
    assert_eq!(fib.hops("/a"), [(1, 0)]);
    register(&mut rib, &mut fib, "/a", 1, route(1));
    assert_eq!(rib.next_deadline_ns(), None);
}

#[test]
fn a_route_past_the_limit_is_refused() {
    let (mut rib, mut fib) = (rib(2), Fib::new());
    register(&mut rib, &mut fib, "/a", 1, route(1));
    register(&mut rib, &mut fib, "/b", 1, route(1));
    assert_eq!(rib.register(&uri("/c"), paid(1), &route(1), None, &mut fib), Err(RibError::TableFull));
    register(&mut rib, &mut fib, "/b", 1, Route { cost: 4, ..route(1) });
    assert_eq!((rib.len(), fib.hops("/b")), (2, vec![(1, 4)]));
}

#[test]
fn a_route_refused_by_fib_leaves_nothing() {
    let (mut rib, mut fib) = (rib(10), Fib { room: 1, ..Fib::new() });
    register_until(&mut rib, &mut fib, "/a", 1, 5);
    let error = rib.register(&uri("/b"), paid(2), &route(2), Some(4), &mut fib);
    assert_eq!(error, Err(RibError::Fib(FibError::TableFull)));
    assert_eq!((rib.len(), rib.next_deadline_ns()), (1, Some(5)));
    assert!(!rib.remove_face(face(2), 10, &mut fib));
    assert_eq!(fib.hops("/a"), [(1, 0)]);
}

#[test]
fn a_removed_face_loses_routes_in_turns() {
    let (mut rib, mut fib) = (rib(100), Fib::new());
    for name in ["/a", "/b", "/c"] {
        register(&mut rib, &mut fib, name, 1, route(1));
        register(&mut rib, &mut fib, name, 1, Route { origin: RouteOrigin(9), ..route(1) });
        register(&mut rib, &mut fib, name, 2, route(2));
    }
    assert!(rib.remove_face(face(1), 2, &mut fib));
    assert!(!rib.remove_face(face(1), 2, &mut fib));
    assert_eq!(rib.len(), 3);
    assert!(["/a", "/b", "/c"].iter().all(|name| fib.hops(name) == [(2, 0)]));
}

#[derive(Clone, Debug)]
enum Step {
    Register(Name, u32, Route, Option<u64>),
    Unregister(Name, u32, RouteOrigin),
    RemoveFace(u32),
    Pass(u64),
}

fn name() -> impl Strategy<Value = Name> {
    namely_testkit::names(2, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    // CHILD_INHERIT and CAPTURE.
    let flags = 0u64..4;
    let register = (name(), 0u32..3, 0u64..2, 0u64..4, flags, proptest::option::of(1u64..60));
    prop_oneof![
        6 => register.prop_map(|(name, slot, origin, cost, flags, expires_at_ns)| {
            let route = Route { origin: RouteOrigin(origin), cost, flags, ..route(slot) };
            Step::Register(name, slot, route, expires_at_ns)
        }),
        3 => (name(), 0u32..3, 0u64..2).prop_map(|(name, slot, origin)| Step::Unregister(name, slot, RouteOrigin(origin))),
        1 => (0u32..3).prop_map(Step::RemoveFace),
        1 => (1u64..10).prop_map(Step::Pass),
    ]
}

/// The next hops of every name with routes, from the rules alone.
fn computed(routes: &[(Name, u32, Route, Option<u64>)]) -> BTreeMap<Name, BTreeMap<FaceKey, u64>> {
    let mut fib = BTreeMap::new();
    for (name, ..) in routes {
        let mut hops: BTreeMap<FaceKey, u64> = BTreeMap::new();
        for n in (0..=name.len()).rev() {
            let prefix = name.as_name().prefix(n).to_name();
            let here: Vec<_> = routes.iter().filter(|(other, ..)| *other == prefix).collect();
            let mut found: BTreeMap<FaceKey, u64> = BTreeMap::new();
            let inherits = |route: &Route| route.flags & route_flags::CHILD_INHERIT != 0;
            for (_, slot, route, _) in
                here.iter().filter(|(_, _, route, _)| n == name.len() || inherits(route))
            {
                let cost = found.entry(face(*slot)).or_insert(route.cost);
                *cost = (*cost).min(route.cost);
            }
            for (face, cost) in found {
                hops.entry(face).or_insert(cost);
            }
            if here.iter().any(|(_, _, route, _)| route.flags & route_flags::CAPTURE != 0) {
                break;
            }
        }
        fib.insert(name.clone(), hops);
    }
    fib
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_fib_follows_the_inheritance_rules(steps in proptest::collection::vec(step(), 1..50)) {
        let (mut rib, mut fib) = (rib(1000), Fib::new());
        let mut model: Vec<(Name, u32, Route, Option<u64>)> = Vec::new();
        let mut now_ns = 0;
        for step in steps {
            match step {
                Step::Register(name, slot, route, expires_in_ns) => {
                    let expires_at_ns = expires_in_ns.map(|wait| wait + now_ns);
                    model.retain(|(n, s, r, _)| (n, *s, r.origin) != (&name, slot, route.origin));
                    prop_assert_eq!(rib.register(&name, paid(slot), &route, expires_at_ns, &mut fib), Ok(()));
                    model.push((name, slot, route, expires_at_ns));
                }
                Step::Unregister(name, slot, origin) => {
                    let before = model.len();
                    model.retain(|(n, s, r, _)| (n, *s, r.origin) != (&name, slot, origin));
                    let removed = rib.unregister(&name, face(slot), origin, &mut fib);
                    prop_assert_eq!(removed, model.len() < before);
                }
                Step::RemoveFace(slot) => {
                    model.retain(|(_, s, ..)| *s != slot);
                    prop_assert!(!rib.remove_face(face(slot), 1000, &mut fib));
                    rib.catch_up(&mut fib);
                }
                Step::Pass(ns) => {
                    now_ns += ns;
                    model.retain(|(.., expires_at_ns)| expires_at_ns.is_none_or(|at| at > now_ns));
                    while rib.expire_one(now_ns, &mut fib) {}
                }
            }
            prop_assert!(rib.stale.len() <= STALE_MAX);
            // Some changes are applied before the previous ones have reached all names.
            if now_ns.is_multiple_of(2) {
                while rib.catch_up(&mut fib) {}
                prop_assert_eq!(&fib.entries, &computed(&model));
            }
            prop_assert_eq!(rib.len(), model.len());
            let first = model.iter().filter_map(|(.., expires_at_ns)| *expires_at_ns).min();
            prop_assert_eq!(rib.next_deadline_ns(), first);
        }
        let (mut entries, mut last) = (Vec::new(), None);
        loop {
            last = rib.walk(last.as_ref(), 2, now_ns, &mut entries);
            if last.is_none() {
                break;
            }
        }
        prop_assert_eq!(entries.iter().map(|entry| entry.routes.len()).sum::<usize>(), model.len());
        let walked = entries.iter().flat_map(|entry| entry.routes.iter().map(|route| (&entry.prefix, route)));
        let known = |(name, route): (&Name, &Route)| {
            // All routes that expire do so in less than one ms.
            let same = |r: &Route, at_ns: &Option<u64>| {
                *route == Route { expiration_period_ms: at_ns.map(|_| 0), ..*r }
            };
            model.iter().any(|(n, _, r, at_ns)| n == name && same(r, at_ns))
        };
        prop_assert!(walked.into_iter().all(known));
    }
}

#[test]
fn a_short_name_is_entered_in_turns() {
    let (mut rib, mut fib) = (rib(10_000), Fib::new());
    let beneath = 100 * BENEATH_PER_TURN_MAX;
    (0..beneath).for_each(|i| register(&mut rib, &mut fib, &alloc::format!("/a/{i}"), 1, route(1)));
    register(&mut rib, &mut fib, "/b/1", 1, route(1));
    let followed = |fib: &Fib| fib.entries.values().filter(|hops| hops.contains_key(&face(2))).count();
    register(&mut rib, &mut fib, "/a", 2, route(2));
    assert_eq!(fib.hops("/a"), [(2, 0)], "its own is there at once");
    assert_eq!(followed(&fib), 1 + BENEATH_PER_TURN_MAX);
    assert!(rib.catch_up(&mut fib));
    assert_eq!(followed(&fib), 1 + 2 * BENEATH_PER_TURN_MAX);
    // Repeated changes of one prefix do not delay another change for ever.
    register(&mut rib, &mut fib, "/b", 2, route(2));
    let mut turns = 0;
    while fib.hops("/b/1") != [(1, 0), (2, 0)] {
        register(&mut rib, &mut fib, "/a", 2, route(2));
        turns += 1;
        assert!(turns < 200);
    }
    while rib.catch_up(&mut fib) {}
    assert_eq!(followed(&fib), 2 + beneath + 1);
    assert!(rib.unregister(&uri("/a"), face(2), RouteOrigin(0), &mut fib));
    assert_eq!(fib.hops("/a"), []);
    while rib.catch_up(&mut fib) {}
    assert_eq!(followed(&fib), 2);
}

#[test]
fn many_changed_names_become_one_scan() {
    let (mut rib, mut fib) = (rib(10_000), Fib::new());
    let names = |i: usize| (alloc::format!("/{i}"), alloc::format!("/{i}/b"));
    for i in 0..=STALE_MAX {
        let (short, long) = names(i);
        register(&mut rib, &mut fib, &short, 1, route(1));
        register(&mut rib, &mut fib, &long, 2, route(2));
    }
    (0..STALE_MAX).for_each(|i| rib.mark_beneath(&uri(&names(i).0)));
    assert_eq!(rib.stale.len(), STALE_MAX);
    assert!(!rib.remove_face(face(1), 1000, &mut fib));
    assert_eq!(rib.stale.iter().map(|stale| &stale.root).collect::<Vec<_>>(), [&Name::new()]);
    while rib.catch_up(&mut fib) {}
    assert!((0..=STALE_MAX).all(|i| fib.hops(&names(i).1) == [(2, 0)]));
}

/// One owner is at its limit, of routes or of octets; another owner and the router are served.
#[test]
fn a_route_past_holder_limits_is_refused() {
    let owner = Owner::Given(crate::shares::OwnerId(7));
    let (mut rib, mut fib) = (
        Rib::new(&RibLimits { routes_max: 100, routes_per_holder_max: 3, octets_per_holder_max: 40 }),
        Fib::new(),
    );
    let mut add = |rib: &mut Rib, name: &str, slot: u32, owner| {
        rib.register(&uri(name), RouteOwner { face: face(slot), owner }, &route(slot), None, &mut fib)
    };
    assert_eq!(add(&mut rib, "/a", 1, owner), Ok(()));
    assert_eq!(add(&mut rib, "/b", 1, owner), Ok(()));
    assert_eq!(add(&mut rib, "/a", 2, owner), Ok(()), "from another face of it");
    assert_eq!(add(&mut rib, "/c", 1, owner), Err(RibError::OwnerFull));
    assert_eq!(add(&mut rib, "/b", 1, owner), Ok(()), "a route is renewed");
    assert_eq!(add(&mut rib, "/c", 1, Owner::Face(face(3))), Ok(()));
    assert!((0..20).all(|i| add(&mut rib, &alloc::format!("/{i}"), 4, Owner::ROUTER) == Ok(())));
    assert_eq!(add(&mut rib, "/0", 4, owner), Err(RibError::OwnerFull), "it takes over no other's either");
    assert_eq!(rib.nexthops(&uri("/0")), [(face(4), 0)], "which stays as it was");
    assert!(rib.unregister(&uri("/a"), face(1), route(1).origin, &mut fib));
    let add = |rib: &mut Rib, fib: &mut Fib, name: &str| {
        rib.register(&uri(name), RouteOwner { face: face(1), owner }, &route(1), None, fib)
    };
    // /a and /b take 3 octets each. A component of 33 octets with its header of 2 makes 41, above
    // the limit.
    assert_eq!(add(&mut rib, &mut fib, "/ccccccccccccccccccccccccccccccccc"), Err(RibError::OwnerFull));
    assert_eq!(add(&mut rib, &mut fib, "/ccccccccccccccccccccccccccccccc"), Ok(()));
    assert!(!rib.remove_face(face(1), 100, &mut fib) && !rib.remove_face(face(2), 100, &mut fib));
    assert_eq!(rib.ledger.held(owner), Names::default());
}

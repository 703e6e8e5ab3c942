//! Faces, bindings and routes, and the cleanup after the release of a face.

use std::sync::{Arc, Barrier};

use crate::bench::*;
use namely_forwarder::{
    BindError, Bound, Config, CsChange, DropReason, FaceError, FaceId, FibError, Received, Released, RibError,
};
use namely_messages::{Route, RouteOrigin};
use namely_wire::NackReason;

/// `IS-03`: applications bind; the FIB holds the routable prefix only.
#[test]
fn a_thousand_applications_share_one_fib_entry() {
    let bench = Bench::new();
    let remote = bench.remote();
    bench.route("/Alice", FaceId::LOCAL, 0);
    let apps: Vec<FaceId> = (0..1000).map(|_| bench.app()).collect();
    for (i, app) in apps.iter().enumerate() {
        assert_eq!(
            bench.fw.bindings().bind(*app, name("/Alice").join_segment(i as u64).as_name()),
            Ok(Bound::Routed)
        );
    }
    assert_eq!(bench.fw.table_sizes().fib, 1);
    assert_eq!(bench.fw.bindings().snapshot().len(), 1000);
    for (i, app) in apps.iter().enumerate().step_by(97) {
        let uri = format!("/Alice/seg={i}/x");
        assert_eq!(faces(&bench.receive(remote, interest(&uri).build())), [*app]);
    }
}

/// `IS-04`: a bind never writes the FIB.
#[test]
fn binding_leaves_the_fib_unchanged() {
    let bench = Bench::new();
    let app = bench.app();
    bench.fw.bindings().bind(app, name("/a").as_name()).unwrap();
    assert!(bench.fw.fib().snapshot().is_empty());
}

/// `IS-07`: rule 2.
#[test]
fn a_bind_without_a_route_succeeds() {
    let bench = Bench::new();
    let (remote, app) = (bench.remote(), bench.app());
    assert_eq!(bench.fw.bindings().bind(app, name("/a/b").as_name()), Ok(Bound::NotRouted));
    let sent = bench.receive(remote, interest("/a/b/1").build());
    assert!(is_nack(&sent[0].1, NackReason::NoRoute));
    bench.route("/a", FaceId::LOCAL, 0);
    assert_eq!(faces(&bench.receive(remote, interest("/a/b/2").build())), [app]);
    let sent = bench.receive(remote, interest("/a/c").build());
    assert!(is_nack(&sent[0].1, NackReason::NoRoute), "no application has bound it");
    assert_eq!(bench.dropped(DropReason::NotBound), 1);
}

/// `IS-06`: of concurrent binds exactly one wins.
#[test]
fn one_of_two_overlapping_binds_wins() {
    let bench = Arc::new(Bench::new());
    for round in 0..200 {
        let faces = [bench.app(), bench.app()];
        let names = [name(&format!("/r/{round}")), name(&format!("/r/{round}/x"))];
        let barrier = Arc::new(Barrier::new(2));
        let threads: Vec<_> = (0..2)
            .map(|i| {
                let (bench, barrier, name) = (bench.clone(), barrier.clone(), names[i].clone());
                std::thread::spawn(move || {
                    barrier.wait();
                    bench.fw.bindings().bind(faces[i], name.as_name())
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        assert!(results.contains(&Err(BindError::InUse)));
    }
}

#[test]
fn only_existing_upper_faces_bind() {
    let bench = Bench::new();
    let remote = bench.remote();
    assert_eq!(bench.fw.bindings().bind(remote, name("/a").as_name()), Err(BindError::NotUpper));
    assert_eq!(bench.fw.bindings().bind(FaceId(9999), name("/a").as_name()), Err(BindError::NoFace));
    assert_eq!(bench.fw.bindings().bind(FaceId::LOCAL, name("/a").as_name()), Err(BindError::NoFace));
}

/// `IS-11`.
#[test]
fn the_local_face_is_permanent() {
    let bench = Bench::new();
    assert_eq!(bench.fw.face_release(FaceId::LOCAL), Err(FaceError::Permanent));
}

/// `IS-13`.
#[test]
fn releasing_a_face_removes_its_state() {
    let mut bench = Bench::new();
    let (consumer, app, other) = (bench.remote(), bench.app(), bench.remote());
    bench.route("/fib", app, 0);
    bench.route("/fib", other, 5);
    bench.route("/local", FaceId::LOCAL, 0);
    let expiring = Route { expiration_period_ms: Some(1), ..route_to(app) };
    bench.fw.rib_register(&name("/rib"), &expiring, bench.now_ns).unwrap();
    bench.fw.bindings().bind(app, name("/local/app").as_name()).unwrap();
    assert_eq!(bench.fw.face_release(app), Ok(Released::Freed));
    assert_eq!(bench.fw.face_release(app), Err(FaceError::NotFound));
    let fib = bench.fw.fib().snapshot();
    assert_eq!(fib.len(), 2);
    assert!(fib.iter().all(|entry| entry.next_hops.iter().all(|hop| hop.face_id != app.0)));
    assert!(bench.fw.rib_snapshot(bench.now_ns).is_empty() && bench.fw.bindings().snapshot().is_empty());
    bench.advance_ms(1);
    assert_eq!(bench.expire(), None);
    for uri in ["/rib/1", "/local/app/1"] {
        let sent = bench.receive(consumer, interest(uri).build());
        assert!(is_nack(&sent[0].1, NackReason::NoRoute), "{uri}");
    }
    assert_eq!(faces(&bench.receive(consumer, interest("/fib/1").build())), [other]);
}

/// `IS-15`: the release of a face with many routes takes one short round. Later rounds clear the
/// rest.
#[test]
fn a_released_face_is_silent_at_once() {
    let mut bench = Bench::new();
    let (consumer, face) = (bench.remote(), bench.remote());
    for i in 0..2000 {
        bench.fw.rib_register(&name("/r").join_segment(i), &route_to(face), bench.now_ns).unwrap();
        bench.fw.fib().add_nexthop(name("/f").join_segment(i).as_name(), face, 0).unwrap();
    }
    bench.fw.face_release(face).unwrap();
    assert!(bench.fw.rib_len() > 0, "one turn does not clear them all");
    for i in [0, 1000, 1999] {
        for prefix in ["/r", "/f"] {
            let sent = bench.receive(consumer, interest(&format!("{prefix}/seg={i}")).build());
            assert!(is_nack(&sent[0].1, NackReason::NoRoute));
        }
    }
    let mut turns = 0;
    while bench.fw.rib_len() + bench.fw.table_sizes().fib > 0 {
        bench.now_ns = bench.expire().unwrap_or(bench.now_ns);
        turns += 1;
        assert!(turns < 100);
    }
    assert_eq!(bench.expire(), None);
}

/// `IS-14`: Data for an orphaned face is dropped and counted.
#[test]
fn data_for_a_removed_face_is_counted() {
    let bench = Bench::new();
    let (consumer, other, upstream) = (bench.app(), bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    bench.receive(consumer, interest("/a").build());
    bench.receive(other, interest("/a").build());
    let hold = bench.fw.faces().hold(consumer).unwrap();
    assert_eq!(bench.fw.face_release(consumer), Ok(Released::Orphaned));
    assert_eq!(hold.id(), FaceId::NONE);
    assert_eq!(faces(&bench.receive(upstream, data("/a"))), [other]);
    assert_eq!(bench.dropped(DropReason::FaceGone), 1);
    hold.put();
    let counters = bench.fw.counters();
    assert_eq!((counters.faces_freed, counters.faces_orphaned), (0, 1));
}

/// `IS-14`: the face is held when it is released. Packets for it are dropped and counted.
#[test]
fn a_removed_upstream_swallows_the_interest() {
    struct ReleaseOther<'a>(&'a Bench, [FaceId; 2], Vec<FaceId>);
    impl namely_forwarder::Output<Packet> for ReleaseOther<'_> {
        type Tier = ();
        type Tracer = ();

        fn send(&mut self, face: FaceId, _: namely_forwarder::Outgoing<Packet>) {
            self.2.push(face);
            let other = if face == self.1[0] { self.1[1] } else { self.1[0] };
            assert_eq!(self.0.fw.face_release(other), Ok(Released::Orphaned));
        }
    }
    let bench = Bench::new();
    let (consumer, upstreams) = (bench.app(), [bench.remote(), bench.remote()]);
    bench.strategy("/", "/multicast");
    upstreams.iter().for_each(|face| bench.route("/a", *face, 0));
    let mut out = ReleaseOther(&bench, upstreams, Vec::new());
    let packet: Packet = interest("/a").build().into();
    bench.fw.receive(consumer, Received::bare(packet), bench.now_ns, &mut out);
    assert_eq!(out.2, upstreams[..1]);
    assert_eq!(bench.dropped(DropReason::FaceGone), 1);
}

#[test]
fn a_reused_face_id_inherits_nothing() {
    let bench = Bench::with(Config { faces_max: 2, ..config() });
    let (upstream, first) = (bench.remote(), bench.app());
    bench.route("/a", upstream, 0);
    bench.receive_with(first, interest("/a").build(), token(&[1]));
    bench.fw.face_release(first).unwrap();
    let second = bench.app();
    assert_eq!(first, second, "the table is full, so the id is used again");
    assert!(bench.receive(upstream, data("/a")).is_empty());
    assert_eq!(bench.dropped(DropReason::FaceGone), 1);
}

/// No lock is held during `send`, so the embedder may call the forwarder.
#[test]
fn the_output_may_call_the_forwarder() {
    struct Release<'a>(&'a Bench, Vec<FaceId>);
    impl namely_forwarder::Output<Packet> for Release<'_> {
        type Tier = ();
        type Tracer = ();

        fn send(&mut self, face: FaceId, _: namely_forwarder::Outgoing<Packet>) {
            self.1.push(face);
            let _ = self.0.fw.face_release(face);
            self.0.expire();
            self.0.fw.counters();
            self.0.fw.table_sizes();
        }
    }
    let bench = Bench::new();
    let (one, other, upstream) = (bench.app(), bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    bench.receive(one, interest("/a").build());
    bench.receive(other, interest("/a").build());
    let mut out = Release(&bench, Vec::new());
    bench.fw.receive(upstream, Received::bare(data("/a")), bench.now_ns, &mut out);
    assert_eq!(out.1, [one, other]);
}

/// NDNd never enforces ExpirationPeriod.
#[test]
fn an_expired_route_carries_no_interests() {
    let mut bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    let route = Route { expiration_period_ms: Some(10), ..route_to(upstream) };
    bench.fw.rib_register(&name("/a"), &route, bench.now_ns).unwrap();
    assert_eq!(bench.fw.rib_snapshot(bench.now_ns + 3 * MS)[0].routes[0].expiration_period_ms, Some(7));
    assert_eq!(bench.expire(), Some(bench.now_ns + 10 * MS));
    assert_eq!(faces(&bench.receive(consumer, interest("/a/1").build())), [upstream]);
    bench.receive(upstream, data("/a/1"));
    bench.advance_ms(10);
    assert_eq!(bench.expire(), None);
    let sent = bench.receive(consumer, interest("/a/2").build());
    assert!(is_nack(&sent[0].1, NackReason::NoRoute));
    assert!(bench.fw.rib_snapshot(bench.now_ns).is_empty() && bench.fw.fib().snapshot().is_empty());
}

#[test]
fn routes_to_missing_faces_are_refused() {
    let bench = Bench::new();
    let nowhere = FaceId(4711);
    assert_eq!(bench.fw.fib().add_nexthop(name("/a").as_name(), nowhere, 0), Err(FibError::NoFace));
    assert_eq!(bench.fw.rib_register(&name("/a"), &route_to(nowhere), bench.now_ns), Err(RibError::NoFace));
    assert!(!bench.fw.fib().remove_nexthop(name("/a").as_name(), nowhere));
    assert!(!bench.fw.rib_unregister(&name("/a"), nowhere, RouteOrigin::APP));
    assert!(!bench.fw.bindings().unbind(nowhere, name("/a").as_name()));
    assert_eq!(bench.fw.rib_register(&name("/a"), &route_to(FaceId::LOCAL), bench.now_ns), Ok(()));
    assert!(bench.fw.fib().remove_nexthop(name("/a").as_name(), FaceId::LOCAL));
}

#[test]
fn snapshots_span_several_table_walks() {
    let bench = Bench::new();
    let face = bench.remote();
    for i in 0..2500u64 {
        bench.fw.rib_register(&name("/r").join_segment(i), &route_to(face), bench.now_ns).unwrap();
        bench.receive(face, interest(&format!("/p/{i}")).build());
    }
    assert_eq!(bench.fw.fib().snapshot().len(), 2500);
    assert_eq!(bench.fw.rib_snapshot(bench.now_ns).len(), 2500);
    bench.route("/q", bench.remote(), 0);
    (0..2500).for_each(|i| drop(bench.receive(face, interest(&format!("/q/{i}")).build())));
    assert_eq!(bench.fw.pit().snapshot(usize::MAX).len(), 2500);
    let some = bench.fw.pit().snapshot(3);
    assert_eq!(some.len(), 3);
    assert_eq!(some[0].downstreams, [face]);
}

/// `IS-13`, `IS-15`: one thread registers and releases faces while another forwards.
#[test]
fn faces_change_while_another_thread_forwards() {
    let bench = Arc::new(Bench::new());
    let (consumer, upstream) = (bench.remote(), bench.remote());
    bench.route("/", upstream, 9);
    let control = {
        let bench = bench.clone();
        std::thread::spawn(move || {
            for i in 0..2000u64 {
                let face = bench.app();
                bench.fw.fib().add_nexthop(name("/x").as_name(), face, 0).unwrap();
                bench.fw.rib_register(&name("/x/y"), &route_to(face), bench.now_ns).unwrap();
                bench.fw.bindings().bind(face, name("/b").join_segment(i).as_name()).unwrap();
                bench.receive(face, interest(&format!("/x/{i}")).build());
                bench.fw.face_release(face).unwrap();
            }
        })
    };
    let mut i = 0;
    while !control.is_finished() {
        i += 1;
        let uri = format!("/x/y/{i}");
        for (face, out) in bench.receive(consumer, interest(&uri).build()) {
            assert!(out.headers.nack.is_none() || face == consumer);
        }
        bench.receive(upstream, data(&uri));
        bench.expire();
    }
    control.join().unwrap();
    while bench.expire().is_some_and(|next_ns| next_ns <= bench.now_ns + 10 * MS) {}
    let sizes = bench.fw.table_sizes();
    assert_eq!((sizes.fib, bench.fw.rib_len(), sizes.bindings), (1, 0, 0));
    assert_eq!(bench.fw.faces().snapshot().len(), 2);
}

/// `IS-13`: a route or bind that races the release of its face leaves nothing behind.
#[test]
fn entries_racing_a_release_do_not_stay() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const ROUNDS: u64 = 500;
    let bench = Arc::new(Bench::new());
    // The face of the current round, and the number of rounds that the other thread has finished.
    let shared = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let adding = {
        let (bench, shared) = (bench.clone(), shared.clone());
        std::thread::spawn(move || {
            for round in 0..ROUNDS {
                let names = ["/f", "/r", "/b"].map(|prefix| name(prefix).join_segment(round));
                let face = loop {
                    match shared.0.swap(0, Ordering::AcqRel) {
                        0 => std::thread::yield_now(),
                        id => break FaceId(id),
                    }
                };
                let _ = bench.fw.fib().add_nexthop(names[0].as_name(), face, 0);
                let _ = bench.fw.rib_register(&names[1], &route_to(face), bench.now_ns);
                let _ = bench.fw.bindings().bind(face, names[2].as_name());
                shared.1.store(round + 1, Ordering::Release);
            }
        })
    };
    for round in 0..ROUNDS {
        let face = bench.app();
        shared.0.store(face.0, Ordering::Release);
        (0..round % 256 * 8).for_each(|_| std::hint::spin_loop());
        bench.fw.face_release(face).unwrap();
        while shared.1.load(Ordering::Acquire) == round {
            std::thread::yield_now();
        }
    }
    adding.join().unwrap();
    while bench.expire().is_some() {}
    let sizes = bench.fw.table_sizes();
    assert_eq!((sizes.fib, bench.fw.rib_len(), sizes.bindings), (0, 0, 0));
}

/// Thousands of names inherit the route of a short name. The FIB has the short name's own next hop
/// at once. The others follow in short rounds, and packets are processed between them.
#[test]
fn a_name_above_thousands_changes_in_turns() {
    let mut bench = Bench::new();
    let (near, far) = (bench.remote(), bench.remote());
    for i in 0..5000u64 {
        bench.fw.rib_register(&name("/a").join_segment(i), &route_to(near), bench.now_ns).unwrap();
    }
    let inherited = |bench: &Bench| {
        let entries = bench.fw.fib().snapshot();
        entries.iter().filter(|entry| entry.next_hops.iter().any(|hop| hop.face_id == far.0)).count()
    };
    bench.fw.rib_register(&name("/a"), &route_to(far), bench.now_ns).unwrap();
    let per_turn = 256;
    assert_eq!(inherited(&bench), 1 + per_turn);
    assert_eq!(faces(&bench.receive(near, interest("/a/other").build())), [far]);
    let mut turns = 0;
    while inherited(&bench) < 5001 {
        let before = inherited(&bench);
        let next_ns = bench.expire().expect("more remains");
        assert!((1..=per_turn).contains(&(inherited(&bench) - before)));
        bench.now_ns = bench.now_ns.max(next_ns.min(bench.now_ns + MS));
        turns += 1;
    }
    assert!(turns <= 4744_usize.div_ceil(per_turn), "{turns}");
    assert!(bench.fw.rib_unregister(&name("/a"), far, RouteOrigin(0)));
    while inherited(&bench) > 0 {
        bench.now_ns += MS;
        assert!(bench.expire().is_some());
    }
}

/// Walks list the same entries as snapshots, a bounded number of slots at a time.
#[test]
fn partial_walks_show_every_entry() {
    let bench = Bench::new();
    let upstream = bench.remote();
    bench.route("/", upstream, 0);
    let apps: Vec<FaceId> = (0..1500).map(|_| bench.app()).collect();
    for (i, app) in apps.iter().enumerate() {
        bench.fw.bindings().bind(*app, name("/bound").join_segment(i as u64).as_name()).unwrap();
        let asked = name("/asked").join_segment(i as u64);
        bench.receive(*app, namely_wire::InterestBuilder::new(asked).nonce([1; 4]).build());
    }
    fn parts<T>(mut walk: impl FnMut(Option<u32>, &mut Vec<T>) -> Option<u32>) -> (Vec<T>, usize) {
        let (mut all, mut calls, mut from) = (Vec::new(), 0, None);
        loop {
            let before = all.len();
            from = walk(from, &mut all);
            calls += 1;
            assert!(all.len() - before <= namely_forwarder::WALK_PLACES as usize);
            if from.is_none() {
                return (all, calls);
            }
        }
    }
    let (faces, calls) = parts(|from, all| bench.fw.faces().walk(from, all));
    assert_eq!((faces, calls), (bench.fw.faces().snapshot(), 2));
    let (mut bound, calls) = parts(|from, all| bench.fw.bindings().walk(from, all));
    let mut snapshot = bench.fw.bindings().snapshot();
    bound.sort();
    snapshot.sort();
    assert_eq!((bound, calls), (snapshot, 2));
    let (pending, calls) = parts(|from, all| bench.fw.pit().walk(from, all));
    assert_eq!((pending.len(), calls >= 2), (1500, true));
    assert_eq!(pending, bench.fw.pit().snapshot(usize::MAX));
}

/// No call exceeds its budget for any kind of work, and repeated calls complete all work.
#[test]
fn expire_is_bounded_by_its_budget() {
    let mut bench = Bench::new();
    let (app, upstream) = (bench.app(), bench.remote());
    bench.route("/", upstream, 0);
    for i in 0..100u64 {
        let asked = namely_wire::InterestBuilder::new(name("/a").join_segment(i)).nonce([1; 4]);
        bench.receive(app, asked.lifetime_ms(100).build());
    }
    bench.advance_ms(200);
    for left in [90, 80, 70] {
        let expiry = bench.fw.expire_within(bench.now_ns, 10, &mut Sent::new());
        assert_eq!((bench.fw.table_sizes().pit, expiry.is_more), (left, true));
    }
    let mut calls = 0;
    while bench.fw.expire_within(bench.now_ns, 10, &mut Sent::new()).is_more {
        calls += 1;
        assert!(calls < 20);
    }
    assert_eq!(bench.fw.table_sizes().pit, 0);
}

/// A smaller capacity takes effect in parts, and a packet that arrives meanwhile does not wait for
/// it.
#[test]
fn the_content_store_shrinks_in_parts() {
    let unsolicited = namely_forwarder::UnsolicitedPolicy::AdmitAll;
    let bench = Bench::with(Config { unsolicited, ..config() });
    let upstream = bench.remote();
    let fill = |from: u64, n: u64| {
        (from..from + n).for_each(|i| drop(bench.receive(upstream, data(&format!("/d/{i}")))));
    };
    fill(0, 1000);
    let change = CsChange { packets_max: Some(10), ..CsChange::default() };
    bench.fw.cs().change(&change);
    assert_eq!(bench.fw.cs().status().packets, 1000);
    // At most 512 packets leave for one Data. A Data that needs more room is refused.
    fill(1000, 1);
    let status = bench.fw.cs().status();
    assert_eq!((status.packets, status.refused), (1000 - 512, 1));
    assert!(bench.fw.cs().shrink(100));
    assert_eq!(bench.fw.cs().status().packets, 1000 - 612);
    let calls = (0..).take_while(|_| bench.fw.cs().shrink(100)).count();
    assert_eq!((bench.fw.cs().status().packets, calls), (10, 3));
    fill(2000, 1);
    assert_eq!((bench.fw.cs().status().packets, bench.fw.cs().status().refused), (10, 1));
}

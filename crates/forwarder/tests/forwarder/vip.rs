//! Registered objects and the strategy `vip` (`VI-15`, `VI-16`, `VI-17`), observed at the faces of
//! a router.

use crate::bench::*;
use namely_forwarder::{FaceId, OBJECT_NEIGHBOURS_MAX, ObjectName};
use namely_wire::NackReason;

/// A router with a consumer and three next hops of `/a`. Two files under it belong to object 3, and
/// one to object 4.
fn bench() -> (Bench, FaceId, [FaceId; 3]) {
    let bench = Bench::new();
    let (consumer, hops) = (bench.app(), [(); 3].map(|()| bench.remote()));
    hops.iter().zip(0..).for_each(|(face, cost)| bench.route("/a", *face, cost));
    bench.strategy("/a", "/vip");
    let files = [("/a/one", 3), ("/a/two", 3), ("/a/three", 4)].map(|(uri, object)| (name(uri), object));
    let names =
        files.iter().map(|(name, object)| ObjectName { name: name.as_name(), object: *object, id: 100 });
    assert_eq!(
        bench.fw.objects().set(names.map(|n| ObjectName { id: n.id + u64::from(n.object), ..n })),
        Ok(3)
    );
    (bench, consumer, hops)
}

fn ask(bench: &Bench, consumer: FaceId, uri: &str) -> Vec<FaceId> {
    faces(&bench.receive(consumer, interest(uri).lifetime_ms(1000).build()))
}

/// An exchange that `upstream` answers.
fn exchange(bench: &Bench, consumer: FaceId, uri: &str, upstream: FaceId) {
    assert_eq!(ask(bench, consumer, uri), [upstream], "{uri}");
    assert_eq!(faces(&bench.receive(upstream, data(uri))), [consumer]);
}

#[test]
fn directed_objects_follow_their_direction() {
    let (bench, consumer, hops) = bench();
    bench.fw.objects().direct(3, Some(hops[2]));
    bench.fw.objects().direct(4, Some(hops[1]));
    exchange(&bench, consumer, "/a/one/0", hops[2]);
    exchange(&bench, consumer, "/a/two/0", hops[2]);
    exchange(&bench, consumer, "/a/three/0", hops[1]);
    exchange(&bench, consumer, "/a/four/0", hops[0]);
    assert_eq!(bench.fw.objects().of(name("/a/one/0").as_name()), Some(3));
    assert_eq!(bench.fw.objects().of(name("/a/four/0").as_name()), None);
}

#[test]
fn an_active_object_keeps_one_path() {
    let (mut bench, consumer, hops) = bench();
    bench.fw.objects().direct(3, Some(hops[1]));
    exchange(&bench, consumer, "/a/one/0", hops[1]);
    bench.fw.objects().direct(3, Some(hops[2]));
    for i in 1..6 {
        bench.advance_ms(199);
        exchange(&bench, consumer, &format!("/a/two/{i}"), hops[1]);
    }
    bench.advance_ms(200);
    exchange(&bench, consumer, "/a/one/6", hops[2]);
}

#[test]
fn a_path_lock_lasts_two_round_trips() {
    let (mut bench, consumer, hops) = bench();
    assert_eq!(ask(&bench, consumer, "/a/one/0"), [hops[0]]);
    bench.advance_ms(300);
    assert_eq!(faces(&bench.receive(hops[0], data("/a/one/0"))), [consumer]);
    exchange(&bench, consumer, "/a/one/1", hops[0]);
    bench.fw.objects().direct(3, Some(hops[1]));
    bench.advance_ms(599);
    exchange(&bench, consumer, "/a/one/2", hops[0]);
    bench.advance_ms(600);
    exchange(&bench, consumer, "/a/one/3", hops[1]);
}

#[test]
fn a_failure_ends_the_path_lock() {
    let (mut bench, consumer, hops) = bench();
    bench.fw.objects().direct(3, Some(hops[1]));
    assert_eq!(ask(&bench, consumer, "/a/one/0"), [hops[1]]);
    bench.advance_ms(50);
    assert_eq!(ask(&bench, consumer, "/a/one/0"), [hops[0]], "a retransmission goes another way");
    exchange(&bench, consumer, "/a/one/1", hops[0]);

    bench.fw.objects().direct(4, Some(hops[2]));
    let sent = bench.receive(consumer, interest("/a/three/0").build());
    assert_eq!(faces(&sent), [hops[2]]);
    bench.nack(hops[2], sent[0].1.packet.clone(), NackReason::Congestion);
    exchange(&bench, consumer, "/a/three/1", hops[0]);

    // After a pause without Interests the lock ends, and the directed next hop is tried again.
    bench.advance_ms(300);
    assert_eq!(ask(&bench, consumer, "/a/three/2"), [hops[2]]);
    bench.advance_ms(1100);
    bench.expire();
    exchange(&bench, consumer, "/a/three/3", hops[0]);
}

/// A consumer repeats its Interest at about the time of its expiry, before the timeout is reported.
#[test]
fn a_late_retransmission_avoids_the_failed_nexthop() {
    for after_ms in [999, 1000, 1001] {
        let (mut bench, consumer, hops) = bench();
        assert_eq!(ask(&bench, consumer, "/a/one/0"), [hops[0]]);
        bench.advance_ms(10);
        assert_eq!(ask(&bench, consumer, "/a/two/0"), [hops[0]]);
        bench.advance_ms(after_ms - 10);
        assert_eq!(ask(&bench, consumer, "/a/one/0"), [hops[1]], "after {after_ms} ms");
        bench.advance_ms(10);
        assert_eq!(ask(&bench, consumer, "/a/two/0"), [hops[1]], "after {after_ms} ms");
        exchange(&bench, consumer, "/a/one/1", hops[1]);
    }
}

#[test]
fn a_direction_without_its_face_is_abandoned() {
    let (bench, consumer, hops) = bench();
    bench.fw.objects().direct(3, Some(hops[1]));
    exchange(&bench, consumer, "/a/one/0", hops[1]);
    bench.fw.fib().remove_nexthop(name("/a").as_name(), hops[1]);
    exchange(&bench, consumer, "/a/one/1", hops[0]);
    bench.fw.face_release(hops[0]).unwrap();
    exchange(&bench, consumer, "/a/one/2", hops[2]);
    bench.fw.objects().direct(3, None);
    exchange(&bench, consumer, "/a/two/0", hops[2]);
}

#[test]
fn a_neighbor_past_the_limit_is_a_consumer() {
    let (bench, _, _) = bench();
    let faces: Vec<FaceId> = (0..=OBJECT_NEIGHBOURS_MAX).map(|_| bench.remote()).collect();
    bench.fw.objects().neighbours(&faces);
    let ask = |face: FaceId, i: usize| {
        bench.receive(face, interest(&format!("/a/one/{i}")).build());
        bench.fw.objects().requests(3)
    };
    assert_eq!(ask(faces[OBJECT_NEIGHBOURS_MAX - 1], 0), 0);
    assert_eq!(ask(faces[OBJECT_NEIGHBOURS_MAX], 1), 1);
}

#[test]
fn demand_counts_only_new_local_interests() {
    let (mut bench, consumer, hops) = bench();
    let (other, neighbour) = (bench.app(), bench.remote());
    bench.fw.objects().neighbours(&[hops[0], neighbour]);
    let asked = |bench: &Bench| [3, 4].map(|object| bench.fw.objects().requests(object));
    ask(&bench, consumer, "/a/one/0");
    assert_eq!(asked(&bench), [1, 0]);
    bench.advance_ms(50);
    ask(&bench, consumer, "/a/one/0");
    assert_eq!(asked(&bench), [1, 0], "a retransmission");
    ask(&bench, other, "/a/one/0");
    assert_eq!(asked(&bench), [2, 0], "one that joins another's");
    ask(&bench, neighbour, "/a/one/1");
    assert_eq!(asked(&bench), [2, 0], "one of a neighbor, which tells its demand itself");
    bench.receive(hops[0], data("/a/one/0"));
    ask(&bench, other, "/a/one/0");
    assert_eq!(asked(&bench), [3, 0], "one that the content store answers");
    ask(&bench, consumer, "/a/four/0");
    ask(&bench, consumer, "/a/three/0");
    assert_eq!(asked(&bench), [3, 1]);
}

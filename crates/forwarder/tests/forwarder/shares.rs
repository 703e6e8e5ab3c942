//! Shares of the pending Interest table: while one owner is at its limit, or the table is full,
//! other owners are served.

use crate::bench::*;
use namely_forwarder::{Config, DropReason, FaceId, FaceProperties, OwnerId, PitLimits};
use namely_wire::NackReason;

/// The faces that received a Nack because their Interest was refused or evicted.
fn refused(sent: &Sent) -> Vec<FaceId> {
    let nacks = sent.iter().filter(|(_, out)| is_nack(out, NackReason::Congestion));
    nacks.map(|(face, _)| *face).collect()
}

/// Sends Interests for `count` names without a producer; returns the faces that were refused.
fn flood(bench: &Bench, face: FaceId, label: &str, count: usize) -> Vec<FaceId> {
    let ask =
        |i| refused(&bench.receive(face, interest(&format!("/a/{label}/{i}")).lifetime_ms(u64::MAX).build()));
    (0..count).flat_map(ask).collect()
}

fn bench(pit_entries_max: usize) -> (Bench, FaceId) {
    let limits = Config {
        pit: PitLimits {
            entries_max: pit_entries_max,
            entries_per_face_max: pit_entries_max,
            entries_per_holder_max: pit_entries_max,
            ..config().pit
        },
        ..config()
    };
    let bench = Bench::with(limits);
    let upstream = bench.remote();
    bench.route("/a", upstream, 0);
    (bench, upstream)
}

/// All entries of a released face are removed within a second. Entries with other downstreams stay.
#[test]
fn a_released_face_leaves_nothing_pending() {
    let mut bench = Bench::new();
    let (upstream, other) = (bench.remote(), bench.app());
    bench.route("/a", upstream, 0);
    let holder = OwnerId(7);
    let join = |bench: &Bench| bench.fw.face_register_for(FaceProperties::remote(), holder).unwrap();
    let (one, two, per_face_max) = (join(&bench), join(&bench), config().pit.entries_per_face_max);
    for face in [one, two] {
        assert!(flood(&bench, face, &face.to_string(), per_face_max).is_empty());
        assert_eq!(flood(&bench, face, "more", 1), [face]);
    }
    let shared = format!("/a/{one}/5");
    bench.receive(other, interest(&shared).build());
    assert_eq!(bench.fw.table_sizes().pit, 2 * per_face_max);
    let gone_at_ns = bench.now_ns;
    for face in [one, two] {
        bench.fw.face_release(face).unwrap();
    }
    loop {
        let next_ns = bench.expire().unwrap();
        if bench.fw.table_sizes().pit == 1 {
            break;
        }
        bench.now_ns = bench.now_ns.max(next_ns);
        assert!(bench.now_ns <= gone_at_ns + 1000 * MS, "{:?}", bench.fw.table_sizes());
    }
    assert_eq!(faces(&bench.receive(upstream, data(&shared))), [other]);
    while bench.expire().is_some_and(|next_ns| next_ns <= gone_at_ns + 1000 * MS) {
        bench.advance_ms(10);
    }
    let three = join(&bench);
    assert!(flood(&bench, three, "again", per_face_max).is_empty(), "nor is anything counted any more");
}

/// A packet that is being processed while its face is released makes an entry behind the sweep.
/// Another sweep follows after the packet.
#[test]
fn entries_racing_a_release_are_swept() {
    let (bench, _) = bench(1000);
    let face = bench.remote();
    assert!(flood(&bench, face, "x", 100).is_empty());
    let hold = bench.fw.faces().hold(face).unwrap();
    bench.fw.face_release(face).unwrap();
    let mut now_ns = bench.now_ns;
    let mut expire = || {
        let next_ns = bench.fw.expire(now_ns, &mut Sent::new());
        now_ns = next_ns.unwrap_or(now_ns).max(now_ns);
        next_ns
    };
    (0..5).for_each(|_| assert!(expire().is_some(), "it is not over while somebody holds the face"));
    drop(hold);
    while expire().is_some() {}
    assert_eq!(bench.fw.table_sizes().pit, 0);
}

#[test]
fn a_full_pit_charges_the_largest_holder() {
    let (bench, upstream) = bench(1000);
    let (flooder, honest) = (bench.remote(), bench.app());
    assert!(flood(&bench, flooder, "x", 1000).is_empty());
    assert_eq!(flood(&bench, flooder, "y", 1), [flooder], "who has most is refused");
    assert_eq!((bench.dropped(DropReason::PitFull), bench.dropped(DropReason::PitEvicted)), (1, 0));
    for i in 0..300 {
        let uri = format!("/a/honest/{i}");
        let sent = bench.receive(honest, interest(&uri).build());
        assert_eq!(refused(&sent), [flooder], "it is told");
        assert_eq!(faces(&sent), if flooder < upstream { [flooder, upstream] } else { [upstream, flooder] });
    }
    assert_eq!((bench.dropped(DropReason::PitFull), bench.dropped(DropReason::PitEvicted)), (1, 300));
    assert_eq!(bench.fw.table_sizes().pit, 1000);
    for i in 0..300 {
        assert_eq!(faces(&bench.receive(upstream, data(&format!("/a/honest/{i}")))), [honest]);
    }
    assert!(flood(&bench, flooder, "z", 300).is_empty(), "there is room for it again");
}

/// Ten faces of one owner have no larger share than one face.
#[test]
fn faces_of_one_holder_pay_together() {
    let (bench, _) = bench(1000);
    let join = || bench.fw.face_register_for(FaceProperties::remote(), OwnerId(7)).unwrap();
    let many: Vec<FaceId> = (0..10).map(|_| join()).collect();
    for face in &many {
        assert!(flood(&bench, *face, &face.to_string(), 90).is_empty());
    }
    let large = bench.remote();
    assert!(flood(&bench, large, "large", 100).is_empty());
    let nacked = flood(&bench, large, "larger", 100);
    assert!(nacked.len() == 100 && nacked.iter().all(|face| many.contains(face)), "{nacked:?}");
}

/// An entry of the flooder that another face waits for as well is not evicted.
#[test]
fn an_aggregated_interest_is_not_evicted() {
    let (bench, upstream) = bench(200);
    let (flooder, honest, third) = (bench.remote(), bench.app(), bench.app());
    assert!(flood(&bench, flooder, "x", 200).is_empty());
    for i in 0..50 {
        assert!(bench.receive(honest, interest(&format!("/a/x/{i}")).build()).is_empty(), "aggregated");
    }
    let nacked = flood(&bench, third, "y", 60);
    assert!(nacked.len() == 60 && nacked.iter().all(|face| *face == flooder), "{nacked:?}");
    for i in 0..50 {
        assert!(faces(&bench.receive(upstream, data(&format!("/a/x/{i}")))).contains(&honest));
    }
}

#[test]
fn a_holder_below_its_reserve_never_pays() {
    let (bench, _) = bench(2000);
    let reserve = config().pit.entries_reserve;
    let small = bench.remote();
    assert!(flood(&bench, small, "small", reserve).is_empty());
    // All other owners have the same number of entries, and more than the reserve.
    let others: Vec<FaceId> = (0..20).map(|_| bench.remote()).collect();
    for face in &others {
        flood(&bench, *face, &face.to_string(), 100);
    }
    assert_eq!(bench.fw.table_sizes().pit, 2000);
    let late = bench.remote();
    let nacked = flood(&bench, late, "late", reserve);
    assert!(nacked.len() == reserve && nacked.iter().all(|face| others.contains(face)), "{nacked:?}");
}

#[test]
fn the_router_is_never_refused() {
    let (bench, _) = bench(500);
    let own = |spec| bench.fw.face_register_for(spec, OwnerId::ROUTER).unwrap();
    let (router, root, other) =
        (own(FaceProperties::application()), own(FaceProperties::remote()), bench.app());
    assert!(flood(&bench, router, "router", 300).is_empty());
    assert!(flood(&bench, other, "other", 200).is_empty());
    let nacked = flood(&bench, root, "root", 190);
    assert!(nacked.len() == 190 && nacked.iter().all(|face| *face == other), "{nacked:?}");
    assert_eq!(flood(&bench, other, "other/more", 1), [other]);
}

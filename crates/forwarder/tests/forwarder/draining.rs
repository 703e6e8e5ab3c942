//! A router that is about to stop refuses other hosts' new Interests and completes pending ones.

use namely_forwarder::{Config, DropReason, FaceId, PitLimits};
use namely_wire::NackReason;

use crate::bench::{Bench, config, data, faces, interest, is_nack};

/// The face of no router.
const NO_ROUTER: FaceId = FaceId::NONE;

fn answerable(bench: &Bench, router: FaceId) -> usize {
    let (mut count, mut from) = (0, None);
    loop {
        from = bench.fw.pit().count_answerable(from, router, bench.now_ns, &mut count);
        if from.is_none() {
            return count;
        }
    }
}

#[test]
fn a_draining_router_refuses_new_remote_interests() {
    let bench = Bench::new();
    let (consumer, other, app, upstream) = (bench.remote(), bench.remote(), bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/old").build())), [upstream]);
    bench.fw.pit().drain();
    let later = bench.remote();
    for face in [consumer, other, later] {
        let sent = bench.receive(face, interest("/a/new").build());
        assert!(faces(&sent) == [face] && is_nack(&sent[0].1, NackReason::NoRoute), "{sent:?}");
    }
    let joins = bench.receive(other, interest("/a/old").build());
    assert!(is_nack(&joins[0].1, NackReason::NoRoute), "a new downstream of a pending Interest");
    assert_eq!(bench.dropped(DropReason::Draining), 4);
    assert_eq!(faces(&bench.receive(app, interest("/a/own").build())), [upstream], "local");
    assert_eq!(faces(&bench.receive(upstream, data("/a/old"))), [consumer]);
    assert_eq!(faces(&bench.receive(upstream, data("/a/own"))), [app]);
    assert_eq!(faces(&bench.receive(other, interest("/a/old").build())), [other], "cached");
    assert_eq!(bench.dropped(DropReason::Draining), 4);
}

#[test]
fn a_draining_router_accepts_retransmissions() {
    let mut bench = Bench::new();
    let (consumer, upstream) = (bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    bench.receive(consumer, interest("/a").build());
    bench.fw.pit().drain();
    bench.advance_ms(1000);
    assert_eq!(faces(&bench.receive(consumer, interest("/a").build())), [upstream]);
    assert_eq!(faces(&bench.receive(upstream, data("/a"))), [consumer]);
}

/// The free slot would be of no use to the newcomer.
#[test]
fn a_refused_interest_evicts_no_pending_one() {
    let pit = PitLimits { entries_max: 4, entries_reserve: 0, ..config().pit };
    let bench = Bench::with(Config { pit, ..config() });
    let (consumer, other, upstream) = (bench.remote(), bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    (0..4).for_each(|n| drop(bench.receive(consumer, interest(&format!("/a/{n}")).build())));
    bench.fw.pit().drain();
    assert_eq!(faces(&bench.receive(other, interest("/a/new").build())), [other]);
    assert_eq!((bench.dropped(DropReason::PitEvicted), answerable(&bench, NO_ROUTER)), (0, 4));
}

#[test]
fn only_interests_with_a_possible_answer_are_awaited() {
    let mut bench = Bench::new();
    let (consumer, upstream, router) = (bench.remote(), bench.remote(), bench.app());
    bench.route("/a", upstream, 0);
    bench.route("/router", router, 0);
    bench.receive(consumer, interest("/router/events").build());
    bench.receive(router, interest("/a/exchange").build());
    assert_eq!((answerable(&bench, router), answerable(&bench, NO_ROUTER)), (0, 2));
    let refused = interest("/a/refused").build();
    bench.receive(consumer, refused.clone());
    bench.receive(consumer, interest("/a/1").lifetime_ms(100).build());
    assert_eq!(answerable(&bench, router), 2);
    bench.nack(upstream, refused, NackReason::NoRoute);
    assert_eq!(answerable(&bench, router), 1);
    bench.advance_ms(101);
    assert_eq!(answerable(&bench, router), 0, "expired");
    bench.receive(consumer, interest("/a/2").build());
    assert_eq!(answerable(&bench, router), 1);
    bench.fw.face_release_within(upstream, 0).unwrap();
    assert_eq!(answerable(&bench, router), 0, "its upstream is gone");
}

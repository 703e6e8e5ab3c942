//! Only an upstream may answer: Data needs an out-record of its face.

use crate::bench::*;
use namely_forwarder::{Bound, DropReason, FaceId, FaceProperties};
use namely_messages::LinkType;

/// A third peer answers with a Data of its own before the upstream does: it is neither delivered
/// nor cached, and the true answer arrives.
#[test]
fn a_third_peer_cannot_poison_the_cache() {
    let bench = Bench::new();
    let (consumer, upstream, poisoner) = (bench.app(), bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/m").build())), [upstream]);
    let (poison, truth) = (data_with("/a/m", 60_000, b"poison"), data_with("/a/m", 60_000, b"truth"));
    assert!(bench.receive(poisoner, poison.clone()).is_empty());
    assert!(bench.receive(poisoner, poison.clone()).is_empty(), "nor by insisting");
    assert_eq!(bench.dropped(DropReason::Unsolicited), 2);
    assert_eq!((bench.fw.cs().status().packets, bench.fw.table_sizes().pit), (0, 1));
    let sent = bench.receive(upstream, truth.clone());
    assert_eq!((faces(&sent), &sent[0].1.packet), (vec![consumer], &truth));
    assert!(bench.receive(poisoner, poison).is_empty(), "nor afterwards");
    let cached = bench.receive(poisoner, interest("/a/m").build());
    assert_eq!((faces(&cached), &cached[0].1.packet), (vec![poisoner], &truth));
}

/// A Data's name matches two Interests. The Data answers only the one that was sent to its face.
#[test]
fn data_satisfies_only_interests_of_its_upstream() {
    let bench = Bench::new();
    let (consumer, other) = (bench.app(), bench.app());
    let (below, exact) = (bench.remote(), bench.remote());
    bench.route("/a", below, 0);
    bench.route("/a/b", exact, 0);
    assert_eq!(faces(&bench.receive(consumer, interest("/a").can_be_prefix().build())), [below]);
    assert_eq!(faces(&bench.receive(other, interest("/a/b").build())), [exact]);
    assert_eq!(faces(&bench.receive(below, data("/a/b"))), [consumer]);
    assert_eq!(bench.fw.table_sizes().pit, 1);
    assert_eq!(faces(&bench.receive(exact, data("/a/b"))), [other]);
}

#[test]
fn only_an_asked_group_may_answer() {
    let bench = Bench::new();
    let ad_hoc = FaceProperties { link_type: LinkType::AdHoc, ..FaceProperties::remote() };
    let (consumer, groups) = (bench.app(), [bench.group(), bench.face(ad_hoc)]);
    for (i, asked) in groups.into_iter().enumerate() {
        let uri = format!("/{i}");
        bench.route(&uri, asked, 0);
        bench.receive(consumer, interest(&uri).build());
        assert!(bench.receive(groups[1 - i], data(&uri)).is_empty());
        assert_eq!(faces(&bench.receive(asked, data(&uri))), [consumer]);
    }
    assert_eq!(bench.dropped(DropReason::Unsolicited), 2);
}

#[test]
fn an_application_answers_only_its_interests() {
    let bench = Bench::new();
    let (consumer, app, other) = (bench.remote(), bench.app(), bench.app());
    bench.route("/a", FaceId::LOCAL, 0);
    assert_eq!(bench.fw.bindings().bind(app, name("/a/b").as_name()), Ok(Bound::Routed));
    assert_eq!(faces(&bench.receive(consumer, interest("/a/b/1").build())), [app]);
    assert!(bench.receive(other, data("/a/b/1")).is_empty());
    assert!(bench.receive(consumer, data("/a/b/1")).is_empty(), "nor may who asks answer itself");
    assert_eq!(faces(&bench.receive(app, data("/a/b/1"))), [consumer]);
}

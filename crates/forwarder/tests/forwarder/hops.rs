//! Traceroute Interests, which follow the path of a name hop by hop. The router where their
//! HopLimit ends passes them to its answering face; no other Interest reaches that face.

use namely_forwarder::{DropReason, FaceId, FaceProperties};
use namely_messages::{hop_name, strategy_name};
use namely_wire::{InterestBuilder, InterestView};

use crate::bench::*;

fn question(uri: &str, hop_limit: u8) -> InterestBuilder {
    let asked = hop_name(&name(uri), u32::from_be_bytes(nonce()).into());
    InterestBuilder::new(asked).nonce(nonce()).hop_limit(hop_limit)
}

/// A router that answers traceroute Interests, its answering face, and the face of a consumer.
fn answering() -> (Bench, FaceId, FaceId) {
    let bench = Bench::new();
    let own = bench.face(FaceProperties { local_fields: true, ..FaceProperties::application() });
    bench.fw.set_explainer(own);
    let consumer = bench.remote();
    (bench, own, consumer)
}

#[test]
fn a_question_ends_at_its_hop_limit() {
    let (bench, own, consumer) = answering();
    let up = bench.remote();
    bench.route("/a", up, 0);
    let passed = bench.receive(consumer, question("/a/b", 2).build());
    assert_eq!(faces(&passed), [up]);
    assert_eq!(passed[0].1.hop_limit.map(|(_, limit)| limit), Some(1));
    for strategy in ["best-route", "multicast", "asf", "fast-route"] {
        bench.strategy("/a", &strategy_name(strategy).unwrap().to_string());
        let ended = bench.receive(consumer, question("/a/b", 1).build());
        assert_eq!(faces(&ended), [own], "{strategy}");
        assert_eq!(ended[0].1.headers.incoming_face_id, Some(consumer.0));
        let asked = InterestView::parse(&ended[0].1.packet).unwrap().name.to_name();
        let answered = bench.receive(own, data(&asked.to_string()));
        assert_eq!(faces(&answered), [consumer], "and the answer comes back");
    }
    assert_eq!(bench.drops(), 0);
}

#[test]
fn a_question_without_a_route_is_answered() {
    let (bench, own, consumer) = answering();
    assert_eq!(faces(&bench.receive(consumer, question("/nowhere", 1).build())), [own]);
    let app = bench.app();
    bench.route("/app", app, 0);
    assert_eq!(faces(&bench.receive(consumer, question("/app", 1).build())), [own]);
    bench.route("/bound", FaceId::LOCAL, 0);
    bench.fw.bindings().bind(app, name("/bound").as_name()).unwrap();
    assert_eq!(faces(&bench.receive(consumer, question("/bound", 1).build())), [own]);
    let plain = bench.receive(consumer, interest("/app/x").hop_limit(1).build());
    assert_eq!(faces(&plain), [app], "what is no question comes to applications as ever");
    let refused = bench.receive(consumer, question("/nowhere", 2).build());
    assert!(is_nack(&refused[0].1, namely_wire::NackReason::NoRoute), "it is for the next router");
}

#[test]
fn a_silent_router_treats_questions_as_interests() {
    let (bench, own, consumer) = answering();
    let (up, app) = (bench.remote(), bench.app());
    bench.route("/a", up, 0);
    bench.route("/app", app, 0);
    bench.fw.set_explainer(FaceId::NONE);
    assert!(bench.receive(consumer, question("/a", 1).build()).is_empty());
    assert_eq!(bench.dropped(DropReason::HopLimit), 1);
    assert_eq!(faces(&bench.receive(consumer, question("/app", 1).build())), [app]);
    bench.fw.set_explainer(own);
    assert!(bench.receive(consumer, interest("/a/x").hop_limit(1).build()).is_empty());
    assert_eq!(bench.dropped(DropReason::HopLimit), 2, "nor does anything else come to who answers");
    bench.fw.face_release(own).unwrap();
    assert!(
        bench.receive(consumer, question("/a", 1).build()).is_empty(),
        "nor is a face missed that has gone"
    );
    assert_eq!(bench.fw.table_sizes().pit, 1, "the Interest for the application alone is pending");
}

#[test]
fn a_returning_question_is_a_loop() {
    let (bench, _, consumer) = answering();
    let (up, back) = (bench.remote(), bench.remote());
    bench.route("/a", up, 0);
    let asked = question("/a/b", 9);
    bench.receive(consumer, asked.clone().build());
    let sent = bench.receive(back, asked.hop_limit(1).build());
    assert!(is_nack(&sent[0].1, namely_wire::NackReason::Duplicate));
}

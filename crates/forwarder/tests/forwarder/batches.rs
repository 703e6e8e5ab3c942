//! Compares batches with the same packets processed one by one.

use namely_forwarder::{Batch, FaceId, FaceProperties, Received};
use namely_wire::{LpHeaders, NackReason, Name};
use proptest::prelude::*;

use crate::bench::*;

/// A packet of a sequence: its face, its kind, and its name, one of few.
#[derive(Clone, Copy, Debug)]
struct Step {
    face: usize,
    kind: u8,
    name: usize,
    nonce: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..4usize, 0..8u8, 0..12usize, 0..6u8);
    let step = step.prop_map(|(face, kind, name, nonce)| Step { face, kind, name, nonce });
    proptest::collection::vec(step, 0..300)
}

/// Few names: some are prefixes of others, and one is too long for a cheap prefetch.
fn some_name(i: usize) -> Name {
    match i {
        0..4 => name("/a").join_number(50, i as u64),
        4..11 => name("/a").join_number(50, i as u64 % 4).join_number(50, i as u64),
        _ => (0..120).fold(name("/a"), |name, i| name.join_number(50, i)),
    }
}

fn packet(step: Step) -> Received<Packet> {
    let uri = some_name(step.name).to_string();
    let asked = interest(&uri).nonce([step.nonce; 4]);
    match step.kind {
        0..3 => Received::bare(asked.build().into()),
        3 => Received::bare(asked.can_be_prefix().build().into()),
        4 => Received {
            packet: asked.build().into(),
            headers: LpHeaders { nack: Some(NackReason::NoRoute), ..LpHeaders::default() },
        },
        5 => Received::bare(asked.build()[..9].into()),
        _ => Received::bare(data(&uri)),
    }
}

fn scene() -> (Bench, [FaceId; 4]) {
    let bench = Bench::with(namely_forwarder::Config {
        cs: namely_forwarder::CsLimits { packets_max: 3, ..config().cs },
        pit: namely_forwarder::PitLimits { entries_max: 6, ..config().pit },
        ..config()
    });
    let specs = [
        FaceProperties::application(),
        FaceProperties::remote(),
        FaceProperties::remote(),
        FaceProperties::group(),
    ];
    let faces = specs.map(|spec| bench.face(spec));
    bench.route("/a", faces[1], 1);
    bench.route("/a", faces[2], 2);
    bench.route(&some_name(2).to_string(), faces[3], 0);
    (bench, faces)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_batch_acts_like_single_packets(
        steps in steps(),
        batch_packets in prop_oneof![Just(1), Just(32), Just(256), 1..80usize],
    ) {
        let ((one, faces), (other, _)) = (scene(), scene());
        let (mut apart, mut together) = (Sent::new(), Sent::new());
        let mut batch = Batch::with_room(batch_packets).unwrap();
        for steps in steps.chunks(batch_packets) {
            for step in steps {
                one.fw.receive(faces[step.face], packet(*step), one.now_ns, &mut apart);
                prop_assert!(batch.push(faces[step.face], packet(*step)).is_ok());
            }
            prop_assert_eq!(batch.is_full(), steps.len() == batch_packets);
            other.fw.receive_batch(&mut batch, other.now_ns, &mut together);
            prop_assert!(batch.is_empty());
        }
        prop_assert_eq!(apart, together);
        prop_assert_eq!(one.fw.counters(), other.fw.counters());
        prop_assert_eq!(one.fw.table_sizes().pit, other.fw.table_sizes().pit);
    }
}

#[test]
fn packets_of_removed_faces_are_counted() {
    let (bench, faces) = scene();
    let mut batch = Batch::new();
    (0..2).for_each(|i| {
        let packet = interest("/a/b").nonce([i as u8; 4]).build().into();
        batch.push(faces[i], Received::bare(packet)).unwrap();
    });
    bench.fw.face_release(faces[0]).unwrap();
    let mut sent = Sent::new();
    bench.fw.receive_batch(&mut batch, bench.now_ns, &mut sent);
    assert_eq!(crate::bench::faces(&sent), [faces[2]]);
    assert_eq!(bench.fw.counters().dropped(namely_forwarder::DropReason::UnknownFace), 1);
}

/// A full batch returns a further packet.
#[test]
fn a_full_batch_returns_the_packet() {
    let (bench, faces) = scene();
    let packet = |i: usize| -> Received<Packet> {
        Received::bare(interest("/a/b").nonce((i as u32).to_be_bytes()).build().into())
    };
    let mut batch = Batch::new();
    for i in 0..Batch::<Packet>::PACKETS_MAX {
        assert!(!batch.is_full());
        batch.push(faces[0], packet(i)).unwrap();
    }
    assert!(batch.is_full());
    let beyond = packet(Batch::<Packet>::PACKETS_MAX);
    assert_eq!(batch.push(faces[0], beyond.clone()), Err(beyond));
    assert_eq!(batch.len(), Batch::<Packet>::PACKETS_MAX);
    bench.fw.receive_batch(&mut batch, bench.now_ns, &mut Sent::new());
    assert_eq!(bench.fw.counters().packets.in_interests, Batch::<Packet>::PACKETS_MAX as u64);
    batch.push(faces[0], packet(0)).unwrap();
}

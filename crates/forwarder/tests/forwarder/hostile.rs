//! Packets of a hostile peer: no panic, no packet to a face without an Interest, no table beyond
//! its limit.

use proptest::prelude::*;

use crate::bench::*;
use namely_forwarder::{Config, CsLimits, DeadNonceLimits, FaceId, PitLimits, UnsolicitedPolicy};
use namely_wire::{LpHeaders, NackReason, PitToken};

#[derive(Clone, Debug)]
struct Hostile {
    face: usize,
    packet: Vec<u8>,
    headers: LpHeaders,
    passed_ms: u64,
}

/// Octets at random, or a good packet of a few names with some octets overwritten.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let names = prop_oneof![
        Just("/a"),
        Just("/a/b"),
        Just("/localhost/a"),
        Just("/localhop/a"),
        Just("/a/seg=1"),
        Just("/x/y/z")
    ];
    let good = (names, any::<[bool; 4]>(), 0u8..4).prop_map(|(uri, flags, nonce)| {
        if flags[0] {
            return data_with(uri, u64::from(nonce), &[nonce]).to_vec();
        }
        let mut builder = interest(uri).nonce([nonce; 4]).lifetime_ms(u64::from(nonce) * 20);
        if flags[1] {
            builder = builder.can_be_prefix().hop_limit(nonce);
        }
        if flags[2] {
            builder = builder.must_be_fresh().forwarding_hint(name("/a"));
        }
        if flags[3] {
            let without = namely_wire::InterestBuilder::new(name(uri)).can_be_prefix();
            return without.build();
        }
        builder.build()
    });
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let changed = (good, changes).prop_map(|(mut packet, changes)| {
        for (at, octet) in changes {
            let at = at.index(packet.len());
            packet[at] = octet;
        }
        packet
    });
    prop_oneof![1 => proptest::collection::vec(any::<u8>(), 0..200), 8 => changed]
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let token = proptest::option::of(proptest::collection::vec(any::<u8>(), 1..=32));
    let nack = proptest::option::weighted(0.2, 0u64..200);
    let fields = (proptest::option::of(0u64..300), proptest::option::of(0u64..3), any::<bool>());
    (0usize..5, packet(), token, nack, fields, 0u64..30).prop_map(
        |(face, packet, token, nack, fields, passed_ms)| {
            let headers = LpHeaders {
                pit_token: token.and_then(|octets| PitToken::new(&octets)),
                nack: nack.map(NackReason::from_number),
                next_hop_face_id: fields.0.filter(|_| fields.2),
                incoming_face_id: fields.0,
                cache_policy: fields.1,
                congestion_mark: fields.1,
                non_discovery: fields.2,
            };
            Hostile { face, packet, headers, passed_ms }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn hostile_packets_are_counted_and_bounded(
        packets in proptest::collection::vec(hostile(), 1..150),
        unsolicited in any::<bool>(),
    ) {
        let unsolicited = if unsolicited { UnsolicitedPolicy::AdmitAll } else { UnsolicitedPolicy::DropAll };
        let mut bench = Bench::with(Config { pit: PitLimits {
            entries_max: 8,  ..config().pit }, cs: CsLimits {
            entries_max: 9,  ..config().cs }, dead_nonces: DeadNonceLimits {
            entries_max: 4,  ..config().dead_nonces },
            regions: vec![name("/a/b")],
            unsolicited,
            ..config()
        });
        let app = bench.face(namely_forwarder::FaceProperties { local_fields: true, ..namely_forwarder::FaceProperties::application() });
        let all = [app, bench.app(), bench.remote(), bench.remote(), bench.group()];
        all.iter().zip(0..).for_each(|(face, cost)| bench.route("/a", *face, cost));
        bench.route("/x", FaceId::LOCAL, 0);
        bench.fw.bindings().bind(app, name("/x/y").as_name()).unwrap();
        bench.strategy("/a/b", "/multicast");
        for Hostile { face, packet, headers, passed_ms } in packets {
            bench.advance_ms(passed_ms);
            let sent = bench.receive_with(all[face], packet, headers);
            for (to, out) in &sent {
                prop_assert!(all.contains(to));
                let is_remote = to == &all[2] || to == &all[3] || to == &all[4];
                let is_of_this_host = out.packet.get(4..15) == Some(b"\x08\x09localhost");
                prop_assert!(!is_remote || !is_of_this_host);
            }
            bench.expire();
            let sizes = bench.fw.table_sizes();
            prop_assert!(sizes.pit <= 8 && sizes.dead_nonces <= 4);
            prop_assert!(bench.fw.cs().status().entries <= 9);
        }
        bench.advance_ms(4_000_000);
        prop_assert_eq!(bench.expire(), None);
        prop_assert_eq!(bench.fw.table_sizes().pit, 0);
    }
}

#[test]
fn unsolicited_data_leaves_no_trace() {
    let bench = Bench::new();
    let remote = bench.remote();
    (0..1000).for_each(|i| assert!(bench.receive(remote, data(&format!("/junk/{i}"))).is_empty()));
    assert_eq!(bench.dropped(namely_forwarder::DropReason::Unsolicited), 1000);
    assert_eq!((bench.fw.cs().status().packets, bench.fw.table_sizes().pit), (0, 0));
}

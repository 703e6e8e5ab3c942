//! Each limit of the data path at the limit and one past it. (Those of single tables are tested
//! with them.)

use crate::bench::*;
use namely_forwarder::{
    Batch, Config, DeadNonceLimits, DropReason, FaceProperties, FibError, FibLimits, Forwarder, OwnerId,
    PacketBuf, PitLimits, Received, RibError, RibLimits, StrategyLimits,
};
use namely_messages::{Route, RouteOrigin};
use namely_wire::{InterestBuilder, NackReason, PACKET_OCTETS_MAX};

#[test]
fn a_full_pit_refuses_new_interests() {
    let bench = Bench::with(Config { pit: PitLimits { entries_max: 3, ..config().pit }, ..config() });
    let (consumer, other, upstream) = (bench.app(), bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    for i in 0..3 {
        assert_eq!(faces(&bench.receive(consumer, interest(&format!("/a/{i}")).build())), [upstream]);
    }
    let sent = bench.receive_with(other, interest("/a/3").build(), token(&[5]));
    assert!(is_nack(&sent[0].1, NackReason::Congestion));
    assert_eq!(token_of(&sent[0].1), Some(vec![5]));
    assert_eq!(bench.dropped(DropReason::PitFull), 1);
    assert!(bench.receive(other, interest("/a/0").build()).is_empty(), "aggregation needs no new entry");
    assert_eq!(bench.receive(upstream, data("/a/0")).len(), 2);
    assert_eq!(faces(&bench.receive(other, interest("/a/3").build())), [upstream]);
}

#[test]
fn one_face_cannot_fill_the_pit() {
    let bench =
        Bench::with(Config { pit: PitLimits { entries_per_face_max: 2, ..config().pit }, ..config() });
    let (flooder, other, upstream) = (bench.remote(), bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    for i in 0..2 {
        assert_eq!(faces(&bench.receive(flooder, interest(&format!("/a/{i}")).build())), [upstream]);
    }
    let sent = bench.receive(flooder, interest("/a/2").build());
    assert!(is_nack(&sent[0].1, NackReason::Congestion));
    assert_eq!(bench.dropped(DropReason::PitFaceFull), 1);
    assert_eq!(faces(&bench.receive(other, interest("/a/2").build())), [upstream]);
    bench.receive(upstream, data("/a/0"));
    assert_eq!(faces(&bench.receive(flooder, interest("/a/3").build())), [upstream]);
}

/// Entries that a batch has reserved and not used count as in use, and are used before an Interest
/// is refused.
#[test]
fn a_batch_meets_pit_limits_exactly() {
    let limits = [(50, 1000, DropReason::PitFull), (1000, 50, DropReason::PitFaceFull)];
    for (pit_entries_max, pit_entries_per_face_max, refused) in limits {
        let bench = Bench::with(Config {
            pit: PitLimits {
                entries_max: pit_entries_max,
                entries_per_face_max: pit_entries_per_face_max,
                ..config().pit
            },
            ..config()
        });
        let (consumer, upstream) = (bench.app(), bench.remote());
        bench.route("/a", upstream, 0);
        let batch = |face, packets: Vec<Packet>| {
            let (mut batch, mut sent) = (Batch::new(), Sent::new());
            packets.into_iter().for_each(|packet| batch.push(face, Received::bare(packet)).unwrap());
            bench.fw.receive_batch(&mut batch, bench.now_ns, &mut sent);
            sent.len()
        };
        let ask = |names: std::ops::Range<i32>| {
            batch(consumer, names.map(|i| interest(&format!("/a/{i}")).build().into()).collect())
        };
        assert_eq!(ask(0..40), 40);
        assert_eq!((ask(40..49), bench.fw.table_sizes().pit, bench.dropped(refused)), (9, 49, 0));
        ask(49..51);
        assert_eq!((bench.fw.table_sizes().pit, bench.dropped(refused)), (50, 1));
        assert_eq!(batch(upstream, (0..5).map(|i| data(&format!("/a/{i}"))).collect()), 5);
        assert_eq!(bench.fw.table_sizes().pit, 45);
        ask(60..100);
        assert_eq!((bench.fw.table_sizes().pit, bench.dropped(refused)), (50, 36));
    }
}

#[test]
fn an_interest_takes_bounded_downstreams() {
    let bench = Bench::with(Config { pit: PitLimits { in_records_max: 2, ..config().pit }, ..config() });
    let (upstream, faces_in) = (bench.remote(), [bench.app(), bench.app(), bench.app()]);
    bench.route("/a", upstream, 0);
    bench.receive(faces_in[0], interest("/a").build());
    assert!(bench.receive(faces_in[1], interest("/a").build()).is_empty());
    let sent = bench.receive(faces_in[2], interest("/a").build());
    assert!(is_nack(&sent[0].1, NackReason::Congestion));
    assert_eq!(bench.dropped(DropReason::InRecordsFull), 1);
    assert_eq!(faces(&bench.receive(upstream, data("/a"))), faces_in[..2]);
}

#[test]
fn an_interest_reaches_bounded_upstreams() {
    let bench = Bench::with(Config { pit: PitLimits { out_records_max: 2, ..config().pit }, ..config() });
    let consumer = bench.app();
    let upstreams = [bench.remote(), bench.remote(), bench.remote()];
    bench.strategy("/", "/localhost/nfd/strategy/multicast");
    upstreams[..2].iter().for_each(|face| bench.route("/a", *face, 0));
    assert_eq!(faces(&bench.receive(consumer, interest("/a/1").build())), upstreams[..2]);
    assert_eq!(bench.dropped(DropReason::OutRecordsFull), 0);
    bench.route("/a", upstreams[2], 0);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/2").build())), upstreams[..2]);
    assert_eq!(bench.dropped(DropReason::OutRecordsFull), 1);
}

#[test]
fn a_lifetime_is_cut_to_the_limit() {
    for (asked_ms, kept_ms) in [(5_000, 5_000), (5_001, 5_000), (u64::MAX, 5_000), (0, 0)] {
        let pit = PitLimits { interest_lifetime_ms_max: 5_000, ..config().pit };
        let bench = Bench::with(Config { pit, ..config() });
        let (consumer, upstream) = (bench.app(), bench.remote());
        bench.route("/a", upstream, 0);
        bench.receive(consumer, interest("/a").lifetime_ms(asked_ms).build());
        let entry = bench.fw.pit().snapshot(1).remove(0);
        assert_eq!(entry.expires_at_ns, bench.now_ns + kept_ms * MS, "{asked_ms}");
    }
}

#[test]
fn a_neighbor_lifetime_is_cut_sooner() {
    for (asked_ms, kept_ms) in [(2_000, 2_000), (2_001, 2_000), (u64::MAX, 2_000)] {
        let pit = PitLimits { interest_lifetime_remote_ms_max: 2_000, ..config().pit };
        let bench = Bench::with(Config { pit, ..config() });
        let (neighbour, upstream) = (bench.remote(), bench.remote());
        bench.route("/a", upstream, 0);
        bench.receive(neighbour, interest("/a").lifetime_ms(asked_ms).build());
        let entry = bench.fw.pit().snapshot(1).remove(0);
        assert_eq!(entry.expires_at_ns, bench.now_ns + kept_ms * MS, "{asked_ms}");
    }
    assert_eq!(config().pit.interest_lifetime_remote_ms_max, 60_000);
}

#[test]
fn one_holder_cannot_fill_the_pit() {
    let bench =
        Bench::with(Config { pit: PitLimits { entries_per_holder_max: 3, ..config().pit }, ..config() });
    let join = |holder| bench.fw.face_register_for(FaceProperties::remote(), OwnerId(holder)).unwrap();
    let (one, two, other, upstream) = (join(1), join(1), join(2), bench.remote());
    bench.route("/a", upstream, 0);
    for (i, face) in [one, one, one].into_iter().enumerate() {
        assert_eq!(faces(&bench.receive(face, interest(&format!("/a/{i}")).build())), [upstream]);
    }
    let sent = bench.receive(two, interest("/a/3").build());
    assert!(is_nack(&sent[0].1, NackReason::Congestion));
    assert_eq!(bench.dropped(DropReason::PitOwnerFull), 1);
    assert_eq!(faces(&bench.receive(other, interest("/a/3").build())), [upstream]);
}

#[test]
fn a_packet_past_the_limit_is_dropped() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    let overhead = data_with("/a", 0, &[0; 8000]).len() - 8000;
    bench.receive(consumer, interest("/a").build());
    let beyond = data_with("/a", 0, &vec![0; PACKET_OCTETS_MAX + 1 - overhead]);
    assert_eq!(beyond.len(), PACKET_OCTETS_MAX + 1);
    assert!(bench.receive(upstream, beyond).is_empty());
    assert_eq!(bench.dropped(DropReason::TooLarge), 1);
    let most = data_with("/a", 0, &vec![0; PACKET_OCTETS_MAX - overhead]);
    assert_eq!(faces(&bench.receive(upstream, most)), [consumer]);
}

#[test]
fn names_past_the_component_limit_are_dropped() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/", upstream, 0);
    let most = namely_wire::COMPONENTS_MAX;
    let uri = "/x".repeat(most);
    assert_eq!(faces(&bench.receive(consumer, interest(&uri).build())), [upstream]);
    assert_eq!(faces(&bench.receive(upstream, data(&uri))), [consumer]);
    let long = name(&uri).join_generic("x");
    let beyond = namely_wire::InterestBuilder::new(long).nonce(nonce()).build();
    assert!(bench.receive(consumer, beyond).is_empty());
    let huge = (0..2000).fold(name("/"), |name, _| name.join_generic("x"));
    assert!(
        bench.receive(consumer, namely_wire::InterestBuilder::new(huge).nonce(nonce()).build()).is_empty()
    );
    assert_eq!(bench.dropped(DropReason::Malformed), 2);
}

#[test]
fn route_limits_are_reported_to_callers() {
    let bench = Bench::with(Config {
        fib: FibLimits { entries_max: 2, nexthops_max: 1 },
        rib: RibLimits { routes_max: 3, ..config().rib },
        ..config()
    });
    let (one, other) = (bench.remote(), bench.remote());
    assert_eq!(bench.fw.rib_register(&name("/a"), &route_to(one), bench.now_ns), Ok(()));
    assert_eq!(bench.fw.rib_register(&name("/b"), &route_to(one), bench.now_ns), Ok(()));
    let full = RibError::Fib(FibError::TableFull);
    assert_eq!(bench.fw.rib_register(&name("/c"), &route_to(one), bench.now_ns), Err(full));
    let hops = RibError::Fib(FibError::NextHopsFull);
    assert_eq!(bench.fw.rib_register(&name("/a"), &route_to(other), bench.now_ns), Err(hops));
    let second = Route { origin: RouteOrigin(1), ..route_to(one) };
    assert_eq!(bench.fw.rib_register(&name("/a"), &second, bench.now_ns), Ok(()));
    let third = Route { origin: RouteOrigin(2), ..route_to(one) };
    assert_eq!(bench.fw.rib_register(&name("/a"), &third, bench.now_ns), Err(RibError::TableFull));
}

#[test]
fn strategy_choices_end_at_their_limit() {
    let bench = Bench::with(Config {
        strategies: StrategyLimits { choices_max: 2, ..config().strategies },
        ..config()
    });
    let multicast = name("/multicast");
    let set = |uri: &str| bench.fw.strategies().set(name(uri).as_name(), multicast.as_name()).is_ok();
    assert!(set("/") && set("/a") && set("/a"));
    assert!(!set("/b"));
}

#[test]
fn strategy_memory_ends_at_its_limits() {
    let mut bench = Bench::with(Config {
        strategies: StrategyLimits { prefixes_max: 2, faces_max: 1, ..config().strategies },
        ..config()
    });
    let (consumer, hops) = (bench.app(), [bench.remote(), bench.remote()]);
    bench.strategy("/", "/localhost/nfd/strategy/asf");
    ["/a", "/b", "/c"].iter().for_each(|prefix| bench.route(prefix, hops[0], 0));
    let full = |bench: &Bench| bench.fw.counters().strategy_memory_full;
    for uri in ["/a/1", "/b/1"] {
        assert_eq!(faces(&bench.receive(consumer, interest(uri).build())), [hops[0]]);
    }
    assert_eq!((bench.fw.table_sizes().strategy_prefixes, full(&bench)), (2, 0));
    assert_eq!(faces(&bench.receive(consumer, interest("/c/1").build())), [hops[0]]);
    assert_eq!((bench.fw.table_sizes().strategy_prefixes, full(&bench)), (2, 1));
    // The second face of the prefix has no record, but the retransmission is sent there.
    bench.route("/a", hops[1], 1);
    bench.advance_ms(20);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/1").build())), [hops[1]]);
    assert_eq!(full(&bench), 2);
}

/// Half a million pending names are refused one by one; memory stays at the limit.
#[test]
fn a_flood_leaves_tables_at_their_limits() {
    let limit = 500;
    let mut bench = Bench::with(Config {
        pit: PitLimits { entries_max: limit, ..config().pit },
        dead_nonces: DeadNonceLimits { entries_max: limit, ..config().dead_nonces },
        ..config()
    });
    let (flooder, upstream) = (bench.group(), bench.remote());
    bench.route("/a", upstream, 0);
    for i in 0..20 * limit {
        bench.receive(flooder, interest(&format!("/a/{i}")).lifetime_ms(50).build());
        if i % 100 == 0 {
            bench.advance_ms(10);
            bench.expire();
        }
        let sizes = bench.fw.table_sizes();
        assert!(sizes.pit <= limit && sizes.dead_nonces <= limit);
    }
    assert!(bench.dropped(DropReason::PitFull) > 0);
    bench.advance_ms(1000);
    assert_eq!(bench.expire(), None);
    assert_eq!(bench.fw.table_sizes().pit, 0);
}

#[test]
fn a_burst_of_deadlines_ends_in_turns() {
    let per_turn = 512;
    let mut bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    for i in 0..=per_turn {
        bench.receive(consumer, interest(&format!("/a/{i}")).lifetime_ms(100).build());
    }
    bench.advance_ms(200);
    assert!(bench.expire().is_some_and(|next_ns| next_ns <= bench.now_ns));
    assert_eq!(bench.fw.table_sizes().pit, 1);
    assert!(bench.expire().is_none_or(|next_ns| next_ns > bench.now_ns), "memory goes later");
    assert_eq!(bench.fw.table_sizes().pit, 0);
}

#[test]
fn simultaneous_route_expiry_takes_turns() {
    let per_turn = 64;
    let mut bench = Bench::new();
    let route = Route { expiration_period_ms: Some(10), ..route_to(bench.remote()) };
    for i in 0..=per_turn {
        bench.fw.rib_register(&name("/a").join_segment(i), &route, bench.now_ns).unwrap();
    }
    bench.advance_ms(10);
    assert!(bench.expire().is_some_and(|next_ns| next_ns <= bench.now_ns));
    assert_eq!(bench.fw.rib_len(), 1);
    assert_eq!((bench.expire(), bench.fw.rib_len()), (None, 0));
}

#[test]
fn interests_of_removed_faces_end_in_turns() {
    let per_turn = 512;
    let bench = Bench::new();
    let (gone, upstream) = (bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    for i in 0..=per_turn {
        bench.receive(gone, interest(&format!("/a/{i}")).lifetime_ms(u64::MAX).build());
    }
    bench.fw.face_release(gone).unwrap();
    assert!(bench.expire().is_some_and(|next_ns| next_ns <= bench.now_ns), "the rest at once");
    assert_eq!(bench.fw.table_sizes().pit, 1);
    bench.expire();
    assert_eq!(bench.fw.table_sizes().pit, 0);
}

/// A packet of an embedder that has no free buffers.
#[derive(Clone, Debug)]
struct Scarce(Vec<u8>);

impl AsRef<[u8]> for Scarce {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PacketBuf for Scarce {
    fn build(_: usize, _: impl FnOnce(&mut [u8])) -> Option<Self> {
        None
    }
}

#[test]
fn an_amended_interest_needs_a_buffer() {
    let config = Config { regions: vec![name("/region")], ..config() };
    let fw = Forwarder::<Scarce, parking_lot::RawMutex>::new(config, 1).unwrap();
    let consumer = fw.face_register(FaceProperties::application()).unwrap();
    let upstream = fw.face_register(FaceProperties::remote()).unwrap();
    fw.fib().add_nexthop(name("/a").as_name(), upstream, 0).unwrap();
    let sent = |builder: InterestBuilder| {
        let mut sent = Vec::new();
        fw.receive(consumer, Received::bare(Scarce(builder.build())), 1, &mut sent);
        sent.len()
    };
    let hinted = |uri: &str| InterestBuilder::new(name(uri)).forwarding_hint(name("/region"));
    for (dropped, builder) in
        [InterestBuilder::new(name("/a/1")), hinted("/a/2"), hinted("/a/3").nonce([1; 4])]
            .into_iter()
            .enumerate()
    {
        assert_eq!(sent(builder), 0);
        let counters = fw.counters();
        assert_eq!(counters.drops[DropReason::NoBuffer as usize], dropped as u64 + 1);
        assert_eq!(fw.table_sizes().pit, 0);
    }
    assert_eq!(sent(InterestBuilder::new(name("/a/1")).nonce([1; 4])), 1, "nothing else changed");
}

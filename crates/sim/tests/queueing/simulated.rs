//! The predictions of equation 7 for a router, compared with the simulator's router with a modeled
//! disk: its own forwarder, and behind it a disk that reads at a rate.

use namely_sim::queueing::{Rates, Router, Shares, Stage};
use namely_sim::{
    Catalogue, DiskSpec, LinkSpec, Load, Network, Packet, Processing, Producer, RouterSpec, SECOND,
};
use namely_wire::{DataBuilder, Name, SignatureInfo};

/// Time of a request to the disk, and of an Interest for Data that is not on it, ns.
const READ_NS: u64 = 200_000;
const ABSENT_NS: u64 = 20_000;

/// Number of Data, each of which is requested once.
const NAMES: u64 = 4_000;

/// Data a second for `offered` Interests a second. Of four Interests, `hits` are for Data on the
/// disk and the others for Data upstream.
fn throughput(disk: DiskSpec, hits: u64, offered: f64) -> f64 {
    let mut network = Network::new(1);
    let near = network.add_router(RouterSpec {
        cs_packets_max: 0,
        pit_entries_max: 32_768,
        pit_entries_per_face_max: 32_768,
        disk: Some(disk),
        ..RouterSpec::default()
    });
    let far = network.add_router(RouterSpec { cs_packets_max: 0, ..RouterSpec::default() });
    let link = LinkSpec {
        rate_bps: 100_000_000_000,
        delay_ns: 10_000,
        queue_octets_max: 1 << 30,
        codel: None,
        ..LinkSpec::default()
    };
    network.connect(near, far, link);
    let (on_disk, upstream): (Name, Name) = ("/disk".parse().unwrap(), "/far".parse().unwrap());
    for prefix in [&on_disk, &upstream] {
        network.announce(prefix, far);
    }
    network.attach(far, Box::new(Producer::new(upstream.clone(), 100)));
    let name = |n: u64| {
        let prefix = if n * 7 % 4 < hits { &on_disk } else { &upstream };
        prefix.join_generic(format!("{n}"))
    };
    let names: Vec<Name> = (0..NAMES).map(name).collect();
    let data = |name: &Name| -> Packet {
        DataBuilder::new(name.as_name()).build(&[], &SignatureInfo::null()).finish(&[]).into()
    };
    network.store(near, names.iter().filter(|name| on_disk.as_name().is_prefix_of(name.as_name())).map(data));
    let consumer = network.attach(near, Box::new(Catalogue::new(names, Load::Rate(offered as u64))));
    network.run_until(30 * SECOND);
    let consumer: &Catalogue = network.behaviour(consumer).unwrap();
    assert_eq!(consumer.data, NAMES, "all came in the end");
    consumer.throughput()
}

/// A disk without a bypass.
fn disk(blocking: bool, threads: usize) -> DiskSpec {
    DiskSpec {
        read_ns: READ_NS,
        threads,
        threshold: usize::MAX,
        bypasses: false,
        pending_max: usize::MAX,
        packets_max: usize::MAX,
        writes: false,
        blocking,
        processing: Processing { absent_ns: ABSENT_NS, ..Processing::default() },
        ..DiskSpec::default()
    }
}

/// The router's bound with its content store as the only stage that takes time.
fn predicted(seconds_per_interest: f64, cs_hit: f64) -> f64 {
    let rates = Rates { cs_lookup: 1.0 / seconds_per_interest, ..Rates::default() };
    let (stage, most) = Router::new(rates, Shares { cs_hit, ..Shares::default() }).unwrap().bottleneck();
    assert_eq!(stage, Stage::CsLookup);
    most
}

fn check(disk: DiskSpec, hits: u64, most: f64) {
    for (share, expected) in [(0.5, 0.5), (0.95, 0.95), (1.05, 1.0), (3.0, 1.0)] {
        let measured = throughput(disk, hits, share * most) / most;
        assert!((measured - expected).abs() < 0.02, "{hits} of 4, {share}: {measured} of {most}");
    }
}

/// `NB-02`.
#[test]
fn a_blocking_router_has_the_predicted_knee() {
    for hits in [1, 2, 3] {
        let cs_hit = hits as f64 / 4.0;
        let seconds = (cs_hit * READ_NS as f64 + (1.0 - cs_hit) * ABSENT_NS as f64) / 1e9;
        check(disk(true, 1), hits, predicted(seconds, cs_hit));
    }
}

/// `NB-02`: Interests for Data that is not on the disk do not wait for it, so that only hits count.
#[test]
fn a_nonblocking_router_has_the_predicted_knee() {
    for threads in [1, 4] {
        let seconds = 0.75 * READ_NS as f64 / threads as f64 / 1e9;
        check(disk(false, threads), 3, predicted(seconds, 0.75));
    }
}

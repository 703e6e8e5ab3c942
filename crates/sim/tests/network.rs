//! The simulator itself: its runs are repeatable, its links have the specified rate, delay and
//! loss, and a thousand routers fit.

use crate::common;

use std::time::Instant;

use namely_forwarder::{FaceId, Received};
use namely_sim::table::Table;
use namely_sim::{
    Behaviour, ConstantRate, Context, FileFetch, LinkSpec, MS, Network, NodeId, Packet, Producer, Random,
    RouterSpec, SECOND,
};
use namely_transport::congestion::Algorithm;
use namely_transport::fetch::Options;
use namely_wire::Name;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Two routers, a link, and a fetch of `pieces` over it.
fn fetch_over(seed: u64, spec: LinkSpec, pieces: u64) -> (Network, namely_sim::AppId, namely_sim::LinkEndId) {
    let mut network = Network::new(seed);
    let (near, far) = (network.add_router(RouterSpec::default()), network.add_router(RouterSpec::default()));
    let data = network.connect(far, near, spec);
    network.announce(&name("/f"), far);
    network.attach(far, Box::new(Producer::new(name("/f"), 1000)));
    let options = Options { congestion: Algorithm::Cubic, ..Options::default() };
    let fetch = network.attach(near, Box::new(FileFetch::new(name("/f"), options, 0).of_pieces(pieces)));
    network.trace();
    (network, fetch, data)
}

#[test]
fn equal_seeds_give_the_same_packet_trace() {
    let spec = LinkSpec {
        rate_bps: 20_000_000,
        loss_ppm: 20_000,
        reordered_ppm: 50_000,
        reordered_by_ns: 3 * MS,
        mtu_octets: 600,
        reliability: true,
        queue_octets_max: 60_000,
        ..LinkSpec::default()
    };
    let run = |seed| {
        let (mut network, fetch, data) = fetch_over(seed, spec, 500);
        network.run_until(20 * SECOND);
        let fetch: &FileFetch = network.behaviour(fetch).unwrap();
        assert!(fetch.done_ns.is_some(), "{:?}", fetch.counters());
        let counts = network.link_counts(data);
        assert!(counts.lost > 0 && counts.reordered > 0, "{counts:?}");
        (network.trace_digest(), network.events(), fetch.done_ns, counts)
    };
    let once = run(5);
    assert_eq!(run(5), once);
    assert_ne!(run(6).0, once.0);
}

#[test]
fn a_node_depends_on_no_distant_node() {
    let run = |is_busy: bool| {
        let mut network = Network::new(4);
        let nodes = [(); 4].map(|()| network.add_router(RouterSpec::default()));
        let spec = LinkSpec { loss_ppm: 50_000, ..LinkSpec::default() };
        let link = network.connect(nodes[0], nodes[1], spec);
        network.connect(nodes[2], nodes[3], spec);
        for (prefix, at) in [("/a", nodes[1]), ("/b", nodes[3])] {
            network.announce(&name(prefix), at);
            network.attach(at, Box::new(Producer::new(name(prefix), 100)));
        }
        let consumer = network.attach(nodes[0], Box::new(ConstantRate::new(name("/a"), 100)));
        if is_busy {
            network.attach(nodes[2], Box::new(ConstantRate::new(name("/b"), 700)));
        }
        network.run_until(5 * SECOND);
        let consumer: &ConstantRate = network.behaviour(consumer).expect("a consumer");
        (consumer.data, consumer.rtt_ns.max(), network.link_counts(link))
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn reordering_causes_no_retransmission_on_reliable_links() {
    let reorders = LinkSpec {
        rate_bps: 20_000_000,
        delay_ns: 5 * MS,
        reordered_ppm: 50_000,
        reordered_by_ns: 2 * MS,
        mtu_octets: 300,
        reliability: true,
        codel: None,
        ..LinkSpec::default()
    };
    for loss_ppm in [0, 20_000] {
        let (mut network, fetch, data) = fetch_over(5, LinkSpec { loss_ppm, ..reorders }, 500);
        network.run_until(20 * SECOND);
        let fetch: &FileFetch = network.behaviour(fetch).unwrap();
        assert!(fetch.done_ns.is_some(), "{:?}", fetch.counters());
        let counts = network.link_counts(data);
        assert!(counts.reordered > 80, "{counts:?}");
        let back = network.link_counts(network.reverse(data));
        if loss_ppm == 0 {
            assert_eq!((counts.again, back.again, counts.refused, back.refused), (0, 0, 0, 0));
        } else {
            // A frame is sent again if it, or only its acknowledgement, was lost. A frame of the
            // way back has some four acknowledgements.
            let most = counts.lost + 8 * back.lost;
            assert!((counts.lost..most).contains(&counts.again), "{counts:?} {back:?}");
        }
    }
}

#[test]
fn a_link_has_its_rate_delay_and_queue() {
    // 8 Mbit/s: an octet takes a microsecond.
    let spec =
        LinkSpec { rate_bps: 8_000_000, delay_ns: 10 * MS, queue_octets_max: 5_000, ..LinkSpec::default() };
    let mut network = Network::new(1);
    let (near, far) = (network.add_router(RouterSpec::default()), network.add_router(RouterSpec::default()));
    let data = network.connect(far, near, spec);
    network.announce(&name("/p"), far);
    network.attach(far, Box::new(Producer::new(name("/p"), 1000)));
    let consumer = network.attach(near, Box::new(ConstantRate::new(name("/p"), 10)));
    network.run_until(SECOND);
    let counts = network.link_counts(data);
    let octets = counts.octets / counts.frames;
    let rtt_ns = network.behaviour::<ConstantRate>(consumer).unwrap().rtt_ns.mean() as u64;
    // The delay of both ways, and the octets of the Data and of an Interest.
    assert!((20 * MS + octets * 1_000..20 * MS + octets * 1_000 + 80_000).contains(&rtt_ns), "{rtt_ns} ns");

    // Interests at twice the rate of the link. Beside the Data being sent the queue has room for
    // four Data. The rest is dropped.
    network.attach(near, Box::new(ConstantRate::new(name("/p/more"), 2_000)));
    network.watch(data);
    network.run_until(3 * SECOND);
    let counts = network.link_counts(data);
    assert!(counts.queue_full > 1_500, "{counts:?}");
    let wait_us_max = network.waits_us(data).unwrap().max();
    assert!((4 * octets - 50..5 * octets).contains(&wait_us_max), "{wait_us_max} us");
    let busy = (counts.octets as f64) / 3e6;
    assert!((0.6..0.7).contains(&busy), "two seconds of three are busy: {busy}");
}

#[test]
fn a_standing_queue_marks_packets() {
    let spec = LinkSpec { rate_bps: 100_000_000, queue_octets_max: 1 << 20, ..LinkSpec::default() };
    let (mut network, fetch, data) = fetch_over(3, spec, 20_000);
    network.run_until(5 * SECOND);
    let marked = network.link_counts(data).marked;
    let counters = network.behaviour::<FileFetch>(fetch).unwrap().counters();
    assert!(marked > 0 && counters.marks == marked, "{marked} {counters:?}");
    let (mut network, _, data) = fetch_over(3, LinkSpec { codel: None, ..spec }, 20_000);
    network.run_until(5 * SECOND);
    assert_eq!(network.link_counts(data).marked, 0);
}

#[test]
fn a_fetch_ends_with_its_last_piece() {
    let (mut network, fetch, _) = fetch_over(3, LinkSpec::default(), 300);
    network.run_until(60 * SECOND);
    let fetch: &FileFetch = network.behaviour(fetch).unwrap();
    assert_eq!((fetch.counters().data, fetch.failure()), (300, None));
    assert!(fetch.done_ns.is_some_and(|done_ns| done_ns < SECOND), "{:?}", fetch.done_ns);
    assert!(network.events() < 3_000, "{}", network.events());
}

/// Moves the route of a prefix from one face to another after a second.
struct Reroute {
    prefix: Name,
    from: FaceId,
    to: FaceId,
}

impl Behaviour for Reroute {
    fn start(&mut self, context: &mut Context<'_>) {
        context.wake_at(SECOND);
    }

    fn receive(&mut self, _: &Received<Packet>, _: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        let forwarder = context.forwarder();
        forwarder.fib().add_nexthop(self.prefix.as_name(), self.to, 0).unwrap();
        assert!(forwarder.fib().remove_nexthop(self.prefix.as_name(), self.from));
    }
}

#[test]
fn a_custom_behavior_may_change_routes() {
    let mut network = Network::new(1);
    let [near, far] = [(); 2].map(|()| network.add_router(RouterSpec::default()));
    let fast = network.connect(near, far, LinkSpec::default());
    let slow = network.connect(near, far, LinkSpec { delay_ns: 30 * MS, ..LinkSpec::default() });
    network.announce(&name("/p"), far);
    network.attach(far, Box::new(Producer::new(name("/p"), 100)));
    let consumer = network.attach(near, Box::new(ConstantRate::new(name("/p"), 100)));
    let (from, to) = (network.link_end_face(fast), network.link_end_face(slow));
    network.attach(near, Box::new(Reroute { prefix: name("/p"), from, to }));
    network.run_until(SECOND - 1);
    assert_eq!(network.link_counts(slow).frames, 0);
    let before = network.link_counts(fast).frames;
    network.run_until(2 * SECOND);
    assert_eq!(network.link_counts(fast).frames, before);
    assert!((99..=101).contains(&network.link_counts(slow).frames));
    let rtt_ns_max = network.behaviour::<ConstantRate>(consumer).unwrap().rtt_ns.max();
    assert!(rtt_ns_max > 59 * MS, "{rtt_ns_max}");
}

/// A network of `count` routers: each joins one that is there already, and half as many links are
/// added at random.
fn random_network(seed: u64, count: usize) -> (Network, Vec<NodeId>) {
    let mut network = Network::new(seed);
    let mut random = Random::new(seed);
    let spec =
        RouterSpec { cs_packets_max: 64, pit_entries_max: 1024, faces_max: 60, ..RouterSpec::default() };
    let nodes: Vec<NodeId> = (0..count).map(|_| network.add_router(spec)).collect();
    let link = |network: &mut Network, a: u64, b: u64, random: &mut Random| {
        let delay_ns = MS + random.below(9 * MS);
        network.connect(nodes[a as usize], nodes[b as usize], LinkSpec { delay_ns, ..LinkSpec::default() });
    };
    for node in 1..count as u64 {
        let other = random.below(node);
        link(&mut network, node, other, &mut random);
    }
    for _ in 0..count / 2 {
        let a = random.below(count as u64 - 1);
        let b = a + 1 + random.below(count as u64 - a - 1);
        link(&mut network, a, b, &mut random);
    }
    (network, nodes)
}

#[test]
fn a_thousand_routers_serve_a_thousand_consumers() {
    let began = Instant::now();
    let (mut network, nodes) = random_network(11, 1000);
    let producers = 10;
    for producer in 0..producers {
        let prefix = name(&format!("/site-{producer}"));
        let node = nodes[producer * 97];
        network.announce(&prefix, node);
        network.attach(node, Box::new(Producer::new(prefix, 1000)));
    }
    let consumers: Vec<_> = nodes
        .iter()
        .map(|node| {
            let prefix = name(&format!("/site-{}", node.index() % producers));
            network.attach(*node, Box::new(ConstantRate::new(prefix, 10).from_catalogue(50)))
        })
        .collect();
    let built = began.elapsed();
    network.run_until(SECOND);
    let took = began.elapsed() - built;
    println!(
        "1,000 routers, 1,000 consumers, 1 s: {} events in {:.2} s, {:.0} events/s; built in {:.2} s",
        network.events(),
        took.as_secs_f64(),
        network.events() as f64 / took.as_secs_f64(),
        built.as_secs_f64(),
    );
    let consumers = consumers.iter().filter_map(|id| network.behaviour::<ConstantRate>(*id));
    let (mut interests, mut data, mut nacks, mut rtt_ms) = (0, 0, 0, 0.0);
    for consumer in consumers {
        interests += consumer.interests;
        data += consumer.data;
        nacks += consumer.nacks;
        rtt_ms += consumer.rtt_ns.mean() * consumer.rtt_ns.len() as f64 / 1e6;
    }
    let counters = nodes.iter().map(|node| network.router(*node).counters());
    let (mut hits, mut drops) = (0, 0);
    for (node, counters) in nodes.iter().zip(counters) {
        hits += network.router(*node).cs().status().hits;
        drops += counters.drops.iter().sum::<u64>();
    }
    let mut table = Table::new(&["a thousand routers, one second", ""]);
    for (what, value) in [
        ("events", network.events().to_string()),
        ("Interests of consumers", interests.to_string()),
        ("answered", data.to_string()),
        ("refused", nacks.to_string()),
        ("mean round trip, ms", format!("{:.2}", rtt_ms / data as f64)),
        ("answered by caches", hits.to_string()),
        ("dropped by routers", drops.to_string()),
    ] {
        table.row([what.into(), value]);
    }
    common::snapshot("thousand-routers", &table.text());
    assert!(data > 9_000 && nacks == 0, "{}", table.text());
}

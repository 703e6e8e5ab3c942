//! Neighbor discovery among simulated routers: the state machine of the daemon, with faces and
//! routes that carry traffic here.

use crate::common;

use namely_discovery::{Config, Counter, Note};
use namely_sim::table::Table;
use namely_sim::{
    AppId, ConstantRate, LinkEndId, LinkSpec, MS, Network, NodeId, Producer, RouterSpec, SECOND,
};
use namely_wire::Name;

/// Time between two hellos.
const HEARTBEAT_NS: u64 = 3 * SECOND;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn announcing(prefixes: &[&str]) -> Config {
    Config { prefixes: prefixes.iter().map(|prefix| name(prefix)).collect(), ..Config::default() }
}

fn open() -> Config {
    Config { open: true, ..Config::default() }
}

/// A link of 100 Mbit/s and 0.1 ms, with the octets that Ethernet adds.
fn ethernet() -> LinkSpec {
    LinkSpec {
        rate_bps: 100_000_000,
        delay_ns: MS / 10,
        overhead_octets: 14,
        mtu_octets: 1500,
        ..LinkSpec::default()
    }
}

/// The same link over some distance.
fn far() -> LinkSpec {
    LinkSpec { delay_ns: 5 * MS, ..ethernet() }
}

/// Routers on one segment, with their devices down.
struct Segment {
    network: Network,
    nodes: Vec<NodeId>,
    ports: Vec<LinkEndId>,
}

impl Segment {
    fn new(seed: u64, count: usize, link: LinkSpec) -> Self {
        let mut network = Network::new(seed);
        // Many routers have few entries each.
        let pit_entries_max = if count > 10 { 256 } else { 4096 };
        let spec = RouterSpec {
            faces_max: count + 16,
            pit_entries_max,
            pit_entries_per_face_max: pit_entries_max,
            cs_packets_max: 0,
            ..RouterSpec::default()
        };
        let nodes: Vec<NodeId> = (0..count).map(|_| network.add_router(spec)).collect();
        let ports = network.share(&nodes, link);
        for port in &ports {
            network.set_device_at(0, *port, false);
        }
        network.run_until(0);
        Segment { network, nodes, ports }
    }

    /// Enables discovery on all ports, on the first ones with `configs`.
    fn discover(&mut self, configs: impl IntoIterator<Item = Config>) {
        let configs = configs.into_iter().chain(std::iter::repeat(Config::default()));
        for (port, config) in self.ports.iter().zip(configs) {
            self.network.discover(*port, config);
        }
    }

    fn up(&mut self, n: usize) {
        let now_ns = self.network.now_ns();
        self.network.set_device_at(now_ns, self.ports[n], true);
        self.network.run_until(now_ns);
    }

    fn run(&mut self, for_ns: u64) {
        self.network.run_until(self.network.now_ns() + for_ns);
    }

    fn proven(&self, n: usize) -> usize {
        self.network.neighbours_proven(self.nodes[n])
    }

    /// Returns the time until `is_so`, which is checked ten times a millisecond.
    fn time_until(&mut self, most_ns: u64, is_so: impl Fn(&Segment) -> bool) -> u64 {
        let begin_ns = self.network.now_ns();
        while !is_so(self) {
            assert!(self.network.now_ns() < begin_ns + most_ns, "it is not so after {most_ns} ns");
            self.run(MS / 10);
        }
        self.network.now_ns() - begin_ns
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{}.{} ms", ns / MS, ns % MS / (MS / 10))
}

#[test]
fn a_simulated_neighbor_is_usable_within_100_ms() {
    let mut segment = Segment::new(5, 3, ethernet());
    segment.network.set_mtu(segment.ports[1], 500);
    segment.discover([open(), announcing(&["/p"])]);
    let (nodes, ports) = (segment.nodes.clone(), segment.ports.clone());
    segment.network.attach(nodes[1], Box::new(Producer::new(name("/p"), 2000)));
    (0..2).for_each(|n| segment.up(n));
    let took_ns = segment.time_until(100 * MS, |segment| segment.proven(0) == 1 && segment.proven(1) == 1);
    assert!(took_ns < 100 * MS, "{took_ns}");
    let (face, mtu) = segment.network.face_towards(ports[0], ports[1]).expect("a face");
    assert_eq!(mtu, 500);
    let fib = segment.network.router(nodes[0]).fib().snapshot();
    let hop = fib.iter().find(|entry| entry.prefix == name("/p")).expect("a route");
    assert_eq!(hop.next_hops.iter().map(|hop| hop.face_id).collect::<Vec<_>>(), [face.0]);
    // It carries traffic, in frames that the other one accepts.
    let consumer = segment.network.attach(nodes[0], Box::new(ConstantRate::new(name("/p"), 100)));
    segment.run(SECOND);
    let measured: &ConstantRate = segment.network.behaviour(consumer).expect("a consumer");
    assert!(measured.data >= 98 && measured.nacks == 0, "{} of {}", measured.data, measured.interests);
    // Another MTU reaches the neighbor at once, and a further router comes.
    segment.network.set_mtu(ports[1], 1400);
    segment.run(100 * MS);
    assert_eq!(segment.network.face_towards(ports[0], ports[1]).map(|(_, mtu)| mtu), Some(1400));
    segment.up(2);
    segment.run(100 * MS);
    assert_eq!([0, 1, 2].map(|n| segment.proven(n)), [2, 2, 2]);
    assert!(segment.network.router(nodes[2]).fib().snapshot().is_empty(), "no rule, no route");
}

/// A consumer, and two neighbors that announce its prefix.
fn two_producers(strategy: &str, per_second: u64) -> (Segment, AppId) {
    let mut segment = Segment::new(9, 3, far());
    segment.discover([open(), announcing(&["/p"]), announcing(&["/p"])]);
    let nodes = segment.nodes.clone();
    let router = segment.network.router(nodes[0]);
    router.strategies().set(name("/").as_name(), name(strategy).as_name()).expect("a strategy");
    for node in &nodes[1..] {
        segment.network.attach(*node, Box::new(Producer::new(name("/p"), 1000)));
    }
    (0..3).for_each(|n| segment.up(n));
    segment.run(200 * MS);
    assert_eq!(segment.proven(0), 2);
    let consumer = segment.network.attach(nodes[0], Box::new(ConstantRate::new(name("/p"), per_second)));
    segment.run(2 * SECOND);
    (segment, consumer)
}

/// The one of the two that the consumer's Interests go to.
fn used(segment: &mut Segment) -> usize {
    let octets = |segment: &Segment| [1, 2].map(|n| segment.network.carried(segment.ports[n]).octets);
    let before = octets(segment);
    segment.run(SECOND);
    let after = octets(segment);
    if after[0] - before[0] > after[1] - before[1] { 1 } else { 2 }
}

fn received(segment: &Segment, consumer: AppId) -> u64 {
    segment.network.behaviour::<ConstantRate>(consumer).expect("a consumer").data
}

/// The longest time without Data until `until_ns`.
fn longest_gap_ns(segment: &mut Segment, consumer: AppId, until_ns: u64) -> u64 {
    let (mut seen, mut since_ns, mut longest_ns) = (received(segment, consumer), segment.network.now_ns(), 0);
    while segment.network.now_ns() < until_ns {
        segment.run(MS / 20);
        let (now, now_ns) = (received(segment, consumer), segment.network.now_ns());
        if now != seen {
            longest_ns = longest_ns.max(now_ns - since_ns);
            (seen, since_ns) = (now, now_ns);
        }
    }
    longest_ns
}

fn round_trip_ns(segment: &Segment, consumer: AppId) -> u64 {
    segment.network.behaviour::<ConstantRate>(consumer).expect("a consumer").rtt_ns.mean() as u64
}

#[test]
fn a_dead_simulated_neighbor_is_withdrawn() {
    let (mut segment, consumer) = two_producers("/localhost/nfd/strategy/best-route", 1000);
    let (ports, nodes) = (segment.ports.clone(), segment.nodes.clone());
    let dead = used(&mut segment);
    let round_trip_ns = round_trip_ns(&segment, consumer);
    let died_ns = segment.network.now_ns();
    segment.network.set_up_at(died_ns, ports[dead], false);
    let took_ns = segment.time_until(3 * HEARTBEAT_NS, |segment| segment.proven(0) == 1);
    assert!(took_ns > 2 * HEARTBEAT_NS, "who is only silent stays: {took_ns}");
    assert_eq!(segment.network.face_towards(ports[0], ports[dead]), None);
    let withdrawn_ns = segment.network.now_ns();
    let before = received(&segment, consumer);
    segment.time_until(SECOND, |segment| received(segment, consumer) > before);
    let gap_ns = segment.network.now_ns() - withdrawn_ns;
    // The next Interest is due within a millisecond.
    assert!(gap_ns <= MS + round_trip_ns + MS / 10, "{gap_ns} with a round trip of {round_trip_ns}");
    let notes = segment.network.discovery_notes(nodes[0]);
    assert!(matches!(notes.last(), Some((_, _, Note::Expired))), "{notes:?}");
}

/// ASF uses the other nexthop before the withdrawal.
#[test]
fn asf_leaves_a_dead_neighbor_before_withdrawal() {
    let (mut segment, consumer) = two_producers("/localhost/nfd/strategy/asf", 1000);
    let dead = used(&mut segment);
    let round_trip_ns = round_trip_ns(&segment, consumer);
    let died_ns = segment.network.now_ns();
    segment.network.set_up_at(died_ns, segment.ports[dead], false);
    let gap_ns = longest_gap_ns(&mut segment, consumer, died_ns + SECOND);
    assert_eq!(segment.proven(0), 2, "it is not withdrawn yet");
    assert!(gap_ns < 3 * round_trip_ns, "{gap_ns} with a round trip of {round_trip_ns}");
}

/// The traffic of a segment with a number of routers.
struct Cost {
    /// Bit/s of the node that sends most, at rest and while all nodes start.
    rest_bps: u64,
    start_bps: u64,
    /// After a further router has started: the time until it has all as neighbors, and the maximum
    /// number of frames of all in one millisecond.
    join_ns: u64,
    busiest: u64,
}

fn cost(count: usize) -> Cost {
    let mut segment = Segment::new(3, count + 1, ethernet());
    segment.discover([]);
    let sent = |segment: &Segment| -> Vec<u64> {
        segment.ports.iter().map(|port| segment.network.carried(*port).octets).collect()
    };
    let most = |before: &[u64], after: &[u64]| {
        after.iter().zip(before).map(|(after, before)| after - before).max().unwrap_or(0)
    };
    for n in 0..count {
        segment.up(n);
        segment.run(5 * MS);
    }
    segment.run(SECOND);
    let start_ns = segment.network.now_ns();
    let start_bps = most(&vec![0; count + 1], &sent(&segment)) * 8 * SECOND / start_ns;
    let before = sent(&segment);
    segment.run(2 * HEARTBEAT_NS);
    (0..count).for_each(|n| assert_eq!(segment.proven(n), count - 1, "{n} of {count}"));
    let rest_bps = most(&before, &sent(&segment)) * 8 * SECOND / (2 * HEARTBEAT_NS);
    // One more: every router answers it, at different times.
    let frames = |segment: &Segment| -> u64 {
        segment.ports.iter().map(|port| segment.network.carried(*port).frames).sum()
    };
    segment.up(count);
    let (begin_ns, mut busiest, mut join_ns) = (segment.network.now_ns(), 0, None);
    for _ in 0..1000 {
        let before = frames(&segment);
        segment.run(MS);
        busiest = busiest.max(frames(&segment) - before);
        if join_ns.is_none() && segment.proven(count) == count {
            join_ns = Some(segment.network.now_ns() - begin_ns);
        }
    }
    let counters = segment.network.discovery_counters(segment.nodes[0]).expect("discovery");
    for refused in [Counter::RateLimited, Counter::StrangersLimited, Counter::VerifyFull, Counter::OtherKey] {
        assert_eq!(counters.get(refused), 0, "{refused:?}");
    }
    Cost { rest_bps, start_bps, join_ns: join_ns.expect("all within a second"), busiest }
}

#[test]
fn two_hundred_simulated_neighbors_cause_no_storm() {
    let mut table = Table::new(&["routers on a segment", "50", "200"]);
    let costs = [50, 200].map(cost);
    let cells = |what: &str, of: fn(&Cost) -> String| {
        let [few, many] = costs.each_ref().map(of);
        [what.to_owned(), few, many]
    };
    table.row(cells("bit/s of a node in rest", |cost| cost.rest_bps.to_string()));
    table.row(cells("bit/s of a node while all come up", |cost| cost.start_bps.to_string()));
    table.row(cells("one more has them all after", |cost| milliseconds(cost.join_ns)));
    table.row(cells("frames of all in the busiest ms", |cost| cost.busiest.to_string()));
    common::shown("docs/experiments/ndp.md", "segment", &table.text());
    let [few, many] = &costs;
    assert!(many.rest_bps < 10_000 && many.rest_bps <= few.rest_bps * 4, "{}", table.text());
    assert!(many.busiest < 40, "{}", table.text());
}

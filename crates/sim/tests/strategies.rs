//! Behavior of strategies in a network over minutes.

use namely_sim::{
    AppId, ConstantRate, FileFetch, LinkEndId, LinkSpec, MS, Network, Producer, RouterSpec, SECOND,
};
use namely_transport::fetch::Options;
use namely_wire::Name;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Two routers joined by two links, the cheaper one of 10 ms and the other of 30 ms, a consumer of
/// 20 pieces a second at one end and their producer at the other.
struct TwoWays {
    network: Network,
    links: [LinkEndId; 2],
    consumer: namely_sim::AppId,
}

impl TwoWays {
    fn new(seed: u64, strategy: &str) -> Self {
        let mut network = Network::new(seed);
        let [near, far] = [(); 2].map(|()| network.add_router(RouterSpec::default()));
        let links = [10, 30].map(|delay_ms| {
            network.connect(near, far, LinkSpec { delay_ns: delay_ms * MS, ..LinkSpec::default() })
        });
        let router = network.router(near);
        for (link, cost) in links.iter().zip(0..) {
            let face = network.link_end_face(*link);
            router.fib().add_nexthop(name("/p").as_name(), face, cost).expect("room in the FIB");
        }
        router.strategies().set(name("/p").as_name(), name(strategy).as_name()).expect("a strategy");
        network.announce(&name("/p"), far);
        network.attach(far, Box::new(Producer::new(name("/p"), 100)));
        let consumer = network.attach(near, Box::new(ConstantRate::new(name("/p"), 20)));
        TwoWays { network, links, consumer }
    }

    /// Sets the delay of the first link, both ways.
    fn set_delay(&mut self, delay_ms: u64) {
        let back = self.network.reverse(self.links[0]);
        [self.links[0], back].iter().for_each(|port| self.network.set_delay(*port, delay_ms * MS));
    }

    /// Runs for `seconds`. Returns the share of Interests that took each link in the last minute,
    /// in percent.
    fn shares_after(&mut self, seconds: u64) -> [u64; 2] {
        let end_ns = self.network.now_ns() + seconds * SECOND;
        self.network.run_until(end_ns - 60 * SECOND);
        let before = self.links.map(|link| self.network.link_counts(link).frames);
        self.network.run_until(end_ns);
        let after = self.links.map(|link| self.network.link_counts(link).frames);
        let frames = [after[0] - before[0], after[1] - before[1]];
        frames.map(|count| count * 100 / (frames[0] + frames[1]).max(1))
    }
}

/// NFD's parameters: a probe a minute, and a weight of an eighth for each measurement's deviation
/// from the mean. So it takes some answers to leave a path that has become slow, and some probes to
/// come back.
#[test]
fn asf_returns_to_a_recovered_path() {
    let mut ways = TwoWays::new(11, "/localhost/nfd/strategy/asf");
    assert!(ways.shares_after(120)[0] >= 99, "the cheaper way is also the faster one");
    ways.set_delay(100);
    assert!(ways.shares_after(120)[1] >= 99, "60 ms by the other way are less than 200 ms");
    ways.set_delay(10);
    assert!(ways.shares_after(120)[1] >= 98, "one or two probes do not outweigh what was");
    assert!(ways.shares_after(1200)[0] >= 99, "twenty do");
    let consumer: &ConstantRate = ways.network.behaviour(ways.consumer).expect("a consumer");
    assert!(consumer.data + 20 >= consumer.interests, "{} of {}", consumer.data, consumer.interests);
    assert_eq!(consumer.nacks, 0);
}

#[test]
fn best_route_stays_on_a_slow_path() {
    let mut ways = TwoWays::new(11, "/localhost/nfd/strategy/best-route");
    ways.set_delay(100);
    assert_eq!(ways.shares_after(120), [100, 0]);
}

#[test]
fn asf_probes_depend_only_on_the_seed() {
    let digest = |seed| {
        let mut ways = TwoWays::new(seed, "/localhost/nfd/strategy/asf");
        ways.network.trace();
        ways.network.run_until(30 * SECOND);
        ways.network.trace_digest()
    };
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}

/// Two routers joined by links of these rates (Mbit/s) and delays (ms), the first the cheapest; the
/// producer of 4 kB pieces at one end, and a consumer of the test's at the other.
fn joined(seed: u64, strategy: &str, links: &[(u64, u64)]) -> (Network, namely_sim::NodeId, Vec<LinkEndId>) {
    let mut network = Network::new(seed);
    let [near, far] = [(); 2].map(|()| network.add_router(RouterSpec::default()));
    let link = |network: &mut Network, (rate, delay_ms): (u64, u64)| {
        let spec = LinkSpec { rate_bps: rate * 1_000_000, delay_ns: delay_ms * MS, ..LinkSpec::default() };
        network.connect(near, far, spec)
    };
    let ports: Vec<LinkEndId> = links.iter().map(|spec| link(&mut network, *spec)).collect();
    for (port, cost) in ports.iter().zip(0..) {
        let face = network.link_end_face(*port);
        network.router(near).fib().add_nexthop(name("/p").as_name(), face, cost).expect("room in the FIB");
    }
    network
        .router(near)
        .strategies()
        .set(name("/p").as_name(), name(strategy).as_name())
        .expect("a strategy");
    network.announce(&name("/p"), far);
    network.attach(far, Box::new(Producer::new(name("/p"), 4000)));
    (network, near, ports)
}

/// The longest time without Data until `until_ns`, sampled each millisecond.
fn longest_gap_ms(network: &mut Network, until_ns: u64, received: impl Fn(&Network) -> u64) -> u64 {
    let (mut seen, mut since_ns, mut longest_ns) = (received(network), network.now_ns(), 0);
    while network.now_ns() < until_ns {
        network.run_until(network.now_ns() + MS);
        let now = received(network);
        if now != seen {
            (seen, since_ns) = (now, network.now_ns());
        }
        longest_ns = longest_ns.max(network.now_ns() - since_ns);
    }
    longest_ns / MS
}

fn kill(network: &mut Network, port: LinkEndId) {
    let back = network.reverse(port);
    [port, back].into_iter().for_each(|port| network.set_loss(port, 1_000_000));
}

/// The longest gaps of consumers in 20 networks. In each network the best path fails at another
/// time.
fn gaps_ms(
    make: impl Fn() -> Box<dyn namely_sim::Behaviour>,
    received: fn(&Network, AppId) -> u64,
) -> Vec<u64> {
    let gap = |seed: u64| {
        let (mut network, near, ports) = joined(seed, "/asf", &[(10, 10), (10, 12)]);
        let consumer = network.attach(near, make());
        network.run_until(SECOND + seed * 137 * MS);
        kill(&mut network, ports[0]);
        let until_ns = network.now_ns() + SECOND * 3 / 4;
        longest_gap_ms(&mut network, until_ns, |network| received(network, consumer))
    };
    let mut gaps: Vec<u64> = (0..20).map(gap).collect();
    gaps.sort_unstable();
    gaps
}

#[test]
fn asf_leaves_a_dead_path_quickly() {
    let constant = || Box::new(ConstantRate::new(name("/p"), 200)) as Box<dyn namely_sim::Behaviour>;
    let gaps = gaps_ms(constant, |network, app| network.behaviour::<ConstantRate>(app).expect("it").data);
    assert!(gaps[19] < 60, "{gaps:?}");
    // All Interests of the fetch are lost there, and it sends no more until its own timeout, which
    // is half a second at least.
    let fetch =
        || Box::new(FileFetch::new(name("/p"), Options::default(), 0)) as Box<dyn namely_sim::Behaviour>;
    let gaps = gaps_ms(fetch, |network, app| network.behaviour::<FileFetch>(app).expect("it").octets);
    assert!(gaps[19] < 500 + 60, "{gaps:?}");
}

/// Mbit/s of Data that a fetch got in the seconds 6 to 10.
fn goodput(strategy: &str, links: &[(u64, u64)]) -> u64 {
    let (mut network, near, ports) = joined(5, strategy, links);
    let consumer = network.attach(near, Box::new(FileFetch::new(name("/p"), Options::default(), 0)));
    network.run_until(6 * SECOND);
    let octets = |network: &Network| network.behaviour::<FileFetch>(consumer).expect("it").octets;
    let before = octets(&network);
    network.run_until(10 * SECOND);
    let mbps = (octets(&network) - before) * 8 / 4_000_000;
    let fetch: &FileFetch = network.behaviour(consumer).expect("it");
    let backs: Vec<_> = ports.iter().map(|port| network.link_counts(network.reverse(*port))).collect();
    println!(
        "{strategy} {links:?}: {mbps} Mbit/s, window {}, {:?} {backs:?}",
        fetch.window(),
        fetch.counters()
    );
    mbps
}

#[test]
fn multipath_reaches_nine_tenths_of_two_paths() {
    for links in [[(20, 10), (20, 10)], [(20, 10), (10, 10)], [(20, 10), (20, 20)]] {
        let both = goodput("/multipath", &links);
        let sum: u64 = links.iter().map(|(rate, _)| rate).sum();
        assert!(10 * both >= 9 * sum, "{both} of {sum}: {links:?}");
    }
    // An even split is limited by the slower path.
    assert!(goodput("/random", &[(20, 10), (10, 10)]) < 25);
}

/// A ring of routers without routes, except to the application at their own side: a consumer at the
/// first, a producer of `/p` at the fourth.
struct Ring {
    network: Network,
    routers: Vec<namely_sim::NodeId>,
    links: Vec<LinkEndId>,
    consumer: AppId,
}

impl Ring {
    fn new() -> Self {
        let mut network = Network::new(3);
        let routers: Vec<_> = (0..6).map(|_| network.add_router(RouterSpec::default())).collect();
        let spec = LinkSpec { rate_bps: 10_000_000, delay_ns: 5 * MS, ..LinkSpec::default() };
        // The way by the second and third router is the shorter one.
        let delay = |i: usize| LinkSpec { delay_ns: if i < 3 { 5 * MS } else { 8 * MS }, ..spec };
        let links = (0..6).map(|i| network.connect(routers[i], routers[(i + 1) % 6], delay(i))).collect();
        for router in &routers {
            let strategy = name("/localhost/nfd/strategy/self-learning");
            network.router(*router).strategies().set(name("/").as_name(), strategy.as_name()).expect("it");
        }
        let producer = network.attach(routers[3], Box::new(Producer::new(name("/p"), 1000)));
        let face = network.face_of(producer);
        network.router(routers[3]).fib().add_nexthop(name("/p").as_name(), face, 0).expect("room");
        let consumer = network.attach(routers[0], Box::new(ConstantRate::new(name("/p/object"), 100)));
        Ring { network, routers, links, consumer }
    }

    fn received(&self) -> (u64, u64) {
        let consumer: &ConstantRate = self.network.behaviour(self.consumer).expect("it");
        (consumer.interests, consumer.data)
    }

    /// Frames from router `i` to the next one.
    fn frames(&self, i: usize) -> u64 {
        self.network.link_counts(self.links[i]).frames
    }
}

#[test]
fn self_learning_finds_a_path_without_routes() {
    let mut ring = Ring::new();
    ring.network.run_until(2 * SECOND);
    let (interests, data) = ring.received();
    assert!(data + 5 >= interests, "{data} of {interests}");
    let flooded = ring.network.link_counts(ring.network.reverse(ring.links[5])).frames;
    assert!(flooded < 20, "only discoveries go the other way round: {flooded}");
    assert!(ring.frames(0) + 5 >= interests);
    let (first, third) = (ring.network.router(ring.routers[0]), ring.network.router(ring.routers[2]));
    for router in [first, third] {
        assert_eq!(router.rib_snapshot(ring.network.now_ns())[0].prefix, name("/p/object"));
    }
    kill(&mut ring.network, ring.links[1]);
    ring.network.run_until(5 * SECOND);
    let before = ring.received();
    ring.network.run_until(8 * SECOND);
    let (interests, data) = ring.received();
    let (sent, answered) = (interests - before.0, data - before.1);
    assert!(answered + 10 >= sent, "after what was pending has timed out: {answered} of {sent}");
    let learned = ring.network.router(ring.routers[0]).rib_snapshot(ring.network.now_ns());
    assert!(learned[0].routes.len() <= 2, "one route for each way");
}

/// Routers on one medium, all of which learn their routes; a consumer at the first and a producer
/// of `/p` at each of some others.
fn segment(routers: usize, producers: &[usize]) -> (Network, Vec<LinkEndId>, Vec<namely_sim::NodeId>, AppId) {
    let mut network = Network::new(7);
    let nodes: Vec<_> = (0..routers).map(|_| network.add_router(RouterSpec::default())).collect();
    let spec = LinkSpec { rate_bps: 100_000_000, delay_ns: MS, mtu_octets: 1500, ..LinkSpec::default() };
    let ports = network.share(&nodes, spec);
    for node in &nodes {
        let strategy = name("/localhost/nfd/strategy/self-learning");
        network.router(*node).strategies().set(name("/").as_name(), strategy.as_name()).expect("it");
    }
    for at in producers {
        // Longer than a frame, so that fragments of several senders mix.
        let producer = network.attach(nodes[*at], Box::new(Producer::new(name("/p"), 4000)));
        let face = network.face_of(producer);
        network.router(nodes[*at]).fib().add_nexthop(name("/p").as_name(), face, 0).expect("room");
    }
    let consumer = network.attach(nodes[0], Box::new(ConstantRate::new(name("/p/object"), 100)));
    (network, ports, nodes, consumer)
}

#[test]
fn a_shared_medium_delivers_to_every_station() {
    let (mut network, ports, nodes, consumer) = segment(20, &[5, 11]);
    network.run_until(2 * SECOND);
    let consumer: &ConstantRate = network.behaviour(consumer).expect("it");
    assert!(consumer.interests >= 199 && consumer.data + 2 >= consumer.interests, "{}", consumer.data);
    let frames = |at: usize| network.link_counts(ports[at]).frames;
    assert_eq!(frames(3), 0, "who has no answer says nothing of what it heard there");
    // Three fragments each; nothing in the protocol keeps the second producer silent.
    assert!(frames(5) >= 3 * 199 && frames(11) >= 3 * 199);
    assert!(ports.iter().all(|port| network.link_counts(*port).refused == 0));
    let routes = network.router(nodes[0]).rib_snapshot(network.now_ns());
    assert_eq!((routes.len(), &routes[0].prefix), (1, &name("/p/object")));
}

#[test]
fn an_absent_station_receives_no_frames() {
    let (mut network, ports, _, consumer) = segment(4, &[2]);
    network.set_up_at(SECOND, ports[2], false);
    network.set_up_at(4 * SECOND, ports[2], true);
    let data = |network: &Network| network.behaviour::<ConstantRate>(consumer).expect("it").data;
    network.run_until(SECOND);
    let before = data(&network);
    network.run_until(4 * SECOND - 1);
    assert!(before >= 98 && data(&network) <= before + 1, "{before} {}", data(&network));
    network.run_until(9 * SECOND);
    let (before, now) = (data(&network), 10 * SECOND);
    network.run_until(now);
    assert!(data(&network) >= before + 98, "{before} {}", data(&network));
}

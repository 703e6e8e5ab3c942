//! Several threads give exactly the results of one.

use namely_discovery::Config;
use namely_sim::{
    AppId, ConstantRate, FileFetch, LinkEndId, LinkSpec, MS, Network, NodeId, Producer, Random, RouterSpec,
    SECOND,
};
use namely_transport::fetch::Options;
use namely_wire::Name;

const NODES: usize = 40;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

struct Built {
    network: Network,
    nodes: Vec<NodeId>,
    links: Vec<LinkEndId>,
    consumers: Vec<AppId>,
    fetch: AppId,
}

/// A network with links of many delays and rates, losses, reordering, fragments, a shared medium
/// with discovery, and traffic from each node.
fn build(threads: usize) -> Built {
    let mut network = Network::new(21);
    network.set_threads(threads);
    let mut random = Random::new(21);
    let nodes: Vec<NodeId> = (0..NODES).map(|_| network.add_router(RouterSpec::default())).collect();
    let mut links = Vec::new();
    for node in 1..NODES {
        for _ in 0..2 {
            let spec = LinkSpec {
                rate_bps: 10_000_000,
                delay_ns: MS / 10 + random.below(5 * MS),
                loss_ppm: 5_000,
                reordered_ppm: 20_000,
                reordered_by_ns: MS,
                mtu_octets: if node.is_multiple_of(3) { 1500 } else { 9000 },
                reliability: node.is_multiple_of(5),
                ..LinkSpec::default()
            };
            let other = random.below(node as u64) as usize;
            links.push(network.connect(nodes[node], nodes[other], spec));
        }
    }
    for port in network.share(&nodes[10..14], LinkSpec { delay_ns: MS / 10, ..LinkSpec::default() }) {
        network.discover(port, Config { open: true, ..Config::default() });
    }
    for (site, at) in [(0, 0), (1, NODES - 1)] {
        let prefix = name(&format!("/site-{site}"));
        network.announce(&prefix, nodes[at]);
        network.attach(nodes[at], Box::new(Producer::new(prefix, 2_000)));
    }
    let consumer = |network: &mut Network, node: &NodeId| {
        let prefix = name(&format!("/site-{}", node.index() % 2));
        network.attach(*node, Box::new(ConstantRate::new(prefix, 50).from_catalogue(200)))
    };
    let consumers = nodes.iter().map(|node| consumer(&mut network, node)).collect();
    let fetch = FileFetch::new(name("/site-1/file"), Options::default(), MS).of_pieces(300);
    let fetch = network.attach(nodes[0], Box::new(fetch));
    Built { network, nodes, links, consumers, fetch }
}

/// Everything that a run can report.
fn results(built: &Built) -> String {
    let Built { network, nodes, links, consumers, fetch } = built;
    let mut text = format!("{:?} {} {}\n", network.trace_digest(), network.events(), network.pending());
    for link in links {
        text += &format!("{:?} {:?}\n", network.link_counts(*link), network.carried(*link));
    }
    for node in nodes {
        text += &format!("{:?} {}\n", network.router(*node).counters(), network.neighbours_proven(*node));
    }
    for consumer in consumers {
        let consumer: &ConstantRate = network.behaviour(*consumer).expect("a consumer");
        text += &format!("{} {} {}\n", consumer.interests, consumer.data, consumer.rtt_ns.max());
    }
    let fetch: &FileFetch = network.behaviour(*fetch).expect("a fetch");
    text + &format!("{:?} {:?}\n", fetch.done_ns, fetch.counters())
}

/// A run with links that fail and return, a restart, and a delay that changes.
fn run(threads: usize) -> (String, Option<u64>) {
    let mut built = build(threads);
    built.network.trace();
    for (n, link) in built.links.clone().into_iter().enumerate().step_by(7) {
        let from_ns = 200 * MS + n as u64 * 10 * MS;
        built.network.set_up_at(from_ns, link, false);
        built.network.set_up_at(from_ns + 300 * MS, link, true);
    }
    built.network.run_until(SECOND);
    let window_ns = built.network.window_ns();
    built.network.restart(built.nodes[5], RouterSpec::default());
    built.network.set_delay(built.links[3], MS / 20);
    for _ in 0..10 {
        let now_ns = built.network.now_ns();
        built.network.run_until(now_ns + 100 * MS);
    }
    (results(&built), window_ns)
}

#[test]
fn any_number_of_threads_gives_the_same_digits() {
    let (expected, window_ns) = run(1);
    assert_eq!(window_ns, None);
    for threads in [2, 3] {
        let (results, window_ns) = run(threads);
        assert!(window_ns.is_some_and(|window_ns| window_ns >= MS / 10), "{window_ns:?}");
        for (line, (one, several)) in expected.lines().zip(results.lines()).enumerate() {
            assert_eq!(one, several, "line {line} with {threads} threads");
        }
        assert_eq!(results.lines().count(), expected.lines().count());
    }
}

#[test]
fn a_running_network_changes_its_threads() {
    let run = |threads: [usize; 3]| {
        let mut built = build(threads[0]);
        built.network.trace();
        for (n, threads) in threads.into_iter().enumerate() {
            built.network.set_threads(threads);
            built.network.run_until((n as u64 + 1) * 200 * MS);
        }
        results(&built)
    };
    assert!(run([3, 1, 2]) == run([1, 1, 1]));
}

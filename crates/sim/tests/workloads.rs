//! Short runs of each topology, each way of routing and each workload. The results are recorded.

use crate::common;

use std::sync::Arc;

use namely_sim::failures::{self, FailureRates};
use namely_sim::table::Table;
use namely_sim::topology::{BuiltTopology, Topology, rocketfuel};
use namely_sim::{
    Announcement, AppId, DistanceVector, FileFetch, LinkSpec, MS, Network, PopularNames, Producer, Requests,
    RouterSpec, SECOND, SyncGroup, SyncMember, TraceConsumer, UNREACHABLE, ZipfConsumer, trace,
};
use namely_transport::fetch::Options;
use namely_wire::Name;

/// Names in all, of which each run requests some.
const NAMES: u64 = 1_000_000;

/// Time of a run with requests by Zipf's law, ns.
const RUN_NS: u64 = 3 * SECOND;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn grid() -> Topology {
    Topology::grid(25, LinkSpec::default())
}

/// A network with three producers.
struct Sites {
    network: Network,
    built: BuiltTopology,
    prefixes: Vec<Name>,
    announcements: Vec<Announcement>,
}

impl Sites {
    fn new(topology: &Topology) -> Self {
        let mut network = Network::new(5);
        let built = topology.build(&mut network, RouterSpec::default());
        let count = built.edge.len();
        let at = [0, count / 2, count - 1].map(|index| built.edge[index]);
        let prefixes: Vec<Name> = (0..at.len()).map(|site| name(&format!("/site-{site}"))).collect();
        let announce = |(prefix, node): (&Name, _)| Announcement { prefix: prefix.clone(), node };
        let announcements: Vec<_> = prefixes.iter().zip(at).map(announce).collect();
        for Announcement { prefix, node } in &announcements {
            network.attach(*node, Box::new(Producer::new(prefix.clone(), 1000)));
        }
        Sites { network, built, prefixes, announcements }
    }

    /// As `new`, with computed routes.
    fn routed(topology: &Topology) -> Self {
        let mut sites = Sites::new(topology);
        sites.network.announce_all(&sites.announcements, 2);
        sites
    }

    /// Requests names at each edge node, from `begins_ns` on.
    fn zipf(&mut self, begins_ns: u64) -> Requests {
        let names = Arc::new(PopularNames::new(&self.prefixes, NAMES, 1.0));
        let consumer = || ZipfConsumer::new(names.clone(), 30.0).within(begins_ns, begins_ns + RUN_NS);
        let attach = |node: &_| self.network.attach(*node, Box::new(consumer()));
        let apps: Vec<AppId> = self.built.edge.iter().map(attach).collect();
        self.network.run_until(begins_ns + RUN_NS + 4 * SECOND);
        let mut requests = Requests::default();
        for app in apps {
            requests.merge(&self.network.behaviour::<ZipfConsumer>(app).expect("a consumer").requests);
        }
        requests
    }
}

fn row(table: &mut Table, what: &str, network: &Network, requests: &Requests) {
    table.row([
        what.to_owned(),
        requests.interests.to_string(),
        requests.data.to_string(),
        requests.again.to_string(),
        requests.unanswered.to_string(),
        format!("{:.2}", requests.times.mean_ms()),
        network.events().to_string(),
    ]);
}

const HEADS: [&str; 7] = ["", "requests", "answered", "again", "given up", "mean ms", "events"];

#[test]
fn every_topology_serves_its_consumers() {
    // Made for this test; it describes no network.
    let cch = "1 @A (2) -> <2> <3>\n2 @A (2) -> <1> <3>\n3 @B (2) -> <1> <4>\n4 @B (1) -> <3> <5>\n";
    let weights = "a+b1 c2 2.5\nc2 d3 4\nd3 a+b1 8\nd3 e4 1\n";
    let link = LinkSpec::default();
    let topologies = [
        ("grid", grid()),
        ("fat tree", Topology::fat_tree(36, link)),
        ("scale-free graph", Topology::scale_free(40, 2, 9, link)),
        ("router-level map", rocketfuel::parse_cch(cch, link).expect("a map").largest_part()),
        ("map with weights", rocketfuel::parse_weights(weights, link).expect("a map")),
    ];
    let mut table = Table::new(&HEADS);
    for (what, topology) in topologies {
        let mut sites = Sites::routed(&topology);
        let requests = sites.zipf(0);
        row(&mut table, what, &sites.network, &requests);
        assert!(requests.interests > 100 && requests.data == requests.interests, "{what}: {requests:?}");
        assert_eq!((requests.nacks, requests.again), (0, 0), "{what}");
    }
    common::snapshot("topologies", &table.text());
}

#[test]
fn every_way_of_routing_reaches_the_producers() {
    let mut table = Table::new(&HEADS);
    let mut computed = Sites::routed(&grid());
    let requests = computed.zipf(0);
    assert_eq!(requests.data, requests.interests);
    row(&mut table, "computed", &computed.network, &requests);

    let mut learned = Sites::new(&grid());
    for node in &learned.built.nodes {
        let strategies = learned.network.router(*node).strategies();
        strategies.set(name("/").as_name(), name("/self-learning").as_name()).expect("a strategy");
    }
    let requests = learned.zipf(0);
    assert!(requests.data * 100 >= requests.interests * 95, "{requests:?}");
    row(&mut table, "learned", &learned.network, &requests);

    let mut sites = Sites::new(&grid());
    let agents = distance_vectors(&mut sites);
    let requests = sites.zipf(5 * SECOND);
    assert_eq!(requests.data, requests.interests);
    row(&mut table, "distance vectors", &sites.network, &requests);
    for agent in agents {
        let agent: &DistanceVector = sites.network.behaviour(agent).expect("an agent");
        assert!(agent.distances().all(|hops| hops <= 8), "the grid's diameter");
    }
    common::snapshot("routing", &table.text());
}

fn distance_vectors(sites: &mut Sites) -> Vec<AppId> {
    let destinations: Arc<[Name]> = sites.prefixes.clone().into();
    let mut agents = Vec::new();
    for node in &sites.built.nodes {
        let own = sites.announcements.iter().enumerate().filter(|(_, of)| of.node == *node);
        let own: Vec<usize> = own.map(|(index, _)| index).collect();
        let faces = sites.network.link_faces(*node);
        let agent = DistanceVector::new(destinations.clone(), &own, &faces);
        agents.push(sites.network.attach_with_local_fields(*node, Box::new(agent)));
    }
    agents
}

#[test]
fn distance_vectors_route_around_a_dead_router() {
    let mut sites = Sites::new(&grid());
    let agents = distance_vectors(&mut sites);
    let distances = |sites: &Sites, node: usize| -> Vec<u16> {
        let agent: &DistanceVector = sites.network.behaviour(agents[node]).expect("an agent");
        agent.distances().collect()
    };
    sites.network.run_until(5 * SECOND);
    assert_eq!(distances(&sites, 0), [0, 4, 8]);
    assert_eq!(distances(&sites, 11), [3, 1, 5]);
    // The router of the second producer fails for longer than neighbors wait for updates.
    sites.network.fail_node(sites.built.nodes[12], 6 * SECOND, 100 * SECOND);
    sites.network.run_until(99 * SECOND);
    assert_eq!(distances(&sites, 11), [3, UNREACHABLE, 5], "the bound ends the counting");
    assert_eq!(distances(&sites, 0), [0, UNREACHABLE, 8]);
    sites.network.run_until(120 * SECOND);
    assert_eq!(distances(&sites, 11), [3, 1, 5]);
}

#[test]
fn failing_links_cost_few_requests() {
    let mut sites = Sites::routed(&grid());
    let rates = FailureRates { up_ns: 4 * SECOND, down_ns: 200 * MS };
    let outages = failures::draw(5, sites.built.links.len(), rates, RUN_NS);
    assert!(outages.len() > 10, "{}", outages.len());
    for outage in &outages {
        sites.network.fail_link(sites.built.links[outage.part], outage.from_ns, outage.until_ns);
    }
    let requests = sites.zipf(0);
    let mut table = Table::new(&HEADS);
    row(&mut table, "failing links", &sites.network, &requests);
    common::snapshot("failures", &table.text());
    assert!(requests.again > 0, "{requests:?}");
    assert!(requests.data * 100 >= requests.interests * 97, "{requests:?}");
}

#[test]
fn traces_and_transfers_are_complete() {
    let mut table = Table::new(&HEADS);
    let mut sites = Sites::routed(&grid());
    let lines: String =
        (0..300).map(|n| format!("{},{},/site-{}/object-{}\n", n * 5, n % 7, n % 3, n % 40)).collect();
    let requests = trace::read(lines.as_bytes()).expect("a trace");
    let mut apps = Vec::new();
    for consumer in 0..7 {
        let own = requests.iter().filter(|request| request.consumer == consumer).cloned().collect();
        let node = sites.built.edge[consumer as usize * 3];
        apps.push(sites.network.attach(node, Box::new(TraceConsumer::new(own))));
    }
    sites.network.run_until(10 * SECOND);
    let mut all = Requests::default();
    for app in apps {
        all.merge(&sites.network.behaviour::<TraceConsumer>(app).expect("a consumer").requests);
    }
    assert_eq!((all.interests, all.data), (300, 300));
    row(&mut table, "trace", &sites.network, &all);

    let mut sites = Sites::routed(&grid());
    let fetches = [3, 10, 20].map(|node| {
        let prefix = name(&format!("/site-{}/set", node % 3));
        let fetch = FileFetch::new(prefix, Options::default(), 0).of_pieces(400);
        sites.network.attach(sites.built.nodes[node], Box::new(fetch))
    });
    sites.network.run_until(20 * SECOND);
    let mut all = Requests::default();
    for fetch in fetches {
        let fetch: &FileFetch = sites.network.behaviour(fetch).expect("a fetch");
        assert_eq!((fetch.counters().data, fetch.failure()), (400, None));
        assert!(fetch.done_ns.is_some());
        (all.interests, all.data) = (all.interests + 400, all.data + fetch.counters().data);
    }
    row(&mut table, "transfers", &sites.network, &all);
    common::snapshot("traces-transfers", &table.text());
}

#[test]
fn a_sync_group_agrees_on_its_publications() {
    let mut sites = Sites::new(&grid());
    let members = [0, 4, 12, 20, 24].map(|node| sites.built.nodes[node]);
    let prefixes: Vec<Name> = (0..members.len()).map(|member| name(&format!("/member-{member}"))).collect();
    let announce = |(prefix, node): (&Name, _)| Announcement { prefix: prefix.clone(), node };
    let announcements: Vec<_> = prefixes.iter().zip(members).map(announce).collect();
    sites.network.announce_all(&announcements, 1);
    sites.network.announce_group(&name("/sync"), &members);
    let group = Arc::new(SyncGroup::new(name("/sync"), prefixes));
    let apps: Vec<AppId> = members
        .iter()
        .enumerate()
        .map(|(own, node)| {
            let member = SyncMember::new(group.clone(), own, 2 * SECOND);
            sites.network.attach(*node, Box::new(member))
        })
        .collect();
    // One member misses publications, and vectors of others repair that.
    sites.network.fail_node(members[3], 5 * SECOND, 9 * SECOND);
    sites.network.run_until(60 * SECOND);
    let of = |app: &AppId| sites.network.behaviour::<SyncMember>(*app).expect("a member");
    let published: u64 = apps.iter().enumerate().map(|(own, app)| of(app).vector()[own]).sum();
    assert!((100..200).contains(&published), "{published}");
    let (mut all, mut lacking) = (Requests::default(), 0);
    for app in &apps {
        all.merge(&of(app).requests);
        lacking += published - of(app).vector().iter().sum::<u64>();
    }
    assert!(lacking <= 5, "only the latest publications are on their way: {lacking}");
    assert!(all.data * 100 >= all.interests * 97, "{all:?}");
    let mut table = Table::new(&HEADS);
    row(&mut table, "synchronization", &sites.network, &all);
    common::snapshot("synchronization", &table.text());
}

//! The networks of N-DISE (ICN 2022, its section 5.2) in virtual time (`VI-24` to `VI-29`): two
//! consumers that read 30 large objects one after the other, forwarders with room for five of them,
//! and a server. VIP is compared with other schemes of caching and forwarding.
//!
//! Sizes and rates are a thousandth of the paper's, and times are unchanged: objects of 4 MB, 16
//! Mbit/s for 16 Gbit/s, a window of 8 packets for 8192. The size of packets is unchanged, so that
//! one takes 3.2 ms to leave instead of 3.2 us. Links are shorter by that time, so that round trips
//! are the paper's.
//!
//! Beyond the paper: memory above a disk (`X-04`), see [`NdiseTopology::Tiers`]; and [`faults`].

pub mod faults;

use namely_forwarder::{CsPolicy, FaceId, ObjectName};
use namely_vip::{
    Config, Decay, NeighbourConfig, Object, Objects, PlacementSource, Plane, PlaneConfig, Tier, Vip,
};
use namely_wire::Name;

use crate::behaviours::{Demand, ObjectReader, Producer, VipAgent};
use crate::disk::DiskSpec;
use crate::event::LinkEndId;
use crate::link::LinkSpec;
use crate::network::{AppId, Network};
use crate::node::RouterSpec;
use crate::packet::NodeId;
use crate::units::{MS, SECOND};

/// Number of objects, and the number for which a forwarder has room.
pub const OBJECTS: usize = 30;
/// See `OBJECTS`.
pub const ROOM: usize = 5;

/// Packets of an object, and octets of each, without and with its headers.
const PACKETS: u64 = 625;
const CONTENT_OCTETS: usize = 6_400;
const PACKET_OCTETS: u64 = 6_500;

/// Parameters of a consumer: maximum Interests under way, maximum rate, and retransmission timeout.
const WINDOW: usize = 8;
const CONSUMER_BPS: u64 = 4_000_000;
const RTO_NS: u64 = 2 * SECOND;

/// Read rate of a forwarder's memory in octets per second: 32 Gbit/s in the paper.
const READ_OCTETS_PER_S: u64 = 4_000_000;

/// Objects for which a forwarder's disk has room, if it has one.
pub const DISK_ROOM: usize = 10;

/// Time of a forwarder's disk to read or write a packet in ns: a fifth of memory's rate. Two
/// consumers together need more.
const DISK_NS: u64 = CONTENT_OCTETS as u64 * 5 * SECOND / READ_OCTETS_PER_S;

/// Pending requests at a disk from which Interests bypass it: reading them takes 32 ms, and the
/// next forwarder is 40 ms away.
const DISK_THRESHOLD: usize = 4;

/// Half-life of scores in ms: ln 2 / 0.000015 s.
const HALF_LIFE_MS: u64 = 46_209_812;

/// Octets of a packet with content and all headers on a link.
const ON_LINK_OCTETS: u64 = 6_470;

/// A link: its ends, its round trip in ms, and its rate in Mbit/s.
#[derive(Clone, Copy, Debug)]
pub struct Wire(pub usize, pub usize, pub u64, pub u64);

/// One of the paper's networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdiseTopology {
    /// Two consumers, two forwarders in a line, and the server.
    Service,
    /// The service network with 2 Gbit/s to the server.
    Narrow,
    /// Two consumers, one of them at a forwarder, and two paths to the server.
    Multipath,
    /// The service network, with a disk below each forwarder's memory.
    Tiers,
}

impl NdiseTopology {
    /// All networks.
    pub const ALL: [NdiseTopology; 4] =
        [NdiseTopology::Service, NdiseTopology::Narrow, NdiseTopology::Multipath, NdiseTopology::Tiers];

    /// Returns the name.
    pub fn label(self) -> &'static str {
        match self {
            NdiseTopology::Service => "service",
            NdiseTopology::Narrow => "narrow",
            NdiseTopology::Multipath => "multipath",
            NdiseTopology::Tiers => "tiers",
        }
    }

    /// Returns the links. Round trips are not in the paper's text; these yield its delays without
    /// caches.
    pub fn wires(self) -> Vec<Wire> {
        let to_server = if self == NdiseTopology::Narrow { 2 } else { 16 };
        match self {
            NdiseTopology::Service | NdiseTopology::Narrow | NdiseTopology::Tiers => {
                vec![Wire(0, 1, 85, to_server), Wire(1, 2, 40, 16), Wire(2, 3, 23, 16), Wire(2, 4, 66, 16)]
            }
            NdiseTopology::Multipath => {
                vec![Wire(0, 1, 66, 16), Wire(0, 2, 42, 16), Wire(1, 3, 30, 16), Wire(2, 3, 85, 16)]
            }
        }
    }

    /// Returns the node of the server.
    pub fn server(self) -> usize {
        if self == NdiseTopology::Multipath { 3 } else { 0 }
    }

    /// Returns the forwarders with caches, the closest to consumers first.
    pub fn caches(self) -> [usize; 2] {
        if self == NdiseTopology::Multipath { [1, 2] } else { [2, 1] }
    }

    /// Returns the consumers and their nodes.
    pub fn consumers(self) -> [(&'static str, usize); 2] {
        if self == NdiseTopology::Multipath {
            [("NEU", 0), ("TTU", 2)]
        } else {
            [("StarLight", 3), ("UCLA", 4)]
        }
    }

    /// Returns the slot in ms, and the amplification.
    pub fn slot(self) -> (u32, u8) {
        if self == NdiseTopology::Multipath { (60_000, 2) } else { (3_000, 1) }
    }

    /// Returns the schemes that are compared.
    pub fn arms(self) -> Vec<Arm> {
        let arm = |strategy, policy| Arm { strategy, policy, below: DiskPolicy::Nothing };
        let over = |policy, below| Arm { strategy: BEST, policy: Some(policy), below };
        match self {
            NdiseTopology::Service | NdiseTopology::Narrow => vec![
                arm(BEST, None),
                arm(BEST, Some(CsPolicy::Lru)),
                arm(BEST, Some(CsPolicy::Arc)),
                arm(BEST, Some(CsPolicy::S3Fifo)),
                Arm::VIP,
            ],
            NdiseTopology::Multipath => vec![
                arm(BEST, Some(CsPolicy::Arc)),
                arm(ROUND_ROBIN, Some(CsPolicy::Arc)),
                arm(ROUND_ROBIN, Some(CsPolicy::S3Fifo)),
                arm(FAST_ROUTE, Some(CsPolicy::Arc)),
                arm(FAST_ROUTE, Some(CsPolicy::S3Fifo)),
                Arm::VIP,
            ],
            NdiseTopology::Tiers => vec![
                arm(BEST, Some(CsPolicy::Arc)),
                over(CsPolicy::Lru, DiskPolicy::All),
                over(CsPolicy::Arc, DiskPolicy::All),
                over(CsPolicy::Arc, DiskPolicy::Requested),
                Arm::VIP,
                Arm { below: DiskPolicy::Planned(0), ..Arm::VIP },
                Arm { below: DiskPolicy::Planned(4), ..Arm::VIP },
            ],
        }
    }
}

const BEST: &str = "best-route";
const ROUND_ROBIN: &str = "round-robin";
const FAST_ROUTE: &str = "fast-route";
const VIP: &str = "vip";

/// The tier below a forwarder's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPolicy {
    /// Nothing.
    Nothing,
    /// A disk to which all Data evicted from memory is written; the least recently read is evicted.
    All,
    /// A disk to which evicted Data is written if it was requested while it was in memory.
    Requested,
    /// A disk to which objects are written by plan. The number is the weight of the cost of
    /// admitting an object to a tier and of evicting one. Costs are in VIPs, like the worth of a
    /// read.
    Planned(u64),
}

/// Scheme of forwarding and caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The strategy for all names.
    pub strategy: &'static str,
    /// The content store's policy; none: with VIP whole objects by plan, otherwise no cache.
    pub policy: Option<CsPolicy>,
    /// The tier below it.
    pub below: DiskPolicy,
}

impl Arm {
    /// Joint caching and forwarding.
    pub const VIP: Arm = Arm { strategy: VIP, policy: None, below: DiskPolicy::Nothing };

    /// Returns true for joint caching and forwarding, regardless of the tier below memory.
    pub fn is_vip(self) -> bool {
        self.strategy == VIP
    }

    /// Returns the name.
    pub fn label(self) -> String {
        let above = match (self.strategy, self.policy) {
            (VIP, _) => VIP.to_owned(),
            (strategy, None) => format!("{strategy}, no cache"),
            (strategy, Some(policy)) => format!("{strategy}, {}", policy.name()),
        };
        match self.below {
            DiskPolicy::Nothing => above,
            DiskPolicy::All => format!("{above}, disk of all"),
            DiskPolicy::Requested => format!("{above}, disk of hits"),
            DiskPolicy::Planned(0) => format!("{above}, disk"),
            DiskPolicy::Planned(cost) => format!("{above}, disk, cost {cost}"),
        }
    }
}

/// Results of one consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConsumerResult {
    /// Rate of received content in bit/s.
    pub bps: f64,
    /// Mean time from the creation of an Interest to its Data in ms.
    pub delay_ms: f64,
    /// Interests sent again.
    pub retransmissions: u64,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Ndise {
    /// The network.
    pub topology: NdiseTopology,
    /// The scheme.
    pub arm: Arm,
    /// The seed.
    pub seed: u64,
    /// Start and duration of the measurement in ns.
    pub warm_ns: u64,
    /// See `warm_ns`.
    pub counted_ns: u64,
    /// Slot in ms, and amplification. Default: those of the network.
    pub slot: (u32, u8),
}

/// Results of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Results of each consumer.
    pub got: [ConsumerResult; 2],
    /// Share of Interests that forwarders with caches answered themselves.
    pub hits: f64,
    /// Share of these that their disks answered.
    pub disk_hits: f64,
    /// Objects written to these disks during the measurement.
    pub disk_written: f64,
    /// With VIP, for each forwarder: sets of cached objects, most popular first, and the number of
    /// measured slots with that set.
    pub held: [Vec<(Vec<usize>, usize)>; 2],
    /// Octets of the exchange between routers, per neighbor of a router and slot.
    pub exchange_octets: f64,
}

fn prefix() -> Name {
    Name::new().join_generic(*b"store")
}

impl Ndise {
    /// The paper's run: 1.5 h, of which the last third is measured.
    pub fn new(topology: NdiseTopology, arm: Arm, seed: u64) -> Self {
        let slot = topology.slot();
        Ndise { topology, arm, seed, warm_ns: 3600 * SECOND, counted_ns: 1800 * SECOND, slot }
    }

    /// Sets the total duration, of which the last third is measured.
    #[must_use]
    pub fn lasting(mut self, ns: u64) -> Self {
        (self.warm_ns, self.counted_ns) = (ns / 3 * 2, ns / 3);
        self
    }

    /// Runs the simulation.
    pub fn run(&self) -> Outcome {
        let mut net = NdiseNetwork::new(self);
        net.network.run_until(self.warm_ns);
        let before = net.lookups();
        net.network.run_until(self.warm_ns + self.counted_ns);
        let after = net.lookups();
        let share = |hits: u64| hits as f64 / (after.met - before.met).max(1) as f64;
        Outcome {
            got: [0, 1].map(|i| net.got(i, self.counted_ns)),
            hits: share(after.hits - before.hits),
            disk_hits: share(after.disk_hits - before.disk_hits),
            disk_written: (after.written - before.written) as f64 / PACKETS as f64,
            held: [0, 1].map(|i| net.held(i)),
            exchange_octets: net.exchange_octets(),
        }
    }
}

/// Counters of forwarders with caches.
#[derive(Clone, Copy, Debug, Default)]
struct Lookups {
    /// Interests for objects that reached them, those that they answered, and those of these that
    /// their disks answered.
    met: u64,
    hits: u64,
    disk_hits: u64,
    /// Data written to their disks.
    written: u64,
}

/// A node's neighbors: the node, the face to it, and the link's rate in octets per second.
type Neighbours = Vec<(usize, FaceId, u64)>;

/// Role of a router: it caches objects, or announces itself as the source of all.
#[derive(Clone, Copy, Debug)]
struct Role {
    is_cache: bool,
    is_source: bool,
}

/// A network with its objects.
struct NdiseNetwork {
    of: Ndise,
    network: Network,
    nodes: Vec<NodeId>,
    caches: [usize; 2],
    readers: Vec<AppId>,
    agents: Vec<AppId>,
    ports: Vec<LinkEndId>,
    neighbours: Vec<Neighbours>,
    /// For each node, its neighbors that are closer to the server.
    hops: Vec<Vec<usize>>,
}

impl NdiseNetwork {
    fn new(of: &Ndise) -> Self {
        let (topology, mut network) = (of.topology, Network::new(of.seed));
        let wires = topology.wires();
        let caches = topology.caches();
        let count = wires.iter().map(|wire| wire.0.max(wire.1)).max().unwrap_or(0) + 1;
        let nodes: Vec<NodeId> =
            (0..count).map(|n| network.add_router(spec(of.arm, caches.contains(&n)))).collect();
        let ports: Vec<LinkEndId> = wires
            .iter()
            .map(|Wire(a, b, rtt_ms, mbps)| network.connect(nodes[*a], nodes[*b], link(*rtt_ms, *mbps)))
            .collect();
        let neighbours = neighbours(&network, &wires, &ports, count);
        let hops = hops(&neighbours, topology.server());
        for n in 0..count {
            set_routes(&network, nodes[n], of.arm, hops[n].iter().map(|b| neighbours[n][*b].1));
        }
        network.attach(nodes[topology.server()], Box::new(Producer::new(prefix(), CONTENT_OCTETS)));
        let interval_ns = CONTENT_OCTETS as u64 * 8 * SECOND / CONSUMER_BPS;
        let reader = |i: usize| {
            let seed = of.seed * 2 + i as u64;
            let (window, from) = (WINDOW, of.warm_ns);
            ObjectReader::new(&prefix(), OBJECTS, PACKETS, window, interval_ns, RTO_NS, from, seed)
        };
        let mut agents = Vec::new();
        if of.arm.is_vip() {
            for n in 0..count {
                let role = Role { is_cache: caches.contains(&n), is_source: n == topology.server() };
                let agent = agent(of, &network, nodes[n], &neighbours[n], &hops[n], role, 0);
                agents.push(network.attach_with_local_fields(nodes[n], Box::new(agent)));
            }
        }
        let readers = topology.consumers().into_iter().enumerate();
        let readers = readers.map(|(i, (_, n))| network.attach(nodes[n], Box::new(reader(i)))).collect();
        NdiseNetwork { of: *of, network, nodes, caches, readers, agents, ports, neighbours, hops }
    }

    fn agent(&self, n: usize) -> Option<&VipAgent> {
        self.agents.get(n).and_then(|agent| self.network.behaviour::<VipAgent>(*agent))
    }

    /// Returns the counters of the forwarders with caches so far.
    fn lookups(&self) -> Lookups {
        let mut sum = Lookups::default();
        for n in self.caches {
            let router = self.network.router(self.nodes[n]);
            let (status, disk_hits) = (router.cs().status(), router.counters().tier.hits);
            let looked_up = self.agent(n).map_or(0, |agent| agent.looked_up);
            sum.met += status.hits + status.misses - looked_up;
            sum.hits += status.hits + disk_hits;
            sum.disk_hits += disk_hits;
            sum.written += self.network.disk_counts(self.nodes[n]).writes;
        }
        sum
    }

    fn got(&self, i: usize, counted_ns: u64) -> ConsumerResult {
        let Some(reader) = self.network.behaviour::<ObjectReader>(self.readers[i]) else {
            return ConsumerResult::default();
        };
        ConsumerResult {
            bps: reader.octets as f64 * 8e9 / counted_ns as f64,
            delay_ms: reader.delay_ns as f64 / reader.data.max(1) as f64 / MS as f64,
            retransmissions: reader.retransmissions,
        }
    }

    fn held(&self, i: usize) -> Vec<(Vec<usize>, usize)> {
        let Some(agent) = self.agent(self.caches[i]) else { return Vec::new() };
        let mut held: Vec<(Vec<usize>, usize)> = Vec::new();
        for now in &agent.held {
            let ranks: Vec<usize> = now.iter().map(|k| k + 1).collect();
            match held.iter_mut().find(|(known, _)| *known == ranks) {
                Some((_, slots)) => *slots += 1,
                None => held.push((ranks, 1)),
            }
        }
        held.sort_by_key(|(_, slots)| std::cmp::Reverse(*slots));
        held
    }

    fn exchange_octets(&self) -> f64 {
        let agents = self.agents.iter().filter_map(|agent| self.network.behaviour::<VipAgent>(*agent));
        let (octets, slots) =
            agents.fold((0, 0), |(octets, _), agent| (octets + agent.octets, agent.vip().slot()));
        octets as f64 / (slots.max(1) * 2 * self.ports.len() as u64) as f64
    }
}

fn spec(arm: Arm, is_cache: bool) -> RouterSpec {
    let packets = if is_cache && arm.policy.is_some() { ROOM * PACKETS as usize } else { 0 };
    let disk = DiskSpec {
        read_ns: DISK_NS,
        write_ns: DISK_NS,
        threads: 1,
        threshold: DISK_THRESHOLD,
        packets_max: DISK_ROOM * PACKETS as usize,
        renews: true,
        writes_requested: arm.below == DiskPolicy::Requested,
        ..DiskSpec::default()
    };
    RouterSpec {
        cs_packets_max: packets,
        cs_policy: arm.policy.unwrap_or_default(),
        disk: (is_cache && arm.below != DiskPolicy::Nothing).then_some(disk),
        ..RouterSpec::default()
    }
}

/// Routes all objects to these faces, the cheapest first, and sets the strategy.
fn set_routes(network: &Network, node: NodeId, arm: Arm, faces: impl Iterator<Item = FaceId>) {
    let router = network.router(node);
    for (cost, face) in faces.enumerate() {
        router.fib().add_nexthop(prefix().as_name(), face, cost as u64).expect("room in the FIB");
    }
    let strategy = Name::new().join_generic(*b"localhost").join_generic(*b"nfd");
    let strategy = strategy.join_generic(*b"strategy").join_generic(arm.strategy.as_bytes());
    router.strategies().set(Name::new().as_name(), strategy.as_name()).expect("a strategy");
}

/// Returns a link with half of the round trip each way, less the time that a Data takes to leave.
fn link(rtt_ms: u64, mbps: u64) -> LinkSpec {
    let leaving_ns = ON_LINK_OCTETS * 8_000 / mbps;
    let delay_ns = (rtt_ms * MS).saturating_sub(leaving_ns) / 2;
    LinkSpec { rate_bps: mbps * 1_000_000, delay_ns, codel: None, ..LinkSpec::default() }
}

/// Returns each node's neighbors, in ascending order.
fn neighbours(network: &Network, wires: &[Wire], ports: &[LinkEndId], count: usize) -> Vec<Neighbours> {
    let mut neighbours = vec![Vec::new(); count];
    for (Wire(a, b, _, mbps), port) in wires.iter().zip(ports) {
        let octets_per_s = mbps * 1_000_000 / 8;
        neighbours[*a].push((*b, network.link_end_face(*port), octets_per_s));
        neighbours[*b].push((*a, network.link_end_face(network.back(*port)), octets_per_s));
    }
    neighbours.iter_mut().for_each(|neighbours| neighbours.sort_unstable_by_key(|(n, ..)| *n));
    neighbours
}

/// Returns each node's neighbors that are closer to the server, in hops, the closest first.
fn hops(neighbours: &[Neighbours], server: usize) -> Vec<Vec<usize>> {
    let mut distance = vec![usize::MAX; neighbours.len()];
    let mut queue = std::collections::VecDeque::from([server]);
    distance[server] = 0;
    while let Some(n) = queue.pop_front() {
        for (b, ..) in &neighbours[n] {
            if distance[*b] == usize::MAX {
                distance[*b] = distance[n] + 1;
                queue.push_back(*b);
            }
        }
    }
    let nearer = |(n, own): (usize, &Neighbours)| {
        let mut hops: Vec<usize> = (0..own.len()).filter(|i| distance[own[*i].0] < distance[n]).collect();
        hops.sort_by_key(|i| distance[own[*i].0]);
        hops
    };
    neighbours.iter().enumerate().map(nearer).collect()
}

fn name_of(n: usize) -> Vec<u8> {
    format!("router-{n}").into_bytes()
}

/// Registers the objects at a router, and creates its agent for that life.
fn agent(
    of: &Ndise,
    network: &Network,
    node: NodeId,
    neighbours: &[(usize, FaceId, u64)],
    hops: &[usize],
    role: Role,
    life: u64,
) -> VipAgent {
    let Role { is_cache, is_source } = role;
    let router = network.router(node);
    let files: Vec<Name> = (0..OBJECTS).map(|k| prefix().join_generic(k.to_string().into_bytes())).collect();
    let names = files.iter().zip(0..).map(|(name, object)| ObjectName {
        name: name.as_name(),
        object,
        id: u64::from(object),
    });
    router.objects().set(names).expect("a catalogue");
    router.objects().only(true);
    let room = PACKETS * PACKET_OCTETS;
    if is_cache {
        router.objects().room(ROOM * PACKETS as usize, ROOM as u64 * room);
    }
    let (period_ms, amplification) = of.slot;
    let size = PACKETS * CONTENT_OCTETS as u64;
    let objects = (0..OBJECTS as u64).map(|id| Object { id, octets: size }).collect();
    let plane = PlaneConfig {
        amplification,
        decay: Decay::from_half_life(HALF_LIFE_MS, period_ms),
        follow: PlacementSource::Scores,
        tiers: if is_cache { tiers(of, size) } else { Vec::new() },
        weight: if let DiskPolicy::Planned(cost) = of.arm.below { cost } else { 0 },
    };
    let neighbour = |(n, _, octets_per_s): &(usize, FaceId, u64)| NeighbourConfig {
        router: Some(name_of(*n)),
        octets_per_s: *octets_per_s,
        octets_per_s_out: *octets_per_s,
    };
    let config = Config {
        router: name_of(node.index()),
        boot: 1 + of.seed + life,
        period_ms,
        plane,
        neighbours: neighbours.iter().map(neighbour).collect(),
    };
    let objects = Objects::new(objects).expect("a catalogue");
    let mut vip = Vip::new(objects, config).expect("a configuration");
    let plane: &mut Plane = vip.plane_mut();
    for k in 0..OBJECTS {
        plane.set_hops(k, hops.iter().copied());
        plane.set_source(k, is_source);
    }
    let faces = neighbours.iter().map(|(_, face, _)| *face).collect();
    let demand = Demand::Counted { packets: PACKETS };
    let agent = VipAgent::new(vip, period_ms, faces, demand, is_cache.then_some(room));
    let agent = agent.watch_from(of.warm_ns);
    let has_disk = is_cache && of.arm.below != DiskPolicy::Nothing;
    if has_disk { agent.with_disk(files) } else { agent }
}

/// Returns the tiers in which a forwarder caches objects of this size.
fn tiers(of: &Ndise, size: u64) -> Vec<Tier> {
    let of_slot = |octets_per_s: u64| octets_per_s * u64::from(of.slot.0) / 1000;
    let rate = of_slot(READ_OCTETS_PER_S);
    let memory = Tier::new(ROOM as u64 * size, rate);
    let DiskPolicy::Planned(_) = of.arm.below else { return vec![memory] };
    let rate = of_slot(CONTENT_OCTETS as u64 * SECOND / DISK_NS);
    vec![memory, Tier::new(DISK_ROOM as u64 * size, rate)]
}

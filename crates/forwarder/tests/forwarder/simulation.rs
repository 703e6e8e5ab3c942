//! Several forwarders connected by links, in one deterministic run that depends on the seed alone.

use std::collections::BTreeMap;

use crate::bench::*;
use namely_forwarder::{DropReason, FaceId, FaceProperties, Outgoing, Received};
use namely_wire::{DataView, InterestView, LpHeaders, NackReason, Name, types};

/// A packet on its way to a face of a node.
struct InFlight {
    node: usize,
    face: FaceId,
    packet: Vec<u8>,
    headers: LpHeaders,
}

/// The other end of a face.
#[derive(Clone, Copy)]
enum End {
    Link { node: usize, face: FaceId, delay_ns: u64 },
    Consumer(usize),
    Producer { delay_ns: u64 },
}

#[derive(Default)]
struct Answers {
    data: BTreeMap<Name, usize>,
    nacks: BTreeMap<Name, Vec<NackReason>>,
}

struct Net {
    nodes: Vec<Fw>,
    ends: BTreeMap<(usize, FaceId), End>,
    events: BTreeMap<(u64, u64), InFlight>,
    now_ns: u64,
    serial: u64,
    random: u64,
    loss_percent: u64,
    consumers: Vec<(usize, FaceId, Answers)>,
    produced: BTreeMap<Name, usize>,
    carried: u64,
    /// A digest of everything sent, in order.
    trace: u64,
}

impl Net {
    fn new(nodes: usize, seed: u64) -> Self {
        let nodes = (0..nodes).map(|i| Fw::new(config(), u128::from(seed) + i as u128).unwrap()).collect();
        Net {
            nodes,
            ends: BTreeMap::new(),
            events: BTreeMap::new(),
            now_ns: 1_000_000_000,
            serial: 0,
            random: seed,
            loss_percent: 0,
            consumers: Vec::new(),
            produced: BTreeMap::new(),
            carried: 0,
            trace: 0,
        }
    }

    fn random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Joins two nodes; returns the face on each.
    fn link(&mut self, one: usize, other: usize, delay_ms: u64) -> (FaceId, FaceId) {
        let faces =
            [one, other].map(|node| self.nodes[node].face_register(FaceProperties::remote()).unwrap());
        let delay_ns = delay_ms * MS;
        self.ends.insert((one, faces[0]), End::Link { node: other, face: faces[1], delay_ns });
        self.ends.insert((other, faces[1]), End::Link { node: one, face: faces[0], delay_ns });
        (faces[0], faces[1])
    }

    fn consumer(&mut self, node: usize) -> usize {
        let face = self.nodes[node].face_register(FaceProperties::application()).unwrap();
        self.consumers.push((node, face, Answers::default()));
        self.ends.insert((node, face), End::Consumer(self.consumers.len() - 1));
        self.consumers.len() - 1
    }

    fn producer(&mut self, node: usize, prefix: &str, delay_ms: u64) {
        let face = self.nodes[node].face_register(FaceProperties::application()).unwrap();
        self.ends.insert((node, face), End::Producer { delay_ns: delay_ms * MS });
        self.route(node, prefix, face, 0);
    }

    fn route(&self, node: usize, prefix: &str, face: FaceId, cost: u64) {
        self.nodes[node].fib().add_nexthop(name(prefix).as_name(), face, cost).unwrap();
    }

    fn multicast(&self, prefix: &str) {
        let strategy = name("/localhost/nfd/strategy/multicast");
        self.nodes.iter().for_each(|node| {
            node.strategies().set(name(prefix).as_name(), strategy.as_name()).unwrap();
        });
    }

    fn ask(&mut self, consumer: usize, uri: &str, lifetime_ms: u64) {
        let nonce = (self.random() as u32).to_be_bytes();
        let packet = interest(uri).nonce(nonce).lifetime_ms(lifetime_ms).build();
        let (node, face, _) = self.consumers[consumer];
        self.deliver_after(0, InFlight { node, face, packet, headers: token(&[consumer as u8 + 1; 5]) });
    }

    fn deliver_after(&mut self, delay_ns: u64, packet: InFlight) {
        self.serial += 1;
        self.events.insert((self.now_ns + delay_ns, self.serial), packet);
    }

    /// Runs until no packet is in flight and no timer is pending.
    fn run(&mut self) {
        loop {
            let timers: Vec<Option<u64>> =
                self.nodes.iter().map(|node| node.expire(self.now_ns, &mut Sent::new())).collect();
            let timer = timers.into_iter().flatten().min();
            let arrival = self.events.keys().next().map(|(at, _)| *at);
            let Some(next) = [timer, arrival].into_iter().flatten().min() else { return };
            self.now_ns = self.now_ns.max(next);
            while let Some(first) = self.events.first_entry().filter(|event| event.key().0 <= self.now_ns) {
                let InFlight { node, face, packet, headers } = first.remove();
                let mut sent = Sent::new();
                let received = Received { packet: packet.into(), headers };
                self.nodes[node].receive(face, received, self.now_ns, &mut sent);
                sent.into_iter().for_each(|(face, out)| self.transmit(node, face, out));
            }
            assert!(self.carried < 1_000_000, "packets multiply without end");
        }
    }

    fn transmit(&mut self, from: usize, face: FaceId, out: Outgoing<Packet>) {
        self.carried += 1;
        let mut packet = out.packet.to_vec();
        if let Some((offset, limit)) = out.hop_limit {
            packet[offset] = limit;
        }
        let digest = test_digest(&packet);
        self.trace = self.trace.rotate_left(7)
            ^ self.now_ns
            ^ face.0
            ^ u64::from_be_bytes(digest[..8].try_into().unwrap());
        match self.ends[&(from, face)] {
            End::Link { node, face, delay_ns } => {
                if self.random() % 100 >= self.loss_percent {
                    self.deliver_after(delay_ns, InFlight { node, face, packet, headers: out.headers });
                }
            }
            End::Consumer(i) => self.consumed(i, &packet, &out.headers),
            End::Producer { delay_ns } => {
                let name = InterestView::parse(&packet).unwrap().name.to_name();
                *self.produced.entry(name.clone()).or_default() += 1;
                let packet = data_with(&name.to_string(), 1000, b"payload").to_vec();
                self.deliver_after(
                    delay_ns,
                    InFlight { node: from, face, packet, headers: LpHeaders::default() },
                );
            }
        }
    }

    fn consumed(&mut self, consumer: usize, packet: &[u8], headers: &LpHeaders) {
        assert_eq!(headers.pit_token.unwrap().as_bytes(), [consumer as u8 + 1; 5]);
        let answers = &mut self.consumers[consumer].2;
        match headers.nack {
            Some(reason) => {
                let name = InterestView::parse(packet).unwrap().name.to_name();
                answers.nacks.entry(name).or_default().push(reason);
            }
            None => {
                assert_eq!(packet[0], types::DATA as u8);
                *answers.data.entry(DataView::parse(packet).unwrap().name.to_name()).or_default() += 1;
            }
        }
    }

    fn data_of(&self, consumer: usize, uri: &str) -> usize {
        self.consumers[consumer].2.data.get(&name(uri)).copied().unwrap_or(0)
    }

    fn nacks_of(&self, consumer: usize, uri: &str) -> Vec<NackReason> {
        self.consumers[consumer].2.nacks.get(&name(uri)).cloned().unwrap_or_default()
    }

    fn assert_drained(&self) {
        assert!(self.nodes.iter().all(|node| node.table_sizes().pit == 0));
    }
}

#[test]
fn caches_on_the_path_answer_consumers() {
    let mut net = Net::new(4, 1);
    for i in 0..3 {
        let (down, _) = net.link(i, i + 1, 5);
        net.route(i, "/p", down, 0);
    }
    net.producer(3, "/p", 1);
    let (far, middle) = (net.consumer(0), net.consumer(1));
    net.ask(far, "/p/1", 4000);
    net.run();
    net.ask(middle, "/p/1", 4000);
    net.run();
    assert_eq!((net.data_of(far, "/p/1"), net.data_of(middle, "/p/1")), (1, 1));
    assert_eq!(net.produced[&name("/p/1")], 1);
    net.assert_drained();
}

/// `IS-29` over several routers.
#[test]
fn interests_aggregate_on_the_way() {
    let mut net = Net::new(7, 2);
    // A binary tree with the producer at the root and four consumers at each leaf.
    for child in 1..7 {
        let (up, _) = net.link(child, (child - 1) / 2, 10);
        net.route(child, "/p", up, 0);
    }
    net.producer(0, "/p", 100);
    let consumers: Vec<usize> = (3..7).flat_map(|leaf| [leaf; 4]).map(|leaf| net.consumer(leaf)).collect();
    consumers.iter().for_each(|consumer| net.ask(*consumer, "/p/x", 4000));
    net.run();
    assert!(consumers.iter().all(|consumer| net.data_of(*consumer, "/p/x") == 1));
    assert_eq!(net.produced[&name("/p/x")], 1);
    net.assert_drained();
}

#[test]
fn a_ring_of_routes_ends_in_nack() {
    let mut net = Net::new(3, 3);
    for i in 0..3 {
        let (out, _) = net.link(i, (i + 1) % 3, 5);
        net.route(i, "/p", out, 0);
    }
    let consumer = net.consumer(0);
    let start_ns = net.now_ns;
    net.ask(consumer, "/p/1", 4000);
    net.run();
    assert_eq!(net.nacks_of(consumer, "/p/1"), [NackReason::Duplicate]);
    assert!(net.now_ns - start_ns < 100 * MS);
    net.assert_drained();
}

#[test]
fn multicast_over_a_full_mesh_ends() {
    let nodes = 6;
    let mut net = Net::new(nodes, 4);
    net.multicast("/");
    for one in 0..nodes {
        for other in one + 1..nodes {
            let delay_ms = 1 + net.random() % 20;
            let (there, back) = net.link(one, other, delay_ms);
            net.route(one, "/p", there, 0);
            net.route(other, "/p", back, 0);
        }
    }
    net.producer(5, "/p", 3);
    let consumers: Vec<usize> = (0..nodes).map(|node| net.consumer(node)).collect();
    for i in 0..20 {
        let consumer = consumers[i % nodes];
        net.ask(consumer, &format!("/p/{i}"), 2000);
    }
    net.ask(consumers[0], "/p/all", 2000);
    net.ask(consumers[1], "/p/all", 2000);
    net.run();
    for i in 0..20 {
        assert_eq!(net.data_of(consumers[i % nodes], &format!("/p/{i}")), 1);
    }
    assert_eq!((net.data_of(consumers[0], "/p/all"), net.data_of(consumers[1], "/p/all")), (1, 1));
    let loops: u64 = net.nodes.iter().map(|node| node.counters().dropped(DropReason::Loop)).sum();
    assert!(loops > 0, "the mesh makes Interests come back");
    net.assert_drained();
}

#[test]
fn a_retransmission_leaves_a_dead_end() {
    let mut net = Net::new(3, 5);
    let (dead, _) = net.link(0, 1, 20);
    let (alive, _) = net.link(0, 2, 20);
    net.route(0, "/p", dead, 0);
    net.route(0, "/p", alive, 1);
    net.producer(2, "/p", 1);
    let consumer = net.consumer(0);
    net.ask(consumer, "/p/1", 4000);
    net.run();
    assert_eq!(net.nacks_of(consumer, "/p/1"), [NackReason::NoRoute]);
    net.ask(consumer, "/p/2", 4000);
    let (node, face, _) = net.consumers[consumer];
    let packet = interest("/p/2").nonce([9; 4]).build();
    net.deliver_after(11 * MS, InFlight { node, face, packet, headers: token(&[1; 5]) });
    net.run();
    assert_eq!((net.data_of(consumer, "/p/2"), net.nacks_of(consumer, "/p/2")), (1, vec![]));
    net.assert_drained();
}

fn lossy_run(seed: u64) -> (u64, u64, usize) {
    let mut net = Net::new(5, seed);
    net.multicast("/p/m");
    for one in 0..5 {
        let delay_ms = 1 + net.random() % 10;
        let (there, back) = net.link(one, (one + 1) % 5, delay_ms);
        net.route(one, "/p", there, net_cost(one));
        net.route((one + 1) % 5, "/p", back, net_cost(one + 1));
    }
    net.producer(2, "/p", 2);
    net.loss_percent = 10;
    let consumers: Vec<usize> = (0..5).map(|node| net.consumer(node)).collect();
    for i in 0..50 {
        let consumer = consumers[net.random() as usize % 5];
        let kind = if net.random().is_multiple_of(2) { "m" } else { "b" };
        net.ask(consumer, &format!("/p/{kind}/{}", i % 20), 100 + 10 * i);
    }
    net.run();
    net.assert_drained();
    let answered = net.consumers.iter().map(|(_, _, answers)| answers.data.len() + answers.nacks.len()).sum();
    (net.trace, net.carried, answered)
}

fn net_cost(node: usize) -> u64 {
    [3, 1, 4, 1, 5, 9][node]
}

#[test]
fn one_seed_gives_one_run() {
    let runs: Vec<_> = (10..20).map(lossy_run).collect();
    let again: Vec<_> = (10..20).map(lossy_run).collect();
    assert_eq!(runs, again);
    let mut traces: Vec<u64> = runs.iter().map(|(trace, ..)| *trace).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), runs.len(), "different seeds are different runs");
    assert!(runs.iter().all(|(_, _, answered)| *answered > 10));
}

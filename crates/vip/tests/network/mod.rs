//! Routers that exchange packets in virtual time, over links that may lose, repeat and reorder
//! them.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;

use namely_vip::{Action, Config, Counter, NeighbourConfig, Objects, PacketDecision, PlaneConfig, Vip};
use namely_wire::{Component, DataBuilder, InterestBuilder, Name, SignatureInfo};

pub(crate) const MS: u64 = 1_000_000;

/// Returns the delays with which a link delivers the copies of a packet, ns.
pub(crate) type Law = Box<dyn FnMut(&[u8]) -> Vec<u64>>;

/// Links of a node: the node at the other end, or `None` for one without VIP, and the capacity in
/// octets per second.
type Links = Vec<(Option<usize>, u64)>;

pub(crate) struct Node {
    pub(crate) vip: Vip,
    /// The node of each neighbor; `None` for a neighbor without VIP.
    pub(crate) neighbours: Vec<Option<usize>>,
    wake_ns: u64,
    config: Config,
    objects: Objects,
    /// VIPs that were sent to a neighbor without VIP in former slots.
    left: u64,
}

pub(crate) struct Net {
    pub(crate) nodes: Vec<Node>,
    pub(crate) now_ns: u64,
    packets: BTreeMap<(u64, u64), (usize, usize, Vec<u8>)>,
    sent: u64,
    pub(crate) law: Law,
    /// Octets of packets sent.
    pub(crate) octets: u64,
    /// VIPs that restarts lost, that left the plane in former boots, and that may be counted twice.
    lost: u64,
    gone: u64,
    doubled: u64,
    demanded: u64,
}

/// The name of a router.
pub(crate) fn router(n: usize) -> Vec<u8> {
    format!("router-{n}").into_bytes()
}

/// Octets of an Interest. The host checks signatures; here all are valid.
pub(crate) fn interest(name: &Name, parameters: Option<&[u8]>) -> Vec<u8> {
    let builder = InterestBuilder::new(name.clone()).nonce([1; 4]).hop_limit(1);
    match parameters {
        None => builder.build(),
        Some(parameters) => builder.build_with_parameters(parameters, namely_security::sha256),
    }
}

/// Octets of a Data.
pub(crate) fn data(name: &Name, content: &[u8], last_segment: Option<u64>) -> Vec<u8> {
    let last = Name::new().join_segment(last_segment.unwrap_or(0));
    let mut builder = DataBuilder::new(name.as_name());
    if last_segment.is_some() {
        let component: Component<'_> = last.as_name().last().expect("a component");
        builder = builder.final_block_id(component);
    }
    builder.build(content, &SignatureInfo::digest_sha256()).finish(&[0; 64])
}

impl Net {
    /// Creates routers without a packet in flight. Each neighbor of a node is given by its node and
    /// the capacity of the link in octets per second.
    pub(crate) fn new(
        objects: &Objects,
        period_ms: u32,
        planes: Vec<PlaneConfig>,
        neighbours: Vec<Links>,
    ) -> Self {
        let make = |(n, (plane, links)): (usize, (PlaneConfig, Links))| {
            let neighbours = links.iter().map(|&(node, octets_per_s)| NeighbourConfig {
                router: node.map(router),
                octets_per_s,
                octets_per_s_out: octets_per_s,
            });
            let config = Config {
                router: router(n),
                boot: 1 + n as u64,
                period_ms,
                plane,
                neighbours: neighbours.collect(),
            };
            Node {
                vip: Vip::new(objects.clone(), config.clone()).expect("a configuration"),
                neighbours: links.iter().map(|(node, _)| *node).collect(),
                wake_ns: 0,
                config,
                objects: objects.clone(),
                left: 0,
            }
        };
        Net {
            nodes: planes.into_iter().zip(neighbours).enumerate().map(make).collect(),
            now_ns: 0,
            packets: BTreeMap::new(),
            sent: 0,
            law: Box::new(|_| vec![MS]),
            octets: 0,
            lost: 0,
            gone: 0,
            doubled: 0,
            demanded: 0,
        }
    }

    /// Runs until this time, inclusive.
    pub(crate) fn run(&mut self, until_ns: u64) {
        loop {
            let packet = self.packets.keys().next().map(|(at, _)| *at);
            let (wake, n) = (0..self.nodes.len()).map(|n| (self.nodes[n].wake_ns, n)).min().expect("a node");
            // A packet at the end of a slot belongs to that slot.
            match packet {
                Some(at) if at <= wake && at <= until_ns => {
                    self.now_ns = at;
                    self.deliver();
                }
                _ if wake <= until_ns => {
                    self.now_ns = wake;
                    self.tick(n);
                }
                _ => break,
            }
        }
        self.now_ns = until_ns;
    }

    fn tick(&mut self, n: usize) {
        let (now, wall, mut out) = (self.now_ns, self.wall(n), Vec::new());
        let (slot, left) = (self.nodes[n].vip.slot(), self.leaving(n));
        self.nodes[n].wake_ns = self.nodes[n].vip.tick(now, wall, &mut out);
        if self.nodes[n].vip.slot() != slot {
            self.nodes[n].left += left;
        }
        self.carry_out(n, out);
    }

    /// The clock of a router, which is hours apart from all others.
    pub(crate) fn wall(&self, n: usize) -> u64 {
        1_700_000_000_000_000 + 3_600_000_000 * n as u64 + self.now_ns / 1000
    }

    /// VIPs that are sent in this slot to neighbors without VIP.
    fn leaving(&self, n: usize) -> u64 {
        let node = &self.nodes[n];
        let drains = (0..node.neighbours.len()).filter(|b| node.neighbours[*b].is_none());
        drains.filter_map(|b| node.vip.plane().sent(b)).map(|(_, vips)| vips).sum()
    }

    fn carry_out(&mut self, n: usize, actions: Vec<Action>) {
        for action in actions {
            let (b, octets) = match action {
                Action::Request { neighbour, name, parameters, .. } => {
                    (neighbour, interest(&name, parameters.as_deref()))
                }
                Action::Answer { neighbour, name, content, last_segment } => {
                    (neighbour, data(&name, &content, last_segment))
                }
            };
            assert!(octets.len() <= namely_wire::PACKET_OCTETS_MAX);
            self.octets += octets.len() as u64;
            let to = self.nodes[n].neighbours[b].expect("a router that speaks VIP");
            for delay in (self.law)(&octets) {
                self.sent += 1;
                self.packets.insert((self.now_ns + delay, self.sent), (n, to, octets.clone()));
            }
        }
    }

    fn deliver(&mut self) {
        if let Some((_, (from, to, octets))) = self.packets.pop_first() {
            self.inject(from, to, &octets);
        }
    }

    /// Delivers a packet, which need not have been sent.
    pub(crate) fn inject(&mut self, from: usize, to: usize, octets: &[u8]) {
        if self.is_silent(to) {
            return;
        }
        let (now, wall, mut out) = (self.now_ns, self.wall(to), Vec::new());
        let b = self.neighbour(to, from);
        let vip = &mut self.nodes[to].vip;
        if vip.look(b, octets, now) != PacketDecision::Drop {
            vip.receive(b, octets, now, wall, &mut out);
        }
        self.carry_out(to, out);
    }

    /// The index at `n` of its neighbor `of`.
    pub(crate) fn neighbour(&self, n: usize, of: usize) -> usize {
        self.nodes[n].neighbours.iter().position(|node| *node == Some(of)).expect("a neighbor")
    }

    pub(crate) fn add_demand(&mut self, n: usize, k: usize, vips: u64) {
        self.demanded += vips * u64::from(self.nodes[n].config.plane.amplification);
        self.nodes[n].vip.plane_mut().add_demand(k, vips);
    }

    pub(crate) fn count(&self, n: usize, counter: Counter) -> u64 {
        self.nodes[n].vip.counters().get(counter)
    }

    /// VIPs on their way from `a` to `b`: those that `b` has entered, and those that it has not.
    fn under_way(&self, a: usize, b: usize) -> (u64, u64) {
        let known = self.nodes[b].vip.neighbour(self.neighbour(b, a)).expect("a neighbor");
        let entered = if known.boot == Some(self.nodes[a].config.boot) { known.entered } else { 0 };
        let offers = self.nodes[a].vip.under_way(self.neighbour(a, b));
        offers.fold((0, 0), |(come, coming), offer| match offer.slot <= entered {
            true => (come + offer.vips, coming),
            false => (come, coming + offer.vips),
        })
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let of = |a: usize| self.nodes[a].neighbours.iter().flatten().map(move |b| (a, *b));
        (0..self.nodes.len()).flat_map(of)
    }

    fn held(&self, n: usize) -> u64 {
        let plane = self.nodes[n].vip.plane();
        plane.counts().iter().chain(plane.pending()).sum()
    }

    fn ended(&self, n: usize) -> u64 {
        let totals = self.nodes[n].vip.plane().totals();
        totals.drained + totals.arrived + totals.saturated + totals.withdrawn
    }

    /// Restarts a router, with its routes.
    pub(crate) fn restart(&mut self, n: usize, set_up: impl Fn(&mut Vip)) {
        self.lost += self.held(n);
        self.gone += self.ended(n);
        self.nodes[n].left += self.leaving(n);
        for m in self.nodes[n].neighbours.clone().into_iter().flatten() {
            let (_, coming) = self.under_way(n, m);
            self.lost += coming;
            // VIPs of a packet in flight may still be entered.
            self.doubled += coming + self.under_way(m, n).0;
        }
        let node = &mut self.nodes[n];
        node.config.boot += 1000;
        node.vip = Vip::new(node.objects.clone(), node.config.clone()).expect("a configuration");
        set_up(&mut node.vip);
        node.wake_ns = self.now_ns;
    }

    /// Replaces the objects of a router and reorders its neighbors. `order` has the former index of
    /// each neighbor.
    pub(crate) fn exchange(
        &mut self,
        n: usize,
        objects: Objects,
        order: &[usize],
        set_up: impl Fn(&mut Vip),
    ) {
        let leaving = self.leaving(n);
        let node = &mut self.nodes[n];
        node.config.neighbours = order.iter().map(|b| node.config.neighbours[*b].clone()).collect();
        node.neighbours = order.iter().map(|b| node.neighbours[*b]).collect();
        node.objects = objects.clone();
        node.vip.exchange(objects, node.config.clone()).expect("a configuration");
        set_up(&mut node.vip);
        // VIPs of a removed object that left in this slot.
        self.nodes[n].left += leaving - self.leaving(n);
    }

    /// From now on the router does nothing.
    pub(crate) fn silence(&mut self, n: usize) {
        self.nodes[n].wake_ns = u64::MAX;
    }

    fn is_silent(&self, n: usize) -> bool {
        self.nodes[n].wake_ns == u64::MAX
    }

    /// Reports to a router that a neighbor has gone, although it has not.
    pub(crate) fn forget(&mut self, n: usize, neighbour: usize) {
        let (come, coming) = self.under_way(n, neighbour);
        self.doubled += come + coming + self.under_way(neighbour, n).0;
        let b = self.neighbour(n, neighbour);
        self.nodes[n].vip.neighbour_removed(b);
    }

    /// Checks that every VIP is in one place. Only those in `doubled` may be in two.
    pub(crate) fn check(&self) {
        for node in &self.nodes {
            let (plane, totals) = (node.vip.plane(), node.vip.plane().totals());
            let there: u64 = plane.counts().iter().chain(plane.pending()).sum();
            let ended = totals.departed + totals.drained + totals.arrived + totals.saturated;
            assert_eq!(there + ended + totals.withdrawn, totals.entered);
        }
        let nodes = 0..self.nodes.len();
        let there: u64 =
            nodes.map(|n| self.held(n) + self.ended(n) + self.nodes[n].left + self.leaving(n)).sum();
        let coming: u64 = self.pairs().map(|(a, b)| self.under_way(a, b).1).sum();
        let found = there + coming + self.gone + self.lost;
        // An acknowledgement that was in flight during a restart or a removal of a neighbor may
        // still have arrived in time.
        let most = self.demanded + self.doubled;
        assert!((self.demanded..=most).contains(&found), "{} to {most}: {found}", self.demanded);
    }

    pub(crate) fn lost_and_doubled(&self) -> (u64, u64) {
        (self.lost, self.doubled)
    }
}

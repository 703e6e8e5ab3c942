//! A simulated network: the calls that build, run and measure it.

use std::any::Any;
use std::sync::Arc;

use hdrhistogram::Histogram;
use namely_forwarder::{FaceId, FaceProperties};
use namely_wire::Name;
use parking_lot::Mutex;

use crate::behaviour::Behaviour;
use crate::disk::{Disk, DiskCounts};
use crate::engine::{Engine, Turn};
use crate::event::{EventKind, LinkEndId};
use crate::link::{LinkCounts, LinkEnd, LinkSpec, TrafficCounts};
use crate::node::{Node, Router, RouterSpec};
use crate::packet::{NodeId, Packet};
use crate::partition::{self, Division};
use crate::routes::{self, NextHops};
use crate::threads;

/// Identifies a behavior that is attached to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId {
    node: u32,
    app: u32,
}

/// A prefix, and the node that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The prefix.
    pub prefix: Name,
    /// The node.
    pub node: NodeId,
}

/// A simulated network.
pub struct Network {
    seed: u64,
    pub(crate) now_ns: u64,
    /// Partitions of the nodes; at least one.
    engines: Vec<Engine>,
    /// Engine of each node; nodes that were added later belong to the first one.
    of_node: Arc<[u16]>,
    nodes: usize,
    threads: usize,
    /// Least delay of a link between engines.
    window_ns: u64,
    /// False if nodes, links or threads have changed since the last division.
    is_divided: bool,
    /// Behaviors that have not started.
    waiting: Vec<AppId>,
    is_traced: bool,
}

impl Network {
    /// Creates a network without nodes. All its randomness follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Network {
            seed,
            now_ns: 0,
            engines: vec![Engine::default()],
            of_node: Arc::new([]),
            nodes: 0,
            threads: 1,
            window_ns: u64::MAX,
            is_divided: true,
            waiting: Vec::new(),
            is_traced: false,
        }
    }

    /// Sets the number of threads that process events, one by default. The results are the same
    /// with any number. The more frames a window contains, the more another thread helps; a window
    /// is as long as the least delay of a link between two threads' nodes.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
        self.is_divided = false;
    }

    /// Returns the length of a window of several threads in ns: none if one thread processes all
    /// events, or before the network has run.
    pub fn window_ns(&self) -> Option<u64> {
        (self.engines.len() > 1).then_some(self.window_ns)
    }

    fn engine_of(&self, node: u32) -> usize {
        self.of_node.get(node as usize).map_or(0, |engine| usize::from(*engine))
    }

    fn node_of(&self, node: u32) -> &Node {
        self.engines[self.engine_of(node)].node(node)
    }

    fn node_of_mut(&mut self, node: u32) -> &mut Node {
        let engine = self.engine_of(node);
        self.engines[engine].node_mut(node)
    }

    /// Returns all nodes, in the order of their ids.
    fn all(&self) -> impl Iterator<Item = &Node> {
        (0..self.nodes as u32).map(move |node| self.node_of(node))
    }

    pub(crate) fn node(&self, node: NodeId) -> &Node {
        self.node_of(node.0 as u32)
    }

    fn node_mut(&mut self, node: NodeId) -> &mut Node {
        self.node_of_mut(node.0 as u32)
    }

    pub(crate) fn end(&self, port: LinkEndId) -> &LinkEnd {
        &self.node_of(port.node).ends[port.end as usize]
    }

    pub(crate) fn end_mut(&mut self, port: LinkEndId) -> &mut LinkEnd {
        &mut self.node_of_mut(port.node).ends[port.end as usize]
    }

    /// Calls `act` with a node at the current time.
    pub(crate) fn with<T>(&mut self, node: u32, act: impl FnOnce(&mut Node, &mut Turn<'_>) -> T) -> T {
        let engine = self.engine_of(node);
        self.engines[engine].with(node, self.now_ns, act)
    }

    /// Schedules an event at a node, from outside.
    pub(crate) fn schedule(&mut self, node: u32, at_ns: u64, event: EventKind) {
        self.with(node, |node, turn| node.schedule(at_ns, event, turn));
    }

    /// Adds a router.
    ///
    /// # Panics
    /// If `spec` has a limit that no forwarder can have.
    pub fn add_router(&mut self, spec: RouterSpec) -> NodeId {
        let id = self.nodes;
        let mut node = Box::new(Node::new(id as u32, self.seed, &spec));
        node.trace = self.is_traced.then(Box::default);
        self.engines[0].add(node);
        self.nodes += 1;
        self.is_divided = false;
        NodeId(id)
    }

    /// Connects two nodes by a link with the same properties in both directions. Returns the
    /// direction from `a` to `b`.
    pub fn connect(&mut self, a: NodeId, b: NodeId, spec: LinkSpec) -> LinkEndId {
        self.connect_unlike(a, b, spec, spec)
    }

    /// Connects two nodes by a link with different directions: `there` is from `a` to `b`, which is
    /// also returned.
    ///
    /// # Panics
    /// If a node has its maximum of faces.
    pub fn connect_unlike(&mut self, a: NodeId, b: NodeId, there: LinkSpec, back: LinkSpec) -> LinkEndId {
        let first = self.next_end(a);
        let second = match a == b {
            true => LinkEndId { end: first.end + 1, ..first },
            false => self.next_end(b),
        };
        self.is_divided = false;
        self.node_mut(a).add_end(FaceProperties::remote(), vec![second], there);
        self.node_mut(b).add_end(FaceProperties::remote(), vec![first], back);
        first
    }

    /// Returns the port that a node gets next.
    fn next_end(&self, node: NodeId) -> LinkEndId {
        LinkEndId { node: node.0 as u32, end: self.node(node).ends.len() as u32 }
    }

    /// Connects nodes by a shared medium, such as a switch with a multicast group. Each node has a
    /// face to the group, and a queue and a rate of its own. All others receive its frames. Returns
    /// the port of each.
    ///
    /// # Panics
    /// If a node is named twice, or has its maximum of faces.
    pub fn share(&mut self, nodes: &[NodeId], spec: LinkSpec) -> Vec<LinkEndId> {
        self.is_divided = false;
        let ports: Vec<LinkEndId> = nodes.iter().map(|node| self.next_end(*node)).collect();
        for (own, node) in ports.iter().zip(nodes) {
            assert_eq!(self.next_end(*node), *own, "a node is on a medium once");
            let others = ports.iter().copied().filter(|other| other != own).collect();
            self.node_mut(*node).add_end(FaceProperties::group(), others, spec);
            self.end_mut(*own).is_group = true;
        }
        ports
    }

    /// Returns the other direction of the same link; for a shared medium, the first of the others.
    ///
    /// # Panics
    /// If the medium has one node only.
    pub fn reverse(&self, port: LinkEndId) -> LinkEndId {
        self.end(port).peers[0]
    }

    /// Takes a port off its link at `at_ns`, or puts it back. While the port is off, frames from it
    /// and frames on the way to it are lost, without a notification.
    pub fn set_up_at(&mut self, at_ns: u64, port: LinkEndId, is_up: bool) {
        self.schedule(port.node, at_ns, EventKind::Link(port.end as usize, is_up));
    }

    /// Lets a link fail in both directions from `from_ns` to `until_ns`, without a notification.
    /// Outages may overlap.
    pub fn fail_link(&mut self, port: LinkEndId, from_ns: u64, until_ns: u64) {
        for end in [port, self.back(port)] {
            self.schedule(end.node, from_ns, EventKind::Outage(end.end as usize, true));
            self.schedule(end.node, until_ns, EventKind::Outage(end.end as usize, false));
        }
    }

    /// Takes a node off all its links from `from_ns` to `until_ns`, without a notification. Its
    /// tables and behaviors stay. Outages may overlap.
    pub fn fail_node(&mut self, node: NodeId, from_ns: u64, until_ns: u64) {
        self.schedule(node.0 as u32, from_ns, EventKind::NodeOutage(true));
        self.schedule(node.0 as u32, until_ns, EventKind::NodeOutage(false));
    }

    /// Attaches a behavior to a node, by an application's face.
    ///
    /// # Panics
    /// If the node has its maximum of faces.
    pub fn attach(&mut self, node: NodeId, behaviour: Box<dyn Behaviour>) -> AppId {
        self.attach_by(node, FaceProperties::application(), behaviour)
    }

    /// As [`Network::attach`], by a face with local fields: the behavior selects the next hop of a
    /// packet with NextHopFaceId, and receives IncomingFaceId.
    ///
    /// # Panics
    /// If the node has its maximum of faces.
    pub fn attach_with_local_fields(&mut self, node: NodeId, behaviour: Box<dyn Behaviour>) -> AppId {
        let spec = FaceProperties { local_fields: true, ..FaceProperties::application() };
        self.attach_by(node, spec, behaviour)
    }

    /// Attaches a behavior to a node as a neighbor without a forwarder. Its packets come from
    /// another host, unchecked. The link to it has no limits.
    ///
    /// # Panics
    /// If the node has its maximum of faces.
    pub fn attach_neighbour(&mut self, node: NodeId, behaviour: Box<dyn Behaviour>) -> AppId {
        self.attach_by(node, FaceProperties::remote(), behaviour)
    }

    fn attach_by(&mut self, node: NodeId, spec: FaceProperties, behaviour: Box<dyn Behaviour>) -> AppId {
        let app = self.node_mut(node).add_app(spec, behaviour) as u32;
        let id = AppId { node: node.0 as u32, app };
        self.waiting.push(id);
        id
    }

    /// Restarts a node's forwarder: it has its former faces and empty tables. Received packets are
    /// lost. Behaviors and a disk stay, and the caller has to notify them.
    ///
    /// # Panics
    /// If the node has released a face, or `spec` has a limit that no forwarder can have.
    pub fn restart(&mut self, node: NodeId, spec: RouterSpec) {
        self.node_mut(node).restart(&spec);
    }

    /// Replaces a behavior behind the same face. The new one starts when the network continues.
    pub fn replace(&mut self, app: AppId, behaviour: Box<dyn Behaviour>) {
        self.waiting.push(app);
        let app = &mut self.node_of_mut(app.node).apps[app.app as usize];
        (app.behaviour, app.started) = (Some(behaviour), false);
        // Cancels the wakeup of the former behavior.
        let _ = app.alarm.set(u64::MAX);
    }

    /// Returns the face of a behavior at its node's forwarder.
    pub fn face_of(&self, app: AppId) -> FaceId {
        self.node_of(app.node).apps[app.app as usize].face
    }

    /// Returns the face of a port at its node's forwarder.
    pub fn link_end_face(&self, port: LinkEndId) -> FaceId {
        self.end(port).face
    }

    /// Returns the faces of a node's ports, in the order of their creation.
    pub fn link_faces(&self, node: NodeId) -> Vec<FaceId> {
        self.node(node).ends.iter().map(|end| end.face).collect()
    }

    /// Returns the other direction of a link between two nodes.
    pub fn back(&self, port: LinkEndId) -> LinkEndId {
        self.end(port).peers.first().copied().unwrap_or(port)
    }

    /// Returns a node's forwarder.
    pub fn router(&self, node: NodeId) -> &Router {
        &self.node(node).forwarder
    }

    /// Puts Data on a node's disk, as if it had been written long ago.
    ///
    /// # Panics
    /// If the node has no disk.
    pub fn store(&mut self, node: NodeId, packets: impl IntoIterator<Item = Packet>) {
        let disk = self.node_mut(node).disk.as_mut().expect("a node with a disk");
        packets.into_iter().for_each(|packet| disk.keep(packet, 0));
    }

    /// Returns the counters of a node's disk.
    pub fn disk_counts(&self, node: NodeId) -> DiskCounts {
        self.node(node).disk.as_ref().map(Disk::counts).unwrap_or_default()
    }

    /// Returns a behavior, to read its measurements; `None` if it has another type.
    pub fn behaviour<T: Behaviour>(&self, app: AppId) -> Option<&T> {
        let app = &self.node_of(app.node).apps[app.app as usize];
        let behaviour: &dyn Any = app.behaviour.as_deref()?;
        behaviour.downcast_ref()
    }

    /// Routes `prefix` on all nodes to `node`, by the paths of least delay. At `node` the prefix
    /// leads to the behavior that serves it (see [`crate::Producer`]).
    ///
    /// # Panics
    /// If a node's FIB is full.
    pub fn announce(&mut self, prefix: &Name, node: NodeId) {
        self.announce_all(&[Announcement { prefix: prefix.clone(), node }], 1);
    }

    /// Routes each prefix on all nodes to its node, as [`Network::announce`] does, by up to `paths`
    /// next hops. The first is on the path of least delay, and all lead to nodes that are closer.
    ///
    /// # Panics
    /// If a node's FIB is full.
    pub fn announce_all(&mut self, announcements: &[Announcement], paths: usize) {
        let (ports, edges): (Vec<LinkEndId>, Vec<routes::Edge>) = self.edges().unzip();
        let graph = routes::Graph::new(self.nodes, &edges);
        for Announcement { prefix, node } in announcements {
            for NextHops { node, edges } in graph.towards(node.0, paths) {
                let fib = self.node_of(node as u32).forwarder.fib();
                for (cost, edge) in edges.into_iter().enumerate() {
                    let face = self.end(ports[edge]).face;
                    fib.add_nexthop(prefix.as_name(), face, cost as u64).expect("room in the FIB");
                }
            }
        }
    }

    /// Routes `prefix` between members of a group, on a tree of paths of least delay to the first
    /// member, with the strategy multicast. At each member the prefix also leads to the behavior
    /// that serves it.
    ///
    /// # Panics
    /// If a node's FIB or table of strategies is full.
    pub fn announce_group(&mut self, prefix: &Name, members: &[NodeId]) {
        let Some(root) = members.first() else { return };
        let (ports, edges): (Vec<LinkEndId>, Vec<routes::Edge>) = self.edges().unzip();
        let mut hops: Vec<Option<usize>> = vec![None; self.nodes];
        for NextHops { node, edges } in routes::Graph::new(self.nodes, &edges).towards(root.0, 1) {
            hops[node] = edges.first().copied();
        }
        let multicast = Name::new().join_generic(*b"multicast");
        let mut is_reached = vec![false; self.nodes];
        for member in members {
            let mut at = member.0;
            while !std::mem::replace(&mut is_reached[at], true) {
                let strategies = self.node_of(at as u32).forwarder.strategies();
                strategies.set(prefix.as_name(), multicast.as_name()).expect("room for a strategy");
                let Some(edge) = hops[at] else { break };
                let port = ports[edge];
                let peer = self.end(port).peers.iter().find(|peer| peer.node as usize == edges[edge].to);
                for port in [Some(&port), peer].into_iter().flatten() {
                    let fib = self.node_of(port.node).forwarder.fib();
                    fib.add_nexthop(prefix.as_name(), self.end(*port).face, 0).expect("room in the FIB");
                }
                at = edges[edge].to;
            }
        }
    }

    /// Returns each possible path of a frame, with the port that it leaves by.
    fn edges(&self) -> impl Iterator<Item = (LinkEndId, routes::Edge)> {
        self.all().flat_map(|node| {
            node.ends.iter().enumerate().flat_map(move |(number, end)| {
                let (from, delay_ns) = (node.id as usize, end.spec.delay_ns);
                let edge = move |peer: &LinkEndId| routes::Edge { from, to: peer.node as usize, delay_ns };
                end.peers.iter().map(move |peer| (node.end_id(number), edge(peer)))
            })
        })
    }

    /// Returns the current time in ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the number of events processed so far.
    pub fn events(&self) -> u64 {
        self.engines.iter().map(|engine| engine.done).sum()
    }

    /// Returns the number of pending events.
    pub fn pending(&self) -> usize {
        self.engines.iter().map(|engine| engine.schedule.len()).sum()
    }

    /// Starts to record the times from each event to the events that it schedules, for measurements
    /// of event queues. Only a network with one thread records.
    pub fn record_offsets(&mut self) {
        self.engines[0].schedule.recorded = Some(Vec::new());
    }

    /// Returns the recorded times in ns, at most four million.
    pub fn recorded_offsets(&self) -> &[u64] {
        self.engines[0].schedule.recorded.as_deref().unwrap_or_default()
    }

    /// Returns the counters of one direction of a link.
    pub fn link_counts(&self, port: LinkEndId) -> LinkCounts {
        let end = self.end(port);
        // The receiver counts the frames that it missed, because nodes share no counters.
        let receiver = if end.is_group { Some(port) } else { end.peers.first().copied() };
        let missed = receiver.map_or(0, |receiver| self.end(receiver).missed);
        LinkCounts { lost: end.counts.lost + missed, ..end.counts }
    }

    /// Returns frames and octets that left a node by a port, and by the faces of neighbors through
    /// that port.
    pub fn carried(&self, port: LinkEndId) -> TrafficCounts {
        self.end(port).carried
    }

    /// Changes the propagation delay of one direction of a link, for frames that leave from now on.
    /// Routes of [`Network::announce`] stay.
    pub fn set_delay(&mut self, port: LinkEndId, delay_ns: u64) {
        self.is_divided = false;
        self.end_mut(port).spec.delay_ns = delay_ns;
    }

    /// Changes the loss of one direction of a link, in frames per million, from now on. With a
    /// million the link is dead, without a notification.
    pub fn set_loss(&mut self, port: LinkEndId, loss_ppm: u32) {
        self.end_mut(port).spec.loss_ppm = loss_ppm;
    }

    /// Returns the wait of a frame that joins the queue now.
    pub fn wait_ns(&self, port: LinkEndId) -> u64 {
        self.end(port).wait_ns(self.now_ns)
    }

    /// Starts to record the waits of frames in a queue, and discards earlier records.
    pub fn watch(&mut self, port: LinkEndId) {
        self.end_mut(port).watch();
    }

    /// Returns the waits recorded since [`Network::watch`] in us.
    pub fn waits_us(&self, port: LinkEndId) -> Option<&Histogram<u64>> {
        self.end(port).waits_us.as_ref()
    }

    /// Starts to digest each frame with its time and place.
    pub fn trace(&mut self) {
        self.is_traced = true;
        let nodes = self.engines.iter_mut().flat_map(|engine| engine.nodes.iter_mut().flatten());
        nodes.for_each(|node| node.trace = Some(Box::default()));
    }

    /// Returns BLAKE3 over the digests of all nodes, in their order. A node's digest is that of the
    /// frames since [`Network::trace`] with time and port of their arrival. Digests are equal if
    /// and only if the runs were.
    pub fn trace_digest(&self) -> Option<String> {
        let mut whole = blake3::Hasher::new();
        for node in self.all() {
            whole.update(node.trace.as_ref()?.finalize().as_bytes());
        }
        self.is_traced.then(|| whole.finalize().to_hex().to_string())
    }

    /// Runs until `until_ns`, events at that time included.
    pub fn run_until(&mut self, until_ns: u64) {
        for app in std::mem::take(&mut self.waiting) {
            self.with(app.node, |node, turn| node.start(app.app as usize, turn));
        }
        if !std::mem::replace(&mut self.is_divided, true) {
            self.divide();
        }
        let end_ns = until_ns.saturating_add(1);
        if let [engine] = &mut self.engines[..] {
            engine.run_before(end_ns);
        } else {
            self.exchange();
            threads::run(&mut self.engines, self.window_ns, end_ns);
        }
        self.now_ns = self.now_ns.max(until_ns);
    }

    /// Distributes the nodes among as many engines as there are threads.
    fn divide(&mut self) {
        if self.threads == 1 && self.engines.len() == 1 {
            return;
        }
        let weights: Vec<u64> = self.all().map(|node| 1 + node.ends.len() as u64).collect();
        let Division { of_node, parts, window_ns } =
            partition::divide(&weights, &self.separable_edges(), self.threads);
        (self.of_node, self.window_ns) = (of_node.into(), window_ns);
        let engines = (0..parts).map(|own| Engine::of_several(own, &self.of_node, parts)).collect();
        for mut old in std::mem::replace(&mut self.engines, engines) {
            for event in old.schedule.drain() {
                let engine = self.engine_of(event.key.node);
                self.engines[engine].schedule.push(event.key, event.kind);
            }
            for node in old.nodes.into_iter().flatten() {
                let engine = self.engine_of(node.id);
                self.engines[engine].add(node);
            }
            self.engines[0].done += old.done;
        }
    }

    /// Returns the paths of frames for a division. Those of a shared medium have no delay, because
    /// its nodes stay together.
    fn separable_edges(&self) -> Vec<routes::Edge> {
        let is_shared = |end: &LinkEnd| end.is_group || end.beside.is_some();
        let edges = self.edges().map(|(port, edge)| {
            if is_shared(self.end(port)) { routes::Edge { delay_ns: 0, ..edge } } else { edge }
        });
        edges.collect()
    }

    /// Moves the events that were scheduled from outside to the engines of their nodes.
    fn exchange(&mut self) {
        let mailboxes: Vec<_> = self.engines.iter().map(|_| Mutex::default()).collect();
        self.engines.iter_mut().for_each(|engine| engine.post(&mailboxes));
        for (engine, mailbox) in self.engines.iter_mut().zip(mailboxes) {
            engine.receive(&mut mailbox.into_inner());
        }
    }
}

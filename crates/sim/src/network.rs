//! A simulated network: the calls that build, run and measure it.

use std::any::Any;

use hdrhistogram::Histogram;
use namely_forwarder::{FaceId, FaceProperties};
use namely_wire::Name;

use crate::behaviour::Behaviour;
use crate::disk::{Disk, DiskCounts};
use crate::engine::{Engine, Turn};
use crate::event::{EventKind, LinkEndId};
use crate::link::{LinkCounts, LinkEnd, LinkSpec, TrafficCounts};
use crate::node::{Node, Router, RouterSpec};
use crate::packet::{NodeId, Packet};
use crate::routes;

/// Identifies a behavior that is attached to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId {
    node: u32,
    app: u32,
}

/// A simulated network.
pub struct Network {
    seed: u64,
    pub(crate) now_ns: u64,
    engine: Engine,
    /// Behaviors that have not started.
    waiting: Vec<AppId>,
    is_traced: bool,
}

impl Network {
    /// Creates a network without nodes. All its randomness follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Network { seed, now_ns: 0, engine: Engine::default(), waiting: Vec::new(), is_traced: false }
    }

    pub(crate) fn node(&self, node: NodeId) -> &Node {
        &self.engine.nodes[node.0]
    }

    fn node_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.engine.nodes[node.0]
    }

    pub(crate) fn end(&self, port: LinkEndId) -> &LinkEnd {
        &self.engine.nodes[port.node as usize].ends[port.end as usize]
    }

    pub(crate) fn end_mut(&mut self, port: LinkEndId) -> &mut LinkEnd {
        &mut self.engine.nodes[port.node as usize].ends[port.end as usize]
    }

    /// Calls `act` with a node at the current time.
    pub(crate) fn with<T>(&mut self, node: u32, act: impl FnOnce(&mut Node, &mut Turn<'_>) -> T) -> T {
        self.engine.with(node, self.now_ns, act)
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
        let id = self.engine.nodes.len();
        let mut node = Node::new(id as u32, self.seed, &spec);
        node.trace = self.is_traced.then(Box::default);
        self.engine.nodes.push(node);
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
        let app = &mut self.engine.nodes[app.node as usize].apps[app.app as usize];
        (app.behaviour, app.started) = (Some(behaviour), false);
        // Cancels the wakeup of the former behavior.
        let _ = app.alarm.set(u64::MAX);
    }

    /// Returns the face of a behavior at its node's forwarder.
    pub fn face_of(&self, app: AppId) -> FaceId {
        self.engine.nodes[app.node as usize].apps[app.app as usize].face
    }

    /// Returns the face of a port at its node's forwarder.
    pub fn link_end_face(&self, port: LinkEndId) -> FaceId {
        self.end(port).face
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
        let app = &self.engine.nodes[app.node as usize].apps[app.app as usize];
        let behaviour: &dyn Any = app.behaviour.as_deref()?;
        behaviour.downcast_ref()
    }

    /// Routes `prefix` on all nodes to `node`, by the paths of least delay. At `node` the prefix
    /// leads to the behavior that serves it (see [`crate::Producer`]).
    ///
    /// # Panics
    /// If a node's FIB is full.
    pub fn announce(&mut self, prefix: &Name, node: NodeId) {
        let (ports, links): (Vec<LinkEndId>, Vec<routes::Edge>) = self.edges().unzip();
        for (at, number) in routes::towards(node.0, self.engine.nodes.len(), &links) {
            let face = self.end(ports[number]).face;
            let forwarder = &self.engine.nodes[at].forwarder;
            forwarder.fib().add_nexthop(prefix.as_name(), face, 0).expect("room in the FIB");
        }
    }

    /// Returns each possible path of a frame, with the port that it leaves by.
    fn edges(&self) -> impl Iterator<Item = (LinkEndId, routes::Edge)> {
        self.engine.nodes.iter().enumerate().flat_map(|(from, node)| {
            node.ends.iter().enumerate().flat_map(move |(number, end)| {
                let delay_ns = end.spec.delay_ns;
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
        self.engine.done
    }

    /// Returns the number of pending events.
    pub fn pending(&self) -> usize {
        self.engine.schedule.len()
    }

    /// Starts to record the times from each event to the events that it schedules, for measurements
    /// of event queues.
    pub fn record_offsets(&mut self) {
        self.engine.schedule.recorded = Some(Vec::new());
    }

    /// Returns the recorded times in ns, at most four million.
    pub fn recorded_offsets(&self) -> &[u64] {
        self.engine.schedule.recorded.as_deref().unwrap_or_default()
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
        self.engine.nodes.iter_mut().for_each(|node| node.trace = Some(Box::default()));
    }

    /// Returns BLAKE3 over the digests of all nodes, in their order. A node's digest is that of the
    /// frames since [`Network::trace`] with time and port of their arrival. Digests are equal if
    /// and only if the runs were.
    pub fn trace_digest(&self) -> Option<String> {
        let mut whole = blake3::Hasher::new();
        for node in &self.engine.nodes {
            whole.update(node.trace.as_ref()?.finalize().as_bytes());
        }
        self.is_traced.then(|| whole.finalize().to_hex().to_string())
    }

    /// Runs until `until_ns`, events at that time included.
    pub fn run_until(&mut self, until_ns: u64) {
        for app in std::mem::take(&mut self.waiting) {
            self.with(app.node, |node, turn| node.start(app.app as usize, turn));
        }
        self.engine.run_before(until_ns.saturating_add(1));
        self.now_ns = self.now_ns.max(until_ns);
    }
}

//! Nodes, links, and the events between them, ordered by time and then by creation.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use hdrhistogram::Histogram;
use namely_discovery::concerns_discovery;
use namely_forwarder::{FaceId, FaceProperties, Learned, Outgoing, Output, Received};
use namely_link::ReassemblyTotal;
use namely_wire::Name;

use crate::alarm::Alarm;
use crate::behaviour::{Behaviour, Context};
use crate::disk::{Disk, DiskCounts, Job, ReadResult};
use crate::link::{Flight, LinkCounts, LinkEnd, LinkSpec, REASSEMBLY_OCTETS_MAX, TrafficCounts};
use crate::node::{Node, Router, RouterSpec, Target};
use crate::packet::{NodeId, Packet};
use crate::random::Random;
use crate::routes;

/// Identifies a behavior that is attached to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(usize);

/// Identifies one direction of a link by its sending end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkEndId(pub(crate) usize);

pub(crate) enum EventKind {
    /// A frame arrives at a port, from another one.
    Frame { to: usize, from: usize, octets: Vec<u8> },
    /// A port goes off its link or returns.
    Link(usize, bool),
    /// A port goes off its link or returns, and the node is notified.
    Device(usize, bool),
    /// A node's discovery has to act.
    Discover(usize),
    /// A link service has to act.
    Tick(usize),
    /// A behavior's timer.
    Wake(usize),
    /// A forwarder's timers.
    Expire(usize),
    /// A node's processor is free again.
    Process(usize),
    /// A node's disk has completed a request.
    Disk(usize, Job),
    /// The node is notified of it.
    Read(usize, ReadResult),
}

struct Event {
    at_ns: u64,
    number: u64,
    what: EventKind,
}

// A heap returns its greatest element first. So the earliest event is the greatest, and of several
// at one time the one created first.
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

struct App {
    node: usize,
    face: FaceId,
    behaviour: Option<Box<dyn Behaviour>>,
    started: bool,
    alarm: Alarm,
}

/// Packets and routes of a forwarder, and the disk below it.
#[derive(Default)]
struct ForwarderOutput {
    /// Disk of the node that is being processed.
    disk: Option<Disk>,
    packets: Vec<(FaceId, Outgoing<Packet>)>,
    learned: Vec<(FaceId, Name)>,
}

impl Output<Packet> for ForwarderOutput {
    type Tier = Disk;
    type Tracer = ();

    fn send(&mut self, face: FaceId, packet: Outgoing<Packet>) {
        self.packets.push((face, packet));
    }

    fn learned(&mut self, learned: Learned<'_>) {
        self.learned.extend(learned.object().map(|prefix| (learned.face, prefix.to_name())));
    }

    fn tier(&mut self) -> Option<&mut Disk> {
        self.disk.as_mut()
    }
}

/// A simulated network.
pub struct Network {
    seed: u64,
    pub(crate) now_ns: u64,
    pub(crate) random: Random,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ports: Vec<LinkEnd>,
    apps: Vec<App>,
    events: BinaryHeap<Event>,
    events_made: u64,
    events_done: u64,
    pub(crate) reassembly: Arc<ReassemblyTotal>,
    trace: Option<blake3::Hasher>,
    pub(crate) flights: Vec<Flight>,
    outgoing: ForwarderOutput,
    sent: Vec<Received<Packet>>,
}

impl Network {
    /// Creates a network without nodes. All its randomness follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Network {
            seed,
            now_ns: 0,
            random: Random::new(seed),
            nodes: Vec::new(),
            ports: Vec::new(),
            apps: Vec::new(),
            events: BinaryHeap::new(),
            events_made: 0,
            events_done: 0,
            reassembly: ReassemblyTotal::new(REASSEMBLY_OCTETS_MAX),
            trace: None,
            flights: Vec::new(),
            outgoing: ForwarderOutput::default(),
            sent: Vec::new(),
        }
    }

    /// Adds a router.
    ///
    /// # Panics
    /// If `spec` has a limit that no forwarder can have.
    pub fn add_router(&mut self, spec: RouterSpec) -> NodeId {
        let seed = Random::new(self.seed ^ self.nodes.len() as u64).next_u64();
        let forwarder = Router::new(spec.config(), seed.into()).expect("limits that a forwarder can have");
        self.nodes.push(Node {
            forwarder,
            faces: BTreeMap::new(),
            registered: Vec::new(),
            inbox: VecDeque::new(),
            disk: spec.disk.map(Disk::new),
            neighbours: None,
            occupied_until_ns: 0,
            alarm: Alarm::OFF,
        });
        NodeId(self.nodes.len() - 1)
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
        let first = self.ports.len();
        for (node, peer, spec) in [(a, first + 1, there), (b, first, back)] {
            self.add_link_end(node, FaceProperties::remote(), vec![peer], spec);
        }
        LinkEndId(first)
    }

    /// Connects nodes by a shared medium, such as a switch with a multicast group. Each node has a
    /// face to the group, and a queue and a rate of its own. All others receive its frames. Returns
    /// the port of each.
    ///
    /// # Panics
    /// If a node has its maximum of faces.
    pub fn share(&mut self, nodes: &[NodeId], spec: LinkSpec) -> Vec<LinkEndId> {
        let ports = self.ports.len()..self.ports.len() + nodes.len();
        for (own, node) in ports.clone().zip(nodes) {
            let others = ports.clone().filter(|other| *other != own).collect();
            self.add_link_end(*node, FaceProperties::group(), others, spec);
            self.ports[own].is_group = true;
        }
        ports.map(LinkEndId).collect()
    }

    fn add_link_end(&mut self, node: NodeId, properties: FaceProperties, peers: Vec<usize>, spec: LinkSpec) {
        let face = self.face(node, properties, Target::LinkEnd(self.ports.len()));
        self.nodes[node.0].forwarder.discovery().set(face, true).expect("room for a neighbor");
        self.ports.push(LinkEnd::new(node, face, peers, spec, self.reassembly.clone()));
    }

    /// Returns the other direction of the same link; for a shared medium, the first of the others.
    ///
    /// # Panics
    /// If the medium has one node only.
    pub fn reverse(&self, port: LinkEndId) -> LinkEndId {
        LinkEndId(self.ports[port.0].peers[0])
    }

    /// Takes a port off its link at `at_ns`, or puts it back. While the port is off, frames from it
    /// and frames on the way to it are lost, without a notification.
    pub fn set_up_at(&mut self, at_ns: u64, port: LinkEndId, is_up: bool) {
        self.schedule(at_ns, EventKind::Link(port.0, is_up));
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
        let face = self.face(node, spec, Target::App(self.apps.len()));
        let behaviour = Some(behaviour);
        self.apps.push(App { node: node.0, face, behaviour, started: false, alarm: Alarm::OFF });
        AppId(self.apps.len() - 1)
    }

    fn face(&mut self, node: NodeId, spec: FaceProperties, target: Target) -> FaceId {
        let node = &mut self.nodes[node.0];
        let face = node.forwarder.face_register(spec).expect("room for a face");
        node.faces.insert(face, target);
        node.registered.push((face, spec));
        face
    }

    /// Restarts a node's forwarder: it has its former faces and empty tables. Received packets are
    /// lost. Behaviors and a disk stay, and the caller has to notify them.
    ///
    /// # Panics
    /// If the node has released a face, or `spec` has a limit that no forwarder can have.
    pub fn restart(&mut self, node: NodeId, spec: RouterSpec) {
        let seed = self.random.next_u64();
        let forwarder = Router::new(spec.config(), seed.into()).expect("limits that a forwarder can have");
        let node = &mut self.nodes[node.0];
        for (face, properties) in &node.registered {
            let anew = forwarder.face_register(*properties).expect("room for a face");
            assert_eq!(anew, *face, "faces have the numbers that they had");
            if matches!(node.faces.get(face), Some(Target::LinkEnd(_))) {
                forwarder.discovery().set(*face, true).expect("room for a neighbor");
            }
        }
        node.inbox.clear();
        node.forwarder = forwarder;
    }

    /// Replaces a behavior behind the same face. The new one starts when the network continues.
    pub fn replace(&mut self, app: AppId, behaviour: Box<dyn Behaviour>) {
        let app = &mut self.apps[app.0];
        (app.behaviour, app.started) = (Some(behaviour), false);
        // Cancels the wakeup of the former behavior.
        let _ = app.alarm.set(u64::MAX);
    }

    /// Returns the face of a behavior at its node's forwarder.
    pub fn face_of(&self, app: AppId) -> FaceId {
        self.apps[app.0].face
    }

    /// Returns the face of a port at its node's forwarder.
    pub fn link_end_face(&self, port: LinkEndId) -> FaceId {
        self.ports[port.0].face
    }

    /// Returns the other direction of a link between two nodes.
    pub fn back(&self, port: LinkEndId) -> LinkEndId {
        LinkEndId(self.ports[port.0].peers.first().copied().unwrap_or(port.0))
    }

    /// Returns a node's forwarder.
    pub fn router(&self, node: NodeId) -> &Router {
        &self.nodes[node.0].forwarder
    }

    /// Puts Data on a node's disk, as if it had been written long ago.
    ///
    /// # Panics
    /// If the node has no disk.
    pub fn store(&mut self, node: NodeId, packets: impl IntoIterator<Item = Packet>) {
        let disk = self.nodes[node.0].disk.as_mut().expect("a node with a disk");
        packets.into_iter().for_each(|packet| disk.keep(packet, 0));
    }

    /// Returns the counters of a node's disk.
    pub fn disk_counts(&self, node: NodeId) -> DiskCounts {
        self.nodes[node.0].disk.as_ref().map(Disk::counts).unwrap_or_default()
    }

    /// Returns a behavior, to read its measurements; `None` if it has another type.
    pub fn behaviour<T: Behaviour>(&self, app: AppId) -> Option<&T> {
        let behaviour: &dyn Any = self.apps[app.0].behaviour.as_deref()?;
        behaviour.downcast_ref()
    }

    /// Routes `prefix` on all nodes to `node`, by the paths of least delay. At `node` the prefix
    /// leads to the behavior that serves it (see [`crate::Producer`]).
    ///
    /// # Panics
    /// If a node's FIB is full.
    pub fn announce(&mut self, prefix: &Name, node: NodeId) {
        let (ports, links): (Vec<usize>, Vec<routes::Edge>) = self.edges().unzip();
        for (at, number) in routes::towards(node.0, self.nodes.len(), &links) {
            let face = self.ports[ports[number]].face;
            self.nodes[at].forwarder.fib().add_nexthop(prefix.as_name(), face, 0).expect("room in the FIB");
        }
    }

    /// Returns each possible path of a frame, with the port that it leaves by.
    fn edges(&self) -> impl Iterator<Item = (usize, routes::Edge)> {
        self.ports.iter().enumerate().flat_map(move |(number, port)| {
            let (from, delay_ns) = (port.node.0, port.spec.delay_ns);
            let edge = move |peer: &usize| routes::Edge { from, to: self.ports[*peer].node.0, delay_ns };
            port.peers.iter().map(move |peer| (number, edge(peer)))
        })
    }

    /// Returns the current time in ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the number of events processed so far.
    pub fn events(&self) -> u64 {
        self.events_done
    }

    /// Returns the counters of one direction of a link.
    pub fn link_counts(&self, port: LinkEndId) -> LinkCounts {
        self.ports[port.0].counts
    }

    /// Returns frames and octets that left a node by a port, and by the faces of neighbors through
    /// that port.
    pub fn carried(&self, port: LinkEndId) -> TrafficCounts {
        self.ports[port.0].carried
    }

    /// Changes the propagation delay of one direction of a link, for frames that leave from now on.
    /// Routes of [`Network::announce`] stay.
    pub fn set_delay(&mut self, port: LinkEndId, delay_ns: u64) {
        self.ports[port.0].spec.delay_ns = delay_ns;
    }

    /// Changes the loss of one direction of a link, in frames per million, from now on. With a
    /// million the link is dead, without a notification.
    pub fn set_loss(&mut self, port: LinkEndId, loss_ppm: u32) {
        self.ports[port.0].spec.loss_ppm = loss_ppm;
    }

    /// Returns the wait of a frame that joins the queue now.
    pub fn wait_ns(&self, port: LinkEndId) -> u64 {
        self.ports[port.0].wait_ns(self.now_ns)
    }

    /// Starts to record the waits of frames in a queue, and discards earlier records.
    pub fn watch(&mut self, port: LinkEndId) {
        self.ports[port.0].watch();
    }

    /// Returns the waits recorded since [`Network::watch`] in us.
    pub fn waits_us(&self, port: LinkEndId) -> Option<&Histogram<u64>> {
        self.ports[port.0].waits_us.as_ref()
    }

    /// Starts to digest each frame with its time and place.
    pub fn trace(&mut self) {
        self.trace = Some(blake3::Hasher::new());
    }

    /// Returns BLAKE3 over all frames since [`Network::trace`] with time and place of their
    /// arrival. Digests are equal if and only if the runs were.
    pub fn trace_digest(&self) -> Option<String> {
        self.trace.as_ref().map(|hasher| hasher.finalize().to_hex().to_string())
    }

    /// Runs until `until_ns`, events at that time included.
    pub fn run_until(&mut self, until_ns: u64) {
        for app in 0..self.apps.len() {
            if !std::mem::replace(&mut self.apps[app].started, true) {
                self.call(app, |behaviour, context| behaviour.start(context));
                self.settle(self.apps[app].node);
            }
        }
        while self.events.peek().is_some_and(|event| event.at_ns <= until_ns) {
            let Some(event) = self.events.pop() else { break };
            self.now_ns = event.at_ns;
            self.events_done += 1;
            self.process(event.what);
        }
        self.now_ns = self.now_ns.max(until_ns);
    }

    fn process(&mut self, what: EventKind) {
        match what {
            EventKind::Frame { to, from, octets } => self.frame(to, from, &octets),
            EventKind::Link(port, is_up) => self.ports[port].is_up = is_up,
            EventKind::Device(port, is_up) => {
                self.ports[port].is_up = is_up;
                self.notify_link(port);
            }
            EventKind::Discover(node) => {
                let alarm = self.nodes[node].neighbours.as_mut().map(|own| own.alarm.fired(self.now_ns));
                match alarm {
                    Some(Ok(())) => self.tick_discovery(node),
                    Some(Err(again)) => self.schedule_if(again, EventKind::Discover(node)),
                    None => {}
                }
            }
            EventKind::Tick(port) => match self.ports[port].alarm.fired(self.now_ns) {
                Ok(()) => {
                    self.ports[port].tick(self.now_ns, &mut self.random, &mut self.flights);
                    self.launch(port);
                }
                Err(again) => self.schedule_if(again, EventKind::Tick(port)),
            },
            EventKind::Wake(app) => match self.apps[app].alarm.fired(self.now_ns) {
                Ok(()) => {
                    self.call(app, |behaviour, context| behaviour.wake(context));
                    self.settle(self.apps[app].node);
                }
                Err(again) => self.schedule_if(again, EventKind::Wake(app)),
            },
            EventKind::Expire(node) => match self.nodes[node].alarm.fired(self.now_ns) {
                Ok(()) => self.settle(node),
                Err(again) => self.schedule_if(again, EventKind::Expire(node)),
            },
            EventKind::Process(node) => self.settle(node),
            EventKind::Disk(node, job) => self.finish(node, job),
            EventKind::Read(node, done) => self.complete(node, done),
        }
    }

    pub(crate) fn schedule_if(&mut self, at_ns: Option<u64>, what: EventKind) {
        if let Some(at_ns) = at_ns {
            self.schedule(at_ns, what);
        }
    }

    pub(crate) fn schedule(&mut self, at_ns: u64, what: EventKind) {
        self.events_made += 1;
        self.events.push(Event { at_ns: at_ns.max(self.now_ns), number: self.events_made, what });
    }

    fn frame(&mut self, to: usize, from: usize, octets: &[u8]) {
        // A device drops a frame longer than its own maximum.
        let is_too_long = self.ports[to].is_group && octets.len() > self.ports[to].spec.mtu_octets;
        if !self.ports[to].is_up || is_too_long {
            self.ports[from].counts.lost += 1;
            return;
        }
        if let Some(trace) = &mut self.trace {
            trace.update(&self.now_ns.to_be_bytes());
            trace.update(&(to as u64).to_be_bytes());
            trace.update(octets);
        }
        // A unicast frame is received by the neighbor's face, if there is one.
        let node = self.ports[to].node.0;
        let of_station = self.ports[from].beside.and_then(|from| {
            self.nodes[node].neighbours.as_ref().and_then(|own| own.by_station.get(&(to, from)).copied())
        });
        let port = of_station.unwrap_or(to);
        let face = self.ports[port].face;
        let received =
            self.ports[port].receive(octets, from, self.now_ns, &mut self.random, &mut self.flights);
        self.launch(port);
        let Some(received) = received else { return };
        let (is_unicast, source) =
            (self.ports[from].beside.is_some(), self.ports[from].beside.unwrap_or(from));
        if concerns_discovery(&received.packet) && self.overhear(to, source, is_unicast, &received.packet) {
            return;
        }
        if is_unicast && of_station.is_none() {
            self.ports[to].counts.refused += 1;
            return;
        }
        self.nodes[node].inbox.push_back((face, received));
        self.settle(node);
    }

    /// Processes the received packets of a node, and the packets that follow from them at the node
    /// itself, until its processor is occupied.
    fn settle(&mut self, node: usize) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        outgoing.disk = self.nodes[node].disk.take();
        while self.nodes[node].occupied_until_ns <= self.now_ns
            && let Some((face, received)) = self.nodes[node].inbox.pop_front()
        {
            if let Some(disk) = &mut outgoing.disk {
                (disk.waiting, disk.cost_ns) = (self.nodes[node].inbox.len(), 0);
            }
            self.nodes[node].forwarder.receive(face, received, self.now_ns, &mut outgoing);
            self.occupy(node, &mut outgoing);
            self.dispatch_emitted(node, &mut outgoing);
        }
        let next_ns = self.nodes[node].forwarder.expire(self.now_ns, &mut outgoing);
        self.dispatch_emitted(node, &mut outgoing);
        if let Some(disk) = &mut outgoing.disk {
            disk.waiting = self.nodes[node].inbox.len();
        }
        self.nodes[node].disk = outgoing.disk.take();
        self.outgoing = outgoing;
        let armed = self.nodes[node].alarm.set(next_ns.map_or(u64::MAX, |at_ns| at_ns.max(self.now_ns + 1)));
        self.schedule_if(armed, EventKind::Expire(node));
    }

    /// Begins the disk's new requests, and occupies the processor for the packet's cost.
    fn occupy(&mut self, node: usize, outgoing: &mut ForwarderOutput) {
        let Some(disk) = &mut outgoing.disk else { return };
        for (service_ns, job) in std::mem::take(&mut disk.begun) {
            self.schedule(self.now_ns + service_ns, EventKind::Disk(node, job));
        }
        if disk.cost_ns > 0 {
            self.nodes[node].occupied_until_ns = self.now_ns + disk.cost_ns;
            self.schedule(self.now_ns + disk.cost_ns, EventKind::Process(node));
        }
    }

    /// Handles the end of a request to a node's disk.
    fn finish(&mut self, node: usize, job: Job) {
        let Some(disk) = &mut self.nodes[node].disk else { return };
        let (done, notice_ns) = (disk.finish(job), disk.notice_ns());
        for (service_ns, job) in std::mem::take(&mut disk.begun) {
            self.schedule(self.now_ns + service_ns, EventKind::Disk(node, job));
        }
        match done {
            Some(done) if notice_ns > 0 => {
                self.schedule(self.now_ns + notice_ns, EventKind::Read(node, done))
            }
            Some(done) => self.complete(node, done),
            None => {}
        }
    }

    /// Reports a read to a node's forwarder. It costs no processor time; the request did.
    fn complete(&mut self, node: usize, ReadResult { ticket, completion }: ReadResult) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        outgoing.disk = self.nodes[node].disk.take();
        self.nodes[node].forwarder.tier_completed(ticket, completion, self.now_ns, &mut outgoing);
        outgoing.disk.iter_mut().for_each(|disk| disk.cost_ns = 0);
        self.occupy(node, &mut outgoing);
        self.dispatch_emitted(node, &mut outgoing);
        self.nodes[node].disk = outgoing.disk.take();
        self.outgoing = outgoing;
        self.settle(node);
    }

    fn dispatch_emitted(&mut self, node: usize, emitted: &mut ForwarderOutput) {
        // As the router's control thread does. A route that does not fit is learned again later.
        for (face, prefix) in emitted.learned.drain(..) {
            let _ = self.nodes[node].forwarder.learn(&prefix, face, self.now_ns);
        }
        for (face, packet) in emitted.packets.drain(..) {
            match self.nodes[node].faces.get(&face).copied() {
                Some(Target::LinkEnd(port)) => {
                    self.ports[port].send(packet, self.now_ns, &mut self.random, &mut self.flights);
                    self.launch(port);
                }
                Some(Target::App(app)) => {
                    let received = Received { packet: patched(&packet), headers: packet.headers };
                    self.call(app, |behaviour, context| behaviour.receive(&received, context));
                }
                None => {}
            }
        }
    }

    /// Sends the frames that left `port` on their way to the other end, or to all others.
    pub(crate) fn launch(&mut self, port: usize) {
        let mut flights = std::mem::take(&mut self.flights);
        let device = self.ports[port].beside.unwrap_or(port);
        if !self.ports[device].is_up {
            self.ports[port].counts.lost += flights.len() as u64;
            flights.clear();
        }
        let sent: usize = flights.iter().map(|flight| flight.octets.len()).sum();
        let overhead = flights.len() * self.ports[port].spec.overhead_octets;
        self.ports[device].carried.frames += flights.len() as u64;
        self.ports[device].carried.octets += (sent + overhead) as u64;
        let peers = std::mem::take(&mut self.ports[port].peers);
        for Flight { at_ns, octets } in flights.drain(..) {
            let Some((last, others)) = peers.split_last() else { continue };
            for to in others {
                self.schedule(at_ns, EventKind::Frame { to: *to, from: port, octets: octets.clone() });
            }
            self.schedule(at_ns, EventKind::Frame { to: *last, from: port, octets });
        }
        self.ports[port].peers = peers;
        self.flights = flights;
        let due_ns = self.ports[port].due_ns();
        let armed = self.ports[port].alarm.set(due_ns);
        self.schedule_if(armed, EventKind::Tick(port));
    }

    fn call(&mut self, app: usize, act: impl FnOnce(&mut dyn Behaviour, &mut Context<'_>)) {
        let App { node, face, .. } = self.apps[app];
        let Some(mut behaviour) = self.apps[app].behaviour.take() else { return };
        let at = &mut self.nodes[node];
        let mut context = Context {
            now_ns: self.now_ns,
            node: NodeId(node),
            face,
            random: &mut self.random,
            forwarder: &at.forwarder,
            disk: at.disk.as_mut(),
            sent: &mut self.sent,
            wake_at_ns: None,
        };
        act(behaviour.as_mut(), &mut context);
        let wake_at_ns = context.wake_at_ns;
        self.apps[app].behaviour = Some(behaviour);
        let inbox = &mut self.nodes[node].inbox;
        inbox.extend(self.sent.drain(..).map(|received| (face, received)));
        if let Some(at_ns) = wake_at_ns {
            let armed = self.apps[app].alarm.set(at_ns.max(self.now_ns));
            self.schedule_if(armed, EventKind::Wake(app));
        }
    }
}

/// Returns the packet as it is sent: with its new hop limit.
fn patched(outgoing: &Outgoing<Packet>) -> Packet {
    match outgoing.hop_limit {
        Some((offset, value)) => {
            let mut octets = outgoing.packet.to_vec();
            octets[offset] = value;
            octets.into()
        }
        None => outgoing.packet.clone(),
    }
}

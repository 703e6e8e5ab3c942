//! Neighbour discovery at the nodes of a shared medium: the router's own state machine, whose
//! actions are carried out on simulated ports and forwarders as the daemon does on real ones.
//!
//! A neighbour's unicast face is a port with a link service, a queue and a rate of its own beside
//! the group's: what stations would lose to one another in one network card is not simulated.
//! Signatures are sums that tell right from wrong, and take no time.

use std::collections::BTreeMap;

use namely_discovery::message::{OwnHello, OwnReply};
use namely_discovery::{
    Action, Config, Counters, Discovery, Face, Heard, InterfaceId, Key, LinkState, NeighbourStatus, Note,
    Phase, Proof, Recipient, Station, limits,
};
use namely_forwarder::{FaceId, FaceProperties, Outgoing};
use namely_wire::mgmt::{Route, RouteOrigin, route_flags};
use namely_wire::{
    DataBuilder, DataView, InterestBuilder, InterestView, LpHeaders, Name, SignatureInfo, SignatureType,
};

use crate::alarm::Alarm;
use crate::link::{LinkSpec, Port};
use crate::network::{Network, PortId, What};
use crate::node::{Node, Target};
use crate::packet::NodeId;

/// The discovery of a node.
pub(crate) struct Neighbours {
    /// `None` while it is being driven.
    machine: Option<Discovery>,
    key: Key,
    /// The time of what was signed last, ms.
    time_ms: u64,
    pub(crate) alarm: Alarm,
    /// The ports to groups on which neighbours are looked for; their places are interfaces.
    links: Vec<usize>,
    /// Of each link, whether the group is asked for what no route leads to, or who.
    asked: Vec<Vec<Face>>,
    /// Ports of neighbours' faces, by the ports to the group at both ends.
    pub(crate) by_station: BTreeMap<(usize, usize), usize>,
    /// Ports that only send, to stations that have no face, by the ports to the group at both ends.
    past_faces: BTreeMap<(usize, usize), usize>,
    /// What would be in the log, and when.
    notes: Vec<(u64, Station, Note)>,
}

/// A link's station, by the number of its port to the group.
fn station(port: usize) -> Station {
    let [.., a, b, c, d] = (port as u64).to_be_bytes();
    Station::Ether([2, 0, a, b, c, d])
}

fn port_of(station: Station) -> Option<usize> {
    match station {
        Station::Ether([2, 0, a, b, c, d]) => Some(u32::from_be_bytes([a, b, c, d]) as usize),
        _ => None,
    }
}

fn signature(key: &Key, parts: &[&[u8]]) -> [u8; 64] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(part);
    }
    let mut value = [0; 64];
    hasher.finalize_xof().fill(&mut value);
    value
}

fn digest(octets: &[u8]) -> [u8; 32] {
    *blake3::hash(octets).as_bytes()
}

fn is_signed_by(packet: &[u8], key: &Key) -> bool {
    if let Ok(view) = InterestView::parse(packet) {
        let value = signature(key, &[view.signed_name(), view.signed_parameters]);
        return view.signature_value == Some(&value);
    }
    DataView::parse(packet).is_ok_and(|view| view.signature_value == signature(key, &[view.signed_portion]))
}

impl Neighbours {
    fn hello(&mut self, hello: &OwnHello, now_ns: u64) -> Option<(Vec<u8>, [u8; 32])> {
        let time_ms = self.next_time_ms(now_ns);
        let mut info = SignatureInfo::new(SignatureType::Ed25519, None);
        (info.time_ms, info.nonce) = (Some(time_ms), Some(time_ms.to_be_bytes()));
        let nonce =
            (time_ms as u32 ^ u32::from_be_bytes([0, self.key[0], self.key[1], self.key[2]])).to_be_bytes();
        let builder = InterestBuilder::new(hello.name()).nonce(nonce).hop_limit(1).lifetime_ms(1000);
        let sign = |parts: &[&[u8]]| Ok::<_, ()>(signature(&self.key, parts).to_vec());
        let packet = builder.build_signed(&hello.parameters(), &info, sign, digest).ok()?;
        let digest = InterestView::parse(&packet).ok()?.parameters_digest()?.try_into().ok()?;
        Some((packet, digest))
    }

    fn reply(&mut self, reply: &OwnReply, now_ns: u64) -> Vec<u8> {
        let content = reply.content(self.next_time_ms(now_ns));
        let info = SignatureInfo::new(SignatureType::Ed25519, None);
        let unsigned = DataBuilder::new(reply.name.as_name()).build(&content, &info);
        let value = signature(&self.key, &[unsigned.signed_portion()]);
        unsigned.finish(&value)
    }

    fn next_time_ms(&mut self, now_ns: u64) -> u64 {
        self.time_ms = (now_ns / 1_000_000).max(self.time_ms + 1);
        self.time_ms
    }
}

impl Network {
    /// Looks for neighbours on a port to a shared medium, from now on. All such ports of a node
    /// have the settings of the first.
    ///
    /// # Panics
    /// If the port is not one of a shared medium.
    pub fn discover(&mut self, port: PortId, config: Config) {
        let (node, own) = (self.ports[port.0].node.0, &self.ports[port.0]);
        assert!(own.is_group, "neighbours are looked for on shared media");
        let (now_ns, seed) = (self.now_ns, self.random.next_u64());
        let name = (node as u64).to_be_bytes();
        let neighbours = self.nodes[node].neighbours.get_or_insert_with(|| {
            let key = digest(&[name, seed.to_be_bytes()].concat());
            let machine = Some(Discovery::new(config, key, seed, now_ns));
            Box::new(Neighbours {
                machine,
                key,
                time_ms: 0,
                alarm: Alarm::OFF,
                links: Vec::new(),
                asked: Vec::new(),
                by_station: BTreeMap::new(),
                past_faces: BTreeMap::new(),
                notes: Vec::new(),
            })
        });
        neighbours.links.push(port.0);
        neighbours.asked.push(Vec::new());
        self.tell_link(port.0);
    }

    /// A node's neighbours on all of its links.
    pub fn neighbours(&self, node: NodeId) -> Vec<NeighbourStatus> {
        let machine = self.nodes[node.0].neighbours.as_ref().and_then(|own| own.machine.as_ref());
        machine.map(|machine| machine.neighbours(self.now_ns).collect()).unwrap_or_default()
    }

    /// Those of them that have shown that they are there and have faces.
    pub fn neighbours_proven(&self, node: NodeId) -> usize {
        let is_proven = |n: &&NeighbourStatus| n.phase == Phase::Proven && n.face.is_some();
        self.neighbours(node).iter().filter(is_proven).count()
    }

    /// What a node's discovery has counted.
    pub fn discovery_counters(&self, node: NodeId) -> Option<&Counters> {
        let machine = self.nodes[node.0].neighbours.as_ref()?.machine.as_ref();
        machine.map(Discovery::counters)
    }

    /// What a node's discovery would have written to its log, with the times, ns.
    pub fn discovery_notes(&self, node: NodeId) -> &[(u64, Station, Note)] {
        self.nodes[node.0].neighbours.as_ref().map_or(&[], |own| &own.notes)
    }

    /// The face by which a node reaches the node of another port of the same medium, and the
    /// longest frame that it sends there, if they have found one another.
    pub fn face_towards(&self, own: PortId, other: PortId) -> Option<(FaceId, usize)> {
        let neighbours = self.nodes[self.ports[own.0].node.0].neighbours.as_ref()?;
        let port = &self.ports[*neighbours.by_station.get(&(own.0, other.0))?];
        Some((port.face, port.spec.mtu_octets))
    }

    /// Takes a port's device down at this time, or up: as [`Network::set_up_at`], and the node's
    /// discovery hears of it, as a system tells of a carrier.
    pub fn set_device_at(&mut self, at_ns: u64, port: PortId, is_up: bool) {
        self.schedule(at_ns, What::Device(port.0, is_up));
    }

    /// Changes the longest frame of a port to a shared medium; longer ones do not reach it.
    pub fn set_mtu(&mut self, port: PortId, mtu_octets: usize) {
        self.ports[port.0].set_mtu(mtu_octets);
        self.tell_link(port.0);
    }

    /// The system tells a node's discovery how a device is.
    pub(crate) fn tell_link(&mut self, port: usize) {
        let Device { node, is_up, mtu } = self.device(port);
        let state = is_up.then_some(LinkState { station: station(port), mtu, network_bits: 0 });
        let now_ns = self.now_ns;
        let links = self.nodes[node].neighbours.as_ref().map(|own| &own.links);
        if let Some(link) = links.and_then(|links| links.iter().position(|link| *link == port)) {
            let id = InterfaceId(link as u32);
            self.drive(node, Input::Device, |machine, out| machine.interface(id, state, now_ns, out));
        }
    }

    fn device(&self, port: usize) -> Device {
        let own = &self.ports[port];
        Device { node: own.node.0, is_up: own.is_up, mtu: own.spec.mtu_octets }
    }

    /// A packet whose name begins with `/ndp` came to a node by its port to a group: from the node
    /// of another such port, to it alone or to all. False if it does not look for neighbours there.
    pub(crate) fn overhear(&mut self, to: usize, from: usize, is_unicast: bool, packet: &[u8]) -> bool {
        let (node, now_ns) = (self.ports[to].node.0, self.now_ns);
        let links = self.nodes[node].neighbours.as_ref().map(|own| &own.links);
        let Some(link) = links.and_then(|links| links.iter().position(|link| *link == to)) else {
            return false;
        };
        let (interface, source) = (InterfaceId(link as u32), station(from));
        let heard = Heard { interface, source, is_unicast, packet };
        self.drive(node, Input::Packet, |machine, out| machine.hear(heard, now_ns, out));
        true
    }

    /// What is due at a node's discovery.
    pub(crate) fn tick_discovery(&mut self, node: usize) {
        self.drive(node, Input::Time, |_, _| {});
    }

    fn drive(&mut self, node: usize, input: Input, work: impl FnOnce(&mut Discovery, &mut Vec<Action>)) {
        let Some(mut machine) = self.nodes[node].neighbours.as_mut().and_then(|own| own.machine.take())
        else {
            return;
        };
        let before = machine.len();
        let mut actions = Vec::new();
        work(&mut machine, &mut actions);
        let is_more = self.carry_out(node, &mut machine, &mut actions);
        // Who only hears that all is as it was has nothing due sooner than before: most of what
        // many neighbours do to one another.
        if input != Input::Packet || is_more || machine.len() != before {
            let due_ns = loop {
                let due_ns = machine.tick(self.now_ns, &mut actions);
                if actions.is_empty() {
                    break due_ns;
                }
                self.carry_out(node, &mut machine, &mut actions);
            };
            self.aim_discoveries(node, &machine);
            self.wake_discovery_at(node, due_ns);
        }
        if let Some(own) = &mut self.nodes[node].neighbours {
            own.machine = Some(machine);
        }
    }

    fn wake_discovery_at(&mut self, node: usize, due_ns: Option<u64>) {
        let at_ns = due_ns.map_or(u64::MAX, |due_ns| due_ns.max(self.now_ns + 1));
        let armed = self.nodes[node].neighbours.as_mut().and_then(|own| own.alarm.set(at_ns));
        self.schedule_if(armed, What::Discover(node));
    }

    /// Returns true if there was more to do than to check signatures.
    fn carry_out(&mut self, node: usize, machine: &mut Discovery, actions: &mut Vec<Action>) -> bool {
        let mut is_more = false;
        while !actions.is_empty() {
            for action in std::mem::take(actions) {
                is_more |= !matches!(action, Action::Verify { .. });
                self.act(node, machine, action, actions);
            }
        }
        is_more
    }

    fn act(&mut self, node: usize, machine: &mut Discovery, action: Action, more: &mut Vec<Action>) {
        let now_ns = self.now_ns;
        let Some(own) = &mut self.nodes[node].neighbours else { return };
        let link = |interface: InterfaceId, links: &[usize]| links.get(interface.0 as usize).copied();
        match action {
            Action::SendHello { interface, to, hello } => {
                let group = link(interface, &own.links);
                let Some((packet, digest)) = own.hello(&hello, now_ns) else { return };
                machine.hello_sent(interface, to.map(|to| to.station), digest, now_ns);
                let unicast = to.and_then(|to| self.port_towards(node, group?, to));
                if let Some(port) = if to.is_some() { unicast } else { group } {
                    self.put(port, packet);
                }
            }
            Action::SendReply { interface, to, reply } => {
                let group = link(interface, &own.links);
                let packet = own.reply(&reply, now_ns);
                if let Some(port) = group.and_then(|group| self.port_towards(node, group, to)) {
                    self.put(port, packet);
                }
            }
            Action::Verify { ticket, key, packet } => {
                let proof = if is_signed_by(&packet, &key) { Proof::Right } else { Proof::Wrong };
                machine.verified(ticket, proof, now_ns, more);
            }
            Action::MakeFace { interface, station, mtu } => {
                let group = link(interface, &own.links);
                let made = group.zip(port_of(station)).and_then(|(own, to)| self.make_face(own, to, mtu));
                machine.face_made(interface, station, made, more);
            }
            Action::DestroyFace { face } => self.destroy_face(node, face),
            Action::SetMtu { face, mtu } => {
                if let Some(port) = self.port_of_face(node, face) {
                    self.ports[port].set_mtu(mtu);
                }
            }
            Action::SetGroupMtu { interface, mtu } => {
                if let Some(port) = link(interface, &own.links) {
                    self.ports[port].cut_to(mtu);
                }
            }
            Action::AddRoute { face, prefix } => self.add_route(node, face, &prefix),
            Action::RemoveRoute { face, prefix } => {
                let forwarder = &self.nodes[node].forwarder;
                forwarder.rib_unregister(&prefix, FaceId(face), RouteOrigin::AUTOREG);
            }
            Action::Note { station, note, .. } => own.notes.push((now_ns, station, note)),
        }
    }

    fn port_of_face(&self, node: usize, face: Face) -> Option<usize> {
        match self.nodes[node].faces.get(&FaceId(face)) {
            Some(Target::Port(port)) => Some(*port),
            _ => None,
        }
    }

    /// The port of a neighbour's face; to a station that has none a port that only sends.
    fn port_towards(&mut self, node: usize, group: usize, to: Recipient) -> Option<usize> {
        if let Some(face) = to.face {
            return self.port_of_face(node, face);
        }
        let peer = port_of(to.station).filter(|peer| self.ports[group].peers.contains(peer))?;
        let past_faces = &self.nodes[node].neighbours.as_ref()?.past_faces;
        if let Some(port) = past_faces.get(&(group, peer)).copied() {
            self.ports[port].set_mtu(to.mtu);
            return Some(port);
        }
        let (own, number) = (&self.ports[group], self.ports.len());
        let spec = LinkSpec { mtu_octets: to.mtu, ..own.spec };
        let port = Port::new(own.node, own.face, vec![peer], spec, self.reassembly.clone()).beside(group);
        self.ports.push(port);
        self.nodes[node].neighbours.as_mut()?.past_faces.insert((group, peer), number);
        Some(number)
    }

    /// Sends a packet of the node itself.
    fn put(&mut self, port: usize, packet: Vec<u8>) {
        let packet = Outgoing { packet: packet.into(), headers: LpHeaders::default(), hop_limit: None };
        self.ports[port].send(packet, self.now_ns, &mut self.random, &mut self.flights);
        self.launch(port);
    }

    /// A face from the node of one port to a group to that of another.
    fn make_face(&mut self, own: usize, to: usize, mtu: usize) -> Option<Face> {
        if !self.ports[own].peers.contains(&to) {
            return None;
        }
        let node = self.ports[own].node;
        let spec = LinkSpec { mtu_octets: mtu, ..self.ports[own].spec };
        let forwarder = &self.nodes[node.0].forwarder;
        let face = forwarder.face_register(FaceProperties::remote()).ok()?;
        let number = self.ports.len();
        self.nodes[node.0].faces.insert(face, Target::Port(number));
        let port = Port::new(node, face, vec![to], spec, self.reassembly.clone());
        self.ports.push(port.beside(own));
        let neighbours = self.nodes[node.0].neighbours.as_mut()?;
        neighbours.by_station.insert((own, to), number);
        Some(face.0)
    }

    fn destroy_face(&mut self, node: usize, face: Face) {
        let Some(port) = self.port_of_face(node, face) else { return };
        let (own, to) = (self.ports[port].beside, self.ports[port].peers.first().copied());
        self.ports[port].peers.clear();
        self.nodes[node].faces.remove(&FaceId(face));
        // It is there: nobody else releases it.
        let _ = self.nodes[node].forwarder.face_release(FaceId(face));
        if let (Some(neighbours), Some(own), Some(to)) = (&mut self.nodes[node].neighbours, own, to) {
            neighbours.by_station.remove(&(own, to));
        }
        // What the forwarder has to do for that, it begins now.
        self.schedule(self.now_ns, What::Process(node));
    }

    fn add_route(&mut self, node: usize, face: Face, prefix: &Name) {
        let (origin, flags) = (RouteOrigin::AUTOREG, route_flags::CHILD_INHERIT);
        let route = Route { face_id: face, origin, cost: 0, flags, expiration_period_ms: None };
        // One that finds no room is missed by who looks for it.
        let _ = self.nodes[node].forwarder.rib_register(prefix, &route, self.now_ns);
    }

    /// Who is asked for what no route leads to: the group, and few neighbours one by one beside it.
    fn aim_discoveries(&mut self, node: usize, machine: &Discovery) {
        let Node { neighbours: Some(own), forwarder, .. } = &mut self.nodes[node] else { return };
        let mut faces: Vec<Vec<Face>> = vec![Vec::new(); own.links.len()];
        for neighbour in machine.faces() {
            if let Some(of_link) = faces.get_mut(neighbour.interface.0 as usize) {
                of_link.push(neighbour.face);
            }
        }
        if own.asked == faces {
            return;
        }
        for (link, faces) in own.links.iter().zip(&faces) {
            let is_few = faces.len() <= limits::ASKED_ONE_BY_ONE_MAX;
            let group = self.ports[*link].face;
            // A face that has gone meanwhile is asked nothing anyway.
            forwarder.face_set_discovery(group, true).unwrap_or_default();
            for face in faces.iter().map(|face| FaceId(*face)) {
                match is_few {
                    true => forwarder.face_set_discovery_beside(face, group).unwrap_or_default(),
                    false => forwarder.face_set_discovery(face, false).unwrap_or_default(),
                }
            }
        }
        own.asked = faces;
    }
}

/// What drives a node's discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Time,
    Device,
    Packet,
}

/// A device, as a system tells of it.
struct Device {
    node: usize,
    is_up: bool,
    mtu: usize,
}

//! Neighbor discovery at the nodes of a shared medium. The simulator runs the router's own state
//! machine, and applies its actions to simulated ports and forwarders as the daemon applies them to
//! real ones.
//!
//! A neighbor's unicast face is a port with a link service, a queue and a rate of its own, beside
//! the group's. Contention between link addresses in one network card is not simulated. A signature
//! is a checksum: it distinguishes valid from invalid packets, and takes no time.

use std::collections::BTreeMap;

use namely_discovery::message::{OwnHello, OwnReply};
use namely_discovery::{
    Action, Config, Discovery, Face, InterfaceId, Key, LinkAddress, LinkState, Note, Proof, ReceivedPacket,
    Recipient, limits,
};
use namely_forwarder::{FaceId, FaceProperties, Outgoing};
use namely_messages::{Route, RouteOrigin, route_flags};
use namely_wire::{
    DataBuilder, DataView, InterestBuilder, InterestView, LpHeaders, Name, SignatureInfo, SignatureType,
};

use crate::alarm::Alarm;
use crate::engine::Turn;
use crate::event::{EventKind, LinkEndId};
use crate::link::LinkSpec;
use crate::node::{Node, Target};

/// The discovery of a node.
pub(crate) struct Neighbours {
    /// `None` while a call of `drive` runs it.
    pub(crate) machine: Option<Discovery>,
    key: Key,
    /// Time of the last signature in ms.
    time_ms: u64,
    pub(crate) alarm: Alarm,
    /// Ports to groups with discovery; their indices are interfaces.
    links: Vec<usize>,
    /// For each link, the faces that the discovery settings of the forwarder were derived from.
    configured: Vec<Vec<Face>>,
    /// Ports of neighbors' faces, by the ports to the group at both ends.
    pub(crate) by_station: BTreeMap<(usize, LinkEndId), usize>,
    /// Send-only ports to neighbors without a face, by the ports to the group at both ends.
    past_faces: BTreeMap<(usize, LinkEndId), usize>,
    /// Entries of the log, with their times.
    pub(crate) notes: Vec<(u64, LinkAddress, Note)>,
}

/// Returns the link address of a port to the group: 24 bits of the node, and 16 of the port.
fn station(port: LinkEndId) -> LinkAddress {
    let ([_, a, b, c], [.., d, e]) = (port.node.to_be_bytes(), port.end.to_be_bytes());
    LinkAddress::Ether([2, a, b, c, d, e])
}

fn address_link_end(station: LinkAddress) -> Option<LinkEndId> {
    match station {
        LinkAddress::Ether([2, a, b, c, d, e]) => {
            Some(LinkEndId { node: u32::from_be_bytes([0, a, b, c]), end: u32::from_be_bytes([0, 0, d, e]) })
        }
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

impl Node {
    /// Enables discovery on a port.
    pub(crate) fn discover(&mut self, port: usize, config: Config, turn: &mut Turn<'_>) {
        let seed = self.random.next_u64();
        let name = u64::from(self.id).to_be_bytes();
        let neighbours = self.neighbours.get_or_insert_with(|| {
            let key = digest(&[name, seed.to_be_bytes()].concat());
            let machine = Some(Discovery::new(config, key, seed, turn.now_ns));
            Box::new(Neighbours {
                machine,
                key,
                time_ms: 0,
                alarm: Alarm::OFF,
                links: Vec::new(),
                configured: Vec::new(),
                by_station: BTreeMap::new(),
                past_faces: BTreeMap::new(),
                notes: Vec::new(),
            })
        });
        neighbours.links.push(port);
        neighbours.configured.push(Vec::new());
        self.notify_link(port, turn);
    }

    /// Notifies the discovery of the state of a device.
    pub(crate) fn notify_link(&mut self, port: usize, turn: &mut Turn<'_>) {
        let end = &self.ends[port];
        let (is_up, mtu, now_ns) = (end.is_up, end.spec.mtu_octets, turn.now_ns);
        let state = is_up.then_some(LinkState { station: station(self.end_id(port)), mtu, network_bits: 0 });
        let links = self.neighbours.as_ref().map(|own| &own.links);
        if let Some(link) = links.and_then(|links| links.iter().position(|link| *link == port)) {
            let id = InterfaceId(link as u32);
            self.drive(Input::Device, turn, |machine, out| machine.interface(id, state, now_ns, out));
        }
    }

    /// Passes a packet whose name begins with `/ndp` to the discovery. The packet arrived at the
    /// port `to` of a group from the port `from` of the same group, by unicast if `is_unicast`.
    /// Returns false if the port has no discovery.
    pub(crate) fn overhear(
        &mut self,
        to: usize,
        from: LinkEndId,
        is_unicast: bool,
        packet: &[u8],
        turn: &mut Turn<'_>,
    ) -> bool {
        let now_ns = turn.now_ns;
        let links = self.neighbours.as_ref().map(|own| &own.links);
        let Some(link) = links.and_then(|links| links.iter().position(|link| *link == to)) else {
            return false;
        };
        let (interface, source) = (InterfaceId(link as u32), station(from));
        let received = ReceivedPacket { interface, source, is_unicast, packet };
        self.drive(Input::Packet, turn, |machine, out| machine.receive(received, now_ns, out));
        true
    }

    /// Performs the due actions of the discovery.
    pub(crate) fn tick_discovery(&mut self, turn: &mut Turn<'_>) {
        self.drive(Input::Time, turn, |_, _| {});
    }

    fn drive(
        &mut self,
        input: Input,
        turn: &mut Turn<'_>,
        work: impl FnOnce(&mut Discovery, &mut Vec<Action>),
    ) {
        let Some(mut machine) = self.neighbours.as_mut().and_then(|own| own.machine.take()) else {
            return;
        };
        let before = machine.len();
        let mut actions = Vec::new();
        work(&mut machine, &mut actions);
        let is_more = self.carry_out(&mut machine, &mut actions, turn);
        // A packet that changed nothing makes no action due earlier, so the timer is not
        // recomputed. Most packets between many neighbors are of this kind.
        if input != Input::Packet || is_more || machine.len() != before {
            let due_ns = loop {
                let due_ns = machine.tick(turn.now_ns, &mut actions);
                if actions.is_empty() {
                    break due_ns;
                }
                self.carry_out(&mut machine, &mut actions, turn);
            };
            self.aim_discoveries(&machine);
            self.wake_discovery_at(due_ns, turn);
        }
        if let Some(own) = &mut self.neighbours {
            own.machine = Some(machine);
        }
    }

    fn wake_discovery_at(&mut self, due_ns: Option<u64>, turn: &mut Turn<'_>) {
        let at_ns = due_ns.map_or(u64::MAX, |due_ns| due_ns.max(turn.now_ns + 1));
        let armed = self.neighbours.as_mut().and_then(|own| own.alarm.set(at_ns));
        self.schedule_if(armed, EventKind::Discover, turn);
    }

    /// Performs the actions. Returns true if at least one was not a check of a signature.
    fn carry_out(&mut self, machine: &mut Discovery, actions: &mut Vec<Action>, turn: &mut Turn<'_>) -> bool {
        let mut is_more = false;
        while !actions.is_empty() {
            for action in std::mem::take(actions) {
                is_more |= !matches!(action, Action::Verify { .. });
                self.act(machine, action, actions, turn);
            }
        }
        is_more
    }

    fn act(&mut self, machine: &mut Discovery, action: Action, more: &mut Vec<Action>, turn: &mut Turn<'_>) {
        let now_ns = turn.now_ns;
        let Some(own) = &mut self.neighbours else { return };
        let link = |interface: InterfaceId, links: &[usize]| links.get(interface.0 as usize).copied();
        match action {
            Action::SendHello { interface, to, hello } => {
                let group = link(interface, &own.links);
                let Some((packet, digest)) = own.hello(&hello, now_ns) else { return };
                machine.hello_sent(interface, to.map(|to| to.station), digest, now_ns);
                let unicast = to.and_then(|to| self.link_end_towards(group?, to));
                if let Some(port) = if to.is_some() { unicast } else { group } {
                    self.put(port, packet, turn);
                }
            }
            Action::SendReply { interface, to, reply } => {
                let group = link(interface, &own.links);
                let packet = own.reply(&reply, now_ns);
                if let Some(port) = group.and_then(|group| self.link_end_towards(group, to)) {
                    self.put(port, packet, turn);
                }
            }
            Action::Verify { ticket, key, packet } => {
                let proof = if is_signed_by(&packet, &key) { Proof::Valid } else { Proof::Invalid };
                machine.verified(ticket, proof, now_ns, more);
            }
            Action::MakeFace { interface, station, mtu } => {
                let group = link(interface, &own.links);
                let made =
                    group.zip(address_link_end(station)).and_then(|(own, to)| self.make_face(own, to, mtu));
                machine.face_made(interface, station, made, more);
            }
            Action::DestroyFace { face } => self.destroy_face(face, turn),
            Action::SetMtu { face, mtu } => {
                if let Some(port) = self.face_link_end(face) {
                    self.ends[port].set_mtu(mtu);
                }
            }
            Action::SetGroupMtu { interface, mtu } => {
                if let Some(port) = link(interface, &own.links) {
                    self.ends[port].cut_to(mtu);
                }
            }
            Action::AddRoute { face, prefix } => self.add_route(face, &prefix, now_ns),
            Action::RemoveRoute { face, prefix } => {
                self.forwarder.rib_unregister(&prefix, FaceId(face), RouteOrigin::AUTOREG);
            }
            Action::Note { station, note, .. } => own.notes.push((now_ns, station, note)),
        }
    }

    fn face_link_end(&self, face: Face) -> Option<usize> {
        match self.faces.get(&FaceId(face)) {
            Some(Target::LinkEnd(port)) => Some(*port),
            _ => None,
        }
    }

    /// Returns the port of a neighbor's face or, without a face, a port that only sends.
    fn link_end_towards(&mut self, group: usize, to: Recipient) -> Option<usize> {
        if let Some(face) = to.face {
            return self.face_link_end(face);
        }
        let peer = address_link_end(to.station).filter(|peer| self.ends[group].peers.contains(peer))?;
        let past_faces = &self.neighbours.as_ref()?.past_faces;
        if let Some(port) = past_faces.get(&(group, peer)).copied() {
            self.ends[port].set_mtu(to.mtu);
            return Some(port);
        }
        let (own, number) = (&self.ends[group], self.ends.len());
        let spec = LinkSpec { mtu_octets: to.mtu, ..own.spec };
        let port = self.new_end(own.face, vec![peer], spec).beside(group);
        self.ends.push(port);
        self.neighbours.as_mut()?.past_faces.insert((group, peer), number);
        Some(number)
    }

    /// Sends a packet of the node itself.
    fn put(&mut self, port: usize, packet: Vec<u8>, turn: &mut Turn<'_>) {
        let packet = Outgoing { packet: packet.into(), headers: LpHeaders::default(), hop_limit: None };
        self.ends[port].send(packet, turn.now_ns, &mut turn.scratch.link);
        self.launch(port, turn);
    }

    /// Creates a face from the port `own` to the port `to` of another node in the same group.
    fn make_face(&mut self, own: usize, to: LinkEndId, mtu: usize) -> Option<Face> {
        if !self.ends[own].peers.contains(&to) {
            return None;
        }
        let spec = LinkSpec { mtu_octets: mtu, ..self.ends[own].spec };
        let face = self.forwarder.face_register(FaceProperties::remote()).ok()?;
        let number = self.ends.len();
        self.faces.insert(face, Target::LinkEnd(number));
        let port = self.new_end(face, vec![to], spec).beside(own);
        self.ends.push(port);
        self.neighbours.as_mut()?.by_station.insert((own, to), number);
        Some(face.0)
    }

    fn destroy_face(&mut self, face: Face, turn: &mut Turn<'_>) {
        let Some(port) = self.face_link_end(face) else { return };
        let (own, to) = (self.ends[port].beside, self.ends[port].peers.first().copied());
        self.ends[port].peers.clear();
        self.faces.remove(&FaceId(face));
        // The face exists, because only this code releases it.
        let _ = self.forwarder.face_release(FaceId(face));
        if let (Some(neighbours), Some(own), Some(to)) = (&mut self.neighbours, own, to) {
            neighbours.by_station.remove(&(own, to));
        }
        // The forwarder has to process the release, so it is scheduled immediately.
        self.schedule(turn.now_ns, EventKind::Process, turn);
    }

    fn add_route(&mut self, face: Face, prefix: &Name, now_ns: u64) {
        let (origin, flags) = (RouteOrigin::AUTOREG, route_flags::CHILD_INHERIT);
        let route = Route { face_id: face, origin, cost: 0, flags, expiration_period_ms: None };
        // Errors are ignored: a missing route is visible in the results of the simulation.
        let _ = self.forwarder.rib_register(prefix, &route, now_ns);
    }

    /// Sets the faces for Interests without a route: the group and, if the neighbors are few, the
    /// face of each neighbor.
    fn aim_discoveries(&mut self, machine: &Discovery) {
        let Node { neighbours: Some(own), forwarder, ends, .. } = self else { return };
        let mut faces: Vec<Vec<Face>> = vec![Vec::new(); own.links.len()];
        for neighbour in machine.faces() {
            if let Some(of_link) = faces.get_mut(neighbour.interface.0 as usize) {
                of_link.push(neighbour.face);
            }
        }
        if own.configured == faces {
            return;
        }
        for (link, faces) in own.links.iter().zip(&faces) {
            let is_few = faces.len() <= limits::ASKED_ONE_BY_ONE_MAX;
            let group = ends[*link].face;
            // A face that was released meanwhile needs no setting.
            forwarder.discovery().set(group, true).unwrap_or_default();
            for face in faces.iter().map(|face| FaceId(*face)) {
                match is_few {
                    true => forwarder.discovery().set_beside(face, group).unwrap_or_default(),
                    false => forwarder.discovery().set(face, false).unwrap_or_default(),
                }
            }
        }
        own.configured = faces;
    }
}

/// The kind of input to a node's discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Time,
    Device,
    Packet,
}

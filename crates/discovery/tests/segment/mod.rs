//! A link that several nodes share, in virtual time: each node is a state machine, faces are
//! numbers, and a signature is a sum that only distinguishes right from wrong.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::collections::{BTreeMap, BinaryHeap, HashMap};

use namely_discovery::message::{OwnHello, OwnReply};
use namely_discovery::{
    Action, Config, Discovery, Face, InterfaceId, Key, LinkAddress, LinkState, Note, Phase, Proof,
    ReceivedPacket, Recipient,
};
use namely_wire::{DataBuilder, DataView, InterestBuilder, InterestView, Name, SignatureInfo, SignatureType};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
pub const LINK: InterfaceId = InterfaceId(0);

/// Duration of a frame's way, and of a signature.
const DELAY_NS: u64 = 100_000;

pub fn station(n: usize) -> LinkAddress {
    LinkAddress::Ether([2, 0, 0, 0, (n >> 8) as u8, n as u8])
}

pub fn key(n: usize) -> Key {
    let mut key = [7; 32];
    key[..8].copy_from_slice(&(n as u64).to_be_bytes());
    key
}

fn sum(parts: &[&[u8]]) -> u64 {
    let octets = parts.iter().flat_map(|part| part.iter());
    octets.fold(0xcbf2_9ce4_8422_2325, |sum, octet| (sum ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3))
}

fn signature(key: &Key, parts: &[&[u8]]) -> Vec<u8> {
    let sum = sum(&[&[&key[..]], parts].concat());
    [sum.to_be_bytes(); 8].concat()
}

fn digest(octets: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    (0..4u8).for_each(|i| {
        let at = usize::from(i) * 8;
        digest[at..at + 8].copy_from_slice(&sum(&[&[i], octets]).to_be_bytes());
    });
    digest
}

/// A signed hello.
pub fn hello(name: Name, parameters: &[u8], key: &Key, time_ms: u64) -> Vec<u8> {
    let mut info = SignatureInfo::new(SignatureType::Ed25519, None);
    info.time_ms = Some(time_ms);
    info.nonce = Some(sum(&[key, &time_ms.to_be_bytes()]).to_be_bytes());
    let builder = InterestBuilder::new(name).nonce([1; 4]).hop_limit(1).lifetime_ms(1000);
    builder.build_signed(parameters, &info, |parts| Ok::<_, ()>(signature(key, parts)), digest).unwrap()
}

/// A signed reply.
pub fn reply(name: &Name, content: &[u8], key: &Key) -> Vec<u8> {
    let builder = DataBuilder::new(name.as_name());
    let unsigned = builder.build(content, &SignatureInfo::new(SignatureType::Ed25519, None));
    let value = signature(key, &[unsigned.signed_portion()]);
    unsigned.finish(&value)
}

fn is_right(packet: &[u8], key: &Key) -> bool {
    if let Ok(view) = InterestView::parse(packet) {
        return view.signature_value == Some(&*signature(key, &[view.signed_name(), view.signed_parameters]));
    }
    let view = DataView::parse(packet).unwrap();
    view.signature_value == signature(key, &[view.signed_portion])
}

/// A reply to a hello, as an attacker writes it.
pub fn reply_of(
    from: LinkAddress,
    (mtu, agreed): (u64, u64),
    hello: &[u8],
    key: &Key,
    time_ms: u64,
) -> Vec<u8> {
    let name = Name::new().join_generic("ndp").join_generic(from.to_string()).join_generic(mtu.to_string());
    let mut w = namely_wire::tlv::Writer::new();
    name.as_name().encode(&mut w);
    w.tlv(129, key).nni(131, 5).nni(133, time_ms).nni(137, agreed);
    reply(&InterestView::parse(hello).unwrap().name.to_name(), &w.into_vec(), key)
}

/// The content of a hello, as an attacker writes it.
pub fn hello_of(from: LinkAddress, mtu: &str, prefixes: &[&str], key: &Key, time_ms: u64) -> Vec<u8> {
    let mut name = Name::new().join_generic("ndp").join_generic(from.to_string()).join_generic(mtu);
    for prefix in prefixes {
        name = name.join_generic(format!("prefix={prefix}"));
    }
    hello(name, &parameters(key), key, time_ms)
}

pub fn parameters(key: &Key) -> Vec<u8> {
    [&[129, 32][..], key, &[131, 1, 5]].concat()
}

/// Packets under way, and timers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick(usize),
    Frame { to: usize, source: LinkAddress, is_unicast: bool, packet: Vec<u8> },
}

pub struct Node {
    pub machine: Discovery,
    pub link: LinkState,
    pub is_up: bool,
    key: Key,
    time_ms: u64,
    faces: HashMap<Face, LinkAddress>,
    pub routes: Vec<(Face, Name)>,
    pub mtus: HashMap<Face, usize>,
    pub group_mtu: usize,
    /// The MTU in the last hello to all.
    pub hello_mtu: usize,
    next_face: Face,
    pub sent_octets: u64,
    pub sent: u64,
    pub notes: Vec<(LinkAddress, Note)>,
    pub verified: u64,
    pub last_hello: Vec<u8>,
    pub last_reply: Vec<u8>,
    /// The last hello to all, which every station on the link has received.
    pub last_group_hello: Vec<u8>,
    /// Number of sent messages by destination; `None` is the group.
    pub sent_to: HashMap<Option<LinkAddress>, u64>,
    tick_ns: Option<u64>,
}

/// The link.
pub struct Segment {
    pub now_ns: u64,
    pub nodes: Vec<Node>,
    by_station: BTreeMap<LinkAddress, usize>,
    events: BinaryHeap<std::cmp::Reverse<(u64, u64, Event)>>,
    next: u64,
    /// One in this number of frames is lost; 0: none.
    pub loses: u64,
    /// Maximum number of frames in a millisecond.
    pub busiest: u64,
    in_ms: (u64, u64),
    /// Frames to stations that are no node: sender, station, packet.
    pub caught: Vec<(usize, LinkAddress, Vec<u8>)>,
}

impl Segment {
    pub fn new() -> Self {
        Segment {
            now_ns: SECOND,
            nodes: Vec::new(),
            by_station: BTreeMap::new(),
            events: BinaryHeap::new(),
            next: 0,
            loses: 0,
            busiest: 0,
            in_ms: (0, 0),
            caught: Vec::new(),
        }
    }

    /// Adds a node, whose interface is down.
    pub fn add(&mut self, mtu: usize, config: Config) -> usize {
        let n = self.nodes.len();
        let key = key(n);
        let machine = Discovery::new(config, key, 0x9e37_79b9_7f4a_7c15 ^ (n as u64 + 1) << 17, self.now_ns);
        self.nodes.push(Node {
            machine,
            link: LinkState { station: station(n), mtu, network_bits: 0 },
            is_up: false,
            key,
            time_ms: 1_000_000 + 3_600_000 * (n as u64 % 3),
            faces: HashMap::new(),
            routes: Vec::new(),
            mtus: HashMap::new(),
            group_mtu: 0,
            hello_mtu: 0,
            next_face: 100,
            sent_octets: 0,
            sent: 0,
            notes: Vec::new(),
            verified: 0,
            last_hello: Vec::new(),
            last_reply: Vec::new(),
            last_group_hello: Vec::new(),
            sent_to: HashMap::new(),
            tick_ns: None,
        });
        self.by_station.insert(station(n), n);
        n
    }

    pub fn up(&mut self, n: usize) {
        self.nodes[n].is_up = true;
        let (link, now_ns) = (self.nodes[n].link, self.now_ns);
        self.drive(n, |machine, out| machine.interface(LINK, Some(link), now_ns, out));
    }

    pub fn down(&mut self, n: usize) {
        let now_ns = self.now_ns;
        self.drive(n, |machine, out| machine.interface(LINK, None, now_ns, out));
        self.nodes[n].is_up = false;
    }

    pub fn reconfigure(&mut self, n: usize, config: Config) {
        let now_ns = self.now_ns;
        self.drive(n, |machine, out| machine.reconfigure(config, now_ns, out));
    }

    /// Stops the node without a goodbye.
    pub fn crash(&mut self, n: usize) {
        self.nodes[n].is_up = false;
    }

    pub fn goodbye(&mut self, n: usize) {
        self.drive(n, |machine, out| machine.goodbye(out));
        self.nodes[n].is_up = false;
    }

    pub fn set_mtu(&mut self, n: usize, mtu: usize) {
        self.nodes[n].link.mtu = mtu;
        self.up(n);
    }

    /// Gives a node a frame of any sender.
    pub fn inject(&mut self, to: usize, source: LinkAddress, is_unicast: bool, packet: &[u8]) {
        let now_ns = self.now_ns;
        let received = ReceivedPacket { interface: LINK, source, is_unicast, packet };
        let mut actions = Vec::new();
        let before = self.nodes[to].machine.len();
        self.nodes[to].machine.receive(received, now_ns, &mut actions);
        let is_more = self.carry_out(to, &mut actions) || self.nodes[to].machine.len() != before;
        // A confirmation gives a node no earlier timer than before.
        if is_more || self.nodes[to].tick_ns.is_none() {
            self.drive(to, |_, _| {});
        }
    }

    pub fn drive(&mut self, n: usize, work: impl FnOnce(&mut Discovery, &mut Vec<Action>)) {
        let mut actions = Vec::new();
        work(&mut self.nodes[n].machine, &mut actions);
        loop {
            self.carry_out(n, &mut actions);
            let due_ns = self.nodes[n].machine.tick(self.now_ns, &mut actions);
            if !actions.is_empty() {
                continue;
            }
            if let Some(due_ns) = due_ns.map(|due_ns| due_ns.max(self.now_ns + 1))
                && self.nodes[n].tick_ns.is_none_or(|tick_ns| due_ns < tick_ns)
            {
                self.nodes[n].tick_ns = Some(due_ns);
                self.at(due_ns, Event::Tick(n));
            }
            return;
        }
    }

    /// Returns true if there was more to do than to check signatures.
    fn carry_out(&mut self, n: usize, actions: &mut Vec<Action>) -> bool {
        let mut is_more = false;
        while !actions.is_empty() {
            for action in std::mem::take(actions) {
                is_more |= !matches!(action, Action::Verify { .. });
                self.act(n, action, actions);
            }
        }
        is_more
    }

    fn act(&mut self, n: usize, action: Action, more: &mut Vec<Action>) {
        let now_ns = self.now_ns;
        let node = &mut self.nodes[n];
        match action {
            Action::SendHello { interface, to, hello } => {
                let packet = node.sign_hello(&hello);
                let digest = InterestView::parse(&packet).unwrap().parameters_digest().unwrap();
                let digest = digest.try_into().unwrap();
                node.last_hello.clone_from(&packet);
                if to.is_none() {
                    node.hello_mtu = node.group_mtu;
                    node.last_group_hello.clone_from(&packet);
                }
                node.machine.hello_sent(interface, to.map(|to| to.station), digest, now_ns);
                self.send(n, to, packet);
            }
            Action::SendReply { to, reply, .. } => {
                let packet = node.sign_reply(&reply);
                node.last_reply.clone_from(&packet);
                self.send(n, Some(to), packet);
            }
            Action::Verify { ticket, key, packet } => {
                node.verified += 1;
                let proof = if is_right(&packet, &key) { Proof::Valid } else { Proof::Invalid };
                node.machine.verified(ticket, proof, now_ns, more);
            }
            Action::MakeFace { interface, station, mtu } => {
                let face = node.next_face;
                node.next_face += 1;
                node.faces.insert(face, station);
                node.mtus.insert(face, mtu);
                node.machine.face_made(interface, station, Some(face), more);
            }
            Action::DestroyFace { face } => {
                node.faces.remove(&face).expect("it was there");
                node.mtus.remove(&face);
                node.routes.retain(|(of, _)| *of != face);
            }
            Action::SetMtu { face, mtu } => drop(node.mtus.insert(face, mtu)),
            Action::SetGroupMtu { mtu, .. } => node.group_mtu = mtu,
            Action::AddRoute { face, prefix } => node.routes.push((face, prefix)),
            Action::RemoveRoute { face, prefix } => {
                node.routes.retain(|route| *route != (face, prefix.clone()))
            }
            Action::Note { station, note, .. } => node.notes.push((station, note)),
        }
    }

    fn send(&mut self, from: usize, to: Option<Recipient>, packet: Vec<u8>) {
        let node = &mut self.nodes[from];
        if !node.is_up {
            return;
        }
        // A removed face takes no packet. A station that is no neighbor needs no face.
        if to.is_some_and(|to| to.face.is_some_and(|face| !node.faces.contains_key(&face))) {
            return;
        }
        // Each frame has a header of Ethernet, and fragments one of NDNLPv2.
        let mtu = to.map_or(node.group_mtu, |to| to.mtu).max(64);
        let to = to.map(|to| to.station);
        // The destination, so that tests see which stations receive packets of this node.
        *node.sent_to.entry(to).or_default() += 1;
        let frames = if packet.len() <= mtu { 1 } else { packet.len().div_ceil(mtu - 24) };
        node.sent_octets += (packet.len() + frames * (14 + 24)) as u64;
        node.sent += 1;
        let ms = self.now_ns / MS;
        self.in_ms = if self.in_ms.0 == ms { (ms, self.in_ms.1 + 1) } else { (ms, 1) };
        self.busiest = self.busiest.max(self.in_ms.1);
        let source = node.link.station;
        let receivers: Vec<usize> = match to {
            Some(station) => self.by_station.get(&station).copied().into_iter().collect(),
            None => (0..self.nodes.len()).filter(|n| *n != from).collect(),
        };
        if let Some(to) = to.filter(|_| receivers.is_empty()) {
            self.caught.push((from, to, packet.clone()));
        }
        for receiver in receivers {
            let is_lost = self.loses > 0 && self.next.is_multiple_of(self.loses);
            if is_lost {
                self.next += 1;
                continue;
            }
            let event =
                Event::Frame { to: receiver, source, is_unicast: to.is_some(), packet: packet.clone() };
            self.at(self.now_ns + DELAY_NS, event);
        }
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.next += 1;
        self.events.push(std::cmp::Reverse((at_ns, self.next, event)));
    }

    pub fn run(&mut self, for_ns: u64) {
        let end_ns = self.now_ns + for_ns;
        while let Some(std::cmp::Reverse((at_ns, _, _))) = self.events.peek()
            && *at_ns <= end_ns
        {
            let Some(std::cmp::Reverse((at_ns, _, event))) = self.events.pop() else { break };
            self.now_ns = at_ns;
            match event {
                Event::Tick(n) => {
                    self.nodes[n].tick_ns = None;
                    self.drive(n, |_, _| {});
                }
                Event::Frame { to, source, is_unicast, packet } if self.nodes[to].is_up => {
                    self.inject(to, source, is_unicast, &packet);
                }
                Event::Frame { .. } => {}
            }
        }
        self.now_ns = end_ns;
    }

    /// The proven neighbors of a node that have faces.
    pub fn proven(&self, n: usize) -> Vec<usize> {
        let all = self.nodes[n].machine.neighbours(self.now_ns);
        let proven = all.filter(|neighbour| neighbour.phase == Phase::Proven && neighbour.face.is_some());
        proven
            .map(|neighbour| self.by_station.get(&neighbour.station).copied().unwrap_or(usize::MAX))
            .collect()
    }

    pub fn mtu(&self, n: usize, of: usize) -> Option<usize> {
        let mut all = self.nodes[n].machine.neighbours(self.now_ns);
        let face = all.find(|neighbour| neighbour.station == station(of))?.face?;
        self.nodes[n].mtus.get(&face).copied()
    }

    pub fn count(&self, n: usize, counter: namely_discovery::Counter) -> u64 {
        self.nodes[n].machine.counters().get(counter)
    }
}

impl Node {
    /// Sets the node's clock, ms since the Unix epoch.
    pub fn set_clock_ms(&mut self, ms: u64) {
        self.time_ms = ms;
    }

    pub fn sign_hello(&mut self, about: &OwnHello) -> Vec<u8> {
        self.time_ms += 1;
        hello(about.name(), &about.parameters(), &self.key, self.time_ms)
    }

    fn sign_reply(&mut self, about: &OwnReply) -> Vec<u8> {
        self.time_ms += 1;
        reply(&about.name, &about.content(self.time_ms), &self.key)
    }
}

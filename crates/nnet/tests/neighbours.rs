//! Neighbor discovery over the forwarder in the kernel. The state machine of namely's router
//! creates and removes faces of devices and routes to them, by netlink (docs/discovery.md,
//! docs/kernel.md).
//!
//! Two network namespaces are two hosts. The test carries their messages, with checksums instead of
//! signatures; faces, routes and packets are the kernel's. A guest runs it (`kernel/run --tools`).

use std::path::Path;
use std::time::{Duration, Instant};

use namely_datagrams::ethernet::monitor;
use namely_discovery::message::{OwnHello, OwnReply};
use namely_discovery::{
    Action, Config, Discovery, InterfaceId, Key, LinkAddress, LinkState, Phase, Proof, ReceivedPacket,
};
use namely_nnet::uapi::NNET_FACE_LOCAL;
use namely_nnet::{Control, ControlError, Face, FaceKind, Socket, device, module};
use namely_testbed::Net;
use namely_testkit::{Need, eventually, skip};
use namely_wire::{
    DataBuilder, DataView, InterestBuilder, InterestView, MacAddress, Name, SignatureInfo, SignatureType,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags};

/// Longest wait for anything: a guest is slow.
const LIMIT: Duration = Duration::from_secs(60);

/// Time between two hellos.
const HEARTBEAT_NS: u64 = 400_000_000;

const LINK: InterfaceId = InterfaceId(0);

/// A namespace with a forwarder and a discovery.
struct Node {
    machine: Discovery,
    key: Key,
    /// The time of the last signature, ms.
    time_ms: u64,
    control: Control,
    device: u32,
    address: [u8; 6],
    /// Hellos and replies that the test has to carry, and whether to one station only.
    sent: Vec<(bool, Vec<u8>)>,
}

fn signature(key: &Key, parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(part);
    }
    let mut value = vec![0; 64];
    hasher.finalize_xof().fill(&mut value);
    value
}

fn is_signed_by(packet: &[u8], key: &Key) -> bool {
    if let Ok(view) = InterestView::parse(packet) {
        let value = signature(key, &[view.signed_name(), view.signed_parameters]);
        return view.signature_value == Some(&value);
    }
    DataView::parse(packet).is_ok_and(|view| view.signature_value == signature(key, &[view.signed_portion]))
}

impl Node {
    fn new(net: &Net, node: &str, prefixes: &[&str], now_ns: u64) -> Self {
        let key = *blake3::hash(format!("{node} {now_ns}").as_bytes()).as_bytes();
        let prefixes = prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect();
        let config = Config { heartbeat_ns: HEARTBEAT_NS, prefixes, open: true, ..Config::default() };
        net.enter(node, || {
            let found = monitor::device("cable").unwrap().unwrap();
            let mut machine = Discovery::new(config, key, now_ns, now_ns);
            let link =
                LinkState { station: LinkAddress::Ether(found.address.0), mtu: found.mtu, network_bits: 0 };
            let mut actions = Vec::new();
            machine.interface(LINK, Some(link), now_ns, &mut actions);
            Node {
                machine,
                key,
                time_ms: 0,
                control: Control::open().unwrap(),
                device: device::index("cable").unwrap(),
                address: found.address.0,
                sent: Vec::new(),
            }
            .carried_out(actions, now_ns)
        })
    }

    fn carried_out(mut self, actions: Vec<Action>, now_ns: u64) -> Self {
        self.carry_out(actions, now_ns);
        self
    }

    fn next_time_ms(&mut self, now_ns: u64) -> u64 {
        self.time_ms = (now_ns / 1_000_000).max(self.time_ms + 1);
        self.time_ms
    }

    fn hello(&mut self, hello: &OwnHello, now_ns: u64) -> (Vec<u8>, [u8; 32]) {
        let time_ms = self.next_time_ms(now_ns);
        let mut info = SignatureInfo::new(SignatureType::Ed25519, None);
        (info.time_ms, info.nonce) = (Some(time_ms), Some(time_ms.to_be_bytes()));
        let nonce = (time_ms as u32).to_be_bytes();
        let builder = InterestBuilder::new(hello.name()).nonce(nonce).hop_limit(1).lifetime_ms(1000);
        let sign = |parts: &[&[u8]]| Ok::<_, ()>(signature(&self.key, parts));
        let digest = |octets: &[u8]| *blake3::hash(octets).as_bytes();
        let packet = builder.build_signed(&hello.parameters(), &info, sign, digest).unwrap();
        let digest = InterestView::parse(&packet).unwrap().parameters_digest().unwrap().try_into().unwrap();
        (packet, digest)
    }

    fn reply(&mut self, reply: &OwnReply, now_ns: u64) -> Vec<u8> {
        let content = reply.content(self.next_time_ms(now_ns));
        let info = SignatureInfo::new(SignatureType::Ed25519, None);
        let unsigned = DataBuilder::new(reply.name.as_name()).build(&content, &info);
        let value = signature(&self.key, &[unsigned.signed_portion()]);
        unsigned.finish(&value)
    }

    /// Carries out the state machine's actions, as the daemon does with the kernel's forwarder.
    fn carry_out(&mut self, mut actions: Vec<Action>, now_ns: u64) {
        while !actions.is_empty() {
            for action in std::mem::take(&mut actions) {
                self.act(action, &mut actions, now_ns);
            }
        }
    }

    fn act(&mut self, action: Action, more: &mut Vec<Action>, now_ns: u64) {
        match action {
            Action::SendHello { interface, to, hello } => {
                let (packet, digest) = self.hello(&hello, now_ns);
                let to = to.map(|to| to.station);
                self.machine.hello_sent(interface, to, digest, now_ns);
                self.sent.push((to.is_some(), packet));
            }
            Action::SendReply { reply, .. } => {
                let packet = self.reply(&reply, now_ns);
                self.sent.push((true, packet));
            }
            Action::Verify { ticket, key, packet } => {
                let proof = if is_signed_by(&packet, &key) { Proof::Valid } else { Proof::Invalid };
                self.machine.verified(ticket, proof, now_ns, more);
            }
            Action::MakeFace { interface, station, .. } => {
                let LinkAddress::Ether(address) = station else { panic!("{station} on Ethernet") };
                let made = self.control.face_new(self.device, Some(MacAddress(address)));
                self.machine.face_made(interface, station, made.ok(), more);
            }
            Action::DestroyFace { face } => self.control.face_del(face).unwrap(),
            Action::AddRoute { face, prefix } => self.control.route_new(prefix.as_name(), face, 0).unwrap(),
            Action::RemoveRoute { face, prefix } => match self.control.route_del(prefix.as_name(), face) {
                // The route was removed with its face.
                Ok(()) | Err(ControlError::NotFound) => {}
                Err(error) => panic!("{prefix}: {error}"),
            },
            // The kernel takes the longest frame from the device.
            Action::SetMtu { .. } | Action::SetGroupMtu { .. } | Action::Note { .. } => {}
        }
    }

    fn tick(&mut self, now_ns: u64) {
        let mut actions = Vec::new();
        self.machine.tick(now_ns, &mut actions);
        self.carry_out(actions, now_ns);
    }

    fn hear(&mut self, source: [u8; 6], is_unicast: bool, packet: &[u8], now_ns: u64) {
        let source = LinkAddress::Ether(source);
        let mut actions = Vec::new();
        self.machine.receive(
            ReceivedPacket { interface: LINK, source, is_unicast, packet },
            now_ns,
            &mut actions,
        );
        self.carry_out(actions, now_ns);
    }

    /// The faces of stations, as the kernel lists them.
    fn stations(&mut self) -> Vec<Face> {
        self.control.faces().unwrap().into_iter().filter(|face| face.kind == FaceKind::LinkAddress).collect()
    }

    fn has_proven(&self, now_ns: u64) -> bool {
        self.machine.neighbours(now_ns).any(|neighbour| neighbour.phase == Phase::Proven)
    }
}

/// Lets time pass and carries the messages between nodes until `is_done`. A silent node sends none.
fn run(started: Instant, nodes: &mut [&mut Node], is_done: &mut dyn FnMut(&mut [&mut Node], u64) -> bool) {
    eventually("the nodes come so far", || {
        let now_ns = started.elapsed().as_nanos() as u64;
        nodes.iter_mut().for_each(|node| node.tick(now_ns));
        for from in 0..nodes.len() {
            let (sent, address) = (std::mem::take(&mut nodes[from].sent), nodes[from].address);
            for (is_unicast, packet) in sent {
                for to in (0..nodes.len()).filter(|to| *to != from) {
                    nodes[to].hear(address, is_unicast, &packet, now_ns);
                }
            }
        }
        is_done(nodes, now_ns)
    });
}

fn receive(socket: &Socket) -> Vec<u8> {
    let wait = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&wait)).unwrap();
    let mut octets = vec![0; 16 << 10];
    let (length, _) = rustix::net::recv(socket, &mut octets[..], RecvFlags::empty()).unwrap();
    octets.truncate(length);
    octets
}

/// A request of `desk` is answered by an application of `lab`.
fn exchange(net: &Net, name: &str) {
    let name: Name = name.parse().unwrap();
    let producer = net.enter("lab", Socket::open).unwrap();
    producer.bind(name.as_name()).unwrap();
    let consumer = net.enter("desk", Socket::open).unwrap();
    let interest = InterestBuilder::new(name.clone()).nonce([1, 2, 3, 4]).build();
    rustix::net::send(&consumer, &interest, SendFlags::empty()).unwrap();
    let asked = receive(&producer);
    assert_eq!(InterestView::parse(&asked).expect("an Interest").name, name.as_name());
    let info = SignatureInfo::new(SignatureType::DigestSha256, None);
    let data = DataBuilder::new(name.as_name()).build(b"hello", &info).finish(&[0; 32]);
    rustix::net::send(&producer, &data, SendFlags::empty()).unwrap();
    assert_eq!(receive(&consumer), data);
}

#[test]
fn discovered_neighbors_get_kernel_faces() {
    if std::env::var_os("NAMELY_GUEST").is_none() {
        return skip(Need::Guest, "it loads a module: `kernel/run --tools` runs it in a guest");
    }
    if !module::is_loaded() {
        module::load(Path::new("/modules/nnet.ko"), "").unwrap();
    }
    let net = Net::new(&["lab", "desk"]).unwrap();
    net.ip("-n {lab} link add cable up type veth peer name cable netns {desk}").unwrap();
    net.ip("-n {desk} link set cable up").unwrap();
    let started = Instant::now();
    let mut lab = Node::new(&net, "lab", &["/lab"], 1);
    let mut desk = Node::new(&net, "desk", &[], 2);
    lab.control.route_new("/lab".parse::<Name>().unwrap().as_name(), NNET_FACE_LOCAL, 0).unwrap();
    assert!(lab.stations().is_empty() && desk.stations().is_empty(), "nobody has said a word");

    run(started, &mut [&mut lab, &mut desk], &mut |nodes, now_ns| nodes.iter().all(|n| n.has_proven(now_ns)));
    let (of_lab, of_desk) = (lab.stations(), desk.stations());
    assert_eq!(
        of_lab.iter().map(|face| face.link).collect::<Vec<_>>(),
        [Some((lab.device, MacAddress(desk.address)))]
    );
    assert_eq!(
        of_desk.iter().map(|face| face.link).collect::<Vec<_>>(),
        [Some((desk.device, MacAddress(lab.address)))]
    );
    let is_routed = |node: &mut Node| {
        let face = node.stations().first().map(|face| face.id);
        node.control
            .routes()
            .unwrap()
            .iter()
            .any(|route| route.prefix.to_string() == "/lab" && Some(route.face) == face)
    };
    run(started, &mut [&mut lab, &mut desk], &mut |nodes, _| is_routed(nodes[1]));
    exchange(&net, "/lab/app/1");

    // A node that sends a goodbye is removed at once, with its routes.
    let mut actions = Vec::new();
    lab.machine.goodbye(&mut actions);
    lab.carry_out(actions, started.elapsed().as_nanos() as u64);
    let goodbye = std::mem::take(&mut lab.sent);
    for (is_unicast, packet) in goodbye {
        desk.hear(lab.address, is_unicast, &packet, started.elapsed().as_nanos() as u64);
    }
    assert!(desk.stations().is_empty(), "{:?}", desk.stations());
    assert!(desk.control.routes().unwrap().is_empty());

    // Another neighbor appears and falls silent. Three heartbeats later it is gone.
    let now_ns = started.elapsed().as_nanos() as u64;
    for face in lab.stations() {
        lab.control.face_del(face.id).unwrap();
    }
    let mut lab = Node::new(&net, "lab", &["/lab"], now_ns);
    run(started, &mut [&mut lab, &mut desk], &mut |nodes, _| is_routed(nodes[1]));
    // Its last hello is at most a heartbeat old. The exchange may take any time.
    let silent = Instant::now();
    exchange(&net, "/lab/app/2");
    run(started, &mut [&mut desk], &mut |nodes, _| nodes[0].stations().is_empty());
    assert!(silent.elapsed() > Duration::from_nanos(HEARTBEAT_NS), "not before it is late");
    assert!(desk.control.routes().unwrap().is_empty());
    drop(net);
    eventually("nobody uses it", || module::unload().is_ok());
}

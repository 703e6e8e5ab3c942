//! Sequences of packets over several faces while time passes, through the link services and the
//! forwarder of one small router. They find faults that depend on state, which no decoder shows.
//!
//! An input is a list of steps. A simple model beside the router records the Interests of each
//! face.

use std::sync::Arc;

use namely_forwarder::{
    Completion, Config, CsLimits, DeadNonceLimits, EvictedData, FaceError, FaceId, FaceProperties, Forwarder,
    Outgoing, Output, PitLimits, Received, Ticket, Tier, TierAnswer, TierRequest, TierWrite,
};
use namely_link::{LinkConfig, LinkKind, LinkService, Outbound, Patch, ReassemblyLimits, ReassemblyTotal};
use namely_security::{Signer, sha256, sign_data};
use namely_wire::{
    DataBuilder, DataView, InterestBuilder, InterestView, LP_PACKET_OCTETS_MAX, LpHeaders, NackReason, Name,
    PitToken, encode_lp_packet,
};

use crate::group::Group;

type Packet = Arc<[u8]>;

/// Names of the constructed packets.
const NAMES: [&str; 9] = [
    "/a",
    "/a/b",
    "/a/b/c",
    "/a/b/d",
    "/e",
    "/localhost/x",
    "/localhop/y",
    "/localhost/nfd/z",
    "/localhop/nb-cc/busy",
];

const STRATEGIES: [&str; 4] = ["best-route", "multicast", "asf", "round-robin"];

const LIFETIMES_MS: [u64; 4] = [1, 100, 4000, 3_600_000];

/// Limits of the router: small, so that they are reached.
const FACES_MAX: usize = 6;
const PIT_ENTRIES_MAX: usize = 12;
const PIT_ENTRIES_PER_FACE_MAX: usize = 8;
const CS_PACKETS_MAX: usize = 6;
const DEAD_NONCES_MAX: usize = 16;
const REASSEMBLY_OCTETS_MAX: usize = 1 << 14;

const ANNOUNCE_NS: u64 = 100_000_000;

/// Maximum number of steps of one input. More steps take time and find nothing new.
const STEPS_MAX: usize = 400;

/// A time longer than any Interest pends.
const AGES_NS: u64 = 8_000_000_000_000;

struct Face {
    id: FaceId,
    is_local: bool,
    link: LinkService<Packet, u8>,
    /// Names of its unanswered Interests, with true for CanBePrefix. Expired ones stay.
    asked: Vec<(Name, bool)>,
}

/// The router's output, and a tier below its content store that behaves as the steps demand.
struct Home {
    sent: Vec<(FaceId, Outgoing<Packet>)>,
    answer: TierAnswer,
    is_busy: bool,
    /// Reads that have not completed, each with the requested name.
    reads: Vec<(Ticket, Name)>,
}

impl Output<Packet> for Home {
    type Tier = Self;
    type Tracer = ();

    fn send(&mut self, face: FaceId, packet: Outgoing<Packet>) {
        self.sent.push((face, packet));
    }

    fn tier(&mut self) -> Option<&mut Self> {
        Some(self)
    }
}

impl Tier<Packet> for Home {
    fn read(&mut self, wanted: &TierRequest<'_>) -> TierAnswer {
        if self.answer == TierAnswer::Reading {
            self.reads.push((wanted.ticket, wanted.name.to_name()));
        }
        self.answer
    }

    fn is_busy(&self) -> bool {
        self.is_busy
    }

    fn write(&mut self, leaving: EvictedData<Packet>) -> TierWrite {
        assert!(DataView::parse(&leaving.packet).is_ok());
        if self.is_busy { TierWrite::Busy } else { TierWrite::Accepted }
    }
}

struct World {
    home: Home,
    forwarder: Forwarder<Packet, parking_lot::RawMutex>,
    faces: Vec<Face>,
    total: Arc<ReassemblyTotal>,
    now_ns: u64,
}

/// The steps of an input.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn octet(&mut self) -> Option<u8> {
        let (octet, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*octet)
    }

    fn octets(&mut self, length: u8) -> &'a [u8] {
        let (octets, rest) = self.0.split_at(usize::from(length).min(self.0.len()));
        self.0 = rest;
        octets
    }
}

/// Steps over several faces: a face receives only Data that it requested, packets of local scope
/// stay local, and every limit holds.
pub(crate) fn forwarder(octets: &[u8]) {
    let mut world = World::new();
    let mut steps = Steps(octets);
    for _ in 0..STEPS_MAX {
        if world.step(&mut steps).is_none() {
            break;
        }
        world.check_limits();
    }
    world.age();
    assert_eq!(world.forwarder.table_sizes().pit, 0, "nothing pends for ever");
    for face in world.faces.drain(..) {
        assert!(world.forwarder.face_release(face.id).is_ok());
    }
    assert_eq!(world.total.octets(), 0, "memory is given back");
}

impl World {
    fn new() -> Self {
        let config = Config {
            faces_max: FACES_MAX,
            pit: PitLimits {
                entries_max: PIT_ENTRIES_MAX,
                entries_per_face_max: PIT_ENTRIES_PER_FACE_MAX,
                ..PitLimits::default()
            },
            cs: CsLimits { packets_max: CS_PACKETS_MAX, ..CsLimits::default() },
            dead_nonces: DeadNonceLimits { entries_max: DEAD_NONCES_MAX, ..DeadNonceLimits::default() },
            cs_announce_ns: ANNOUNCE_NS,
            ..Config::new(sha256)
        };
        let home = Home { sent: Vec::new(), answer: TierAnswer::NoTier, is_busy: false, reads: Vec::new() };
        World {
            home,
            forwarder: Forwarder::new(config, 7).expect("limits that tables can have"),
            faces: Vec::new(),
            total: ReassemblyTotal::new(REASSEMBLY_OCTETS_MAX),
            now_ns: 1_000_000_000,
        }
    }

    /// Does one step; `None` at the end of the input.
    fn step(&mut self, steps: &mut Steps<'_>) -> Option<()> {
        let (what, on) = (steps.octet()?, steps.octet()?);
        match what % 11 {
            0 => self.register(on),
            1 => self.release(on),
            2 => self.route(on, steps.octet()?),
            3 => self.choose_strategy(on, steps.octet()?),
            4 => {
                self.now_ns += 1 << (on % 42);
                self.wake();
            }
            5 => {
                let length = steps.octet()?;
                self.receive(on, steps.octets(length));
            }
            6 => {
                let frame = interest_frame(steps.octet()?, steps.octet()?, steps.octet()?);
                self.receive(on, &frame);
            }
            7 => {
                let frame = data_frame(steps.octet()?, steps.octet()?);
                self.receive(on, &frame);
            }
            8 => {
                let frame = nack_frame(steps.octet()?, steps.octet()?);
                self.receive(on, &frame);
            }
            9 => {
                let answers = [TierAnswer::NoTier, TierAnswer::Absent, TierAnswer::Busy, TierAnswer::Reading];
                (self.home.answer, self.home.is_busy) = (answers[usize::from(on % 4)], on & 4 != 0);
            }
            _ => self.complete(on, steps.octet()?),
        }
        Some(())
    }

    /// Completes a read: with the requested Data, with another Data, or without any.
    fn complete(&mut self, read: u8, outcome: u8) {
        let Some(at) = usize::from(read).checked_rem(self.home.reads.len()) else { return };
        let (ticket, wanted) = self.home.reads.swap_remove(at);
        let found = |name: &Name| Completion::Found {
            packet: data(name, outcome).into(),
            fresh_until_ns: self.now_ns.saturating_add(u64::from(outcome % 3)),
            is_busy: self.home.is_busy,
        };
        let completion = match outcome % 5 {
            0 => Completion::Absent,
            1 => Completion::Failed,
            2 => found(&name(outcome)),
            _ => found(&wanted),
        };
        self.forwarder.tier_completed(ticket, completion, self.now_ns, &mut self.home);
        self.send_all();
        self.wake();
    }

    fn register(&mut self, kind: u8) {
        let limits = ReassemblyLimits { messages_max: 4, octets_max: 1 << 13, timeout_ns: 500_000_000 };
        let (properties, kind, reliability) = match kind % 4 {
            0 => (FaceProperties::application(), LinkKind::Stream, false),
            1 => (FaceProperties::remote(), LinkKind::Datagram { mtu: 300 }, false),
            2 => (FaceProperties::remote(), LinkKind::Datagram { mtu: 1500 }, true),
            _ => (FaceProperties::group(), LinkKind::Datagram { mtu: 1500 }, false),
        };
        let is_local = properties == FaceProperties::application();
        let link = LinkConfig { reassembly: limits, reliability, ..LinkConfig::new(kind) };
        match self.forwarder.face_register(properties) {
            Ok(id) => {
                assert!(self.faces.len() < FACES_MAX && self.faces.iter().all(|face| face.id != id));
                let link = LinkService::new(link, self.total.clone(), 1);
                self.faces.push(Face { id, is_local, link, asked: Vec::new() });
            }
            Err(error) => assert!(error == FaceError::TableFull && self.faces.len() == FACES_MAX),
        }
    }

    fn release(&mut self, face: u8) {
        if let Some(at) = self.face(face) {
            let face = self.faces.swap_remove(at);
            assert!(self.forwarder.face_release(face.id).is_ok());
            assert_eq!(self.forwarder.face_release(face.id).err(), Some(FaceError::NotFound));
        }
    }

    fn route(&mut self, face: u8, of: u8) {
        if let Some(at) = self.face(face) {
            let cost = u64::from(of / 8 % 4);
            let id = self.faces[at].id;
            assert!(self.forwarder.fib().add_nexthop(name(of).as_name(), id, cost).is_ok());
        }
    }

    fn choose_strategy(&mut self, strategy: u8, of: u8) {
        let strategy = STRATEGIES[usize::from(strategy) % STRATEGIES.len()];
        let strategy: Name = format!("/localhost/nfd/strategy/{strategy}").parse().expect("a name");
        assert!(self.forwarder.strategies().set(name(of).as_name(), strategy.as_name()).is_ok());
    }

    fn face(&self, number: u8) -> Option<usize> {
        usize::from(number).checked_rem(self.faces.len())
    }

    /// Passes a frame to the link service of a face, and a complete packet to the forwarder.
    fn receive(&mut self, face: u8, frame: &[u8]) {
        let Some(at) = self.face(face) else { return };
        let Face { id, link, asked, .. } = &mut self.faces[at];
        let id = *id;
        let Ok(Some(delivered)) = link.receive(frame, 0, self.now_ns, &mut |_| ()) else { return };
        if let (None, Ok(interest)) =
            (delivered.headers.nack, InterestView::parse(delivered.packet.octets(frame)))
        {
            let digests = usize::from(interest.implicit_digest().is_some());
            asked.push((interest.name.without_last(digests).to_name(), interest.can_be_prefix));
        }
        let received = Received { packet: delivered.packet.octets(frame).into(), headers: delivered.headers };
        self.forwarder.receive(id, received, self.now_ns, &mut self.home);
        self.send_all();
        self.wake();
    }

    fn send_all(&mut self) {
        for (id, outgoing) in std::mem::take(&mut self.home.sent) {
            let face = self.faces.iter_mut().find(|face| face.id == id);
            let face = face.expect("nothing is sent on a face that was released");
            face.check(&outgoing);
            let hop_limit = outgoing.hop_limit.map(|(offset, value)| Patch { offset, value });
            let outbound = Outbound { headers: outgoing.headers, packet: outgoing.packet, hop_limit };
            let octets_max = face.link.mtu().unwrap_or(LP_PACKET_OCTETS_MAX);
            let _ = face.link.send(outbound, self.now_ns, &mut |frame| {
                assert!(frame.slices().concat().len() <= octets_max, "a frame is longer than its link takes");
            });
        }
    }

    /// Serves the timers that are due.
    fn wake(&mut self) {
        for face in &mut self.faces {
            if face.link.due_ns().is_some_and(|due_ns| due_ns <= self.now_ns) {
                face.link.tick(self.now_ns, &mut |_| ());
            }
        }
        self.forwarder.expire(self.now_ns, &mut self.home);
        self.send_all();
    }

    /// Advances the clock until no entry pends any more.
    fn age(&mut self) {
        for _ in 0..4 {
            self.now_ns += AGES_NS;
            // Each call expires a bounded number of entries.
            (0..4).for_each(|_| self.wake());
        }
    }

    fn check_limits(&self) {
        let sizes = self.forwarder.table_sizes();
        assert!(sizes.pit <= PIT_ENTRIES_MAX, "{sizes:?}");
        assert!(sizes.cs <= CS_PACKETS_MAX, "{sizes:?}");
        assert!(sizes.dead_nonces <= DEAD_NONCES_MAX.next_power_of_two() * 2, "{sizes:?}");
        assert!(self.total.octets() <= REASSEMBLY_OCTETS_MAX);
    }
}

impl Face {
    /// Panics unless `outgoing` may go to this face.
    fn check(&mut self, outgoing: &Outgoing<Packet>) {
        if let Ok(data) = DataView::parse(&outgoing.packet) {
            self.check_scope(&data.name.to_name());
            let answers = |(asked, is_prefix): &(Name, bool)| {
                asked.as_name() == data.name || *is_prefix && asked.is_prefix_of(data.name)
            };
            // The Data satisfies the Interest with the longest name, because other Data can still
            // satisfy a shorter one.
            let matching = self.asked.iter().enumerate().filter(|(_, asked)| answers(asked));
            let at = matching.max_by_key(|(_, (name, is_prefix))| (name.len(), !is_prefix)).map(|(at, _)| at);
            let at = at.expect("a Data goes to a face that asked for it and has no answer yet");
            self.asked.swap_remove(at);
            return;
        }
        let interest = InterestView::parse(&outgoing.packet).expect("what is sent is an Interest or Data");
        self.check_scope(&interest.name.to_name());
    }

    fn check_scope(&self, about: &Name) {
        let is_local_name = about.components().next().is_some_and(|first| first.value == b"localhost");
        assert!(self.is_local || !is_local_name, "{about} leaves this host");
    }
}

fn name(number: u8) -> Name {
    NAMES[usize::from(number) % NAMES.len()].parse().expect("a name in this file")
}

fn interest(of: u8, flags: u8, nonce: u8) -> Vec<u8> {
    let mut builder = InterestBuilder::new(name(of)).nonce([nonce; 4]);
    builder = builder.lifetime_ms(LIFETIMES_MS[usize::from(flags >> 2) % LIFETIMES_MS.len()]);
    if flags & 1 != 0 {
        builder = builder.can_be_prefix();
    }
    if flags & 2 != 0 {
        builder = builder.must_be_fresh();
    }
    if flags & 16 != 0 {
        builder = builder.forwarding_hint(name(of >> 4));
    }
    if flags & 32 != 0 {
        builder = builder.hop_limit(flags >> 6);
    }
    builder.build()
}

fn interest_frame(of: u8, flags: u8, nonce: u8) -> Vec<u8> {
    let pit_token = PitToken::new(&vec![nonce; usize::from(nonce % 33)]);
    encode_lp_packet(&LpHeaders { pit_token, ..LpHeaders::default() }, &interest(of, flags, nonce))
}

fn data_frame(of: u8, flags: u8) -> Vec<u8> {
    encode_lp_packet(&LpHeaders::default(), &data(&name(of), flags))
}

fn data(name: &Name, flags: u8) -> Vec<u8> {
    let builder = DataBuilder::new(name.as_name()).freshness_ms(u64::from(flags % 4) * 100);
    let content = vec![flags; usize::from(flags)];
    sign_data(&builder, &content, &Signer::digest_sha256()).expect("a digest")
}

fn nack_frame(of: u8, nonce: u8) -> Vec<u8> {
    let nack =
        Some([NackReason::NoRoute, NackReason::Congestion, NackReason::Duplicate][usize::from(of) % 3]);
    encode_lp_packet(&LpHeaders { nack, ..LpHeaders::default() }, &interest(of, 8, nonce))
}

/// Inputs to begin with. Faces: 0 an application, 1 a neighbor, 2 another.
pub(crate) fn seeds() -> Group {
    const FACES: [u8; 6] = [0, 0, 0, 1, 0, 2];
    let with = |steps: &[&[u8]]| [&FACES[..], &steps.concat()].concat();
    let route: &[u8] = &[2, 1, 0];
    let asked: &[u8] = &[6, 0, 1, 8, 7];
    let all: Vec<u8> = (0..40).flat_map(|n| [6, 2, n, 12, n]).collect();
    vec![
        ("exchange", with(&[route, asked, &[7, 1, 1, 9], asked, &[4, 40]])),
        ("data-of-another-face", with(&[route, asked, &[7, 2, 1, 9], &[7, 1, 1, 9]])),
        ("data-twice", with(&[route, asked, &[7, 1, 1, 9], &[7, 1, 1, 9], &[7, 2, 1, 9]])),
        ("prefix-and-exact", with(&[route, &[6, 0, 0, 9, 1], asked, &[7, 1, 1, 3], &[7, 1, 2, 3]])),
        ("local-names", with(&[&[2, 1, 5], &[2, 0, 7], &[6, 0, 5, 8, 1], &[6, 1, 7, 8, 2], &[7, 1, 5, 1]])),
        ("a-face-leaves", with(&[route, &[6, 2, 1, 12, 3], &[1, 2], &[7, 1, 1, 9], &[4, 41]])),
        ("pit-full", with(&[route, &[2, 1, 4], &all, &[4, 41], asked])),
        ("nacks", with(&[route, &[3, 1, 0], &[2, 2, 0], asked, &[8, 1, 1, 7], &[8, 2, 1, 7]])),
        ("many-faces", [0, 3].repeat(9)),
        ("read", with(&[route, &[9, 3], asked, &[6, 2, 1, 8, 9], &[10, 0, 3], asked])),
        ("read-in-vain", with(&[route, &[9, 7], asked, &[10, 0, 5], &[7, 1, 1, 9], &[10, 0, 3]])),
        ("read-late", with(&[route, &[9, 3], asked, &[6, 0, 1, 8, 8], &[7, 1, 1, 9], &[10, 0, 3]])),
        ("busy", with(&[route, &[2, 1, 8], &[9, 6], &[6, 2, 1, 8, 9], &[4, 28], &[6, 1, 8, 8, 3], asked])),
        ("fragment", with(&[&[5, 1, 8, 100, 6, 81, 1, 0, 83, 1, 2], &[4, 33], asked])),
    ]
}

//! Stations drawn at random mix hellos, replies, silence and forgeries on one link with three
//! honest routers. Whatever its messages are, a station has no face and no route before it has
//! answered a challenge, and the honest routers remain neighbors.

use crate::segment;

use std::collections::HashSet;

use namely_discovery::{Config, LinkAddress, Phase};
use segment::{MS, SECOND, Segment, hello_of, key, reply_of, station};

const MTUS: [usize; 3] = [1500, 1500, 1400];
/// Stations of the attacker: the first half of them can receive the packets sent to them.
const FIRST_EVIL: usize = 50;
const EVIL: usize = 24;

struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % most
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

struct Liar {
    link: Segment,
    draw: Draw,
    /// Stations that have answered a challenge, each with the challenger.
    answered: HashSet<(usize, LinkAddress)>,
    /// Number of messages in the name of a station. Each permits the routers a few in return.
    said: u64,
    recorded: Vec<Vec<u8>>,
    clock_ms: u64,
}

impl Liar {
    fn new(seed: u64) -> Self {
        let mut link = Segment::new();
        for mtu in MTUS {
            let n = link.add(mtu, Config { neighbours_max: 16, ..Config::default() });
            link.up(n);
        }
        link.run(4 * SECOND);
        let draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Liar { link, draw, answered: HashSet::new(), said: 0, recorded: Vec::new(), clock_ms: 1 }
    }

    fn step(&mut self) {
        let victim = self.draw.below(MTUS.len());
        let n = FIRST_EVIL + self.draw.below(EVIL);
        self.clock_ms += 1;
        match self.draw.below(7) {
            0 => self.say_hello(victim, n),
            1 => self.answer_recorded(victim, n),
            2 | 3 => self.answer_challenge(),
            4 => self.repeat(victim, n),
            5 => self.forge(victim),
            _ => self.link.run(50 * MS),
        }
        let ms = self.draw.below(120) as u64;
        self.link.run(ms * MS);
    }

    fn send(&mut self, victim: usize, source: LinkAddress, is_unicast: bool, packet: Vec<u8>) {
        self.said += 1;
        self.link.inject(victim, source, is_unicast, &packet);
        self.recorded.push(packet);
    }

    fn say_hello(&mut self, victim: usize, n: usize) {
        let mtu = self.draw.of(&["0", "63", "64", "575", "576", "1500", "65535"]);
        let prefixes = self.draw.of(&[&[][..], &["/"], &["/lab", "/lab/x"]]);
        let packet = hello_of(station(n), mtu, prefixes, &key(n), self.clock_ms);
        let is_unicast = self.draw.below(4) == 0;
        self.send(victim, station(n), is_unicast, packet);
    }

    /// A reply to a hello that every station on the link has received.
    fn answer_recorded(&mut self, victim: usize, n: usize) {
        let hello = self.link.nodes[victim].last_group_hello.clone();
        let mtu = self.draw.of(&[64, 600, 1500]);
        let packet = reply_of(station(n), (mtu, mtu), &hello, &key(n), self.clock_ms);
        self.send(victim, station(n), true, packet);
    }

    /// Some of the stations receive the packets sent to them, and answer some of them.
    fn answer_challenge(&mut self) {
        while let Some((from, to, packet)) = self.link.caught.pop() {
            let Some(n) = (FIRST_EVIL..FIRST_EVIL + EVIL / 2).find(|n| station(*n) == to) else { continue };
            if packet[0] != 5 || self.draw.below(3) == 0 {
                continue;
            }
            let (mtu, agreed) = self.draw.of(&[(1500, 1500), (1500, 64), (600, 600), (100, 100)]);
            let packet = reply_of(to, (mtu, agreed), &packet, &key(n), self.clock_ms);
            self.answered.insert((from, to));
            return self.send(from, to, true, packet);
        }
    }

    /// Repeats an earlier message of any station, from any address.
    fn repeat(&mut self, victim: usize, n: usize) {
        if self.recorded.is_empty() {
            return;
        }
        let mut packet = self.recorded[self.draw.below(self.recorded.len())].clone();
        if self.draw.below(2) == 0 {
            let at = self.draw.below(packet.len());
            packet[at] ^= 1 << self.draw.below(8);
        }
        self.send(victim, station(n), true, packet);
    }

    /// Sends a hello in the name of an honest router, without that router's valid signature.
    fn forge(&mut self, victim: usize) {
        let of = (victim + 1) % MTUS.len();
        let signer = self.draw.of(&[key(of), key(FIRST_EVIL)]);
        let mut packet = hello_of(station(of), "64", &["/"], &signer, u64::MAX - self.clock_ms);
        if signer == key(of) {
            *packet.last_mut().unwrap() ^= 1;
        }
        self.send(victim, station(of), false, packet);
    }

    fn check(&self, seed: u64) {
        let link = &self.link;
        for (n, own) in MTUS.into_iter().enumerate() {
            let node = &link.nodes[n];
            let mut faces = 0;
            for neighbour in node.machine.neighbours(link.now_ns) {
                let is_honest = (0..MTUS.len()).any(|other| station(other) == neighbour.station);
                let has_answered = self.answered.contains(&(n, neighbour.station));
                assert!(neighbour.phase == Phase::Found || is_honest || has_answered, "{seed}: unproven");
                assert_eq!(neighbour.face.is_some(), neighbour.phase == Phase::Proven, "{seed}: a face");
                faces += usize::from(neighbour.face.is_some());
            }
            assert_eq!(node.mtus.len(), faces, "{seed}: faces of neighbors, and no others");
            assert!(node.group_mtu >= 576, "{seed}: {} octets to the group", node.group_mtu);
            assert!(node.routes.is_empty(), "{seed}: a route without a rule");
            assert!(node.machine.len() <= 16, "{seed}: too many neighbors");
            let others: Vec<usize> = (0..MTUS.len()).filter(|other| *other != n).collect();
            for other in others {
                assert_eq!(link.mtu(n, other), Some(own.min(MTUS[other])), "{seed}: of {other} at {n}");
            }
            // For each message: a challenge, two repetitions, and a reply.
            let to_others = node
                .sent_to
                .iter()
                .filter(|(to, _)| to.is_some_and(|to| (0..MTUS.len()).all(|honest| station(honest) != to)));
            let sent: u64 = to_others.filter(|(to, _)| !self.answers(n, to.unwrap())).map(|(_, n)| *n).sum();
            assert!(sent <= 4 * self.said, "{seed}: {sent} messages to stations without an answer");
        }
    }

    fn answers(&self, n: usize, to: LinkAddress) -> bool {
        self.answered.contains(&(n, to))
    }
}

#[test]
fn a_lying_station_has_nothing_before_its_proof() {
    let seeds = std::env::var("NAMELY_RANDOM_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let mut proven = 0;
    for seed in 1..=seeds {
        let mut liar = Liar::new(seed);
        for _ in 0..150 {
            liar.step();
            liar.check(seed);
        }
        proven += liar.answered.len();
        liar.link.run(60 * SECOND);
        for n in 0..MTUS.len() {
            assert_eq!(liar.link.proven(n).len(), MTUS.len() - 1, "{seed}: only the honest are left");
        }
    }
    assert!(proven > 0, "some of them answer");
}

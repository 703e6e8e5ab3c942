//! Two link services over a path that loses what is too long for it, or by chance, and tells
//! nobody.

use alloc::vec::Vec;

use namely_wire::{LpHeaders, LpView, encode_lp_probe};

use crate::path::{PATH_OCTETS_BASE, PROBES_MAX};
use crate::{LinkConfig, LinkKind, LinkService, Outbound, ReassemblyTotal};

const SECOND: u64 = 1_000_000_000;
const TOLD: usize = 1472;

/// Whether a frame, the `n`-th there, gets through.
type Carries = fn(n: u64, octets: usize) -> bool;

struct Peers {
    here: LinkService<Vec<u8>>,
    /// None: it knows nothing of probes.
    there: Option<LinkService<Vec<u8>>>,
    carries: Carries,
    now_ns: u64,
    frames: u64,
    probes: u64,
    /// Probes that were sent in one call.
    burst: usize,
}

impl Peers {
    fn new(carries: Carries, reliability: bool) -> Self {
        let config = LinkConfig { reliability, ..LinkConfig::new(LinkKind::Datagram { mtu: TOLD }) };
        let total = ReassemblyTotal::new(1 << 20);
        let mut here = LinkService::new(config, total.clone(), 1 << 40);
        here.discover_path(true);
        let there = Some(LinkService::new(config, total, 0));
        Peers { here, there, carries, now_ns: SECOND, frames: 0, probes: 0, burst: 0 }
    }

    fn mtu(&self) -> usize {
        self.here.mtu().unwrap()
    }

    /// Sends a packet of so many octets. Returns how many frames that took.
    fn send(&mut self, octets: usize) -> usize {
        let mut packet = Vec::from([6, 253]);
        packet.extend(((octets - 4) as u16).to_be_bytes());
        packet.resize(octets, 7);
        let outbound = Outbound { headers: LpHeaders::default(), packet, hop_limit: None };
        let mut frames = Vec::new();
        self.here.send(outbound, self.now_ns, &mut |frame| frames.push(frame.slices().concat())).unwrap();
        let count = frames.len();
        frames.into_iter().for_each(|frame| self.carry(&frame));
        count
    }

    /// What is sent arrives at once, and its answers with it.
    fn carry(&mut self, frame: &[u8]) {
        let view = LpView::parse(frame).unwrap();
        let is_probe = view.fragment.is_none() && view.tx_sequence.is_some();
        self.probes += u64::from(is_probe);
        self.frames += 1;
        let Some(there) = self.there.as_mut().filter(|_| (self.carries)(self.frames, frame.len())) else {
            return;
        };
        let mut answers = Vec::new();
        let mut emit = |frame: crate::Frame<Vec<u8>>| answers.push(frame.slices().concat());
        let _ = there.receive(frame, (), self.now_ns, &mut emit);
        there.tick(self.now_ns + SECOND, &mut emit);
        for answer in answers {
            assert!(answer.len() < 300);
            let mut again = Vec::new();
            self.here
                .receive(&answer, (), self.now_ns, &mut |frame| again.push(frame.slices().concat()))
                .unwrap();
            again.into_iter().for_each(|frame| self.carry(&frame));
        }
    }

    /// Sends a long packet each half second.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.now_ns += SECOND / 2;
            self.send(8000);
            self.tick();
        }
    }

    fn tick(&mut self) {
        if self.here.due_ns().is_none_or(|due_ns| due_ns > self.now_ns) {
            return;
        }
        let mut frames = Vec::new();
        self.here.tick(self.now_ns, &mut |frame| frames.push(frame.slices().concat()));
        let before = self.probes;
        frames.into_iter().for_each(|frame| self.carry(&frame));
        self.burst = self.burst.max((self.probes - before) as usize);
    }

    fn lost_probes(&self) -> u64 {
        self.here.counters().drops.of("path_probe_lost")
    }
}

#[test]
fn frames_come_down_to_what_a_path_carries_that_does_not_tell() {
    for reliability in [false, true] {
        for carried in [1200, 1201, 1272, 1400, 1471] {
            let mut peers = match carried {
                1200 => Peers::new(|_, octets| octets <= 1200, reliability),
                1201 => Peers::new(|_, octets| octets <= 1201, reliability),
                1272 => Peers::new(|_, octets| octets <= 1272, reliability),
                1400 => Peers::new(|_, octets| octets <= 1400, reliability),
                _ => Peers::new(|_, octets| octets <= 1471, reliability),
            };
            peers.pass(5);
            assert!(peers.mtu() <= carried, "{} over a path that carries {carried}", peers.mtu());
            peers.pass(5);
            let found = peers.mtu();
            assert!(
                (carried.saturating_sub(16).max(1200)..=carried).contains(&found),
                "{found} of {carried}"
            );
            assert!(peers.lost_probes() >= 3 && peers.burst <= PROBES_MAX);
        }
    }
}

#[test]
fn a_path_that_carries_all_costs_two_probes_in_a_quarter_of_a_minute() {
    let mut peers = Peers::new(|_, _| true, false);
    peers.pass(60);
    assert_eq!((peers.mtu(), peers.lost_probes()), (TOLD, 0));
    assert_eq!(peers.probes, 8);
}

#[test]
fn who_sends_no_long_packets_probes_nothing() {
    let mut peers = Peers::new(|_, octets| octets <= 1272, false);
    for _ in 0..1000 {
        peers.now_ns += SECOND;
        assert_eq!(peers.send(PATH_OCTETS_BASE), 1);
        assert_eq!(peers.here.due_ns(), None);
    }
    assert_eq!((peers.mtu(), peers.probes), (TOLD, 0));
}

#[test]
fn a_peer_that_answers_no_probes_is_left_alone_and_so_is_the_mtu() {
    let mut peers = Peers::new(|_, _| true, false);
    peers.there = None;
    peers.pass(600);
    assert_eq!((peers.mtu(), peers.lost_probes()), (TOLD, 0));
    assert!(peers.probes <= 6 * 10, "{} probes in ten minutes", peers.probes);
}

#[test]
fn loss_by_chance_costs_at_most_a_while_of_shorter_frames() {
    // Two of three frames get lost, whatever they are.
    let mut peers = Peers::new(|n, _| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 3 == 0, false);
    peers.pass(60);
    peers.carries = |_, _| true;
    peers.pass(700);
    assert_eq!(peers.mtu(), TOLD);
}

#[test]
fn a_path_that_becomes_wider_is_used_after_ten_minutes_and_one_that_narrows_at_once() {
    let mut peers = Peers::new(|_, octets| octets <= 1272, false);
    peers.pass(60);
    peers.carries = |_, octets| octets <= 1400;
    peers.pass(500);
    assert!(peers.mtu() <= 1272);
    peers.pass(120);
    assert!((1384..=1400).contains(&peers.mtu()), "{}", peers.mtu());
    peers.carries = |_, octets| octets <= 1250;
    peers.pass(30);
    assert!((1234..=1250).contains(&peers.mtu()), "{}", peers.mtu());
}

#[test]
fn what_the_system_tells_holds_beside_what_was_found() {
    let mut peers = Peers::new(|_, octets| octets <= 1272, false);
    peers.pass(20);
    let found = peers.mtu();
    let tell = |peers: &mut Peers, mtu| {
        let config = LinkConfig { kind: LinkKind::Datagram { mtu }, ..*peers.here.config() };
        peers.here.reconfigure(config);
    };
    tell(&mut peers, 1400);
    assert_eq!(peers.mtu(), found);
    tell(&mut peers, 1250);
    assert_eq!(peers.mtu(), 1250);
    peers.here.discover_path(false);
    tell(&mut peers, TOLD);
    assert_eq!(peers.mtu(), TOLD, "what is set by hand stays");
    let probes = peers.probes;
    peers.pass(60);
    assert_eq!(peers.probes, probes);
}

#[test]
fn a_probe_is_a_packet_of_its_length_or_none() {
    for octets in [300, 1200, 8800, 65_535] {
        let mut probe = Vec::new();
        let padding = encode_lp_probe(7, octets, &mut probe).unwrap();
        probe.resize(probe.len() + padding, 0);
        let view = LpView::parse(&probe).unwrap();
        assert_eq!((probe.len(), view.tx_sequence, view.fragment), (octets, Some(7), None));
    }
    for octets in [0, 299, 65_536] {
        assert_eq!(encode_lp_probe(7, octets, &mut Vec::new()), None);
    }
}

#[test]
fn a_probe_is_answered_once_and_its_answer_not_at_all() {
    let mut link: LinkService<Vec<u8>> =
        LinkService::new(LinkConfig::new(LinkKind::Datagram { mtu: TOLD }), ReassemblyTotal::new(0), 0);
    let mut probe = Vec::new();
    let padding = encode_lp_probe(u64::MAX, 1472, &mut probe).unwrap();
    probe.resize(probe.len() + padding, 0);
    assert_eq!(probe.len(), 1472);
    let mut answers = Vec::new();
    assert_eq!(link.receive(&probe, (), 0, &mut |frame| answers.push(frame.slices().concat())), Ok(None));
    assert_eq!(answers, [[&[0x64, 12, 0xfd, 3, 0x44, 8], [0xff; 8].as_slice()].concat()]);
    let mut again = 0;
    assert_eq!(link.receive(&answers[0], (), 0, &mut |_| again += 1), Ok(None));
    assert_eq!(again, 0);
    let mut stream: LinkService<Vec<u8>> =
        LinkService::new(LinkConfig::new(LinkKind::Stream), ReassemblyTotal::new(0), 0);
    assert_eq!(stream.receive(&probe, (), 0, &mut |_| again += 1), Ok(None));
    assert_eq!(again, 0, "a stream has no path to probe");
}

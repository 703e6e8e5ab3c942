//! Two link services over a path that silently drops frames that are too long for it, or at random.

use alloc::vec::Vec;

use namely_wire::{LpHeaders, LpView, encode_lp_probe};

use crate::path::{PATH_OCTETS_BASE, PROBES_MAX};
use crate::{LinkConfig, LinkKind, LinkService, Outbound, ReassemblyTotal};

const SECOND: u64 = 1_000_000_000;
const REPORTED: usize = 1472;

/// Returns true if the path carries the `n`-th frame.
type Carries = fn(n: u64, octets: usize) -> bool;

struct Peers {
    here: LinkService<Vec<u8>>,
    /// `None` for a peer that answers no probe.
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
        let config = LinkConfig { reliability, ..LinkConfig::new(LinkKind::Datagram { mtu: REPORTED }) };
        let total = ReassemblyTotal::new(1 << 20);
        let mut here = LinkService::new(config, total.clone(), 1 << 40);
        here.discover_path(true);
        let there = Some(LinkService::new(config, total, 0));
        Peers { here, there, carries, now_ns: SECOND, frames: 0, probes: 0, burst: 0 }
    }

    fn mtu(&self) -> usize {
        self.here.mtu().unwrap()
    }

    /// Sends a packet of `octets` octets. Returns the number of frames that this took.
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

    /// A sent frame arrives at once, and so do its answers.
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
fn frames_shrink_to_a_silent_paths_mtu() {
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
fn a_wide_path_costs_two_probes() {
    let mut peers = Peers::new(|_, _| true, false);
    peers.pass(60);
    assert_eq!((peers.mtu(), peers.lost_probes()), (REPORTED, 0));
    assert_eq!(peers.probes, 8);
}

#[test]
fn peers_without_long_packets_never_probe() {
    let mut peers = Peers::new(|_, octets| octets <= 1272, false);
    for _ in 0..1000 {
        peers.now_ns += SECOND;
        assert_eq!(peers.send(PATH_OCTETS_BASE), 1);
        assert_eq!(peers.here.due_ns(), None);
    }
    assert_eq!((peers.mtu(), peers.probes), (REPORTED, 0));
}

#[test]
fn unanswered_probes_leave_the_mtu_unchanged() {
    let mut peers = Peers::new(|_, _| true, false);
    peers.there = None;
    peers.pass(600);
    assert_eq!((peers.mtu(), peers.lost_probes()), (REPORTED, 0));
    assert!(peers.probes <= 6 * 10, "{} probes in ten minutes", peers.probes);
}

#[test]
fn random_loss_shortens_frames_only_briefly() {
    // Three of four frames of any kind get lost.
    let mut peers = Peers::new(|n, _| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 3 == 0, false);
    peers.pass(60);
    peers.carries = |_, _| true;
    peers.pass(700);
    assert_eq!(peers.mtu(), REPORTED);
}

#[test]
fn a_wider_path_is_used_later() {
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
fn the_system_mtu_still_limits_frames() {
    let mut peers = Peers::new(|_, octets| octets <= 1272, false);
    peers.pass(20);
    let found = peers.mtu();
    let report = |peers: &mut Peers, mtu| {
        let config = LinkConfig { kind: LinkKind::Datagram { mtu }, ..*peers.here.config() };
        peers.here.reconfigure(config);
    };
    report(&mut peers, 1400);
    assert_eq!(peers.mtu(), found);
    report(&mut peers, 1250);
    assert_eq!(peers.mtu(), 1250);
    peers.here.discover_path(false);
    report(&mut peers, REPORTED);
    assert_eq!(peers.mtu(), REPORTED, "what is set by hand stays");
    let probes = peers.probes;
    peers.pass(60);
    assert_eq!(peers.probes, probes);
}

#[test]
fn a_probe_has_its_exact_length() {
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
fn a_probe_is_answered_once() {
    let mut link: LinkService<Vec<u8>> =
        LinkService::new(LinkConfig::new(LinkKind::Datagram { mtu: REPORTED }), ReassemblyTotal::new(0), 0);
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

//! Path MTU discovery by probes, for links that do not report the MTU of the path (RFC 8899, RFC
//! 4821).
//!
//! A probe is an IDLE link packet with a TxSequence, padded to the length under test. Its receiver
//! answers with an IDLE packet that carries the Ack. Only a difference is evidence: a long probe
//! was lost and a short one of the same round arrived, [`FAILURES_MAX`] times. If a peer answers no
//! probe at all, probing stops and the MTU does not change.
//!
//! Probing pauses while no long packets are sent. There is at most one round at a time, with at
//! most [`PROBES_MAX`] probes.

use alloc::vec::Vec;

/// Frames up to this length are assumed to arrive on every path, octets: BASE_PLPMTU of RFC 8899,
/// section 5.1.2.
pub const PATH_OCTETS_BASE: usize = 1200;

/// Outstanding probes of the path MTU.
///
/// Two probes are sent in 15 s if the path carries the present MTU, and six in a minute to a peer
/// that answers none. Without packets longer than 1200 octets none are sent.
///
/// # Limit
/// No further probe is sent until the round is over.
/// - Value: 8 in a round of 1 s
/// - Counter: `path_probe_lost`
/// - Tests: `frames_shrink_to_a_silent_paths_mtu`,
///   `a_wide_path_costs_two_probes`,
///   `unanswered_probes_leave_the_mtu_unchanged`,
///   `peers_without_long_packets_never_probe`
pub(crate) const PROBES_MAX: usize = 8;

/// Number of rounds with a lost long probe and an acknowledged short one after which the long
/// length counts as lost: MAX_PROBES of RFC 8899. Also the number of rounds without any answer
/// after which probing of the peer stops.
const FAILURES_MAX: u8 = 3;

/// Maximum number of rounds of one search.
const SEARCH_ROUNDS_MAX: u8 = 4;

/// A search ends when its open range is at most this, octets.
const PRECISION_OCTETS: usize = 8;

/// Time for which a round waits for answers, ns: the minimum PROBE_TIMER of RFC 8899.
const ROUND_NS: u64 = 1_000_000_000;

/// Time of sending long packets before their length is confirmed again, ns: CONFIRMATION_TIMER.
const CONFIRM_NS: u64 = 15_000_000_000;

/// Time before a peer that answers no probe is probed again, ns.
const SILENT_NS: u64 = 60_000_000_000;

/// Time before longer frames are tried again, ns: PMTU_RAISE_TIMER.
const RAISE_NS: u64 = 600_000_000_000;

/// The phase of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No probing.
    Resting,
    /// Tests whether frames of the present length arrive.
    Confirming,
    /// Searches for the maximum frame length. Frames of `lost_octets` are assumed to be lost.
    Searching { lost_octets: usize },
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    tx_sequence: u64,
    octets: usize,
    is_acked: bool,
}

/// The state of path MTU discovery of one face.
#[derive(Debug)]
pub(crate) struct Path {
    /// The frame length that the system reports, octets.
    reported_octets: usize,
    /// The longest frame to be sent, octets.
    found_octets: usize,
    phase: Phase,
    probes: Vec<Probe>,
    /// Number of ended rounds of this phase, and of those in which only the short probe arrived.
    rounds: u8,
    failures: u8,
    /// The end of the round.
    due_ns: Option<u64>,
    /// The first long packet after `next_ns` begins the next phase. The first one after `raise_ns`
    /// begins a search for longer frames.
    next_ns: u64,
    raise_ns: u64,
    next_tx_sequence: u64,
}

impl Path {
    pub(crate) fn new(reported_octets: usize, first_tx_sequence: u64) -> Self {
        Path {
            reported_octets,
            found_octets: reported_octets,
            phase: Phase::Resting,
            probes: Vec::with_capacity(PROBES_MAX),
            rounds: 0,
            failures: 0,
            due_ns: None,
            next_ns: 0,
            raise_ns: 0,
            // The reliability service uses the lower numbers for its own frames.
            next_tx_sequence: first_tx_sequence | 1 << 63,
        }
    }

    /// The longest frame to be sent, octets.
    pub(crate) fn octets(&self) -> usize {
        self.found_octets
    }

    /// Records a new frame length that the system reports.
    pub(crate) fn set_reported(&mut self, octets: usize) {
        if octets == self.reported_octets {
            return;
        }
        let was_shortened = self.found_octets < self.reported_octets;
        self.reported_octets = octets;
        self.found_octets = if was_shortened { self.found_octets.min(octets) } else { octets };
        self.rest(0);
        self.raise_ns = 0;
    }

    /// Records that a packet longer than [`PATH_OCTETS_BASE`] is sent.
    pub(crate) fn on_long_packet(&mut self, now_ns: u64) {
        if self.phase != Phase::Resting || now_ns < self.next_ns {
            return;
        }
        if self.found_octets < self.reported_octets && now_ns >= self.raise_ns {
            self.begin(Phase::Searching { lost_octets: self.reported_octets }, now_ns);
        } else if self.found_octets > PATH_OCTETS_BASE {
            self.begin(Phase::Confirming, now_ns);
        } else {
            self.next_ns = now_ns.saturating_add(CONFIRM_NS);
        }
    }

    /// Processes an acknowledgement.
    pub(crate) fn on_ack(&mut self, tx_sequence: u64, now_ns: u64) {
        let Some(probe) = self.probes.iter_mut().find(|probe| probe.tx_sequence == tx_sequence) else {
            return;
        };
        probe.is_acked = true;
        let octets = probe.octets;
        match self.phase {
            Phase::Confirming if octets >= self.found_octets => self.rest(now_ns.saturating_add(CONFIRM_NS)),
            Phase::Searching { .. } => {
                self.found_octets = self.found_octets.max(octets).min(self.reported_octets);
                if self.found_octets == self.reported_octets {
                    self.rest(now_ns.saturating_add(CONFIRM_NS));
                }
            }
            _ => {}
        }
    }

    /// Ends a round that timed out and begins the next one. `send` receives the number and octets
    /// of its probes. Returns the number of lost probes of the ended round, or 0 if none was
    /// answered.
    pub(crate) fn tick(&mut self, now_ns: u64, send: &mut impl FnMut(u64, usize)) -> u64 {
        if self.due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return 0;
        }
        let lost = if self.probes.is_empty() { 0 } else { self.end_round(now_ns) };
        if self.phase != Phase::Resting {
            self.begin_round(now_ns, send);
        }
        lost
    }

    /// The time of the next [`Path::tick`], ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    fn begin(&mut self, phase: Phase, now_ns: u64) {
        self.phase = phase;
        self.probes.clear();
        (self.rounds, self.failures) = (0, 0);
        self.due_ns = Some(now_ns);
    }

    fn rest(&mut self, next_ns: u64) {
        self.phase = Phase::Resting;
        self.probes.clear();
        self.due_ns = None;
        self.next_ns = next_ns;
    }

    fn begin_round(&mut self, now_ns: u64, send: &mut impl FnMut(u64, usize)) {
        self.probes.clear();
        match self.phase {
            Phase::Resting => {}
            Phase::Confirming => {
                self.probe(PATH_OCTETS_BASE);
                self.probe(self.found_octets);
            }
            Phase::Searching { lost_octets } => {
                // The first round repeats the lost length, because the loss may have been chance.
                let top = if self.rounds == 0 { lost_octets } else { lost_octets - 1 };
                let open = top.saturating_sub(self.found_octets);
                let step = open.div_ceil(PROBES_MAX).max(1);
                let from = self.found_octets;
                (1..=PROBES_MAX).map(|n| (from + n * step).min(top)).for_each(|octets| {
                    if self.probes.last().map_or(octets > from, |last| octets > last.octets) {
                        self.probe(octets);
                    }
                });
            }
        }
        self.probes.iter().for_each(|probe| send(probe.tx_sequence, probe.octets));
        self.due_ns = Some(now_ns.saturating_add(ROUND_NS));
    }

    fn probe(&mut self, octets: usize) {
        let tx_sequence = self.next_tx_sequence;
        self.next_tx_sequence = tx_sequence.wrapping_add(1) | 1 << 63;
        self.probes.push(Probe { tx_sequence, octets, is_acked: false });
    }

    fn end_round(&mut self, now_ns: u64) -> u64 {
        self.rounds += 1;
        let is_answered = self.probes.iter().any(|probe| probe.is_acked);
        let lost = self.probes.iter().filter(|probe| !probe.is_acked);
        let (lost, shortest_lost) = (lost.clone().count(), lost.map(|probe| probe.octets).min());
        match self.phase {
            Phase::Resting => {}
            Phase::Confirming => {
                self.failures += u8::from(is_answered);
                if self.failures == FAILURES_MAX {
                    let lost_octets = core::mem::replace(&mut self.found_octets, PATH_OCTETS_BASE);
                    self.begin(Phase::Searching { lost_octets }, now_ns);
                } else if self.rounds - self.failures == FAILURES_MAX {
                    self.rest(now_ns.saturating_add(SILENT_NS));
                }
            }
            Phase::Searching { lost_octets } => {
                let above = |octets: &usize| *octets > self.found_octets;
                let lost_octets = shortest_lost.filter(above).unwrap_or(lost_octets);
                self.phase = Phase::Searching { lost_octets };
                if lost_octets - self.found_octets <= PRECISION_OCTETS || self.rounds == SEARCH_ROUNDS_MAX {
                    self.rest(now_ns.saturating_add(CONFIRM_NS));
                    self.raise_ns = now_ns.saturating_add(RAISE_NS);
                }
            }
        }
        if is_answered { lost as u64 } else { 0 }
    }
}

//! Which frames get through to the peer, found out by probes where nobody tells the MTU of the path
//! (RFC 8899, RFC 4821).
//!
//! A probe is an IDLE link packet with a TxSequence, filled up to the length in question; whoever
//! has it answers with an IDLE packet that carries the Ack. Only a difference is evidence: a long
//! probe is lost, and in the same round a short one came through, [`FAILURES_MAX`] times. A peer
//! that answers none is left alone, and the MTU as it is.
//!
//! Nothing happens while no long packets are sent. There is at most one round at a time, of
//! [`PROBES_MAX`] probes at most.

use alloc::vec::Vec;

/// Frames up to this length are taken to get through everywhere, octets: BASE_PLPMTU of RFC 8899,
/// section 5.1.2.
pub const PATH_OCTETS_BASE: usize = 1200;

/// Maximum number of probes that wait for an answer.
pub(crate) const PROBES_MAX: usize = 8;

/// Rounds in which the short probe came through and the long one did not, after which the long ones
/// count as lost: MAX_PROBES of RFC 8899. Also the rounds without any answer after which the peer
/// is left alone.
const FAILURES_MAX: u8 = 3;

/// Rounds of one search.
const SEARCH_ROUNDS_MAX: u8 = 4;

/// A search that leaves no more than this open has ended, octets.
const PRECISION_OCTETS: usize = 8;

/// How long a round waits for answers, ns: PROBE_TIMER of RFC 8899, the least that it allows.
const ROUND_NS: u64 = 1_000_000_000;

/// Long packets are sent for so long before it is asked again whether they get through, ns:
/// CONFIRMATION_TIMER.
const CONFIRM_NS: u64 = 15_000_000_000;

/// A peer that answers no probe is asked again after so long, ns.
const SILENT_NS: u64 = 60_000_000_000;

/// Longer frames than those found are tried again after so long, ns: PMTU_RAISE_TIMER.
const RAISE_NS: u64 = 600_000_000_000;

/// What is found out just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    Resting,
    /// Whether frames of the present length get through.
    Confirming,
    /// How long frames may be that do; those of `lost_octets` do not, as far as is known.
    Searching { lost_octets: usize },
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    tx_sequence: u64,
    octets: usize,
    is_acked: bool,
}

/// What is known of the path of one face.
#[derive(Debug)]
pub(crate) struct Path {
    /// What the system says of it, octets.
    told_octets: usize,
    /// The longest frame to be sent, octets.
    found_octets: usize,
    phase: Phase,
    probes: Vec<Probe>,
    /// Rounds of this phase that have ended, and those of them that only the short probe came
    /// through in.
    rounds: u8,
    failures: u8,
    /// When the round ends.
    due_ns: Option<u64>,
    /// A long packet after this begins the next phase, and one after that a search for longer ones.
    next_ns: u64,
    raise_ns: u64,
    next_tx_sequence: u64,
}

impl Path {
    pub(crate) fn new(told_octets: usize, first_tx_sequence: u64) -> Self {
        Path {
            told_octets,
            found_octets: told_octets,
            phase: Phase::Resting,
            probes: Vec::with_capacity(PROBES_MAX),
            rounds: 0,
            failures: 0,
            due_ns: None,
            next_ns: 0,
            raise_ns: 0,
            // The reliability service numbers its own frames below.
            next_tx_sequence: first_tx_sequence | 1 << 63,
        }
    }

    /// The longest frame to be sent, octets.
    pub(crate) fn octets(&self) -> usize {
        self.found_octets
    }

    /// The system says something else of the path.
    pub(crate) fn tell(&mut self, octets: usize) {
        if octets == self.told_octets {
            return;
        }
        let was_shortened = self.found_octets < self.told_octets;
        self.told_octets = octets;
        self.found_octets = if was_shortened { self.found_octets.min(octets) } else { octets };
        self.rest(0);
        self.raise_ns = 0;
    }

    /// A packet longer than [`PATH_OCTETS_BASE`] is sent.
    pub(crate) fn on_long_packet(&mut self, now_ns: u64) {
        if self.phase != Phase::Resting || now_ns < self.next_ns {
            return;
        }
        if self.found_octets < self.told_octets && now_ns >= self.raise_ns {
            self.begin(Phase::Searching { lost_octets: self.told_octets }, now_ns);
        } else if self.found_octets > PATH_OCTETS_BASE {
            self.begin(Phase::Confirming, now_ns);
        } else {
            self.next_ns = now_ns.saturating_add(CONFIRM_NS);
        }
    }

    /// An acknowledgement came.
    pub(crate) fn on_ack(&mut self, tx_sequence: u64, now_ns: u64) {
        let Some(probe) = self.probes.iter_mut().find(|probe| probe.tx_sequence == tx_sequence) else {
            return;
        };
        probe.is_acked = true;
        let octets = probe.octets;
        match self.phase {
            Phase::Confirming if octets >= self.found_octets => self.rest(now_ns.saturating_add(CONFIRM_NS)),
            Phase::Searching { .. } => {
                self.found_octets = self.found_octets.max(octets).min(self.told_octets);
                if self.found_octets == self.told_octets {
                    self.rest(now_ns.saturating_add(CONFIRM_NS));
                }
            }
            _ => {}
        }
    }

    /// Ends the round that is over, and begins the next one: `send` gets its probes, number and
    /// octets. Returns how many of the last round's got lost though shorter ones came through.
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

    /// When [`Path::tick`] has something to do, ns.
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
                // The first round tries what got lost once more: it may have been chance.
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
        let is_heard = self.probes.iter().any(|probe| probe.is_acked);
        let lost = self.probes.iter().filter(|probe| !probe.is_acked);
        let (lost, shortest_lost) = (lost.clone().count(), lost.map(|probe| probe.octets).min());
        match self.phase {
            Phase::Resting => {}
            Phase::Confirming => {
                self.failures += u8::from(is_heard);
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
        if is_heard { lost as u64 } else { 0 }
    }
}

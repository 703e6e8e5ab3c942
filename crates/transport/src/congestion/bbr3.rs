//! BBR, version 3 (draft-ietf-ccwg-bbr-03). It requests at the measured rate of the path, and keeps
//! about the capacity of the path outstanding.
//!
//! The model has two parts. The maximum rate of the last two probes and the minimum round trip of
//! ten seconds give the capacity of the path. Loss gives two limits of the Interests outstanding:
//! one for the long term, from probes that lost more than [`LOSS_MAX_SHARE`], and one for the short
//! term, from losses and marks between probes.
//!
//! Startup doubles the rate each round trip until the rate of Data no longer grows, or until losses
//! are too many; Drain empties the queue. Then a cycle repeats: below the rate until the queue is
//! empty and [`HEADROOM`] is left for others, at the rate for two to three seconds (or as long as
//! Reno would take to recover, at most 63 round trips), a round trip without the short-term limits,
//! and above the rate until the path is full. If the minimum round trip is five seconds old,
//! the window is half the capacity for 200 ms.
//!
//! The draft leaves open the answer to congestion marks. Here a mark counts as a loss between
//! probes, and ends a probe, at most once in a round trip.

use super::rule::{CongestionControl, PACED_NS_MIN, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// Factors of the rate (section 2.4 and 5.3.3). Startup: 4 ln 2, the smallest that doubles the rate
/// each round trip.
const STARTUP_PACE: f64 = 2.77;
const DRAIN_PACE: f64 = 0.5;
const DOWN_PACE: f64 = 0.9;
const UP_PACE: f64 = 1.25;

/// The window as a multiple of the capacity, and during a probe of the rate (section 5.6.1).
const WINDOW_GAIN: f64 = 2.0;
const UP_WINDOW_GAIN: f64 = 2.25;

/// The rate of requests is lower than the rate of the path by this share, so that queues drain
/// (section 2.4, PacingMarginPercent).
const PACE_MARGIN: f64 = 0.01;

/// Share of lost packets within a round trip above which a probe ends (section 2.7, LossThresh).
const LOSS_MAX_SHARE: f64 = 0.02;

/// Number of losses within a round trip that end Startup, with the share above (section 5.3.1.3).
const STARTUP_LOSSES: u64 = 6;

/// The factor of the limits after too many losses (section 2.7, Beta).
const BETA: f64 = 0.7;

/// The share of the long-term limit that is left to other flows between probes (section 2.7).
const HEADROOM: f64 = 0.15;

/// Startup ends after this number of round trips in which the rate grew less than this factor
/// (section 5.3.1.2).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// Round trips after which Reno would have filled a window, at most (section 5.3.3.5.1).
const RENO_ROUNDS_MAX: f64 = 63.0;

/// Minimum and range of the time between two probes of the rate.
const PROBE_RATE_NS: u64 = 2_000_000_000;
const PROBE_RATE_SPREAD_NS: u64 = 1_000_000_000;

/// The minimum round trip is probed if it is that old, and replaced if it is older than
/// [`RTT_NS`] (section 2.13, ProbeRTTInterval and MinRTTFilterLen).
const PROBE_RTT_EVERY_NS: u64 = 5_000_000_000;
const RTT_NS: u64 = 10_000_000_000;

/// Duration of the small window, and its share of the capacity (section 2.13).
const PROBE_RTT_NS: u64 = 200_000_000;
const PROBE_RTT_SHARE: f64 = 0.5;

/// The smallest window (section 2.7, MinPipeCwnd).
const WINDOW_LEAST: f64 = 2.0 * WINDOW_MIN;

/// Doublings of the growth of the long-term limit within one probe (section 5.3.3.6).
const UP_DOUBLINGS_MAX: u32 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt { until_ns: Option<u64> },
}

impl Phase {
    /// Returns true if losses are expected, so that they set no short-term limit.
    fn probes_rate(self) -> bool {
        matches!(self, Phase::Startup | Phase::Refill | Phase::Up)
    }

    fn is_cycle(self) -> bool {
        matches!(self, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }
}

/// The Data that arrive now answer Interests of this part of a probe (section 5.5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    None,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The rate of the path and its growth.
#[derive(Clone, Copy, Debug)]
struct RateModel {
    /// Maximum rates of the probe before, and of this one, pieces/s.
    latest: [f64; 2],
    /// The rate that has to grow, and the round trips since it did.
    full: f64,
    full_rounds: u32,
    is_full: bool,
    /// Whether Startup has found the rate.
    was_full: bool,
}

/// Limits after losses and marks.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Outstanding, for the long term; infinite until a probe lost too much.
    long: f64,
    /// Outstanding, and rate, until the next probe.
    short: f64,
    short_rate: f64,
    /// Maximum rate and number of Data within this round trip.
    rate_latest: f64,
    data_latest: f64,
    is_lossy_round: bool,
    round_ends: u64,
    round_lost: u64,
    /// Whether the losses of the present probe are still to be judged.
    is_probe_open: bool,
    /// Data after which the long-term limit grows by one, those counted, and the doublings.
    up_every: f64,
    up_data: f64,
    up_doublings: u32,
}

impl Limits {
    fn clear_short(&mut self) {
        self.short = f64::INFINITY;
        self.short_rate = f64::INFINITY;
    }
}

/// Times and round trips of the present cycle.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    from_ns: u64,
    answers: Answers,
    wait_ns: u64,
    rounds: f64,
    /// State of the random generator; the times of Data feed it.
    dice: u64,
}

/// The minimum round trip.
#[derive(Clone, Copy, Debug, Default)]
struct RttModel {
    min_ns: u64,
    min_at_ns: u64,
    /// The minimum since the last probe.
    probed_ns: u64,
    probed_at_ns: u64,
}

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bbr3 {
    phase: Phase,
    window: f64,
    window_max: f64,
    window_initial: f64,
    /// The window before a probe of the round trip.
    window_before: f64,
    rate: RateModel,
    limits: Limits,
    cycle: Cycle,
    rtt: RttModel,
    round_ends: u64,
}

impl Bbr3 {
    /// Creates a controller with a window of at most `window_max` packets.
    pub(super) fn new(window_max: usize) -> Self {
        let window_max = (window_max as f64).max(WINDOW_MIN);
        let initial = WINDOW_INITIAL.min(window_max);
        Bbr3 {
            phase: Phase::Startup,
            window: initial,
            window_max,
            window_initial: initial,
            window_before: initial,
            rate: RateModel { latest: [0.0; 2], full: 0.0, full_rounds: 0, is_full: false, was_full: false },
            limits: Limits {
                long: f64::INFINITY,
                short: f64::INFINITY,
                short_rate: f64::INFINITY,
                rate_latest: 0.0,
                data_latest: 0.0,
                is_lossy_round: false,
                round_ends: 0,
                round_lost: 0,
                is_probe_open: false,
                up_every: f64::INFINITY,
                up_data: 0.0,
                up_doublings: 0,
            },
            cycle: Cycle { from_ns: 0, answers: Answers::None, wait_ns: 0, rounds: 0.0, dice: 0 },
            rtt: RttModel::default(),
            round_ends: 0,
        }
    }

    /// The maximum rate of the path, pieces per second.
    fn rate_max(&self) -> f64 {
        self.rate.latest[0].max(self.rate.latest[1])
    }

    /// The rate of the model, with its short-term limit.
    fn rate(&self) -> f64 {
        self.rate_max().min(self.limits.short_rate)
    }

    /// `gain` times the capacity of the path at `rate`, in packets.
    fn held(&self, rate: f64, gain: f64) -> f64 {
        if self.rtt.min_ns == 0 || rate == 0.0 {
            return self.window_initial;
        }
        gain * rate * self.rtt.min_ns as f64 / 1e9
    }

    /// The window that fills the path at `gain`: a little more, because Data arrive in groups
    /// (section 5.6.4.2).
    fn filling(&self, rate: f64, gain: f64) -> f64 {
        let extra = if self.phase == Phase::Up { WINDOW_MIN } else { 0.0 };
        self.held(rate, gain).max(WINDOW_LEAST) + extra
    }

    /// The capacity between probes, if others are given their headroom (section 5.3.3.4).
    fn with_headroom(&self) -> f64 {
        if self.limits.long.is_infinite() {
            return f64::INFINITY;
        }
        (self.limits.long * (1.0 - HEADROOM)).min(self.limits.long - 1.0).max(WINDOW_LEAST)
    }

    fn enter(&mut self, phase: Phase, now_ns: u64) {
        self.phase = phase;
        self.cycle.from_ns = now_ns;
    }

    fn restart_full(&mut self) {
        self.rate.full = 0.0;
        self.rate.full_rounds = 0;
        self.rate.is_full = false;
    }

    /// Updates the rates and the short-term limits. Returns true if a round trip ended.
    fn measure(&mut self, path: &Path) -> bool {
        let sample = &path.sample;
        let round_over = sample.delivered_before >= self.round_ends;
        if round_over {
            self.round_ends = path.delivered;
            self.cycle.rounds += 1.0;
        }
        let limits = &mut self.limits;
        let data = path.delivered.saturating_sub(sample.delivered_before) as f64;
        limits.rate_latest = limits.rate_latest.max(sample.rate);
        limits.data_latest = limits.data_latest.max(data);
        // Too few requests measure less than the path carries, so such a rate may only raise the
        // estimate (section 5.5.5).
        if sample.rate >= self.rate.latest[0].max(self.rate.latest[1]) || !sample.starved {
            self.rate.latest[1] = self.rate.latest[1].max(sample.rate);
        }
        if sample.delivered_before >= limits.round_ends {
            limits.round_ends = path.delivered;
            self.lower_limits();
            self.end_lossy_startup(path);
            let limits = &mut self.limits;
            limits.is_lossy_round = false;
            limits.round_lost = path.lost;
            limits.rate_latest = sample.rate;
            limits.data_latest = data;
        }
        round_over
    }

    /// Lowers the short-term limits after a round trip with losses or marks (section 5.5.10.3).
    fn lower_limits(&mut self) {
        if self.phase.probes_rate() || !self.limits.is_lossy_round {
            return;
        }
        let (rate_max, window) = (self.rate_max(), self.window);
        let limits = &mut self.limits;
        if limits.short_rate.is_infinite() {
            limits.short_rate = rate_max;
        }
        if limits.short.is_infinite() {
            limits.short = window;
        }
        limits.short_rate = limits.rate_latest.max(BETA * limits.short_rate);
        limits.short = limits.data_latest.max(BETA * limits.short);
    }

    /// Ends Startup if a round trip lost too much (section 5.3.1.3).
    fn end_lossy_startup(&mut self, path: &Path) {
        let lost = path.lost.saturating_sub(self.limits.round_lost);
        let share = lost as f64 / (lost as f64 + self.limits.data_latest).max(1.0);
        if self.phase == Phase::Startup && lost >= STARTUP_LOSSES && share > LOSS_MAX_SHARE {
            self.rate.is_full = true;
            self.rate.was_full = true;
            self.limits.long = self.held(self.rate_max(), 1.0).max(self.limits.data_latest);
        }
    }

    /// Detects a rate that no longer grows (section 5.3.1.2).
    fn check_full(&mut self, path: &Path, round_over: bool) {
        if self.rate.is_full || !round_over || path.sample.starved {
            return;
        }
        if path.sample.rate >= self.rate.full * FULL_GROWTH {
            self.restart_full();
            self.rate.full = path.sample.rate;
            return;
        }
        self.rate.full_rounds += 1;
        self.rate.is_full = self.rate.full_rounds >= FULL_ROUNDS;
        self.rate.was_full |= self.rate.is_full;
    }

    fn start_down(&mut self, now_ns: u64) {
        self.limits.up_every = f64::INFINITY;
        self.cycle.rounds = self.roll(2) as f64;
        self.cycle.wait_ns = PROBE_RATE_NS + self.roll(PROBE_RATE_SPREAD_NS);
        self.cycle.answers = Answers::ProbeStopping;
        self.enter(Phase::Down, now_ns);
    }

    fn start_refill(&mut self, path: &Path) {
        self.limits.clear_short();
        self.limits.up_doublings = 0;
        self.limits.up_data = 0.0;
        self.cycle.answers = Answers::Refilling;
        self.round_ends = path.delivered;
        self.enter(Phase::Refill, path.now_ns);
    }

    fn start_up(&mut self, path: &Path) {
        self.cycle.answers = Answers::ProbeStarting;
        self.restart_full();
        self.rate.full = path.sample.rate;
        self.round_ends = path.delivered;
        self.limits.is_probe_open = true;
        self.enter(Phase::Up, path.now_ns);
        self.raise_slope();
    }

    /// Doubles the growth of the long-term limit (section 5.3.3.6).
    fn raise_slope(&mut self) {
        let growth = f64::from(1_u32 << self.limits.up_doublings);
        self.limits.up_doublings = (self.limits.up_doublings + 1).min(UP_DOUBLINGS_MAX);
        self.limits.up_every = (self.window / growth).max(1.0);
    }

    /// Returns a number below `end`.
    fn roll(&mut self, end: u64) -> u64 {
        self.cycle.dice = super::rule::mix(self.cycle.dice);
        self.cycle.dice % end.max(1)
    }

    /// Raises or lowers the long-term limit (section 5.5.10.1).
    fn adapt_long(&mut self, path: &Path, limited: bool, round_over: bool) {
        if round_over && self.cycle.answers == Answers::ProbeStarting {
            self.cycle.answers = Answers::ProbeFeedback;
        }
        if round_over && self.cycle.answers == Answers::ProbeStopping {
            self.cycle.answers = Answers::None;
            self.limits.is_probe_open = false;
            if self.phase.is_cycle() && !path.sample.starved {
                self.rate.latest = [self.rate.latest[1], 0.0];
            }
        }
        if is_lossy(path) {
            self.end_lossy_probe(path);
            return;
        }
        let limits = &mut self.limits;
        if limits.long.is_infinite() {
            return;
        }
        limits.long = limits.long.max(path.sample.in_flight_before as f64);
        if self.phase != Phase::Up || !limited || self.window < limits.long {
            return;
        }
        limits.up_data += 1.0;
        if limits.up_data >= limits.up_every {
            let steps = (limits.up_data / limits.up_every).floor();
            limits.up_data -= steps * limits.up_every;
            limits.long += steps;
        }
        if round_over {
            self.raise_slope();
        }
    }

    /// Ends a probe that lost too much (section 5.5.10.2).
    fn end_lossy_probe(&mut self, path: &Path) {
        if !std::mem::take(&mut self.limits.is_probe_open) {
            return;
        }
        if !path.sample.starved {
            let target = self.held(self.rate(), 1.0).min(self.window);
            self.limits.long = (path.sample.in_flight_before as f64).max(BETA * target);
        }
        if self.phase == Phase::Up {
            self.start_down(path.now_ns);
        }
    }

    fn advance(&mut self, path: &Path, limited: bool, round_over: bool) {
        let in_flight = path.in_flight as f64;
        match self.phase {
            Phase::Startup if self.rate.was_full => self.enter(Phase::Drain, path.now_ns),
            Phase::Drain if in_flight <= self.held(self.rate(), 1.0) => self.start_down(path.now_ns),
            Phase::Down | Phase::Cruise if self.is_probe_due(path) => self.start_refill(path),
            Phase::Down => {
                // Others have their headroom, and the queue is empty (section 5.3.3.4).
                let target = self.with_headroom().min(self.held(self.rate_max(), 1.0).max(WINDOW_LEAST));
                if in_flight <= target {
                    self.enter(Phase::Cruise, path.now_ns);
                }
            }
            Phase::Refill if round_over => self.start_up(path),
            Phase::Up => {
                if limited && self.window >= self.limits.long {
                    // The limit, not the path, bounds the rate.
                    self.restart_full();
                    self.rate.full = path.sample.rate;
                } else if self.rate.is_full {
                    self.start_down(path.now_ns);
                }
            }
            _ => {}
        }
    }

    /// Returns true after two to three seconds, or after the round trips of Reno (section
    /// 5.3.3.5.1).
    fn is_probe_due(&self, path: &Path) -> bool {
        let reno = self.held(self.rate(), 1.0).min(self.window).min(RENO_ROUNDS_MAX);
        path.now_ns.saturating_sub(self.cycle.from_ns) > self.cycle.wait_ns || self.cycle.rounds >= reno
    }

    /// Updates the minimum round trip, and probes it (section 5.3.4).
    fn note_rtt(&mut self, path: &Path, round_over: bool) {
        let Some(rtt_ns) = path.sample.rtt_ns else { return };
        let expired = path.now_ns.saturating_sub(self.rtt.probed_at_ns) > PROBE_RTT_EVERY_NS;
        if self.rtt.probed_ns == 0 || rtt_ns < self.rtt.probed_ns || expired {
            self.rtt.probed_ns = rtt_ns;
            self.rtt.probed_at_ns = path.now_ns;
        }
        let is_old = path.now_ns.saturating_sub(self.rtt.min_at_ns) > RTT_NS;
        if self.rtt.min_ns == 0 || self.rtt.probed_ns < self.rtt.min_ns || is_old {
            self.rtt.min_ns = self.rtt.probed_ns;
            self.rtt.min_at_ns = self.rtt.probed_at_ns;
        }
        match self.phase {
            // Startup finds the rate first.
            Phase::Startup => {}
            Phase::ProbeRtt { until_ns: None } if path.in_flight as f64 <= self.probe_rtt_window() => {
                self.round_ends = path.delivered;
                self.phase = Phase::ProbeRtt { until_ns: Some(path.now_ns + PROBE_RTT_NS) };
            }
            Phase::ProbeRtt { until_ns: Some(until_ns) } if path.now_ns >= until_ns && round_over => {
                self.rtt.probed_at_ns = path.now_ns;
                self.window = self.window.max(self.window_before);
                self.limits.clear_short();
                self.start_down(path.now_ns);
                self.enter(Phase::Cruise, path.now_ns);
            }
            Phase::ProbeRtt { .. } => {}
            _ if expired => {
                self.window_before = self.window;
                self.cycle.answers = Answers::ProbeStopping;
                self.enter(Phase::ProbeRtt { until_ns: None }, path.now_ns);
            }
            _ => {}
        }
    }

    fn note_loss(&mut self, path: &Path) {
        if !std::mem::replace(&mut self.limits.is_lossy_round, true) {
            self.limits.round_ends = path.delivered;
        }
    }

    fn probe_rtt_window(&self) -> f64 {
        self.held(self.rate(), PROBE_RTT_SHARE).max(WINDOW_LEAST)
    }

    /// Moves the window to its target, within the limits (sections 5.6.4.6 and 5.6.4.7).
    fn set_window(&mut self) {
        let gain = if self.phase == Phase::Up { UP_WINDOW_GAIN } else { WINDOW_GAIN };
        let target = self.filling(self.rate(), gain);
        if self.rate.was_full {
            self.window = (self.window + 1.0).min(target);
        } else if self.window < target || self.limits.data_latest < self.window_initial {
            self.window += 1.0;
        }
        let limit = match self.phase {
            Phase::Startup | Phase::Drain => f64::INFINITY,
            Phase::Refill | Phase::Up | Phase::Down => self.limits.long,
            Phase::Cruise | Phase::ProbeRtt { .. } => self.with_headroom(),
        };
        let mut window = self.window.min(limit.min(self.limits.short).max(WINDOW_LEAST));
        if matches!(self.phase, Phase::ProbeRtt { .. }) {
            window = window.min(self.probe_rtt_window());
        }
        // `clamp` requires that the lower bound does not exceed the upper one.
        self.window = window.clamp(WINDOW_LEAST.min(self.window_max), self.window_max);
    }
}

/// Returns true if more than [`LOSS_MAX_SHARE`] was lost while the Interest of the sample was
/// outstanding.
fn is_lossy(path: &Path) -> bool {
    let lost = path.lost.saturating_sub(path.sample.lost_before);
    lost as f64 > path.sample.in_flight_before as f64 * LOSS_MAX_SHARE
}

impl CongestionControl for Bbr3 {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn begin_with(&mut self, packets: usize) {
        self.window_initial = (packets as f64).clamp(WINDOW_MIN, self.window_max);
        self.window = self.window_initial;
    }

    fn on_farther_source(&mut self, rtt_ns: u64, now_ns: u64) {
        let window_initial = self.window_initial;
        *self = Bbr3::new(self.window_max as usize);
        self.begin_with(window_initial as usize);
        // The next Data may all answer repeated Interests, which show no round trip.
        self.rtt = RttModel { min_ns: rtt_ns, min_at_ns: now_ns, probed_ns: rtt_ns, probed_at_ns: now_ns };
    }

    fn pace(&self) -> Option<f64> {
        let gain = match self.phase {
            Phase::Startup => STARTUP_PACE,
            Phase::Drain => DRAIN_PACE,
            Phase::Down => DOWN_PACE,
            Phase::Up => UP_PACE,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt { .. } => 1.0,
        };
        let rate = self.rate();
        let is_paced = rate > 0.0 && self.rtt.min_ns >= PACED_NS_MIN;
        is_paced.then_some(gain * rate * (1.0 - PACE_MARGIN))
    }

    fn on_data(&mut self, path: &Path, limited: bool) {
        if path.sample.is_beside_path {
            return;
        }
        // The times of Data are as random as the path.
        self.cycle.dice ^= path.now_ns;
        let round_over = self.measure(path);
        self.check_full(path, round_over);
        if self.rate.was_full {
            self.adapt_long(path, limited, round_over);
        }
        self.advance(path, limited, round_over);
        self.note_rtt(path, round_over);
        self.set_window();
    }

    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool {
        match signal {
            Signal::Loss => {
                self.note_loss(path);
                if is_lossy(path) {
                    self.end_lossy_probe(path);
                }
                // Every loss counts, so the later ones of this round trip must be reported, too.
                false
            }
            Signal::Mark => {
                self.note_loss(path);
                self.end_lossy_probe(path);
                if self.phase == Phase::Startup && self.rate_max() > 0.0 {
                    self.rate.was_full = true;
                    self.limits.long = self.held(self.rate_max(), 1.0).max(self.limits.data_latest);
                }
                true
            }
            // The model has no standing queue beyond its probes.
            Signal::Queue => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Sample;

    const MS: u64 = 1_000_000;

    /// A path of 1,000 packets per second and 40 ms, with a capacity of 40.
    struct Simulated {
        bbr: Bbr3,
        path: Path,
    }

    impl Simulated {
        fn new() -> Self {
            Simulated { bbr: Bbr3::new(1000), path: Path::default() }
        }

        /// `count` Data arrive at `rate`, each after `rtt_ns`. The number outstanding is the
        /// capacity of the path, or the window.
        fn come(&mut self, count: u64, rate: f64, rtt_ns: u64) -> Vec<Phase> {
            let mut phases = Vec::new();
            for _ in 0..count {
                self.path.now_ns += (1e9 / rate) as u64;
                self.path.delivered += 1;
                self.path.in_flight = self.bbr.window().min((rate * rtt_ns as f64 / 1e9) as usize);
                let delivered_before = self.path.delivered.saturating_sub(self.path.in_flight as u64 + 1);
                self.path.sample = Sample {
                    rtt_ns: Some(rtt_ns),
                    rate,
                    starved: false,
                    delivered_before,
                    in_flight_before: self.path.in_flight,
                    lost_before: self.path.lost,
                    ..Sample::default()
                };
                self.bbr.on_data(&self.path, false);
                if phases.last() != Some(&self.bbr.phase) {
                    phases.push(self.bbr.phase);
                }
            }
            phases
        }

        /// Reports `count` losses of one round trip.
        fn lose(&mut self, count: u64) {
            for _ in 0..count {
                self.path.lost += 1;
                assert!(!self.bbr.on_congestion(&self.path, Signal::Loss));
            }
        }
    }

    #[test]
    fn bbr_startup_ends_when_the_rate_plateaus() {
        let mut path = Simulated::new();
        for rate in [125.0, 250.0, 500.0, 1000.0] {
            path.come((rate * 0.04) as u64 + 2, rate, 40 * MS);
            assert_eq!(path.bbr.phase, Phase::Startup);
            let pace = path.bbr.pace().unwrap();
            assert!((pace - STARTUP_PACE * 0.99 * rate).abs() < 1.0, "{pace}");
        }
        let phases = path.come(300, 1000.0, 40 * MS);
        assert_eq!(phases[..3], [Phase::Startup, Phase::Drain, Phase::Down]);
        assert_eq!(path.bbr.window(), 80);
    }

    #[test]
    fn bbr_probes_the_rate_every_few_seconds() {
        let mut path = Simulated::new();
        path.come(1000, 1000.0, 40 * MS);
        let phases = path.come(3000, 1000.0, 40 * MS);
        let cycle = [Phase::Cruise, Phase::Refill, Phase::Up, Phase::Down, Phase::Cruise];
        assert!(phases.windows(5).any(|five| five == cycle), "{phases:?}");
        path.come(8000, 500.0, 40 * MS);
        assert_eq!(path.bbr.rate(), 500.0, "two probes forget the higher rate");
    }

    #[test]
    fn losses_of_two_percent_end_no_probe() {
        let mut path = Simulated::new();
        path.come(500, 1000.0, 40 * MS);
        while path.bbr.phase != Phase::Up {
            path.come(1, 1000.0, 40 * MS);
        }
        // One of the 50 that were outstanding.
        path.path.sample.in_flight_before = 50;
        path.lose(1);
        assert_eq!(path.bbr.phase, Phase::Up);
        path.path.sample.in_flight_before = 49;
        assert!(!path.bbr.on_congestion(&path.path, Signal::Loss));
        assert_eq!(path.bbr.phase, Phase::Down);
    }

    #[test]
    fn losses_between_probes_lower_the_short_limit() {
        let mut path = Simulated::new();
        path.come(500, 1000.0, 40 * MS);
        assert!(!path.bbr.phase.probes_rate(), "{:?}", path.bbr.phase);
        // The rate falls, and then losses begin.
        path.come(120, 600.0, 40 * MS);
        path.lose(1);
        path.come(60, 600.0, 40 * MS);
        assert_eq!(path.bbr.limits.short_rate, BETA * 1000.0);
        let phases = path.come(2500, 600.0, 40 * MS);
        assert!(phases.contains(&Phase::Refill), "{phases:?}");
        assert!(path.bbr.limits.short_rate.is_infinite(), "a probe ends the limit");
    }

    #[test]
    fn a_lossy_probe_sets_the_long_limit() {
        let mut path = Simulated::new();
        path.come(500, 1000.0, 40 * MS);
        while path.bbr.phase != Phase::Up {
            path.come(1, 1000.0, 40 * MS);
        }
        path.lose(1);
        assert_eq!(path.bbr.phase, Phase::Down);
        assert_eq!(path.bbr.limits.long, 40.0);
        path.lose(5);
        assert_eq!(path.bbr.limits.long, 40.0, "once in a probe");
        assert_eq!(path.bbr.with_headroom(), 34.0, "15 % less");
    }

    #[test]
    fn marks_of_a_probe_count_as_too_many_losses() {
        let mut path = Simulated::new();
        path.come(500, 1000.0, 40 * MS);
        while path.bbr.phase != Phase::Up {
            path.come(1, 1000.0, 40 * MS);
        }
        assert!(path.bbr.on_congestion(&path.path, Signal::Mark));
        assert_eq!(path.bbr.phase, Phase::Down);
        assert!(!path.bbr.on_congestion(&path.path, Signal::Queue));
    }

    #[test]
    fn bbr_probes_a_stale_minimum_rtt() {
        let mut path = Simulated::new();
        path.come(1000, 1000.0, 40 * MS);
        let (mut least, mut probed) = (usize::MAX, 0);
        for _ in 0..5_500 {
            path.come(1, 1000.0, 60 * MS);
            probed += u32::from(matches!(path.bbr.phase, Phase::ProbeRtt { .. }));
            least = least.min(path.bbr.window());
        }
        assert_eq!(least, 20, "half the capacity");
        assert!((200..300).contains(&probed), "200 ms: {probed}");
    }
}

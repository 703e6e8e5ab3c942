//! A rate control after BBR (Cardwell et al., ACM Queue 2016; draft-ietf-ccwg-bbr): it asks at the
//! rate at which Data came lately, and keeps outstanding about what the empty path holds.
//!
//! It measures two things, and never both at once: the greatest rate at which Data came within the
//! last ten round trips, and the least round trip. Their product is what the path holds. At the
//! start the rate doubles each round trip until it brings no more Data; then the queue drains; then
//! the rate goes up by a quarter for one round trip, down by as much for the next, and stays for
//! six, over and over. If the least round trip has not been seen again for five seconds, half of
//! the window is given up for 200 ms, so that the queue empties and it is. Who comes while others'
//! queue stands takes it for a part of the path: so three quarters are given up when the start is
//! over, and half once more whenever that brought a lesser round trip.
//!
//! Loss by itself changes nothing, so a bad link costs what it loses and no more; loss with a long
//! queue, loss beyond 15 %, a router's mark and a queue that stands lower the window, which then
//! grows by a packet each round trip.

use super::{CongestionControl, LOSS_MAX, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// The least factor by which the rate can double each round trip: 2/ln 2.
const STARTUP_GAIN: f64 = 2.885;

/// The window, in what the path holds: answers come in bunches.
const WINDOW_GAIN: f64 = 2.0;

/// The rate's factor in each round trip of the cycle.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// Round trips for which the greatest rate is remembered.
const RATE_ROUNDS: u64 = 10;

/// How long the least round trip is believed without being seen again (draft-ietf-ccwg-bbr,
/// `ProbeRTTInterval`).
const RTT_NS: u64 = 5_000_000_000;

/// For how long the window is small when the least round trip is looked for.
const RTT_PROBE_NS: u64 = 200_000_000;

/// How long after a look that found a lesser round trip the next one is: what was found may not be
/// the least.
const RTT_PROBE_AGAIN_NS: u64 = 1_000_000_000;

/// Share of the window that is left then.
const RTT_PROBE_SHARE: f64 = 0.5;

/// The same when the start is over: what was measured then is most likely others' queue.
const RTT_PROBE_SHARE_FIRST: f64 = 0.25;

/// Growth of the rate below which a round trip of the start brought nothing, and how many such end
/// it.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// What a mark leaves of the window.
const BETA: f64 = 0.7;

/// Packets by which that grows back each round trip: more for the small than for the great, in
/// proportion, so that flows become equal.
const CAP_GROWTH: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    Drain,
    Cycle(usize),
    ProbeRtt { until_ns: u64 },
}

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bbr {
    phase: Phase,
    phase_from_ns: u64,
    window_initial: f64,
    window_max: f64,
    /// Greatest rates of the two latest stretches of [`RATE_ROUNDS`] / 2 round trips.
    rates: [f64; 2],
    rates_turn: u64,
    rounds: u64,
    round_ends_delivered: u64,
    rtt_ns: u64,
    rtt_seen_at_ns: u64,
    /// What it was when the least was looked for.
    probed_rtt_ns: u64,
    probe_share: f64,
    /// That found a lesser one.
    probe_again: bool,
    full_rate: f64,
    full_rounds: u32,
    /// What marks have left of the window, until the rate is tried again.
    cap: f64,
}

impl Bbr {
    /// A window of at most `window_max` packets.
    pub(super) fn new(window_max: usize) -> Self {
        Bbr {
            phase: Phase::Startup,
            phase_from_ns: 0,
            window_initial: WINDOW_INITIAL,
            window_max: (window_max as f64).max(WINDOW_MIN),
            rates: [0.0; 2],
            rates_turn: 0,
            rounds: 0,
            round_ends_delivered: 0,
            rtt_ns: 0,
            rtt_seen_at_ns: 0,
            probed_rtt_ns: 0,
            probe_share: RTT_PROBE_SHARE_FIRST,
            probe_again: false,
            full_rate: 0.0,
            full_rounds: 0,
            cap: f64::INFINITY,
        }
    }

    /// Packets a second that the path carries.
    fn rate(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    /// Packets that the empty path holds.
    fn held(&self) -> f64 {
        self.rate() * self.rtt_ns as f64 / 1e9
    }

    fn enter(&mut self, phase: Phase, now_ns: u64) {
        self.phase = phase;
        self.phase_from_ns = now_ns;
    }

    /// Takes in the Data's sample; returns true if a round trip is over.
    fn measure(&mut self, path: &Path) -> bool {
        let sample = &path.sample;
        let round_over = sample.delivered_before >= self.round_ends_delivered;
        if round_over {
            self.rounds += 1;
            self.round_ends_delivered = path.delivered;
            self.cap += CAP_GROWTH;
            if self.rounds >= self.rates_turn {
                self.rates = [self.rates[1], 0.0];
                self.rates_turn = self.rounds + RATE_ROUNDS / 2;
            }
        }
        if !sample.starved || sample.rate > self.rate() {
            self.rates[1] = self.rates[1].max(sample.rate);
        }
        round_over
    }

    fn note_rtt(&mut self, path: &Path) {
        let Some(rtt_ns) = path.sample.rtt_ns else { return };
        let expired = path.now_ns.saturating_sub(self.rtt_seen_at_ns) > RTT_NS;
        if expired && self.rtt_ns > 0 && !matches!(self.phase, Phase::Startup | Phase::ProbeRtt { .. }) {
            self.probed_rtt_ns = self.rtt_ns;
            self.probe_again = false;
            self.probe_share = RTT_PROBE_SHARE;
            self.enter(Phase::ProbeRtt { until_ns: 0 }, path.now_ns);
        }
        if self.rtt_ns == 0 || rtt_ns <= self.rtt_ns || expired {
            self.rtt_ns = rtt_ns;
            if !self.probe_again {
                self.rtt_seen_at_ns = path.now_ns;
            }
        }
    }

    fn end_startup(&mut self, now_ns: u64) {
        self.full_rounds = FULL_ROUNDS;
        self.enter(Phase::Drain, now_ns);
    }

    fn advance(&mut self, path: &Path, round_over: bool) {
        let now_ns = path.now_ns;
        let in_flight = path.in_flight as f64;
        match self.phase {
            Phase::Startup if round_over => {
                if self.rate() >= self.full_rate * FULL_GROWTH {
                    self.full_rate = self.rate();
                    self.full_rounds = 0;
                } else if !path.sample.starved {
                    self.full_rounds += 1;
                }
                if self.full_rounds >= FULL_ROUNDS {
                    self.end_startup(now_ns);
                }
            }
            Phase::Drain if in_flight <= self.held() => {
                self.probed_rtt_ns = self.rtt_ns;
                self.enter(Phase::ProbeRtt { until_ns: 0 }, now_ns);
            }
            Phase::Cycle(step) => {
                let lasted_ns = now_ns.saturating_sub(self.phase_from_ns);
                let long = lasted_ns > self.rtt_ns;
                let over = match step {
                    // A caller with little to ask for never gets that much outstanding.
                    0 if lasted_ns > 2 * self.rtt_ns => true,
                    0 => long && (in_flight >= CYCLE[0] * self.held() || path.loss > 0.0),
                    1 => long || in_flight <= self.held(),
                    _ => long,
                };
                if over {
                    self.enter(Phase::Cycle((step + 1) % CYCLE.len()), now_ns);
                }
            }
            Phase::ProbeRtt { until_ns: 0 } if in_flight <= self.window_now() => {
                let until_ns = now_ns.saturating_add(RTT_PROBE_NS.max(self.rtt_ns));
                self.phase = Phase::ProbeRtt { until_ns };
            }
            Phase::ProbeRtt { until_ns } if until_ns > 0 && now_ns >= until_ns => {
                self.probe_again = self.probed_rtt_ns > self.rtt_ns + self.rtt_ns / 16;
                let rest_ns = if self.probe_again { RTT_NS - RTT_PROBE_AGAIN_NS } else { 0 };
                self.rtt_seen_at_ns = now_ns.saturating_sub(rest_ns);
                self.enter(Phase::Cycle(2), now_ns);
            }
            _ => {}
        }
    }

    fn window_now(&self) -> f64 {
        let held = self.held();
        if held == 0.0 {
            return self.window_initial.min(self.window_max);
        }
        let window = match self.phase {
            Phase::Startup => (STARTUP_GAIN * held).max(WINDOW_INITIAL),
            Phase::ProbeRtt { .. } => self.probe_share * held,
            Phase::Drain | Phase::Cycle(_) => WINDOW_GAIN * held,
        };
        window.min(self.cap).clamp(2.0 * WINDOW_MIN.min(self.window_max / 2.0), self.window_max)
    }
}

impl CongestionControl for Bbr {
    fn window(&self) -> usize {
        self.window_now() as usize
    }

    fn begin_with(&mut self, packets: usize) {
        self.window_initial = (packets as f64).max(WINDOW_MIN);
    }

    fn pace(&self) -> Option<f64> {
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::Cycle(step) => CYCLE[step],
            Phase::ProbeRtt { .. } => 1.0,
        };
        (self.rate() > 0.0).then(|| gain * self.rate())
    }

    fn on_data(&mut self, path: &Path, _: bool) {
        let round_over = self.measure(path);
        self.note_rtt(path);
        self.advance(path, round_over);
    }

    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool {
        if signal == Signal::Loss && path.loss <= LOSS_MAX && path.share_without_queue() == 1.0 {
            return false;
        }
        match self.phase {
            Phase::Startup if self.rate() > 0.0 => self.end_startup(path.now_ns),
            Phase::Startup | Phase::Drain | Phase::ProbeRtt { .. } => {}
            Phase::Cycle(_) => self.cap = (BETA * self.window_now()).max(WINDOW_MIN),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Sample;

    const MS: u64 = 1_000_000;

    /// A path of 1,000 packets a second and 40 ms, which holds 40.
    struct Simulated {
        bbr: Bbr,
        now_ns: u64,
        delivered: u64,
    }

    impl Simulated {
        fn new() -> Self {
            Simulated { bbr: Bbr::new(1000), now_ns: 0, delivered: 0 }
        }

        /// `count` Data come at `rate`, each after `rtt_ns`; as many are outstanding as fit the
        /// path then.
        fn come(&mut self, count: u64, rate: f64, rtt_ns: u64) {
            for _ in 0..count {
                self.now_ns += (1e9 / rate) as u64;
                self.delivered += 1;
                let in_flight = self.bbr.window().min((rate * rtt_ns as f64 / 1e9) as usize);
                let delivered_before = self.delivered.saturating_sub(in_flight as u64 + 1);
                let sample = Sample { rtt_ns: Some(rtt_ns), rate, starved: false, delivered_before };
                let (now_ns, delivered) = (self.now_ns, self.delivered);
                self.bbr.on_data(&Path { now_ns, delivered, in_flight, sample, ..Path::default() }, true);
            }
        }
    }

    #[test]
    fn the_start_ends_when_the_rate_stops_to_grow_and_the_window_is_twice_what_the_path_holds() {
        let mut path = Simulated::new();
        assert_eq!(path.bbr.window(), WINDOW_INITIAL as usize);
        for rate in [125.0, 250.0, 500.0, 1000.0] {
            path.come((rate * 0.04) as u64 + 2, rate, 40 * MS);
            assert_eq!(path.bbr.phase, Phase::Startup);
            assert_eq!(path.bbr.pace(), Some(STARTUP_GAIN * rate));
        }
        path.come(500, 1000.0, 40 * MS);
        assert!(matches!(path.bbr.phase, Phase::Cycle(_)), "{:?}", path.bbr.phase);
        assert_eq!(path.bbr.window(), 80);
    }

    #[test]
    fn the_rate_is_tried_once_in_eight_round_trips_and_forgotten_when_it_fell() {
        let mut path = Simulated::new();
        path.come(1000, 1000.0, 40 * MS);
        let mut paces: Vec<u64> = Vec::new();
        for _ in 0..8 {
            path.come(41, 1000.0, 40 * MS);
            paces.extend(path.bbr.pace().map(|rate| rate as u64));
        }
        assert!(paces.iter().filter(|rate| **rate == 1000).count() >= 5, "{paces:?}");
        path.come(1000, 500.0, 40 * MS);
        assert_eq!(path.bbr.rate(), 500.0);
    }

    #[test]
    fn loss_without_a_queue_changes_nothing_a_mark_lowers_the_window_and_it_grows_back() {
        let mut path = Simulated::new();
        path.come(1000, 1000.0, 40 * MS);
        path.bbr.on_congestion(&Path { loss: 0.05, ..Path::default() }, Signal::Loss);
        assert_eq!(path.bbr.window(), 80);
        path.bbr.on_congestion(&Path::default(), Signal::Mark);
        assert_eq!(path.bbr.window(), 56);
        path.bbr.on_congestion(&Path { loss: 0.5, ..Path::default() }, Signal::Loss);
        assert_eq!(path.bbr.window(), 39);
        let queue = Path { rtt_min_ns: 40 * MS, rtt_round_ns: 60 * MS, loss: 0.05, ..Path::default() };
        path.bbr.on_congestion(&queue, Signal::Loss);
        assert_eq!(path.bbr.window(), 27);
        path.come(3000, 1000.0, 40 * MS);
        assert_eq!(path.bbr.window(), 80);
    }

    #[test]
    fn a_least_round_trip_not_seen_for_five_seconds_is_looked_for_with_half_a_window() {
        let mut path = Simulated::new();
        path.come(1000, 1000.0, 40 * MS);
        path.come(4_900, 1000.0, 60 * MS);
        assert!(matches!(path.bbr.phase, Phase::Cycle(_)), "{:?}", path.bbr.phase);
        path.come(200, 1000.0, 60 * MS);
        assert!(matches!(path.bbr.phase, Phase::ProbeRtt { .. }), "{:?}", path.bbr.phase);
        let window = path.bbr.window();
        assert!(window <= 30, "{window}");
        path.come(400, 500.0, 40 * MS);
        assert!(matches!(path.bbr.phase, Phase::Cycle(_)), "{:?}", path.bbr.phase);
        assert_eq!(path.bbr.rtt_ns, 40 * MS);
    }
}

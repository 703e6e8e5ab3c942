//! A rate control after BBR (Cardwell et al., ACM Queue 2016; draft-ietf-ccwg-bbr). It sends
//! Interests at the recent rate of Data. The number of outstanding Interests is about the capacity
//! of the path without queues.
//!
//! It measures two values: the maximum rate of Data within the last ten round trips, and the
//! minimum round trip. Both cannot be measured at once, because the maximum rate needs a full path
//! and the minimum round trip an empty one. Their product is the capacity of the path. In the
//! startup phase the sending rate doubles each round trip until the rate of Data no longer grows;
//! then the queue drains. After that a cycle of eight round trips repeats: a quarter above the
//! measured rate for one, a quarter below it for the next, and at it for six. If the minimum round
//! trip was not observed again for five seconds, the window is half the capacity for 200 ms, so
//! that the queue empties and the minimum can be observed. A flow that starts while the queue of
//! other flows stands measures that queue as a part of the path. When the startup ends, the window
//! is therefore a quarter of the capacity for a moment. A probe that finds a lower round trip is
//! repeated after one second.
//!
//! A loss alone changes nothing, so a bad link costs only the lost packets. Four signals end the
//! startup or reduce the window: loss with a long queue, loss beyond 15 %, a router's mark, and a
//! standing queue. A reduced window grows by one packet each round trip.

use super::rule::{CongestionControl, LOSS_MAX, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// The factor of the rate in the startup: 2/ln 2, the smallest that doubles the rate each round
/// trip.
const STARTUP_GAIN: f64 = 2.885;

/// The window as a multiple of the path's capacity, because answers arrive in bursts.
const WINDOW_GAIN: f64 = 2.0;

/// The factor of the rate in each round trip of the cycle.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// Number of round trips for which the maximum rate is remembered.
const RATE_ROUNDS: u64 = 10;

/// Time for which the minimum round trip is valid without being observed again
/// (draft-ietf-ccwg-bbr, `ProbeRTTInterval`).
const RTT_NS: u64 = 5_000_000_000;

/// Duration of the small window while the minimum round trip is probed.
const RTT_PROBE_NS: u64 = 200_000_000;

/// Time from a probe that found a lower round trip to the next one, because the minimum may be
/// lower still.
const RTT_PROBE_AGAIN_NS: u64 = 1_000_000_000;

/// The window during a probe, as a share of the capacity of the path.
const RTT_PROBE_SHARE: f64 = 0.5;

/// The window during the probe at the end of the startup, as a share of the capacity of the path.
/// It is lower, because the measurements then most likely include the queue of other flows.
const RTT_PROBE_SHARE_FIRST: f64 = 0.25;

/// The startup ends after [`FULL_ROUNDS`] round trips in which the rate grew by less than this
/// factor.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// The factor of the window after a signal of congestion.
const BETA: f64 = 0.7;

/// Packets per round trip by which the cap recovers. Small windows grow more in proportion than
/// large ones, so that flows converge.
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
    /// Maximum rates of the two latest periods of [`RATE_ROUNDS`] / 2 round trips.
    rates: [f64; 2],
    rates_turn: u64,
    rounds: u64,
    round_ends_delivered: u64,
    rtt_ns: u64,
    rtt_seen_at_ns: u64,
    /// The minimum round trip at the start of the probe.
    probed_rtt_ns: u64,
    probe_share: f64,
    /// Whether the last probe found a lower minimum round trip.
    probe_again: bool,
    full_rate: f64,
    full_rounds: u32,
    /// The limit of the window after signals of congestion. It grows by [`CAP_GROWTH`] each round
    /// trip.
    cap: f64,
}

impl Bbr {
    /// Creates a controller with a window of at most `window_max` packets.
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

    /// The rate of the path in packets per second.
    fn rate(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    /// The capacity of the empty path in packets.
    fn held(&self) -> f64 {
        self.rate() * self.rtt_ns as f64 / 1e9
    }

    fn enter(&mut self, phase: Phase, now_ns: u64) {
        self.phase = phase;
        self.phase_from_ns = now_ns;
    }

    /// Processes the sample of a Data. Returns true if a round trip ended.
    fn measure(&mut self, path: &Path) -> bool {
        let sample = &path.sample;
        let round_over = sample.delivered_before >= self.round_ends_delivered;
        if round_over {
            self.rounds += 1;
            self.round_ends_delivered = path.delivered;
            // Before the first decrease the cap is infinite, and this has no effect.
            self.cap += CAP_GROWTH;
            if self.rounds >= self.rates_turn {
                // Two periods approximate a sliding maximum without a list of samples.
                self.rates = [self.rates[1], 0.0];
                self.rates_turn = self.rounds + RATE_ROUNDS / 2;
            }
        }
        // Too few requests measure less than the path carries, so such a rate may only raise the
        // estimate (draft-ietf-ccwg-bbr).
        if !sample.starved || sample.rate > self.rate() {
            self.rates[1] = self.rates[1].max(sample.rate);
        }
        round_over
    }

    fn note_rtt(&mut self, path: &Path) {
        let Some(rtt_ns) = path.sample.rtt_ns else { return };
        let expired = path.now_ns.saturating_sub(self.rtt_seen_at_ns) > RTT_NS;
        // The startup is not interrupted, because a probe follows it anyway.
        if expired && self.rtt_ns > 0 && !matches!(self.phase, Phase::Startup | Phase::ProbeRtt { .. }) {
            self.probed_rtt_ns = self.rtt_ns;
            self.probe_again = false;
            self.probe_share = RTT_PROBE_SHARE;
            // The time of the probe begins once the Interests beyond the smaller window are
            // answered.
            self.enter(Phase::ProbeRtt { until_ns: 0 }, path.now_ns);
        }
        if self.rtt_ns == 0 || rtt_ns <= self.rtt_ns || expired {
            self.rtt_ns = rtt_ns;
            // After a probe that found a lower minimum, an equal round trip must not postpone the
            // next one.
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
                    // Only a round trip with enough requests shows that the path is full.
                    self.full_rounds += 1;
                }
                if self.full_rounds >= FULL_ROUNDS {
                    self.end_startup(now_ns);
                }
            }
            Phase::Drain if in_flight <= self.held() => {
                // The first probe follows at once, because the startup may have measured the queues
                // of other flows.
                self.probed_rtt_ns = self.rtt_ns;
                self.enter(Phase::ProbeRtt { until_ns: 0 }, now_ns);
            }
            Phase::Cycle(step) => {
                let lasted_ns = now_ns.saturating_sub(self.phase_from_ns);
                let long = lasted_ns > self.rtt_ns;
                let over = match step {
                    // A caller with few requests never has that many outstanding.
                    0 if lasted_ns > 2 * self.rtt_ns => true,
                    // The step ends only after the higher rate filled the path. A loss shows that,
                    // too.
                    0 => long && (in_flight >= CYCLE[0] * self.held() || path.loss > 0.0),
                    // The step ends early once the queue of the step before has drained.
                    1 => long || in_flight <= self.held(),
                    _ => long,
                };
                if over {
                    self.enter(Phase::Cycle((step + 1) % CYCLE.len()), now_ns);
                }
            }
            Phase::ProbeRtt { until_ns: 0 } if in_flight <= self.window_now() => {
                // In less than a round trip no Data of the smaller window would arrive.
                let until_ns = now_ns.saturating_add(RTT_PROBE_NS.max(self.rtt_ns));
                self.phase = Phase::ProbeRtt { until_ns };
            }
            Phase::ProbeRtt { until_ns } if until_ns > 0 && now_ns >= until_ns => {
                self.probe_again = self.probed_rtt_ns > self.rtt_ns + self.rtt_ns / 16;
                // The observation is dated back, so that the next probe is due after
                // [`RTT_PROBE_AGAIN_NS`].
                let rest_ns = if self.probe_again { RTT_NS - RTT_PROBE_AGAIN_NS } else { 0 };
                self.rtt_seen_at_ns = now_ns.saturating_sub(rest_ns);
                // The cycle resumes at the neutral rate, because the raise would build a queue at
                // once.
                self.enter(Phase::Cycle(2), now_ns);
            }
            _ => {}
        }
    }

    fn window_now(&self) -> f64 {
        let held = self.held();
        if held == 0.0 {
            // Without a measurement the capacity is 0, with which nothing would be requested.
            return self.window_initial.min(self.window_max);
        }
        let window = match self.phase {
            Phase::Startup => (STARTUP_GAIN * held).max(WINDOW_INITIAL),
            Phase::ProbeRtt { .. } => self.probe_share * held,
            Phase::Drain | Phase::Cycle(_) => WINDOW_GAIN * held,
        };
        // `clamp` requires that the lower bound does not exceed the upper one, even for a tiny
        // `window_max`.
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

    fn on_farther_source(&mut self, rtt_ns: u64, now_ns: u64) {
        let new = Bbr::new(self.window_max as usize);
        // The next Data may all answer repeated Interests, which show no round trip.
        *self = Bbr { window_initial: self.window_initial, rtt_ns, rtt_seen_at_ns: now_ns, ..new };
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
        if path.sample.is_beside_path {
            return;
        }
        let round_over = self.measure(path);
        self.note_rtt(path);
        self.advance(path, round_over);
    }

    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool {
        // Without a queue, loss of up to `LOSS_MAX` is attributed to a bad link.
        if signal == Signal::Loss && path.loss <= LOSS_MAX && path.share_without_queue() == 1.0 {
            return false;
        }
        match self.phase {
            // Drain needs a measured rate, because it waits for the capacity of the path.
            Phase::Startup if self.rate() > 0.0 => self.end_startup(path.now_ns),
            // Drain and the probe reduce the window anyway, and a startup without a rate has the
            // initial one.
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

    /// A path of 1,000 packets per second and 40 ms, with a capacity of 40.
    struct Simulated {
        bbr: Bbr,
        now_ns: u64,
        delivered: u64,
    }

    impl Simulated {
        fn new() -> Self {
            Simulated { bbr: Bbr::new(1000), now_ns: 0, delivered: 0 }
        }

        /// `count` Data arrive at `rate`, each after `rtt_ns`. The number outstanding equals the
        /// capacity of the path.
        fn come(&mut self, count: u64, rate: f64, rtt_ns: u64) {
            for _ in 0..count {
                self.now_ns += (1e9 / rate) as u64;
                self.delivered += 1;
                let in_flight = self.bbr.window().min((rate * rtt_ns as f64 / 1e9) as usize);
                let delivered_before = self.delivered.saturating_sub(in_flight as u64 + 1);
                let sample = Sample { rtt_ns: Some(rtt_ns), rate, delivered_before, ..Sample::default() };
                let (now_ns, delivered) = (self.now_ns, self.delivered);
                self.bbr.on_data(&Path { now_ns, delivered, in_flight, sample, ..Path::default() }, true);
            }
        }
    }

    #[test]
    fn bbr_startup_ends_when_the_rate_plateaus() {
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
    fn bbr_probes_the_rate_every_eight_rounds() {
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
    fn bbr_ignores_loss_without_a_queue() {
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
    fn bbr_probes_a_stale_minimum_rtt() {
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

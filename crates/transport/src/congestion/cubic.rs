//! CUBIC (RFC 9438), with three changes for named data. They are needed because the Data of one
//! window may come from caches and producers at different distances, and because many paths lose no
//! packets at all.
//!
//! - Growth stops when the delay of the queue that the window builds reaches a limit. A queue that
//!   stands at this limit for a whole round trip is congestion ([`Signal::Queue`]). The window then
//!   falls slightly below the capacity of the path without the queue, so that all flows that share
//!   the queue observe it empty. On a path without loss, such as a Unix socket, nothing else would
//!   ever stop the growth. Slow start slows down and ends by delay, too, as in HyStart++ (RFC
//!   9406).
//! - A flow that starts while a queue stands measures it as a part of the path. As in BBR, the
//!   window is therefore halved for a moment when slow start ends, and whenever all Data waited in
//!   a queue for five seconds.
//! - Up to the loss rate of a bad link, a loss reduces the window to the capacity of the path
//!   without its queue, by the fixed factor at most. Without a queue it has no effect. A higher
//!   loss rate and a router's mark always reduce the window by a fixed factor.

use super::rule::{CongestionControl, LOSS_MAX, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// The factor of the window after congestion (RFC 9438, 4.6).
const BETA: f64 = 0.7;

/// The factor after a mark. Routers mark short queues, so a smaller reduction suffices (RFC 8511).
const BETA_MARK: f64 = 0.85;

/// Scale of the cubic curve, packets per second cubed (RFC 9438, 5).
const C: f64 = 0.4;

/// The target after a standing queue that no router marked: a tenth less than the capacity of the
/// path, so that the queue empties for a moment and the minimum round trip is observed again. The
/// window keeps at least half.
const QUEUE_SHARE: f64 = 0.9;
const QUEUE_SHARE_MIN: f64 = 0.5;

/// Maximum number of reactions to one standing queue that does not shrink. Lost packets count as
/// outstanding until the loss is detected, so the first reaction may leave more than the capacity
/// of the path.
const QUEUE_ANSWERS: u32 = 2;

/// A round trip includes time in a queue if it exceeds the minimum by more than this and by more
/// than a sixteenth.
const EMPTY_NS: u64 = 2_000_000;

/// If all Data waited in a queue for this time, the minimum round trip is probed. It is less than
/// the time for which a minimum is remembered.
const PROBE_EVERY_NS: u64 = 5_000_000_000;

/// Duration of a probe, at least two round trips, and the share of the window during it. The
/// duration lets concurrent probes of several flows overlap.
const PROBE_NS: u64 = 200_000_000;
const PROBE_SHARE: f64 = 0.5;

/// Time from a probe that found a lower round trip to the next one, because the minimum may be
/// lower still.
const PROBE_AGAIN_NS: u64 = 1_000_000_000;

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cubic {
    window: f64,
    window_max: f64,
    slow_start: bool,
    /// The window before the last decrease: the flat part of the curve.
    plateau: f64,
    /// The window after the last decrease: the start of the curve.
    decreased_to: f64,
    /// The window that AIMD with the same decrease would have reached (RFC 9438, 4.3).
    reno: f64,
    decreased_at_ns: u64,
    /// Number of reactions to the standing queue, and the round trip of the last one.
    queue_answers: u32,
    queue_rtt_ns: u64,
    /// The time of the last round trip without queue; 0: never.
    empty_at_ns: u64,
    /// The end of the probe in progress.
    probe_until_ns: Option<u64>,
    /// The minimum round trip at the start of the probe.
    probed_rtt_ns: u64,
    /// Whether the last probe found a lower minimum round trip.
    probe_again: bool,
    /// The usable part of the window, which is smaller during and after a probe.
    allowed: f64,
}

impl Cubic {
    /// Creates a controller with a window of at most `window_max` packets.
    pub(super) fn new(window_max: usize) -> Self {
        let window_max = (window_max as f64).max(WINDOW_MIN);
        let window = WINDOW_INITIAL.min(window_max);
        Cubic {
            window,
            window_max,
            slow_start: true,
            plateau: window,
            decreased_to: window,
            reno: window,
            decreased_at_ns: 0,
            queue_answers: 0,
            queue_rtt_ns: 0,
            empty_at_ns: 0,
            probe_until_ns: None,
            probed_rtt_ns: 0,
            probe_again: false,
            allowed: f64::INFINITY,
        }
    }

    /// Halves the window, because the received Data reflect a window half as large.
    fn leave_slow_start(&mut self, now_ns: u64) {
        self.slow_start = false;
        self.window = (self.window / 2.0).max(WINDOW_MIN);
        self.plateau = self.window;
        self.decreased_to = self.window;
        self.reno = self.window;
        self.decreased_at_ns = now_ns;
    }

    /// Probes the minimum round trip if it is due.
    fn probe(&mut self, path: &Path) {
        let empty_ns = path.rtt_min_ns + EMPTY_NS.max(path.rtt_min_ns / 16);
        let is_empty = path.sample.rtt_ns.is_some_and(|rtt_ns| rtt_ns <= empty_ns);
        // After a probe that found a lower minimum, an empty path must not postpone the next one.
        if self.empty_at_ns == 0 || is_empty && !self.probe_again {
            self.empty_at_ns = path.now_ns;
        }
        match self.probe_until_ns {
            None if path.now_ns.saturating_sub(self.empty_at_ns) > PROBE_EVERY_NS => {
                self.begin_probe(path, PROBE_NS);
            }
            Some(until_ns) if path.now_ns >= until_ns => {
                self.probe_until_ns = None;
                self.probe_again = self.probed_rtt_ns > path.rtt_min_ns + path.rtt_min_ns / 16;
                // The time is dated back, so that the next probe is due after [`PROBE_AGAIN_NS`].
                let rest_ns = if self.probe_again { PROBE_EVERY_NS - PROBE_AGAIN_NS } else { 0 };
                self.empty_at_ns = path.now_ns.saturating_sub(rest_ns);
            }
            _ => {}
        }
    }

    fn begin_probe(&mut self, path: &Path, least_ns: u64) {
        self.allowed = self.window * PROBE_SHARE;
        // The smaller window takes effect after one round trip, and is measured in the second.
        self.probe_until_ns = Some(path.now_ns + least_ns.max(2 * path.rtt_smoothed_ns));
        self.probed_rtt_ns = path.rtt_min_ns;
    }

    /// Returns false for a queue that stays after reactions: it belongs to other flows, or the path
    /// has become longer.
    fn may_answer_queue(&self, path: &Path) -> bool {
        // A queue that shrank by a sixteenth since the last reaction is partly this flow's.
        self.queue_answers < QUEUE_ANSWERS || path.rtt_round_ns < self.queue_rtt_ns / 16 * 15
    }

    /// Returns the window of the curve `seconds` after the last decrease (RFC 9438, 4.2).
    fn curve(&self, seconds: f64) -> f64 {
        // Fast convergence may put the plateau below the reduced window, so the difference may be
        // negative.
        let k = ((self.plateau - self.decreased_to).max(0.0) / C).cbrt();
        C * (seconds - k).powi(3) + self.plateau
    }
}

impl CongestionControl for Cubic {
    fn window(&self) -> usize {
        // A probe of a small window would otherwise go below the minimum.
        self.window.min(self.allowed).max(WINDOW_MIN) as usize
    }

    fn begin_with(&mut self, packets: usize) {
        self.window = (packets as f64).clamp(WINDOW_MIN, self.window_max);
        self.plateau = self.window;
        self.decreased_to = self.window;
        self.reno = self.window;
    }

    fn on_data(&mut self, path: &Path, limited: bool) {
        // This flow may cause the next queue, so reactions are allowed again.
        if !path.has_queue() {
            self.queue_answers = 0;
        }
        self.probe(path);
        // Data of the reduced window is no evidence for growth.
        if self.probe_until_ns.is_some() {
            return;
        }
        // The rest of the window returns by one packet per Data, because a burst would fill the
        // queue at once.
        self.allowed += 1.0;
        // The latest round trips decide, because growth must stop before a whole round trip shows
        // the queue.
        if path.is_queue(path.rtt_recent_ns) {
            if self.slow_start {
                self.leave_slow_start(path.now_ns);
                // The minimum so far may include the queues of other flows (as in BBR).
                self.begin_probe(path, 0);
            }
            return;
        }
        // A window that is not used is no evidence that the path carries more.
        if !limited {
            return;
        }
        if self.slow_start {
            // A quarter of the growth is the conservative slow start of HyStart++ (RFC 9406, 4.2).
            let growth = if path.rtt_recent_ns > path.rtt_min_ns + slow_start_ns(path) { 0.25 } else { 1.0 };
            self.window = (self.window + growth).min(self.window_max);
            return;
        }
        // With this increase, AIMD with a decrease by BETA is as fast as Reno (RFC 9438, 4.3).
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / self.window;
        // The first Data of the reduced window arrives one round trip after the decrease.
        let seconds = path.now_ns.saturating_sub(self.decreased_at_ns + path.rtt_min_ns) as f64 / 1e9;
        let target = self.curve(seconds).max(self.reno);
        if target > self.window {
            // The window grows at most by half within one round trip (RFC 9438, 4.2).
            let step = (target.min(1.5 * self.window) - self.window) / self.window;
            self.window = (self.window + step).min(self.window_max);
        }
    }

    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool {
        let kept = match signal {
            Signal::Loss if path.loss <= LOSS_MAX => path.share_without_queue().clamp(BETA, 1.0),
            Signal::Loss => BETA,
            Signal::Mark => BETA_MARK,
            Signal::Queue if !self.may_answer_queue(path) => 1.0,
            Signal::Queue => {
                self.queue_answers += 1;
                self.queue_rtt_ns = path.rtt_round_ns;
                let empty = path.rtt_min_ns as f64 / path.rtt_round_ns as f64;
                // A standing queue reduces the window at least as much as a loss does.
                (QUEUE_SHARE * empty).clamp(QUEUE_SHARE_MIN, BETA)
            }
        };
        // Without a reaction, later signals of this round trip must still be reported.
        if kept == 1.0 {
            return false;
        }
        // If the window did not reach the last plateau, other flows need a share, so the new
        // plateau is lower (RFC 9438, 4.7).
        let fast_convergence = if self.window < self.plateau { (1.0 + BETA) / 2.0 } else { 1.0 };
        if std::mem::take(&mut self.slow_start) {
            self.begin_probe(path, 0);
        }
        self.plateau = self.window * fast_convergence;
        self.window = (self.window * kept).max(WINDOW_MIN);
        self.decreased_to = self.window;
        self.reno = self.window;
        self.decreased_at_ns = path.now_ns;
        true
    }
}

/// The increase of round trips up to which slow start keeps its full rate (RFC 9406, 4.2 and 4.3).
fn slow_start_ns(path: &Path) -> u64 {
    (path.rtt_min_ns / 8).clamp(4_000_000, 16_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn path(now_ns: u64, rtt_min_ns: u64, rtt_recent_ns: u64) -> Path {
        Path { now_ns, rtt_min_ns, rtt_recent_ns, rtt_round_ns: rtt_recent_ns, ..Path::default() }
    }

    /// A controller with a window of 100 that is not in slow start.
    fn at_100() -> Cubic {
        Cubic { window: 100.0, plateau: 100.0, reno: 100.0, slow_start: false, ..Cubic::new(1000) }
    }

    #[test]
    fn slow_start_slows_with_a_growing_queue() {
        let mut cubic = Cubic::new(1000);
        (0..90).for_each(|_| cubic.on_data(&path(1, 10 * MS, 10 * MS), true));
        assert_eq!(cubic.window(), 100);
        (0..100).for_each(|_| cubic.on_data(&path(1, 10 * MS, 15 * MS), true));
        assert_eq!(cubic.window(), 125, "a quarter as fast");
        cubic.on_data(&path(MS, 10 * MS, 36 * MS), true);
        assert_eq!(cubic.window(), 31, "half of what is left, to see the path without queue");
        (0..100).for_each(|_| cubic.on_data(&path(300 * MS, 10 * MS, 36 * MS), true));
        assert_eq!(cubic.window(), 62, "no growth into a standing queue");
    }

    #[test]
    fn a_standing_queue_lowers_the_window_twice() {
        let mut cubic = at_100();
        let queue = path(1, 40 * MS, 72 * MS);
        assert!(cubic.on_congestion(&queue, Signal::Queue));
        assert_eq!(cubic.window(), 50);
        assert!(cubic.on_congestion(&queue, Signal::Queue));
        assert!(!cubic.on_congestion(&queue, Signal::Queue), "it stays: the path has become longer");
        assert_eq!(cubic.window(), 25);
        assert!(cubic.on_congestion(&path(1, 40 * MS, 66 * MS), Signal::Queue), "it falls");
        cubic.on_data(&path(2, 40 * MS, 40 * MS), false);
        assert!(cubic.on_congestion(&queue, Signal::Queue), "a new one");
    }

    #[test]
    fn cubic_probes_a_stale_minimum_rtt() {
        let data = |cubic: &mut Cubic, now_ms: u64, rtt_min_ms: u64, rtt_ms: u64| {
            let sample = super::super::Sample { rtt_ns: Some(rtt_ms * MS), ..Default::default() };
            cubic.on_data(&Path { sample, ..path(now_ms * MS, rtt_min_ms * MS, rtt_ms * MS) }, false);
        };
        let mut cubic = at_100();
        for now_ms in [1, 4_000, 8_000, 12_000] {
            data(&mut cubic, now_ms, 40, 42);
        }
        data(&mut cubic, 17_000, 40, 43);
        assert_eq!(cubic.window(), 100);
        data(&mut cubic, 17_001, 40, 43);
        assert_eq!(cubic.window(), 50);
        data(&mut cubic, 17_200, 30, 31);
        data(&mut cubic, 17_201, 30, 31);
        assert_eq!(cubic.window(), 51, "it comes back by a packet each Data, not in a burst");
        (0..100).for_each(|_| data(&mut cubic, 17_202, 30, 31));
        assert_eq!(cubic.window(), 100);
        data(&mut cubic, 18_202, 30, 31);
        assert_eq!(cubic.window(), 50, "a lesser round trip was found, so there may be lesser ones still");
        data(&mut cubic, 18_402, 30, 31);
        data(&mut cubic, 20_000, 30, 31);
        assert_eq!(cubic.window(), 52, "and now there is none");
    }

    #[test]
    fn cubic_recovers_its_window_after_a_mark() {
        // A round trip so long that the curve, not the comparison with AIMD, decides.
        let at = |now_ns| path(now_ns, 400 * MS, 400 * MS);
        let mut cubic = at_100();
        cubic.on_congestion(&at(0), Signal::Mark);
        assert_eq!(cubic.window(), 85);
        // K = cbrt(100 * 0.15 / 0.4) = 3.3 s, counted from a round trip after the decrease.
        for step in 0..370 {
            (0..2).for_each(|_| cubic.on_data(&at(step * 10 * MS), true));
        }
        assert!((97..=101).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn cubic_ignores_loss_without_a_queue() {
        let mut cubic = at_100();
        cubic.on_congestion(&path(0, 10 * MS, 12 * MS), Signal::Loss);
        assert_eq!(cubic.window(), 100);
        cubic.on_congestion(&path(0, 10 * MS, 15 * MS), Signal::Loss);
        assert_eq!(cubic.window(), 83);
        cubic.on_congestion(&path(0, 10 * MS, 100 * MS), Signal::Loss);
        assert_eq!(cubic.window(), 58);
    }

    #[test]
    fn heavy_loss_is_congestion_without_a_queue() {
        let mut cubic = Cubic::new(1000);
        let lossy = Path { loss: LOSS_MAX + 0.01, ..path(0, 10 * MS, 10 * MS) };
        for _ in 0..20 {
            cubic.on_congestion(&lossy, Signal::Loss);
        }
        assert_eq!(cubic.window(), WINDOW_MIN as usize);
    }
}

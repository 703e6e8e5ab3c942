//! CUBIC (RFC 9438), with three changes for named data, where one window may draw on caches and
//! producers at different distances, and where many paths have no loss at all.
//!
//! - Growth stops where the queue that the window builds costs a fixed delay, and a queue that
//!   stands so long for a whole round trip is congestion ([`Signal::Queue`]): the window falls to a
//!   little less than what the path holds without it, so that all who share the queue see it empty.
//!   On a path without loss, such as a Unix socket, nothing else would ever stop it. Slow start
//!   slows down and ends by delay, too, as in HyStart++ (RFC 9406).
//! - Who comes while a queue stands takes it for a part of the path. So, as BBR does, the window is
//!   halved for a moment when slow start ends, and whenever no Data has come without waiting for
//!   five seconds.
//! - A loss without a queue and without marks is taken for a bad link: the window falls to what the
//!   path holds without its queue, not by a fixed factor. A router's mark always counts in full,
//!   and so does loss beyond what a bad link explains.

use super::{CongestionControl, LOSS_MAX, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// What remains of the window after congestion (RFC 9438, 4.6).
const BETA: f64 = 0.7;

/// What remains after a mark: routers mark short queues, so less will do (RFC 8511).
const BETA_MARK: f64 = 0.85;

/// Scale of the cubic curve, packets per second cubed (RFC 9438, 5).
const C: f64 = 0.4;

/// What a standing queue that no router marked leaves of the window: a tenth less than the path
/// holds without it, so that it is empty for a moment and the least round trip is seen anew. At
/// least half.
const QUEUE_SHARE: f64 = 0.9;
const QUEUE_SHARE_MIN: f64 = 0.5;

/// How often one standing queue is answered though that does not make it shorter: what is lost
/// counts as outstanding until it is found, so the first answer may leave more than the path holds.
const QUEUE_ANSWERS: u32 = 2;

/// What exceeds the least round trip by this, or by a sixteenth of it, has waited in a queue.
const EMPTY_NS: u64 = 2_000_000;

/// If no Data came without waiting for so long, the least round trip is looked for. Less than the
/// time for which one is remembered.
const PROBE_EVERY_NS: u64 = 5_000_000_000;

/// For how long the window is small then, so that all who look see each other's room, or two round
/// trips; and what is left of it.
const PROBE_NS: u64 = 200_000_000;
const PROBE_SHARE: f64 = 0.5;

/// How long after a probe that found a lesser round trip the next one is: what was found may not be
/// the least.
const PROBE_AGAIN_NS: u64 = 1_000_000_000;

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cubic {
    window: f64,
    window_max: f64,
    slow_start: bool,
    /// The window before the last decrease: where the curve is flat.
    plateau: f64,
    /// The window after it: where the curve begins.
    decreased_to: f64,
    /// What AIMD with the same decrease would have reached (RFC 9438, 4.3).
    reno: f64,
    decreased_at_ns: u64,
    /// How often the queue that stands has been answered, and the round trip of the last time.
    queue_answers: u32,
    queue_rtt_ns: u64,
    /// When a round trip without queue was seen last; 0: never yet.
    empty_at_ns: u64,
    /// Until when the window is small to see one.
    probe_until_ns: Option<u64>,
    /// The least round trip when that began.
    probed_rtt_ns: u64,
    /// The last look found a lesser one.
    probe_again: bool,
    /// What of the window may be used: less than it during and after a look.
    allowed: f64,
}

impl Cubic {
    /// A window of at most `window_max` packets.
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

    /// What has come tells of a window half as great as this one.
    fn leave_slow_start(&mut self, now_ns: u64) {
        self.slow_start = false;
        self.window = (self.window / 2.0).max(WINDOW_MIN);
        self.plateau = self.window;
        self.decreased_to = self.window;
        self.reno = self.window;
        self.decreased_at_ns = now_ns;
    }

    /// Looks for the least round trip when it is time to.
    fn probe(&mut self, path: &Path) {
        let empty_ns = path.rtt_min_ns + EMPTY_NS.max(path.rtt_min_ns / 16);
        let is_empty = path.sample.rtt_ns.is_some_and(|rtt_ns| rtt_ns <= empty_ns);
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
                let rest_ns = if self.probe_again { PROBE_EVERY_NS - PROBE_AGAIN_NS } else { 0 };
                self.empty_at_ns = path.now_ns.saturating_sub(rest_ns);
            }
            _ => {}
        }
    }

    fn begin_probe(&mut self, path: &Path, least_ns: u64) {
        self.allowed = self.window * PROBE_SHARE;
        self.probe_until_ns = Some(path.now_ns + least_ns.max(2 * path.rtt_smoothed_ns));
        self.probed_rtt_ns = path.rtt_min_ns;
    }

    /// A queue that stays although it was answered is another's, or the path has become longer.
    fn may_answer_queue(&self, path: &Path) -> bool {
        self.queue_answers < QUEUE_ANSWERS || path.rtt_round_ns < self.queue_rtt_ns / 16 * 15
    }

    /// The curve's window `seconds` after the last decrease (RFC 9438, 4.2).
    fn curve(&self, seconds: f64) -> f64 {
        let k = ((self.plateau - self.decreased_to).max(0.0) / C).cbrt();
        C * (seconds - k).powi(3) + self.plateau
    }
}

impl CongestionControl for Cubic {
    fn window(&self) -> usize {
        self.window.min(self.allowed).max(WINDOW_MIN) as usize
    }

    fn begin_with(&mut self, packets: usize) {
        self.window = (packets as f64).clamp(WINDOW_MIN, self.window_max);
        self.plateau = self.window;
        self.decreased_to = self.window;
        self.reno = self.window;
    }

    fn on_data(&mut self, path: &Path, limited: bool) {
        if !path.has_queue() {
            self.queue_answers = 0;
        }
        self.probe(path);
        if self.probe_until_ns.is_some() {
            return;
        }
        // The rest of the window comes back by a packet each Data: a burst would fill the queue at
        // once.
        self.allowed += 1.0;
        if path.is_queue(path.rtt_recent_ns) {
            if self.slow_start {
                self.leave_slow_start(path.now_ns);
                self.begin_probe(path, 0);
            }
            return;
        }
        if !limited {
            return;
        }
        if self.slow_start {
            let growth = if path.rtt_recent_ns > path.rtt_min_ns + slow_start_ns(path) { 0.25 } else { 1.0 };
            self.window = (self.window + growth).min(self.window_max);
            return;
        }
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / self.window;
        let seconds = path.now_ns.saturating_sub(self.decreased_at_ns + path.rtt_min_ns) as f64 / 1e9;
        let target = self.curve(seconds).max(self.reno);
        if target > self.window {
            // No more than half as much again within one round trip (RFC 9438, 4.4).
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
                (QUEUE_SHARE * empty).clamp(QUEUE_SHARE_MIN, BETA)
            }
        };
        if kept == 1.0 {
            return false;
        }
        // Two decreases in a row from ever lower windows: others want a share, so aim lower (RFC
        // 9438, 4.7).
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

/// How much longer round trips may be for a slow start of full speed (RFC 9406, 4.2 and 4.3).
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

    /// One that has a window of 100 and is not in slow start.
    fn at_100() -> Cubic {
        Cubic { window: 100.0, plateau: 100.0, reno: 100.0, slow_start: false, ..Cubic::new(1000) }
    }

    #[test]
    fn slow_start_doubles_slows_down_as_a_queue_grows_and_takes_half_back_where_it_stands() {
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
    fn a_queue_that_stands_is_answered_so_that_it_empties_and_not_for_ever() {
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
    fn the_window_is_halved_for_a_moment_when_no_data_came_without_waiting_for_five_seconds() {
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
    fn a_mark_costs_a_fixed_share_and_the_window_comes_back_to_where_it_was() {
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
    fn a_loss_without_a_queue_leaves_the_window_and_one_with_a_queue_does_not() {
        let mut cubic = at_100();
        cubic.on_congestion(&path(0, 10 * MS, 12 * MS), Signal::Loss);
        assert_eq!(cubic.window(), 100);
        cubic.on_congestion(&path(0, 10 * MS, 15 * MS), Signal::Loss);
        assert_eq!(cubic.window(), 83);
        cubic.on_congestion(&path(0, 10 * MS, 100 * MS), Signal::Loss);
        assert_eq!(cubic.window(), 58);
    }

    #[test]
    fn heavy_loss_is_congestion_even_without_a_queue() {
        let mut cubic = Cubic::new(1000);
        let lossy = Path { loss: LOSS_MAX + 0.01, ..path(0, 10 * MS, 10 * MS) };
        for _ in 0..20 {
            cubic.on_congestion(&lossy, Signal::Loss);
        }
        assert_eq!(cubic.window(), WINDOW_MIN as usize);
    }
}

//! CUBIC (RFC 9438), with two changes for named data, where one window may draw on caches and producers at
//! different distances, and where many paths have no loss at all.
//!
//! - Growth stops where the queue that the window builds costs a fixed delay. On a path without loss, such as a
//!   Unix socket, nothing else would ever stop it.
//! - A loss without a queue and without marks is taken for a bad link: the window falls to what the path holds
//!   without its queue, not by a fixed factor. A router's mark always counts in full, and so does loss beyond
//!   what a bad link explains.

use super::{CongestionControl, LOSS_MAX, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// What remains of the window after congestion (RFC 9438, 4.6).
const BETA: f64 = 0.7;

/// Scale of the cubic curve, packets per second cubed (RFC 9438, 5).
const C: f64 = 0.4;

/// The standing queue at which growth stops: this long, or a quarter of the empty path's round trip. More than the
/// time for which a busy host keeps a process waiting, which looks the same.
const QUEUE_NS: u64 = 25_000_000;

/// The controller.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    window: f64,
    window_max: f64,
    slow_start: bool,
    /// The window before the last decrease: where the curve is flat.
    plateau: f64,
    /// What AIMD with the same decrease would have reached (RFC 9438, 4.3).
    reno: f64,
    decreased_at_ns: u64,
}

impl Cubic {
    /// A window of at most `window_max` packets.
    pub fn new(window_max: usize) -> Self {
        let window_max = (window_max as f64).max(WINDOW_MIN);
        let window = WINDOW_INITIAL.min(window_max);
        Cubic { window, window_max, slow_start: true, plateau: window, reno: window, decreased_at_ns: 0 }
    }

    fn leave_slow_start(&mut self, now_ns: u64) {
        self.slow_start = false;
        self.plateau = self.window;
        self.reno = self.window;
        self.decreased_at_ns = now_ns;
    }

    /// The curve's window `seconds` after the last decrease (RFC 9438, 4.2).
    fn curve(&self, seconds: f64) -> f64 {
        let k = (self.plateau * (1.0 - BETA) / C).cbrt();
        C * (seconds - k).powi(3) + self.plateau
    }
}

impl CongestionControl for Cubic {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn on_data(&mut self, path: &Path, limited: bool) {
        if has_queue(path) {
            if self.slow_start {
                self.leave_slow_start(path.now_ns);
            }
            return;
        }
        if !limited {
            return;
        }
        if self.slow_start {
            self.window = (self.window + 1.0).min(self.window_max);
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

    fn on_congestion(&mut self, path: &Path, signal: Signal) {
        let kept = match signal {
            Signal::Loss if path.loss <= LOSS_MAX => path.share_without_queue().clamp(BETA, 1.0),
            Signal::Loss | Signal::Mark => BETA,
        };
        if kept == 1.0 {
            return;
        }
        // Two decreases in a row from ever lower windows: others want a share, so aim lower (RFC 9438, 4.7).
        let fast_convergence = if self.window < self.plateau { (1.0 + BETA) / 2.0 } else { 1.0 };
        self.slow_start = false;
        self.plateau = self.window * fast_convergence;
        self.window = (self.window * kept).max(WINDOW_MIN);
        self.reno = self.window;
        self.decreased_at_ns = path.now_ns;
    }
}

/// Whether packets wait longer in queues than the controller allows its own window to make them.
fn has_queue(path: &Path) -> bool {
    path.rtt_recent_ns.saturating_sub(path.rtt_min_ns) > QUEUE_NS.max(path.rtt_min_ns / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn path(now_ns: u64, rtt_min_ns: u64, rtt_recent_ns: u64) -> Path {
        Path { now_ns, rtt_min_ns, rtt_recent_ns, rtt_round_ns: rtt_recent_ns, ..Path::default() }
    }

    #[test]
    fn slow_start_doubles_until_there_is_a_queue() {
        let mut cubic = Cubic::new(1000);
        for _ in 0..10 {
            cubic.on_data(&path(0, 10 * MS, 10 * MS), true);
        }
        assert_eq!(cubic.window(), 20);
        cubic.on_data(&path(MS, 10 * MS, 36 * MS), true);
        for _ in 0..100 {
            cubic.on_data(&path(2 * MS, 10 * MS, 36 * MS), true);
        }
        assert_eq!(cubic.window(), 20, "no growth into a standing queue");
    }

    #[test]
    fn a_mark_costs_a_fixed_share_and_the_window_comes_back_to_where_it_was() {
        // A round trip so long that the curve, not the comparison with AIMD, decides.
        let at = |now_ns| path(now_ns, 400 * MS, 400 * MS);
        let mut cubic = Cubic::new(1000);
        (0..90).for_each(|_| cubic.on_data(&at(0), true));
        assert_eq!(cubic.window(), 100);
        cubic.on_congestion(&at(0), Signal::Mark);
        assert_eq!(cubic.window(), 70);
        // K = cbrt(100 * 0.3 / 0.4) = 4.2 s, counted from a round trip after the decrease.
        for step in 0..460 {
            (0..2).for_each(|_| cubic.on_data(&at(step * 10 * MS), true));
        }
        assert!((97..=101).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn a_loss_without_a_queue_leaves_the_window_and_one_with_a_queue_does_not() {
        let mut cubic = Cubic::new(1000);
        (0..90).for_each(|_| cubic.on_data(&path(0, 10 * MS, 10 * MS), true));
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

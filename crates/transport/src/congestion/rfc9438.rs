//! CUBIC (RFC 9438) with HyStart++ (RFC 9406), as for TCP: every loss and every mark is congestion.
//! A segment is a piece.

use super::hystart::HyStart;
use super::rule::{CongestionControl, Path, Signal, WINDOW_INITIAL, WINDOW_MIN, window_pace};

/// The factor of the window after congestion (RFC 9438, 4.6).
const BETA: f64 = 0.7;

/// Scale of the cubic curve, packets per second cubed (RFC 9438, 5).
const C: f64 = 0.4;

/// Packets per round trip with which AIMD with this decrease is as fast as Reno (RFC 9438, 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Growth within one round trip, at most (RFC 9438, 4.2).
const STEP_MAX: f64 = 1.5;

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rfc9438 {
    window: f64,
    window_max: f64,
    /// Below it the window grows as in slow start; infinite before any congestion.
    slow_start_max: f64,
    hystart: HyStart,
    /// The window before the last decrease: the flat part of the curve.
    plateau: f64,
    /// The window at the start of the curve, and that before it.
    epoch_window: f64,
    prior_window: f64,
    /// The window that AIMD would have reached (RFC 9438, 4.3).
    reno: f64,
    epoch_at_ns: u64,
    data_at_ns: u64,
    rtt_ns: u64,
}

impl Rfc9438 {
    /// Creates a controller with a window of at most `window_max` packets.
    pub(super) fn new(window_max: usize) -> Self {
        let window_max = (window_max as f64).max(WINDOW_MIN);
        let window = WINDOW_INITIAL.min(window_max);
        Rfc9438 {
            window,
            window_max,
            slow_start_max: f64::INFINITY,
            hystart: HyStart::default(),
            plateau: 0.0,
            epoch_window: window,
            prior_window: window,
            reno: window,
            epoch_at_ns: 0,
            data_at_ns: 0,
            rtt_ns: 0,
        }
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.slow_start_max
    }

    fn begin_epoch(&mut self, now_ns: u64) {
        self.epoch_window = self.window;
        self.reno = self.window;
        self.epoch_at_ns = now_ns;
    }

    /// The window of the curve `seconds` after the start (RFC 9438, 4.2).
    fn curve(&self, seconds: f64) -> f64 {
        let k = ((self.plateau - self.epoch_window).max(0.0) / C).cbrt();
        C * (seconds - k).powi(3) + self.plateau
    }

    fn grow(&mut self, path: &Path) {
        // Reno's own growth from the window of the last decrease on (RFC 9438, 4.3).
        let alpha = if self.reno < self.prior_window { ALPHA } else { 1.0 };
        self.reno += alpha / self.window;
        let seconds = path.now_ns.saturating_sub(self.epoch_at_ns) as f64 / 1e9;
        let target = self.curve(seconds + path.rtt_smoothed_ns as f64 / 1e9);
        let target = target.clamp(self.window, STEP_MAX * self.window);
        if self.curve(seconds) < self.reno {
            self.window = self.window.max(self.reno);
        } else {
            self.window += (target - self.window) / self.window;
        }
    }
}

impl CongestionControl for Rfc9438 {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn pace(&self) -> Option<f64> {
        window_pace(self.window, self.in_slow_start(), self.rtt_ns)
    }

    fn begin_with(&mut self, packets: usize) {
        self.window = (packets as f64).clamp(WINDOW_MIN, self.window_max);
    }

    fn on_data(&mut self, path: &Path, limited: bool) {
        self.rtt_ns = path.rtt_smoothed_ns;
        let since_ns = path.now_ns.saturating_sub(std::mem::replace(&mut self.data_at_ns, path.now_ns));
        let in_slow_start = self.in_slow_start();
        if in_slow_start && self.hystart.on_data(path) {
            // The curve begins flat, because there was no congestion (RFC 9438, 4.10).
            self.slow_start_max = self.window;
            self.plateau = self.window;
            self.prior_window = self.window;
            self.begin_epoch(path.now_ns);
            return;
        }
        if !limited {
            // Time in which the window did not limit the rate is no part of the curve (RFC 9438,
            // 5.8).
            self.epoch_at_ns = (self.epoch_at_ns + since_ns).min(path.now_ns);
            return;
        }
        if in_slow_start {
            self.window += self.hystart.growth();
            if !self.in_slow_start() {
                self.begin_epoch(path.now_ns);
            }
        } else {
            self.grow(path);
        }
        self.window = self.window.min(self.window_max);
    }

    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool {
        if signal == Signal::Queue {
            return false;
        }
        // If the window did not reach the last plateau, other flows need a share, so the new
        // plateau is lower (RFC 9438, 4.7).
        let is_lower = self.window < self.plateau;
        self.plateau = self.window * if is_lower { (1.0 + BETA) / 2.0 } else { 1.0 };
        self.prior_window = self.window;
        self.window = (self.window * BETA).max(WINDOW_MIN);
        self.slow_start_max = self.window;
        self.begin_epoch(path.now_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn path(now_ns: u64, rtt_ns: u64) -> Path {
        Path { now_ns, rtt_smoothed_ns: rtt_ns, ..Path::default() }
    }

    /// A controller after a decrease from 1,000 to 700 packets at time 0.
    fn after_decrease() -> Rfc9438 {
        let mut cubic = Rfc9438 { window: 1000.0, ..Rfc9438::new(100_000) };
        assert!(cubic.on_congestion(&path(0, 100 * MS), Signal::Loss));
        cubic
    }

    /// Data of full windows arrive until `seconds`.
    fn run(cubic: &mut Rfc9438, seconds: f64) {
        let mut now_ns = 0.0;
        while now_ns < seconds * 1e9 {
            cubic.on_data(&path(now_ns as u64, 100 * MS), true);
            now_ns += 1e8 / cubic.window;
        }
    }

    #[test]
    fn cubic_returns_to_its_plateau_after_k() {
        let mut cubic = after_decrease();
        assert_eq!(cubic.window(), 700);
        // K = cbrt(300 / 0.4) = 9.09 s.
        run(&mut cubic, 4.5);
        assert!((930..970).contains(&cubic.window()), "concave: {}", cubic.window());
        let mut cubic = after_decrease();
        run(&mut cubic, 9.09);
        assert!((995..=1001).contains(&cubic.window()), "{}", cubic.window());
        let mut cubic = after_decrease();
        run(&mut cubic, 16.0);
        assert!((1120..1150).contains(&cubic.window()), "convex: {}", cubic.window());
    }

    #[test]
    fn cubic_converges_fast_below_the_plateau() {
        let mut cubic = after_decrease();
        cubic.on_congestion(&path(MS, 100 * MS), Signal::Mark);
        assert!((489.9..490.1).contains(&cubic.window), "{}", cubic.window);
        assert!((594.9..595.1).contains(&cubic.plateau), "{}", cubic.plateau);
    }

    #[test]
    fn small_windows_grow_as_reno() {
        let mut cubic = Rfc9438 { window: 10.0, ..Rfc9438::new(1000) };
        cubic.on_congestion(&path(0, 10 * MS), Signal::Loss);
        let mut now_ns = 0;
        // 20 round trips of 10 ms: the curve has hardly begun.
        for _ in 0..20 {
            for _ in 0..cubic.window() {
                cubic.on_data(&path(now_ns, 10 * MS), true);
            }
            now_ns += 10 * MS;
        }
        // 6 round trips to the window before (0.53 packets each), then a packet in each.
        assert!((20..28).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn an_unused_window_stops_the_curve() {
        let mut cubic = after_decrease();
        for second in 1..60 {
            cubic.on_data(&path(second * 1000 * MS, 100 * MS), false);
        }
        assert_eq!(cubic.window(), 700);
        cubic.on_data(&path(59_001 * MS, 100 * MS), true);
        assert!(cubic.window() < 702, "{}", cubic.window());
    }

    #[test]
    fn cubic_ignores_queues_without_a_signal() {
        let mut cubic = after_decrease();
        assert!(!cubic.on_congestion(&path(MS, 400 * MS), Signal::Queue));
        assert_eq!(cubic.window(), 700);
        (0..20).for_each(|_| _ = cubic.on_congestion(&path(MS, 400 * MS), Signal::Loss));
        assert_eq!(cubic.window(), WINDOW_MIN as usize);
    }
}

//! NB-CC's rule for consumers (NB-Cache, ToN'21; NB-16): each unmarked Data adds one packet to the
//! window, and a mark halves it at most once within a round trip.
//!
//! The window doubles each round trip until a router marks, so the rule requires routers that mark.
//! The paper's routers mark lazily: only when a store is congested and no other interface is left.
//! The paper does not treat loss. Here a loss halves the window like a mark, because a router that
//! drops packets gives no other signal.

use super::rule::{CongestionControl, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct NbCc {
    window: f64,
    window_max: f64,
}

impl NbCc {
    /// Creates a controller with a window of at most `window_max` packets.
    pub(super) fn new(window_max: usize) -> Self {
        let window_max = (window_max as f64).max(WINDOW_MIN);
        NbCc { window: WINDOW_INITIAL.min(window_max), window_max }
    }
}

impl CongestionControl for NbCc {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn begin_with(&mut self, packets: usize) {
        self.window = (packets as f64).clamp(WINDOW_MIN, self.window_max);
    }

    fn on_data(&mut self, _: &Path, limited: bool) {
        // A window that is not used is no evidence that the path carries more.
        if limited {
            self.window = (self.window + 1.0).min(self.window_max);
        }
    }

    fn on_congestion(&mut self, _: &Path, signal: Signal) -> bool {
        // With sources at several distances, a long round trip is no evidence of a queue.
        if signal == Signal::Queue {
            return false;
        }
        self.window = (self.window / 2.0).max(WINDOW_MIN);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nbcc_adds_one_and_halves_on_marks() {
        let mut nbcc = NbCc::new(1000);
        (0..90).for_each(|_| nbcc.on_data(&Path::default(), true));
        assert_eq!(nbcc.window(), 100);
        nbcc.on_congestion(&Path::default(), Signal::Mark);
        assert_eq!(nbcc.window(), 50);
        (0..50).for_each(|_| nbcc.on_data(&Path::default(), true));
        assert_eq!(nbcc.window(), 100, "growth does not slow down after a mark");
        nbcc.on_data(&Path::default(), false);
        assert_eq!(nbcc.window(), 100, "a window that is not used does not grow");
    }
}

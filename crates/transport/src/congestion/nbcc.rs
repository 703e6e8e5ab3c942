//! NB-CC's rule for consumers (NB-Cache, ToN'21; NB-16): each unmarked Data adds one packet to the
//! window, a mark halves it, and at most once within a round trip.
//!
//! The window doubles each round trip until a router speaks, so the rule wants routers that mark.
//! The paper's do so lazily: only when a store is congested and no other interface is left. The
//! paper says nothing of loss; here loss halves the window as a mark does, because a router that
//! drops has no other voice.

use super::{CongestionControl, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct NbCc {
    window: f64,
    window_max: f64,
}

impl NbCc {
    /// A window of at most `window_max` packets.
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
        if limited {
            self.window = (self.window + 1.0).min(self.window_max);
        }
    }

    fn on_congestion(&mut self, _: &Path, signal: Signal) -> bool {
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
    fn each_data_adds_one_and_a_mark_halves() {
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

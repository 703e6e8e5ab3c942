//! The share of lost packets for congestion control.

/// Number of packets over which the share of lost ones is averaged.
const MEMORY: f64 = 64.0;

/// The losses since the last decrease of the window. Earlier losses caused that decrease.
#[derive(Debug, Default)]
pub(super) struct Losses {
    share: f64,
    /// If the Interest of a packet was sent before this time, its signal belongs to a round trip
    /// for which the window was already reduced.
    decreased_at_ns: u64,
}

impl Losses {
    /// Returns the share of lost packets, averaged over the last [`MEMORY`] packets.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// Counts a received packet.
    pub(super) fn count_data(&mut self) {
        // An exponential average needs no list of packets.
        self.share -= self.share / MEMORY;
    }

    /// Counts a lost packet.
    pub(super) fn count_loss(&mut self) {
        self.share += (1.0 - self.share) / MEMORY;
    }

    /// Returns true if a signal is new. The Interest of its packet was sent at `sent_ns`.
    pub(super) fn is_news(&self, sent_ns: u64) -> bool {
        sent_ns >= self.decreased_at_ns
    }

    /// Resets the losses after a decrease of the window.
    pub(super) fn decreased(&mut self, now_ns: u64) {
        // The same losses must not reduce the window a second time.
        *self = Losses { share: 0.0, decreased_at_ns: now_ns };
    }
}

//! The waits between the attempts to connect of a permanent face that this end opens.

use crate::faces::Handler;
use crate::kind::ReadContext;
use crate::options::IoOptions;

/// The wait before the next attempt to connect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reconnect {
    wait_ns: u64,
}

impl Reconnect {
    /// Returns the wait after another failure: twice the last one, within the limits.
    pub(crate) fn next_wait_ns(&mut self, options: &IoOptions) -> u64 {
        let tcp = &options.tcp;
        // The value is 0 at first, which the lower limit replaces.
        self.wait_ns = (self.wait_ns * 2).clamp(tcp.reconnect_ns_min, tcp.reconnect_ns_max);
        self.wait_ns
    }

    /// Sets the timer for the next attempt.
    pub(crate) fn rest<H: Handler>(&mut self, turn: &mut ReadContext<'_, H>) {
        let wait_ns = self.next_wait_ns(turn.options());
        turn.set_timer(Some(turn.now_ns().saturating_add(wait_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit() {
        let options = IoOptions::default();
        let mut reconnect = Reconnect::default();
        let waits: Vec<u64> = (0..10).map(|_| reconnect.next_wait_ns(&options) / 1_000_000).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    }
}

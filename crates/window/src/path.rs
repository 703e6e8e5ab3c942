//! Measurements of the path: round trips, standing queues, losses.

use crate::rto::Rto;

/// Number of latest round trips in the minimum that detects a growing queue: more than one, so that
/// jitter is not taken for a queue.
const RECENT: usize = 16;

/// Time for which a minimum round trip is remembered, because paths change.
const LEAST_NS: u64 = 10_000_000_000;

/// Maximum delay of a standing queue that consumers may build. If a quarter of the empty path's
/// round trip is longer, that is the maximum. The value exceeds the time for which a busy host
/// delays a task, because such a delay looks like a queue.
const QUEUE_NS: u64 = 25_000_000;

/// Number of latest segments in the share of lost ones.
const LOSS_MEMORY: u32 = 256;

/// A share of 100 %, in the unit of [`Path::loss`].
const ALL: u32 = 1 << 16;

/// Measurements so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    pub(crate) rto: Rto,
    /// The minimum of the current half of [`LEAST_NS`], and of the previous half; 0: none.
    least_ns: u64,
    least_before_ns: u64,
    turns_at_ns: u64,
    recent_ns: [u64; RECENT],
    measured: usize,
    /// The minimum of the current round, and of the previous one.
    round_ns: u64,
    round_before_ns: u64,
    loss: u32,
}

impl Path {
    /// Adds a round trip of a segment that was requested once. `is_new_round`: all segments that
    /// were outstanding at the start of this round were answered or lost.
    pub(crate) fn measured(&mut self, rtt_ns: u64, is_new_round: bool, now_ns: u64) {
        let rtt_ns = rtt_ns.clamp(1, Rto::MAX_NS);
        self.rto.measured(rtt_ns);
        if self.least_ns == 0 || now_ns >= self.turns_at_ns {
            self.least_before_ns = if self.least_ns == 0 { rtt_ns } else { self.least_ns };
            self.least_ns = rtt_ns;
            self.turns_at_ns = now_ns.saturating_add(LEAST_NS / 2);
        }
        self.least_ns = self.least_ns.min(rtt_ns);
        self.recent_ns[self.measured % RECENT] = rtt_ns;
        self.measured = self.measured.wrapping_add(1);
        if is_new_round || self.round_ns == 0 {
            self.round_before_ns = if self.round_ns == 0 { rtt_ns } else { self.round_ns };
            self.round_ns = rtt_ns;
        }
        self.round_ns = self.round_ns.min(rtt_ns);
    }

    pub(crate) fn count_data(&mut self) {
        self.loss -= self.loss / LOSS_MEMORY;
    }

    pub(crate) fn was_lost(&mut self) {
        self.loss += (ALL - self.loss) / LOSS_MEMORY;
    }

    /// Records that a segment counted as lost arrived late.
    pub(crate) fn was_late(&mut self) {
        self.loss = self.loss.saturating_sub(ALL / LOSS_MEMORY);
    }

    /// Resets the share of losses after the window was reduced for them.
    pub(crate) fn forget_loss(&mut self) {
        self.loss = 0;
    }

    /// Returns true if more than this percentage of the latest segments was lost.
    pub(crate) fn loses_more_than(&self, percent: u32) -> bool {
        self.loss > ALL / 100 * percent
    }

    /// The minimum round trip, which is the path without queues as far as known; 0 without a
    /// measurement.
    pub(crate) fn least_ns(&self) -> u64 {
        self.least_ns.min(self.least_before_ns)
    }

    /// The minimum of the latest round trips.
    pub(crate) fn recent_ns(&self) -> u64 {
        let known = self.measured.min(RECENT);
        self.recent_ns[..known].iter().copied().min().unwrap_or(0)
    }

    /// The minimum of the last full round. The excess over [`Path::least_ns`] is a standing queue,
    /// and not a host that was busy for a moment.
    pub(crate) fn last_round_ns(&self) -> u64 {
        self.round_before_ns
    }

    /// Returns true if a round trip of `rtt_ns` includes more queueing than consumers may cause.
    pub(crate) fn is_queue(&self, rtt_ns: u64) -> bool {
        rtt_ns.saturating_sub(self.least_ns()) > QUEUE_NS.max(self.least_ns() / 4)
    }

    /// Returns true if all Data of the last full round waited in such a queue.
    pub(crate) fn has_queue(&self) -> bool {
        self.is_queue(self.last_round_ns())
    }
}

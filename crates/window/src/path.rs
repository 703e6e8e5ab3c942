//! What answers tell of the path: how long they take, whether a queue stands, how many are lost.

use crate::rto::Rto;

/// Of how many latest round trips the least tells a queue as soon as it grows: more than one, so
/// that jitter is not taken for a queue.
const RECENT: usize = 16;

/// How long a least round trip is remembered: paths change.
const LEAST_NS: u64 = 10_000_000_000;

/// How long a standing queue may be that consumers make: this, or a quarter of the empty path's
/// round trip. More than the time for which a busy host keeps a task waiting, which looks the same.
const QUEUE_NS: u64 = 25_000_000;

/// Of how many latest segments the share of lost ones is.
const LOSS_MEMORY: u32 = 256;

/// All of them, in the unit of [`Path::loss`].
const ALL: u32 = 1 << 16;

/// What was measured so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    pub(crate) rto: Rto,
    /// The least of the half of [`LEAST_NS`] under way, and of the one before it; 0: none.
    least_ns: u64,
    least_before_ns: u64,
    turns_at_ns: u64,
    recent_ns: [u64; RECENT],
    measured: usize,
    /// The least of the round under way, and of the one before it.
    round_ns: u64,
    round_before_ns: u64,
    loss: u32,
}

impl Path {
    /// Takes a round trip of a segment that was asked for once; `is_new_round` if all that were
    /// outstanding when this round began have been answered or lost.
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

    pub(crate) fn has_come(&mut self) {
        self.loss -= self.loss / LOSS_MEMORY;
    }

    pub(crate) fn was_lost(&mut self) {
        self.loss += (ALL - self.loss) / LOSS_MEMORY;
    }

    /// What was taken for lost has come late.
    pub(crate) fn was_late(&mut self) {
        self.loss = self.loss.saturating_sub(ALL / LOSS_MEMORY);
    }

    /// Those that were lost have been answered by a smaller window.
    pub(crate) fn forget_loss(&mut self) {
        self.loss = 0;
    }

    /// Whether more than this percentage of the latest segments was lost.
    pub(crate) fn loses_more_than(&self, percent: u32) -> bool {
        self.loss > ALL / 100 * percent
    }

    /// The path without queues, as far as known; 0 if nothing was measured.
    pub(crate) fn least_ns(&self) -> u64 {
        self.least_ns.min(self.least_before_ns)
    }

    /// The least of the latest few round trips.
    pub(crate) fn recent_ns(&self) -> u64 {
        let known = self.measured.min(RECENT);
        self.recent_ns[..known].iter().copied().min().unwrap_or(0)
    }

    /// The least of the last full round: what exceeds [`Path::least_ns`] is a standing queue, and
    /// not a host that was busy for a moment.
    pub(crate) fn last_round_ns(&self) -> u64 {
        self.round_before_ns
    }

    /// Whether Data wait longer than consumers may make them, if their round trip is `rtt_ns`.
    pub(crate) fn is_queue(&self, rtt_ns: u64) -> bool {
        rtt_ns.saturating_sub(self.least_ns()) > QUEUE_NS.max(self.least_ns() / 4)
    }

    /// Whether all Data of the last full round did.
    pub(crate) fn has_queue(&self) -> bool {
        self.is_queue(self.last_round_ns())
    }
}

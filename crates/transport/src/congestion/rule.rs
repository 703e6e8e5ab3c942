//! What every congestion control shares: its interface, and constants.

use std::fmt::Debug;

/// Share of lost packets above which loss means congestion, regardless of the queue.
pub(super) const LOSS_MAX: f64 = 0.15;

/// Maximum delay of a standing queue that consumers may build. If a quarter of the round trip on
/// the empty path is longer, that is the maximum. The value exceeds the time for which a busy host
/// delays a process, because such a delay looks like a queue.
pub(super) const QUEUE_NS: u64 = 25_000_000;

/// The smallest window: one packet to wait for, one in transit.
pub(super) const WINDOW_MIN: f64 = 2.0;

/// The window before any measurement of the path (as in RFC 6928 for TCP).
pub(crate) const WINDOW_INITIAL: f64 = 10.0;

/// Measurements of the path so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    /// The current time.
    pub now_ns: u64,
    /// The minimum round trip of the last seconds: the path without queues, as far as known. 0:
    /// none measured.
    pub rtt_min_ns: u64,
    /// The minimum of the latest round trips, which detects a growing queue at once.
    pub rtt_recent_ns: u64,
    /// The minimum round trip within the last full round trip. The excess over `rtt_min_ns` is a
    /// standing queue, and not a host that was busy for a moment.
    pub rtt_round_ns: u64,
    /// The smoothed round trip.
    pub rtt_smoothed_ns: u64,
    /// Share of the latest packets that were lost, 0 to 1.
    pub loss: f64,
    /// Number of outstanding Interests.
    pub in_flight: usize,
    /// Number of received pieces.
    pub delivered: u64,
    /// Number of pieces that counted as lost.
    pub lost: u64,
    /// The sample of the latest Data. With [`Signal::Loss`], [`Sample::in_flight_before`] and
    /// [`Sample::lost_before`] are those of the lost Interest.
    pub sample: Sample,
}

/// A measurement of the path by one Data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Its round trip; none if it was requested more than once.
    pub rtt_ns: Option<u64>,
    /// Pieces per second received while its Interest was outstanding.
    pub rate: f64,
    /// There were too few requests to fill the path, so the path may carry more than this rate.
    pub starved: bool,
    /// [`Path::delivered`] when its Interest was sent. A round trip ends when this passes the value
    /// at its start.
    pub delivered_before: u64,
    /// [`Path::in_flight`] when its Interest was sent, with it.
    pub in_flight_before: usize,
    /// [`Path::lost`] when its Interest was sent.
    pub lost_before: u64,
    /// The Data came from a cache nearer than the end of the path. All other fields are void.
    pub is_beside_path: bool,
}

impl Path {
    /// Returns true if a round trip of `rtt_ns` includes more queueing than consumers may cause.
    pub(super) fn is_queue(&self, rtt_ns: u64) -> bool {
        rtt_ns.saturating_sub(self.rtt_min_ns) > QUEUE_NS.max(self.rtt_min_ns / 4)
    }

    /// Returns true if there is a standing queue: all Data of the last full round trip waited
    /// longer than consumers may cause.
    pub(crate) fn has_queue(&self) -> bool {
        self.is_queue(self.rtt_round_ns)
    }

    /// The share of the window that equals the path's capacity without its queue. Round trips vary
    /// without any queue, so up to a quarter more counts as none.
    pub(super) fn share_without_queue(&self) -> f64 {
        if 4 * self.rtt_round_ns <= 5 * self.rtt_min_ns {
            // Exactly 1.0, because the controllers compare with it.
            return 1.0;
        }
        1.25 * self.rtt_min_ns as f64 / self.rtt_round_ns as f64
    }
}

/// A signal of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// From a router: a congestion mark, or a Nack for congestion.
    Mark,
    /// A packet was lost, by a full queue or by a bad link.
    Loss,
    /// Data waited too long for a whole round trip (`Path::has_queue`), and no router marked it.
    /// CoDel (RFC 8289) at the queue would mark it; here the consumer detects it.
    Queue,
}

/// Decides the window and optionally the rate.
pub trait CongestionControl: Debug + Send {
    /// Maximum number of outstanding Interests.
    fn window(&self) -> usize;

    /// Maximum number of Interests per second; none: limited by the window only.
    fn pace(&self) -> Option<f64> {
        None
    }

    /// Sets the initial window to `packets`, up to its maximum. Only before the first request.
    fn begin_with(&mut self, _packets: usize) {}

    /// Data now also come from a source that is farther than all before, such as the producer
    /// behind a cache. The path to it is another one, so measurements of the former path are void.
    /// `rtt_min_ns` is the minimum round trip of the farther source.
    fn on_farther_source(&mut self, _rtt_min_ns: u64, _now_ns: u64) {}

    /// Processes a received Data. `limited`: the window was full, so the window limits the rate.
    fn on_data(&mut self, path: &Path, limited: bool);

    /// Reacts to congestion. Returns true if it did. The caller then reports no further signals of
    /// this round trip, because they belong to the same congestion.
    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool;
}

/// Factors of the rate at which a window would leave within one round trip: in slow start, and
/// after it. They are above 1, so that the window and not the rate limits.
pub(super) const PACE: f64 = 1.25;
pub(super) const PACE_SLOW_START: f64 = 2.0;

/// Shorter round trips are not paced, because a timer is late by about as much.
pub(super) const PACED_NS_MIN: u64 = 2_000_000;

/// The rate in pieces per second that spreads a window over a round trip, instead of bursts.
pub(super) fn window_pace(window: f64, in_slow_start: bool, rtt_ns: u64) -> Option<f64> {
    let gain = if in_slow_start { PACE_SLOW_START } else { PACE };
    (rtt_ns >= PACED_NS_MIN).then(|| gain * window * 1e9 / rtt_ns as f64)
}

/// The next state of a random generator, and its output (SplitMix64).
pub(super) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

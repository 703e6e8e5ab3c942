//! The congestion window: slow start, then one more segment each round trip, less after congestion
//! (RFC 5681).
//!
//! The signals are distinguished as by the consumers in user space
//! (docs/experiments/congestion.md). A router's mark always counts. A queue that stands for a whole
//! round trip counts as a mark, because a path without losses would otherwise be filled without
//! end. A loss counts as far as a queue explains it: without a queue, and with no more losses than
//! on a bad link, the window does not change. If no Data arrive for a whole timer, the window
//! shrinks to one segment.

use crate::path::Path;

/// One segment, in the unit of the window.
const ONE: u32 = 256;

/// Percentage of lost segments above which loss means congestion, regardless of the queue.
const LOSS_MAX_PERCENT: u32 = 15;

/// A round trip includes time in a queue if it exceeds the minimum by more than this and by more
/// than a sixteenth of the minimum.
const EMPTY_NS: u64 = 2_000_000;

/// If all Data waited in a queue for this time, the minimum round trip is probed. It is less than
/// the time for which a minimum is remembered. A flow that starts while a queue stands measures the
/// queue as a part of the path.
const LOOK_EVERY_NS: u64 = 5_000_000_000;

/// Duration of a probe, during which the window is halved; at least two round trips.
const LOOK_NS: u64 = 200_000_000;

/// Time from a probe that found a lower round trip to the next one, because the minimum may be
/// lower still.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;

/// Maximum number of reactions to one standing queue that does not shrink. Such a queue belongs to
/// other flows, or the path has become longer.
const QUEUE_ANSWERS: u32 = 2;

/// A signal of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// From a router: a CongestionMark, or a Nack for congestion.
    Mark,
    /// A segment was lost, by a full queue or by a bad link.
    Loss,
    /// All Data of a round trip waited too long ([`Path::has_queue`]).
    Queue,
}

/// The window, in segments.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// In 256ths.
    size: u32,
    /// Below it, the window doubles each round trip.
    slow_start_until: u32,
    max: u32,
    /// The usable part of the window, which is smaller during and after a probe.
    allowed: u32,
    /// Number of reactions to the standing queue, and its length at the last reaction.
    queue_answers: u32,
    queue_ns: u64,
    /// The time of the last Data that did not wait in a queue; `None` at first.
    empty_at_ns: Option<u64>,
    /// The end of the probe in progress.
    looks_until_ns: Option<u64>,
    /// The minimum round trip at the start of the probe, and whether the last probe found a lower
    /// one.
    looked_ns: u64,
    looks_again: bool,
}

impl Window {
    /// Initial window, segments (RFC 6928).
    pub const INITIAL: u32 = 10;
    /// Minimum window after congestion.
    pub const MIN: u32 = 2;

    /// Creates a window of at most `segments_max`, which is at most 65,536.
    pub fn new(segments_max: u32) -> Self {
        let max = segments_max.clamp(1, 1 << 16) * ONE;
        Window {
            size: (Self::INITIAL * ONE).min(max),
            slow_start_until: max,
            max,
            allowed: max,
            queue_answers: 0,
            queue_ns: 0,
            empty_at_ns: None,
            looks_until_ns: None,
            looked_ns: 0,
            looks_again: false,
        }
    }

    /// Segments that may be outstanding; at least 1.
    pub fn segments(&self) -> u32 {
        self.size.min(self.allowed).max(ONE) / ONE
    }

    /// Grows the window after a received segment. `rtt_ns` is its round trip if it was requested
    /// once. `outstanding` is the number of segments that are outstanding afterwards. `is_limited`:
    /// the window limits the rate.
    pub(crate) fn grow(
        &mut self,
        path: &Path,
        rtt_ns: Option<u64>,
        outstanding: u32,
        is_limited: bool,
        now_ns: u64,
    ) {
        if !path.has_queue() {
            self.queue_answers = 0;
        }
        self.look(path, rtt_ns, now_ns);
        if self.looks_until_ns.is_some() {
            return;
        }
        // After a probe, or after the first missing segment held others up, the rest of the window
        // returns by one segment per Data, because a burst would build a queue (RFC 9002, 7.7).
        let burst_max = outstanding.saturating_add(Self::INITIAL).saturating_mul(ONE);
        self.allowed = (self.allowed + ONE).min(burst_max).min(self.max);
        if path.is_queue(path.recent_ns()) {
            if self.is_slow_start() {
                self.size = (self.size / 2).max(Self::MIN * ONE).min(self.max);
                self.slow_start_until = self.size;
                self.begin_probe(path, now_ns, 0);
            }
        } else if is_limited {
            let more = if !self.is_slow_start() {
                (ONE * ONE / self.size).max(1)
            } else if path.recent_ns() > path.least_ns() + slow_start_ns(path) {
                ONE / 4
            } else {
                ONE
            };
            self.size = (self.size + more).min(self.max);
        }
    }

    /// Reacts to a signal of congestion. Returns true if the window was reduced. The caller then
    /// ignores further signals of this round trip, because they belong to the same congestion.
    pub(crate) fn congested(&mut self, path: &Path, signal: Signal, now_ns: u64) -> bool {
        let tenths = self.size / 10;
        let kept = match signal {
            Signal::Mark => self.size / 20 * 17,
            Signal::Loss if path.loses_more_than(LOSS_MAX_PERCENT) => tenths * 7,
            // The capacity of the path without its queue. Round trips vary by a quarter without any
            // queue.
            Signal::Loss => {
                self.share(5 * path.least_ns(), 4 * path.last_round_ns()).clamp(tenths * 7, self.size)
            }
            Signal::Queue if !self.may_answer_queue(path) => self.size,
            // A little less than the capacity, so that all flows that share the queue observe it
            // empty.
            Signal::Queue => {
                self.queue_answers += 1;
                self.queue_ns = path.last_round_ns();
                self.share(9 * path.least_ns(), 10 * path.last_round_ns()).clamp(tenths * 5, tenths * 7)
            }
        };
        if kept == self.size {
            return false;
        }
        if self.is_slow_start() {
            self.begin_probe(path, now_ns, 0);
        }
        self.slow_start_until = kept.max(Self::MIN * ONE);
        self.size = self.slow_start_until.min(self.max);
        true
    }

    /// Shrinks the window after a whole timer without Data.
    pub(crate) fn collapse(&mut self) {
        self.slow_start_until = (self.size / 10 * 7).max(Self::MIN * ONE);
        self.size = ONE;
    }

    fn is_slow_start(&self) -> bool {
        self.size < self.slow_start_until
    }

    /// Returns this part of the window, or all of it without a measurement.
    fn share(&self, part: u64, of: u64) -> u32 {
        let share = u64::from(self.size) * part / of.max(1);
        if of == 0 { self.size } else { share.min(u64::from(self.size)) as u32 }
    }

    fn may_answer_queue(&self, path: &Path) -> bool {
        self.queue_answers < QUEUE_ANSWERS || path.last_round_ns() < self.queue_ns / 16 * 15
    }

    /// Probes the minimum round trip if it is due.
    fn look(&mut self, path: &Path, rtt_ns: Option<u64>, now_ns: u64) {
        let empty_ns = path.least_ns() + EMPTY_NS.max(path.least_ns() / 16);
        let is_empty = rtt_ns.is_some_and(|rtt_ns| rtt_ns <= empty_ns);
        let empty_at_ns = match self.empty_at_ns {
            Some(at_ns) if !is_empty || self.looks_again => at_ns,
            _ => now_ns,
        };
        self.empty_at_ns = Some(empty_at_ns);
        match self.looks_until_ns {
            None if now_ns.saturating_sub(empty_at_ns) > LOOK_EVERY_NS => {
                self.begin_probe(path, now_ns, LOOK_NS);
            }
            Some(until_ns) if now_ns >= until_ns => {
                self.looks_until_ns = None;
                self.looks_again = self.looked_ns > path.least_ns() + path.least_ns() / 16;
                let rest_ns = if self.looks_again { LOOK_EVERY_NS - LOOK_AGAIN_NS } else { 0 };
                self.empty_at_ns = Some(now_ns.saturating_sub(rest_ns));
            }
            _ => {}
        }
    }

    fn begin_probe(&mut self, path: &Path, now_ns: u64, least_ns: u64) {
        self.allowed = self.size / 2;
        self.looks_until_ns = Some(now_ns.saturating_add(least_ns.max(2 * path.rto.smoothed_ns())));
        self.looked_ns = path.least_ns();
    }
}

/// The increase of round trips up to which slow start keeps its full rate (RFC 9406, 4.2 and 4.3).
fn slow_start_ns(path: &Path) -> u64 {
    (path.least_ns() / 8).clamp(4_000_000, 16_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A path of 10 ms with a last round trip of `rtt_ns`.
    fn path(rtt_ns: u64) -> Path {
        let mut path = Path::default();
        path.measured(10 * MS, true, 0);
        (0..40).for_each(|_| path.measured(rtt_ns, true, MS));
        path
    }

    /// A window of 100 segments that is not in slow start.
    fn at_100() -> Window {
        Window { size: 100 * ONE, slow_start_until: 100 * ONE, ..Window::new(256) }
    }

    #[test]
    fn a_loss_takes_at_most_three_tenths() {
        for (rtt_ms, left) in [(10, 100), (12, 100), (15, 83), (100, 70)] {
            let mut window = at_100();
            assert_eq!(window.congested(&path(rtt_ms * MS), Signal::Loss, MS), left < 100);
            assert_eq!(window.segments(), left, "{rtt_ms} ms");
        }
    }

    #[test]
    fn excessive_losses_are_congestion() {
        let mut lossy = path(10 * MS);
        let mut window = at_100();
        (0..40).for_each(|_| lossy.was_lost());
        assert!(!window.congested(&lossy, Signal::Loss, MS), "one in seven");
        (0..10).for_each(|_| lossy.was_lost());
        for _ in 0..20 {
            assert!(window.congested(&lossy, Signal::Loss, MS) || window.segments() == Window::MIN);
        }
        assert_eq!(window.segments(), Window::MIN);
    }

    #[test]
    fn a_mark_takes_fifteen_percent() {
        for rtt_ms in [10, 100] {
            let mut window = at_100();
            assert!(window.congested(&path(rtt_ms * MS), Signal::Mark, MS));
            assert_eq!(window.segments(), 85);
        }
    }

    #[test]
    fn a_standing_queue_shrinks_the_window_briefly() {
        let mut window = at_100();
        assert!(window.congested(&path(40 * MS), Signal::Queue, MS));
        assert_eq!(window.segments(), 50);
        assert!(window.congested(&path(40 * MS), Signal::Queue, MS));
        assert!(!window.congested(&path(40 * MS), Signal::Queue, MS), "it stays: another's");
        assert!(window.congested(&path(36 * MS), Signal::Queue, MS), "it falls");
        window.grow(&path(10 * MS), Some(10 * MS), 1, false, MS);
        assert!(window.congested(&path(40 * MS), Signal::Queue, MS), "a new one");
    }

    #[test]
    fn slow_start_ends_at_a_standing_queue() {
        let mut window = Window::new(256);
        (0..90).for_each(|_| window.grow(&path(10 * MS), None, 250, true, MS));
        assert_eq!(window.segments(), 100);
        (0..100).for_each(|_| window.grow(&path(15 * MS), None, 250, true, MS));
        assert!((124..=125).contains(&window.segments()), "a quarter as fast");
        window.grow(&path(40 * MS), None, 250, true, MS);
        assert!((30..=32).contains(&window.segments()), "half of what is left, to see the empty path");
        (0..200).for_each(|_| window.grow(&path(40 * MS), None, 250, true, 500 * MS));
        assert_eq!(window.segments(), 62, "no growth into a standing queue");
    }

    #[test]
    fn five_queued_seconds_halve_the_window() {
        let mut window = at_100();
        let mut data = |now_ms: u64, rtt_ms: u64| {
            window.grow(&path(10 * MS), Some(rtt_ms * MS), 100, false, now_ms * MS);
            window.segments()
        };
        assert_eq!([data(1, 20), data(4000, 11), data(9000, 20)], [100; 3]);
        assert_eq!(data(9001, 20), 50);
        assert_eq!(data(9200, 11), 50);
        assert_eq!(data(9202, 11), 51, "it comes back by a segment each Data, not in a burst");
    }

    #[test]
    fn a_late_segment_brings_no_burst() {
        let mut window = at_100();
        window.grow(&path(10 * MS), None, 5, false, MS);
        assert_eq!(window.segments(), 5 + Window::INITIAL);
        (0..30).for_each(|_| window.grow(&path(10 * MS), None, 100, false, MS));
        assert_eq!(window.segments(), 45);
    }
}

//! How many segments may be outstanding: slow start, then one more each round trip; less when
//! something says congestion (RFC 5681).
//!
//! What says so is told apart as by the consumers in user space (docs/experiments/congestion.md). A
//! router's mark always counts. A queue that stands for a whole round trip counts as a mark, so
//! that a path without losses is not filled without end. A loss counts as far as a queue explains
//! it: without one, and without more losses than a bad link has, it leaves the window as it is. A
//! whole timer in which nothing comes leaves one segment.

use crate::path::Path;

/// One segment, in the unit of the window.
const ONE: u32 = 256;

/// Percentage of lost segments above which loss means congestion, whatever the queue looks like.
const LOSS_MAX_PERCENT: u32 = 15;

/// What exceeds the least round trip by this, or by a sixteenth of it, has waited in a queue.
const EMPTY_NS: u64 = 2_000_000;

/// If no Data came without waiting for so long, the least round trip is looked for. Less than the
/// time for which one is remembered: who comes while a queue stands takes it for the path's.
const LOOK_EVERY_NS: u64 = 5_000_000_000;

/// For how long the window is half of itself then, or two round trips.
const LOOK_NS: u64 = 200_000_000;

/// How long after a look that found a lesser round trip the next one is: there may be lesser ones.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;

/// How often one standing queue is answered though that does not make it shorter: then it is
/// another's, or the path has become longer.
const QUEUE_ANSWERS: u32 = 2;

/// What says that the path is congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A router's word: a CongestionMark, or a Nack for congestion.
    Mark,
    /// A segment was lost: perhaps a full queue, perhaps a bad link.
    Loss,
    /// All Data of a round trip have waited too long ([`Path::has_queue`]).
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
    /// What of the window may be used: less than it during and after a look.
    allowed: u32,
    /// How often the queue that stands was answered, and how long it was the last time.
    queue_answers: u32,
    queue_ns: u64,
    /// When a Data came last that had not waited; none yet.
    empty_at_ns: Option<u64>,
    /// Until when the window is small so that one comes.
    looks_until_ns: Option<u64>,
    /// The least round trip when that began; and whether the last look found a lesser one.
    looked_ns: u64,
    looks_again: bool,
}

impl Window {
    /// Segments that are asked for at first (RFC 6928).
    pub const INITIAL: u32 = 10;
    /// The least to which congestion brings a window.
    pub const MIN: u32 = 2;

    /// A window that never exceeds `segments_max`, which is at most 65,536.
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

    /// A segment has come, after `rtt_ns` if it was asked for once, and left so many `outstanding`.
    /// `is_limited`: it is the window that limits the rate.
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
        // After a look, or where the first missing segment held others up, the rest of the window
        // comes back by a segment each Data: a burst would make a queue (RFC 9002, 7.7).
        let burst_max = outstanding.saturating_add(Self::INITIAL).saturating_mul(ONE);
        self.allowed = (self.allowed + ONE).min(burst_max).min(self.max);
        if path.is_queue(path.recent_ns()) {
            if self.is_slow_start() {
                self.size = (self.size / 2).max(Self::MIN * ONE).min(self.max);
                self.slow_start_until = self.size;
                self.begin_look(path, now_ns, 0);
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

    /// Something says congestion. Whether that is answered: then what other segments of this round
    /// trip say is the same congestion, and not to be told.
    pub(crate) fn congested(&mut self, path: &Path, signal: Signal, now_ns: u64) -> bool {
        let tenths = self.size / 10;
        let kept = match signal {
            Signal::Mark => self.size / 20 * 17,
            Signal::Loss if path.loses_more_than(LOSS_MAX_PERCENT) => tenths * 7,
            // What the path holds without its queue. Round trips vary by a quarter by themselves.
            Signal::Loss => {
                self.share(5 * path.least_ns(), 4 * path.last_round_ns()).clamp(tenths * 7, self.size)
            }
            Signal::Queue if !self.may_answer_queue(path) => self.size,
            // A little less than that, so that all who share the queue see it empty.
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
            self.begin_look(path, now_ns, 0);
        }
        self.slow_start_until = kept.max(Self::MIN * ONE);
        self.size = self.slow_start_until.min(self.max);
        true
    }

    /// Nothing has come for a whole timer.
    pub(crate) fn collapse(&mut self) {
        self.slow_start_until = (self.size / 10 * 7).max(Self::MIN * ONE);
        self.size = ONE;
    }

    fn is_slow_start(&self) -> bool {
        self.size < self.slow_start_until
    }

    /// This part of the window; all of it if nothing was measured.
    fn share(&self, part: u64, of: u64) -> u32 {
        let share = u64::from(self.size) * part / of.max(1);
        if of == 0 { self.size } else { share.min(u64::from(self.size)) as u32 }
    }

    fn may_answer_queue(&self, path: &Path) -> bool {
        self.queue_answers < QUEUE_ANSWERS || path.last_round_ns() < self.queue_ns / 16 * 15
    }

    /// Looks for the least round trip when it is time to.
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
                self.begin_look(path, now_ns, LOOK_NS);
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

    fn begin_look(&mut self, path: &Path, now_ns: u64, least_ns: u64) {
        self.allowed = self.size / 2;
        self.looks_until_ns = Some(now_ns.saturating_add(least_ns.max(2 * path.rto.smoothed_ns())));
        self.looked_ns = path.least_ns();
    }
}

/// How much longer round trips may be for a slow start of full speed (RFC 9406, 4.2 and 4.3).
fn slow_start_ns(path: &Path) -> u64 {
    (path.least_ns() / 8).clamp(4_000_000, 16_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A path of 10 ms, where the answers of the last round trip took `rtt_ns`.
    fn path(rtt_ns: u64) -> Path {
        let mut path = Path::default();
        path.measured(10 * MS, true, 0);
        (0..40).for_each(|_| path.measured(rtt_ns, true, MS));
        path
    }

    /// One of 100 segments that is not in slow start.
    fn at_100() -> Window {
        Window { size: 100 * ONE, slow_start_until: 100 * ONE, ..Window::new(256) }
    }

    #[test]
    fn a_loss_takes_what_a_queue_explains_and_no_more_than_three_tenths() {
        for (rtt_ms, left) in [(10, 100), (12, 100), (15, 83), (100, 70)] {
            let mut window = at_100();
            assert_eq!(window.congested(&path(rtt_ms * MS), Signal::Loss, MS), left < 100);
            assert_eq!(window.segments(), left, "{rtt_ms} ms");
        }
    }

    #[test]
    fn losses_beyond_a_bad_link_s_are_congestion_without_a_queue() {
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
    fn a_mark_takes_fifteen_percent_with_and_without_a_queue() {
        for rtt_ms in [10, 100] {
            let mut window = at_100();
            assert!(window.congested(&path(rtt_ms * MS), Signal::Mark, MS));
            assert_eq!(window.segments(), 85);
        }
    }

    #[test]
    fn a_queue_that_stands_is_answered_and_not_for_ever() {
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
    fn slow_start_doubles_slows_down_as_a_queue_grows_and_ends_where_it_stands() {
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
    fn the_window_is_halved_for_a_moment_when_no_data_came_without_waiting_for_five_seconds() {
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
    fn a_segment_that_held_others_up_brings_no_burst() {
        let mut window = at_100();
        window.grow(&path(10 * MS), None, 5, false, MS);
        assert_eq!(window.segments(), 5 + Window::INITIAL);
        (0..30).for_each(|_| window.grow(&path(10 * MS), None, 100, false, MS));
        assert_eq!(window.segments(), 45);
    }
}

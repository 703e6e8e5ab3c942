//! Round-trip times, and the timeouts derived from them.
//!
//! Smoothing and the timeout follow RFC 6298, the wait of loss detection RFC 8985. Near caches and
//! far producers may answer one fetch, and no packet shows the distance of its source. The round
//! trips are therefore divided into those of a near and of a far source ([`Rtt::classify`]), each
//! with its own statistics. Timeouts and loss detection wait for the farther one.

use namely_window::{RoundTrip, TimeoutBounds};

/// Bounds of the timeout without backoff. The minimum is that of most systems for TCP. Detection by
/// time and the probe find most losses sooner.
const BOUNDS: TimeoutBounds =
    TimeoutBounds { initial_ns: 1_000_000_000, min_ns: 200_000_000, max_ns: 60_000_000_000 };

/// Maximum timeout after backoff. A low limit is harmless, because only single Interests are sent
/// while no Data arrive.
const BACKED_OFF_NS_MAX: u64 = 2_000_000_000;

/// Number of doublings after which every timeout has reached its limit.
const BACKOFF_MAX: u32 = 8;

/// Maximum number of doublings of the wait for a retransmitted Interest. A longer wait would delay
/// all later pieces.
const RETRY_DOUBLINGS: u32 = 2;

/// Number of latest round trips; their minimum detects a queue. They are few, so that a growing
/// queue is detected at once, but more than one, so that jitter does not look like a queue.
const RECENT: usize = 16;

/// Minimum time after which an Interest counts as lost because later ones were answered. Caches may
/// reorder answers within this time.
const EARLY_NS_MIN: u64 = 20_000_000;

/// Time for which a minimum round trip is remembered, because paths change.
const MIN_WINDOW_NS: u64 = 10_000_000_000;

/// Time for which a maximum round trip is remembered.
const MAX_WINDOW_NS: u64 = 1_000_000_000;

/// Maximum multiple of the reordering window (RFC 8985, 6.2), and the number of recoveries after
/// which it is 1 again.
const REORDER_MAX: u64 = 16;
const REORDER_RECOVERIES: u32 = 16;

/// Difference of two round trips below which both belong to one source. A busy host delays packets
/// by as much.
const APART_NS: u64 = 10_000_000;

/// Time without round trips after which a source is forgotten, at least four round trips.
const IDLE_NS: u64 = 1_000_000_000;

/// Number of answers in a row that show a distant source. Losses seldom strike so many Interests
/// twice.
const DISTANT_ANSWERS: u8 = 8;

/// Statistics of the round trips so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rtt {
    near: Source,
    far: Option<Source>,
    /// Whether the latest round trip was of the far source.
    is_far: bool,
    /// Whether the far source is farther than all before, and not confirmed yet.
    is_far_new: bool,
    /// Whether answers of the near source overtook those of the far one, so that both answer now.
    is_mixed: bool,
    /// The latest sending time of an Interest that the near source answered.
    near_sent_ns: u64,
    /// The latest round trip, and the sending time of its Interest.
    last_ns: u64,
    last_sent_ns: u64,
    max: Extreme,
    /// Answers in a row to Interests whose repetition was lost, too, as it seems.
    distant: u8,
    backoff: u32,
    reordering: Reordering,
}

/// The round trips of one source.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    round_trip: RoundTrip,
    min: Extreme,
    recent_ns: [u64; RECENT],
    samples: usize,
    /// The minimum of the current round trip, and of the previous one.
    round_min_ns: u64,
    previous_round_min_ns: u64,
    round_began_ns: u64,
    round_ends_at_ns: u64,
    first_sampled_at_ns: u64,
    sampled_at_ns: u64,
}

/// The reordering window of RFC 8985, as a multiple of a quarter of the minimum round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Reordering {
    /// The multiple beyond 1.
    more: u64,
    /// Number of recoveries until it is 1 again.
    recoveries: u32,
    /// The end of the round trip in which the multiple was raised.
    raised_until_ns: u64,
}

/// An extreme value over a sliding window of time. It consists of the values of two halves of the
/// window.
#[derive(Clone, Copy, Debug, Default)]
struct Extreme {
    old_ns: u64,
    new_ns: u64,
    turns_at_ns: u64,
}

impl Extreme {
    fn update(&mut self, value_ns: u64, now_ns: u64, window_ns: u64, better: fn(u64, u64) -> u64) {
        if self.new_ns == 0 || now_ns >= self.turns_at_ns {
            self.old_ns = if self.new_ns == 0 { value_ns } else { self.new_ns };
            self.new_ns = value_ns;
            self.turns_at_ns = now_ns.saturating_add(window_ns / 2);
        }
        self.new_ns = better(self.new_ns, value_ns);
    }
}

impl Source {
    /// Adds a round trip; returns as [`Rtt::sample`].
    fn sample(&mut self, rtt_ns: u64, now_ns: u64) -> Option<u64> {
        self.round_trip.add(rtt_ns);
        self.min.update(rtt_ns, now_ns, MIN_WINDOW_NS, u64::min);
        self.recent_ns[self.samples % RECENT] = rtt_ns;
        if self.samples == 0 {
            self.first_sampled_at_ns = now_ns;
        }
        self.samples += 1;
        self.sampled_at_ns = now_ns;
        let mut over = None;
        if now_ns >= self.round_ends_at_ns {
            // The Data at the start of the round answered Interests from one round trip before.
            over = self.round_began_ns.checked_sub(self.smoothed_ns());
            self.round_began_ns = now_ns;
            self.previous_round_min_ns = if self.round_min_ns == 0 { rtt_ns } else { self.round_min_ns };
            self.round_min_ns = rtt_ns;
            self.round_ends_at_ns = now_ns.saturating_add(self.smoothed_ns());
        }
        self.round_min_ns = self.round_min_ns.min(rtt_ns);
        over
    }

    fn min_ns(&self) -> u64 {
        self.min.old_ns.min(self.min.new_ns)
    }

    fn smoothed_ns(&self) -> u64 {
        self.round_trip.smoothed_ns().unwrap_or(0)
    }

    fn is_idle(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.sampled_at_ns) > IDLE_NS.max(4 * self.smoothed_ns())
    }
}

impl Rtt {
    /// Adds a round trip of an Interest that was sent once, at `sent_ns`. If a new round begins,
    /// returns the approximate sending time of the first Interests whose Data arrived in the
    /// previous round.
    pub(super) fn sample(&mut self, sent_ns: u64, now_ns: u64) -> Option<u64> {
        // 0 means that there is no measurement.
        let rtt_ns = now_ns.saturating_sub(sent_ns).max(1);
        self.is_far = self.classify(rtt_ns, sent_ns, now_ns);
        if self.is_far {
            self.is_mixed |= sent_ns.saturating_add(APART_NS) < self.near_sent_ns;
        } else {
            self.near_sent_ns = self.near_sent_ns.max(sent_ns);
        }
        (self.last_ns, self.last_sent_ns) = (rtt_ns, sent_ns);
        self.max.update(rtt_ns, now_ns, MAX_WINDOW_NS, u64::max);
        // A new measurement ends the backoff (RFC 6298, 5).
        self.backoff = 0;
        self.current_mut().sample(rtt_ns, now_ns)
    }

    /// Returns true if a round trip belongs to the far source.
    ///
    /// In one queue, answers keep the order of their Interests, and the round trips of two
    /// Interests differ by the time between them, and by bursts of other flows. A larger
    /// difference, or one between answers in another order, shows another source (or another path).
    /// Two sources whose minimum round trips come close are one, because a queue then explains the
    /// difference.
    fn classify(&mut self, rtt_ns: u64, sent_ns: u64, now_ns: u64) -> bool {
        if let Some(far) = &self.far {
            if far.is_idle(now_ns) || !is_apart(self.near.min_ns(), far.min_ns()) {
                self.far = None;
            } else if self.near.is_idle(now_ns) {
                self.near = *far;
                self.far = None;
            }
        }
        if let Some(far) = &self.far {
            return rtt_ns > self.near.min_ns().midpoint(far.min_ns());
        }
        self.is_mixed = false;
        let between_ns = sent_ns.saturating_sub(self.last_sent_ns);
        let (less_ns, more_ns) = (rtt_ns.min(self.last_ns), rtt_ns.max(self.last_ns));
        if self.last_ns == 0 || !is_apart(less_ns.saturating_add(between_ns), more_ns) {
            return false;
        }
        self.is_far_new = rtt_ns == more_ns;
        if self.is_far_new {
            self.far = Some(Source::default());
            return true;
        }
        self.far = Some(std::mem::take(&mut self.near));
        false
    }

    /// Returns true once for a source that is farther than all before: the path of the fetch is
    /// another one. The Data that arrived now took `took_ns` since the last of its Interests.
    ///
    /// The answers of a host that was busy for a moment arrive at once, so the source counts only
    /// after answers over half a round trip. Those to repeated Interests count, too: after a burst
    /// into a full queue there may be no others for long.
    pub(super) fn confirm_farther(&mut self, took_ns: u64, now_ns: u64) -> bool {
        let Some(far) = self.far.as_ref().filter(|_| self.is_far_new) else { return false };
        let is_confirmed = took_ns > self.near.min_ns().midpoint(far.min_ns())
            && now_ns.saturating_sub(far.first_sampled_at_ns) >= far.min_ns() / 2;
        self.is_far_new = !is_confirmed;
        is_confirmed
    }

    fn current(&self) -> &Source {
        self.far.as_ref().filter(|_| self.is_far).unwrap_or(&self.near)
    }

    fn current_mut(&mut self) -> &mut Source {
        self.far.as_mut().filter(|_| self.is_far).unwrap_or(&mut self.near)
    }

    /// The farther source.
    fn farther(&self) -> &Source {
        self.far.as_ref().unwrap_or(&self.near)
    }

    /// Returns true if the latest round trip is that of the path's farthest source: there is one
    /// source, or it is the far one.
    pub(super) fn is_of_farther(&self) -> bool {
        self.is_far || self.far.is_none()
    }

    /// Returns true if the latest round trip is that of a near source beside a far one. Its answer
    /// is no evidence about the path that the window fills.
    pub(super) fn is_beside_path(&self) -> bool {
        self.is_mixed && !self.is_of_farther()
    }

    /// Doubles the timeout, because one passed without any Data.
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// Records that a Data arrived right after the retransmission of its Interest, so the first
    /// Interest had not been lost. It was sent at `sent_ns`.
    pub(super) fn spurious(&mut self, sent_ns: u64, now_ns: u64) {
        self.max.update(now_ns.saturating_sub(sent_ns).max(1), now_ns, MAX_WINDOW_NS, u64::max);
        // At most once in a round trip (RFC 8985, 6.2).
        if now_ns >= self.reordering.raised_until_ns {
            self.reordering.more = (self.reordering.more + 1).min(REORDER_MAX - 1);
            self.reordering.raised_until_ns = now_ns.saturating_add(self.smoothed_ns());
        }
        self.reordering.recoveries = REORDER_RECOVERIES;
    }

    /// Records that lost pieces of one round trip are requested again.
    pub(super) fn recover(&mut self) {
        self.reordering.recoveries = self.reordering.recoveries.saturating_sub(1);
        if self.reordering.recoveries == 0 {
            self.reordering.more = 0;
        }
    }

    /// The time without Data after which an Interest is retransmitted.
    pub(super) fn timeout_ns(&self) -> u64 {
        let base_ns = self.farther().round_trip.timeout_ns(&BOUNDS);
        // The limit applies to the backoff only, so a path with long round trips keeps its timeout.
        (base_ns << self.backoff).min(base_ns.max(BACKED_OFF_NS_MAX))
    }

    /// The time without Data after which one Interest is repeated as a probe: two round trips (RFC
    /// 8985, 7.2). None: no round trip was measured, or the timeout comes first.
    pub(super) fn probe_ns(&self) -> Option<u64> {
        let far = self.farther();
        let after_ns = (2 * far.round_trip.smoothed_ns()?).max(far.round_trip.late_ns()?).max(EARLY_NS_MIN);
        (self.backoff == 0 && after_ns < self.timeout_ns()).then_some(after_ns)
    }

    /// Maximum time that an Interest may stay unanswered while later ones are answered: the longest
    /// recent round trip and the reordering window (RFC 8985, 6.2).
    pub(super) fn early_ns(&self) -> u64 {
        let longest_ns = self.max.old_ns.max(self.max.new_ns);
        let reorder_ns = (self.farther().min_ns() / 4).max(longest_ns / 8) * (1 + self.reordering.more);
        let reorder_ns = reorder_ns.min(self.farther().smoothed_ns());
        let patient_ns =
            longest_ns.saturating_add(reorder_ns).max(self.farther().round_trip.late_ns().unwrap_or(0));
        let least_ns = EARLY_NS_MIN * (1 + self.reordering.more);
        // After the timeout the Interest is retransmitted anyway, so a longer wait has no use.
        patient_ns.max(least_ns).min(self.timeout_ns().max(EARLY_NS_MIN))
    }

    /// Returns true if the known round trips decide [`Rtt::early_ns`], and not its lower bound.
    pub(super) fn is_distance_known(&self) -> bool {
        self.early_ns() > EARLY_NS_MIN
    }

    /// Counts an answer to an Interest that was sent `attempts` times, the last time `took_ns` ago,
    /// because its first loss was assumed. Returns true after [`DISTANT_ANSWERS`] in a row needed
    /// three attempts, and came sooner or later than those of known sources: they answer the first
    /// Interests, from farther than the repetition waits.
    pub(super) fn is_distant(&mut self, attempts: u8, took_ns: u64) -> bool {
        let late_ns = self.farther().round_trip.late_ns().unwrap_or(u64::MAX);
        let is_other = took_ns < self.near.min_ns() / 4 * 3 || took_ns > late_ns;
        let is_evidence = attempts > 2 && is_other;
        self.distant = if is_evidence { self.distant.saturating_add(1) } else { self.distant / 2 };
        self.distant >= DISTANT_ANSWERS
    }

    /// [`Rtt::early_ns`] for an Interest that was sent `attempts` times, more than once. From the
    /// fourth time on it grows, up to the timeout, because routers suppress Interests that are
    /// repeated too soon, and because a full queue stays full for a while.
    pub(super) fn retry_ns(&self, attempts: u8) -> u64 {
        let doublings = u32::from(attempts).saturating_sub(3).min(RETRY_DOUBLINGS);
        (self.early_ns() << doublings).min(self.timeout_ns().max(EARLY_NS_MIN))
    }

    /// The minimum round trip of the source of the latest one.
    pub(super) fn min_ns(&self) -> u64 {
        self.current().min_ns()
    }

    /// The minimum round trip of the farthest source.
    pub(super) fn farthest_min_ns(&self) -> u64 {
        self.farther().min_ns()
    }

    /// The minimum round trip of the nearest source.
    pub(super) fn nearest_min_ns(&self) -> u64 {
        self.near.min_ns()
    }

    pub(super) fn recent_min_ns(&self) -> u64 {
        let source = self.current();
        source.recent_ns.iter().take(source.samples).copied().min().unwrap_or(0)
    }

    pub(super) fn last_round_min_ns(&self) -> u64 {
        self.current().previous_round_min_ns
    }

    /// The smoothed round trip of the farther source.
    pub(super) fn smoothed_ns(&self) -> u64 {
        self.farther().smoothed_ns()
    }
}

/// Returns true if two round trips are too different for one source: the longer one is more than
/// twice the shorter one.
fn is_apart(shorter_ns: u64, longer_ns: u64) -> bool {
    longer_ns.saturating_sub(shorter_ns) > APART_NS.max(shorter_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Adds the round trip of an Interest whose Data arrives at `now_ns`.
    fn sample(rtt: &mut Rtt, rtt_ns: u64, now_ns: u64) {
        rtt.sample(now_ns - rtt_ns, now_ns);
    }

    #[test]
    fn the_timeout_follows_rtt_and_backs_off() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout_ns(), BOUNDS.initial_ns);
        (0..100).for_each(|i| sample(&mut rtt, 600 * MS, (i + 1_000) * MS));
        assert!((600 * MS..700 * MS).contains(&rtt.timeout_ns()), "{}", rtt.timeout_ns());
        rtt.back_off();
        assert!(rtt.timeout_ns() >= 1200 * MS);
        (0..10).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout_ns(), BACKED_OFF_NS_MAX);
        sample(&mut rtt, 600 * MS, 1_101 * MS);
        assert!(rtt.timeout_ns() < 700 * MS, "Data ends the backoff");
        (0..100).for_each(|i| sample(&mut rtt, 5_000 * MS, (i + 6_000) * MS));
        assert!(rtt.timeout_ns() >= 5_000 * MS, "a long path is waited for");
        let mut short = Rtt::default();
        (0..100).for_each(|i| sample(&mut short, MS, (i + 1) * MS));
        assert_eq!(short.timeout_ns(), 200 * MS, "the shortest timeout");
    }

    #[test]
    fn early_detection_allows_for_the_farthest_source() {
        let mut rtt = Rtt::default();
        for i in 100..1100 {
            sample(&mut rtt, if i % 10 == 0 { 50 * MS } else { MS }, i * MS);
        }
        assert!(rtt.early_ns() > 60 * MS, "{}", rtt.early_ns());
    }

    #[test]
    fn the_minimum_rtt_expires() {
        let mut rtt = Rtt::default();
        sample(&mut rtt, MS, MS);
        assert_eq!(rtt.min_ns(), MS);
        for second in 1..=11 {
            sample(&mut rtt, 2 * MS, second * 1000 * MS);
        }
        assert_eq!(rtt.min_ns(), 2 * MS);
    }

    #[test]
    fn near_and_far_sources_are_apart() {
        let mut rtt = Rtt::default();
        for i in 200..1200 {
            let is_far = i % 2 == 0;
            sample(&mut rtt, if is_far { 100 * MS } else { MS }, i * MS);
            if i > 202 {
                assert_eq!(rtt.min_ns(), if is_far { 100 * MS } else { MS });
                assert_eq!(rtt.is_of_farther(), is_far);
            }
        }
        assert_eq!(rtt.smoothed_ns(), 100 * MS);
        // The cache's part of the object has ended.
        (1200..4000).for_each(|i| sample(&mut rtt, 100 * MS, i * MS));
        assert_eq!((rtt.near.min_ns(), rtt.far.is_some()), (100 * MS, false));
    }

    #[test]
    fn a_farther_source_is_no_queue() {
        let mut rtt = Rtt::default();
        (0..100).for_each(|i| sample(&mut rtt, MS, (100 + i) * MS));
        // The next Interests are sent at once, and answered by the producer.
        (0..100).for_each(|i| sample(&mut rtt, 100 * MS, (300 + i) * MS));
        assert_eq!((rtt.min_ns(), rtt.recent_min_ns()), (100 * MS, 100 * MS));
    }

    #[test]
    fn a_growing_queue_is_one_source() {
        let mut rtt = Rtt::default();
        // Twice as many Interests as the link answers: the round trip grows with each.
        for i in 0..400 {
            let (sent_ns, now_ns) = (i * MS / 2, 20 * MS + i * MS);
            rtt.sample(sent_ns, now_ns);
        }
        assert!(rtt.far.is_none());
        assert_eq!((rtt.min_ns(), rtt.recent_min_ns() > 200 * MS), (20 * MS, true));
        // The queue drains while nothing is sent.
        rtt.sample(450 * MS, 470 * MS);
        assert!(rtt.far.is_none());
    }

    #[test]
    fn reordering_is_tolerated_until_losses_prevail() {
        let mut rtt = Rtt::default();
        (0..100).for_each(|i| sample(&mut rtt, 100 * MS, (i + 1_000) * MS));
        assert_eq!(rtt.early_ns(), 125 * MS);
        rtt.spurious(1_050 * MS, 1_100 * MS);
        rtt.spurious(1_050 * MS, 1_101 * MS);
        assert_eq!(rtt.early_ns(), 150 * MS, "once in a round trip");
        (0..15).for_each(|_| rtt.recover());
        assert_eq!(rtt.early_ns(), 150 * MS);
        rtt.recover();
        assert_eq!(rtt.early_ns(), 125 * MS);
    }
}

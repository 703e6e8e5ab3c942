//! Round-trip times, and what follows from them: when to take silence for loss.
//!
//! Smoothing and the timeout are RFC 6298's. One fetch may be answered by caches and producers at
//! several distances, so early loss detection goes by the longest recent round trip, not by the
//! average.

/// The retransmission timeout before any round trip is known (RFC 6298, 2.1).
const RTO_INITIAL_NS: u64 = 1_000_000_000;

/// Bounds of the timeout without backoff. The lower one is above most pauses of a busy host's
/// scheduler or disk; real loss is found earlier, by the Data that overtake it, but for the last
/// segment's.
const RTO_NS: (u64, u64) = (500_000_000, 60_000_000_000);

/// What backoff makes of the timeout at most: in silence only single Interests go out, which harms
/// nobody.
const BACKED_OFF_NS_MAX: u64 = 2_000_000_000;

/// Doublings after which the timeout has reached its limit whatever it was.
const BACKOFF_MAX: u32 = 8;

/// How often the time is doubled for which a repeated Interest is waited for: more would hold up
/// all that comes after it.
const RETRY_DOUBLINGS: u32 = 2;

/// Of how many latest round trips the least tells the queue: few, so that a growing queue is seen
/// at once; more than one, so that jitter is not taken for a queue.
const RECENT: usize = 16;

/// Least time after which an overtaken Interest counts as lost: caches answer out of order within
/// this.
const EARLY_NS_MIN: u64 = 20_000_000;

/// How long a least round trip is remembered: paths change.
const MIN_WINDOW_NS: u64 = 10_000_000_000;

/// How long a longest round trip is remembered.
const MAX_WINDOW_NS: u64 = 1_000_000_000;

/// Each spurious retransmission makes early detection more patient, up to 2^this.
const PATIENCE_MAX: u32 = 4;

/// What the round trips so far say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rtt {
    smoothed_ns: u64,
    variance_ns: u64,
    min: Extreme,
    max: Extreme,
    recent_ns: [u64; RECENT],
    samples: usize,
    /// The least of the round trip under way, and of the one before it.
    round_min_ns: u64,
    previous_round_min_ns: u64,
    round_began_ns: u64,
    round_ends_at_ns: u64,
    backoff: u32,
    patience: u32,
}

/// An extreme value over a sliding time, kept in two halves.
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

impl Rtt {
    /// A round trip of an Interest that was sent once. When it begins a new round: since when
    /// Interests were sent whose Data the one that is over consists of.
    pub(super) fn sample(&mut self, rtt_ns: u64, now_ns: u64) -> Option<u64> {
        let rtt_ns = rtt_ns.max(1);
        if self.smoothed_ns == 0 {
            self.smoothed_ns = rtt_ns;
            self.variance_ns = rtt_ns / 2;
        } else {
            let error_ns = self.smoothed_ns.abs_diff(rtt_ns);
            self.variance_ns = (3 * self.variance_ns + error_ns) / 4;
            self.smoothed_ns = (7 * self.smoothed_ns + rtt_ns) / 8;
        }
        self.min.update(rtt_ns, now_ns, MIN_WINDOW_NS, u64::min);
        self.max.update(rtt_ns, now_ns, MAX_WINDOW_NS, u64::max);
        self.recent_ns[self.samples % RECENT] = rtt_ns;
        self.samples += 1;
        let mut over = None;
        if now_ns >= self.round_ends_at_ns {
            over = self.round_began_ns.checked_sub(self.smoothed_ns);
            self.round_began_ns = now_ns;
            self.previous_round_min_ns = if self.round_min_ns == 0 { rtt_ns } else { self.round_min_ns };
            self.round_min_ns = rtt_ns;
            self.round_ends_at_ns = now_ns.saturating_add(self.smoothed_ns);
        }
        self.round_min_ns = self.round_min_ns.min(rtt_ns);
        self.backoff = 0;
        over
    }

    /// The timeout passed without any Data: wait twice as long from now on.
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// Data came for what was sent again only just now: it had not been lost.
    pub(super) fn spurious(&mut self) {
        self.patience = (self.patience + 1).min(PATIENCE_MAX);
    }

    /// How long silence may last before an Interest is sent again.
    pub(super) fn timeout_ns(&self) -> u64 {
        let base_ns = match self.smoothed_ns {
            0 => RTO_INITIAL_NS,
            smoothed_ns => (smoothed_ns + 4 * self.variance_ns).clamp(RTO_NS.0, RTO_NS.1),
        };
        (base_ns << self.backoff).min(base_ns.max(BACKED_OFF_NS_MAX))
    }

    /// How long an Interest may stay unanswered while later ones are answered.
    pub(super) fn early_ns(&self) -> u64 {
        let longest_ns = self.max.old_ns.max(self.max.new_ns);
        let patient_ns = (longest_ns + longest_ns / 4).max(self.smoothed_ns + 4 * self.variance_ns);
        (patient_ns.max(EARLY_NS_MIN) << self.patience).min(self.timeout_ns().max(EARLY_NS_MIN))
    }

    /// The same for one that was sent more than once, `attempts` times by now: from the fourth on
    /// longer, up to the timeout. Routers hold back what is repeated too soon, and a queue that is
    /// full stays so for a while.
    pub(super) fn retry_ns(&self, attempts: u8) -> u64 {
        let doublings = u32::from(attempts).saturating_sub(3).min(RETRY_DOUBLINGS);
        (self.early_ns() << doublings).min(self.timeout_ns().max(EARLY_NS_MIN))
    }

    pub(super) fn min_ns(&self) -> u64 {
        self.min.old_ns.min(self.min.new_ns)
    }

    pub(super) fn recent_min_ns(&self) -> u64 {
        self.recent_ns.iter().take(self.samples).copied().min().unwrap_or(0)
    }

    pub(super) fn last_round_min_ns(&self) -> u64 {
        self.previous_round_min_ns
    }

    pub(super) fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_timeout_starts_at_a_second_follows_the_path_and_doubles_on_silence() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout_ns(), RTO_INITIAL_NS);
        (0..100).for_each(|i| _ = rtt.sample(600 * MS, i * MS));
        assert!((600 * MS..700 * MS).contains(&rtt.timeout_ns()), "{}", rtt.timeout_ns());
        rtt.back_off();
        assert!(rtt.timeout_ns() >= 1200 * MS);
        (0..10).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout_ns(), BACKED_OFF_NS_MAX);
        rtt.sample(600 * MS, 101 * MS);
        assert!(rtt.timeout_ns() < 700 * MS, "Data ends the backoff");
        (0..100).for_each(|i| _ = rtt.sample(5_000 * MS, i * MS));
        assert!(rtt.timeout_ns() >= 5_000 * MS, "a long path is waited for");
    }

    #[test]
    fn early_detection_waits_for_the_farthest_of_several_sources() {
        let mut rtt = Rtt::default();
        for i in 0..1000 {
            rtt.sample(if i % 10 == 0 { 50 * MS } else { MS }, i * MS);
        }
        assert!(rtt.early_ns() > 60 * MS, "{}", rtt.early_ns());
    }

    #[test]
    fn the_least_round_trip_is_forgotten_after_a_while() {
        let mut rtt = Rtt::default();
        rtt.sample(MS, 0);
        assert_eq!(rtt.min_ns(), MS);
        for second in 1..=11 {
            rtt.sample(20 * MS, second * 1000 * MS);
        }
        assert_eq!(rtt.min_ns(), 20 * MS);
    }
}

//! How a client keeps up: whether it takes in what is owed to it, and asks when it may. Pure: who
//! calls says what time it is.

use std::time::{Duration, Instant};

/// Least rate at which a client takes in what is there for it, octets a second. One that is slower
/// is cut after [`GRACE`].
pub const RATE_OCTETS_MIN: u32 = 2 * 1024;

/// How far a client may be behind the least rate.
pub const GRACE: Duration = Duration::from_secs(15);

/// The rate below which a client makes room for others when there is no place left, octets a
/// second.
pub const SHED_RATE_OCTETS: u32 = 32 * 1024;

/// How far a client may be behind that rate, and for how long it may be without a request, before
/// it is one that makes room.
pub const SHED_GRACE: Duration = Duration::from_secs(3);

/// What the gateway waits for at a client.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The rest of a request, or the next one.
    Request { since: Instant },
    /// Nothing: it is the gateway's turn.
    Answer,
}

/// A rate that is owed: the time that is left until too little was taken.
#[derive(Clone, Copy, Debug)]
struct Debt {
    rate: f64,
    grace_s: f64,
    left_s: f64,
}

impl Debt {
    fn new(rate: u32, grace: Duration) -> Self {
        let grace_s = grace.as_secs_f64();
        Debt { rate: f64::from(rate), grace_s, left_s: grace_s }
    }

    fn waited(&mut self, time: Duration) {
        // What was missed in a long time is not held against it longer than that.
        self.left_s = (self.left_s - time.as_secs_f64()).max(-2.0 * self.grace_s);
    }

    fn took(&mut self, octets: usize) {
        self.left_s = (self.left_s + octets as f64 / self.rate).min(self.grace_s);
    }
}

/// The pace of one client. Only time in which the gateway waits for it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    phase: Phase,
    /// Since when its connection takes nothing.
    blocked: Option<Instant>,
    least: Debt,
    shed: Debt,
}

impl Pace {
    /// A client that has just come.
    pub(super) fn new(now: Instant) -> Self {
        Pace {
            phase: Phase::Request { since: now },
            blocked: None,
            least: Debt::new(RATE_OCTETS_MIN, GRACE),
            shed: Debt::new(SHED_RATE_OCTETS, SHED_GRACE),
        }
    }

    /// It has asked: what follows is the gateway's turn.
    pub(super) fn asked(&mut self) {
        self.phase = Phase::Answer;
    }

    /// Its answer is complete: what follows is its turn.
    pub(super) fn answered(&mut self, now: Instant) {
        self.phase = Phase::Request { since: now };
    }

    /// Its connection takes nothing more for now.
    pub(super) fn blocks(&mut self, now: Instant) {
        self.settle(now);
        self.blocked = Some(now);
    }

    /// Its connection took `octets`.
    pub(super) fn took(&mut self, octets: usize, now: Instant) {
        self.settle(now);
        self.blocked = None;
        self.least.took(octets);
        self.shed.took(octets);
    }

    /// Returns true if it is behind the least rate.
    pub(super) fn is_too_slow(&mut self, now: Instant) -> bool {
        self.settle(now);
        self.least.left_s <= 0.0
    }

    /// How long it has kept its place for nothing; none if it keeps up.
    pub(super) fn late(&mut self, now: Instant) -> Option<Duration> {
        self.settle(now);
        let behind = (self.shed.left_s < 0.0).then(|| Duration::from_secs_f64(-self.shed.left_s));
        let idle = match self.phase {
            Phase::Request { since } => {
                Some(now.saturating_duration_since(since)).filter(|idle| *idle >= SHED_GRACE)
            }
            Phase::Answer => None,
        };
        behind.max(idle)
    }

    fn settle(&mut self, now: Instant) {
        if let Some(since) = self.blocked {
            let time = now.saturating_duration_since(since);
            self.least.waited(time);
            self.shed.waited(time);
            self.blocked = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_client_at_the_least_rate_stays_and_a_slower_one_goes_after_the_grace() {
        for (octets, stays) in [(RATE_OCTETS_MIN, true), (RATE_OCTETS_MIN / 2, false), (0, false)] {
            let mut now = Instant::now();
            let mut pace = Pace::new(now);
            pace.asked();
            for second in 0..120 {
                pace.blocks(now);
                now += SECOND;
                if octets > 0 {
                    pace.took(octets as usize, now);
                }
                let is_too_slow = pace.is_too_slow(now);
                assert!(!is_too_slow || second + 1 >= GRACE.as_secs(), "{octets}: after {second} s");
            }
            assert_eq!(!pace.is_too_slow(now), stays, "{octets} octets a second");
        }
    }

    #[test]
    fn the_time_that_the_gateway_takes_is_not_the_clients() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        pace.asked();
        pace.took(10, begun);
        let later = begun + 100 * SECOND;
        assert!(!pace.is_too_slow(later) && pace.late(later).is_none());
    }

    #[test]
    fn who_asks_nothing_or_takes_little_is_late_and_who_waited_longest_is_latest() {
        let begun = Instant::now();
        let mut silent = Pace::new(begun);
        assert_eq!(silent.late(begun + SHED_GRACE - SECOND), None);
        assert_eq!(silent.late(begun + SHED_GRACE), Some(SHED_GRACE));
        silent.asked();
        assert_eq!(silent.late(begun + SHED_GRACE), None);
        let mut slow = Pace::new(begun);
        slow.asked();
        slow.blocks(begun);
        assert_eq!(slow.late(begun + SHED_GRACE), None);
        assert_eq!(slow.late(begun + SHED_GRACE + SECOND), Some(SECOND));
        slow.took(10 * SHED_RATE_OCTETS as usize, begun + SHED_GRACE + SECOND);
        assert_eq!(slow.late(begun + SHED_GRACE + SECOND), None, "it made up for it");
    }
}

//! The pace of a client: whether it receives its data and sends its requests in time. Pure: the
//! caller passes the time.

use std::time::{Duration, Instant};

/// Minimum rate at which a client receives available data, octets per second.
///
/// # Limit
/// A slower client is cut after 15 s (`GRACE`).
/// - Value: 2 KiB/s
/// - Counter: `slow`
/// - Tests: `a_client_below_minimum_rate_is_dropped`,
///   `a_stalled_client_never_keeps_its_slot`
pub const RATE_OCTETS_MIN: u32 = 2 * 1024;

/// Time that a client may be behind the minimum rate.
///
/// # Limit
/// The client is cut.
/// - Counter: `slow`
/// - Tests: `a_client_below_minimum_rate_is_dropped`,
///   `a_stalled_client_never_keeps_its_slot`
pub const GRACE: Duration = Duration::from_secs(15);

/// Rate that keeps a client while others wait, octets per second.
///
/// # Limit
/// A client that is behind this rate for 3 s (`SHED_GRACE`) may be evicted when no slot is free.
/// - Value: 32 KiB/s
/// - Counter: `shed`
/// - Tests: `the_longest_waiting_client_is_the_latest`
pub const SHED_RATE_OCTETS: u32 = 32 * 1024;

/// Time that a client may be late while others wait.
///
/// A client is late that is behind [`SHED_RATE_OCTETS`] or sends no request.
///
/// # Limit
/// The client may be evicted when no slot is free.
/// - Counter: `shed`
/// - Tests: `the_longest_waiting_client_is_the_latest`
pub const SHED_GRACE: Duration = Duration::from_secs(3);

/// The client's action that the gateway waits for.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The rest of a request, or the next one.
    Request { since: Instant },
    /// None: the gateway has to act.
    Answer,
}

/// A rate that a client has to reach, kept as the time left before it has accepted too little.
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
        // Bounds the debt, so that a client can recover from a long pause.
        self.left_s = (self.left_s - time.as_secs_f64()).max(-2.0 * self.grace_s);
    }

    fn took(&mut self, octets: usize) {
        self.left_s = (self.left_s + octets as f64 / self.rate).min(self.grace_s);
    }
}

/// The pace of one client. Only time in which the gateway waits for the client counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    phase: Phase,
    /// Start of the time in which its connection has accepted nothing.
    blocked: Option<Instant>,
    least: Debt,
    shed: Debt,
}

impl Pace {
    /// Returns the pace of a new client.
    pub(super) fn new(now: Instant) -> Self {
        Pace {
            phase: Phase::Request { since: now },
            blocked: None,
            least: Debt::new(RATE_OCTETS_MIN, GRACE),
            shed: Debt::new(SHED_RATE_OCTETS, SHED_GRACE),
        }
    }

    /// The client has sent a request: the gateway has to act next.
    pub(super) fn requested(&mut self) {
        self.phase = Phase::Answer;
    }

    /// The answer is complete: the client has to act next.
    pub(super) fn answered(&mut self, now: Instant) {
        self.phase = Phase::Request { since: now };
    }

    /// The connection accepts no more octets for now.
    pub(super) fn blocks(&mut self, now: Instant) {
        self.settle(now);
        self.blocked = Some(now);
    }

    /// The connection accepted `octets`.
    pub(super) fn took(&mut self, octets: usize, now: Instant) {
        self.settle(now);
        self.blocked = None;
        self.least.took(octets);
        self.shed.took(octets);
    }

    /// Returns true if the client is behind the minimum rate.
    pub(super) fn is_too_slow(&mut self, now: Instant) -> bool {
        self.settle(now);
        self.least.left_s <= 0.0
    }

    /// Returns the time for which the client has not used its slot; none if it keeps up.
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
    fn a_client_below_minimum_rate_is_dropped() {
        for (octets, stays) in [(RATE_OCTETS_MIN, true), (RATE_OCTETS_MIN / 2, false), (0, false)] {
            let mut now = Instant::now();
            let mut pace = Pace::new(now);
            pace.requested();
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
    fn gateway_time_is_not_client_time() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        pace.requested();
        pace.took(10, begun);
        let later = begun + 100 * SECOND;
        assert!(!pace.is_too_slow(later) && pace.late(later).is_none());
    }

    #[test]
    fn the_longest_waiting_client_is_the_latest() {
        let begun = Instant::now();
        let mut silent = Pace::new(begun);
        assert_eq!(silent.late(begun + SHED_GRACE - SECOND), None);
        assert_eq!(silent.late(begun + SHED_GRACE), Some(SHED_GRACE));
        silent.requested();
        assert_eq!(silent.late(begun + SHED_GRACE), None);
        let mut slow = Pace::new(begun);
        slow.requested();
        slow.blocks(begun);
        assert_eq!(slow.late(begun + SHED_GRACE), None);
        assert_eq!(slow.late(begun + SHED_GRACE + SECOND), Some(SECOND));
        slow.took(10 * SHED_RATE_OCTETS as usize, begun + SHED_GRACE + SECOND);
        assert_eq!(slow.late(begun + SHED_GRACE + SECOND), None, "it made up for it");
    }
}

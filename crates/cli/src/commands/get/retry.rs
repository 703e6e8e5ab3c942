//! Repetition of a fetch that lost its producer or the path to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::{Exit, Failure};

/// Pauses without `--retry-delay`: the first, and the longest. Each takes twice as long as the one
/// before.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Interval at which a pause checks if the command is stopped.
const LOOK: Duration = Duration::from_millis(50);

/// How often a fetch is repeated.
#[derive(Debug, Default, Args)]
pub(super) struct Retry {
    /// Repeat a fetch up to N times if the network, the router or the producer fails. It continues
    /// from its part. Without this option a fetch ends after some 20 s without data.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry: u32,
    /// Pause before each repetition, s. By default 1 s, then twice as long each time, 60 s at most.
    #[arg(long, value_name = "SECONDS", requires = "retry")]
    retry_delay: Option<u64>,
}

impl Retry {
    /// Returns the pause before repetition `number`, from 0 on. None: there is no further one.
    pub(super) fn pause(&self, number: u32) -> Option<Duration> {
        let pause = || match self.retry_delay {
            Some(seconds) => Duration::from_secs(seconds),
            None => growing(PAUSE, PAUSE_MAX, number),
        };
        (number < self.retry).then(pause)
    }

    /// The number of repetitions.
    pub(super) fn count(&self) -> u32 {
        self.retry
    }
}

/// Returns `pause`, doubled `times` times, at most `max`.
pub(super) fn growing(pause: Duration, max: Duration, times: u32) -> Duration {
    pause.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(max)
}

/// Waits for `pause`. Returns false if the command is stopped meanwhile.
pub(super) fn wait(pause: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now().checked_add(pause);
    while !stop.load(Ordering::Relaxed) {
        let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}

/// A fetch that did not succeed.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) failure: Failure,
    /// Whether the same fetch may succeed after a pause.
    pub(super) may_pass: bool,
    /// Whether all further fetches would fail with it, too.
    pub(super) concerns_all: bool,
}

/// A failure before the first packet.
impl From<Failure> for Unfinished {
    fn from(failure: Failure) -> Self {
        let is_router = failure.exit == Exit::NoRouter;
        Unfinished { failure, may_pass: is_router, concerns_all: is_router }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let of = |retry, retry_delay, number| Retry { retry, retry_delay }.pause(number);
        let seconds = Duration::from_secs;
        let grown = [0, 1, 5, 6, 99].map(|number| of(100, None, number));
        assert_eq!(grown, [1, 2, 32, 60, 60].map(|pause| Some(seconds(pause))));
        assert_eq!(of(2, Some(7), 1), Some(seconds(7)));
        assert_eq!((of(2, Some(7), 2), of(0, None, 0)), (None, None));
        assert_eq!(growing(Duration::MAX, Duration::MAX, u32::MAX), Duration::MAX);
    }

    #[test]
    fn a_stopped_pause_ends_at_once() {
        assert!(!wait(Duration::MAX, &AtomicBool::new(true)));
        assert!(wait(Duration::ZERO, &AtomicBool::new(false)));
    }
}

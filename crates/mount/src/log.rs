//! The log of failed requests, at most one line a second.
//!
//! A program receives an error number only. The log has the name and the reason.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fuser::Errno;
use namely_wire::Name;

/// Period between two lines.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    written: Option<Instant>,
    /// Failures since then.
    omitted: u64,
}

impl FailureLog {
    /// Writes a line about the failed request for `name`. A name that does not exist is not a
    /// failure: shells and linkers look for such files all the time.
    pub(crate) fn record(&self, name: &Name, errno: Errno, reason: &dyn Display) {
        if errno == Errno::ENOENT {
            return tracing::debug!(%name, "no such file");
        }
        let Some(omitted) = self.admit(Instant::now()) else { return };
        match omitted {
            0 => tracing::warn!(%name, "cannot read: {reason}"),
            _ => tracing::warn!(%name, omitted, "cannot read: {reason}"),
        }
    }

    /// Returns the number of omitted lines if a line may be written now.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.written.is_some_and(|written| now.saturating_duration_since(written) < PERIOD) {
            state.omitted += 1;
            return None;
        }
        state.written = Some(now);
        Some(std::mem::take(&mut state.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_is_logged() {
        let log = FailureLog::default();
        let start = Instant::now();
        assert_eq!(log.admit(start), Some(0));
        assert_eq!(log.admit(start + PERIOD / 2), None);
        assert_eq!(log.admit(start + PERIOD * 99 / 100), None);
        assert_eq!(log.admit(start + PERIOD), Some(2));
    }
}

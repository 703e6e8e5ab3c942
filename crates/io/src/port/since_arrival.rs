//! What a port sent since the last frame arrived on it. Totals since the start do not show whether
//! a peer answers now: old failures would be reported for ever.

use crate::status::Unanswered;

/// Counts since the last arrival. The number of arrived frames identifies the arrival: a change of
/// it resets the counts at their next use, so an arrival itself costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SinceArrival {
    /// The number of frames that had arrived when the counts began.
    arrived: u64,
    counts: Unanswered,
}

impl SinceArrival {
    /// Returns the counts, which begin anew if another frame has arrived.
    fn counts(&mut self, arrived: u64) -> &mut Unanswered {
        if self.arrived != arrived {
            *self = SinceArrival { arrived, counts: Unanswered::default() };
        }
        &mut self.counts
    }

    /// Counts an Interest that was queued. `arrived` frames have arrived so far.
    #[inline]
    pub(super) fn on_interest(&mut self, arrived: u64, now_ns: u64) {
        let counts = self.counts(arrived);
        counts.interests = counts.interests.saturating_add(1);
        counts.first_ns.get_or_insert(now_ns);
    }

    /// Counts frames that the system reported as not received.
    pub(super) fn on_failure(&mut self, arrived: u64, frames: u64) {
        let counts = self.counts(arrived);
        counts.failures = counts.failures.saturating_add(frames);
    }

    /// Returns the counts.
    pub(super) fn report(mut self, arrived: u64) -> Unanswered {
        *self.counts(arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_resets_failures_and_silence() {
        let mut since = SinceArrival::default();
        since.on_failure(7, 3);
        since.on_interest(7, 500);
        since.on_interest(7, 900);
        let counts = Unanswered { interests: 2, first_ns: Some(500), failures: 3 };
        assert_eq!(since.report(7), counts);
        assert_eq!(since.report(8), Unanswered::default(), "a frame has arrived");
        since.on_interest(8, 1000);
        assert_eq!(since.report(8), Unanswered { interests: 1, first_ns: Some(1000), failures: 0 });
    }
}

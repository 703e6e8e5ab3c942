//! The progress of a fetch while it runs and at its end.

use crate::fetch::Counters;

/// The progress of the fetch of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Octets of content verified and delivered in this fetch.
    pub octets: u64,
    /// Octets delivered in all, including an earlier, interrupted fetch.
    pub octets_done: u64,
    /// Octets of the whole object, if known.
    pub octets_total: Option<u64>,
    /// Segments delivered in this fetch.
    pub segments: u64,
    /// Segments of the whole object, if known.
    pub segments_total: Option<u64>,
    /// Time since the fetch began.
    pub elapsed_ns: u64,
    /// Interests, retransmissions, Nacks, marks.
    pub fetch: Counters,
    /// The smoothed round trip.
    pub rtt_ns: u64,
    /// Maximum number of outstanding Interests.
    pub window: usize,
    /// Number of pieces with an origin reported by the router (IncomingFaceId). A copy of a piece
    /// that is there already does not count.
    pub origin_told: u64,
    /// Number of these that came from the router's own content store.
    pub from_cache: u64,
}

impl Progress {
    /// Share of the Data that came from the content store of the first router, 0 to 1; none if the
    /// router does not report it. Data from more distant caches cannot be recognized and count as
    /// not cached.
    pub fn cache_share(&self) -> Option<f64> {
        (self.origin_told > 0).then(|| self.from_cache as f64 / self.origin_told as f64)
    }

    /// Octets per second so far; 0 at the start.
    pub fn octets_per_second(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.octets as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Remaining time at the average rate of this fetch, if size and rate are known.
    pub fn remaining_ns(&self) -> Option<u64> {
        let left = self.octets_total?.saturating_sub(self.octets_done);
        let rate = self.octets_per_second();
        (rate > 0.0).then(|| (left as f64 / rate * 1e9) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_estimates_rate_and_remaining_time() {
        let mut progress = Progress { octets_total: Some(3000), ..Progress::default() };
        assert_eq!((progress.remaining_ns(), progress.cache_share()), (None, None));
        progress.octets = 1000;
        progress.octets_done = 2000;
        progress.elapsed_ns = 2_000_000_000;
        assert_eq!(progress.octets_per_second(), 500.0);
        assert_eq!(progress.remaining_ns(), Some(2_000_000_000));
        progress.origin_told = 4;
        progress.from_cache = 1;
        assert_eq!(progress.cache_share(), Some(0.25));
    }
}

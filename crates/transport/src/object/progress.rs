//! What is known of a fetch while it runs and when it is over.

use crate::fetch::Counters;

/// How far the fetch of an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Octets of content that were verified and handed over in this fetch.
    pub octets: u64,
    /// Octets that are there in all, those of an earlier, interrupted fetch included.
    pub octets_done: u64,
    /// Octets of the whole object, if known.
    pub octets_total: Option<u64>,
    /// Segments handed over in this fetch.
    pub segments: u64,
    /// Segments of the whole object, if known.
    pub segments_total: Option<u64>,
    /// Time since the fetch began.
    pub elapsed_ns: u64,
    /// Interests, retransmissions, Nacks, marks.
    pub fetch: Counters,
    /// The smoothed round trip.
    pub rtt_ns: u64,
    /// Interests that may be outstanding.
    pub window: usize,
    /// Data of which the router told where they came from (IncomingFaceId).
    pub origin_told: u64,
    /// Of these, Data that came from the router's own content store.
    pub from_cache: u64,
}

impl Progress {
    /// Share of the Data that came from the content store of the first router, 0 to 1; none when
    /// the router does not tell. Data carry no sign of caches farther away, so these count as not
    /// cached.
    pub fn cache_share(&self) -> Option<f64> {
        (self.origin_told > 0).then(|| self.from_cache as f64 / self.origin_told as f64)
    }

    /// Octets per second so far; 0 at the start.
    pub fn octets_per_second(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.octets as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Time left at the present rate, if size and rate are known.
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
    fn rate_and_remaining_time_follow_from_what_is_known() {
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

//! A limit of octets per second that several fetches share.

/// Time for which an unused allowance is retained, ns: enough for a timer that fires late.
const BURST_NS: u64 = 50_000_000;

/// A token bucket. A fetch charges it for each Interest, with the octets of the expected Data, and
/// sends no further Interest before [`RateLimit::ready_ns`]. It waits before its requests rather
/// than before its writes, so that no queue fills on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    ready_ns: u64,
}

impl RateLimit {
    /// The earliest time of the next Interest.
    pub fn ready_ns(&self) -> u64 {
        self.ready_ns
    }

    /// Charges `octets` at a limit of `rate` octets per second.
    pub fn charge(&mut self, now_ns: u64, octets: u64, rate: u64) {
        let from_ns = self.ready_ns.max(now_ns.saturating_sub(BURST_NS));
        self.ready_ns = from_ns.saturating_add(duration_ns(octets, rate));
    }

    /// Corrects an earlier charge of `charged` octets to the octets that arrived.
    pub fn correct(&mut self, charged: u64, arrived: u64, rate: u64) {
        let more_ns = duration_ns(arrived.saturating_sub(charged), rate);
        let less_ns = duration_ns(charged.saturating_sub(arrived), rate);
        self.ready_ns = self.ready_ns.saturating_add(more_ns).saturating_sub(less_ns);
    }
}

/// The time that `octets` take at `rate` octets per second, ns.
fn duration_ns(octets: u64, rate: u64) -> u64 {
    let ns = u128::from(octets) * 1_000_000_000 / u128::from(rate.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The octets that one fetch requests within `until_ns` if it polls each `step_ns`.
    fn octets_requested(rate: u64, until_ns: u64, step_ns: u64) -> u64 {
        let (mut limit, mut octets, mut now_ns) = (RateLimit::default(), 0, 0);
        while now_ns < until_ns {
            while limit.ready_ns() <= now_ns {
                limit.charge(now_ns, 8800, rate);
                // The Data is shorter than expected.
                limit.correct(8800, 8000, rate);
                octets += 8000;
            }
            now_ns += step_ns;
        }
        octets
    }

    #[test]
    fn a_rate_is_exact_over_seconds() {
        for (rate, step_ns) in [(100_000, MS), (1_000_000, 20 * MS), (100_000_000, 10 * MS)] {
            let octets = octets_requested(rate, 10_000 * MS, step_ns);
            // Without the last step, which is not polled; with the allowance of the start. One
            // packet more or less.
            let least = 10 * rate - rate * step_ns / (1000 * MS) - 8800;
            let most = 10 * rate + rate / 20 + 8800;
            assert!((least..=most).contains(&octets), "{rate}: {octets}");
        }
    }

    #[test]
    fn an_unused_allowance_expires() {
        let mut limit = RateLimit::default();
        limit.charge(1000 * MS, 50_000, 1_000_000);
        assert_eq!(limit.ready_ns(), 1000 * MS, "the allowance of 50 ms");
        limit.charge(1000 * MS, 1, 1_000_000);
        assert_eq!(limit.ready_ns(), 1000 * MS + 1000, "one octet more");
        limit.correct(1, 3, 1_000_000);
        assert_eq!(limit.ready_ns(), 1000 * MS + 3000);
    }

    #[test]
    fn extreme_rates_neither_panic_nor_wrap() {
        let mut limit = RateLimit::default();
        limit.charge(u64::MAX, u64::MAX, 0);
        assert_eq!(limit.ready_ns(), u64::MAX);
        limit.correct(u64::MAX, 0, 1);
        assert_eq!(limit.ready_ns(), 0);
        limit.charge(0, 8800, u64::MAX);
        assert_eq!(limit.ready_ns(), 0);
    }
}

//! When to set a congestion mark: a queue that stays above a threshold for an interval is reported, and then more and
//! more often until it is short again (NFD `GenericLinkService`; the rule of CoDel without its drops).

/// Settings of congestion marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkingConfig {
    /// Octets of send queue above which there is congestion.
    pub threshold_octets: usize,
    /// How long the queue must stay above before the first mark, ns.
    pub interval_ns: u64,
}

impl Default for MarkingConfig {
    fn default() -> Self {
        MarkingConfig { threshold_octets: 65_536, interval_ns: 100_000_000 }
    }
}

/// One queue's marking state.
#[derive(Clone, Debug, Default)]
pub(crate) struct CongestionMarker {
    next_mark_ns: Option<u64>,
    marks: u64,
}

impl CongestionMarker {
    /// Whether the packet that now joins a queue of `queue_octets` gets a mark.
    pub(crate) fn should_mark(&mut self, config: &MarkingConfig, queue_octets: usize, now_ns: u64) -> bool {
        if queue_octets <= config.threshold_octets {
            *self = CongestionMarker::default();
            return false;
        }
        let Some(next_mark_ns) = self.next_mark_ns else {
            self.next_mark_ns = Some(now_ns.saturating_add(config.interval_ns));
            return false;
        };
        if now_ns < next_mark_ns {
            return false;
        }
        self.marks += 1;
        self.next_mark_ns = Some(next_mark_ns.saturating_add(interval_after(config.interval_ns, self.marks)));
        true
    }
}

/// interval / sqrt(marks + 1), in integers.
fn interval_after(interval_ns: u64, marks: u64) -> u64 {
    // The root is taken of a number scaled by 2^20, hence is itself scaled by 2^10.
    let root = (marks.saturating_add(1) << 20).isqrt().max(1);
    ((u128::from(interval_ns) << 10) / u128::from(root)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const MS: u64 = 1_000_000;

    fn marks(queue: impl Fn(u64) -> usize, until_ms: u64) -> Vec<u64> {
        let config = MarkingConfig::default();
        let mut marker = CongestionMarker::default();
        (0..until_ms).filter(|ms| marker.should_mark(&config, queue(*ms), ms * MS)).collect()
    }

    #[test]
    fn a_queue_at_the_threshold_is_never_marked() {
        assert!(marks(|_| 65_536, 1000).is_empty());
    }

    #[test]
    fn a_queue_one_octet_above_is_marked_after_one_interval_and_then_ever_more_often() {
        let marks = marks(|_| 65_537, 1000);
        // 100, +100/sqrt 2, +100/sqrt 3, …, each rounded up to the next packet.
        assert_eq!(marks[..5], [100, 171, 229, 279, 324]);
    }

    #[test]
    fn a_burst_shorter_than_the_interval_is_not_marked() {
        assert!(marks(|ms| if ms % 100 < 99 { 1 << 20 } else { 0 }, 1000).is_empty());
    }

    #[test]
    fn a_queue_that_drained_starts_over() {
        let marks = marks(|ms| if ms == 150 { 0 } else { 1 << 20 }, 260);
        assert_eq!(marks, [100, 251]);
    }
}

//! CoDel (RFC 8289): distinguishes a standing queue from one that only absorbs a burst, by the time
//! that packets wait in it.
//!
//! A queue is judged as packets leave it. A queue is bad if packets waited longer than a target for
//! a whole interval. The sender is then signaled, and the signals become more frequent while the
//! queue stays bad: the next follows after interval / √n. The first signals are congestion marks; a
//! queue that stays bad drops packets. All arithmetic is in integers.

/// Marks of a bad queue before packets are dropped.
///
/// They are the first signals of one bad period; the following ones are drops. A bad period that
/// continues an earlier one begins with marks again. Otherwise consumers that follow marks but
/// attribute a loss to a bad link would receive no signal. The queue to a local application is
/// marked without end, and drops nothing.
///
/// # Limit
/// Packets are dropped at a rising rate.
/// - Value: 8, after the time `faces.codel_interval_ms` above `faces.codel_target_us`
/// - Counter: `codel`
/// - Tests: `marks_come_before_drops`, `a_lossless_queue_keeps_marking`,
///   `a_standing_application_queue_loses_nothing`,
///   `a_queue_past_the_threshold_is_bad`,
///   `a_standing_queue_marks_then_drops`
pub const CODEL_MARKS_MAX: u32 = 8;

/// A bad period that begins within this number of intervals after the last one continues it (RFC
/// 8289, 5.5).
const MEMORY_INTERVALS: u64 = 16;

/// Settings of a queue's CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Maximum time that packets may wait in a good queue, ns (RFC 8289 `TARGET`).
    pub target_ns: u64,
    /// Time for which a queue may be bad before it is signaled, ns (`INTERVAL`; NFD
    /// BaseCongestionMarkingInterval).
    pub interval_ns: u64,
    /// A queue up to this length is good, octets (`MAXPACKET`; NFD DefaultCongestionThreshold).
    pub threshold_octets: usize,
    /// Whether a queue that stays bad in spite of marks drops packets. On a lossless link with a
    /// bounded queue, a drop only makes the receiver request a packet again that this end already
    /// had.
    pub drops: bool,
}

impl Default for CodelConfig {
    fn default() -> Self {
        CodelConfig { target_ns: 5_000_000, interval_ns: 100_000_000, threshold_octets: 65_536, drops: true }
    }
}

/// The decision about a packet that leaves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent.
    Pass,
    /// It is sent, and one more of the next packets to join the queue receives a congestion mark.
    Mark,
    /// It is dropped.
    Drop,
}

/// One queue's state.
#[derive(Clone, Debug, Default)]
pub struct Codel {
    /// The time at which the queue will have been bad for an interval, ns; `None` while it is good.
    bad_from_ns: Option<u64>,
    is_signalling: bool,
    next_signal_ns: u64,
    /// Number of signals in this bad period.
    count: u32,
    /// The value of `count` at the start of this bad period.
    first_count: u32,
}

impl Codel {
    /// Judges the packet at the head of a queue. It waited for `sojourn_ns` and leaves
    /// `queue_octets` behind it.
    pub fn on_leave(
        &mut self,
        config: &CodelConfig,
        sojourn_ns: u64,
        queue_octets: usize,
        now_ns: u64,
    ) -> Verdict {
        if !self.is_bad(config, sojourn_ns, queue_octets, now_ns) {
            self.is_signalling = false;
            return Verdict::Pass;
        }
        if !self.is_signalling {
            self.begin(config, now_ns);
        } else if now_ns >= self.next_signal_ns {
            self.count = self.count.saturating_add(1);
            self.next_signal_ns = self.next_signal_ns.saturating_add(self.spacing_ns(config));
        } else {
            return Verdict::Pass;
        }
        let signals = self.count.saturating_sub(self.first_count);
        if signals < CODEL_MARKS_MAX || !config.drops { Verdict::Mark } else { Verdict::Drop }
    }

    /// Returns true if packets waited too long for a whole interval.
    fn is_bad(&mut self, config: &CodelConfig, sojourn_ns: u64, queue_octets: usize, now_ns: u64) -> bool {
        if sojourn_ns < config.target_ns || queue_octets <= config.threshold_octets {
            self.bad_from_ns = None;
            return false;
        }
        let bad_from_ns = *self.bad_from_ns.get_or_insert(now_ns.saturating_add(config.interval_ns));
        now_ns >= bad_from_ns
    }

    fn begin(&mut self, config: &CodelConfig, now_ns: u64) {
        self.is_signalling = true;
        let signals = self.count.saturating_sub(self.first_count);
        let is_recent =
            now_ns.saturating_sub(self.next_signal_ns) < config.interval_ns.saturating_mul(MEMORY_INTERVALS);
        self.count = if signals > 1 && is_recent { signals } else { 1 };
        self.first_count = self.count;
        self.next_signal_ns = now_ns.saturating_add(self.spacing_ns(config));
    }

    /// interval / √count, in integers.
    fn spacing_ns(&self, config: &CodelConfig) -> u64 {
        // The root is taken of a number scaled by 2^20, so the root is scaled by 2^10. The interval
        // is not scaled. The remainder of its division is scaled separately, so that the result is
        // exact and nothing exceeds 64 bits.
        let root = (u64::from(self.count) << 20).isqrt().max(1);
        let (whole, rest) = (config.interval_ns / root, config.interval_ns % root);
        whole.saturating_mul(1 << 10).saturating_add((rest << 10) / root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const MS: u64 = 1_000_000;
    const LONG: usize = 1 << 20;

    /// The verdict on one packet each millisecond, by its time in the queue.
    fn signals(
        codel: &mut Codel,
        from_ms: u64,
        until_ms: u64,
        sojourn_ns: impl Fn(u64) -> u64,
    ) -> Vec<(u64, Verdict)> {
        let config = CodelConfig::default();
        (from_ms..until_ms)
            .map(|ms| (ms, codel.on_leave(&config, sojourn_ns(ms), LONG, ms * MS)))
            .filter(|(_, verdict)| *verdict != Verdict::Pass)
            .collect()
    }

    fn times(signals: &[(u64, Verdict)]) -> Vec<u64> {
        signals.iter().map(|(ms, _)| *ms).collect()
    }

    #[test]
    fn a_wait_below_the_target_is_good() {
        assert!(signals(&mut Codel::default(), 0, 5000, |_| 5 * MS - 1).is_empty());
    }

    #[test]
    fn a_queue_past_the_threshold_is_bad() {
        for (octets, is_bad) in [(65_536, false), (65_537, true)] {
            let (mut codel, config) = (Codel::default(), CodelConfig::default());
            let is_signalled =
                (0..200).any(|ms| codel.on_leave(&config, 50 * MS, octets, ms * MS) != Verdict::Pass);
            assert_eq!(is_signalled, is_bad, "{octets}");
        }
    }

    #[test]
    fn a_bad_queue_signals_ever_more_often() {
        let verdicts = signals(&mut Codel::default(), 0, 1000, |_| 5 * MS);
        // 100, then +100, +100/√2, +100/√3 …, each rounded up to the next packet.
        assert_eq!(times(&verdicts)[..6], [100, 200, 271, 329, 379, 424]);
    }

    #[test]
    fn marks_come_before_drops() {
        let verdicts = signals(&mut Codel::default(), 0, 2000, |_| 50 * MS);
        let marks = CODEL_MARKS_MAX as usize;
        assert!(verdicts[..marks].iter().all(|(_, verdict)| *verdict == Verdict::Mark));
        assert!(verdicts[marks..].iter().all(|(_, verdict)| *verdict == Verdict::Drop));
        assert!(verdicts.len() > marks);
    }

    #[test]
    fn a_lossless_queue_keeps_marking() {
        let config = CodelConfig { drops: false, ..CodelConfig::default() };
        let mut codel = Codel::default();
        let verdicts: Vec<_> = (0..5000).map(|ms| codel.on_leave(&config, 50 * MS, LONG, ms * MS)).collect();
        assert!(!verdicts.contains(&Verdict::Drop));
        let marks = verdicts.iter().filter(|verdict| **verdict == Verdict::Mark).count();
        assert!(marks > 10 * CODEL_MARKS_MAX as usize, "{marks}");
    }

    #[test]
    fn one_prompt_packet_ends_a_bad_period() {
        let sojourn = |ms| if ms % 100 == 99 { 0 } else { 50 * MS };
        assert!(
            signals(&mut Codel::default(), 0, 5000, sojourn).is_empty(),
            "bursts shorter than an interval"
        );
        let sojourn = |ms| if ms == 250 { 0 } else { 50 * MS };
        let verdicts = signals(&mut Codel::default(), 0, 352, sojourn);
        assert_eq!(times(&verdicts), [100, 200, 351]);
    }

    #[test]
    fn a_bad_period_soon_afterwards_resumes() {
        let mut codel = Codel::default();
        let first = signals(&mut codel, 0, 1000, |_| 50 * MS);
        signals(&mut codel, 1000, 1001, |_| 0);
        let again = signals(&mut codel, 1001, 1400, |_| 50 * MS);
        // The second bad period starts with the signal count of the first one. Its signals are as
        // close together as the last ones of the first period, and marks come first again.
        let marks = CODEL_MARKS_MAX as usize;
        assert!(first.len() > marks + 1);
        assert_eq!(again[0], (1101, Verdict::Mark));
        assert!(again[..marks].iter().all(|(_, verdict)| *verdict == Verdict::Mark), "{again:?}");
        assert_eq!(again[marks].1, Verdict::Drop);
        assert!(again[1].0 - again[0].0 < 40);
        signals(&mut codel, 1400, 1401, |_| 0);
        let late = signals(&mut codel, 9000, 9250, |_| 50 * MS);
        assert_eq!(late, [(9100, Verdict::Mark), (9200, Verdict::Mark)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn signal_intervals_match_128_bit_arithmetic(interval_ns: u64, count in 1u32..) {
            let codel = Codel { count, ..Codel::default() };
            let config = CodelConfig { interval_ns, ..CodelConfig::default() };
            let root = (u128::from(count) << 20).isqrt();
            let expected = (u128::from(interval_ns) << 10) / root;
            prop_assert_eq!(codel.spacing_ns(&config), u64::try_from(expected).unwrap_or(u64::MAX));
        }
    }

    #[test]
    fn extreme_codel_settings_do_no_harm() {
        for interval_ns in [0, 1, u64::MAX] {
            let config = CodelConfig { target_ns: 0, interval_ns, threshold_octets: 0, drops: true };
            let mut codel = Codel::default();
            for now_ns in [0, 1, u64::MAX, 3, u64::MAX] {
                codel.on_leave(&config, u64::MAX, usize::MAX, now_ns);
            }
        }
    }
}

//! Detects that the thread of discovery, or the whole process, did not run for a while. The hellos
//! that arrived meanwhile are read before a neighbor's silence is judged.

/// Delay of a timer from which on the thread counts as stalled, ns.
const LATE_NS: u64 = 250_000_000;

/// Time for the workers to read the packets that arrived during a stall, ns.
const GRACE_NS: u64 = 200_000_000;

/// The grace period after a stall.
#[derive(Debug, Default)]
pub(super) struct StallGuard {
    until_ns: Option<u64>,
}

impl StallGuard {
    /// Returns the end of the grace period, during which no timer runs. `due_ns` is the time for
    /// which the thread had set its timer.
    pub(super) fn grace_ns(&mut self, due_ns: Option<u64>, now_ns: u64) -> Option<u64> {
        self.until_ns = match self.until_ns {
            Some(until_ns) => Some(until_ns).filter(|until_ns| now_ns < *until_ns),
            None => {
                let is_late = due_ns.is_some_and(|due_ns| now_ns > due_ns.saturating_add(LATE_NS));
                is_late.then(|| now_ns.saturating_add(GRACE_NS))
            }
        };
        self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_delays_the_timers_once() {
        let mut stalls = StallGuard::default();
        assert_eq!(stalls.grace_ns(None, 0), None, "the first round");
        assert_eq!(stalls.grace_ns(Some(1000), 1000 + LATE_NS), None, "a little late");
        let woken_ns = 1001 + LATE_NS;
        let end_ns = woken_ns + GRACE_NS;
        assert_eq!(stalls.grace_ns(Some(1000), woken_ns), Some(end_ns));
        assert_eq!(stalls.grace_ns(Some(end_ns), end_ns - 1), Some(end_ns), "a packet woke the thread");
        assert_eq!(stalls.grace_ns(Some(end_ns), end_ns), None);
        assert_eq!(stalls.grace_ns(Some(end_ns), end_ns + LATE_NS), None, "a later round");
    }
}

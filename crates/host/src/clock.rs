//! The system's clocks: the monotonic one, by which everything in the process is timed, and the
//! wall clock, by which signatures, certificates and versions are dated.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since some point before the process started. The value never decreases.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// Nanoseconds for which this thread has run on a processor. The read is a system call.
pub fn thread_cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    (used.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(used.tv_nsec as u64)
}

/// The wall clock: time since the Unix epoch; zero while the clock is set before it.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Nanoseconds since the Unix epoch, by the wall clock.
pub fn unix_ns() -> u64 {
    u64::try_from(since_epoch().as_nanos()).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch, by the wall clock.
pub fn unix_ms() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_agree_on_durations() {
        let (monotonic_ns, unix_ns) = (super::monotonic_ns(), super::unix_ns());
        let cpu_ns = thread_cpu_ns();
        std::thread::sleep(Duration::from_millis(5));
        let (passed_ns, used_ns) = (super::monotonic_ns() - monotonic_ns, thread_cpu_ns() - cpu_ns);
        assert!(passed_ns >= 5_000_000 && used_ns < passed_ns, "asleep it has no processor");
        assert!(super::unix_ns() > unix_ns);
        let (ms, ns) = (unix_ms(), super::unix_ns());
        assert!((ns / 1_000_000).abs_diff(ms) < 60_000, "{ms} ms are not {ns} ns");
    }
}

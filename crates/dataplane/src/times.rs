//! The times that packets take through a content store with a disk: the paths of NB-Cache's Table
//! II.
//!
//! Each worker has a histogram of each path, which only that worker changes; readers add them up.
//! For paths that end within an iteration, at most one batch per [`TIMED_NS`] is timed, which
//! bounds the cost for a busy router. Every read is timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_messages::Counter;
use parking_lot::Mutex;

/// At most one batch is timed in this time, ns.
pub(super) const TIMED_NS: u64 = 100_000;

/// Buckets per doubling of the time.
const PARTS: u64 = 4;

/// The end of the first bucket. The last one holds times of more than a minute.
const SHORTEST_NS: u64 = 64;

/// Doublings from [`SHORTEST_NS`] on.
const DOUBLINGS: u64 = 30;

const BUCKETS: usize = (PARTS * DOUBLINGS) as usize + 1;

/// A way through the content store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Timed Interests that memory answered.
    Memory,
    /// Timed Interests for which the disk began a read, up to the next step of the worker.
    Issue,
    /// Interests that the disk answered, from the start of the read until the worker has the Data.
    /// All are timed.
    Disk,
    /// Timed Interests that were forwarded because their Data is not on disk: the first-stage
    /// bypass.
    Absent,
    /// Timed Interests that were forwarded because the disk is busy: the second-stage bypass.
    Busy,
}

/// The names of each path's counters.
const LABELS: [(Path, [&str; 4]); 5] = [
    (Path::Memory, ["time_memory", "time_memory_ns", "time_memory_ns_p50", "time_memory_ns_p99"]),
    (Path::Issue, ["time_issue", "time_issue_ns", "time_issue_ns_p50", "time_issue_ns_p99"]),
    (Path::Disk, ["time_disk", "time_disk_ns", "time_disk_ns_p50", "time_disk_ns_p99"]),
    (Path::Absent, ["time_absent", "time_absent_ns", "time_absent_ns_p50", "time_absent_ns_p99"]),
    (Path::Busy, ["time_busy", "time_busy_ns", "time_busy_ns_p50", "time_busy_ns_p99"]),
];

/// The times that packets took by one path.
#[derive(Debug)]
pub struct PathTimes {
    /// Its name in counters, without `time_`.
    pub path: &'static str,
    /// The sum of all, seconds.
    pub sum_s: f64,
    /// The number of times below each bound, in seconds, and not below the previous one. The last
    /// bucket has no bound.
    pub buckets: Vec<(f64, u64)>,
}

/// The times of one worker.
#[derive(Debug)]
pub(crate) struct Times([Histogram; LABELS.len()]);

impl Times {
    fn new() -> Self {
        Times([(); LABELS.len()].map(|()| Histogram::new()))
    }

    pub(super) fn record(&self, path: Path, ns: u64) {
        // The variants are in the order of `LABELS`.
        if let Some(histogram) = self.0.get(path as usize) {
            histogram.record(ns);
        }
    }
}

/// The times of all workers.
#[derive(Debug, Default)]
pub struct AllTimes(Mutex<Vec<Arc<Times>>>);

impl AllTimes {
    /// Adds the times of a further worker.
    pub(super) fn add(&self) -> Arc<Times> {
        let times = Arc::new(Times::new());
        self.0.lock().push(times.clone());
        times
    }

    /// Returns the histogram of each path. Each bucket ends at four times the end of the previous
    /// one. The coarse buckets limit the number of series that a scraper stores.
    pub fn histograms(&self) -> Vec<PathTimes> {
        let all = self.0.lock();
        let of_path = |(path, labels): (Path, [&'static str; 4])| {
            let sum = Histogram::new();
            all.iter().filter_map(|times| times.0.get(path as usize)).for_each(|times| sum.add(times));
            PathTimes {
                path: labels.first().map_or("", |label| label.trim_start_matches("time_")),
                sum_s: sum.sum_ns.load(Ordering::Relaxed) as f64 / 1e9,
                buckets: sum.coarse(),
            }
        };
        LABELS.into_iter().map(of_path).collect()
    }

    /// Returns for each path: packets timed, the sum of their times, the median, and the 99th
    /// percentile.
    pub fn counters(&self) -> Vec<Counter> {
        let all = self.0.lock();
        let of_path = |(path, labels): (Path, [&'static str; 4])| {
            let sum = Histogram::new();
            all.iter().filter_map(|times| times.0.get(path as usize)).for_each(|times| sum.add(times));
            let count = sum.count();
            let values =
                [count, sum.sum_ns.load(Ordering::Relaxed), sum.quantile_ns(50), sum.quantile_ns(99)];
            labels
                .into_iter()
                .zip(values)
                .map(|(label, value)| Counter::new(label, value))
                .collect::<Vec<_>>()
        };
        LABELS.into_iter().flat_map(of_path).collect()
    }
}

/// Times by their logarithms, four buckets in each doubling. One thread changes it.
#[derive(Debug)]
struct Histogram {
    sum_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Histogram {
    fn new() -> Self {
        Histogram { sum_ns: AtomicU64::new(0), buckets: [const { AtomicU64::new(0) }; BUCKETS] }
    }

    fn record(&self, ns: u64) {
        increase(&self.sum_ns, ns);
        if let Some(bucket) = self.buckets.get(bucket(ns)) {
            increase(bucket, 1);
        }
    }

    fn add(&self, other: &Histogram) {
        increase(&self.sum_ns, other.sum_ns.load(Ordering::Relaxed));
        for (own, other) in self.buckets.iter().zip(&other.buckets) {
            // Relaxed: a reader may miss the latest times.
            increase(own, other.load(Ordering::Relaxed));
        }
    }

    /// Returns buckets of two doublings each, with their ends in seconds.
    fn coarse(&self) -> Vec<(f64, u64)> {
        let octaves = self.buckets.chunks((2 * PARTS) as usize).enumerate();
        let coarse = octaves.map(|(n, buckets)| {
            let last = n * (2 * PARTS) as usize + buckets.len() - 1;
            let count = buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum();
            let is_last = last + 1 == BUCKETS;
            (if is_last { f64::INFINITY } else { end_ns(last) as f64 / 1e9 }, count)
        });
        coarse.collect()
    }

    fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The end of the bucket in which the quantile lies; 0 without any.
    fn quantile_ns(&self, percent: u64) -> u64 {
        let rank = self.count().saturating_mul(percent).div_ceil(100);
        let mut seen = 0;
        for (n, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Ordering::Relaxed);
            // Without any times the rank is 0, which no bucket has.
            if rank > 0 && seen >= rank {
                return end_ns(n);
            }
        }
        0
    }
}

/// No read-modify-write is needed, because only one thread writes.
fn increase(value: &AtomicU64, by: u64) {
    value.store(value.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

fn bucket(ns: u64) -> usize {
    if ns < SHORTEST_NS {
        return 0;
    }
    let doubling = u64::from(ns.ilog2());
    let part = (ns >> (doubling - 2)) & (PARTS - 1);
    let bucket = 1 + (doubling - u64::from(SHORTEST_NS.ilog2())) * PARTS + part;
    (bucket as usize).min(BUCKETS - 1)
}

/// Returns the end of a bucket.
fn end_ns(bucket: usize) -> u64 {
    let quarters = PARTS + bucket as u64 % PARTS;
    (SHORTEST_NS / PARTS * quarters) << (bucket as u64 / PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_in_the_next_bucket() {
        for ns in [0, 63, 64, 79, 80, 127, 128, 1_000, 193_400, 18_699_000, 60_000_000_000] {
            let n = bucket(ns);
            assert!(ns < end_ns(n), "{ns}: {}", end_ns(n));
            assert!(n == 0 || end_ns(n - 1) <= ns, "{ns}: {}", end_ns(n - 1));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!(end_ns(BUCKETS - 2) > 60_000_000_000);
    }

    #[test]
    fn times_of_all_workers_are_summed() {
        let all = AllTimes::default();
        let workers = [all.add(), all.add()];
        (0..98).for_each(|_| workers[0].record(Path::Disk, 1_000));
        (0..2).for_each(|_| workers[1].record(Path::Disk, 1_000_000));
        let counters = all.counters();
        let of = |label: &str| counters.iter().find(|counter| counter.label == label).unwrap().value;
        assert_eq!((of("time_disk"), of("time_disk_ns")), (100, 2_098_000));
        assert!((1_000..1_280).contains(&of("time_disk_ns_p50")), "{}", of("time_disk_ns_p50"));
        assert!((1_000_000..1_280_000).contains(&of("time_disk_ns_p99")), "{}", of("time_disk_ns_p99"));
        assert_eq!((of("time_busy"), of("time_busy_ns_p99")), (0, 0));
        let histograms = all.histograms();
        let disk = histograms.iter().find(|times| times.path == "disk").unwrap();
        assert!((disk.sum_s - 2.098e-3).abs() < 1e-9, "{}", disk.sum_s);
        let up_to = |end: f64| disk.buckets.iter().filter(|(at, _)| *at <= end).map(|(_, n)| n).sum::<u64>();
        assert_eq!((up_to(0.9e-6), up_to(10e-6), up_to(f64::INFINITY)), (0, 98, 100));
        assert!(disk.buckets.is_sorted_by(|a, b| a.0 < b.0), "{:?}", disk.buckets);
        assert!(disk.buckets.last().unwrap().0.is_infinite() && disk.buckets.len() < 20);
    }
}

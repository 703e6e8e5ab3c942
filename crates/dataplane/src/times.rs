//! How long packets take through a content store with a disk: the paths of NB-Cache's Table II.
//!
//! Each worker has a histogram of each path, which it alone changes; who shows them adds them up.
//! Of the paths that end within a turn one batch is timed in [`TIMED_NS`], so that a router which
//! has much to do pays for no more than that; every read is timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_wire::mgmt::Counter;
use parking_lot::Mutex;

/// One batch is timed in so long.
pub(super) const TIMED_NS: u64 = 100_000;

/// Buckets of a doubling.
const PARTS: u64 = 4;

/// The first bucket ends here; the last one has what is longer than a minute.
const SHORTEST_NS: u64 = 64;

/// Doublings from [`SHORTEST_NS`] on.
const DOUBLINGS: u64 = 30;

const BUCKETS: usize = (PARTS * DOUBLINGS) as usize + 1;

/// A way through the content store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Memory answers.
    Memory,
    /// The disk is asked to read; the Interest waits.
    Issue,
    /// From then on until the worker has what was read.
    Disk,
    /// It is not on disk, and goes on: first-stage bypass.
    Absent,
    /// The disk is busy, and it goes on: second-stage bypass.
    Busy,
}

/// What each path is called in counters.
const LABELS: [(Path, [&str; 4]); 5] = [
    (Path::Memory, ["time_memory", "time_memory_ns", "time_memory_ns_p50", "time_memory_ns_p99"]),
    (Path::Issue, ["time_issue", "time_issue_ns", "time_issue_ns_p50", "time_issue_ns_p99"]),
    (Path::Disk, ["time_disk", "time_disk_ns", "time_disk_ns_p50", "time_disk_ns_p99"]),
    (Path::Absent, ["time_absent", "time_absent_ns", "time_absent_ns_p50", "time_absent_ns_p99"]),
    (Path::Busy, ["time_busy", "time_busy_ns", "time_busy_ns_p50", "time_busy_ns_p99"]),
];

/// How long packets took by one path.
#[derive(Debug)]
pub struct PathTimes {
    /// What it is called in counters, without `time_`.
    pub path: &'static str,
    /// The sum of all, seconds.
    pub sum_s: f64,
    /// How many took less than so many seconds and no less than the bucket before. The last bucket
    /// has no end.
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
        if let Some(histogram) = self.0.get(path as usize) {
            histogram.record(ns);
        }
    }
}

/// The times of all workers.
#[derive(Debug, Default)]
pub struct AllTimes(Mutex<Vec<Arc<Times>>>);

impl AllTimes {
    /// A further worker's.
    pub(super) fn add(&self) -> Arc<Times> {
        let times = Arc::new(Times::new());
        self.0.lock().push(times.clone());
        times
    }

    /// Of each path, in buckets that end at four times the one before: a series for each is kept by
    /// who scrapes them.
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

    /// Of each path: packets timed, the sum of their times, the median, and what 99 of 100 take at
    /// most.
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
            increase(own, other.load(Ordering::Relaxed));
        }
    }

    /// Two doublings a bucket, with their ends in seconds.
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
            if rank > 0 && seen >= rank {
                return end_ns(n);
            }
        }
        0
    }
}

/// No read-modify-write: nobody else writes.
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

/// Where a bucket ends.
fn end_ns(bucket: usize) -> u64 {
    let quarters = PARTS + bucket as u64 % PARTS;
    (SHORTEST_NS / PARTS * quarters) << (bucket as u64 / PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_the_bucket_that_ends_next_above_it() {
        for ns in [0, 63, 64, 79, 80, 127, 128, 1_000, 193_400, 18_699_000, 60_000_000_000] {
            let n = bucket(ns);
            assert!(ns < end_ns(n), "{ns}: {}", end_ns(n));
            assert!(n == 0 || end_ns(n - 1) <= ns, "{ns}: {}", end_ns(n - 1));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!(end_ns(BUCKETS - 2) > 60_000_000_000);
    }

    #[test]
    fn the_times_of_all_workers_are_shown_together() {
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

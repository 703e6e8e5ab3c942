//! Request traces for cache policies: those of the published hit ratios, key by key.
//!
//! - independent references: keys of Zipf popularity;
//! - segmented objects: consumers that fetch objects of Zipf popularity and log-normal length,
//!   eight segments at a time, interleaved at random;
//! - the same with a share of fetches of objects that are never requested again (a scan);
//! - the same with a popularity that changes: at regular intervals, some objects swap ranks.
//!
//! Three thousand objects are few: another seed changes a hit ratio by several points. So each
//! trace starts the generator in the state that it had in the published run.

use super::numpy::{Normal, Pcg64};

/// Requests of a trace.
pub(super) const REQUESTS: usize = 2_000_000;

/// The increment of the published run's generator.
const INCREMENT: u128 = 261_136_684_632_268_670_825_940_853_076_396_136_793;

/// Ranks of Zipf popularity: rank `k` comes with weight 1 / (k + 1)^exponent.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=ranks).map(|rank| 1.0 / (rank as f64).powf(exponent));
        let mut cumulative: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|weight| *weight /= sum);
        Zipf(cumulative)
    }

    fn draw(&self, random: &mut Pcg64) -> usize {
        let at = random.unit();
        self.0.partition_point(|cumulative| *cumulative < at)
    }
}

/// A trace of the published table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trace {
    /// Independent references, Zipf 0.8.
    Zipf,
    /// Segmented objects, Zipf 1.
    Segments,
    /// Segmented objects, Zipf 1, 30 % scan.
    Scan,
    /// Segmented objects, Zipf 1, popularity drift, 10 % scan.
    Drift,
}

/// Keys of the independent references.
const KEYS: usize = 200_000;
/// Number of objects, and number of concurrent consumers.
const OBJECTS: u32 = 3_000;
const CONSUMERS: u32 = 8;
/// Segments that one consumer requests in a row.
const BURST: u32 = 8;
/// Segments of an object: median and maximum.
const SEGMENTS_MEDIAN: f64 = 64.0;
const SEGMENTS_MAX: f64 = 2_000.0;
/// Number of ranks that the published run drew before the rest of a trace.
const RANKS_DRAWN: u64 = 8_000_000;
/// Requests between two changes of popularity, and the number of ranks that each swaps.
const DRIFT_REQUESTS: usize = 100_000;
const DRIFT_RANKS: usize = 150;

impl Trace {
    /// All of them.
    pub(super) const ALL: [Trace; 4] = [Trace::Zipf, Trace::Segments, Trace::Scan, Trace::Drift];

    /// The name in tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Trace::Zipf => "zipf 0.8",
            Trace::Segments => "segmented objects",
            Trace::Scan => "+ 30 % scan",
            Trace::Drift => "drift + 10 % scan",
        }
    }

    /// The generator at the start of the trace.
    fn random(self) -> Pcg64 {
        let (state, half) = match self {
            Trace::Zipf => (208_745_520_555_909_116_978_795_849_195_383_758_904, None),
            Trace::Segments => (165_493_709_700_630_323_149_536_712_614_806_396_728, None),
            Trace::Scan => (60_727_531_798_055_025_885_181_509_850_298_968_986, None),
            Trace::Drift => (82_136_406_359_700_167_372_444_203_696_084_663_808, Some(560_331_408)),
        };
        Pcg64::new(state, INCREMENT, half)
    }

    /// Its first `requests` keys, at most [`REQUESTS`].
    pub(super) fn keys(self, requests: usize) -> Vec<u32> {
        match self {
            Trace::Zipf => {
                let (zipf, mut random) = (Zipf::new(KEYS, 0.8), self.random());
                (0..requests).map(|_| zipf.draw(&mut random) as u32).collect()
            }
            Trace::Segments => Fetches::new(self.random(), 0.0).keys(requests, false),
            Trace::Scan => Fetches::new(self.random(), 0.3).keys(requests, false),
            Trace::Drift => Fetches::new(self.random(), 0.1).keys(requests, true),
        }
    }
}

/// Consumers that fetch objects segment by segment.
struct Fetches {
    random: Pcg64,
    /// The generator of the ranks of the objects to fetch.
    ranks: Pcg64,
    zipf: Zipf,
    normal: Normal,
    /// The first key of each object, and one past the last of all.
    bases: Vec<u32>,
    /// The object at each rank.
    objects: Vec<u32>,
    /// The share of fetches of new objects, and the first key of the next new object.
    scan: f64,
    next_new: u32,
}

impl Fetches {
    fn new(mut random: Pcg64, scan: f64) -> Self {
        let normal = Normal::default();
        let mut bases = vec![0];
        let mut end = 0;
        for _ in 0..OBJECTS {
            end += segments(&normal, &mut random);
            bases.push(end);
        }
        let objects = random.permutation(OBJECTS);
        let ranks = random.clone();
        random.advance(RANKS_DRAWN);
        let zipf = Zipf::new(OBJECTS as usize, 1.0);
        Fetches { random, ranks, zipf, normal, bases, objects, scan, next_new: end + 10 }
    }

    /// The next fetch of a consumer: from the first key to one past the last.
    fn fetch(&mut self) -> (u32, u32) {
        if self.scan > 0.0 && self.random.unit() < self.scan {
            let from = self.next_new;
            self.next_new += segments(&self.normal, &mut self.random);
            return (from, self.next_new);
        }
        let object = self.objects[self.zipf.draw(&mut self.ranks)] as usize;
        (self.bases[object], self.bases[object + 1])
    }

    fn keys(mut self, requests: usize, drift: bool) -> Vec<u32> {
        let mut keys = Vec::with_capacity(requests + BURST as usize);
        let mut fetching: Vec<(u32, u32)> = (0..CONSUMERS).map(|_| self.fetch()).collect();
        let mut changes = 0;
        while keys.len() < requests {
            let consumer = self.random.below(CONSUMERS) as usize;
            let (from, to) = fetching[consumer];
            let until = to.min(from + BURST);
            keys.extend(from..until);
            fetching[consumer] = if until < to { (until, to) } else { self.fetch() };
            if drift && keys.len() / DRIFT_REQUESTS != changes {
                changes = keys.len() / DRIFT_REQUESTS;
                self.change();
            }
        }
        keys.truncate(requests);
        keys
    }

    /// Swaps the objects at some ranks. If a rank is drawn twice, the last swap counts.
    fn change(&mut self) {
        let mut draw =
            || -> Vec<usize> { (0..DRIFT_RANKS).map(|_| self.random.below(OBJECTS) as usize).collect() };
        let (from, to) = (draw(), draw());
        let at = |ranks: &[usize]| -> Vec<u32> { ranks.iter().map(|rank| self.objects[*rank]).collect() };
        let (of_from, of_to) = (at(&from), at(&to));
        for (ranks, objects) in [(from, of_to), (to, of_from)] {
            ranks.into_iter().zip(objects).for_each(|(rank, object)| self.objects[rank] = object);
        }
    }
}

/// The length of an object.
fn segments(normal: &Normal, random: &mut Pcg64) -> u32 {
    (SEGMENTS_MEDIAN.ln() + normal.draw(random)).exp().clamp(1.0, SEGMENTS_MAX) as u32
}

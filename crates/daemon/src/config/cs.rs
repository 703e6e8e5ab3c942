//! The content store's disk. The limits of the content store's memory are in `[tables]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use namely_dataplane::DiskVariant;
use namely_forwarder::{LABEL_MS_MAX, TierMarking};
use namely_tier::{
    self as tier, EngineKind, Fairness, FilterKind, OCTETS_MAX, OCTETS_MIN, Options, PENDING_THRESHOLD,
    Slowness, THREADS_MAX,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{changed_keys, values};

/// Octets read from disk for each octet written, with [`Queue::Weighted`].
const READS_WEIGHT: u32 = 4;

/// Default size of a folder, octets.
const FOLDER_OCTETS_MAX: u64 = 1 << 30;

/// Minimum time between announcements of congestion, ms.
const ANNOUNCE_MS_MIN: u64 = 10;

/// Settings of the content store, except for those of its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cs {
    /// Its disk.
    pub disk: CsDisk,
}

/// Defines a choice that is written as a word.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of])* $variant),*
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok($name::$variant),)*
                    _ => Err(format!("`{text}` is none of {}", [$($word),*].join(", "))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $word),* })
            }
        }
    };
}

words! {
    /// The packets that are written to disk when they are evicted from memory.
    Admission {
        /// Packets that were requested again while in memory.
        Hit = "hit",
        /// These, and packets that were evicted before, not long ago.
        #[default]
        Again = "again",
        /// All packets.
        All = "all",
    }
}

words! {
    /// The order of reads and writes.
    Queue {
        /// In the order of arrival.
        #[default]
        Fifo = "fifo",
        /// Writes before reads.
        DataFirst = "data-first",
        /// Both, by weight.
        Weighted = "weighted",
    }
}

words! {
    /// The engine for reads and writes.
    Engine {
        /// io_uring if the kernel allows it, otherwise threads.
        #[default]
        Auto = "auto",
        /// io_uring.
        Uring = "uring",
        /// A pool of threads.
        Threads = "threads",
    }
}

words! {
    /// The filter that is queried before the index.
    Filter {
        /// A cuckoo filter.
        #[default]
        Cuckoo = "cuckoo",
        /// A counting Bloom filter.
        Bloom = "bloom",
        /// None, for experiments: the index is always queried.
        None = "none",
    }
}

words! {
    /// The condition for marking Data from a busy disk.
    Marking {
        /// The disk is at its threshold, and no upstream can take over the load.
        #[default]
        Lazy = "lazy",
        /// The disk is at its threshold.
        Threshold = "threshold",
        /// Never.
        Never = "never",
    }
}

impl Marking {
    /// The forwarder's value.
    pub(super) fn to_tier(self) -> TierMarking {
        match self {
            Marking::Lazy => TierMarking::Lazy,
            Marking::Threshold => TierMarking::Threshold,
            Marking::Never => TierMarking::Never,
        }
    }
}

impl Admission {
    /// The store's value.
    pub(crate) fn to_tier(self) -> tier::Admission {
        match self {
            Admission::Hit => tier::Admission::Hit,
            Admission::Again => tier::Admission::Again,
            Admission::All => tier::Admission::All,
        }
    }

    /// Converts the store's value.
    pub(crate) fn of(admission: tier::Admission) -> Self {
        match admission {
            tier::Admission::Hit => Admission::Hit,
            tier::Admission::Again => Admission::Again,
            tier::Admission::All => Admission::All,
        }
    }
}

impl Queue {
    /// The store's value.
    pub(crate) fn fairness(self) -> Fairness {
        match self {
            Queue::Fifo => Fairness::Fifo,
            Queue::DataFirst => Fairness::DataFirst,
            Queue::Weighted => Fairness::Weighted { reads: READS_WEIGHT, writes: 1 },
        }
    }
}

/// The content store's disk. `docs/limits.md` describes its limits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsDisk {
    /// Its folder, a block device, or a file that replaces a device; without it there is no disk.
    pub folder: Option<PathBuf>,
    /// The number of a group that may write to the folder and its files, beside the router's user.
    pub group: Option<u32>,
    /// Maximum size in octets, as a number or as text such as `"20GiB"`. The default is 1 GiB of a
    /// folder, all of a device.
    #[serde(deserialize_with = "budget")]
    pub octets_max: Option<u64>,
    /// The packets that are written when they are evicted from memory.
    #[serde(deserialize_with = "values::text")]
    pub admission: Admission,
    /// Number of pending requests at which the disk begins to be bypassed.
    pub threshold: usize,
    /// The order of reads and writes.
    #[serde(deserialize_with = "values::text")]
    pub queue: Queue,
    /// Whether Data from a disk at its threshold is marked.
    #[serde(deserialize_with = "values::text")]
    pub marking: Marking,
    /// Interval of congestion announcements to neighbors that request from a disk at its
    /// threshold, ms; 0: never.
    #[serde(deserialize_with = "announce")]
    pub announce_ms: u64,
    /// Whether reading the first segment of an object also reads the following ones.
    pub read_ahead: bool,
    /// The engine for reads and writes.
    #[serde(deserialize_with = "values::text")]
    pub engine: Engine,
    /// Threads of the pool, if it is the engine.
    #[serde(deserialize_with = "threads")]
    pub threads: usize,
    /// The filter before the index.
    #[serde(deserialize_with = "values::text")]
    pub filter: Filter,
    /// For experiments: limits the disk to a rate of requests, or delays each request.
    #[serde(deserialize_with = "slow")]
    pub slow: Slowness,
    /// For programs that host a router. No file or option sets it.
    #[serde(skip)]
    pub variant: Variant,
}

/// A replacement for parts of the disk's design, for experiments. The default is none.
#[derive(Clone, Debug, Default)]
pub struct Variant(pub Option<Arc<dyn DiskVariant>>);

/// Two variants are equal if both are absent or both are the same object.
impl PartialEq for Variant {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Variant {}

impl Default for CsDisk {
    fn default() -> Self {
        CsDisk {
            folder: None,
            group: None,
            octets_max: None,
            admission: Admission::default(),
            threshold: PENDING_THRESHOLD,
            queue: Queue::default(),
            marking: Marking::default(),
            announce_ms: 0,
            read_ahead: true,
            engine: Engine::default(),
            threads: 4,
            filter: Filter::default(),
            slow: Slowness::default(),
            variant: Variant::default(),
        }
    }
}

impl CsDisk {
    /// Keys that differ in `new` and take effect only at the next start.
    pub(super) fn restart_needed(&self, new: &CsDisk) -> impl Iterator<Item = &'static str> {
        changed_keys!(self, new, "cs.disk": folder, group, marking, announce_ms, read_ahead, engine, threads, filter, slow)
    }

    /// Its maximum size, octets.
    pub(crate) fn budget(&self) -> u64 {
        let is_device = || self.folder.as_deref().is_some_and(tier::is_device);
        self.octets_max.unwrap_or_else(|| if is_device() { OCTETS_MAX } else { FOLDER_OCTETS_MAX })
    }

    /// The store's options.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options {
            admission: self.admission.to_tier(),
            pending_threshold: self.threshold,
            engine: match self.engine {
                Engine::Auto => EngineKind::Auto,
                Engine::Uring => EngineKind::Uring,
                Engine::Threads => EngineKind::Threads(self.threads),
            },
            fairness: self.queue.fairness(),
            filter: match self.filter {
                Filter::Cuckoo => FilterKind::Cuckoo,
                Filter::Bloom => FilterKind::CountingBloom,
                Filter::None => FilterKind::None,
            },
            read_ahead: self.read_ahead,
            slowness: self.slow,
            group: self.group,
            ..Options::new(self.budget())
        };
        if let Some(variant) = &self.variant.0 {
            variant.change(&mut options);
        }
        options
    }
}

/// Returns `octets` if it is a valid size of a disk.
///
/// # Errors
/// A message with the valid sizes.
pub(crate) fn check_budget(octets: u64) -> Result<u64, String> {
    match (OCTETS_MIN..=OCTETS_MAX).contains(&octets) {
        true => Ok(octets),
        false => Err(format!("{octets} octets: use {}MiB to {}GiB", OCTETS_MIN >> 20, OCTETS_MAX >> 30)),
    }
}

fn budget<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    check_budget(values::octets(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// Parses the interval of announcements. A label lasts for three intervals.
fn announce<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        period_ms if period_ms == 0 || (ANNOUNCE_MS_MIN..=LABEL_MS_MAX / 3).contains(&period_ms) => {
            Ok(period_ms)
        }
        period_ms => Err(D::Error::custom(format!(
            "{period_ms} ms: use 0 for never, or {ANNOUNCE_MS_MIN} to {}",
            LABEL_MS_MAX / 3
        ))),
    }
}

fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        threads @ 1..=THREADS_MAX => Ok(threads),
        threads => Err(D::Error::custom(format!("{threads} threads: use 1 to {THREADS_MAX}"))),
    }
}

/// Longest delay by `slow`.
const SLOW_MAX: Duration = Duration::from_secs(10);

/// Parses `"4.7k/s"` or `"414/s"`, sequential requests per second, or `"193us"` or `"9ms"`, the
/// additional delay of each request.
fn slow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Slowness, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = |unit: &str, factor: f64| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * factor)
    };
    let rate = number("k/s", 1e3).or_else(|| number("/s", 1.0));
    let slowness = match rate {
        Some(rate) => {
            let rate = Some(rate.round()).filter(|rate| (1.0..=1e9).contains(rate));
            rate.map(|rate| Slowness { requests_per_s: rate as u32, ..Slowness::default() })
        }
        None => {
            let micros = number("us", 1.0).or_else(|| number("ms", 1e3));
            let delay = micros.filter(|micros| (1.0..=SLOW_MAX.as_micros() as f64).contains(micros));
            delay.map(|micros| Slowness {
                delay: Duration::from_nanos((micros * 1e3) as u64),
                ..Slowness::default()
            })
        }
    };
    slowness.ok_or_else(|| {
        D::Error::custom(format!("`{text}` is no disk: write \"414/s\", \"4.7k/s\", \"193us\" or \"9ms\""))
    })
}

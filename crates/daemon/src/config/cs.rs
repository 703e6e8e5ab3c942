//! The content store's disk. Its memory has limits among the tables.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use namely_forwarder::{LABEL_MS_MAX, TierMarking};
use namely_store::tier::{
    self, EngineKind, Fairness, FilterKind, OCTETS_MAX, OCTETS_MIN, Options, PENDING_THRESHOLD, Slowness,
    THREADS_MAX,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{changed_keys, values};

/// Octets on disk that are read for each that is written, with [`Queue::Weighted`].
const READS_WEIGHT: u32 = 4;

/// Octets that a folder may take if nothing is said.
const FOLDER_OCTETS_MAX: u64 = 1 << 30;

/// Least time between announcements of congestion, ms.
const ANNOUNCE_MS_MIN: u64 = 10;

/// The content store beyond its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cs {
    /// Its disk.
    pub disk: CsDisk,
}

/// A choice that is written as a word.
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
    /// What is written to disk when it leaves memory.
    Admission {
        /// What was asked for again while it was there.
        Hit = "hit",
        /// That, and what had left it before, not long ago.
        #[default]
        Again = "again",
        /// Everything.
        All = "all",
    }
}

words! {
    /// In which order reads and writes are done.
    Queue {
        /// In that in which they came.
        #[default]
        Fifo = "fifo",
        /// Writes before reads.
        DataFirst = "data-first",
        /// Both, by weights.
        Weighted = "weighted",
    }
}

words! {
    /// What reads and writes.
    Engine {
        /// io_uring where the kernel lets this process have it, else threads.
        #[default]
        Auto = "auto",
        /// io_uring.
        Uring = "uring",
        /// A pool of threads.
        Threads = "threads",
    }
}

words! {
    /// What tells that a name is not there, before the index is looked at.
    Filter {
        /// A cuckoo filter.
        #[default]
        Cuckoo = "cuckoo",
        /// A counting Bloom filter.
        Bloom = "bloom",
        /// Nothing: for experiments, the index is always looked at.
        None = "none",
    }
}

words! {
    /// Who marks Data that a busy disk gives.
    Marking {
        /// A router that has no upstream left to pass its load to.
        #[default]
        Lazy = "lazy",
        /// Every router whose disk is at its threshold.
        Threshold = "threshold",
        /// Nobody.
        Never = "never",
    }
}

impl Marking {
    /// The same for the forwarder.
    pub(super) fn of_tier(self) -> TierMarking {
        match self {
            Marking::Lazy => TierMarking::Lazy,
            Marking::Threshold => TierMarking::Threshold,
            Marking::Never => TierMarking::Never,
        }
    }
}

impl Admission {
    /// The same for the store.
    pub(crate) fn of_tier(self) -> tier::Admission {
        match self {
            Admission::Hit => tier::Admission::Hit,
            Admission::Again => tier::Admission::Again,
            Admission::All => tier::Admission::All,
        }
    }

    /// What the store says.
    pub(crate) fn of(admission: tier::Admission) -> Self {
        match admission {
            tier::Admission::Hit => Admission::Hit,
            tier::Admission::Again => Admission::Again,
            tier::Admission::All => Admission::All,
        }
    }
}

impl Queue {
    /// The same for the store.
    pub(crate) fn fairness(self) -> Fairness {
        match self {
            Queue::Fifo => Fairness::Fifo,
            Queue::DataFirst => Fairness::DataFirst,
            Queue::Weighted => Fairness::Weighted { reads: READS_WEIGHT, writes: 1 },
        }
    }
}

/// The content store's disk. What happens at its limits is in `docs/limits.md`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsDisk {
    /// Its folder, or a block device, or a file that stands for one; without one there is no disk.
    pub folder: Option<PathBuf>,
    /// The number of a group that may write the folder, and what is in it, beside the router's
    /// user.
    pub group: Option<u32>,
    /// Octets that it may take there, as a number or as text such as `"20GiB"`; none: 1 GiB of a
    /// folder, all of a device.
    #[serde(deserialize_with = "budget")]
    pub octets_max: Option<u64>,
    /// What is written when it leaves memory.
    #[serde(deserialize_with = "values::text")]
    pub admission: Admission,
    /// Requests to the disk that pend from which on it is passed by.
    pub threshold: usize,
    /// In which order reads and writes are done.
    #[serde(deserialize_with = "values::text")]
    pub queue: Queue,
    /// Whether Data is marked that comes from a disk which is at its threshold.
    #[serde(deserialize_with = "values::text")]
    pub marking: Marking,
    /// How often neighbours that ask a disk which is at its threshold are told so, ms; 0: never.
    #[serde(deserialize_with = "announce")]
    pub announce_ms: u64,
    /// Whether what follows the first segment of an object is read with it.
    pub read_ahead: bool,
    /// What reads and writes.
    #[serde(deserialize_with = "values::text")]
    pub engine: Engine,
    /// Threads of the pool, where that reads and writes.
    #[serde(deserialize_with = "threads")]
    pub threads: usize,
    /// What stands before the index.
    #[serde(deserialize_with = "values::text")]
    pub filter: Filter,
    /// For experiments: a disk that does so many requests a second, or takes so much longer for
    /// each.
    #[serde(deserialize_with = "slow")]
    pub slow: Slowness,
    /// For experiments, and only for programs that host a router. No file and no flag says so.
    #[serde(skip)]
    pub prototype: Prototype,
}

/// What a disk does as that of NB-Cache's prototype did, and as none should: experiments compare
/// with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prototype {
    /// The worker that asks the disk waits for it.
    pub blocks: bool,
    /// Each Data is written by a request of its own.
    pub writes_alone: bool,
    /// So much later than it is done a worker hears of a read.
    pub heard_late: Duration,
}

impl Prototype {
    /// The part of it that concerns workers.
    pub(crate) fn of_workers(self) -> namely_dataplane::Prototype {
        namely_dataplane::Prototype { blocks: self.blocks, heard_late: self.heard_late }
    }
}

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
            prototype: Prototype::default(),
        }
    }
}

impl CsDisk {
    /// The keys in which `new` differs that only take effect when the router starts again.
    pub(super) fn restart_needed(&self, new: &CsDisk) -> impl Iterator<Item = &'static str> {
        changed_keys!(self, new, "cs.disk": folder, group, marking, announce_ms, read_ahead, engine, threads, filter, slow)
    }

    /// Octets that it may take.
    pub(crate) fn budget(&self) -> u64 {
        let is_device = || self.folder.as_deref().is_some_and(tier::is_device);
        self.octets_max.unwrap_or_else(|| if is_device() { OCTETS_MAX } else { FOLDER_OCTETS_MAX })
    }

    /// The same for the store.
    pub(crate) fn options(&self) -> Options {
        Options {
            admission: self.admission.of_tier(),
            pending_threshold: self.threshold,
            engine: match self.engine {
                _ if self.prototype.blocks => EngineKind::Inline,
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
            writes_alone: self.prototype.writes_alone,
            group: self.group,
            ..Options::new(self.budget())
        }
    }
}

/// Returns `octets` if a disk may take so many.
///
/// # Errors
/// What can be given instead.
pub(crate) fn check_budget(octets: u64) -> Result<u64, String> {
    match (OCTETS_MIN..=OCTETS_MAX).contains(&octets) {
        true => Ok(octets),
        false => Err(format!("{octets} octets: use {}MiB to {}GiB", OCTETS_MIN >> 20, OCTETS_MAX >> 30)),
    }
}

fn budget<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    check_budget(values::octets(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// A label lasts for three periods.
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

/// Longest time that `slow` takes for each request.
const SLOW_MAX: Duration = Duration::from_secs(10);

/// Reads `"4.7k/s"` or `"414/s"`, requests a second one after the other, or `"193us"` or `"9ms"`,
/// how much longer each takes.
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

//! Options of a tier, and sizes derived from them.

use std::time::Duration;

use super::above::OCTETS_A_NAME;
use super::admission::{Admission, OCTETS_A_GHOST};
use super::error::TierError;
use super::filter::FilterKind;
use super::limits::{
    BLOCK_OCTETS, GROUP_OCTETS, GROUPS_MAX, OCTETS_MAX, OCTETS_MIN, PENDING_MAX, PENDING_THRESHOLD,
    THREADS_MAX,
};
use super::place::SEGMENT_OCTETS_MAX;
use super::record::RECORD_OCTETS_MAX;

/// The engine that reads and writes the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring if the kernel allows it to this process, else [`THREADS`](super::THREADS) threads.
    #[default]
    Auto,
    /// io_uring on one thread; opening the tier fails if the kernel denies it.
    Uring,
    /// This many threads, each with one request at a time.
    Threads(usize),
    /// No thread: the caller of [`Tier::sync`](super::Tier::sync) or
    /// [`Tier::turn`](super::Tier::turn) does all work. For tests and tools.
    Inline,
}

/// The order of waiting requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fairness {
    /// First come, first served.
    #[default]
    Fifo,
    /// Writes before reads.
    DataFirst,
    /// Octets of reads and of writes in this proportion, while both wait.
    Weighted {
        /// The share of reads.
        reads: u32,
        /// The share of writes.
        writes: u32,
    },
}

/// Simulates a slower disk, for experiments and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowness {
    /// Additional time of each request.
    pub delay: Duration,
    /// Maximum number of requests per second; 0: unlimited.
    pub requests_per_s: u32,
    /// Maximum octets per second; 0: unlimited.
    pub octets_per_s: u64,
}

/// Options of a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Octets of the content store's tier on disk.
    ///
    /// The minimum is [`OCTETS_MIN`], for a device the maximum is its size.
    ///
    /// # Limit
    /// The oldest segment is evicted.
    /// - Value: 1 MiB to 2 TiB; by default 1 GiB in a folder, all of a device
    /// - Setting: `cs.disk.octets_max`
    /// - Counter: `evicted`
    /// - Tests: `a_tier_budget_has_limits`,
    ///   `the_oldest_unpinned_records_are_evicted`
    pub octets_max: u64,
    /// Selects the packets evicted from memory that are written.
    pub admission: Admission,
    /// Number of pending requests from which on requests bypass the disk; 0: always.
    pub pending_threshold: usize,
    /// Number of pending requests from which on all requests are refused.
    pub pending_max: usize,
    /// The engine that reads and writes the disk.
    pub engine: EngineKind,
    /// The order of waiting requests.
    pub fairness: Fairness,
    /// The filter in front of the index.
    pub filter: FilterKind,
    /// Whether reads and writes bypass the system's page cache, if the file system supports that.
    pub direct: bool,
    /// Whether a read of an object's first segment also reads the following segments.
    pub read_ahead: bool,
    /// Maximum time until written data is synchronized; zero: only by
    /// [`Tier::sync`](super::Tier::sync).
    pub sync_interval: Duration,
    /// Time without writes after a fault of the disk.
    pub rest: Duration,
    /// Simulates a slower disk.
    pub slowness: Slowness,
    /// Whether each Data is written by a request of its own, for comparison.
    pub writes_alone: bool,
    /// A group that may write the folder and its files, in addition to this user.
    pub group: Option<u32>,
}

impl Options {
    /// Creates the default options for a budget.
    pub fn new(octets_max: u64) -> Self {
        Options {
            octets_max,
            admission: Admission::default(),
            pending_threshold: PENDING_THRESHOLD,
            pending_max: PENDING_MAX,
            engine: EngineKind::default(),
            fairness: Fairness::default(),
            filter: FilterKind::default(),
            direct: true,
            read_ahead: true,
            sync_interval: Duration::from_secs(5),
            rest: Duration::from_secs(10),
            slowness: Slowness::default(),
            writes_alone: false,
            group: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), TierError> {
        if !(OCTETS_MIN..=OCTETS_MAX).contains(&self.octets_max) {
            return Err(TierError::Octets(self.octets_max));
        }
        match self.engine {
            EngineKind::Threads(threads) if !(1..=THREADS_MAX).contains(&threads) => {
                Err(TierError::Threads(threads))
            }
            _ => Ok(()),
        }
    }

    /// Octets of a segment: a sixteenth of a small tier, 64 MiB, or more to limit the number of
    /// segments.
    pub(crate) fn segment_octets(&self) -> u64 {
        let octets = (self.octets_max / 16).min((64 << 20).max(self.octets_max / 128));
        octets.min(SEGMENT_OCTETS_MAX) / BLOCK_OCTETS * BLOCK_OCTETS
    }

    /// Octets of a group of records in segments of `segment_octets`.
    pub(crate) fn group_octets(&self, segment_octets: u64) -> u64 {
        if self.writes_alone {
            return (RECORD_OCTETS_MAX as u64).next_multiple_of(BLOCK_OCTETS);
        }
        (segment_octets / 4).min(GROUP_OCTETS) / BLOCK_OCTETS * BLOCK_OCTETS
    }

    /// Maximum number of groups that wait to be written.
    pub(crate) fn groups_max(&self) -> usize {
        if self.writes_alone { self.pending_max } else { GROUPS_MAX }
    }

    /// Number of remembered names of packets that were evicted from memory and not written.
    pub(crate) fn ghosts(&self) -> usize {
        usize::try_from(self.octets_max / OCTETS_A_GHOST).unwrap_or(usize::MAX)
    }

    /// Number of known names above packets.
    pub(crate) fn names_above(&self) -> usize {
        usize::try_from(self.octets_max / OCTETS_A_NAME).unwrap_or(usize::MAX)
    }

    /// Records of the tier.
    ///
    /// The index of the records takes at most a thirty-second of the disk.
    ///
    /// # Limit
    /// The oldest segment is evicted; until then Data is not written.
    /// - Value: one for each KiB of the budget
    /// - Counter: `no_room`, `evicted`
    /// - Tests: `a_full_tier_index_evicts_the_oldest`
    pub(crate) fn records_max(&self) -> usize {
        usize::try_from(self.octets_max / 1024).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::SEGMENTS_MAX;
    use super::*;

    #[test]
    fn a_tier_budget_has_limits() {
        for octets in [OCTETS_MIN, OCTETS_MAX] {
            assert!(Options::new(octets).check().is_ok());
        }
        for octets in [OCTETS_MIN - 1, OCTETS_MAX + 1] {
            assert!(matches!(Options::new(octets).check(), Err(TierError::Octets(n)) if n == octets));
        }
        let threads = |threads| Options { engine: EngineKind::Threads(threads), ..Options::new(1 << 30) };
        assert!(threads(1).check().is_ok() && threads(THREADS_MAX).check().is_ok());
        assert!(threads(0).check().is_err() && threads(THREADS_MAX + 1).check().is_err());
    }

    #[test]
    fn segment_count_and_size_are_bounded() {
        for octets in [OCTETS_MIN, 1 << 26, 512 << 20, 1 << 34, 1 << 40, OCTETS_MAX] {
            let options = Options::new(octets);
            let segments = options.octets_max / options.segment_octets();
            assert!((16..=SEGMENTS_MAX as u64 * 3 / 4).contains(&segments), "{octets}: {segments}");
            assert!(options.segment_octets() <= SEGMENT_OCTETS_MAX);
            // The longest record with its header fits a group.
            assert!(options.group_octets(options.segment_octets()) >= 16 << 10);
        }
    }
}

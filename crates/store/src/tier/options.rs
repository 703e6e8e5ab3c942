//! How a tier works, and the limits of it.

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

/// What reads and writes the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring where the kernel lets this process have it, else [`THREADS`](super::THREADS)
    /// threads.
    #[default]
    Auto,
    /// io_uring on one thread; opening the tier fails where the kernel refuses it.
    Uring,
    /// So many threads, each with one request at a time.
    Threads(usize),
    /// No thread: whoever waits in [`Tier::sync`](super::Tier::sync), or asks
    /// [`Tier::turn`](super::Tier::turn), does all. For tests and tools.
    Inline,
}

/// Which request is next when several wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fairness {
    /// The one that came first.
    #[default]
    Fifo,
    /// Writes before reads.
    DataFirst,
    /// Octets of reads and of writes in this proportion, while both wait.
    Weighted {
        /// The reads' part.
        reads: u32,
        /// The writes' part.
        writes: u32,
    },
}

/// A disk that is slower than the one there is: a stand-in for experiments, and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowness {
    /// How long each request takes longer.
    pub delay: Duration,
    /// Maximum number of requests in a second; 0: any.
    pub requests_per_s: u32,
    /// Maximum octets in a second; 0: any.
    pub octets_per_s: u64,
}

/// How a tier works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Octets of the folder, at least [`OCTETS_MIN`]; of a device at most what it has.
    pub octets_max: u64,
    /// What of the memory's leavings is written.
    pub admission: Admission,
    /// Requests that pend from which on there is a bypass; 0: always.
    pub pending_threshold: usize,
    /// Requests that pend from which on all are refused.
    pub pending_max: usize,
    /// What reads and writes.
    pub engine: EngineKind,
    /// Which request is next.
    pub fairness: Fairness,
    /// What stands before the index.
    pub filter: FilterKind,
    /// Whether the disk is read and written without the system's page cache, where it can be.
    pub direct: bool,
    /// Whether what follows the first segment of an object is read with it.
    pub read_ahead: bool,
    /// After so long what was written is on the disk, at the latest; zero: only by
    /// [`Tier::sync`](super::Tier::sync).
    pub sync_interval: Duration,
    /// For so long nothing is written after the disk has failed.
    pub rest: Duration,
    /// Makes the disk slower.
    pub slowness: Slowness,
    /// Each Data is written by a request of its own, not with others: to compare with.
    pub writes_alone: bool,
    /// A group that may write the folder and its files beside this user.
    pub group: Option<u32>,
}

impl Options {
    /// The defaults, for a budget.
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

    /// Octets of a segment: a sixteenth of a small tier, 64 MiB, or what keeps their number low.
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

    /// Groups that wait to be written at most.
    pub(crate) fn groups_max(&self) -> usize {
        if self.writes_alone { self.pending_max } else { GROUPS_MAX }
    }

    /// Names that are remembered of what left the memory and was not written.
    pub(crate) fn ghosts(&self) -> usize {
        usize::try_from(self.octets_max / OCTETS_A_GHOST).unwrap_or(usize::MAX)
    }

    /// Names above others that are known.
    pub(crate) fn names_above(&self) -> usize {
        usize::try_from(self.octets_max / OCTETS_A_NAME).unwrap_or(usize::MAX)
    }

    /// Maximum number of records: their index takes no more than a thirty-second of the disk.
    pub(crate) fn records_max(&self) -> usize {
        usize::try_from(self.octets_max / 1024).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::SEGMENTS_MAX;
    use super::*;

    #[test]
    fn a_budget_at_the_limits_is_taken_and_one_octet_past_them_refused() {
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
    fn segments_are_neither_too_many_nor_too_long_however_large_the_tier_is() {
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

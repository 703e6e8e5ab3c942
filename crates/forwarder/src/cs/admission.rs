//! The share of the limits that a Data needs, and the outcome of its admission.

use super::index::Handle;
use super::policy::lists::Record;

/// The share of the limits that a Data takes, and the hash of its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryCost {
    pub(super) hash: u64,
    // Eight bits suffice for `COMPONENTS_MAX`.
    pub(super) entries: u8,
    pub(super) octets: u32,
}

/// An amount of each of the three limits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    pub(super) packets: usize,
    pub(super) entries: usize,
    pub(super) octets: u64,
}

impl EntryCost {
    /// The share of the limits that one Data takes.
    pub(super) fn amount(&self) -> Amount {
        Amount { packets: 1, entries: usize::from(self.entries), octets: u64::from(self.octets) }
    }

    pub(super) fn record(&self, handle: Handle) -> Record {
        let mut record = Record::new(self.hash);
        (record.generation, record.octets, record.components) =
            (handle.generation, self.octets, self.entries);
        record
    }
}

/// Outcome of admitting a Data.
pub(super) enum AdmissionOutcome {
    Yes,
    /// Another Data must be evicted first.
    NotYet,
    /// It does not fit into an empty store, or there is no memory for its record.
    Never,
}

//! The dataset `cs/disk`, namely's own: the content store's disk.

use alloc::string::String;
use alloc::vec::Vec;

use super::field::block;
use super::numbers::*;
use super::status::Counter;
use namely_wire::Name;

block! {
    /// The one entry of `cs/disk`. There is no entry if the content store has no disk.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CsDiskStatus: ENTRY {
        /// The folder.
        pub folder: String = CS_DISK_FOLDER;
        /// The engine that reads and writes the folder.
        pub engine: String = CS_DISK_ENGINE;
        /// The present fault of the disk, with its remedy.
        pub trouble: Option<String> = CS_DISK_TROUBLE;
        /// The admission rule of writes: `hit`, `again` or `all`.
        pub admission: String = CS_DISK_ADMISSION;
        /// The order of reads and writes.
        pub queue: String = CS_DISK_QUEUE;
        /// Number of pending requests from which the router bypasses the disk.
        pub threshold: u64 = CS_DISK_THRESHOLD;
        /// Requests pending now.
        pub pending: u64 = CS_DISK_PENDING;
        /// Maximum octets on the disk.
        pub octets_max: u64 = CS_DISK_OCTETS_MAX;
        /// Octets on the disk.
        pub octets: u64 = CS_DISK_OCTETS;
        /// Packets stored.
        pub records: u64 = CS_DISK_RECORDS;
        /// Octets of memory of its index and filter.
        pub memory_octets: u64 = CS_DISK_MEMORY;
        /// Prefixes below which all Data is written and retained.
        pub pinned: Vec<Name> = CS_DISK_PINNED;
        /// The counters; docs/counters.md lists them.
        pub counters: Vec<Counter> = CS_DISK_COUNTER;
    }
}

impl CsDiskStatus {
    /// The value of the counter `label`; 0 if there is none.
    pub fn count(&self, label: &str) -> u64 {
        self.counters.iter().find(|counter| counter.label == label).map_or(0, |counter| counter.value)
    }
}

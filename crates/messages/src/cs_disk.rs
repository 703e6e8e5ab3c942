//! The dataset `cs/disk`, which only namely has: the content store's disk.

use alloc::string::String;
use alloc::vec::Vec;

use super::field::block;
use super::numbers::*;
use super::status::Counter;
use namely_wire::Name;

block! {
    /// The one entry of `cs/disk`. A router whose content store has no disk has none.
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
        /// In which order reads and writes are done.
        pub queue: String = CS_DISK_QUEUE;
        /// Requests to the disk that pend from which on it is passed by.
        pub threshold: u64 = CS_DISK_THRESHOLD;
        /// Those that pend now.
        pub pending: u64 = CS_DISK_PENDING;
        /// Octets that it may take.
        pub octets_max: u64 = CS_DISK_OCTETS_MAX;
        /// Octets that it takes.
        pub octets: u64 = CS_DISK_OCTETS;
        /// Packets stored.
        pub records: u64 = CS_DISK_RECORDS;
        /// Memory that its index and filter take, octets.
        pub memory_octets: u64 = CS_DISK_MEMORY;
        /// Prefixes below which packets stay.
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

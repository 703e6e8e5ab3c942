//! The dataset `cs/disk`, which only namely has: the content store's disk.

use alloc::string::String;
use alloc::vec::Vec;

use super::block::Block;
use super::numbers::*;
use super::status::Counter;
use crate::error::DecodeError;
use crate::fields::{Fields, put_text};
use crate::name::{Name, NameRef};
use crate::tlv::Writer;

/// The one entry of `cs/disk`. A router whose content store has no disk has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsDiskStatus {
    /// The folder.
    pub folder: String,
    /// What reads and writes it.
    pub engine: String,
    /// What is wrong with it just now, and what to do about that.
    pub trouble: Option<String>,
    /// What is written: `hit`, `again` or `all`.
    pub admission: String,
    /// In which order reads and writes are done.
    pub queue: String,
    /// Requests to the disk that pend from which on it is passed by.
    pub threshold: u64,
    /// Those that pend now.
    pub pending: u64,
    /// Octets that it may take.
    pub octets_max: u64,
    /// Octets that it takes.
    pub octets: u64,
    /// Packets stored.
    pub records: u64,
    /// Memory that its index and filter take, octets.
    pub memory_octets: u64,
    /// Prefixes below which packets stay.
    pub pinned: Vec<Name>,
    /// What happened so far; docs/counters.md lists it.
    pub counters: Vec<Counter>,
}

impl CsDiskStatus {
    /// How often what the label says has happened.
    pub fn count(&self, label: &str) -> u64 {
        self.counters.iter().find(|counter| counter.label == label).map_or(0, |counter| counter.value)
    }
}

impl Block for CsDiskStatus {
    const TYPE: u32 = ENTRY;

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(value)?;
        let pinned =
            fields.all(CS_DISK_PINNED).map(|tlv| NameRef::parse(tlv.value).map(|name| name.to_name()));
        Ok(CsDiskStatus {
            folder: fields.text(CS_DISK_FOLDER)?,
            engine: fields.text(CS_DISK_ENGINE)?,
            trouble: fields.text_opt(CS_DISK_TROUBLE)?,
            admission: fields.text(CS_DISK_ADMISSION)?,
            queue: fields.text(CS_DISK_QUEUE)?,
            threshold: fields.nni(CS_DISK_THRESHOLD)?,
            pending: fields.nni(CS_DISK_PENDING)?,
            octets_max: fields.nni(CS_DISK_OCTETS_MAX)?,
            octets: fields.nni(CS_DISK_OCTETS)?,
            records: fields.nni(CS_DISK_RECORDS)?,
            memory_octets: fields.nni(CS_DISK_MEMORY)?,
            pinned: pinned.collect::<Result<_, _>>()?,
            counters: fields
                .all(CS_DISK_COUNTER)
                .map(|tlv| Counter::decode_value(tlv.value))
                .collect::<Result<_, _>>()?,
        })
    }

    fn encode_value(&self, w: &mut Writer) {
        put_text(w, CS_DISK_FOLDER, Some(&self.folder));
        put_text(w, CS_DISK_ENGINE, Some(&self.engine));
        put_text(w, CS_DISK_TROUBLE, self.trouble.as_deref());
        put_text(w, CS_DISK_ADMISSION, Some(&self.admission));
        put_text(w, CS_DISK_QUEUE, Some(&self.queue));
        w.nni(CS_DISK_THRESHOLD, self.threshold)
            .nni(CS_DISK_PENDING, self.pending)
            .nni(CS_DISK_OCTETS_MAX, self.octets_max)
            .nni(CS_DISK_OCTETS, self.octets)
            .nni(CS_DISK_RECORDS, self.records)
            .nni(CS_DISK_MEMORY, self.memory_octets);
        for prefix in &self.pinned {
            w.nested(CS_DISK_PINNED, |w| prefix.as_name().encode(w));
        }
        for counter in &self.counters {
            w.nested(CS_DISK_COUNTER, |w| counter.encode_value(w));
        }
    }
}

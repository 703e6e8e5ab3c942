//! Datasets in segments: the first is sent when the dataset is asked for, and the rest of the same state
//! is kept for a while, because a dataset must not change between its segments.

use std::collections::VecDeque;

use namely_wire::mgmt::DatasetRequest;
use namely_wire::types::SEGMENT_COMPONENT;
use namely_wire::{Component, Name, NameRef, tlv};

use crate::reply;

/// Octets of Content in one segment; NFD's figure, which leaves room for name and signature.
pub const SEGMENT_OCTETS_MAX: usize = 8000;

/// Datasets of which later segments are kept. The oldest goes when there is one more.
pub const SNAPSHOTS_MAX: usize = 32;

/// How long a dataset's later segments are kept, ns.
pub const SNAPSHOT_LIFETIME_NS: u64 = 10_000_000_000;

/// States of datasets that are being read.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    kept: VecDeque<Snapshot>,
    last_version: u64,
}

#[derive(Debug)]
struct Snapshot {
    /// Name up to and with the version.
    name: Name,
    content: Vec<u8>,
    expires_ns: u64,
}

impl Snapshots {
    /// A new state of the dataset named `prefix`: its first segment. The rest is kept if there is any.
    pub(crate) fn publish(
        &mut self,
        prefix: NameRef<'_>,
        content: Vec<u8>,
        unix_ms: u64,
        now_ns: u64,
    ) -> Vec<u8> {
        // Two states never share a version, or a reader could mix their segments.
        self.last_version = unix_ms.max(self.last_version + 1);
        let name = prefix.to_name().join_version(self.last_version);
        let snapshot = Snapshot { name, content, expires_ns: now_ns + SNAPSHOT_LIFETIME_NS };
        let first = snapshot.segment(0);
        if snapshot.last_segment() > 0 {
            self.expire(now_ns);
            if self.kept.len() == SNAPSHOTS_MAX {
                self.kept.pop_front();
            }
            self.kept.push_back(snapshot);
        }
        first.unwrap_or_default()
    }

    /// A segment of a state that is kept.
    pub(crate) fn segment(
        &mut self,
        name: NameRef<'_>,
        request: &DatasetRequest,
        now_ns: u64,
    ) -> Option<Vec<u8>> {
        self.expire(now_ns);
        let versioned = name.prefix(request.prefix_components + 1);
        let snapshot = self.kept.iter().find(|snapshot| snapshot.name.as_name() == versioned)?;
        snapshot.segment(request.segment.unwrap_or(0))
    }

    fn expire(&mut self, now_ns: u64) {
        self.kept.retain(|snapshot| snapshot.expires_ns > now_ns);
    }
}

impl Snapshot {
    fn last_segment(&self) -> u64 {
        (self.content.len().saturating_sub(1) / SEGMENT_OCTETS_MAX) as u64
    }

    fn segment(&self, segment: u64) -> Option<Vec<u8>> {
        let last = self.last_segment();
        if segment > last {
            return None;
        }
        let start = segment as usize * SEGMENT_OCTETS_MAX;
        let end = self.content.len().min(start + SEGMENT_OCTETS_MAX);
        let octets = last.to_be_bytes();
        let final_block = Component { typ: SEGMENT_COMPONENT, value: &octets[8 - tlv::nni_octets(last)..] };
        let name = self.name.join_segment(segment);
        Some(reply::data(name.as_name(), Some(final_block), &self.content[start..end]))
    }
}

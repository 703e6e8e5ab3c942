//! Records below a prefix are taken out: at once for whoever reads, then out of the index and of
//! the segments' indexes, which takes a while since only the records have their names.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_wire::{Name, NameRef, PACKET_OCTETS_MAX};

use super::error::TierError;
use super::keeper::recorded;
use super::medium::Medium;
use super::record::Key;
use super::segment::Segment;
use super::shared::Shared;
use super::window::Window;

/// Maximum number of prefixes that are being erased, or whose segments are still there.
pub const ERASED_MAX: usize = 64;

const MAGIC: &[u8; 16] = b"namely-erased-01";
const DIGEST_OCTETS: usize = 32;

/// Octets of what is being erased as it is written, at most.
pub(crate) const ERASED_OCTETS_MAX: usize = 20 + ERASED_MAX * (11 + PACKET_OCTETS_MAX) + DIGEST_OCTETS;

/// A segment of an erasure that is not known yet: everything that is written may be meant.
const UNKNOWN: u64 = u64::MAX;

/// A prefix whose records are not to be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Erased {
    pub(crate) prefix: Name,
    /// The last segment in which there may be some.
    pub(crate) segment: u64,
    /// Whether they are all out of the indexes.
    pub(crate) is_done: bool,
}

impl Erased {
    /// Whether a record of this name in this segment is one of them.
    pub(crate) fn covers(&self, segment: u64, name: NameRef<'_>) -> bool {
        segment <= self.segment && self.prefix.as_name().is_prefix_of(name)
    }
}

impl Shared {
    pub(crate) fn erase(&self, prefix: NameRef<'_>) -> Result<(), TierError> {
        let mut erased = self.erased.write();
        erased.retain(|known| known.prefix.as_name() != prefix);
        if erased.len() >= ERASED_MAX {
            return Err(TierError::TooMany { what: "being erased", max: ERASED_MAX });
        }
        erased.push(Erased { prefix: prefix.to_name(), segment: UNKNOWN, is_done: false });
        drop(erased);
        self.wake_keeper();
        Ok(())
    }

    /// Takes up the next erasure, if there is one.
    pub(crate) fn erase_next(&self) -> bool {
        let next = self.erased.read().iter().find(|erased| !erased.is_done).cloned();
        let Some(next) = next.filter(|_| !self.is_resting.load(Ordering::Relaxed)) else { return false };
        let change = |segment: u64, is_done: bool| {
            let mut erased = self.erased.write();
            // Somebody may have asked for it again.
            if let Some(known) = erased.iter_mut().find(|known| **known == next) {
                (known.segment, known.is_done) = (segment, is_done);
            }
        };
        let result = if next.segment == UNKNOWN {
            let Some(last) = self.end_segment() else { return false };
            change(last, false);
            self.save_erased()
        } else {
            self.take_out(&next).and_then(|()| {
                change(next.segment, true);
                self.save_erased()
            })
        };
        // What fails is tried again after the rest.
        result.map_err(|error| self.note_write_error(TierError::new(self.medium.path(), error))).is_ok()
    }

    /// Ends the segment that is being filled and has it on the disk; the last segment's number.
    fn end_segment(&self) -> Option<u64> {
        let mut log = self.log.lock();
        let last = log.filled().map(|segment| segment.number);
        log.end_segment()?;
        let target = log.progress().0;
        drop(log);
        self.queue_groups();
        while self.log.lock().progress().1.is_some_and(|oldest| oldest <= target) {
            self.wait_for_disk();
        }
        self.seal_ended();
        let sealed = |segment: &&Arc<Segment>| segment.is_sealed.load(Ordering::Relaxed);
        let segments = self.segments.read();
        Some(last.or_else(|| segments.iter().flatten().filter(sealed).map(|s| s.number).max()).unwrap_or(0))
    }

    /// Takes the records of an erasure out of the index and of the segments' indexes.
    fn take_out(&self, erased: &Erased) -> io::Result<()> {
        let segments: Vec<_> = self.segments.read().iter().flatten().cloned().collect();
        for segment in segments.into_iter().filter(|segment| segment.number <= erased.segment) {
            let octets = segment.end();
            let (mut kept, mut heads, mut gone) = (Vec::new(), Vec::new(), 0);
            let checks = self.key.checks(segment.extent.salt());
            Window::new(&segment.extent, octets).records(&checks, |offset, whole| {
                let is_gone = erased.covers(segment.number, whole.name);
                let record = recorded(self, segment.slot, (offset, whole));
                if is_gone {
                    gone += 1;
                    self.counters.erased.add(self.index.remove(record.hash, record.place).into());
                } else {
                    heads.extend(self.heads_of(whole.name, record.hash));
                    kept.push(record);
                }
            })?;
            let is_changed = gone > 0;
            if is_changed && !self.medium.write_index(&self.key, (&segment, octets), (&kept, &heads))? {
                self.give_up(&segment);
            }
        }
        // Before it counts as done: an index that comes back would have them again.
        self.medium.sync_indexes()
    }

    /// A segment whose index has no room cannot say what of it does not count any more: it goes.
    fn give_up(&self, segment: &Segment) {
        let records = self.index.of_slot(segment.slot);
        let gone = records.iter().filter(|(hash, place)| self.index.remove(*hash, *place)).count();
        self.counters.evicted.add(gone as u64);
        self.forget(segment);
    }

    /// Forgets erasures none of whose segments is there any more.
    pub(crate) fn forget_erased(&self) {
        let oldest = self.segments.read().iter().flatten().map(|segment| segment.number).min();
        self.erased.write().retain(|erased| !erased.is_done || oldest.is_some_and(|n| n <= erased.segment));
    }

    /// The last segment of which something was erased.
    pub(crate) fn last_erased(&self) -> Option<u64> {
        let erased = self.erased.read();
        erased.iter().map(|erased| erased.segment).filter(|segment| *segment != UNKNOWN).max()
    }

    fn save_erased(&self) -> io::Result<()> {
        let erased = encode(&self.key, &self.erased.read());
        self.medium.save_erased(&self.key, &erased)
    }

    /// What was being erased when the tier was closed, or it crashed, goes on.
    pub(crate) fn load_erased(&self) {
        *self.erased.write() = load(&self.medium, &self.key);
    }
}

fn load(medium: &Medium, key: &Key) -> Vec<Erased> {
    let Some(octets) = medium.load_erased(key) else { return Vec::new() };
    decode(key, &octets).unwrap_or_else(|| {
        tracing::warn!(folder = %medium.path().display(), "what was erased is not known any more: erase it again");
        Vec::new()
    })
}

fn encode(key: &Key, erased: &[Erased]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(erased.len() as u32).to_le_bytes());
    for Erased { prefix, segment, is_done } in erased {
        out.extend_from_slice(&segment.to_le_bytes());
        out.push((*is_done).into());
        out.extend_from_slice(&(prefix.as_bytes().len() as u16).to_le_bytes());
        out.extend_from_slice(prefix.as_bytes());
    }
    let digest = key.digest(&out);
    out.extend_from_slice(&digest);
    out
}

pub(crate) fn decode(key: &Key, octets: &[u8]) -> Option<Vec<Erased>> {
    let (body, digest) = octets.split_at_checked(octets.len().checked_sub(DIGEST_OCTETS)?)?;
    if key.digest(body) != digest {
        return None;
    }
    let (count, mut rest) = body.strip_prefix(MAGIC)?.split_first_chunk()?;
    let mut erased = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (segment, behind) = rest.split_first_chunk()?;
        let ([is_done], behind) = behind.split_first_chunk()?;
        let (name_octets, behind) = behind.split_first_chunk()?;
        let (name, behind) = behind.split_at_checked(u16::from_le_bytes(*name_octets).into())?;
        rest = behind;
        erased.push(Erased {
            prefix: NameRef::parse_value(name).ok()?.to_name(),
            segment: u64::from_le_bytes(*segment),
            is_done: *is_done == 1,
        });
    }
    rest.is_empty().then_some(erased)
}

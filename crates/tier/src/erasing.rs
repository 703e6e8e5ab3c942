//! Erases the records below a prefix. Reads skip the records at once. Their removal from the index
//! and from the segments' indexes takes a while: only the records have names, so the keeper reads
//! all segments.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_wire::NameRef;

use super::erased::{Erased, decode, encode};
use super::error::TierError;
use super::limits::ERASED_MAX;
use super::medium::Medium;
use super::record::Key;
use super::segment::Segment;
use super::shared::Shared;
use super::window::Window;

/// Segment of an erasure whose last segment is not determined yet: the erasure covers all records.
const UNKNOWN: u64 = u64::MAX;

impl Shared {
    pub(crate) fn erase(&self, prefix: NameRef<'_>) -> Result<(), TierError> {
        let mut erased = self.erased.write();
        // The new erasure covers all records of an earlier one of the same prefix.
        erased.retain(|known| known.prefix.as_name() != prefix);
        if erased.len() >= ERASED_MAX {
            return Err(TierError::TooMany { what: "being erased", max: ERASED_MAX });
        }
        erased.push(Erased { prefix: prefix.to_name(), segment: UNKNOWN, is_done: false });
        // Released before the keeper wakes, because the keeper needs this lock.
        drop(erased);
        self.wake_keeper();
        Ok(())
    }

    /// Performs the next erasure, if there is one.
    pub(crate) fn erase_next(&self) -> bool {
        // A copy, so that the list is not locked while segments are read.
        let next = self.erased.read().iter().find(|erased| !erased.is_done).cloned();
        let Some(next) = next.filter(|_| !self.health.is_resting()) else { return false };
        // The last segment is fixed and saved first, so that a crash during the removal does not
        // lose the erasure.
        let result = if next.segment == UNKNOWN {
            let Some(last) = self.end_segment() else { return false };
            self.advance(&next, last, false)
        } else {
            self.take_out(&next).and_then(|()| self.advance(&next, next.segment, true))
        };
        // An erasure that is not done is tried again once writes are no longer suspended.
        result.map_err(|error| self.note_write_error(TierError::new(self.medium.path(), error))).is_ok()
    }

    /// Saves the next state of an erasure, and then applies it. Applied first, a state whose saving
    /// failed would be lost in a crash although it counts here.
    fn advance(&self, known: &Erased, segment: u64, is_done: bool) -> io::Result<()> {
        // The same prefix may have been erased again in the meantime.
        let change = |erased: &mut Vec<Erased>| {
            let own = erased.iter_mut().find(|erased| *erased == known);
            own.into_iter().for_each(|own| (own.segment, own.is_done) = (segment, is_done));
        };
        let mut next = self.erased.read().clone();
        change(&mut next);
        self.medium.save_erased(&self.key, &encode(&self.key, &next))?;
        change(&mut self.erased.write());
        Ok(())
    }

    /// Ends the segment that is being filled and writes it to the disk. Returns the last segment's
    /// number.
    fn end_segment(&self) -> Option<u64> {
        let mut log = self.log.lock();
        // Read before the segment ends, because the log no longer has it afterwards.
        let last = log.filled().map(|segment| segment.number);
        log.end_segment()?;
        let target = log.progress().0;
        drop(log);
        self.queue_groups();
        // The lock is released between the checks, because a finished write needs it.
        while self.log.lock().progress().1.is_some_and(|oldest| oldest <= target) {
            self.wait_for_disk();
        }
        self.seal_ended();
        // Relaxed: only the number of a sealed segment is used.
        let sealed = |segment: &&Arc<Segment>| segment.is_sealed.load(Ordering::Relaxed);
        let segments = self.segments.read();
        Some(last.or_else(|| segments.iter().flatten().filter(sealed).map(|s| s.number).max()).unwrap_or(0))
    }

    /// Removes the records of an erasure from the index and from the segments' indexes.
    fn take_out(&self, erased: &Erased) -> io::Result<()> {
        // Cloned, so that the table is not locked while the disk is read.
        let segments: Vec<_> = self.segments.read().iter().flatten().cloned().collect();
        for segment in segments.into_iter().filter(|segment| segment.number <= erased.segment) {
            let octets = segment.end();
            let (mut kept, mut heads, mut gone) = (Vec::new(), Vec::new(), 0);
            let checks = self.key.checks(segment.extent.salt());
            Window::new(&segment.extent, octets).records(&checks, |offset, whole| {
                let is_gone = erased.covers(segment.number, whole.name);
                let record = self.recorded(segment.slot, offset, &whole);
                if is_gone {
                    gone += 1;
                    self.counters.erased.add(self.index.remove(record.hash, record.place).into());
                } else {
                    heads.extend(self.heads_of(whole.name, record.hash));
                    kept.push(record);
                }
            })?;
            let is_changed = gone > 0;
            if is_changed && !self.medium.write_index(&self.key, &segment, octets, &kept, &heads)? {
                self.give_up(&segment);
            }
        }
        // Synchronize before the erasure counts as done: an older index that reappears after a
        // crash would list the records again.
        self.medium.sync_indexes()
    }

    /// Evicts a segment whose index does not fit: without one, its erased records would count again
    /// at the next opening.
    fn give_up(&self, segment: &Segment) {
        let records = self.index.slot_records(segment.slot);
        let gone = records.iter().filter(|(hash, place)| self.index.remove(*hash, *place)).count();
        self.counters.evicted.add(gone as u64);
        self.forget(segment);
    }

    /// Removes erasures whose segments have all been evicted.
    pub(crate) fn forget_erased(&self) {
        let oldest = self.segments.read().iter().flatten().map(|segment| segment.number).min();
        self.erased.write().retain(|erased| !erased.is_done || oldest.is_some_and(|n| n <= erased.segment));
    }

    /// Returns the last segment with erased records.
    pub(crate) fn last_erased(&self) -> Option<u64> {
        let erased = self.erased.read();
        erased.iter().map(|erased| erased.segment).filter(|segment| *segment != UNKNOWN).max()
    }

    /// Loads the list of erasures. The keeper resumes those that were in progress when the tier was
    /// closed or crashed.
    pub(crate) fn load_erased(&self) {
        *self.erased.write() = load(&self.medium, &self.key);
    }
}

fn load(medium: &Medium, key: &Key) -> Vec<Erased> {
    let Some(octets) = medium.load_erased(key) else { return Vec::new() };
    decode(key, &octets).unwrap_or_else(|| {
        tracing::warn!(folder = %medium.path().display(), "the record of erasures is lost: erase them again");
        Vec::new()
    })
}

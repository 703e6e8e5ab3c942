//! Erases the records below a prefix. Reads skip the records at once. Their removal from the index
//! and from the segments' indexes takes a while: only the records have names, so the keeper reads
//! all segments. For the erasure of one packet by its full name, the keeper reads only its record.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_wire::NameRef;

use super::buffer::blocks;
use super::erased::{Erased, decode, encode};
use super::error::TierError;
use super::exact::{ExactErasure, Sha256};
use super::index::IndexLookup;
use super::limits::ERASED_MAX;
use super::medium::Medium;
use super::place::RecordPosition;
use super::record::{self, Key};
use super::segment::Segment;
use super::shared::Shared;
use super::window::Window;

/// Segment of an erasure whose last segment is not determined yet: the erasure covers all records.
const UNKNOWN: u64 = u64::MAX;

impl Shared {
    pub(crate) fn erase(&self, prefix: NameRef<'_>) -> Result<(), TierError> {
        let mut erased = self.erased.prefixes.write();
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
        let next = self.erased.prefixes.read().iter().find(|erased| !erased.is_done).cloned();
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
        let mut next = self.erased.prefixes.read().clone();
        change(&mut next);
        self.medium.save_erased(&self.key, &encode(&self.key, &next))?;
        change(&mut self.erased.prefixes.write());
        Ok(())
    }

    pub(crate) fn erase_exact(&self, full_name: NameRef<'_>, sha256: Sha256) -> Result<(), TierError> {
        let Some(erasure) = ExactErasure::new(full_name, sha256) else { return Ok(()) };
        // A packet that the tier does not have takes no place in the list.
        if self.position_of(self.hash(erasure.name.as_name())).is_none() {
            return Ok(());
        }
        self.erased.packets.add(erasure)?;
        self.wake_keeper();
        Ok(())
    }

    /// Returns the position of the record that the index has for the name with this hash.
    fn position_of(&self, hash: u64) -> Option<RecordPosition> {
        match self.index.look(hash, |place| place) {
            IndexLookup::Found(place) => Some(place),
            _ => None,
        }
    }

    /// Performs the next erasure of a single packet, if there is one.
    pub(crate) fn erase_next_exact(&self) -> bool {
        let next = self.erased.packets.first();
        let Some(next) = next.filter(|_| !self.health.is_resting()) else { return false };
        if let Err(error) = self.take_out_exact(&next) {
            self.note_write_error(TierError::new(self.medium.path(), error));
        }
        // An erasure that failed is not tried again: the next consumer reports the packet again.
        self.erased.packets.end_first();
        true
    }

    /// Removes the record of a packet from the index, and from the index of its segment.
    fn take_out_exact(&self, erasure: &ExactErasure) -> io::Result<()> {
        let hash = self.hash(erasure.name.as_name());
        let Some(place) = self.position_of(hash) else { return Ok(()) };
        // Only this thread evicts segments, so the slot still has the segment of the record.
        let segment = self.segments.read().get(place.slot()).cloned().flatten();
        let Some(segment) = segment else { return Ok(()) };
        if !self.has_packet(&segment, place, erasure) || !self.index.remove(hash, place) {
            return Ok(());
        }
        self.counters.erased.add(1);
        // Acquire pairs with the Release in `seal`, as in `begin`.
        if !segment.is_sealed.load(Ordering::Acquire) {
            segment.erased.lock().insert(place.offset());
            return Ok(());
        }
        // A segment without an index is read whole when the tier is opened, and then has the record
        // again.
        let Some(mut index) = self.medium.read_index(&self.key, &segment, self.base_ms) else {
            return Ok(());
        };
        index.records.retain(|record| record.place.offset() != place.offset());
        self.medium.write_index(&self.key, &segment, index.octets, &index.records, &index.heads)?;
        self.medium.sync_indexes()
    }

    /// Returns whether the record at `place` is that of the packet to erase, or cannot be read.
    fn has_packet(&self, segment: &Arc<Segment>, place: RecordPosition, erasure: &ExactErasure) -> bool {
        // Copied, so that the log is not locked while the digest is computed.
        let waiting = self.log.lock().record(segment, place).map(<[u8]>::to_vec);
        if let Some(octets) = waiting {
            // The check of the record may not be computed yet.
            return record::packet_unchecked(&octets).is_some_and(|packet| erasure.is_of(packet));
        }
        // A group leaves the log only after its write has ended, so the record is on the disk.
        let (start, octets) = blocks(place.offset(), place.octets());
        let mut buffer = self.pool.take(octets);
        if let Err(error) = segment.extent.read_exact_at(&mut buffer, start) {
            self.counters.read_errors.add(1);
            self.note_fault(TierError::new(self.medium.path(), error), false);
            // As after any failed read, later Interests go upstream.
            return true;
        }
        let checks = self.key.checks(segment.extent.salt());
        let whole = record::read(&checks, &buffer[(place.offset() - start) as usize..]);
        whole.is_some_and(|whole| erasure.is_of(whole.packet))
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
                } else if self.position_of(record.hash).is_some_and(|place| place.is(record.place)) {
                    // A packet that was erased by its full name is not listed again, nor one that a
                    // later record replaced.
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
        let stays = |erased: &Erased| !erased.is_done || oldest.is_some_and(|n| n <= erased.segment);
        self.erased.prefixes.write().retain(stays);
    }

    /// Returns the last segment with erased records.
    pub(crate) fn last_erased(&self) -> Option<u64> {
        let erased = self.erased.prefixes.read();
        erased.iter().map(|erased| erased.segment).filter(|segment| *segment != UNKNOWN).max()
    }

    /// Loads the list of erasures. The keeper resumes those that were in progress when the tier was
    /// closed or crashed.
    pub(crate) fn load_erased(&self) {
        *self.erased.prefixes.write() = load(&self.medium, &self.key);
    }
}

fn load(medium: &Medium, key: &Key) -> Vec<Erased> {
    let Some(octets) = medium.load_erased(key) else { return Vec::new() };
    decode(key, &octets).unwrap_or_else(|| {
        tracing::warn!(folder = %medium.path().display(), "the record of erasures is lost: erase them again");
        Vec::new()
    })
}

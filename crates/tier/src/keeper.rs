//! The keeper of a tier: submits full groups to the disk, seals segments, makes new ones, evicts
//! the oldest, and synchronizes. The keeper is one thread, which may block; only a caller that
//! requests a synchronization waits for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::engine::serve_one;
use super::error::TierError;
use super::index::IndexLookup;
use super::limits::{BLOCK_OCTETS, REINSERTED_PART};
use super::options::EngineKind;
use super::place::{Expiry, RecordPosition};
use super::queue::Job;
use super::record::{self, Record};
use super::segment::Segment;
use super::shared::Shared;
use super::window::Window;

/// Maximum time until the keeper checks for due work.
const TICK: Duration = Duration::from_millis(200);

/// Works until the tier is closed.
pub(crate) fn run(shared: &Shared) {
    let mut synced_at = Instant::now();
    loop {
        let mut orders = shared.orders.lock();
        if !orders.is_woken && !orders.is_closing {
            shared.bell.wait_for(&mut orders, TICK);
        }
        // Cleared before the work, so that an order that arrives meanwhile wakes the keeper again.
        orders.is_woken = false;
        let interval = shared.options.sync_interval;
        if !interval.is_zero() && synced_at.elapsed() >= interval {
            synced_at = Instant::now();
            // A pending synchronization covers the interval, too.
            if orders.syncs_asked == orders.syncs_done {
                orders.syncs_asked += 1;
            }
        }
        // Read before the last work, so that all Data accepted before the closing is written.
        let is_closing = orders.is_closing;
        drop(orders);
        while shared.keep() {}
        if is_closing {
            return;
        }
    }
}

impl Shared {
    /// Performs the due work. Returns whether there was any.
    pub(crate) fn keep(&self) -> bool {
        self.health.end_rest();
        let queued = self.queue_groups();
        let sealed = self.seal_ended();
        self.hold_bounds();
        let begun = self.offer_segment();
        let synced = self.synchronize();
        let erased = self.erase_next() | self.erase_next_exact();
        queued | sealed | begun | synced | erased
    }

    /// Adds the checks to the records of full groups and submits the groups to the disk.
    pub(crate) fn queue_groups(&self) -> bool {
        let mut is_any = false;
        loop {
            let Some(waiting) = self.log.lock().waiting() else { return is_any };
            // Computed without the log's lock, which writers need.
            let checks = waiting.checks(&self.key.checks(waiting.salt));
            let number = waiting.number;
            // `queue` needs the only reference to the buffer.
            drop(waiting);
            let Some(writing) = self.log.lock().queue(number, &checks) else { return is_any };
            self.queue.push(Job::Write(writing));
            is_any = true;
        }
    }

    /// Seals full segments: synchronizes them and writes their indexes.
    pub(crate) fn seal_ended(&self) -> bool {
        let mut is_any = false;
        while let Some(segment) = { self.log.lock().take_ended() } {
            if let Err(error) = self.seal(&segment) {
                self.note_write_error(TierError::new(self.medium.path(), error));
            }
            is_any = true;
        }
        is_any
    }

    /// Seals a segment. If its index cannot be written, the segment is read whole when the tier is
    /// opened.
    pub(crate) fn seal(&self, segment: &Segment) -> io::Result<()> {
        let mut records = std::mem::take(&mut *segment.records.lock());
        let heads = std::mem::take(&mut *segment.heads.lock());
        let end = records.iter().map(|record| record.place.end()).max().unwrap_or(BLOCK_OCTETS);
        let erased = std::mem::take(&mut *segment.erased.lock());
        records.retain(|record| !erased.contains(&record.place.offset()));
        let octets = end.next_multiple_of(BLOCK_OCTETS).min(segment.octets);
        let cut_off = segment.cut_off(octets);
        // All groups of the segment are written (`Log::take_ended`). Release pairs with the Acquire
        // of readers: a reader that finds the segment sealed reads its records from the file only,
        // up to the new end.
        segment.is_sealed.store(true, Ordering::Release);
        cut_off?;
        // Only after a successful cut, because `forget` subtracts the octets up to the segment's
        // end.
        self.budget.octets.fetch_sub(segment.octets - octets, Ordering::Relaxed);
        // Synchronized before the index, which must not list records that a power cut loses.
        segment.extent.sync_data()?;
        self.medium.write_index(&self.key, segment, octets, &records, &heads).map(drop)
    }

    /// Makes the log's next segment. Evicts segments if there is no room for it.
    fn offer_segment(&self) -> bool {
        if !self.log.lock().wants_segment() || self.health.is_resting() {
            return false;
        }
        let octets = self.medium.segment_octets();
        let octets_max = self.budget.octets_max.load(Ordering::Relaxed);
        let is_full = || {
            self.budget.octets.load(Ordering::Relaxed) + octets > octets_max
                || self.segments.read().iter().flatten().count() >= self.medium.segments_max()
        };
        while is_full() && self.evict_oldest() {}
        let (slot, number) = self.free_slot();
        match self.medium.create(number, slot, &self.key) {
            // A reader still has an evicted segment open: there is room once that read is done.
            Ok(None) => false,
            Ok(Some(segment)) => {
                let segment = Arc::new(segment);
                self.budget.octets.fetch_add(octets, Ordering::Relaxed);
                // The segment enters the table before the log uses it, so that a read of each
                // record finds its segment.
                self.segments.write()[slot] = Some(segment.clone());
                let leaves_room = is_full();
                self.log.lock().offer_segment(segment, leaves_room);
                // The header of the new segment was written, so the disk works again.
                self.health.clear_fault();
                true
            }
            Err(error) => {
                self.note_write_error(TierError::new(&self.medium.path_of(number), error));
                false
            }
        }
    }

    /// Returns whether the number of records is near its maximum.
    fn has_many_records(&self) -> bool {
        // The threshold is below the maximum, at which writes are refused.
        self.index.records() >= self.options.records_max() / 16 * 15
    }

    /// Evicts segments if the index is nearly full, because records are small, or if the budget was
    /// lowered.
    fn hold_bounds(&self) {
        let octets_max = || self.budget.octets_max.load(Ordering::Relaxed);
        let is_over = || self.budget.octets.load(Ordering::Relaxed) > octets_max() || self.has_many_records();
        while is_over() && self.evict_oldest() {}
    }

    fn free_slot(&self) -> (usize, u64) {
        // The number follows that of the last erasure, even if all segments of the erasure are
        // gone: the erasure must not cover new records.
        let erased = self.last_erased();
        let mut segments = self.segments.write();
        let last = segments.iter().flatten().map(|segment| segment.number).max();
        let number = last.max(erased).unwrap_or(0) + 1;
        let slot = segments.iter().position(Option::is_none).unwrap_or_else(|| {
            segments.push(None);
            segments.len() - 1
        });
        (slot, number)
    }

    /// Evicts the oldest segment, except for the records that are written again. Returns false if
    /// the oldest segment is not sealed, or there is none.
    fn evict_oldest(&self) -> bool {
        let oldest = self.segments.read().iter().flatten().min_by_key(|segment| segment.number).cloned();
        // All groups of a sealed segment are written. Acquire pairs with the Release in `seal`.
        let Some(oldest) = oldest.filter(|oldest| oldest.is_sealed.load(Ordering::Acquire)) else {
            return false;
        };
        let mut records = self.index.slot_records(oldest.slot);
        // In the order of the disk, because the window moves forward.
        records.sort_unstable_by_key(|(_, place)| place.offset());
        // Done while the index still has the records, because it shows whether a record was
        // replaced meanwhile.
        self.reinsert(&oldest, &records);
        let gone = records.iter().filter(|(hash, place)| self.index.remove(*hash, *place)).count();
        self.counters.evicted.add(gone as u64);
        self.forget(&oldest);
        self.forget_erased();
        true
    }

    /// Removes a segment without records.
    pub(crate) fn forget(&self, segment: &Segment) {
        // Removed from the table first, so that no new read finds the segment. Reads in progress
        // keep the file or region.
        self.segments.write()[segment.slot] = None;
        self.budget.octets.fetch_sub(segment.end(), Ordering::Relaxed);
        // Remains of a segment only take room, so writes are not suspended.
        if let Err(error) = self.medium.remove(segment) {
            self.note_fault(TierError::new(&self.medium.path_of(segment.number), error), false);
        }
    }

    /// Writes records again that were read since they were written, are pinned, or are wanted.
    fn reinsert(&self, segment: &Segment, records: &[(u64, RecordPosition)]) {
        // A copy, so that pinning does not wait for the disk.
        let pinned = self.retention.pinned.read().clone();
        let wanted = self.retention.wanted.read();
        let has_names = !pinned.is_empty() || wanted.is_some();
        let mut octets_left = self.medium.segment_octets() / REINSERTED_PART;
        let checks = self.key.checks(segment.extent.salt());
        let mut window = Window::new(&segment.extent, segment.end());
        for (hash, place) in records {
            if (!place.was_read() && !has_names) || place.octets() as u64 > octets_left {
                continue;
            }
            // A segment that cannot be read is evicted all the same.
            let Ok(octets) = window.at(place.offset(), place.octets()) else { return };
            let Some(whole) = record::read(&checks, octets) else { continue };
            let is_pinned = || pinned.iter().any(|prefix| prefix.as_name().is_prefix_of(whole.name));
            let is_wanted = || wanted.as_ref().is_some_and(|wanted| wanted.0(whole.name));
            if !place.was_read() && !is_pinned() && !is_wanted() {
                continue;
            }
            if !self.append_again(*hash, *place, &whole) {
                return;
            }
            octets_left -= place.octets() as u64;
        }
    }

    /// Appends a record that was at `old`. Returns whether there was room.
    fn append_again(&self, hash: u64, old: RecordPosition, whole: &Record<'_>) -> bool {
        let expiry = Expiry::new(whole.expires_ms, self.base_ms);
        loop {
            // A record written in the meantime is newer than this one.
            if !matches!(self.index.look(hash, |place| place), IndexLookup::Found(place) if place.is(old)) {
                return true;
            }
            let mut log = self.log.lock();
            if let Some(place) = log.append_again(hash, whole.packet, whole.expires_ms, expiry) {
                // Under the log's lock, as in `write`, so that a later record of the name is not
                // replaced.
                if self.index.remove(hash, old) {
                    self.index.insert_older(hash, place);
                    self.counters.reinserted.add(1);
                    // The table in memory has the names above the packet already, or has evicted
                    // them.
                    if let Some(segment) = log.filled() {
                        segment.heads.lock().extend(self.heads_of(whole.name, hash));
                    }
                }
                return true;
            }
            let groups = log.groups();
            drop(log);
            if groups == 0 || self.health.is_resting() {
                return false;
            }
            self.queue_groups();
            self.wait_for_disk();
        }
    }

    /// Waits for progress of the disk, or with the inline engine serves one request.
    pub(crate) fn wait_for_disk(&self) {
        if self.options.engine == EngineKind::Inline {
            serve_one(self);
            return;
        }
        let mut orders = self.orders.lock();
        if !orders.is_woken {
            self.bell.wait_for(&mut orders, TICK);
        }
        orders.is_woken = false;
    }

    /// Writes everything to the disk that was accepted before the synchronization was requested.
    fn synchronize(&self) -> bool {
        let (asked, done, is_awaited) = {
            let orders = self.orders.lock();
            (orders.syncs_asked, orders.syncs_done, orders.caller_sync > orders.syncs_done)
        };
        if asked == done {
            return false;
        }
        let target = {
            let mut log = self.log.lock();
            // Too many groups wait. A finished write wakes the keeper, which tries again.
            if log.end_group().is_none() {
                return false;
            }
            log.progress().0
        };
        self.queue_groups();
        while self.log.lock().progress().1.is_some_and(|oldest| oldest <= target) {
            self.wait_for_disk();
        }
        self.seal_ended();
        let filled = self.log.lock().filled().cloned();
        let result = filled.map_or(Ok(()), |segment| segment.extent.sync_data());
        self.counters.syncs.add(1);
        if let Err(error) = result {
            self.note_write_error(TierError::new(self.medium.path(), error));
            // After a failed synchronization, later ones of this file would not report the lost
            // data.
            self.log.lock().end_segment();
        }
        let doubt = is_awaited.then(|| self.health.take_doubt()).flatten();
        let failed = doubt.map(|message| (asked, message));
        let mut orders = self.orders.lock();
        // Requests that arrived meanwhile need another synchronization.
        orders.syncs_done = asked;
        // A later success does not hide the failure from a caller that has not woken yet.
        orders.failed = failed.or_else(|| orders.failed.take());
        drop(orders);
        // Several callers may wait for one synchronization.
        self.bell.notify_all();
        true
    }
}

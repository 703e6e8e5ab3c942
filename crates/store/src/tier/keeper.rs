//! Who keeps a tier: gives the disk groups that are full, seals segments, makes new ones, throws
//! the oldest away, and synchronises. One thread, which may wait; nobody waits for it but who asks
//! for a synchronisation.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use namely_wire::NameRef;

use super::engine::serve_one;
use super::error::TierError;
use super::index::Look;
use super::limits::{BLOCK_OCTETS, REINSERTED_PART};
use super::options::EngineKind;
use super::place::{Expiry, Place};
use super::queue::Job;
use super::segment::Segment;
use super::shared::Shared;
use super::window::Window;

/// How long the keeper waits at most before it looks whether something is due.
const TICK: Duration = Duration::from_millis(200);

/// Works until the tier is closed.
pub(crate) fn run(shared: &Shared) {
    let mut synced_at = Instant::now();
    loop {
        let mut orders = shared.orders.lock();
        if !orders.is_woken && !orders.is_closing {
            shared.bell.wait_for(&mut orders, TICK);
        }
        orders.is_woken = false;
        let interval = shared.options.sync_interval;
        if !interval.is_zero() && synced_at.elapsed() >= interval {
            synced_at = Instant::now();
            if orders.syncs_asked == orders.syncs_done {
                orders.syncs_asked += 1;
            }
        }
        let is_closing = orders.is_closing;
        drop(orders);
        while shared.keep() {}
        if is_closing {
            return;
        }
    }
}

impl Shared {
    /// Does what is to be done; whether there was anything.
    pub(crate) fn keep(&self) -> bool {
        self.end_rest();
        let queued = self.queue_groups();
        let sealed = self.seal_ended();
        self.hold_bounds();
        let begun = self.offer_segment();
        let synced = self.synchronise();
        let erased = self.erase_next();
        queued | sealed | begun | synced | erased
    }

    fn end_rest(&self) {
        let mut rests_until = self.rests_until.lock();
        if rests_until.is_some_and(|until| until <= Instant::now()) {
            *rests_until = None;
            self.is_resting.store(false, Ordering::Relaxed);
        }
    }

    /// Gives the records of full groups their checks, and the groups to the disk.
    pub(crate) fn queue_groups(&self) -> bool {
        let mut is_any = false;
        loop {
            let Some(waiting) = self.log.lock().waiting() else { return is_any };
            let checks = waiting.checks(&self.key.checks(waiting.salt));
            let number = waiting.number;
            drop(waiting);
            let Some(writing) = self.log.lock().queue(number, &checks) else { return is_any };
            self.queue.push(Job::Write(writing));
            is_any = true;
        }
    }

    /// Puts segments that are full on the disk, and what is in them.
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

    /// Without its index a segment is read whole when the tier is opened.
    pub(crate) fn seal(&self, segment: &Segment) -> io::Result<()> {
        let records = std::mem::take(&mut *segment.records.lock());
        let heads = std::mem::take(&mut *segment.heads.lock());
        let end = records.iter().map(|record| record.place.end()).max().unwrap_or(BLOCK_OCTETS);
        let octets = end.next_multiple_of(BLOCK_OCTETS).min(segment.octets);
        let cut_off = segment.cut_off(octets);
        segment.is_sealed.store(true, Ordering::Release);
        cut_off?;
        self.octets.fetch_sub(segment.octets - octets, Ordering::Relaxed);
        segment.extent.sync_data()?;
        self.medium.write_index(&self.key, (segment, octets), (&records, &heads)).map(drop)
    }

    /// Makes the segment that comes after the present one, and room for it.
    fn offer_segment(&self) -> bool {
        if !self.log.lock().wants_segment() || self.is_resting.load(Ordering::Relaxed) {
            return false;
        }
        let octets = self.medium.segment_octets();
        let octets_max = self.octets_max.load(Ordering::Relaxed);
        let is_full = || {
            self.octets.load(Ordering::Relaxed) + octets > octets_max
                || self.segments.read().iter().flatten().count() >= self.medium.segments_max()
        };
        while is_full() && self.evict_oldest() {}
        let (slot, number) = self.free_slot();
        match self.medium.create(number, slot, &self.key) {
            // Somebody reads from a segment that was thrown away: a moment later there is room.
            Ok(None) => false,
            Ok(Some(segment)) => {
                let segment = Arc::new(segment);
                self.octets.fetch_add(octets, Ordering::Relaxed);
                self.segments.write()[slot] = Some(segment.clone());
                let leaves_room = is_full();
                self.log.lock().offer_segment(segment, leaves_room);
                *self.fault.lock() = None;
                true
            }
            Err(error) => {
                self.note_write_error(TierError::new(&self.medium.path_of(number), error));
                false
            }
        }
    }

    /// Whether there are nearly as many records as may be.
    fn has_many_records(&self) -> bool {
        self.index.records() >= self.options.records_max() / 16 * 15
    }

    /// Makes room where records are so small that the index is full before the disk is, or where
    /// there is less room than there was.
    fn hold_bounds(&self) {
        let octets_max = || self.octets_max.load(Ordering::Relaxed);
        let is_over = || self.octets.load(Ordering::Relaxed) > octets_max() || self.has_many_records();
        while is_over() && self.evict_oldest() {}
    }

    fn free_slot(&self) -> (usize, u64) {
        // What is written now is not what was erased, even if all segments of then are gone.
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

    /// Throws the oldest segment away but for what is written again; whether there was one that is
    /// sealed.
    fn evict_oldest(&self) -> bool {
        let oldest = self.segments.read().iter().flatten().min_by_key(|segment| segment.number).cloned();
        let Some(oldest) = oldest.filter(|oldest| oldest.is_sealed.load(Ordering::Acquire)) else {
            return false;
        };
        let mut records = self.index.of_slot(oldest.slot);
        records.sort_unstable_by_key(|(_, place)| place.offset());
        self.reinsert(&oldest, &records);
        let gone = records.iter().filter(|(hash, place)| self.index.remove(*hash, *place)).count();
        self.counters.evicted.add(gone as u64);
        self.forget(&oldest);
        self.forget_erased();
        true
    }

    /// A segment without records goes.
    pub(crate) fn forget(&self, segment: &Segment) {
        self.segments.write()[segment.slot] = None;
        self.octets.fetch_sub(segment.end(), Ordering::Relaxed);
        if let Err(error) = self.medium.remove(segment) {
            self.note_fault(TierError::new(&self.medium.path_of(segment.number), error), false);
        }
    }

    /// Writes again what was read since it was written, is pinned, or wanted.
    fn reinsert(&self, segment: &Segment, records: &[(u64, Place)]) {
        let pinned = self.pinned.read().clone();
        let wanted = self.wanted.read();
        let has_names = !pinned.is_empty() || wanted.is_some();
        let mut octets_left = self.medium.segment_octets() / REINSERTED_PART;
        let checks = self.key.checks(segment.extent.salt());
        let mut window = Window::new(&segment.extent, segment.end());
        for (hash, place) in records {
            if (!place.was_read() && !has_names) || place.octets() as u64 > octets_left {
                continue;
            }
            let Ok(octets) = window.at(place.offset(), place.octets()) else { return };
            let Some(whole) = super::record::read(&checks, octets) else { continue };
            let is_pinned = || pinned.iter().any(|prefix| prefix.as_name().is_prefix_of(whole.name));
            let is_wanted = || wanted.as_ref().is_some_and(|wanted| wanted.0(whole.name));
            if !place.was_read() && !is_pinned() && !is_wanted() {
                continue;
            }
            let expiry = Expiry::new(whole.expires_ms, self.base_ms);
            if !self.append_again((*hash, *place), (whole.name, whole.packet), (whole.expires_ms, expiry)) {
                return;
            }
            octets_left -= place.octets() as u64;
        }
    }

    /// Whether there was room.
    fn append_again(
        &self,
        (hash, old): (u64, Place),
        (name, packet): (NameRef<'_>, &[u8]),
        expires: (u64, Expiry),
    ) -> bool {
        loop {
            // What was written anew meanwhile is newer than this.
            if !matches!(self.index.look(hash, |place| place), Look::There(place) if place.is(old)) {
                return true;
            }
            let mut log = self.log.lock();
            if let Some(place) = log.append_again(hash, packet, expires) {
                if self.index.remove(hash, old) {
                    self.index.insert_older(hash, place);
                    self.counters.reinserted.add(1);
                    // In memory they are known, or forgotten.
                    if let Some(segment) = log.filled() {
                        segment.heads.lock().extend(self.heads_of(name, hash));
                    }
                }
                return true;
            }
            let groups = log.groups();
            drop(log);
            if groups == 0 || self.is_resting.load(Ordering::Relaxed) {
                return false;
            }
            self.queue_groups();
            self.wait_for_disk();
        }
    }

    /// Waits until the disk has done something, or does it.
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

    /// Puts everything on the disk that was written before it was asked for.
    fn synchronise(&self) -> bool {
        let (asked, done) = {
            let orders = self.orders.lock();
            (orders.syncs_asked, orders.syncs_done)
        };
        if asked == done {
            return false;
        }
        let target = {
            let mut log = self.log.lock();
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
            // Later synchronisations of this file would say nothing of what is lost.
            self.log.lock().end_segment();
        }
        let is_doubtful = self.is_doubtful.swap(false, Ordering::AcqRel);
        let failed = is_doubtful.then(|| self.fault.lock().clone().unwrap_or_default());
        let mut orders = self.orders.lock();
        orders.syncs_done = asked;
        orders.failed = failed;
        drop(orders);
        self.bell.notify_all();
        true
    }
}

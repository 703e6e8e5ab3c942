//! Recovery of a tier's index when it is opened.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::above::PrefixEntry;
use super::erased::Erased;
use super::error::TierError;
use super::extent::FoundSegment;
use super::limits::BLOCK_OCTETS;
use super::sealing::SegmentIndex;
use super::segment::{IndexRecord, Segment};
use super::shared::Shared;
use super::window::Window;

impl Shared {
    /// Adds the existing records to the index, newest segment first: of two records of one name the
    /// one written last counts.
    pub(crate) fn recover(&self) -> Result<(), TierError> {
        // Loaded first, because a scan leaves out erased records.
        self.load_erased();
        for found in self.medium.found(&self.key)?.into_iter().rev() {
            self.load(found)?;
        }
        Ok(())
    }

    fn load(&self, found: FoundSegment) -> Result<(), TierError> {
        let path = self.medium.path_of(found.number);
        let fault = |error| TierError::new(&path, error);
        let slot = self.segments.read().len();
        let Some(segment) = self.medium.open(found, slot, &self.key)? else { return Ok(()) };
        let total_octets = self.budget.octets.load(Ordering::Relaxed) + segment.octets;
        // The newest segments come first, so a lower budget removes the oldest.
        if total_octets > self.budget.octets_max.load(Ordering::Relaxed) || slot >= self.medium.segments_max()
        {
            return self.medium.remove(&segment).map_err(fault);
        }
        let SegmentIndex { octets, records, heads } =
            match self.medium.read_index(&self.key, &segment, self.base_ms) {
                Some(sealed) => sealed,
                None => self.scan(&segment).map_err(fault)?,
            };
        if records.is_empty() {
            return self.medium.remove(&segment).map_err(fault);
        }
        segment.ends_at(octets);
        heads.iter().rev().for_each(|head| self.above.insert_older(*head));
        // The last record of a name is inserted first, and stays.
        for record in records.iter().rev().filter(|_| self.index.records() < self.options.records_max()) {
            self.index.insert_older(record.hash, record.place);
        }
        self.budget.octets.fetch_add(octets, Ordering::Relaxed);
        self.segments.write().push(Some(Arc::new(segment)));
        Ok(())
    }

    /// Reads a segment that was not sealed, and seals it.
    fn scan(&self, segment: &Segment) -> io::Result<SegmentIndex> {
        let (mut records, mut heads): (Vec<IndexRecord>, Vec<PrefixEntry>) = (Vec::new(), Vec::new());
        let mut window = Window::new(&segment.extent, segment.octets);
        let damaged = window.records(&self.key.checks(segment.extent.salt()), |offset, whole| {
            let is_erased = |erased: &Erased| erased.covers(segment.number, whole.name);
            if !self.erased.prefixes.read().iter().any(is_erased) {
                let record = self.recorded(segment.slot, offset, &whole);
                heads.extend(self.heads_of(whole.name, record.hash));
                records.push(record);
            }
        })?;
        // A reused region has remains of an earlier segment after the records; they are not damage.
        if segment.extent.salt().is_none() {
            self.counters.damaged.add(damaged);
        }
        let end = records.iter().map(|record| record.place.end()).max().unwrap_or(BLOCK_OCTETS);
        let octets = end.next_multiple_of(BLOCK_OCTETS);
        // The octets after the records are unused. They may stay if the file cannot be cut off.
        let shortened = segment.cut_off(octets).and_then(|()| segment.extent.sync_data());
        let index =
            shortened.and_then(|()| self.medium.write_index(&self.key, segment, octets, &records, &heads));
        if let Err(error) = index {
            // Without its index the segment is read whole again at the next opening.
            self.medium.forget_index(segment);
            tracing::warn!(folder = %self.medium.path().display(), %error, "a segment has no index");
        }
        // If the file could not be cut off, all of its octets count.
        Ok(SegmentIndex { octets: segment.end(), records, heads })
    }
}

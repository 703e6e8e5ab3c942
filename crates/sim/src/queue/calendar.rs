//! A calendar queue (Brown, 1988): each bucket has the events of one day of every year.

use super::{Entry, EventQueue, octets_of};

/// Minimum number of buckets, a power of two.
const BUCKETS_MIN: usize = 64;

/// Number of the first events whose distances determine the length of a day.
const SAMPLED: usize = 64;

/// Events in a day that a queue is laid out for.
const DAY_EVENTS: u64 = 3;

/// A calendar queue. It has half as many to four times as many buckets as events, and the length of
/// a day follows from the distances of the first events.
#[derive(Clone, Debug)]
pub struct CalendarQueue {
    /// Entries in descending order. Their number is a power of two.
    buckets: Vec<Vec<Entry>>,
    /// Binary logarithm of the length of a day in ns.
    shift: u32,
    /// No entry is before this day.
    day: u64,
    len: usize,
}

impl Default for CalendarQueue {
    fn default() -> Self {
        CalendarQueue { buckets: vec![Vec::new(); BUCKETS_MIN], shift: 20, day: 0, len: 0 }
    }
}

impl CalendarQueue {
    fn day_of(&self, entry: &Entry) -> u64 {
        entry.key.at_ns >> self.shift
    }

    fn bucket(&self, day: u64) -> usize {
        day as usize & (self.buckets.len() - 1)
    }

    fn place(&mut self, entry: Entry) {
        let day = self.day_of(&entry);
        self.day = if self.len == 0 { day } else { self.day.min(day) };
        self.len += 1;
        let bucket = self.bucket(day);
        let bucket = &mut self.buckets[bucket];
        let position = bucket.partition_point(|other| *other > entry);
        bucket.insert(position, entry);
    }

    /// Returns the bucket of the first entry, whose day becomes the current one.
    fn find(&mut self) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        for _ in 0..self.buckets.len() {
            let bucket = self.bucket(self.day);
            if self.buckets[bucket].last().is_some_and(|entry| self.day_of(entry) == self.day) {
                return Some(bucket);
            }
            self.day = self.day.saturating_add(1);
        }
        // No event in a whole year.
        let first = *self.buckets.iter().filter_map(|bucket| bucket.last()).min()?;
        self.day = self.day_of(&first);
        Some(self.bucket(self.day))
    }

    /// Distributes all entries anew.
    fn resize(&mut self, buckets: usize) {
        let mut all: Vec<Entry> = self.buckets.iter_mut().flat_map(std::mem::take).collect();
        all.sort_unstable();
        let sampled = all.len().min(SAMPLED);
        if let Some(last) = sampled.checked_sub(1).filter(|last| *last > 0) {
            let distance_ns = (all[last].key.at_ns - all[0].key.at_ns) / last as u64;
            self.shift = distance_ns.saturating_mul(DAY_EVENTS).max(1).ilog2();
        }
        self.buckets = vec![Vec::new(); buckets];
        self.len = 0;
        // The last ones first, so that each is the end of its bucket.
        all.into_iter().rev().for_each(|entry| self.place(entry));
    }
}

impl EventQueue for CalendarQueue {
    fn push(&mut self, entry: Entry) {
        self.place(entry);
        if self.len > 2 * self.buckets.len() {
            self.resize(2 * self.buckets.len());
        }
    }

    fn pop_before(&mut self, end_ns: u64) -> Option<Entry> {
        let bucket = self.find()?;
        let entry = self.buckets[bucket].pop_if(|entry| entry.key.at_ns < end_ns)?;
        self.len -= 1;
        if self.buckets.len() > BUCKETS_MIN && self.len < self.buckets.len() / 4 {
            self.resize(self.buckets.len() / 2);
        }
        Some(entry)
    }

    fn next_ns(&mut self) -> Option<u64> {
        let bucket = self.find()?;
        self.buckets[bucket].last().map(|entry| entry.key.at_ns)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn octets(&self) -> usize {
        let entries: usize = self.buckets.iter().map(octets_of).sum();
        entries + self.buckets.capacity() * size_of::<Vec<Entry>>()
    }
}

//! A radix heap (Ahuja et al., 1990): buckets by the highest bit in which a time differs from that
//! of the last removed event.

use super::{Entry, EventQueue, QuadHeap, octets_of};

/// A radix heap. Each entry moves to a lower bucket at most once for each bit of its time.
#[derive(Clone, Debug)]
pub struct RadixHeap {
    /// Time of the last removed entry.
    last_ns: u64,
    /// Entries at that time.
    now: QuadHeap,
    /// Entries by the highest differing bit.
    buckets: Vec<Vec<Entry>>,
    /// The buckets that have entries.
    occupied: u64,
    /// The least time in the buckets, if it is known.
    least_ns: Option<u64>,
    len: usize,
}

impl Default for RadixHeap {
    fn default() -> Self {
        RadixHeap {
            last_ns: 0,
            now: QuadHeap::default(),
            buckets: vec![Vec::new(); u64::BITS as usize],
            occupied: 0,
            least_ns: None,
            len: 0,
        }
    }
}

impl RadixHeap {
    fn place(&mut self, entry: Entry) {
        let at_ns = entry.key.at_ns;
        if at_ns <= self.last_ns {
            return self.now.push(entry);
        }
        let bucket = (at_ns ^ self.last_ns).ilog2();
        self.buckets[bucket as usize].push(entry);
        self.occupied |= 1 << bucket;
    }

    /// Returns the lowest bucket with entries, which has the first ones, and the least time.
    fn least(&mut self) -> Option<(usize, u64)> {
        if self.occupied == 0 {
            return None;
        }
        let bucket = self.occupied.trailing_zeros() as usize;
        if self.least_ns.is_none() {
            self.least_ns = self.buckets[bucket].iter().map(|entry| entry.key.at_ns).min();
        }
        self.least_ns.map(|least_ns| (bucket, least_ns))
    }
}

impl EventQueue for RadixHeap {
    fn push(&mut self, entry: Entry) {
        self.len += 1;
        self.least_ns = match self.least_ns {
            Some(least_ns) if entry.key.at_ns > self.last_ns => Some(least_ns.min(entry.key.at_ns)),
            known => known,
        };
        self.place(entry);
    }

    fn pop_before(&mut self, end_ns: u64) -> Option<Entry> {
        if self.now.is_empty() {
            let (bucket, least_ns) = self.least()?;
            if least_ns >= end_ns {
                return None;
            }
            (self.last_ns, self.least_ns) = (least_ns, None);
            self.occupied &= !(1 << bucket);
            let mut entries = std::mem::take(&mut self.buckets[bucket]);
            entries.drain(..).for_each(|entry| self.place(entry));
            // The memory serves the bucket again.
            self.buckets[bucket] = entries;
        }
        let entry = self.now.pop_before(end_ns)?;
        self.len -= 1;
        Some(entry)
    }

    fn next_ns(&mut self) -> Option<u64> {
        self.now.next_ns().or_else(|| self.least().map(|(_, least_ns)| least_ns))
    }

    fn len(&self) -> usize {
        self.len
    }

    fn octets(&self) -> usize {
        let entries: usize = self.buckets.iter().map(octets_of).sum();
        self.now.octets() + entries + self.buckets.capacity() * size_of::<Vec<Entry>>()
    }
}

//! The lengths of entries below each first component, which a lookup must probe.
//!
//! A small array of bitmaps, indexed by the hash of the first component. Components that share a
//! slot also share their lengths, which may cost a probe that finds nothing. The array is in pages
//! of 1 KiB, which the first entry below one of their components allocates.

use crate::sync::plain::{AtomicU64, Ordering::Relaxed};
use alloc::boxed::Box;

use namely_wire::COMPONENTS_MAX;
use once_cell::race::OnceBox;

use crate::error::ConfigError;
use crate::hash::NameHashes;
use crate::ordered::{NoMemory, Ordered};
use crate::pool::boxed;
use crate::prefetch::prefetch;

const _: () = assert!(COMPONENTS_MAX <= 128, "two words have a bit for each length but 0");

/// Minimum and maximum number of slots; between them one for each 16 entries of the limit.
const SLOTS_MIN: usize = 64;
const SLOTS_MAX: usize = 16_384;

/// Slots of a page.
const PAGE: usize = 64;

/// A bit for each length.
type Slot = [AtomicU64; 2];

pub(super) struct Lengths {
    /// A page that was not allocated has no lengths.
    pages: Box<[OnceBox<[Slot; PAGE]>]>,
    /// One less than the number of slots.
    mask: usize,
    root: AtomicU64,
}

/// The number of entries for each bit: state of the writer.
pub(super) type Counts = Ordered<(u32, u8), u32>;

/// Lengths still to probe, longest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeLengths {
    bits: u128,
    has_root: bool,
}

impl Lengths {
    pub(super) fn new(entries_max: usize) -> Result<Self, ConfigError> {
        let slots = (entries_max / 16).clamp(SLOTS_MIN, SLOTS_MAX).next_power_of_two();
        let pages = boxed(slots / PAGE, OnceBox::new)?;
        Ok(Lengths { pages, mask: slots - 1, root: AtomicU64::new(0) })
    }

    /// The lengths that prefixes of a name with these hashes may have.
    pub(super) fn of(&self, hashes: &NameHashes) -> ProbeLengths {
        let has_root = self.root.load(Relaxed) > 0;
        let len = hashes.len();
        if len == 0 {
            return ProbeLengths { bits: 0, has_root };
        }
        let Some([low, high]) = self.slot(self.slot_of(hashes)) else {
            return ProbeLengths { bits: 0, has_root };
        };
        let bits = u128::from(high.load(Relaxed)) << 64 | u128::from(low.load(Relaxed));
        // Longer entries are no prefixes of the name. `len` is not 0 here, so the shift is below
        // 128.
        ProbeLengths { bits: bits & u128::MAX >> (128 - len), has_root }
    }

    /// Prefetches the lengths.
    pub(super) fn prefetch(&self, hashes: &NameHashes) {
        if hashes.len() > 0 {
            self.slot(self.slot_of(hashes)).into_iter().for_each(prefetch);
        }
    }

    /// Allocates the memory for the length of an entry of `n` components, so that `add` cannot
    /// fail.
    pub(super) fn reserve(&self, hashes: &NameHashes, n: usize) -> Result<(), NoMemory> {
        let page = self.pages.get(self.slot_of(hashes) / PAGE);
        if let Some(page) = page.filter(|page| n > 0 && page.get().is_none()) {
            let slots = boxed(PAGE, Slot::default).map_err(|_| NoMemory)?;
            // Cannot fail, because writers exclude each other.
            let slots: Box<[Slot; PAGE]> = slots.try_into().map_err(|_| NoMemory)?;
            let _ = page.set(slots);
        }
        Ok(())
    }

    /// The caller has reserved one more count, and the memory for the length.
    pub(super) fn add(&self, hashes: &NameHashes, n: usize, counts: &mut Counts) {
        if n == 0 {
            return self.root.store(1, Relaxed);
        }
        let slot = self.slot_of(hashes);
        let key = (slot as u32, n as u8);
        let count = counts.get(&key).copied().unwrap_or(0);
        // Cannot fail, because the caller has reserved it.
        let _ = counts.insert(key, count + 1);
        self.set(slot, n, true);
    }

    pub(super) fn remove(&self, hashes: &NameHashes, n: usize, counts: &mut Counts) {
        if n == 0 {
            return self.root.store(0, Relaxed);
        }
        let slot = self.slot_of(hashes);
        let key = (slot as u32, n as u8);
        if let Some(count) = counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&key);
                self.set(slot, n, false);
            }
        }
    }

    fn set(&self, slot: usize, n: usize, has: bool) {
        let Some(words) = self.slot(slot) else { return };
        let (word, bit) = (&words[(n - 1) / 64], 1u64 << ((n - 1) % 64));
        // Load and store suffice, because writers exclude each other.
        let bits = word.load(Relaxed);
        word.store(if has { bits | bit } else { bits & !bit }, Relaxed);
    }

    #[inline]
    fn slot(&self, slot: usize) -> Option<&Slot> {
        self.pages.get(slot / PAGE)?.get().map(|page| &page[slot % PAGE])
    }

    /// Uses the high bits, because the index of buckets uses the low ones.
    fn slot_of(&self, hashes: &NameHashes) -> usize {
        (hashes.hash(1) >> 32) as usize & self.mask
    }
}

impl Iterator for ProbeLengths {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.bits != 0 {
            let n = 128 - self.bits.leading_zeros() as usize;
            self.bits ^= 1 << (n - 1);
            return Some(n);
        }
        core::mem::take(&mut self.has_root).then_some(0)
    }
}

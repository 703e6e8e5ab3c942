//! Which lengths entries have below a first component: what a lookup needs to probe.
//!
//! A small array of bitmaps, chosen by the hash of the first component. Components that share a
//! place see each other's lengths too, which may cost them a probe that finds nothing.

use crate::sync::plain::{AtomicU64, Ordering::Relaxed};
use alloc::boxed::Box;

use namely_wire::COMPONENTS_MAX;

use crate::error::ConfigError;
use crate::hash::NameHashes;
use crate::ordered::Ordered;
use crate::pool::boxed;
use crate::prefetch::prefetch;

const _: () = assert!(COMPONENTS_MAX <= 128, "two words have a bit for each length but 0");

/// Fewest and most places; between them one for each 16 entries that the table may hold.
const PLACES_MIN: usize = 64;
const PLACES_MAX: usize = 16_384;

pub(super) struct Lengths {
    places: Box<[[AtomicU64; 2]]>,
    root: AtomicU64,
}

/// How many entries stand behind each bit: the writer's.
pub(super) type Counts = Ordered<(u32, u8), u32>;

/// Lengths still to probe, longest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Longest {
    bits: u128,
    has_root: bool,
}

impl Lengths {
    pub(super) fn new(entries_max: usize) -> Result<Self, ConfigError> {
        let places = (entries_max / 16).clamp(PLACES_MIN, PLACES_MAX).next_power_of_two();
        Ok(Lengths { places: boxed(places, Default::default)?, root: AtomicU64::new(0) })
    }

    /// The lengths that prefixes of a name with these hashes may have.
    pub(super) fn of(&self, hashes: &NameHashes) -> Longest {
        let has_root = self.root.load(Relaxed) > 0;
        let len = hashes.len();
        if len == 0 {
            return Longest { bits: 0, has_root };
        }
        let [low, high] = &self.places[self.place(hashes)];
        let bits = u128::from(high.load(Relaxed)) << 64 | u128::from(low.load(Relaxed));
        Longest { bits: bits & u128::MAX >> (128 - len), has_root }
    }

    /// Prefetches where the lengths are.
    pub(super) fn prefetch(&self, hashes: &NameHashes) {
        if hashes.len() > 0 {
            prefetch(&self.places[self.place(hashes)]);
        }
    }

    /// There is room for one count more.
    pub(super) fn add(&self, hashes: &NameHashes, n: usize, counts: &mut Counts) {
        if n == 0 {
            return self.root.store(1, Relaxed);
        }
        let place = self.place(hashes);
        let key = (place as u32, n as u8);
        let count = counts.get(&key).copied().unwrap_or(0);
        // Cannot fail, as the caller has made room.
        let _ = counts.insert(key, count + 1);
        self.set(place, n, true);
    }

    pub(super) fn remove(&self, hashes: &NameHashes, n: usize, counts: &mut Counts) {
        if n == 0 {
            return self.root.store(0, Relaxed);
        }
        let place = self.place(hashes);
        let key = (place as u32, n as u8);
        if let Some(count) = counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&key);
                self.set(place, n, false);
            }
        }
    }

    fn set(&self, place: usize, n: usize, has: bool) {
        let (word, bit) = (&self.places[place][(n - 1) / 64], 1u64 << ((n - 1) % 64));
        let bits = word.load(Relaxed);
        word.store(if has { bits | bit } else { bits & !bit }, Relaxed);
    }

    /// The index of buckets takes the low bits of a hash.
    fn place(&self, hashes: &NameHashes) -> usize {
        (hashes.hash(1) >> 32) as usize & (self.places.len() - 1)
    }
}

impl Iterator for Longest {
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

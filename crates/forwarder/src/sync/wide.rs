//! 64-bit atomics from two words, for processors with 32-bit atomics (MIPS32, ARMv7-M).
//!
//! A third word is both version and lock: odd during a write. A read takes no lock and is repeated
//! if the version changed meanwhile. Every read acquires and every write releases, for any
//! requested ordering but `SeqCst`, which is not used here.
//!
//! A writer must not be interrupted by a thread that waits for it on the same processor: a kernel
//! calls the core with bottom halves off. A read that lasts during 2³¹ writes could mistake the
//! last version for the first.

use crate::sync::{AtomicU32, Ordering, fence, spin_loop};

pub(crate) struct AtomicU64 {
    version: AtomicU32,
    low: AtomicU32,
    high: AtomicU32,
}

impl AtomicU64 {
    #[cfg(not(loom))]
    pub(crate) const fn new(value: u64) -> Self {
        let (low, high) = (AtomicU32::new(value as u32), AtomicU32::new((value >> 32) as u32));
        AtomicU64 { version: AtomicU32::new(0), low, high }
    }

    #[cfg(loom)]
    pub(crate) fn new(value: u64) -> Self {
        let (low, high) = (AtomicU32::new(value as u32), AtomicU32::new((value >> 32) as u32));
        AtomicU64 { version: AtomicU32::new(0), low, high }
    }

    pub(crate) fn load(&self, _: Ordering) -> u64 {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let value = self.words();
            // The writer of a word that was read has made the version odd before.
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return value;
            }
            spin_loop();
        }
    }

    pub(crate) fn store(&self, value: u64, _: Ordering) {
        let _ = self.update(|_| Some(value));
    }

    pub(crate) fn fetch_add(&self, n: u64, _: Ordering) -> u64 {
        self.change(|value| value.wrapping_add(n))
    }

    pub(crate) fn fetch_sub(&self, n: u64, _: Ordering) -> u64 {
        self.change(|value| value.wrapping_sub(n))
    }

    /// Fails only if the value differs.
    pub(crate) fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        self.update(|value| (value == current).then_some(new))
    }

    fn change(&self, change: impl FnOnce(u64) -> u64) -> u64 {
        self.update(|value| Some(change(value))).unwrap_or_else(|value| value)
    }

    fn words(&self) -> u64 {
        u64::from(self.high.load(Ordering::Relaxed)) << 32 | u64::from(self.low.load(Ordering::Relaxed))
    }

    /// Replaces the value by the result of `change`. Returns the previous value, as an error if
    /// `change` returns none.
    fn update(&self, change: impl FnOnce(u64) -> Option<u64>) -> Result<u64, u64> {
        let version = self.lock();
        let value = self.words();
        let Some(new) = change(value) else {
            // The words are unchanged, so the version is, too: reads meanwhile stay valid.
            self.version.store(version, Ordering::Release);
            return Err(value);
        };
        // A reader of a word of the new value sees an odd version, or a later one.
        fence(Ordering::Release);
        self.low.store(new as u32, Ordering::Relaxed);
        self.high.store((new >> 32) as u32, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
        Ok(value)
    }

    /// Makes the version odd; returns the previous even one.
    fn lock(&self) -> u32 {
        loop {
            let version = self.version.load(Ordering::Relaxed) & !1;
            let odd = version.wrapping_add(1);
            // Acquire pairs with the Release at the end of `update`: the words read next are those
            // of the last write.
            let locked =
                self.version.compare_exchange_weak(version, odd, Ordering::Acquire, Ordering::Relaxed);
            match locked {
                Ok(_) => return version,
                Err(_) => spin_loop(),
            }
        }
    }
}

impl Default for AtomicU64 {
    fn default() -> Self {
        AtomicU64::new(0)
    }
}

impl core::fmt::Debug for AtomicU64 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.load(Ordering::Relaxed).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use Ordering::Relaxed;
    use core::sync::atomic::AtomicU64 as Native;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn wide_operations_match_native_atomics(
            first: u64, operations in prop::collection::vec((0u8..5, any::<u64>()), 0..20),
        ) {
            let (ours, native) = (AtomicU64::new(first), Native::new(first));
            for (operation, n) in operations {
                // Half of all exchanges succeed.
                let expected = if n % 2 == 0 { native.load(Relaxed) } else { n };
                let (a, b) = match operation {
                    0 => (Ok(ours.fetch_add(n, Relaxed)), Ok(native.fetch_add(n, Relaxed))),
                    1 => (Ok(ours.fetch_sub(n, Relaxed)), Ok(native.fetch_sub(n, Relaxed))),
                    2 => (
                        ours.compare_exchange_weak(expected, !n, Relaxed, Relaxed),
                        native.compare_exchange(expected, !n, Relaxed, Relaxed),
                    ),
                    3 => {
                        ours.store(n, Relaxed);
                        native.store(n, Relaxed);
                        (Ok(n), Ok(n))
                    }
                    _ => (Ok(ours.load(Relaxed)), Ok(native.load(Relaxed))),
                };
                prop_assert_eq!(a, b);
                prop_assert_eq!(ours.load(Relaxed), native.load(Relaxed));
            }
        }
    }

    #[test]
    fn wide_values_are_never_lost_or_torn() {
        const EACH: u64 = 20_000;
        // Adds to both words alike, so that a torn value has words that differ.
        const STEP: u64 = 1 << 32 | 1;
        let value = AtomicU64::default();
        std::thread::scope(|threads| {
            let writers = [(); 3].map(|()| {
                threads.spawn(|| {
                    for _ in 0..EACH {
                        value.fetch_add(STEP, Relaxed);
                        let now = value.load(Relaxed);
                        assert_eq!(now >> 32, now & u64::from(u32::MAX));
                    }
                })
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
        assert_eq!(value.load(Relaxed), 3 * EACH * STEP);
    }
}

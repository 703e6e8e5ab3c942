//! The atomics of the tables. Except in tests, no other module of this crate uses those of the
//! standard library. So only this module depends on the processor: without 64-bit atomics, they are
//! built from two words (`wide`). Under `loom`, which explores every order of events, they are
//! those of `loom`, except for those in [`plain`].

#[cfg(not(loom))]
pub(crate) use core::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::hint::spin_loop;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub(crate) use plain::AtomicU64;

/// Atomics whose orders `loom` need not explore: independent numbers, and numbers that are
/// protected by locks or versions that `loom` explores.
pub(crate) mod plain {
    #[cfg(target_has_atomic = "64")]
    pub(crate) use core::sync::atomic::AtomicU64;
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

    #[cfg(not(target_has_atomic = "64"))]
    pub(crate) use super::wide::AtomicU64;
}

#[cfg(any(test, not(target_has_atomic = "64")))]
mod wide;

//! The atomics of the tables. No other module of this crate names the standard library's, so that a
//! home's processor is asked about in one place: one without 64-bit atomics has them of two words
//! (`wide`). Where a test tries out every order of events they are those of `loom`; what stands in
//! [`plain`] it takes as it is.

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

/// Numbers that stand alone, and those behind locks or versions that `loom` does see: it would try
/// out their orders for nothing.
pub(crate) mod plain {
    #[cfg(target_has_atomic = "64")]
    pub(crate) use core::sync::atomic::AtomicU64;
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

    #[cfg(not(target_has_atomic = "64"))]
    pub(crate) use super::wide::AtomicU64;
}

#[cfg(any(test, not(target_has_atomic = "64")))]
mod wide;

//! The atomics of this crate, in the one place that asks the processor for them.

pub(crate) use core::sync::atomic::{AtomicUsize, Ordering};

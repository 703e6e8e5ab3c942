//! The atomics of this crate. Only this module selects them.

pub(crate) use core::sync::atomic::{AtomicUsize, Ordering};

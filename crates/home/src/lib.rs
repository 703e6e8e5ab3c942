//! What a program on this system gives the forwarding core, which has neither of its own: a lock ([`CoreLock`]) and an
//! allocator under which large tables have huge pages ([`HugePages`]). It knows nothing of packets.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "an allocator is unsafe to implement; see ARCHITECTURE.md, Invariants")]
mod pages;

pub use pages::{HUGE_PAGE_OCTETS, HugePages};

/// The core's lock. A packet takes some ten of them, each held for a few dozen instructions. This one is let go of by a
/// plain store; one that can put who waits to sleep needs a locked operation for that too. Who finds it taken lets
/// other threads run and looks again.
pub type CoreLock = spin::mutex::SpinMutex<(), spin::Yield>;

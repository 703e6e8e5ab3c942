//! Services of the operating system for the core and the sockets, which have none themselves:
//! clocks ([`clock`]), waking a waiting thread ([`Waker`]), randomness ([`random`]), name lookup
//! ([`lookup`]), users by name ([`users`]) and at the other end of a socket ([`peer`]), memory that
//! is excluded from core dumps ([`keep_from_dumps`]), a lock ([`CoreLock`]), an allocator under
//! which large tables have huge pages ([`HugePages`]), quota accounting by owner ([`shares`]),
//! networks of addresses ([`Subnet`]), the filter for browser requests to a page of this machine
//! ([`web`]), threads that close descriptors of peers ([`closing`], [`rights`]), threads that yield
//! to others ([`yield_on_wakeup`]), and files that must survive a crash ([`disk`]).
//!
//! It never handles a packet, and has no state except the values that a caller makes.
//!
//! ```
//! let waker = namely_host::Waker::new()?;
//! waker.wake(); // from any thread: a thread that polls the descriptor wakes up
//! waker.reset();
//!
//! let seed: [u8; 16] = namely_host::random()?;
//! assert!(seed != [0; 16] && namely_host::clock::unix_ms() > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

pub mod clock;
pub mod closing;
pub mod disk;
mod lookup;
#[allow(unsafe_code, reason = "an allocator is unsafe to implement; see ARCHITECTURE.md, Invariants")]
mod pages;
#[allow(unsafe_code, reason = "a socket option that the library misreads; see ARCHITECTURE.md, Invariants")]
pub mod peer;
mod random;
#[allow(unsafe_code, reason = "a socket option that no library knows; see ARCHITECTURE.md, Invariants")]
pub mod rights;
mod secrets;
pub mod shares;
#[allow(unsafe_code, reason = "a system call that no library knows; see ARCHITECTURE.md, Invariants")]
mod slice;
mod subnet;
pub mod users;
mod waker;
pub mod web;

pub use lookup::lookup;
pub use pages::{HUGE_PAGE_OCTETS, HugePages, give_back_memory, keep_little_memory};
pub use random::random;
pub use secrets::{core_dumps_enabled, keep_from_dumps};
pub use slice::yield_on_wakeup;
pub use subnet::{Subnet, SubnetError};
pub use waker::Waker;

/// The core's lock. The core takes about ten such locks for a packet, and holds each for a few
/// dozen instructions. This lock is released by a plain store. A lock that can put waiting threads
/// to sleep needs a locked operation for the release, too. A thread that finds it taken yields and
/// tries again.
pub type CoreLock = spin::mutex::SpinMutex<(), spin::Yield>;

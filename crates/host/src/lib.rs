//! What a program on this system gives the core and the sockets, which have none of it themselves:
//! clocks ([`clock`]), the end of another thread's wait ([`Waker`]), randomness ([`random`]), name
//! lookup ([`lookup`]), users by name ([`users`]) and at the other end of a socket ([`peer`]),
//! memory that is kept from core dumps ([`keep_from_dumps`]), a lock ([`CoreLock`]), an allocator
//! under which large tables have huge pages ([`HugePages`]), sums of who has how much of what is
//! limited ([`shares`]), networks of addresses ([`Subnet`]), which requests of browsers a page of
//! this machine answers ([`web`]), threads that close what peers sent ([`closing`], [`rights`]),
//! threads that give way to others ([`give_way`]), and files that must outlive a crash ([`disk`]).
//!
//! It never touches a packet, and keeps no state of its own but what a caller makes.
//!
//! ```
//! let waker = namely_host::Waker::new()?;
//! waker.wake(); // from any thread: whoever polls the waker's descriptor wakes up
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
pub use secrets::{core_dumps_are_wanted, keep_from_dumps};
pub use slice::give_way;
pub use subnet::Subnet;
pub use waker::Waker;

/// The core's lock. A packet takes some ten of them, each held for a few dozen instructions. This
/// one is released by a plain store; one that can put who waits to sleep needs a locked operation
/// for that too. Who finds it taken lets other threads run and looks again.
pub type CoreLock = spin::mutex::SpinMutex<(), spin::Yield>;

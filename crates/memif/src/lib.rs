//! memif: packets between two processes of one host through memory that both map, without a system
//! call for each.
//!
//! The protocol is memif 2.0 as libmemif and VPP speak it (FD.io, `memif.h`). One process listens
//! on a Unix socket of type SOCK_SEQPACKET, the *control channel*, and is called the server here
//! (`master` in `memif.h`); the other one, the client (`slave`), connects, makes the memory and
//! passes it over that channel. Then packets go through rings in that memory, an eventfd wakes
//! whoever sleeps, and the end of the control channel is the end of it all.
//!
//! - [`message`]: the messages of the control channel, octet by octet.
//! - [`Handshake`]: from a connected socket to an [`Interface`], either role.
//! - [`Interface`]: a [`Sender`] and a [`Receiver`], each of which one thread may use at a time,
//!   and the [`Link`] that watches the peer.
//!
//! **The peer is not trusted.** What lies in shared memory may change at any time: each index and
//! descriptor is read once and checked, each payload is copied once before anybody looks at it, and
//! memory that the peer could take away (no `F_SEAL_SHRINK`) is refused. A ring that breaks the
//! rules is a [`RingFault`]: the interface is of no more use, and nothing else happens.
//!
//! There is no event loop in here, and nothing waits, except [`Link::wait`].
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "system calls that no library has; see ARCHITECTURE.md, Invariants")]
mod bell;
mod channel;
mod handshake;
mod interface;
mod link;
pub mod message;
mod options;
mod ring;
#[allow(unsafe_code, reason = "maps memory; see ARCHITECTURE.md, Invariants")]
mod shm;

pub use bell::prepare;
pub use handshake::{Fault, Handshake, Progress};
pub use interface::{Arrived, Interface, Pushed, Received, Receiver, Sender};
pub use link::{Kick, Link, Ready};
pub use options::{Budget, Collector, Options, RING_PAIRS_MAX, RING_SIZE_LOG2_MAX};
pub use ring::RingFault;
pub use shm::Region;

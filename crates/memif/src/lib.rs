//! memif: packets between two processes of one host through memory that both map, without a system
//! call per packet.
//!
//! The protocol is memif 2.0 as implemented by libmemif and VPP (FD.io, `memif.h`). One process
//! listens on a Unix socket of type SOCK_SEQPACKET, the *control channel*, and is called the server
//! here (`master` in `memif.h`). The other one, the client (`slave`), connects, makes the memory
//! and passes it over that channel. Packets then pass through rings in that memory, and an eventfd
//! wakes the sleeping end. The interface ends with the control channel.
//!
//! - [`message`]: the messages of the control channel, octet by octet.
//! - [`Handshake`]: from a connected socket to an [`Interface`], either role.
//! - [`Interface`]: a [`Sender`] and a [`Receiver`], each of which one thread may use at a time,
//!   and the [`Link`] that watches the peer.
//!
//! **The peer is not trusted.** Shared memory may change at any time. Each index and descriptor is
//! read once and checked, each payload is copied once before it is read, and memory that the peer
//! could take away (no `F_SEAL_SHRINK`) is refused. A ring that breaks the rules is a
//! [`RingFault`]: the interface is unusable from then on, and nothing else is affected.
//!
//! The crate has no event loop. Only [`Link::wait`] waits.
#![deny(unsafe_code)]

mod channel;
mod handshake;
mod interface;
mod link;
pub mod message;
mod options;
#[allow(unsafe_code, reason = "system calls that no library has; see ARCHITECTURE.md, Invariants")]
mod peer_waker;
mod ring;
#[allow(unsafe_code, reason = "maps memory; see ARCHITECTURE.md, Invariants")]
mod shm;

pub use handshake::{Fault, Handshake, Progress};
pub use interface::{Interface, PushOutcome, Received, ReceivedPacket, Receiver, Sender};
pub use link::{Kick, Link, Ready};
pub use options::{Budget, Collector, Options, RING_PAIRS_MAX, RING_SIZE_LOG2_MAX};
pub use peer_waker::prepare;
pub use ring::RingFault;
pub use shm::Region;

//! Sockets and the event loops that serve them.
//!
//! Each worker is a thread with an [`EventLoop`] of its own. It reads the transports that it has taken up, cuts what
//! arrives into link packets and hands them to its [`Handler`]; what the handler sends goes to the [`Port`] of any
//! transport, whichever worker reads that: the link service's sending half and the frames that wait are behind the
//! port's own lock, and the worker that sent flushes at the end of its turn. Nothing is handed to another thread on the
//! way. While nothing happens and no timer is due, the threads sleep. The first worker listens; a new transport goes
//! to the worker that reads the fewest.
//!
//! Nothing here looks into a packet further than its TYPE and LENGTH: names are for others. Peers cannot make it
//! panic, spin or keep memory without bound; whatever is dropped is counted under a named reason. A turn reads at most
//! so much from one transport ([`IoOptions::read_octets_per_turn`], [`IoOptions::read_datagrams_per_turn`]).
//!
//! # Adding a kind of face
//!
//! There is one folder per kind. It brings (`kind.rs`):
//!
//! - a `Receiver`: the descriptor to watch, and `read`, which delivers frames to the turn it is given until its budget
//!   is spent or nothing is left; whatever it keeps between turns belongs to one worker and needs no lock. Optional:
//!   what to do when connecting ends, when the timer it set is due, and when the transport fails (`take_down`: whether
//!   it comes back by itself);
//! - a `Sender`: `flush` writes a batch from the front of a queue as far as it is taken, and says so (`Flushed`);
//!   any worker calls it, one at a time, and a port is never locked meanwhile. Its descriptor is watched for writing
//!   while it is blocked;
//! - `About`: who is at the other end, what carries the frames, which persistency is possible: all that status shows;
//! - an opening function on [`Transports`] that makes a `NewTransport` of these and adds it, and where peers come by
//!   themselves, an `Acceptor`, which welcomes a `NewTransport` for each.
//!
//! `unix` is the shortest example, `udp` the one with everything.
#![deny(unsafe_code)]

pub mod descriptors;
mod error;
pub mod ethernet;
mod event_loop;
pub mod interfaces;
mod kind;
mod memif;
mod options;
mod port;
mod queue;
mod reconnect;
mod shared;
mod sockets;
mod stream;
mod tcp;
mod transport;
mod transports;
mod turn;
pub mod udp;
mod unix;
pub mod websocket;

pub use error::{CloseReason, OpenError};
pub use event_loop::{EventLoop, Handler, Remote, Unread};
pub use namely_host::Waker;
pub use namely_memif::{RING_PAIRS_MAX as MEMIF_RINGS_MAX, RING_SIZE_LOG2_MAX as MEMIF_RING_SIZE_LOG2_MAX};
pub use options::{
    DispatchedLinks, EthernetOptions, IoOptions, MemifOptions, MulticastOptions, Persistency, TcpOptions,
    UdpOptions, Xdp,
};
pub use port::{Port, SendError, TransportState};
pub use shared::WORKERS_MAX;
pub use transport::{Carrier, Credentials, Reach, TransportCounters, TransportId, TransportStatus};
pub use transports::{Event, Transports};

//! Faces: sockets, the link services of NDNLPv2 upon them, and the event loops that serve both.
//!
//! Each worker is a thread with an [`EventLoop`] of its own. It reads the faces that it has
//! adopted, cuts what arrives into link packets, runs these through the receiving half of the
//! face's link service, and hands network packets with their headers to its [`Handler`]. What the
//! handler sends goes to the [`FacePort`] of any face, whichever worker reads that: the link
//! service's sending half and the frames that wait are behind the port's own lock, and the worker
//! that sent flushes at the end of its turn. Nothing is handed to another thread on the way. While
//! nothing happens and no timer is due, the threads sleep. A new face goes to the worker that reads
//! the fewest ([`Workers::choose`]); all that other threads want of a worker goes to its one
//! mailbox.
//!
//! Nothing here looks into a network packet further than its first TYPE: names are for others. A
//! face is known outside by the tag that it is given ([`FacePort::set_tag`]). Peers cannot make
//! this crate panic, spin or keep memory without bound; whatever is dropped is counted under a
//! named reason. A turn reads at most so much from one face
//! ([`IoOptions::read_octets_per_turn`], [`IoOptions::read_datagrams_per_turn`]).
//!
//! # Adding a kind of face
//!
//! There is one folder per kind. It brings (`kind.rs`, `sender.rs`):
//!
//! - a `Receiver`: the descriptor to watch, and `read`, which delivers frames to the turn it is
//!   given until its budget is spent or nothing is left; whatever it keeps between turns belongs to
//!   one worker and needs no lock. Optional: what to do when connecting ends, when the timer it set
//!   is due, and when the face fails (`take_down`: whether it comes back by itself);
//! - a `Sender`: `flush` writes a batch from the front of a queue as far as it is taken, and says
//!   how far (`Flushed`); any worker calls it, one at a time, and a port is never locked meanwhile.
//!   Its descriptor is watched for writing while it is blocked;
//! - `LinkInfo`: who is at the other end, what carries the frames, which persistency is possible:
//!   all that status shows;
//! - an opening function on [`Faces`] that makes a `NewTransport` of these and adds it, and where
//!   peers come by themselves, an `Acceptor`, which adopts a `NewTransport` for each.
//!
//! `unix` is the shortest example, `udp` the one with everything.
//!
//! # Layers
//!
//! `port` (sending) and `reassembly` (receiving) know no worker; `mailbox`, `mapped` and `shared`
//! know ports; `faces` and `kind` need each other, since a worker holds receivers and these are
//! given the worker; the kinds, `serve` and `event_loop` stand on them. A test of the workspace
//! keeps circles out (`crates/cli/tests/rules/structure`).
#![deny(unsafe_code)]

mod buffer;
pub mod descriptors;
mod drops;
mod error;
pub mod ethernet;
mod event_loop;
mod face_table;
mod faces;
mod handshakes;
mod id;
pub mod interfaces;
mod kind;
mod limits;
mod mailbox;
mod mapped;
mod memif;
mod options;
mod owner;
mod packets;
mod port;
mod queue;
mod reassembly;
mod reconnect;
mod sender;
mod serve;
mod shared;
mod sockets;
mod status;
mod stream;
mod tcp;
mod turns;
pub mod udp;
mod unix;
mod unproven;
mod waiting;
#[cfg(feature = "websocket")]
pub mod websocket;

pub use buffer::Buffer;
pub use drops::DropCounters;
pub use error::{CloseReason, OpenError};
pub use event_loop::{EventLoop, Workers};
pub use face_table::{FACES_RESERVE, FACES_ROOT_EXTRA};
pub use faces::{Event, Faces, Handler};
pub use handshakes::{
    HANDSHAKE_NS_MAX, HANDSHAKES_LOCAL_RESERVE, HANDSHAKES_MAX, HANDSHAKES_PER_HOLDER_MAX,
    HANDSHAKES_RESERVE, HANDSHAKES_ROOT_EXTRA,
};
pub use namely_host::Waker;
pub use namely_host::shares::Holder;
pub use namely_memif::{RING_PAIRS_MAX as MEMIF_RINGS_MAX, RING_SIZE_LOG2_MAX as MEMIF_RING_SIZE_LOG2_MAX};
pub use options::{
    DispatchedLinks, EthernetOptions, FaceShares, IoOptions, MemifOptions, MulticastOptions, TcpOptions,
    UdpOptions, UnprovenLimits, Xdp,
};
pub use owner::OwnerError;
pub use packets::PacketSocket;
pub use port::{FacePort, SendError};
pub use shared::WORKERS_MAX;
pub use status::{Carrier, Credentials, FaceState, FaceTag, PortCounters, PortStatus, Reach};
pub use unproven::UNPROVEN_BURST_NS;

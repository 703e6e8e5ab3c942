//! Faces: sockets, the link services of NDNLPv2 upon them, and the event loops that serve both.
//!
//! Each worker is a thread with its own [`EventLoop`]. It reads the faces that it has adopted and
//! splits the received octets into link packets. These pass the receiving half of the face's link
//! service, which yields network packets with headers for the worker's [`Handler`]. The handler
//! sends on the [`FaceSender`] of any face, whichever worker reads it. A lock of the port protects
//! the link service's sending half and the waiting frames, and the worker that sent flushes at the
//! end of its turn. No packet is handed to another thread, except a frame that a listener receives
//! for a face of another worker. The threads sleep until a socket is ready or a timer is due. A new
//! face is assigned to the worker that reads the fewest ([`Workers::choose`]). All requests of
//! other threads to a worker arrive in its one mailbox.
//!
//! This crate reads only the first TYPE of a network packet, and other crates read its name. They
//! identify a face by its tag ([`FaceSender::set_tag`]). Peers cannot make this crate panic, spin
//! or use memory without bound, and each drop is counted under a named reason. A turn
//! reads a bounded amount from one face ([`IoOptions::read_octets_per_turn`],
//! [`IoOptions::read_datagrams_per_turn`]).
//!
//! # Adding a kind of face
//!
//! There is one folder per kind. It implements the traits of `kind.rs` and `sender.rs`:
//!
//! - a `Receiver`: the descriptor to watch, and `read`, which delivers frames to its context until
//!   the budget is spent or no frame is left. Its state belongs to one worker and needs no lock.
//!   The methods for the end of an attempt to connect, for a due timer, and for a failure of the
//!   face are optional. The last one, `take_down`, returns whether the face reconnects by itself;
//! - a `Sender`: `flush` writes a batch from the front of a queue as far as the socket accepts it,
//!   and returns its progress (`FlushProgress`). Any worker may call it, one at a time, and the
//!   port is not locked during the call. Its descriptor is watched for writing while it is blocked;
//! - `LinkInfo`: the peer, the carrier of the frames, the possible persistencies, and the other
//!   properties that the status lists;
//! - an opening function on [`Faces`], which makes a `NewTransport` of these and adds it;
//! - an `Acceptor` if peers can connect. It adopts a `NewTransport` for each peer.
//!
//! `unix` is the shortest example, and `udp` the most complete one.
//!
//! # Layers
//!
//! `port` (sending) and `reassembly` (receiving) do not depend on workers; `mailbox`, `mapped` and
//! `shared` depend on ports. `faces` and `kind` depend on each other, because a worker owns
//! receivers and passes itself to them. The kinds, `serve` and `event_loop` depend on both. A test
//! of the workspace rejects cycles (`crates/cli/tests/rules/structure`).
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
pub mod labels;
mod limits;
mod mailbox;
mod mapped;
mod memif;
mod options;
mod owner;
mod packets;
mod port;
mod program;
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
pub use namely_host::shares::Owner;
pub use namely_memif::{RING_PAIRS_MAX as MEMIF_RINGS_MAX, RING_SIZE_LOG2_MAX as MEMIF_RING_SIZE_LOG2_MAX};
pub use options::{
    DispatchedLinks, EthernetOptions, FaceShares, IoOptions, MemifOptions, MulticastOptions, TcpOptions,
    UdpOptions, UnprovenLimits, Xdp,
};
pub use owner::OwnerError;
pub use packets::PacketSocket;
pub use port::{FaceSender, SendError};
pub use program::ProgramName;
pub use shared::WORKERS_MAX;
pub use status::{
    Carrier, Credentials, FaceCounters, FaceSnapshot, FaceState, FaceTag, RemoteKind, Unanswered,
};
pub use unproven::UNPROVEN_BURST_NS;

//! The data plane: one thread that owns sockets, link state and frame queues, and moves packets between
//! them and the forwarder.
//!
//! The control thread asks for changes through a handle and hears of packets for management and of face
//! events through a receiver. The data plane never interprets a name and never answers management itself.

mod face;

pub use face::{
    CreateFaceError, FaceCounters, FaceEvent, FaceEventKind, FaceOptions, FaceSpec, FaceState, FaceStatus,
    FaceUpdate, ListenError, ListenSpec, MulticastSpec, PeerCredentials, Persistency, UpdateFaceError,
};

/// Number of a face, as management shows it: 1..=255 are reserved, sockets' faces start at 256.
pub type FaceId = u64;

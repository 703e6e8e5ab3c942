//! Sockets and the event loop that serves them.
//!
//! An [`EventLoop`] runs on one thread and owns its [`Transports`]: listeners, and the sockets of faces. It cuts what
//! arrives into link packets and hands them to a [`Handler`]; what the handler sends is queued per transport, within
//! limits, and leaves in one vectored write per transport and turn. While nothing happens and no timer is due, the
//! thread sleeps.
//!
//! There is one folder per kind of face. Nothing here looks into a packet further than its TYPE and LENGTH: names are
//! for others. Peers cannot make it panic, spin or keep memory without bound; whatever is dropped is counted under a
//! named reason.
#![deny(unsafe_code)]

pub mod clock;
pub mod descriptors;
mod error;
mod event_loop;
pub mod interfaces;
mod mmsg;
mod options;
mod queue;
mod sockets;
mod stream;
mod tcp;
mod transport;
mod transports;
pub mod udp;
mod unix;
mod waker;

pub use error::{CloseReason, OpenError};
pub use event_loop::{EventLoop, Handler, Remote};
pub use options::{IoOptions, MulticastOptions, Persistency, TcpOptions, UdpOptions};
pub use transport::{Credentials, TransportCounters, TransportId, TransportState, TransportStatus};
pub use transports::{Event, SendError, Transports};
pub use waker::Waker;

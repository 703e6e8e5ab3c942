//! UDP: one connected socket per peer, made on demand by the channel that a peer's first datagram reaches, or by the
//! router; and multicast.
//!
//! A datagram is one link packet or nothing: never a part of a stream. One system call reads or writes many of them, and
//! those of one length travel through this machine's kernel as one buffer ([`crate::mmsg`]).

mod channel;
mod datagrams;
mod kernel_drops;
mod multicast;
mod peer;

pub(crate) use channel::{Channel, forget, read_channel};
pub(crate) use datagrams::{Segmentation, flush};
pub use kernel_drops::kernel_drops;
pub(crate) use multicast::read_multicast;
pub(crate) use peer::{on_timer, read};

use std::net::SocketAddr;

use namely_wire::face_uri::{Endpoint, FaceUri};

/// Datagrams read from one socket per turn; those that the last system call brings beyond it are handled too.
const DATAGRAMS_PER_TURN_MAX: usize = 64;

fn uri(address: SocketAddr) -> FaceUri {
    FaceUri::Udp(Endpoint::Address(address))
}

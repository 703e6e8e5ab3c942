//! UDP: one connected socket per peer, and multicast. The channel that receives a peer's first
//! datagram makes the socket on demand, or the router makes it.
//!
//! A datagram is one link packet or nothing, never a part of a stream. One system call reads or
//! writes many datagrams, and consecutive datagrams of one length pass through this machine's
//! kernel as one buffer (`mmsg`).

mod channel;
mod datagrams;
mod identity;
mod kernel_drops;
mod multicast;
mod peer;
pub(crate) mod peers;

pub use kernel_drops::kernel_drops;
pub use multicast::address_towards;
pub use peer::send_beside;

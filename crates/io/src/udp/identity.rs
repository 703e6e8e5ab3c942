//! The identity of a UDP socket: its FaceUri, and its inode.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use namely_wire::{Endpoint, FaceUri};

/// The FaceUri of an address.
pub(super) fn uri(address: SocketAddr) -> FaceUri {
    FaceUri::Udp(Endpoint::Address(address))
}

/// The inode of a socket, the key of the kernel's drops.
pub(super) fn inode(socket: &OwnedFd) -> Option<u64> {
    rustix::fs::fstat(socket).ok().map(|stat| stat.st_ino)
}

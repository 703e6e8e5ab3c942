//! By what a UDP socket is known: its FaceUri, and its inode.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use namely_wire::{Endpoint, FaceUri};

/// The FaceUri of an address.
pub(super) fn uri(address: SocketAddr) -> FaceUri {
    FaceUri::Udp(Endpoint::Address(address))
}

/// The inode of a socket, by which the kernel's drops are found.
pub(super) fn inode(socket: &OwnedFd) -> Option<u64> {
    rustix::fs::fstat(socket).ok().map(|stat| stat.st_ino)
}

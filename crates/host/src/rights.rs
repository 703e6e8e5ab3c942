//! The refusal of descriptors that peers of a Unix socket send over it (`SCM_RIGHTS`). Kernels from
//! 6.16 on can refuse them. Otherwise the reader of such a socket has to close the received
//! descriptors ([`crate::closing`]).
//!
//! The one invariant: setsockopt(2) reads an integer of the given length, and keeps no pointer.

use std::os::fd::{AsFd, AsRawFd};

/// `SO_PASSRIGHTS` of `asm-generic/socket.h`; Linux has it since 6.16.
const PASS_RIGHTS: libc::c_int = 83;

/// Makes the kernel refuse descriptors that are sent over this socket, or over a connection that it
/// accepts. Returns false if the kernel cannot.
pub fn refuse(socket: impl AsFd) -> bool {
    set(socket, 0)
}

/// Makes the kernel accept descriptors again.
pub fn accept(socket: impl AsFd) -> bool {
    set(socket, 1)
}

fn set(socket: impl AsFd, value: libc::c_int) -> bool {
    // SAFETY: the value is a live integer of the length given; the descriptor is borrowed, hence
    // open.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            PASS_RIGHTS,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    done == 0
}

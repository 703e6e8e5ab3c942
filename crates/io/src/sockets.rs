//! System calls that several kinds of faces use.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt};
use socket2::SockRef;

use crate::error::OpenError;
use crate::id::SourceId;

/// Opens a non-blocking socket that child processes do not inherit.
pub(crate) fn open(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, OpenError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, None).map_err(OpenError::system("opening a socket"))
}

pub(crate) fn family_of(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Sets the sizes of the kernel's buffers, beyond the system's limit if this process is permitted
/// to. A smaller buffer is not an error.
pub(crate) fn set_buffers(socket: impl AsFd, send_octets: usize, receive_octets: usize) {
    let socket = socket.as_fd();
    // SO_SNDBUFFORCE needs CAP_NET_ADMIN. Without it the system's limit applies (socket(7)).
    if sockopt::set_socket_send_buffer_size_force(socket, send_octets).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(socket, send_octets);
    }
    if sockopt::set_socket_recv_buffer_size_force(socket, receive_octets).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, receive_octets);
    }
}

/// Lets the kernel poll the socket's device for `us` before it waits. A failure is ignored: the
/// device may not support polling, the socket may have no device, or this process no permission.
pub(crate) fn busy_poll(socket: BorrowedFd<'_>, us: u32) {
    if us > 0 {
        let _ = SockRef::from(&socket).set_busy_poll(us);
    }
}

pub(crate) fn local_address(socket: impl AsFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(rustix::net::getsockname(socket)?)
}

/// Writes as much as the socket accepts now.
pub(crate) fn write(socket: impl AsFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    // A write to a closed connection must not end this process by SIGPIPE.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags)
}

/// The readiness for which the loop waits on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    Both,
    /// Only failures.
    Nothing,
    /// Only failures, and only once, so that a source that is not served does not wake the loop
    /// repeatedly.
    Rest,
    /// Writability and failures, once for either.
    WriteOnce,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Both => EventFlags::IN | EventFlags::OUT,
            // Failures and hang-ups are reported in any case (epoll_ctl(2)).
            Interest::Nothing => EventFlags::empty(),
            Interest::Rest => EventFlags::ONESHOT,
            Interest::WriteOnce => EventFlags::OUT | EventFlags::ONESHOT,
        }
    }
}

pub(crate) fn watch(
    epoll: impl AsFd,
    socket: impl AsFd,
    id: SourceId,
    interest: Interest,
) -> Result<(), OpenError> {
    epoll::add(epoll, socket, EventData::new_u64(id.0), interest.flags())
        .map_err(OpenError::system("watching a socket"))
}

/// Changes the readiness for which the loop waits. The socket must be watched already. A failure is
/// ignored.
pub(crate) fn rewatch(epoll: impl AsFd, socket: impl AsFd, id: SourceId, interest: Interest) {
    let _ = epoll::modify(epoll, socket, EventData::new_u64(id.0), interest.flags());
}

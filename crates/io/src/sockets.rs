//! System calls that several kinds of sockets share.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt};
use socket2::SockRef;

use crate::error::OpenError;
use crate::id::SourceId;

/// A new socket that neither blocks nor is inherited.
pub(crate) fn open(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, OpenError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, kind, flags, None).map_err(OpenError::system("opening a socket"))
}

pub(crate) fn family_of(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Sets the sizes of the kernel's buffers, past the system's limit if this process may. A smaller
/// buffer than asked for is no error.
pub(crate) fn set_buffers(socket: impl AsFd, send_octets: usize, receive_octets: usize) {
    let socket = socket.as_fd();
    if sockopt::set_socket_send_buffer_size_force(socket, send_octets).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(socket, send_octets);
    }
    if sockopt::set_socket_recv_buffer_size_force(socket, receive_octets).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, receive_octets);
    }
}

/// Has the kernel look at the socket's device for some time before it waits. Devices that cannot be
/// looked at, sockets that have none, and processes that may not ask for it do without.
pub(crate) fn busy_poll(socket: BorrowedFd<'_>, us: u32) {
    if us > 0 {
        let _ = SockRef::from(&socket).set_busy_poll(us);
    }
}

pub(crate) fn local_address(socket: impl AsFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(rustix::net::getsockname(socket)?)
}

/// Writes as much as the socket takes now.
pub(crate) fn write(socket: impl AsFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags)
}

/// What the loop waits for on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    Both,
    /// Failures only.
    Nothing,
    /// A failure once: who rests is not to be told of it again and again.
    Rest,
    /// The same, and once that more is taken.
    WriteOnce,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Both => EventFlags::IN | EventFlags::OUT,
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

/// Changes what the loop waits for. The socket is watched already, so that this only fails when it
/// is closed, which shows elsewhere.
pub(crate) fn rewatch(epoll: impl AsFd, socket: impl AsFd, id: SourceId, interest: Interest) {
    let _ = epoll::modify(epoll, socket, EventData::new_u64(id.0), interest.flags());
}

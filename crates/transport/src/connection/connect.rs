//! Making what carries packets to a router: connected, non-blocking, with large buffers.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use namely_memif::Options;
use namely_wire::{Endpoint, FaceUri};
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use super::carrier::Carrier;
use super::kernel::{self, KernelLink};
use super::peer;
use super::stream::Stream;
use super::udp::UdpLink;
use super::{ethernet, memory, ndndpdk};

/// How long one TCP address may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Socket buffers asked for, in octets; the kernel grants what its limits allow. A burst of a whole
/// window must fit, or datagrams are lost before they are read.
const SOCKET_BUFFER_OCTETS: usize = 4 << 20;

/// What leads to a router.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) carrier: Box<dyn Carrier>,
    /// Whether the router is on this host and sees this face as local, so that `/localhost` may
    /// cross it.
    pub(super) local: bool,
}

/// Connects to `uri`, which is of scheme `unix`, `memif`, `tcp`, `udp`, `kernel` or
/// `ndndpdk`, or names a station.
/// `trusted`: [`Options::trust_router_of`](super::Options::trust_router_of).
pub(super) fn connect(uri: &FaceUri, trusted: &str) -> io::Result<Connected> {
    match uri {
        FaceUri::Unix(path) => stream(peer::connect(path, SocketType::STREAM, trusted)?, true),
        FaceUri::Memif { path, id } => {
            let socket = peer::connect(path, SocketType::SEQPACKET, trusted)?;
            let options = Options { id: *id, trusts_server: true, ..Options::default() };
            Ok(Connected { carrier: Box::new(memory::connect(socket, options)?), local: true })
        }
        FaceUri::Station { address, device } => {
            Ok(Connected { carrier: Box::new(ethernet::connect(*address, device)?), local: false })
        }
        FaceUri::Tcp(endpoint) => connect_first(endpoint, |address| {
            let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
            socket.set_nodelay(true)?;
            stream(socket.into(), address.ip().is_loopback())
        }),
        FaceUri::Udp(endpoint) => connect_first(endpoint, |address| {
            let any = match address.ip() {
                IpAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
                IpAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            prepare(&socket)?;
            // Routers take UDP faces as non-local, even from this host.
            Ok(Connected { carrier: Box::new(UdpLink::new(socket.into())), local: false })
        }),
        FaceUri::Kernel => {
            let socket = kernel::open()?;
            prepare(&socket)?;
            Ok(Connected { carrier: Box::new(KernelLink::new(socket)), local: true })
        }
        // Nobody there takes commands of the NFD management protocol.
        FaceUri::NdnDpdk { server, sockets } => {
            let attached = ndndpdk::attach(server, sockets.as_deref(), trusted)?;
            Ok(Connected { carrier: Box::new(attached), local: false })
        }
        _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

/// A stream that is already connected, such as one end of a socket pair.
pub(super) fn stream(socket: OwnedFd, local: bool) -> io::Result<Connected> {
    prepare(&socket)?;
    Ok(Connected { carrier: Box::new(Stream::new(socket)), local })
}

fn prepare(socket: impl AsFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    enlarge(sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER_OCTETS), || {
        sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_OCTETS)
    });
    enlarge(sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER_OCTETS), || {
        sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_OCTETS)
    });
    Ok(())
}

/// Past the system's limit where that is permitted, else up to it. Smaller buffers are no reason to
/// fail.
fn enlarge(forced: Result<(), Errno>, within_limit: impl FnOnce() -> Result<(), Errno>) {
    if forced.is_err()
        && let Err(error) = within_limit()
    {
        tracing::debug!(%error, "socket buffers keep their size");
    }
}

fn connect_first(
    endpoint: &Endpoint,
    connect: impl Fn(SocketAddr) -> io::Result<Connected>,
) -> io::Result<Connected> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in namely_host::lookup(endpoint)? {
        match connect(address) {
            Ok(connected) => return Ok(connected),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

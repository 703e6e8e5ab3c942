//! Creates the transport to a router: connected, non-blocking, with large buffers.

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

/// Maximum time to establish a TCP connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Octets of packets that wait in the socket of a client.
///
/// A burst of a whole window must fit, or datagrams are lost before they are read.
///
/// # Limit
/// A client of the kernel's forwarder loses further packets, which the kernel counts.
/// - Value: 4 MiB with CAP_NET_ADMIN, else `net.core.rmem_max`
/// - Counter: `socket_full` of /proc/net/nnet/stats
/// - Tests: `a_full_receive_buffer_is_counted_and_nothing_waits`
const SOCKET_BUFFER_OCTETS: usize = 4 << 20;

/// A transport to a router.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) carrier: Box<dyn Carrier>,
    /// Whether the router is on this host and treats this face as local, so that `/localhost` may
    /// cross it.
    pub(super) local: bool,
}

/// Connects to `uri`, which is of scheme `unix`, `memif`, `tcp`, `udp`, `kernel` or `ndndpdk`, or
/// is a link address. `trusted`: [`Options::trust_router_of`](super::Options::trust_router_of).
pub(super) fn connect(uri: &FaceUri, trusted: &str) -> io::Result<Transport> {
    match uri {
        FaceUri::Unix(path) => stream(peer::connect(path, SocketType::STREAM, trusted)?, true),
        FaceUri::Memif { path, id } => {
            let socket = peer::connect(path, SocketType::SEQPACKET, trusted)?;
            // `peer::connect` has checked the router's user.
            let options = Options { id: *id, trusts_server: true, ..Options::default() };
            Ok(Transport { carrier: Box::new(memory::connect(socket, options)?), local: true })
        }
        FaceUri::Station { address, device } => {
            Ok(Transport { carrier: Box::new(ethernet::connect(*address, device)?), local: false })
        }
        FaceUri::Tcp(endpoint) => connect_first(endpoint, |address| {
            let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
            // The outbox combines the packets of a round already, so Nagle's algorithm would only
            // add delay.
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
            // Routers treat UDP faces as non-local, even from this host.
            Ok(Transport { carrier: Box::new(UdpLink::new(socket.into())), local: false })
        }),
        FaceUri::Kernel => {
            let socket = kernel::open()?;
            prepare(&socket)?;
            Ok(Transport { carrier: Box::new(KernelLink::new(socket)), local: true })
        }
        // NDN-DPDK accepts no commands of the NFD management protocol.
        FaceUri::NdnDpdk { server, sockets } => {
            let attached = ndndpdk::attach(server, sockets.as_deref(), trusted)?;
            Ok(Transport { carrier: Box::new(attached), local: false })
        }
        // Configured addresses are checked when they are parsed, so only a `FaceUri` that the
        // caller constructed gets here.
        _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

/// Uses a stream that is already connected, such as one end of a socket pair.
pub(super) fn stream(socket: OwnedFd, local: bool) -> io::Result<Transport> {
    prepare(&socket)?;
    Ok(Transport { carrier: Box::new(Stream::new(socket)), local })
}

fn prepare(socket: impl AsFd) -> io::Result<()> {
    // Only `Carrier::wait` may block, and it polls.
    rustix::io::ioctl_fionbio(&socket, true)?;
    enlarge(sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER_OCTETS), || {
        sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_OCTETS)
    });
    enlarge(sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER_OCTETS), || {
        sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_OCTETS)
    });
    Ok(())
}

/// Sets a size past the system's limit if that is permitted, otherwise up to it. Smaller buffers
/// are no error.
fn enlarge(forced: Result<(), Errno>, within_limit: impl FnOnce() -> Result<(), Errno>) {
    if forced.is_err()
        && let Err(error) = within_limit()
    {
        tracing::debug!(%error, "socket buffers keep their size");
    }
}

fn connect_first(
    endpoint: &Endpoint,
    connect: impl Fn(SocketAddr) -> io::Result<Transport>,
) -> io::Result<Transport> {
    // The error for a host name without addresses, for which no attempt is made.
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in namely_host::lookup(endpoint)? {
        match connect(address) {
            Ok(connected) => return Ok(connected),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

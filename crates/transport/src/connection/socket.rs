//! One socket to a router: connected, non-blocking, with large buffers.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use namely_datagrams::ethernet::Station;
use namely_memif::Interface;
use namely_wire::LP_PACKET_OCTETS_MAX;
use namely_wire::face_uri::{Endpoint, FaceUri};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::udp::UdpLink;
use super::{Waker, ethernet, memory};

/// How long one TCP address may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Socket buffers asked for, in octets; the kernel grants what its limits allow. A burst of a whole window must
/// fit, or datagrams are lost before they are read.
const SOCKET_BUFFER_OCTETS: usize = 4 << 20;

/// A connected socket, or shared memory.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) carrier: Carrier,
    /// Whether the router is on this host and sees this face as local, so that `/localhost` may cross it.
    pub(super) local: bool,
}

/// What carries packets.
#[derive(Debug)]
pub(super) enum Carrier {
    Stream(OwnedFd),
    Udp(Box<UdpLink>),
    Ethernet(Box<Station>),
    Memory(Box<Interface>),
}

impl Socket {
    /// Connects to `uri`, which is of scheme `unix`, `memif`, `tcp` or `udp`, or names a station.
    pub(super) fn connect(uri: &FaceUri) -> io::Result<Self> {
        let socket = match uri {
            FaceUri::Unix(path) => {
                Socket { carrier: Carrier::Stream(UnixStream::connect(path)?.into()), local: true }
            }
            FaceUri::Memif { path, id } => {
                let carrier = Carrier::Memory(Box::new(memory::connect(path, *id)?));
                return Ok(Socket { carrier, local: true });
            }
            FaceUri::Station { address, device } => {
                let carrier = Carrier::Ethernet(Box::new(ethernet::connect(*address, device)?));
                return Ok(Socket { carrier, local: false });
            }
            FaceUri::Tcp(endpoint) => connect_first(endpoint, |address| {
                let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
                stream.set_nodelay(true)?;
                Ok(Socket { carrier: Carrier::Stream(stream.into()), local: address.ip().is_loopback() })
            })?,
            FaceUri::Udp(endpoint) => connect_first(endpoint, |address| {
                let any = match address.ip() {
                    IpAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
                    IpAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                // Routers take UDP faces as non-local, even from this host.
                Ok(Socket { carrier: Carrier::Udp(Box::new(UdpLink::new(socket.into()))), local: false })
            })?,
            _ => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        };
        socket.prepare()?;
        Ok(socket)
    }

    /// A stream that is already connected: one end of a socket pair.
    pub(super) fn from_stream(stream: UnixStream) -> io::Result<Self> {
        let socket = Socket { carrier: Carrier::Stream(stream.into()), local: true };
        socket.prepare()?;
        Ok(socket)
    }

    /// Lets `waker` end waits that only shared memory's own descriptor knows of.
    pub(super) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        match &self.carrier {
            Carrier::Stream(_) | Carrier::Udp(_) | Carrier::Ethernet(_) => Ok(()),
            Carrier::Memory(interface) => interface.link.watch(waker),
        }
    }

    /// The largest link packet that is carried, octets; none on a stream.
    pub(super) fn frame_octets_max(&self) -> Option<usize> {
        match &self.carrier {
            Carrier::Stream(_) => None,
            Carrier::Udp(link) => Some(link.frame_octets_max()),
            Carrier::Ethernet(station) => Some(ethernet::frame_octets_max(station)),
            Carrier::Memory(_) => Some(LP_PACKET_OCTETS_MAX),
        }
    }

    /// Whether the router may go and come back unseen.
    pub(super) fn is_lossy(&self) -> bool {
        matches!(self.carrier, Carrier::Udp(_) | Carrier::Ethernet(_))
    }

    fn prepare(&self) -> io::Result<()> {
        rustix::io::ioctl_fionbio(self, true)?;
        enlarge(sockopt::set_socket_recv_buffer_size_force(self, SOCKET_BUFFER_OCTETS), || {
            sockopt::set_socket_recv_buffer_size(self, SOCKET_BUFFER_OCTETS)
        });
        enlarge(sockopt::set_socket_send_buffer_size_force(self, SOCKET_BUFFER_OCTETS), || {
            sockopt::set_socket_send_buffer_size(self, SOCKET_BUFFER_OCTETS)
        });
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.carrier {
            Carrier::Stream(fd) => fd.as_fd(),
            Carrier::Udp(link) => link.as_fd(),
            Carrier::Ethernet(station) => station.receiving(),
            Carrier::Memory(interface) => interface.link.as_fd(),
        }
    }
}

/// Past the system's limit where that is permitted, else up to it. Smaller buffers are no reason to fail.
fn enlarge(forced: Result<(), Errno>, within_limit: impl FnOnce() -> Result<(), Errno>) {
    if forced.is_err()
        && let Err(error) = within_limit()
    {
        tracing::debug!(%error, "socket buffers keep their size");
    }
}

fn connect_first(
    endpoint: &Endpoint,
    connect: impl Fn(SocketAddr) -> io::Result<Socket>,
) -> io::Result<Socket> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in namely_host::lookup(endpoint)? {
        match connect(address) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

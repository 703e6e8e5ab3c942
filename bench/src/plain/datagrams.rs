//! Datagram sockets between two relays, over UDP or in Ethernet frames. Each datagram costs one
//! system call, as in programs without batching.
//!
//! A frame has NDN's EtherType, as the routers' frames have. Short frames are padded to Ethernet's
//! minimum, so the payload begins with the length of the datagram. Frames to other addresses are
//! ignored.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use namely_datagrams::ethernet::frame::{HEADER_OCTETS, header, padding};
use namely_datagrams::ethernet::{monitor, ring};
use namely_wire::MacAddress;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use super::endpoint::Endpoint;

/// Octets of the length at the start of a frame's payload.
const LENGTH_OCTETS: usize = 2;

/// The remote end of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The peer to which the socket is connected.
    Connected,
    /// A UDP socket.
    Udp(SocketAddr),
    /// An Ethernet address on the network of the device.
    Station(MacAddress),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Connected => f.write_str("the upstream"),
            Peer::Udp(address) => address.fmt(f),
            Peer::Station(address) => address.fmt(f),
        }
    }
}

/// A socket of datagrams.
#[derive(Debug)]
pub enum Socket {
    /// UDP.
    Udp(UdpSocket),
    /// A packet socket (packet(7), `SOCK_RAW`), and the address of its device.
    Ether(OwnedFd, MacAddress),
}

impl Socket {
    /// Opens a socket that receives datagrams at `endpoint` from any peer.
    pub fn at(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Udp(address) => UdpSocket::bind(address).map(Socket::Udp),
            Endpoint::Ether(device, None) => Self::on(device),
            other => Err(unsupported_endpoint(other)),
        }
    }

    /// Opens a socket for datagrams to and from `endpoint`.
    pub fn to(endpoint: &Endpoint) -> io::Result<(Self, Peer)> {
        match endpoint {
            Endpoint::Udp(address) => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.connect(address)?;
                Ok((Socket::Udp(socket), Peer::Connected))
            }
            Endpoint::Ether(device, Some(station)) => Ok((Self::on(device)?, Peer::Station(*station))),
            other => Err(unsupported_endpoint(other)),
        }
    }

    fn on(name: &str) -> io::Result<Self> {
        let device = monitor::device(name)?.ok_or_else(|| io::Error::other(format!("no device {name}")))?;
        let socket = ring::plain_socket(device.index)?;
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(Socket::Ether(socket, device.address))
    }

    /// Sets the timeout of receiving; `None` for no timeout.
    pub fn wait_at_most(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Udp(socket) => socket.set_read_timeout(limit),
            Socket::Ether(socket, _) => Ok(set_socket_timeout(socket, Timeout::Recv, limit)?),
        }
    }

    /// Returns a buffer that can receive one datagram of `octets` octets.
    pub fn buffer(&self, octets: usize) -> Vec<u8> {
        match self {
            Socket::Udp(_) => vec![0; octets],
            Socket::Ether(..) => vec![0; (HEADER_OCTETS + LENGTH_OCTETS + octets).max(60)],
        }
    }

    /// Sends one datagram.
    pub fn send(&self, octets: &[u8], peer: Peer) -> io::Result<()> {
        match (self, peer) {
            (Socket::Udp(socket), Peer::Connected) => socket.send(octets).map(drop),
            (Socket::Udp(socket), Peer::Udp(address)) => socket.send_to(octets, address).map(drop),
            (Socket::Ether(socket, own), Peer::Station(station)) => {
                let length = u16::try_from(octets.len()).map_err(io::Error::other)?.to_be_bytes();
                let (header, padding) = (header(station, *own), padding(LENGTH_OCTETS + octets.len()));
                let slices = [&header as &[u8], &length, octets, padding].map(IoSlice::new);
                let mut nothing = SendAncillaryBuffer::default();
                Ok(sendmsg(socket, &slices, &mut nothing, SendFlags::empty()).map(drop)?)
            }
            (_, peer) => Err(io::Error::other(format!("{peer} is not of this socket's kind"))),
        }
    }

    /// Receives the next datagram. Returns it with its sender.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<(&'a [u8], Peer)> {
        match self {
            Socket::Udp(socket) => {
                let (n, sender) = socket.recv_from(buffer)?;
                Ok((&buffer[..n], Peer::Udp(sender)))
            }
            Socket::Ether(socket, own) => loop {
                let (n, _) = recv(socket, &mut *buffer, RecvFlags::empty())?;
                if let Some((range, sender)) = payload(&buffer[..n], *own) {
                    return Ok((&buffer[range], Peer::Station(sender)));
                }
            },
        }
    }
}

/// Returns the position of the datagram in a frame, and its sender. `None` if the frame is not
/// addressed to `own` or is truncated.
fn payload(frame: &[u8], own: MacAddress) -> Option<(std::ops::Range<usize>, MacAddress)> {
    let (header, rest) = frame.split_first_chunk::<HEADER_OCTETS>()?;
    let (length, _) = rest.split_first_chunk::<LENGTH_OCTETS>()?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *header;
    let start = HEADER_OCTETS + LENGTH_OCTETS;
    let end = start + usize::from(u16::from_be_bytes(*length));
    let is_ours = [d0, d1, d2, d3, d4, d5] == own.0 && end <= frame.len();
    is_ours.then_some((start..end, MacAddress([s0, s1, s2, s3, s4, s5])))
}

fn unsupported_endpoint(endpoint: &Endpoint) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("no datagrams at {endpoint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    #[test]
    fn frame_padding_is_removed_from_a_datagram() {
        let frame = [&header(OWN, PEER) as &[u8], &[0, 2, 7, 8], padding(4)].concat();
        assert_eq!(frame.len(), 60);
        assert_eq!(payload(&frame, OWN), Some((16..18, PEER)));
    }

    #[test]
    fn foreign_and_truncated_frames_are_ignored() {
        let frame = [&header(OWN, PEER) as &[u8], &[0, 2, 7, 8]].concat();
        assert_eq!(payload(&frame, PEER), None);
        assert_eq!(payload(&frame[..17], OWN), None);
        assert_eq!(payload(&frame[..15], OWN), None);
    }
}

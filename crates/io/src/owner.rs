//! Which user of this machine is at the other end of loopback: the kernel is asked by sock_diag(7),
//! for TCP for the one socket with these two ends, for UDP for all that can send from an address.
//!
//! It tells no user whom it does not know for certain: a socket that was closed or is not accepted
//! yet, or that lies in another network namespace, behind a translation of addresses, has no owner
//! here; an address from which two users can send has none either.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Octets of `nlmsghdr`, `inet_diag_req_v2`, `inet_diag_sockid` and `inet_diag_msg`.
const HEADER_OCTETS: usize = 16;
const REQUEST_OCTETS: usize = 56;
const ENDS_OCTETS: usize = 48;
const ANSWER_OCTETS: usize = 72;

/// `SOCK_DIAG_BY_FAMILY`, with which the kernel answers too.
const BY_FAMILY: u16 = 20;
/// More words of the kernel's.
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_DONE: u16 = 3;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
/// Answers of the kernel that are read for one question: sockets of one UDP port are few.
const ANSWERS_MAX: usize = 64;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;

/// Why nobody can say who owns a connection's other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerError {
    /// Peer: no open socket of this network namespace is the other end.
    NotHere,
    /// Peer: sockets of more than one user can send from its address.
    NotOne,
    /// Environment: the kernel does not tell.
    System(Errno),
}

impl fmt::Display for OwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnerError::NotHere => f.write_str(
                "no open socket of this network namespace is its other end: it was closed, or the port is forwarded",
            ),
            OwnerError::NotOne => f.write_str("sockets of more than one user can send from its address"),
            OwnerError::System(errno) => {
                write!(f, "the kernel does not tell: {}", std::io::Error::from_raw_os_error(errno.raw_os_error()))
            }
        }
    }
}

impl std::error::Error for OwnerError {}

/// The uid that owns the socket at `peer` which is connected to `local`. One system call to ask
/// and one for the answer, which is there then.
///
/// # Errors
/// [`OwnerError`].
pub(crate) fn owner(peer: SocketAddr, local: SocketAddr) -> Result<u32, OwnerError> {
    let ends = ends(peer, local).ok_or(OwnerError::NotHere)?;
    let answer = ask(&request(peer, &ends)).map_err(OwnerError::System)?;
    parse(&answer, &ends)
}

/// The uid of all sockets that can send datagrams from `peer`. A datagram does not tell which of
/// them sent it, so they have to be one user's.
///
/// # Errors
/// [`OwnerError`].
pub(crate) fn datagram_owner(peer: SocketAddr) -> Result<u32, OwnerError> {
    let mut owner = None;
    // A socket for IPv6 may send from an address of IPv4 too.
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let answers = ask_for_all(&datagram_request(peer, family)).map_err(OwnerError::System)?;
        for message in answers.iter().flat_map(|answer| messages(answer)) {
            let Some((uid, address)) = datagram_socket(message) else { continue };
            let is_it = address.is_unspecified() || address.to_canonical() == peer.ip().to_canonical();
            if is_it && *owner.get_or_insert(uid) != uid {
                return Err(OwnerError::NotOne);
            }
        }
    }
    owner.ok_or(OwnerError::NotHere)
}

/// A request for all UDP sockets of one family with the port of `peer`.
fn datagram_request(peer: SocketAddr, family: AddressFamily) -> Vec<u8> {
    let mut ends = [0; ENDS_OCTETS];
    ends[..2].copy_from_slice(&peer.port().to_be_bytes());
    let mut octets = request(peer, &ends);
    octets[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    octets[HEADER_OCTETS] = family.as_raw() as u8;
    octets[HEADER_OCTETS + 1] = IPPROTO_UDP;
    octets
}

/// Sends a request, and takes all answers.
fn ask_for_all(request: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    let socket = send(request)?;
    let mut answers = Vec::new();
    while answers.len() < ANSWERS_MAX {
        let answer = receive(&socket)?;
        let kind = |message: &[u8]| u16::from_ne_bytes([message[4], message[5]]);
        let end = messages(&answer).map(kind).find(|kind| matches!(*kind, NLMSG_DONE | NLMSG_ERROR));
        answers.push(answer);
        match end {
            Some(NLMSG_DONE) => return Ok(answers),
            Some(_) => return Err(Errno::OPNOTSUPP),
            None => {}
        }
    }
    Err(Errno::TOOBIG)
}

/// The messages of an answer, each with its header.
fn messages(mut answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let octets = u32::from_ne_bytes(*answer.first_chunk()?) as usize;
        let message = answer.get(..octets).filter(|message| message.len() >= HEADER_OCTETS)?;
        answer = answer.get(octets.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Owner and local address of an open socket, as `inet_diag_msg` tells them.
fn datagram_socket(message: &[u8]) -> Option<(u32, IpAddr)> {
    let told = message.get(HEADER_OCTETS..HEADER_OCTETS + ANSWER_OCTETS)?;
    let address = match told[0] {
        family if family == AddressFamily::INET.as_raw() as u8 => {
            IpAddr::from(*told[8..].first_chunk::<4>()?)
        }
        _ => IpAddr::from(*told[8..].first_chunk::<16>()?),
    };
    let uid = u32::from_ne_bytes(*told[64..].first_chunk()?);
    let inode = u32::from_ne_bytes(*told[68..].first_chunk()?);
    (inode != 0).then_some((uid, address))
}

fn ask(request: &[u8]) -> Result<Vec<u8>, Errno> {
    receive(&send(request)?)
}

fn send(request: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = AddressFamily::NETLINK;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    rustix::net::sendto(&socket, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

fn receive(socket: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut answer = vec![0; 32 << 10];
    // The kernel has answered by the time that the request is sent, and goes on as it is read.
    let (octets, _) = rustix::net::recv(socket, &mut *answer, RecvFlags::DONTWAIT)?;
    answer.truncate(octets);
    Ok(answer)
}

/// `inet_diag_sockid` of the socket at `peer`; none if the ends are of two IP versions.
fn ends(peer: SocketAddr, local: SocketAddr) -> Option<[u8; ENDS_OCTETS]> {
    let mut octets = [0; ENDS_OCTETS];
    octets[..2].copy_from_slice(&peer.port().to_be_bytes());
    octets[2..4].copy_from_slice(&local.port().to_be_bytes());
    for (at, address, other) in [(4, peer, local), (20, local, peer)] {
        match address.ip() {
            IpAddr::V4(address) => octets[at..at + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => octets[at..at + 16].copy_from_slice(&address.octets()),
        }
        if address.is_ipv4() != other.is_ipv4() {
            return None;
        }
    }
    // `INET_DIAG_NOCOOKIE`: whichever socket it is.
    octets[40..].fill(0xff);
    Some(octets)
}

fn request(peer: SocketAddr, ends: &[u8; ENDS_OCTETS]) -> Vec<u8> {
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut octets = Vec::with_capacity(HEADER_OCTETS + REQUEST_OCTETS);
    octets.extend_from_slice(&((HEADER_OCTETS + REQUEST_OCTETS) as u32).to_ne_bytes());
    octets.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    octets.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    octets.resize(HEADER_OCTETS, 0);
    octets.extend_from_slice(&[family.as_raw() as u8, IPPROTO_TCP, 0, 0]);
    octets.extend_from_slice(&u32::MAX.to_ne_bytes());
    octets.extend_from_slice(ends);
    octets
}

/// Reads `inet_diag_msg`, or an error.
fn parse(answer: &[u8], ends: &[u8; ENDS_OCTETS]) -> Result<u32, OwnerError> {
    let malformed = OwnerError::System(Errno::BADMSG);
    let u16_at = |at: usize| -> Option<u16> { Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?)) };
    let u32_at = |at: usize| -> Option<u32> { Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?)) };
    let kind = u16_at(4).ok_or(malformed)?;
    if kind == NLMSG_ERROR {
        let errno = u32_at(HEADER_OCTETS).ok_or(malformed)?.wrapping_neg();
        return Err(match Errno::from_raw_os_error(errno as i32) {
            Errno::NOENT => OwnerError::NotHere,
            errno => OwnerError::System(errno),
        });
    }
    let message = answer.get(HEADER_OCTETS..HEADER_OCTETS + ANSWER_OCTETS).filter(|_| kind == BY_FAMILY);
    let message = message.ok_or(malformed)?;
    let (uid, inode) = (u32_at(HEADER_OCTETS + 64).ok_or(malformed)?, u32_at(HEADER_OCTETS + 68));
    // Where no connection has these ends the kernel shows who listens at `peer`. A socket without
    // inode was closed, or nobody has accepted it: its uid says nothing.
    let is_same = message[4..40] == ends[..36];
    if is_same && message[1] == ESTABLISHED && inode.is_some_and(|inode| inode != 0) {
        Ok(uid)
    } else {
        Err(OwnerError::NotHere)
    }
}

#[cfg(test)]
mod tests {
    use namely_skip::{Need, skip};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn both_ends_of_a_connection_are_known_by_their_owner_and_closed_ones_are_not() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                skip(Need::Kernel, format_args!("no {address} here"));
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (peer, local) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            assert_eq!(owner(peer, local), Ok(own_uid()));
            assert_eq!(owner(local, peer), Err(OwnerError::NotHere), "nobody has accepted it");
            let (accepted, _) = listener.accept().unwrap();
            assert_eq!(owner(local, peer), Ok(own_uid()));
            let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
            assert_eq!(owner(other, local), Err(OwnerError::NotHere));
            assert_eq!(owner(local, other), Err(OwnerError::NotHere), "who listens is no connection's end");
            drop(client);
            assert_eq!(owner(peer, local), Err(OwnerError::NotHere));
            drop(accepted);
        }
    }

    #[test]
    fn who_sends_datagrams_is_known_by_all_sockets_of_that_address() {
        for (address, other) in [("127.0.0.1:0", "127.0.0.2:1"), ("[::1]:0", "[::2]:1"), ("0.0.0.0:0", "")] {
            let Ok(socket) = UdpSocket::bind(address) else {
                skip(Need::Kernel, format_args!("no {address} here"));
                continue;
            };
            let bound = socket.local_addr().unwrap();
            let loopback: IpAddr = if bound.is_ipv4() { [127, 0, 0, 1].into() } else { bound.ip() };
            let peer = SocketAddr::new(loopback, bound.port());
            assert_eq!(datagram_owner(peer), Ok(own_uid()), "{address}");
            if let Ok(other) = other.parse::<SocketAddr>() {
                let other = SocketAddr::new(other.ip(), peer.port());
                assert_eq!(datagram_owner(other), Err(OwnerError::NotHere), "{other}");
            }
            drop(socket);
            assert_eq!(datagram_owner(peer), Err(OwnerError::NotHere), "{address}");
        }
        // A socket for both versions sends from either.
        if let Ok(socket) = UdpSocket::bind("[::]:0") {
            let peer = SocketAddr::new([127, 0, 0, 1].into(), socket.local_addr().unwrap().port());
            assert_eq!(datagram_owner(peer), Ok(own_uid()));
        }
    }

    /// Two sockets of two users on one port: nobody knows which of them sent.
    #[test]
    fn an_address_that_two_users_share_is_nobodys() {
        use rustix::net::sockopt::set_socket_reuseaddr;
        if own_uid() != 0 {
            return skip(Need::Root, "only root can give sockets another owner");
        }
        let bind = |address: SocketAddr| {
            let flags = SocketFlags::CLOEXEC;
            let family = AddressFamily::INET;
            let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None).unwrap();
            set_socket_reuseaddr(&socket, true).unwrap();
            rustix::net::bind(&socket, &address).unwrap();
            UdpSocket::from(socket)
        };
        let one = bind("127.0.0.1:0".parse().unwrap());
        let peer = one.local_addr().unwrap();
        assert_eq!(datagram_owner(peer), Ok(0));
        let other = bind(SocketAddr::new([0, 0, 0, 0].into(), peer.port()));
        assert_eq!(datagram_owner(peer), Ok(0), "both are root's");
        let nobody = Some(rustix::fs::Uid::from_raw(65_534));
        rustix::fs::fchown(&other, nobody, None).unwrap();
        assert_eq!(datagram_owner(peer), Err(OwnerError::NotOne));
        drop(other);
        assert_eq!(datagram_owner(peer), Ok(0));
    }

    #[test]
    fn an_end_of_another_ip_version_is_nobodys() {
        let (v4, v6) = ("127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap());
        assert_eq!(owner(v4, v6), Err(OwnerError::NotHere));
    }

    #[test]
    fn answers_that_end_early_name_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, local) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let ends = ends(peer, local).unwrap();
        let answer = ask(&request(peer, &ends)).unwrap();
        assert_eq!(parse(&answer, &ends), Ok(own_uid()));
        for end in 0..HEADER_OCTETS + ANSWER_OCTETS {
            assert!(parse(&answer[..end], &ends).is_err(), "{end}");
        }
    }
}

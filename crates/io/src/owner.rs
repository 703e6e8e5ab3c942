//! Looks up the local user at the other end of a loopback connection, with sock_diag(7). For TCP,
//! the query is for the one socket with the two ends. For UDP, it is for all sockets that can send
//! from an address.
//!
//! A user is returned only if it is certain. A socket that was closed or is not accepted yet, or
//! that lies in another network namespace or behind address translation, has no known owner. An
//! address from which two users can send has no known owner either.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Sizes of `nlmsghdr`, `inet_diag_req_v2`, `inet_diag_sockid` and `inet_diag_msg`, octets.
const HEADER_OCTETS: usize = 16;
const REQUEST_OCTETS: usize = 56;
const ENDS_OCTETS: usize = 48;
const ANSWER_OCTETS: usize = 72;

/// `SOCK_DIAG_BY_FAMILY`, the type of the requests and of the kernel's answers.
const BY_FAMILY: u16 = 20;
/// Constants of netlink and the IP protocols, with the kernel's names.
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_DONE: u16 = 3;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
/// Maximum parts of one answer of the kernel that are read. Few sockets share a UDP port.
const ANSWERS_MAX: usize = 64;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;

/// The reason for which the owner of a connection's other end is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// Peer: no open socket of this network namespace is the other end.
    #[error(
        "no open socket of this network namespace is its other end: it was closed, or the port is \
         forwarded"
    )]
    NotHere,
    /// Peer: sockets of more than one user can send from its address.
    #[error("sockets of more than one user can send from its address")]
    NotOne,
    /// Environment: the kernel does not answer.
    #[error("the kernel does not report the owner: {0}")]
    System(#[source] Errno),
}

/// Returns the uid that owns the socket at `peer` which is connected to `local`. One system call
/// sends the request and one reads the answer, which is available at once.
///
/// # Errors
/// [`OwnerError`].
pub(crate) fn owner(peer: SocketAddr, local: SocketAddr) -> Result<u32, OwnerError> {
    let ends = ends(peer, local).ok_or(OwnerError::NotHere)?;
    let answer = query(&request(peer, &ends)).map_err(OwnerError::System)?;
    parse(&answer, &ends)
}

/// Returns the uid of all sockets that can send datagrams from `peer`. A datagram does not identify
/// the socket that sent it, so all of them must belong to one user.
///
/// # Errors
/// [`OwnerError`].
pub(crate) fn datagram_owner(peer: SocketAddr) -> Result<u32, OwnerError> {
    let mut owner = None;
    // A socket for IPv6 may send from an address of IPv4 too.
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let answers = request_all(&datagram_request(peer, family)).map_err(OwnerError::System)?;
        for message in answers.iter().flat_map(|answer| messages(answer)) {
            let Some((uid, address)) = datagram_socket(message) else { continue };
            // A socket that is bound to no address can send from any address of this machine.
            let is_it = address.is_unspecified() || address.to_canonical() == peer.ip().to_canonical();
            if is_it && *owner.get_or_insert(uid) != uid {
                return Err(OwnerError::NotOne);
            }
        }
    }
    owner.ok_or(OwnerError::NotHere)
}

/// Makes a request for all UDP sockets of one family with the port of `peer`.
fn datagram_request(peer: SocketAddr, family: AddressFamily) -> Vec<u8> {
    let mut ends = [0; ENDS_OCTETS];
    ends[..2].copy_from_slice(&peer.port().to_be_bytes());
    let mut octets = request(peer, &ends);
    octets[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    octets[HEADER_OCTETS] = family.as_raw() as u8;
    octets[HEADER_OCTETS + 1] = IPPROTO_UDP;
    octets
}

/// Sends a request, and receives all parts of the answer.
fn request_all(request: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
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
    // An incomplete list may lack a second owner, so it is not used.
    Err(Errno::TOOBIG)
}

/// Iterates over the messages of an answer, each with its header.
fn messages(mut answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let octets = u32::from_ne_bytes(*answer.first_chunk()?) as usize;
        let message = answer.get(..octets).filter(|message| message.len() >= HEADER_OCTETS)?;
        // Netlink aligns messages to four octets (netlink(3), NLMSG_ALIGN).
        answer = answer.get(octets.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Returns the owner and the local address of an open socket, from `inet_diag_msg`.
fn datagram_socket(message: &[u8]) -> Option<(u32, IpAddr)> {
    let body = message.get(HEADER_OCTETS..HEADER_OCTETS + ANSWER_OCTETS)?;
    let address = match body[0] {
        family if family == AddressFamily::INET.as_raw() as u8 => {
            IpAddr::from(*body[8..].first_chunk::<4>()?)
        }
        _ => IpAddr::from(*body[8..].first_chunk::<16>()?),
    };
    let uid = u32::from_ne_bytes(*body[64..].first_chunk()?);
    let inode = u32::from_ne_bytes(*body[68..].first_chunk()?);
    // A socket without inode was closed, so its uid is meaningless.
    (inode != 0).then_some((uid, address))
}

fn query(request: &[u8]) -> Result<Vec<u8>, Errno> {
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
    // The kernel answers before the request returns, and produces further answers as they are read.
    let (octets, _) = rustix::net::recv(socket, &mut *answer, RecvFlags::DONTWAIT)?;
    answer.truncate(octets);
    Ok(answer)
}

/// Makes the `inet_diag_sockid` of the socket at `peer`. Returns `None` if the ends differ in IP
/// version.
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
    // `INET_DIAG_NOCOOKIE` matches any socket with these ends.
    octets[40..].fill(0xff);
    Some(octets)
}

fn request(peer: SocketAddr, ends: &[u8; ENDS_OCTETS]) -> Vec<u8> {
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut octets = Vec::with_capacity(HEADER_OCTETS + REQUEST_OCTETS);
    octets.extend_from_slice(&((HEADER_OCTETS + REQUEST_OCTETS) as u32).to_ne_bytes());
    octets.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    octets.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port stay 0, because each request has a socket of its own.
    octets.resize(HEADER_OCTETS, 0);
    octets.extend_from_slice(&[family.as_raw() as u8, IPPROTO_TCP, 0, 0]);
    // Requests sockets in any state. `parse` checks the state.
    octets.extend_from_slice(&u32::MAX.to_ne_bytes());
    octets.extend_from_slice(ends);
    octets
}

/// Returns the owner from an `inet_diag_msg`, or the error that the kernel returned.
fn parse(answer: &[u8], ends: &[u8; ENDS_OCTETS]) -> Result<u32, OwnerError> {
    let malformed = OwnerError::System(Errno::BADMSG);
    let u16_at = |at: usize| -> Option<u16> { Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?)) };
    let u32_at = |at: usize| -> Option<u32> { Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?)) };
    let kind = u16_at(4).ok_or(malformed)?;
    if kind == NLMSG_ERROR {
        // The kernel reports a negative errno.
        let errno = u32_at(HEADER_OCTETS).ok_or(malformed)?.wrapping_neg();
        return Err(match Errno::from_raw_os_error(errno as i32) {
            Errno::NOENT => OwnerError::NotHere,
            errno => OwnerError::System(errno),
        });
    }
    let message = answer.get(HEADER_OCTETS..HEADER_OCTETS + ANSWER_OCTETS).filter(|_| kind == BY_FAMILY);
    let message = message.ok_or(malformed)?;
    let (uid, inode) = (u32_at(HEADER_OCTETS + 64).ok_or(malformed)?, u32_at(HEADER_OCTETS + 68));
    // If no connection has these ends, the kernel returns the socket that listens at `peer`. A
    // socket without inode was closed or is not accepted yet, so its uid is meaningless.
    let is_same = message[4..40] == ends[..36];
    if is_same && message[1] == ESTABLISHED && inode.is_some_and(|inode| inode != 0) {
        Ok(uid)
    } else {
        Err(OwnerError::NotHere)
    }
}

#[cfg(test)]
mod tests {
    use namely_testkit::{Need, skip};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn both_ends_of_a_connection_have_owners() {
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
    fn a_datagram_owner_is_found_by_address() {
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

    /// Two sockets of two users on one port: the sender is unknown.
    #[test]
    fn a_shared_address_has_no_owner() {
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
    fn another_ip_version_has_no_owner() {
        let (v4, v6) = ("127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap());
        assert_eq!(owner(v4, v6), Err(OwnerError::NotHere));
    }

    #[test]
    fn truncated_answers_yield_no_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, local) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let ends = ends(peer, local).unwrap();
        let answer = query(&request(peer, &ends)).unwrap();
        assert_eq!(parse(&answer, &ends), Ok(own_uid()));
        for end in 0..HEADER_OCTETS + ANSWER_OCTETS {
            assert!(parse(&answer[..end], &ends).is_err(), "{end}");
        }
    }
}

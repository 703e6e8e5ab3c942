//! Looks up the local user at the other end of a loopback connection, with sock_diag(7). For TCP,
//! the query is for the one socket with the two ends. For UDP, it is for all sockets that can send
//! from an address.
//!
//! A user is returned only if it is certain. A socket that was closed or is not accepted yet, or
//! that lies in another network namespace or behind address translation, has no known owner. An
//! address from which two users can send has no known owner either.

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

use namely_nnet::netlink::{Message, Request, RequestError, Socket, u32_at};
use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags};

/// Sizes of `inet_diag_sockid` and `inet_diag_msg`, octets.
const ENDS_OCTETS: usize = 48;
const ANSWER_OCTETS: usize = 72;

/// `SOCK_DIAG_BY_FAMILY`, the type of the requests and of the kernel's answers.
const BY_FAMILY: u16 = 20;
/// Numbers of the IP protocols, with the kernel's names.
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;

/// Sockets with the port of a datagram's sender.
///
/// # Limit
/// The owner of the sender is unknown.
/// - Tests: `a_sender_among_too_many_sockets_is_unknown`
const SOCKETS_MAX: usize = 16_384;

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

/// Returns the uid that owns the socket at `peer` which is connected to `local`. The answer is
/// available as soon as the request was sent.
///
/// # Errors
/// [`OwnerError`].
pub(crate) fn owner(peer: SocketAddr, local: SocketAddr) -> Result<u32, OwnerError> {
    let ends = ends(peer, local).ok_or(OwnerError::NotHere)?;
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let request = Request::new(BY_FAMILY, false, &header(family, IPPROTO_TCP, &ends));
    let mut found = Err(OwnerError::System(Errno::BADMSG));
    let answer = exchange(request, &mut |message| {
        found = parse(message, &ends);
        ControlFlow::Continue(())
    });
    match answer {
        Ok(()) => found,
        Err(RequestError::Refused(Errno::NOENT, _)) => Err(OwnerError::NotHere),
        Err(error) => Err(OwnerError::System(error.errno())),
    }
}

/// Returns the uid of all sockets that can send datagrams from `peer`. A datagram does not identify
/// the socket that sent it, so all of them must belong to one user.
///
/// # Errors
/// [`OwnerError`].
pub(crate) fn datagram_owner(peer: SocketAddr) -> Result<u32, OwnerError> {
    let mut ends = [0; ENDS_OCTETS];
    ends[..2].copy_from_slice(&peer.port().to_be_bytes());
    let mut senders = Senders { peer: peer.ip().to_canonical(), left: SOCKETS_MAX, owner: Ok(None) };
    // A socket for IPv6 may send from an address of IPv4 too.
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let request = Request::new(BY_FAMILY, true, &header(family, IPPROTO_UDP, &ends));
        exchange(request, &mut |message| senders.take(message))
            .map_err(|error| OwnerError::System(error.errno()))?;
    }
    senders.owner?.ok_or(OwnerError::NotHere)
}

/// The sockets that can send from an address.
struct Senders {
    peer: IpAddr,
    /// Sockets that are still examined.
    left: usize,
    /// The owner of all sockets so far.
    owner: Result<Option<u32>, OwnerError>,
}

impl Senders {
    /// Examines a socket. Breaks if no further socket matters.
    fn take(&mut self, message: Message<'_>) -> ControlFlow<()> {
        let Some(left) = self.left.checked_sub(1) else {
            // An incomplete list may lack a second owner, so it is not used.
            self.owner = Err(OwnerError::System(Errno::TOOBIG));
            return ControlFlow::Break(());
        };
        self.left = left;
        let Some((uid, address)) = datagram_socket(message) else { return ControlFlow::Continue(()) };
        // A socket that is bound to no address can send from any address of this machine.
        if address.is_unspecified() || address.to_canonical() == self.peer {
            match self.owner {
                Ok(None) => self.owner = Ok(Some(uid)),
                Ok(Some(known)) if known == uid => {}
                _ => {
                    self.owner = Err(OwnerError::NotOne);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the owner and the local address of an open socket, from `inet_diag_msg`.
fn datagram_socket(message: Message<'_>) -> Option<(u32, IpAddr)> {
    let body = message.payload.get(..ANSWER_OCTETS)?;
    let address = match body[0] {
        family if family == AddressFamily::INET.as_raw() as u8 => {
            IpAddr::from(*body[8..].first_chunk::<4>()?)
        }
        _ => IpAddr::from(*body[8..].first_chunk::<16>()?),
    };
    // A socket without inode was closed, so its uid is meaningless.
    (u32_at(body, 68)? != 0).then_some((u32_at(body, 64)?, address))
}

/// Sends a request by a socket of its own, and passes each part of the answer to `take`.
fn exchange(
    request: Request,
    take: &mut dyn FnMut(Message<'_>) -> ControlFlow<()>,
) -> Result<(), RequestError> {
    let mut socket = Socket::open(Some(SOCK_DIAG), 0).map_err(RequestError::System)?;
    socket.exchange(request, RecvFlags::DONTWAIT, take)
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

/// Makes an `inet_diag_req_v2` for sockets in any state. `parse` checks the state.
fn header(family: AddressFamily, protocol: u8, ends: &[u8; ENDS_OCTETS]) -> Vec<u8> {
    let mut octets = vec![family.as_raw() as u8, protocol, 0, 0];
    octets.extend_from_slice(&u32::MAX.to_ne_bytes());
    octets.extend_from_slice(ends);
    octets
}

/// Returns the owner from an `inet_diag_msg`.
fn parse(message: Message<'_>, ends: &[u8; ENDS_OCTETS]) -> Result<u32, OwnerError> {
    let malformed = OwnerError::System(Errno::BADMSG);
    let socket =
        message.payload.get(..ANSWER_OCTETS).filter(|_| message.kind == BY_FAMILY).ok_or(malformed)?;
    let (uid, inode) = (u32_at(socket, 64).ok_or(malformed)?, u32_at(socket, 68));
    // If no connection has these ends, the kernel returns the socket that listens at `peer`. A
    // socket without inode was closed or is not accepted yet, so its uid is meaningless.
    let is_same = socket[4..40] == ends[..36];
    if is_same && socket[1] == ESTABLISHED && inode.is_some_and(|inode| inode != 0) {
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
        use rustix::net::{SocketFlags, SocketType};
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
        let request = Request::new(BY_FAMILY, false, &header(AddressFamily::INET, IPPROTO_TCP, &ends));
        let mut answer = Vec::new();
        let taken = exchange(request, &mut |message| {
            answer = message.payload.to_vec();
            ControlFlow::Continue(())
        });
        assert_eq!(taken, Ok(()));
        assert_eq!(parse(Message { kind: BY_FAMILY, payload: &answer }, &ends), Ok(own_uid()));
        for end in 0..ANSWER_OCTETS {
            assert!(parse(Message { kind: BY_FAMILY, payload: &answer[..end] }, &ends).is_err(), "{end}");
            assert_eq!(datagram_socket(Message { kind: BY_FAMILY, payload: &answer[..end] }), None, "{end}");
        }
    }

    /// A message about an open UDP socket of the user `uid` at 127.0.0.1.
    fn socket_of(uid: u32) -> Vec<u8> {
        let mut octets = vec![0; ANSWER_OCTETS];
        octets[0] = AddressFamily::INET.as_raw() as u8;
        octets[8..12].copy_from_slice(&[127, 0, 0, 1]);
        octets[64..68].copy_from_slice(&uid.to_ne_bytes());
        octets[68..].copy_from_slice(&1u32.to_ne_bytes());
        octets
    }

    #[test]
    fn a_sender_among_too_many_sockets_is_unknown() {
        let mut senders = Senders { peer: [127, 0, 0, 1].into(), left: SOCKETS_MAX, owner: Ok(None) };
        let socket = socket_of(7);
        let mut take = || senders.take(Message { kind: BY_FAMILY, payload: &socket });
        assert!((0..SOCKETS_MAX).all(|_| take().is_continue()));
        assert!(take().is_break(), "one past it");
        assert_eq!(senders.owner, Err(OwnerError::System(Errno::TOOBIG)));
        let mut senders = Senders { peer: [127, 0, 0, 1].into(), left: SOCKETS_MAX, owner: Ok(None) };
        for (uid, owner) in [(7, Ok(Some(7))), (7, Ok(Some(7))), (8, Err(OwnerError::NotOne))] {
            let _ = senders.take(Message { kind: BY_FAMILY, payload: &socket_of(uid) });
            assert_eq!(senders.owner, owner);
        }
    }
}

//! TCP through a running loop.

use crate::support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use namely_io::{CloseReason, FaceState, IoOptions, OpenError, TcpOptions};
use namely_messages::FacePersistency;
use namely_testkit::{Need, skip};
use namely_wire::DecodeError;
use support::{Event, Loop, PATIENCE, packet, push};

const ANY_PORT: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

fn listening() -> (Loop, SocketAddr) {
    let io = Loop::start(IoOptions::default());
    io.with(|io| io.listen_tcp(ANY_PORT.into())).unwrap();
    let address = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    (io, address)
}

fn quick() -> IoOptions {
    let ms = 1_000_000;
    let tcp =
        TcpOptions { connect_timeout_ns: 500 * ms, reconnect_ns_min: 10 * ms, reconnect_ns_max: 50 * ms };
    IoOptions { tcp, ..IoOptions::default() }
}

fn connect(io: &Loop, peer: SocketAddr, persistency: FacePersistency) -> namely_io::FaceTag {
    io.open(move |io| io.connect_tcp(peer, None, persistency)).unwrap()
}

#[test]
fn a_tcp_peer_exchanges_packets_both_ways() {
    let (io, address) = listening();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let id = io.accepted();
    let status = io.status(id).unwrap();
    assert_eq!(status.local.address(), Some(address));
    assert_eq!(status.remote.address(), stream.local_addr().ok());
    assert_eq!(status.persistency, FacePersistency::OnDemand);
    stream.write_all(&packet(8796, 1)).unwrap();
    assert_eq!(io.next_frame(), (id, packet(8796, 1)));
    io.send(id, &packet(8796, 2));
    let mut octets = vec![0; 8800];
    stream.read_exact(&mut octets).unwrap();
    assert_eq!(octets, packet(8796, 2));
    assert!(support::port(id).unwrap().set_persistency(FacePersistency::Permanent).is_err());
    assert!(support::port(id).unwrap().set_persistency(FacePersistency::Persistent).is_ok());
}

#[test]
fn a_huge_tcp_length_closes_the_connection() {
    let (io, address) = listening();
    let mut stream = TcpStream::connect(address).unwrap();
    let id = io.accepted();
    stream.write_all(&[6, 255, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3]).unwrap();
    assert_eq!(io.closed(id).0, CloseReason::BadStream(DecodeError::LengthTooLarge));
}

#[test]
fn a_second_tcp_listener_is_refused() {
    let (_io, address) = listening();
    let error = Loop::start(IoOptions::default()).with(move |io| io.listen_tcp(address)).unwrap_err();
    assert_eq!(error, OpenError::InUse(format!("tcp4://{address}")));
}

#[test]
fn the_router_connects_by_tcp() {
    let listener = TcpListener::bind(SocketAddr::from(ANY_PORT)).unwrap();
    let io = Loop::start(IoOptions::default());
    let id = connect(&io, listener.local_addr().unwrap(), FacePersistency::Persistent);
    assert!(matches!(io.next_event(), Event::Up(up) if up == id));
    let (mut stream, peer) = listener.accept().unwrap();
    assert_eq!(io.status(id).unwrap().local.address(), Some(peer));
    stream.write_all(&packet(100, 1)).unwrap();
    assert_eq!(io.next_frame(), (id, packet(100, 1)));
    drop(stream);
    io.closed(id);
}

#[test]
fn a_refused_connection_reports_the_reason() {
    // No other socket takes this port by chance.
    let closed_port = namely_testkit::free_address();
    let io = Loop::start(IoOptions::default());
    let id = connect(&io, closed_port, FacePersistency::Persistent);
    assert_eq!(io.closed(id).0, CloseReason::System(rustix::io::Errno::CONNREFUSED));
}

#[test]
fn a_permanent_tcp_transport_reconnects() {
    let address = namely_testkit::free_address();
    let io = Loop::start(quick());
    let id = connect(&io, address, FacePersistency::Permanent);
    assert!(matches!(io.next_event(), Event::Down(down, _) if down == id));
    assert_eq!(io.status(id).unwrap().state, FaceState::Down);
    assert!(io.with(move |io| push(io, id, support::frame(&packet(10, 1)))).is_err());
    assert_eq!(io.drops(id, "down"), 1);
    for round in 0..2 {
        let listener = namely_testkit::bound_again(|| TcpListener::bind(address));
        assert!(matches!(io.next_event(), Event::Up(up) if up == id), "round {round}");
        let (mut stream, _) = listener.accept().unwrap();
        // Half a packet of the old connection must not join the new one's octets.
        stream.write_all(&packet(100, 1)).unwrap();
        stream.write_all(&packet(100, 1)[..50]).unwrap();
        assert_eq!(io.next_frame(), (id, packet(100, 1)));
        // First, because the transport would connect again as soon as the stream ends. The call
        // also ends the copy of a process that another test forks.
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        drop((stream, listener));
        assert!(matches!(io.next_event(), Event::Down(down, _) if down == id), "round {round}");
    }
    io.close(id);
    assert!(io.is_quiet_for(Duration::from_millis(100)));
}

#[test]
fn a_connect_without_answer_times_out() {
    // A listener whose queue is full ignores further connection requests.
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let kind = rustix::net::SocketType::STREAM;
    let busy = rustix::net::socket_with(rustix::net::AddressFamily::INET, kind, flags, None).unwrap();
    rustix::net::bind(&busy, &SocketAddr::from(ANY_PORT)).unwrap();
    rustix::net::listen(&busy, 0).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&busy).unwrap()).unwrap();
    let _queued = TcpStream::connect(address).unwrap();
    let io = Loop::start(quick());
    let id = connect(&io, address, FacePersistency::Persistent);
    assert_eq!(io.closed(id).0, CloseReason::ConnectTimeout);
}

#[test]
fn tcp_works_over_ipv6() {
    let io = Loop::start(IoOptions::default());
    let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = io.with(move |io| io.listen_tcp(address)) {
        skip(Need::Kernel, format_args!("{error}"));
        return;
    }
    let address = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let id = io.accepted();
    stream.write_all(&packet(8796, 1)).unwrap();
    assert_eq!(io.next_frame(), (id, packet(8796, 1)));
    assert_eq!(io.status(id).unwrap().remote.scheme(), "tcp6");
}

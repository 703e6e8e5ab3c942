//! WebSocket through a running loop.

use crate::support;

use namely_messages::FacePersistency;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use namely_io::websocket::{HANDSHAKE_OCTETS_MAX, MESSAGE_OCTETS_MAX};
use namely_io::{
    CloseReason, FaceTag, HANDSHAKE_NS_MAX, HANDSHAKES_MAX, HANDSHAKES_PER_HOLDER_MAX, IoOptions,
};
use namely_testkit::eventually;
use support::{Loop, PATIENCE, packet};
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::{Error, Message, WebSocket};

type Client = WebSocket<TcpStream>;

fn listening_with(options: IoOptions) -> (Loop, SocketAddr) {
    let io = Loop::start(options);
    io.with(|io| io.listen_websocket(([127, 0, 0, 1], 0).into())).unwrap();
    let address = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    (io, address)
}

fn listening() -> (Loop, SocketAddr) {
    listening_with(IoOptions::default())
}

fn raw(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn connect(io: &Loop, address: SocketAddr) -> (Client, FaceTag) {
    let (client, _) = tungstenite::client(format!("ws://{address}/"), raw(address)).unwrap();
    (client, io.accepted())
}

/// Waits for the end of the transport. Returns its reason, and the count of `label`.
fn ended(io: &Loop, id: FaceTag, label: &str) -> (CloseReason, u64) {
    let (reason, status) = io.closed(id);
    (reason, status.counters.drops.of(label))
}

/// The octets that the other end sends before it closes the connection.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut octets = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut octets);
    octets
}

#[test]
fn a_message_is_a_link_packet() {
    let (io, address) = listening();
    let (mut client, id) = connect(&io, address);
    let status = io.status(id).unwrap();
    assert_eq!(status.local.to_string(), format!("ws://{address}"));
    let near = client.get_ref().local_addr().unwrap();
    assert_eq!(status.remote.to_string(), format!("wsclient://{near}"));
    assert_eq!(status.persistency, FacePersistency::OnDemand);
    for octets in [1, 100, 200, 8000] {
        client.send(Message::binary(packet(octets, 1))).unwrap();
        assert_eq!(io.next_frame(), (id, packet(octets, 1)));
        io.send(id, &packet(octets, 2));
        assert_eq!(client.read().unwrap(), Message::binary(packet(octets, 2)));
    }
    let counters = io.status(id).unwrap().counters;
    assert_eq!((counters.in_frames, counters.out_frames), (4, 4));
}

#[test]
fn a_fragmented_message_is_one_packet() {
    let (io, address) = listening();
    let (mut client, id) = connect(&io, address);
    let octets = packet(3000, 7);
    let parts = [
        (&octets[..10], Data::Binary),
        (&octets[10..2000], Data::Continue),
        (&octets[2000..], Data::Continue),
    ];
    for (n, (part, opcode)) in parts.into_iter().enumerate() {
        let frame = Frame::message(part.to_vec(), OpCode::Data(opcode), n == 2);
        client.send(Message::Frame(frame)).unwrap();
    }
    assert_eq!(io.next_frame(), (id, octets));
}

#[test]
fn an_oversized_message_ends_the_connection() {
    let (io, address) = listening();
    let (mut client, id) = connect(&io, address);
    client.send(Message::binary(vec![6; MESSAGE_OCTETS_MAX])).unwrap();
    // The link service checks this message, not the WebSocket layer.
    eventually("all has come", || io.status(id).unwrap().counters.in_octets == MESSAGE_OCTETS_MAX as u64);
    client.send(Message::binary(vec![6; MESSAGE_OCTETS_MAX + 1])).unwrap();
    let label = "websocket_too_large";
    assert_eq!(ended(&io, id, label), (CloseReason::BadWebSocket(label), 1));
    // The message may arrive in any number of frames.
    let (mut client, id) = connect(&io, address);
    for opcode in [Data::Binary, Data::Continue] {
        let part = vec![6; MESSAGE_OCTETS_MAX / 2 + 1];
        let _ = client.send(Message::Frame(Frame::message(part, OpCode::Data(opcode), false)));
    }
    assert_eq!(ended(&io, id, label), (CloseReason::BadWebSocket(label), 1));
}

#[test]
fn a_text_message_ends_the_connection() {
    let (io, address) = listening();
    let (mut client, id) = connect(&io, address);
    client.send(Message::text("hello")).unwrap();
    assert_eq!(ended(&io, id, "websocket_text"), (CloseReason::BadWebSocket("websocket_text"), 1));
    assert_eq!(farewell(&mut client), CloseCode::Unsupported);
}

/// The code of the Close frame with which the router ends a connection.
fn farewell(client: &mut Client) -> CloseCode {
    match client.read().unwrap() {
        Message::Close(Some(frame)) => frame.code,
        other => panic!("{other:?} instead of a Close frame"),
    }
}

#[test]
fn a_close_frame_follows_waiting_messages() {
    let (io, address) = listening();
    let (mut client, id) = connect(&io, address);
    io.send(id, &packet(100, 1));
    io.close(id);
    assert_eq!(client.read().unwrap(), Message::binary(packet(100, 1)));
    assert_eq!(farewell(&mut client), CloseCode::Away);
    // From another thread, as management does.
    let (mut client, id) = connect(&io, address);
    support::port(id).unwrap().close();
    assert_eq!(farewell(&mut client), CloseCode::Away);
    // A router that stops.
    let (mut client, _) = connect(&io, address);
    drop(io);
    assert_eq!(farewell(&mut client), CloseCode::Away);
}

#[test]
fn a_close_is_answered_once() {
    let (io, address) = listening();
    let (mut client, id) = connect(&io, address);
    // A Close frame with code 1000, masked by zeros.
    client.get_mut().write_all(&[0x88, 0x82, 0, 0, 0, 0, 3, 0xe8]).unwrap();
    assert_eq!(io.closed(id).0, CloseReason::Peer);
    let stream = client.get_ref().try_clone().unwrap();
    assert_eq!(rest(stream), [0x88, 2, 3, 0xe8]);
}

#[test]
fn an_unfinished_message_ends_without_close() {
    let options = IoOptions { queue_octets_max: 64 << 20, ..IoOptions::default() };
    let (io, address) = listening_with(options);
    let (mut client, id) = connect(&io, address);
    // More octets than the sockets hold, so the last message is written in part only.
    // In one turn: on a slow machine thousands of turns could exceed the time of a stall.
    io.with(move |io| {
        (0..4000).for_each(|n| {
            support::push(io, id, support::frame(&packet(8000, n as u8))).unwrap();
        });
    });
    io.close(id);
    let mut messages = 0u32;
    loop {
        match client.read() {
            Ok(Message::Binary(octets)) => assert_eq!(octets, packet(8000, messages as u8)),
            Ok(other) => panic!("{other:?}"),
            Err(_) => break,
        }
        messages += 1;
    }
    assert!(messages > 0);
}

#[test]
fn protocol_violations_end_the_connection() {
    let (io, address) = listening();
    let unmasked = [0x82, 1, 6];
    let reserved_bits = [0xf2, 0x81, 0, 0, 0, 0, 6];
    let unknown_opcode = [0x83, 0x80, 0, 0, 0, 0];
    let stray_continuation = [0x80, 0x80, 0, 0, 0, 0];
    let long_ping = [&[0x89, 0xfe, 0, 126, 0, 0, 0, 0][..], &[7; 126]].concat();
    for octets in [&unmasked[..], &reserved_bits, &unknown_opcode, &stray_continuation, &long_ping] {
        let (mut client, id) = connect(&io, address);
        client.get_mut().write_all(octets).unwrap();
        let label = "websocket_malformed";
        assert_eq!(ended(&io, id, label), (CloseReason::BadWebSocket(label), 1), "{octets:?}");
    }
}

#[test]
fn pings_and_closes_are_answered() {
    let (io, address) = listening();
    let (mut client, id) = connect(&io, address);
    client.send(Message::Ping(b"here?".to_vec().into())).unwrap();
    assert_eq!(client.read().unwrap(), Message::Pong(b"here?".to_vec().into()));
    client.close(None).unwrap();
    assert!(matches!(client.read(), Ok(Message::Close(_)) | Err(Error::ConnectionClosed)));
    assert_eq!(io.closed(id).0, CloseReason::Peer);
}

#[test]
fn a_pinging_slow_reader_gets_every_message() {
    let options = IoOptions { send_buffer_octets: 16 << 10, ..IoOptions::default() };
    let (io, address) = listening_with(options);
    let (mut client, id) = connect(&io, address);
    const MESSAGES: usize = 800;
    for n in 0..MESSAGES {
        io.send(id, &packet(8000, n as u8));
        if n % 100 == 0 {
            client.send(Message::Ping(vec![n as u8].into())).unwrap();
        }
    }
    let (mut messages, mut pongs) = (0, 0);
    while messages < MESSAGES {
        match client.read().unwrap() {
            Message::Binary(octets) => {
                assert_eq!(octets, packet(8000, messages as u8), "message {messages}");
                messages += 1;
            }
            Message::Pong(_) => pongs += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(pongs >= 1, "no pong");
}

#[test]
fn a_pinging_peer_that_never_reads_ends() {
    let (io, address) = listening();
    let (mut client, id) = connect(&io, address);
    client.get_mut().set_write_timeout(Some(PATIENCE)).unwrap();
    // 125 octets of pong for each ping, more than any two socket buffers hold.
    while client.get_mut().write_all(&[[0x89, 0xfd, 0, 0, 0, 0].as_slice(), &[7; 125]].concat()).is_ok() {}
    let label = "websocket_control_full";
    assert_eq!(ended(&io, id, label), (CloseReason::BadWebSocket(label), 1));
}

#[test]
fn a_bad_websocket_handshake_is_refused() {
    let (io, address) = listening();
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "x".repeat(HANDSHAKE_OCTETS_MAX));
    let bad = [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 12\r\n\r\n",
        "\u{5}\u{3}\u{7}\u{1}\u{8}\r\n\r\n",
        &long,
    ];
    for request in bad {
        let mut stream = raw(address);
        stream.write_all(request.as_bytes()).unwrap();
        let answer = rest(stream);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    }
    let mut gone = raw(address);
    gone.write_all(b"GET / HT").unwrap();
    drop(gone);
    eventually("each has failed", || io.listener_drops("websocket_handshake_failed") == bad.len() as u64 + 1);
    // The only event is that of the connection that follows the protocol.
    connect(&io, address);
}

#[test]
fn a_slow_websocket_handshake_times_out() {
    let (io, address) = listening();
    let start = Instant::now();
    let mut slow = raw(address);
    slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let silent = raw(address);
    assert!(rest(silent).is_empty() && rest(slow).is_empty());
    assert!(start.elapsed() > Duration::from_secs(4), "it has its time");
    assert_eq!(io.listener_drops("websocket_handshake_timeout"), 2);
    connect(&io, address);
}

#[test]
fn waiting_websocket_handshakes_are_limited() {
    let (io, address) = listening();
    let oldest = raw(address);
    let mut others: Vec<TcpStream> = (1..HANDSHAKES_PER_HOLDER_MAX).map(|_| raw(address)).collect();
    // Connections are accepted in the order of their arrival. Once this one is accepted, all others
    // were.
    let _kept = connect(&io, address);
    assert!(rest(oldest).is_empty());
    assert_eq!(io.listener_drops("websocket_handshakes_full"), 1);
    // Handshakes that still have their slot can proceed.
    let last = others.pop().unwrap();
    let _kept_too = tungstenite::client(format!("ws://{address}/"), last).unwrap();
    io.accepted();
}

#[test]
fn a_started_handshake_survives_other_hosts() {
    // On a busy machine the time of the handshake may end before all others have connected.
    namely_testkit::until("a handshake ends in its time", survives_other_hosts);
}

/// `None` if the machine was too slow for the claim.
fn survives_other_hosts() -> Option<()> {
    let (io, address) = listening();
    let begun_at = Instant::now();
    let is_late = || begun_at.elapsed() >= Duration::from_nanos(HANDSHAKE_NS_MAX);
    // A slow neighbor. Another host connects again and again with half a request.
    let mut slow = support::connect_from(Ipv4Addr::new(127, 0, 0, 3), address);
    slow.write_all(b"GET / HTTP/1.1\r\nHost: router\r\nUpgrade: websocket\r\n").unwrap();
    let begun: Vec<TcpStream> = (0..2 * HANDSHAKES_MAX)
        .map(|_| {
            let mut stream = support::connect_from(Ipv4Addr::new(127, 0, 0, 2), address);
            stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            stream
        })
        .collect();
    let evicted = (begun.len() - HANDSHAKES_PER_HOLDER_MAX) as u64;
    let made_room = || io.listener_drops("websocket_handshakes_full") >= evicted;
    eventually("the oldest make room", || made_room() || is_late());
    let parts = [
        &b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"[..],
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ];
    let mut answer = [0; 12];
    let answered = parts.iter().try_for_each(|part| slow.write_all(part));
    let answered = answered.and_then(|()| slow.read_exact(&mut answer));
    if is_late() {
        return None;
    }
    answered.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
    io.accepted();
    let _another = connect(&io, address);
    assert_eq!(io.listener_drops("websocket_handshakes_full"), evicted);
    Some(())
}

//! Octets and behavior that broke other routers. Each is counted, and the face and the router
//! survive.

use crate::support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use namely_dataplane::DataPlaneOptions;
use namely_forwarder::FaceId;
use namely_io::IoOptions;
use namely_messages::FaceEventKind;
use namely_testkit::{eventually, until};
use namely_wire::tlv::Writer;
use namely_wire::{LpFraming, LpHeaders, LpView, NackReason, encode_lp_header};
use support::{App, PATIENCE, Router, data, interest, with_token};

/// A peer on UDP that has a face already.
struct Peer {
    socket: UdpSocket,
    face: FaceId,
}

impl Peer {
    fn new(router: &Router, address: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send(&interest("/hello")).unwrap();
        let face = router.event_face(FaceEventKind::Created);
        let peer = Peer { socket, face };
        peer.receive();
        peer
    }

    /// The next link packet that is no probe of the path. This peer does not answer probes.
    fn receive(&self) -> Vec<u8> {
        self.try_receive().expect("a packet")
    }

    /// As `receive`; `None` if the socket's time is over.
    fn try_receive(&self) -> Option<Vec<u8>> {
        loop {
            let mut octets = vec![0; 65536];
            let length = namely_testkit::uninterrupted(|| self.socket.recv(&mut octets)).ok()?;
            octets.truncate(length);
            if LpView::parse(&octets).is_ok_and(|view| view.tx_sequence.is_none()) {
                return Some(octets);
            }
        }
    }

    /// The face answers: an Interest without a route receives its Nack.
    fn assert_alive(&self, n: usize) {
        let sent = interest(&format!("/alive/{n}"));
        self.socket.send(&sent).unwrap();
        let wire = self.receive();
        let view = LpView::parse(&wire).unwrap();
        assert_eq!((view.headers.nack, view.fragment), (Some(NackReason::NoRoute), Some(&sent[..])));
    }
}

fn fragment(sequence: u64, frag_index: u64, frag_count: u64, payload: &[u8]) -> Vec<u8> {
    let framing = LpFraming { sequence: Some(sequence), frag_index, frag_count, ..LpFraming::default() };
    let mut out = Vec::new();
    encode_lp_header(&LpHeaders::default(), &framing, None, Some(payload.len()), &mut out);
    out.extend_from_slice(payload);
    out
}

/// An LpPacket with the given PIT token, of any length.
fn odd_token(octets: usize, packet: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.nested(100, |w| {
        w.tlv(98, &vec![7; octets]).tlv(80, packet);
    });
    w.into_vec()
}

fn nested(depth: usize) -> Vec<u8> {
    let mut packet = interest("/deep");
    for _ in 0..depth {
        let mut w = Writer::new();
        w.nested(100, |w| {
            w.tlv(80, &packet);
        });
        packet = w.into_vec();
    }
    packet
}

/// Pseudorandom octets, the same for the same seed.
fn noise(seed: u64, octets: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..octets).map(|_| next()).collect()
}

#[test]
fn random_datagrams_leave_the_face_unchanged() {
    let router = Router::start();
    let peer = Peer::new(&router, router.listen_udp());
    let whole = data("/a", 400);
    let mut bad: Vec<Vec<u8>> = (1..whole.len()).step_by(29).map(|cut| whole[..cut].to_vec()).collect();
    bad.extend((0..60).map(|seed| noise(seed, seed as usize * 7)));
    bad.push([interest("/two"), interest("/in/one")].concat());
    bad.push(vec![0xff; 9000]);
    bad.push(vec![100, 253, 255, 255]);
    for (n, datagram) in bad.iter().enumerate() {
        peer.socket.send(datagram).unwrap();
        if n % 8 == 0 {
            peer.assert_alive(n);
        }
    }
    peer.assert_alive(bad.len());
    assert!(router.dropped(peer.face, "truncated") > 10);
    assert!(router.dropped(peer.face, "trailing_octets") >= 1);
}

#[test]
fn excessive_frag_counts_are_refused() {
    let router = Router::start();
    let peer = Peer::new(&router, router.listen_udp());
    let counts = [401, 1 << 28, 1 << 32, 1 << 60, u64::MAX];
    for (n, count) in counts.into_iter().enumerate() {
        peer.socket.send(&fragment(7, 0, count, &[1; 20])).unwrap();
        peer.socket.send(&fragment(u64::MAX, count - 1, count, &[1; 20])).unwrap();
        peer.assert_alive(n);
    }
    assert_eq!(router.dropped(peer.face, "too_many_fragments"), 10);
}

#[test]
fn a_first_fragment_flood_is_bounded() {
    let router = Router::start();
    let peer = Peer::new(&router, router.listen_udp());
    for n in 0..20_000u64 {
        peer.socket.send(&fragment(n * 100, 0, 2, &[1; 1000])).unwrap();
        if n % 100 == 0 {
            peer.assert_alive(n as usize);
        }
    }
    assert!(router.dropped(peer.face, "reassembly_evicted") > 18_000);
    let sent = interest("/whole/again");
    let (first, second) = sent.split_at(10);
    // Half a second after the first fragment, the second one is too late. On a busy machine the two
    // are sent again.
    peer.socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut sequence = 1 << 40;
    let answer = until("the message is whole", || {
        peer.socket.send(&fragment(sequence, 0, 2, first)).unwrap();
        peer.socket.send(&fragment(sequence + 1, 1, 2, second)).unwrap();
        sequence += 2;
        peer.try_receive()
    });
    assert_eq!(LpView::parse(&answer).unwrap().fragment, Some(&sent[..]));
}

#[test]
fn pit_tokens_are_echoed_or_refused() {
    let router = Router::start();
    let (mut app, face) = router.connect();
    for octets in 1..=32 {
        let sent = interest(&format!("/token/{octets}"));
        app.send(&with_token(&sent, &vec![7; octets]));
        let (headers, refused) = app.receive_parts();
        assert_eq!(headers.pit_token.unwrap().as_bytes(), vec![7; octets]);
        assert_eq!(refused, sent);
    }
    for octets in [0, 33, 64, 300] {
        app.send(&odd_token(octets, &interest("/odd")));
    }
    app.send(&interest("/alive"));
    assert_eq!(app.receive_parts().1, interest("/alive"));
    assert_eq!(router.dropped(face, "bad_length"), 4);
}

#[test]
fn packets_inside_packets_are_refused() {
    let router = Router::start();
    let (mut app, _) = router.connect();
    for depth in [2, 10, 1000] {
        app.send(&nested(depth));
    }
    app.send(&interest("/alive"));
    assert_eq!(app.receive_parts().1, interest("/alive"));
}

#[test]
fn oversized_packets_keep_the_stream_in_step() {
    let router = Router::start();
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    consumer.send(&interest("/a/big"));
    producer.receive();
    producer.send(&support::data_of("/a/big", 9000));
    consumer.send(&interest("/a/right"));
    producer.receive();
    producer.send(&support::data_of("/a/right", 8800));
    assert_eq!(consumer.receive_parts().1.len(), 8800);
}

#[test]
fn overlong_names_are_refused() {
    let router = Router::start();
    let (mut app, _) = router.connect();
    let mut w = Writer::new();
    w.nested(5, |w| {
        w.nested(7, |w| {
            (0..4000).for_each(|_| {
                w.tlv(8, &[]);
            });
        });
        w.tlv(10, &[1, 2, 3, 4]);
    });
    app.send(w.as_bytes());
    app.send(&interest("/alive"));
    assert_eq!(app.receive_parts().1, interest("/alive"));
}

#[test]
fn a_huge_length_closes_only_its_connection() {
    let router = Router::start();
    let address = router.listen_tcp();
    let mut good = App::new(TcpStream::connect(address).unwrap());
    router.event(FaceEventKind::Created);
    let mut bad = TcpStream::connect(address).unwrap();
    let bad_face = router.event_face(FaceEventKind::Created);
    bad.write_all(&[6, 255, 0, 0, 1, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(router.event_face(FaceEventKind::Destroyed), bad_face);
    good.send(&interest("/alive"));
    assert_eq!(good.receive_parts().1, interest("/alive"));
    assert_eq!(router.plane.drops().of("length_too_large"), 1, "drops of closed faces stay counted");
}

#[test]
fn unknown_elements_in_streams_are_skipped() {
    let router = Router::start();
    let (mut app, face) = router.connect();
    // Well-formed elements of unknown TYPE can be passed over.
    for garbage in [&[9, 3, 1, 2, 3][..], &[80, 0], &[253, 3, 232, 1, 0]] {
        app.send(garbage);
        app.send(&interest("/alive"));
        assert_eq!(app.receive_parts().1, interest("/alive"));
    }
    assert_eq!(router.dropped(face, "unexpected_type"), 3);
    // Octets that are no TLV end the face.
    app.send(&[0xff; 32]);
    assert_eq!(router.event_face(FaceEventKind::Destroyed), face);
}

#[test]
fn a_consumer_that_never_reads_is_bounded() {
    let io = IoOptions {
        queue_octets_max: 1 << 20,
        send_buffer_octets: 64 << 10,
        stream_receive_buffer_octets: 64 << 10,
        ..IoOptions::default()
    };
    let router = Router::start_with(DataPlaneOptions { io, ..DataPlaneOptions::default() });
    let ((mut lazy, lazy_face), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    for n in 0..400 {
        lazy.send(&interest(&format!("/a/{n}")));
        producer.receive();
        producer.send(&data(&format!("/a/{n}"), 8000));
    }
    eventually("its queue is full", || router.dropped(lazy_face, "queue_full") > 100);
    assert!(router.plane.port_status(lazy_face).unwrap().queue_octets <= (1 << 20) + 8800);
    eventually("nothing is pending", || router.core.table_sizes().pit == 0);
    let (mut other, _) = router.connect();
    let start = Instant::now();
    other.send(&interest("/a/399"));
    assert_eq!(other.receive_parts().1, data("/a/399", 8000));
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn a_face_closed_mid_burst_harms_nothing() {
    let router = Router::start();
    let ((mut consumer, consumer_face), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    for n in 0..200 {
        consumer.send(&interest(&format!("/a/{n}")));
    }
    producer.receive();
    consumer.stream.shutdown(Shutdown::Both).unwrap();
    assert_eq!(router.event_face(FaceEventKind::Destroyed), consumer_face);
    for n in 0..200 {
        producer.send(&data(&format!("/a/{n}"), 1000));
    }
    producer.send(&interest("/alive"));
    loop {
        let (headers, packet) = producer.receive_parts();
        if packet == interest("/alive") {
            assert_eq!(headers.nack, Some(NackReason::NoRoute));
            break;
        }
    }
}

#[test]
fn a_connection_half_closed_mid_packet_ends() {
    let router = Router::start();
    let (mut app, face) = router.connect();
    app.send(&interest("/half")[..5]);
    app.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(router.event_face(FaceEventKind::Destroyed), face);
    app.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(namely_testkit::uninterrupted(|| app.stream.read(&mut [0; 1])).unwrap(), 0);
}

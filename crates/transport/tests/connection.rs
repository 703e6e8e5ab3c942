//! Tests of a client and its router: answers, refusals, restarts, and messages for users.

use crate::common;

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{ScriptedRouter, data, nack};
use namely_messages::{Command, ControlParameters};
use namely_security::{KeyType, PrivateKey, Signer};
use namely_transport::connection::{
    Answer, CommandError, Connection, ConnectionError, Incoming, OUTBOX_OCTETS_MAX, Options, Outbox, Packet,
};
use namely_wire::{DataView, FaceUri, InterestBuilder, LpHeaders, NackReason, Name, PitToken};

fn uri(dir: &tempfile::TempDir) -> (std::path::PathBuf, FaceUri) {
    let path = dir.path().join("router.sock");
    let uri = FaceUri::Unix(path.to_str().unwrap().to_owned());
    (path, uri)
}

/// An Interest that no thread of a busy machine drops as late.
fn interest(name: &str) -> InterestBuilder {
    InterestBuilder::new(name.parse().unwrap()).lifetime_ms(60_000)
}

#[test]
fn an_interest_ends_with_one_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let (path, uri) = uri(&dir);
    let router = ScriptedRouter::start(&path, 200, |interest, _| match &interest.name.to_string()[..] {
        "/data" => data(interest, b"hello"),
        "/nack" => nack(interest, NackReason::NoRoute),
        "/other" => {
            let name: Name = "/elsewhere".parse().unwrap();
            let other = InterestBuilder::new(name).build();
            data(&namely_wire::InterestView::parse(&other).unwrap(), b"not asked for")
        }
        _ => Vec::new(),
    });
    let mut connection = Connection::to(uri, Options::default()).unwrap();
    match connection.express(&interest("/data")).unwrap() {
        Answer::Data(reply) => assert_eq!(DataView::parse(&reply.wire).unwrap().content, b"hello"),
        other => panic!("{other:?}"),
    }
    assert_eq!(connection.express(&interest("/nack")).unwrap(), Answer::Nack(NackReason::NoRoute));
    for unanswered in ["/silence", "/other"] {
        let brief = interest(unanswered).lifetime_ms(200);
        assert_eq!(connection.express(&brief).unwrap(), Answer::Timeout);
    }
    router.kill();
}

#[test]
fn a_lost_interest_is_retransmitted() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let dir = tempfile::tempdir().unwrap();
    let (path, uri) = uri(&dir);
    // The first is lost, the second meets congestion, the third is answered.
    let router =
        ScriptedRouter::start(&path, 200, |interest, _| match ASKED.fetch_add(1, Ordering::Relaxed) {
            0 => Vec::new(),
            1 => nack(interest, NackReason::Congestion),
            _ => data(interest, b"hello"),
        });
    let mut connection = Connection::to(uri, Options::default()).unwrap();
    let answer = connection.express_retrying(&interest("/a"), 1).unwrap();
    assert!(matches!(answer, Answer::Data(_)), "{answer:?}");
    // A router whose thread stalls receives further ones before it answers.
    assert!(ASKED.load(Ordering::Relaxed) >= 3);
    router.kill();
}

#[test]
fn a_prefix_is_registered_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (path, uri) = uri(&dir);
    let router = ScriptedRouter::start(&path, 200, |_, _| Vec::new());
    let mut connection = Connection::to(uri, Options::for_server()).unwrap();
    let prefix: Name = "/files".parse().unwrap();
    connection.register(&prefix, &mut |_, _| {}).unwrap();
    assert_eq!(router.registered.recv().unwrap(), prefix);
    assert!(connection.is_registered());
    router.kill();

    // While there is no router, turns end at their deadline and nothing fails.
    let deadline_ns = connection.now_ns() + 100_000_000;
    while connection.now_ns() < deadline_ns {
        connection.turn(deadline_ns, &mut |_, _| {}).unwrap();
    }
    let router = ScriptedRouter::start(&path, 200, |_, _| Vec::new());
    let started = Instant::now();
    while connection.epoch() == 0 || !connection.is_registered() {
        let deadline_ns = connection.now_ns() + 50_000_000;
        connection.turn(deadline_ns, &mut |_, _| {}).unwrap();
        assert!(started.elapsed() < Duration::from_secs(20), "not registered again");
    }
    assert_eq!(router.registered.recv().unwrap(), prefix);
    assert_eq!(connection.counters().reconnects, 1);
    router.kill();
}

#[test]
fn a_gone_router_forgets_the_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let (path, uri) = uri(&dir);
    let router = ScriptedRouter::start(&path, 200, |_, _| Vec::new());
    let mut connection = Connection::to(uri, Options::for_server()).unwrap();
    let prefix: Name = "/files".parse().unwrap();
    connection.register(&prefix, &mut |_, _| {}).unwrap();
    router.kill();
    connection.unregister(&prefix).expect("nothing is left to unregister");
    // The connection still comes back, without the prefix.
    let router = ScriptedRouter::start(&path, 200, |_, _| Vec::new());
    namely_testkit::eventually("it is connected again", || {
        let deadline_ns = connection.now_ns() + 50_000_000;
        connection.turn(deadline_ns, &mut |_, _| {}).unwrap();
        connection.epoch() > 0 && connection.is_connected()
    });
    assert!(router.registered.try_recv().is_err());
    router.kill();
}

#[test]
fn a_refused_registration_reports_the_routers_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (path, uri) = uri(&dir);
    let router = ScriptedRouter::start(&path, 403, |_, _| Vec::new());
    let mut connection = Connection::to(uri, Options::default()).unwrap();
    let refused = connection.register(&"/p".parse().unwrap(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(refused, CommandError::Refused(_)));
    assert!(refused.to_string().contains("403 \"as scripted\""), "{refused}");
    router.kill();
}

/// Commands of one key that come over two connections may overtake each other, and a router takes
/// them in ascending order only.
#[test]
fn an_overtaken_key_signed_command_is_resigned() {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    assert_signed_again(Signer::new("/p/KEY/1".parse().unwrap(), key));
}

/// NFD treats all commands signed by digest, from any program, as commands of one key.
#[test]
fn an_overtaken_digest_signed_command_is_resigned() {
    assert_signed_again(Signer::digest_sha256());
}

#[track_caller]
fn assert_signed_again(signer: Signer) {
    let dir = tempfile::tempdir().unwrap();
    let (path, uri) = uri(&dir);
    let options = Options { signer, ..Options::default() };
    let router = ScriptedRouter::start_with(&path, vec![403, 403, 200], |_, _| Vec::new());
    let mut connection = Connection::to(uri.clone(), options.clone()).unwrap();
    connection.register(&"/p".parse().unwrap(), &mut |_, _| {}).unwrap();
    assert_eq!(router.registered.try_iter().count(), 3);
    router.kill();
    let router = ScriptedRouter::start_with(&path, vec![403, 403, 200], |_, _| Vec::new());
    let mut connection = Connection::to(uri.clone(), options.clone()).unwrap();
    let name = Some("/p".parse().unwrap());
    let parameters = ControlParameters { name, ..ControlParameters::default() };
    connection.command(Command::RibRegister, &parameters).unwrap();
    assert_eq!(router.registered.try_iter().count(), 3);
    router.kill();
    // A command that is refused each time fails.
    let router = ScriptedRouter::start(&path, 403, |_, _| Vec::new());
    let mut connection = Connection::to(uri, options).unwrap();
    assert!(connection.register(&"/p".parse().unwrap(), &mut |_, _| {}).is_err());
    assert_eq!(router.registered.try_iter().count(), 3);
    router.kill();
}

#[test]
fn an_error_without_a_router_has_help() {
    let dir = tempfile::tempdir().unwrap();
    let (_, uri) = uri(&dir);
    let error = Connection::to(uri.clone(), Options::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&uri.to_string()) && error.hint().is_some_and(|hint| hint.contains("namely up")),
        "{text}"
    );
}

#[test]
fn an_absent_router_ends_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let (path, uri) = uri(&dir);
    let router = ScriptedRouter::start(&path, 200, |_, _| Vec::new());
    let options = Options { reconnect: Duration::from_millis(100), ..Options::default() };
    let mut connection = Connection::to(uri, options).unwrap();
    // One turn of the connection, so that the router accepts it before the router ends.
    connection.express(&interest("/x").lifetime_ms(20)).unwrap();
    router.kill();
    let lost = loop {
        let deadline_ns = connection.now_ns() + 1_000_000_000;
        if let Err(error) = connection.turn(deadline_ns, &mut |_, _| {}) {
            break error;
        }
    };
    assert!(matches!(lost, ConnectionError::Lost { .. }), "{lost}");
}

#[test]
fn an_answer_carries_the_interests_pit_token() {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut client = Connection::from_stream(near).unwrap();
    let mut server = Connection::from_stream(far).unwrap();
    for length in [1, 6, 7, 32] {
        let token = PitToken::new(&vec![9; length]).unwrap();
        let headers = LpHeaders { pit_token: Some(token), ..LpHeaders::default() };
        let wire = interest("/a").build();
        client.outbox().send(&headers, &wire);
        client.turn(0, &mut |_, _| {}).unwrap();
        let deadline_ns = server.now_ns() + 1_000_000_000;
        server
            .turn(deadline_ns, &mut |incoming, outbox| {
                let Packet::Interest(interest) = incoming.packet else { panic!("{incoming:?}") };
                outbox.send(&incoming.answer_headers(), &data(&interest, b""));
            })
            .unwrap();
        let mut returned = None;
        let deadline_ns = client.now_ns() + 1_000_000_000;
        client.turn(deadline_ns, &mut |incoming, _| returned = incoming.headers.pit_token).unwrap();
        assert_eq!(returned, Some(token));
    }
}

#[test]
fn garbage_between_packets_is_counted() {
    use std::io::Write;
    let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut connection = Connection::from_stream(near).unwrap();
    // Well-framed nonsense: an unknown packet type, an Interest without a name, a fragment of two.
    far.write_all(b"\x09\x01x\x05\x00\x64\x07\x53\x01\x02\x50\x02\x05\x00").unwrap();
    far.write_all(&interest("/good").build()).unwrap();
    let mut names = Vec::new();
    connection
        .turn(connection.now_ns() + 1_000_000_000, &mut |incoming, _| {
            let Packet::Interest(interest) = incoming.packet else { panic!("{incoming:?}") };
            names.push(interest.name.to_string());
        })
        .unwrap();
    assert_eq!(names, ["/good"]);
    let counters = connection.counters();
    assert_eq!((counters.dropped_malformed, counters.dropped_fragment), (2, 1));

    // Octets that are no TLV at all leave no way to find the next packet.
    far.write_all(&[0; 8]).unwrap();
    assert!(connection.turn(connection.now_ns() + 1_000_000_000, &mut |_, _| {}).is_err());
    assert_eq!(connection.counters().streams_broken, 1);
}

#[test]
fn a_stalled_router_fills_only_the_outbox() {
    use std::io::{Read, Write};
    let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut server = Connection::from_stream(near).unwrap();
    far.set_nonblocking(true).unwrap();
    let wire = interest("/a").lifetime_ms(600_000).build(); // so that none comes too late
    let mut requested = 0;
    let mut answered = 0;
    let mut largest = 0;
    // Ask until neither side takes any more.
    for _ in 0..2_000 {
        while requested < 20_000 && far.write(&wire).is_ok_and(|octets| octets == wire.len()) {
            requested += 1;
        }
        server
            .turn(server.now_ns() + 1_000_000, &mut |incoming, outbox| {
                let Packet::Interest(interest) = incoming.packet else { panic!("{incoming:?}") };
                outbox.send(&incoming.answer_headers(), &data(&interest, &[0; 8000]));
                answered += 1;
                largest = largest.max(outbox.len());
            })
            .unwrap();
    }
    assert!(answered < requested, "the rest waits in the socket: {answered} of {requested}");
    assert!((OUTBOX_OCTETS_MAX..OUTBOX_OCTETS_MAX + 8800).contains(&largest), "{largest}");
    // Once the router reads, the rest is answered.
    let mut buf = vec![0; 1 << 20];
    let mut received = 0;
    let started = Instant::now();
    while answered < requested || !server.outbox().is_empty() {
        while let Ok(octets) = far.read(&mut buf) {
            received += octets;
        }
        server
            .turn(server.now_ns() + 1_000_000, &mut |incoming, outbox| {
                let Packet::Interest(interest) = incoming.packet else { panic!("{incoming:?}") };
                outbox.send(&incoming.answer_headers(), &data(&interest, &[0; 8000]));
                answered += 1;
            })
            .unwrap();
        assert!(started.elapsed() < Duration::from_secs(60));
    }
    assert!(received + (4 << 20) > requested * 8000, "{received} octets of {requested} answers");
}

#[test]
fn every_transport_passes_packets_of_any_size() {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    let packet = |octets: usize| {
        let name = InterestBuilder::new("/a".parse().unwrap()).build();
        data(&namely_wire::InterestView::parse(&name).unwrap(), &vec![5; octets])
    };
    let largest = packet(8800 - packet(8000).len() + 8000);
    assert_eq!(largest.len(), 8800);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri: FaceUri = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
    let mut client = Connection::to(uri, Options::default()).unwrap();
    let (mut router, _) = listener.accept().unwrap();
    client.outbox().send(&LpHeaders::default(), &largest);
    client.turn(0, &mut |_, _| {}).unwrap();
    let mut received = vec![0; 8800];
    router.read_exact(&mut received).unwrap();
    assert!(received == largest);
    router.write_all(&largest).unwrap();
    assert_eq!(size_of_next_data(&mut client), 8800);

    let router = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri: FaceUri = format!("udp://{}", router.local_addr().unwrap()).parse().unwrap();
    let mut client = Connection::to(uri, Options::default()).unwrap();
    let token = LpHeaders { pit_token: PitToken::new(&[7; 32]), ..LpHeaders::default() };
    client.outbox().send(&token, &largest);
    client.turn(0, &mut |_, _| {}).unwrap();
    // With its token the packet is longer than a datagram, so it arrives in two datagrams. Sent
    // back, the two form one packet again.
    let mut datagram = vec![0; 10_000];
    for _ in 0..2 {
        let (octets, from) = router.recv_from(&mut datagram).unwrap();
        assert!(octets <= 8800);
        router.send_to(&datagram[..octets], from).unwrap();
    }
    assert_eq!(size_of_next_data(&mut client), 8800);
}

#[test]
fn a_datagram_burst_is_read_in_few_calls() {
    const BURST: usize = 100;
    let router = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri: FaceUri = format!("udp://{}", router.local_addr().unwrap()).parse().unwrap();
    let mut client = Connection::to(uri, Options::default()).unwrap();
    client.outbox().send(&LpHeaders::default(), b"\x05\x00");
    client.turn(0, &mut |_, _| {}).unwrap();
    let (_, from) = router.recv_from(&mut [0; 10]).unwrap();
    let names: Vec<Name> = (0..BURST).map(|n| format!("/burst/{n}").parse().unwrap()).collect();
    let burst = || {
        for name in &names {
            // A lifetime within which none of them comes too late.
            let wire = InterestBuilder::new(name.clone()).lifetime_ms(600_000).build();
            router.send_to(&wire, from).unwrap();
        }
    };

    burst();
    let mut seen = Vec::new();
    let turn = client.turn(u64::MAX, &mut |incoming, _| seen.push(name_of(&incoming))).unwrap();
    assert_eq!(turn, 64, "four calls of sixteen");
    while seen.len() < BURST {
        client.turn(u64::MAX, &mut |incoming, _| seen.push(name_of(&incoming))).unwrap();
    }
    assert_eq!(seen, names);

    // The answers to the first few fill the outbox, so that the others wait for the next turns.
    burst();
    seen.clear();
    let answer = [&[6, 253, 0x1f, 0x40][..], &[0; 8000]].concat();
    let mut turns = 0;
    while seen.len() < BURST {
        let mut handler = |incoming: Incoming<'_>, outbox: &mut Outbox| {
            assert!(outbox.len() < OUTBOX_OCTETS_MAX);
            seen.push(name_of(&incoming));
            (0..30).for_each(|_| outbox.send(&LpHeaders::default(), &answer));
        };
        assert!(client.turn(u64::MAX, &mut handler).unwrap() <= 5);
        turns += 1;
    }
    assert!(turns >= BURST / 5);
    assert_eq!(seen, names);
}

fn name_of(incoming: &Incoming<'_>) -> Name {
    let Packet::Interest(interest) = incoming.packet else { panic!("{incoming:?}") };
    interest.name.into()
}

fn size_of_next_data(client: &mut Connection) -> usize {
    let mut size = 0;
    let deadline_ns = client.now_ns() + 5_000_000_000;
    while size == 0 && client.now_ns() < deadline_ns {
        client
            .turn(deadline_ns, &mut |incoming, _| {
                let Packet::Data(data) = incoming.packet else { panic!("{incoming:?}") };
                size = data.wire.len();
            })
            .unwrap();
    }
    size
}

#[test]
fn another_thread_ends_a_connection_wait() {
    let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut connection = Connection::from_stream(near).unwrap();
    let waker = connection.waker();
    waker.wake();
    waker.wake();
    connection.turn(u64::MAX, &mut |_, _| {}).unwrap();
    std::thread::scope(|scope| {
        let waiting = namely_testkit::asleep(scope, || connection.turn(u64::MAX, &mut |_, _| {}));
        assert!(!waiting.is_finished(), "the second wait lasts until it is ended");
        waker.wake();
        waiting.join().unwrap().unwrap();
    });
}

//! Packets through the rings, both ends in one process.

mod support;

use namely_memif::{Options, PushOutcome};
use proptest::prelude::*;
use support::{pair, receive, small};

#[test]
fn memif_packets_go_both_ways_in_order() {
    let (mut server, mut client) = pair(Options::default());
    for (from, to) in [(&mut server, 0), (&mut client, 1)] {
        for n in 0..5u8 {
            assert_eq!(from.sender.push(&[&[to], &[], &[n; 100]]), Ok(PushOutcome::Accepted));
        }
        from.sender.publish();
    }
    let expected = |to| (0..5u8).map(|n| [vec![to], vec![n; 100]].concat()).collect::<Vec<_>>();
    assert_eq!(receive(&mut client), expected(0));
    assert_eq!(receive(&mut server), expected(1));
    assert!(receive(&mut server).is_empty());
}

#[test]
fn packets_are_invisible_before_publication() {
    let (mut server, mut client) = pair(small());
    client.sender.push(&[b"early"]).unwrap();
    assert!(receive(&mut server).is_empty());
    client.sender.publish();
    assert_eq!(receive(&mut server), [b"early"]);
}

#[test]
fn a_full_ring_accepts_nothing_until_read() {
    let (mut server, mut client) = pair(small());
    for turn in 0..3 {
        for n in 0..8u8 {
            assert_eq!(server.sender.push(&[&[n]]), Ok(PushOutcome::Accepted), "turn {turn}");
            assert_eq!(client.sender.push(&[&[n]]), Ok(PushOutcome::Accepted), "turn {turn}");
        }
        assert_eq!(server.sender.push(&[b"x"]), Ok(PushOutcome::Full));
        assert_eq!(client.sender.push(&[b"x"]), Ok(PushOutcome::Full));
        server.sender.publish();
        client.sender.publish();
        assert_eq!(receive(&mut client).len(), 8);
        assert_eq!(receive(&mut server).len(), 8);
    }
}

#[test]
fn a_long_packet_is_chained() {
    let (mut server, mut client) = pair(small());
    let packet: Vec<u8> = (0..8 * 64).map(|n| n as u8).collect();
    for end in [&mut server, &mut client] {
        assert_eq!(end.sender.push(&[&packet[..65], &packet[65..200]]), Ok(PushOutcome::Accepted));
        assert_eq!(end.sender.push(&[&packet]), Ok(PushOutcome::Full), "three slots are in use");
        end.sender.publish();
    }
    assert_eq!(receive(&mut client), [&packet[..200]]);
    assert_eq!(receive(&mut server), [&packet[..200]]);
    for end in [&mut server, &mut client] {
        assert_eq!(end.sender.push(&[&packet, &[0]]), Ok(PushOutcome::TooLong));
        assert_eq!(end.sender.push(&[&packet]), Ok(PushOutcome::Accepted));
        end.sender.publish();
    }
    assert_eq!(receive(&mut client), [&packet[..]]);
    assert_eq!(receive(&mut server), [&packet[..]]);
}

#[test]
fn an_overlong_packet_is_counted() {
    let options = Options { packet_octets_max: 100, ..small() };
    let (mut server, mut client) = pair(options);
    client.sender.push(&[&[1; 100]]).unwrap();
    client.sender.push(&[&[2; 101]]).unwrap();
    client.sender.push(&[&[3; 1]]).unwrap();
    client.sender.publish();
    let mut packets = Vec::new();
    let received = server.receiver.receive(10, &mut |packet| {
        packets.push(packet.len());
        true
    });
    let received = received.unwrap();
    assert_eq!((packets, received.packets, received.too_long), (vec![100, 1], 3, 1));
}

#[test]
fn only_a_sleeping_peer_is_woken() {
    let (mut server, mut client) = pair(small());
    server.link.ready().unwrap();
    server.receiver.stay_awake();
    client.sender.push(&[b"1"]).unwrap();
    client.sender.publish();
    assert!(!server.link.ready().unwrap().ring, "no system call for one that is awake");
    assert!(!server.receiver.sleep(), "something came: no sleep");
    server.receiver.stay_awake();
    assert_eq!(receive(&mut server), [b"1"]);
    assert!(server.receiver.sleep());
    client.sender.push(&[b"2"]).unwrap();
    client.sender.publish();
    assert!(server.link.ready().unwrap().ring);
    assert!(!server.link.ready().unwrap().ring, "each wake-up is told once");
    assert_eq!(receive(&mut server), [b"2"]);
}

#[test]
fn packets_spread_over_several_rings() {
    let options = Options { ring_pairs: 3, ..small() };
    let (mut server, mut client) = pair(options);
    for n in 0..24u8 {
        assert_eq!(client.sender.push(&[&[n]]), Ok(PushOutcome::Accepted));
    }
    assert_eq!(client.sender.push(&[b"x"]), Ok(PushOutcome::Full));
    client.sender.publish();
    let mut packets = receive(&mut server).concat();
    packets.sort_unstable();
    assert_eq!(packets, (0..24).collect::<Vec<u8>>());
}

#[test]
fn sleeping_threads_lose_no_packets() {
    const PACKETS: u32 = 50_000;
    let (mut server, mut client) =
        pair(Options { ring_size_log2: 5, buffer_octets: 128, ..Options::default() });
    let sending = std::thread::spawn(move || {
        for n in 0..PACKETS {
            while client.sender.push(&[&n.to_ne_bytes(), &[n as u8; 100]]).unwrap() == PushOutcome::Full {
                client.sender.publish();
                std::thread::yield_now();
            }
            if n % 7 == 0 {
                client.sender.publish();
            }
        }
        client.sender.publish();
        client
    });
    let mut next = 0u32;
    while next < PACKETS {
        server.receiver.stay_awake();
        let received = server.receiver.receive(64, &mut |packet| {
            assert_eq!(packet[..4], next.to_ne_bytes());
            assert!(packet[4..].iter().all(|octet| *octet == next as u8));
            next += 1;
            true
        });
        if received.unwrap().packets < 64 && server.receiver.sleep() && next < PACKETS {
            let ready = server.link.wait(std::time::Duration::from_secs(20)).unwrap();
            assert!(ready.ring, "a wake-up was lost at {next}");
        }
    }
    drop(sending.join().unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn pushed_packets_are_received_in_any_sizes(
        lengths in prop::collection::vec(0usize..300, 1..80),
        takes in prop::collection::vec(1usize..6, 1..20),
        from_server in any::<bool>(),
    ) {
        let (server, client) = pair(small());
        let (mut from, mut to) = if from_server { (server, client) } else { (client, server) };
        let (mut expected, mut received) = (Vec::new(), Vec::new());
        let mut takes = takes.into_iter().cycle();
        for (n, length) in lengths.into_iter().enumerate() {
            let packet: Vec<u8> = (0..length).map(|m| (n * 31 + m) as u8).collect();
            let (first, second) = packet.split_at(length / 3);
            while from.sender.push(&[first, second]).unwrap() == PushOutcome::Full {
                from.sender.publish();
                let most = takes.next().unwrap_or(1);
                to.receiver.receive(most, &mut |p| { received.push(p.to_vec()); true }).unwrap();
            }
            expected.push(packet);
        }
        from.sender.publish();
        to.receiver.receive(usize::MAX, &mut |p| { received.push(p.to_vec()); true }).unwrap();
        prop_assert_eq!(received, expected);
    }
}

#[test]
fn a_server_learns_the_buffer_size_first() {
    let (near, far) = support::sockets();
    let budget = namely_memif::Budget::new(usize::MAX);
    let mut server = namely_memif::Handshake::server(near, small(), &budget).unwrap();
    let mut client = namely_memif::Handshake::client(far, small());
    let mut connected = loop {
        client = match client.proceed().unwrap() {
            namely_memif::Progress::Waiting(client) => client,
            namely_memif::Progress::Connected(_) => panic!("the server is first to know"),
        };
        server = match server.proceed().unwrap() {
            namely_memif::Progress::Waiting(server) => server,
            namely_memif::Progress::Connected(connected) => break connected,
        };
    };
    assert_eq!(connected.sender.buffer_octets(), Some(64));
    assert_eq!(connected.sender.push(&[b"at once"]), Ok(PushOutcome::Accepted));
}

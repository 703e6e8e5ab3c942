//! Peers that break the rules: on the control channel, and in the rings.

mod support;

use std::os::fd::{AsFd, OwnedFd};

use namely_memif::message::{Hello, MESSAGE_OCTETS, Message, Mode, Text, VERSION};
use namely_memif::{Budget, Fault, Handshake, Interface, Options, Progress, PushOutcome, RingFault};
use rustix::fs::{MemfdFlags, SealFlags};
use support::*;

/// The result of a server's handshake with a correct client whose messages `change` alters or
/// omits.
fn answer(options: Options, change: impl Fn(usize, Message) -> Option<Message>) -> Result<Progress, Fault> {
    let (near, far) = sockets();
    let server = Handshake::server(near, options, &Budget::new(1 << 20)).unwrap();
    let client = RawClient::new(far);
    for (n, (message, fd)) in client.messages().into_iter().enumerate() {
        if let Some(message) = change(n, message) {
            send(&client.socket, &message.encode(), fd);
        }
    }
    server.proceed()
}

fn fault(change: impl Fn(usize, Message) -> Option<Message>) -> Fault {
    answer(Options::default(), change).expect_err("the server gives up")
}

#[test]
fn an_oversized_message_ends_the_handshake() {
    assert!(matches!(answer(Options::default(), |_, m| Some(m)), Ok(Progress::Connected(_))));
    let init = |change: fn(&mut namely_memif::message::Init)| {
        fault(move |n, m| {
            let mut init = RawClient::init();
            change(&mut init);
            Some(if n == 0 { Message::Init(init) } else { m })
        })
    };
    assert_eq!(init(|init| init.version = 0x0100), Fault::BadVersion);
    assert_eq!(init(|init| init.mode = Mode(2)), Fault::BadMode);
    for (missing, expected) in
        [Fault::Unexpected, Fault::BadMemory, Fault::Unexpected, Fault::Unexpected].into_iter().enumerate()
    {
        assert_eq!(fault(|n, m| (n != missing).then_some(m)), expected, "without message {missing}");
    }
    assert_eq!(fault(|_, m| Some(if m == Message::Ack { m } else { Message::Ack })), Fault::Unexpected);
    let twice = |n, m| Some(if n == 1 { Message::Init(RawClient::init()) } else { m });
    assert_eq!(fault(twice), Fault::Unexpected);
    let region = |index, octets| {
        fault(move |n, m| Some(if n == 1 { Message::AddRegion { index, octets } } else { m }))
    };
    assert_eq!(region(1, MEMORY as u64), Fault::Unexpected);
    assert_eq!(region(0, u64::MAX), Fault::TooMuch);
    assert_eq!(region(0, 0), Fault::BadMemory);
    assert_eq!(region(0, MEMORY as u64 + 1), Fault::BadMemory);
    assert_eq!(region(0, (1 << 20) + 1), Fault::NoBudget);
    let ring = |change: fn(&mut namely_memif::message::AddRing)| {
        fault(move |n, m| {
            let mut ring = RawClient::ring(true);
            change(&mut ring);
            Some(if n == 2 { Message::AddRing(ring) } else { m })
        })
    };
    assert_eq!(ring(|ring| ring.index = 1), Fault::Unexpected);
    assert_eq!(ring(|ring| ring.region = 1), Fault::BadMemory);
    assert_eq!(ring(|ring| ring.offset = MEMORY as u32 - 8), Fault::BadMemory);
    assert_eq!(ring(|ring| ring.offset = 4), Fault::BadMemory);
    assert_eq!(ring(|ring| ring.offset = RING as u32 * 2), Fault::BadMemory, "no cookie there");
    assert_eq!(ring(|ring| ring.ring_size_log2 = 15), Fault::TooMuch);
    assert_eq!(ring(|ring| ring.private_header_octets = 8), Fault::BadMemory);
}

#[test]
fn memif_limits_admit_their_maximum() {
    let memory = |octets| Options { mapped_octets_max: octets, ..Options::default() };
    assert!(answer(memory(MEMORY), |_, m| Some(m)).is_ok());
    assert_eq!(answer(memory(MEMORY - 1), |_, m| Some(m)).err(), Some(Fault::TooMuch));
    let size = |log2| Options { ring_size_log2: log2, ..Options::default() };
    assert!(answer(size(LOG2), |_, m| Some(m)).is_ok());
    assert_eq!(answer(size(LOG2 - 1), |_, m| Some(m)).err(), Some(Fault::TooMuch));
    // A client of this crate requests no more rings and no more slots than the server admits.
    let two = Options { ring_pairs: 2, ..small() };
    for (server, client) in [(two, two), (small(), two), (two, small())] {
        assert!(shake(server, client, &Budget::new(usize::MAX)).is_ok());
    }
    let large = Options { ring_size_log2: 5, ..small() };
    assert!(shake(small(), large, &Budget::new(usize::MAX)).is_ok());
}

#[test]
fn extra_rings_and_regions_are_limited() {
    let more = |options: Options, extra: Message| {
        let (near, far) = sockets();
        let server = Handshake::server(near, options, &Budget::new(1 << 20)).unwrap();
        let client = RawClient::new(far);
        let mut messages = client.messages();
        let fd = match extra {
            Message::AddRegion { .. } => client.memory.as_fd(),
            _ => client.events[0].as_fd(),
        };
        messages.insert(4, (extra, Some(fd)));
        messages.iter().for_each(|(message, fd)| send(&client.socket, &message.encode(), *fd));
        server.proceed().err()
    };
    let ring = Message::AddRing(namely_memif::message::AddRing { index: 1, ..RawClient::ring(true) });
    let region = Message::AddRegion { index: 1, octets: 64 };
    let options = Options { ring_pairs: 1, regions_max: 1, ..Options::default() };
    assert_eq!(more(options, ring), Some(Fault::TooMuch));
    assert_eq!(more(options, region), Some(Fault::TooMuch));
    let options = Options { ring_pairs: 2, regions_max: 2, ..options };
    assert_eq!(more(options, ring), None);
    assert_eq!(more(options, region), None);
}

#[test]
fn a_configured_memif_secret_is_required() {
    let wanted = Options { secret: Text::new("sesame"), ..small() };
    let budget = Budget::new(usize::MAX);
    assert!(shake(wanted, wanted, &budget).is_ok());
    // The server sends the reason, and the client reads it.
    let fault = shake(wanted, small(), &budget).err();
    assert_eq!(fault, Some(Fault::BadSecret));
}

#[test]
fn garbage_on_the_channel_ends_it() {
    for garbage in [&b"x"[..], &[0; MESSAGE_OCTETS], &[0xff; MESSAGE_OCTETS], &[1; MESSAGE_OCTETS + 1]] {
        let (near, far) = sockets();
        let server = Handshake::server(near, Options::default(), &Budget::new(1 << 20)).unwrap();
        send(&far, garbage, None);
        assert!(matches!(server.proceed(), Err(Fault::BadMessage(_))));
        assert!(matches!(heard(&far), Some(Message::Hello(_))));
        assert!(matches!(heard(&far), Some(Message::Disconnect { .. })), "the peer is told");
    }
    let (server, client) = raw_pair();
    send(&client.socket, &[7; 3], None);
    assert!(matches!(server.link.check(), Err(Fault::BadMessage(_))));
}

#[test]
fn unsafe_memory_and_descriptors_are_refused() {
    let unsealed = rustix::fs::memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&unsealed, MEMORY as u64).unwrap();
    let (pipe, _reader) = std::io::pipe().map(|(reader, writer)| (OwnedFd::from(writer), reader)).unwrap();
    let sealed = rustix::fs::memfd_create("sealed", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&sealed, MEMORY as u64).unwrap();
    rustix::fs::fcntl_add_seals(&sealed, SealFlags::SHRINK).unwrap();
    for (at, fd) in [(1, unsealed.as_fd()), (1, pipe.as_fd()), (2, pipe.as_fd()), (3, sealed.as_fd())] {
        let (near, far) = sockets();
        let server = Handshake::server(near, Options::default(), &Budget::new(1 << 20)).unwrap();
        let client = RawClient::new(far);
        for (n, (message, own)) in client.messages().into_iter().enumerate().take(at + 1) {
            send(&client.socket, &message.encode(), if n == at { Some(fd) } else { own });
        }
        assert_eq!(server.proceed().err(), Some(Fault::BadMemory), "message {at}");
    }
}

#[test]
fn an_invalid_ring_is_a_fault() {
    let broken = |break_it: &dyn Fn(&RawClient)| {
        let (mut server, client) = raw_pair();
        break_it(&client);
        server.receiver.receive(1000, &mut |_| true).expect_err("a fault")
    };
    assert_eq!(broken(&|client| client.set_head(0, 9)), RingFault::BadIndex);
    assert_eq!(broken(&|client| client.set_head(0, 0xffff)), RingFault::BadIndex);
    let slot = |flags, region, octets, offset| {
        broken(&|client: &RawClient| {
            client.set_slot(0, 0, flags, region, octets, offset);
            client.set_head(0, 1);
        })
    };
    assert_eq!(slot(0, 1, 64, 0), RingFault::BadRegion);
    assert_eq!(slot(0, 0xffff, 64, 0), RingFault::BadRegion);
    assert_eq!(slot(0, 0, 64, MEMORY as u32 - 63), RingFault::BadRange);
    assert_eq!(slot(0, 0, 64, u32::MAX), RingFault::BadRange);
    let endless = |client: &RawClient| {
        (0..SLOTS).for_each(|slot| client.set_slot(0, slot, 1, 0, 0, 0));
        client.set_head(0, SLOTS as u16);
    };
    assert_eq!(broken(&endless), RingFault::EndlessChain);
}

#[test]
fn the_last_octet_of_memory_is_usable() {
    let (mut server, client) = raw_pair();
    client.set_slot(0, 0, 0, 0, 64, MEMORY as u32 - 64);
    client.set_head(0, 1);
    assert_eq!(server.receiver.receive(10, &mut |packet| packet.len() == 64).unwrap().packets, 1);
}

#[test]
fn an_incomplete_packet_never_spins_the_receiver() {
    let (mut server, client) = raw_pair();
    client.set_slot(0, 0, 1, 0, 64, BUFFERS as u32);
    client.set_head(0, 1);
    assert_eq!(server.receiver.receive(10, &mut |_| true).unwrap().packets, 0);
    assert!(server.receiver.sleep(), "the beginning alone is no news");
    client.set_head(0, 2);
    assert!(!server.receiver.sleep());
    assert_eq!(server.receiver.receive(10, &mut |packet| packet.len() == 128).unwrap().packets, 1);
}

#[test]
fn a_peers_buffers_are_checked_before_writes() {
    let sent = |break_it: &dyn Fn(&RawClient)| {
        let (mut server, client) = raw_pair();
        client.set_head(RING, SLOTS as u16);
        break_it(&client);
        server.sender.push(&[&[1; 64]])
    };
    assert_eq!(sent(&|_| ()), Ok(PushOutcome::Accepted));
    assert_eq!(sent(&|client| client.set_head(RING, SLOTS as u16 + 1)), Err(RingFault::BadIndex));
    assert_eq!(sent(&|client| client.set_slot(RING, 0, 0, 1, 64, 0)), Err(RingFault::BadRegion));
    let outside = MEMORY as u32 - 63;
    assert_eq!(sent(&|client| client.set_slot(RING, 0, 0, 0, 64, outside)), Err(RingFault::BadRange));
    assert_eq!(sent(&|client| client.set_slot(RING, 0, 0, 0, 0, 0)), Err(RingFault::BadRange));
    assert_eq!(
        sent(&|client| client.set_slot(RING, 0, 0, 0, u32::MAX, outside - 1)),
        Ok(PushOutcome::Accepted)
    );
}

/// A connected client of this crate, the server's socket, and the client's memory, in which a test
/// writes as a misbehaving server does.
fn client_of_raw_server() -> (Interface, OwnedFd, OwnedFd) {
    let (near, far) = sockets();
    let hello = Message::Hello(Hello {
        name: Text::new("raw"),
        min_version: VERSION,
        max_version: VERSION,
        region_max: 0,
        m2s_ring_max: 0,
        s2m_ring_max: 0,
        ring_size_log2_max: LOG2,
    });
    send(&near, &hello.encode(), None);
    (0..4).for_each(|_| send(&near, &Message::Ack.encode(), None));
    send(&near, &Message::Connected { name: Text::new("raw") }.encode(), None);
    let Progress::Connected(client) = Handshake::client(far, small()).proceed().unwrap() else {
        panic!("all was said");
    };
    let memory = loop {
        if let Some((Message::AddRegion { .. }, memory)) = heard_with_descriptor(&near) {
            break memory.unwrap();
        }
    };
    (*client, near, memory)
}

#[test]
fn an_invalid_server_is_a_client_fault() {
    let tail = |memory: &OwnedFd, ring: usize, tail: u16| {
        rustix::io::pwrite(memory, &tail.to_ne_bytes(), (ring + 64) as u64).unwrap();
    };
    let octets = |memory: &OwnedFd, slot: usize, octets: u32| {
        rustix::io::pwrite(memory, &octets.to_ne_bytes(), (RING + 128 + 16 * slot + 4) as u64).unwrap();
    };
    let (mut client, _server, memory) = client_of_raw_server();
    tail(&memory, RING, 9);
    assert_eq!(client.receiver.receive(10, &mut |_| true), Err(RingFault::BadIndex));
    let (mut client, _server, memory) = client_of_raw_server();
    octets(&memory, 0, 65);
    tail(&memory, RING, 1);
    assert_eq!(client.receiver.receive(10, &mut |_| true), Err(RingFault::BadRange));
    let (mut client, _server, memory) = client_of_raw_server();
    // The server's offset of a packet is ignored: the client knows its own buffers.
    rustix::io::pwrite(&memory, &[0xff; 4], (RING + 128 + 8) as u64).unwrap();
    tail(&memory, RING, 1);
    assert_eq!(client.receiver.receive(10, &mut |packet| packet == [0; 64]).map(|r| r.packets), Ok(1));
    tail(&memory, 0, 1);
    assert_eq!(client.sender.push(&[b"x"]), Err(RingFault::BadIndex), "read before it was sent");
}

#[test]
fn a_gone_server_and_another_version_differ() {
    let (near, far) = sockets();
    drop(near);
    assert_eq!(Handshake::client(far, small()).proceed().err(), Some(Fault::Closed));
    let (near, far) = sockets();
    send(&near, &Message::Ack.encode(), None);
    assert_eq!(Handshake::client(far, small()).proceed().err(), Some(Fault::Unexpected));
    let (near, far) = sockets();
    let mut octets = Message::Ack.encode();
    octets[..2].copy_from_slice(&2u16.to_ne_bytes());
    send(&near, &octets, None);
    assert_eq!(Handshake::client(far, small()).proceed().err(), Some(Fault::BadVersion));
}

/// As gomemif does: it masks wake-ups, and leaves it to the receiver to unmask them.
#[test]
fn a_receiver_unmasks_masked_wake_ups() {
    let (near, far) = sockets();
    let server = Handshake::server(near, Options::default(), &Budget::new(usize::MAX)).unwrap();
    let client = RawClient::new(far);
    for ring in [0, RING] {
        client.region.write(ring + 4, &1u16.to_ne_bytes());
    }
    for (message, fd) in client.messages() {
        send(&client.socket, &message.encode(), fd);
    }
    let Progress::Connected(_server) = server.proceed().unwrap() else { panic!("all was said") };
    let masked = |ring| {
        let mut flags = [0; 2];
        assert!(client.region.read(ring + 4, &mut flags));
        flags == 1u16.to_ne_bytes()
    };
    assert!(!masked(0), "the server waits to be woken");
    assert!(masked(RING), "the client's own is not the server's to change");
}

#[test]
fn a_full_blocking_eventfd_blocks_no_sender() {
    let (mut server, client) = raw_pair();
    // The client offers as many buffers as its ring has slots.
    client.set_head(RING, SLOTS as u16);
    let event = &client.events[1];
    let flags = rustix::fs::fcntl_getfl(event).unwrap();
    rustix::fs::fcntl_setfl(event, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
    rustix::io::write(event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        assert_eq!(server.sender.push(&[b"wake"]), Ok(PushOutcome::Accepted));
        server.sender.publish();
        done.send(server).unwrap();
    });
    let server = is_done.recv_timeout(std::time::Duration::from_secs(60));
    assert!(server.is_ok(), "the server waits for its peer");
}

#[test]
fn a_closed_peer_leaves_no_descriptors() {
    let before = descriptors();
    for _ in 0..20 {
        let (server, client) = pair(small());
        assert!(server.link.check().is_ok());
        drop(client);
        assert!(server.link.ready().unwrap().control);
        assert_eq!(server.link.check(), Err(Fault::Closed));
        let (server, client) = pair(small());
        client.link.disconnect("enough");
        assert_eq!(server.link.check(), Err(Fault::Disconnected(Text::new("enough"))));
    }
    // Other tests of this file run at the same time. A leak would leave several descriptors for
    // each of the forty pairs.
    assert!(descriptors() < before + 100, "{} descriptors, {before} before", descriptors());
}

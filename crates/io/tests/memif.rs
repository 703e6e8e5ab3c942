//! Shared-memory faces through a running loop.

mod support;

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use namely_io::{CloseReason, HANDSHAKES_MAX, HANDSHAKES_PER_HOLDER_MAX, IoOptions, OpenError};
use namely_memif::{Handshake, Interface, Options, Progress, PushOutcome};
use namely_messages::FacePersistency;
use namely_testkit::eventually;
use namely_wire::FaceUri;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use support::{Event, Loop, as_user, has_users, packet};

struct SocketPath {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn listening(options: IoOptions) -> (SocketPath, Loop) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.memif");
    let listener = SocketPath { _directory: directory, path };
    let io = Loop::start(options);
    let path = listener.path.clone();
    support::open_to_all(listener._directory.path());
    io.with(move |io| io.listen_memif(&path, 0o666)).unwrap();
    (listener, io)
}

impl SocketPath {
    fn socket(&self) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(&self.path).unwrap()).unwrap();
        socket
    }

    fn socket_of(&self, uid: u32) -> OwnedFd {
        as_user(uid, || self.socket())
    }

    fn connect(&self, options: Options) -> Option<Interface> {
        finish(Handshake::client(self.socket(), options))
    }
}

fn finish(mut handshake: Handshake) -> Option<Interface> {
    loop {
        handshake = match handshake.proceed() {
            Ok(Progress::Connected(interface)) => return Some(*interface),
            Ok(Progress::Waiting(handshake)) => handshake,
            Err(_) => return None,
        };
        let patience = Timespec { tv_sec: support::PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let mut fds = [PollFd::new(&handshake, PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut fds, Some(&patience)), Ok(1), "no answer");
    }
}

fn send(interface: &mut Interface, octets: &[u8]) {
    assert_eq!(interface.sender.push(&[octets]), Ok(PushOutcome::Accepted));
    interface.sender.publish();
}

/// The next packet; waits for it.
fn receive(interface: &mut Interface) -> Vec<u8> {
    let mut packet = None;
    while packet.is_none() {
        let taken = interface.receiver.receive(1, &mut |octets| {
            packet = Some(octets.to_vec());
            false
        });
        if taken.unwrap().packets == 0 && interface.receiver.sleep() {
            assert!(interface.link.wait(support::PATIENCE).unwrap().ring, "nothing came");
        }
    }
    packet.unwrap_or_default()
}

#[test]
fn a_memif_application_is_known_by_user() {
    let (listener, io) = listening(IoOptions::default());
    assert_eq!(std::fs::metadata(&listener.path).unwrap().permissions().mode() & 0o777, 0o666);
    let mut application = listener.connect(Options::default()).unwrap();
    let id = io.accepted();
    let status = io.status(id).unwrap();
    assert_eq!(status.credentials.unwrap().uid, rustix::process::getuid().as_raw());
    assert_eq!(status.local, FaceUri::Memif { path: listener.path.display().to_string(), id: 0 });
    assert_eq!(status.mtu, Some(namely_wire::LP_PACKET_OCTETS_MAX), "any packet fits one buffer");
    for octets in [0, 1, 8000, 8796] {
        let sent = packet(octets, 7);
        send(&mut application, &sent);
        assert_eq!(io.next_frame(), (id, sent.clone()));
        io.send(id, &sent);
        assert_eq!(receive(&mut application), sent);
    }
    let counters = io.status(id).unwrap().counters;
    assert_eq!((counters.in_frames, counters.out_frames), (4, 4));
    assert_eq!(counters.in_octets, counters.out_octets);
}

#[test]
fn shared_memory_fragments_are_reassembled() {
    let mut options = IoOptions::default();
    // On a slow machine the usual timeout would drop the first fragment before the second one.
    options.reassembly.timeout_ns = 3_600_000_000_000;
    let (listener, io) = listening(options);
    let mut application = listener.connect(Options::default()).unwrap();
    let id = io.accepted();
    let whole = packet(600, 1);
    for (index, range) in [(1, 300..whole.len()), (0, 0..300)] {
        send(&mut application, &support::fragment(7 + index, index, 2, &whole[range]));
    }
    assert_eq!(io.next_frame(), (id, whole));
    // A packet in a link packet lies in the middle of the copied octets.
    send(&mut application, &support::fragment(9, 0, 1, &packet(50, 2)));
    assert_eq!(io.next_frame(), (id, packet(50, 2)));
}

#[test]
fn the_mtu_follows_the_peers_buffers() {
    let (listener, io) = listening(IoOptions::default());
    let _application = listener.connect(Options { buffer_octets: 2048, ..Options::default() }).unwrap();
    assert_eq!(io.status(io.accepted()).unwrap().mtu, Some(2048));
}

#[test]
fn a_closed_memif_application_leaves_nothing() {
    let (listener, io) = listening(IoOptions::default());
    // Opens the descriptors that stay open.
    drop(listener.connect(Options::default()));
    io.closed(io.accepted());
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    for n in 0..10u8 {
        let mut application = listener.connect(Options::default()).unwrap();
        let id = io.accepted();
        send(&mut application, &packet(5, n));
        drop(application);
        assert_eq!(io.next_frame(), (id, packet(5, n)), "what was sent before is taken");
        let (reason, _) = io.closed(id);
        assert_eq!(reason, CloseReason::Memif(namely_memif::Fault::Closed));
    }
    // Other tests of this file open descriptors too; ten faces that leaked would be 50.
    eventually("descriptors are closed", || {
        std::fs::read_dir("/proc/self/fd").unwrap().count() < before + 40
    });
}

#[test]
fn a_stalled_memif_reader_is_bounded() {
    let options = IoOptions { queue_octets_max: 100_000, ..IoOptions::default() };
    let (listener, io) = listening(options);
    let small = Options { ring_size_log2: 4, ..Options::default() };
    let mut idle = listener.connect(small).unwrap();
    let id = io.accepted();
    let mut sent = 0u64;
    while io.drops(id, "queue_full") == 0 {
        let frame = support::frame(&packet(5000, 1));
        let _ = io.with(move |io| support::push(io, id, frame));
        sent += 1;
        assert!(sent < 1000, "the queue has no end");
    }
    let taken = sent - io.drops(id, "queue_full");
    for _ in 0..taken {
        assert_eq!(receive(&mut idle).len(), packet(5000, 1).len());
    }
    let mut other = listener.connect(small).unwrap();
    let other_id = io.accepted();
    io.send(other_id, &packet(3, 3));
    assert_eq!(receive(&mut other), packet(3, 3));
}

#[test]
fn memif_applications_are_isolated() {
    let (listener, io) = listening(IoOptions::default());
    let mut first = listener.connect(Options::default()).unwrap();
    let first_id = io.accepted();
    let mut second = listener.connect(Options::default()).unwrap();
    let second_id = io.accepted();
    send(&mut first, &packet(1, 1));
    assert_eq!(io.next_frame(), (first_id, packet(1, 1)));
    send(&mut second, &packet(2, 2));
    assert_eq!(io.next_frame(), (second_id, packet(2, 2)));
    io.send(first_id, &packet(3, 3));
    io.send(second_id, &packet(4, 4));
    assert_eq!((receive(&mut first), receive(&mut second)), (packet(3, 3), packet(4, 4)));
}

#[test]
fn peers_without_memif_are_closed() {
    let (listener, io) = listening(IoOptions::default());
    for garbage in [&b"GET / HTTP/1.0\r\n"[..], &[0; 128], &[255; 128]] {
        let socket = listener.socket();
        rustix::net::send(&socket, garbage, rustix::net::SendFlags::NOSIGNAL).unwrap();
        eventually("it is closed", || {
            let flags = rustix::net::RecvFlags::DONTWAIT;
            matches!(rustix::net::recv(&socket, &mut [0u8; 256][..], flags), Ok((0, _)))
        });
    }
    eventually("three are refused", || io.listener_drops("memif_protocol") == 3);
    drop(listener.socket());
    eventually("one has gone", || io.listener_drops("memif_gone") == 1);
    assert!(UnixStream::connect(&listener.path).is_err(), "a stream socket is another thing");
}

#[test]
fn waiting_memif_handshakes_are_limited() {
    if !has_users() {
        return;
    }
    let (listener, io) = listening(IoOptions::default());
    let waiting: Vec<OwnedFd> = (0..HANDSHAKES_PER_HOLDER_MAX).map(|_| listener.socket_of(4711)).collect();
    assert!(io.is_quiet_for(Duration::from_millis(50)));
    assert_eq!(io.listener_drops("memif_handshakes_full"), 0);
    let _application =
        as_user(4711, || listener.connect(Options::default())).expect("one more still gets in");
    io.accepted();
    assert_eq!(io.listener_drops("memif_handshakes_full"), 1);
    drop(waiting);
}

#[test]
fn a_started_handshake_survives_other_users() {
    if !has_users() {
        return;
    }
    let (listener, io) = listening(IoOptions::default());
    let begun = [0, 4712].map(|uid| Handshake::client(listener.socket_of(uid), Options::default()));
    // On one thread: the handshakes above have five seconds, in which a busy machine may not run
    // hundreds of threads.
    let waiting: Vec<OwnedFd> =
        as_user(4711, || (0..2 * HANDSHAKES_MAX).map(|_| listener.socket()).collect());
    // While many descriptors of this user wait to be closed, its further connections are refused
    // immediately.
    let gone = || io.listener_drops("memif_handshakes_full") + io.listener_drops("memif_descriptors_full");
    eventually("those without a place have gone", || {
        gone() == (2 * HANDSHAKES_MAX - HANDSHAKES_PER_HOLDER_MAX) as u64
    });
    let _kept = begun.map(|handshake| {
        let interface = finish(handshake).expect("it goes on");
        io.accepted();
        interface
    });
    drop(waiting);
}

#[test]
fn a_slow_handshake_releases_its_memory() {
    let (listener, io) = listening(IoOptions::default());
    let slow = listener.socket();
    eventually("its time is over", || io.listener_drops("memif_handshake_timeout") == 1);
    let mut hello = [0; 256];
    let flags = rustix::net::RecvFlags::DONTWAIT;
    assert!(rustix::net::recv(&slow, &mut hello[..], flags).is_ok());
    eventually("it is closed", || matches!(rustix::net::recv(&slow, &mut [0u8; 256][..], flags), Ok((0, _))));
}

#[test]
fn mapped_memory_is_limited_over_all_peers() {
    if !has_users() {
        return;
    }
    let mut options = IoOptions::default();
    options.memif.mapped_octets_total_max = 25 << 20;
    options.memif.interface.mapped_octets_max = 10 << 20;
    let (listener, io) = listening(options);
    let connect = |uid| as_user(uid, || listener.connect(Options::default()));
    let first = connect(4711).unwrap();
    let id = io.accepted();
    assert!(connect(4711).is_none(), "one user has at most half");
    let _second = connect(4712).unwrap();
    io.accepted();
    // The other users have less memory than one face may use, so none of their faces is evicted.
    assert!(connect(4713).is_none());
    eventually("two were too much", || io.listener_drops("memif_too_much") == 2);
    drop(first);
    io.closed(id);
    assert!(connect(4713).is_some(), "memory that was given back");
}

/// An interface of 39 MiB.
fn large() -> Options {
    Options { ring_size_log2: 11, ..Options::default() }
}

#[test]
fn one_user_cannot_map_all_memory() {
    if !has_users() {
        return;
    }
    let (listener, io) = listening(IoOptions::default());
    let connect = |uid| as_user(uid, || listener.connect(large()));
    let fill = |uid| {
        let faces: Vec<Interface> = std::iter::from_fn(|| connect(uid)).take(100).collect();
        (faces.iter().map(|_| io.accepted()).collect::<Vec<_>>(), faces)
    };
    let (ids, mut faces) = fill(4711);
    assert_eq!(faces.len(), (512 << 20) / (39 << 20), "half of 1 GiB");
    let (others, _more) = fill(4712);
    assert_eq!(others.len(), ids.len(), "another user has as much");
    let _small = connect(4713).expect("a third user");
    io.accepted();
    // Less memory is free now than another face needs. The first face is busy.
    send(&mut faces[0], &packet(9, 9));
    assert_eq!(io.next_frame(), (ids[0], packet(9, 9)));
    let mut third = connect(4713).expect("another one of the third user");
    let (mut third_id, mut gone) = (None, None);
    while third_id.is_none() || gone.is_none() {
        match io.next_event() {
            Event::Accepted(id) => third_id = Some(id),
            Event::Closed { face, reason, .. } => gone = Some((face, reason)),
            event => panic!("{event:?}"),
        }
    }
    let idlest = [(ids[1], CloseReason::Evicted), (others[0], CloseReason::Evicted)];
    assert!(idlest.contains(&gone.unwrap()), "{gone:?}");
    let mut root = listener.connect(large()).expect("root");
    let root_id = io.accepted();
    let third_id = third_id.unwrap();
    for (application, id) in [(&mut faces[0], ids[0]), (&mut third, third_id), (&mut root, root_id)] {
        send(application, &packet(20, 1));
        assert_eq!(io.next_frame(), (id, packet(20, 1)));
    }
}

#[test]
fn a_face_follows_its_memif_server() {
    let (listener, server) = listening(IoOptions::default());
    let client = Loop::start(IoOptions::default());
    let path = listener.path.clone();
    let id = client.open(move |io| io.connect_memif(&path, 7, FacePersistency::Persistent)).unwrap();
    assert!(matches!(client.next_event(), Event::Up(up) if up == id));
    let at_server = server.accepted();
    client.send(id, &packet(9, 9));
    assert_eq!(server.next_frame(), (at_server, packet(9, 9)));
    server.send(at_server, &packet(10, 10));
    assert_eq!(client.next_frame(), (id, packet(10, 10)));
    drop(server);
    client.closed(id);
}

#[test]
fn a_permanent_memif_face_awaits_its_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.memif");
    let client = Loop::start(IoOptions::default());
    let remote = path.clone();
    let gone = client.open(move |io| io.connect_memif(&remote, 0, FacePersistency::Persistent));
    assert!(matches!(gone, Err(OpenError::System { .. })), "{gone:?}");
    let remote = path.clone();
    let id = client.open(move |io| io.connect_memif(&remote, 0, FacePersistency::Permanent)).unwrap();
    for n in 1..=2 {
        let server = Loop::start(IoOptions::default());
        let listening = path.clone();
        server.with(move |io| io.listen_memif(&listening, 0o600)).unwrap();
        assert!(matches!(client.next_event(), Event::Up(up) if up == id));
        let at_server = server.accepted();
        client.send(id, &packet(n, 9));
        assert_eq!(server.next_frame(), (at_server, packet(n, 9)));
        server.send(at_server, &packet(10 + n, 10));
        assert_eq!(client.next_frame(), (id, packet(10 + n, 10)));
        drop(server);
        assert!(matches!(client.next_event(), Event::Down(down, _) if down == id));
    }
}

#[test]
fn memif_socket_path_errors_are_distinct() {
    let (listener, io) = listening(IoOptions::default());
    let path = listener.path.clone();
    assert!(matches!(io.with(move |io| io.listen_memif(&path, 0o600)), Err(OpenError::InUse(_))));
    let file = listener.path.with_extension("txt");
    std::fs::write(&file, "x").unwrap();
    assert!(matches!(io.with(move |io| io.listen_memif(&file, 0o600)), Err(OpenError::NotASocket(_))));
}

//! The shares of one peer, user or address, and of the others.

use crate::support;

use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use namely_datagrams::mmsg::{self, Outgoing};
use namely_io::{FACES_ROOT_EXTRA, FaceShares, IoOptions};
use namely_testkit::{Need, eventually, skip};
use support::{Event, Loop, PATIENCE, Seen, as_user, connect_from, has_users, packet};

/// A loop that listens on a Unix socket, a UDP port and a TCP port, and sends packets back.
struct Router {
    io: Loop,
    _directory: tempfile::TempDir,
    path: PathBuf,
    udp: SocketAddr,
    tcp: SocketAddr,
}

impl Router {
    fn start(options: IoOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        support::open_to_all(directory.path());
        let path = directory.path().join("r.sock");
        let (io, unix) = (Loop::echo(options), path.clone());
        let [udp, tcp] = io.with(move |io| {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            io.listen_unix(&unix, 0o666).unwrap();
            let opened = [io.listen_udp(any), io.listen_tcp(any)];
            opened.map(|uri| uri.unwrap().address()).map(|address| address.unwrap())
        });
        let udp = if udp.port() > 0 { udp } else { io.with(udp_address) };
        Router { io, _directory: directory, path, udp, tcp }
    }

    /// Faces of UDP peers.
    fn udp_faces(&self) -> usize {
        support::open_ports(self.udp)
    }
}

fn udp_address(io: &mut support::Io) -> SocketAddr {
    let udp = |uri: &namely_wire::FaceUri| matches!(uri, namely_wire::FaceUri::Udp(_));
    io.listeners().find(|(uri, _)| udp(uri)).and_then(|(uri, _)| uri.address()).unwrap()
}

fn connect(path: &Path, uid: u32) -> UnixStream {
    let stream = as_user(uid, || UnixStream::connect(path).unwrap());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a packet and returns true if it comes back; false if the connection is closed instead.
fn is_served(stream: &mut (impl Read + Write), fill: u8) -> bool {
    let sent = packet(20, fill);
    let mut back = vec![0; sent.len()];
    stream.write_all(&sent).is_ok() && stream.read_exact(&mut back).is_ok() && back == sent
}

/// Sends one datagram from each of `senders` senders, and calls `sent` after each.
fn flood(router: SocketAddr, senders: u16, mut sent: impl FnMut(&UdpSocket)) {
    for n in 0..senders {
        let [high, low] = n.to_be_bytes();
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 8, high, low), 0)).unwrap();
        socket.connect(router).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send(&packet(10, 1)).unwrap();
        sent(&socket);
    }
}

#[test]
fn a_flood_of_senders_admits_others() {
    // The limit of a router without a configuration.
    let faces_max = 4096;
    if namely_io::descriptors::make_room_for(faces_max + 1024) < faces_max + 1024 {
        return skip(Need::Kernel, "the system's limit on open files is too low");
    }
    let router = Router::start(IoOptions { faces_max, ..IoOptions::default() });
    let neighbour = UdpSocket::bind("127.0.0.1:0").unwrap();
    neighbour.connect(router.udp).unwrap();
    neighbour.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut early = connect(&router.path, 4711);
    assert!(is_served(&mut early, 1));
    // Each sender waits for its answer, so no datagram is lost. Answered senders are the hardest
    // case, because they look like peers.
    flood(router.udp, 5000, |socket| {
        assert!(namely_testkit::uninterrupted(|| socket.recv(&mut [0; 100])).is_ok())
    });
    eventually("faces go", || router.udp_faces() <= faces_max / 4 * 3);
    assert!(router.udp_faces() >= faces_max / 4 * 3 - 1, "{} faces", router.udp_faces());
    assert!(router.io.listener_drops("transport_evicted") >= 1900);
    let mut root = UnixStream::connect(&router.path).unwrap();
    root.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(is_served(&mut root, 2), "the router's own user");
    assert!(is_served(&mut connect(&router.path, 4712), 3), "another user");
    assert!(is_served(&mut early, 4), "who was there before");
    let mut tcp = TcpStream::connect(router.tcp).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(is_served(&mut tcp, 5), "a neighbor by TCP");
    neighbour.send(&packet(10, 6)).unwrap();
    let mut octets = [0; 100];
    let length = namely_testkit::uninterrupted(|| neighbour.recv(&mut octets)).unwrap();
    assert_eq!(octets[..length], packet(10, 6));
}

#[test]
fn a_holder_gets_at_most_a_quarter() {
    if !has_users() {
        return;
    }
    let router = Router::start(IoOptions { faces_max: 40, ..IoOptions::default() });
    let mut streams: Vec<_> = (0..10).map(|_| connect(&router.path, 4711)).collect();
    assert!(streams.iter_mut().all(|stream| is_served(stream, 1)));
    assert!(!is_served(&mut connect(&router.path, 4711), 2));
    let tcp = || {
        let stream = TcpStream::connect(router.tcp).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut connections: Vec<_> = (0..10).map(|_| tcp()).collect();
    assert!(connections.iter_mut().all(|stream| is_served(stream, 3)));
    assert!(!is_served(&mut tcp(), 4));
    assert_eq!(router.io.listener_drops("too_many_of_one_peer"), 2);
    assert!(is_served(&mut connect(&router.path, 4712), 5), "another user");
    let other = UdpSocket::bind("127.0.0.9:0").unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    other.send_to(&packet(10, 6), router.udp).unwrap();
    assert!(namely_testkit::uninterrupted(|| other.recv(&mut [0; 100])).is_ok(), "another address");
}

#[test]
fn the_largest_users_idlest_face_goes() {
    if !has_users() {
        return;
    }
    let face_shares = FaceShares { per_uid_max: 40, ..FaceShares::default() };
    let router = Router::start(IoOptions { faces_max: 50, face_shares, ..IoOptions::default() });
    let mut large: Vec<_> = (0..40).map(|_| connect(&router.path, 4711)).collect();
    let mut small: Vec<_> = (0..10).map(|_| connect(&router.path, 4712)).collect();
    assert!(small.iter_mut().chain(&mut large).all(|stream| is_served(stream, 1)));
    // The first of the large user's connections was active just now.
    assert!(is_served(&mut large[0], 2));
    assert!(is_served(&mut connect(&router.path, 4713), 3), "a third user");
    assert!(!is_served(&mut large[1], 4), "the idlest went");
    assert!(is_served(&mut large[0], 5));
    assert!(small.iter_mut().all(|stream| is_served(stream, 6)));
    let mut root: Vec<_> =
        (0..FACES_ROOT_EXTRA).map(|_| UnixStream::connect(&router.path).unwrap()).collect();
    assert!(root.iter_mut().all(|stream| is_served(stream, 7)));
}

#[test]
fn an_evicted_face_ends_like_others() {
    let face_shares = FaceShares { per_address_max: 1, ..FaceShares::default() };
    let io = Loop::start(IoOptions { faces_max: 1, face_shares, ..IoOptions::default() });
    let router = io.with(|io| {
        io.listen_udp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        udp_address(io)
    });
    let mut faces = Vec::new();
    flood(router, 2, |_| {
        loop {
            match io.next() {
                Seen::Event(Event::Accepted(face)) => faces.push(face),
                Seen::Frame(..) => break,
                Seen::Event(other) => panic!("{other:?}"),
            }
        }
    });
    let (_, status) = io.closed(faces[0]);
    assert_eq!(status.counters.in_frames, 1);
    assert!(support::port(faces[0]).is_none() && support::port(faces[1]).is_some());
}

/// Sends packets and reads none of the answers.
fn send_without_reading(stream: &TcpStream, octets: usize) {
    let mut stream = stream.try_clone().unwrap();
    let chunk: Vec<u8> = (0..32).flat_map(|n| packet(8000, n)).collect();
    for _ in 0..octets / chunk.len() {
        stream.write_all(&chunk).unwrap();
    }
}

#[test]
fn idle_readers_pay_for_their_queues() {
    // On a slow machine the usual timeout would close readers before the limit is reached.
    let router = Router::start(IoOptions { stall_ns: 3_600_000_000_000, ..IoOptions::default() });
    let mut neighbour = connect_from(Ipv4Addr::new(127, 0, 0, 2), router.tcp);
    assert!(is_served(&mut neighbour, 1));
    // 40 connections of one address, each with more octets than its queue of 8 MiB takes. Together
    // they would take 320 MiB, and the limit is 256 MiB.
    let greedy: Vec<_> = (0..40).map(|_| connect_from(Ipv4Addr::new(127, 0, 0, 3), router.tcp)).collect();
    greedy.iter().for_each(|stream| send_without_reading(stream, 16 << 20));
    assert!(is_served(&mut neighbour, 2), "who was there before");
    assert!(is_served(&mut connect(&router.path, 4711), 3), "an application");
    assert!(is_served(&mut UnixStream::connect(&router.path).unwrap(), 4), "the router's own user");
    assert!(is_served(&mut connect_from(Ipv4Addr::new(127, 0, 0, 4), router.tcp), 5), "a new neighbor");
    let dropped = |stream: &TcpStream| support::drops_to(stream.local_addr().unwrap(), "queues_full");
    assert!(greedy.iter().map(dropped).sum::<u64>() > 0, "the limit was reached");
    assert_eq!(dropped(&neighbour), 0);
}

#[test]
fn a_stalled_connection_is_closed() {
    // The slow reader is in time even if this thread stalls for some seconds.
    let stall_ns = 10_000_000_000;
    let router = Router::start(IoOptions { stall_ns, ..IoOptions::default() });
    let [standing, mut slow] = [3, 4].map(|n| connect_from(Ipv4Addr::new(127, 0, 0, n), router.tcp));
    [&standing, &slow].into_iter().for_each(|stream| send_without_reading(stream, 8 << 20));
    let is_open = |stream: &TcpStream| support::open_to(stream.local_addr().unwrap());
    // More than the kernel buffers for a reader before it reports room to the sender.
    let mut octets = vec![0; 512 << 10];
    let mut reads = 0;
    while is_open(&standing) {
        assert!(is_open(&slow), "after {reads} reads");
        slow.read_exact(&mut octets).unwrap();
        reads += 1;
        std::thread::sleep(Duration::from_millis(1500));
    }
    assert!(is_open(&slow));
}

#[test]
fn a_fragment_flood_leaves_others_memory() {
    let mut options = IoOptions::default();
    // On a slow machine the usual timeout would drop incomplete messages during the test.
    options.reassembly.timeout_ns = 3_600_000_000_000;
    let router = Router::start(options);
    let bind = |host: u8| {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).unwrap();
        socket.connect(router.udp).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // Each peer waits for its face before it sends more, because packets sent meanwhile can be
        // lost.
        socket.send(&packet(10, 1)).unwrap();
        assert!(namely_testkit::uninterrupted(|| socket.recv(&mut [0; 100])).is_ok());
        socket
    };
    // Four hosts, each of which sends more than its quarter.
    for host in 10..14 {
        for _ in 0..20 {
            let socket = bind(host);
            for n in 0..30u64 {
                socket.send(&support::fragment(n * 2, 0, 2, &[1; 8000])).unwrap();
            }
            // After this answer the router has read all fragments of this peer.
            socket.send(&packet(10, 2)).unwrap();
            assert!(namely_testkit::uninterrupted(|| socket.recv(&mut [0; 100])).is_ok());
        }
    }
    let whole = packet(600, 7);
    let halves = [support::fragment(1, 0, 2, &whole[..300]), support::fragment(2, 1, 2, &whole[300..])];
    let neighbour = bind(20);
    halves.iter().for_each(|half| assert!(neighbour.send(half).is_ok()));
    let mut octets = [0; 1000];
    let length = namely_testkit::uninterrupted(|| neighbour.recv(&mut octets)).unwrap();
    assert_eq!(octets[..length], whole, "another neighbor");
    assert!(is_served(&mut connect(&router.path, 4711), 3), "an application");
    assert!(is_served(&mut UnixStream::connect(&router.path).unwrap(), 4), "root");
}

/// Sixteen messages, each a run of datagrams that the kernel coalesces. One call could return all
/// of them.
#[test]
fn datagram_runs_get_no_longer_turns() {
    let io = Loop::start(IoOptions::default());
    io.with(|io| io.listen_udp((Ipv4Addr::LOCALHOST, 0).into()).map(drop)).unwrap();
    let router = io.with(udp_address);
    let peer = |host| {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).unwrap();
        socket.connect(router).unwrap();
        socket.send(&packet(20, host)).unwrap();
        let id = io.accepted();
        assert_eq!(io.next_frame(), (id, packet(20, host)));
        (socket, id)
    };
    let ((busy, _), (other, id)) = (peer(2), peer(3));
    let (octets, run) = (packet(20, 2).len() as u16, packet(20, 2).repeat(64));
    let slices = [IoSlice::new(&run)];
    let message = Outgoing { slices: &slices, segment_octets: Some(octets) };
    let held = io.hold();
    (0..16).for_each(|_| assert_eq!(mmsg::send(&busy, std::iter::once(message)), Ok(1)));
    other.send(&packet(20, 3)).unwrap();
    drop(held);
    let mut before = 0;
    while io.next_frame().0 != id {
        before += 1;
    }
    assert!(before <= 8 * 64, "{before} datagrams of another peer were served before");
    (before..16 * 64).for_each(|_| assert!(io.next_frame().0 != id));
}

/// Requests to a worker are limited by turns, too: three long ones run in three turns.
#[test]
fn worker_requests_run_in_order() {
    let io = Loop::start(IoOptions::default());
    let (turns, held) = (Arc::new(Mutex::new(Vec::new())), io.hold());
    for n in 0..3 {
        let turns = turns.clone();
        io.post(move |io| {
            turns.lock().unwrap().push((n, io.now_ns()));
            std::thread::sleep(Duration::from_millis(2));
        });
    }
    drop(held);
    io.with(|_| ());
    let turns = turns.lock().unwrap();
    assert_eq!(turns.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(turns.windows(2).all(|two| two[0].1 < two[1].1), "each in a turn of its own: {turns:?}");
}

#[test]
fn one_hosts_faces_delay_no_other_host() {
    let io = Loop::start(IoOptions::default());
    io.with(|io| io.listen_tcp((Ipv4Addr::LOCALHOST, 0).into()).map(drop)).unwrap();
    let router = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    let mut busy: Vec<_> = (0..300)
        .map(|_| {
            let stream = connect_from(Ipv4Addr::new(127, 0, 0, 2), router);
            (stream, io.accepted())
        })
        .collect();
    let mut other = connect_from(Ipv4Addr::new(127, 0, 0, 3), router);
    let id = io.accepted();
    // All sources are readable when the worker polls, and the other host's source became readable
    // last.
    let held = io.hold();
    busy.iter_mut().for_each(|(stream, _)| stream.write_all(&packet(20, 1)).unwrap());
    other.write_all(&packet(20, 2)).unwrap();
    drop(held);
    let mut before = 0;
    while io.next_frame().0 != id {
        before += 1;
    }
    assert!(before <= 4, "{before} faces of another host were served before");
    (before..300).for_each(|_| assert!(io.next_frame().0 != id));
}

/// A peer without answers has a small part of the worker's time, in which everything in its socket
/// is read. Others are served meanwhile.
#[test]
fn an_unanswered_peer_delays_no_other() {
    const PACKETS: usize = 20_000;
    /// Packets that the other peer sends. It waits for the answer to each.
    const OF_OTHER: usize = 11;
    let io = Loop::start(IoOptions::default());
    io.with(|io| io.listen_tcp((Ipv4Addr::LOCALHOST, 0).into()).map(drop)).unwrap();
    let router = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    let mut busy = connect_from(Ipv4Addr::new(127, 0, 0, 2), router);
    let busy_id = io.accepted();
    let mut other = connect_from(Ipv4Addr::new(127, 0, 0, 3), router);
    let other_id = io.accepted();
    // These packets may still be answered.
    busy.write_all(&packet(20, 1).repeat(100)).unwrap();
    (0..100).for_each(|_| assert_eq!(io.next_frame().0, busy_id));
    std::thread::sleep(Duration::from_millis(250));
    // The busy peer goes on until the other one is done, because this thread may stall while the
    // loop reads.
    let is_done = Arc::new(AtomicBool::new(false));
    let sender = std::thread::spawn({
        let is_done = is_done.clone();
        move || {
            let packets = packet(20, 1).repeat(100);
            let mut sent = 0;
            while sent < PACKETS || !is_done.load(Ordering::Relaxed) {
                busy.write_all(&packets).unwrap();
                sent += 100;
            }
            (busy, sent)
        }
    });
    let (mut of_busy, mut of_other) = (0, 0);
    other.write_all(&packet(20, 2)).unwrap();
    while of_other < OF_OTHER || of_busy < PACKETS {
        let (id, _) = io.next_frame();
        if id == busy_id {
            of_busy += 1;
            // The busy peer's part of the worker's time for about a minute.
            assert!(of_busy < 100 * PACKETS, "{of_other} packets of the other one meanwhile");
        } else if id == other_id {
            of_other += 1;
            // The other peer receives the answer, and sends the next request.
            io.send(other_id, &packet(20, 3));
            if of_other < OF_OTHER {
                other.write_all(&packet(20, 2)).unwrap();
            }
        }
    }
    is_done.store(true, Ordering::Relaxed);
    // The loop reads on while the sender waits for room in its socket.
    let (busy, sent) = sender.join().unwrap();
    (of_busy..sent).for_each(|_| assert_eq!(io.next_frame().0, busy_id));
    drop(busy);
    // All packets of the busy peer were read, so the loop detects the end of its connection at
    // once.
    while !matches!(io.next(), Seen::Event(Event::Closed { face, .. }) if face == busy_id) {}
}

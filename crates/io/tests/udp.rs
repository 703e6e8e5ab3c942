//! UDP through a running loop.

use crate::support;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use namely_io::{
    CloseReason, FaceShares, FaceState, FaceTag, IoOptions, MulticastOptions, OpenError, UdpOptions,
    Unanswered, UnprovenLimits,
};
use namely_messages::FacePersistency;
use namely_testkit::{Need, eventually, skip, until};
use namely_wire::FaceUri;
use support::namespace::Namespace;
use support::{Event, Loop, PATIENCE, Seen, packet, push};

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A loop that sends to its peers without limits; another file tests the limits of unproven peers.
fn listening(options: IoOptions) -> (Loop, SocketAddr) {
    let io = Loop::start(IoOptions { unproven: UnprovenLimits::NONE, ..options });
    io.with(|io| io.listen_udp(loopback())).unwrap();
    let address = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    (io, address)
}

fn peer(router: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(loopback()).unwrap();
    socket.connect(router).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A peer that has a face at the router.
fn known(io: &Loop, router: SocketAddr) -> (UdpSocket, FaceTag) {
    let socket = peer(router);
    socket.send(&packet(10, 0)).unwrap();
    let id = io.accepted();
    assert_eq!(io.next_frame(), (id, packet(10, 0)));
    (socket, id)
}

fn received(socket: &UdpSocket) -> Vec<u8> {
    let mut octets = vec![0; 65536];
    let length = namely_testkit::uninterrupted(|| socket.recv(&mut octets)).unwrap();
    octets.truncate(length);
    octets
}

#[test]
fn each_peer_gets_its_own_transport() {
    let (io, router) = listening(IoOptions::default());
    let (a, a_id) = known(&io, router);
    let (b, b_id) = known(&io, router);
    assert_ne!(a_id, b_id);
    for (socket, id, fill) in [(&a, a_id, 1), (&b, b_id, 2)] {
        let status = io.status(id).unwrap();
        assert_eq!(status.remote.address(), socket.local_addr().ok());
        assert_eq!(status.local.address(), Some(router));
        assert_eq!(status.persistency, FacePersistency::OnDemand);
        assert!(status.expires_ns.is_some());
        socket.send(&packet(8796, fill)).unwrap();
        assert_eq!(io.next_frame(), (id, packet(8796, fill)));
        io.send(id, &packet(8796, fill));
        assert_eq!(received(socket), packet(8796, fill));
    }
}

#[test]
fn a_face_keeps_its_own_port() {
    let io = Loop::start(IoOptions::default());
    let peer = UdpSocket::bind(loopback()).unwrap();
    let remote = peer.local_addr().unwrap();
    // Another process may take the port in between.
    let face = until("the port is free", || {
        let local = UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
        io.open(move |io| io.open_udp(remote, Some(local), FacePersistency::Permanent)).ok()
    });
    let before = io.status(face).unwrap();
    // Its address is there still, and a second socket cannot bind its port.
    io.addresses_changed();
    let after = io.status(face).unwrap();
    assert_eq!((after.state, after.local), (FaceState::Up, before.local));
    assert_eq!(after.socket_inode, before.socket_inode);
}

/// No event reports a route that changes, only the silence after it.
#[test]
fn a_silent_face_checks_its_own_address() {
    let Some(namespace) = Namespace::new() else { return };
    // The peer is on this host. Packets to it leave from the address of the route.
    let route =
        |source: &str| namespace.ip(&format!("route replace local 10.9.0.7 dev lo table local src {source}"));
    let commands = [
        "link set lo up",
        "addr add 10.9.0.1/32 dev lo",
        "addr add 10.9.0.2/32 dev lo",
        "addr add 10.9.0.7/32 dev lo",
    ];
    if !(commands.into_iter().all(|words| namespace.ip(words)) && route("10.9.0.1")) {
        return;
    }
    namespace.enter(|| {
        let udp = UdpOptions { silence_ns: 20_000_000, ..IoOptions::default().udp };
        let io = Loop::start(IoOptions { udp, ..IoOptions::default() });
        let peer = UdpSocket::bind("10.9.0.7:0").unwrap();
        let remote = peer.local_addr().unwrap();
        let face = io.open(move |io| io.open_udp(remote, None, FacePersistency::Permanent)).unwrap();
        let source = || io.status(face).unwrap().local.ip().unwrap().to_string();
        let first = io.status(face).unwrap().socket_inode;
        assert_eq!(source(), "10.9.0.1");
        assert!(route("10.9.0.2"));
        eventually("it sends from the other address", || {
            io.send(face, &packet(10, 1));
            source() == "10.9.0.2"
        });
        assert_ne!(io.status(face).unwrap().socket_inode, first, "another socket");
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        io.send(face, &packet(10, 2));
        let mut octets = [0; 100];
        eventually("the peer receives from it", || {
            let (_, from) = namely_testkit::uninterrupted(|| peer.recv_from(&mut octets)).unwrap();
            from.ip().to_string() == "10.9.0.2"
        });
    });
}

#[test]
fn a_bad_datagram_affects_nothing_else() {
    let (io, router) = listening(IoOptions::default());
    let (socket, id) = known(&io, router);
    let truncated = &packet(500, 1)[..100];
    let bad: [&[u8]; 6] =
        [&[], &[6], &[0xff; 700], truncated, &[6, 255, 0, 0, 1, 0, 0, 0, 0, 0], &[7; 20000]];
    for (n, garbage) in bad.into_iter().enumerate() {
        socket.send(garbage).unwrap();
        eventually("it is dropped", || io.status(id).unwrap().counters.drops.total() == n as u64 + 1);
        socket.send(&packet(100, 2)).unwrap();
        assert_eq!(io.next_frame(), (id, packet(100, 2)));
    }
}

#[test]
fn noise_makes_no_transport() {
    let (io, router) = listening(IoOptions::default());
    let socket = peer(router);
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], &packet(500, 1)[..100], &[0; 40], &[0xff; 40]] {
        socket.send(noise).unwrap();
    }
    eventually("four are dropped", || io.listener_drops("not_a_packet") == 4);
    socket.send(&packet(10, 1)).unwrap();
    assert_eq!(io.next_frame_after_accept(), packet(10, 1));
}

trait AfterAccept {
    fn next_frame_after_accept(&self) -> Vec<u8>;
}

impl AfterAccept for Loop {
    fn next_frame_after_accept(&self) -> Vec<u8> {
        let id = self.accepted();
        let (from, octets) = self.next_frame();
        assert_eq!(from, id);
        octets
    }
}

#[test]
fn an_answer_returns_to_its_transport() {
    let (io, router) = listening(IoOptions::default());
    let socket = UdpSocket::bind(loopback()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = socket.local_addr().unwrap();
    let id = io.open(move |io| io.open_udp(address, None, FacePersistency::Persistent)).unwrap();
    io.send(id, &packet(10, 1));
    let mut octets = [0; 100];
    let (length, from) = namely_testkit::uninterrupted(|| socket.recv_from(&mut octets)).unwrap();
    assert_eq!((&octets[..length], from), (&packet(10, 1)[..], router));
    socket.send_to(&packet(10, 2), router).unwrap();
    assert_eq!(io.next_frame(), (id, packet(10, 2)));
}

#[test]
fn a_missing_channel_uses_a_free_port() {
    let io = Loop::start(IoOptions::default());
    let socket = UdpSocket::bind(loopback()).unwrap();
    let address = socket.local_addr().unwrap();
    let id = io.open(move |io| io.open_udp(address, None, FacePersistency::Permanent)).unwrap();
    assert!(io.status(id).unwrap().local.address().unwrap().port() > 0);
}

#[test]
fn a_lost_peer_ends_only_its_transport() {
    let (io, router) = listening(IoOptions::default());
    let (socket, on_demand) = known(&io, router);
    drop(socket);
    // A process that another test forks holds a copy of the socket until it executes its program.
    // Until then the socket takes what is sent.
    eventually("the peer is lost", || {
        io.with(move |io| push(io, on_demand, support::frame(&packet(10, 1)))).is_err()
    });
    assert_eq!(io.closed(on_demand).0, CloseReason::System(rustix::io::Errno::CONNREFUSED));
    // No other socket takes this port by chance.
    let gone = namely_testkit::free_address();
    let permanent = io.open(move |io| io.open_udp(gone, None, FacePersistency::Permanent)).unwrap();
    eventually("it is refused", || {
        io.send(permanent, &packet(10, 1));
        io.drops(permanent, "refused") > 0
    });
    let back = namely_testkit::bound_again(|| UdpSocket::bind(gone));
    back.set_read_timeout(Some(PATIENCE)).unwrap();
    io.send(permanent, &packet(10, 2));
    while received(&back) != packet(10, 2) {}
}

/// An Interest, as far as a face knows one.
fn interest(fill: u8) -> Vec<u8> {
    [&[5, 10][..], &[fill; 10]].concat()
}

#[test]
fn a_returned_peer_clears_its_old_failures() {
    let (io, _) = listening(IoOptions::default());
    let gone = namely_testkit::free_address();
    let face = io.open(move |io| io.open_udp(gone, None, FacePersistency::Permanent)).unwrap();
    let unanswered = || io.status(face).unwrap().unanswered;
    eventually("it is refused", || {
        io.send(face, &interest(1));
        unanswered().failures > 2
    });
    assert!(unanswered().interests > 2 && unanswered().first_ns.is_some());
    let back = namely_testkit::bound_again(|| UdpSocket::bind(gone));
    back.set_read_timeout(Some(PATIENCE)).unwrap();
    io.send(face, &interest(2));
    while received(&back) != interest(2) {}
    let router = io.status(face).unwrap().local.address().unwrap();
    back.send_to(&packet(10, 3), router).unwrap();
    assert_eq!(io.next_frame(), (face, packet(10, 3)));
    eventually("the counts begin anew", || unanswered() == Unanswered::default());
    assert!(io.drops(face, "refused") > 2, "the totals stay");
    // Data is no request, so the peer need not answer it.
    io.send(face, &packet(10, 4));
    assert_eq!(received(&back), packet(10, 4));
    assert_eq!(unanswered(), Unanswered::default());
    io.send(face, &interest(5));
    assert_eq!((unanswered().interests, unanswered().failures), (1, 0));
}

#[test]
fn an_idle_on_demand_transport_ends() {
    let udp = UdpOptions { idle_ns: 100_000_000, ..IoOptions::default().udp };
    let (io, router) = listening(IoOptions { udp, ..IoOptions::default() });
    let (kept, kept_id) = until("a face becomes persistent", || {
        let (socket, id) = known(&io, router);
        // On the thread of the loop, so that the face does not end during the change. If this
        // thread stalled, the face has ended before.
        let is_kept = io.with(move |_| {
            support::port(id).is_some_and(|port| port.set_persistency(FacePersistency::Persistent).is_ok())
        });
        if is_kept {
            return Some((socket, id));
        }
        assert_eq!(io.closed(id).0, CloseReason::Idle);
        None
    });
    let (_socket, id) = known(&io, router);
    assert_eq!(io.closed(id).0, CloseReason::Idle);
    kept.send(&packet(10, 1)).unwrap();
    assert_eq!(io.next_frame(), (kept_id, packet(10, 1)));
}

#[test]
fn a_second_udp_listener_is_refused() {
    let (io, router) = listening(IoOptions::default());
    let _known = known(&io, router);
    let error = Loop::start(IoOptions::default()).with(move |io| io.listen_udp(router)).unwrap_err();
    assert_eq!(error, OpenError::InUse(format!("udp4://{router}")));
}

#[test]
fn an_extra_peer_replaces_the_idlest() {
    let face_shares = FaceShares { per_address_max: 2, ..FaceShares::default() };
    let (io, router) = listening(IoOptions { faces_max: 2, face_shares, ..IoOptions::default() });
    let ((_a, a_id), (b, b_id)) = (known(&io, router), known(&io, router));
    b.send(&packet(10, 1)).unwrap();
    assert_eq!(io.next_frame(), (b_id, packet(10, 1)));
    let other = UdpSocket::bind("127.0.0.2:0").unwrap();
    other.send_to(&packet(10, 2), router).unwrap();
    let mut seen = [io.next(), io.next(), io.next()].into_iter();
    assert!(seen.any(|seen| {
        matches!(seen, Seen::Event(Event::Closed { face, reason: CloseReason::Evicted, .. }) if face == a_id)
    }));
    assert_eq!(io.listener_drops("transport_evicted"), 1);
}

#[test]
fn an_unanswered_peer_is_removed_soon() {
    let udp = UdpOptions {
        unanswered_idle_ns: 50_000_000,
        ..UdpOptions { idle_ns: 3_600_000_000_000, ..IoOptions::default().udp }
    };
    let (io, router) = listening(IoOptions { udp, ..IoOptions::default() });
    let (answered, answered_id) = until("a face is answered", || {
        let (socket, id) = known(&io, router);
        if io.with(move |io| push(io, id, support::frame(&packet(10, 1)))).is_ok() {
            return Some((socket, id));
        }
        // This thread stalled, and the face has ended before its answer.
        assert_eq!(io.closed(id).0, CloseReason::Idle);
        None
    });
    assert_eq!(received(&answered), packet(10, 1));
    let (_once, once_id) = known(&io, router);
    assert_eq!(io.closed(once_id).0, CloseReason::Idle);
    answered.send(&packet(10, 2)).unwrap();
    assert_eq!(io.next_frame(), (answered_id, packet(10, 2)));
}

#[test]
fn a_peer_flood_harms_no_other_peer() {
    let (io, router) = listening(IoOptions::default());
    let ((flooder, _), (quiet, quiet_id)) = (known(&io, router), known(&io, router));
    let flood = std::thread::spawn(move || {
        for _ in 0..20_000 {
            // A full buffer on this side is no reason to stop.
            let _ = flooder.send(&packet(1000, 9));
        }
    });
    for n in 0..100 {
        quiet.send(&packet(20, n)).unwrap();
        std::thread::sleep(Duration::from_micros(200));
    }
    flood.join().unwrap();
    let mut next = 0;
    while next < 100 {
        if let Seen::Frame(id, octets) = io.next()
            && id == quiet_id
        {
            assert_eq!(octets, packet(20, next));
            next += 1;
        }
    }
}

#[test]
fn an_oversized_datagram_is_dropped_alone() {
    let (io, router) = listening(IoOptions::default());
    let (socket, id) = known(&io, router);
    io.send(id, &packet(66_000, 1));
    io.send(id, &packet(10, 1));
    assert_eq!(received(&socket), packet(10, 1));
    assert_eq!(io.drops(id, "datagram_too_large"), 1);
}

#[test]
fn many_datagrams_leave_in_order() {
    let (io, router) = listening(IoOptions::default());
    let (socket, id) = known(&io, router);
    io.with(move |io| {
        for n in 0..150 {
            push(io, id, support::frame(&packet(100, n))).unwrap();
        }
    });
    for n in 0..150 {
        assert_eq!(received(&socket), packet(100, n));
    }
}

#[test]
fn mixed_datagram_lengths_arrive_in_order() {
    let (io, router) = listening(IoOptions::default());
    let echo = Loop::echo(IoOptions::default());
    let id = echo.open(move |io| io.open_udp(router, None, FacePersistency::Persistent)).unwrap();
    echo.send(id, &packet(10, 0));
    let far = io.accepted();
    assert_eq!(io.next_frame(), (far, packet(10, 0)));
    let lengths =
        [8000, 8000, 8000, 8000, 300, 300, 299, 8000, 50, 8796, 8796, 8796, 8796, 8796, 8796, 8796, 8796, 20];
    let packets: Vec<Vec<u8>> =
        lengths.iter().cycle().take(180).enumerate().map(|(n, octets)| packet(*octets, n as u8)).collect();
    let frames: Vec<_> = packets.iter().map(|packet| support::frame(packet)).collect();
    io.with(move |io| {
        for frame in frames {
            push(io, far, frame).unwrap();
        }
    });
    for packet in packets {
        assert_eq!(echo.next_frame(), (id, packet.clone()), "out");
        assert_eq!(io.next_frame(), (far, packet), "and back");
    }
}

#[test]
fn datagrams_past_the_path_mtu_leave_singly() {
    let Some(namespace) = Namespace::new() else { return };
    assert!(namespace.ip("link set lo up mtu 1500"));
    namespace.enter(|| {
        let (io, router) = listening(IoOptions::default());
        let (socket, id) = known(&io, router);
        let lengths = [8000, 8000, 8000, 1400, 1400, 1400, 1453, 1453];
        let packets = lengths.map(|octets| packet(octets, octets as u8));
        let frames: Vec<_> = packets.iter().map(|packet| support::frame(packet)).collect();
        io.with(move |io| {
            for frame in frames {
                push(io, id, frame).unwrap();
            }
        });
        for packet in packets {
            assert_eq!(received(&socket), packet);
        }
        assert_eq!(io.status(id).unwrap().counters.drops.iter().count(), 0);
    });
}

fn multicast(group: &str, same_host: bool) -> MulticastOptions {
    MulticastOptions { group: group.parse().unwrap(), interface: "lo".into(), same_host }
}

/// A group with a port of the test's own, because another user's tests may run on this machine.
fn own_group(address: &str) -> String {
    format!("{address}:{}", namely_testkit::free_port())
}

/// Two routers in one group on the loopback; `None` where this machine has no multicast there.
fn two_in_group(group: &str) -> Option<[(Loop, FaceTag); 2]> {
    let join = || {
        let io = Loop::start(IoOptions::default());
        let options = multicast(group, true);
        let id = io
            .open(move |io| io.open_multicast(&options))
            .map_err(|error| skip(Need::Kernel, format_args!("{error}")));
        Some((io, id.ok()?))
    };
    Some([join()?, join()?])
}

fn hears_others_and_not_itself(group: &str) {
    let Some([(a, a_id), (b, b_id)]) = two_in_group(group) else { return };
    a.send(a_id, &packet(1000, 1));
    assert_eq!(b.next_frame(), (b_id, packet(1000, 1)));
    b.send(b_id, &packet(1000, 2));
    assert_eq!(a.next_frame(), (a_id, packet(1000, 2)));
    assert!(a.is_quiet_for(Duration::from_millis(50)) && b.is_quiet_for(Duration::from_millis(50)));
    let status = a.status(a_id).unwrap();
    assert_eq!(status.local, FaceUri::Device("lo".into()));
    assert_eq!(status.persistency, FacePersistency::Permanent);
}

#[test]
fn a_group_receives_from_members_over_ipv4() {
    hears_others_and_not_itself(&own_group("224.0.23.170"));
}

#[test]
fn a_group_receives_from_members_over_ipv6() {
    hears_others_and_not_itself(&own_group("[ff02::1234]"));
}

/// A device that is removed and added again has another number.
#[test]
fn a_group_follows_its_device() {
    let Some(namespace) = Namespace::new() else { return };
    let add = || {
        let commands = ["link add d0 type veth peer name d1", "addr add 10.9.0.1/24 dev d0"];
        commands.into_iter().chain(["link set d1 up", "link set d0 up"]).all(|words| namespace.ip(words))
    };
    if !add() {
        return;
    }
    namespace.enter(|| {
        let io = Loop::start(IoOptions::default());
        let options = MulticastOptions { interface: "d0".into(), ..multicast("224.0.23.170:56363", false) };
        let group = io.open(move |io| io.open_multicast(&options)).unwrap();
        assert!(namespace.ip("link del d0"));
        io.addresses_changed();
        let down = io.next_event();
        assert!(matches!(down, Event::Down(face, CloseReason::DeviceGone) if face == group), "{down:?}");
        assert!(add());
        io.addresses_changed();
        let up = io.next_event();
        assert!(matches!(up, Event::Up(face) if face == group), "{up:?}");
    });
}

#[test]
fn member_fragments_are_separated_by_sender() {
    let group = own_group("224.0.23.170");
    let Some([(a, a_id), (b, b_id)]) = two_in_group(&group) else { return };
    let mut options = IoOptions::default();
    // On a slow machine the usual timeout would drop the first fragments before the last ones come.
    options.reassembly.timeout_ns = 3_600_000_000_000;
    let listening = Loop::start(options);
    let group = multicast(&group, true);
    let id = listening.open(move |io| io.open_multicast(&group)).unwrap();
    let (of_a, of_b) = (packet(600, 1), packet(600, 2));
    // Both senders use the same Sequence numbers, and send one fragment each in turns.
    for (index, range) in [(0, 0..300), (1, 300..of_a.len())] {
        a.send(a_id, &support::fragment(7 + index, index, 2, &of_a[range.clone()]));
        b.send(b_id, &support::fragment(7 + index, index, 2, &of_b[range]));
    }
    let mut seen = [listening.next_frame(), listening.next_frame()];
    seen.sort();
    assert_eq!(seen, [(id, of_a), (id, of_b)]);
}

#[test]
fn an_incomplete_packet_times_out() {
    let (io, router) = listening(IoOptions::default());
    let (socket, id) = known(&io, router);
    socket.send(&support::fragment(1, 0, 2, &packet(600, 1)[..300])).unwrap();
    eventually("a fragment is given up", || io.drops(id, "reassembly_timeout") == 1);
    socket.send(&packet(10, 2)).unwrap();
    assert_eq!(io.next_frame(), (id, packet(10, 2)));
}

#[test]
fn bad_group_settings_are_named() {
    let io = Loop::start(IoOptions::default());
    let missing = MulticastOptions { interface: "nosuch0".into(), ..multicast("224.0.23.170:56363", false) };
    let error = io.open(move |io| io.open_multicast(&missing)).unwrap_err();
    assert_eq!(error.to_string(), "there is no network interface nosuch0");
    let error = io.open(|io| io.open_multicast(&multicast("127.0.0.1:56363", false))).unwrap_err();
    assert_eq!(error.to_string(), "127.0.0.1 is no multicast address");
}

#[test]
fn kernel_drops_are_found_by_socket() {
    // The smallest buffers that the kernel grants.
    let (io, router) = listening(IoOptions { datagram_receive_buffer_octets: 1, ..IoOptions::default() });
    let ((socket, full), (_quiet, quiet)) = (known(&io, router), known(&io, router));
    let [full, quiet] = [full, quiet].map(|id| io.status(id).unwrap().socket_inode.unwrap());
    let held = io.hold();
    (0..100).for_each(|_| assert!(socket.send(&packet(1000, 1)).is_ok()));
    // A container may hide /proc/net.
    if std::fs::read_to_string("/proc/thread-self/net/udp").is_ok() {
        // The kernel's list may lack a socket if others are closed while it is read. Sockets of
        // other tests and users may have drops, too.
        eventually("the drops are found", || namely_io::udp::kernel_drops().contains_key(&full));
        assert!(!namely_io::udp::kernel_drops().contains_key(&quiet));
    }
    drop(held);
}

#[test]
fn face_events_come_in_order() {
    let (io, router) = listening(IoOptions::default());
    let socket = peer(router);
    socket.send(&packet(10, 1)).unwrap();
    assert!(matches!(io.next(), Seen::Event(Event::Accepted(_))));
    assert!(matches!(io.next(), Seen::Frame(..)));
}

#[test]
fn udp_works_over_ipv6() {
    let io = Loop::start(IoOptions::default());
    let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = io.with(move |io| io.listen_udp(address)) {
        skip(Need::Kernel, format_args!("{error}"));
        return;
    }
    let router = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    let socket = UdpSocket::bind(address).unwrap();
    socket.connect(router).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(&packet(10, 1)).unwrap();
    let id = io.accepted();
    assert_eq!(io.next_frame(), (id, packet(10, 1)));
    io.send(id, &packet(10, 2));
    assert_eq!(received(&socket), packet(10, 2));
    assert_eq!(io.status(id).unwrap().remote.scheme(), "udp6");
}

//! Ethernet between two loops on a veth pair in a network namespace. Each end reads its device by
//! AF_PACKET or by AF_XDP.

use crate::support;

use std::time::Duration;

use namely_io::ethernet::DEFAULT_GROUP;
use namely_io::{CloseReason, FaceState, FaceTag, IoOptions, OpenError, Xdp};
use namely_link::{LinkConfig, LinkKind};
use namely_messages::FacePersistency;
use namely_testkit::eventually;
use namely_wire::{FaceUri, MacAddress};
use support::namespace::Namespace;
use support::{Event, Loop, packet};

const A: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xa]);
const B: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xb]);

/// A namespace with a pair of devices, `va` with the address [`A`] and `vb` with [`B`].
fn pair() -> Option<Namespace> {
    let namespace = Namespace::new()?;
    add_pair(&namespace).then_some(namespace)
}

/// Runs `work` in such a namespace for each combination of AF_PACKET and AF_XDP. `work` receives
/// the options of the loops at `va` and `vb`.
fn between(work: impl Fn(&Namespace, [IoOptions; 2]) + Sync) {
    for xdp in [[Xdp::Off; 2], [Xdp::On; 2], [Xdp::On, Xdp::Off], [Xdp::Off, Xdp::On]] {
        let Some(namespace) = pair() else { return };
        if xdp.contains(&Xdp::On) && !support::has_xdp(&namespace, "va") {
            return;
        }
        println!("{xdp:?}");
        namespace.enter(|| work(&namespace, xdp.map(support::reading)));
    }
}

fn add_pair(namespace: &Namespace) -> bool {
    namespace.ip(&format!("link add va address {A} type veth peer name vb address {B}"))
        && namespace.ip("link set va up")
        && namespace.ip("link set vb up")
}

fn open(io: &Loop, device: &'static str, remote: MacAddress) -> Result<FaceTag, OpenError> {
    let persistency =
        if remote.is_group() { FacePersistency::Permanent } else { FacePersistency::Persistent };
    io.open(move |io| io.open_ethernet(device, remote, persistency))
}

fn listen(io: &Loop, device: &'static str) {
    io.with(move |io| io.listen_ethernet(device)).unwrap();
}

/// A loop that sends to [`B`] from `va`, and one that listens on `vb` and has a face to the first.
fn known([near, far]: [IoOptions; 2]) -> [(Loop, FaceTag); 2] {
    let (persistent, listening) = (Loop::start(near), Loop::start(far));
    listen(&listening, "vb");
    let id = open(&persistent, "va", B).unwrap();
    persistent.send(id, &packet(1, 0));
    let accepted = listening.accepted();
    assert_eq!(listening.next_frame(), (accepted, packet(1, 0)), "without its padding");
    [(persistent, id), (listening, accepted)]
}

#[test]
fn a_sending_station_gets_a_transport() {
    between(|_, options| {
        let [(a, a_id), (b, b_id)] = known(options);
        let status = b.status(b_id).unwrap();
        assert_eq!((status.remote, status.local), (FaceUri::Ether(A), FaceUri::Device("vb".into())));
        assert_eq!((status.persistency, status.mtu), (FacePersistency::OnDemand, Some(1500)));
        assert!(status.expires_ns.is_some());
        assert_eq!(a.status(a_id).unwrap().remote, FaceUri::Ether(B));
        for octets in [0, 10, 44, 45, 1000, 1496] {
            a.send(a_id, &packet(octets, 1));
            assert_eq!(b.next_frame(), (b_id, packet(octets, 1)));
            b.send(b_id, &packet(octets, 2));
            assert_eq!(a.next_frame(), (a_id, packet(octets, 2)));
        }
        assert!(open(&a, "va", B).is_err_and(|error| matches!(error, OpenError::BadAddress(_))));
        assert!(open(&a, "va", A).is_err_and(|error| matches!(error, OpenError::BadAddress(_))));
        assert_eq!(open(&a, "nothing", B), Err(OpenError::NoSuchInterface("nothing".into())));
        assert!(b.with(|io| io.listen_ethernet("vb")).is_err_and(|e| matches!(e, OpenError::InUse(_))));
    });
}

#[test]
fn many_ethernet_frames_arrive_in_order() {
    between(|_, options| {
        let [(a, a_id), (b, b_id)] = known(options);
        for round in 0..5 {
            a.with(move |io| {
                for n in 0..200 {
                    support::push(io, a_id, support::frame(&packet(1400, n ^ round))).unwrap();
                }
            });
            for n in 0..200 {
                assert_eq!(b.next_frame(), (b_id, packet(1400, n ^ round)));
            }
        }
    });
}

#[test]
fn an_oversized_frame_is_dropped_alone() {
    between(|_, options| {
        let [(a, a_id), (b, b_id)] = known(options);
        a.send(a_id, &packet(1497, 1));
        a.send(a_id, &packet(1496, 2));
        assert_eq!(b.next_frame(), (b_id, packet(1496, 2)));
        assert_eq!(a.drops(a_id, "datagram_too_large"), 1);
    });
}

#[test]
fn an_extra_station_replaces_the_idlest() {
    between(|namespace, [near, far]| {
        if !add_stations(namespace) {
            return;
        }
        let b = Loop::start(IoOptions { faces_max: 3, ..far });
        listen(&b, "vb");
        // The driver of these devices has no XDP hook. With AF_XDP the program runs in the kernel's
        // generic hook.
        let a = Loop::start(near);
        let mut met = Vec::new();
        for (n, device) in ["m0", "m1", "m2", "m3"].into_iter().enumerate() {
            let id = open(&a, device, B).unwrap();
            a.send(id, &packet(20, n as u8));
            let accepted = b.accepted();
            assert_eq!(b.next_frame(), (accepted, packet(20, n as u8)));
            met.push((id, accepted));
        }
        assert_eq!(b.closed(met[0].1).0, CloseReason::Evicted);
        assert_eq!(b.listener_drops("transport_evicted"), 1);
        for (n, (id, accepted)) in met.into_iter().enumerate().skip(1) {
            let address = MacAddress([2, 0, 0, 0, 1, n as u8]);
            assert_eq!(b.status(accepted).unwrap().remote, FaceUri::Ether(address));
            b.send(accepted, &packet(30, n as u8));
            assert_eq!(a.next_frame(), (id, packet(30, n as u8)));
        }
    });
}

#[test]
fn a_group_distinguishes_its_members() {
    between(|_, options| {
        let [a, b] = options.map(Loop::start);
        let (a_id, b_id) = (open(&a, "va", DEFAULT_GROUP).unwrap(), open(&b, "vb", DEFAULT_GROUP).unwrap());
        assert_eq!(a.status(a_id).unwrap().remote, FaceUri::Ether(DEFAULT_GROUP));
        for (from, from_id, to, to_id) in [(&a, a_id, &b, b_id), (&b, b_id, &a, a_id)] {
            from.send(from_id, &packet(100, 7));
            assert_eq!(to.next_frame(), (to_id, packet(100, 7)));
        }
        let other = open(&a, "va", MacAddress([3, 0, 0, 0, 0, 1])).unwrap();
        a.send(other, &packet(10, 1));
        let unicast = open(&a, "va", B).unwrap();
        a.send(unicast, &packet(10, 1));
        eventually("two have no face", || b.listener_drops("ether_no_face") == 2);
        assert!(a.is_quiet_for(Duration::ZERO) && b.is_quiet_for(Duration::ZERO), "nobody hears itself");
        let on_demand = support::port(a_id).unwrap().set_persistency(FacePersistency::OnDemand);
        assert!(on_demand.is_err());
    });
}

#[test]
fn foreign_and_tagged_frames_are_counted() {
    between(|namespace, options| {
        let is_xdp = options[1].ethernet.xdp == Xdp::On;
        let has_vlan = !is_xdp
            && namespace.ip("link add link va name va.5 type vlan id 5")
            && namespace.ip("link set va.5 up");
        let [(a, a_id), (b, b_id)] = known(options);
        let truncated = &packet(500, 1)[..100];
        let bad: [&[u8]; 5] =
            [&[0xff; 700], truncated, &[6, 200], &[6, 255, 0, 0, 1, 0, 0, 0, 0, 0], &[0; 46]];
        for (n, garbage) in bad.into_iter().enumerate() {
            a.send(a_id, garbage);
            eventually("it is no packet", || b.listener_drops("not_a_packet") == n as u64 + 1);
        }
        let stranger = open(&a, "va", MacAddress([2, 9, 9, 9, 9, 9])).unwrap();
        a.send(stranger, &packet(10, 1));
        // The XDP program leaves frames for other addresses to the kernel.
        eventually("it is for another station", || is_xdp || b.listener_drops("ether_other_station") == 1);
        if has_vlan {
            let tagged = open(&a, "va.5", B).unwrap();
            a.send(tagged, &packet(10, 1));
            eventually("it has the tag of a VLAN", || b.listener_drops("ether_vlan") == 1);
        }
        a.send(a_id, &packet(100, 2));
        assert_eq!(b.next_frame(), (b_id, packet(100, 2)));
    });
}

#[test]
fn transports_follow_their_device_down_and_up() {
    between(|namespace, options| {
        let [(a, a_id), (b, b_id)] = known(options);
        assert!(namespace.ip("link set va down"));
        // The other end of the pair loses its carrier.
        for (io, id) in [(&a, a_id), (&b, b_id)] {
            assert!(matches!(io.next_event(), Event::Down(down, CloseReason::DeviceDown) if down == id));
            assert_eq!(io.status(id).unwrap().state, FaceState::Down);
        }
        assert!(a.with(move |io| support::push(io, a_id, support::frame(&packet(10, 1)))).is_err());
        assert_eq!(a.drops(a_id, "down"), 1);
        assert!(namespace.ip("link set va up"));
        for (io, id) in [(&a, a_id), (&b, b_id)] {
            assert!(matches!(io.next_event(), Event::Up(up) if up == id));
        }
        a.send(a_id, &packet(100, 2));
        assert_eq!(b.next_frame(), (b_id, packet(100, 2)));
        b.send(b_id, &packet(100, 3));
        assert_eq!(a.next_frame(), (a_id, packet(100, 3)));
    });
}

#[test]
fn a_readded_device_serves_its_transports() {
    between(|namespace, options| {
        let [(a, a_id), (b, b_id)] = known(options);
        let group = open(&a, "va", DEFAULT_GROUP).unwrap();
        assert!(namespace.ip("link del va"));
        eventually("both are down", || {
            [a_id, group].iter().all(|id| a.status(*id).unwrap().state == FaceState::Down)
        });
        let down_first = |event: Event| match event {
            Event::Down(..) => b.closed(b_id).0,
            Event::Closed { reason, .. } => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(down_first(b.next_event()), CloseReason::DeviceGone, "whom a peer made goes");
        assert!(add_pair(namespace));
        eventually("both are up", || {
            [a_id, group].iter().all(|id| a.status(*id).unwrap().state == FaceState::Up)
        });
        eventually("packets pass again", || {
            // Frames are lost while the listener of the new device is not ready.
            a.send(a_id, &packet(100, 2));
            b.with(|io| io.listeners().count()) == 1 && !b.is_quiet_for(Duration::from_millis(50))
        });
    });
}

/// The old socket of the transport is no longer polled and accepts no more frames. The new one
/// accepts all.
#[test]
fn a_new_mtu_revives_a_blocked_transport() {
    let Some(namespace) = pair() else { return };
    if !namespace.tc("qdisc add dev va root tbf rate 8kbit burst 2000 latency 100s") {
        return;
    }
    namespace.enter(|| {
        let near = IoOptions { send_buffer_octets: 1, ..IoOptions::default() };
        let [(a, a_id), (b, _)] = known([near, IoOptions::default()]);
        a.with(move |io| {
            for n in 0..50 {
                support::push(io, a_id, support::frame(&packet(1000, n))).unwrap();
            }
        });
        let waits = |a: &Loop| a.status(a_id).unwrap().queue_octets;
        eventually("some wait", || a.is_quiet_for(Duration::from_millis(50)) && waits(&a) > 0);
        assert!(namespace.ip("link set va mtu 1400"));
        eventually("the MTU is known", || a.status(a_id).unwrap().mtu == Some(1400));
        assert!(namespace.tc("qdisc del dev va root"));
        a.send(a_id, &packet(1000, 99));
        eventually("none waits", || waits(&a) == 0);
        eventually("it has come", || b.frames_seen().contains(&packet(1000, 99)));
        // Each waiting frame has left or is counted as dropped.
        let counters = a.status(a_id).unwrap().counters;
        assert_eq!(counters.out_frames + counters.drops.total(), 52, "{counters:?}");
    });
}

/// A device with a queue of five frames. It sends one frame in a millisecond, and refuses frames
/// while the queue is full.
const SHORT_QUEUE: &str = "qdisc add dev va root tbf rate 8mbit burst 2000 limit 5200";

#[test]
fn frames_refused_by_a_device_wait_in_order() {
    let Some(namespace) = pair() else { return };
    if !namespace.tc(SHORT_QUEUE) {
        return;
    }
    namespace.enter(|| {
        let [(a, a_id), (b, _)] = known([IoOptions::default(), IoOptions::default()]);
        let packets: Vec<_> = (0..200).map(|n| packet(1000, n)).collect();
        let sent = packets.clone();
        a.with(move |io| {
            sent.iter().for_each(|octets| support::push(io, a_id, support::frame(octets)).unwrap());
        });
        packets.iter().for_each(|octets| assert_eq!(b.next_frame().1, *octets));
        let status = a.status(a_id).unwrap();
        assert_eq!((status.counters.drops.total(), status.queue_octets), (0, 0), "{status:?}");
    });
}

#[test]
fn packets_waiting_for_a_device_are_marked() {
    let Some(namespace) = pair() else { return };
    if !namespace.tc(SHORT_QUEUE) {
        return;
    }
    namespace.enter(|| {
        let [(a, a_id), (b, _)] = known([IoOptions::default(), IoOptions::default()]);
        let port = support::port(a_id).unwrap();
        port.reconfigure(LinkConfig::new(LinkKind::Datagram { mtu: 1500 }));
        // Twice the rate of the device.
        for round in 0..80 {
            a.with(move |io| {
                (0..20).for_each(|n| _ = support::push(io, a_id, support::frame(&packet(1000, round ^ n))));
            });
            std::thread::sleep(Duration::from_millis(10));
        }
        // A marked frame is longer by a header.
        let counters = a.status(a_id).unwrap().counters;
        assert!(counters.out_octets > counters.out_frames * 1000, "no mark: {counters:?}");
        assert_eq!(counters.drops.of("no_buffers"), 0);
        assert!(b.frames_seen().len() > 100);
    });
}

#[test]
fn frames_refused_for_long_are_dropped() {
    let Some(namespace) = pair() else { return };
    namespace.enter(|| {
        let [(a, a_id), (b, _)] = known([IoOptions::default(), IoOptions::default()]);
        if !namespace.tc("qdisc add dev va root pfifo limit 0") {
            return;
        }
        let begun = std::time::Instant::now();
        for n in 0..50 {
            a.send(a_id, &packet(1000, n));
        }
        // A refused frame waits for 200 ms. On a busy machine the sends may take longer.
        let dropped = a.status(a_id).unwrap().counters.drops.of("no_buffers");
        assert!(dropped == 0 || begun.elapsed() >= Duration::from_millis(200), "at once: {dropped}");
        eventually("the queue is empty", || a.status(a_id).unwrap().queue_octets == 0);
        assert_eq!(a.status(a_id).unwrap().counters.drops.of("no_buffers"), 50);
        assert!(namespace.tc("qdisc del dev va root"));
        a.send(a_id, &packet(1000, 99));
        eventually("it has come", || b.frames_seen().contains(&packet(1000, 99)));
        assert_eq!(a.status(a_id).unwrap().counters.drops.of("no_buffers"), 50);
    });
}

#[test]
fn an_idle_station_is_forgotten() {
    between(|_, [near, mut far]| {
        far.udp.idle_ns = 200_000_000;
        let [a, b] = [near, far].map(Loop::start);
        listen(&b, "vb");
        let a_id = open(&a, "va", B).unwrap();
        for n in 0..2 {
            a.send(a_id, &packet(10, n));
            let id = b.accepted();
            assert_eq!(b.next_frame(), (id, packet(10, n)));
            assert_eq!(b.closed(id).0, CloseReason::Idle);
        }
    });
}

/// Octets that the device `vb` has received.
fn octets_received() -> u64 {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = devices.lines().find_map(|line| line.trim().strip_prefix("vb:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Measurements that frames of the kernel may disturb. IPv6 sends fewer after a device starts.
const DISTURBED_MAX: usize = 20;

/// Network cards pad short frames, virtual devices do not, and NFD drops frames shorter than the
/// standard's minimum.
#[test]
fn short_frames_are_padded() {
    between(|_, options| {
        let [(a, a_id), (b, b_id)] = known(options);
        // The device counts a frame that the XDP program takes without its header.
        let uncounted = if options[1].ethernet.xdp == Xdp::On { 14 } else { 0 };
        for (octets, expected) in [(0, 60), (43, 60), (44, 60), (45, 61), (1000, 1018)] {
            // Frames of the kernel only add octets, so the smallest measurement counts.
            let measured = (0..DISTURBED_MAX).map(|_| {
                let before = octets_received();
                a.send(a_id, &packet(octets, 1));
                assert_eq!(b.next_frame(), (b_id, packet(octets, 1)), "without its padding");
                octets_received() - before
            });
            assert_eq!(measured.min(), Some(expected - uncounted));
        }
    });
}

/// A packet that names its sender and its number.
fn numbered(sender: u8, number: u8) -> Vec<u8> {
    let mut octets = packet(40, number);
    octets[2] = sender;
    octets
}

/// Returns the arrivals at each worker, as (sender, number). Waits for `expected` arrivals, at most
/// `PATIENCE`.
fn arrivals(workers: &[Loop], expected: usize) -> Vec<Vec<(u8, u8)>> {
    let mut arrived = vec![Vec::new(); workers.len()];
    let start = std::time::Instant::now();
    while arrived.iter().map(Vec::len).sum::<usize>() < expected && start.elapsed() < support::PATIENCE {
        for (worker, arrived) in workers.iter().zip(&mut arrived) {
            arrived.extend(worker.frames_seen().iter().map(|octets| (octets[2], octets[3])));
        }
    }
    for (worker, arrived) in workers.iter().zip(&mut arrived) {
        assert!(worker.is_quiet_for(Duration::from_millis(50)), "more than was sent: {arrived:?}");
    }
    arrived
}

/// The sockets of this namespace that receive NDN frames, by inode.
fn rings() -> Vec<String> {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap();
    let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Protocol, whether it runs, inode.
    fields.filter(|f| f.len() > 8 && f[3] == "8624" && f[5] == "1").map(|f| f[8].to_string()).collect()
}

/// Adds eight further link addresses on the device `va`.
fn add_stations(namespace: &Namespace) -> bool {
    (0..8).all(|n| {
        let address = format!("02:00:00:00:01:0{n}");
        namespace.ip(&format!("link add m{n} link va address {address} type macvlan mode bridge"))
            && namespace.ip(&format!("link set m{n} up"))
    })
}

#[test]
fn workers_share_device_frames_by_sender() {
    let Some(namespace) = pair() else { return };
    if !add_stations(&namespace) {
        return;
    }
    namespace.enter(|| {
        let workers = Loop::workers(IoOptions::default(), 2);
        listen(&workers[0], "vb");
        let group = open(&workers[0], "vb", DEFAULT_GROUP).unwrap();
        // The other worker listens as soon as it has read the message in its mailbox.
        eventually("the other worker listens", || workers[1].with(|io| io.listeners().count()) == 1);
        assert_eq!(rings().len(), 2);
        for round in 0..3 {
            let a = Loop::start(IoOptions::default());
            const DEVICES: [&str; 8] = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"];
            let open_all = |remote| DEVICES.map(|device| open(&a, device, remote).unwrap());
            for ids in [open_all(B), open_all(DEFAULT_GROUP)] {
                for number in 0..20 {
                    ids.iter().enumerate().for_each(|(n, id)| a.send(*id, &numbered(n as u8, number)));
                }
                let arrived = arrivals(&workers, 8 * 20);
                for sender in 0..8 {
                    let of_sender = |arrived: &Vec<(u8, u8)>| -> Vec<u8> {
                        arrived
                            .iter()
                            .filter(|(from, _)| *from == sender)
                            .map(|(_, number)| *number)
                            .collect()
                    };
                    let numbers: Vec<Vec<u8>> =
                        arrived.iter().map(of_sender).filter(|n| !n.is_empty()).collect();
                    assert_eq!(numbers, [(0..20).collect::<Vec<u8>>()], "in order, at one worker");
                }
                assert!(arrived.iter().all(|arrived| !arrived.is_empty()), "a worker idles: {arrived:?}");
            }
            assert_eq!(workers[0].status(group).unwrap().counters.in_frames, 8 * 20 * (round + 1));
            drop(a);
            let before = rings();
            let is_mtu = round == 0;
            if is_mtu {
                assert!(namespace.ip("link set vb mtu 1400"));
            } else {
                assert!(namespace.ip("link del va") && add_pair(&namespace) && add_stations(&namespace));
            }
            eventually("each has a ring", || {
                rings().iter().filter(|ring| !before.contains(ring)).count() == 2
            });
            eventually("the face is up", || {
                workers[0].status(group).is_some_and(|s| s.state == FaceState::Up)
            });
            // A worker ends its current work before it answers.
            workers.iter().for_each(|worker| worker.with(|_| ()));
            workers.iter().for_each(|worker| drop(worker.frames_seen()));
        }
    });
}

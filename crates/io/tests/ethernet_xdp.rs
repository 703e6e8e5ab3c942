//! Tests of devices that are read by AF_XDP only. The tests of all Ethernet devices are in
//! `ethernet.rs`.

use crate::support;

use std::net::{Ipv4Addr, UdpSocket};

use namely_io::ethernet::DEFAULT_GROUP;
use namely_io::{FaceTag, IoOptions, Xdp};
use namely_messages::FacePersistency;
use namely_testkit::eventually;
use namely_wire::MacAddress;
use support::namespace::Namespace;
use support::{Loop, PATIENCE, has_xdp, packet, reading, until_xdp_has_gone};

const A: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xa]);
const B: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xb]);

/// A namespace with a pair of devices, `va` with the address [`A`] and `vb` with [`B`], if they can
/// be read by AF_XDP.
fn pair(more: &str) -> Option<Namespace> {
    let namespace = Namespace::new()?;
    let add = format!("link add va address {A} {more} type veth peer name vb address {B} {more}");
    let is_up = namespace.ip(&add) && namespace.ip("link set va up") && namespace.ip("link set vb up");
    (is_up && has_xdp(&namespace, "va")).then_some(namespace)
}

fn open(io: &Loop, device: &'static str, remote: MacAddress) -> FaceTag {
    let persistency =
        if remote.is_group() { FacePersistency::Permanent } else { FacePersistency::Persistent };
    io.open(move |io| io.open_ethernet(device, remote, persistency)).unwrap()
}

/// Loops that read `va` and `vb`, with a transport from the first to the second.
fn joined(near: IoOptions, far: IoOptions) -> (Loop, FaceTag, Loop, FaceTag) {
    let [a, b] = [near, far].map(Loop::start);
    b.with(|io| io.listen_ethernet("vb")).unwrap();
    let id = open(&a, "va", B);
    a.send(id, &packet(1, 0));
    let accepted = b.accepted();
    b.next_frame();
    (a, id, b, accepted)
}

#[test]
fn non_ndn_frames_pass_an_xdp_device() {
    let (Some(near), Some(far)) = (pair(""), Namespace::new()) else { return };
    assert!(near.ip(&format!("link set vb netns {}", far.name())));
    assert!(far.ip("link set vb up") && far.ip("addr add 10.7.0.2/24 dev vb"));
    assert!(near.ip("addr add 10.7.0.1/24 dev va"));
    let (a, b) = (near.enter(|| Loop::start(reading(Xdp::On))), far.enter(|| Loop::start(reading(Xdp::On))));
    b.with(|io| io.listen_ethernet("vb")).unwrap();
    let id = open(&a, "va", B);
    let socket = |address: Ipv4Addr| {
        let socket = UdpSocket::bind((address, 7000)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let here = near.enter(|| socket(Ipv4Addr::new(10, 7, 0, 1)));
    let there = far.enter(|| socket(Ipv4Addr::new(10, 7, 0, 2)));
    let mut octets = [0; 64];
    for round in 0..10 {
        a.send(id, &packet(100, round));
        // The kernel sends ARP first, which is not NDN either.
        here.send_to(&[round; 20], "10.7.0.2:7000").unwrap();
        assert_eq!(
            namely_testkit::uninterrupted(|| there.recv_from(&mut octets)).unwrap(),
            (20, "10.7.0.1:7000".parse().unwrap())
        );
        there.send_to(&[round; 30], "10.7.0.1:7000").unwrap();
        assert_eq!(
            namely_testkit::uninterrupted(|| here.recv_from(&mut octets)).unwrap(),
            (30, "10.7.0.2:7000".parse().unwrap())
        );
    }
    b.accepted();
    (0..10).for_each(|round| assert_eq!(b.next_frame().1, packet(100, round)));
}

#[test]
fn frames_longer_than_a_page_pass_xdp() {
    let Some(namespace) = pair("") else { return };
    namespace.enter(|| {
        for mtu in [9000, 65_535] {
            assert!(["va", "vb"].iter().all(|device| namespace.ip(&format!("link set {device} mtu {mtu}"))));
            for [near, far] in [[Xdp::On, Xdp::On], [Xdp::On, Xdp::Off], [Xdp::Off, Xdp::On]] {
                ["va", "vb"].iter().for_each(|device| until_xdp_has_gone(&namespace, device));
                let (a, id, b, b_id) = joined(reading(near), reading(far));
                for (n, octets) in [1, 3822, 3823, 4078, 4079, 8192, 8796].into_iter().enumerate() {
                    a.send(id, &packet(octets, n as u8));
                    assert!(b.next_frame().1 == packet(octets, n as u8), "{near:?} {far:?} {octets}");
                }
                // The longest frame that such a device carries; no packet is so long.
                a.send(id, &packet(mtu - 4, 1));
                let drops =
                    || ["not_a_packet", "ether_cut"].map(|label| b.listener_drops(label)).iter().sum::<u64>();
                if mtu == 9000 {
                    eventually("it is too large", || b.drops(b_id, "message_too_large") == 1);
                } else {
                    eventually("it is dropped", || drops() == 1);
                }
                a.send(id, &packet(10, 9));
                assert_eq!(b.next_frame().1, packet(10, 9));
            }
        }
    });
}

#[test]
fn frames_without_xdp_room_are_counted() {
    let Some(namespace) = pair("") else { return };
    namespace.enter(|| {
        // Room for 64 frames each.
        let near = IoOptions { send_buffer_octets: 1, ..reading(Xdp::On) };
        let far = IoOptions { datagram_receive_buffer_octets: 1, ..reading(Xdp::On) };
        let (a, id, b, _) = joined(near, far);
        for _ in 0..2 {
            let counted = b.listener_drops("kernel_buffer_full");
            let held = b.hold();
            a.with(move |io| {
                (0..300).for_each(|n| support::push(io, id, support::frame(&packet(100, n as u8))).unwrap());
            });
            eventually("the queue is empty", || a.status(id).is_some_and(|status| status.queue_octets == 0));
            drop(held);
            let mut arrived = 0;
            eventually("all have come", || {
                // Drops are counted when a frame arrives.
                a.send(id, &packet(1, 0));
                arrived += b.frames_seen().iter().filter(|octets| octets.len() > 10).count() as u64;
                arrived + b.listener_drops("kernel_buffer_full") - counted >= 300
            });
            // Probes of the previous round may still occupy some of the 64 slots.
            assert!((48..=128).contains(&arrived), "{arrived}");
        }
        assert_eq!(a.status(id).unwrap().counters.drops.total(), 0);
    });
}

#[test]
fn workers_read_device_queues_by_xdp() {
    let Some(namespace) = pair("numtxqueues 2 numrxqueues 2") else { return };
    namespace.enter(|| {
        let workers = Loop::workers(reading(Xdp::On), 2);
        workers[0].with(|io| io.listen_ethernet("vb")).unwrap();
        let group = open(&workers[0], "vb", DEFAULT_GROUP);
        eventually("the other worker listens", || workers[1].with(|io| io.listeners().count()) == 1);
        let a = Loop::start(reading(Xdp::On));
        // The sums of these addresses are even and odd: they leave by the two queues.
        let ids = [DEFAULT_GROUP, B].map(|remote| open(&a, "va", remote));
        for round in 0..20 {
            ids.iter().for_each(|id| a.send(*id, &packet(100, round)));
        }
        let mut seen = [Vec::new(), Vec::new()];
        eventually("all have come", || {
            seen.iter_mut().zip(&workers).for_each(|(seen, worker)| seen.extend(worker.frames_seen()));
            seen.iter().map(Vec::len).sum::<usize>() == 40
        });
        let expected: Vec<Vec<u8>> = (0..20).map(|round| packet(100, round)).collect();
        assert!(seen.iter().all(|seen| *seen == expected), "each in order, at one worker");
        assert_eq!(workers[0].status(group).unwrap().counters.in_frames, 20);
    });
}

#[test]
fn xdp_reads_at_most_64_queues() {
    for (queues, is_read) in [(64, true), (65, false)] {
        let Some(namespace) = Namespace::new() else { return };
        let more = format!("numtxqueues {queues} numrxqueues {queues}");
        if !namespace.ip(&format!("link add va {more} type veth peer name vb {more}")) {
            return;
        }
        let options = |xdp| IoOptions { datagram_receive_buffer_octets: 1, ..reading(xdp) };
        namespace.enter(|| {
            let on = Loop::start(options(Xdp::On)).with(|io| io.listen_ethernet("va").map(drop));
            assert_eq!(on.is_ok(), is_read, "{on:?}");
            assert_eq!(Loop::start(options(Xdp::Auto)).with(|io| io.listen_ethernet("va").map(drop)), Ok(()));
        });
    }
}

#[test]
fn a_device_without_xdp_uses_packet_sockets() {
    let Some(namespace) = pair("") else { return };
    let add = "link add m0 link va address 02:00:00:00:00:0c type macvlan mode bridge";
    if !namespace.ip(add) || !namespace.ip("link set m0 up") {
        return;
    }
    namespace.enter(|| {
        // The driver of a macvlan has no XDP hook.
        let (a, b) = (Loop::start(reading(Xdp::Auto)), Loop::start(reading(Xdp::On)));
        a.with(|io| io.listen_ethernet("m0")).unwrap();
        assert!(!program_is_on(&namespace, "m0"));
        b.with(|io| io.listen_ethernet("vb")).unwrap();
        assert!(program_is_on(&namespace, "vb"));
        let id = open(&b, "vb", MacAddress([2, 0, 0, 0, 0, 0xc]));
        b.send(id, &packet(100, 1));
        a.accepted();
        assert_eq!(a.next_frame().1, packet(100, 1));
        // A device with the program of another loop accepts no second one.
        let c = Loop::start(reading(Xdp::On));
        assert!(c.with(|io| io.listen_ethernet("vb")).is_err());
        assert!(Loop::start(reading(Xdp::Auto)).with(|io| io.listen_ethernet("vb")).is_ok());
        // The program is removed with the loop that attached it. A process that another test forked
        // has a copy of its descriptor until it executes its program.
        drop(b);
        until_xdp_has_gone(&namespace, "vb");
        c.with(|io| io.listen_ethernet("vb")).unwrap();
        assert!(program_is_on(&namespace, "vb"));
    });
}

fn program_is_on(namespace: &Namespace, device: &str) -> bool {
    let show = ["-n", namespace.name(), "link", "show", device];
    let output = std::process::Command::new("ip").args(show).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("xdp")
}

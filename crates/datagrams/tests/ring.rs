//! Frames between two network devices.

use std::io::IoSlice;

use namely_datagrams::ethernet::ring::{Ring, join, sending_socket};
use namely_datagrams::ethernet::{DEFAULT_GROUP, EtherSocket, FrameSender, frame, monitor};
use namely_datagrams::mmsg::{self, Outgoing};
use namely_wire::MacAddress;
use rustix::io::Errno;

#[path = "../../io/tests/support/namespace.rs"]
mod namespace;

/// More frames than the small ring of these tests has slots.
const MANY: u64 = 2000;

#[test]
fn a_full_ring_counts_dropped_frames() {
    let Some(namespace) = namespace::Namespace::new() else { return };
    if !namespace.ip("link add va type veth peer name vb") {
        return;
    }
    assert!(namespace.ip("link set va up") && namespace.ip("link set vb up"));
    namespace.enter(|| {
        let [a, b] = ["va", "vb"].map(|name| monitor::device(name).unwrap().unwrap());
        assert!(a.is_up && b.is_up);
        let mut ring = Ring::open(b.index, b.mtu, 1 << 20).unwrap();
        let socket = sending_socket(a.index).unwrap();
        let member = sending_socket(b.index).unwrap();
        join(&member, b.index, DEFAULT_GROUP).unwrap();
        let send = |to: MacAddress, payload: &[u8]| {
            let header = frame::header(to, a.address);
            let slices = [IoSlice::new(&header), IoSlice::new(payload)];
            let message = Outgoing { slices: &slices, segment_octets: None };
            assert_eq!(mmsg::send(&socket, [message].into_iter()), Ok(1));
            [&header, payload].concat()
        };
        for (to, octets) in [(b.address, 1500), (DEFAULT_GROUP, 2), (b.address, 46)] {
            let expected = send(to, &vec![7; octets]);
            let has_frame = ring.receive(|arrived| {
                assert_eq!((arrived.octets, arrived.is_cut, arrived.vlan), (&*expected, false, None));
            });
            assert!(has_frame);
        }
        assert!(!ring.receive(|_| ()));
        for _ in 0..MANY {
            send(b.address, &[7; 100]);
        }
        let mut received = 0;
        while ring.receive(|_| ()) {
            received += 1;
        }
        assert!(received < MANY);
        send(b.address, &[7; 100]);
        assert!(ring.receive(|arrived| assert!(arrived.is_losing)));
        assert_eq!((received + ring.drops(), ring.drops()), (MANY, 0));
        send(b.address, &[7; 100]);
        assert!(ring.receive(|arrived| assert!(!arrived.is_losing)));
    });
}

#[test]
fn a_station_receives_only_from_its_peer() {
    let [peer, other, own, second_own] = [10, 11, 12, 13].map(|last| MacAddress([2, 0, 0, 0, 0, last]));
    let Some(namespace) = namespace::Namespace::new() else { return };
    if !namespace.ip("link add va type veth peer name vb") {
        return;
    }
    namespace.enter(|| {
        assert_eq!(EtherSocket::open("vb", peer, own, 1 << 20).unwrap_err(), Errno::NETDOWN);
        assert_eq!(EtherSocket::open("nothing", peer, own, 1 << 20).unwrap_err(), Errno::NODEV);
        assert!(namespace.ip("link set va up") && namespace.ip("link set vb up"));
        let a = monitor::device("va").unwrap().unwrap();
        let mut station = EtherSocket::open("vb", peer, own, 1 << 20).unwrap();
        let mut second = EtherSocket::open("vb", peer, second_own, 1 << 20).unwrap();
        assert_eq!(station.mtu_octets(), 1500);
        let send = |from: MacAddress, to: MacAddress, packets: &[&[u8]]| {
            let sender = FrameSender::open(a.index, to, from).unwrap();
            assert_eq!(sender.send(packets.iter().copied()), Ok(packets.len()));
        };
        for (from, to) in [(other, own), (peer, DEFAULT_GROUP), (other, second_own), (peer, other)] {
            send(from, to, &[b"\x05\x01x"]);
        }
        send(peer, own, &[b"\x05\x01a", b"\x05\x70", b"\x05\x02bc", b"\x05\x01d"]);
        send(peer, second_own, &[b"\x05\x01e"]);
        let mut arrived_packets = Vec::new();
        let mut receive_packets = |station: &mut EtherSocket, continues: bool| {
            let report = station.receive(100, &mut |packet| {
                arrived_packets.push(packet.to_vec());
                continues
            });
            (report.unwrap(), std::mem::take(&mut arrived_packets))
        };
        let (report, first) = receive_packets(&mut station, false);
        assert_eq!((report.packets, first), (1, vec![b"\x05\x01a".to_vec()]));
        let (report, rest) = receive_packets(&mut station, true);
        assert_eq!((report.malformed, rest), (1, vec![b"\x05\x02bc".to_vec(), b"\x05\x01d".to_vec()]));
        assert_eq!(receive_packets(&mut second, true).1, [b"\x05\x01e"]);

        for _ in 0..MANY / 50 {
            send(peer, own, &[&b"\x05\x01y"[..]; 50]);
        }
        let (mut received, mut lost) = (0, 0);
        loop {
            let (report, packets) = receive_packets(&mut station, true);
            received += packets.len() as u64;
            lost += report.lost;
            if report.packets == 0 {
                break;
            }
        }
        send(peer, own, &[b"\x05\x01y"]);
        lost += receive_packets(&mut station, true).0.lost;
        assert!(received < MANY);
        assert_eq!(received + lost, MANY);

        assert!(namespace.ip("link set vb down"));
        assert_eq!(station.check(), Err(Errno::NETDOWN));
    });
}

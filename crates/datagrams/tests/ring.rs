//! Frames between two network devices.

use std::io::IoSlice;

use namely_datagrams::ethernet::ring::{Ring, join, sending_socket};
use namely_datagrams::ethernet::{DEFAULT_GROUP, frame, monitor};
use namely_datagrams::mmsg::{self, Outgoing};
use namely_wire::face_uri::MacAddress;

#[path = "../../io/tests/support/namespace.rs"]
mod namespace;

/// Frames that a small ring has no room for: more than its slots.
const MANY: u64 = 2000;

#[test]
fn frames_pass_through_a_ring_and_those_it_has_no_room_for_are_counted() {
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
            let is_there = ring.receive(|arrived| {
                assert_eq!((arrived.octets, arrived.is_cut, arrived.vlan), (&*expected, false, None));
            });
            assert!(is_there);
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

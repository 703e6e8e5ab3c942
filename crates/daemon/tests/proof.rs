//! A neighbor that has not delivered anything receives none of the traffic of a producer without
//! discovery. Packets to a group also reach neighbors for which its frames are too long.

use std::time::Duration;

use namely_messages::{Command, ControlParameters};

use crate::beside::{Scene, Station};
use crate::common::PATIENCE;
use crate::common::client::named;
use crate::segment::{Net, mac, neighbours};
use namely_testkit::until;

#[test]
fn a_silent_neighbor_costs_no_fetch() {
    let Some(mut scene) = Scene::new(Station::Silent) else { return };
    let fetched = scene.fetch(100);
    assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{fetched:?}");
}

#[test]
fn a_refusing_neighbor_costs_no_fetch() {
    let Some(mut scene) = Scene::new(Station::Refusing) else { return };
    let fetched = scene.fetch(100);
    assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{fetched:?}");
}

#[test]
fn a_lying_neighbor_is_avoided_after_report() {
    // It answers each Interest sooner than the producer.
    let takes = Duration::from_millis(3);
    let Some(mut scene) = Scene::with_producer(Station::Lying, takes) else { return };
    assert_eq!(scene.fetch(1).wrong, 1);
    let fetched = scene.fetch(100);
    assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{fetched:?}");
}

#[test]
fn small_neighbors_receive_group_packets_by_unicast() {
    let Some(net) = Net::new(&[1500, 1500, 300]) else { return };
    let mut a = net.router(0, "", &[]);
    let _b = net.router(1, "", &[]);
    let mut small = net.router(2, "", &[]);
    net.wait_for_neighbours(&mut a, 2);
    net.wait_for_neighbours(&mut small, 2);
    let faces = a.client.faces();
    let group = faces.iter().find(|face| face.uri == "ether://[01:00:5e:00:17:aa]").unwrap();
    assert_eq!(group.mtu, Some(1500), "it does not limit the frames of others");
    // A route to the group. The Interest along it is longer than the frames of the small neighbor.
    let route = ControlParameters { face_id: Some(group.face_id), ..named("/small") };
    a.client.ok(Command::RibRegister, &route);
    a.client.ok(
        Command::StrategyChoiceSet,
        &ControlParameters {
            strategy: Some("/localhost/nfd/strategy/best-route".parse().unwrap()),
            ..named("/small")
        },
    );
    small.client.register("/small");
    a.client.ask(&format!("/small/{}", "x".repeat(500)));
    small.client.serve_one(b"by unicast");
    let answer = a.client.receive(PATIENCE).expect("an answer");
    assert_eq!(answer.headers.nack, None);
    assert_eq!(answer.data().content, b"by unicast");
    let listed = neighbours(&mut a);
    let of_small = listed.iter().find(|neighbour| neighbour.station == mac(2)).unwrap();
    assert_eq!(of_small.mtu, Some(300));
    // It stays a neighbor, although it receives no multicast hello.
    std::thread::sleep(Duration::from_secs(4));
    net.wait_for_neighbours(&mut small, 2);
    until("both are there", || (neighbours(&mut a).len() == 2).then_some(()));
}

//! What a neighbour gets before it has delivered anything: nothing of what a producer without
//! discovery has. And what goes to a group reaches neighbours that its frames are too long for.

use std::time::Duration;

use namely_wire::mgmt::{Command, ControlParameters};

use crate::beside::{Scene, Station};
use crate::common::PATIENCE;
use crate::common::client::named;
use crate::segment::{Net, mac, neighbours};
use namely_skip::until;

#[test]
fn a_silent_neighbour_costs_a_producer_without_discovery_no_fetch() {
    let Some(mut scene) = Scene::new(Station::Silent) else { return };
    let fetched = scene.fetch(100);
    assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{fetched:?}");
}

#[test]
fn a_refusing_neighbour_costs_a_producer_without_discovery_no_fetch() {
    let Some(mut scene) = Scene::new(Station::Refusing) else { return };
    let fetched = scene.fetch(100);
    assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{fetched:?}");
}

#[test]
fn a_lying_neighbour_is_asked_no_more_once_a_consumer_has_said_so() {
    // It answers sooner than the producer, each time that it is asked.
    let takes = Duration::from_millis(3);
    let Some(mut scene) = Scene::with_producer(Station::Lying, takes) else { return };
    assert_eq!(scene.fetch(1).wrong, 1);
    let fetched = scene.fetch(100);
    assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{fetched:?}");
}

#[test]
fn a_neighbour_below_the_floor_receives_by_unicast_what_goes_to_the_group() {
    let Some(net) = Net::new(&[1500, 1500, 300]) else { return };
    let mut a = net.router(0, "", &[]);
    let _b = net.router(1, "", &[]);
    let mut small = net.router(2, "", &[]);
    net.wait_for_neighbours(&mut a, 2);
    net.wait_for_neighbours(&mut small, 2);
    let faces = a.client.faces();
    let group = faces.iter().find(|face| face.uri == "ether://[01:00:5e:00:17:aa]").unwrap();
    assert_eq!(group.mtu, Some(1500), "nobody's frames are cut for it");
    // A route to the group, along which an Interest goes that is longer than its frames.
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
    let heard = neighbours(&mut a);
    let of_small = heard.iter().find(|neighbour| neighbour.station == mac(2)).unwrap();
    assert_eq!(of_small.mtu, Some(300));
    // It stays, though it hears no multicast hello.
    std::thread::sleep(Duration::from_secs(4));
    net.wait_for_neighbours(&mut small, 2);
    until("both are there", || (neighbours(&mut a).len() == 2).then_some(()));
}

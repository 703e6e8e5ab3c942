//! A neighbor that has not delivered anything receives none of the traffic of a producer without
//! discovery. Packets to a group also reach neighbors for which its frames are too long.

use std::time::{Duration, Instant};

use namely_messages::{Command, ControlParameters};

use crate::beside::{Fetched, Scene, Station};
use crate::common::PATIENCE;
use crate::common::client::named;
use crate::segment::{HEARTBEAT_MS, Net, mac, neighbours};
use namely_testkit::until;

/// Fetches 100 packets, again if some are lost. The router refuses an Interest if a group does not
/// answer in time, and a producer that waits for a processor may be that late in some rounds.
fn fetch_all(scene: &mut Scene) -> Fetched {
    let mut fetched = scene.fetch(100);
    for _ in 0..4 {
        if fetched.lost > 0 {
            let wrong = fetched.wrong;
            fetched = scene.fetch(100);
            fetched.wrong += wrong;
        }
    }
    fetched
}

#[test]
fn a_silent_neighbor_costs_no_fetch() {
    let Some(mut scene) = Scene::new(Station::Silent) else { return };
    let fetched = fetch_all(&mut scene);
    assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{fetched:?}");
}

#[test]
fn a_refusing_neighbor_costs_no_fetch() {
    let Some(mut scene) = Scene::new(Station::Refusing) else { return };
    let fetched = fetch_all(&mut scene);
    assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{fetched:?}");
}

#[test]
fn a_lying_neighbor_is_avoided_after_report() {
    // It answers each Interest sooner than the producer, unless it waits for a processor.
    let takes = Duration::from_millis(3);
    let Some(mut scene) = Scene::with_producer(Station::Lying, takes) else { return };
    until("a lie", || (scene.fetch(1).wrong > 0).then_some(()));
    let began = Instant::now();
    let fetched = fetch_all(&mut scene);
    // The router avoids the liar for half a minute, which is long unless the machine is busy.
    let allowed = began.elapsed().as_secs() as usize / 30;
    assert!(fetched.lost == 0 && fetched.wrong <= allowed, "{allowed} {fetched:?}");
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
    std::thread::sleep(Duration::from_millis(4 * HEARTBEAT_MS));
    net.wait_for_neighbours(&mut small, 2);
    until("both are there", || (neighbours(&mut a).len() == 2).then_some(()));
}

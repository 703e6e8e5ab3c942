//! One peer is at a limit of the core; an application and another neighbour are served.

mod support;

use std::net::{SocketAddr, TcpStream};

use namely_daemon::dataplane::DataPlaneOptions;
use namely_forwarder::{Config, DropReason};
use namely_wire::InterestBuilder;
use namely_wire::mgmt::FaceEventKind;
use support::{App, Router, data, eventually, interest, name};

/// Fewer Interests than the defaults have, so that one core fills the table at once.
const PIT_ENTRIES: usize = 4000;

fn router() -> Router {
    let config = Config {
        pit_entries_max: PIT_ENTRIES,
        pit_entries_per_face_max: PIT_ENTRIES / 2,
        pit_entries_per_holder_max: PIT_ENTRIES,
        ..Config::new(|_| [0; 32])
    };
    Router::start_with_config(DataPlaneOptions::default(), config)
}

fn neighbour(router: &Router, address: SocketAddr) -> App<TcpStream> {
    let peer = App::new(TcpStream::connect(address).unwrap());
    router.event_face(FaceEventKind::Created);
    peer
}

fn for_an_hour(uri: &str) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce([7; 4]).lifetime_ms(3_600_000).build()
}

/// Interests for an hour by neighbours who go: while they are there an application is served at
/// their cost, and when they are gone nothing of them stays.
#[test]
fn neighbours_who_fill_the_pit_and_go_stop_nobody() {
    let router = router();
    let address = router.listen_tcp();
    let (mut producer, upstream) = router.connect();
    router.route("/a", upstream);
    let mut flooders: Vec<App<TcpStream>> = (0..2).map(|_| neighbour(&router, address)).collect();
    for (n, flooder) in flooders.iter_mut().enumerate() {
        for i in 0..PIT_ENTRIES / 2 {
            let asked = for_an_hour(&format!("/a/{n}/{i}"));
            flooder.send(&asked);
            assert_eq!(producer.receive(), asked);
        }
    }
    eventually(|| router.core.table_sizes().pit == PIT_ENTRIES);
    let (mut app, _) = router.connect();
    for i in 0..100 {
        let uri = format!("/a/honest/{i}");
        app.send(&interest(&uri));
        assert_eq!(producer.receive(), interest(&uri));
        producer.send(&data(&uri, 100));
        assert_eq!(app.receive(), data(&uri, 100));
    }
    assert!(router.core.counters().dropped(DropReason::PitEvicted) >= 1);
    assert_eq!(router.core.counters().dropped(DropReason::PitFull), 0, "the honest one was never refused");
    drop(flooders);
    eventually(|| router.core.table_sizes().pit == 0);
}

/// A neighbour who was asked for nothing answers first: neither who waits nor the content store
/// gets what it says.
#[test]
fn a_third_neighbour_answers_for_nobody() {
    let router = router();
    let address = router.listen_tcp();
    let (mut producer, upstream) = router.connect();
    router.route("/a", upstream);
    let (mut app, _) = router.connect();
    let mut poisoner = neighbour(&router, address);
    let unsolicited = || router.core.counters().dropped(DropReason::Unsolicited);
    for i in 0..20 {
        let uri = format!("/a/{i}");
        app.send(&interest(&uri));
        assert_eq!(producer.receive(), interest(&uri));
        poisoner.send(&data(&uri, 50));
        eventually(|| unsolicited() == i + 1);
        assert_eq!(router.core.cs_status().packets as u64, i);
        producer.send(&data(&uri, 100));
        assert_eq!(app.receive(), data(&uri, 100));
    }
}

//! Shared memory between the commands and a real router.

use crate::common;

use std::fs;

use common::Home;
use namely_transport::connection::{AddressSource, Candidate};
use namely_transport::connection::{Connection, Options};

/// A home with a router that offers shared memory beside its socket, and the router's position
/// among the children.
fn usual() -> (Home, usize) {
    let mut home = Home::new();
    let (unix, memif) = (home.router_uri(), memif_uri(&home));
    let router = home.start_router_at(&[&unix, &memif]);
    (home, router)
}

fn memif_uri(home: &Home) -> String {
    format!("memif://{}", home.path("namely.memif").display())
}

#[test]
fn clients_prefer_shared_memory_when_offered() {
    let (home, _) = usual();
    let candidates = |home: &Home| {
        [memif_uri(home), home.router_uri()]
            .map(|uri| Candidate { uri: uri.parse().unwrap(), named_by: AddressSource::DefaultAddress })
            .to_vec()
    };
    let connection = Connection::open(candidates(&home), Options::default()).unwrap();
    assert_eq!(connection.uri().to_string(), memif_uri(&home));
    let by_name = Connection::find(Some(&home.router_uri()), Options::default()).unwrap();
    assert_eq!(by_name.uri().to_string(), home.router_uri());
    let without = Home::with_router();
    let connection = Connection::open(candidates(&without), Options::default()).unwrap();
    assert_eq!(connection.uri().to_string(), without.router_uri());
}

#[test]
fn shared_memory_survives_a_router_restart() {
    let (mut home, router) = usual();
    let uri = memif_uri(&home);
    fs::create_dir(home.path("data")).unwrap();
    let octets: Vec<u8> = (0..3_000_000u32).map(|n| ((n * 7) >> 3) as u8).collect();
    fs::write(home.path("data/a.bin"), &octets).unwrap();
    home.serve("/lab/data", ["serve", "data", "--prefix", "/lab/data", "--router", &uri]);
    let fetch = |home: &Home, to: &str| {
        home.ok(["get", "/lab/data/a.bin", "--output", to, "--router", &uri]);
        assert!(fs::read(home.path(to)).unwrap() == octets, "the file differs");
    };
    fetch(&home, "first.bin");
    assert!(home.ok(["face", "list"]).contains(&uri));
    home.stop(router);
    let unix = home.router_uri();
    home.start_router_at(&[&unix, &uri]);
    home.wait_for("the prefix", || home.ok(["route", "list"]).contains("/lab/data"));
    fetch(&home, "second.bin");
}

#[test]
fn a_killed_client_leaves_no_face() {
    let (mut home, _) = usual();
    let uri = memif_uri(&home);
    home.serve("/perf", ["perf", "server", "--router", &uri]);
    // A client without an answer within a lifetime ends.
    let patient = ["perf", "client", "--duration", "600", "--lifetime", "60000", "--router", &uri];
    let mut client = home.namely(patient).spawn().unwrap();
    let faces = |home: &Home| home.ok(["face", "list"]).matches("memif://").count();
    home.wait_for("two faces", || faces(&home) == 2);
    // The client may be killed at any moment of the burst.
    std::thread::sleep(std::time::Duration::from_millis(100));
    client.kill().unwrap();
    client.wait().unwrap();
    home.wait_for("one face", || faces(&home) == 1);
}

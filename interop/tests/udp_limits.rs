//! Peers that prove that they receive at their UDP address, so that a router sends to it without
//! limit (docs/security.md, P-24): routers that fetch from `namelyd` over UDP, and an application
//! without a router of its own.

use std::time::Instant;

use crate::behaviour;

use behaviour::text;
use namely_interop::{Link, Peer, Router, World};
use namely_testkit::{Need, or_skip};

/// Octets of the file: much more than a limit lets pass at once.
const OCTETS: usize = 5_000_000;

/// The limit of an address that has proven nothing: a fetch on a loaded machine exceeds it, too.
const LIMIT_MBIT_S: u32 = 1;

/// Packets that the router at `uri` did not send for a limit, over all faces.
fn refused(world: &World, uri: &str) -> u64 {
    let counters = world.ask(uri, &["status", "--counters"]);
    let of_limit = counters.iter().filter(|counter| {
        counter["counter"]
            .as_str()
            .or(counter["label"].as_str())
            .is_some_and(|label| label.contains("unproven"))
    });
    of_limit.filter_map(|counter| counter["value"].as_u64()).sum()
}

/// Fetches two files of `namelyd` at another router, over UDP. The second fetch exceeds the limit,
/// and no packet of it is refused.
fn a_router_proves_itself(start: fn(&World) -> Result<Router, String>) {
    let (world, far) = (World::new(), World::new());
    let producer = Router::namelyd_limiting_udp(&world, LIMIT_MBIT_S);
    let Some(router) = or_skip(Need::Peers, start(&far)) else { return };
    world.payload("data/first", OCTETS, 1);
    world.payload("data/second", OCTETS, 2);
    let (here, there) = (producer.uri(Link::Unix), router.uri(Link::Unix));
    let server = world.serve(&here, &world.path("data"), &["--prefix", "/lab"]);
    let udp = producer.uri(Link::Udp).replace("udp://", "udp4://");
    world.ask(&there, &["route", "add", "/lab", &udp]);
    world.get(&there, "/lab/first", &world.path("out"), &[]).success();
    let before = refused(&world, &here);
    let begun = Instant::now();
    world.get(&there, "/lab/second", &world.path("out"), &[]).success();
    let mbit_s = OCTETS as f64 * 8e-6 / begun.elapsed().as_secs_f64();
    eprintln!("{mbit_s} Mbit/s, {before} packets refused at first");
    assert_eq!(refused(&world, &here), before, "the address is proven");
    assert!(mbit_s > f64::from(LIMIT_MBIT_S), "the fetch did not exceed the limit: {mbit_s}");
    drop(server);
}

#[test]
fn namelyd_proves_its_address() {
    a_router_proves_itself(|world| Ok(Router::namelyd(world, &[])));
}

#[test]
fn nfd_proves_its_address() {
    a_router_proves_itself(Router::nfd);
}

/// An application of NDNts fetches more over UDP than the limit's burst: it receives everything,
/// whether it proves its address or not.
#[test]
fn ndnts_fetches_within_the_limit() {
    let Some(peer) = or_skip(Need::Node, Peer::ndnts()) else { return };
    let world = World::new();
    let certificate = world.namely_key("/lab", "ed25519");
    let router = Router::namelyd(&world, &[&certificate]);
    let file = world.payload("data/file", 1_000_000, 3);
    let here = router.uri(Link::Unix);
    let server = world.serve(&here, &world.path("data"), &["--prefix", "/lab"]);
    let begun = Instant::now();
    let trust = ["--certificate", text(&certificate)];
    let fetched = peer.fetch(&world, &router.uri(Link::Udp), "/lab/file", &trust);
    assert_eq!(fetched["sha256"], behaviour::digest_of(&file), "{fetched}");
    let rate = 1e6 * 8e-6 / begun.elapsed().as_secs_f64();
    eprintln!("{rate} Mbit/s with its start, {} packets refused", refused(&world, &here));
    drop(server);
}

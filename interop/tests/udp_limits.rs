//! Which peers prove that they receive what is sent to their UDP address, so that a router sends to
//! it without limit (docs/security.md, P-24): routers that fetch from `namelyd` over UDP, and an
//! application that has no router of its own.

use std::time::{Duration, Instant};

use crate::behaviour;

use behaviour::text;
use namely_interop::{Link, Peer, Router, World};
use namely_skip::{Need, or_skip};

/// Octets of the file: much more than a limit lets pass at once.
const OCTETS: usize = 5_000_000;

/// How long it takes at 10 Mbit/s, the limit of an address that has proven nothing.
const LIMITED: Duration = Duration::from_secs(4);

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

/// Fetches at another router twice what `namelyd` serves, over UDP: the second time nothing is held
/// back.
fn a_router_proves_itself(start: fn(&World) -> Result<Router, String>) {
    let (world, far) = (World::new(), World::new());
    let producer = Router::namelyd(&world, &[]);
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
    let lasted = begun.elapsed();
    eprintln!("{} Mbit/s, {before} packets refused at first", OCTETS as f64 * 8e-6 / lasted.as_secs_f64());
    assert_eq!(refused(&world, &here), before, "the address is proven");
    assert!(lasted < LIMITED, "{lasted:?}");
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

/// An application of NDNts fetches over UDP what is larger than the limit lets pass at once:
/// whether it proves itself or not, it has all of it.
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

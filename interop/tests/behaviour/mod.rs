//! What every peer must be able to do with namely, whatever library it is built on and however it connects.
#![allow(dead_code, reason = "each test program uses the part that its peer has")]

use std::path::Path;

use namely_interop::{CommandKey, Link, Peer, Router, World};
use namely_security::sha256;
use serde_json::{Value, json};

/// NackReason: no route.
const NO_ROUTE: u64 = 150;

/// Octets of a Data's content that fits a UDP datagram whole: python-ndn has no reassembly.
pub(crate) const SEGMENT_OCTETS: &str = "1000";

/// A file's SHA-256 in hex.
pub(crate) fn digest_of(path: &Path) -> String {
    let octets = std::fs::read(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    sha256(&octets).iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A path as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// The key that signs commands where no user is known, which is everywhere but on the Unix socket.
fn on(link: Link, key: &CommandKey) -> Option<&CommandKey> {
    (link != Link::Unix).then_some(key)
}

/// Peers serve and fetch an object through `namelyd`; every packet's signature holds.
pub(crate) fn an_object_crosses_namelyd(producer: &Peer, consumer: &Peer, link: Link) {
    let world = World::new();
    let key = producer.new_command_key(&world, "ecdsa");
    let router = Router::namelyd(&world, &[&key]);
    let payload = world.payload("payload", 100_123, 1);
    let produce =
        ["produce", "--payload", text(&payload), "--segment-octets", SEGMENT_OCTETS, "--sign", "ed25519"];
    let object = ["--identity", "/peer/object", "/peer/object"];
    let producer =
        producer.produce(&world, &router.uri(link), on(link, &key), &[&produce[..], &object].concat());
    let trust = ["--certificate", text(&producer.certificate)];
    let fetched = consumer.fetch(&world, &router.uri(link), "/peer/object", &trust);
    assert_eq!(fetched["sha256"], digest_of(&payload), "{fetched}");
    assert_eq!((&fetched["name"], &fetched["segments"]), (&json!(producer.name), &json!(101)));
    assert_eq!(fetched["signature_types"], json!({"5": 102}), "metadata and segments are signed");
}

/// Commands: what a user of the Unix socket may do, what holders of keys may, and what nobody else may.
pub(crate) fn commands_are_obeyed_for_users_and_known_keys_only(peer: &Peer) {
    let world = World::new();
    let keys = ["rsa", "ecdsa", "ed25519"].map(|kind| peer.new_command_key(&world, kind));
    let stranger_world = World::new();
    let stranger = peer.new_command_key(&stranger_world, "ecdsa");
    let router = Router::namelyd(&world, &keys.each_ref());
    let command = |link, key: Option<&CommandKey>, args: &[&str]| {
        let uri = router.uri(link);
        let mut all = vec!["command", "--router", &uri];
        all.extend(key.map(CommandKey::args).unwrap_or_default());
        all.extend(args);
        let response = peer.run(&world, &all).success().event("response");
        response["status"].as_u64().unwrap_or_else(|| panic!("{response}"))
    };
    let register = ["rib/register", "--name", "/app", "--cost", "7"];
    assert_eq!(command(Link::Unix, None, &register), 200, "a user of the Unix socket");
    for link in [Link::Tcp, Link::Udp] {
        for key in &keys {
            assert_eq!(command(link, Some(key), &register), 200, "{link:?} {}", key.kind);
        }
        assert_eq!(command(link, Some(&stranger), &register), 403, "{link:?}: a key that nobody knows");
        assert_eq!(command(link, None, &register), 403, "{link:?}: a digest");
    }
    let strategy = ["--name", "/app", "--strategy", "/localhost/nfd/strategy/multicast"];
    assert_eq!(command(Link::Tcp, Some(&keys[1]), &[&["strategy-choice/set"], &strategy[..]].concat()), 200);
    assert_eq!(command(Link::Unix, None, &["faces/create", "--uri", "udp4://127.0.0.1:9"]), 200);
    assert_eq!(command(Link::Unix, None, &["rib/unregister", "--name", "/nothing"]), 404);
    let choices = dataset(peer, &world, &router, "strategy-choice/list");
    let chosen =
        choices.iter().find(|choice| choice["name"] == "/app").unwrap_or_else(|| panic!("{choices:?}"));
    assert!(
        chosen["strategy"].as_str().is_some_and(|name| name.starts_with("/localhost/nfd/strategy/multicast"))
    );
    let faces = dataset(peer, &world, &router, "faces/list");
    assert!(faces.iter().any(|face| face["uri"] == "udp4://127.0.0.1:9"), "{faces:?}");
}

/// A registration shows in the RIB while its application runs, and goes with it.
pub(crate) fn a_route_lasts_as_long_as_its_application(peer: &Peer) {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    let payload = world.payload("payload", 10, 1);
    let args = ["produce", "--payload", text(&payload), "/peer/object"];
    let producer = peer.produce(&world, &router.uri(Link::Unix), None, &args);
    let is_routed = || {
        let routes = dataset(peer, &world, &router, "rib/list");
        routes.iter().any(|route| route["name"] == "/peer/object")
    };
    assert!(is_routed());
    drop(producer);
    assert!(!is_routed());
}

/// All entries of a dataset, as the peer reads them.
pub(crate) fn dataset(peer: &Peer, world: &World, router: &Router, name: &str) -> Vec<Value> {
    let finished = peer.run(world, &["dataset", "--router", &router.uri(Link::Unix), name]).success();
    finished.event("dataset")["entries"].as_array().cloned().unwrap_or_default()
}

/// A name that nobody serves is refused at once, with the reason.
pub(crate) fn a_name_without_a_route_is_refused_at_once(peer: &Peer) {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    for link in [Link::Unix, Link::Tcp, Link::Udp] {
        let nack =
            peer.run(&world, &["no-route", "--router", &router.uri(link), "/nobody"]).success().event("nack");
        assert_eq!(nack["reason"], NO_ROUTE, "{link:?}");
    }
}

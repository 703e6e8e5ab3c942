//! The behavior that every peer must have with namely, for any library below it and any link.
#![allow(dead_code, reason = "each test program uses the part that its peer has")]

use std::path::Path;

use namely_interop::{CommandKey, Link, Peer, Router, SIGNATURE_TYPES, World};
use namely_security::sha256;
use serde_json::{Value, json};

/// NackReason: no route.
const NO_ROUTE: u64 = 150;

/// Exit status of `namely get` when no trusted producer signed the content.
const NOT_VERIFIED: i32 = 6;

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

/// Peers serve and fetch an object through `namelyd`. Their library registers by itself. Every
/// packet has a valid signature.
pub(crate) fn an_object_crosses_namelyd(producer: &Peer, consumer: &Peer, link: Link) {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    let payload = world.payload("payload", 100_123, 1);
    let produce =
        ["produce", "--payload", text(&payload), "--segment-octets", SEGMENT_OCTETS, "--sign", "ed25519"];
    let object = ["--identity", "/peer/object", "/peer/object"];
    let producer = producer.produce(&world, &router.uri(link), None, &[&produce[..], &object].concat());
    let trust = ["--certificate", text(&producer.certificate)];
    let fetched = consumer.fetch(&world, &router.uri(link), "/peer/object", &trust);
    assert_eq!(fetched["sha256"], digest_of(&payload), "{fetched}");
    assert_eq!((&fetched["name"], &fetched["segments"]), (&json!(producer.name), &json!(101)));
    assert_eq!(fetched["signature_types"], json!({"5": 102}), "metadata and segments are signed");
}

/// A peer fetches a file that namely serves. The server registers over the same kind of link.
/// Either each segment is signed, or segments have digests and a manifest, which this peer does not
/// know. The metadata is signed in both cases.
pub(crate) fn it_fetches_a_served_file(peer: &Peer, link: Link, key_type: &str, segment_octets: &str) {
    let number = signature_type(key_type).to_string();
    for sign in ["packet", "manifest"] {
        let world = World::new();
        let certificate = world.namely_key("/lab", key_type);
        let router = Router::namelyd(&world, &[&certificate]);
        let file = world.payload("data/runs/run7", 150_001, 3);
        let args = ["--prefix", "/lab/data", "--segment-size", segment_octets, "--sign", sign];
        let server = world.serve(&router.uri(link), &world.path("data"), &args);
        let trust = ["--certificate", text(&certificate)];
        let fetched = peer.fetch(&world, &router.uri(link), "/lab/data/runs/run7", &trust);
        assert_eq!(fetched["sha256"], digest_of(&file), "{sign}: {fetched}");
        let types = &fetched["signature_types"];
        let segments = fetched["segments"].as_u64().unwrap_or_default();
        let expected = match sign {
            "packet" => json!({ number.clone(): segments + 1 }),
            _ => json!({ number.clone(): 1, "0": segments }),
        };
        assert_eq!(types, &expected, "{sign}");
        drop(server);
    }
}

/// namely fetches an object that a peer produces, over the same kind of link. A fetch that trusts
/// the wrong key leaves no file.
pub(crate) fn namely_fetches_its_object(peer: &Peer, link: Link, segment_octets: &str) {
    let world = World::new();
    let strangers = World::new();
    let stranger = strangers.namely_key("/peer", "ecdsa");
    let router = Router::namelyd(&world, &[]);
    let payload = world.payload("payload", 150_001, 4);
    let produce =
        ["produce", "--payload", text(&payload), "--segment-octets", segment_octets, "--sign", "ecdsa"];
    let object = ["--identity", "/peer", "/peer/object"];
    let producer = peer.produce(&world, &router.uri(link), None, &[&produce[..], &object].concat());
    let out = world.path("out");
    let refused = world.get(&router.uri(link), "/peer/object", &out, &["--trust", text(&stranger)]);
    assert_eq!((refused.status.code(), out.exists()), (Some(NOT_VERIFIED), false), "{}", refused.errors);
    let trust = ["--trust", text(&producer.certificate)];
    let got = world.get(&router.uri(link), "/peer/object", &out, &trust).success().values();
    assert_eq!(digest_of(&out), digest_of(&payload));
    assert_eq!(got[0]["name"], json!(producer.name));
}

/// Objects under every signature type: namely accepts those of trusted keys. It rejects the others,
/// unless an option allows weaker checks.
pub(crate) fn namely_fetches_every_signature_type(peer: &Peer) {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    let uri = router.uri(Link::Unix);
    let payload = world.payload("payload", 5000, 5);
    for (kind, _) in SIGNATURE_TYPES {
        let name = format!("/peer/{kind}");
        let produce = ["produce", "--payload", text(&payload), "--sign", kind, "--hmac-key", "00112233"];
        let producer =
            peer.produce(&world, &uri, None, &[&produce[..], &["--identity", "/peer", &name]].concat());
        let certificate = text(&producer.certificate).to_owned();
        let enough: &[&str] = match kind {
            "digest" => &["--digest-only"],
            "null" | "hmac" => &["--insecure"],
            _ => &["--trust", &certificate],
        };
        let out = world.path(kind);
        let refused = world.get(&uri, &name, &out, &[]);
        assert_eq!(
            (refused.status.code(), out.exists()),
            (Some(NOT_VERIFIED), false),
            "{kind}: {}",
            refused.errors
        );
        world.get(&uri, &name, &out, enough).success();
        assert_eq!(digest_of(&out), digest_of(&payload), "{kind}");
    }
}

/// The consumer trusts the issuer only, and fetches the producer's certificate by name. Both namely
/// and the peer are the consumer in turn.
pub(crate) fn certificates_are_fetched_by_name(peer: &Peer) {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    let uri = router.uri(Link::Unix);
    let payload = world.payload("data/file", 5000, 6);
    let issuer = world.namely_key("/lab", "ecdsa");

    let key = peer.new_key(&world, "ed25519", "/lab/alice");
    let issued = world.path("alice.cert");
    let lines = world.namely(["cert", "issue", text(&key.certificate), "--key", "/lab"]).success().lines;
    std::fs::write(&issued, lines.join("\n")).expect("a file");
    let produce =
        ["produce", "--payload", text(&payload), "--sign", "ed25519", "--load-key", text(&key.private)];
    let object = ["--load-certificate", text(&issued), "/lab/alice/object"];
    let producer = peer.produce(&world, &uri, None, &[&produce[..], &object].concat());
    let consumer = World::new();
    let out = consumer.path("out");
    consumer.get(&uri, "/lab/alice/object", &out, &["--trust", text(&issuer)]).success();
    assert_eq!(digest_of(&out), digest_of(&payload));
    drop(producer);

    let request = consumer.namely_key("/lab/bob", "ed25519");
    let lines = world.namely(["cert", "issue", text(&request), "--key", "/lab"]).success().lines;
    let issued = consumer.path("bob.cert");
    std::fs::write(&issued, lines.join("\n")).expect("a file");
    let certificate = consumer.namely(["cert", "import", text(&issued)]).success().values().remove(0);
    let name = certificate["certificate"].as_str().expect("the certificate's name");
    consumer.namely(["key", "default", name]).success();
    let server = consumer.serve(&uri, &world.path("data"), &["--prefix", "/lab/bob/data"]);
    let trust = ["--certificate", text(&issuer), "--fetch-certificates"];
    let fetched = peer.fetch(&world, &uri, "/lab/bob/data/file", &trust);
    assert_eq!(fetched["sha256"], digest_of(&payload), "{fetched}");
    drop(server);
}

/// A peer fetches an object that `namely put` published.
pub(crate) fn it_fetches_what_namely_puts(peer: &Peer) {
    let world = World::new();
    let certificate = world.namely_key("/lab", "ed25519");
    let router = Router::namelyd(&world, &[]);
    let uri = router.uri(Link::Unix);
    let payload = world.payload("payload", 50_000, 7);
    let publication = world.put(&uri, &payload, &["/lab/notes", "--segment-size", SEGMENT_OCTETS]);
    let fetched = peer.fetch(&world, &uri, "/lab/notes", &["--certificate", text(&certificate)]);
    assert_eq!(fetched["sha256"], digest_of(&payload), "{fetched}");
    drop(publication);
}

fn signature_type(kind: &str) -> u64 {
    let (_, number) =
        SIGNATURE_TYPES.into_iter().find(|(known, _)| *known == kind).expect("a signature type");
    number
}

/// Commands: those that a user of the Unix socket may give, those that need a key, and those that
/// are refused.
pub(crate) fn commands_are_obeyed_for_users_and_known_keys_only(peer: &Peer) {
    let world = World::new();
    let keys = ["rsa", "ecdsa", "ed25519"].map(|kind| peer.new_command_key(&world, kind));
    let stranger_world = World::new();
    let stranger = peer.new_command_key(&stranger_world, "ecdsa");
    let router = Router::namelyd(&world, &keys.each_ref().map(|key| key.certificate.as_path()));
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
    }
    // The router identifies a user of this machine by its uid. The signature does not count.
    for link in [Link::Tcp, Link::Udp] {
        assert_eq!(command(link, Some(&stranger), &register), 200, "{link:?}: a key that nobody knows");
        assert_eq!(command(link, None, &register), 200, "{link:?}: a digest");
    }
    let multicast =
        ["strategy-choice/set", "--name", "/app", "--strategy", "/localhost/nfd/strategy/multicast"];
    assert_eq!(command(Link::Tcp, None, &multicast), 403, "registering is no managing");
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

/// Registration, commands and datasets are the same over each kind of connection of this machine,
/// with the library's own faces and prefixes.
pub(crate) fn management_is_alike_over_unix_tcp_and_udp(peer: &Peer) {
    let world = World::new();
    let router = Router::namelyd_managed_over_loopback(&world);
    for (link, name) in [(Link::Unix, "/by/unix"), (Link::Tcp, "/by/tcp"), (Link::Udp, "/by/udp")] {
        let uri = router.uri(link);
        let command = |args: &[&str]| {
            let finished = peer.run(&world, &[&["command", "--router", &uri], args].concat()).success();
            let response = finished.event("response");
            response["status"].as_u64().unwrap_or_else(|| panic!("{response}"))
        };
        let dataset = |name: &str| {
            let finished = peer.run(&world, &["dataset", "--router", &uri, name]).success();
            finished.event("dataset")["entries"].as_array().cloned().expect("entries")
        };
        let strategy = ["--name", name, "--strategy", "/localhost/nfd/strategy/multicast"];
        assert_eq!(command(&["rib/register", "--name", name, "--cost", "7"]), 200, "{link:?}");
        assert_eq!(command(&[&["strategy-choice/set"], &strategy[..]].concat()), 200, "{link:?}");
        assert_eq!(command(&["rib/unregister", "--name", "/nothing"]), 404, "{link:?}");
        let choices = dataset("strategy-choice/list");
        assert!(choices.iter().any(|choice| choice["name"] == name), "{link:?}: {choices:?}");
        let own = format!("{}4://127.0.0.1", if link == Link::Udp { "udp" } else { "tcp" });
        let faces = dataset("faces/list");
        let is_own = |face: &Value| {
            link == Link::Unix || face["uri"].as_str().is_some_and(|uri| uri.starts_with(&own))
        };
        assert!(faces.iter().any(is_own), "{link:?}: {faces:?}");
        assert_eq!(command(&["strategy-choice/unset", "--name", name]), 200, "{link:?}");
    }
}

/// A registration is in the RIB while its application runs, and is removed with it.
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

/// An Interest without a route is refused at once, with the reason.
pub(crate) fn a_name_without_a_route_is_refused_at_once(peer: &Peer) {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    for link in [Link::Unix, Link::Tcp, Link::Udp] {
        let nack =
            peer.run(&world, &["no-route", "--router", &router.uri(link), "/nobody"]).success().event("nack");
        assert_eq!(nack["reason"], NO_ROUTE, "{link:?}");
    }
}

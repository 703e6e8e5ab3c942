//! NDNts (npm) on a Unix socket, TCP, UDP and WebSocket.

use crate::behaviour;

use behaviour::{SEGMENT_OCTETS, digest_of, text};
use namely_interop::{Link, Peer, Router, World, eventually};
use namely_testkit::{Need, or_skip};
use serde_json::json;

/// Exit status of `namely get` when there is no such data.
const NOT_FOUND: i32 = 4;

/// Runs `test` with NDNts. Skips it if NDNts is not available.
fn with_ndnts(test: impl FnOnce(&Peer)) {
    if let Some(peer) = or_skip(Need::Node, Peer::ndnts()) {
        test(&peer);
    }
}

#[test]
fn ndnts_objects_cross_namelyd_over_unix() {
    with_ndnts(|peer| behaviour::an_object_crosses_namelyd(peer, peer, Link::Unix));
}

#[test]
fn ndnts_objects_cross_namelyd_over_tcp() {
    with_ndnts(|peer| behaviour::an_object_crosses_namelyd(peer, peer, Link::Tcp));
}

#[test]
fn ndnts_objects_cross_namelyd_over_udp() {
    with_ndnts(|peer| behaviour::an_object_crosses_namelyd(peer, peer, Link::Udp));
}

#[test]
fn ndnts_objects_cross_namelyd_over_websocket() {
    with_ndnts(|peer| behaviour::an_object_crosses_namelyd(peer, peer, Link::WebSocket));
}

#[test]
fn ndnts_fetches_files_over_unix() {
    with_ndnts(|peer| behaviour::it_fetches_a_served_file(peer, Link::Unix, "ed25519", "8000"));
}

#[test]
fn ndnts_fetches_files_over_tcp() {
    with_ndnts(|peer| behaviour::it_fetches_a_served_file(peer, Link::Tcp, "ecdsa", SEGMENT_OCTETS));
}

#[test]
fn ndnts_fetches_fragmented_files_over_udp() {
    with_ndnts(|peer| behaviour::it_fetches_a_served_file(peer, Link::Udp, "rsa", "8000"));
}

#[test]
fn namely_fetches_from_ndnts_over_unix() {
    with_ndnts(|peer| behaviour::namely_fetches_its_object(peer, Link::Unix, "8000"));
}

#[test]
fn namely_fetches_from_ndnts_over_tcp() {
    with_ndnts(|peer| behaviour::namely_fetches_its_object(peer, Link::Tcp, SEGMENT_OCTETS));
}

#[test]
fn namely_fetches_from_ndnts_over_udp() {
    with_ndnts(|peer| behaviour::namely_fetches_its_object(peer, Link::Udp, "8000"));
}

#[test]
fn namely_fetches_all_ndnts_signature_types() {
    with_ndnts(behaviour::namely_fetches_every_signature_type);
}

#[test]
fn ndnts_and_namely_exchange_certificates() {
    with_ndnts(behaviour::certificates_are_fetched_by_name);
}

#[test]
fn ndnts_fetches_objects_from_namely_put() {
    with_ndnts(behaviour::it_fetches_what_namely_puts);
}

#[test]
fn the_ndnts_client_reads_served_directories() {
    with_ndnts(|peer| {
        let world = World::new();
        let certificate = world.namely_key("/lab", "ed25519");
        let router = Router::namelyd(&world, &[]);
        let (large, small) = (world.payload("data/large", 100_000, 8), world.payload("data/sub/small", 1, 9));
        world.payload("data/sub/empty", 0, 10);
        let uri = router.uri(Link::Unix);
        let server = world.serve(&uri, &world.path("data"), &["--prefix", "/lab/data"]);
        let walk = ["walk-files", "--router", &uri, "--certificate", text(&certificate), "/lab/data"];
        let walked = peer.run(&world, &walk).success();
        let files = walked.events("file");
        let found =
            |path: &str| files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!((files.len(), walked.events("directory").len()), (3, 2));
        for (path, file, octets) in [("large", &large, 100_000), ("sub/small", &small, 1)] {
            let seen = found(path);
            assert_eq!((&seen["sha256"], &seen["size"]), (&json!(digest_of(file)), &json!(octets)), "{path}");
            let modified = std::fs::metadata(file).and_then(|m| m.modified()).expect("a file");
            let modified =
                modified.duration_since(std::time::UNIX_EPOCH).expect("it is not that old").as_millis();
            assert_eq!(seen["mtime_ms"], json!(modified as u64), "{path}");
        }
        assert_eq!(found("sub/empty")["octets"], 0);
        drop(server);
    });
}

#[test]
fn namely_gets_directories_from_ndnts_servers() {
    with_ndnts(|peer| {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        let uri = router.uri(Link::Unix);
        let (large, small) = (world.payload("data/large", 100_000, 8), world.payload("data/sub/small", 1, 9));
        let directory = world.path("data");
        let args =
            ["serve-files", "--directory", text(&directory), "--sign", "ecdsa", "--identity", "/ndnts"];
        let producer = peer.produce(&world, &uri, None, &[&args[..], &["/ndnts/files"]].concat());
        let out = world.path("copy");
        let trust = text(&producer.certificate).to_owned();
        world.get(&uri, "/ndnts/files", &out, &["--recursive", "--trust", &trust]).success();
        for (path, file) in [("large", large), ("sub/small", small)] {
            assert_eq!(digest_of(&out.join(path)), digest_of(&file), "{path}");
        }
        let absent = world.get(&uri, "/ndnts/files/absent", &world.path("absent"), &["--trust", &trust]);
        assert_eq!(absent.status.code(), Some(NOT_FOUND), "{}", absent.errors);
    });
}

#[test]
fn ndnts_commands_need_authorization() {
    with_ndnts(behaviour::commands_are_obeyed_for_users_and_known_keys_only);
}

#[test]
fn ndnts_manages_namelyd_over_three_transports() {
    with_ndnts(behaviour::management_is_alike_over_unix_tcp_and_udp);
}

#[test]
fn an_ndnts_route_ends_with_its_application() {
    with_ndnts(behaviour::a_route_lasts_as_long_as_its_application);
}

#[test]
fn ndnts_receives_a_no_route_nack() {
    with_ndnts(behaviour::a_name_without_a_route_is_refused_at_once);
}

#[test]
fn python_ndn_and_ndnts_exchange_objects() {
    with_ndnts(|ndnts| {
        let Some(python_ndn) = or_skip(Need::Python, Peer::python_ndn()) else { return };
        behaviour::an_object_crosses_namelyd(&python_ndn, ndnts, Link::Unix);
        behaviour::an_object_crosses_namelyd(ndnts, &python_ndn, Link::Udp);
    });
}

#[test]
fn ndnts_registers_again_after_a_restart() {
    with_ndnts(|peer| {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        let payload = world.payload("payload", 5000, 11);
        let uri = router.uri(Link::Unix);
        let args = [
            "produce",
            "--payload",
            text(&payload),
            "--sign",
            "ecdsa",
            "--identity",
            "/peer",
            "/peer/object",
        ];
        let producer = peer.produce(&world, &uri, None, &args);
        assert!(router.stop(), "namelyd stops cleanly under a running application");
        let restarted = Router::namelyd(&world, &[]);
        assert_eq!(restarted.uri(Link::Unix), uri);
        let out = world.path("out");
        let trust = ["--trust", text(&producer.certificate)];
        eventually("the object is there again", || {
            world.get(&uri, "/peer/object", &out, &trust).status.success()
        });
        assert_eq!(digest_of(&out), digest_of(&payload));
    });
}

#[test]
fn ndnts_announces_a_prefix() {
    with_ndnts(|peer| {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        let uri = router.uri(Link::Unix);
        let args = [
            "--name",
            "/announced",
            "--expiration-period",
            "60000",
            "--sign",
            "ecdsa",
            "--identity",
            "/announced",
        ];
        let response = peer.run(&world, &[&["announce", "--router", &uri], &args[..]].concat()).success();
        let response = response.event("response");
        assert_eq!(
            (response["status"].as_u64(), response["origin"].as_u64()),
            (Some(200), Some(129)),
            "{response}"
        );
    });
}

#[test]
fn ndnts_reads_status_and_content_store() {
    with_ndnts(|peer| {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        let status = behaviour::dataset(peer, &world, &router, "status/general");
        assert!(
            status[0]["version"].as_str().is_some_and(|version| version.contains("namely")),
            "{status:?}"
        );
        let store = behaviour::dataset(peer, &world, &router, "cs/info");
        assert_eq!(store[0]["capacity"], 65536, "{store:?}");
    });
}

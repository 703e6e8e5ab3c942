//! Tests with python-ndn (PyPI) over a Unix socket, TCP and UDP: the library, and its tools.

use crate::behaviour;

use behaviour::{SEGMENT_OCTETS, digest_of, text};
use namely_interop::{Finished, Link, Peer, Router, Running, World, eventually};
use namely_testkit::{Need, or_skip};
use serde_json::Value;

/// Runs `test` with python-ndn. Skips it if python-ndn is not available.
fn with_python_ndn(test: impl FnOnce(&Peer)) {
    if let Some(peer) = or_skip(Need::Python, Peer::python_ndn()) {
        test(&peer);
    }
}

#[test]
fn python_ndn_objects_cross_namelyd_over_unix() {
    with_python_ndn(|peer| behaviour::an_object_crosses_namelyd(peer, peer, Link::Unix));
}

#[test]
fn python_ndn_objects_cross_namelyd_over_tcp() {
    with_python_ndn(|peer| behaviour::an_object_crosses_namelyd(peer, peer, Link::Tcp));
}

#[test]
fn python_ndn_objects_cross_namelyd_over_udp() {
    with_python_ndn(|peer| behaviour::an_object_crosses_namelyd(peer, peer, Link::Udp));
}

#[test]
fn python_ndn_fetches_files_over_unix() {
    with_python_ndn(|peer| behaviour::it_fetches_a_served_file(peer, Link::Unix, "ed25519", SEGMENT_OCTETS));
}

#[test]
fn python_ndn_fetches_files_over_tcp() {
    with_python_ndn(|peer| behaviour::it_fetches_a_served_file(peer, Link::Tcp, "ecdsa", "8000"));
}

#[test]
fn python_ndn_fetches_files_over_udp() {
    with_python_ndn(|peer| behaviour::it_fetches_a_served_file(peer, Link::Udp, "rsa", SEGMENT_OCTETS));
}

#[test]
fn namely_fetches_from_python_ndn_over_unix() {
    with_python_ndn(|peer| behaviour::namely_fetches_its_object(peer, Link::Unix, SEGMENT_OCTETS));
}

#[test]
fn namely_fetches_from_python_ndn_over_tcp() {
    with_python_ndn(|peer| behaviour::namely_fetches_its_object(peer, Link::Tcp, "8000"));
}

#[test]
fn namely_fetches_from_python_ndn_over_udp() {
    with_python_ndn(|peer| behaviour::namely_fetches_its_object(peer, Link::Udp, SEGMENT_OCTETS));
}

#[test]
fn namely_fetches_all_python_ndn_signature_types() {
    with_python_ndn(behaviour::namely_fetches_every_signature_type);
}

#[test]
fn python_ndn_and_namely_exchange_certificates() {
    with_python_ndn(behaviour::certificates_are_fetched_by_name);
}

#[test]
fn python_ndn_fetches_objects_from_namely_put() {
    with_python_ndn(behaviour::it_fetches_what_namely_puts);
}

#[test]
fn python_ndn_commands_need_authorization() {
    with_python_ndn(behaviour::commands_are_obeyed_for_users_and_known_keys_only);
}

#[test]
fn python_ndn_manages_namelyd_over_three_transports() {
    with_python_ndn(behaviour::management_is_alike_over_unix_tcp_and_udp);
}

#[test]
fn python_ndn_routes_end_with_their_application() {
    with_python_ndn(behaviour::a_route_lasts_as_long_as_its_application);
}

#[test]
fn python_ndn_receives_a_no_route_nack() {
    with_python_ndn(behaviour::a_name_without_a_route_is_refused_at_once);
}

#[test]
fn old_format_commands_register_for_users() {
    with_python_ndn(|peer| {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        let uri = router.uri(Link::Unix);
        let args = ["command", "--router", &uri, "--old-format", "rib/register", "--name", "/old"];
        assert_eq!(peer.run(&world, &args).success().event("response")["status"], 200);
    });
}

#[test]
fn old_python_ndn_applications_serve_and_fetch() {
    with_python_ndn(|peer| {
        let world = World::new();
        let certificate = world.namely_key("/lab", "ecdsa");
        let router = Router::namelyd(&world, &[]);
        let uri = router.uri(Link::Unix);
        let payload = world.payload("data/file", 20_500, 4);
        let produce = ["classic-produce", "--payload", text(&payload), "/classic/object"];
        let producer = peer.produce(&world, &uri, None, &produce);
        let fetched = peer.run(&world, &["classic-fetch", "--router", &uri, "/classic/object"]).success();
        assert_eq!(fetched.event("fetched")["sha256"], digest_of(&payload));
        let out = world.path("out");
        world.get(&uri, "/classic/object", &out, &["--digest-only"]).success();
        assert_eq!(digest_of(&out), digest_of(&payload));
        drop(producer);

        let server = world.serve(&uri, &world.path("data"), &["--prefix", "/lab/data"]);
        let got =
            world.get(&uri, "/lab/data/file", &out, &["--trust", text(&certificate)]).success().values();
        let versioned = got[0]["name"].as_str().expect("the object's versioned name");
        let fetched = peer.run(&world, &["classic-fetch", "--router", &uri, versioned]).success();
        assert_eq!(fetched.event("fetched")["sha256"], digest_of(&payload));
        drop(server);
    });
}

/// Returns the command of an unmodified tool of python-ndn. NDN_CLIENT_TRANSPORT names its router.
fn tool(peer: &Peer, world: &World, router: &Router, program: &str, args: &[&str]) -> std::process::Command {
    let mut command = peer.tool(world, program);
    command.args(args).env("NDN_CLIENT_TRANSPORT", router.uri(Link::Unix)).env("PYTHONUNBUFFERED", "1");
    command
}

#[test]
fn pyndntools_publish_and_fetch_through_namelyd() {
    with_python_ndn(|peer| {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        let (payload, out) = (world.payload("payload", 50_000, 2), world.path("out"));
        let args = ["putchunks", "/tools/object", text(&payload)];
        let producer =
            Running::start("pyndntools", tool(peer, &world, &router, "pyndntools", &args), world.dir());
        // The tool does not report its registration, so the test queries the router.
        let is_registered = |route: &Value| route["name"] == "/tools/object";
        eventually("the prefix is registered", || {
            behaviour::dataset(peer, &world, &router, "rib/list").iter().any(is_registered)
        });
        let args = ["catchunks", "--fresh", "--output", text(&out), "/tools/object"];
        Finished::run("pyndntools", tool(peer, &world, &router, "pyndntools", &args), world.dir()).success();
        assert_eq!(digest_of(&out), digest_of(&payload));
        drop(producer);
    });
}

#[test]
fn pynfdc_manages_namelyd() {
    with_python_ndn(|peer| {
        let world = World::new();
        let router = Router::namelyd(&world, &[]);
        let run = |args: &[&str], expected: &str| {
            let finished = Finished::run("pynfdc", tool(peer, &world, &router, "pynfdc", args), world.dir());
            let said = finished.lines.join("\n");
            assert!(said.contains(expected), "pynfdc {args:?}: {said}\n{}", finished.errors);
        };
        run(&["status"], "nSatisfiedInterests");
        run(&["face"], "unix://");
        run(&["New-Route", "/tools", "256"], "200 OK");
        run(&["route"], "/tools");
        run(&["Remove-Route", "/tools", "256"], "200 OK");
        run(&["Set-Strategy", "/tools", "multicast"], "200 OK");
        run(&["strategy"], "/localhost/nfd/strategy/multicast");
        run(&["Remove-Strategy", "/tools"], "200 OK");
    });
}

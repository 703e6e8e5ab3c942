//! NDNts (npm) on a Unix socket, TCP and UDP.

mod behaviour;

use namely_interop::{Link, Peer, Router, World, or_skip};

/// Runs `test` with NDNts, unless it cannot be had here.
fn with_ndnts(test: impl FnOnce(&Peer)) {
    if let Some(peer) = or_skip(Peer::ndnts()) {
        test(&peer);
    }
}

#[test]
fn ndnts_objects_cross_namelyd_over_a_unix_socket() {
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
fn ndnts_commands_are_obeyed_for_users_and_known_keys_only() {
    with_ndnts(behaviour::commands_are_obeyed_for_users_and_known_keys_only);
}

#[test]
fn an_ndnts_route_lasts_as_long_as_its_application() {
    with_ndnts(behaviour::a_route_lasts_as_long_as_its_application);
}

#[test]
fn ndnts_hears_at_once_that_a_name_has_no_route() {
    with_ndnts(behaviour::a_name_without_a_route_is_refused_at_once);
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

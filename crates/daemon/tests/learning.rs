//! Routers that know their neighbours and no routes: what one offers, another finds.

mod common;

use std::path::Path;

use common::client::name;
use common::{Client, PATIENCE, until};
use namely_daemon::Router;
use namely_daemon::config::{Config, StaticFace};
use namely_wire::FaceUri;
use namely_wire::mgmt::{FacePersistency, RouteOrigin};

/// A router that asks its neighbours for what it has no route to.
fn config(socket: &Path, neighbours: &[&Router]) -> Config {
    let mut config = Config::default();
    config.faces.listen =
        vec![FaceUri::Unix(socket.to_str().unwrap().into()), "udp://127.0.0.1:0".parse().unwrap()];
    config.strategy.insert(name("/"), "/self-learning".into());
    config.face = neighbours
        .iter()
        .map(|neighbour| StaticFace {
            remote: neighbour.listening()[1].clone(),
            local: None,
            persistency: FacePersistency::Permanent,
            reliability: false,
            mtu: None,
            routes: Vec::new(),
            cost: 0,
        })
        .collect();
    config
}

#[test]
fn a_name_that_no_route_leads_to_is_found_two_routers_away_and_a_short_route_is_learned() {
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["far", "middle", "near"].map(|name| dir.path().join(name));
    let far = Router::start(config(&sockets[0], &[])).unwrap();
    let middle = Router::start(config(&sockets[1], &[&far])).unwrap();
    let _near = Router::start(config(&sockets[2], &[&middle])).unwrap();
    let mut producer = Client::unix(&sockets[0]);
    producer.register("/alice");
    let mut consumer = Client::unix(&sockets[2]);
    until("there is a face to the neighbour", || {
        consumer.faces().iter().any(|face| face.uri.starts_with("udp4")).then_some(())
    });
    let mut at_middle = Client::unix(&sockets[1]);
    until("and one from there", || {
        at_middle.faces().iter().any(|face| face.uri.starts_with("udp4")).then_some(())
    });

    consumer.ask("/alice/file/v=1/seg=0");
    producer.serve_one(b"found");
    assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"found");
    for client in [&mut consumer, &mut at_middle] {
        let route = until("the route is learned", || client.routes("/alice/file").first().copied());
        assert_eq!(route.origin, RouteOrigin::PREFIX_ANNOUNCEMENT);
        assert!(route.expiration_period_ms.is_some_and(|ms| ms <= 30_000), "{route:?}");
    }
    consumer.ask("/alice/file/v=1/seg=1");
    producer.serve_one(b"along");
    assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"along");
    assert!(consumer.routes("/alice").is_empty(), "for the object alone");
}

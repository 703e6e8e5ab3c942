//! Option `announce`: routers that learn their routes learn a producer's whole prefix.

use crate::common;

use std::path::Path;
use std::time::Duration;

use common::{World, content, name};
use namely_daemon::Router;
use namely_daemon::config::{Config, StaticFace};
use namely_messages::{FacePersistency, RibEntry, RouteOrigin, blocks};
use namely_socket::{Consumer, ConsumerOptions, Producer, ProducerOptions, PublishOptions};
use namely_testkit::{eventually, until};
use namely_transport::connection::{Answer, Connection, Options};
use namely_wire::{DataView, InterestBuilder, Name};

const PATIENCE: Duration = Duration::from_secs(20);

/// A router without routes, beside the world's, that trusts announcements by the key of `/p`.
fn learner(world: &World, dir: &Path) -> (Router, String) {
    let mut config = Config::default();
    let uri = format!("unix://{}", dir.join("near.sock").display());
    config.faces.listen = vec![uri.parse().unwrap()];
    config.faces.multicast.clear();
    config.strategy.insert(name("/"), "/self-learning".into());
    config.authorization.announcement_anchors = vec![world.dir.path().join("p.cert")];
    config.face = vec![StaticFace {
        remote: world.router.listening()[2].clone(),
        local: None,
        persistency: FacePersistency::Permanent,
        reliability: false,
        mtu: None,
        routes: Vec::new(),
        cost: 0,
    }];
    (Router::start(config).unwrap(), uri)
}

/// The prefixes that a router has learned.
fn learned(router: &str) -> Vec<Name> {
    let mut connection = Connection::find(Some(router), Options::default()).unwrap();
    let interest = InterestBuilder::new(name("/localhost/nfd/rib/list")).can_be_prefix().must_be_fresh();
    let Answer::Data(list) = connection.express(&interest).unwrap() else { panic!("no list of routes") };
    let list = DataView::parse(&list.wire).unwrap();
    let entries = blocks::<RibEntry>(list.content).map(Result::unwrap);
    let is_learned =
        |entry: &RibEntry| entry.routes.iter().any(|route| route.origin == RouteOrigin::PREFIX_ANNOUNCEMENT);
    entries.filter(is_learned).map(|entry| entry.prefix).collect()
}

#[test]
fn an_announcing_producer_teaches_its_whole_prefix() {
    for (announce, over_udp, expected) in [(true, false, "/p"), (true, true, "/p"), (false, false, "/p/x")] {
        let world = World::over_ip();
        let dir = tempfile::tempdir().unwrap();
        let (_near, near) = learner(&world, dir.path());
        // An answer over UDP is longer than a datagram on a link with frames of 1500 octets.
        let router = over_udp.then(|| world.router.listening()[2].to_string());
        let options = ProducerOptions { announce, ..world.producer_options() };
        let options = ProducerOptions { router: router.or(options.router), ..options };
        let producer = Producer::bind(name("/p"), options).unwrap();
        let sent = content(100_000);
        producer.publish(&name("/p/x"), &sent, &PublishOptions::default()).unwrap();
        let options = ConsumerOptions { router: Some(near.clone()), ..world.consumer_options() };
        let consumer = Consumer::bind(name("/p"), options).unwrap();
        // The face between the routers may not be there yet.
        let got = until("it is fetched", || consumer.fetch(&name("/p/x")).ok());
        assert_eq!(got, sent);
        eventually(format_args!("announce: {announce}"), || learned(&near).contains(&name(expected)));
        let is_whole = learned(&near).contains(&name("/p"));
        assert_eq!(is_whole, announce);
        // The Interest follows the learned route, so it is no discovery.
        if announce {
            std::thread::scope(|scope| {
                let fetching = scope.spawn(|| consumer.fetch(&name("/p/y")));
                let request = producer.recv_timeout(PATIENCE).unwrap();
                producer.reply(&request, b"asked", &PublishOptions::default()).unwrap();
                assert_eq!(fetching.join().unwrap().unwrap(), b"asked");
            });
            assert!(!learned(&near).contains(&name("/p/y")));
        }
    }
}

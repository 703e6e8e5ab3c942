//! Routers with neighbors and without routes: one finds the data that another offers.

use crate::common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::client::{name, named};
use common::{Client, PATIENCE};
use namely_daemon::Router;
use namely_daemon::config::{Config, StaticFace};
use namely_messages::{Command, ControlParameters, FacePersistency, RouteOrigin, Scope, face_flags};
use namely_security::{Certificate, KeyType, PrivateKey, Signer};
use namely_testkit::until;
use namely_wire::{Announcement, FaceUri, ValidityPeriod};

/// A router that queries its neighbors for names without a route.
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

/// The routers of a producer, of a middle node and of a consumer. Each is a neighbor of the one
/// before. They trust the keys of `anchors`.
struct Chain {
    producer: Client,
    at_middle: Client,
    consumer: Client,
    _routers: [Router; 3],
}

impl Chain {
    fn new(dir: &Path, anchors: &[PathBuf]) -> Self {
        let sockets = ["far", "middle", "near"].map(|name| dir.join(name));
        let trusting = |socket: &Path, neighbours: &[&Router]| {
            let mut config = config(socket, neighbours);
            config.authorization.announcement_anchors = anchors.to_vec();
            Router::start(config).unwrap()
        };
        let far = trusting(&sockets[0], &[]);
        let middle = trusting(&sockets[1], &[&far]);
        let near = trusting(&sockets[2], &[&middle]);
        let [mut producer, mut at_middle, mut consumer] = sockets.map(|socket| Client::unix(&socket));
        producer.register("/alice");
        for client in [&mut consumer, &mut at_middle] {
            until("there is a face to the neighbor", || {
                client.faces().iter().any(|face| face.uri.starts_with("udp4")).then_some(())
            });
        }
        Chain { producer, at_middle, consumer, _routers: [far, middle, near] }
    }

    /// The consumer requests `name`, and the producer answers with this announcement.
    fn fetch(&mut self, name: &str, announcement: &[u8]) {
        self.fetch_content(name, b"found", announcement);
    }

    fn fetch_content(&mut self, name: &str, content: &[u8], announcement: &[u8]) {
        self.consumer.ask(name);
        self.producer.serve_one_announced(content, announcement);
        assert_eq!(self.consumer.receive(PATIENCE).unwrap().data().content, content);
    }

    /// Sets the MTU of all links, and whether they retransmit lost frames. An end has its face only
    /// after a packet has crossed the link.
    fn configure_links(&mut self, mtu: u64, is_reliable: bool) {
        self.fetch("/alice/before/v=1/seg=0", b"nonsense");
        let flags = if is_reliable { face_flags::LINK_RELIABILITY } else { 0 };
        for client in [&mut self.producer, &mut self.at_middle, &mut self.consumer] {
            for face in client.faces().iter().filter(|face| face.uri.starts_with("udp4")) {
                let parameters = ControlParameters {
                    face_id: Some(face.face_id),
                    flags: Some(flags),
                    mask: Some(face_flags::LINK_RELIABILITY),
                    mtu: Some(mtu),
                    ..ControlParameters::default()
                };
                client.ok(Command::FacesUpdate, &parameters);
            }
        }
    }
}

/// A key and, in `dir`, its certificate.
fn key(dir: &Path, name: &str) -> (PathBuf, Signer) {
    let key_name: namely_wire::Name = name.parse().unwrap();
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let validity = ValidityPeriod { not_before_s: 0, not_after_s: 4_000_000_000 };
    let certificate = Certificate::self_signed(key_name.as_name(), &key, validity, 1).unwrap();
    let path = dir.join(name.replace('/', "-"));
    std::fs::write(&path, certificate.to_base64()).unwrap();
    (path, Signer::new(key_name, key))
}

fn announcement(prefix: &str, version: u64, not_after_s: u64, signer: &Signer) -> Vec<u8> {
    let announcement = Announcement {
        prefix: name(prefix),
        version,
        expiration_period_ms: u64::MAX,
        validity: Some(ValidityPeriod { not_before_s: 0, not_after_s }),
        cost: None,
    };
    let unsigned = announcement.build(&signer.signature_info());
    let value = signer.sign(&[unsigned.signed_portion()]).unwrap();
    unsigned.finish(&value)
}

/// An hour from now, s.
fn later_s() -> u64 {
    namely_host::clock::unix_ms() / 1000 + 3600
}

#[test]
fn announced_prefixes_are_learned_two_routers_away() {
    let dir = tempfile::tempdir().unwrap();
    let (anchor, ours) = key(dir.path(), "/alice/KEY/1");
    let mut chain = Chain::new(dir.path(), &[anchor]);
    chain.fetch("/alice/file/v=1/seg=0", &announcement("/alice", 1, later_s(), &ours));
    for client in [&mut chain.consumer, &mut chain.at_middle] {
        let route = until("the route is learned", || client.routes("/alice").first().copied());
        assert_eq!(route.origin, RouteOrigin::PREFIX_ANNOUNCEMENT);
        let left_ms = route.expiration_period_ms.unwrap();
        assert!((500_000..=600_000).contains(&left_ms), "{route:?}");
        assert!(client.routes("/alice/file").is_empty(), "one route is enough");
    }
    chain.consumer.ask("/alice/other/v=1/seg=0");
    chain.producer.serve_one(b"along");
    assert_eq!(chain.consumer.receive(PATIENCE).unwrap().data().content, b"along");
    assert!(chain.consumer.routes("/alice/other").is_empty(), "it was asked along the route");
}

#[test]
fn announcements_cross_fragments_and_reliable_links() {
    let dir = tempfile::tempdir().unwrap();
    let (anchor, ours) = key(dir.path(), "/alice/KEY/1");
    for (mtu, is_reliable, octets) in [(600, false, 5000), (1400, true, 100), (600, true, 5000)] {
        let of_chain = tempfile::tempdir_in(dir.path()).unwrap();
        let mut chain = Chain::new(of_chain.path(), std::slice::from_ref(&anchor));
        chain.configure_links(mtu, is_reliable);
        let announcement = announcement("/alice/b", 1, later_s(), &ours);
        chain.fetch_content("/alice/b/file/v=1/seg=0", &vec![7; octets], &announcement);
        for client in [&mut chain.consumer, &mut chain.at_middle] {
            until("the whole prefix is learned", || client.routes("/alice/b").first().copied());
            assert!(client.routes("/alice/b/file").is_empty(), "{mtu} {is_reliable} {octets}");
        }
    }
}

#[test]
fn an_oversized_announcement_teaches_the_object() {
    let dir = tempfile::tempdir().unwrap();
    let (anchor, ours) = key(dir.path(), "/alice/KEY/1");
    let mut chain = Chain::new(dir.path(), &[anchor]);
    chain.configure_links(200, false);
    chain.fetch("/alice/b/file/v=1/seg=0", &announcement("/alice/b", 1, later_s(), &ours));
    until("the object's route", || chain.consumer.routes("/alice/b/file").first().copied());
    assert!(chain.consumer.routes("/alice/b").is_empty());
}

#[test]
fn untrusted_announcements_teach_the_object_only() {
    let dir = tempfile::tempdir().unwrap();
    let (anchor, ours) = key(dir.path(), "/alice/KEY/1");
    let (anchor_of_all, of_all) = key(dir.path(), "/KEY/1");
    let (_, stranger) = key(dir.path(), "/alice/KEY/2");
    let mut damaged = announcement("/alice/d", 1, later_s(), &ours);
    *damaged.last_mut().unwrap() ^= 1;
    let attacks = [
        ("foreign", "/alice", announcement("/alice", 1, later_s(), &stranger)),
        ("root", "/", announcement("/", 1, later_s(), &of_all)),
        ("elsewhere", "/bob", announcement("/bob", 1, later_s(), &of_all)),
        ("over", "/alice/o", announcement("/alice/o", 1, 1_000_000_000, &ours)),
        ("damaged", "/alice/d", damaged),
        ("nonsense", "/alice", b"nonsense".to_vec()),
        ("long", "/alice", vec![0; 3000]),
    ];
    let mut chain = Chain::new(dir.path(), &[anchor, anchor_of_all]);
    for (kind, prefix, announcement) in attacks {
        let object = format!("/alice/{kind}");
        chain.fetch(&format!("{object}/v=1/seg=0"), &announcement);
        until(kind, || chain.consumer.routes(&object).first().copied());
        let announced = chain.consumer.routes(prefix);
        let is_ours = announced.iter().any(|route| route.origin == RouteOrigin::PREFIX_ANNOUNCEMENT);
        assert!(!is_ours, "{kind}: {announced:?}");
    }
}

#[test]
fn announcements_without_anchors_teach_the_object() {
    let dir = tempfile::tempdir().unwrap();
    let (_, ours) = key(dir.path(), "/alice/KEY/1");
    let mut chain = Chain::new(dir.path(), &[]);
    chain.fetch("/alice/file/v=1/seg=0", &announcement("/alice", 1, later_s(), &ours));
    until("the object's route", || chain.consumer.routes("/alice/file").first().copied());
    assert!(chain.consumer.routes("/alice").is_empty());
}

#[test]
fn discovery_finds_names_two_routers_away() {
    let dir = tempfile::tempdir().unwrap();
    let Chain { mut producer, mut at_middle, mut consumer, _routers } = Chain::new(dir.path(), &[]);
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

#[test]
fn answers_carry_the_applications_announcement() {
    let dir = tempfile::tempdir().unwrap();
    let (anchor, ours) = key(dir.path(), "/alice/KEY/1");
    let mut chain = Chain::new(dir.path(), &[anchor]);
    let announce = |producer: &mut Client, prefix: &str| {
        let announced = announcement(prefix, 1, later_s(), &ours);
        let command = Command::RibAnnounce.prefix(Scope::Localhost);
        let interest = producer.command_interest(command, &announced);
        let response = producer.respond_to(&interest);
        assert_eq!(response.code, 200, "{}", response.text);
    };
    // A withdrawn announcement is no longer sent.
    announce(&mut chain.producer, "/alice/b");
    let origin = Some(RouteOrigin::PREFIX_ANNOUNCEMENT);
    chain.producer.ok(Command::RibUnregister, &ControlParameters { origin, ..named("/alice/b") });
    for (prefix, object) in [("", "/alice/b/file"), ("/alice/c", "/alice/c/file")] {
        if !prefix.is_empty() {
            announce(&mut chain.producer, prefix);
        }
        chain.consumer.ask(&format!("{object}/v=1/seg=0"));
        chain.producer.serve_one(b"found");
        assert_eq!(chain.consumer.receive(PATIENCE).unwrap().data().content, b"found");
        let learned = if prefix.is_empty() { object } else { prefix };
        for client in [&mut chain.consumer, &mut chain.at_middle] {
            let route = until("the route is learned", || client.routes(learned).first().copied());
            assert_eq!(route.origin, RouteOrigin::PREFIX_ANNOUNCEMENT);
        }
    }
    assert!(chain.consumer.routes("/alice/b").is_empty());
    assert!(chain.consumer.routes("/alice/c/file").is_empty(), "one route is enough");
    // Along the route, the Interest is not a discovery any more.
    chain.consumer.ask("/alice/c/other/v=1/seg=0");
    chain.producer.serve_one(b"along");
    assert_eq!(chain.consumer.receive(PATIENCE).unwrap().data().content, b"along");
    assert!(chain.consumer.routes("/alice/c/other").is_empty());
}

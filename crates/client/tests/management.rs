//! The management client over the real router: the changes of one call appear in another one's
//! result.

use std::net::UdpSocket;
use std::time::Duration;

use namely_client::{Client, ClientError, CsChanges, FaceProperties, HopOutcome, RouteOptions, Upstream};
use namely_daemon::Router;
use namely_daemon::config::Config;
use namely_messages::{
    Block, FaceEventKind, FacePersistency, FaceQueryFilter, HopAnswer, RouteOrigin, face_flags, route_flags,
    strategy_name,
};
use namely_security::{Signer, sign_data};
use namely_transport::connection::{Answer, CommandError};
use namely_wire::{DataBuilder, FaceUri, InterestBuilder, InterestView, LpView, Name};

/// A router on a Unix socket in a directory of its own.
struct World {
    dir: tempfile::TempDir,
    router: Option<Router>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        let socket = dir.path().join("namely.sock");
        config.faces.listen = vec![FaceUri::Unix(socket.to_str().unwrap().into())];
        config.faces.multicast.clear();
        World { router: Some(Router::start(config).unwrap()), dir }
    }

    fn uri(&self) -> String {
        format!("unix://{}", self.dir.path().join("namely.sock").display())
    }

    fn client(&self) -> Client {
        Client::find(Some(&self.uri()), Signer::digest_sha256()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(router) = self.router.take() {
            router.stop();
        }
    }
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn client_faces_are_created_changed_and_destroyed() {
    let world = World::new();
    let mut client = world.client();
    assert_eq!(client.router().to_string(), world.uri());
    let permanent = FaceProperties { persistency: Some(FacePersistency::Permanent), ..Default::default() };
    let made = client.create_face("udp://localhost:16301", None, &permanent).unwrap();
    assert!(!made.existed && made.uri.ends_with(":16301"), "{made:?}");
    let again = client.create_face(&made.uri, None, &permanent).unwrap();
    assert_eq!((again.face_id, again.existed), (made.face_id, true));
    assert_eq!(client.find_face(&made.uri).unwrap(), made.face_id);
    assert_eq!(client.find_or_create_face("udp://localhost:16301").unwrap(), made.face_id);

    let changes =
        FaceProperties { reliability: Some(true), congestion_marking: Some(false), ..Default::default() };
    client.update_face(made.face_id, &changes).unwrap();
    let filter = FaceQueryFilter { face_id: Some(made.face_id), ..Default::default() };
    let [face] = &client.query_faces(&filter).unwrap()[..] else { panic!("one face has the number") };
    assert_eq!(face.face_persistency, FacePersistency::Permanent);
    let changed = face_flags::LINK_RELIABILITY | face_flags::CONGESTION_MARKING;
    assert_eq!(face.flags & changed, face_flags::LINK_RELIABILITY);

    client.destroy_face(made.face_id).unwrap();
    assert!(client.faces().unwrap().iter().all(|face| face.face_id != made.face_id));
    let gone = client.find_face(&made.uri).unwrap_err();
    assert!(matches!(&gone, ClientError::NoSuchFace(face) if *face == made.uri), "{gone}");
    let channels = client.channels().unwrap();
    assert!(channels.iter().any(|channel| channel.local_uri == world.uri()), "{channels:?}");
}

#[test]
fn an_invalid_face_never_reaches_the_router() {
    let world = World::new();
    let mut client = world.client();
    let properties = FaceProperties::default();
    let before = client.connection().outbox().packets();
    let bad = client.create_face("udp:/nowhere", None, &properties).unwrap_err();
    assert!(matches!(bad, ClientError::BadFaceUri { .. }), "{bad}");
    let unknown = client.create_face("udp4://127.0.0.1.nip.invalid", None, &properties).unwrap_err();
    assert!(matches!(unknown, ClientError::Lookup { .. }), "{unknown}");
    let bad = client.set_strategy(&name("/"), "/%").unwrap_err();
    assert!(matches!(bad, ClientError::BadStrategy(_)), "{bad}");
    assert_eq!(client.connection().outbox().packets(), before);
    client.set_strategy(&name("/"), "multicast").unwrap();
    assert!(client.connection().outbox().packets() > before, "a valid command is sent");
}

#[test]
fn client_routes_are_added_listed_and_removed() {
    let world = World::new();
    let mut client = world.client();
    let face = client.find_or_create_face("udp4://127.0.0.1:16302").unwrap();
    let options = RouteOptions {
        cost: 7,
        capture: true,
        expires: Some(Duration::from_secs(600)),
        ..Default::default()
    };
    client.add_route(&name("/far"), face, &options).unwrap();
    let rib = client.rib().unwrap();
    let entry = rib.iter().find(|entry| entry.prefix == name("/far")).unwrap();
    let route = entry.routes.iter().find(|route| route.face_id == face).unwrap();
    let (inherit, capture) = (route_flags::CHILD_INHERIT, route_flags::CAPTURE);
    assert_eq!((route.origin, route.cost), (RouteOrigin::STATIC, 7));
    assert_eq!(route.flags, inherit | capture);
    assert!(matches!(route.expiration_period_ms, Some(1..=600_000)), "{route:?}");
    let fib = client.fib().unwrap();
    let entry = fib.iter().find(|entry| entry.prefix == name("/far")).unwrap();
    assert!(entry.next_hops.iter().any(|hop| hop.face_id == face && hop.cost == 7));
    client.remove_route(&name("/far"), face, RouteOrigin::STATIC).unwrap();
    assert!(client.rib().unwrap().iter().all(|entry| entry.prefix != name("/far")));

    let absent = client.add_route(&name("/far"), 1 << 40, &RouteOptions::default()).unwrap_err();
    let ClientError::Command(CommandError::Refused(refused)) = absent else { panic!("{absent}") };
    assert!(!refused.is_ok(), "{refused:?}");
}

#[test]
fn strategies_are_set_and_unset() {
    let world = World::new();
    let mut client = world.client();
    let multicast = strategy_name("multicast").unwrap();
    let chosen = client.set_strategy(&name("/live"), "multicast").unwrap();
    assert_eq!(client.set_strategy(&name("/live"), &multicast.to_string()).unwrap(), chosen);
    assert!(multicast.is_prefix_of(chosen.as_name()), "{chosen} is a version of it");
    let choices = client.strategies().unwrap();
    let live = choices.iter().find(|choice| choice.prefix == name("/live")).unwrap();
    assert_eq!(live.strategy, chosen);
    client.unset_strategy(&name("/live")).unwrap();
    assert!(client.strategies().unwrap().iter().all(|choice| choice.prefix != name("/live")));
    let none = client.set_strategy(&name("/live"), "nonesuch").unwrap_err();
    assert_eq!(none.errno(), rustix::io::Errno::NOENT.raw_os_error(), "{none}");
}

#[test]
fn the_client_configures_and_erases_the_cache() {
    let world = World::new();
    let mut client = world.client();
    let changes = CsChanges {
        capacity: Some(123),
        serve: Some(false),
        policy: Some("arc".into()),
        ..Default::default()
    };
    let config = client.configure_cs(&changes).unwrap();
    assert_eq!((config.capacity, config.policy.as_deref()), (123, Some("arc")));
    let info = client.cs_info().unwrap();
    assert_eq!((info.capacity, info.policy.as_deref()), (123, Some("arc")));
    assert_eq!(info.flags, namely_messages::cs_flags::ENABLE_ADMIT);
    assert_eq!(client.erase_cs(&name("/"), None).unwrap(), info.entries);
    let none = client.erase_cs(&name("/"), Some(0)).unwrap_err();
    assert_eq!(none.errno(), rustix::io::Errno::INVAL.raw_os_error(), "{none}");
}

#[test]
fn status_counters_follow_the_connection() {
    let world = World::new();
    let mut client = world.client();
    let interest = InterestBuilder::new(name("/nowhere"));
    let answer = client.connection().express(&interest).unwrap();
    assert!(matches!(answer, Answer::Nack(_)), "{answer:?}");
    let status = client.status().unwrap();
    assert!(status.version.contains("namely") && status.out_nacks >= 1, "{status:?}");
    let counters = client.counters().unwrap();
    let no_route = counters.iter().find(|counter| counter.label == "forwarder.no_route").unwrap();
    assert!(no_route.value >= 1 && no_route.face_id.is_none());
}

#[test]
fn a_segmented_dataset_arrives_whole() {
    let world = World::new();
    let mut client = world.client();
    let face = client.find_or_create_face("udp4://127.0.0.1:16303").unwrap();
    let prefixes: Vec<Name> = (0..300).map(|i| name(&format!("/long/{i:0>60}"))).collect();
    for prefix in &prefixes {
        client.add_route(prefix, face, &RouteOptions::default()).unwrap();
    }
    let rib = client.rib().unwrap();
    let found: std::collections::HashSet<_> = rib.iter().map(|entry| &entry.prefix).collect();
    assert!(prefixes.iter().all(|prefix| found.contains(prefix)), "of {}", rib.len());
}

#[test]
fn face_events_arrive_in_order() {
    let world = World::new();
    let (mut client, mut other) = (world.client(), world.client());
    let properties = FaceProperties::default();
    let first = other.create_face("udp4://127.0.0.1:16304", None, &properties).unwrap();
    let wait = Some(Duration::from_secs(20));
    let (mut number, mut event) = client.next_face_event(None, wait).unwrap().unwrap();
    while event.face_id != first.face_id {
        (number, event) = client.next_face_event(Some(number), wait).unwrap().unwrap();
    }
    assert_eq!(event.kind, FaceEventKind::Created);
    other.destroy_face(first.face_id).unwrap();
    let (next, event) = client.next_face_event(Some(number), wait).unwrap().unwrap();
    assert_eq!((next, event.face_id), (number + 1, first.face_id));
    assert_eq!(event.kind, FaceEventKind::Destroyed);
    let soon = Some(Duration::from_millis(50));
    assert_eq!(client.next_face_event(Some(next), soon).unwrap(), None);
}

#[test]
fn a_missing_router_error_has_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let uri = format!("unix://{}", dir.path().join("none.sock").display());
    let error = Client::find(Some(&uri), Signer::digest_sha256()).unwrap_err();
    assert!(error.to_string().contains(&uri), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("namely up")));
    assert_eq!(error.errno(), rustix::io::Errno::CONNREFUSED.raw_os_error());
}

#[test]
fn a_lost_router_is_an_error_at_once() {
    let mut world = World::new();
    let mut client = world.client();
    client.status().unwrap();
    world.router.take().unwrap().stop();
    let lost = client.status().unwrap_err();
    assert!(matches!(lost, ClientError::Connection(_)), "{lost}");
    let lost = client.unset_strategy(&name("/live")).unwrap_err();
    assert!(matches!(lost, ClientError::Connection(_)), "{lost}");
}

#[test]
fn the_upstream_of_a_name_follows_the_fib() {
    let world = World::new();
    let mut client = world.client();
    assert_eq!(client.upstream(&name("/far/x")).unwrap(), Upstream::None);
    let face = client.find_or_create_face("udp4://127.0.0.1:16305").unwrap();
    client.add_route(&name("/far"), face, &RouteOptions::default()).unwrap();
    client.add_route(&name("/lab"), 1, &RouteOptions::default()).unwrap();
    let routers = Upstream::Routers(vec!["udp4://127.0.0.1:16305".into()]);
    assert_eq!(client.upstream(&name("/far/x")).unwrap(), routers);
    assert_eq!(client.upstream(&name("/lab/x")).unwrap(), Upstream::Unbound(name("/lab")));
    let mut application = world.client();
    application.connection().register(&name("/lab/app"), &mut |_, _| {}).unwrap();
    assert_eq!(client.upstream(&name("/lab/app/x")).unwrap(), Upstream::Application(name("/lab")));
    assert_eq!(client.upstream(&name("/lab/x")).unwrap(), Upstream::Unbound(name("/lab")));
}

/// A router that pauses loses the first query, and has the second for as long as it pauses.
#[test]
fn a_hop_query_outlasts_a_pause() {
    const PAUSE_MS: u64 = 2_000;
    let router = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp://{}", router.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut datagram = [0; 9000];
        while let Ok((octets, client)) = router.recv_from(&mut datagram) {
            let Ok(LpView { fragment: Some(packet), .. }) = LpView::parse(&datagram[..octets]) else {
                continue;
            };
            let Ok(interest) = InterestView::parse(packet) else { continue };
            if interest.lifetime_ms.is_some_and(|ms| ms > PAUSE_MS) {
                let answer = HopAnswer { strategy: name("/s"), ..HopAnswer::default() };
                let data = DataBuilder::new(interest.name);
                let data = sign_data(&data, &answer.to_vec(), &Signer::digest_sha256()).unwrap();
                let _ = router.send_to(&data, client);
            }
        }
    });
    let mut client = Client::find(Some(&uri), Signer::digest_sha256()).unwrap();
    let outcome = client.ask_hop(&name("/far/x"), 1, 1).unwrap();
    assert!(matches!(&outcome, HopOutcome::Answer(answer) if answer.prefix.is_none()), "{outcome:?}");
}

//! Every command, as a client on the Unix socket sees it.

use crate::common;

use std::time::Duration;

use common::client::{name, named};
use common::{Client, Daemon, PATIENCE};
use namely_messages::{
    Block, Command, ControlParameters, ControlResponse, CsInfo, Dataset, FacePersistency, FibEntry,
    RouteOrigin, Scope, StrategyChoice, blocks, cs_flags, face_flags, route_flags,
};
use namely_security::{Signer, sign_data};
use namely_testkit::until;
use namely_wire::{Announcement, DataBuilder, InterestBuilder, NackReason, Name, SignatureInfo, tlv::Writer};

fn uri(uri: impl ToString) -> ControlParameters {
    ControlParameters { uri: Some(uri.to_string()), ..Default::default() }
}

fn face(face_id: u64) -> ControlParameters {
    ControlParameters { face_id: Some(face_id), ..Default::default() }
}

/// A port of this machine that does not answer.
fn silent_port() -> (std::net::UdpSocket, String) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp4://{}", socket.local_addr().unwrap());
    (socket, uri)
}

fn list<T: Block>(client: &mut Client, dataset: Dataset) -> Vec<T> {
    blocks(&client.dataset(dataset)).collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_registered_prefix_receives_interests_immediately() {
    let daemon = Daemon::start();
    let (mut producer, mut consumer) = (daemon.connect(), daemon.connect());
    let own = producer.own_face();
    let registered = producer.register("/app");
    assert_eq!(registered.face_id, Some(own));
    assert_eq!(registered.origin, Some(RouteOrigin::APP));
    assert_eq!((registered.cost, registered.flags), (Some(0), Some(route_flags::CHILD_INHERIT)));
    // Sent right behind the response: the FIB must have the route already.
    consumer.ask("/app/x");
    assert_eq!(producer.serve_one(b"hello"), name("/app/x"));
    assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"hello");
}

#[test]
fn an_unregistered_prefix_has_no_route() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.register("/app");
    let removed = client.ok(Command::RibUnregister, &named("/app"));
    assert_eq!((removed.name, removed.origin), (Some(name("/app")), Some(RouteOrigin::APP)));
    assert_eq!(client.routes("/app"), []);
    let mut consumer = daemon.connect();
    let interest = InterestBuilder::new(name("/app/x")).nonce([1, 2, 3, 4]).build();
    assert_eq!(consumer.express(&interest, PATIENCE).unwrap().unwrap_err(), NackReason::NoRoute);
    let again = client.command(Command::RibUnregister, &named("/app"));
    assert_eq!(again.code, 404, "{}", again.text);
}

#[test]
fn a_registered_route_expires() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    // The shorter route replaces the longer one, which does not expire before it is listed.
    for period_ms in [600_000, 700] {
        let parameters = ControlParameters { expiration_period_ms: Some(period_ms), ..named("/short") };
        let registered = client.ok(Command::RibRegister, &parameters);
        assert_eq!(registered.expiration_period_ms, Some(period_ms));
        let routes = client.routes("/short");
        let left_ms = routes.first().map(|route| route.expiration_period_ms.unwrap());
        assert!(left_ms.map_or(period_ms == 700, |left_ms| left_ms <= period_ms), "{routes:?}");
    }
    until("the route expires", || client.routes("/short").is_empty().then_some(()));
    let fib: Vec<FibEntry> = list(&mut client, Dataset::FibList);
    assert!(!fib.iter().any(|entry| entry.prefix == name("/short")), "the FIB follows");
}

#[test]
fn a_closed_face_loses_its_routes() {
    let daemon = Daemon::start();
    let mut watcher = daemon.connect();
    let mut application = daemon.connect();
    application.register("/app");
    assert_eq!(watcher.routes("/app").len(), 1);
    drop(application);
    until("the route goes", || watcher.routes("/app").is_empty().then_some(()));
}

#[test]
fn routes_of_different_origins_coexist() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    for (origin, cost) in [(RouteOrigin::STATIC, 20), (RouteOrigin::NLSR, 10), (RouteOrigin::NLSR, 15)] {
        let parameters = ControlParameters { origin: Some(origin), cost: Some(cost), ..named("/r") };
        client.ok(Command::RibRegister, &parameters);
    }
    let mut routes: Vec<(u64, u64)> = client.routes("/r").iter().map(|r| (r.origin.0, r.cost)).collect();
    routes.sort_unstable();
    assert_eq!(routes, [(128, 15), (255, 20)], "the second NLSR route replaces the first");
    let fib: Vec<FibEntry> = list(&mut client, Dataset::FibList);
    let entry = fib.iter().find(|entry| entry.prefix == name("/r")).unwrap();
    assert_eq!(entry.next_hops[0].cost, 15);
}

#[test]
fn registering_for_a_missing_face_fails() {
    let daemon = Daemon::start();
    let response = daemon
        .connect()
        .command(Command::RibRegister, &ControlParameters { face_id: Some(9999), ..named("/x") });
    assert_eq!(response.code, 410, "{}", response.text);
}

#[test]
fn a_prefix_announcement_makes_a_route() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let announcement = Announcement {
        prefix: name("/ann"),
        version: 1,
        expiration_period_ms: 60_000,
        validity: None,
        cost: None,
    };
    let data = announcement.build(&SignatureInfo::digest_sha256()).finish(&[0; 32]);
    let interest = client.command_interest(Command::RibAnnounce.prefix(Scope::Localhost), &data);
    let response = client.respond_to(&interest);
    assert_eq!(response.code, 200, "{}", response.text);
    let body = response.parameters().unwrap().unwrap();
    assert_eq!((body.name, body.origin), (Some(name("/ann")), Some(RouteOrigin::PREFIX_ANNOUNCEMENT)));
    assert_eq!(client.routes("/ann")[0].origin, RouteOrigin::PREFIX_ANNOUNCEMENT);
}

#[test]
fn a_face_is_created_updated_and_destroyed() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let (_neighbour, remote) = silent_port();
    let created = client.ok(Command::FacesCreate, &uri(&remote));
    let id = created.face_id.unwrap();
    assert_eq!(created.uri.as_deref(), Some(remote.as_str()));
    assert_eq!(created.face_persistency, Some(FacePersistency::Persistent));
    let status = client.faces().into_iter().find(|face| face.face_id == id).unwrap();
    assert_eq!(status.uri, remote);

    let update = ControlParameters {
        face_persistency: Some(FacePersistency::Permanent),
        flags: Some(face_flags::LINK_RELIABILITY),
        mask: Some(face_flags::LINK_RELIABILITY),
        ..face(id)
    };
    let updated = client.ok(Command::FacesUpdate, &update);
    assert_eq!(updated.face_persistency, Some(FacePersistency::Permanent));
    assert_ne!(updated.flags.unwrap() & face_flags::LINK_RELIABILITY, 0);

    assert_eq!(client.ok(Command::FacesDestroy, &face(id)).face_id, Some(id));
    assert!(!client.faces().iter().any(|face| face.face_id == id));
    let again = client.command(Command::FacesDestroy, &face(id));
    assert_eq!(again.code, 404, "{}", again.text);
    assert!(again.text.contains(&id.to_string()));
    assert_eq!(client.command(Command::FacesUpdate, &face(id)).code, 404);
}

#[test]
fn an_existing_face_is_reused() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let (_neighbour, remote) = silent_port();
    let first = client.ok(Command::FacesCreate, &uri(&remote));
    let response = client.command(Command::FacesCreate, &uri(&remote));
    assert_eq!(response.code, 409, "{}", response.text);
    assert_eq!(response.parameters().unwrap().unwrap().face_id, first.face_id);
}

#[test]
fn face_creation_resolves_host_names() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let (neighbour, _) = silent_port();
    let port = neighbour.local_addr().unwrap().port();
    let created = client.ok(Command::FacesCreate, &uri(format!("udp4://localhost:{port}")));
    assert_eq!(created.uri, Some(format!("udp4://127.0.0.1:{port}")));
    let response = client.command(Command::FacesCreate, &uri("udp://no-such-host.invalid"));
    assert_eq!(response.code, 504, "{}", response.text);
}

#[test]
fn a_tcp_face_reaches_another_router() {
    let (near, far) = (Daemon::start(), Daemon::start());
    let mut producer = far.connect();
    producer.register("/far");
    let mut client = near.connect();
    let created = client.ok(Command::FacesCreate, &uri(format!("tcp4://{}", far.tcp())));
    client.ok(Command::RibRegister, &ControlParameters { face_id: created.face_id, ..named("/far") });
    client.ask("/far/x");
    producer.serve_one(b"over tcp");
    assert_eq!(client.receive(PATIENCE).unwrap().data().content, b"over tcp");
}

#[test]
fn impossible_faces_are_refused_with_reasons() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let on_demand =
        ControlParameters { face_persistency: Some(FacePersistency::OnDemand), ..uri("udp4://127.0.0.1:9") };
    let local_fields = ControlParameters {
        flags: Some(face_flags::LOCAL_FIELDS),
        mask: Some(face_flags::LOCAL_FIELDS),
        ..uri("udp4://127.0.0.1:9")
    };
    let flags_alone = ControlParameters { flags: Some(1), ..uri("udp4://127.0.0.1:9") };
    for (parameters, code, hint) in [
        (ControlParameters::default(), 400, "Uri"),
        (uri("hello"), 400, "scheme"),
        (uri("udp4://[::1]:6363"), 400, "IP version"),
        (uri("unix:///tmp/x"), 406, "udp, tcp, ether and memif"),
        (uri("fd://7"), 406, "udp, tcp, ether and memif"),
        (uri("ether://[02:00:00:00:00:01]"), 406, "dev://"),
        (
            ControlParameters { local_uri: Some("dev://lo".into()), ..uri("ether://[01:00:5e:00:17:aa]") },
            406,
            "one host",
        ),
        (on_demand, 406, "on-demand"),
        (local_fields, 406, ""),
        (flags_alone, 400, "Mask"),
        (ControlParameters { local_uri: Some("x".into()), ..uri("udp4://127.0.0.1:9") }, 400, "LocalUri"),
    ] {
        let response = client.command(Command::FacesCreate, &parameters);
        assert_eq!(response.code, code, "{parameters:?}: {}", response.text);
        assert!(response.text.contains(hint), "{}", response.text);
    }
    // A port without a listener: the connection is refused at once.
    let port = namely_testkit::free_address();
    let response = client.command(Command::FacesCreate, &uri(format!("tcp4://{port}")));
    assert_eq!(response.code, 504, "{}", response.text);
}

#[test]
fn nexthops_are_added_and_removed() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let own = client.own_face();
    let added = client.ok(Command::FibAddNexthop, &ControlParameters { cost: Some(7), ..named("/hop") });
    assert_eq!((added.face_id, added.cost), (Some(own), Some(7)));
    let hops = |client: &mut Client| {
        let fib: Vec<FibEntry> = list(client, Dataset::FibList);
        fib.into_iter().find(|entry| entry.prefix == name("/hop")).map(|entry| entry.next_hops)
    };
    assert_eq!(hops(&mut client).unwrap()[0].cost, 7);
    client.ok(Command::FibRemoveNexthop, &named("/hop"));
    assert_eq!(hops(&mut client), None);
    assert_eq!(client.command(Command::FibRemoveNexthop, &named("/hop")).code, 404);
    let gone = ControlParameters { face_id: Some(9999), ..named("/hop") };
    assert_eq!(client.command(Command::FibAddNexthop, &gone).code, 410);
}

#[test]
fn strategies_have_full_and_short_names() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let choice = |strategy: &str| ControlParameters { strategy: Some(name(strategy)), ..named("/s") };
    for strategy in ["/localhost/nfd/strategy/multicast", "/multicast"] {
        let chosen = client.ok(Command::StrategyChoiceSet, &choice(strategy)).strategy.unwrap();
        assert!(name("/localhost/nfd/strategy/multicast").is_prefix_of(chosen.as_name()), "{chosen}");
    }
    let choices: Vec<StrategyChoice> = list(&mut client, Dataset::StrategyChoiceList);
    assert!(choices.iter().any(|c| c.prefix == name("/s") && c.strategy.to_string().contains("multicast")));
    assert!(choices.iter().any(|c| c.prefix == Name::new() && c.strategy.to_string().contains("best-route")));
    client.ok(Command::StrategyChoiceUnset, &named("/s"));
    assert_eq!(client.command(Command::StrategyChoiceUnset, &named("/s")).code, 404);
    assert_eq!(client.command(Command::StrategyChoiceUnset, &named("/")).code, 400);
    let unknown = client.command(Command::StrategyChoiceSet, &choice("/no-such-strategy"));
    assert_eq!(unknown.code, 404);
    assert!(unknown.text.contains("best-route"), "lists the strategies: {}", unknown.text);
}

#[test]
fn content_store_commands_configure_and_erase() {
    let daemon = Daemon::start();
    let (mut producer, mut client) = (daemon.connect(), daemon.connect());
    producer.register("/cs");
    for n in 0..3 {
        client.ask(&format!("/cs/{n}"));
        producer.serve_one(b"cached");
        client.receive(PATIENCE).unwrap();
    }
    let info = |client: &mut Client| list::<CsInfo>(client, Dataset::CsInfo).remove(0);
    let before = info(&mut client);
    assert_eq!((before.entries, before.flags), (3, cs_flags::ENABLE_ADMIT | cs_flags::ENABLE_SERVE));
    client.fetch(InterestBuilder::new(name("/cs/1")));
    assert_eq!(info(&mut client).hits, before.hits + 1);

    let erased = client.ok(Command::CsErase, &ControlParameters { count: Some(2), ..named("/cs") });
    assert_eq!(erased.count, Some(2));
    assert_eq!(client.ok(Command::CsErase, &named("/cs")).count, Some(1));
    assert_eq!(info(&mut client).entries, 0);
    let none = ControlParameters { count: Some(0), ..named("/cs") };
    assert_eq!(client.command(Command::CsErase, &none).code, 400);

    let settings = ControlParameters {
        capacity: Some(1234),
        flags: Some(0),
        mask: Some(cs_flags::ENABLE_SERVE),
        ..Default::default()
    };
    let body = client.ok(Command::CsConfig, &settings);
    assert_eq!((body.capacity, body.flags), (Some(1234), Some(cs_flags::ENABLE_ADMIT)));
    assert_eq!((info(&mut client).capacity, info(&mut client).flags), (1234, cs_flags::ENABLE_ADMIT));
}

/// `IS-36`.
#[test]
fn the_cs_policy_changes_at_run_time() {
    let daemon = Daemon::start();
    let (mut producer, mut client) = (daemon.connect(), daemon.connect());
    producer.register("/cs");
    for n in 0..3 {
        client.ask(&format!("/cs/{n}"));
        producer.serve_one(b"cached");
        client.receive(PATIENCE).unwrap();
    }
    let info = |client: &mut Client| list::<CsInfo>(client, Dataset::CsInfo).remove(0);
    assert_eq!(info(&mut client).policy.as_deref(), Some("s3-fifo"));
    let to = |policy: &str| ControlParameters { cs_policy: Some(policy.into()), ..Default::default() };
    for policy in ["arc", "lru", "sieve", "lfu", "fifo", "noop", "s3-fifo"] {
        let body = client.ok(Command::CsConfig, &to(policy));
        assert_eq!((body.cs_policy.as_deref(), body.capacity), (Some(policy), Some(65_536)));
        let now = info(&mut client);
        assert_eq!((now.policy.as_deref(), now.entries), (Some(policy), 3));
    }
    let refused = client.command(Command::CsConfig, &to("clock"));
    assert_eq!(refused.code, 400);
    assert!(refused.text.contains("s3-fifo") && refused.text.contains("arc"), "{}", refused.text);
    assert_eq!(info(&mut client).policy.as_deref(), Some("s3-fifo"));
}

#[test]
fn one_erase_command_is_bounded() {
    let daemon = Daemon::start();
    let (mut producer, mut client) = (daemon.connect(), daemon.connect());
    producer.register("/many");
    for n in 0..257 {
        client.ask(&format!("/many/{n}"));
        producer.serve_one(b"");
        client.receive(PATIENCE).unwrap();
    }
    let first = client.ok(Command::CsErase, &named("/many"));
    assert_eq!((first.count, first.capacity), (Some(256), Some(256)));
    let second = client.ok(Command::CsErase, &named("/many"));
    assert_eq!((second.count, second.capacity), (Some(1), None));
}

#[test]
fn the_older_command_format_is_accepted() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    // Timestamp, nonce, signature info and signature value are components behind the parameters.
    let component = |value: &[u8], typ: u32| {
        let mut w = Writer::new();
        w.tlv(typ, value);
        w.into_vec()
    };
    let signed = Command::RibRegister
        .name(Scope::Localhost, &named("/old"))
        .join_generic(common::client::unix_ms().to_be_bytes())
        .join_generic([1, 2, 3, 4, 5, 6, 7, 8])
        .join_generic(component(&[27, 1, 0], 22));
    let digest = namely_security::sha256(signed.as_bytes());
    let interest = InterestBuilder::new(signed.join_generic(component(&digest, 23))).nonce([9; 4]).build();
    let response = client.respond_to(&interest);
    assert_eq!(response.code, 200, "{}", response.text);
    assert_eq!(client.routes("/old").len(), 1);
}

#[test]
fn undecodable_commands_get_status_400() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let mut ask = |uri: &str| {
        let interest = InterestBuilder::new(name(uri)).nonce(client.next_nonce()).build();
        let response: ControlResponse = client.respond_to(&interest);
        (response.code, response.text)
    };
    assert_eq!(ask("/localhost/nfd/rib/register").0, 400);
    let (code, text) = ask("/localhost/nfd/rib/register/garbage");
    assert_eq!(code, 400, "{text}");
    assert_eq!(ask("/localhost/nfd/rib/register/h%05%07%03").0, 400, "truncated parameters");
    assert_eq!(ask("/localhost/nfd/rib/nothing").0, 404);
    assert_eq!(ask("/localhost/nfd/nothing/at/all").0, 404);
    assert_eq!(ask("/localhost/nfd").0, 404);
    // The router continues to work.
    client.register("/fine");
}

#[test]
fn commands_with_missing_parameters_are_refused() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    for command in [
        Command::FacesCreate,
        Command::FacesDestroy,
        Command::FibAddNexthop,
        Command::FibRemoveNexthop,
        Command::CsErase,
        Command::StrategyChoiceSet,
        Command::StrategyChoiceUnset,
        Command::RibRegister,
        Command::RibUnregister,
    ] {
        let response = client.command(command, &ControlParameters::default());
        assert_eq!(response.code, 400, "{command}: {}", response.text);
        assert!(response.text.contains("missing"), "{}", response.text);
    }
}

#[test]
fn management_answers_are_not_cached() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.register("/one");
    let before = client.dataset(Dataset::RibList).len();
    // Within FreshnessPeriod of the first answer.
    client.register("/two");
    assert!(client.dataset(Dataset::RibList).len() > before);
    assert_eq!(list::<CsInfo>(&mut client, Dataset::CsInfo)[0].entries, 0);
}

#[test]
fn an_application_cannot_answer_for_management() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let forged = sign_data(
        &DataBuilder::new(name("/localhost/nfd/rib/list/v=1/seg=0").as_name()).freshness_ms(9_000_000),
        b"forged",
        &Signer::digest_sha256(),
    );
    client.send(&forged.unwrap());
    assert!(client.receive(Duration::from_millis(100)).is_none());
    assert!(client.routes("/x").is_empty(), "a real answer still comes");
}

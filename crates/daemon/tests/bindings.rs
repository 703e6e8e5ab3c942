//! Tests of the local path: routable prefixes lead to the face `local`, and applications bind
//! prefixes below them.

use crate::common;

use common::client::{name, named};
use common::{Client, Daemon, PATIENCE};
use namely_messages::{
    Binding, Command, ControlParameters, Dataset, FacePersistency, FibEntry, bind_flags, blocks,
};
use namely_testkit::until;
use namely_wire::{InterestBuilder, NackReason};

/// The face from the FIB to the applications of this host.
const LOCAL: u64 = 1;

fn to_local(prefix: &str) -> ControlParameters {
    ControlParameters { face_id: Some(LOCAL), ..named(prefix) }
}

fn bindings(client: &mut Client) -> Vec<(String, u64, bool)> {
    let content = client.dataset(Dataset::BptList);
    let bindings = blocks::<Binding>(&content).map(Result::unwrap);
    bindings.map(|b| (b.prefix.to_string(), b.face_id, b.flags & bind_flags::ROUTED != 0)).collect()
}

fn fib(client: &mut Client) -> Vec<FibEntry> {
    let content = client.dataset(Dataset::FibList);
    blocks(&content).map(Result::unwrap).collect()
}

/// Binds a prefix. Returns true if a route leads to it. The text of the response has to agree.
fn bind(client: &mut Client, prefix: &str) -> bool {
    let response = client.command(Command::BptBind, &named(prefix));
    assert_eq!(response.code, 200, "{prefix}: {}", response.text);
    let flags = response.parameters().unwrap().unwrap().flags.unwrap();
    let is_routed = flags & bind_flags::ROUTED != 0;
    assert_eq!(response.text == "OK", is_routed, "{}", response.text);
    assert_eq!(response.text.contains("no route leads"), !is_routed, "{}", response.text);
    is_routed
}

fn refused(client: &mut Client, prefix: &str, code: u64) -> String {
    let response = client.command(Command::BptBind, &named(prefix));
    assert_eq!(response.code, code, "{prefix}: {}", response.text);
    response.text
}

/// Sends Interests for `uri` until the router reports that there is no route.
fn has_no_route(daemon: &Daemon, uri: &str) {
    let mut consumer = daemon.connect();
    let interest = InterestBuilder::new(name(uri)).nonce(consumer.next_nonce()).build();
    assert_eq!(consumer.express(&interest, PATIENCE).unwrap().unwrap_err(), NackReason::NoRoute);
}

/// Sends an Interest for `uri`, and expects the Data of `producer`.
fn arrives(daemon: &Daemon, producer: &mut Client, uri: &str) {
    let mut consumer = daemon.connect();
    consumer.ask(uri);
    assert_eq!(producer.serve_one(b"here"), name(uri));
    assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"here");
}

#[test]
fn local_routes_reach_the_bound_application() {
    let daemon = Daemon::start();
    let (mut operator, mut application) = (daemon.connect(), daemon.connect());
    operator.ok(Command::RibRegister, &to_local("/lab"));
    has_no_route(&daemon, "/lab/a/1");
    let before = fib(&mut operator);
    assert!(bind(&mut application, "/lab/a"));
    assert_eq!(fib(&mut operator), before, "applications do not write the FIB");
    let own = application.own_face();
    assert_eq!(bindings(&mut operator), [("/lab/a".into(), own, true)]);
    arrives(&daemon, &mut application, "/lab/a/2");
    has_no_route(&daemon, "/lab/b/1");

    application.ok(Command::BptUnbind, &named("/lab/a"));
    has_no_route(&daemon, "/lab/a/3");
    assert_eq!(application.command(Command::BptUnbind, &named("/lab/a")).code, 404);
    assert_eq!(bindings(&mut operator), []);
}

#[test]
fn overlapping_binds_are_refused() {
    let daemon = Daemon::start();
    let (mut first, mut second) = (daemon.connect(), daemon.connect());
    first.ok(Command::RibRegister, &to_local("/lab"));
    assert!(bind(&mut first, "/lab/a/b"));
    assert!(bind(&mut first, "/lab/a/b"), "the same again is no conflict with oneself");
    let own = first.own_face();
    for prefix in ["/lab/a/b", "/lab/a", "/lab/a/b/c", "/lab", "/"] {
        let text = refused(&mut second, prefix, 409);
        assert!(text.contains("overlaps") && text.contains("choose a name beside it"), "{text}");
        assert_eq!(text.contains(&own.to_string()), prefix.len() >= "/lab/a/b".len(), "{text}");
    }
    assert!(bind(&mut second, "/lab/a/bc"), "a name beside it");
    assert_eq!(second.command(Command::BptUnbind, &named("/lab/a/b")).code, 404, "not its own");
    drop(first);
    until("the prefix is free", || {
        (second.command(Command::BptBind, &named("/lab/a/b")).code == 200).then_some(())
    });
    arrives(&daemon, &mut second, "/lab/a/b/1");
}

#[test]
fn an_early_bind_works_once_routed() {
    let daemon = Daemon::start();
    let (mut operator, mut application) = (daemon.connect(), daemon.connect());
    let only_if_routed = ControlParameters { flags: Some(bind_flags::ROUTED), ..named("/lab/a") };
    assert_eq!(application.command(Command::BptBind, &only_if_routed).code, 404);
    assert!(!bind(&mut application, "/lab/a"));
    let own = application.own_face();
    assert_eq!(bindings(&mut operator), [("/lab/a".into(), own, false)]);
    has_no_route(&daemon, "/lab/a/1");
    operator.ok(Command::RibRegister, &to_local("/lab"));
    arrives(&daemon, &mut application, "/lab/a/2");
    assert_eq!(bindings(&mut operator), [("/lab/a".into(), own, true)]);
    // The route of a longer prefix leads to another face, so the operator's route does not apply
    // below that prefix.
    let mut elsewhere = daemon.connect();
    elsewhere.ok(Command::FibAddNexthop, &named("/lab/a/x"));
    assert_eq!(application.command(Command::BptUnbind, &named("/lab/a")).code, 200);
    assert!(!bind(&mut application, "/lab/a/x/y"));
}

#[test]
fn sockets_bind_prefixes_without_fib_entries() {
    let daemon = Daemon::start();
    let mut operator = daemon.connect();
    operator.ok(Command::RibRegister, &to_local("/lab"));
    let before = fib(&mut operator).len();
    let mut sockets: Vec<Client> = (0..3).map(|_| daemon.connect()).collect();
    for (i, socket) in sockets.iter_mut().enumerate() {
        assert!((0..4).all(|j| bind(socket, &format!("/lab/s{i}/p{j}"))));
    }
    assert_eq!((bindings(&mut operator).len(), fib(&mut operator).len()), (12, before));
    for (i, socket) in sockets.iter_mut().enumerate() {
        (0..4).for_each(|j| arrives(&daemon, socket, &format!("/lab/s{i}/p{j}/1")));
    }
    sockets.truncate(1);
    until("the others' prefixes are free", || (bindings(&mut operator).len() == 4).then_some(()));
}

#[test]
fn the_local_face_is_immutable() {
    let daemon = Daemon::start();
    let (mut operator, mut application) = (daemon.connect(), daemon.connect());
    operator.ok(Command::RibRegister, &to_local("/lab"));
    bind(&mut application, "/lab/a");
    arrives(&daemon, &mut application, "/lab/a/1");
    // A worker counts a batch at its end, which may be after the test has received the packets.
    let local = until("the Interest is counted", || {
        let faces = operator.faces();
        let local = faces.into_iter().find(|face| face.face_id == LOCAL).unwrap();
        (local.out_interests == 1).then_some(local)
    });
    assert_eq!((local.uri.as_str(), local.local_uri.as_str()), ("internal://local", "internal://local"));
    assert_eq!(local.face_persistency, FacePersistency::Permanent);
    let it = ControlParameters { face_id: Some(LOCAL), ..Default::default() };
    for command in [Command::FacesDestroy, Command::FacesUpdate] {
        let response = operator.command(command, &it);
        assert_eq!(response.code, 409, "{command}: {}", response.text);
    }
    assert_eq!(operator.command(Command::BptBind, &to_local("/x")).code, 410, "local is not a socket");
    let mut neighbour = Client::udp(daemon.udp());
    neighbour.ask("/nowhere");
    neighbour.receive(PATIENCE).unwrap();
    let faces = operator.faces();
    let udp = faces.iter().find(|face| face.uri.starts_with("udp")).unwrap().face_id;
    let of_neighbour = ControlParameters { face_id: Some(udp), ..named("/x") };
    assert_eq!(operator.command(Command::BptBind, &of_neighbour).code, 400, "only applications bind");
}

#[test]
fn a_reload_changes_the_local_prefixes() {
    let mut daemon = Daemon::start_with("[network]\nlocal = [\"/lab\", \"/org\"]\n", &[]);
    let mut client = daemon.connect();
    assert_eq!(client.routes("/lab")[0].face_id, LOCAL);
    assert!(bind(&mut client, "/lab/a") && bind(&mut client, "/org/a"));
    daemon.reload("[network]\nlocal = [\"/org\", \"/new\"]\n");
    assert_eq!((client.routes("/lab").len(), client.routes("/new").len()), (0, 1));
    let routed: Vec<bool> = bindings(&mut client).into_iter().map(|(_, _, routed)| routed).collect();
    assert_eq!(routed, [false, true], "/lab/a is bound still, and no route leads there");
    arrives(&daemon, &mut client, "/org/a/1");
}

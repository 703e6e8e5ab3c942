//! A router that is told to stop while Interests are pending.

use crate::common;
use crate::segment;

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use common::client::name;
use common::{Client, Daemon, PATIENCE, namelyd};
use namely_messages::{Block, ControlResponse, Dataset, EventRequest, GeneralStatus, Scope, status_code};
use namely_security::{Signer, sign_data};
use namely_testkit::{eventually, until};
use namely_wire::{DataBuilder, DataView, InterestBuilder, NackReason};
use rustix::process::Signal;

/// A drain that only an answer or a second signal ends.
const LONG: &str = "[process]\ndrain_ms = 3600000\n";

/// A router with an Interest pending that its producer has received.
struct Pending {
    daemon: Daemon,
    /// Another host.
    consumer: Client,
    producer: Client,
}

fn pending(config: &str) -> Pending {
    pending_on(Daemon::start_with(config, &[]))
}

fn pending_on(daemon: Daemon) -> Pending {
    let (mut consumer, mut producer) = (Client::udp(daemon.udp()), daemon.connect());
    producer.register("/far");
    ask(&mut consumer, "/far/old", &mut producer);
    Pending { daemon, consumer, producer }
}

/// Sends an Interest until its producer has received it: a datagram may get lost.
fn ask(consumer: &mut Client, uri: &str, producer: &mut Client) {
    until("the producer is asked", || {
        consumer.ask(uri);
        let packet = producer.receive(Duration::from_millis(500))?;
        (packet.interest().name == name(uri).as_name()).then_some(())
    });
}

/// Answers the pending Interest of `ask`. Returns the content that its consumer receives.
fn answer(producer: &mut Client, consumer: &mut Client) -> Vec<u8> {
    let name = name("/far/old");
    let data = DataBuilder::new(name.as_name()).freshness_ms(1000);
    producer.send(&sign_data(&data, b"late", &Signer::digest_sha256()).unwrap());
    loop {
        let packet = consumer.receive(PATIENCE).expect("the Data");
        // The router may also ask an address that has not proven itself.
        if let Ok(data) = DataView::parse(&packet.wire) {
            return data.content.to_vec();
        }
    }
}

impl Pending {
    fn drain(&mut self) {
        self.daemon.signal(Signal::TERM);
        self.daemon.wait_for_log("draining");
    }
}

fn draining(client: &mut Client) -> Option<u64> {
    let status = GeneralStatus::decode(&client.dataset(Dataset::StatusGeneral)).unwrap();
    status.details.unwrap().draining
}

#[test]
fn a_drain_ends_with_the_last_interest() {
    let mut router = pending(LONG);
    router.drain();
    assert_eq!(draining(&mut router.daemon.connect()), Some(1));
    assert_eq!(answer(&mut router.producer, &mut router.consumer), b"late");
    router.daemon.wait_for_log("drained");
    assert_eq!(router.daemon.ended().code(), Some(0));
}

#[test]
fn a_drain_ends_at_its_bound() {
    let mut router = pending("[process]\ndrain_ms = 1\n");
    router.drain();
    let line = router.daemon.wait_for_log("has reached its bound");
    assert!(line.contains("pending=1"), "{line}");
    assert_eq!(router.daemon.ended().code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_drain() {
    for second in [Signal::TERM, Signal::INT] {
        let mut router = pending(LONG);
        router.drain();
        router.daemon.signal(Signal::HUP);
        router.daemon.wait_for_log("not reloaded: the router is about to stop");
        router.daemon.signal(second);
        assert_eq!(router.daemon.ended().code(), Some(0));
    }
}

#[test]
fn a_drain_can_be_switched_off() {
    let router = pending("[process]\ndrain_ms = 0\n");
    router.daemon.signal(Signal::TERM);
    assert_eq!(router.daemon.ended().code(), Some(0));
}

/// A subscription to the router's events is pending as long as the router runs.
#[test]
fn an_idle_router_stops_without_a_drain() {
    let daemon = Daemon::start_with(LONG, &[]);
    let mut client = daemon.connect();
    let next = client.face_event(None).0 + 1;
    let event = EventRequest::name(Scope::Localhost, next);
    let subscription = InterestBuilder::new(event).must_be_fresh().lifetime_ms(60_000);
    let nonce = client.next_nonce();
    client.send(&subscription.nonce(nonce).build());
    // The request for the status is pending itself.
    eventually("it is pending", || {
        let status = client.dataset(Dataset::StatusGeneral);
        GeneralStatus::decode(&status).unwrap().pit_entries >= 2
    });
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().code(), Some(0));
}

#[test]
fn a_refused_downstream_uses_another_next_hop() {
    let (daemon, other) = (Daemon::start_with(LONG, &[]), Daemon::start());
    let mut of_other = other.connect();
    of_other.register("/far");
    let face = |daemon: &Daemon, cost: u32| {
        let port = daemon.udp().port();
        format!(
            "[[face]]\nremote = \"udp4://127.0.0.1:{port}\"\nreliability = true\nroutes = [\"/far\"]\ncost = {cost}\n"
        )
    };
    let near = face(&daemon, 1) + &face(&other, 2);
    let near = Daemon::start_with(&(near + "[strategy]\n\"/far\" = \"asf\"\n"), &[]);
    let mut consumer = near.connect();
    eventually("both next hops", || consumer.routes("/far").len() == 2);
    let mut router = pending_on(daemon);
    router.drain();
    let mut refused = 0..;
    until("a refusal", || {
        let interest = consumer.interest(&format!("/far/refused/{}", refused.next()?));
        let answer = consumer.express(&interest, Duration::from_secs(1))?;
        answer.err().filter(|reason| *reason == NackReason::NoRoute)
    });
    let mut client = router.daemon.connect();
    assert!(client.counter("forwarder.draining") >= 1);
    assert_eq!(draining(&mut client), Some(1), "the first one is still pending");
    ask(&mut consumer, "/far/again", &mut of_other);
}

#[test]
fn systemd_is_notified_of_a_drain() {
    let dir = tempfile::tempdir().unwrap();
    let notify = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    notify.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = namelyd();
    let socket = format!("unix://{}/x.sock", dir.path().display());
    command.args(["--no-config", "--listen", &socket, "--listen", "udp://127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", dir.path().join("notify"));
    let router = pending_on(Daemon::spawn(command, dir).unwrap());
    router.daemon.signal(Signal::TERM);
    let mut text = [0; 512];
    let states = std::iter::repeat_with(|| {
        let octets = namely_testkit::uninterrupted(|| notify.recv(&mut text)).expect("a state");
        String::from_utf8_lossy(&text[..octets]).into_owned()
    });
    let state = { states }.find(|state| state.contains("STATUS=")).unwrap();
    assert!(state.contains("STOPPING=1") && state.contains("STATUS=draining: 1 Interest pending"), "{state}");
    assert!(state.contains("EXTEND_TIMEOUT_USEC="), "{state}");
}

#[test]
fn a_drain_withdraws_readvertised_routes() {
    let config = format!("{LONG}[readvertise]\norigins = [\"app\"]\n");
    let daemon = Daemon::start_with(&config, &[]);
    let mut routing = daemon.connect();
    routing.register("/localhost/nlsr");
    let mut router = pending_on(daemon);
    let ok = ControlResponse::new(status_code::OK, "OK").to_vec();
    let registered = routing.serve_one(&ok);
    assert!(name("/localhost/nlsr/rib/register").is_prefix_of(registered.as_name()), "{registered}");
    router.drain();
    let verb = name("/localhost/nlsr/rib/unregister");
    eventually("the route is withdrawn", || verb.is_prefix_of(routing.serve_one(&ok).as_name()));
}

/// The neighbor's face remains, because the pending Interest came over it.
#[test]
fn a_drain_withdraws_announced_prefixes() {
    let Some(net) = segment::Net::new(&[1500, 1500]) else { return };
    let mut near = net.router(0, "open = true", &[]);
    let mut far = net.router(1, &format!("prefixes = [\"/far\"]\n{LONG}"), &[]);
    let mut producer = far.daemon.connect();
    producer.register("/far");
    net.wait_for_neighbours(&mut far, 1);
    eventually("the route", || near.client.routes("/far").len() == 1);
    let mut consumer = near.daemon.connect();
    ask(&mut consumer, "/far/old", &mut producer);
    far.daemon.signal(Signal::TERM);
    eventually("the route is withdrawn", || near.client.routes("/far").is_empty());
    net.wait_for_neighbours(&mut near, 1);
    assert_eq!(draining(&mut far.daemon.connect()), Some(1));
    assert_eq!(answer(&mut producer, &mut consumer), b"late");
    assert_eq!(far.daemon.ended().code(), Some(0));
}

//! Tests of routers that are embedded in another program.

use crate::common;

use std::path::Path;
use std::sync::mpsc;

use common::client::{name, named};
use common::{Client, PATIENCE};
use namely_daemon::config::{Config, StaticRoute};
use namely_daemon::{Exit, Router};
use namely_messages::Command;
use namely_testkit::until;
use namely_wire::FaceUri;

/// Returns the configuration of a router with a Unix socket and a UDP port.
fn config(socket: &Path) -> Config {
    let mut config = Config::default();
    config.faces.listen =
        vec![FaceUri::Unix(socket.to_str().unwrap().into()), "udp://127.0.0.1:0".parse().unwrap()];
    config
}

#[test]
fn two_routers_in_one_process_exchange_data() {
    let dir = tempfile::tempdir().unwrap();
    let (near_socket, far_socket) = (dir.path().join("near"), dir.path().join("far"));
    let far = Router::start(config(&far_socket)).unwrap();
    let mut near_config = config(&near_socket);
    near_config.route.push(StaticRoute::new(name("/far"), far.listening()[1].clone()));
    let near = Router::start(near_config).unwrap();

    let mut producer = Client::unix(&far_socket);
    producer.register("/far");
    let mut consumer = Client::unix(&near_socket);
    until("the route is made", || consumer.routes("/far").first().copied());
    consumer.ask("/far/x");
    producer.serve_one(b"across");
    assert_eq!(consumer.receive(PATIENCE).unwrap().data().content, b"across");

    near.stop();
    assert!(!near_socket.exists() && consumer.is_closed());
    producer.register("/still/here");
    drop(far);
    assert!(!far_socket.exists(), "dropping it stops it");
}

#[test]
fn a_running_router_is_healthy() {
    let dir = tempfile::tempdir().unwrap();
    let router = Router::start(config(&dir.path().join("s"))).unwrap();
    assert!(router.is_well(PATIENCE));
}

#[test]
fn a_router_reports_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, ended) = mpsc::channel();
    let router = Router::start_with(config(&dir.path().join("s")), move || sender.send(()).unwrap()).unwrap();
    assert!(ended.try_recv().is_err());
    router.stop();
    ended.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn an_invalid_router_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let mut wrong = config(&socket);
    wrong.strategy.insert(name("/"), "no-such".into());
    let failure = Router::start(wrong.clone()).err().unwrap();
    assert_eq!(failure.exit, Exit::Configuration);
    assert!(failure.message.contains("no-such"), "{failure}");

    let mut taken = config(&socket);
    taken.faces.listen.push("tcp://192.0.2.1:1".parse().unwrap());
    assert_eq!(Router::start(taken).err().unwrap().exit, Exit::CannotListen);
    assert!(!socket.exists(), "sockets that were opened before are closed again");

    let router = Router::start(config(&socket)).unwrap();
    assert_eq!(router.reload(wrong).unwrap_err().exit, Exit::Configuration);
    Client::unix(&socket).ok(Command::RibRegister, &named("/fine"));
}

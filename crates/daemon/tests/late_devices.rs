//! Network devices and addresses that come and go while a router runs.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use namely_messages::{
    ChannelStatus, Command, ControlParameters, Dataset, FacePersistency, FaceState, FaceStatus,
    GeneralStatus, blocks,
};
use namely_testkit::{eventually, until};

use crate::common::Client;
use crate::namespace::Namespace;

/// Starts a router in the network namespace of this thread.
fn start(dir: &Path, config: &str) -> (namely_daemon::Router, Client) {
    let socket = dir.join("router.sock");
    let text = config.replace("SOCKET", &format!("unix://{}", socket.display()));
    let config = namely_daemon::config::Config::parse(&text, Path::new("namely.toml")).unwrap();
    (namely_daemon::Router::start(config).unwrap(), Client::unix(&socket))
}

fn face(client: &mut Client, id: u64) -> Option<FaceStatus> {
    client.faces().into_iter().find(|face| face.face_id == id)
}

#[test]
fn permanent_faces_follow_the_hosts_address() {
    let Some(namespace) = Namespace::new() else { return };
    if !(namespace.ip("link add d0 type dummy") && namespace.ip("link set d0 up")) {
        return;
    }
    let add = |address: &str| assert!(namespace.ip(&format!("addr add {address}/24 dev d0")));
    let remove = |address: &str| assert!(namespace.ip(&format!("addr del {address}/24 dev d0")));
    add("10.9.0.1");
    namespace.enter(|| {
        let dir = tempfile::tempdir().unwrap();
        let (router, mut client) = start(dir.path(), "[faces]\nlisten = [\"SOCKET\"]\n");
        let parameters = ControlParameters {
            uri: Some("udp4://10.9.0.7:6363".into()),
            face_persistency: Some(FacePersistency::Permanent),
            ..ControlParameters::default()
        };
        let id = client.ok(Command::FacesCreate, &parameters).face_id.unwrap();
        let mut sends_from = |address: &str| {
            let face = face(&mut client, id).unwrap();
            let is_up = face.state() == Some(FaceState::Up);
            is_up && face.local_uri.starts_with(&format!("udp4://{address}:"))
        };
        assert!(sends_from("10.9.0.1"));
        remove("10.9.0.1");
        add("10.9.0.2");
        eventually("it sends from the new address", || sends_from("10.9.0.2"));
        remove("10.9.0.2");
        let mut client = Client::unix(&dir.path().join("router.sock"));
        eventually("it is down", || {
            face(&mut client, id).and_then(|face| face.state()) == Some(FaceState::Down)
        });
        add("10.9.0.3");
        eventually("it is up again", || sends_from("10.9.0.3"));
        router.stop();
    });
}

#[test]
fn permanent_tcp_faces_follow_the_hosts_address() {
    let Some(namespace) = Namespace::new() else { return };
    let commands =
        ["link set lo up", "addr add 10.9.0.7/32 dev lo", "link add d0 type dummy", "link set d0 up"];
    if !commands.iter().all(|command| namespace.ip(command)) {
        return;
    }
    let ip = |command: &str| assert!(namespace.ip(command), "{command}");
    // Connections to the peer, which is on this host, leave from the address of d0.
    let add = |address: &str| {
        ip(&format!("addr add {address}/24 dev d0"));
        ip(&format!("route replace local 10.9.0.7 dev lo table local src {address}"));
    };
    add("10.9.0.1");
    namespace.enter(|| {
        let dir = tempfile::tempdir().unwrap();
        let peer = TcpListener::bind("10.9.0.7:0").unwrap();
        peer.set_nonblocking(true).unwrap();
        let accepted = || until("the router connects", || peer.accept().ok());
        let port = peer.local_addr().unwrap().port();
        let (router, mut client) = start(dir.path(), "[faces]\nlisten = [\"SOCKET\"]\n");
        let parameters = ControlParameters {
            uri: Some(format!("tcp4://10.9.0.7:{port}")),
            face_persistency: Some(FacePersistency::Permanent),
            ..ControlParameters::default()
        };
        let id = client.ok(Command::FacesCreate, &parameters).face_id.unwrap();
        let source = |accepted: &(TcpStream, SocketAddr)| accepted.1.ip().to_string();
        let first = accepted();
        assert_eq!(source(&first), "10.9.0.1");
        ip("addr del 10.9.0.1/24 dev d0");
        add("10.9.0.2");
        let second = accepted();
        assert_eq!(source(&second), "10.9.0.2", "it connects again");
        eventually("it is up", || face(&mut client, id).and_then(|face| face.state()) == Some(FaceState::Up));
        router.stop();
    });
}

#[test]
fn a_router_waits_for_a_late_device() {
    let Some(namespace) = Namespace::new() else { return };
    if !namespace.ip("link set lo up") {
        return;
    }
    namespace.enter(|| {
        let dir = tempfile::tempdir().unwrap();
        let config = "[faces]\nlisten = [\"SOCKET\", \"dev://va\"]\n[[faces.multicast]]\ninterface = \"va\"\n\
                      [discovery]\nenabled = false\n";
        let (router, mut client) = start(dir.path(), config);
        let mut awaited = || {
            let status = GeneralStatus::decode(&client.dataset(Dataset::StatusGeneral)).unwrap();
            status.details.map(|details| details.awaited).unwrap_or_default()
        };
        assert_eq!(awaited(), ["dev://va", "udp4://224.0.23.170:56363 on dev://va"]);
        if !namespace.ip("link add va type veth peer name vb") {
            return;
        }
        for command in ["link set vb up", "addr add 10.9.0.1/24 dev va", "link set va up"] {
            assert!(namespace.ip(command), "{command}");
        }
        eventually("the router listens on it", || awaited().is_empty());
        let channels = client.dataset(Dataset::FacesChannels);
        let channels: Vec<ChannelStatus> = blocks(&channels).map(Result::unwrap).collect();
        assert!(channels.iter().any(|channel| channel.local_uri == "dev://va"), "{channels:?}");
        let faces = client.faces();
        assert!(faces.iter().any(|face| face.uri == "udp4://224.0.23.170:56363"), "{faces:?}");
        router.stop();
    });
}

/// The configuration and neighbor discovery make the same face when the device comes.
#[test]
fn a_late_group_is_shared_with_discovery() {
    let Some(namespace) = Namespace::new() else { return };
    if !namespace.ip("link set lo up") {
        return;
    }
    namespace.enter(|| {
        let dir = tempfile::tempdir().unwrap();
        let group = "ether://[01:00:5e:00:17:aa]";
        let config = format!(
            "[faces]\nlisten = [\"SOCKET\", \"dev://va\"]\n\
             [[faces.multicast]]\ninterface = \"va\"\ngroup = \"{group}\"\n"
        );
        let (router, mut client) = start(dir.path(), &config);
        if !namespace.ip("link add va type veth peer name vb") {
            return;
        }
        for command in ["link set vb up", "link set va up"] {
            assert!(namespace.ip(command), "{command}");
        }
        eventually("nothing is awaited", || {
            let status = GeneralStatus::decode(&client.dataset(Dataset::StatusGeneral)).unwrap();
            status.details.is_some_and(|details| details.awaited.is_empty())
        });
        eventually("discovery runs on the device", || !client.dataset(Dataset::NeighborsList).is_empty());
        let faces = client.faces();
        assert_eq!(faces.iter().filter(|face| face.uri == group).count(), 1, "{faces:?}");
        router.stop();
    });
}

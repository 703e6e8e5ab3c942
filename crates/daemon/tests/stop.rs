//! SIGTERM ends the router at once, regardless of its peers. The suite `measures` runs these tests
//! with a shorter limit.

use crate::common;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::client::{name, named};
use common::{Client, Daemon};
use namely_messages::{Command, ControlParameters, Dataset, Scope};
use namely_testkit::until;
use namely_wire::{FaceUri, InterestBuilder};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// The router promises to stop within a second. The suite that measures allows more, for a loaded
/// machine. Beside other tests, only a router that waits for its peers takes half a minute.
const STOPPED_IN: Duration = Duration::from_secs(if crate::MEASURES { 4 } else { 30 });

/// A TCP port with a full backlog: a further client waits in its connect.
struct Full {
    address: SocketAddr,
    _listener: OwnedFd,
    _queued: Vec<OwnedFd>,
}

fn full_port() -> Full {
    let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address: SocketAddr = rustix::net::getsockname(&listener).unwrap().try_into().unwrap();
    let queued = (0..4).map(|_| {
        let flags = rustix::net::SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        rustix::net::connect(&socket, &address).ok();
        socket
    });
    let queued = queued.collect();
    Full { address, _listener: listener, _queued: queued }
}

/// Sends 40,000 Interests, reads no answer, and returns the open connection.
fn send_without_reading(daemon: &Daemon) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.tcp()).unwrap();
    let mut octets = Vec::new();
    for n in 0..20_000u32 {
        let dataset = Dataset::StatusGeneral.prefix(Scope::Localhost);
        octets.extend(InterestBuilder::new(dataset).can_be_prefix().nonce(n.to_be_bytes()).build());
        let missing = name("/nobody/has/this").join_segment(n.into());
        octets.extend(InterestBuilder::new(missing).nonce(n.to_le_bytes()).build());
    }
    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    // The router may stop reading. Then the rest waits in the socket buffers, or is not sent.
    stream.write_all(&octets).ok();
    stream
}

/// Connects ten times to each WebSocket, TCP and memif listener, and sends at most the beginning of
/// a handshake or packet.
fn half_handshakes(daemon: &Daemon) -> (Vec<TcpStream>, Vec<OwnedFd>) {
    let (mut tcp, mut unix) = (Vec::new(), Vec::new());
    for uri in daemon.listening() {
        for _ in 0..10 {
            match uri {
                FaceUri::Ws(_) => {
                    let mut stream = TcpStream::connect(uri.address().unwrap()).unwrap();
                    stream.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
                    tcp.push(stream);
                }
                FaceUri::Tcp(_) => {
                    let mut stream = TcpStream::connect(uri.address().unwrap()).unwrap();
                    stream.write_all(&[100, 253, 0x20]).unwrap();
                    tcp.push(stream);
                }
                FaceUri::Memif { path, .. } => {
                    let socket =
                        rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
                    rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_str()).unwrap()).unwrap();
                    unix.push(socket);
                }
                _ => {}
            }
        }
    }
    (tcp, unix)
}

#[test]
fn sigterm_ends_the_router_immediately() {
    let folder = tempfile::tempdir().unwrap();
    let memif = format!("memif://{}/x.memif", folder.path().display());
    let full = full_port();
    let config = format!(
        "[[face]]\nremote = \"tcp4://{}\"\npersistency = \"persistent\"\n\
         [[face]]\nremote = \"udp://a-name-that-nobody-knows.invalid:6363\"\n",
        full.address
    );
    let mut daemon = Daemon::start_with(&config, &["--listen", "ws://127.0.0.1:0", "--listen", &memif]);
    let _half = half_handshakes(&daemon);
    let _deaf = [send_without_reading(&daemon), send_without_reading(&daemon)];
    // 32 commands whose connections cannot be completed while the router runs.
    let mut clients: Vec<Client> = (0..8).map(|_| daemon.connect()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        for k in 0..4 {
            let uri = format!("tcp4://127.0.0.{}:{}", 2 + 4 * n + k, full.address.port());
            let parameters = ControlParameters { uri: Some(uri), ..Default::default() };
            let command =
                client.command_interest(Command::FacesCreate.name(Scope::Localhost, &parameters), b"");
            client.send(&command);
        }
    }
    // One client sends commands until the router closes its connection.
    let mut flooding = UnixStream::connect(daemon.socket()).unwrap();
    let flood = std::thread::spawn(move || {
        for n in 0u32.. {
            let command = Command::RibRegister.name(Scope::Localhost, &named(&format!("/flood/{}", n % 100)));
            let interest = InterestBuilder::new(command).nonce(n.to_be_bytes()).build();
            if flooding.write_all(&interest).is_err() {
                break;
            }
        }
    });
    until("the flood is on", || (daemon.connect().routes("/flood/99").len() == 1).then_some(()));
    daemon.wait_for_log("no face to");
    let start = Instant::now();
    let (status, _) = daemon.stop();
    let took = start.elapsed();
    assert_eq!(status.code(), Some(0));
    assert!(took < STOPPED_IN, "{took:?}");
    flood.join().unwrap();
}

#[test]
fn a_router_with_scrapers_stops_in_time() {
    let address = namely_testkit::free_address();
    let daemon = Daemon::start_with("", &["--metrics", &address.to_string()]);
    let _idle: Vec<_> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    let since = Instant::now();
    let (status, _) = daemon.stop();
    let took = since.elapsed();
    assert!(status.success() && took < STOPPED_IN, "{status} {took:?}");
}

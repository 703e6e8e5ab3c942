//! Both gateways with a router and an origin between and behind them: all real, over loopback.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use namely_daemon::Router;
use namely_daemon::config::Config;
use namely_proxy::egress::{Egress, EgressOptions};
use namely_proxy::ingress::{Ingress, Sites};
use namely_security::validity::ALWAYS;
use namely_security::{KeyChain, KeyType, NewKey};
use namely_socket::{Consumer, ConsumerOptions, Producer, ProducerOptions};
use namely_wire::{FaceUri, Name};

/// An origin with the test's answer for each path. It records the requests.
pub struct Origin {
    pub address: SocketAddr,
    pub received: Arc<Mutex<Vec<String>>>,
    pub round: Arc<AtomicU64>,
}

impl Origin {
    /// `answer` receives the path and the number of calls of [`Origin::next`]. It returns headers
    /// and body.
    pub fn start(answer: impl Fn(&str, u64) -> (String, Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (received, round) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        let (log, turn, answer) = (received.clone(), round.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, log, turn, answer) =
                    (stream.unwrap(), log.clone(), turn.clone(), answer.clone());
                thread::spawn(move || {
                    let mut request = Vec::new();
                    let mut octet = [0];
                    while !request.ends_with(b"\r\n\r\n")
                        && stream.read(&mut octet).is_ok_and(|read| read > 0)
                    {
                        request.push(octet[0]);
                    }
                    let request = String::from_utf8(request).unwrap();
                    let path = request.split(' ').nth(1).unwrap_or("").to_owned();
                    log.lock().unwrap().push(request.clone());
                    let (headers, body) = answer(&path, turn.load(Ordering::SeqCst));
                    let head =
                        format!("{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                    // A gateway that needs no more octets closes the connection.
                    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
                });
            }
        });
        Origin { address, received, round }
    }

    pub fn requests(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    pub fn next(&self) {
        self.round.fetch_add(1, Ordering::SeqCst);
    }
}

/// A router with both gateways: the site `video` from `origin`.
pub struct World {
    pub origin: Origin,
    pub ingress: Ingress,
    pub egress: Egress,
    pub sockets: ConsumerOptions,
    /// The socket of the ingress.
    pub consumer: Arc<Consumer>,
    _router: Router,
    _dir: tempfile::TempDir,
}

impl World {
    pub fn new(origin: Origin, options: EgressOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("namely.sock").to_str().unwrap().to_owned();
        let mut config = Config::default();
        config.faces.listen = vec![FaceUri::Unix(socket.clone())];
        let router = Router::start(config).unwrap();
        let keychain = dir.path().join("keys");
        let (site, prefix) = (name("/http/video"), name("/http"));
        let key = NewKey {
            identity: site.as_name(),
            key_type: KeyType::Ed25519,
            validity: ALWAYS,
            version: 1,
            passphrase: None,
        };
        KeyChain::open(keychain.clone()).unwrap().generate(&key).unwrap();
        let router_uri = Some(format!("unix://{socket}"));
        let mut egress = Egress::new(options).unwrap();
        let sockets = ProducerOptions {
            router: router_uri.clone(),
            keychain: Some(keychain.clone()),
            ..ProducerOptions::default()
        };
        let base = format!("http://{}", origin.address).parse().unwrap();
        egress.add(Producer::bind(site, sockets).unwrap(), &base).unwrap();
        let sockets =
            ConsumerOptions { router: router_uri, keychain: Some(keychain), ..ConsumerOptions::default() };
        let consumer = Arc::new(Consumer::bind(prefix.clone(), sockets.clone()).unwrap());
        let shared = consumer.clone();
        let ingress = Ingress::start("127.0.0.1:0".parse().unwrap(), Sites::All(prefix), shared).unwrap();
        World { origin, ingress, egress, sockets, consumer, _router: router, _dir: dir }
    }

    /// The ingress's answer: status, headers in lower case, body.
    pub fn send(&self, request: &str) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.ingress.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let request = format!("{}\r\nConnection: close\r\n\r\n", request.trim_end());
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a response") + 4;
        let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end..].to_vec())
    }

    pub fn get(&self, path: &str) -> (u16, String, Vec<u8>) {
        self.send(&format!("GET http://video{path} HTTP/1.1\r\nHost: video"))
    }
}

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

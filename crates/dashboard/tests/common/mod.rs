//! A router, a page of it, and a client that speaks HTTP: all real, over loopback.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use namely_client::{Client, default_signer};
use namely_daemon::Router;
use namely_daemon::config::Config;
use namely_dashboard::{Dashboard, Options};
use namely_security::validity::ALWAYS;
use namely_security::{KeyChain, KeyType, NewKey, TrustPolicy};
use namely_socket::{Producer, ProducerOptions, Trust};
use namely_wire::{FaceUri, Name};
use serde_json::Value;

pub struct World {
    pub page: Dashboard,
    pub router: Option<Router>,
    pub dir: tempfile::TempDir,
}

/// An answer: status, headers in lower case, body.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl World {
    pub fn new() -> Self {
        Self::listening("127.0.0.1:0")
    }

    pub fn listening(listen: &str) -> Self {
        Self::with(|options| options.listen = listen.parse().unwrap())
    }

    /// A page with options that `change` changes.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let uri = format!("unix://{}", dir.path().join("namely.sock").display());
        let mut options = Options {
            routers: vec![Some(uri)],
            trust: Trust::Policy(TrustPolicy::digest_only().into()),
            interval: Duration::from_millis(50),
            ..Options::default()
        };
        change(&mut options);
        let page = Dashboard::start(options).unwrap();
        let mut world = World { page, router: None, dir };
        world.start_router();
        world
    }

    pub fn socket(&self) -> String {
        self.dir.path().join("namely.sock").to_str().unwrap().to_owned()
    }

    pub fn start_router(&mut self) {
        let mut config = Config::default();
        config.faces.listen = vec![FaceUri::Unix(self.socket())];
        self.router = Some(Router::start(config).unwrap());
    }

    pub fn client(&self) -> Client {
        Client::find(Some(&format!("unix://{}", self.socket())), default_signer()).unwrap()
    }

    pub fn producer(&self, prefix: &str) -> Producer {
        let prefix: Name = prefix.parse().unwrap();
        let keychain = self.dir.path().join("keys");
        let key = NewKey {
            identity: prefix.as_name(),
            key_type: KeyType::Ed25519,
            validity: ALWAYS,
            version: 1,
            passphrase: None,
        };
        KeyChain::open(keychain.clone()).unwrap().generate(&key).unwrap();
        let options = ProducerOptions {
            router: Some(format!("unix://{}", self.socket())),
            keychain: Some(keychain),
            ..ProducerOptions::default()
        };
        Producer::bind(prefix, options).unwrap()
    }

    /// The address at which a client of this machine reaches the dashboard.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.page.address().port()).into()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// The answer to a request of these lines and this body.
    pub fn ask(&self, lines: &str, body: &str) -> Answer {
        ask(self.connect(), lines, body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost"), "")
    }

    /// With the token.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let token = self.page.token();
        self.ask(
            &format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}"),
            &body.to_string(),
        )
    }

    pub fn watch(&self) -> Events {
        Events::of(self.connect(), "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }
}

/// The answer to a request of these lines and this body.
pub fn ask(mut stream: impl Read + Write, lines: &str, body: &str) -> Answer {
    let octets = body.len();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {octets}\r\n") };
    let request = format!("{}\r\n{length}Connection: close\r\n\r\n{body}", lines.trim_end());
    let _ = stream.write_all(request.as_bytes());
    answer(stream)
}

/// The answer on a connection that the server closes.
pub fn answer(mut stream: impl Read) -> Answer {
    let mut octets = Vec::new();
    let _ = stream.read_to_end(&mut octets);
    let text = String::from_utf8(octets).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// A page's stream of events.
pub struct Events {
    lines: Box<dyn BufRead>,
    pub status: u16,
}

impl Events {
    pub fn of(mut stream: impl Read + Write + 'static, request: &str) -> Self {
        stream.write_all(request.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or("0").parse().unwrap();
        while line.trim_end() != "" {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        Events { lines: Box::new(lines), status }
    }

    /// The next event's name and data. Sizes of chunks are no lines of events.
    pub fn event(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream has ended");
            let line = line.trim_end();
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).unwrap());
            }
        }
    }

    /// The first event of which `is_it` holds.
    pub fn until(&mut self, what: &str, mut is_it: impl FnMut(&str, &Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            let (name, data) = self.event();
            if is_it(&name, &data) {
                return data;
            }
        }
        panic!("waited in vain for {what}");
    }
}

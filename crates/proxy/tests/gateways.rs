//! HTTP clients get through both gateways and a router what an origin has: the origin, the
//! gateways, the router and the clients are real, over loopback.

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

/// An origin that answers each path with what the test says, and remembers what it was asked.
struct Origin {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    round: Arc<AtomicU64>,
}

impl Origin {
    /// `answer` gets the path and how often [`Origin::next`] was called; it gives headers and body.
    fn start(answer: impl Fn(&str, u64) -> (String, Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, round) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        let (log, turn, answer) = (asked.clone(), round.clone(), Arc::new(answer));
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
                    // A gateway that has enough goes away.
                    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
                });
            }
        });
        Origin { address, asked, round }
    }

    fn requests(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn next(&self) {
        self.round.fetch_add(1, Ordering::SeqCst);
    }
}

/// A router with both gateways: the site `video` from `origin`.
struct World {
    origin: Origin,
    ingress: Ingress,
    egress: Egress,
    sockets: ConsumerOptions,
    _router: Router,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(origin: Origin, options: EgressOptions) -> Self {
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
        let consumer = Consumer::bind(prefix.clone(), sockets.clone()).unwrap();
        let ingress = Ingress::start("127.0.0.1:0".parse().unwrap(), Sites::All(prefix), consumer).unwrap();
        World { origin, ingress, egress, sockets, _router: router, _dir: dir }
    }

    /// What the ingress answers: status, headers in lower case, body.
    fn ask(&self, request: &str) -> (u16, String, Vec<u8>) {
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

    fn get(&self, path: &str) -> (u16, String, Vec<u8>) {
        self.ask(&format!("GET http://video{path} HTTP/1.1\r\nHost: video"))
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn movie() -> Vec<u8> {
    (0..300_000_usize).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// An origin whose `/movie` is cacheable for long and whose other paths echo themselves.
fn origin() -> Origin {
    Origin::start(|path, round| {
        match path {
        "/movie" => (
            "HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nETag: \"m1\"\r\nCache-Control: max-age=3600\r\nX-Kept: yes\r\n".into(),
            movie(),
        ),
        "/live" => ("HTTP/1.1 200 OK\r\nCache-Control: no-cache\r\n".into(), format!("{round}").into_bytes()),
        "/secret" => ("HTTP/1.1 200 OK\r\nSet-Cookie: id=1\r\n".into(), b"for you only".to_vec()),
        "/moved" => ("HTTP/1.1 301 Moved\r\nLocation: /movie\r\n".into(), Vec::new()),
        "/huge" => ("HTTP/1.1 200 OK\r\n".into(), vec![0; (2 << 20) + 1]),
        "/missing" => ("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n".into(), b"no such thing".to_vec()),
        _ => ("HTTP/1.1 200 OK\r\n".into(), path.as_bytes().to_vec()),
    }
    })
}

fn world() -> World {
    World::new(origin(), EgressOptions { body_octets_max: 2 << 20, ..EgressOptions::default() })
}

#[test]
fn what_an_origin_has_reaches_http_clients_by_name_and_once_for_all() {
    let world = world();
    for _ in 0..3 {
        let (status, head, body) = world.get("/movie");
        assert_eq!((status, body == movie()), (200, true), "{head}");
        for line in [
            "content-type: video/mp2t",
            "etag: \"m1\"",
            "x-kept: yes",
            "content-length: 300000",
            "accept-ranges: bytes",
        ] {
            assert!(head.contains(line), "{line}: {head}");
        }
    }
    assert_eq!(world.origin.requests(), 1, "the origin was asked once");
    let (status, _, body) = world.get("/a%20b/?x=1&y=%2F");
    assert_eq!((status, body), (200, b"/a%20b/?x=1&y=%2F".to_vec()));
    let origin_form = world.ask("GET /by-host HTTP/1.1\r\nHost: VIDEO");
    assert_eq!((origin_form.0, origin_form.2), (200, b"/by-host".to_vec()));
    let sent = world.origin.asked.lock().unwrap().join("\n").to_lowercase();
    assert!(
        sent.contains("user-agent: namely/")
            && sent.contains("accept-encoding: identity")
            && sent.contains("host: video\r\n"),
        "{sent}"
    );
}

#[test]
fn ranges_heads_and_conditions_are_answered_by_the_gateway() {
    let world = world();
    let (status, head, body) = world.ask("HEAD http://video/movie HTTP/1.1\r\nHost: video");
    assert_eq!((status, body.len(), head.contains("content-length: 300000")), (200, 0, true), "{head}");
    for (range, from, to) in
        [("0-0", 0, 1), ("100-199", 100, 200), ("299990-", 299_990, 300_000), ("-5", 299_995, 300_000)]
    {
        let (status, head, body) =
            world.ask(&format!("GET http://video/movie HTTP/1.1\r\nHost: video\r\nRange: bytes={range}"));
        assert_eq!(status, 206, "{range}: {head}");
        assert_eq!(body, &movie()[from..to], "{range}");
        assert!(head.contains(&format!("content-range: bytes {from}-{}/300000", to - 1)), "{head}");
    }
    let (status, head, _) =
        world.ask("GET http://video/movie HTTP/1.1\r\nHost: video\r\nRange: bytes=300000-");
    assert!(status == 416 && head.contains("content-range: bytes */300000"), "{head}");
    let (status, _, body) =
        world.ask("GET http://video/movie HTTP/1.1\r\nHost: video\r\nIf-None-Match: \"m1\"");
    assert_eq!((status, body.len()), (304, 0));
    let (status, _, _) =
        world.ask("GET http://video/movie HTTP/1.1\r\nHost: video\r\nRange: bytes=0-9\r\nIf-Range: \"m0\"");
    assert_eq!(status, 200);
    // Without a tag of the origin's the version is one.
    let (_, head, _) = world.get("/plain");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
    let (status, _, _) =
        world.ask(&format!("GET http://video/plain HTTP/1.1\r\nHost: video\r\nIf-None-Match: {tag}"));
    assert_eq!(status, 304);
    assert_eq!(world.origin.requests(), 2);
}

#[test]
fn what_is_not_fresh_is_asked_for_again_and_changes() {
    let world = world();
    assert_eq!(world.get("/live").2, b"0");
    world.origin.next();
    // Routers on the way may take the answer for fresh for a moment.
    let changed = (0..50).any(|_| {
        thread::sleep(Duration::from_millis(100));
        world.get("/live").2 == b"1"
    });
    assert!(changed, "the gateway goes on answering with what was");
}

#[test]
fn an_origins_own_refusals_and_redirects_are_passed_on() {
    let world = world();
    let (status, _, body) = world.get("/missing");
    assert_eq!((status, body), (404, b"no such thing".to_vec()));
    let (status, head, _) = world.get("/moved");
    assert!(status == 301 && head.contains("location: /movie"), "{head}");
}

#[test]
fn what_cannot_be_public_data_is_refused_with_the_reason() {
    let world = world();
    let (status, _, body) = world.get("/secret");
    let text = String::from_utf8(body).unwrap();
    assert!(status == 502 && text.contains("for one client only"), "{status} {text}");
    let (status, _, body) = world.get("/huge");
    let text = String::from_utf8(body).unwrap();
    assert!(status == 502 && text.contains("more than 2097152 octets"), "{status} {text}");
    let (status, head, _) = world.ask("POST http://video/form HTTP/1.1\r\nHost: video\r\nContent-Length: 0");
    assert!(status == 405 && head.contains("allow: get, head"), "{head}");
    let (status, _, _) = world.ask("GET http://user:password@video/ HTTP/1.1\r\nHost: video");
    assert_eq!(status, 400);
    let (status, _, _) = world.ask("GET /%2 HTTP/1.1\r\nHost: video");
    assert_eq!(status, 400);
    let (status, _, body) = world.ask("GET http://nobody/ HTTP/1.1\r\nHost: nobody");
    assert_eq!(status, 404, "{}", String::from_utf8_lossy(&body));
    let counters = world.egress.counters();
    assert_eq!(counters.unusable.load(Ordering::Relaxed), 2);
    assert_eq!(world.ingress.counters().refused.load(Ordering::Relaxed), 3);
}

#[test]
fn an_origin_that_is_not_there_is_named() {
    let origin = origin();
    // A port that nobody listens on.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let world = World::new(Origin { address, ..origin }, EgressOptions::default());
    let (status, _, body) = world.get("/movie");
    let text = String::from_utf8(body).unwrap();
    assert!(status == 502 && text.contains("the origin cannot be reached"), "{status} {text}");
}

#[test]
fn a_client_that_sends_nothing_or_too_much_does_not_hold_the_gateway_up() {
    let world = world();
    let mut silent = TcpStream::connect(world.ingress.address()).unwrap();
    silent.write_all(b"GET http://vid").unwrap();
    let mut large = TcpStream::connect(world.ingress.address()).unwrap();
    large.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let _ = large.write_all(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000)).as_bytes());
    let mut answer = String::new();
    let _ = large.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(world.get("/movie").0, 200);
}

#[test]
fn clients_beyond_the_limit_wait_and_requests_to_origins_beyond_theirs_are_refused() {
    use namely_proxy::egress::REQUESTS_MAX;
    use namely_proxy::ingress::CLIENTS_MAX;
    let (open, gate) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (waiting, opened) = (open.clone(), gate.clone());
    let origin = Origin::start(move |path, _| {
        if path.starts_with("/slow") {
            waiting.fetch_add(1, Ordering::SeqCst);
            while opened.load(Ordering::SeqCst) == 0 {
                thread::sleep(Duration::from_millis(5));
            }
        }
        ("HTTP/1.1 200 OK\r\n".into(), path.as_bytes().to_vec())
    });
    let world = Arc::new(World::new(origin, EgressOptions::default()));
    let idle: Vec<_> =
        (1..CLIENTS_MAX).map(|_| TcpStream::connect(world.ingress.address()).unwrap()).collect();
    // The last place serves; one client more waits until another goes.
    assert_eq!(world.get("/last").0, 200);
    let _taken = TcpStream::connect(world.ingress.address()).unwrap();
    thread::sleep(Duration::from_millis(200));
    let late = thread::spawn({
        let world = world.clone();
        move || world.get("/late").0
    });
    thread::sleep(Duration::from_millis(500));
    assert!(!late.is_finished(), "a client beyond the limit was served");
    drop(idle);
    assert_eq!(late.join().unwrap(), 200);

    let clients: Vec<_> = (0..REQUESTS_MAX)
        .map(|n| {
            let world = world.clone();
            thread::spawn(move || world.get(&format!("/slow/{n}")).0)
        })
        .collect();
    let full = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        open.load(Ordering::SeqCst) == REQUESTS_MAX as u64
    });
    let refused = world.egress.counters().refused.load(Ordering::Relaxed);
    if full {
        // All places at the origin are taken: one more name is refused. The ingress has as many
        // streams, so another socket asks.
        let consumer = Consumer::bind(name("/http"), world.sockets.clone()).unwrap();
        let more = thread::spawn(move || drop(consumer.fetch(&name("/http/video/one/more"))));
        let counted = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            world.egress.counters().refused.load(Ordering::Relaxed) > refused
        });
        assert!(counted, "a request beyond the limit was not refused");
        gate.store(1, Ordering::SeqCst);
        let _ = more.join();
    }
    gate.store(1, Ordering::SeqCst);
    assert!(full, "{} requests reached the origin", open.load(Ordering::SeqCst));
    assert!(clients.into_iter().all(|client| client.join().unwrap() == 200));
}

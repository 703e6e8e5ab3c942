//! The page as its clients see it, of a real router.

mod common;

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use namely_client::RouteOptions;
use namely_dashboard::{
    ACTIONS_MAX, BODY_OCTETS_MAX, CONNECTIONS_FOR_TOKEN, CONNECTIONS_MAX, Dashboard, EXPLORATIONS_MAX,
    HISTORIES_MAX, Options, PREVIEW_OCTETS_MAX, REQUEST_OCTETS_MAX, STREAMS_FOR_TOKEN, STREAMS_MAX,
    StartError,
};
use namely_socket::PublishOptions;
use namely_wire::InterestBuilder;
use serde_json::{Value, json};

use namely_testkit::{eventually, until};

use self::common::{Events, World, answer};

#[test]
fn answers_forbid_foreign_resources() {
    let world = World::new();
    let paths =
        ["/", "/style.css", "/main.js", "/views.js", "/icon.svg", "/api/words", "/api/token", "/nowhere"];
    for path in paths {
        let answer = world.get(path);
        for line in [
            "content-security-policy: default-src 'self';",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(answer.head.contains(line), "{path}: {line}: {}", answer.head);
        }
        let status = [("/api/token", 401), ("/nowhere", 404)].into_iter().find(|(of, _)| *of == path);
        assert_eq!(answer.status, status.map_or(200, |(_, status)| status), "{path}");
        assert!(!answer.head.contains("unsafe-inline") && !answer.head.contains("access-control"));
    }
    assert_eq!(world.ask("HEAD / HTTP/1.1\r\nHost: localhost", "").body, "");
    assert_eq!(world.ask("DELETE / HTTP/1.1\r\nHost: localhost", "").status, 405);
    assert!(
        world.get("/api/words").json()["meanings"]["forwarder.no_route"][0]
            .as_str()
            .unwrap()
            .contains("no route")
    );
}

#[test]
fn requests_for_other_hosts_are_refused() {
    let world = World::new();
    for (lines, status) in [
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1", 200),
        ("GET / HTTP/1.1\r\nHost: evil.example", 421),
        ("GET /api/events HTTP/1.1\r\nHost: evil.example", 421),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost", 400),
        ("GET / HTTP/1.0", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example", 403),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost", 200),
        ("GET /api/events HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site", 403),
        ("GET / HTTP/1.1\r\nHost: [::1].evil.example", 421),
        ("GET / HTTP/1.1\r\nHost: [::1]@evil.example", 421),
        ("GET / HTTP/1.1\r\nHost: localhost:1@evil.example", 421),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: localhost", 421),
        ("GET http://localhost/ HTTP/1.1\r\nHost: localhost", 200),
    ] {
        assert_eq!(world.ask(lines, "").status, status, "{lines}");
    }
    assert_eq!(world.page.counters().refused_host.load(Ordering::Relaxed), 10);
}

#[test]
fn changes_need_the_right_token() {
    let world = World::new();
    let body = json!({"router": 0, "do": "route_add", "prefix": "/lab", "face": "1", "cost": 7}).to_string();
    let has_it = || world.client().rib().unwrap().iter().any(|entry| entry.prefix.to_string() == "/lab");
    let wrong = "0".repeat(32);
    for token in ["", "Authorization: Bearer \r\n", &format!("Authorization: Bearer {wrong}\r\n")] {
        for path in ["/api/act", "/api/explore"] {
            let response = world.ask(&format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{token}"), &body);
            assert_eq!(response.status, 401, "{path} {token}");
        }
    }
    assert!(!has_it(), "nothing was done");
    let token = world.page.token();
    let response = world
        .ask(&format!("POST /api/act HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}"), &body);
    assert_eq!((response.status, has_it()), (200, true), "{response:?}");
    let remove = json!({"router": 0, "do": "route_remove", "prefix": "/lab", "face": 1, "origin": "static"});
    assert_eq!((world.post("/api/act", &remove).status, has_it()), (200, false));
    for (body, status) in [
        (json!({"router": 0, "do": "face_destroy", "face": u64::MAX}), 502),
        (json!({"router": 0, "do": "strategy_set", "prefix": "/", "strategy": "no-such"}), 502),
        (json!({"router": 1, "do": "face_destroy", "face": 1}), 400),
        (json!({"router": 0, "do": "reboot"}), 400),
    ] {
        assert_eq!(world.post("/api/act", &body).status, status, "{body}");
    }
    assert!(world.page.url().ends_with(&format!("/#token={token}")) && token.len() == 32);
}

#[test]
fn a_page_without_tls_stays_on_this_machine() {
    for (address, is_served) in
        [("127.0.0.1:0", true), ("127.9.9.9:0", true), ("0.0.0.0:0", false), ("[::]:0", false)]
    {
        let options = Options { listen: address.parse().unwrap(), ..Options::default() };
        match Dashboard::start(options) {
            Ok(page) => assert!(is_served && !page.is_reachable_remotely(), "{address}"),
            Err(error) => {
                assert!(!is_served && matches!(error, StartError::Unencrypted(_)), "{address}: {error}")
            }
        }
    }
}

#[test]
fn a_page_follows_the_routers_state() {
    let world = World::new();
    let mut events = world.watch();
    assert_eq!(events.event().0, "state");
    let whole = events.until("the router", |_, data| data["sections"]["router"].is_object());
    assert!(whole["faces"].as_object().unwrap().len() >= 2);
    assert_eq!(whole["sections"]["store"]["tiers"][0]["tier"], "memory");
    let router = whole["sections"]["router"].clone();
    assert!(router["version"].as_str().unwrap().starts_with("namely"));
    world.client().add_route(&"/lab/%3Cb%3E".parse().unwrap(), 1, &RouteOptions::default()).unwrap();
    let change = events.until("the route", |_, data| data["sections"]["routes"]["total"] == 1);
    assert_eq!(change["sections"]["routes"]["shown"][0]["prefix"], "/lab/%3Cb%3E");
    assert_eq!(change["sections"]["routes"]["shown"][0]["origin"], "static");
    // The page polls by a face of its own, which is marked and counts in no total.
    let is_polling = |face: &Value| face["own"] == true && face["interests"][0].as_f64() > Some(0.0);
    events.until("the page's own face", |_, data| {
        data["faces"].as_object().is_some_and(|faces| faces.values().any(is_polling))
    });
    events.until("an idle router", |_, data| {
        let router = &data["sections"]["router"];
        (&router["interests"], &router["pit"], &router["satisfied"])
            == (&json!([0.0, 0.0]), &json!(0), &Value::Null)
            && router.is_object()
    });
    // Unchanged data is not sent again.
    events.until("a change without routes", |name, data| {
        name == "change" && data["sections"]["routes"].is_null()
    });
}

#[test]
fn hot_names_require_the_token() {
    let world = World::new();
    let subscribe = |query: &str, token: &str| {
        let token =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        let request = format!("GET /api/names{query} HTTP/1.1\r\nHost: localhost\r\n{token}\r\n");
        Events::of(world.connect(), &request)
    };
    let token = world.page.token();
    assert_eq!(subscribe("?router=0", "").status, 401, "names of others need the token");
    for query in ["", "?router=", "?router=1", "?router=-1", "?names=0"] {
        assert_eq!(subscribe(query, token).status, 400, "{query}");
    }
    // A trace is a command, and the page gives no other by itself.
    let commands = || {
        let counters = world.client().counters().unwrap();
        counters.iter().find(|counter| counter.label == "management.commands_done").map_or(0, |c| c.value)
    };
    let looks = || world.page.counters().looks.load(Ordering::Relaxed);
    let after_looks = |n: u64| {
        let from = looks();
        eventually("it looks again", || looks() >= from + n);
    };
    let _page = world.watch();
    after_looks(3);
    assert_eq!(commands(), 0, "names are not sampled");
    let mut names = subscribe("?router=0", token);
    assert_eq!(names.status, 200);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = world.client();
            for n in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let name = format!("/lab/%3Cb%3E/{n}").parse().unwrap();
                client.connection().express(&InterestBuilder::new(name)).unwrap();
            }
        });
        let sample = names.until("the requested names", |name, data| {
            name == "names" && data["names"][0]["prefix"] == "/lab/%3Cb%3E"
        });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(sample["names"][0]["part"], 1.0);
    });
    assert!(commands() > 0);
    drop(names);
    // The end of a stream is noticed when it is written to.
    let is_over = || {
        let before = commands();
        after_looks(2);
        commands() == before
    };
    eventually("it is over", is_over);
}

#[test]
fn the_page_follows_a_restarted_router() {
    let mut world = World::new();
    let mut events = world.watch();
    let first = events.until("the router", |_, data| data["sections"]["router"].is_object());
    world.router = None;
    let gone = events.until("the trouble", |_, data| data["sections"]["trouble"].is_object());
    assert!(!gone["sections"]["trouble"]["what"].as_str().unwrap().is_empty());
    world.start_router();
    let again = events.until("the router again", |_, data| data["sections"]["router"].is_object());
    assert_eq!(again["sections"]["trouble"], json!(null));
    assert_ne!(again["sections"]["router"]["start_ms"], first["sections"]["router"]["start_ms"]);
}

#[test]
fn the_page_fetches_verified_content() {
    let world = World::new();
    let producer = world.producer("/lab");
    let hostile = "<img src=x onerror=alert(1)>";
    let publish = |name: &str, octets: &[u8]| {
        producer.publish(&name.parse().unwrap(), octets, &PublishOptions::default()).unwrap();
    };
    publish("/lab/text", hostile.as_bytes());
    publish("/lab/exact", &vec![b'a'; PREVIEW_OCTETS_MAX]);
    publish("/lab/long", &vec![b'a'; PREVIEW_OCTETS_MAX + 1]);
    let explore = |name: &str| world.post("/api/explore", &json!({"router": 0, "name": name}));
    let text = explore("/lab/text");
    assert_eq!((text.status, &text.json()["content"]["text"]), (200, &json!(hostile)), "{text:?}");
    assert!(text.head.contains("content-type: application/json"), "it is no markup");
    for (name, cut) in [("/lab/exact", false), ("/lab/long", true)] {
        let found = explore(name).json();
        assert_eq!(
            (&found["content"]["shown"], &found["content"]["cut"]),
            (&json!(PREVIEW_OCTETS_MAX), &json!(cut)),
            "{name}"
        );
    }
    for (name, status) in [("lab", 502), ("/lab/%", 502), ("/nobody/x", 502)] {
        let found = explore(name);
        assert_eq!(found.status, status, "{name}: {found:?}");
        assert!(!found.json()["error"].as_str().unwrap().is_empty());
    }
}

#[test]
fn an_excess_connection_gets_503() {
    let world = World::new();
    let others = CONNECTIONS_MAX - CONNECTIONS_FOR_TOKEN;
    let mut all: Vec<_> = (0..others).map(|_| world.connect()).collect();
    // Each has its slot once it is answered. All are answered at once: the page keeps a connection
    // without a further request for fifteen seconds.
    for stream in &mut all {
        stream.write_all(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    for stream in &mut all {
        let mut octets = [0; 12];
        std::io::Read::read_exact(stream, &mut octets).unwrap();
        assert_eq!(&octets, b"HTTP/1.1 200");
    }
    assert_eq!(world.get("/api/words").status, 503);
    assert_eq!(world.page.counters().refused_full.load(Ordering::Relaxed), 1);
    drop(all);
    eventually("places are free again", || world.get("/").status == 200);
}

#[test]
fn an_excess_page_gets_503() {
    let world = World::new();
    let all: Vec<_> = (STREAMS_FOR_TOKEN..STREAMS_MAX).map(|_| world.watch()).collect();
    assert!(all.iter().all(|events| events.status == 200));
    assert_eq!(world.watch().status, 503);
    drop(all);
    eventually("it is watched again", || world.watch().status == 200);
}

/// A program without the token opens as many half requests and streams as it can, and more of them
/// while the operator connects.
#[test]
fn tokenless_programs_do_not_block_operators() {
    let world = World::new();
    let token = world.page.token();
    let _streams: Vec<_> = (0..STREAMS_MAX).map(|_| world.watch()).collect();
    let half = || {
        let mut stream = world.connect();
        stream.write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n").unwrap();
        stream
    };
    let mut halves: Vec<_> = (0..2 * CONNECTIONS_MAX).map(|_| half()).collect();
    for _ in 0..10 {
        assert_eq!(world.get("/").status, 200, "the page's files");
        let lines = format!("GET /api/token HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}");
        assert_eq!(world.ask(&lines, "").status, 200);
        halves.push(half());
    }
    let request =
        format!("GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    assert_eq!(Events::of(world.connect(), &request).status, 200, "a stream");
    // A busy machine may have closed some by now, whose time of fifteen seconds is over.
    halves.extend((0..CONNECTIONS_MAX).map(|_| half()));
    assert_eq!(world.get("/api/words").status, 503);
}

#[test]
fn oversized_heads_and_bodies_are_refused() {
    let world = World::new();
    let head = |octets: usize| {
        let lines = "GET / HTTP/1.1\r\nHost: localhost\r\nX: ";
        let rest = "\r\nConnection: close\r\n\r\n".len();
        world.ask(&format!("{lines}{}", "x".repeat(octets - lines.len() - rest)), "").status
    };
    assert_eq!((head(REQUEST_OCTETS_MAX - 1), head(REQUEST_OCTETS_MAX + 1)), (200, 431));
    let token = world.page.token();
    let body = |octets: usize| {
        let json = json!({"router": 9, "do": "face_destroy", "face": 1}).to_string();
        let text = format!("{json}{}", " ".repeat(octets - json.len()));
        world
            .ask(
                &format!("POST /api/act HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}"),
                &text,
            )
            .status
    };
    assert_eq!((body(BODY_OCTETS_MAX), body(BODY_OCTETS_MAX + 1)), (400, 413), "no such router; too long");
}

#[test]
fn excess_actions_are_refused_as_busy() {
    // A router that accepts connections and never answers.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent.sock");
    let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let options = Options { routers: vec![Some(format!("unix://{}", path.display()))], ..Options::default() };
    let page = Dashboard::start(options).unwrap();
    let explore = json!({"router": 0, "name": "/x"});
    let act = json!({"router": 0, "do": "face_destroy", "face": 300});
    for (path, body, at_once) in [("/api/explore", explore, EXPLORATIONS_MAX), ("/api/act", act, ACTIONS_MAX)]
    {
        let refused = || page.counters().refused_busy.load(Ordering::Relaxed);
        let before = refused();
        let (address, request) = (page.address(), request_with_token(&page, path, &body));
        let (sender, receiver) = std::sync::mpsc::channel();
        for _ in 0..=at_once {
            let (sender, request) = (sender.clone(), request.clone());
            thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                stream.write_all(request.as_bytes()).unwrap();
                sender.send(answer(stream).status)
            });
        }
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), 503, "{path}");
        assert_eq!(refused() - before, 1, "the others wait for the router");
    }
}

/// Two pages wait for a Prometheus server that is silent. A third one is refused.
#[test]
fn excess_histories_are_refused_as_busy() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let world = World::with(|options| options.prometheus = Some(url.parse().unwrap()));
    assert_eq!(world.get("/api/words").json()["history"], true);
    for query in ["", "?router=0", "?router=1&span=3600", "?router=0&span=60", "?router=0&span=3600&x"] {
        assert_eq!(world.get(&format!("/api/history{query}")).status, 400, "{query}");
    }
    let mut events = world.watch();
    events.until("the router", |_, data| data["sections"]["router"].is_object());
    let path = "/api/history?router=0&span=3600";
    silent.set_nonblocking(true).unwrap();
    let waiting = (0..HISTORIES_MAX).map(|_| {
        let mut page = world.connect();
        write!(page, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        (page, until("the server receives the query", || silent.accept().ok()))
    });
    let waiting: Vec<_> = waiting.collect();
    assert_eq!(world.get(path).status, 503);
    assert_eq!(world.page.counters().refused_busy.load(Ordering::Relaxed), 1);
    drop(waiting);
    assert_eq!(World::new().get(path).status, 404, "none was given");
}

fn request_with_token(page: &Dashboard, path: &str, body: &serde_json::Value) -> String {
    let (token, body) = (page.token(), body.to_string());
    let octets = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Length: {octets}\r\n\r\n{body}"
    )
}

#[test]
fn a_used_port_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = Options { listen: taken.local_addr().unwrap(), ..Options::default() };
    match Dashboard::start(options) {
        Err(error @ StartError::Listen(..)) => {
            assert!(error.to_string().contains("cannot listen on 127.0.0.1"))
        }
        other => panic!("{other:?}"),
    }
}

//! HTTP clients reach an origin through both gateways and a router: the origin, the gateways, the
//! router and the clients are real, over loopback.

use crate::common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use namely_proxy::egress::EgressOptions;

use namely_testkit::eventually;

use self::common::{Origin, World};

fn movie() -> Vec<u8> {
    (0..300_000_usize).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// An origin with a cacheable `/movie`; its other paths echo themselves.
fn origin() -> Origin {
    Origin::start(|path, round| {
        match path {
        "/movie" => (
            "HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nETag: \"m1\"\r\nCache-Control: max-age=3600\r\nX-Kept: yes\r\n".into(),
            movie(),
        ),
        "/untagged" => ("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\n".into(), b"no tag".to_vec()),
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
fn one_origin_response_serves_all_clients() {
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
    let origin_form = world.send("GET /by-host HTTP/1.1\r\nHost: VIDEO");
    assert_eq!((origin_form.0, origin_form.2), (200, b"/by-host".to_vec()));
    let sent = world.origin.received.lock().unwrap().join("\n").to_lowercase();
    assert!(
        sent.contains("user-agent: namely/")
            && sent.contains("accept-encoding: identity")
            && sent.contains("host: video\r\n"),
        "{sent}"
    );
}

#[test]
fn the_gateway_answers_ranges_and_conditions() {
    let world = world();
    let (status, head, body) = world.send("HEAD http://video/movie HTTP/1.1\r\nHost: video");
    assert_eq!((status, body.len(), head.contains("content-length: 300000")), (200, 0, true), "{head}");
    for (range, from, to) in
        [("0-0", 0, 1), ("100-199", 100, 200), ("299990-", 299_990, 300_000), ("-5", 299_995, 300_000)]
    {
        let (status, head, body) =
            world.send(&format!("GET http://video/movie HTTP/1.1\r\nHost: video\r\nRange: bytes={range}"));
        assert_eq!(status, 206, "{range}: {head}");
        assert_eq!(body, &movie()[from..to], "{range}");
        assert!(head.contains(&format!("content-range: bytes {from}-{}/300000", to - 1)), "{head}");
    }
    let (status, head, _) =
        world.send("GET http://video/movie HTTP/1.1\r\nHost: video\r\nRange: bytes=300000-");
    assert!(status == 416 && head.contains("content-range: bytes */300000"), "{head}");
    let (status, _, body) =
        world.send("GET http://video/movie HTTP/1.1\r\nHost: video\r\nIf-None-Match: \"m1\"");
    assert_eq!((status, body.len()), (304, 0));
    let (status, _, _) =
        world.send("GET http://video/movie HTTP/1.1\r\nHost: video\r\nRange: bytes=0-9\r\nIf-Range: \"m0\"");
    assert_eq!(status, 200);
    // Without a tag from the origin, the version is the tag.
    let (_, head, _) = world.get("/untagged");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
    let (status, _, _) =
        world.send(&format!("GET http://video/untagged HTTP/1.1\r\nHost: video\r\nIf-None-Match: {tag}"));
    assert_eq!(status, 304);
    assert_eq!(world.origin.requests(), 2);
}

#[test]
fn a_stale_resource_is_requested_again() {
    let world = world();
    assert_eq!(world.get("/live").2, b"0");
    world.origin.next();
    // Routers on the path may take the previous answer for fresh for a moment.
    eventually("the gateway answers with what is", || world.get("/live").2 == b"1");
}

#[test]
fn a_path_reaches_the_origin_unchanged() {
    let world = world();
    for path in [
        "/../../x",
        "/a/./b/../c",
        "//a///b",
        "/%2E%2E/x",
        "/a%2Fb%5C..%00",
        "/x;v=1/..?a=/../b",
        "/a+b",
        "/a%2Bb",
        "/a%2bb",
        "/x",
        "/x?",
        "/x/",
        "/%78",
    ] {
        let (status, _, body) = world.send(&format!("GET {path} HTTP/1.1\r\nHost: video"));
        assert_eq!((status, String::from_utf8(body).unwrap()), (200, path.to_owned()), "{path}");
    }
}

#[test]
fn origin_refusals_and_redirects_pass_through() {
    let world = world();
    let (status, _, body) = world.get("/missing");
    assert_eq!((status, body), (404, b"no such thing".to_vec()));
    let (status, head, _) = world.get("/moved");
    assert!(status == 301 && head.contains("location: /movie"), "{head}");
}

#[test]
fn private_responses_are_refused_with_a_reason() {
    let world = world();
    let (status, _, body) = world.get("/secret");
    let text = String::from_utf8(body).unwrap();
    assert!(status == 502 && text.contains("for one client only"), "{status} {text}");
    let (status, _, body) = world.get("/huge");
    let text = String::from_utf8(body).unwrap();
    assert!(status == 502 && text.contains("more than 2097152 octets"), "{status} {text}");
    let (status, head, _) = world.send("POST http://video/form HTTP/1.1\r\nHost: video\r\nContent-Length: 0");
    assert!(status == 405 && head.contains("allow: get, head"), "{head}");
    let (status, _, _) = world.send("GET http://user:password@video/ HTTP/1.1\r\nHost: video");
    assert_eq!(status, 400);
    let (status, _, _) = world.send("GET /%2 HTTP/1.1\r\nHost: video");
    assert_eq!(status, 400);
    let (status, _, body) = world.send("GET http://nobody/ HTTP/1.1\r\nHost: nobody");
    let text = String::from_utf8(body).unwrap();
    assert!(status == 502 && text.contains("no producer serves /http/nobody"), "{status} {text}");
    assert!(text.contains("below /http, each by its host"), "{text}");
    assert!(text.contains("`namely proxy ingress --site /http/HOST`"), "{text}");
    let (status, _, _) = world.send("GET / HTTP/1.1\r\nHost: video\r\nHost: nobody");
    assert_eq!(status, 400, "two hosts");
    let counters = world.egress.counters();
    // An answer that is not fresh is fetched again for a client that asks again before it arrives.
    assert!(counters.unusable.load(Ordering::Relaxed) >= 2);
    assert_eq!(world.ingress.counters().refused.load(Ordering::Relaxed), 4);
}

/// An origin that keeps connections, and closes each when its second request arrives. Counts these
/// requests.
fn closing_origin(closed: &Arc<AtomicUsize>) -> Origin {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, closed) = (listener.local_addr().unwrap(), closed.clone());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, closed) = (stream.unwrap(), closed.clone());
            thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines();
                let mut is_there = || lines.by_ref().map_while(Result::ok).any(|line| line.is_empty());
                if is_there() {
                    let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    closed.fetch_add(usize::from(is_there()), Ordering::Relaxed);
                }
            });
        }
    });
    Origin { address, received: Arc::default(), round: Arc::default() }
}

#[test]
fn a_request_on_a_closed_connection_is_repeated() {
    let closed = Arc::new(AtomicUsize::new(0));
    let world = World::new(closing_origin(&closed), EgressOptions::default());
    let mut number = 0;
    eventually("a kept connection is closed as a request arrives", || {
        number += 1;
        let (status, _, body) = world.get(&format!("/{number}"));
        assert_eq!((status, &body[..]), (200, &b"ok"[..]), "{number}");
        closed.load(Ordering::Relaxed) > 2
    });
}

#[test]
fn an_error_of_the_origin_is_not_cached() {
    let origin = Origin::start(|_, round| match round {
        0 => ("HTTP/1.1 501 Not Implemented\r\n".into(), b"later".to_vec()),
        _ => ("HTTP/1.1 200 OK\r\n".into(), b"now".to_vec()),
    });
    let options = EgressOptions { unless_said: Duration::from_secs(3600), ..EgressOptions::default() };
    let world = World::new(origin, options);
    assert_eq!(world.get("/x").0, 501);
    world.origin.next();
    // Routers take the metadata of an error for fresh for a millisecond.
    eventually("the origin's next response comes", || world.get("/x").2 == b"now");
}

#[test]
fn an_unreachable_origin_is_named() {
    let origin = origin();
    // A port without a listener.
    let address = namely_testkit::free_address();
    let world = World::new(Origin { address, ..origin }, EgressOptions::default());
    let (status, _, body) = world.get("/movie");
    let text = String::from_utf8(body).unwrap();
    assert!(status == 502 && text.contains("the origin cannot be reached"), "{status} {text}");
}

#[test]
fn a_silent_client_never_blocks_the_gateway() {
    let world = world();
    let mut silent = TcpStream::connect(world.ingress.address()).unwrap();
    silent.write_all(b"GET http://vid").unwrap();
    let mut large = TcpStream::connect(world.ingress.address()).unwrap();
    large.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = large.write_all(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000)).as_bytes());
    let mut answer = String::new();
    let _ = large.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(world.get("/movie").0, 200);
}

//! Tests that a few clients which exhaust a gateway's resources do not exclude the other clients.
//! The tests use default limits and real connections.

use crate::common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use namely_proxy::egress::{EgressOptions, REQUESTS_MAX};
use namely_proxy::ingress::{CLIENTS_MAX, NEWCOMERS_MAX};
use namely_socket::{Consumer, FETCHES_MAX};
use namely_testkit::{eventually, wait_until_true};

use self::common::{Origin, World, name};

const LARGE_OCTETS: usize = 4 << 20;

fn origin() -> Origin {
    Origin::start(|path, _| {
        let body = if path.starts_with("/large") { vec![7; LARGE_OCTETS] } else { path.as_bytes().to_vec() };
        ("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\n".into(), body)
    })
}

/// Runs one attack at a time, because the load of another test would delay the honest client, too.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a connection that has sent `request`. It closes when it is dropped.
fn connection(to: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The write fails if the gateway has closed the connection already. No test depends on that.
    let _ = stream.write_all(request.as_bytes());
    stream
}

/// Reads to the end of the stream. Returns true if the other end closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut octets = [0; 65_536];
    loop {
        match namely_testkit::uninterrupted(|| stream.read(&mut octets)) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

const HEALTH: &str = "OPTIONS * HTTP/1.1\r\nHost: gateway";

#[test]
fn slow_clients_yield_to_an_honest_one() {
    let _alone = alone();
    let world = World::new(origin(), EgressOptions::default());
    assert_eq!(world.get("/large").0, 200);
    let to = world.ingress.address();
    let slow: Vec<_> = (0..FETCHES_MAX)
        .map(|_| connection(to, "GET http://video/large HTTP/1.1\r\nHost: video\r\n\r\n"))
        .collect();
    let half: Vec<_> = (0..CLIENTS_MAX).map(|_| connection(to, "GET http://vid")).collect();
    for n in 0..5 {
        let (status, _, body) = world.get(&format!("/honest/{n}"));
        assert_eq!((status, body), (200, format!("/honest/{n}").into_bytes()));
        assert_eq!(world.send(HEALTH).0, 200);
    }
    let shed = world.ingress.counters().shed.load(Ordering::Relaxed);
    assert!(shed > 0, "nobody made room");
    drop((slow, half));
}

#[test]
fn a_busy_gateway_still_answers_health_checks() {
    let _alone = alone();
    let (arrived, gate) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, opened) = (arrived.clone(), gate.clone());
    let origin = Origin::start(move |path, _| {
        if path.starts_with("/slow") {
            counted.fetch_add(1, Ordering::SeqCst);
            while !wait_until_true(|| opened.load(Ordering::SeqCst)) {}
        }
        ("HTTP/1.1 200 OK\r\n".into(), path.as_bytes().to_vec())
    });
    let timeout = 2 * namely_testkit::PATIENCE;
    let world = Arc::new(World::new(origin, EgressOptions { timeout, ..EgressOptions::default() }));
    // A busy machine takes longer than the default to start all clients.
    world.consumer.set_option("lifetime_ms", "20000").unwrap();
    let send = |n: usize| {
        let world = world.clone();
        thread::spawn(move || {
            let (status, _, body) = world.get(&format!("/slow/{}", n % REQUESTS_MAX));
            (status, String::from_utf8_lossy(&body).into_owned())
        })
    };
    // The first requests take all slots at the origin. The others wait for a stream.
    let mut clients: Vec<_> = (0..REQUESTS_MAX).map(send).collect();
    let full = wait_until_true(|| arrived.load(Ordering::SeqCst) == REQUESTS_MAX as u64);
    clients.extend((REQUESTS_MAX..CLIENTS_MAX).map(send));
    let all = format!("clients {}\n", CLIENTS_MAX + 1);
    let full = full && wait_until_true(|| String::from_utf8_lossy(&world.send(HEALTH).2).contains(&all));
    let health = world.send(HEALTH);
    let refused = || world.egress.counters().refused.load(Ordering::Relaxed);
    let before = refused();
    // All slots at the origin are taken, so a request for one more name is refused. All streams of
    // the ingress are taken, too, so another socket sends it.
    let consumer = Consumer::bind(name("/http"), world.sockets.clone()).unwrap();
    let more = thread::spawn(move || drop(consumer.fetch(&name("/http/video/one/more"))));
    let counted = wait_until_true(|| refused() > before);
    gate.store(true, Ordering::SeqCst);
    assert!(full, "{} requests reached the origin", arrived.load(Ordering::SeqCst));
    assert!(counted, "a request beyond the limit was not refused");
    let text = String::from_utf8(health.2).unwrap();
    assert!(health.0 == 200 && text.contains("shed 0\n"), "{text}");
    more.join().unwrap();
    let answers: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let failed: Vec<_> = answers.iter().filter(|(status, _)| *status != 200).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// A consumer that has found its object needs a fetch slot of the socket to read it. Another fetch
/// may have taken the slot meanwhile.
#[test]
fn a_client_without_a_fetch_slot_waits() {
    const ROUNDS: u64 = 20;
    let _alone = alone();
    // The origin answers the client's requests one after the other, and all other requests at the
    // end.
    let (arrived, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, allowed) = (arrived.clone(), answered.clone());
    let origin = Origin::start(move |path, _| {
        let round = match path.strip_prefix("/round/") {
            Some(_) => counted.fetch_add(1, Ordering::SeqCst),
            None => ROUNDS,
        };
        while !wait_until_true(|| allowed.load(Ordering::SeqCst) > round) {}
        ("HTTP/1.1 200 OK\r\n".into(), path.as_bytes().to_vec())
    });
    let world = Arc::new(World::new(origin, EgressOptions::default()));
    let fetch = |n: usize| world.consumer.fetch_async(&name(&format!("/http/video/other/{n}")));
    let others: Vec<_> = (1..FETCHES_MAX).map(|n| fetch(n).unwrap()).collect();
    let answers: Vec<_> = (0..ROUNDS)
        .map(|round| {
            let shared = world.clone();
            let client = thread::spawn(move || shared.get(&format!("/round/{round}")));
            // The client holds the last slot while it finds its object. Then another fetch takes
            // the slot.
            eventually(format_args!("round {round} is asked"), || arrived.load(Ordering::SeqCst) > round);
            answered.fetch_add(1, Ordering::SeqCst);
            let mut other = None;
            while !client.is_finished() && other.is_none() {
                other = fetch(1).ok();
            }
            // During this time the gateway tries several times to take a slot.
            thread::sleep(Duration::from_millis(20));
            drop(other);
            client.join().unwrap()
        })
        .collect();
    answered.fetch_add(1, Ordering::SeqCst);
    drop(others);
    for (round, (status, _, body)) in answers.into_iter().enumerate() {
        assert_eq!((status, String::from_utf8(body).unwrap()), (200, format!("/round/{round}")));
    }
}

#[test]
fn a_full_ingress_drops_the_longest_waiting_client() {
    let _alone = alone();
    let world = World::new(origin(), EgressOptions::default());
    let mut idle: Vec<_> =
        (0..CLIENTS_MAX + NEWCOMERS_MAX).map(|_| connection(world.ingress.address(), "")).collect();
    assert_eq!(world.get("/one-more").0, 200);
    assert!(world.ingress.counters().shed.load(Ordering::Relaxed) > 0);
    assert!(is_closed(&mut idle[0]), "who waited longest stayed");
}

#[test]
fn a_stalled_client_never_keeps_its_slot() {
    let _alone = alone();
    let world = World::new(origin(), EgressOptions::default());
    assert_eq!(world.get("/large").0, 200);
    let to = world.ingress.address();
    let _slow = connection(to, "GET http://video/large HTTP/1.1\r\nHost: video\r\n\r\n");
    let mut half = connection(to, "GET http://vid");
    let counters = world.ingress.counters();
    eventually("both are cut", || counters.slow.load(Ordering::Relaxed) == 2);
    assert!(is_closed(&mut half));
    assert_eq!(counters.shed.load(Ordering::Relaxed), 0);
}

/// An origin that sends ten octets of a large body and the rest only when the gate opens.
fn gated(gate: Arc<AtomicBool>, body_octets: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, gate) = (stream.unwrap(), gate.clone());
            thread::spawn(move || {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).unwrap_or(0);
                let is_large = request[..read].starts_with(b"GET /large");
                let body = vec![1; if is_large { body_octets } else { 10 }];
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let (first, rest) = body.split_at(10);
                let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(first));
                while is_large && sent.is_ok() && !wait_until_true(|| gate.load(Ordering::SeqCst)) {}
                let _ = stream.write_all(rest);
            });
        }
    });
    address
}

#[test]
fn large_bodies_stay_within_the_budget() {
    let _alone = alone();
    const BUDGET_OCTETS: u64 = 16 << 20;
    let gate = Arc::new(AtomicBool::new(false));
    let origin = Origin { address: gated(gate.clone(), LARGE_OCTETS), ..origin() };
    let options = EgressOptions { bodies_octets_max: BUDGET_OCTETS, ..EgressOptions::default() };
    let world = Arc::new(World::new(origin, options));
    let clients: Vec<_> = (0..30)
        .map(|n| {
            let world = world.clone();
            thread::spawn(move || {
                let (status, _, body) = world.get(&format!("/large/{n}"));
                (status, String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned())
            })
        })
        .collect();
    // Large bodies may use three quarters of the budget. Two bodies fit; three bodies with their
    // heads do not.
    let counters = world.egress.counters();
    let refused = wait_until_true(|| counters.bodies_full.load(Ordering::Relaxed) >= 28);
    let small: Vec<_> = (0..5).map(|n| world.get(&format!("/small/{n}")).0).collect();
    let (used, peak) = world.egress.bodies_octets();
    gate.store(true, Ordering::SeqCst);
    assert!(refused, "{} bodies were refused", counters.bodies_full.load(Ordering::Relaxed));
    assert_eq!(small, [200; 5]);
    assert!(used >= 2 * LARGE_OCTETS as u64 && peak <= BUDGET_OCTETS, "{used} octets, at most {peak}");
    // A later request is served once the earlier ones have ended. A request that waited until its
    // timeout is answered with an error.
    eventually("somebody is served", || world.get("/large/0").0 == 200);
    let served: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert!(served.iter().all(|(status, _)| [200, 502, 503, 504].contains(status)), "{served:?}");
    eventually("the budget is given back", || world.egress.bodies_octets().0 == 0);
    assert!(world.egress.bodies_octets().1 <= BUDGET_OCTETS);
}

#[test]
fn an_oversized_body_is_refused() {
    let _alone = alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    const MOST: usize = 100_000;
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let body = vec![3; MOST + usize::from(request.contains("more"))];
            let length = if request.contains("said") {
                format!("Content-Length: {}\r\n", body.len())
            } else {
                String::new()
            };
            let head = format!("HTTP/1.1 200 OK\r\n{length}Connection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    let options = EgressOptions { body_octets_max: MOST as u64, ..EgressOptions::default() };
    let world = World::new(Origin { address, ..origin() }, options);
    for (path, expected) in [("/said", 200), ("/unsaid", 200), ("/said/more", 502), ("/more", 502)] {
        let (status, _, body) = world.get(path);
        assert_eq!(status, expected, "{path}: {}", String::from_utf8_lossy(&body[..body.len().min(100)]));
        assert!(expected != 200 || body == vec![3; MOST], "{path}");
    }
}

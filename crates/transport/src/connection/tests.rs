//! Interests that waited too long, and a router that accepts connections but never answers.

use std::io::Write;
use std::os::unix::net::UnixListener;

use namely_wire::{InterestBuilder, Name};

use super::*;

fn interest(n: u64, lifetime_ms: u64) -> Vec<u8> {
    let name = "/p".parse::<Name>().unwrap().join_segment(n);
    InterestBuilder::new(name).nonce([1; 4]).lifetime_ms(lifetime_ms).build()
}

#[test]
fn interests_past_their_lifetime_are_dropped() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut connection = Connection::from_stream(near).unwrap();
    (0..100).for_each(|n| far.write_all(&interest(n, 50)).unwrap());
    far.write_all(&interest(100, 60_000)).unwrap();
    let mut answered = Vec::new();
    let mut handler = |incoming: Incoming<'_>, _: &mut Outbox| {
        let Packet::Interest(interest) = incoming.packet else { return };
        answered.push(interest.name.to_name());
        // Each answer takes longer than the lifetime of the other Interests, also if this thread
        // stalled before it.
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
    };
    while connection.counters().packets_in < 101 {
        let deadline_ns = connection.now_ns() + 1_000_000_000;
        connection.turn(deadline_ns, &mut handler).unwrap();
    }
    assert!((1..=2).contains(&answered.len()), "{answered:?}");
    assert_eq!(answered.last(), Some(&"/p".parse::<Name>().unwrap().join_segment(100)));
    assert_eq!(connection.counters().interests_late, 101 - answered.len() as u64);
}

/// The router is a stopped process, or a listening socket that a child process still holds:
/// connections succeed, but there is never an answer.
#[test]
fn an_unresponsive_router_is_finally_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("router.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let options = Options { reconnect: Duration::from_millis(500), ..Options::default() };
    let uri = FaceUri::Unix(path.to_string_lossy().into_owned());
    let mut connection = Connection::to(uri, options).unwrap();
    connection.registrations.add(&"/p".parse().unwrap(), false);
    drop(listener.accept().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    let lost = loop {
        let deadline_ns = connection.now_ns() + 100_000_000;
        if let Err(error) = connection.turn(deadline_ns, &mut |_, _| {}) {
            break error;
        }
        assert!(Instant::now() < deadline, "it is looked for for ever");
    };
    assert!(matches!(lost, ConnectionError::Lost { .. }), "{lost}");
    assert!(connection.counters().reconnects > 0);
}

//! Interests that waited too long, and a router that takes connections and says nothing.

use std::io::Write;
use std::os::unix::net::UnixListener;

use namely_wire::{InterestBuilder, Name};

use super::*;

fn interest(n: u64, lifetime_ms: u64) -> Vec<u8> {
    let name = "/p".parse::<Name>().unwrap().join_segment(n);
    InterestBuilder::new(name).nonce([1; 4]).lifetime_ms(lifetime_ms).build()
}

#[test]
fn interests_that_waited_for_longer_than_their_lifetime_are_not_answered_and_counted() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut connection = Connection::from_stream(near).unwrap();
    (0..100).for_each(|n| far.write_all(&interest(n, 50)).unwrap());
    far.write_all(&interest(100, 60_000)).unwrap();
    let started = Instant::now();
    let mut answered = Vec::new();
    let mut handler = |incoming: Incoming<'_>, _: &mut Outbox| {
        let Packet::Interest(interest) = incoming.packet else { return };
        answered.push(interest.name.to_name());
        // The first answer takes as long as the others are waited for.
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

/// A process that was stopped, or a listening socket that a child still holds: a connection is
/// there, and never an answer.
#[test]
fn a_router_that_was_reached_again_and_never_answers_is_lost_in_the_end() {
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

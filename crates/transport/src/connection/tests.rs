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

#[test]
fn a_router_that_answered_is_not_silent() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut connection = Connection::from_stream(near).unwrap();
    far.write_all(&interest(0, 60_000)).unwrap();
    // The process paused for longer than the router may take.
    connection.retry.answer_due_ns = Some(0);
    assert_eq!(connection.turn(0, &mut |_, _| {}).unwrap(), 1);
    assert_eq!(connection.retry.answer_due_ns, None);
    connection.retry.answer_due_ns = Some(0);
    assert!(connection.turn(0, &mut |_, _| {}).is_err(), "nothing was there");
}

#[test]
fn a_waiting_answer_precedes_the_deadline() {
    const LIFETIME: Duration = Duration::from_millis(50);
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut connection = Connection::from_stream(near).unwrap();
    let name: Name = "/asked".parse().unwrap();
    let wire = InterestBuilder::new(name.clone()).nonce([1; 4]).lifetime_ms(LIFETIME.as_millis() as u64);
    let builder = namely_wire::DataBuilder::new(name.as_name());
    let data = namely_security::sign_data(&builder, b"", &Signer::digest_sha256()).unwrap();
    // The answer arrives while another packet is processed, and the lifetime ends meanwhile.
    far.write_all(&interest(0, 60_000)).unwrap();
    let mut answering = far.try_clone().unwrap();
    let mut handler = |_: Incoming<'_>, _: &mut Outbox| {
        answering.write_all(&data).unwrap();
        let started = Instant::now();
        while started.elapsed() < 2 * LIFETIME {
            std::hint::spin_loop();
        }
    };
    let answer = connection.express_wire(&wire.build(), &mut handler).unwrap();
    assert!(matches!(answer, Answer::Data(_)), "{answer:?}");
}

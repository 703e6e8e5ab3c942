//! Tests of reverse pull (HT-08): a server fetches a client's content itself.

use crate::common;

use std::sync::Barrier;
use std::time::Duration;

use common::{World, content, name};
use namely_security::KeyType;
use namely_socket::{CallError, Producer, ProducerOptions, PushError, PushOptions};

/// 100 MB in optimized code. Unoptimized code uses a quarter, so that tests stay short.
const UPLOAD_OCTETS: usize = if cfg!(debug_assertions) { 25_000_000 } else { 100_000_000 };

fn options(world: &World) -> PushOptions {
    let trust = world.consumer_options().trust;
    PushOptions { trust, timeout: Duration::from_secs(120), ..PushOptions::default() }
}

/// A router, a client below `/p/client` and a server at `/s`, each with its own identity.
fn ends(world: &World) -> (Producer, Producer) {
    world.add_key("/s", KeyType::Ed25519);
    let memory = ProducerOptions { buffer_octets: 256 << 20, ..world.producer_options() };
    // A push that the client sends once waits for a server whose thread stalls.
    let patient = ProducerOptions { pending_ms: Some(60_000), ..world.producer_options() };
    (Producer::bind(name("/p/client"), memory).unwrap(), Producer::bind(name("/s"), patient).unwrap())
}

#[test]
fn an_upload_is_pulled_and_receipted() {
    let world = World::new();
    let (client, server) = ends(&world);
    let upload = content(UPLOAD_OCTETS);
    std::thread::scope(|scope| {
        let pulled = scope.spawn(|| {
            let pushed = server.accept_push().unwrap();
            assert!(name("/p/client/upload").is_prefix_of(pushed.name().as_name()));
            assert_eq!(pushed.octets(), Some(UPLOAD_OCTETS as u64));
            pushed.pull(&world.consumer("/p/client"), &server).unwrap()
        });
        let receipt = client.push(&name("/s"), &name("/p/client/upload"), &upload, &options(&world)).unwrap();
        assert_eq!(receipt.octets, UPLOAD_OCTETS as u64);
        assert!(name("/s/KEY").is_prefix_of(receipt.signer.unwrap().as_name()));
        assert!(pulled.join().unwrap() == upload);
    });
    // Several seconds of retransmissions: the application saw the push once.
    assert_eq!(server.stats().pending, 0);
    assert!(matches!(server.try_recv(), Err(CallError::WouldBlock)));
}

#[test]
fn a_refused_push_is_an_error() {
    let world = World::new();
    let (client, server) = ends(&world);
    let push = |server: &str, timeout| {
        let options = PushOptions { timeout, ..options(&world) };
        client.push(&name(server), &name("/p/client/x"), b"x", &options).unwrap_err()
    };
    std::thread::scope(|scope| {
        let refusing = scope.spawn(|| server.accept_push().unwrap().refuse());
        let refused = push("/s", Duration::from_secs(60));
        assert!(matches!(refused, PushError::Refused(_)), "{refused}");
        assert_eq!(refused.errno(), 101);
        refusing.join().unwrap();
    });
    let nobody = push("/nobody", Duration::from_secs(60));
    assert_eq!(nobody.errno(), 101, "{nobody}");
    // A server that never accepts.
    let late = push("/s", Duration::ZERO);
    assert_eq!(late.errno(), 110, "{late}");
}

#[test]
fn pushes_outside_the_consumers_prefix_are_refused() {
    let world = World::new();
    let (client, server) = ends(&world);
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        let pulling = scope.spawn(|| {
            assert!(matches!(server.try_accept_push(), Err(CallError::WouldBlock)));
            let soon = Duration::from_millis(1);
            assert!(matches!(server.accept_push_timeout(soon), Err(CallError::TimedOut)));
            begun.wait();
            let pushed = server.accept_push_timeout(Duration::from_secs(60)).unwrap();
            pushed.pull(&world.consumer("/p/others"), &server).unwrap_err()
        });
        let options = PushOptions { timeout: Duration::ZERO, ..options(&world) };
        begun.wait();
        let error = client.push(&name("/s"), &name("/p/client/x"), b"x", &options).unwrap_err();
        assert_eq!(error.errno(), 110);
        assert_eq!(pulling.join().unwrap().errno(), 99);
    });
}

#[test]
fn an_untrusted_receipt_is_refused() {
    let world = World::new();
    let (client, server) = ends(&world);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Another peer answers in the server's place, with a digest, which needs no key.
            server.set_option("suite", "digest-sha256").unwrap();
            let pushed = server.accept_push().unwrap();
            pushed.pull(&world.consumer("/p/client"), &server).unwrap();
        });
        let error = client.push(&name("/s"), &name("/p/client/x"), b"x", &options(&world)).unwrap_err();
        assert!(matches!(error, PushError::Receipt(_)), "{error}");
        assert_eq!(error.errno(), 129);
    });
}

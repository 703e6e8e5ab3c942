//! Packets of one link that are forwarded by other workers than the one that reads the link.

use crate::support;

use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::net::UnixStream;

use namely_dataplane::{DataPlaneOptions, DispatchBy, DispatchedLinks, DispatcherOptions, ListenSpec};
use namely_forwarder::Config;
use namely_messages::FaceEventKind;
use namely_testkit::eventually;
use namely_wire::{FaceUri, InterestBuilder, InterestView, LpView};
use support::{App, LIFETIME_MS, PATIENCE, Router, data, name};

/// Three workers, and a dispatcher for the router's socket.
fn start(by: DispatchBy, own_worker: bool, queue_packets: usize) -> Router {
    let directory = tempfile::tempdir().unwrap();
    let socket = FaceUri::Unix(directory.path().join("r.sock").display().to_string());
    let links = DispatchedLinks { links: vec![socket], own_worker };
    let options = DataPlaneOptions {
        workers: NonZeroUsize::new(3),
        dispatcher: DispatcherOptions { links, by, queue_packets },
        ..DataPlaneOptions::default()
    };
    Router::start_in(directory, options, Config::new(|_| [0; 32]))
}

fn interest(uri: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce(nonce.to_be_bytes()).lifetime_ms(LIFETIME_MS).build()
}

/// One application requests `count` names, and another one answers.
fn exchange(router: &Router, count: u32) {
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    let producing = std::thread::spawn(move || {
        for _ in 0..count {
            let packet = producer.receive();
            let interest = InterestView::parse(LpView::parse(&packet).unwrap().fragment.unwrap()).unwrap();
            producer.send(&data(&interest.name.to_string(), 500));
        }
        producer
    });
    // Never more at once than a queue has room for.
    for first in (0..count).step_by(50) {
        let names: Vec<String> = (first..first + 50).map(|n| format!("/a/{n}")).collect();
        let interests: Vec<u8> = names.iter().flat_map(|name| interest(name, first)).collect();
        consumer.send(&interests);
        let mut answers: Vec<Vec<u8>> = names.iter().map(|_| consumer.receive_parts().1).collect();
        let mut expected: Vec<Vec<u8>> = names.iter().map(|name| data(name, 500)).collect();
        answers.sort();
        expected.sort();
        assert_eq!(answers, expected);
    }
    drop(producing.join().unwrap());
    assert_eq!(router.core.table_sizes().pit, 0);
}

#[test]
fn a_connection_is_spread_over_workers() {
    for by in [DispatchBy::Name, DispatchBy::Random] {
        let router = start(by, false, 1024);
        exchange(&router, 1000);
        let dispatched = router.plane.dispatched();
        // 2000 packets. Each worker kept a third of the packets that it read.
        assert!(dispatched.iter().sum::<u64>() > 1000, "{dispatched:?}");
        assert!(dispatched.iter().filter(|count| **count > 200).count() >= 2, "{dispatched:?}");
    }
}

#[test]
fn a_dedicated_dispatcher_forwards_nothing() {
    let router = start(DispatchBy::Name, true, 1024);
    exchange(&router, 500);
    let dispatched = router.plane.dispatched();
    assert_eq!((dispatched[0], dispatched.iter().sum::<u64>()), (0, 1000), "{dispatched:?}");
    assert!(dispatched[1..].iter().all(|count| *count > 300), "{dispatched:?}");
}

#[test]
fn other_links_are_not_dispatched() {
    let router = start(DispatchBy::Random, true, 1024);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.sock");
    router.plane.listen(ListenSpec::Unix { path: path.clone(), mode: 0o600 }).unwrap();
    let mut app = App::new(UnixStream::connect(&path).unwrap());
    router.event(FaceEventKind::Created);
    for n in 0..20 {
        app.send(&interest("/nowhere", n));
        app.receive();
    }
    assert_eq!(router.plane.dispatched(), [0, 0, 0]);
}

#[test]
fn packets_dropped_between_workers_are_counted() {
    let router = start(DispatchBy::Name, true, 1);
    let (mut consumer, face) = router.connect();
    const COUNT: u32 = 2000;
    let interests: Vec<u8> = (0..COUNT).flat_map(|n| interest(&format!("/nowhere/{n}"), n)).collect();
    let mut writing = consumer.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || writing.write_all(&interests).unwrap());
    let counters = || router.status(face);
    let dropped = || router.dropped(face, "dispatcher_full");
    consumer.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut refused = 0;
    // Each forwarded Interest receives a Nack: there is no route. A worker counts its Nacks at the
    // end of a batch.
    eventually("each was refused or dropped", || {
        while refused < counters().out_nacks {
            consumer.receive();
            refused += 1;
        }
        refused + dropped() == u64::from(COUNT)
    });
    writer.join().unwrap();
    assert!(dropped() > 0 && refused > 0, "{} dropped, {refused} refused", dropped());
    assert_eq!(refused + dropped(), u64::from(COUNT));
}

//! Several workers: faces are spread over them, and packets cross between them, while faces are
//! created and destroyed.

use crate::support;

use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namely_dataplane::{ControlEvent, DataPlaneOptions, ListenSpec};
use namely_forwarder::FaceId;
use namely_messages::{FaceEventKind, FacePersistency, FaceStatus};
use namely_mgmt::{CreateFaceError, FaceSettings, FaceSpec, Faces};
use namely_testkit::eventually;
use namely_wire::InterestBuilder;
use support::{App, PATIENCE, Router, data, interest, produce, spec, uri, with_token};

fn options(workers: usize) -> DataPlaneOptions {
    DataPlaneOptions { workers: NonZeroUsize::new(workers), ..DataPlaneOptions::default() }
}

#[test]
fn packets_cross_workers_to_their_consumers() {
    let router = Router::start_with(options(3));
    let (producer, face) = router.connect();
    router.route("/a", face);
    let producing = std::thread::spawn(move || produce(producer));
    let consumers: Vec<App> = (0..5).map(|_| router.connect().0).collect();
    let threads: Vec<_> = consumers
        .into_iter()
        .enumerate()
        .map(|(index, mut consumer)| {
            std::thread::spawn(move || {
                for n in 0..300 {
                    let name = format!("/a/{index}/{n}");
                    consumer.send(&with_token(&interest(&name), &[index as u8, n as u8]));
                    let (headers, answer) = consumer.receive_parts();
                    assert_eq!(answer, data(&name, 1000));
                    assert_eq!(headers.pit_token.unwrap().as_bytes(), [index as u8, n as u8]);
                }
                consumer
            })
        })
        .collect();
    let consumers: Vec<App> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(router.core.table_sizes().pit, 0);
    drop((consumers, router));
    producing.join().unwrap();
}

#[test]
fn faces_change_while_several_workers_forward() {
    let router = Router::start_with(options(4));
    let (producer, face) = router.connect();
    router.route("/a", face);
    let producing = std::thread::spawn(move || produce(producer));
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    // Consumers that connect, fetch for a while, and leave with Interests pending.
    let threads: Vec<_> = (0..4)
        .map(|index| {
            let (path, stop, answered) = (router.path(), stop.clone(), answered.clone());
            std::thread::spawn(move || {
                let mut n = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let mut consumer = App::new(UnixStream::connect(&path).unwrap());
                    for _ in 0..20 {
                        let name = support::name(&format!("/a/{index}/{n}"));
                        let packet = InterestBuilder::new(name).nonce(n.to_be_bytes());
                        let packet = packet.lifetime_ms(support::LIFETIME_MS).build();
                        n += 1;
                        // The face may be destroyed at any time.
                        if consumer.stream.write_all(&packet).is_err() || consumer.try_receive().is_none() {
                            break;
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    let last = InterestBuilder::new(support::name(&format!("/a/{index}/{n}"))).build();
                    let _ = consumer.stream.write_all(&last);
                    n += 1;
                }
            })
        })
        .collect();
    // UDP faces that management creates and destroys, on any worker.
    let peers: Vec<_> = (0..8).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let (mut created, mut destroyed, mut own) = (0, 0, Vec::new());
    let begun = Instant::now();
    // For two seconds, and longer if other work on the machine takes the processors.
    let is_over = || {
        let is_enough = begun.elapsed() >= Duration::from_secs(2) && answered.load(Ordering::Relaxed) > 100;
        is_enough || begun.elapsed() >= PATIENCE
    };
    let mut rounds = 0;
    while !is_over() {
        let remote = format!("udp4://{}", peers[rounds % peers.len()].local_addr().unwrap());
        let settings = FaceSettings { reliability: Some(true), ..FaceSettings::default() };
        let spec = FaceSpec { remote: uri(&remote), local: None, settings };
        own.push(FaceId(router.plane.create_face(spec).unwrap().face_id));
        router.route("/a", own[own.len() - 1]);
        if own.len() == peers.len() {
            own.drain(..).for_each(|face| router.plane.destroy_face(face).unwrap());
        }
        // One of the present applications loses its face.
        let is_application = |status: &&FaceStatus| status.local_uri.starts_with("unix://");
        if let Some(victim) =
            router.plane.faces().iter().rfind(|status| is_application(status) && status.face_id != face.0)
        {
            let _ = router.plane.destroy_face(FaceId(victim.face_id));
        }
        while let Some(ControlEvent::Face(event)) = router.inbox.try_next() {
            match event.kind {
                FaceEventKind::Created => created += 1,
                FaceEventKind::Destroyed => destroyed += 1,
                other => panic!("{other:?}"),
            }
        }
        rounds += 1;
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    own.drain(..).for_each(|face| router.plane.destroy_face(face).unwrap());
    while created == 0 || created != destroyed {
        match router.next(PATIENCE) {
            Ok(ControlEvent::Face(event)) if event.kind == FaceEventKind::Created => created += 1,
            Ok(ControlEvent::Face(event)) if event.kind == FaceEventKind::Destroyed => destroyed += 1,
            other => panic!("{created} made, {destroyed} gone: {other:?}"),
        }
    }
    assert!(answered.load(Ordering::Relaxed) > 100, "packets flowed");
    // The face `local`, the router's own and the producer's.
    eventually("only these are left", || router.plane.faces().len() == 3);
    drop(router);
    producing.join().unwrap();
}

#[test]
fn concurrent_creates_make_one_face() {
    let router = Router::start_with(options(4));
    for _ in 0..20 {
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let spec = spec(&format!("udp4://{}", peer.local_addr().unwrap()), FacePersistency::Persistent);
        let plane = &router.plane;
        let made = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| plane.create_face(spec.clone()).is_ok())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|made| *made).count()
        });
        assert_eq!(made, 1);
    }
}

/// IS-33: an Interest with CanBePrefix at one worker is answered by Data with a longer name at
/// another one, from the PIT and from the content store.
#[test]
fn can_be_prefix_is_answered_across_workers() {
    let router = Router::start_with(options(2));
    // A new face goes to the worker that reads the fewest faces, so consecutive faces alternate
    // between the two workers. Two of these four consumers share the producer's worker, and two do
    // not.
    let (mut producer, face) = router.connect();
    router.route("/a", face);
    let mut consumers: Vec<App> = (0..4).map(|_| router.connect().0).collect();
    let packet = |uri: &str, n: u8| {
        let interest = InterestBuilder::new(support::name(uri)).can_be_prefix().nonce([n; 4]);
        interest.lifetime_ms(support::LIFETIME_MS).build()
    };
    for n in 0..50 {
        let (short, long) = (format!("/a/{n}"), format!("/a/{n}/version/segment"));
        for (index, consumer) in consumers.iter_mut().enumerate().take(2) {
            consumer.send(&packet(&short, index as u8));
        }
        // The Interests of both consumers meet in one PIT entry, on either worker. If the second
        // comes more than 10 ms after the first, the router forwards the Interest again. So on a
        // busy machine an Interest of the last round may still be unread.
        let forwarded = std::iter::repeat_with(|| producer.receive()).find(|forwarded| {
            let view = namely_wire::LpView::parse(forwarded).unwrap();
            let interest = namely_wire::InterestView::parse(view.fragment.unwrap()).unwrap();
            assert!(interest.can_be_prefix);
            interest.name.to_string() == short
        });
        assert!(forwarded.is_some());
        eventually("both have asked", || router.core.counters().packets.in_interests >= 4 * n + 2);
        producer.send(&data(&long, 100));
        for consumer in consumers.iter_mut().take(2) {
            assert_eq!(consumer.receive_parts().1, data(&long, 100));
        }
        for (index, consumer) in consumers.iter_mut().enumerate().skip(2) {
            consumer.send(&packet(&short, index as u8));
            assert_eq!(consumer.receive_parts().1, data(&long, 100), "from the content store");
        }
    }
    assert_eq!(router.core.table_sizes().pit, 0);
}

#[test]
fn traffic_during_face_creation_makes_one_face() {
    let router = Router::start_with(options(4));
    let local = router.plane.listen(ListenSpec::Udp(([127, 0, 0, 1], 0).into())).unwrap();
    let address = local.address().unwrap();
    let peers: Vec<_> = (0..400).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for (round, peer) in (0..).zip(&peers) {
        let remote = format!("udp4://{}", peer.local_addr().unwrap());
        peer.send_to(&interest("/nobody"), address).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(round % 50 * 4) {
            std::hint::spin_loop();
        }
        match router.plane.create_face(spec(&remote, FacePersistency::Persistent)) {
            Ok(_) | Err(CreateFaceError::Exists(_)) => (),
            Err(error) => panic!("{error}"),
        }
    }
    // Each peer has a face, and no face waits for its worker any more.
    let of_peers = || router.plane.faces().into_iter().filter(|face| face.uri.starts_with("udp4://"));
    eventually("each has a face", || of_peers().count() >= peers.len());
    let mut remotes: Vec<String> = of_peers().map(|face| face.uri).collect();
    remotes.sort_unstable();
    let count = remotes.len();
    remotes.dedup();
    assert_eq!((remotes.len(), count), (peers.len(), peers.len()));
}

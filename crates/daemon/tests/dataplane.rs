//! The data plane end to end: sockets, link services and the forwarder.

mod support;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use namely_daemon::dataplane::{
    CONTROL_EVENTS_MAX, ControlEvent, ControlPacket, CreateFaceError, FaceEventKind, FaceId, FaceOptions,
    FaceSpec, FaceState, FaceUpdate, ListenSpec, Persistency, UpdateFaceError,
};
use namely_wire::{LpHeaders, NackReason, PitToken};
use support::{App, PATIENCE, Router, data, data_of, interest, uri, with_token};

fn spec(remote: &str, persistency: Persistency) -> FaceSpec {
    FaceSpec { remote: uri(remote), local: None, persistency, options: FaceOptions::default() }
}

#[test]
fn an_interest_reaches_the_producer_and_its_data_comes_back_with_the_token() {
    let router = Router::start();
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    consumer.send(&with_token(&interest("/a/b"), &[9; 32]));
    let (headers, asked) = producer.receive_parts();
    assert_eq!(asked, interest("/a/b"));
    producer.send(&namely_wire::lp::encode_lp_packet(
        &LpHeaders { pit_token: headers.pit_token, ..LpHeaders::default() },
        &data("/a/b", 8000),
    ));
    let (headers, answer) = consumer.receive_parts();
    assert_eq!(answer, data("/a/b", 8000));
    assert_eq!(headers.pit_token, PitToken::new(&[9; 32]));
}

/// What CoDel would drop of a large window, after marks that the application ignores, it would only ask for again.
#[test]
fn an_application_that_keeps_its_queue_standing_gets_everything_all_the_same() {
    const PACKETS: usize = 4000;
    const WINDOW: usize = 600;
    let router = Router::start();
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    let producing = std::thread::spawn(move || {
        (0..PACKETS).for_each(|n| {
            producer.receive();
            producer.send(&data(&format!("/a/{n}"), 8000));
        });
    });
    (0..WINDOW).for_each(|n| consumer.send(&interest(&format!("/a/{n}"))));
    for n in 0..PACKETS {
        if n.is_multiple_of(8) {
            // For longer than it takes until CoDel drops.
            std::thread::sleep(Duration::from_millis(3));
        }
        let (_, answer) = consumer.receive_parts();
        assert!(answer == data(&format!("/a/{n}"), 8000), "packet {n} is missing");
        if n + WINDOW < PACKETS {
            consumer.send(&interest(&format!("/a/{}", n + WINDOW)));
        }
    }
    producing.join().unwrap();
}

#[test]
fn the_largest_data_with_a_token_passes_a_stream() {
    let router = Router::start();
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    consumer.send(&with_token(&interest("/a/b"), &[9; 32]));
    producer.receive();
    producer.send(&with_token(&data_of("/a/b", 8800), &[3; 32]));
    assert_eq!(consumer.receive_parts().1, data_of("/a/b", 8800));
}

#[test]
fn without_a_route_the_nack_carries_the_token() {
    let router = Router::start();
    let (mut consumer, _) = router.connect();
    consumer.send(&with_token(&interest("/nowhere"), &[5; 7]));
    let (headers, refused) = consumer.receive_parts();
    assert_eq!(headers.nack, Some(NackReason::NoRoute));
    assert_eq!(headers.pit_token, PitToken::new(&[5; 7]));
    assert_eq!(refused, interest("/nowhere"));
}

#[test]
fn two_routers_exchange_over_udp_and_over_tcp() {
    for scheme in ["udp4", "tcp4"] {
        let (near, far) = (Router::start(), Router::start());
        let address = if scheme == "udp4" { far.listen_udp() } else { far.listen_tcp() };
        let face = near.plane.create_face(spec(&format!("{scheme}://{address}"), Persistency::Persistent));
        let face = face.unwrap();
        assert_eq!(near.event(FaceEventKind::Created).face_id, face.face_id);
        near.route("/a", face.face_id);
        if scheme == "tcp4" {
            far.event(FaceEventKind::Created);
        }
        let ((mut consumer, _), (mut producer, producer_face)) = (near.connect(), far.connect());
        far.route("/a", producer_face);
        for n in 0..20 {
            let name = format!("/a/{n}");
            consumer.send(&with_token(&interest(&name), &[1, 2, 3]));
            producer.receive();
            producer.send(&data_of(&name, 8800));
            assert_eq!(consumer.receive_parts().1, data_of(&name, 8800), "{scheme}");
        }
    }
}

#[test]
fn data_crosses_a_small_mtu_in_fragments() {
    let (near, far) = (Router::start(), Router::start());
    let address = far.listen_udp();
    let face = near.plane.create_face(spec(&format!("udp4://{address}"), Persistency::Permanent)).unwrap();
    near.event(FaceEventKind::Created);
    near.route("/a", face.face_id);
    let ((mut consumer, _), (mut producer, producer_face)) = (near.connect(), far.connect());
    far.route("/a", producer_face);
    consumer.send(&interest("/a/0"));
    producer.receive();
    let back = far.event(FaceEventKind::Created);
    let options = FaceOptions { mtu: Some(127), reliability: Some(true), ..FaceOptions::default() };
    far.plane.update_face(back.face_id, FaceUpdate { options, ..FaceUpdate::default() }).unwrap();
    near.plane.update_face(face.face_id, FaceUpdate { options, ..FaceUpdate::default() }).unwrap();
    producer.send(&data_of("/a/0", 8800));
    assert_eq!(consumer.receive_parts().1, data_of("/a/0", 8800));
}

#[test]
fn the_routers_own_face_asks_the_control_thread_and_gets_its_answer() {
    let router = Router::start();
    let (mut consumer, face) = router.connect();
    router.route("/localhost/nfd", router.plane.internal_face());
    consumer.send(&with_token(&interest("/localhost/nfd/status"), &[4; 4]));
    let Ok(ControlEvent::Packet(ControlPacket { packet, headers, incoming, credentials })) =
        router.inbox.next(PATIENCE)
    else {
        panic!("no packet")
    };
    assert_eq!(packet[..], interest("/localhost/nfd/status"));
    assert_eq!(incoming, Some(face));
    assert_eq!(credentials.unwrap().uid, rustix::process::getuid().as_raw());
    let answer = LpHeaders { pit_token: headers.pit_token, ..LpHeaders::default() };
    assert!(router.plane.inject(data("/localhost/nfd/status", 100), answer));
    let (headers, answer) = consumer.receive_parts();
    assert_eq!(answer, data("/localhost/nfd/status", 100));
    assert_eq!(headers.pit_token, PitToken::new(&[4; 4]));
}

#[test]
fn faces_are_listed_with_what_they_carried() {
    let router = Router::start();
    let ((mut consumer, consumer_face), (mut producer, producer_face)) = (router.connect(), router.connect());
    router.route("/a", producer_face);
    consumer.send(&interest("/a/b"));
    producer.receive();
    producer.send(&data("/a/b", 50));
    consumer.receive();
    // What was written is counted when the writer comes back from its system call.
    let is_counted = |face| router.plane.face(face).is_some_and(|face| face.counters.out_octets > 0);
    support::eventually(|| is_counted(consumer_face) && is_counted(producer_face));
    let faces = router.plane.faces();
    let numbers: Vec<FaceId> = faces.iter().map(|face| face.face_id).collect();
    assert_eq!(numbers, [router.plane.internal_face(), consumer_face, producer_face]);
    let status = router.plane.face(consumer_face).unwrap();
    assert_eq!(status, faces[1]);
    assert!(status.is_local && status.state == FaceState::Up && status.mtu.is_none());
    assert_eq!((status.counters.in_interests, status.counters.out_data), (1, 1));
    assert_eq!(status.counters.in_octets, interest("/a/b").len() as u64);
    assert_eq!(status.local.to_string(), format!("unix://{}", router.path().display()));
    assert!(router.plane.face(FaceId(99_999)).is_none());
}

#[test]
fn an_application_that_leaves_takes_its_face_and_routes() {
    let router = Router::start();
    let ((mut consumer, _), (producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    drop(producer);
    let gone = router.event(FaceEventKind::Destroyed);
    assert_eq!(gone.face_id, face);
    consumer.send(&interest("/a/b"));
    assert_eq!(consumer.receive_parts().0.nack, Some(NackReason::NoRoute));
}

#[test]
fn a_face_is_made_changed_and_destroyed() {
    let router = Router::start();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = format!("udp4://{}", peer.local_addr().unwrap());
    let made = router.plane.create_face(spec(&remote, Persistency::Persistent)).unwrap();
    assert_eq!(router.event(FaceEventKind::Created), made);
    assert!(!made.is_local, "a UDP peer proves nothing by its address");
    assert_eq!((made.mtu, made.persistency), (Some(8800), Persistency::Persistent));
    assert_eq!(made.remote.to_string(), remote);

    let again = router.plane.create_face(spec(&remote, Persistency::Persistent)).unwrap_err();
    assert_eq!(again, CreateFaceError::Exists(Box::new(made.clone())));

    let neighbour_chooses = FaceOptions { local_fields: Some(true), ..FaceOptions::default() };
    let update = FaceUpdate { persistency: None, options: neighbour_chooses };
    let refused = router.plane.update_face(made.face_id, update);
    assert!(matches!(refused, Err(UpdateFaceError::BadOption(_))), "local fields are for this machine");
    let options = FaceOptions {
        reliability: Some(true),
        congestion_marking: Some(false),
        mtu: Some(10),
        ..FaceOptions::default()
    };
    let update = FaceUpdate { persistency: Some(Persistency::Permanent), options };
    let changed = router.plane.update_face(made.face_id, update).unwrap();
    assert!(!changed.local_fields && changed.reliability && !changed.congestion_marking);
    assert_eq!((changed.mtu, changed.persistency), (Some(64), Persistency::Permanent));

    router.plane.destroy_face(made.face_id).unwrap();
    assert_eq!(router.event(FaceEventKind::Destroyed).face_id, made.face_id);
    assert_eq!(router.plane.destroy_face(made.face_id), Err(UpdateFaceError::NoSuchFace));
    assert_eq!(
        router.plane.update_face(made.face_id, FaceUpdate::default()).unwrap_err(),
        UpdateFaceError::NoSuchFace
    );
}

#[test]
fn impossible_faces_and_settings_are_refused_with_the_reason() {
    let router = Router::start();
    for remote in
        ["unix:///x", "fd://5", "udp4://224.0.23.170:56363", "tcp4://0.0.0.0:6363", "udp4://1.2.3.4:0"]
    {
        let refused = router.plane.create_face(spec(remote, Persistency::Persistent));
        assert!(matches!(refused, Err(CreateFaceError::Unsupported(_))), "{remote}");
    }
    let on_demand = router.plane.create_face(spec("udp4://127.0.0.1:9", Persistency::OnDemand));
    assert!(matches!(on_demand, Err(CreateFaceError::BadOption(_))));
    let (_app, face) = router.connect();
    for options in [
        FaceOptions { mtu: Some(1000), ..FaceOptions::default() },
        FaceOptions { reliability: Some(true), ..FaceOptions::default() },
    ] {
        let refused = router.plane.update_face(face, FaceUpdate { options, ..FaceUpdate::default() });
        assert!(matches!(refused, Err(UpdateFaceError::BadOption(_))), "{options:?}");
    }
    let permanent = FaceUpdate { persistency: Some(Persistency::Permanent), ..FaceUpdate::default() };
    assert!(matches!(router.plane.update_face(face, permanent), Err(UpdateFaceError::BadOption(_))));
    let own = router.plane.internal_face();
    assert!(matches!(router.plane.destroy_face(own), Err(UpdateFaceError::BadOption(_))));
}

#[test]
fn a_tcp_face_is_made_when_the_peer_has_accepted_or_not_at_all() {
    let router = Router::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = format!("tcp4://{}", listener.local_addr().unwrap());
    let made = router.plane.create_face(spec(&remote, Persistency::Persistent)).unwrap();
    assert_eq!(made.state, FaceState::Up);
    assert!(made.is_local, "TCP on the loopback is this machine");
    router.event(FaceEventKind::Created);
    drop(listener);
    let gone = router.event(FaceEventKind::Destroyed);
    assert_eq!(gone.face_id, made.face_id);
    let refused = router.plane.create_face(spec(&remote, Persistency::Persistent)).unwrap_err();
    let CreateFaceError::Failed(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains(&remote) && why.contains("refused"), "{why}");
}

#[test]
fn a_permanent_tcp_face_waits_for_its_peer() {
    let router = Router::start();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let made = router.plane.create_face(spec(&format!("tcp4://{address}"), Persistency::Permanent)).unwrap();
    assert_eq!(made.state, FaceState::Down);
    router.event(FaceEventKind::Created);
    router.event(FaceEventKind::Down);
    let listener = TcpListener::bind(address).unwrap();
    let up = router.event(FaceEventKind::Up);
    assert_eq!((up.face_id, up.state), (made.face_id, FaceState::Up));
    drop(listener);
}

#[test]
fn listeners_are_listed_and_stopped() {
    let router = Router::start();
    let (udp, tcp) = (router.listen_udp(), router.listen_tcp());
    let mut channels: Vec<String> = router.plane.channels().iter().map(|uri| uri.to_string()).collect();
    channels.sort();
    let unix = format!("unix://{}", router.path().display());
    assert_eq!(channels, [format!("tcp4://{tcp}"), format!("udp4://{udp}"), unix]);
    let again = router.plane.listen(ListenSpec::Tcp(tcp)).unwrap_err();
    assert!(again.to_string().contains("in use"), "{again}");
    let mut app = App::new(TcpStream::connect(tcp).unwrap());
    router.event(FaceEventKind::Created);
    assert!(router.plane.stop_listening(uri(&format!("tcp4://{tcp}"))));
    assert!(!router.plane.stop_listening(uri(&format!("tcp4://{tcp}"))));
    app.send(&interest("/x"));
    assert_eq!(app.receive_parts().0.nack, Some(NackReason::NoRoute), "faces stay");
    router.plane.listen(ListenSpec::Tcp(tcp)).unwrap();
}

#[test]
fn pending_interests_expire_without_traffic() {
    let router = Router::start();
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    let short =
        namely_wire::InterestBuilder::new(support::name("/a/b")).nonce([0; 4]).lifetime_ms(50).build();
    consumer.send(&short);
    producer.receive();
    assert_eq!(router.core.table_sizes().pit, 1);
    support::eventually(|| router.core.table_sizes().pit == 0);
}

#[test]
fn a_stopped_data_plane_says_so_and_closes_its_sockets() {
    let router = Router::start();
    let (mut app, _) = router.connect();
    let path = router.path();
    let Router { plane, inbox, .. } = router;
    plane.stop();
    assert!(inbox.next(Duration::from_millis(1)).is_err());
    assert!(!path.exists());
    assert_eq!(std::io::Read::read(&mut app.stream, &mut [0; 1]).unwrap(), 0);
}

#[test]
fn peers_wait_while_the_control_thread_is_far_behind_and_it_misses_no_event() {
    let router = Router::start();
    let connect = || std::os::unix::net::UnixStream::connect(router.path()).unwrap();
    let refused = || router.plane.drops().of("control_busy");
    let mut connections = 0;
    while refused() == 0 {
        (0..64).for_each(|_| drop(connect()));
        connections += 64;
        assert!(connections < 2 * CONTROL_EVENTS_MAX, "nobody was refused");
    }
    let (mut created, mut destroyed) = (0, 0);
    while let Ok(ControlEvent::Face(event)) = router.inbox.next(Duration::from_millis(200)) {
        match event.kind {
            FaceEventKind::Created => created += 1,
            FaceEventKind::Destroyed => destroyed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(created, destroyed);
    assert!(created + destroyed >= CONTROL_EVENTS_MAX && created <= CONTROL_EVENTS_MAX);
    let (mut app, _) = router.connect();
    app.send(&interest("/alive"));
    app.receive();
}

//! The data plane end to end: sockets, link services and the forwarder.

use crate::support;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use namely_dataplane::{CONTROL_EVENTS_MAX, ControlEvent, ControlPacket, DataPlaneOptions, ListenSpec};
use namely_forwarder::FaceId;
use namely_io::{FaceState, IoOptions};
use namely_link::ReassemblyLimits;
use namely_messages::{
    FaceEventKind, FaceEventNotification, FacePersistency, FaceScope, FaceStatus, face_flags,
};
use namely_mgmt::{CreateFaceError, FaceSettings, Faces, UpdateFaceError};
use namely_testkit::eventually;
use namely_wire::{LpHeaders, NackReason, PitToken};
use support::{App, PATIENCE, Router, data, data_of, interest, name, spec, uri, with_token};

#[test]
fn data_returns_with_the_interest_token() {
    let router = Router::start();
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    consumer.send(&with_token(&interest("/a/b"), &[9; 32]));
    let (headers, forwarded) = producer.receive_parts();
    assert_eq!(forwarded, interest("/a/b"));
    producer.send(&namely_wire::encode_lp_packet(
        &LpHeaders { pit_token: headers.pit_token, ..LpHeaders::default() },
        &data("/a/b", 8000),
    ));
    let (headers, answer) = consumer.receive_parts();
    assert_eq!(answer, data("/a/b", 8000));
    assert_eq!(headers.pit_token, PitToken::new(&[9; 32]));
}

/// The application ignores marks, so CoDel would drop from a large window, and the application
/// would request the dropped Data again.
#[test]
fn a_standing_application_queue_loses_nothing() {
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
            // Longer than CoDel tolerates a queue before it drops.
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
fn the_largest_data_passes_a_stream() {
    let router = Router::start();
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    consumer.send(&with_token(&interest("/a/b"), &[9; 32]));
    producer.receive();
    producer.send(&with_token(&data_of("/a/b", 8800), &[3; 32]));
    assert_eq!(consumer.receive_parts().1, data_of("/a/b", 8800));
}

#[test]
fn a_no_route_nack_carries_the_token() {
    let router = Router::start();
    let (mut consumer, _) = router.connect();
    consumer.send(&with_token(&interest("/nowhere"), &[5; 7]));
    let (headers, refused) = consumer.receive_parts();
    assert_eq!(headers.nack, Some(NackReason::NoRoute));
    assert_eq!(headers.pit_token, PitToken::new(&[5; 7]));
    assert_eq!(refused, interest("/nowhere"));
}

/// A router that waits long for the fragments of a message: a worker that waits for a processor may
/// read them more than half a second apart.
fn patient() -> Router {
    let reassembly = ReassemblyLimits { timeout_ns: 60_000_000_000, ..ReassemblyLimits::default() };
    let io = IoOptions { reassembly, ..IoOptions::default() };
    Router::start_with(DataPlaneOptions { io, ..DataPlaneOptions::default() })
}

#[test]
fn two_routers_exchange_over_udp_and_tcp() {
    for scheme in ["udp4", "tcp4"] {
        let (near, far) = (patient(), patient());
        let address = if scheme == "udp4" { far.listen_udp() } else { far.listen_tcp() };
        let face = near.face_to(&format!("{scheme}://{address}"), FacePersistency::Persistent);
        assert_eq!(near.event_face(FaceEventKind::Created), face);
        near.route("/a", face);
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
    let (near, far) = (patient(), patient());
    let address = far.listen_udp();
    let face = near.face_to(&format!("udp4://{address}"), FacePersistency::Permanent);
    near.event(FaceEventKind::Created);
    near.route("/a", face);
    let ((mut consumer, _), (mut producer, producer_face)) = (near.connect(), far.connect());
    far.route("/a", producer_face);
    consumer.send(&interest("/a/0"));
    producer.receive();
    let back = far.event_face(FaceEventKind::Created);
    let settings = FaceSettings { mtu: Some(127), reliability: Some(true), ..FaceSettings::default() };
    far.plane.update_face(back, &settings).unwrap();
    near.plane.update_face(face, &settings).unwrap();
    producer.send(&data_of("/a/0", 8800));
    assert_eq!(consumer.receive_parts().1, data_of("/a/0", 8800));
}

#[test]
fn the_routers_face_reaches_the_control_thread() {
    let router = Router::start();
    let (mut consumer, face) = router.connect();
    router.route("/localhost/nfd", router.plane.internal_face());
    consumer.send(&with_token(&interest("/localhost/nfd/status"), &[4; 4]));
    let Ok(ControlEvent::Packet(ControlPacket { packet, headers, incoming, credentials, .. })) =
        router.next(PATIENCE)
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
fn the_face_list_includes_traffic_counts() {
    let router = Router::start();
    let ((mut consumer, consumer_face), (mut producer, producer_face)) = (router.connect(), router.connect());
    router.route("/a", producer_face);
    consumer.send(&interest("/a/b"));
    producer.receive();
    producer.send(&data("/a/b", 50));
    consumer.receive();
    // Octets are counted when the writer returns from its system call, and packets at the end of a
    // batch, which may be after the test has received them.
    let is_counted = |face| {
        let status = router.status(face);
        status.out_octets > 0 && status.in_interests + status.in_data > 0
    };
    eventually("both are counted", || {
        is_counted(consumer_face) && is_counted(producer_face) && router.status(consumer_face).out_data > 0
    });
    let faces = router.plane.faces();
    let numbers: Vec<FaceId> = faces.iter().map(|face| FaceId(face.face_id)).collect();
    assert_eq!(numbers, [FaceId::LOCAL, router.plane.internal_face(), consumer_face, producer_face]);
    let status = router.plane.face(consumer_face).unwrap();
    // The time since the last arrival grows between the two, and only lists have users' names.
    let without_details = |face: &FaceStatus| FaceStatus { details: None, ..face.clone() };
    assert_eq!(without_details(&status), without_details(&faces[2]));
    assert!(status.face_scope == FaceScope::Local && status.mtu.is_none());
    assert_eq!(router.plane.port_status(consumer_face).unwrap().state, FaceState::Up);
    assert_eq!((status.in_interests, status.out_data), (1, 1));
    assert_eq!(status.in_octets, interest("/a/b").len() as u64);
    assert_eq!(status.local_uri, format!("unix://{}", router.path().display()));
    assert!(router.plane.face(FaceId(99_999)).is_none());
}

#[test]
fn a_closed_application_removes_face_and_routes() {
    let router = Router::start();
    let ((mut consumer, _), (producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    drop(producer);
    assert_eq!(router.event_face(FaceEventKind::Destroyed), face);
    consumer.send(&interest("/a/b"));
    assert_eq!(consumer.receive_parts().0.nack, Some(NackReason::NoRoute));
}

#[test]
fn a_face_is_made_changed_and_destroyed() {
    let router = Router::start();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = format!("udp4://{}", peer.local_addr().unwrap());
    let made = router.plane.create_face(spec(&remote, FacePersistency::Persistent)).unwrap();
    let event = router.event(FaceEventKind::Created);
    assert_eq!(event, FaceEventNotification::new(FaceEventKind::Created, &made));
    let face = FaceId(made.face_id);
    assert_eq!(made.face_scope, FaceScope::NonLocal, "a UDP peer proves nothing by its address");
    assert_eq!((made.mtu, made.face_persistency), (Some(8800), FacePersistency::Persistent));
    assert_eq!(made.uri, remote);

    let again = router.plane.create_face(spec(&remote, FacePersistency::Persistent)).unwrap_err();
    assert_eq!(again, CreateFaceError::Exists(Box::new(made)));

    let neighbour_chooses = FaceSettings { local_fields: Some(true), ..FaceSettings::default() };
    let refused = router.plane.update_face(face, &neighbour_chooses);
    assert!(matches!(refused, Err(UpdateFaceError::BadSetting(_))), "local fields are for this machine");
    let settings = FaceSettings {
        persistency: Some(FacePersistency::Permanent),
        reliability: Some(true),
        congestion_marking: Some(false),
        mtu: Some(10),
        ..FaceSettings::default()
    };
    let changed = router.plane.update_face(face, &settings).unwrap();
    assert_eq!(changed.flags, face_flags::LINK_RELIABILITY);
    assert_eq!((changed.mtu, changed.face_persistency), (Some(64), FacePersistency::Permanent));

    router.plane.destroy_face(face).unwrap();
    assert_eq!(router.event_face(FaceEventKind::Destroyed), face);
    assert_eq!(router.plane.destroy_face(face), Err(UpdateFaceError::NoSuchFace));
    let refused = router.plane.update_face(face, &FaceSettings::default());
    assert_eq!(refused.unwrap_err(), UpdateFaceError::NoSuchFace);
}

/// The peer acknowledges nothing, so the link service gives a frame up.
#[test]
fn drops_of_a_destroyed_face_are_totalled() {
    let router = Router::start();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let face = router.face_to(&format!("udp4://{}", peer.local_addr().unwrap()), FacePersistency::Persistent);
    assert_eq!(router.event_face(FaceEventKind::Created), face);
    let reliable = FaceSettings { reliability: Some(true), ..FaceSettings::default() };
    router.plane.update_face(face, &reliable).unwrap();
    router.route("/a", face);
    let (mut consumer, _) = router.connect();
    consumer.send(&interest("/a/b"));
    eventually("the frame is given up", || router.dropped(face, "retransmissions_exhausted") == 1);
    router.plane.destroy_face(face).unwrap();
    let counters = router.plane.counters();
    let total = counters
        .iter()
        .find(|counter| counter.face_id.is_none() && counter.label == "link.retransmissions_exhausted");
    assert_eq!(total.map(|counter| counter.value), Some(1));
}

#[test]
fn impossible_faces_are_refused_with_reasons() {
    let router = Router::start();
    for remote in
        ["unix:///x", "fd://5", "udp4://224.0.23.170:56363", "tcp4://0.0.0.0:6363", "udp4://1.2.3.4:0"]
    {
        let refused = router.plane.create_face(spec(remote, FacePersistency::Persistent));
        assert!(matches!(refused, Err(CreateFaceError::Unsupported(_))), "{remote}");
    }
    let on_demand = router.plane.create_face(spec("udp4://127.0.0.1:9", FacePersistency::OnDemand));
    assert!(matches!(on_demand, Err(CreateFaceError::BadSetting(_))));
    let (_app, face) = router.connect();
    for settings in [
        FaceSettings { mtu: Some(1000), ..FaceSettings::default() },
        FaceSettings { reliability: Some(true), ..FaceSettings::default() },
        FaceSettings { persistency: Some(FacePersistency::Permanent), ..FaceSettings::default() },
    ] {
        let refused = router.plane.update_face(face, &settings);
        assert!(matches!(refused, Err(UpdateFaceError::BadSetting(_))), "{settings:?}");
    }
    let own = router.plane.internal_face();
    assert!(matches!(router.plane.destroy_face(own), Err(UpdateFaceError::BadSetting(_))));
}

#[test]
fn a_tcp_face_requires_an_accepted_connection() {
    let router = Router::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = format!("tcp4://{}", listener.local_addr().unwrap());
    let made = router.plane.create_face(spec(&remote, FacePersistency::Persistent)).unwrap();
    let face = FaceId(made.face_id);
    assert_eq!(router.plane.port_status(face).unwrap().state, FaceState::Up);
    assert_eq!(made.face_scope, FaceScope::Local, "TCP on the loopback is this machine");
    router.event(FaceEventKind::Created);
    drop(listener);
    assert_eq!(router.event_face(FaceEventKind::Destroyed), face);
    let refused = router.plane.create_face(spec(&remote, FacePersistency::Persistent)).unwrap_err();
    let CreateFaceError::Failed(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains(&remote) && why.contains("refused"), "{why}");
}

#[test]
fn a_permanent_tcp_face_awaits_its_peer() {
    let router = Router::start();
    let address = namely_testkit::free_address();
    let made = router.face_to(&format!("tcp4://{address}"), FacePersistency::Permanent);
    let state = || router.plane.port_status(made).unwrap().state;
    assert_ne!(state(), FaceState::Up);
    router.event(FaceEventKind::Created);
    router.event(FaceEventKind::Down);
    assert_ne!(state(), FaceState::Up);
    let listener = namely_testkit::bound_again(|| TcpListener::bind(address));
    assert_eq!((router.event_face(FaceEventKind::Up), state()), (made, FaceState::Up));
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
    consumer.send(&interest("/a/long"));
    producer.receive();
    assert_eq!(router.core.table_sizes().pit, 1);
    let short =
        namely_wire::InterestBuilder::new(support::name("/a/b")).nonce([0; 4]).lifetime_ms(50).build();
    consumer.send(&short);
    // It was pending. On a busy machine it may have expired by now.
    producer.receive();
    eventually("only the other one is pending", || router.core.table_sizes().pit == 1);
}

#[test]
fn a_stopped_data_plane_closes_its_sockets() {
    let router = Router::start();
    let (mut app, _) = router.connect();
    let path = router.path();
    let Router { plane, inbox, .. } = router;
    plane.stop();
    // The first event may be a wakeup to allocate the tables' next memory.
    assert!((0..2).any(|_| inbox.next(Duration::from_millis(1)).is_err()));
    assert!(!path.exists());
    assert_eq!(std::io::Read::read(&mut app.stream, &mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_busy_control_thread_misses_no_event() {
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
    // A worker that waits for a processor destroys the last faces later.
    eventually("all events are read", || {
        while let Ok(ControlEvent::Face(event)) = router.next(Duration::from_millis(200)) {
            match event.kind {
                FaceEventKind::Created => created += 1,
                FaceEventKind::Destroyed => destroyed += 1,
                other => panic!("{other:?}"),
            }
        }
        created == destroyed && created + destroyed >= CONTROL_EVENTS_MAX
    });
    assert!(created <= CONTROL_EVENTS_MAX);
    let (mut app, _) = router.connect();
    app.send(&interest("/alive"));
    app.receive();
}

/// The control thread, which is the test here, takes no event meanwhile.
#[test]
fn a_learned_route_serves_the_next_interest() {
    let router = Router::start();
    let strategy = name("/self-learning");
    router.core.strategies().set(name("/").as_name(), strategy.as_name()).unwrap();
    let address = router.listen_udp();
    let neighbours = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    for neighbour in &neighbours {
        neighbour.connect(address).unwrap();
        neighbour.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let [near, far] = &neighbours;
    let far_uri = format!("udp4://{}", far.local_addr().unwrap());
    router.face_to(&far_uri, FacePersistency::Permanent);
    let mut buffer = [0; 2000];
    near.send(&interest("/a/b/seg=0")).unwrap();
    namely_testkit::uninterrupted(|| far.recv(&mut buffer)).unwrap();
    far.send(&data("/a/b/seg=0", 100)).unwrap();
    namely_testkit::uninterrupted(|| near.recv(&mut buffer)).unwrap();
    for n in 1..5 {
        let headers = LpHeaders { non_discovery: true, ..LpHeaders::default() };
        let packet = namely_wire::encode_lp_packet(&headers, &interest(&format!("/a/b/seg={n}")));
        near.send(&packet).unwrap();
        let octets = namely_testkit::uninterrupted(|| far.recv(&mut buffer))
            .expect("it goes along the route and is not refused");
        let view = namely_wire::LpView::parse(&buffer[..octets]).unwrap();
        assert_eq!((view.headers.non_discovery, view.headers.nack), (true, None));
    }
}

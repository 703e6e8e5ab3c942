//! Every dataset and the face event stream, as clients see them.

use crate::common;

use common::client::{name, named, read_event};
use common::{Client, Daemon, PATIENCE};
use namely_messages::{
    ChannelStatus, Command, ControlParameters, Counter, Dataset, EventRequest, FaceEventKind,
    FacePersistency, FaceQueryFilter, FaceScope, FaceState, FaceStatus, FibEntry, GeneralStatus, RibEntry,
    Scope, blocks,
};
use namely_testkit::until;
use namely_wire::{ContentType, InterestBuilder};

#[test]
fn the_general_status_counts_packets() {
    let daemon = Daemon::start();
    let (mut producer, mut client) = (daemon.connect(), daemon.connect());
    producer.register("/x");
    client.ask("/x/1");
    producer.serve_one(b"x");
    client.receive(PATIENCE).unwrap();
    // Another worker's batch is counted when it has ended, which may be after its packets came.
    let status = until("the packets are counted", || {
        let status = GeneralStatus::decode(&client.dataset(Dataset::StatusGeneral)).unwrap();
        let is_counted = status.in_interests >= 3 && status.in_data >= 1 && status.out_data >= 1;
        (is_counted && status.satisfied_interests >= 1).then_some(status)
    });
    assert!(status.version.contains("namely"), "{}", status.version);
    let now_ms = common::client::unix_ms();
    assert!(status.start_ms <= status.current_ms && status.current_ms <= now_ms);
    assert!(now_ms - status.start_ms < 10 * 60 * 1000);
    assert!(status.uptime_ms() < 10 * 60 * 1000 && status.details.is_some());
    assert_eq!(status.cs_entries, 1);
}

#[test]
fn drops_are_listed_by_reason() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let mut udp = Client::udp(daemon.udp());
    udp.ask("/nowhere");
    udp.receive(PATIENCE).unwrap();
    udp.send(&[5, 200, 1, 2, 3]);
    udp.ask("/nowhere/either");
    udp.receive(PATIENCE).unwrap();
    let counters = client.dataset(Dataset::StatusCounters);
    let counters: Vec<Counter> = blocks(&counters).collect::<Result<_, _>>().unwrap();
    let find = |label: &str, of_face: bool| {
        counters.iter().find(|c| c.label == label && c.face_id.is_some() == of_face).map(|c| c.value)
    };
    assert_eq!(find("link.truncated", false), Some(1), "{counters:?}");
    assert_eq!(find("link.truncated", true), Some(1));
    assert_eq!(find("forwarder.no_route", false), Some(2));
}

#[test]
fn the_face_list_shows_every_kind() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let mut tcp = Client::tcp(daemon.tcp());
    let mut udp = Client::udp(daemon.udp());
    let nonce = udp.next_nonce();
    udp.send(&InterestBuilder::new(name("/nowhere")).nonce(nonce).build());
    udp.receive(PATIENCE).unwrap();
    let own = tcp.own_face_by_list();
    // Another worker counts its packets at the end of a batch, after they have been sent.
    let faces = until("the packets are counted", || {
        let faces = client.faces();
        let udp = faces.iter().find(|face| face.uri.starts_with("udp4://")).unwrap();
        (udp.in_interests == 1 && udp.out_nacks == 1).then_some(faces)
    });
    let find = |scheme: &str| faces.iter().find(|face| face.uri.starts_with(scheme)).unwrap();
    assert_eq!(
        (find("fd://").face_scope, find("fd://").face_persistency),
        (FaceScope::Local, FacePersistency::OnDemand)
    );
    assert!(find("fd://").local_uri.starts_with("unix://"));
    let tcp_face = faces.iter().find(|face| face.face_id == own).unwrap();
    assert_eq!(tcp_face.face_scope, FaceScope::Local, "TCP from this machine");
    let udp_face = find("udp4://");
    assert_eq!(udp_face.face_scope, FaceScope::NonLocal, "UDP never is local");
    assert_eq!(udp_face.face_persistency, FacePersistency::OnDemand);
    assert!(udp_face.expiration_period_ms.is_some_and(|ms| ms > 0 && ms <= 600_000));
    assert!(udp_face.in_octets > 0);
}

#[test]
fn the_face_list_names_local_programs() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let own = client.own_face();
    let faces = client.faces();
    let details = faces.iter().find(|face| face.face_id == own).unwrap().details.clone().unwrap();
    let program = std::fs::read_to_string("/proc/self/comm").ok().map(|name| name.trim_end().to_owned());
    assert_eq!((details.state, details.program), (FaceState::Up, program));
    assert_eq!(details.pid, Some(std::process::id().into()));
    assert_eq!(details.uid, Some(rustix::process::geteuid().as_raw().into()));
}

#[test]
fn a_lost_neighbor_is_logged() {
    let mut daemon = Daemon::start();
    let peer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = format!("tcp4://{}", peer.local_addr().unwrap());
    let parameters = ControlParameters {
        uri: Some(remote.clone()),
        face_persistency: Some(FacePersistency::Permanent),
        ..ControlParameters::default()
    };
    daemon.connect().ok(Command::FacesCreate, &parameters);
    drop(peer.accept().unwrap());
    let down = daemon.wait_for_log(&format!("the face to {remote} is down: "));
    assert!(down.contains("WARN"), "{down}");
    daemon.wait_for_log(&format!("the face to {remote} is up"));
}

#[test]
fn a_face_query_filters() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let own = client.own_face();
    let _tcp = Client::tcp(daemon.tcp());
    let mut query = |filter: FaceQueryFilter| -> Vec<FaceStatus> {
        blocks(&client.dataset_named(filter.name(Scope::Localhost))).collect::<Result<_, _>>().unwrap()
    };
    let by_id = query(FaceQueryFilter { face_id: Some(own), ..Default::default() });
    assert_eq!(by_id.iter().map(|face| face.face_id).collect::<Vec<_>>(), [own]);
    assert!(query(FaceQueryFilter { face_id: Some(99_999), ..Default::default() }).is_empty());
    let mut udp = Client::udp(daemon.udp());
    udp.ask("/nowhere");
    udp.receive(PATIENCE).unwrap();
    let of_udp = query(FaceQueryFilter { uri_scheme: Some("udp4".into()), ..Default::default() });
    let uri = of_udp[0].uri.strip_prefix("udp4").map(|rest| format!("udp{rest}"));
    let found = query(FaceQueryFilter { uri, ..Default::default() });
    assert_eq!(found.first().map(|face| face.face_id), Some(of_udp[0].face_id), "by udp:// as by udp4://");
    let by_scheme = until("the TCP face is there", || {
        Some(query(FaceQueryFilter { uri_scheme: Some("tcp4".into()), ..Default::default() }))
            .filter(|faces| !faces.is_empty())
    });
    assert!(
        by_scheme.iter().all(|face| face.uri.starts_with("tcp4://") || face.local_uri.starts_with("tcp4://"))
    );
}

#[test]
fn channels_match_the_listeners() {
    let daemon = Daemon::start();
    let content = daemon.connect().dataset(Dataset::FacesChannels);
    let mut channels: Vec<String> =
        blocks::<ChannelStatus>(&content).map(|channel| channel.unwrap().local_uri).collect();
    let mut expected: Vec<String> = daemon.listening().iter().map(ToString::to_string).collect();
    channels.sort();
    expected.sort();
    assert_eq!(channels, expected);
}

#[test]
fn dataset_segments_share_one_state() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    // Far more routes than fit into one segment.
    for n in 0..700 {
        client.register(&format!("/a-fairly-long-component-for-a-prefix/{n}"));
    }
    for (dataset, least) in [(Dataset::RibList, 700), (Dataset::FibList, 700)] {
        let content = client.dataset(dataset);
        assert!(content.len() > 3 * 8000);
        let count = match dataset {
            Dataset::RibList => blocks::<RibEntry>(&content).filter(Result::is_ok).count(),
            _ => blocks::<FibEntry>(&content).filter(Result::is_ok).count(),
        };
        assert!(count >= least, "{dataset}: {count}");
    }
    // A version of a dataset does not change while it is read.
    let prefix = Dataset::RibList.prefix(Scope::Localhost);
    let first = client.fetch(InterestBuilder::new(prefix).can_be_prefix().must_be_fresh());
    let versioned = first.data().name.without_last(1).to_name();
    let second = |client: &mut Client| {
        client.fetch(InterestBuilder::new(versioned.join_segment(1))).data().content.to_vec()
    };
    let before = second(&mut client);
    client.register("/a-fairly-long-component-for-a-prefix/000");
    assert_eq!(second(&mut client), before);
    let beyond = client.fetch(InterestBuilder::new(versioned.join_segment(9999)));
    assert_eq!(beyond.data().content_type, ContentType::Nack);
}

/// The dataset is longer than the part that is made at once. Other commands are served between the
/// parts.
#[test]
fn a_long_dataset_does_not_block_commands() {
    let routes = 3 * namely_forwarder::WALK_PLACES + 1;
    let prefixes: Vec<String> = (0..routes).map(|n| format!("\"/many/{n}\"")).collect();
    let config = format!("[network]\nlocal = [{}]\n", prefixes.join(", "));
    let daemon = Daemon::start_with(&config, &[]);
    let (mut client, mut other) = (daemon.connect(), daemon.connect());
    for dataset in [Dataset::RibList, Dataset::FibList] {
        let prefix = dataset.prefix(Scope::Localhost);
        let list = InterestBuilder::new(prefix).can_be_prefix().must_be_fresh().lifetime_ms(60_000);
        client.send(&list.nonce([7; 4]).build());
        other.register(&format!("/other/{dataset}"));
        client.receive(PATIENCE).unwrap();
        // A long dataset that was complete before the command is given for another second.
        let names = until("the other route is listed", || {
            let content = client.dataset(dataset);
            let names: std::collections::BTreeSet<_> = match dataset {
                Dataset::RibList => blocks::<RibEntry>(&content).map(|entry| entry.unwrap().prefix).collect(),
                _ => blocks::<FibEntry>(&content).map(|entry| entry.unwrap().prefix).collect(),
            };
            names.contains(&name(&format!("/other/{dataset}"))).then_some(names)
        });
        assert_eq!(
            names.iter().filter(|prefix| name("/many").as_name().is_prefix_of(prefix.as_name())).count(),
            routes as usize
        );
    }
}

#[test]
fn face_events_wait_for_slow_subscribers() {
    let daemon = Daemon::start();
    let mut watcher = daemon.connect();
    let first = InterestBuilder::new(EventRequest::prefix(Scope::Localhost)).can_be_prefix();
    watcher.send(&first.must_be_fresh().lifetime_ms(60_000).nonce([5; 4]).build());
    let mut client = daemon.connect();
    let own = client.own_face();
    let (mut seq, mut event) = read_event(&watcher.receive(PATIENCE).unwrap());
    // The watcher's own face may be the newest event yet.
    while event.face_id != own {
        (seq, event) = watcher.face_event(Some(seq + 1));
    }
    assert_eq!(event.kind, FaceEventKind::Created);
    assert!(event.uri.starts_with("fd://") && event.face_scope == FaceScope::Local);
    drop(client);
    let (next, event) = watcher.face_event(Some(seq + 1));
    assert_eq!((next, event.kind, event.face_id), (seq + 1, FaceEventKind::Destroyed, own));
    // Three more events happen before the next request.
    for _ in 0..3 {
        daemon.connect().own_face();
    }
    for n in 2..6 {
        assert_eq!(watcher.face_event(Some(seq + n)).0, seq + n);
    }
}

#[test]
fn a_permanent_face_goes_down_and_up() {
    let near = Daemon::start();
    // No other process takes this port while the far router is gone.
    let address = namely_testkit::free_address();
    let listen = format!("tcp://{address}");
    let far = Daemon::start_with("", &["--listen", &listen]);
    let (mut client, mut watcher) = (near.connect(), near.connect());
    // The newest event is given for a second only. A subscription from before it misses none.
    let newest = InterestBuilder::new(EventRequest::prefix(Scope::Localhost)).can_be_prefix();
    watcher.send(&newest.must_be_fresh().lifetime_ms(60_000).nonce([5; 4]).build());
    let create = ControlParameters {
        uri: Some(format!("tcp4://{address}")),
        face_persistency: Some(FacePersistency::Permanent),
        ..Default::default()
    };
    let id = client.ok(Command::FacesCreate, &create).face_id.unwrap();
    client.ok(Command::RibRegister, &ControlParameters { face_id: Some(id), ..named("/far") });
    let dir = far.kill();
    let (mut seq, mut event) = read_event(&watcher.receive(PATIENCE).unwrap());
    let mut next = |watcher: &mut Client, kind: FaceEventKind| {
        while (event.face_id, event.kind) != (id, kind) {
            (seq, event) = watcher.face_event(Some(seq + 1));
        }
    };
    next(&mut watcher, FaceEventKind::Down);
    assert_eq!(client.routes("/far").len(), 1, "a permanent face keeps its routes");
    let far = Daemon::start_in(dir, "", &["--listen", &listen]);
    next(&mut watcher, FaceEventKind::Up);
    let mut producer = far.connect();
    producer.register("/far");
    client.ask("/far/x");
    producer.serve_one(b"again");
    assert_eq!(client.receive(PATIENCE).unwrap().data().content, b"again");
}

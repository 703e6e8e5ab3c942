//! One peer is at a limit of the core; an application and another neighbor are served.

use crate::support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namely_dataplane::DataPlaneOptions;
use namely_forwarder::{Config, DropReason, PitLimits};
use namely_messages::FaceEventKind;
use namely_testkit::eventually;
use namely_wire::InterestBuilder;
use support::{App, Router, data, interest, name, produce};

/// Longest time of an answer beside a flood. It is short only in the suite that measures, because
/// other work on the machine delays answers too.
const ANSWERED_IN: Duration = Duration::from_secs(if crate::MEASURES { 2 } else { 60 });

/// Fewer Interests than the defaults have, so that one core fills the table at once.
const PIT_ENTRIES: usize = 4000;

fn router() -> Router {
    let config = Config {
        pit: PitLimits {
            entries_max: PIT_ENTRIES,
            entries_per_face_max: PIT_ENTRIES / 2,
            entries_per_holder_max: PIT_ENTRIES,
            ..PitLimits::default()
        },
        ..Config::new(|_| [0; 32])
    };
    Router::start_with_config(DataPlaneOptions::default(), config)
}

fn neighbour(router: &Router, address: SocketAddr) -> App<TcpStream> {
    let peer = App::new(TcpStream::connect(address).unwrap());
    router.event_face(FaceEventKind::Created);
    peer
}

fn for_an_hour(uri: &str) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce([7; 4]).lifetime_ms(3_600_000).build()
}

/// Neighbors send Interests with a lifetime of an hour, and leave. Before they leave, an
/// application is served at their expense. Afterwards none of their Interests is pending.
#[test]
fn a_pit_flood_blocks_no_application() {
    let router = router();
    let address = router.listen_tcp();
    let (mut producer, upstream) = router.connect();
    router.route("/a", upstream);
    let mut flooders: Vec<App<TcpStream>> = (0..2).map(|_| neighbour(&router, address)).collect();
    for (n, flooder) in flooders.iter_mut().enumerate() {
        for i in 0..PIT_ENTRIES / 2 {
            let sent = for_an_hour(&format!("/a/{n}/{i}"));
            flooder.send(&sent);
            assert_eq!(producer.receive(), sent);
        }
    }
    eventually("the PIT is full", || router.core.table_sizes().pit == PIT_ENTRIES);
    let (mut app, _) = router.connect();
    for i in 0..100 {
        let uri = format!("/a/honest/{i}");
        app.send(&interest(&uri));
        assert_eq!(producer.receive(), interest(&uri));
        producer.send(&data(&uri, 100));
        assert_eq!(app.receive(), data(&uri, 100));
    }
    assert!(router.core.counters().dropped(DropReason::PitEvicted) >= 1);
    assert_eq!(router.core.counters().dropped(DropReason::PitFull), 0, "the honest one was never refused");
    drop(flooders);
    eventually("nothing is pending", || router.core.table_sizes().pit == 0);
}

/// A neighbor that received no Interest answers first. Neither the consumer nor the content store
/// receives its Data.
#[test]
fn unsolicited_neighbor_data_poisons_nothing() {
    let router = router();
    let address = router.listen_tcp();
    let (mut producer, upstream) = router.connect();
    router.route("/a", upstream);
    let (mut app, _) = router.connect();
    let mut poisoner = neighbour(&router, address);
    let unsolicited = || router.core.counters().dropped(DropReason::Unsolicited);
    for i in 0..20 {
        let uri = format!("/a/{i}");
        app.send(&interest(&uri));
        assert_eq!(producer.receive(), interest(&uri));
        poisoner.send(&data(&uri, 50));
        eventually("it is unsolicited", || unsolicited() == i + 1);
        assert_eq!(router.core.cs().status().packets as u64, i);
        producer.send(&data(&uri, 100));
        assert_eq!(app.receive(), data(&uri, 100));
    }
}

/// A connection of another user, if this process may change its user.
fn connect_as_another_user(router: &Router) -> UnixStream {
    let path = router.path();
    std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(4711)).unwrap();
        }
        UnixStream::connect(path).unwrap()
    })
    .join()
    .unwrap()
}

/// Sends `times` Interests, each after the answer to the previous one. Returns the longest time of
/// an answer.
fn longest<S: Read + Write>(app: &mut App<S>, prefix: &str, times: u32) -> Duration {
    let exchange = |n| {
        let (uri, start) = (format!("{prefix}/{n}"), Instant::now());
        app.send(&interest(&uri));
        assert_eq!(app.receive(), data(&uri, 1000));
        start.elapsed()
    };
    (0..times).map(exchange).max().unwrap_or_default()
}

/// Several hosts send Interests without a producer as fast as they can. Another host, an
/// application of another user and an application of root still receive their answers.
#[test]
fn unanswered_hosts_delay_no_other_holder() {
    let router = Router::start();
    let folder = router.path().parent().unwrap().to_path_buf();
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (udp, tcp) = (router.listen_udp(), router.listen_tcp());
    let (producer, upstream) = router.connect();
    let ends = [producer.stream.try_clone().unwrap()];
    router.route("/a", upstream);
    let (mut silent, nowhere) = router.connect();
    router.route("/a/void", nowhere);
    let mut host = neighbour(&router, tcp);
    let mut root = router.connect().0;
    let mut user = App::new(connect_as_another_user(&router));
    router.event_face(FaceEventKind::Created);
    let (is_over, mut read) = (&AtomicBool::new(false), [0; 65_536]);
    let flood = move |n: u8| {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 8, 0, n), 0)).unwrap();
        socket.connect(udp).unwrap();
        for number in 0u32.. {
            let requested = name(&format!("/a/void/{n}/{number}"));
            let _ = socket.send(&InterestBuilder::new(requested).nonce(number.to_be_bytes()).build());
            if is_over.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| produce(producer));
        let ends = ends.into_iter().chain([silent.stream.try_clone().unwrap()]);
        scope.spawn(move || while matches!(silent.stream.read(&mut read), Ok(octets) if octets > 0) {});
        (1..=6).for_each(|n| drop(scope.spawn(move || flood(n))));
        eventually("much is pending", || router.core.table_sizes().pit >= 1000);
        let took = [
            longest(&mut host, "/a/1", 100),
            longest(&mut user, "/a/2", 100),
            longest(&mut root, "/a/3", 100),
        ];
        is_over.store(true, Ordering::Relaxed);
        assert!(took.iter().all(|took| *took < ANSWERED_IN), "{took:?}");
        ends.for_each(|end| end.shutdown(std::net::Shutdown::Both).unwrap());
    });
}

//! The costs of an idle router, and of a face's end while other faces are busy.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use namely_dataplane::DataPlaneOptions;
use namely_messages::FacePersistency;
use namely_mgmt::Faces;

use crate::common::Daemon;
use crate::support::{Load, Router, produce};

fn options(workers: usize) -> DataPlaneOptions {
    DataPlaneOptions { workers: NonZeroUsize::new(workers), ..DataPlaneOptions::default() }
}

/// Returns the times in which each of 200 faces is destroyed, sorted.
fn destroyed(router: &Router) -> Vec<Duration> {
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = format!("udp4://{}", peer.local_addr().unwrap());
    let mut waits: Vec<Duration> = (0..200)
        .map(|_| {
            let made = router.face_to(&remote, FacePersistency::Persistent);
            for n in 0..20 {
                router.route(&format!("/b/{n}"), made);
            }
            let start = Instant::now();
            router.plane.destroy_face(made).unwrap();
            let took = start.elapsed();
            // The worker releases the address a moment later.
            while router.plane.faces().iter().any(|face| face.uri == remote) {}
            took
        })
        .collect();
    waits.sort();
    waits
}

/// IS-15: the destruction of a face waits for no worker. Its time under load is compared with that
/// in an idle router of the same run.
#[test]
fn destroying_a_face_under_load_is_quick() {
    let router = Router::start_with(options(1));
    let (producer, face) = router.connect();
    router.route("/a", face);
    let producing = std::thread::spawn(move || produce(producer));
    let idle = destroyed(&router);
    let load = Load::start(&router);
    let loaded = destroyed(&router);
    drop(load);
    println!("median {:?}, p99 {:?}; idle {:?} and {:?}", loaded[100], loaded[197], idle[100], idle[197]);
    // A worker's iteration may hold a lock, and the load may have the processor for a time slice. A
    // destruction that waited for a worker would each time wait for a queue of iterations.
    let allowed = Duration::from_millis(100);
    assert!(loaded[197] < idle[197] + allowed, "idle {idle:?}, under load {loaded:?}");
    drop(router);
    producing.join().unwrap();
}

#[test]
fn an_idle_router_uses_no_processor_time() {
    let daemon = Daemon::start();
    daemon.connect().register("/x");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    std::thread::sleep(Duration::from_millis(500));
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    // A tick is 10 ms; a busy loop would take 200.
    assert!(ticks() - before <= 2, "{} ticks in two idle seconds", ticks() - before);
}

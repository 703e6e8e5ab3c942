//! A device that is removed and added again while frames pass. The test is alone in its process,
//! because it counts the descriptors of the process.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namely_io::ethernet::DEFAULT_GROUP;
use namely_io::{IoOptions, Xdp};
use namely_messages::FacePersistency;
use namely_testkit::eventually;
use namely_wire::MacAddress;
use support::namespace::Namespace;
use support::{Loop, PATIENCE, packet};

const A: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xa]);
const B: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xb]);

fn add_pair(namespace: &Namespace) -> bool {
    namespace.ip(&format!("link add va address {A} type veth peer name vb address {B}"))
        && namespace.ip("link set va up")
        && namespace.ip("link set vb up")
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Sends until a frame arrives at the other end. This also discards the frames that arrived there
/// before.
fn passes(io: &Loop, ids: &[namely_io::FaceTag], far: &Loop) {
    let start = Instant::now();
    loop {
        for id in ids.iter().copied() {
            io.with(move |io| support::push(io, id, support::frame(&packet(500, 2)))).ok();
        }
        if !far.is_quiet_for(Duration::from_millis(20)) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "nothing passes any more");
    }
}

#[test]
fn a_flapping_device_leaks_nothing() {
    for xdp in [Xdp::Off, Xdp::On] {
        let Some(namespace) = Namespace::new() else { return };
        if !add_pair(&namespace) || xdp == Xdp::On && !support::has_xdp(&namespace, "va") {
            return;
        }
        comes_back(&namespace, support::reading(xdp));
    }
}

fn comes_back(namespace: &Namespace, options: IoOptions) {
    namespace.enter(|| {
        let [a, b] = [options; 2].map(Loop::start);
        b.with(|io| io.listen_ethernet("vb")).unwrap();
        let ids = [B, DEFAULT_GROUP].map(|remote| {
            a.open(move |io| io.open_ethernet("va", remote, FacePersistency::Permanent)).unwrap()
        });
        b.open(|io| io.open_ethernet("vb", DEFAULT_GROUP, FacePersistency::Permanent)).unwrap();
        passes(&a, &ids, &b);
        let before = descriptors();
        let stop = AtomicBool::new(false);
        let a = std::thread::scope(|scope| {
            let stop = &stop;
            let sending = scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    a.with(move |io| {
                        for id in ids.into_iter().cycle().take(100) {
                            let _ = support::push(io, id, support::frame(&packet(1000, 1)));
                        }
                    });
                }
                a
            });
            for round in 0..12 {
                let is_short = round % 2 == 0;
                assert!(namespace.ip(if is_short { "link set va down" } else { "link del vb" }));
                if round % 4 < 2 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                assert!(if is_short { namespace.ip("link set va up") } else { add_pair(namespace) });
            }
            stop.store(true, Ordering::Relaxed);
            sending.join().unwrap()
        });
        while !b.is_quiet_for(Duration::from_millis(200)) {}
        passes(&a, &ids, &b);
        eventually("no descriptor is left", || descriptors() <= before);
    });
}

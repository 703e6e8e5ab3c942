//! Network devices that are removed while a router forwards over them (IS-13, IS-15).

use crate::namespace;
use crate::support;

use std::num::NonZeroUsize;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use namely_dataplane::{DataPlaneOptions, ListenSpec};
use namely_forwarder::FaceId;
use namely_io::FaceState;
use namely_messages::FacePersistency;
use namely_mgmt::{FaceSettings, FaceSpec, Faces};
use namely_testkit::eventually;
use namely_wire::InterestBuilder;
use namespace::Namespace;
use support::{App, Load, PATIENCE, Router, data, name, produce, uri};

const NEAR: &str = "02:00:00:00:00:0a";
const FAR: &str = "02:00:00:00:00:0b";

/// Removals, of which the longest is judged.
const ROUNDS: usize = 15;

fn add_pair(namespace: &Namespace) -> bool {
    namespace.ip(&format!("link add va address {NEAR} type veth peer name vb address {FAR}"))
        && namespace.ip("link set va up")
        && namespace.ip("link set vb up")
}

/// Durations of removals of the device under `face`. The face is up before each, and again after
/// the last.
fn removals(namespace: &Namespace, router: &Router, face: FaceId) -> Vec<Duration> {
    let is_up = || router.plane.port_status(face).is_some_and(|status| status.state == FaceState::Up);
    let mut took: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            eventually("the face is up", is_up);
            let start = Instant::now();
            assert!(namespace.ip("link del va"));
            let took = start.elapsed();
            eventually("the face is down", || !is_up());
            assert!(add_pair(namespace));
            took
        })
        .collect();
    eventually("the face is up", is_up);
    took.sort();
    took
}

/// Sends Interests until the producer behind the device answers.
fn is_answered(router: &Router, suffix: &str) {
    let requested = format!("/a/{suffix}");
    let mut consumer = App::new(UnixStream::connect(router.path()).unwrap());
    consumer.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let start = Instant::now();
    for nonce in 0u32.. {
        assert!(start.elapsed() < PATIENCE, "nothing crosses the device");
        consumer.send(&InterestBuilder::new(name(&requested)).nonce(nonce.to_be_bytes()).build());
        // A Nack from the time without a device does not count.
        let answer = consumer.try_receive().unwrap_or_default();
        let answer = namely_wire::LpView::parse(&answer).ok().and_then(|view| view.fragment);
        if answer.is_some_and(|answer| answer == data(&requested, 1000)) {
            return;
        }
    }
}

#[test]
fn a_device_is_removed_under_load() {
    let Some(namespace) = Namespace::new() else { return };
    if !add_pair(&namespace) {
        return;
    }
    namespace.enter(|| {
        let options = DataPlaneOptions { workers: NonZeroUsize::new(2), ..DataPlaneOptions::default() };
        let (near, far) = (Router::start_with(options), Router::start());
        far.plane.listen(ListenSpec::Ethernet("vb".to_owned())).unwrap();
        let (producer, producer_face) = far.connect();
        far.route("/a", producer_face);
        let producing = std::thread::spawn(move || produce(producer));
        let settings =
            FaceSettings { persistency: Some(FacePersistency::Permanent), ..FaceSettings::default() };
        let remote = uri(&format!("ether://[{FAR}]"));
        let spec = FaceSpec { remote, local: Some(uri("dev://va")), settings };
        let face = FaceId(near.plane.create_face(spec).unwrap().face_id);
        near.route("/a", face);
        is_answered(&near, "before");

        let idle = removals(&namespace, &near, face);
        let load = Load::start(&near);
        let sent = near.status(face).out_interests;
        eventually("it sends", || near.status(face).out_interests > sent + 1000);
        let loaded = removals(&namespace, &near, face);
        drop(load);
        println!("median {:?}, longest {:?}; idle {:?} and {:?}", loaded[7], loaded[14], idle[7], idle[14]);
        // The load may have the processor for some slices, because `ip` is a process of its own. A
        // removal that waited for the packets queued for the device would not end before the load
        // does.
        let allowed = Duration::from_millis(500);
        assert!(loaded[ROUNDS - 1] < idle[ROUNDS - 1] + allowed, "idle {idle:?}, under load {loaded:?}");

        is_answered(&near, "after");
        near.plane.destroy_face(face).unwrap();
        drop((near, far));
        producing.join().unwrap();
    });
}

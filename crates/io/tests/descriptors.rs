//! A process without file descriptors. The test is alone in its process, because it lowers the
//! limit of the process.

mod support;

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use namely_io::IoOptions;
use namely_testkit::eventually;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Resource, getrlimit, setrlimit};
use support::{Loop, packet};

#[test]
fn a_listener_without_descriptors_resumes_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.sock");
    let io = Loop::start(IoOptions::default());
    let listened = path.clone();
    io.with(move |io| io.listen_unix(&listened, 0o600)).unwrap();
    let client =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .unwrap();
    let limit = getrlimit(Resource::Nofile);
    // The next descriptor would have this number.
    let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64;
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(next), ..limit }).unwrap();
    let begun = Instant::now();
    rustix::net::connect(&client, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    eventually("it fails to accept", || io.listener_drops("accept_failed") > 0);
    std::thread::sleep(Duration::from_millis(500));
    let failures = io.listener_drops("accept_failed");
    // The listener rests for 100 ms after each attempt. This thread may have slept for longer.
    let most = 2 + begun.elapsed().as_millis() / 100;
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(u128::from(failures) <= most, "{failures} attempts, not {most}: the loop spins");
    let id = io.accepted();
    rustix::io::write(&client, &packet(10, 1)).unwrap();
    assert_eq!(io.next_frame(), (id, packet(10, 1)));
}

//! A router with nothing to do does nothing. The test has a process of its own, so that it can
//! identify the router's thread by its name.

use crate::support;

use std::time::Duration;

use support::{Router, data, interest};

/// Returns the number of sleeps of the data plane's thread.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let workers: Vec<u64> = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .filter(|status| status.starts_with("Name:\tdata-plane"))
        .map(|status| {
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
            line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
        })
        .collect();
    assert!(!workers.is_empty(), "the data plane has threads");
    workers.iter().sum()
}

#[test]
fn an_idle_data_plane_never_wakes_up() {
    let router = Router::start();
    router.listen_udp();
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    let _idle: Vec<_> = (0..100).map(|_| router.connect()).collect();
    router.route("/a", face);
    for n in 0..10 {
        consumer.send(&interest(&format!("/a/{n}")));
        producer.receive();
        producer.send(&data(&format!("/a/{n}"), 100));
        consumer.receive();
    }
    // An entry that was pending when it was satisfied may be visited once more.
    std::thread::sleep(Duration::from_millis(300));
    let before = sleeps();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(sleeps(), before);
}

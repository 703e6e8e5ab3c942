//! A worker polls before it sleeps only if that is configured, and never for longer than
//! configured. The test has a process of its own, so that it can identify the worker's thread by
//! its name.

use crate::support;

use std::num::NonZeroUsize;
use std::time::Duration;

use namely_dataplane::DataPlaneOptions;
use support::{Router, data, interest};

const ROUNDS: u64 = 100;

/// Maximum number of ticks of 10 ms, of 50, that are charged to an idle worker. A worker that
/// continued to poll would be charged with most of them. The limit is not 0, because the kernel
/// charges a whole tick to the running thread.
const IDLE_TICKS_MAX: u64 = 3;

/// Returns the number of sleeps of the data plane's thread, and its CPU time in ticks of the
/// system's clock.
fn worker() -> (u64, u64) {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut workers = tasks.flatten().filter_map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = |start: &str| status.lines().find(|line| line.starts_with(start));
        line("Name:\tdata-plane")?;
        let sleeps = line("voluntary_ctxt_switches")?.split_whitespace().last()?.parse().ok()?;
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        // User and system time are the 14th and 15th fields; the name, which is the second, has no
        // blanks.
        let ticks = stat.split_whitespace().skip(13).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        Some((sleeps, ticks))
    });
    workers.next().expect("the data plane has a thread")
}

/// Returns the number of sleeps of a worker during the round trips, and the ticks that it runs in
/// half a second of idleness after them.
fn observe(busy_poll_us: u32) -> (u64, u64) {
    let mut options = DataPlaneOptions { workers: NonZeroUsize::new(1), ..DataPlaneOptions::default() };
    options.io.busy_poll_us = busy_poll_us;
    let router = Router::start_with(options);
    let ((mut consumer, _), (mut producer, face)) = (router.connect(), router.connect());
    router.route("/a", face);
    let (before, _) = worker();
    for n in 0..ROUNDS {
        let name = format!("/a/{n}");
        consumer.send(&interest(&name));
        producer.receive();
        producer.send(&data(&name, 100));
        consumer.receive();
        // Long enough that a worker without polling goes to sleep, far shorter than the polling.
        std::thread::sleep(Duration::from_millis(1));
    }
    let (after, _) = worker();
    // An entry that was pending when it was satisfied may be visited once more.
    std::thread::sleep(Duration::from_millis(300));
    let (_, idle) = worker();
    std::thread::sleep(Duration::from_millis(500));
    (after - before, worker().1 - idle)
}

#[test]
fn workers_busy_poll_only_on_request() {
    let (sleeps, ticks) = observe(0);
    assert!(sleeps >= ROUNDS, "without polling it sleeps between packets: {sleeps}");
    assert!(ticks <= IDLE_TICKS_MAX, "idleness costs nothing: {ticks} ticks");
    let (sleeps, ticks) = observe(10_000);
    assert!(sleeps < ROUNDS / 2, "the next packet comes while it looks: {sleeps}");
    assert!(
        ticks <= IDLE_TICKS_MAX,
        "it looks for 10 ms after the last packet, and then sleeps: {ticks} ticks"
    );
}

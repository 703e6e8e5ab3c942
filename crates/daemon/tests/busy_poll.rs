//! A worker that looks for a while before it sleeps: only where that is asked for, and never for
//! longer. Alone in its process, so that its thread can be told by its name.

use crate::support;

use std::num::NonZeroUsize;
use std::time::Duration;

use namely_dataplane::DataPlaneOptions;
use support::{Router, data, interest};

const ROUNDS: u64 = 100;

/// Ticks of 10 ms, of 50, that an idle worker may be charged with: whoever polled on would be
/// charged with most. Above none, since a tick is charged whole to the thread that it meets.
const IDLE_TICKS_MAX: u64 = 3;

/// Of the data plane's thread: how often it went to sleep, and how long it ran, in ticks of the
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

/// How often a worker sleeps in so many round trips, and how many ticks it runs in half a second of
/// idleness after them.
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
        // Long enough that whoever does not poll goes to sleep, far shorter than the polling.
        std::thread::sleep(Duration::from_millis(1));
    }
    let (after, _) = worker();
    // What was pending when it was satisfied may be looked at once more.
    std::thread::sleep(Duration::from_millis(300));
    let (_, idle) = worker();
    std::thread::sleep(Duration::from_millis(500));
    (after - before, worker().1 - idle)
}

#[test]
fn a_worker_polls_only_when_asked_to_and_sleeps_when_nothing_comes() {
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

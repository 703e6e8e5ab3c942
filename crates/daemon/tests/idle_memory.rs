//! The memory of a router with nothing to do.

use namely_testkit::wait_until_true;

use crate::common::Daemon;

/// KiB of private memory of a router with two workers, without its program's text.
const IDLE_KIB_MAX: u64 = 6 << 10;

fn private_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it has a line");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn an_idle_router_takes_little_memory() {
    let daemon = Daemon::start_with("[faces]\nworkers = 2\n", &[]);
    daemon.connect().register("/x");
    // The control thread returns the memory of the start a second later.
    let is_small = wait_until_true(|| private_kib(daemon.pid()) <= IDLE_KIB_MAX);
    let kib = private_kib(daemon.pid());
    println!("{kib} KiB");
    assert!(is_small, "{kib} KiB");
}

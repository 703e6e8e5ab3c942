//! The traffic of many routers on one bridge, and the time until a missing one is noticed.

use std::time::{Duration, Instant};

use namely_testkit::eventually;

use crate::segment::{HEARTBEAT_MS, Net, counter};

#[test]
fn thirty_bridged_routers_find_one_another() {
    const ROUTERS: usize = 30;
    let Some(net) = Net::new(&[1500; ROUTERS]) else { return };
    let mut all: Vec<_> = (0..ROUTERS).map(|i| net.plain_router(i)).collect();
    for router in &mut all {
        net.wait_for_neighbours(router, ROUTERS - 1);
    }
    // At rest: the octets that a device has sent in two heartbeats of three seconds.
    std::thread::sleep(Duration::from_secs(1));
    let sent = || -> Vec<u64> { (0..ROUTERS).map(|i| net.sent_octets(i)).collect() };
    let (before, began) = (sent(), Instant::now());
    std::thread::sleep(Duration::from_secs(6));
    let after = sent();
    let octets = after.iter().zip(&before).map(|(after, before)| after - before).max().unwrap();
    let bits_per_second = octets as f64 * 8.0 / began.elapsed().as_secs_f64();
    assert!(bits_per_second < 10_000.0, "{bits_per_second} bit/s of one router");
    for router in &mut all {
        assert_eq!(counter(router, "neighbours_expired"), 0);
        assert_eq!(counter(router, "rate_limited") + counter(router, "strangers_limited"), 0);
    }
}

#[test]
fn a_dead_router_expires_after_three_heartbeats() {
    let Some(net) = Net::new(&[1500, 1500]) else { return };
    let mut a = net.router(0, "open = true", &[]);
    let dying = net.router(1, "prefixes = [\"/dying\"]", &[]);
    eventually("the route", || a.client.routes("/dying").len() == 1);
    let dead = Instant::now();
    dying.daemon.kill();
    eventually("no route", || a.client.routes("/dying").is_empty());
    // A margin of two seconds for a busy machine.
    let limit = Duration::from_millis(3 * HEARTBEAT_MS + 2000);
    assert!(dead.elapsed() < limit, "{:?}", dead.elapsed());
}

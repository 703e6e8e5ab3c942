//! A Data for many consumers lies in one buffer, however slowly each of them reads it (IS-28,
//! IS-32). The test has a process of its own, because it measures the memory of the process.

mod support;

use std::fs;

use namely_dataplane::{DataPlaneOptions, buffers_made};
use namely_forwarder::Config;
use namely_testkit::eventually;
use namely_wire::InterestBuilder;
use support::{LIFETIME_MS, Router, data, name};

const CONSUMERS: usize = 40;
const NAMES: usize = 100;

/// Octets of this process that are in memory.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

#[test]
fn many_consumers_share_one_data_buffer() {
    let mut config = Config::new(|_| [0; 32]);
    config.cs.packets_max = 0;
    let router = Router::start_with_config(DataPlaneOptions::default(), config);
    let (mut producer, face) = router.connect();
    router.route("/a", face);
    let mut consumers: Vec<_> = (0..CONSUMERS).map(|_| router.connect()).collect();
    let names: Vec<String> = (0..NAMES).map(|n| format!("/a/{n}")).collect();
    for (n, (app, _)) in consumers.iter_mut().enumerate() {
        // Each consumer has a Nonce of its own. Otherwise its Interests would be duplicates.
        let packet = |uri| {
            let interest = InterestBuilder::new(name(uri)).nonce([n as u8; 4]);
            interest.lifetime_ms(LIFETIME_MS).build()
        };
        app.send(&names.iter().flat_map(|uri| packet(uri)).collect::<Vec<u8>>());
    }
    names.iter().for_each(|_| drop(producer.receive()));
    let counters = |face| router.status(face);
    eventually("all have asked", || {
        consumers.iter().all(|(_, face)| counters(*face).in_interests == NAMES as u64)
    });

    let (buffers, octets) = (buffers_made(), resident());
    names.iter().for_each(|name| producer.send(&data(name, 8000)));
    eventually("all are answered", || {
        consumers.iter().all(|(_, face)| counters(*face).out_data == NAMES as u64)
    });
    let (buffers, octets) = (buffers_made() - buffers, resident().saturating_sub(octets));
    // A socket holds some 25 unread packets. The rest waits in the router: 3000 packets, which
    // would be 24 MB if they were copied.
    assert!(buffers < 4 * NAMES as u64, "{buffers} buffers for {NAMES} Data");
    assert!(octets < 6 << 20, "{octets} octets of memory for {NAMES} Data");

    for (app, _) in &mut consumers {
        for name in &names {
            assert_eq!(app.receive_parts().1, data(name, 8000));
        }
    }
}

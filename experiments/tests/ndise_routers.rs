//! `namely-experiments ndise-routers`, some seconds of its ways, with real routers.

use crate::common;

use std::process::Command;

use namely_testkit::{Need, skip};
use serde_json::Value;

/// The lines of a run; none, with a skip, if it cannot run.
fn lines(arguments: &[&str]) -> Option<Vec<Value>> {
    let program = common::experiments_beside_programs()?;
    let mut command = Command::new(program);
    command.args(["ndise-routers", "--runs", "1", "--json"]).args(arguments);
    let output = command.output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("no network namespaces here") || said.contains("cannot start unshare") {
        skip(Need::Namespaces, said);
        return None;
    }
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

/// VI-24, VI-29.
#[test]
fn real_service_routers_fill_their_caches() {
    let Some(lines) = lines(&["--experiment", "service", "--arm", "vip", "--seconds", "9"]) else { return };
    let line = &lines[0];
    assert_eq!((&line["place"], &line["arm"]), (&"service".into(), &"vip".into()));
    for consumer in line["consumers"].as_array().expect("consumers") {
        assert!(consumer["bps"].as_f64() > Some(100_000.0), "{line}");
        // The delay is at least that of the nearest forwarder, and at most the time until a
        // retransmission.
        let delay_ms = consumer["delay_ms"].as_f64();
        assert!(delay_ms.is_some_and(|ms| (20.0..2000.0).contains(&ms)), "{line}");
    }
    // Stores have room for five objects. The forwarders have VIPs only if neighbors reported the
    // requests at the consumers' routers to one another.
    for held in line["held"].as_array().expect("two forwarders") {
        let looks: Vec<(Vec<usize>, usize)> = serde_json::from_value(held.clone()).expect("ranks");
        assert!(looks.iter().any(|(ranks, _)| !ranks.is_empty()), "{line}");
        assert!(looks.iter().all(|(ranks, _)| ranks.len() <= 5), "{line}");
    }
}

///
#[test]
fn real_routers_plan_for_memory_and_disk() {
    let run = ["--experiment", "tiers", "--arm", "vip, disk", "--seconds", "3"];
    let Some(lines) = lines(&run) else { return };
    let line = &lines[0];
    assert_eq!((&line["place"], &line["arm"]), (&"tiers".into(), &"vip, disk".into()));
    for consumer in line["consumers"].as_array().expect("consumers") {
        assert!(consumer["bps"].as_f64() > Some(100_000.0), "{line}");
    }
    let mut kept_most = 0;
    for (tier, room) in [("held", 5), ("held_on_disk", 10)] {
        let looks: Vec<Vec<(Vec<usize>, usize)>> = serde_json::from_value(line[tier].clone()).expect("ranks");
        let kept: Vec<usize> = looks.iter().flatten().map(|(ranks, _)| ranks.len()).collect();
        assert!(kept.iter().all(|kept| *kept <= room), "{tier}: {line}");
        kept_most = kept_most.max(kept.into_iter().max().unwrap_or(0));
    }
    assert!(kept_most > 0, "{line}");
    // There is room for ten objects of 128 packets of 6400 octets. A router assumes a larger size
    // for each. The assumed rate is the configured one or, after a read, at most the disk's.
    for disk in line["disks"].as_array().expect("two forwarders") {
        let objects = disk["room"].as_u64().map(|octets| octets / (128 * 6400));
        assert!(objects.is_some_and(|objects| (7..10).contains(&objects)), "{line}");
        let octets_per_s = disk["octets_per_s"].as_u64();
        assert!(octets_per_s.is_some_and(|rate| (1..=4_000_000).contains(&rate)), "{line}");
    }
}

/// VI-03, VI-17.
#[test]
fn a_catalogue_reload_loses_no_interest() {
    let Some(lines) = lines(&["--experiment", "names", "--names", "6000", "--seconds", "3"]) else { return };
    let line = &lines[0];
    assert_eq!((&line["experiment"], &line["names"]), (&"names".into(), &6000.into()));
    assert_eq!((&line["retransmissions"], &line["wrong"]), (&0.into(), &0.into()), "{line}");
    for pings in [&line["pings"], &line["reload"]["pings"]] {
        assert_eq!(pings["lost"], 0, "{line}");
        assert!(pings["count"].as_u64() > Some(10) && pings["p99_us"].as_f64() > Some(0.0), "{line}");
    }
    assert!(line["bps"].as_f64() > Some(1e6) && line["reload"]["bps"].as_f64() > Some(1e6), "{line}");
    assert_eq!(line["finished"], true, "{line}");
    // The router counted VIPs, so it found the objects of the fetched names.
    assert!(line["asked"].as_f64() > Some(0.0), "{line}");
}

/// VI-23. The link is slow enough for a busy machine.
#[test]
fn twelve_consumers_fill_a_link() {
    let ways = ["--arm", "plain relays", "--arm", "routers, cache at the server"];
    let load = ["--consumers", "6,12", "--seconds", "3", "--rate-mbps", "20"];
    let Some(lines) = lines(&[&["--experiment", "throughput"][..], &ways, &load].concat()) else { return };
    let mean_bps = |way: &str, consumers: u64| {
        let line = lines.iter().find(|line| line["way"] == way && line["consumers"] == consumers);
        line.and_then(|line| line["mean_bps"].as_f64()).unwrap_or_else(|| panic!("no such run: {lines:?}"))
    };
    let routers = |consumers| mean_bps("routers, cache at the server", consumers);
    assert!(routers(12) > 0.8 * mean_bps("plain relays", 12), "{lines:?}");
    assert!(routers(12) > 1.15 * routers(6), "{lines:?}");
    for line in &lines {
        assert_eq!(line["wrong"], 0, "{line}");
        // No more than the link carries: the counted packets crossed it.
        assert!(line["mean_bps"].as_f64() < Some(25e6), "{line}");
    }
}

#[test]
fn consumers_finish_after_a_router_fault() {
    let Some(lines) = lines(&["--experiment", "faults", "--seconds", "3", "--rate-mbps", "20"]) else {
        return;
    };
    let faults: Vec<&str> = lines.iter().filter_map(|line| line["fault"].as_str()).collect();
    assert_eq!(faults, ["router killed", "link down"]);
    for line in &lines {
        let bps = |when: &str| line[when].as_f64().unwrap_or_else(|| panic!("{when}: {line}"));
        assert_eq!((&line["finished"], &line["wrong"]), (&6.into(), &0.into()), "{line}");
        assert!(bps("before_bps") > 1e6 && bps("after_bps") > 1e6, "{line}");
        assert!(bps("meanwhile_bps") < bps("before_bps") / 4.0, "{line}");
        // Lost Interests are sent again every two seconds.
        assert!(line["retransmissions"].as_u64() > Some(0) && bps("back_s") < 20.0, "{line}");
    }
}

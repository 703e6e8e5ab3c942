//! Tests that run the experiment `ndp` once, with small parameters.

use crate::common;

use std::process::Command;

use namely_testkit::{Need, skip};
use serde_json::Value;

/// Returns the output of an experiment. If it cannot run, skips the test and returns none.
fn run(arguments: &[&str]) -> Option<Vec<Value>> {
    let own = common::experiments_beside_programs()?;
    let output = Command::new(own).arg("ndp").args(arguments).arg("--json").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("no network namespaces here") || errors.contains("cannot start unshare") {
        skip(Need::Namespaces, errors);
        return None;
    }
    assert!(output.status.success(), "{errors}");
    let printed = String::from_utf8(output.stdout).unwrap();
    Some(printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn discovery_carries_files_between_any_mtus() {
    let plot = tempfile::tempdir().unwrap();
    let path = plot.path().join("mtu.svg");
    let arguments = [
        "mtu",
        "--mtus",
        "127,9000",
        "--octets",
        "40000",
        "--seconds",
        "20",
        "--plot",
        path.to_str().unwrap(),
    ];
    let Some(cases) = run(&arguments) else { return };
    assert_eq!(cases.len(), 8);
    for case in &cases {
        let mtu = |key: &str| case[key].as_u64().unwrap();
        let fits = mtu("producer_mtu") <= mtu("consumer_mtu");
        let is_complete = case["arm"] == "discovery" || fits;
        assert_eq!(case["succeeded"].as_u64(), Some(u64::from(is_complete)), "{case}");
    }
    assert!(std::fs::read_to_string(path).unwrap().contains("</svg>"));
}

#[test]
fn the_grid_runs_with_and_without_discovery() {
    let Some(rows) = run(&["grid", "--runs", "1", "--octets", "30000", "--seconds", "90"]) else { return };
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row["complete"], true, "{row}");
        assert!(row["throughput_mbit_s"].as_f64() > Some(0.0), "{row}");
        assert!(row["multicast_interests"].as_f64() > Some(0.0), "{row}");
    }
    let data = |n: usize| rows[n]["multicast_data"].as_f64().unwrap();
    // A discovery sends its Interest to the group, too, so its first Data may arrive by the group.
    // On a loaded machine this is more frequent.
    assert!(5.0 * data(0) < data(1), "by unicast once neighbors are found: {rows:?}");
}

#[test]
fn longer_heartbeats_cause_fewer_hellos() {
    let Some(points) = run(&["heartbeat", "--heartbeats-ms", "300,3000", "--seconds", "2", "--runs", "2"])
    else {
        return;
    };
    let received = |n: usize| points[n]["heard_per_min"].as_f64().unwrap();
    assert!(points.len() == 2 && received(0) > received(1), "{points:?}");
    assert!(points.iter().all(|point| point["set_up_ms"].as_f64() > Some(0.0)), "{points:?}");
}

#[test]
fn unlearned_interests_flood_the_grid() {
    let arguments = ["grid", "--runs", "1", "--octets", "30000", "--seconds", "90", "--flooding"];
    let Some(rows) = run(&arguments) else { return };
    let plain = rows.iter().find(|row| row["arm"] == "flooding").unwrap();
    assert_eq!(plain["complete"], true, "{plain}");
    let count = |key: &str| plain[key].as_f64().unwrap();
    // The network has 17 nodes and 20 links. Data crosses only the links on the path.
    assert!(count("multicast_interests") > 1.5 * count("multicast_data"), "{plain}");
}

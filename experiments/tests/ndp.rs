//! `ndp`, run for real, once and small.

use crate::common;

use std::process::Command;

use namely_skip::{Need, skip};
use serde_json::Value;

/// What an experiment printed; none, after saying why, where it cannot be run.
fn run(arguments: &[&str]) -> Option<Vec<Value>> {
    let own = common::experiments_beside_programs()?;
    let output = Command::new(own).arg("ndp").args(arguments).arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("no network namespaces here") || said.contains("cannot start unshare") {
        skip(Need::Namespaces, said);
        return None;
    }
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    Some(printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn with_discovery_files_cross_between_any_mtus_and_without_it_short_ones_get_none() {
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
fn the_grid_is_built_and_measured_with_discovery_and_without() {
    let Some(rows) = run(&["grid", "--runs", "1", "--octets", "30000", "--seconds", "90"]) else { return };
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row["complete"], true, "{row}");
        assert!(row["throughput_mbit_s"].as_f64() > Some(0.0), "{row}");
        assert!(row["multicast_interests"].as_f64() > Some(0.0), "{row}");
    }
    let data = |n: usize| rows[n]["multicast_data"].as_f64().unwrap();
    // A discovery asks the group as well, and its first Data may come by the group.
    assert!(10.0 * data(0) < data(1), "by unicast once neighbours are found: {rows:?}");
}

#[test]
fn fewer_hellos_are_heard_when_there_is_more_time_between_them() {
    let Some(points) = run(&["heartbeat", "--heartbeats-ms", "300,3000", "--seconds", "2", "--runs", "2"])
    else {
        return;
    };
    let heard = |n: usize| points[n]["heard_per_min"].as_f64().unwrap();
    assert!(points.len() == 2 && heard(0) > heard(1), "{points:?}");
    assert!(points.iter().all(|point| point["set_up_ms"].as_f64() > Some(0.0)), "{points:?}");
}

#[test]
fn where_nothing_is_learned_each_interest_goes_everywhere() {
    let arguments = ["grid", "--runs", "1", "--octets", "30000", "--seconds", "90", "--flooding"];
    let Some(rows) = run(&arguments) else { return };
    let plain = rows.iter().find(|row| row["arm"] == "flooding").unwrap();
    assert_eq!(plain["complete"], true, "{plain}");
    let count = |key: &str| plain[key].as_f64().unwrap();
    // Of a network of 17 nodes and 20 links, Data crosses only what is on the way.
    assert!(count("multicast_interests") > 1.5 * count("multicast_data"), "{plain}");
}

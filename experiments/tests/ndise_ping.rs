//! `namely-experiments ndise-ping`, a second of each way.

use crate::common;

use std::process::Command;

use serde_json::Value;

/// VI-20. Round trips are measured on a quiet machine. Here none is lost, counts of all neighbors
/// arrive meanwhile, and nothing blocks the router for long.
#[test]
fn a_router_answers_pings_during_its_exchange() {
    let Some(program) = common::experiments_beside_programs() else { return };
    let mut command = Command::new(program);
    command.args(["ndise-ping", "--turns", "1", "--seconds", "1", "--neighbours", "32", "--objects", "40"]);
    // Slots that two busy processors can keep up with.
    command.args(["--period-ms", "500", "--packets", "5000", "--neighbours-share", "same", "--json"]);
    let output = command.output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let ways: Vec<&str> = lines.iter().filter_map(|line| line["way"].as_str()).collect();
    assert_eq!(ways, ["without VIP", "with VIP", "while an object leaves"]);
    let p99_us = |line: &Value| line["pings"]["p99_us"].as_f64().expect("round trips");
    for line in &lines {
        assert_eq!(line["lost"], 0, "{line}");
        assert!(p99_us(line) <= 20.0 * p99_us(&lines[0]) + 100_000.0, "{printed}");
    }
    println!("p99 of pings, us: {:?}", lines.iter().map(p99_us).collect::<Vec<_>>());
    assert!(lines[1]["counts_heard_per_s"].as_f64() >= Some(16.0), "{printed}");
    assert!(lines[1]["counts_told_per_s"].as_f64() >= Some(16.0), "{printed}");
    assert_eq!(lines[1]["objects_with_counts"], 40, "{printed}");
}

//! `namely-experiments ndise-routers`, some seconds of one way, with real routers.

mod common;

use std::process::Command;

use namely_skip::{Need, skip};
use serde_json::Value;

/// VI-24, VI-29.
#[test]
fn real_routers_of_the_service_network_fill_what_they_have_room_for_by_a_signed_exchange() {
    let Some(program) = common::experiments_beside_programs() else { return };
    let mut command = Command::new(program);
    command.args(["ndise-routers", "--experiment", "service", "--arm", "vip", "--runs", "1"]);
    let output = command.args(["--seconds", "9", "--json"]).output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("no network namespaces here") || said.contains("cannot start unshare") {
        return skip(Need::Namespaces, said);
    }
    assert!(output.status.success(), "{said}");
    let line: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&line["place"], &line["arm"]), (&"service".into(), &"vip".into()));
    for consumer in line["consumers"].as_array().expect("consumers") {
        assert!(consumer["bps"].as_f64() > Some(100_000.0), "{line}");
        // No sooner than by the nearest forwarder, and no later than it is asked for again.
        let delay_ms = consumer["delay_ms"].as_f64();
        assert!(delay_ms.is_some_and(|ms| (20.0..2000.0).contains(&ms)), "{line}");
    }
    // Rooms are of five objects: what is asked for at the consumers' routers was told from
    // neighbour to neighbour, or the forwarders would know of none.
    for held in line["held"].as_array().expect("two forwarders") {
        let looks: Vec<(Vec<usize>, usize)> = serde_json::from_value(held.clone()).expect("ranks");
        assert!(looks.iter().any(|(ranks, _)| !ranks.is_empty()), "{line}");
        assert!(looks.iter().all(|(ranks, _)| ranks.len() <= 5), "{line}");
    }
}

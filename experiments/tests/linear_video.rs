//! The experiment itself, short and small. Over TCP, the server answers every request of every
//! viewer. Over names, it answers the same request once.

use crate::common;

use std::process::Command;

use serde_json::Value;

#[test]
fn the_origin_answers_once_for_all_viewers() {
    let Some(own) = common::experiments_beside_programs() else { return };
    let plot = tempfile::NamedTempFile::new().unwrap();
    let ran = Command::new(own)
        .args([
            "linear-video",
            "--viewers",
            "12",
            "--channels",
            "2",
            "--seconds",
            "8",
            "--stay",
            "30",
            "--scale",
            "0.02",
        ])
        .args(["--no-proxy", "--json", "--plot"])
        .arg(plot.path())
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    let outcomes: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [tcp, names] = &outcomes[..] else { panic!("{text}") };
    assert_eq!((tcp["mode"].as_str(), names["mode"].as_str()), (Some("tcp"), Some("names")));
    for outcome in [tcp, names] {
        let seen = &outcome["seen"];
        assert!(
            seen["segments"].as_u64() > Some(12) && seen["failed"] == 0 && seen["wrong"] == 0,
            "{outcome}"
        );
    }
    let share = |outcome: &Value| {
        outcome["server_requests"].as_f64().unwrap() / outcome["seen"]["requests"].as_f64().unwrap()
    };
    assert_eq!(share(tcp), 1.0);
    assert!(share(names) < 0.7, "12 viewers of 8 streams: {names}");
    let plot = std::fs::read_to_string(plot.path()).unwrap();
    assert!(plot.contains("<svg") && plot.contains("requests at the server"), "a plot");
}

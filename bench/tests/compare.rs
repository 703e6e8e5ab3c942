//! `compare`, run for real.

use std::process::Command;

use namely_testkit::{Need, skip};

/// Runs `namely-bench compare --quick --no-namespace` with `arguments`; returns the JSON lines.
fn compare(arguments: &[&str]) -> Vec<serde_json::Value> {
    compare_anywhere(&[&["--no-namespace"], arguments].concat()).0
}

/// As `compare`, but in a network namespace of its own if possible. Also returns the other output.
fn compare_anywhere(arguments: &[&str]) -> (Vec<serde_json::Value>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_namely-bench"))
        .args(["compare", "--quick", "--json"])
        .args(arguments)
        .output()
        .expect("namely-bench starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    (printed.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect(), said)
}

fn median(lines: &[serde_json::Value], scenario: &str, subject: &str, metric: &str) -> Option<f64> {
    let wanted = |line: &&serde_json::Value| {
        line["scenario"] == scenario && line["subject"] == subject && line["metric"] == metric
    };
    lines.iter().find(wanted)?["median"].as_f64()
}

#[test]
fn the_ceiling_is_measured_in_every_scenario() {
    let lines = compare(&["--subject", "relay"]);
    for scenario in ["unix-8000", "unix-1200", "tcp-8000", "udp-2routers", "cache-unix"] {
        assert_eq!(median(&lines, scenario, "relay", "failed"), Some(0.0), "{scenario}");
        assert!(median(&lines, scenario, "relay", "goodput_mbps").is_some_and(|g| g > 0.0), "{scenario}");
        assert!(median(&lines, scenario, "relay", "cpu_us_per_exchange").is_some(), "{scenario}");
    }
    assert_eq!(median(&lines, "ping-unix", "relay", "failed"), Some(0.0));
    let p50 = median(&lines, "ping-unix", "relay", "p50_us").expect("p50");
    assert!(median(&lines, "ping-unix", "relay", "p99_us").is_some_and(|p99| p99 >= p50 && p50 > 0.0));
    assert!(median(&lines, "unix-8000", "relay-64k", "goodput_mbps").is_some());
}

#[test]
fn an_ethernet_ceiling_carries_every_exchange() {
    let (lines, said) = compare_anywhere(&["--scenario", "ether-2routers", "--subject", "relay"]);
    if let Some(why) = said.lines().find(|line| line.contains("left out")) {
        skip(Need::Namespaces, format_args!("{why}"));
        return;
    }
    let median = |metric| median(&lines, "ether-2routers", "relay", metric);
    assert_eq!(median("failed"), Some(0.0), "{said}");
    assert!(median("goodput_mbps").is_some_and(|goodput| goodput > 0.0), "{said}");
    assert!(median("cpu_us_per_exchange").is_some(), "{said}");
}

#[test]
fn namely_moves_files_in_every_scenario() {
    let scenarios = ["unix-8000", "unix-1200", "tcp-8000", "udp-2routers", "cache-unix"];
    let lines = compare(&["--subject", "namely"]);
    if lines.iter().all(|line| line["subject"] != "namely") {
        skip(Need::Programs, "namelyd and namely are not built; `cargo test --workspace` builds them");
        return;
    }
    for scenario in scenarios {
        assert_eq!(median(&lines, scenario, "namely", "failed"), Some(0.0), "{scenario}");
        assert!(median(&lines, scenario, "namely", "goodput_mbps").is_some_and(|g| g > 0.0), "{scenario}");
    }
    assert_eq!(median(&lines, "ping-unix", "namely", "failed"), Some(0.0));
    assert_eq!(median(&lines, "multiflow", "namely", "failed"), Some(0.0));
    let fairness = median(&lines, "multiflow", "namely", "fairness");
    assert!(fairness.is_some_and(|f| (0.25..=1.0).contains(&f)), "{fairness:?}");
    assert_eq!(median(&lines, "memory", "namely", "failed"), Some(0.0));
    assert!(median(&lines, "idle", "namely", "cpu_percent").is_some());
}

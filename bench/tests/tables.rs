//! `tables`, run for real with small tables.

use std::process::{Command, Output};

fn tables(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namely-bench"))
        .args(["tables", "--quick"])
        .args(arguments)
        .output()
        .expect("namely-bench starts")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_table_scenario_prints_json_lines() {
    let printed = said(&tables(&["--json"]));
    let lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    let exchange = ["exchanges_per_second", "ns_per_exchange"];
    for (prefix, metrics) in [
        ("core-", &exchange[..]),
        ("pit-", &["exchanges_per_second", "ns_per_exchange", "bytes_per_entry"]),
        ("cs-hit-", &["ns_per_lookup", "bytes_per_entry"]),
        ("cs-miss-", &["ns_per_lookup"]),
        ("fib-", &["ns_per_insert", "bytes_per_entry"]),
        ("strategy-", &["ns_per_exchange", "bytes_per_entry"]),
    ] {
        let of: Vec<_> = lines
            .iter()
            .filter(|line| line["scenario"].as_str().is_some_and(|name| name.starts_with(prefix)))
            .collect();
        for metric in metrics {
            assert!(of.iter().any(|line| line["metric"] == *metric), "{prefix} {metric}: {printed}");
        }
        let is_positive = |line: &&serde_json::Value| line["median"].as_f64().is_some_and(|v| v > 0.0);
        // Resident memory comes in pages, which small tables may not fill.
        assert!(of.iter().filter(|line| line["unit"] != "octets").all(is_positive), "{printed}");
        assert!(of.iter().all(|line| line["subject"] == "namely" && line["runs"].as_u64().is_some()));
    }
}

#[test]
fn a_table_has_scenarios_ratio_and_machine() {
    let output = tables(&["--scenario", "core-2workers,core-4c-1M", "--runs", "2"]);
    let printed = said(&output);
    for part in ["machine: ", "load average", "runs: 2 ", "core-4c-1M ", "2 workers: "] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("pit-1M"), "{printed}");
    let progress = String::from_utf8_lossy(&output.stderr);
    assert_eq!(progress.lines().filter(|line| line.starts_with("core-")).count(), 2, "{progress}");
}

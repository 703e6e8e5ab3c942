//! Output of `namely-bench` if nothing can be measured, and for wrong usage.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namely-bench")).args(arguments).output().expect("namely-bench starts")
}

#[test]
fn a_missing_router_is_reported() {
    let output = Command::new(env!("CARGO_BIN_EXE_namely-bench"))
        .args(["attacks", "--quick", "--no-namespace", "--subject", "ndnd", "--attack", "pit"])
        .env("NDND_BIN", "/nonexistent/ndnd")
        .output()
        .expect("namely-bench starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("ndnd: absent") && printed.contains("NDND_BIN"), "{printed}");
}

#[test]
fn a_missing_subject_is_reported() {
    let output = Command::new(env!("CARGO_BIN_EXE_namely-bench"))
        .args(["compare", "--quick", "--no-namespace", "--subject", "ndnd", "--scenario", "ping-unix"])
        .env("NDND_BIN", "/nonexistent/ndnd")
        .output()
        .expect("namely-bench starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    assert!(printed.contains("ndnd: absent") && printed.contains("NDND_BIN"), "{printed}");
    assert!(printed.contains("machine: ") && printed.contains("load average"), "{printed}");
}

#[test]
fn an_unknown_scenario_is_a_usage_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_namely-bench"))
        .args(["compare", "--scenario", "warp"])
        .output()
        .expect("namely-bench starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("udp-2routers"));
}

#[test]
fn an_empty_window_is_refused() {
    let output = bench(&["links", "--quick", "--window", "0"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("as in 64"), "{said}");
}

#[test]
fn tables_help_shows_an_example() {
    let help = bench(&["tables", "--help"]);
    let help = String::from_utf8_lossy(&help.stdout);
    assert!(help.contains("Example:") && help.contains("--scenario core-4c-1M"), "{help}");
    let output = bench(&["tables", "--quick", "--scenario", "core-5c"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("core-4c-10M"));
}

//! Output of `namely-bench` if nothing can be measured, and for wrong usage.

use std::fs;
use std::process::{Command, Output, Stdio};

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

#[test]
fn an_unknown_path_leaves_no_file() {
    let directory = tempfile::tempdir().expect("a folder");
    let results = directory.path().join("paths.txt");
    let output = bench(&["paths", "--only", "nonsense", "--results", results.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no run has 'nonsense'") && said.contains("400M-100ms"), "{said}");
    assert_eq!(fs::read_dir(directory.path()).expect("the folder").count(), 0);
}

#[test]
fn a_reader_that_left_ends_output_quietly() {
    let attacks = ["attacks", "--quick", "--no-namespace", "--subject", "ndnd", "--attack", "pit"];
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_namely-bench"));
    command.args(attacks).env("NDND_BIN", "/nonexistent/ndnd").stdout(writer).stderr(Stdio::piped());
    let output = command.output().expect("namely-bench starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_fails_the_command() {
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = Command::new(env!("CARGO_BIN_EXE_namely-bench"));
    command.args(["attacks", "--quick", "--no-namespace", "--subject", "ndnd", "--attack", "pit"]);
    command.env("NDND_BIN", "/nonexistent/ndnd").stdout(full).stderr(Stdio::piped());
    let output = command.output().expect("namely-bench starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot write to standard output"), "{said}");
}

//! Runs `namely-experiments sim` in small networks.

use std::path::Path;
use std::process::{Command, Output};

use namely_testkit::snapshot;
use serde_json::Value;

fn sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namely-experiments"));
    command.arg("sim").args(arguments).output().expect("the program")
}

/// The JSON result of a run, without the lines about the machine.
fn result(arguments: &[&str]) -> Value {
    let output = sim(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(value["machine"]["events_per_s"].as_f64() > Some(0.0), "{value}");
    value.as_object_mut().expect("an object").remove("machine");
    value
}

#[test]
fn a_simulation_prints_equal_digits_for_any_threads() {
    let scenario = [
        "--nodes",
        "30",
        "--topology",
        "scale-free",
        "--seconds",
        "1",
        "--failures",
        "5",
        "--digest",
        "--json",
    ];
    let one = result(&[&scenario[..], &["--threads", "1"]].concat());
    assert!(one["answered"].as_u64() > Some(100), "{one}");
    assert_eq!(result(&[&scenario[..], &["--threads", "2"]].concat()), one);
    assert_ne!(result(&[&scenario[..], &["--seed", "2"]].concat())["digest"], one["digest"]);
}

#[test]
fn every_workload_writes_its_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    std::fs::write(&trace, "time_ms,consumer,name\n5,0,/a/1\n7,1,/b/2\n9,2,/a/1\n").expect("a file");
    let trace = trace.to_str().expect("a path");
    let workloads: [&[&str]; 4] = [
        &["--workload", "zipf", "--routes", "distance-vector"],
        &["--workload", "trace", "--trace", trace],
        &["--workload", "transfer", "--consumers", "2", "--pieces", "50"],
        &["--workload", "sync", "--producers", "3", "--rate", "2"],
    ];
    for (number, workload) in workloads.into_iter().enumerate() {
        let out = folder.path().join(number.to_string());
        let common = ["--nodes", "16", "--seconds", "1", "--json", "--out", out.to_str().expect("a path")];
        let value = result(&[&common[..], workload].concat());
        assert!(value["answered"].as_u64() > Some(2), "{workload:?}: {value}");
        assert_eq!(value["given_up"], 0, "{workload:?}: {value}");
        let read = |name: &str| std::fs::read_to_string(out.join(name)).expect("a result");
        let csv = read("samples.csv");
        assert_eq!(csv.lines().count(), 51, "{csv}");
        assert!(read("plots.svg").contains("answers/s") && read("table.txt").contains("answered"));
        assert_eq!(read("result.json").lines().count(), 1);
    }
}

/// Six routers with one bottleneck, from the file of a testbed. The same network runs in other
/// simulators (docs/simulator.md).
#[test]
fn six_routers_with_a_bottleneck_have_their_digits() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let map = repository.join("docs/testbeds/bottleneck.toml");
    let folder = tempfile::tempdir().expect("a folder");
    let network = ["--topology", "testbed", "--map", map.to_str().expect("a path"), "--content", "8000"];
    let scenarios: [(&str, &[&str]); 4] = [
        ("zipf", &["--rate", "50", "--producers", "1", "--seconds", "2"]),
        ("zipf, failing links", &["--producers", "1", "--seconds", "5", "--failures", "20"]),
        ("zipf, failing nodes", &["--producers", "1", "--seconds", "5", "--node-failures", "200"]),
        ("transfers", &["--workload", "transfer", "--producers", "1", "--pieces", "100"]),
    ];
    let mut text = String::new();
    for (number, (what, scenario)) in scenarios.into_iter().enumerate() {
        let out = folder.path().join(number.to_string());
        let out = ["--json", "--out", out.to_str().expect("a path")];
        let value = result(&[&network[..], &out[..], scenario].concat());
        assert!(value["answered"].as_u64() > Some(100), "{what}: {value}");
        let table = std::fs::read_to_string(Path::new(out[2]).join("table.txt")).expect("a table");
        text += &format!("{what}\n{table}\n");
    }
    snapshot(&repository.join("experiments/tests/snapshots/bottleneck.txt"), &text);
}

#[test]
fn a_checkpoint_resumes_to_the_same_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path");
    let whole = result(&["--nodes", "16", "--seconds", "0.5", "--json", "--checkpoint", "--out", path]);
    assert_eq!(result(&["--resume", path, "--json", "--threads", "2"]), whole);
    let file = folder.path().join("checkpoint.json");
    let text = std::fs::read_to_string(&file).expect("a checkpoint");
    let events = whole["events"].as_u64().expect("events");
    let changed = text.replace(&format!("\"events\": {events}"), &format!("\"events\": {}", events + 1));
    assert_ne!(changed, text);
    std::fs::write(&file, changed).expect("a file");
    let output = sim(&["--resume", path]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("differs from its checkpoint"), "{error}");
}

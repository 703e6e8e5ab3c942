//! Runs `namely-experiments ndise` for one seed and one minute of virtual time.

use std::process::Command;

use serde_json::Value;

fn ndise(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namely-experiments"));
    let output = command.arg("ndise").args(arguments).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Requirement VI-29.
#[test]
fn a_service_run_has_one_line_per_arm() {
    let short = ["--experiment", "service", "--seeds", "1", "--minutes", "1", "--json"];
    let text = ndise(&short);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let arms: Vec<&str> = lines.iter().map(|line| line["arm"].as_str().expect("an arm")).collect();
    let expected =
        ["best-route, no cache", "best-route, lru", "best-route, arc", "best-route, s3-fifo", "vip"];
    assert_eq!(arms, expected);
    for line in &lines {
        assert_eq!((line["measured_s"].as_u64(), line["seed"].as_u64()), (Some(20), Some(1)));
        for consumer in line["consumers"].as_array().expect("consumers") {
            let (bps, delay_ms) = (consumer["bps"].as_f64(), consumer["delay_ms"].as_f64());
            // At least eight packets in a round trip, and at most the rate at which a consumer
            // reads.
            assert!(bps.is_some_and(|bps| (1.5e6..4.1e6).contains(&bps)), "{line}");
            assert!(delay_ms.is_some_and(|ms| (20.0..200.0).contains(&ms)), "{line}");
        }
    }
    assert_eq!(lines[0]["hit_ratio"].as_f64(), Some(0.0));
    // The same program makes a table and a plot from its output.
    let folder = tempfile::tempdir().expect("a folder");
    let (from, plot) = (folder.path().join("runs.jsonl"), folder.path().join("plot.svg"));
    std::fs::write(&from, &text).expect("a file");
    let paths = [&from, &plot].map(|path| path.to_str().expect("a path"));
    let table = ndise(&["--from", paths[0], "--plot", paths[1]]);
    let bps = lines[4]["consumers"][0]["bps"].as_f64().expect("a rate") / 1e6;
    let row = table.lines().find(|row| row.starts_with("vip ")).expect("a row");
    assert!(row.contains(&format!("{bps:.2}")), "{row}");
    let svg = std::fs::read_to_string(&plot).expect("a plot");
    assert!(svg.contains("service: hit ratio, %"));
}

/// Runs each of the three faults with each of the three arms. With VIP, the accounts of all VIPs
/// balance.
#[test]
fn a_fault_run_loses_no_vip() {
    let text = ndise(&["--experiment", "faults", "--seeds", "1", "--minutes", "1", "--json"]);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 9, "{text}");
    for line in lines.iter().filter(|line| line["arm"] == "vip") {
        assert_eq!(line["wrong_books"], 0, "{line}");
        assert!(line["asked"].as_u64() > Some(0), "{line}");
        assert!(line["twice"].as_u64() <= line["twice_max"].as_u64(), "{line}");
        assert!(line["exchange_slots"].as_u64().is_some_and(|slots| slots <= 2), "{line}");
    }
}

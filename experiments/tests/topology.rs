//! `topology`, run for real, once and small.

use crate::common;

use std::process::Command;

use serde_json::Value;

#[test]
fn the_transport_topology_is_removed_afterwards() {
    let Some(own) = common::experiments_beside_programs() else { return };
    if !namely_testkit::namespaces() {
        return;
    }
    for link in ["udp", "ethernet"] {
        let mut command = Command::new(own);
        command.args([
            "topology",
            "--consumers",
            "2",
            "--size",
            "1",
            "--runs",
            "1",
            "--json",
            "--link",
            link,
            "--latency",
            "5",
        ]);
        let started = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let run = format!("nmle-{}-", started.id());
        let output = started.wait_with_output().unwrap();
        assert!(output.status.success(), "{link}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 10, "{printed}");
        let (rows, latencies) = rows.split_at(6);
        let suites: Vec<_> = latencies.iter().map(|row| row["suite"].as_str().unwrap()).collect();
        assert_eq!(suites, ["none", "RSA-2048", "ECDSA P-256", "Ed25519"]);
        assert!(latencies.iter().all(|row| row["p50_us"].as_f64() > Some(1.0)), "{printed}");
        for row in rows {
            assert!(row["goodput_mbps"]["median"].as_f64() > Some(0.0), "{row}");
            assert_eq!((row["consumers"].as_u64(), row["link"].as_str()), (Some(2), Some(link)));
        }
        let left = Command::new("ip").args(["netns", "list"]).output().unwrap();
        assert!(!String::from_utf8_lossy(&left.stdout).contains(&run), "namespaces are gone");
    }
}

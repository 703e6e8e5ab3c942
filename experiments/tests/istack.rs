//! `istack`, run for real, once and short.

use crate::common;

use std::process::Command;

use serde_json::Value;

#[test]
fn every_istack_row_is_measured() {
    let Some(own) = common::experiments_beside_programs() else { return };
    let output =
        Command::new(own).args(["istack", "--runs", "1", "--seconds", "1", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |experiment: &str| rows.iter().filter(|row| row["experiment"] == experiment).count();
    assert_eq!((of("IS-46"), of("IS-48"), of("IS-49")), (4, 5, 2), "{printed}");
    for row in &rows {
        let median = |key: &str| row[key]["median"].as_f64().unwrap();
        assert!(median("exchanges_per_second") > 0.0 && median("router_cpu_percent") > 0.0, "{row}");
        // The router's rate includes names and headers; it also carries Data that applications
        // requested and did not wait for.
        let rates = ["goodput_mbps", "goodput_with_names_mbps", "router_mbps"].map(median);
        assert!(rates.is_sorted() && rates[0] < rates[1] && median("application_percent") < 100.0, "{row}");
    }
    let all = rows.iter().find(|row| row["flows"] == 15).unwrap();
    assert!(all["producer_cpu_percent"]["median"].as_f64() > Some(0.0), "{all}");
    let memory = rows.iter().find(|row| row["flows"] == 15).unwrap()["router_mib_more"]["median"].as_f64();
    assert!(memory < Some(50.0), "fifteen consumers take less than 50 MB of the router: {memory:?}");
}

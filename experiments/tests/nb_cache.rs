//! `nb-cache`, run for real, once and small.

use crate::common;

use std::process::Command;

use namely_testkit::{Need, skip};
use serde_json::Value;

/// The output of the experiment; none, with a skip, if it cannot run.
fn run(arguments: &[&str]) -> Option<Vec<Value>> {
    let own = common::experiments_beside_programs()?;
    let mut command = Command::new(own);
    command.args(["nb-cache", "--json", "--runs", "1", "--packets", "800", "--slower", "8"]).args(arguments);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("no network namespaces here") || said.contains("cannot start unshare") {
        skip(Need::Namespaces, said);
        return None;
    }
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for row in &rows {
        assert_eq!((row["refused"].as_u64(), row["lost"].as_u64()), (Some(0), Some(0)), "{row}");
        assert!(row["rtt_ms"].as_f64() > Some(0.0) && row["kpps"].as_f64() > Some(0.0), "{row}");
        assert!(row["data"] == rows[0]["data"], "all comes in each case: {row}");
    }
    Some(rows)
}

fn sum(row: &Value, key: &str) -> u64 {
    row[key].as_array().unwrap().iter().filter_map(Value::as_u64).sum()
}

#[test]
fn every_nb_cache_case_uses_real_routers() {
    let Some(rows) = run(&["--tables", "cases,balance"]) else { return };
    let cases: Vec<&str> = rows.iter().filter_map(|row| row["case"].as_str()).collect();
    assert_eq!(cases, ["A", "B", "C", "D", "A+ECN", "B+ECN", "B+NB-CC", "A", "B"]);
    let [a, b, c, d, a_ecn, ecn, nbcc] = &rows[..7] else { panic!("{rows:?}") };
    for row in [a, c, d] {
        assert_eq!((sum(row, "bypassed"), sum(row, "unwritten")), (0, 0), "{row}");
        // On a busy machine a few Interests pass a router whose request has just expired.
        let few = a["data"].as_u64().unwrap() / 100;
        let differ = |router: usize| {
            let read = |row: &Value| row["read"][router].as_u64().unwrap();
            read(row).abs_diff(read(a))
        };
        assert!((0..4).all(|router| differ(router) <= few), "each reads all that it holds: {row}\n{a}");
    }
    assert!(b["bypassed"][0].as_u64() > Some(0), "R1 passes requests on when its disk is busy: {b}");
    assert!(b["read"][3].as_u64() > a["read"][3].as_u64(), "R4 answers it: {b}");
    // NB-24, NB-30: a router that does not wait is faster on any machine. The difference depends on
    // the machine.
    assert!(b["rtt_ms"].as_f64() < a["rtt_ms"].as_f64(), "{a}\n{b}");
    assert!(b["taken_ms"].as_f64() < a["taken_ms"].as_f64(), "{a}\n{b}");
    // R1 counts the packets in its queue and marks. So its consumer keeps the queue short.
    let most = |row: &Value| row["most"][1].as_u64().unwrap();
    assert!(a_ecn["marked"].as_u64() > Some(0) && a["marked"] == 0, "{a_ecn}");
    assert!(most(a) > 64 && most(a_ecn) < most(a), "{a}\n{a_ecn}");
    assert_eq!((sum(a_ecn, "bypassed"), &a_ecn["read"]), (0, &a["read"]), "it waits, as A does: {a_ecn}");
    for row in [a_ecn, ecn, nbcc] {
        assert!(row["window"].as_f64() > Some(1.0) && row["rtt_ms"].as_f64() < a["rtt_ms"].as_f64(), "{row}");
    }
    // NB-23: R1 has timed its paths, and the reads of B take longest. For packets that end within
    // an iteration, R1 times only a sample of batches. The sample may miss the packets that found
    // R1 busy.
    let timed = |path: usize| b["timed_ms"][path]["timed"].as_u64().unwrap();
    assert!((1..=3).all(|path| timed(path) > 0), "{b}");
    let ms = |path: usize| b["timed_ms"][path]["mean_ms"].as_f64().unwrap();
    assert!(ms(2) > ms(1) && ms(2) > ms(3) && ms(2) > ms(4), "{b}");
}

#[test]
fn thresholds_threads_and_disks_are_swept() {
    let arguments = ["--tables", "thresholds,threads,disks", "--thresholds", "0,64,none", "--threads", "1,4"];
    let Some(rows) = run(&arguments) else { return };
    let of = |table: &str| rows.iter().filter(|row| row["table"] == table).collect::<Vec<_>>();
    let [zero, some, none, marked] = of("thresholds")[..] else { panic!("{rows:?}") };
    assert_eq!(zero["read"][0], 0, "threshold 0: R1's disk is never read: {zero}");
    assert!(sum(zero, "bypassed") > sum(some, "bypassed") && sum(none, "bypassed") == 0);
    assert_eq!((marked["case"].as_str(), marked["threshold"].as_u64()), (Some("B+NB-CC"), Some(64)));
    assert_eq!(of("threads").len(), 2);
    let disks = of("disks");
    // The kernel may not limit disks here.
    let [ssd, hdd, .., own] = disks[..] else { panic!("{rows:?}") };
    assert_eq!((hdd["disk"].as_str(), own["disk"].as_str()), (Some("HDD"), Some("own disk")));
    let throttled = disks.iter().find(|row| row["disk"] == "HDD by kernel");
    assert!(throttled.is_none_or(|row| row["kpps"].as_f64() < ssd["kpps"].as_f64()), "{disks:?}");
    assert!(hdd["kpps"].as_f64() < ssd["kpps"].as_f64(), "{ssd}\n{hdd}");
}

/// The paper's prototype writes each Data by a request of its own, and receives reports of reads
/// late.
#[test]
fn prototype_writes_and_late_reads_are_measured() {
    let cases = ["--tables", "cases", "--cases", "A,D"];
    let Some(grouped) = run(&cases) else { return };
    let alone = run(&[&cases[..], &["--writes", "alone", "--heard-late", "12.5"]].concat()).unwrap();
    for (grouped, alone) in grouped.iter().zip(&alone) {
        let held = |row: &Value| row["read"].as_array().unwrap()[..3].to_vec();
        assert_eq!(held(grouped), held(alone), "{alone}");
        let packets = alone["data"].as_u64().unwrap();
        let writes = |row: &Value| row["disk_writes"][0].as_u64().unwrap();
        assert!(writes(grouped) < packets / 20, "{grouped}");
        // R1 writes the Data that it lacks, which is more than half. A router that waits has
        // written all of it when the last Data arrives. Another router is still writing then.
        let least = if alone["case"] == "A" { packets / 2 } else { 5 * writes(grouped) };
        assert!(writes(alone) > least, "{grouped}\n{alone}");
    }
    // The delay of 12.5 ms is slowed by 8. A router that waits for its disk has no delay.
    let read_ms = |row: &Value| row["timed_ms"][2]["mean_ms"].as_f64().unwrap();
    assert!(read_ms(&alone[1]) >= 100.0 && read_ms(&alone[0]) < 100.0, "{alone:?}");
}

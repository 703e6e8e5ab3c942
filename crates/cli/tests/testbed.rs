//! `namely testbed`: the examples run, and nothing remains after any end. These tests are skipped
//! if namespaces are not available.

use crate::common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::Home;
use common::testbed::{can_build, own_options, run};
use namely_testkit::{Need, skip, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/testbeds").canonicalize().unwrap()
}

/// A program's exit status in a summary.
fn exit(summary: &Value, program: &str, node: &str) -> Option<i64> {
    let programs = summary["programs"].as_array().unwrap();
    programs.iter().find(|p| p["program"] == program && p["node"] == node).unwrap()["exit"].as_i64()
}

#[test]
fn three_bridged_routers_exchange_a_file() {
    if !can_build(own_options()) {
        return;
    }
    let home = Home::new();
    // On a busy machine the files may come before all neighbors are found.
    let meet = "[[program]]\nname = \"meet\"\nnodes = [\"a\", \"b\", \"c\"]\nrun = \"until test \
                $(namely neighbors --json | grep -c station.:.02:) = 2; do sleep 0.2; done\"\n";
    let text = fs::read_to_string(docs().join("three-on-a-bridge.toml")).unwrap();
    let file = home.path("three-on-a-bridge.toml");
    fs::write(&file, format!("{text}\n{meet}")).unwrap();
    let summary = run(&home, &file);
    assert_eq!(summary["well"], true, "{summary:#}");
    assert_eq!((exit(&summary, "get", "b"), exit(&summary, "get", "c")), (Some(0), Some(0)));
    for node in ["a", "b", "c"] {
        let neighbours = fs::read_to_string(home.path(&format!("results/{node}/neighbors.json"))).unwrap();
        let others = neighbours.lines().filter(|line| line.contains("\"station\":\"02:"));
        assert_eq!(others.count(), 2, "{node}: {neighbours}");
        assert!(!home.path(&format!("results/{node}/namely.toml")).exists());
    }
    let capture = home.path("results/b-eth0.pcap");
    let seen = home.ok(["dissect", capture.to_str().unwrap()]);
    assert!(seen.contains("/ndp/") && seen.contains("/lab/numbers.txt"), "{seen}");
}

/// NB-13: announcements on the wire.
#[test]
fn a_busy_disk_is_announced_repeatedly() {
    if !can_build(own_options()) {
        return;
    }
    let home = Home::new();
    let summary = run(&home, &docs().join("nb-cc.toml"));
    assert_eq!(summary["well"], true, "{summary:#}");
    let capture = home.path("results/a-eth0.pcap");
    let seen = home.ok(["dissect", capture.to_str().unwrap()]);
    // A packet begins with its time and its two ends.
    let mut packets = Vec::new();
    for line in seen.lines() {
        if line.contains(" -> ") {
            packets.push(String::new());
        }
        packets.last_mut().unwrap().push_str(&format!("{line}\n"));
    }
    let of = |what: &str| packets.iter().filter(|packet| packet.contains(what)).collect::<Vec<_>>();
    let (busy, free) = (of("/localhop/nb-cc/busy"), of("/localhop/nb-cc/free"));
    assert!(busy.len() >= 3 && !free.is_empty(), "{} busy, {} free", busy.len(), free.len());
    for text in busy.iter().chain(&free) {
        assert!(text.contains("10.0.0.2") && text.contains("-> ") && text.contains("HopLimit"), "{text}");
    }
    // The announcement is repeated in each period, and valid for three periods. On a busy machine a
    // period may be longer, so its end is not tested.
    let at = |packet: &str| packet.split(' ').next().unwrap().parse::<f64>().unwrap();
    let mut gaps = busy.windows(2).map(|pair| at(pair[1]) - at(pair[0]));
    assert!(gaps.any(|gap| gap > 0.05), "{busy:#?}");
    assert!(busy.iter().all(|text| text.contains("300 ms") && text.contains("HopLimit (34), 1 octet: 1")));
    let counters = fs::read_to_string(home.path("results/a/counters.json")).unwrap();
    let counters: Vec<Value> = counters.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let heard = counters.iter().find(|counter| counter["counter"] == "forwarder.congestion_heard").unwrap();
    // The capture may lack packets before its start or after its end.
    assert!(heard["value"].as_u64() >= Some((busy.len() + free.len()) as u64), "{heard}");
}

#[test]
fn nine_routers_route_around_a_cut_link() {
    if !can_build(own_options()) {
        return;
    }
    let home = Home::new();
    let summary = run(&home, &docs().join("grid-9.toml"));
    assert_eq!(summary["well"], true, "{summary:#}");
    assert_eq!((exit(&summary, "before", "r1"), exit(&summary, "across", "r1")), (Some(0), Some(0)));
    assert_eq!(summary["events"][0]["what"], "r2-r3 down");
    let nodes = summary["nodes"].as_array().unwrap();
    assert!(nodes.iter().all(|node| node["router"] == "ended well"), "{summary:#}");
    let of = |name: &str| nodes.iter().find(|node| node["node"] == name).unwrap();
    assert!(of("r3")["status"]["in"]["interests"].as_u64() > Some(0), "the first file came by r3");
    assert!(of("r7")["status"]["in"]["interests"].as_u64() > Some(0), "the second by r7");
    let carriers = summary["networks"].as_array().unwrap();
    assert!(carriers.iter().all(|network| network["carrier"] != ""), "{carriers:?}");
    let results = home.path("results");
    assert!(fs::read_to_string(results.join("topology.svg")).unwrap().contains(">r9<"));
    for file in [
        "summary.json",
        "testbed.toml",
        "r1/router.log",
        "r9/faces.json",
        "r9/counters.json",
        "r9/routes.json",
    ] {
        assert!(results.join(file).is_file(), "{file}");
    }
}

#[test]
fn testbed_init_survives_a_closed_pipe() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut init = home.namely(["testbed", "init"]);
    let end = common::ended(init.stdout(writer).output().unwrap());
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
}

#[test]
fn invalid_testbed_files_report_their_line() {
    let home = Home::new();
    for file in fs::read_dir(docs()).unwrap().flatten() {
        let listed = home.json(["testbed", "check", file.path().to_str().unwrap()]);
        assert!(listed.len() > 1 && listed[0]["ipv4"] == "10.0.0.1", "{listed:?}");
    }
    fs::write(home.path("wrong.toml"), "[[node]]\nname = \"a\"\nspeed = 9\n").unwrap();
    let said = home.fails(78, ["testbed", "check", "wrong.toml"]);
    assert!(said.contains("wrong.toml:3: unknown field `speed`"), "{said}");
    let said = home.fails(78, ["testbed", "run", "wrong.toml"]);
    assert!(said.contains("wrong.toml:3:"), "{said}");
    fs::write(home.path("init.toml"), home.ok(["testbed", "init"])).unwrap();
    let drawn = home.ok(["testbed", "check", "init.toml", "--draw", "init.svg"]);
    assert!(drawn.contains("02:00:00:00:00:03"), "{drawn}");
    assert!(fs::read_to_string(home.path("init.svg")).unwrap().ends_with("</svg>\n"));
}

/// A testbed of two nodes with a program that writes `up` into its folder, and then does `then`.
fn small(home: &Home, then: &str) -> PathBuf {
    let file = home.path("small.toml");
    let text = format!(
        "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[segment]]\nname = \"lan\"\nnodes = [\"a\", \"b\"]\n\
         delay = \"1ms\"\ncapture = true\n[[program]]\nname = \"p\"\nnode = \"b\"\n\
         run = \"setsid sleep 987654 & echo $$ > up; {then}\"\n"
    );
    fs::write(&file, text).unwrap();
    file
}

/// Processes with a working directory below this home, except `but`: every program and router of a
/// testbed is one.
fn left(home: &Home) -> Vec<u32> {
    let results = home.path("results").canonicalize().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder.starts_with(&results))
    })
    .collect()
}

fn start(home: &Home, file: &Path) -> Child {
    let mut command = home.namely(["testbed", "run", file.to_str().unwrap(), "--results", "results"]);
    // A group of its own, as a shell gives each command.
    let log = fs::File::create(home.path("testbed.log")).unwrap();
    command.process_group(0).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().unwrap();
    home.wait_for("the program", || home.path("results/b/up").is_file());
    assert!(left(home).len() >= 4, "two routers, a shell and what it started: {:?}", left(home));
    child
}

/// Returns the exit status of a testbed that receives a signal, once all its parts are gone.
fn ends_by(signal: Signal) -> Option<Option<i32>> {
    if !can_build(own_options()) {
        return None;
    }
    let home = Home::new();
    let file = small(&home, "wait");
    let mut child = start(&home, &file);
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
    let status = until("the testbed ends", || child.try_wait().unwrap());
    home.wait_for("that nothing is left", || left(&home).is_empty());
    if signal != Signal::KILL {
        // In order: captures are whole, and the summary is written.
        let summary = fs::read_to_string(home.path("results/summary.json")).unwrap();
        let summary: Value = serde_json::from_str(&summary).unwrap();
        assert_eq!(summary["interrupted"], true);
        assert!(fs::metadata(home.path("results/b-eth0.pcap")).unwrap().len() >= 24);
    }
    Some(status.code())
}

#[test]
fn ctrl_c_ends_everything_in_order() {
    let Some(code) = ends_by(Signal::INT) else { return };
    assert_eq!(code, Some(130));
}

#[test]
fn sigterm_ends_everything_in_order() {
    let Some(code) = ends_by(Signal::TERM) else { return };
    assert_eq!(code, Some(130));
}

#[test]
fn a_killed_testbed_leaves_nothing_behind() {
    let Some(code) = ends_by(Signal::KILL) else { return };
    assert_eq!(code, None);
}

#[test]
fn a_failing_program_fails_the_testbed() {
    if !can_build(own_options()) {
        return;
    }
    let home = Home::new();
    let file = small(&home, "echo no luck; exit 3");
    let said = home.fails(1, ["testbed", "run", file.to_str().unwrap(), "--results", "results"]);
    assert!(said.contains("p on b ended with status 3; see ") && said.contains("p.log"), "{said}");
    assert!(fs::read_to_string(home.path("results/b/p.log")).unwrap().contains("no luck"));
    home.wait_for("that nothing is left", || left(&home).is_empty());
}

#[test]
fn user_namespaces_run_testbeds_without_root() {
    let is_root = rustix::process::geteuid().is_root();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut probe = Command::new("setpriv");
    probe.args(nobody).args(["unshare", "--user", "--map-root-user", "--net", "true"]);
    if is_root && !probe.output().is_ok_and(|output| output.status.success()) {
        skip(Need::Kernel, "users may have no namespaces here, or there is no setpriv");
        return;
    }
    if !is_root && !can_build(own_options()) {
        return;
    }
    // The home of another user, with the files that this user can read and write.
    let home = Home::new();
    let mine = home.path("mine");
    fs::create_dir(&mine).unwrap();
    for path in [mine.parent().unwrap(), &mine] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    fs::rename(small(&home, "ping -c 1 10.0.0.1 || namely status"), mine.join("small.toml")).unwrap();
    // The programs may be in a folder that other users cannot read.
    let programs = Path::new(env!("CARGO_BIN_EXE_namely"));
    fs::copy(programs, mine.join("namely")).unwrap();
    let mut command = Command::new(mine.join("namely"));
    if is_root {
        command = Command::new("setpriv");
        command.args(nobody).arg(mine.join("namely"));
    }
    command.args(["testbed", "run", "small.toml", "--results", "results", "--json"]);
    let output = command.current_dir(&mine).env("HOME", &mine).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["well"], &summary["nodes"][0]["router"]), (&true.into(), &"ended well".into()));
}

#[test]
fn three_routers_learn_their_cache_contents() {
    if !can_build(own_options()) {
        return;
    }
    let home = Home::new();
    fs::write(home.path("learn.toml"), home.ok(["testbed", "init", "learn"])).unwrap();
    let summary = run(&home, &home.path("learn.toml"));
    assert_eq!(summary["well"], true, "{summary:#}");
    let learned = |node: &str| fs::read_to_string(home.path(&format!("results/{node}/learned.log"))).unwrap();
    let kept = |node: &str| {
        let text = learned(node);
        let kept = text.lines().filter(|line| line.contains(" memory "));
        kept.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kept("edge"), ["/hot"], "{}", learned("edge"));
    assert_eq!(kept("middle"), ["/warm"], "{}", learned("middle"));
    let counters = fs::read_to_string(home.path("results/middle/counters.json")).unwrap();
    for counted in ["vip.counts_heard", "vip.offers_heard", "vip.offers_told"] {
        assert!(counters.contains(counted), "{counted}: {counters}");
    }
}

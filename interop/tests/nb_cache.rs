//! Content stores with disks on a path with a router of another project (NB-12): NDNd or NFD
//! between two `namelyd` that have disks. The far one reports when its disk is busy. The tests are
//! skipped if the other router is not installed, or if namespaces are not available.

use std::fs;
use std::path::PathBuf;

use namely_interop::{World, find_router, namespaces, programs, run_testbed};
use namely_testkit::{Need, or_skip};
use serde_json::Value;

/// Router a has a disk, and forwards to m, the other project's router ([`NDND`], [`NFD`]). m
/// forwards to c, which has a slow disk. The producer is on c, too, so Interests can bypass that
/// disk.
const TESTBED: &str = r#"
[testbed]
name = "mixed"
duration = "100s"
[defaults]
listen = "udp"
[[node]]
name = "a"
config = """
[discovery]
enabled = false
[tables]
cs_packets_max = 16
[cs.disk]
folder = "{dir}/cs"
admission = "all"
announce_ms = 100
[[face]]
remote = "udp://{addr:m}:6363"
routes = ["/lab", "/perf"]
"""
[[node]]
name = "m"
place = [1, 0]
router = false
[[node]]
name = "c"
place = [2, 0]
config = """
[discovery]
enabled = false
[tables]
cs_packets_max = 16
[cs.disk]
folder = "{dir}/cs"
octets_max = "1MiB"
admission = "all"
engine = "threads"
threads = 1
threshold = 8
slow = "40/s"
read_ahead = false
announce_ms = 100
"""
[[link]]
between = ["a", "m"]
[[link]]
between = ["m", "c"]
capture = true

MIDDLE
[[program]]
name = "serve"
node = "c"
run = "mkdir data && seq 1 60000 > data/numbers.txt && exec namely serve data --prefix /lab"
ready = "serving "
background = true
[[program]]
name = "produce"
node = "c"
run = "exec namely perf server --payload 1000"
ready = "answering "
background = true

# Little to do: what a's disk has is served from there, and nothing passes it by.
[[program]]
name = "first"
node = "a"
after = ["routes", "serve"]
retry = "30s"
run = "namely get /lab/numbers.txt -o one && cmp one ../c/data/numbers.txt"
[[program]]
name = "nearest"
node = "a"
after = ["first"]
run = "before=$(namely --json cs info) && namely get /lab/numbers.txt -o two && cmp two one && echo \"$before\" > before && namely --json cs info > after"

# More than c's disk does, across m, of what a's no longer takes: all of it comes.
[[program]]
name = "load"
node = "a"
after = ["nearest", "produce"]
run = "namely cs config --disk-admission hit && namely --json perf client --cached 300 --rate 300 --duration 4 > load.jsonl"
# Until c's disk has said that it has time again.
[[program]]
name = "rest"
node = "c"
after = ["load"]
retry = "30s"
run = "namely dissect ../m-eth1.pcap | grep -q /localhop/nb-cc/free"
[[program]]
name = "again"
node = "a"
after = ["rest"]
run = "namely get /lab/numbers.txt -o three && cmp three one"
"#;

/// NDNd at m, with routes to c.
const NDND: &str = r#"[[program]]
name = "ndnd"
node = "m"
run = """
printf 'core: { log_level: WARN }\nfaces:\n  udp: { enabled_multicast: false }\n  tcp: { enabled: false }\n  unix: { enabled: true, socket_path: /run/m/ndnd.sock }\n  websocket: { enabled: false }\n  http3: { enabled: false }\nfw: { threads: 1 }\ntables:\n  content_store: { capacity: 16 }\n  rib: { readvertise_nlsr: false }\n' > ndnd.yml
exec ndnd fw run ndnd.yml
"""
background = true
[[program]]
name = "routes"
node = "m"
retry = "30s"
run = """
export NDN_CLIENT_TRANSPORT=unix:///run/m/ndnd.sock
ndnd fw route-add prefix=/lab face=udp4://{addr:c}:6363 && ndnd fw route-add prefix=/perf face=udp4://{addr:c}:6363
"""
"#;

/// NFD at m, with routes to c. It has a home of its own: it ends if nfdc makes the database of keys
/// in the same home at the same time.
const NFD: &str = r#"[[program]]
name = "nfd"
node = "m"
run = """
printf 'log { default_level WARN }\ntables {\n cs_max_packets 16\n strategy_choice {\n / /localhost/nfd/strategy/best-route\n /localhost /localhost/nfd/strategy/multicast\n /localhost/nfd /localhost/nfd/strategy/best-route\n }\n}\nface_system {\n unix { path /run/m/nfd.sock }\n udp { listen yes\n mcast no }\n}\nauthorizations {\n authorize {\n certfile any\n privileges {\n faces\n fib\n cs\n strategy-choice\n }\n }\n}\nrib {\n localhost_security { trust-anchor { type any } }\n prefix_announcement_validation { trust-anchor { type any } }\n}\n' > nfd.conf
export HOME="$PWD/nfd" && mkdir -p "$HOME"
exec nfd --config nfd.conf
"""
background = true
[[program]]
name = "routes"
node = "m"
retry = "30s"
run = """
export NDN_CLIENT_TRANSPORT=unix:///run/m/nfd.sock
nfdc route add prefix /lab nexthop udp4://{addr:c}:6363 && nfdc route add prefix /perf nexthop udp4://{addr:c}:6363
"""
"#;

fn lines(path: PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn ndnd_ignores_disk_announcements() {
    let found = || find_router("ndnd", "NDND_BIN").map(|program| vec![program]);
    let Some(()) = or_skip(Need::Namespaces, namespaces()) else { return };
    let Some(tools) = or_skip(Need::Peers, found()) else { return };
    carries_everything_and_minds_no_announcement(NDND, &tools);
}

#[test]
fn nfd_ignores_disk_announcements() {
    let found = || -> Result<_, String> {
        Ok(vec![find_router("nfd", "NFD_BIN")?, find_router("nfdc", "NFDC_BIN")?])
    };
    let Some(()) = or_skip(Need::Namespaces, namespaces()) else { return };
    let Some(tools) = or_skip(Need::Peers, found()) else { return };
    carries_everything_and_minds_no_announcement(NFD, &tools);
}

fn carries_everything_and_minds_no_announcement(middle: &str, tools: &[PathBuf]) {
    let world = World::new();
    let (file, results) = (world.path("mixed.toml"), world.path("results"));
    fs::write(&file, TESTBED.replace("MIDDLE", middle)).unwrap();
    run_testbed(&world, &file, &results, tools);
    let disk = |info: &Value, counter: &str| info["disk"]["counters"][counter].as_u64().unwrap();
    let (before, after) = (lines(results.join("a/before")), lines(results.join("a/after")));
    assert!(disk(&after[0], "hits") > disk(&before[0], "hits"), "the nearest copy: {before:?} {after:?}");
    assert_eq!((disk(&after[0], "bypassed_reads"), disk(&after[0], "bypassed_writes")), (0, 0));
    // Interests bypassed c's disk, and c announced the busy disk to m. None of a's exchanges was
    // lost.
    let c = lines(results.join("c/cs.json"));
    assert!(disk(&c[0], "bypassed_reads") > 0, "{c:?}");
    let load = lines(results.join("a/load.jsonl"));
    let load = load.iter().find(|line| line["kind"] == "summary").unwrap();
    assert!(load["exchanges"].as_u64() > Some(900) && load["nacks"] == 0 && load["wrong"] == 0, "{load}");
    let mut dissect = world.command(programs().join("namely"));
    let seen = dissect.arg("dissect").arg(results.join("m-eth1.pcap")).output().unwrap();
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("/localhop/nb-cc/busy") && seen.contains("/localhop/nb-cc/free"));
    let passed_on = lines(results.join("a/counters.json"));
    let heard = passed_on.iter().find(|counter| counter["counter"] == "forwarder.congestion_heard");
    assert!(heard.is_none_or(|heard| heard["value"] == 0), "it passes none on: {heard:?}");
}

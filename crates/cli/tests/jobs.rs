//! Several names that are fetched at once: results, order of output, rate, and Ctrl-C.

use crate::common;

use std::fs;
use std::process::Stdio;

use common::{Home, write_file};
use rustix::process::{Pid, Signal, kill_process};

use crate::files::{lab, same};

/// A home with a router that serves two files of 20 MB.
fn with_large_files() -> Home {
    let mut home = Home::with_router();
    fs::create_dir(home.path("data")).unwrap();
    for (file, seed) in [("one", 1), ("two", 2)] {
        write_file(&home.path("data").join(file), 20_000_000, seed);
    }
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    home
}

#[test]
fn output_has_the_order_of_names() {
    let home = lab();
    for (file, octets) in [("c.bin", 3_000_000), ("d.bin", 1), ("e.bin", 2_000_000)] {
        write_file(&home.path("data").join(file), octets, octets as u64);
    }
    let names = ["/lab/c.bin", "/lab/none", "/lab/d.bin", "/lab/sub", "/lab/e.bin"];
    for jobs in [&["-j", "1"][..], &["-j", "5"], &[]] {
        let end = home.run([&["get", "-o", "into/", "--json"][..], &names, jobs].concat());
        assert_eq!(end.code, Some(4), "{jobs:?}: {end:?}");
        let lines: Vec<serde_json::Value> =
            end.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let printed: Vec<&str> = lines.iter().filter_map(|line| line["name"].as_str()).collect();
        let in_order = printed.iter().zip(names).all(|(printed, name)| printed.starts_with(name));
        assert!(in_order && printed.len() == 5, "{jobs:?}: {end:?}");
        let shares = lines.iter().filter(|line| line["cache_share"].is_number()).count();
        assert_eq!(shares, 3, "{jobs:?}: the router marks Data of its cache for each job: {end:?}");
        let total = lines.last().unwrap();
        assert_eq!((total["files"].as_u64(), total["failed"].as_u64()), (Some(3), Some(2)), "{total}");
        assert!(end.stderr.contains("2 of 5 names were not fetched; the gravest failure: /lab/none: "));
        for file in ["c.bin", "d.bin", "e.bin"] {
            same(&home.path("data").join(file), &home.path("into").join(file));
        }
    }
    for number in ["0", "65", "x"] {
        let end = home.fails(2, ["get", "/lab/a.bin", "-j", number]);
        assert!(end.contains("give a number from 1 to 64"), "{end}");
    }
    home.ok(["get", "/lab", "-r", "copy", "--jobs", "64"]);
    same(&home.path("data/e.bin"), &home.path("copy/e.bin"));
}

#[test]
fn jobs_share_the_limited_rate() {
    let home = lab();
    write_file(&home.path("data/c.bin"), 100_000, 3);
    let words = ["get", "/lab/a.bin", "/lab/c.bin", "-o", "into/", "-j", "2", "--limit-rate", "50k"];
    let total = home.json(words).pop().unwrap();
    // 200 kB at 51 kB/s, less the allowance of the start and the last packets.
    assert!(total["elapsed_s"].as_f64() > Some(3.0), "{total}");
}

#[test]
fn ctrl_c_keeps_octets_of_each_job() {
    let home = with_large_files();
    let words = ["get", "/lab/one", "/lab/two", "-o", "into/", "-j", "2"];
    let mut command = home.namely(words);
    command.args(["--limit-rate", "4M"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let get = command.spawn().unwrap();
    for file in ["one", "two"] {
        let journal = home.path("into").join(format!("{file}.namely-part.journal"));
        home.wait_for("a journal", || fs::metadata(&journal).is_ok_and(|found| found.len() > 0));
    }
    kill_process(Pid::from_raw(get.id() as i32).unwrap(), Signal::INT).unwrap();
    let end = common::ended(get.wait_with_output().unwrap());
    assert_eq!(end.code, Some(130), "{end:?}");
    assert!(end.stderr.contains("2 of 2 names were not fetched"), "{end:?}");
    let got = home.json(words);
    for (line, file) in got.iter().zip(["one", "two"]) {
        assert!(line["resumed_octets"].as_u64() > Some(0), "{line}");
        same(&home.path("data").join(file), &home.path("into").join(file));
    }
}

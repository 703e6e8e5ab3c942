//! The speed of `namely mount` beside that of `namely get`.

use crate::common;

use std::fs::{self, File};
use std::io::Read;
use std::time::Instant;

use common::{Home, write_file};
use namely_testkit::{Need, skip};

/// Octets of each file.
const OCTETS: usize = 32 << 20;

/// Files that each of the two reads, in turns.
const FILES: usize = 3;

/// Smallest permitted speed of a sequential read, of that of `get`.
const SHARE: f64 = 0.7;

/// The seconds of a sequential read to the end.
fn read_seconds(path: &std::path::Path) -> f64 {
    let start = Instant::now();
    let mut file = File::open(path).unwrap();
    let mut piece = vec![0; 128 << 10];
    let mut octets = 0;
    loop {
        let read = file.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        octets += read;
    }
    assert_eq!(octets, OCTETS);
    start.elapsed().as_secs_f64()
}

#[test]
fn a_mount_reads_nearly_as_fast_as_get() {
    let mut home = Home::with_router();
    fs::create_dir_all(home.path("data")).unwrap();
    for i in 0..FILES {
        for kind in ["get", "read"] {
            write_file(&home.path(&format!("data/{kind}{i}")), OCTETS, i as u64);
        }
    }
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    fs::create_dir(home.path("copy")).unwrap();
    let mount = home.spawn(home.namely(["mount", "/lab", "copy"]));
    let first = home.path("copy/read0");
    home.wait_for("the mount", || first.exists() || home.background_log().contains("cannot mount"));
    if !first.exists() {
        return skip(Need::Mount, home.background_log());
    }
    let (mut of_get, mut of_mount) = (Vec::new(), Vec::new());
    for i in 0..FILES {
        // No cache has the octets of either file.
        let got = home.json(["get", &format!("/lab/get{i}"), "-o", "got"]).remove(0);
        of_get.push(got["elapsed_s"].as_f64().unwrap());
        of_mount.push(read_seconds(&home.path(&format!("copy/read{i}"))));
        fs::remove_file(home.path("got")).unwrap();
    }
    home.stop(mount);
    let median = |seconds: &mut Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    let (get, read) = (median(&mut of_get), median(&mut of_mount));
    let mbps = |seconds: f64| OCTETS as f64 * 8e-6 / seconds;
    println!("get {:.0} Mbit/s, mount {:.0} Mbit/s: {:.2}", mbps(get), mbps(read), get / read);
    assert!(get / read >= SHARE, "get {of_get:?} s, mount {of_mount:?} s");
}

//! Rates of shaped links in a testbed.

use std::fs;

use serde_json::Value;

use crate::common::Home;
use crate::common::testbed::{can_build, own_options, run};

/// Runs a testbed in which `a` serves a file to `b` over a link of this shape. Returns the goodput
/// in Mbit/s, and the name of the link's emulator.
fn carried(shape: &str, octets: usize) -> (f64, String) {
    let home = Home::new();
    let file = home.path("rate.toml");
    let text = format!(
        "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{shape}\n\
         [[program]]\nname = \"serve\"\nnode = \"a\"\nbackground = true\nready = \"serving \"\n\
         run = \"mkdir data && head -c {octets} /dev/urandom > data/f && exec namely serve data --prefix /lab\"\n\
         [[program]]\nname = \"get\"\nnode = \"b\"\nafter = [\"serve\"]\nretry = \"30s\"\n\
         run = \"namely --json get /lab/f -o f --congestion fixed:16 > got.json && cmp f ../a/data/f\"\n"
    );
    fs::write(&file, text).unwrap();
    let summary = run(&home, &file);
    assert_eq!(summary["well"], true, "{summary:#}");
    let got = fs::read_to_string(home.path("results/b/got.json")).unwrap();
    let got: Value = serde_json::from_str(got.lines().next_back().unwrap()).unwrap();
    (got["goodput_mbps"].as_f64().unwrap(), summary["networks"][0]["carrier"].as_str().unwrap().to_owned())
}

#[test]
fn an_emulated_link_keeps_its_rate() {
    if !can_build(own_options()) {
        return;
    }
    for delay in ["", "\ndelay = \"1ms\""] {
        // The window is half a second of this rate. It fits into the queue, so no packet is lost.
        // A busy machine may be late by half a second before the link becomes idle.
        let shape = format!("rate = \"2mbit\"\nqueue = \"1s\"{delay}");
        let (rate, carrier) = carried(&shape, 1_000_000);
        assert!((1.0..2.1).contains(&rate), "{rate} Mbit/s by {carrier}");
    }
}

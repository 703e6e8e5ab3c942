//! `emulated`, run for real on a slow link.

use crate::common;

use std::process::Command;

use serde_json::Value;

#[test]
fn two_fetches_share_an_emulated_link() {
    let Some(own) = common::experiments_beside_programs() else { return };
    let output = Command::new(own)
        .args([
            "emulated",
            "--congestion",
            "cubic",
            "--flows",
            "2",
            "--loss",
            "0",
            "--seconds",
            "5",
            "--json",
        ])
        .args(["--rate-mbps", "20", "--delay-ms", "10"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |key: &str| value[key].as_f64().unwrap();
    // A busy machine may starve the link's threads; it never makes them send more than the rate.
    assert!((0.4..1.1).contains(&number("utilisation")), "{value}");
    assert!(number("goodput_mbps") > 8.0 && number("goodput_mbps") < 22.0, "{value}");
    assert!(number("jain") > 0.6 && number("wait_p99_ms") < 60.0, "{value}");
}

//! Runs of `namely-bench links` with real programs and links.

use std::process::Command;

use namely_testkit::{Need, skip};
use serde_json::Value;

fn links(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_namely-bench"))
        .args(["links", "--quick"])
        .args(arguments)
        .output()
        .expect("namely-bench starts");
    let text = |octets| String::from_utf8_lossy(octets).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// Returns true if there can be no namespaces, or the router was not built.
fn is_impossible() -> bool {
    if !namely_testkit::namespaces() {
        return true;
    }
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_namely-bench")).with_file_name("namelyd");
    let is_absent = !folder.is_file() && std::env::var_os("NAMELY_BIN_DIR").is_none();
    if is_absent {
        skip(Need::Programs, "namelyd is not built");
    }
    is_absent
}

#[test]
fn every_link_carries_a_file() {
    if is_impossible() {
        return;
    }
    let (success, printed, said) = links(&["--json", "--mtu", "1500", "--window", "default,32"]);
    assert!(success, "{said}");
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = |link: &str, window: &str| {
        let found = lines.iter().find(|line| line["link"] == link && line["window"] == window);
        found.unwrap_or_else(|| panic!("{link} {window} in {printed}"))
    };
    for (link, mtu) in [("tcp", Some(1500)), ("udp", Some(1500)), ("ether", Some(1500)), ("unix", None)] {
        for window in ["default", "32"] {
            let row = row(link, window);
            assert_eq!((&row["failed"], row["mtu"].as_u64()), (&0.into(), mtu), "{row}\n{said}");
            assert!(row["goodput_mbps"]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
            assert!(
                row["dropped"]["median"].is_number() && row["retransmissions"]["median"].is_number(),
                "{row}"
            );
            let has_second = row["cpu_s_per_gib_consumers_router"]["median"].is_number();
            assert!(
                has_second == mtu.is_some() && row["cpu_s_per_gib_producer"]["median"].is_number(),
                "{row}"
            );
        }
    }
    let ceiling = row("kernel-tcp", "default");
    assert!(ceiling["failed"] == 0 && ceiling["retransmissions"].is_null(), "{ceiling}");
}

#[test]
fn the_link_table_compares_windows() {
    if is_impossible() {
        return;
    }
    let arguments = ["--link", "tcp,udp", "--mtu", "9000", "--window", "default,64", "--size", "4"];
    let (success, printed, said) = links(&arguments);
    assert!(success, "{said}");
    assert!(printed.contains("udp, MTU 9000: ") && printed.contains(" times tcp"), "{printed}");
    assert!(printed.contains("of the best fixed window, 64"), "{printed}");
}

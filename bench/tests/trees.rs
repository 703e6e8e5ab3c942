//! `trees`, run for real.

use std::process::Command;

use namely_testkit::{Need, skip};
use serde_json::Value;

fn trees(arguments: &[&str], rsync: Option<&str>) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namely-bench"));
    command.args(["trees", "--quick"]).args(arguments);
    if let Some(rsync) = rsync {
        command.env("RSYNC_BIN", rsync);
    }
    let output = command.output().expect("namely-bench starts");
    let text = |octets| String::from_utf8_lossy(octets).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

fn is_impossible() -> bool {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_namely-bench")).with_file_name("namelyd");
    let is_absent = !folder.is_file() && std::env::var_os("NAMELY_BIN_DIR").is_none();
    if is_absent {
        skip(Need::Programs, "namelyd and namely are not built; `cargo test --workspace` builds them");
    }
    is_absent
}

#[test]
fn a_tree_is_copied_twice() {
    if is_impossible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--json", "--files", "250", "--dir", dir.path().to_str().unwrap()];
    let (success, printed, said) = trees(&arguments, None);
    assert!(success, "{said}");
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = |who: &str, what: &str| lines.iter().find(|line| line["who"] == who && line["what"] == what);
    for who in ["namely", "rsync"] {
        if who == "rsync" && said.contains("rsync: absent") {
            continue;
        }
        for what in ["copy", "again"] {
            let row = row(who, what).unwrap_or_else(|| panic!("{who} {what} in {printed}\n{said}"));
            assert!(row["wall_s"]["median"].as_f64().is_some_and(|s| s > 0.0), "{row}");
            assert!(row["client_cpu_s"]["median"].is_number() && row["files"] == 250, "{row}");
        }
        if !said.contains("not counted") {
            // A copy of a file takes at least three calls: open, write and close.
            let calls = row(who, "copy").unwrap()["client_calls"].as_u64();
            assert!(calls.is_some_and(|calls| calls > 3 * 250), "{printed}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it leaves nothing");
}

#[test]
fn a_missing_rsync_is_left_out() {
    if is_impossible() {
        return;
    }
    let (success, printed, said) = trees(&["--dir", "/tmp"], Some("/nonexistent/rsync"));
    assert!(success, "{said}");
    assert!(printed.contains("rsync: absent") && printed.contains("RSYNC_BIN"), "{printed}");
    assert!(printed.contains("namely") && !printed.contains("times the time"), "{printed}");
}

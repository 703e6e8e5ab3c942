//! `instructions`, without valgrind: a file passes between the real programs, in lockstep.

use std::process::Command;

#[test]
fn files_pass_in_lockstep_per_segment_size() {
    for work in ["serve-1200", "get-8000"] {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_namely-bench"));
        let output = bench.args(["instructions-work", work, "100"]).output().expect("namely-bench starts");
        assert!(output.status.success(), "{work}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

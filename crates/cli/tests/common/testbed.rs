//! Checks whether a testbed can be built, and runs one.

use std::path::Path;
use std::process::Command;

use namely_testkit::{Need, skip};
use serde_json::Value;

use super::Home;

/// Returns true if a testbed can be built here; otherwise prints the skip.
pub(crate) fn can_build(options: &[&str]) -> bool {
    let flags = ["--net", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c"];
    let mut command = Command::new("unshare");
    command.args(options).args(flags).arg("mount -t tmpfs x /run && ip netns add x");
    let can = command.output().is_ok_and(|output| output.status.success());
    if !can {
        skip(Need::Namespaces, "no namespaces here, or no unshare and ip");
    }
    can
}

pub(crate) fn own_options() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] }
}

/// Runs an example to its end, and returns its output as JSON.
pub(crate) fn run(home: &Home, file: &Path) -> Value {
    home.json(["testbed", "run", file.to_str().unwrap(), "--results", "results"]).remove(0)
}

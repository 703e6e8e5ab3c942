//! Testbeds (`namely testbed run`) that join a third-party router to ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::world::{World, programs};

/// Returns an error with the reason if a testbed cannot be built here.
pub fn namespaces() -> Result<(), String> {
    let root = rustix::process::geteuid().is_root();
    let user: &[&str] = if root { &[] } else { &["--user", "--map-root-user"] };
    let mut command = Command::new("unshare");
    command.args(user).args(["--net", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c"]);
    command.arg("mount -t tmpfs x /run && ip netns add x");
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("no namespaces: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(e) => Err(format!("no unshare: {e}")),
    }
}

/// Runs a testbed to its end, with JSON output. Its file names `nfd` or `ndnd`. The found `tools`
/// come first on the PATH, each under its name.
///
/// # Panics
/// If it fails.
pub fn run_testbed(world: &World, file: &Path, results: &Path, tools: &[PathBuf]) -> Output {
    let bin = world.path("bin");
    fs::create_dir(&bin).expect("a folder in the temporary directory");
    for tool in tools {
        let tool = tool.canonicalize().expect("a program that was found");
        let name = tool.file_name().expect("a program has a name");
        std::os::unix::fs::symlink(&tool, bin.join(name)).expect("a link in the temporary directory");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)));
    let mut command = world.command(programs().join("namely"));
    command.arg("--json").args(["testbed", "run"]).arg(file).arg("--results").arg(results);
    let output = command.env("PATH", path.expect("a path")).output().expect("namely can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    output
}

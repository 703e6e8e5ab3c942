//! The pages for developers in Rust and C: a reader copies their commands into an empty home, where
//! `~/namely` is this checkout. No command fails, and each prints its documented output.
//!
//! A page has these commands in its ```` ```console build ```` blocks. They compile outside this
//! workspace, without a network.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use namely_interop::programs;
use namely_testkit::{Need, or_skip};

/// Ends the commands in the background, and keeps the status of the others.
const BEGIN: &str = "set -euo pipefail; trap 'status=$?; trap \"\" TERM; kill 0; exit $status' EXIT\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is above the crate")
}

/// The lines of a page's blocks that compile: commands, and output.
fn lines(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).expect("a page");
    let blocks = text.split("```console build\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// A folder of the toolchain, which the other home has not.
fn toolchain(variable: &str, folder: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(folder);
    std::env::var_os(variable).map_or_else(home, PathBuf::from)
}

/// Runs the commands of a page; cargo compiles into `target`.
fn run(page: &str, target: &Path) {
    let lines = lines(page);
    let mut script = String::from(BEGIN);
    for command in lines.iter().filter_map(|line| line.strip_prefix("$ ")) {
        // An optimized build would take a quarter of an hour, and installs the same files.
        script += &command.replace("cargo run --release ", "cargo run ");
        script.push('\n');
    }
    let home = tempfile::tempdir().expect("a home");
    symlink(root(), home.path().join("namely")).expect("the checkout");
    let path = std::env::var("PATH").expect("a PATH");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(home.path()).process_group(0).env_clear();
    shell.env("PATH", format!("{}:{path}", programs().display())).env("HOME", home.path());
    shell.env("XDG_RUNTIME_DIR", home.path());
    shell.env("NAMELY_ROUTER", format!("unix://{}/namely.sock", home.path().display()));
    shell.env("CARGO_HOME", toolchain("CARGO_HOME", ".cargo"));
    shell.env("RUSTUP_HOME", toolchain("RUSTUP_HOME", ".rustup"));
    shell.env("CARGO_NET_OFFLINE", "true").env("CARGO_TARGET_DIR", target);
    let log = fs::File::create(home.path().join("log")).expect("a file");
    shell.stdout(log.try_clone().expect("a descriptor")).stderr(log);
    let status = shell.status().expect("bash runs");
    let printed = fs::read_to_string(home.path().join("log")).expect("output");
    assert!(status.success(), "{page}: {status}\n{printed}");
    assert!(!printed.contains("warning: "), "{page}: a program compiles with warnings:\n{printed}");
    let outputs: Vec<_> = lines.iter().filter(|line| !line.starts_with("$ ")).collect();
    assert!(outputs.len() >= 3, "{page} shows the programs' output");
    for output in outputs {
        assert!(printed.contains(output.as_str()), "{page}: nothing prints '{output}':\n{printed}");
    }
}

/// The folder of this build, such as `target`.
fn target() -> PathBuf {
    programs().parent().expect("the profile's folder is in it").to_owned()
}

#[test]
fn the_rust_page_leads_to_running_programs() {
    run("docs/rust.md", &target().join("pages"));
}

#[test]
fn the_c_page_leads_to_running_programs() {
    let has = |tool: &str| {
        Command::new(tool).arg("--version").output().map(drop).map_err(|e| format!("{tool}: {e}"))
    };
    if or_skip(Need::Cc, ["cc", "pkg-config"].into_iter().try_for_each(has)).is_some() {
        run("docs/c.md", &target());
    }
}

#[test]
fn the_rust_page_shows_the_compiled_program() {
    let page = fs::read_to_string(root().join("docs/rust.md")).expect("a page");
    let source = fs::read_to_string(root().join("examples/rust/src/bin/fetch.rs")).expect("a program");
    assert!(page.contains(&format!("```rust,no_run\n{source}```")), "the page shows another fetch.rs");
}

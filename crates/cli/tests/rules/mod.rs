//! Rules of the whole workspace that the compiler does not check. Each failure names the remedy.

mod alerts;
mod bom;
mod comments;
mod mounts;
mod outputs;
mod packages;
mod paths;
mod picture;
mod ports;
mod profiles;
mod prose;
mod published;
mod recipes;
mod skips;
mod sleeps;
mod structure;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folder of the workspace.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is above the crate")
}

/// Calls `look` with the path of each Rust source from the root of the workspace, and its text.
pub(crate) fn each_source(look: &mut dyn FnMut(&str, &str)) {
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the sources").flatten() {
            let path = entry.path();
            let is_foreign = ["target", ".git", "node_modules"].iter().any(|name| path.ends_with(name));
            if path.is_dir() && !is_foreign {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("sources are UTF-8");
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                look(&name, &text);
            }
        }
    }
}

/// The output of a cargo command, without a network.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).arg("--offline").current_dir(root()).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The metadata of the workspace's manifests.
fn metadata() -> Value {
    let printed = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    serde_json::from_str(&printed).expect("JSON")
}

/// A field that is text.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// A field that is a list.
fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

//! Pages of docs/ that are generated from declarations in the code and in docs/rows. The tests
//! compare the pages with the declarations.

mod counters;
mod interfaces;
mod limits;
mod modules;
mod performance;
mod status;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// If this variable has any value, the tests write the pages.
const RENEW: &str = "NAMELY_RENEW";

/// The folder of the workspace.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is above the crate")
}

/// Compares `text` with the page `name`, a path below the root. Writes the page instead if
/// [`RENEW`] is set.
fn compare(name: &str, text: &str) {
    let path = root().join(name);
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, text).expect("the page can be written");
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    let pairs = present.lines().zip(text.lines());
    let first = pairs.enumerate().find(|(_, (is, wanted))| is != wanted);
    assert!(
        present == text,
        "{name} is stale, first at {first:?}: renew it with {RENEW}=1 cargo test -p namely --test integration generated::"
    );
}

/// The tests and functions of the repository, by which a declaration names its tests, each with the
/// path of its source.
fn known_tests() -> HashMap<String, String> {
    let mut known = HashMap::new();
    crate::docs::functions(&root(), &mut known);
    known
}

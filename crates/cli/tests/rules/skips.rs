//! A test says that it is skipped by `namely_skip` only: what one prints by itself is skipped also
//! where `NAMELY_REQUIRED` forbids it.

use std::fs;
use std::path::Path;

use super::root;

/// Folders that hold nothing of ours, the crate itself, and programs that are no tests.
const LEFT_OUT: [&str; 5] = ["target", ".git", "node_modules", "crates/skip", "bench/src"];

/// Adds where a source prints the line by itself.
fn search(folder: &Path, found: &mut Vec<String>) {
    // Not in one piece, or this file were one of them.
    let line = ["\"skip", "ped: "].concat();
    for entry in fs::read_dir(folder).expect("a folder of the sources").flatten() {
        let path = entry.path();
        if LEFT_OUT.iter().any(|left_out| path.ends_with(left_out)) {
            continue;
        }
        if path.is_dir() {
            search(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            let places = text.lines().enumerate().filter(|(_, text)| text.contains(&line));
            found.extend(places.map(|(n, _)| format!("{}:{}", path.display(), n + 1)));
        }
    }
}

#[test]
fn tests_are_skipped_by_the_crate_that_may_refuse_it() {
    let mut found = Vec::new();
    search(&root(), &mut found);
    assert!(found.is_empty(), "call `namely_skip::skip` with what is needed:\n{}", found.join("\n"));
}

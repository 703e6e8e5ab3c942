//! Tests are skipped by `namely_testkit` only: it fails a test where `NAMELY_REQUIRED` forbids a
//! skip.

use super::each_source;

/// The crate that skips, and programs that are no tests.
const EXCEPTIONS: [&str; 2] = ["crates/testkit/", "bench/src/"];

#[test]
fn only_the_testkit_skips_tests() {
    // In two pieces: this file does not contain the line.
    let line = ["\"skip", "ped: "].concat();
    let mut found = Vec::new();
    each_source(&mut |name, text| {
        let is_exception = EXCEPTIONS.iter().any(|folder| name.starts_with(folder));
        let matching = text.lines().enumerate().filter(|(_, text)| !is_exception && text.contains(&line));
        found.extend(matching.map(|(n, _)| format!("{name}:{}", n + 1)));
    });
    assert!(found.is_empty(), "call `namely_testkit::skip` with the need:\n{}", found.join("\n"));
}

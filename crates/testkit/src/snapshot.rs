//! Snapshots: results as text in the repository. `NAMELY_SNAPSHOTS=renew` writes them again, so
//! that a changed result is a visible difference of a commit.

use std::fs;
use std::path::Path;

/// Returns true if the results of this run are written, not compared.
pub fn renew_snapshots() -> bool {
    std::env::var_os("NAMELY_SNAPSHOTS").is_some_and(|value| value == "renew")
}

/// Compares a result with a whole file, or writes it.
#[track_caller]
pub fn snapshot(path: &Path, text: &str) {
    if renew_snapshots() {
        return fs::write(path, text).expect("a file that can be written");
    }
    compare_snapshot(path, &fs::read_to_string(path).unwrap_or_default(), text);
}

/// Compares a result with the known text of a file. The panic shows the first different line.
#[track_caller]
pub fn compare_snapshot(path: &Path, known: &str, text: &str) {
    if let Some((line, (was, is))) = known.lines().zip(text.lines()).enumerate().find(|(_, (a, b))| a != b) {
        panic!(
            "{}, line {}:\n  was {was}\n  is  {is}\nNAMELY_SNAPSHOTS=renew writes it anew",
            path.display(),
            line + 1
        );
    }
    assert_eq!(known, text, "{}", path.display());
}

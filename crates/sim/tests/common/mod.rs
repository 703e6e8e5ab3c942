//! Snapshots: results as text in the repository. `NAMELY_SNAPSHOTS=renew` writes them again, so
//! that a changed result is a visible difference of a commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub(crate) fn renew() -> bool {
    std::env::var_os("NAMELY_SNAPSHOTS").is_some_and(|value| value == "renew")
}

fn compare(path: &Path, known: &str, text: &str) {
    if let Some((line, (was, is))) = known.lines().zip(text.lines()).enumerate().find(|(_, (a, b))| a != b) {
        panic!(
            "{}, line {}:\n  was {was}\n  is  {is}\nNAMELY_SNAPSHOTS=renew writes it anew",
            path.display(),
            line + 1
        );
    }
    assert_eq!(known, text, "{}", path.display());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Tests that run in parallel may write the same page.
static PAGE: Mutex<()> = Mutex::new(());

/// Compares the result with the block of text after the comment `<!-- name -->` of a page.
pub(crate) fn shown(page: &str, name: &str, text: &str) {
    let _alone = PAGE.lock();
    let path = root().join(page);
    let whole = fs::read_to_string(&path).expect("a page");
    let head = format!("<!-- {name} -->\n```text\n");
    let from = whole.find(&head).unwrap_or_else(|| panic!("{page} has no block {name}")) + head.len();
    let to = from + whole[from..].find("```").expect("a block that ends");
    if renew() {
        let new = format!("{}{text}{}", &whole[..from], &whole[to..]);
        return fs::write(&path, new).expect("a page that can be written");
    }
    compare(&path, &whole[from..to], text);
}

/// Compares the result with a whole file.
pub(crate) fn whole(file: &str, text: &str) {
    let path = root().join(file);
    if renew() {
        return fs::write(&path, text).expect("a file that can be written");
    }
    compare(&path, &fs::read_to_string(&path).unwrap_or_default(), text);
}

/// Compares the result with tests/snapshots/`name`.txt.
pub(crate) fn snapshot(name: &str, text: &str) {
    whole(&format!("crates/sim/tests/snapshots/{name}.txt"), text);
}

//! Snapshots of pages and files in the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use namely_testkit::{compare_snapshot, renew_snapshots};

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
    if renew_snapshots() {
        let new = format!("{}{text}{}", &whole[..from], &whole[to..]);
        return fs::write(&path, new).expect("a page that can be written");
    }
    compare_snapshot(&path, &whole[from..to], text);
}

/// Compares the result with a whole file.
pub(crate) fn whole(file: &str, text: &str) {
    namely_testkit::snapshot(&root().join(file), text);
}

/// Compares the result with tests/snapshots/`name`.txt.
pub(crate) fn snapshot(name: &str, text: &str) {
    whole(&format!("crates/sim/tests/snapshots/{name}.txt"), text);
}

//! Crates that open files in places where another user or a peer has influence use `host::disk`:
//! from the descriptor of a folder, without following links and without waiting. A call that takes
//! a path follows any link that another user has put there.

use std::fs;
use std::path::Path;

use super::root;

/// Crates with files in folders that others write too, or with file names from others.
const CRATES: [&str; 4] = ["crates/files/src", "crates/store/src", "crates/tier/src", "crates/security/src"];

/// Calls that take a path, and types that lead to them.
const BY_PATH: [&str; 41] = [
    "fs::canonicalize(",
    "fs::copy(",
    "fs::create_dir",
    "fs::exists(",
    "fs::hard_link(",
    "fs::metadata(",
    "fs::read(",
    "fs::read_dir(",
    "fs::read_link(",
    "fs::read_to_string(",
    "fs::remove_",
    "fs::rename(",
    "fs::set_permissions(",
    "fs::soft_link(",
    "fs::symlink_metadata(",
    "fs::write(",
    "fs::symlink(",
    "fs::chown(",
    "fs::lchown(",
    "File::create",
    "File::open(",
    "File::options(",
    "OpenOptions",
    "DirBuilder",
    "path.metadata()",
    ".canonicalize()",
    ".exists()",
    ".is_dir()",
    ".is_file()",
    ".is_symlink()",
    ".read_dir()",
    ".read_link()",
    ".symlink_metadata()",
    ".try_exists()",
    "CWD",
    "chmodat",
    "chownat",
    "linkat",
    "lgetxattr",
    "lsetxattr",
    "mknodat",
];

/// Functions of rustix that take a path.
const OF_RUSTIX: [&str; 20] = [
    "access",
    "chmod",
    "chown",
    "getxattr",
    "lchown",
    "link",
    "listxattr",
    "lstat",
    "mkdir",
    "mknod",
    "open",
    "readlink",
    "rename",
    "rmdir",
    "setxattr",
    "stat",
    "statfs",
    "statvfs",
    "symlink",
    "unlink",
];

/// Calls on paths that no other user can influence.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "crates/files/src/get/own.rs",
    "std::fs::read_to_string(\"/proc/self/status\")",
    "a file of the kernel about this very process",
)];

/// The text of a source without its tests, which are at the end.
fn without_tests(text: &str) -> &str {
    let end = text.find("#[cfg(test)]\nmod ").or_else(|| text.find("#[cfg(test)]\n#[path"));
    &text[..end.unwrap_or(text.len())]
}

/// Returns true if a file contains only tests.
fn is_of_tests(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["tests", "tests.rs", "testing.rs", "faulty_disk.rs"].contains(&name)
}

/// The functions of rustix that `text` names: `use rustix::fs::{a, b}` and `rustix::fs::a(`.
fn of_rustix(text: &str) -> Vec<&str> {
    let behind = text.match_indices("rustix::fs::").map(|(at, module)| &text[at + module.len()..]);
    let names = behind.flat_map(|rest| {
        let end = match rest.starts_with('{') {
            true => rest.find('}'),
            false => rest.find(|c: char| !c.is_alphanumeric() && c != '_'),
        };
        rest[..end.unwrap_or(rest.len())].split(|c: char| !c.is_alphanumeric() && c != '_')
    });
    names.filter(|name| OF_RUSTIX.contains(name)).collect()
}

/// Returns true if `line` contains `call`, and not as the end of a longer name.
fn has(line: &str, call: &str) -> bool {
    let is_whole = |at: usize| {
        let before = line[..at].chars().next_back();
        call.starts_with('.') || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    };
    line.match_indices(call).any(|(at, _)| is_whole(at))
}

/// Adds where a source takes a path.
fn search(folder: &Path, found: &mut Vec<String>, used: &mut [bool]) {
    for entry in fs::read_dir(folder).expect("a folder of the sources").flatten() {
        let path = entry.path();
        if is_of_tests(&path) {
            continue;
        }
        if path.is_dir() {
            search(&path, found, used);
            continue;
        }
        let text = fs::read_to_string(&path).expect("sources are UTF-8");
        let text = without_tests(&text);
        found.extend(of_rustix(text).iter().map(|name| format!("{}: rustix::fs::{name}", path.display())));
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().starts_with("//")) {
            let is_exception =
                |(file, call, _): &(&str, &str, &str)| path.ends_with(file) && line.contains(call);
            if let Some(at) = EXCEPTIONS.iter().position(is_exception) {
                used[at] = true;
            } else if BY_PATH.iter().any(|call| has(line, call)) {
                found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
}

#[test]
fn files_are_opened_through_a_descriptor() {
    let (mut found, mut used) = (Vec::new(), [false; EXCEPTIONS.len()]);
    for folder in CRATES {
        search(&root().join(folder), &mut found, &mut used);
    }
    assert!(
        found.is_empty(),
        "use `namely_host::disk`, or make an exception here with its reason:\n{}",
        found.join("\n")
    );
    for ((file, call, _), is_used) in EXCEPTIONS.iter().zip(used) {
        assert!(is_used, "{file} has no `{call}` any more: take the exception out");
    }
}

#[test]
fn path_calls_are_detected_in_any_form() {
    assert_eq!(of_rustix("use rustix::fs::{FileType, OFlags, open, statat};"), ["open"]);
    assert_eq!(of_rustix("use rustix::fs::{\n    FileType, stat,\n};"), ["stat"]);
    assert_eq!(of_rustix("let disk = rustix::fs::statvfs(path);"), ["statvfs"]);
    assert!(of_rustix("rustix::fs::fstatvfs(fd); use rustix::fs::openat;").is_empty());
    assert!(has("let file = File::open(path)?;", "File::open(") && has("path.exists()", ".exists()"));
    assert!(!has("PartFile::open(target)", "File::open("));
    assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {}"), "a\n");
}

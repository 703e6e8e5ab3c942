//! The packages for a registry: the command `namely`, the router, and the libraries that they
//! depend on. Their manifests have the fields that a registry requires, they can be packaged, and
//! they need no file outside their package. No other package of the workspace is published.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{cargo, list, metadata, text};

/// Maximum number of keywords, and of categories, that a registry accepts.
const WORDS_MAX: usize = 5;

/// Longest keyword that a registry accepts.
const KEYWORD_OCTETS_MAX: usize = 20;

/// The packages of the workspace by name.
fn packages(metadata: &Value) -> BTreeMap<&str, &Value> {
    list(metadata, "packages").iter().map(|package| (text(package, "name"), package)).collect()
}

/// Returns true if the package may be published. `cargo metadata` has an empty list for
/// `publish = false`, and null for `true`.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// The normal dependencies of a package (neither for tests nor for builds) in the workspace.
fn needs<'a>(package: &'a Value, all: &BTreeMap<&str, &Value>) -> Vec<&'a Value> {
    let is_ours = |of: &&Value| of["kind"].is_null() && all.contains_key(text(of, "name"));
    list(package, "dependencies").iter().filter(is_ours).collect()
}

#[test]
fn only_needed_crates_are_published() {
    let metadata = metadata();
    let all = packages(&metadata);
    let mut needed = BTreeSet::new();
    let mut next = vec!["namely"];
    while let Some(name) = next.pop() {
        if needed.insert(name) {
            next.extend(needs(all[name], &all).iter().map(|of| text(of, "name")));
        }
    }
    let published: BTreeSet<&str> =
        all.iter().filter(|(_, of)| is_published(of)).map(|(name, _)| *name).collect();
    assert_eq!(published, needed, "`publish.workspace = true` is wrong for packages of no use to others");
    assert!(published.len() > 20, "{published:?}");
}

#[test]
fn published_crates_have_registry_metadata() {
    let metadata = metadata();
    let all = packages(&metadata);
    let mut descriptions = BTreeSet::new();
    for (name, package) in all.iter().filter(|(_, of)| is_published(of)) {
        let description = text(package, "description");
        assert!(!description.is_empty() && !description.ends_with('.'), "{name}: {description:?}");
        assert!(descriptions.insert(description), "{name} has the description of another: {description}");
        assert_eq!(text(package, "license"), "MIT OR Apache-2.0", "{name}");
        assert!(!text(package, "rust_version").is_empty(), "{name} has a rust-version");
        let manifest = Path::new(text(package, "manifest_path"));
        let readme = manifest.parent().expect("a folder").join(text(package, "readme"));
        assert!(readme.is_file(), "{name}: its readme {} is not there", readme.display());
        for field in ["keywords", "categories"] {
            let words = list(package, field);
            assert!((1..=WORDS_MAX).contains(&words.len()), "{name}: {field} {words:?}");
            for word in words.iter().filter_map(Value::as_str) {
                let is_word = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
                let is_short = field == "categories" || word.len() <= KEYWORD_OCTETS_MAX;
                assert!(is_word && is_short, "{name}: {field} has {word:?}");
            }
        }
        for of in needs(package, &all) {
            assert_ne!(text(of, "req"), "*", "{name} needs {} in any version", text(of, "name"));
        }
    }
}

#[test]
fn published_crates_can_be_packaged() {
    let metadata = metadata();
    let all = packages(&metadata);
    let mut arguments = vec!["package", "--no-verify", "--allow-dirty", "--quiet", "--target-dir"];
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    arguments.push(folder.to_str().expect("UTF-8"));
    let published: Vec<_> = all.values().filter(|of| is_published(of)).collect();
    arguments.extend(published.iter().flat_map(|of| ["-p", text(of, "name")]));
    cargo(&arguments);
    for package in published {
        let file = format!("package/{}-{}.crate", text(package, "name"), text(package, "version"));
        assert!(folder.join(&file).is_file(), "{file}");
    }
}

/// Appends the Rust sources below a folder to `found`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The paths that a source includes by macro before its first `#[cfg(test)]`.
fn included(text: &str) -> Vec<&str> {
    let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
    let macros = ["include_str!(\"", "include_bytes!(\"", "include!(\""];
    let paths = macros.iter().flat_map(|name| shipped.split(name).skip(1));
    paths.filter_map(|rest| rest.split_once('"')).map(|(path, _)| path).collect()
}

#[test]
fn published_crates_include_no_outside_file() {
    let metadata = metadata();
    let mut count = 0;
    for (name, package) in packages(&metadata).into_iter().filter(|(_, of)| is_published(of)) {
        let folder = Path::new(text(package, "manifest_path")).parent().expect("a folder");
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        files.retain(|file| file.file_name().is_some_and(|name| name != "tests.rs"));
        for file in files {
            let text = fs::read_to_string(&file).expect("UTF-8");
            for path in included(&text) {
                count += 1;
                let depth = file.strip_prefix(folder).expect("within").components().count() - 1;
                let up = path.split('/').take_while(|part| *part == "..").count();
                let is_there = file.parent().expect("a folder").join(path).is_file();
                assert!(up <= depth && is_there, "{name}: {} includes {path}", file.display());
            }
        }
    }
    assert!(count >= 3, "the samples of `namely generate` and `testbed` are included: {count}");
}

//! The recipes of CONTRIBUTING.md are true: the files that they name exist, and an existing example
//! of each touches no file beyond their list.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::root;

/// A recipe, and how its example is found in the sources.
struct Recipe {
    title: &'static str,
    /// Identifiers that only the example introduces.
    words: &'static [&'static str],
    /// The example's own files, and its limits or options elsewhere.
    own: &'static [&'static str],
    /// Maximum number of files.
    files_max: usize,
}

const RECIPES: [Recipe; 9] = [
    Recipe {
        title: "### A face kind",
        words: &["websocket", "WebSocket", "Ws", "listen_websocket", "WEBSOCKET_PORT", "BadWebSocket"],
        // NFD's configuration has a section of that name.
        own: &["crates/io/src/websocket/", "crates/cli/src/nfd_conf/faces.rs"],
        files_max: 4,
    },
    Recipe {
        title: "### A strategy",
        words: &["round_robin", "RoundRobin"],
        own: &["crates/forwarder/src/strategy/round_robin.rs"],
        files_max: 2,
    },
    Recipe {
        title: "### A cache policy",
        words: &["sieve", "Sieve"],
        own: &["crates/forwarder/src/cs/policy/sieve"],
        files_max: 1,
    },
    Recipe {
        title: "### A command",
        words: &["Peek"],
        own: &["crates/cli/src/commands/peek.rs"],
        files_max: 2,
    },
    Recipe {
        title: "### A service",
        words: &["Readvertise", "Readvertiser"],
        // Its configuration key belongs to another recipe.
        own: &["crates/daemon/src/services/readvertise.rs", "crates/daemon/src/config/"],
        files_max: 1,
    },
    Recipe {
        title: "### A limit",
        words: &["dead_nonces_max"],
        own: &["crates/forwarder/src/dead_nonces.rs", "crates/sim/src/node.rs"],
        files_max: 3,
    },
    Recipe {
        title: "### A counter",
        words: &["OtherNetwork"],
        own: &["crates/discovery/src/receive.rs"],
        files_max: 1,
    },
    Recipe {
        title: "### A dataset",
        words: &["BptList"],
        own: &["crates/client/src/bindings.rs"],
        files_max: 4,
    },
    Recipe {
        title: "### An experiment",
        words: &["linear_video", "LinearVideo"],
        own: &["experiments/src/linear_video/"],
        files_max: 3,
    },
];

fn contributing() -> String {
    fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md is there")
}

/// The numbered files of a recipe.
fn listed_files(text: &str, title: &str) -> BTreeSet<String> {
    let after = text.split_once(title).unwrap_or_else(|| panic!("no recipe '{title}'")).1;
    let recipe = after.split("\n###").next().unwrap_or_default();
    let listed_file = |line: &str| {
        let (number, rest) = line.split_once(". `")?;
        number.parse::<u32>().ok()?;
        Some(rest.split_once('`')?.0.to_owned())
    };
    recipe.lines().filter_map(listed_file).collect()
}

/// Returns true if a line of code, tests apart, has one of `words`.
fn has_word(source: &str, words: &[&str]) -> bool {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let mut identifiers =
        code.lines().filter(is_code).flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    identifiers.any(|identifier| words.contains(&identifier))
}

/// Adds the sources below `folder` that have one of the recipe's words.
fn search(folder: &Path, recipe: &Recipe, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the sources").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "tests" | "examples" | "target") {
                search(&path, recipe, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let file = path.strip_prefix(root()).expect("below the root").display().to_string();
            let is_own = recipe.own.iter().any(|own| file.starts_with(own));
            if !is_own && has_word(&fs::read_to_string(&path).expect("UTF-8"), recipe.words) {
                found.insert(file);
            }
        }
    }
}

#[test]
fn recipe_examples_touch_the_listed_places() {
    let text = contributing();
    for recipe in &RECIPES {
        let mut found = BTreeSet::new();
        for folder in ["crates", "experiments/src"] {
            search(&root().join(folder), recipe, &mut found);
        }
        let listed = listed_files(&text, recipe.title);
        assert_eq!(found, listed, "{}: the files of its example, and the listed files", recipe.title);
        assert!(listed.len() <= recipe.files_max, "{}: at most {}", recipe.title, recipe.files_max);
    }
}

#[test]
fn recipes_name_only_existing_paths() {
    let text = contributing();
    let paths = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.starts_with("crates/") || word.starts_with("experiments/"));
    let paths: Vec<&str> = paths.collect();
    assert!(paths.len() > 12, "the recipes name paths");
    for path in paths {
        assert!(root().join(path).exists(), "CONTRIBUTING.md names {path}");
    }
}

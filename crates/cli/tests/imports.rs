//! Files that import each other in a circle cannot be read one after the other. Two may, where each
//! is half of one thing; a larger circle fails here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates that are looked at, by the folders of their sources.
const CRATES: [&str; 6] =
    ["crates/io/src", "crates/socket/src", "bench/src", "experiments/src", "interop/src", "bindings/c/src"];

/// The most files that may be in a circle.
const CIRCLE_FILES_MAX: usize = 2;

/// A file's path from the folder of sources, and what it imports of the same crate.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a crate, by the path of their module.
fn modules(sources: &Path) -> BTreeMap<Vec<String>, PathBuf> {
    let mut modules = BTreeMap::new();
    let mut folders = vec![sources.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(sources).unwrap().with_extension("");
                let mut module: Vec<String> =
                    inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                    module.pop();
                }
                // Tests beside what they test are no part of it.
                if !module.last().is_some_and(|last| last == "tests" || last.ends_with("_tests")) {
                    modules.insert(module, path);
                }
            }
        }
    }
    modules
}

/// The source without comments and its tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    // A visibility names a module and imports nothing of it.
    code.map(|line| line.replace("(in super::super)", "")).collect::<Vec<_>>().join("\n")
}

/// The paths that a `use` names, without their aliases: `a::{b, c::{self, d}}` gives `a::b`,
/// `a::c`, `a::c::d`.
fn paths(tree: &str) -> Vec<Vec<String>> {
    fn expand(tree: &str, before: &[String], into: &mut Vec<Vec<String>>) {
        let (path, group) = match tree.split_once('{') {
            Some((path, group)) => (path, group.rsplit_once('}').map(|(inner, _)| inner)),
            None => (tree, None),
        };
        let path = path.split(" as ").next().unwrap_or_default();
        let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty() && *part != "self");
        let whole: Vec<String> = before.iter().cloned().chain(parts.map(str::to_string)).collect();
        let Some(group) = group else { return into.push(whole) };
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    if !group[start..at].trim().is_empty() {
                        expand(&group[start..at], &whole, into);
                    }
                    start = at + 1;
                }
                _ => (),
            }
        }
    }
    let mut into = Vec::new();
    expand(tree, &[], &mut into);
    into
}

/// What follows each `word` that stands alone, up to the end of the path or statement.
fn after<'a>(code: &'a str, word: &str, ends: impl Fn(char) -> bool) -> Vec<&'a str> {
    let is_alone = |at: usize| {
        !code[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    };
    let found = code.match_indices(word).filter(|(at, _)| is_alone(*at));
    found
        .map(|(at, _)| {
            let rest = &code[at + word.len()..];
            &rest[..rest.find(&ends).unwrap_or(rest.len())]
        })
        .collect()
}

/// The file that a path leads to: that of the longest beginning that is a module.
fn file_of<'a>(modules: &'a BTreeMap<Vec<String>, PathBuf>, path: &[String]) -> Option<&'a PathBuf> {
    (0..=path.len()).rev().find_map(|length| modules.get(&path[..length]))
}

fn imports(sources: &Path) -> Imports {
    let modules = modules(sources);
    let name = |path: &PathBuf| path.strip_prefix(sources).unwrap().to_string_lossy().into_owned();
    let mut imports = Imports::new();
    for (module, path) in &modules {
        let code = code(&std::fs::read_to_string(path).unwrap());
        let mut named: Vec<Vec<String>> =
            after(&code, "use ", |c| c == ';').into_iter().flat_map(paths).collect();
        // Paths in the middle of the code.
        for start in ["crate::", "super::", "self::"] {
            let ends = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
            named.extend(
                after(&code, start, ends).into_iter().flat_map(|rest| paths(&format!("{start}{rest}"))),
            );
        }
        let of_file = imports.entry(name(path)).or_default();
        for mut named in named {
            let mut from = match named.first().map(String::as_str) {
                Some("crate") => Vec::new(),
                Some("super") => module.clone(),
                // A module may be named without more by the file that it is declared in.
                Some(first) if modules.contains_key(&[&module[..], &[first.to_string()]].concat()) => {
                    named.insert(0, String::new());
                    module.clone()
                }
                _ => continue,
            };
            while named.first().is_some_and(|first| first == "super") {
                named.remove(0);
                from.pop();
            }
            if named.first().is_some_and(|first| first == "crate" || first.is_empty()) {
                named.remove(0);
            }
            let target = file_of(&modules, &[from, named].concat()).filter(|target| *target != path);
            of_file.extend(target.map(name));
        }
    }
    imports
}

/// Everything that can be reached from a file.
fn reached(imports: &Imports, from: &str) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from.to_string()]);
    while let Some(file) = next.pop() {
        for target in imports.get(&file).into_iter().flatten() {
            if reached.insert(target.clone()) {
                next.push(target.clone());
            }
        }
    }
    reached
}

/// The circles of more files than may be.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|file| (file, reached(imports, file))).collect();
    let circle = |file: &String| -> BTreeSet<String> {
        let back = |other: &&String| reached.get(other).is_some_and(|of_other| of_other.contains(file));
        reached[file].iter().filter(back).cloned().chain([file.clone()]).collect()
    };
    imports.keys().map(circle).filter(|circle| circle.len() > CIRCLE_FILES_MAX).collect()
}

#[test]
fn files_import_each_other_in_no_larger_circle_than_of_two() {
    for sources in CRATES {
        let imports = imports(&root().join(sources));
        assert!(imports.values().map(BTreeSet::len).sum::<usize>() > 0, "{sources}: no imports were found");
        let circles = circles(&imports);
        assert!(circles.is_empty(), "{sources}: files import each other in a circle: {circles:#?}");
    }
}

#[test]
fn a_circle_is_found_through_every_way_of_naming_a_module() {
    let sources = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = sources.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a;\nmod b;\nmod c;\n");
    write("a.rs", "use std::fmt;\nuse crate::{b::{self, B}, c};\n// use crate::d;\n");
    write("b/mod.rs", "mod inner;\npub use inner::B;\n");
    write("b/inner.rs", "use super::super::c::C as Other;\n");
    write("c.rs", "fn f() { super::a::g() }\n#[cfg(test)]\nmod tests { use crate::b; }\n");
    let imports = imports(sources.path());
    let expected = ["a.rs", "b/inner.rs", "b/mod.rs", "c.rs"].map(str::to_string);
    assert_eq!(circles(&imports), BTreeSet::from([BTreeSet::from(expected)]), "{imports:?}");
    write("c.rs", "#[cfg(test)]\nmod tests { use crate::a; }\n");
    assert!(circles(&self::imports(sources.path())).is_empty());
}

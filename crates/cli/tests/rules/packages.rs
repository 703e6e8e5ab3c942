//! deny.toml allows the license and the registry of each third-party package, and lists each
//! package that is present in several versions. It has no license and no exception that is not
//! needed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{cargo, root};

/// The part of deny.toml that is checked here; cargo-deny checks the rest.
#[derive(Deserialize)]
pub(super) struct Deny {
    graph: Graph,
    pub(super) licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Licenses {
    pub(super) allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    package: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: BTreeSet<String>,
}

/// A third-party package.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
}

pub(super) fn deny() -> Deny {
    let file = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    toml::from_str(&file).expect("deny.toml is well formed")
}

/// The third-party packages that are built for the targets of deny.toml. (`cargo metadata` would
/// also list optional packages that are not enabled.)
fn packages(deny: &Deny) -> BTreeSet<Package> {
    let mut arguments = vec!["tree", "--workspace", "--prefix", "none", "--format", "{p}|{l}"];
    arguments.extend(deny.graph.targets.iter().flat_map(|target| ["--target", target]));
    let printed = cargo(&arguments);
    let package = |line: &str| {
        let (what, license) = line.trim_end_matches(" (*)").split_once('|')?;
        // `cargo tree` prints the folder of a workspace package after its version, and marks
        // procedural macros. A line with a third word is therefore a workspace package.
        let mut words = what.trim_end_matches(" (proc-macro)").split(' ');
        let (name, version, None) = (words.next()?, words.next()?, words.next()) else { return None };
        let (version, license) = (version.trim_start_matches('v').to_owned(), license.to_owned());
        Some(Package { name: name.to_owned(), version, license })
    };
    let packages: BTreeSet<Package> = printed.lines().filter_map(package).collect();
    assert!(packages.len() > 50, "cargo tree lists them: {packages:?}");
    packages
}

/// Returns true if `allowed` satisfies an SPDX expression. The expression consists of alternatives
/// joined by OR (or, in old expressions, by a slash). The parts of an alternative are joined by
/// AND. Adds the allowed licenses that occur in the expression to `used`.
pub(super) fn is_satisfied(
    expression: &str,
    allowed: &BTreeSet<String>,
    used: &mut BTreeSet<String>,
) -> bool {
    let mut words: Vec<String> = Vec::new();
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    for word in spaced.split_whitespace() {
        match words.last_mut() {
            // `Apache-2.0 WITH LLVM-exception` is one license.
            Some(last) if word == "WITH" || last.ends_with(" WITH") => *last += &format!(" {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    let mut at = 0;
    either(&words, &mut at, allowed, used) && at == words.len()
}

fn either(words: &[String], at: &mut usize, allowed: &BTreeSet<String>, used: &mut BTreeSet<String>) -> bool {
    let mut is_satisfied = false;
    loop {
        let mut is_whole = true;
        loop {
            is_whole &= match words.get(*at).map(String::as_str) {
                Some("(") => {
                    *at += 1;
                    let inner = either(words, at, allowed, used);
                    let is_closed = words.get(*at).is_some_and(|word| word == ")");
                    *at += 1;
                    inner && is_closed
                }
                Some(licence) => {
                    *at += 1;
                    allowed.contains(licence) && {
                        used.insert(licence.to_owned());
                        true
                    }
                }
                None => false,
            };
            match words.get(*at) {
                Some(word) if word == "AND" => *at += 1,
                _ => break,
            }
        }
        is_satisfied |= is_whole;
        match words.get(*at) {
            Some(word) if word == "OR" => *at += 1,
            _ => return is_satisfied,
        }
    }
}

#[test]
fn every_package_has_an_allowed_licence() {
    let deny = deny();
    let mut used = BTreeSet::new();
    for package in packages(&deny) {
        let Package { name, version, license } = &package;
        assert!(
            is_satisfied(license, &deny.licenses.allow, &mut used),
            "{name} {version} is under {license}, which deny.toml does not allow"
        );
    }
    let unused: Vec<_> = deny.licenses.allow.difference(&used).collect();
    assert!(unused.is_empty(), "deny.toml allows licences that no package has: {unused:?}");
}

#[test]
fn every_package_comes_from_a_known_registry() {
    let deny = deny();
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock is there");
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = ")).map(|s| s.trim_matches('"'));
    for source in sources {
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        assert!(deny.sources.allow_registry.contains(registry), "a package comes from {source}");
    }
}

#[test]
fn duplicate_packages_are_listed_exceptions() {
    let deny = deny();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages(&deny) {
        versions.entry(package.name).or_default().insert(package.version);
    }
    let twice: BTreeSet<_> = versions.iter().filter(|(_, of)| of.len() > 1).map(|(name, _)| name).collect();
    let skipped: BTreeSet<_> = deny.bans.skip.iter().map(|skip| &skip.package).collect();
    let new: Vec<_> = twice.difference(&skipped).map(|name| (name, &versions[*name])).collect();
    assert!(new.is_empty(), "packages in several versions: {new:?}; `cargo tree -i NAME@VERSION` shows why");
    let gone: Vec<_> = skipped.difference(&twice).collect();
    assert!(gone.is_empty(), "deny.toml names packages that are there once: {gone:?}");
}

#[test]
fn licence_expressions_need_one_allowed_alternative() {
    let allowed: BTreeSet<String> = ["MIT", "ISC"].map(str::to_owned).into();
    let is = |expression| is_satisfied(expression, &allowed, &mut BTreeSet::new());
    for expression in ["MIT", "Apache-2.0 OR MIT", "Apache-2.0/MIT", "ISC AND (Apache-2.0 OR MIT)"] {
        assert!(is(expression), "{expression}");
    }
    for expression in ["", "GPL-3.0", "MIT AND Zlib", "MIT WITH LLVM-exception", "ISC AND (Zlib OR GPL-3.0)"]
    {
        assert!(!is(expression), "{expression}");
    }
}

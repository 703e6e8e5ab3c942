//! Users have one profile: the documents install it, the packages and images hold it, and the
//! figures are measured with it.

use std::fs;
use std::path::PathBuf;

use super::{list, metadata, root, text};

/// The profile of everything that a user keeps.
const USERS: &str = "release";

/// The profile of the first command of the README, and of tests that would be slow without
/// optimization.
const QUICK: &str = "quick";

/// The documents: those of the root, and every page below docs.
fn documents() -> Vec<PathBuf> {
    let mut folders = vec![root().join("docs")];
    let mut found: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of documents").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The profile that a command line of cargo builds with, if it builds programs.
fn profile_of(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace().skip_while(|word| *word != "cargo").skip(1);
    let verb = words.next()?;
    // Cargo's own arguments end at `--`.
    let arguments: Vec<&str> = words.take_while(|word| *word != "--").collect();
    let named = arguments.windows(2).find(|pair| pair[0] == "--profile").map(|pair| pair[1]);
    let default = match verb {
        "install" => "release",
        "build" | "run" | "test" => "dev",
        _ => return None,
    };
    let is_release = arguments.contains(&"--release");
    Some(named.unwrap_or(if is_release { "release" } else { default }))
}

/// The profile that a script of the packaging builds with if its user names none.
fn profile_of_script(script: &str) -> String {
    let text = fs::read_to_string(root().join(script)).expect("a script of the packaging");
    let line = text.lines().find_map(|line| line.strip_prefix("profile=${")).expect("a profile");
    let (_, default) = line.split_once(":-").expect("a default");
    default.trim_end_matches('}').to_owned()
}

#[test]
fn packages_and_images_hold_the_users_profile() {
    for script in
        ["packaging/deb/build", "packaging/images/build", "packaging/portable/build", "packaging/wheel/build"]
    {
        assert_eq!(profile_of_script(script), USERS, "{script}");
    }
}

#[test]
fn documents_use_the_users_profile() {
    let mut wrong = Vec::new();
    let mut installs = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("documents are UTF-8");
        for (n, line) in text.lines().enumerate() {
            let Some(profile) = profile_of(line).filter(|_| line.trim_start().starts_with("cargo ")) else {
                continue;
            };
            installs += usize::from(line.contains("cargo install"));
            let may_be_quick = line.contains("cargo test") || line.contains("-- demo");
            // A tool of a test alone may be built with the profile dev, which is the fastest to
            // build.
            let is_right = match profile {
                USERS => true,
                QUICK => may_be_quick,
                other => other == "dev" && !line.contains("install"),
            };
            if !is_right {
                wrong.push(format!("{}:{}: {line}", path.display(), n + 1));
            }
        }
        let other = ["target/quick/", "target/dist/"].into_iter().find(|folder| text.contains(folder));
        wrong.extend(other.map(|folder| format!("{}: {folder}", path.display())));
    }
    assert!(installs >= 2, "the documents have install commands");
    assert!(wrong.is_empty(), "name the profile {USERS}:\n{}", wrong.join("\n"));
}

#[test]
fn command_line_profiles_are_detected() {
    assert_eq!(profile_of("cargo install --locked --path crates/cli"), Some("release"));
    assert_eq!(profile_of("cargo run --profile quick --bin namely -- demo"), Some("quick"));
    assert_eq!(profile_of("FOO=1 cargo run --release -- --profile other"), Some("release"));
    assert_eq!(profile_of("cargo clippy --profile other"), None);
}

/// Nested builds of tests use the features that `cargo test --workspace` builds with: those of the
/// dev-dependencies. With others, cargo would build nearly the whole workspace a second time.
#[test]
fn nested_builds_use_test_features() {
    let metadata = metadata();
    let mut wanted = std::collections::BTreeSet::new();
    for package in list(&metadata, "packages") {
        for dependency in list(package, "dependencies") {
            let is_ours = text(dependency, "name").starts_with("namely-");
            if is_ours && text(dependency, "kind") == "dev" {
                let features = list(dependency, "features").iter().filter_map(|feature| feature.as_str());
                wanted.extend(features.map(|feature| format!("{}/{feature}", text(dependency, "name"))));
            }
        }
    }
    let world = fs::read_to_string(root().join("interop/src/world.rs")).expect("a source");
    let (_, rest) = world.split_once("TEST_FEATURES: &str =").expect("the list");
    let named: std::collections::BTreeSet<String> =
        rest.split('"').nth(1).unwrap_or_default().split(',').map(str::to_owned).collect();
    assert_eq!(wanted, named, "TEST_FEATURES in interop/src/world.rs");
}

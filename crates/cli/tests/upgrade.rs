//! This version reads the files that each release wrote. `fixtures/VERSION` contains those of one
//! release: a key chain, the disk of a content store, and the sample configuration.

use std::fs;
use std::path::{Path, PathBuf};

use namely_daemon::config::Config;

use crate::common::Home;

/// The releases with fixtures.
const VERSIONS: [&str; 1] = ["0.1.0"];

fn fixture(version: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version).join(name)
}

/// A home with the key chain of a release.
fn home_of(version: &str) -> Home {
    let home = Home::new();
    namely_testkit::copy_private(&fixture(version, "home"), &home.path("home"));
    home
}

#[test]
fn keys_of_each_release_sign() {
    for version in VERSIONS {
        let mut home = home_of(version);
        home.start_router();
        fs::create_dir(home.path("data")).unwrap();
        fs::write(home.path("data/f"), "content").unwrap();
        home.serve("/fixture/numbers", ["serve", "data", "--prefix", "/fixture/numbers"]);
        home.ok(["get", "/fixture/numbers/f", "-o", "got"]);
        assert_eq!(fs::read_to_string(home.path("got")).unwrap(), "content", "{version}");
        let keys = home.ok(["key", "list"]);
        assert_eq!(keys.matches("/KEY/").count(), 1, "{version}: no key was made: {keys}");
    }
}

#[test]
fn a_disk_of_each_release_answers() {
    let numbers: String = (1..=3000).map(|number| format!("{number}\n")).collect();
    for version in VERSIONS {
        let mut home = home_of(version);
        namely_testkit::copy_private(&fixture(version, "cs"), &home.path("cs"));
        let disk = home.path("cs").display().to_string();
        home.start_router_with(&["--cs-disk", &disk]);
        // By the versioned name: no cached metadata is fresh any more.
        home.ok(["get", "/fixture/numbers/v=1795911617769", "-o", "got"]);
        assert_eq!(fs::read_to_string(home.path("got")).unwrap(), numbers, "{version}");
    }
}

#[test]
fn a_configuration_of_each_release_is_accepted() {
    for version in VERSIONS {
        let loaded = Config::load(&fixture(version, "namely.toml"));
        assert!(loaded.is_ok(), "{version}: {:?}", loaded.err());
    }
}

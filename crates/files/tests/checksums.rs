//! Lists of checksums, and versions of trees.

use std::fs;
use std::path::Path;
use std::process::Command;

use namely_files::get::{Checksums, FetchedTree, Filter, TreeRules, find_version, get_tree_by_rules};
use namely_files::index::PACKED_OCTETS_MAX;
use namely_files::{GetError, GetOptions, get};
use namely_security::{ContentDigest, DigestAlgorithm};
use namely_socket::Flow;
use namely_testkit::until;

use crate::common::{content, name, part_of, resuming, unwatched};
use crate::trees::{SYNC, Site};

/// Octets of a file that is fetched by its own name.
const LARGE: usize = PACKED_OCTETS_MAX as usize + 1;

fn digest(content: &[u8]) -> ContentDigest {
    ContentDigest::of(DigestAlgorithm::Sha256, content)
}

/// A line of a list.
fn line(path: &str, content: &[u8]) -> String {
    format!("{}  {path}\n", digest(content))
}

fn list(lines: &[String]) -> Checksums {
    Checksums::parse(lines.concat().as_bytes()).unwrap()
}

fn fetch(site: &Site, checksums: &Checksums) -> FetchedTree {
    let filter = Filter::default();
    let rules = TreeRules { filter: &filter, checksums: Some(checksums) };
    let mut watch = |_: namely_files::get::TreeEvent<'_>| Flow::Continue;
    get_tree_by_rules(&site.consumer, &name("/p"), &site.got(), SYNC, rules, &mut watch).unwrap()
}

#[test]
fn another_digest_leaves_a_partial_file() {
    let site = Site::new();
    let right = content(100_000, 1);
    site.write("f", &right);
    let target = site.directory.path().join("copy");
    let fetch = |digest| {
        let options = GetOptions { digest: Some(digest), ..resuming() };
        get(&site.consumer, &name("/p/f"), &target, options, &mut unwatched)
    };
    let error = fetch(digest(b"another")).unwrap_err();
    assert!(matches!(&error, GetError::Checksum { part: Some(_), .. }), "{error}");
    assert!(!target.exists() && fs::read(part_of(&target)).unwrap() == right);
    let got = fetch(digest(&right)).unwrap();
    assert_eq!((got.resumed_octets, got.progress.octets), (100_000, 0), "nothing is fetched again");
    assert!(fs::read(&target).unwrap() == right && !part_of(&target).exists());
}

#[test]
fn listed_digests_decide_about_trees() {
    let site = Site::new();
    let (small, large) = (content(100, 1), content(LARGE, 2));
    for file in ["a", "b", "c"] {
        site.write(file, &small);
    }
    site.write("d/large", &large);
    let wrong = [line("a", &small), line("./b", b"x"), line("d/large", b"x"), line("gone", b"x")];
    let got = fetch(&site, &list(&wrong));
    assert_eq!((got.files, got.failures, got.unlisted), (2, 2, 1), "{:?}", got.failed);
    assert_eq!(got.missing, [Path::new("gone")]);
    for (file, expected) in [("b", &small), ("d/large", &large)] {
        let path = site.got().join(file);
        assert!(!path.exists() && fs::read(part_of(&path)).unwrap() == *expected, "{file}");
    }

    let right = list(&[line("a", &small), line("b", &small), line("d/large", &large)]);
    let got = fetch(&site, &right);
    assert_eq!((got.files, got.unchanged, got.failures), (2, 2, 0), "{:?}", got.failed);
    assert!(!part_of(&site.got().join("d/large")).exists(), "it has its final name now");
    // Another content of the same size and time is fetched again.
    for (file, octets) in [("a", 100), ("d/large", LARGE)] {
        let path = site.got().join(file);
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, content(octets, 7)).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
    let got = fetch(&site, &right);
    assert_eq!((got.files, got.unchanged, got.missing.len()), (2, 2, 0), "{:?}", got.failed);
    assert!(fs::read(site.got().join("a")).unwrap() == small);
}

#[test]
fn the_version_of_a_tree_changes_with_its_files() {
    let site = Site::new();
    site.write("d/f", "1");
    let version = || find_version(&site.consumer, &name("/p")).unwrap();
    let first = version();
    assert!(first.is_some());
    assert_eq!(version(), first);
    site.write("d/f", "22");
    until("another version", || (version() != first).then_some(()));
    let of_file = find_version(&site.consumer, &name("/p/d/f"));
    assert!(matches!(of_file, Err(GetError::NotDirectory { .. })), "{of_file:?}");
}

/// Returns the lines that `command` prints for these of the served files.
fn printed(site: &Site, command: &str, files: &[&str]) -> Option<Vec<u8>> {
    let mut words = command.split(' ').chain(files.iter().copied());
    let output = Command::new(words.next()?).args(words).current_dir(site.served()).output().ok()?;
    assert!(output.status.success(), "{command}: {output:?}");
    Some(output.stdout)
}

#[test]
fn lists_of_installed_programs_are_read() {
    let site = Site::new();
    let tags = ["md5sum --tag", "sha1sum --tag", "sha256sum --tag", "sha512sum --tag"];
    for command in ["md5sum", "sha1sum", "sha256sum", "sha512sum", "xrdadler32"].into_iter().chain(tags) {
        site.write("small", content(100, 1));
        site.write("large", content(LARGE, 2));
        // xrdadler32 takes one file.
        let lines = ["small", "large"].map(|file| printed(&site, command, &[file]));
        let [Some(small), Some(large)] = lines else {
            assert_eq!(command, "xrdadler32", "coreutils are installed");
            namely_testkit::skip(namely_testkit::Need::Xrootd, "xrdadler32 is not installed");
            continue;
        };
        let list = Checksums::parse(&[small, large].concat()).unwrap();
        let got = fetch(&site, &list);
        assert_eq!((got.failures, got.unlisted), (0, 0), "{command}: {:?}", got.failed);
        for (file, octets) in [("small", 100), ("large", LARGE)] {
            site.write(file, content(octets, 3));
        }
        let got = fetch(&site, &list);
        assert_eq!((got.files, got.failures), (0, 2), "{command}: another content");
    }
}

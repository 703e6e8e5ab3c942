//! Copies that follow a producer: the entries that are fetched, deleted, linked or left alone.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use namely_files::get::{FetchedTree, Filter, RESTARTS_MAX, TreeEvent, get_tree_filtered};
use namely_files::index::PACKED_OCTETS_MAX;
use namely_files::server::SNAPSHOT_OCTETS_MAX;
use namely_files::{GetError, GetOptions, get};
use namely_socket::{FetchError, Flow};
use namely_testkit::{Need, skip, until};
use namely_transport::object::ObjectError;

use crate::common::{content, name, names_in, unwatched};
use crate::trees::{SYNC, Site};

const DELETE: GetOptions = GetOptions { delete: true, ..SYNC };

/// Returns true, and reports it, if copies cannot be marked.
fn lacks_attributes(site: &Site) -> bool {
    let flags = rustix::fs::XattrFlags::empty();
    let is_lacking = rustix::fs::setxattr(site.directory.path(), "user.namely.test", b"", flags).is_err();
    if is_lacking {
        skip(Need::Kernel, "this file system has no attributes");
    }
    is_lacking
}

fn set_time(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Replaces a served file by one of another content, the same size and the same time.
fn replace(site: &Site, file: &str, new: &[u8]) {
    let path = site.served().join(file);
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let beside = site.directory.path().join("new");
    fs::write(&beside, new).unwrap();
    set_time(&beside, time);
    fs::rename(&beside, &path).unwrap();
}

/// Fetches until files arrive. The server reuses an index for a moment.
fn fetch_anew(site: &Site, options: GetOptions) -> FetchedTree {
    until("a new index", || Some(site.fetch(options).unwrap()).filter(|got| got.files > 0))
}

#[test]
fn files_replaced_with_the_same_time_are_fetched() {
    let site = Site::new();
    if lacks_attributes(&site) {
        return;
    }
    let large = PACKED_OCTETS_MAX as usize + 1;
    site.write("small", content(100, 1));
    site.write("d/large", content(large, 1));
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for file in ["small", "d/large"] {
        set_time(&site.served().join(file), long_ago);
    }
    assert_eq!(site.fetch(SYNC).unwrap().files, 2);
    replace(&site, "small", &content(100, 2));
    assert_eq!(fetch_anew(&site, SYNC).files, 1);
    assert!(fs::read(site.got().join("small")).unwrap() == content(100, 2));
    replace(&site, "d/large", &content(large, 2));
    assert_eq!(fetch_anew(&site, SYNC).files, 1);
    assert!(fs::read(site.got().join("d/large")).unwrap() == content(large, 2));
}

#[test]
fn a_missing_source_empties_no_mirror() {
    let site = Site::new();
    if lacks_attributes(&site) {
        return;
    }
    site.write("f", "1");
    site.fetch(SYNC).unwrap();
    let aside = site.directory.path().join("aside");
    fs::rename(site.served(), &aside).unwrap();
    let error = site.fetch(DELETE).unwrap_err();
    let is_missing = |error: &GetError| {
        matches!(error.fetch_error(), Some(FetchError::Object(ObjectError::SourceMissing { .. })))
    };
    assert!(is_missing(&error), "{error}");
    assert_eq!(names_in(&site.got()), ["f"]);

    // A new directory in its place is served, and the same once it is back.
    fs::create_dir(site.served()).unwrap();
    site.write("g", "22");
    fetch_anew(&site, DELETE);
    assert_eq!(names_in(&site.got()), ["g"]);
    fs::rename(site.served(), site.directory.path().join("second")).unwrap();
    fs::rename(&aside, site.served()).unwrap();
    fetch_anew(&site, DELETE);
    assert_eq!(fs::read(site.got().join("f")).unwrap(), b"1");
}

/// The kind of the test above, inside a tree.
#[test]
fn a_broken_directory_empties_no_copy() {
    let site = Site::new();
    site.write("v1/f", "x");
    symlink("v1", site.served().join("current")).unwrap();
    for i in 0..20 {
        site.write(format!("closed/{i}"), "x");
    }
    assert_eq!(site.fetch(DELETE).unwrap().files, 22);
    site.write("new", "x");
    fs::remove_dir_all(site.served().join("v1")).unwrap();
    let close = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(site.served().join("closed"), permissions).unwrap();
    };
    close(0);
    assert!(fetch_anew(&site, DELETE).files > 0);
    assert!(!site.got().join("v1").exists(), "this one is gone");
    assert_eq!(fs::read(site.got().join("current/f")).unwrap(), b"x", "its link leads nowhere");
    assert_eq!(fs::read_dir(site.got().join("closed")).unwrap().count(), 20, "it is unreadable");
    close(0o755);
}

#[test]
fn most_of_a_copy_is_not_deleted_by_default() {
    let site = Site::new();
    if lacks_attributes(&site) {
        return;
    }
    let add = |files: usize| {
        (0..files).for_each(|file| fs::write(site.got().join(format!("old{file}")), "x").unwrap());
    };
    site.write("0", "x");
    site.fetch(SYNC).unwrap();
    // Ten entries: a small copy.
    add(9);
    assert_eq!(site.fetch(DELETE).unwrap().deleted, 9);

    (1..6).for_each(|file| site.write(file.to_string(), "x"));
    fetch_anew(&site, SYNC);
    // Half of twelve, then more than half of thirteen.
    add(6);
    assert_eq!(site.fetch(DELETE).unwrap().deleted, 6);
    add(7);
    let error = site.fetch(DELETE).unwrap_err();
    assert!(matches!(error, GetError::TooManyRemovals { removals: 7, entries: 13, .. }), "{error}");
    assert!(site.fetch(GetOptions { delete_max: Some(6), ..DELETE }).is_err());
    assert_eq!(names_in(&site.got()).len(), 13);
    assert_eq!(site.fetch(GetOptions { delete_max: Some(7), ..DELETE }).unwrap().deleted, 7);
}

#[test]
fn repeated_attempts_delete_no_more_than_allowed() {
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = is_armed.clone();
    let site = Site::disturbed(move |served| {
        let served = served.to_owned();
        Box::new(move |interest| {
            let text = interest.name.to_string();
            if text.contains("32=pack")
                && text.ends_with("32=manifest/seg=1")
                && armed.swap(false, Ordering::Relaxed)
            {
                fs::write(served.join("large"), vec![2; PACKED_OCTETS_MAX as usize]).unwrap();
                fs::remove_file(served.join("second")).unwrap();
            }
        })
    });
    if lacks_attributes(&site) {
        return;
    }
    // As in `a_missing_pack_needs_a_new_index`: the change ends the version of the pack.
    for file in 0..29 {
        site.write(format!("before{file:02}"), vec![file; PACKED_OCTETS_MAX as usize]);
    }
    site.write("large", vec![1; PACKED_OCTETS_MAX as usize]);
    site.write("first", "x");
    site.write("second", "x");
    site.fetch(SYNC).unwrap();
    fs::remove_file(site.served().join("first")).unwrap();
    let one = GetOptions { delete_max: Some(1), ..DELETE };
    let dry_run = GetOptions { dry_run: true, ..one };
    until("a new index", || (site.fetch(dry_run).unwrap().deleted == 1).then_some(()));

    is_armed.store(true, Ordering::Relaxed);
    let got = site.fetch(GetOptions { resume: false, ..one });
    assert!(site.got().join("second").exists(), "{got:?}");
}

#[test]
fn a_folder_that_is_no_copy_keeps_its_files() {
    let site = Site::new();
    site.write("f", "x");
    fs::create_dir(site.got()).unwrap();
    fs::write(site.got().join("thesis.tex"), "years").unwrap();
    for options in [DELETE, GetOptions { delete_max: Some(100), ..DELETE }] {
        let error = site.fetch(options).unwrap_err();
        assert!(matches!(error, GetError::NotCopy { .. }), "{error}");
        assert_eq!(names_in(&site.got()), ["thesis.tex"]);
    }
    // Who fetches into it makes it a copy.
    site.fetch(SYNC).unwrap();
    assert_eq!(site.fetch(DELETE).unwrap().deleted, 1);
    assert_eq!(names_in(&site.got()), ["f"]);
}

#[test]
fn links_that_stay_inside_become_links() {
    let site = Site::new();
    site.write("f", "x");
    site.write("d/g", "y");
    for (target, link) in [
        ("f", "to-file"),
        ("../f", "d/up"),
        ("d", "to-directory"),
        ("later", "dangling"),
        ("/etc/passwd", "absolute"),
        ("../secret", "out"),
        ("d/../f", "through"),
    ] {
        symlink(target, site.served().join(link)).unwrap();
    }
    let links = GetOptions { links: true, ..SYNC };
    let got = site.fetch(links).unwrap();
    assert_eq!((got.links, got.left_out, got.failures), (4, 2, 0), "{:?}", got.failed);
    let target = |link: &str| fs::read_link(site.got().join(link)).unwrap();
    assert_eq!([target("to-file"), target("d/up")], [Path::new("f"), Path::new("../f")]);
    assert_eq!([target("to-directory"), target("dangling")], [Path::new("d"), Path::new("later")]);
    // A link whose way might lead out is copied as the file that it leads to.
    assert!(fs::symlink_metadata(site.got().join("through")).unwrap().is_file());
    assert_eq!(site.fetch(links).unwrap().links, 0, "they are there");

    // Without the option a link is a copy again.
    fs::remove_file(site.got().join("to-directory")).unwrap();
    site.fetch(SYNC).unwrap();
    assert_eq!(names_in(&site.got().join("to-directory")), ["g", "up"]);
}

#[test]
fn a_link_in_place_of_a_directory_is_limited() {
    let site = Site::new();
    site.write("f", "x");
    (0..12).for_each(|file| site.write(format!("d/{file}"), "x"));
    site.fetch(SYNC).unwrap();
    fs::remove_dir_all(site.served().join("d")).unwrap();
    symlink("f", site.served().join("d")).unwrap();
    // The directory and twelve files of fourteen entries.
    let links = GetOptions { links: true, ..DELETE };
    let error = until("a new index", || site.fetch(links).err());
    assert!(matches!(error, GetError::TooManyRemovals { removals: 13, entries: 14, .. }), "{error}");
    assert_eq!(names_in(&site.got().join("d")).len(), 12);
    let got = site.fetch(GetOptions { delete_max: Some(13), ..links }).unwrap();
    assert_eq!((got.deleted, got.links, got.failures), (1, 1, 0), "{:?}", got.failed);
    assert_eq!(fs::read_link(site.got().join("d")).unwrap(), Path::new("f"));
}

#[test]
fn patterns_choose_the_entries_of_a_copy() {
    let site = Site::new();
    for file in ["a.root", "a.log", "tmp/b.root", "d/c.root", "d/deep/e.log"] {
        site.write(file, "x");
    }
    site.fetch(SYNC).unwrap();
    fs::write(site.got().join("mine.log"), "x").unwrap();
    fs::write(site.got().join("mine.root"), "x").unwrap();
    for file in ["a.root", "a.log", "tmp/b.root", "d/c.root", "d/deep/e.log"] {
        fs::remove_file(site.got().join(file)).unwrap();
    }
    let mut filter = Filter::default();
    filter.push("/d/deep/*.log", true).unwrap();
    filter.push("*.log", false).unwrap();
    filter.push("tmp/", false).unwrap();
    let mut deleted = Vec::new();
    let got = get_tree_filtered(&site.consumer, &name("/p"), &site.got(), DELETE, &filter, &mut |event| {
        if let TreeEvent::Deleted(path) = event {
            deleted.push(path.to_owned());
        }
        Flow::Continue
    });
    assert_eq!(got.unwrap().files, 3);
    assert_eq!(names_in(&site.got()), ["a.root", "d", "mine.log", "tmp"]);
    assert!(site.got().join("d/deep/e.log").exists());
    assert_eq!(deleted, [Path::new("mine.root")]);
    assert!(names_in(&site.got().join("tmp")).is_empty(), "an excluded directory is not entered");
}

#[test]
fn contents_are_compared_on_request() {
    let site = Site::new();
    let large = PACKED_OCTETS_MAX as usize + 1;
    for file in ["small", "equal"] {
        site.write(file, content(100, 1));
    }
    site.write("large", content(large, 1));
    site.write("large-equal", content(large, 2));
    site.fetch(SYNC).unwrap();
    for (file, octets) in [("small", 100), ("large", large)] {
        let path = site.got().join(file);
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        // The attributes of the file stay, too.
        fs::write(&path, content(octets, 7)).unwrap();
        set_time(&path, time);
    }
    // Equal contents are recognized in spite of their times.
    for file in ["equal", "large-equal"] {
        set_time(&site.got().join(file), SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    }
    let got = site.fetch(GetOptions { compare_content: true, ..SYNC }).unwrap();
    assert_eq!((got.files, got.unchanged, got.failures), (2, 2, 0), "{:?}", got.failed);
    assert!(fs::read(site.got().join("small")).unwrap() == content(100, 1));
    assert!(fs::read(site.got().join("large")).unwrap() == content(large, 1));
    assert_eq!(site.fetch(SYNC).unwrap().unchanged, 4, "their times are the producer's again");
}

#[test]
fn new_permissions_fetch_no_large_file_again() {
    let site = Site::new();
    site.write("large", content(PACKED_OCTETS_MAX as usize + 1, 1));
    site.fetch(SYNC).unwrap();
    fs::set_permissions(site.served().join("large"), fs::Permissions::from_mode(0o700)).unwrap();
    until("the new permissions", || {
        let got = site.fetch(SYNC).unwrap();
        assert_eq!((got.files, got.unchanged, got.failures), (0, 1, 0), "{:?}", got.failed);
        (fs::metadata(site.got().join("large")).unwrap().mode() & 0o700 == 0o700).then_some(())
    });
    assert!(fs::read(site.got().join("large")).unwrap() == content(PACKED_OCTETS_MAX as usize + 1, 1));
}

#[test]
fn times_before_1970_are_not_bent() {
    let site = Site::new();
    let old = SystemTime::UNIX_EPOCH - Duration::from_secs(86_400);
    site.write("old", "x");
    set_time(&site.served().join("old"), old);
    if fs::metadata(site.served().join("old")).unwrap().modified().unwrap() != old {
        return skip(Need::Kernel, "this file system has no such times");
    }
    let object = site.consumer.find(&name("/p/old")).unwrap();
    assert_eq!(object.metadata.unwrap().mtime_ns, None);
    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.files, got.failures), (1, 0), "{:?}", got.failed);
    let copied = fs::metadata(site.got().join("old")).unwrap().modified().unwrap();
    assert!(copied > SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000), "{copied:?}");
}

/// Appends an octet to the served file before the first packet of each of the first `changes`
/// versions is answered.
fn changing(changes: usize) -> Site {
    Site::disturbed(move |served| {
        let (path, mut versions) = (served.join("f"), BTreeSet::new());
        Box::new(move |interest| {
            let version = interest.name.component(2).and_then(|component| component.version());
            if let Some(version) = version
                && versions.len() < changes
                && versions.insert(version)
            {
                let mut file = fs::File::options().append(true).open(&path).unwrap();
                file.write_all(b"x").unwrap();
            }
        })
    })
}

#[test]
fn a_fetch_follows_a_changing_file() {
    // Too large to be copied at each change: the fetch follows as often as allowed, and no more.
    for (changes, is_fetched) in [(RESTARTS_MAX, true), (RESTARTS_MAX + 1, false)] {
        let site = changing(changes);
        site.write("f", content(SNAPSHOT_OCTETS_MAX as usize, 1));
        let got = get(&site.consumer, &name("/p/f"), &site.got(), GetOptions::default(), &mut unwatched);
        match got {
            Ok(_) => assert!(
                is_fetched && fs::read(site.got()).unwrap() == fs::read(site.served().join("f")).unwrap()
            ),
            Err(error) => assert!(!is_fetched && matches!(error, GetError::Changed { .. }), "{error}"),
        }
    }
    // A log to which each request appends a line.
    let site = changing(usize::MAX);
    site.write("f", content(20_000, 1));
    get(&site.consumer, &name("/p/f"), &site.got(), GetOptions::default(), &mut unwatched).unwrap();
    let got = fs::read(site.got()).unwrap();
    assert!(fs::read(site.served().join("f")).unwrap().starts_with(&got) && got.len() >= 20_000);
}

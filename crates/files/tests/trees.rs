//! Trees of many small files: the fetched tree equals the served one under any change meanwhile,
//! and nothing outside the target is touched.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{answer_all, believing, connect, content, key_of, name, names_in};
use namely_files::get::{FAILED_MAX, FetchedTree, TreeEvent};
use namely_files::index::{INDEX_ENTRIES_MAX, PACKED_OCTETS_MAX};
use namely_files::{FileServer, GetError, GetOptions, ServeOptions, get_tree};
use namely_socket::{Consumer, Flow};
use namely_testkit::until;
use namely_transport::connection::Outbox;
use namely_transport::serve::Producer;
use namely_wire::{InterestView, LpHeaders, Name};

/// Called for each Interest before the server answers.
pub(crate) type Interfere = Box<dyn FnMut(&InterestView<'_>) + Send>;

/// A file server with a test's interference.
struct Disturbed {
    server: FileServer,
    interfere: Interfere,
    requested: Arc<Mutex<Vec<String>>>,
}

impl Producer for Disturbed {
    fn prefixes(&self) -> Vec<Name> {
        self.server.prefixes()
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        (self.interfere)(interest);
        self.requested.lock().unwrap().push(interest.name.to_string());
        self.server.answer(interest, headers, outbox);
    }
}

pub(crate) struct Site {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) consumer: Consumer,
    requested: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::disturbed(|_| Box::new(|_| ()))
    }

    pub(crate) fn disturbed(interfere: impl FnOnce(&Path) -> Interfere) -> Self {
        let (signer, anchor) = key_of("/p");
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("served")).unwrap();
        let requested = Arc::new(Mutex::new(Vec::new()));
        let served = directory.path().join("served");
        let server = FileServer::new(&served, ServeOptions::new(name("/p")), signer).unwrap();
        let subject = Disturbed { server, interfere: interfere(&served), requested: requested.clone() };
        Site { directory, consumer: connect(subject, believing(anchor)), requested }
    }

    pub(crate) fn served(&self) -> PathBuf {
        self.directory.path().join("served")
    }

    pub(crate) fn got(&self) -> PathBuf {
        self.directory.path().join("got")
    }

    pub(crate) fn write(&self, file: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.served().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn fetch(&self, options: GetOptions) -> Result<FetchedTree, GetError> {
        self.watch(options, &mut |_| Flow::Continue)
    }

    pub(crate) fn watch(
        &self,
        options: GetOptions,
        watch: &mut dyn FnMut(TreeEvent<'_>) -> Flow,
    ) -> Result<FetchedTree, GetError> {
        get_tree(&self.consumer, &name("/p"), &self.got(), options, watch)
    }

    /// Returns the number of names with `part` that were requested since the last call.
    fn requested(&self, part: &str) -> usize {
        let requested = std::mem::take(&mut *self.requested.lock().unwrap());
        requested.into_iter().filter(|name| name.contains(part)).collect::<BTreeSet<_>>().len()
    }
}

pub(crate) const SYNC: GetOptions = GetOptions {
    resume: true,
    sync: false,
    secret: None,
    keep_mode: false,
    allow_older: false,
    as_of_min_ns: None,
    digest: None,
    jobs: None,
    delete: false,
    delete_max: None,
    dry_run: false,
    compare_content: false,
    links: false,
};

/// The contents of `path`: of each file its content, permissions and time, of each directory its
/// time.
pub(crate) fn tree(path: &Path) -> BTreeMap<PathBuf, (Option<Vec<u8>>, u32, i64)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path_of = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path_of).unwrap();
            let time = stat.mtime() * 1_000_000_000 + stat.mtime_nsec();
            let below = path_of.strip_prefix(path).unwrap().to_owned();
            if stat.is_dir() {
                found.insert(below, (None, stat.mode() & 0o777, time));
                waiting.push(path_of);
            } else {
                found.insert(below, (Some(fs::read(&path_of).unwrap()), stat.mode() & 0o777, time));
            }
        }
    }
    found
}

#[test]
fn a_tree_arrives_with_permissions_and_times() {
    let site = Site::new();
    let sizes = [0, 1, 7_999, 8_000, 8_001, 20_000, PACKED_OCTETS_MAX - 1, PACKED_OCTETS_MAX];
    for (seed, octets) in sizes.into_iter().chain([PACKED_OCTETS_MAX + 1, 300_000]).enumerate() {
        site.write(
            format!("{}/{seed}", "abc".get(seed % 3..=seed % 3).unwrap()),
            content(octets as usize, seed),
        );
        let path = site.served().join(format!("a/b/c/{seed}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content(seed, seed)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400 | (seed as u32 % 8 * 0o10))).unwrap();
    }
    fs::create_dir(site.served().join("empty")).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    fs::File::open(site.served().join("a/b")).unwrap().set_modified(time).unwrap();
    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.files, got.unchanged, got.failures, got.directories), (20, 0, 0, 7));
    let (served, copy) = (tree(&site.served()), tree(&site.got()));
    assert!(served.keys().eq(copy.keys()), "{:?} {:?}", served.keys(), copy.keys());
    // The tests' umask leaves the owner's bits at least.
    let owners = |tree: BTreeMap<PathBuf, (Option<Vec<u8>>, u32, i64)>| -> Vec<_> {
        tree.into_iter().map(|(path, (content, mode, time))| (path, content, mode & 0o700, time)).collect()
    };
    assert!(owners(served) == owners(copy));
    let octets = sizes.iter().sum::<u64>() + PACKED_OCTETS_MAX + 1 + 300_000 + (0..10).sum::<u64>();
    assert_eq!(got.octets, octets);
}

#[test]
fn unchanged_small_files_are_not_fetched_again() {
    let site = Site::new();
    for file in 0..3000 {
        site.write(format!("{}/{file}", file % 30), content(100 + file % 900, file));
    }
    let mut last = None;
    let got = site
        .watch(SYNC, &mut |event| {
            if let TreeEvent::Progress(progress) = event {
                last = Some(progress);
            }
            Flow::Continue
        })
        .unwrap();
    assert_eq!((got.files, got.directories, got.failures), (3000, 31, 0));
    let last = last.unwrap();
    assert_eq!((last.files_wanted, last.octets_wanted, last.is_all_listed), (3000, got.octets, true));
    assert!(tree(&site.served()) == tree(&site.got()));
    // Metadata of directory and index, their segments and those of the pack, and manifests.
    let requested = site.requested("/p/");
    assert!(requested < 400, "{requested} Interests");

    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.files, got.unchanged), (0, 3000));
    assert_eq!(site.requested("32=pack"), 0);

    // Changed files are fetched, and little else; the old index may be served for a moment.
    site.write("7/7", "another");
    site.write("29/new", "new");
    let got = until("a new index", || Some(site.fetch(SYNC).unwrap()).filter(|got| got.files > 0));
    assert_eq!((got.files, got.unchanged, got.failures), (2, 2999, 0));
    assert!(site.requested("32=pack") < 40);
    assert!(tree(&site.served()) == tree(&site.got()));
}

#[test]
fn tree_names_may_have_any_octets() {
    let site = Site::new();
    let long = "x".repeat(255);
    let names: [&[u8]; 7] =
        [b"\xff\xfe", b"\n", b" ", b"-rf", b"a%2Fb", "\u{202e}ünï".as_bytes(), long.as_bytes()];
    for (seed, odd) in names.into_iter().enumerate() {
        site.write(OsStr::from_bytes(odd), content(seed, seed));
        if odd.len() < 200 {
            site.write(Path::new("d").join(OsStr::from_bytes(odd)).join("in"), content(seed, seed));
            site.write(Path::new("large").join(OsStr::from_bytes(odd)), content(100_000, seed));
        }
    }
    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.files, got.failures), (19, 0), "{:?}", got.failed);
    assert!(tree(&site.served()) == tree(&site.got()));
}

#[test]
fn a_file_changed_after_listing_is_refetched() {
    let site = Site::disturbed(|served| {
        let (served, mut is_done) = (served.to_owned(), false);
        Box::new(move |interest| {
            if interest.name.to_string().contains("32=pack") && !is_done {
                is_done = true;
                fs::write(served.join("b"), "changed, and longer than before").unwrap();
                fs::remove_file(served.join("c")).unwrap();
                fs::remove_file(served.join("d")).unwrap();
                symlink("/etc/passwd", served.join("d")).unwrap();
            }
        })
    });
    for file in ["a", "b", "c", "d", "e"] {
        site.write(file, content(3_000, file.len()));
    }
    let mut changed = Vec::new();
    let got = site.watch(SYNC, &mut |event| {
        if let TreeEvent::Changed(path) = event {
            changed.push(path.to_owned());
        }
        Flow::Continue
    });
    let got = got.unwrap();
    assert_eq!(changed, [Path::new("b"), Path::new("c"), Path::new("d")]);
    assert_eq!((got.files, got.failures), (3, 2), "{:?}", got.failed);
    assert_eq!(names_in(&site.got()), ["a", "b", "e"]);
    assert_eq!(fs::read_to_string(site.got().join("b")).unwrap(), "changed, and longer than before");
}

#[test]
fn a_missing_pack_needs_a_new_index() {
    // The file changes after its beginning was sent and before its end: no mixture may arrive.
    let site = Site::disturbed(|served| {
        let (path, mut is_done) = (served.join("large"), false);
        Box::new(move |interest| {
            let text = interest.name.to_string();
            if text.contains("32=pack") && text.ends_with("32=manifest/seg=1") && !is_done {
                is_done = true;
                fs::write(&path, vec![2; PACKED_OCTETS_MAX as usize]).unwrap();
            }
        })
    });
    // Manifest 0 covers 240 segments of 8000 octets, and the file lies across its end.
    for file in 0..29 {
        site.write(format!("before{file:02}"), vec![file; PACKED_OCTETS_MAX as usize]);
    }
    site.write("large", vec![1; PACKED_OCTETS_MAX as usize]);
    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.files, got.failures), (30, 0), "{:?}", got.failed);
    assert!(tree(&site.served()) == tree(&site.got()));
}

#[test]
fn a_stopped_tree_fetch_resumes() {
    let site = Site::new();
    for file in 0..600 {
        site.write(file.to_string(), content(20_000, file));
    }
    let mut seen = 0;
    let stopped = site.watch(SYNC, &mut |event| match event {
        TreeEvent::Progress(progress) => {
            seen = progress.files;
            if seen > 0 { Flow::Stop } else { Flow::Continue }
        }
        _ => Flow::Continue,
    });
    assert!(stopped.unwrap_err().is_stopped());
    let there = names_in(&site.got()).len() as u64;
    assert!(there >= seen && there > 0 && !names_in(&site.got()).iter().any(|name| name.contains("part")));
    site.requested("");
    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.unchanged, got.files), (there, 600 - there));
    assert!(tree(&site.served()) == tree(&site.got()));
}

#[test]
fn a_sync_deletes_files_the_producer_removed() {
    let site = Site::new();
    site.write("kept", "x");
    site.write("d/kept", "x");
    site.write("was-link/f", "x");
    site.fetch(SYNC).unwrap();
    let outside = site.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("dear"), "dear").unwrap();
    let got = site.got();
    fs::write(got.join("old"), "x").unwrap();
    fs::create_dir_all(got.join("gone/deep/deeper")).unwrap();
    fs::write(got.join("gone/deep/deeper/f"), "x").unwrap();
    symlink(&outside, got.join("d/link")).unwrap();
    symlink(&outside, got.join("gone/deep/link")).unwrap();
    fs::remove_dir_all(got.join("was-link")).unwrap();
    symlink(&outside, got.join("was-link")).unwrap();

    // A dry run lists the deletions and does none.
    let dry = GetOptions { delete: true, delete_max: Some(7), dry_run: true, ..SYNC };
    let mut deleted = Vec::new();
    let would = site.watch(dry, &mut |event| {
        if let TreeEvent::Deleted(path) = event {
            deleted.push(path.to_owned());
        }
        Flow::Continue
    });
    deleted.sort();
    assert_eq!(deleted, [Path::new("d/link"), Path::new("gone"), Path::new("old")]);
    assert_eq!(would.unwrap().deleted, 3);
    assert!(got.join("old").exists() && got.join("gone/deep/deeper/f").exists());

    // Without --delete the fetch does not follow a link that replaced a directory.
    let without = site.fetch(SYNC).unwrap();
    assert_eq!((without.deleted, without.failures), (0, 1), "{:?}", without.failed);
    assert_eq!(names_in(&outside), ["dear"]);

    // More than half of the copy: seven entries, with those in the directory.
    let refused = site.fetch(GetOptions { delete: true, ..SYNC }).unwrap_err();
    assert!(matches!(refused, GetError::TooManyRemovals { removals: 7, .. }), "{refused}");
    assert!(got.join("old").exists() && got.join("gone/deep/deeper/f").exists());
    let with = site.fetch(GetOptions { delete: true, delete_max: Some(7), ..SYNC }).unwrap();
    assert_eq!((with.deleted, with.failures), (3, 0), "{:?}", with.failed);
    assert!(tree(&site.served()) == tree(&got));
    assert_eq!(fs::read_to_string(outside.join("dear")).unwrap(), "dear");
}

#[test]
fn a_dry_run_creates_nothing() {
    let site = Site::new();
    site.write("d/f", "123");
    let mut planned = Vec::new();
    let got = site.watch(GetOptions { dry_run: true, ..SYNC }, &mut |event| {
        if let TreeEvent::PlannedFile(path, octets) = event {
            planned.push((path.to_owned(), octets));
        }
        Flow::Continue
    });
    assert_eq!(got.unwrap().files, 1);
    assert_eq!(planned, [(PathBuf::from("d/f"), Some(3))]);
    assert!(!site.got().exists());
}

#[test]
fn failed_tree_files_are_reported_and_counted() {
    let site = Site::new();
    site.write("f", "x");
    site.write("d/f", "x");
    symlink("/etc/passwd", site.served().join("out")).unwrap();
    symlink("nowhere", site.served().join("d/broken")).unwrap();
    symlink("f", site.served().join("inside")).unwrap();
    let pipe = site.served().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut left_out = Vec::new();
    let got = site.watch(SYNC, &mut |event| {
        if let TreeEvent::LeftOut(path, why) = event {
            left_out.push(format!("{}: {why}", path.display()));
        }
        Flow::Continue
    });
    let got = got.unwrap();
    assert_eq!((got.files, got.left_out, got.failures), (3, 3, 0));
    assert_eq!(
        left_out,
        [
            "out: a link that leads out or nowhere",
            "pipe: a pipe, a socket or a device",
            "d/broken: a link that leads out or nowhere"
        ]
    );
    // A file that the producer lists but cannot serve is not deleted.
    fs::write(site.got().join("pipe"), "mine").unwrap();
    site.fetch(GetOptions { delete: true, ..SYNC }).unwrap();
    assert!(site.got().join("pipe").exists());
}

#[test]
fn an_unreadable_file_fails_alone() {
    if rustix::process::geteuid().is_root() {
        return namely_testkit::skip(namely_testkit::Need::Kernel, "root reads everything");
    }
    let site = Site::new();
    site.write("f", "x");
    for (file, octets) in [("small", 10), ("large", 100_000)] {
        site.write(file, content(octets, 1));
        let path = site.served().join(file);
        fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
    }
    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.files, got.failures, got.left_out), (1, 1, 1), "{:?}", got.failed);
}

#[test]
fn stored_failures_are_limited() {
    let site = Site::new();
    for file in 0..=FAILED_MAX {
        site.write(file.to_string(), "x");
        fs::create_dir_all(site.got().join(file.to_string())).unwrap();
    }
    let got = site.fetch(SYNC).unwrap();
    assert_eq!((got.failures as usize, got.failed.len()), (FAILED_MAX + 1, FAILED_MAX));
}

#[test]
fn directories_beyond_an_index_get_their_own() {
    let site = Site::new();
    for directory in ["a", "b"] {
        fs::create_dir(site.served().join(directory)).unwrap();
        for file in 0..INDEX_ENTRIES_MAX / 2 {
            fs::write(site.served().join(directory).join(file.to_string()), "").unwrap();
        }
    }
    let dry = GetOptions { dry_run: true, ..SYNC };
    let mut at_least = Vec::new();
    let got = site.watch(dry, &mut |event| {
        if let TreeEvent::Progress(progress) = event {
            at_least.push((progress.files_wanted, progress.is_all_listed));
        }
        Flow::Continue
    });
    assert_eq!(got.unwrap().files as usize, INDEX_ENTRIES_MAX);
    // The progress reports no files until the first listing is complete.
    let first = at_least.iter().find(|(files, _)| *files > 0);
    assert_eq!(first, Some(&(INDEX_ENTRIES_MAX as u64 / 2, false)));
    assert_eq!(site.requested("32=index/32=metadata"), 2);
}

#[test]
fn an_index_never_leaves_the_target() {
    use namely_wire::tree_index::{IndexEntry, IndexItem, IndexWriter};
    let entry = |name: &'static [u8], octets| IndexEntry {
        name,
        mode: 0o644,
        mtime_ns: Some(1),
        octets,
        stamp: None,
        link: None,
    };
    let cases: [&[IndexItem<'_>]; 4] = [
        // An item is checked only after the item before it.
        &[IndexItem::Directory(b""), IndexItem::Packed(entry(b"x", PACKED_OCTETS_MAX + 1))],
        &[IndexItem::Directory(b""), IndexItem::Packed(entry(b"..", 1))],
        &[IndexItem::Directory(b"../up")],
        &[IndexItem::Directory(b""), IndexItem::Subdirectory(entry(b"a/b", 0))],
    ];
    for items in cases {
        let (signer, anchor) = key_of("/p");
        let mut writer = IndexWriter::default();
        items.iter().for_each(|item| writer.push(item));
        let producer = Forged { index: writer.into_vec(), signer };
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        std::thread::spawn(move || answer_all(far, &mut { producer }));
        let connection = namely_transport::connection::Connection::from_stream(near).unwrap();
        let consumer = Consumer::over(connection, Name::new(), believing(anchor)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("got");
        let error = get_tree(&consumer, &name("/p"), &target, SYNC, &mut |_| Flow::Continue).unwrap_err();
        assert!(matches!(error, GetError::Listing { .. }), "{items:?}: {error}");
        assert_eq!(names_in(directory.path()), ["got"]);
        assert!(names_in(&target).is_empty());
    }
}

/// Signs any index.
struct Forged {
    index: Vec<u8>,
    signer: namely_security::Signer,
}

impl Producer for Forged {
    fn prefixes(&self) -> Vec<Name> {
        Vec::new()
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        use namely_wire::rdr::{Metadata, metadata_name};
        let index = namely_wire::tree_index::index_name(name("/p").as_name()).join_version(1);
        let requested = interest.name.to_string();
        let (packet, content) = match requested.as_str() {
            "/p/32=metadata" | "/p/32=index/32=metadata" => {
                let of = interest.name.without_last(1);
                let metadata = Metadata {
                    mode: Some(0o040_755),
                    index_format: Some(1),
                    last_segment: Some(0),
                    segment_size_octets: Some(8000),
                    ..Metadata::new(index)
                };
                (metadata_name(of, 1), metadata.to_vec())
            }
            _ => (index.join_segment(0), self.index.clone()),
        };
        let last = Name::new().join_segment(0);
        let builder = namely_wire::DataBuilder::new(packet.as_name()).freshness_ms(1);
        let builder = builder.final_block_id(last.as_name().last().unwrap());
        let wire = namely_security::sign_data(&builder, &content, &self.signer).unwrap();
        outbox.send(headers, &wire);
    }
}

//! Files served and fetched: every size, every kind of change, every refusal, and the files that
//! remain on disk.

use crate::common;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use common::{believing, connect, content, key_of, name, names_in, resuming, unwatched};
use namely_files::get::{PART_SUFFIX, TreeEvent, find_file};
use namely_files::{FileServer, GetError, GetOptions, ServeOptions, get, get_to_writer, get_tree};
use namely_security::{ManifestHash, Signer, Verified};
use namely_socket::{Consumer, ConsumerOptions, FetchError, Flow, Sink};
use namely_testkit::{Need, skip, until};
use namely_transport::object::{ObjectError, Part, Progress};
use namely_transport::publish::Signing;

/// A directory that is served, a directory to fetch to, and a socket between them.
struct Site {
    directory: tempfile::TempDir,
    consumer: Consumer,
}

impl Site {
    fn new(segment_octets: usize) -> Self {
        Self::with_options(|options| options.segment_octets = segment_octets)
    }

    fn with_options(change: impl FnOnce(&mut ServeOptions)) -> Self {
        let (signer, anchor) = key_of("/p");
        Self::signed_by(signer, believing(anchor), change)
    }

    fn signed_by(
        signer: Signer,
        options_of_consumer: ConsumerOptions,
        change: impl FnOnce(&mut ServeOptions),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("served")).unwrap();
        fs::create_dir(directory.path().join("got")).unwrap();
        let mut options = ServeOptions::new(name("/p"));
        change(&mut options);
        let server = FileServer::new(&directory.path().join("served"), options, signer).unwrap();
        Site { directory, consumer: connect(server, options_of_consumer) }
    }

    fn served(&self, file: &str) -> std::path::PathBuf {
        self.directory.path().join("served").join(file)
    }

    fn got(&self) -> std::path::PathBuf {
        self.directory.path().join("got")
    }

    fn get(&self, uri: &str) -> Result<namely_files::FetchedFile, GetError> {
        get(&self.consumer, &name(uri), &self.got().join("file"), GetOptions::default(), &mut unwatched)
    }

    fn tree(&self, uri: &str, options: GetOptions) -> Result<namely_files::get::FetchedTree, GetError> {
        get_tree(&self.consumer, &name(uri), &self.got(), options, &mut |_: TreeEvent<'_>| Flow::Continue)
    }

    /// Fetches the tree until `is_new` accepts the result. A server reuses an index for a multiple
    /// of the time that making it took, which is long on a busy machine.
    fn tree_anew(
        &self,
        uri: &str,
        options: GetOptions,
        is_new: impl Fn(&namely_files::get::FetchedTree) -> bool,
    ) -> namely_files::get::FetchedTree {
        until("a new index", || Some(self.tree(uri, options).unwrap()).filter(&is_new))
    }
}

#[test]
fn files_of_every_edge_size_arrive_unchanged() {
    for signing in
        [Signing::Manifest(ManifestHash::Sha256), Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket]
    {
        let site = Site::with_options(|options| {
            options.segment_octets = 50;
            options.signing = signing;
        });
        // Sizes around one segment, several segments, one manifest (240 segments), and two.
        for octets in [0, 1, 49, 50, 51, 99, 100, 101, 11_999, 12_000, 12_001, 24_000, 24_050] {
            let file = content(octets, octets);
            fs::write(site.served("f"), &file).unwrap();
            let got = site.get("/p/f").unwrap_or_else(|error| panic!("{signing:?} {octets}: {error}"));
            assert!(fs::read(&got.path).unwrap() == file, "{signing:?} {octets}");
            assert_eq!(got.progress.octets, octets as u64);
            assert_eq!(names_in(&site.got()), ["file"], "nothing else is left");
        }
    }
}

#[test]
fn a_fetched_file_has_the_producers_time() {
    let site = Site::new(8000);
    fs::write(site.served("f"), "x").unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(site.served("f")).unwrap().set_modified(time).unwrap();
    let got = site.get("/p/f").unwrap();
    assert_eq!(fs::metadata(&got.path).unwrap().modified().unwrap(), time);
    assert_eq!(got.object.to_string(), "/p/f/v=1000000000000000000");
}

#[test]
fn the_end_of_a_huge_file_is_readable() {
    let site = Site::new(8000);
    let octets = 5_000_000_000u64;
    let file = fs::File::create(site.served("big")).unwrap();
    file.set_len(octets).unwrap();
    file.write_all_at(b"the end", octets - 7).unwrap();
    let object = find_file(&site.consumer, &name("/p/big")).unwrap();
    assert_eq!(object.octets(), Some(octets));

    struct Tail(Vec<u8>);
    impl Sink for Tail {
        fn write(&mut self, _: u64, data: &Verified<Vec<u8>>) -> std::io::Result<()> {
            self.0 = data.content().to_vec();
            Ok(())
        }
    }
    let mut tail = Tail(Vec::new());
    let last = object.segments.unwrap() - 1;
    let progress = site.consumer.fetch_into(&object, Part::from(last), &mut tail, &mut unwatched).unwrap();
    assert!(tail.0.ends_with(b"the end"));
    assert!(progress.segments <= 240);
    assert_eq!(progress.octets_done, octets);
}

#[test]
fn a_sparse_file_stays_sparse() {
    const OCTETS: u64 = 6 << 20;
    let site = Site::new(8000);
    let file = fs::File::create(site.served("f")).unwrap();
    file.set_len(OCTETS).unwrap();
    file.write_all_at(b"middle", OCTETS / 2).unwrap();
    let on_disk = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    if on_disk(&site.served("f")) > OCTETS / 2 {
        return skip(Need::Kernel, "this file system has no sparse files");
    }
    site.get("/p/f").unwrap();
    let got = site.got().join("file");
    assert!(fs::read(&got).unwrap() == fs::read(site.served("f")).unwrap(), "another content");
    assert!(on_disk(&got) <= OCTETS / 2, "{} octets on the disk", on_disk(&got));
}

#[test]
fn a_changed_file_gets_a_new_version() {
    let site = Site::new(100);
    fs::write(site.served("f"), content(5_000, 1)).unwrap();
    let old = find_file(&site.consumer, &name("/p/f")).unwrap();
    let changed = content(5_000, 2);
    fs::write(site.directory.path().join("served/f"), &changed).unwrap();
    let error = get_to_writer(&site.consumer, &old, &mut Vec::new(), &mut unwatched).unwrap_err();
    // The fetch fails at once, by a Nack.
    assert!(matches!(error, GetError::Fetch(FetchError::Object(ObjectError::Refused { .. }))), "{error}");
    let target = site.got().join("old");
    let options = GetOptions::default();
    let error = namely_files::get_object(&site.consumer, &old, &target, options, &mut unwatched).unwrap_err();
    assert!(matches!(error, GetError::Changed { .. }), "{error}");
    assert!(names_in(&site.got()).is_empty());
    let got = site.get("/p/f").unwrap();
    assert_ne!(got.object, old.name);
    assert!(fs::read(got.path).unwrap() == changed);
}

#[test]
fn a_constantly_changing_file_is_never_mixed() {
    let (signer, anchor) = key_of("/p");
    let mut impatient = believing(anchor);
    impatient.read.fetch.silence_ns_max = 200_000_000;
    impatient.read.fetch.refused_ns_max = 200_000_000;
    let site = Site::signed_by(signer, impatient, |options| options.segment_octets = 100);
    let path = site.served("f");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let states: Vec<Vec<u8>> = (0..4).map(|state| vec![b'a' + state; 60_000]).collect();
    fs::write(&path, &states[0]).unwrap();
    let writer = std::thread::spawn({
        let (stop, states) = (stop.clone(), states.clone());
        move || {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            for state in states.iter().cycle() {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                file.write_all_at(state, 0).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
        }
    });
    let mut whole = 0;
    for _ in 0..8 {
        if let Ok(got) = site.get("/p/f") {
            let file = fs::read(got.path).unwrap();
            assert!(states.contains(&file), "a mixture of two states");
            whole += 1;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    let last = until("it is fetched, because nothing changes any more", || site.get("/p/f").ok());
    assert!(states.contains(&fs::read(last.path).unwrap()), "after {whole} whole fetches");
}

#[test]
fn an_unlinked_file_is_fetched_to_its_end() {
    let site = Site::new(100);
    let file = content(5_000, 1);
    fs::write(site.served("f"), &file).unwrap();
    let object = find_file(&site.consumer, &name("/p/f")).unwrap();
    fs::remove_file(site.directory.path().join("served/f")).unwrap();
    let mut received = Vec::new();
    get_to_writer(&site.consumer, &object, &mut received, &mut unwatched).unwrap();
    assert!(received == file);
    let error = site.get("/p/f").unwrap_err();
    assert!(matches!(error, GetError::Fetch(FetchError::Object(ObjectError::NotFound { .. }))), "{error}");
    assert!(names_in(&site.got()).is_empty());
}

#[test]
fn a_missing_file_leaves_nothing_behind() {
    let site = Site::new(8000);
    fs::write(site.directory.path().join("secret"), "secret").unwrap();
    symlink("../secret", site.served("link")).unwrap();
    for uri in ["/p/missing", "/p/link", "/p/...../secret", "/p/%2E%2E%2Fsecret", "/p/a%00b", "/p/%FF"] {
        let error = site.get(uri).unwrap_err();
        assert!(
            matches!(error, GetError::Fetch(FetchError::Object(ObjectError::NotFound { .. }))),
            "{uri}: {error}"
        );
        assert!(error.to_string().contains(&name(uri).to_string()), "{error}");
        assert!(names_in(&site.got()).is_empty(), "{uri}");
    }
}

#[test]
fn a_wrong_key_is_named_by_the_fetch() {
    let (stranger, _) = key_of("/p");
    let (_, anchor) = key_of("/p");
    let site = Site::signed_by(stranger, believing(anchor), |_| {});
    fs::write(site.served("f"), "x").unwrap();
    let error = site.get("/p/f").unwrap_err();
    assert!(matches!(error, GetError::Fetch(FetchError::Object(ObjectError::Untrusted(_)))), "{error}");
    assert!(error.to_string().contains("/p/KEY/k"), "{error}");
    assert!(names_in(&site.got()).is_empty());
}

#[test]
fn a_directory_needs_an_explicit_request() {
    let site = Site::new(8000);
    fs::create_dir(site.served("d")).unwrap();
    fs::write(site.served("f"), "x").unwrap();
    let error = site.get("/p/d").unwrap_err();
    assert!(matches!(error, GetError::IsDirectory { .. }), "{error}");
    assert!(error.hint().unwrap().contains("all that is in it"), "{error}");
    let error = site.tree("/p/f", GetOptions::default()).unwrap_err();
    assert!(matches!(error, GetError::NotDirectory { .. }), "{error}");
}

#[test]
fn a_tree_arrives_with_arbitrary_file_names() {
    let site = Site::new(100);
    let files =
        ["plain", "with space", "ünïcode ☃", "new\nline", "-rf *", "a=b", "v=1", "%41", "...", "q?#&;"];
    fs::create_dir_all(site.served("d/deeper/empty")).unwrap();
    for (i, file) in files.iter().enumerate() {
        fs::write(site.served("d").join(file), content(i * 130, i)).unwrap();
        fs::write(site.served("d/deeper").join(file), content(i, i)).unwrap();
    }
    let got = site.tree("/p/d", GetOptions::default()).unwrap();
    assert_eq!((got.files, got.directories, got.failed.len()), (20, 3, 0), "{:?}", got.failed);
    for (i, file) in files.iter().enumerate() {
        assert!(fs::read(site.got().join(file)).unwrap() == content(i * 130, i), "{file}");
        assert!(fs::read(site.got().join("deeper").join(file)).unwrap() == content(i, i), "{file}");
    }
    assert!(site.got().join("deeper/empty").is_dir());

    // Present files are not fetched again; changed ones are.
    fs::write(site.served("d/plain"), "changed").unwrap();
    let again = site.tree_anew("/p/d", resuming(), |got| got.files > 0);
    assert_eq!((again.files, again.unchanged), (1, 19));
    assert_eq!(fs::read(site.got().join("plain")).unwrap(), b"changed");
}

#[test]
fn one_failed_file_leaves_the_tree_others() {
    let site = Site::new(8000);
    fs::create_dir(site.served("d")).unwrap();
    for file in ["a", "b", "c"] {
        fs::write(site.served("d").join(file), file).unwrap();
    }
    // A directory has the name of the second file.
    fs::create_dir(site.got().join("b")).unwrap();
    let got = site.tree("/p/d", GetOptions::default()).unwrap();
    assert_eq!((got.files, got.failures), (2, 1));
    let (failed, error) = &got.failed[0];
    assert!(*failed == name("/p/d/b") && error.to_string().contains("got/b"), "{error}");
}

#[test]
fn an_unwritable_target_is_named() {
    let site = Site::new(8000);
    fs::write(site.served("f"), "x").unwrap();
    let missing = site.got().join("missing/file");
    for target in [site.got().as_path(), &missing] {
        let error =
            get(&site.consumer, &name("/p/f"), target, GetOptions::default(), &mut unwatched).unwrap_err();
        assert!(matches!(error, GetError::Target { .. }), "{error}");
        assert!(error.to_string().contains(&*target.to_string_lossy()), "{error}");
    }
    // A target that is no regular file is written directly.
    let null = Path::new("/dev/null");
    get(&site.consumer, &name("/p/f"), null, GetOptions::default(), &mut unwatched).unwrap();
}

#[test]
fn only_a_complete_file_replaces_another() {
    let site = Site::new(100);
    fs::write(site.got().join("file"), "old").unwrap();
    fs::write(site.served("f"), content(5_000, 1)).unwrap();
    let target = site.got().join("file");
    let mut stop = |_: &Progress| Flow::Stop;
    let error = get(&site.consumer, &name("/p/f"), &target, GetOptions::default(), &mut stop).unwrap_err();
    assert!(error.is_stopped(), "{error}");
    assert_eq!(fs::read(&target).unwrap(), b"old");
    site.get("/p/f").unwrap();
    assert!(fs::read(&target).unwrap() == content(5_000, 1));
    assert_eq!(names_in(&site.got()), ["file"]);
}

#[test]
fn two_fetches_of_one_file_stay_separate() {
    let site = Site::new(100);
    fs::write(site.served("f"), content(5_000, 1)).unwrap();
    let part = site.got().join(format!("file{PART_SUFFIX}"));
    let other = fs::File::create(&part).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = site.get("/p/f").unwrap_err();
    assert!(matches!(error, GetError::Busy { .. }), "{error}");
    drop(other);
    site.get("/p/f").unwrap();
}

#[test]
fn a_stopped_fetch_resumes() {
    let site = Site::new(50);
    // Four manifests' worth.
    let file = content(45_000, 3);
    fs::write(site.served("f"), &file).unwrap();
    let target = site.got().join("file");
    let options = resuming();
    // Few segments at a time, so that the watcher stops the fetch midway.
    site.consumer.set_option("congestion", "fixed:1").unwrap();
    site.consumer.set_option("backlog_octets", "1").unwrap();
    let mut stop_midway =
        |progress: &Progress| if progress.octets > 20_000 { Flow::Stop } else { Flow::Continue };
    let started = get(&site.consumer, &name("/p/f"), &target, options, &mut stop_midway);
    let kept = match started {
        Err(GetError::Interrupted { kept_octets, .. }) => kept_octets,
        // A fast machine may be done before the watcher is polled.
        Ok(_) => return,
        Err(error) => panic!("{error}"),
    };
    assert!(kept >= 12_000 && kept.is_multiple_of(12_000), "{kept}");
    site.consumer.set_option("congestion", "cubic").unwrap();
    site.consumer.set_option("backlog_octets", "805306368").unwrap();
    assert!(!target.exists());
    let got = get(&site.consumer, &name("/p/f"), &target, options, &mut unwatched).unwrap();
    assert_eq!(got.resumed_octets, kept);
    assert_eq!(got.progress.octets_done, 45_000);
    assert!(fs::read(&target).unwrap() == file);
    assert_eq!(names_in(&site.got()), ["file"]);
}

#[test]
fn a_part_of_another_version_is_not_resumed() {
    let site = Site::new(50);
    fs::write(site.served("f"), content(45_000, 3)).unwrap();
    let target = site.got().join("file");
    let options = resuming();
    let mut stop = |progress: &Progress| if progress.octets > 0 { Flow::Stop } else { Flow::Continue };
    let _ = get(&site.consumer, &name("/p/f"), &target, options, &mut stop);
    let changed = content(45_000, 4);
    fs::write(site.directory.path().join("served/f"), &changed).unwrap();
    let got = get(&site.consumer, &name("/p/f"), &target, options, &mut unwatched).unwrap();
    assert_eq!(got.resumed_octets, 0);
    assert!(fs::read(&target).unwrap() == changed);
}

#[test]
fn more_files_than_open_slots_are_served() {
    let site = Site::new(100);
    fs::create_dir(site.served("d")).unwrap();
    for i in 0..=namely_files::server::OBJECTS_MAX {
        fs::write(site.served("d").join(format!("{i}")), content(250, i)).unwrap();
    }
    let got = site.tree("/p/d", GetOptions::default()).unwrap();
    assert_eq!(got.files as usize, namely_files::server::OBJECTS_MAX + 1);
    let again = site.tree("/p/d", GetOptions::default()).unwrap();
    assert_eq!(again.failed.len(), 0);
}

#[test]
fn an_unservable_directory_is_refused_with_a_reason() {
    let (signer, _) = key_of("/p");
    let options = ServeOptions::new(name("/p"));
    let error = FileServer::new(Path::new("/nonexistent"), options.clone(), signer.clone()).unwrap_err();
    assert!(error.to_string().contains("/nonexistent"), "{error}");
    let octets_max = namely_files::server::segment_octets_max(&options.prefix);
    assert!(octets_max > 8000);
    let directory = tempfile::tempdir().unwrap();
    for (segment_octets, accepted) in [(0, false), (octets_max, true), (octets_max + 1, false)] {
        let options = ServeOptions { segment_octets, ..options.clone() };
        let server = FileServer::new(directory.path(), options, signer.clone());
        assert_eq!(server.is_ok(), accepted, "{segment_octets}");
    }
}

/// Answers with packets by name, or by a prefix of it.
struct Packets(Vec<(namely_wire::Name, Vec<u8>)>);

impl namely_transport::serve::Producer for Packets {
    fn prefixes(&self) -> Vec<namely_wire::Name> {
        Vec::new()
    }

    fn answer(
        &mut self,
        interest: &namely_wire::InterestView<'_>,
        headers: &namely_wire::LpHeaders,
        outbox: &mut namely_transport::connection::Outbox,
    ) {
        if let Some((_, wire)) = self.0.iter().find(|(name, _)| interest.name.is_prefix_of(name.as_name())) {
            outbox.send(headers, wire);
        }
    }
}

#[test]
fn a_listing_never_leaves_the_target() {
    use namely_security::sign_data;
    use namely_wire::rdr::{Metadata, listing_name, metadata_name};
    for listing in [&b"../evil\0"[..], b"..\0", b"/tmp/evil\0", b"a/b\0", b"unfinished"] {
        let (signer, anchor) = key_of("/p");
        let object = listing_name(name("/p/d").as_name()).join_version(1);
        let metadata = |of: namely_wire::Name, mode| {
            let packet = metadata_name(of.as_name(), 1);
            let metadata = Metadata { mode, ..Metadata::new(object.clone()) };
            let builder = namely_wire::DataBuilder::new(packet.as_name()).freshness_ms(1);
            (packet.clone(), sign_data(&builder, &metadata.to_vec(), &signer).unwrap())
        };
        let segment = object.join_segment(0);
        let last = namely_wire::Name::new().join_segment(0);
        let builder = namely_wire::DataBuilder::new(segment.as_name());
        let builder = builder.final_block_id(last.as_name().last().unwrap());
        let packets = vec![
            metadata(name("/p/d"), Some(0o040_755)),
            metadata(listing_name(name("/p/d").as_name()), None),
            (segment.clone(), sign_data(&builder, listing, &signer).unwrap()),
        ];
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("got");
        let consumer = connect(Packets(packets), believing(anchor));
        let mut watch = |_: TreeEvent<'_>| Flow::Continue;
        let options = GetOptions::default();
        let error = get_tree(&consumer, &name("/p/d"), &target, options, &mut watch).unwrap_err();
        assert!(matches!(error, GetError::Listing { .. }), "{error}");
        assert_eq!(names_in(directory.path()), ["got"]);
        assert!(names_in(&target).is_empty(), "{:?}", names_in(&target));
    }
}

#[test]
fn directory_depth_is_limited() {
    let site = Site::new(8000);
    let depth_max = namely_files::get::DEPTH_MAX;
    // A server's paths have at most as many components, so it serves the last directory.
    let deepest: std::path::PathBuf = std::iter::repeat_n("d", depth_max).collect();
    fs::create_dir_all(site.served(".").join(&deepest)).unwrap();
    fs::write(site.served("d/f"), "x").unwrap();
    let got = site.tree("/p", GetOptions::default()).unwrap();
    assert_eq!(
        (got.directories as usize, got.files, got.failed.len()),
        (depth_max + 1, 1, 0),
        "{:?}",
        got.failed
    );
    assert!(site.got().join(&deepest).is_dir());

    fs::create_dir(site.served(".").join(&deepest).join("d")).unwrap();
    let got = site.tree_anew("/p", GetOptions::default(), |got| got.failures > 0);
    assert_eq!((got.directories as usize, got.failed.len()), (depth_max + 1, 1));
    assert!(matches!(got.failed[0].1, GetError::TooDeep { .. }), "{}", got.failed[0].1);
}

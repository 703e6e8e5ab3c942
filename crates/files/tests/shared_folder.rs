//! Partial files and journals in folders that other users may write, and on disks that fail: only
//! content that the producer signed receives the final name.

use crate::common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{believing, connect, content, journal_of, key_of, name, names_in, part_of, resuming, unwatched};
use namely_files::get::PART_SUFFIX;
use namely_files::{FileServer, GetError, GetOptions, ResumeSecret, ServeOptions, get};
use namely_socket::{Consumer, Flow};
use namely_testkit::{Need, skip};
use namely_transport::connection::Outbox;
use namely_transport::serve::Producer;
use namely_wire::{InterestView, LpHeaders, Name};

const OCTETS: usize = 45_000;

/// A file server that does not answer for segments past the middle of a file while it stalls.
struct Stalling {
    server: FileServer,
    stalls: Arc<AtomicBool>,
}

impl Producer for Stalling {
    fn prefixes(&self) -> Vec<Name> {
        self.server.prefixes()
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        let segment = interest.name.last().and_then(|last| last.segment());
        if !self.stalls.load(Ordering::Relaxed) || segment.is_none_or(|segment| segment < 600) {
            self.server.answer(interest, headers, outbox);
        }
    }
}

/// A served file whose segments need four manifests, and a folder to fetch it into.
struct Shared {
    stalls: Arc<AtomicBool>,
    consumer: Consumer,
    directory: tempfile::TempDir,
    file: Vec<u8>,
}

impl Shared {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (served, got) = (directory.path().join("served"), directory.path().join("got"));
        fs::create_dir(&served).unwrap();
        fs::create_dir(&got).unwrap();
        fs::set_permissions(&got, fs::Permissions::from_mode(0o1777)).unwrap();
        let file = content(OCTETS, 3);
        fs::write(served.join("f"), &file).unwrap();
        fs::write(served.join("g"), content(OCTETS, 4)).unwrap();
        let (signer, anchor) = key_of("/p");
        let options = ServeOptions { segment_octets: 50, ..ServeOptions::new(name("/p")) };
        let server = FileServer::new(&served, options, signer).unwrap();
        let stalls = Arc::new(AtomicBool::new(false));
        let server = Stalling { server, stalls: stalls.clone() };
        Shared { stalls, consumer: connect(server, believing(anchor)), directory, file }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join("got").join(name)
    }

    fn part(&self) -> PathBuf {
        part_of(&self.at("file"))
    }

    fn journal(&self) -> PathBuf {
        journal_of(&self.at("file"))
    }

    fn get(&self, options: GetOptions) -> Result<namely_files::FetchedFile, GetError> {
        get(&self.consumer, &name("/p/f"), &self.at("file"), options, &mut unwatched)
    }

    /// Fetches `uri` to `file`, and stops after more than 20,000 octets. Returns the octets kept.
    fn interrupted(&self, uri: &str) -> u64 {
        self.stalls.store(true, Ordering::Relaxed);
        let mut stop = |progress: &namely_transport::object::Progress| {
            if progress.octets > 20_000 { Flow::Stop } else { Flow::Continue }
        };
        let stopped = get(&self.consumer, &name(uri), &self.at("file"), resuming(), &mut stop);
        self.stalls.store(false, Ordering::Relaxed);
        match stopped {
            Err(GetError::Interrupted { kept_octets, .. }) if kept_octets > 0 => kept_octets,
            other => panic!("not interrupted midway: {other:?}"),
        }
    }

    /// Fetches to the end, resuming from the present files; returns the octets that were resumed.
    fn finishes(&self) -> u64 {
        let got = self.get(resuming()).unwrap();
        assert!(fs::read(self.at("file")).unwrap() == self.file, "something else got the final name");
        assert_eq!(names_in(&self.directory.path().join("got")), ["file"]);
        fs::remove_file(self.at("file")).unwrap();
        got.resumed_octets
    }
}

#[test]
fn pipes_and_links_as_parts_are_refused() {
    let shared = Shared::new();
    let dear = shared.at("dear");
    fs::write(&dear, "dear").unwrap();
    for suffix in ["", ".journal"] {
        let bait = shared.at(&format!("file{PART_SUFFIX}{suffix}"));
        if !suffix.is_empty() {
            shared.interrupted("/p/f");
            fs::remove_file(&bait).unwrap();
        }
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &bait, fifo, mode, 0).unwrap();
        let error = shared.get(resuming()).unwrap_err();
        assert!(matches!(&error, GetError::UntrustedFile { path, .. } if *path == bait), "{error}");
        assert!(error.hint().is_some(), "{error}");
        fs::remove_file(&bait).unwrap();

        symlink(&dear, &bait).unwrap();
        let error = shared.get(resuming()).unwrap_err();
        assert!(matches!(error, GetError::UntrustedFile { .. }), "{error}");
        assert_eq!(fs::read(&dear).unwrap(), b"dear");
        fs::remove_file(&bait).unwrap();
    }
}

#[test]
fn another_users_part_is_refused_by_name() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root can give files away");
    }
    let shared = Shared::new();
    for path in [shared.part(), shared.journal()] {
        shared.interrupted("/p/f");
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let error = shared.get(resuming()).unwrap_err();
        assert!(matches!(error, GetError::UntrustedFile { .. }), "{error}");
        assert!(error.to_string().contains("uid 65534"), "{error}");
        assert!(!shared.at("file").exists());
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        fs::remove_file(shared.part()).unwrap();
        fs::remove_file(shared.journal()).unwrap();
    }
}

#[test]
fn a_hard_linked_part_is_left_alone() {
    let shared = Shared::new();
    let dear = shared.at("dear");
    fs::write(&dear, "dear").unwrap();
    fs::hard_link(&dear, shared.part()).unwrap();
    shared.get(GetOptions::default()).unwrap();
    assert_eq!(fs::read(&dear).unwrap(), b"dear");
    assert!(fs::read(shared.at("file")).unwrap() == shared.file);
}

#[test]
fn only_an_own_matching_journal_is_resumed() {
    let shared = Shared::new();
    let kept = shared.interrupted("/p/f");
    assert_eq!(shared.finishes(), kept, "its own journal counts");

    // A journal signed with another secret, as another user would write it.
    shared.interrupted("/p/f");
    let others = GetOptions { secret: Some(ResumeSecret::new([8; 32])), ..resuming() };
    assert_eq!(shared.get(others).unwrap().resumed_octets, 0);
    fs::remove_file(shared.at("file")).unwrap();

    // A partial file that was replaced by that of another file does not match its journal.
    shared.interrupted("/p/g");
    let other = shared.at("other");
    fs::rename(shared.part(), &other).unwrap();
    fs::remove_file(shared.journal()).unwrap();
    shared.interrupted("/p/f");
    fs::rename(&other, shared.part()).unwrap();
    assert_eq!(shared.finishes(), 0);

    // Without a secret, no partial file is resumed.
    shared.interrupted("/p/f");
    let nothing = GetOptions { secret: None, ..resuming() };
    assert_eq!(shared.get(nothing).unwrap().resumed_octets, 0);
}

#[test]
fn a_torn_journal_never_corrupts_a_file() {
    let shared = Shared::new();
    shared.interrupted("/p/f");
    let journal_octets = fs::metadata(shared.journal()).unwrap().len();
    let kept = shared.finishes();
    for cut in (0..journal_octets).step_by(37) {
        shared.interrupted("/p/f");
        fs::OpenOptions::new().write(true).open(shared.journal()).unwrap().set_len(cut).unwrap();
        assert_eq!(shared.finishes(), 0, "journal cut at {cut}");
    }
    for cut in (0..kept + 1000).step_by(2_499) {
        // The progress of each fetch differs.
        let kept = shared.interrupted("/p/f");
        let part = fs::OpenOptions::new().write(true).open(shared.part()).unwrap();
        let octets = part.metadata().unwrap().len();
        part.set_len(cut.min(octets)).unwrap();
        let resumed = shared.finishes();
        assert_eq!(resumed > 0, cut >= kept, "part cut at {cut} of {octets}");
    }
}

#[test]
fn equal_octets_of_an_earlier_version_are_kept() {
    let shared = Shared::new();
    let kept = shared.interrupted("/p/f");
    let mut longer = shared.file.clone();
    longer.extend(content(5_000, 9));
    fs::write(shared.directory.path().join("served/f"), &longer).unwrap();
    let got = shared.get(resuming()).unwrap();
    assert!(fs::read(shared.at("file")).unwrap() == longer);
    // Whole segments of 50 octets.
    assert_eq!(got.resumed_octets, kept);

    // After a change in the middle only the octets before it are kept.
    fs::remove_file(shared.at("file")).unwrap();
    fs::write(shared.directory.path().join("served/f"), &shared.file).unwrap();
    shared.interrupted("/p/f");
    let mut changed = shared.file.clone();
    changed[1_234] ^= 1;
    fs::write(shared.directory.path().join("served/f"), &changed).unwrap();
    let got = shared.get(resuming()).unwrap();
    assert!(fs::read(shared.at("file")).unwrap() == changed);
    assert_eq!(got.resumed_octets, 1_200);
}

#[test]
fn a_fetched_file_respects_the_umask() {
    let shared = Shared::new();
    let probe = shared.at("probe");
    fs::write(&probe, "").unwrap();
    let usual = fs::metadata(&probe).unwrap().mode();
    shared.get(GetOptions::default()).unwrap();
    assert_eq!(fs::metadata(shared.at("file")).unwrap().mode(), usual);

    let served = shared.directory.path().join("served/f");
    fs::set_permissions(&served, fs::Permissions::from_mode(0o755)).unwrap();
    let keeping = GetOptions { keep_mode: true, ..GetOptions::default() };
    shared.get(keeping).unwrap();
    assert_eq!(fs::metadata(shared.at("file")).unwrap().mode() & 0o100, 0o100);
}

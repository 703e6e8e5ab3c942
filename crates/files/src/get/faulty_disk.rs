//! Fault injection: each operation of some fetches fails, is torn, or is the last before a power
//! cut; then the fetches are resumed.

use namely_host::disk::faults::{CrashSurvival, Disk, Fault};
use namely_transport::object::SignatureMode;
use namely_wire::rdr::Metadata;

use super::*;
use crate::get::spans::PUSHED;

const SEGMENTS: u64 = 8;

/// Octets of a segment, few enough that several segments are written at once.
const SEGMENT_OCTETS: usize = 1600;

const RESUME: GetOptions = GetOptions {
    resume: true,
    sync: true,
    secret: Some(ResumeSecret::new([7; 32])),
    keep_mode: false,
    allow_older: true,
    as_of_min_ns: None,
    digest: None,
    jobs: None,
    delete: false,
    delete_max: None,
    dry_run: false,
    compare_content: false,
    links: false,
};

/// The kinds of objects: the digests of their octets are in manifests, or in the journal.
const MODES: [SignatureMode; 2] = [SignatureMode::Manifests, SignatureMode::Segments];

fn object(version: u64, signature_mode: SignatureMode) -> Object {
    let name = "/p/file".parse::<Name>().unwrap().join_version(version);
    let metadata = Metadata {
        segment_size_octets: Some(SEGMENT_OCTETS as u64),
        size_octets: Some(SEGMENTS * SEGMENT_OCTETS as u64),
        ..Metadata::new(name.clone())
    };
    Object {
        name,
        segments: Some(SEGMENTS),
        signature_mode,
        manifest_entries: 1,
        metadata: Some(metadata),
        as_of_ns: None,
        reason: None,
        whole: None,
    }
}

fn unwatched(_: &Progress) -> Flow {
    Flow::Continue
}

/// The content of a segment; all segments differ.
fn segment(version: u64, number: u64) -> Vec<u8> {
    vec![(version * 16 + number) as u8 + 1; SEGMENT_OCTETS]
}

fn content(version: u64) -> Vec<u8> {
    (0..SEGMENTS).flat_map(|number| segment(version, number)).collect()
}

/// Results that were reported to the caller of a fetch.
#[derive(Debug, Default)]
struct Promised {
    /// A version, and its octets kept for a later fetch.
    kept: Option<(u64, u64)>,
    /// The version under the final name.
    target: Option<u64>,
}

/// The end of a fetch.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The fetch is abandoned, as after timeouts.
    Early,
    /// The process of the fetch is killed.
    Killed,
    /// The fetch is complete.
    Whole,
}

/// The file of some fetches.
#[derive(Clone, Copy)]
struct FetchTarget<'a> {
    path: &'a Path,
    mode: SignatureMode,
}

impl FetchTarget<'_> {
    /// Opens the partial file. An earlier fetch has left the first octets as they were.
    fn open(self, version: u64, options: &GetOptions) -> Result<PartFile, GetError> {
        let (at, object) = (Target::named(self.path).unwrap(), object(version, self.mode));
        let mut part = PartFile::open(&at, &object, 1, options, &mut unwatched)?;
        assert_is_beginning(part.path(), version, part.resumed().1);
        let is_resumed = part.resumed().0 > 0;
        assert_eq!(part.unchecked().is_some(), is_resumed && self.mode == SignatureMode::Manifests);
        if part.unchecked().is_some() {
            part.checked(Vec::new());
        }
        Ok(part)
    }
}

fn fetch(target: FetchTarget<'_>, version: u64, resume: bool, until: u64, end: End, promised: &mut Promised) {
    let options = GetOptions { resume, ..RESUME };
    // The next fetch either discards or resumes the kept octets.
    promised.kept = None;
    let Ok(mut part) = target.open(version, &options) else { return };
    let (first, _) = part.resumed();
    let mut failed = false;
    for number in first..until {
        part.begin_segment(number);
        if part.take(&segment(version, number)).is_err() {
            failed = true;
            break;
        }
    }
    let given_up = match end {
        End::Killed => return,
        End::Early => true,
        End::Whole if failed => true,
        End::Whole => part.finish(true, 0o644).is_err(),
    };
    if given_up {
        let octets = part.abandon();
        promised.kept = (octets > 0).then_some((version, octets));
    } else {
        promised.target = Some(version);
    }
}

fn assert_is_beginning(part: &Path, version: u64, octets: u64) {
    let there = std::fs::read(part).unwrap();
    assert!(there.len() as u64 >= octets && content(version).starts_with(&there[..octets as usize]));
}

fn work(target: FetchTarget<'_>, promised: &mut Promised) {
    fetch(target, 1, true, 5, End::Early, promised);
    fetch(target, 1, true, 7, End::Killed, promised);
    fetch(target, 2, true, 4, End::Killed, promised);
    fetch(target, 2, true, SEGMENTS, End::Whole, promised);
    fetch(target, 1, false, 6, End::Early, promised);
    fetch(target, 2, false, 3, End::Killed, promised);
    fetch(target, 1, true, SEGMENTS, End::Whole, promised);
    fetch(target, 2, true, 6, End::Early, promised);
}

/// Checks that the final name has a whole version, once one was reported, and that a resumed fetch
/// has correct octets, and no fewer than reported.
fn check(target: FetchTarget<'_>, promised: &Promised, case: &str) {
    let there = std::fs::read(target.path).ok();
    if let Some(there) = &there {
        assert!([1, 2].iter().any(|version| *there == content(*version)), "{case}: the target is no version");
    }
    if promised.target.is_some() {
        assert!(there.is_some(), "{case}: the target is lost");
    }
    let kept = promised.kept.unwrap_or((2, 0));
    for (version, octets) in [kept, (3 - kept.0, 0)] {
        let part = target.open(version, &RESUME).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(part.resumed().1 >= octets, "{case}: {:?} of {octets} are kept", part.resumed());
    }
    // Further fetches work.
    let mut promised = Promised::default();
    fetch(target, 2, true, SEGMENTS, End::Whole, &mut promised);
    assert_eq!(
        (promised.target, std::fs::read(target.path).unwrap() == content(2)),
        (Some(2), true),
        "{case}"
    );
}

/// Runs the work with these faults and checks the result. Returns the number of operations.
fn run(mode: SignatureMode, faults: &[(u64, Fault)], survives: Option<CrashSurvival>) -> u64 {
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let [folder, removed, removed_later] =
        ["disk", "removed", "removed later"].map(|name| base.path().join(name));
    for folder in [&folder, &removed, &removed_later] {
        std::fs::create_dir(folder).unwrap();
    }
    let path = folder.join("target");
    let target = FetchTarget { path: &path, mode };
    let mut promised = Promised::default();
    let ((), disk) = Disk::new(&folder, &removed, faults).run(|| work(target, &mut promised));
    let operations = disk.operations().len() as u64;
    let failed = faults.iter().map(|(at, fault)| (disk.operations().get(*at as usize), fault));
    let case = format!("{mode:?}: {:?}, {survives:?}", failed.collect::<Vec<_>>());
    if let Some(survives) = survives {
        disk.power_cut(survives);
    }
    Disk::new(&folder, &removed_later, &[]).run(|| check(target, &promised, &case));
    operations
}

#[test]
fn a_failing_fetch_operation_corrupts_nothing() {
    for mode in MODES {
        let operations = run(mode, &[], None);
        assert!(operations > 60, "{operations}");
        for at in 0..operations {
            run(mode, &[(at, Fault::Fails(Errno::NOSPC))], None);
            run(mode, &[(at, Fault::Torn(Errno::IO))], None);
            run(mode, &[(at, Fault::Torn(Errno::NOSPC))], Some(CrashSurvival::Some(at)));
            run(mode, &[(at, Fault::Fails(Errno::IO))], Some(CrashSurvival::Nothing));
        }
    }
}

#[test]
fn a_power_cut_never_corrupts_fetched_files() {
    for mode in MODES {
        let operations = run(mode, &[], None);
        for at in 0..=operations {
            for survives in [
                CrashSurvival::Nothing,
                CrashSurvival::All,
                CrashSurvival::Some(at),
                CrashSurvival::Some(at + 10_000),
            ] {
                run(mode, &[(at, Fault::Last)], Some(survives));
            }
        }
    }
}

#[test]
fn fetches_under_manifests_digest_nothing() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("target");
        let target = FetchTarget { path: &path, mode };
        let mut promised = Promised::default();
        let before = PUSHED.get();
        fetch(target, 1, true, 5, End::Early, &mut promised);
        fetch(target, 1, true, SEGMENTS, End::Whole, &mut promised);
        assert_eq!(promised.target, Some(1));
        assert_eq!(PUSHED.get() == before, mode == SignatureMode::Manifests);
    }
}

#[test]
fn a_complete_file_gets_no_digest_for_a_resume() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("target");
    let target = FetchTarget { path: &path, mode: SignatureMode::Segments };
    let before = PUSHED.get();
    // Fewer octets than a leaf.
    fetch(target, 1, true, 2, End::Whole, &mut Promised::default());
    assert_eq!(PUSHED.get(), before);
}

#[test]
fn a_long_journal_is_written_less_often() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("target");
    let target = FetchTarget { path: &path, mode: SignatureMode::Segments };
    let mut part = target.open(1, &RESUME).unwrap();
    let mut skipped = Vec::new();
    for number in 0..64 {
        part.begin_segment(number);
        part.take(&[number as u8; LEAF_OCTETS]).unwrap();
        if part.noted != part.checkpoint {
            skipped.push(number);
        }
    }
    // A journal of 63 leaves has 17 spans, so that the pause is longer than a leaf.
    assert_eq!(skipped, [62]);
}

#[test]
fn a_full_disk_keeps_resumed_octets() {
    MODES.into_iter().for_each(fill_disk);
}

fn fill_disk(mode: SignatureMode) {
    let base = tempfile::tempdir().unwrap();
    let [folder, removed] = ["disk", "removed"].map(|name| base.path().join(name));
    for folder in [&folder, &removed] {
        std::fs::create_dir(folder).unwrap();
    }
    let path = folder.join("target");
    let target = FetchTarget { path: &path, mode };
    let mut promised = Promised::default();
    fetch(target, 1, true, 5, End::Early, &mut promised);
    let kept = promised.kept;
    assert!(kept.is_some());
    // The reads at its beginning fail first, and change nothing. Then the first write fails, also
    // when the fetch ends.
    for at in 0.. {
        let full = [(at, Fault::Fails(Errno::NOSPC)), (at + 1, Fault::Fails(Errno::NOSPC))];
        let disk = Disk::new(&folder, &removed, &full);
        let ((), disk) = disk.run(|| fetch(target, 1, true, SEGMENTS, End::Early, &mut promised));
        if disk.operations()[at as usize].starts_with("write") {
            assert_eq!(promised.kept, kept);
            break;
        }
    }
    assert_is_beginning(&folder.join(format!("target{PART_SUFFIX}")), 1, kept.unwrap().1);
}

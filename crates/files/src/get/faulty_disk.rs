//! Fault injection: each operation of some fetches fails, is torn, or is the last before a power
//! cut; then the fetches are resumed.

use namely_host::disk::faults::{CrashSurvival, Disk, Fault};
use namely_transport::object::SignatureMode;

use super::*;

const SEGMENTS: u64 = 8;

/// Octets of a segment, few enough that several segments are written at once.
const SEGMENT_OCTETS: usize = 1600;

const RESUME: GetOptions = GetOptions {
    resume: true,
    sync: true,
    secret: Some(ResumeSecret::new([7; 32])),
    keep_mode: false,
    allow_older: true,
    age_max: None,
    sha256: None,
    delete: false,
    delete_max: None,
    dry_run: false,
    compare_content: false,
    links: false,
};

fn object(version: u64) -> Object {
    Object {
        name: "/p/file".parse::<Name>().unwrap().join_version(version),
        segments: Some(SEGMENTS),
        signature_mode: SignatureMode::Segments,
        manifest_entries: 1,
        metadata: None,
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

fn fetch(target: &Path, version: u64, resume: bool, until: u64, end: End, promised: &mut Promised) {
    let options = GetOptions { resume, ..RESUME };
    // The next fetch either discards or resumes the kept octets.
    promised.kept = None;
    let at = Target::named(target).unwrap();
    let Ok(mut part) = PartFile::open(&at, &object(version), 1, &options, &mut unwatched) else { return };
    let (first, octets) = part.resumed();
    assert_is_beginning(part.path(), version, octets);
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

fn work(target: &Path, promised: &mut Promised) {
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
fn check(target: &Path, promised: &Promised, case: &str) {
    let there = std::fs::read(target).ok();
    if let Some(there) = &there {
        assert!([1, 2].iter().any(|version| *there == content(*version)), "{case}: the target is no version");
    }
    if promised.target.is_some() {
        assert!(there.is_some(), "{case}: the target is lost");
    }
    let kept = promised.kept.unwrap_or((2, 0));
    for (version, octets) in [kept, (3 - kept.0, 0)] {
        let at = Target::named(target).unwrap();
        let part = PartFile::open(&at, &object(version), 1, &RESUME, &mut unwatched);
        let part = part.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(part.resumed().1 >= octets, "{case}: {:?} of {octets} are kept", part.resumed());
        assert_is_beginning(part.path(), version, part.resumed().1);
    }
    // Further fetches work.
    let mut promised = Promised::default();
    fetch(target, 2, true, SEGMENTS, End::Whole, &mut promised);
    assert_eq!((promised.target, std::fs::read(target).unwrap() == content(2)), (Some(2), true), "{case}");
}

/// Runs the work with these faults and checks the result. Returns the number of operations.
fn run(faults: &[(u64, Fault)], survives: Option<CrashSurvival>) -> u64 {
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let [folder, removed, removed_later] =
        ["disk", "removed", "removed later"].map(|name| base.path().join(name));
    for folder in [&folder, &removed, &removed_later] {
        std::fs::create_dir(folder).unwrap();
    }
    let target = folder.join("target");
    let mut promised = Promised::default();
    let ((), disk) = Disk::new(&folder, &removed, faults).run(|| work(&target, &mut promised));
    let operations = disk.operations().len() as u64;
    let failed = faults.iter().map(|(at, fault)| (disk.operations().get(*at as usize), fault));
    let case = format!("{:?}, {survives:?}", failed.collect::<Vec<_>>());
    if let Some(survives) = survives {
        disk.power_cut(survives);
    }
    Disk::new(&folder, &removed_later, &[]).run(|| check(&target, &promised, &case));
    operations
}

#[test]
fn a_failing_fetch_operation_corrupts_nothing() {
    let operations = run(&[], None);
    assert!(operations > 60, "{operations}");
    for at in 0..operations {
        run(&[(at, Fault::Fails(Errno::NOSPC))], None);
        run(&[(at, Fault::Torn(Errno::IO))], None);
        run(&[(at, Fault::Torn(Errno::NOSPC))], Some(CrashSurvival::Some(at)));
        run(&[(at, Fault::Fails(Errno::IO))], Some(CrashSurvival::Nothing));
    }
}

#[test]
fn a_power_cut_never_corrupts_fetched_files() {
    let operations = run(&[], None);
    for at in 0..=operations {
        for survives in [
            CrashSurvival::Nothing,
            CrashSurvival::All,
            CrashSurvival::Some(at),
            CrashSurvival::Some(at + 10_000),
        ] {
            run(&[(at, Fault::Last)], Some(survives));
        }
    }
}

#[test]
fn a_long_journal_is_written_less_often() {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::named(&directory.path().join("target")).unwrap();
    let mut part = PartFile::open(&target, &object(1), 1, &RESUME, &mut unwatched).unwrap();
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
    let base = tempfile::tempdir().unwrap();
    let [folder, removed] = ["disk", "removed"].map(|name| base.path().join(name));
    for folder in [&folder, &removed] {
        std::fs::create_dir(folder).unwrap();
    }
    let target = folder.join("target");
    let mut promised = Promised::default();
    fetch(&target, 1, true, 5, End::Early, &mut promised);
    let kept = promised.kept;
    assert!(kept.is_some());
    // The reads at its beginning fail first, and change nothing. Then the first write fails, also
    // when the fetch ends.
    for at in 0.. {
        let full = [(at, Fault::Fails(Errno::NOSPC)), (at + 1, Fault::Fails(Errno::NOSPC))];
        let disk = Disk::new(&folder, &removed, &full);
        let ((), disk) = disk.run(|| fetch(&target, 1, true, SEGMENTS, End::Early, &mut promised));
        if disk.operations()[at as usize].starts_with("write") {
            assert_eq!(promised.kept, kept);
            break;
        }
    }
    assert_is_beginning(&folder.join(format!("target{PART_SUFFIX}")), 1, kept.unwrap().1);
}

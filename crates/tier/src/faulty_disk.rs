//! Fault injection: each operation of a run fails, is torn, or is the last before a power cut; then
//! the tier is opened again.

use std::path::Path;

use namely_host::disk::faults::{CrashSurvival, Fault};
use namely_testkit::{on_faulty_disk, signed, survivals};
use namely_wire::Name;
use rustix::io::Errno;

use super::*;

/// The packet of this number. All packets have the same length, so that one packet's position may
/// later hold another.
fn packet(number: u64) -> (Name, Vec<u8>) {
    let object = if number % 5 == 4 { "/erased/v=1" } else { "/p/object/v=1" };
    let name = object.parse::<Name>().unwrap().join_segment(number);
    let wire = signed(&name, number as u8, 8000);
    (name, wire)
}

fn open(folder: &Path) -> Result<Tier, TierError> {
    let base = Options::new(OCTETS_MIN);
    let options = Options { engine: EngineKind::Inline, sync_interval: Duration::ZERO, ..base };
    Tier::open(folder, &Options { rest: Duration::ZERO, read_ahead: false, ..options })
}

/// State that a user of the tier records.
#[derive(Debug, Default)]
struct KnownState {
    next: u64,
    /// Packets accepted since the last synchronization.
    taken: Vec<u64>,
    /// Packets accepted before it.
    synced: Vec<u64>,
    /// Packets below the erased prefix; they must not reappear.
    erased: Vec<u64>,
    killed: Killed,
}

/// Tiers that were not closed. Their files stay open only until the end of the case, because there
/// are more cases than a process may have descriptors.
#[derive(Default)]
struct Killed(Vec<Arc<Shared>>);

impl std::fmt::Debug for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tiers", self.0.len())
    }
}

impl KnownState {
    fn write(&mut self, tier: &Tier, packets: u64) {
        for number in self.next..self.next + packets {
            let (name, wire) = packet(number);
            if tier.write(name.as_name(), &wire, 0) == WriteOutcome::Accepted {
                self.taken.push(number);
            }
            tier.turn();
        }
        self.next += packets;
        if tier.sync().is_ok() {
            self.synced.append(&mut self.taken);
        }
        self.taken.clear();
    }
}

/// Writes enough packets in three sessions to seal segments, and erases a prefix in one session.
fn work(folder: &Path, known: &mut KnownState, packets: u64) {
    for session in 0..3 {
        // Opening may fail in this session and succeed in a later one.
        let Ok(tier) = open(folder) else { continue };
        known.write(&tier, packets);
        if session == 1 {
            let prefix: Name = "/erased".parse().unwrap();
            tier.erase(prefix.as_name()).unwrap();
            tier.turn();
            if tier.status().erasing == 0 {
                known.erased = (0..known.next).filter(|number| number % 5 == 4).collect();
            }
            let is_there = |number: &u64| *number % 5 != 4;
            known.synced.retain(is_there);
        }
        known.write(&tier, packets / 2);
        if session == 0 {
            // The tier is not closed, as after SIGKILL.
            known.killed.0.push(tier.shared.clone());
        }
    }
}

fn read(tier: &Tier, caller: &mut Caller, number: u64) -> Option<Vec<u8>> {
    match caller.read(ReadId(number), packet(number).0.as_name(), None, Bypass::Impossible) {
        LookupResult::Absent => None,
        LookupResult::Busy => panic!("nothing pends"),
        LookupResult::Reading => {
            tier.turn();
            let done = caller.completed().expect("it was done");
            done.outcome.found().map(|data| data.packet().to_vec())
        }
    }
}

/// Opens the tier again and checks that it has the synchronized packets, that each packet found was
/// written, and that the tier works.
fn check(folder: &Path, mut known: KnownState, case: &str, is_evicting: bool) {
    for round in 0..2 {
        let case = format!("{case}, opened {} times", round + 1);
        let tier = open(folder).unwrap_or_else(|error| panic!("{case}: {error}"));
        let mut caller = tier.caller().unwrap();
        for number in 0..known.next {
            let found = read(&tier, &mut caller, number);
            if let Some(found) = &found {
                assert!(*found == packet(number).1, "{case}: {number} is another");
                assert!(!known.erased.contains(&number), "{case}: {number} was erased");
            }
            let must_be_there = known.synced.contains(&number) && !is_evicting;
            assert!(found.is_some() || !must_be_there, "{case}: {number} is lost");
        }
        assert!(tier.status().octets <= OCTETS_MIN);
        let before = known.synced.len();
        known.write(&tier, 3);
        // At least one of the three new packets must be accepted and synchronized.
        assert!(known.synced.len() > before, "{case}: the tier does not go on");
        for number in &known.synced[before..] {
            assert_eq!(read(&tier, &mut caller, *number), Some(packet(*number).1), "{case}");
        }
    }
}

/// Runs the work on a disk with these faults and checks the result. Returns the number of
/// operations.
fn run(packets: u64, faults: &[(u64, Fault)], survives: Option<CrashSurvival>) -> u64 {
    run_on(|_| {}, packets, faults, survives).len() as u64
}

/// Like `run`, in a folder that `prepare` makes. Returns the operations.
fn run_on(
    prepare: fn(&Path),
    packets: u64,
    faults: &[(u64, Fault)],
    survives: Option<CrashSurvival>,
) -> Vec<String> {
    let is_evicting = packets > 20;
    on_faulty_disk(
        "cs",
        prepare,
        faults,
        survives,
        |folder, known| work(folder, known, packets),
        |folder, known, case| check(folder, known, case, is_evicting),
    )
}

/// Packets of a session: enough to seal a segment in each.
const FEW: u64 = 8;

/// Packets of a session: enough to evict segments.
const MANY: u64 = 60;

#[test]
fn a_power_cut_keeps_synced_tier_records() {
    let operations = run(FEW, &[], None);
    assert!(operations > 100, "{operations}");
    for at in 0..=operations {
        for survives in survivals(at) {
            run(FEW, &[(at, Fault::Last)], Some(survives));
        }
    }
}

#[test]
fn a_failing_operation_never_corrupts_the_tier() {
    let operations = run(FEW, &[], None);
    for at in 0..operations {
        run(FEW, &[(at, Fault::Fails(Errno::NOSPC))], None);
        run(FEW, &[(at, Fault::Torn(Errno::IO))], None);
        run(
            FEW,
            &[(at, Fault::Torn(Errno::IO)), (at + 1, Fault::Torn(Errno::IO))],
            Some(CrashSurvival::Some(at)),
        );
    }
}

#[test]
fn a_power_cut_during_eviction_corrupts_nothing() {
    let operations = run(MANY, &[], None);
    for at in (0..=operations).step_by(operations as usize / 12) {
        run(MANY, &[(at, Fault::Last)], Some(CrashSurvival::Some(at)));
    }
}

/// A regular file in place of a device, with segments as long as a small folder's.
fn device(path: &Path) {
    std::fs::File::create_new(path).unwrap().set_len(DEVICE_OCTETS_MIN).unwrap();
    device::format_with_segments(path, OCTETS_MIN / 16).unwrap();
}

/// A regular file in place of a device, which was never written to.
fn blank_device(path: &Path) {
    std::fs::File::create_new(path).unwrap().set_len(DEVICE_OCTETS_MIN).unwrap();
}

/// Operations that change the disk. Reads are left out because a power cut between them makes no
/// difference.
fn changes(operations: &[String]) -> impl Iterator<Item = u64> {
    let changes = operations.iter().enumerate().filter(|(_, operation)| *operation != "Read");
    changes.map(|(at, _)| at as u64).chain([operations.len() as u64])
}

#[test]
fn a_power_cut_keeps_synced_device_records() {
    let operations = run_on(device, FEW, &[], None);
    assert!(changes(&operations).count() > 60, "{operations:?}");
    for at in changes(&operations) {
        for survives in survivals(at) {
            run_on(device, FEW, &[(at, Fault::Last)], Some(survives));
        }
    }
}

#[test]
fn a_power_cut_during_formatting_is_recovered() {
    let operations = run_on(blank_device, 0, &[], None);
    for at in changes(&operations) {
        for survives in survivals(at) {
            run_on(blank_device, 0, &[(at, Fault::Last)], Some(survives));
        }
    }
}

#[test]
fn a_failing_operation_never_corrupts_a_device() {
    let operations = run_on(device, FEW, &[], None);
    for at in changes(&operations) {
        run_on(device, FEW, &[(at, Fault::Fails(Errno::NOSPC))], None);
        run_on(device, FEW, &[(at, Fault::Torn(Errno::IO))], None);
        let twice = [(at, Fault::Torn(Errno::IO)), (at + 1, Fault::Torn(Errno::IO))];
        run_on(device, FEW, &twice, Some(CrashSurvival::Some(at)));
    }
}

#[test]
fn a_power_cut_during_region_reuse_corrupts_nothing() {
    let operations = run_on(device, MANY, &[], None);
    let changes: Vec<u64> = changes(&operations).collect();
    for at in changes.iter().step_by(changes.len() / 24) {
        run_on(device, MANY, &[(*at, Fault::Last)], Some(CrashSurvival::Some(*at)));
    }
}

//! Each operation of a run fails, is torn, or is the last before the power goes; then the tier is
//! opened again.

use std::path::Path;

use namely_host::disk::faults::{Fault, Survives};
use namely_wire::Name;
use rustix::io::Errno;

use super::*;
use crate::testing::{on_faulty_disk, signed, survivals};

/// The packet of this number; all have the same length, so that what lies at one's place may be
/// another.
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

/// What a user of the tier knows.
#[derive(Debug, Default)]
struct Known {
    next: u64,
    /// Packets that were taken since the last synchronisation, and before it.
    taken: Vec<u64>,
    synced: Vec<u64>,
    /// Packets below the prefix that was erased, which must not come back.
    erased: Vec<u64>,
    killed: Killed,
}

/// Tiers that were not closed. Their files stay open until the case is over, and no longer: there
/// are more cases than a process may have descriptors.
#[derive(Default)]
struct Killed(Vec<Arc<Shared>>);

impl std::fmt::Debug for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tiers", self.0.len())
    }
}

impl Known {
    fn write(&mut self, tier: &Tier, packets: u64) {
        for number in self.next..self.next + packets {
            let (name, wire) = packet(number);
            if tier.write(name.as_name(), &wire, 0) == Written::Taken {
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

/// Writes so much in two sessions that segments are sealed, erases, and reads in between.
fn work(folder: &Path, known: &mut Known, packets: u64) {
    for session in 0..3 {
        // A tier that cannot be opened now may be a moment later.
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
            // It is not closed: this is what SIGKILL leaves.
            known.killed.0.push(tier.shared.clone());
        }
    }
}

fn read(tier: &Tier, caller: &mut Caller, number: u64) -> Option<Vec<u8>> {
    match caller.read(ReadId(number), packet(number).0.as_name(), None, Bypass::Impossible) {
        Asked::Absent => None,
        Asked::Busy => panic!("nothing pends"),
        Asked::Reading => {
            tier.turn();
            let done = caller.completed().expect("it was done");
            done.outcome.found().map(|data| data.packet().to_vec())
        }
    }
}

/// Opens the tier again: what was synchronised is there, nothing else than what was written, and it
/// goes on.
fn check(folder: &Path, mut known: Known, case: &str, is_evicting: bool) {
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
        // Those of an earlier write of `erased` that goes on are not counted.
        assert!(known.synced.len() > before, "{case}: the tier does not go on");
        for number in &known.synced[before..] {
            assert_eq!(read(&tier, &mut caller, *number), Some(packet(*number).1), "{case}");
        }
    }
}

/// Runs the work on a disk with these faults and checks what is left; how many operations there
/// were.
fn run(packets: u64, faults: &[(u64, Fault)], survives: Option<Survives>) -> u64 {
    run_on(|_| {}, packets, faults, survives).len() as u64
}

/// The same in what `prepare` makes; the operations.
fn run_on(
    prepare: fn(&Path),
    packets: u64,
    faults: &[(u64, Fault)],
    survives: Option<Survives>,
) -> Vec<String> {
    let is_evicting = packets > 20;
    on_faulty_disk(
        ("cs", prepare),
        faults,
        survives,
        |folder, known| work(folder, known, packets),
        |folder, known, case| check(folder, known, case, is_evicting),
    )
}

/// Packets of a session: so that a segment is sealed in each.
const FEW: u64 = 8;

/// So many that segments are thrown away.
const MANY: u64 = 60;

#[test]
fn wherever_the_power_is_cut_nothing_wrong_is_read_and_what_was_synchronised_is_there() {
    let operations = run(FEW, &[], None);
    assert!(operations > 100, "{operations}");
    for at in 0..=operations {
        for survives in survivals(at) {
            run(FEW, &[(at, Fault::Last)], Some(survives));
        }
    }
}

#[test]
fn whichever_operation_fails_the_tier_goes_on_and_nothing_wrong_is_read() {
    let operations = run(FEW, &[], None);
    for at in 0..operations {
        run(FEW, &[(at, Fault::Fails(Errno::NOSPC))], None);
        run(FEW, &[(at, Fault::Torn(Errno::IO))], None);
        run(FEW, &[(at, Fault::Torn(Errno::IO)), (at + 1, Fault::Torn(Errno::IO))], Some(Survives::Some(at)));
    }
}

#[test]
fn wherever_the_power_is_cut_while_segments_are_thrown_away_nothing_wrong_is_read() {
    let operations = run(MANY, &[], None);
    for at in (0..=operations).step_by(operations as usize / 12) {
        run(MANY, &[(at, Fault::Last)], Some(Survives::Some(at)));
    }
}

/// A file that stands for a device, whose segments are as long as a small folder's.
fn device(path: &Path) {
    std::fs::File::create_new(path).unwrap().set_len(DEVICE_OCTETS_MIN).unwrap();
    device::format_with_segments(path, OCTETS_MIN / 16).unwrap();
}

/// The same that nothing was ever written to.
fn blank_device(path: &Path) {
    std::fs::File::create_new(path).unwrap().set_len(DEVICE_OCTETS_MIN).unwrap();
}

/// Where the power goes while nothing is written it makes no difference: reads are left out.
fn changes(operations: &[String]) -> impl Iterator<Item = u64> {
    let changes = operations.iter().enumerate().filter(|(_, operation)| *operation != "Read");
    changes.map(|(at, _)| at as u64).chain([operations.len() as u64])
}

#[test]
fn wherever_the_power_is_cut_on_a_device_nothing_wrong_is_read_and_what_was_synchronised_is_there() {
    let operations = run_on(device, FEW, &[], None);
    assert!(changes(&operations).count() > 60, "{operations:?}");
    for at in changes(&operations) {
        for survives in survivals(at) {
            run_on(device, FEW, &[(at, Fault::Last)], Some(survives));
        }
    }
}

#[test]
fn wherever_the_power_is_cut_while_a_device_is_taken_it_is_taken_again() {
    let operations = run_on(blank_device, 0, &[], None);
    for at in changes(&operations) {
        for survives in survivals(at) {
            run_on(blank_device, 0, &[(at, Fault::Last)], Some(survives));
        }
    }
}

#[test]
fn whichever_operation_on_a_device_fails_the_tier_goes_on_and_nothing_wrong_is_read() {
    let operations = run_on(device, FEW, &[], None);
    for at in changes(&operations) {
        run_on(device, FEW, &[(at, Fault::Fails(Errno::NOSPC))], None);
        run_on(device, FEW, &[(at, Fault::Torn(Errno::IO))], None);
        let twice = [(at, Fault::Torn(Errno::IO)), (at + 1, Fault::Torn(Errno::IO))];
        run_on(device, FEW, &twice, Some(Survives::Some(at)));
    }
}

#[test]
fn wherever_the_power_is_cut_while_regions_of_a_device_are_used_again_nothing_wrong_is_read() {
    let operations = run_on(device, MANY, &[], None);
    let changes: Vec<u64> = changes(&operations).collect();
    for at in changes.iter().step_by(changes.len() / 24) {
        run_on(device, MANY, &[(*at, Fault::Last)], Some(Survives::Some(*at)));
    }
}

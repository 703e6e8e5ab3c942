//! Fault injection: each operation of a run fails, is torn, or is the last before a power cut; then
//! the store is opened again.

use std::collections::BTreeMap;
use std::path::Path;

use namely_host::disk::faults::{CrashSurvival, Fault};
use namely_testkit::{on_faulty_disk, signed, survivals};
use namely_wire::{Name, NameRef};
use rustix::io::Errno;

use super::*;

/// Octets of each packet's content. All packets have the same length, so that one packet's position
/// may later hold another.
const CONTENT_OCTETS: usize = 700;

/// The packet of this number.
fn packet(number: u64) -> (Name, Vec<u8>) {
    let name: Name = "/p/object/v=1".parse::<Name>().unwrap().join_segment(number);
    let wire = signed(&name, number as u8, CONTENT_OCTETS);
    (name, wire)
}

/// State that a user of the store records.
#[derive(Debug, Default)]
struct KnownState {
    /// The next packet.
    next: u64,
    /// Packets that were published; the store must have them.
    published: Vec<(u64, Location)>,
}

/// Publications on a store with small files: some succeed, some are undone, two run at once, and
/// the oldest file is dropped.
fn work(folder: &Path, known: &mut KnownState) {
    let mut sessions = 0;
    // Opening may fail in this session and succeed in the next one.
    while sessions < 2 {
        sessions += 1;
        let Ok(mut store) = Store::open(folder, 1 << 20, &mut |_, _, _| {}) else { continue };
        store.file_octets_max = 3 * record_octets(&packet(0).1);
        publish(&mut store, known, 2, true);
        publish(&mut store, known, 2, false);
        publish(&mut store, known, 2, true);
        // Two publications at once, one of which fails.
        let [one, other] = [(); 2].map(|()| store.begin());
        let (first, second) = (append(&mut store, known, 1), append(&mut store, known, 2));
        end(&mut store, known, one, first, true);
        end(&mut store, known, other, second, false);
        // Two publications at once; both succeed if the disk works.
        let [one, other] = [(); 2].map(|()| store.begin());
        let (first, second) = (append(&mut store, known, 1), append(&mut store, known, 1));
        end(&mut store, known, one, first, true);
        end(&mut store, known, other, second, true);
        // A publication over three files is undone.
        publish(&mut store, known, 7, false);
        if let Some(gone) = store.drop_oldest() {
            let before = known.published.len();
            known.published.retain(|(_, place)| place.file != gone);
            store.forget_packets(before - known.published.len());
        }
        publish(&mut store, known, 3, true);
    }
}

type Appended = Result<Vec<(u64, Location)>, StoreError>;

fn publish(store: &mut Store, known: &mut KnownState, packets: u64, succeeds: bool) {
    let publication = store.begin();
    let appended = append(store, known, packets);
    end(store, known, publication, appended, succeeds);
}

/// Appends packets one at a time, so that files become full in between.
fn append(store: &mut Store, known: &mut KnownState, packets: u64) -> Appended {
    let mut appended = Vec::new();
    for _ in 0..packets {
        let (number, (name, packet)) = (known.next, packet(known.next));
        known.next += 1;
        match store.append(&[Record { name: name.as_bytes(), packet: &packet, expires_ms: number }]) {
            Ok(places) => appended.push((number, places[0])),
            // Undoing a failed publication requires the number of packets that it appended.
            Err(_) if appended.is_empty() => return Err(StoreError::Closed),
            Err(_) => break,
        }
    }
    if (appended.len() as u64) < packets {
        appended.push((u64::MAX, appended[0].1))
    }
    Ok(appended)
}

/// Ends a publication. Commits it if `succeeds` is true and all packets were appended. Undoes it
/// otherwise, or if the commit fails.
fn end(store: &mut Store, known: &mut KnownState, publication: u64, appended: Appended, succeeds: bool) {
    let mut appended = appended.unwrap_or_default();
    let is_whole = !appended.is_empty() && appended.iter().all(|(number, _)| *number != u64::MAX);
    appended.retain(|(number, _)| *number != u64::MAX);
    if succeeds && is_whole && store.commit(publication).is_ok() {
        for (number, place) in &appended {
            let read = store.reader(*place).unwrap().read();
            assert!(matches!(read, Ok(None) | Err(_)) || read.unwrap() == Some(packet(*number).1));
        }
        known.published.extend(appended);
    } else {
        let octets = appended.iter().map(|(number, _)| record_octets(&packet(*number).1)).sum();
        store.undo(publication, appended.len(), octets);
    }
}

/// Opens the store again and checks that all published packets are unchanged, that each packet
/// found was appended, and that the store works.
fn check(folder: &Path, mut known: KnownState, case: &str) {
    for round in 0..2 {
        let case = format!("{case}, opened {} times", round + 1);
        let mut found = BTreeMap::new();
        let opened = Store::open(folder, 1 << 20, &mut |name, place, expires_ms| {
            found.insert(NameRef::parse_value(name).unwrap().to_name(), (place, expires_ms));
        });
        let mut store = opened.unwrap_or_else(|error| panic!("{case}: {error}"));
        let mut sound = 0;
        for (name, (place, expires_ms)) in &found {
            let number = name.as_name().last().unwrap().segment().unwrap();
            assert!(number < known.next, "{case}: nobody appended {name}");
            // A packet that only the index lists may be damaged; a read of it yields none.
            if let Some(read) = store.reader(*place).unwrap().read().unwrap() {
                assert_eq!((&read, *expires_ms), (&packet(number).1, number), "{case}: {name}");
                sound += 1;
            }
        }
        for (number, _) in &known.published {
            let (name, wire) = packet(*number);
            let place = found.get(&name).unwrap_or_else(|| panic!("{case}: {name} is lost")).0;
            assert_eq!(store.reader(place).unwrap().read().unwrap(), Some(wire), "{case}: {name}");
        }
        assert!(sound >= known.published.len());
        let on_disk = |file: &PacketFile| packets_path(folder, file.number).metadata().unwrap().len();
        assert_eq!(store.octets(), store.files.iter().map(on_disk).sum::<u64>(), "{case}");
        publish(&mut store, &mut known, 2, true);
        let last = known.published.last().map(|(number, _)| *number);
        assert_eq!(last, Some(known.next - 1), "{case}: the store goes on");
    }
}

/// Runs the work on a disk with these faults and checks the result. Returns the number of
/// operations.
fn run(faults: &[(u64, Fault)], survives: Option<CrashSurvival>) -> u64 {
    on_faulty_disk("stores/one", |_| {}, faults, survives, work, check).len() as u64
}

#[test]
fn a_failing_store_operation_loses_no_publication() {
    let operations = run(&[], None);
    assert!(operations > 100, "{operations}");
    for at in 0..operations {
        run(&[(at, Fault::Fails(Errno::NOSPC))], None);
        run(&[(at, Fault::Torn(Errno::IO))], None);
        run(&[(at, Fault::Fails(Errno::IO))], Some(CrashSurvival::Nothing));
        run(&[(at, Fault::Torn(Errno::NOSPC))], Some(CrashSurvival::Some(at)));
    }
}

#[test]
fn a_power_cut_loses_no_publication() {
    let operations = run(&[], None);
    for at in 0..=operations {
        for survives in survivals(at) {
            run(&[(at, Fault::Last)], Some(survives));
        }
    }
}

/// Cleaning up after a failure may fail too.
#[test]
fn two_failing_store_operations_lose_no_publication() {
    let operations = run(&[], None);
    for at in 0..operations {
        for after in 1..4 {
            let faults = [(at, Fault::Torn(Errno::IO)), (at + after, Fault::Torn(Errno::IO))];
            run(&faults, if after == 1 { None } else { Some(CrashSurvival::Some(at)) });
        }
    }
}

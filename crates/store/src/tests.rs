use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::process::Command;

use namely_security::{Signer, sign_data};
use namely_testkit::{Need, skip};
use namely_wire::{DataBuilder, Name};

use super::*;
use crate::format::Format;

const OCTETS_MAX: u64 = 1 << 30;

fn packet(number: u64) -> (Name, Vec<u8>) {
    let name: Name = "/p/object/v=1".parse::<Name>().unwrap().join_segment(number);
    let content = [number as u8; 3000];
    let wire = sign_data(&DataBuilder::new(name.as_name()), &content, &Signer::digest_sha256()).unwrap();
    (name, wire)
}

type Listed = Vec<(Name, Location)>;

fn open(folder: &Path, octets_max: u64) -> (Store, Listed) {
    let mut found = Vec::new();
    let store = Store::open(folder, octets_max, &mut |name, location, _| {
        found.push((namely_wire::NameRef::parse_value(name).unwrap().to_name(), location));
    });
    (store.unwrap(), found)
}

fn append(store: &mut Store, numbers: std::ops::Range<u64>) -> Result<Vec<Location>, StoreError> {
    append_until(store, numbers, 0)
}

fn append_until(
    store: &mut Store,
    numbers: std::ops::Range<u64>,
    expires_ms: u64,
) -> Result<Vec<Location>, StoreError> {
    let packets: Vec<_> = numbers.map(packet).collect();
    let mut records = Vec::new();
    for (name, packet) in &packets {
        records.push(Record { name: name.as_bytes(), packet, expires_ms });
    }
    store.append(&records)
}

fn end(location: &Location) -> u64 {
    location.offset + Format::Two.header_octets() as u64 + u64::from(location.octets)
}

fn read(store: &Store, location: Location) -> Option<Vec<u8>> {
    store.reader(location).unwrap().read().unwrap()
}

fn assert_holds(store: &Store, found: &Listed, numbers: std::ops::Range<u64>) {
    assert_eq!(found.len() as u64, numbers.end - numbers.start);
    for ((name, location), number) in found.iter().zip(numbers) {
        let (expected, wire) = packet(number);
        assert_eq!((name, read(store, *location)), (&expected, Some(wire)));
    }
}

fn last_file(folder: &Path) -> PathBuf {
    packets_path(folder, *scan::file_numbers(&Folder::open(folder).unwrap()).unwrap().last().unwrap())
}

#[test]
fn a_store_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, found) = open(folder.path(), OCTETS_MAX);
    assert!(found.is_empty());
    let places = append(&mut store, 0..10).unwrap();
    assert_eq!(read(&store, places[3]), Some(packet(3).1));
    let publication = store.begin();
    append(&mut store, 10..20).unwrap();
    store.commit(publication).unwrap();
    let octets = store.octets();
    drop(store);
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..20);
    assert_eq!((store.octets(), store.losses()), (octets, (0, 0)));
}

#[test]
fn a_store_belongs_to_one_producer() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path(), OCTETS_MAX);
    let second = Store::open(folder.path(), OCTETS_MAX, &mut |_, _, _| {});
    assert!(matches!(second, Err(StoreError::InUse(_))));
    drop(store);
    open(folder.path(), OCTETS_MAX);
}

#[test]
fn a_torn_tail_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    let places = append(&mut store, 0..3).unwrap();
    drop(store);
    let whole = std::fs::read(last_file(folder.path())).unwrap();
    let last = places[2];
    for cut in (last.offset..end(&last)).step_by(97).chain([end(&last) - 1]) {
        std::fs::write(last_file(folder.path()), &whole[..cut as usize]).unwrap();
        let (mut store, found) = open(folder.path(), OCTETS_MAX);
        assert_holds(&store, &found, 0..2);
        assert_eq!(store.losses(), (0, cut - last.offset));
        // The next record replaces the torn one.
        assert_eq!(append(&mut store, 2..3).unwrap(), [last]);
        drop(store);
        let (store, found) = open(folder.path(), OCTETS_MAX);
        assert_holds(&store, &found, 0..3);
        assert_eq!(store.losses(), (0, 0));
    }
    // Blocks that the system never wrote read as zeros.
    let mut zeros = whole[..last.offset as usize].to_vec();
    zeros.resize(whole.len(), 0);
    std::fs::write(last_file(folder.path()), zeros).unwrap();
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..2);
}

#[test]
fn an_incomplete_store_file_is_adopted() {
    for octets in 0..=MAGIC.len() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(packets_path(folder.path(), 1), &MAGIC[..octets]).unwrap();
        let (mut store, found) = open(folder.path(), OCTETS_MAX);
        assert!(found.is_empty());
        append(&mut store, 0..3).unwrap();
        drop(store);
        let (store, found) = open(folder.path(), OCTETS_MAX);
        assert_holds(&store, &found, 0..3);
    }
    let folder = tempfile::tempdir().unwrap();
    let strange = packets_path(folder.path(), 1);
    std::fs::write(&strange, b"namely-packets-9 and more").unwrap();
    assert!(matches!(Store::open(folder.path(), OCTETS_MAX, &mut |_, _, _| {}), Err(StoreError::Io(..))));
    assert_eq!(std::fs::read(&strange).unwrap(), b"namely-packets-9 and more");
}

#[test]
fn corruption_beyond_a_crash_is_never_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    let places = append(&mut store, 0..2).unwrap();
    let octets = record_octets(&packet(2).1);
    append(&mut store, 2..3 + TORN_OCTETS_MAX / octets).unwrap();
    drop(store);
    // A wrong length of a record: the position of the next one is unknown.
    let file = last_file(folder.path());
    OpenOptions::new().write(true).open(&file).unwrap().write_all_at(&[0xff; 4], places[1].offset).unwrap();
    let length = file.metadata().unwrap().len();
    for _ in 0..2 {
        let (store, found) = open(folder.path(), OCTETS_MAX);
        assert_holds(&store, &found, 0..1);
        assert_eq!((store.losses(), file.metadata().unwrap().len()), ((1, 0), length));
    }
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    append(&mut store, 1..3).unwrap();
    drop(store);
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..3);
    assert_eq!(file.metadata().unwrap().len(), length);
}

#[test]
fn a_damaged_packet_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    let places = append(&mut store, 0..3).unwrap();
    let mut file = OpenOptions::new().write(true).read(true).open(last_file(folder.path())).unwrap();
    file.seek(SeekFrom::Start(places[1].offset + 500)).unwrap();
    file.write_all(b"!").unwrap();
    assert_eq!(read(&store, places[1]), None);
    assert_eq!(read(&store, places[2]), Some(packet(2).1));
    drop(store);
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_eq!(found.iter().map(|(_, place)| *place).collect::<Vec<_>>(), [places[0], places[2]]);
    assert_eq!(store.losses(), (1, 0));
}

#[test]
fn a_damaged_store_index_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    store.file_octets_max = 1;
    append(&mut store, 0..5).unwrap();
    append(&mut store, 5..9).unwrap();
    drop(store);
    let index = index_path(folder.path(), 1);
    let sound = std::fs::read(&index).unwrap();
    let damaged: Vec<Vec<u8>> = vec![
        Vec::new(),
        sound[..sound.len() / 2].to_vec(),
        sound.iter().enumerate().map(|(i, octet)| if i == 40 { octet ^ 1 } else { *octet }).collect(),
    ];
    for damage in damaged {
        std::fs::write(&index, damage).unwrap();
        let (store, found) = open(folder.path(), OCTETS_MAX);
        assert_holds(&store, &found, 0..9);
        assert_eq!(std::fs::read(&index).unwrap(), sound, "written again");
    }
    std::fs::remove_file(&index).unwrap();
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..9);
    drop(store);
    // The store trusts a sound index and does not read the packets.
    let mut file = OpenOptions::new().write(true).open(packets_path(folder.path(), 1)).unwrap();
    file.seek(SeekFrom::Start(100)).unwrap();
    file.write_all(b"!").unwrap();
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_eq!((found.len(), store.losses()), (9, (0, 0)));
    assert_eq!(read(&store, found[0].1), None);
}

#[test]
fn a_store_is_limited_in_octets() {
    let folder = tempfile::tempdir().unwrap();
    let octets = MAGIC.len() as u64 + (0..4).map(|number| record_octets(&packet(number).1)).sum::<u64>();
    let (mut store, _) = open(folder.path(), octets);
    append(&mut store, 0..3).unwrap();
    assert!(matches!(append(&mut store, 3..5), Err(StoreError::Full { octets_max }) if octets_max == octets));
    append(&mut store, 3..4).unwrap();
    assert_eq!(store.octets(), octets);
    let one_octet = store.append(&[Record { name: b"", packet: b"x", expires_ms: 0 }]);
    assert!(matches!(one_octet, Err(StoreError::Full { .. })));
    drop(store);
    let (store, found) = open(folder.path(), octets);
    assert_holds(&store, &found, 0..4);
}

#[test]
fn a_store_is_limited_in_packets() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    assert_eq!(store.packets_max, STORE_PACKETS_MAX);
    store.packets_max = 3;
    append(&mut store, 0..2).unwrap();
    assert!(matches!(append(&mut store, 2..4), Err(StoreError::Full { .. })));
    append(&mut store, 2..3).unwrap();
    assert!(matches!(append(&mut store, 3..4), Err(StoreError::Full { .. })));
}

#[test]
fn a_large_store_has_few_files() {
    for octets_max in [1, OCTETS_MAX, 1 << 40, (1 << 40) + 1] {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path(), octets_max);
        assert!(octets_max.div_ceil(store.file_octets_max) <= FILES_MAX, "{octets_max}");
        assert!(store.file_octets_max >= FILE_OCTETS_MIN);
    }
    // A file is full once it has reached that size, and not before.
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    let two = MAGIC.len() as u64 + 2 * record_octets(&packet(0).1);
    store.file_octets_max = two;
    let files: Vec<u64> =
        (0..5).map(|number| append(&mut store, number..number + 1).unwrap()[0].file).collect();
    assert_eq!(files, [1, 1, 2, 2, 3]);
}

#[test]
fn a_publication_is_undone_across_files() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    append(&mut store, 0..3).unwrap();
    let (publication, octets) = (store.begin(), store.octets());
    let undone: u64 = (3..6).map(|number| record_octets(&packet(number).1)).sum();
    append(&mut store, 3..4).unwrap();
    store.file_octets_max = 1;
    append(&mut store, 4..5).unwrap();
    append(&mut store, 5..6).unwrap();
    store.undo(publication, 3, undone);
    assert_eq!(store.octets(), octets);
    store.file_octets_max = OCTETS_MAX;
    append(&mut store, 3..5).unwrap();
    // The first file was full for a while. Its index lists all of its records in the end.
    store.file_octets_max = 1;
    append(&mut store, 5..6).unwrap();
    drop(store);
    assert!(index_path(folder.path(), 1).exists());
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..6);
    drop(store);
    // Records that another publication appended in between stay.
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    let [failing, other] = [(); 2].map(|()| store.begin());
    append(&mut store, 6..8).unwrap();
    store.commit(other).unwrap();
    store.undo(failing, 1, record_octets(&packet(6).1));
    drop(store);
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..8);
}

#[test]
fn only_completed_store_files_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    store.file_octets_max = 1;
    for number in 0..3 {
        append(&mut store, number..number + 1).unwrap();
    }
    assert_eq!((store.drop_oldest(), store.drop_oldest(), store.drop_oldest()), (Some(1), Some(2), None));
    drop(store);
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 2..3);
}

#[test]
fn undo_tolerates_a_dropped_oldest_file() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    store.file_octets_max = 1;
    let publication = store.begin();
    let octets: u64 = (0..3).map(|number| record_octets(&packet(number).1)).sum();
    for number in 0..3 {
        append(&mut store, number..number + 1).unwrap();
    }
    store.drop_oldest().unwrap();
    store.forget_packets(1);
    store.undo(publication, 3, octets);
    assert_eq!((store.octets(), store.packets), (0, 0));
    append(&mut store, 0..2).unwrap();
    drop(store);
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..2);
}

/// Runs this test again on a file system of one megabyte, in a mount namespace of its own.
#[test]
fn a_full_disk_leaves_the_store_intact() {
    const VARIABLE: &str = "NAMELY_TEST_FULL_DISK";
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return fill(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let script = "mount -t tmpfs -o size=1m tmpfs \"$1\" && exec \"$2\" --exact --nocapture \"$3\"";
    let name = "store::tests::a_full_disk_leaves_the_store_intact";
    let unshared = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(test)
        .arg(name)
        .env(VARIABLE, folder.path())
        .output();
    match unshared {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("the disk was full") => {}
        Ok(output) if !String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
            skip(
                Need::Mount,
                format_args!("no namespace with a small disk: {}", String::from_utf8_lossy(&output.stderr)),
            );
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => skip(Need::Mount, format_args!("unshare: {error}")),
    }
}

fn fill(folder: &Path) {
    let (mut store, _) = open(folder, OCTETS_MAX);
    let mut stored = 0;
    let error = loop {
        match append(&mut store, stored..stored + 7) {
            Ok(_) => stored += 7,
            Err(error) => break error,
        }
        assert!(stored < 1000, "the disk is not small");
    };
    assert!(matches!(error, StoreError::NoSpace(_)), "{error}");
    println!("the disk was full after {stored} packets");
    let octets = store.octets();
    assert_eq!(last_file(folder).metadata().unwrap().len(), octets, "nothing half-written is left");
    drop(store);
    let (mut store, found) = open(folder, OCTETS_MAX);
    assert_holds(&store, &found, 0..stored);
    assert_eq!(store.losses(), (0, 0));
    // The store accepts one more packet that fits.
    let room: u64 = (1 << 20) - octets;
    if room > 2 * 4096 {
        append(&mut store, stored..stored + 1).unwrap();
    }
    let mut lock = String::new();
    File::open(folder.join("lock")).unwrap().read_to_string(&mut lock).unwrap();
}

#[test]
fn concurrent_failed_publications_leave_no_dead_records() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    append(&mut store, 0..2).unwrap();
    let octets = store.octets();
    let two =
        |first: u64, second: u64| [first, second].map(|number| record_octets(&packet(number).1)).iter().sum();
    // Two publications append in turns. A third one has appended nothing when they fail.
    let [one, other, idle] = [(); 3].map(|()| store.begin());
    for number in 2..6 {
        append(&mut store, number..number + 1).unwrap();
    }
    store.undo(one, 2, two(2, 4));
    assert!(store.octets() > octets, "the other goes on");
    store.undo(other, 2, two(3, 5));
    assert_eq!((store.octets(), store.packets), (octets, 2));
    append(&mut store, 2..4).unwrap();
    store.undo(idle, 2, two(2, 3));
    assert_eq!((store.octets(), store.packets), (octets, 2));
    append(&mut store, 2..4).unwrap();
    drop(store);
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..4);
}

/// Names and times of the records found.
fn found_with_times(folder: &Path) -> Vec<(Name, u64)> {
    let mut found = Vec::new();
    let store = Store::open(folder, OCTETS_MAX, &mut |name, _, expires_ms| {
        found.push((namely_wire::NameRef::parse_value(name).unwrap().to_name(), expires_ms));
    });
    assert_eq!(store.unwrap().losses(), (0, 0));
    found
}

#[test]
fn expiry_times_are_stored_in_file_and_index() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    store.file_octets_max = 1;
    append_until(&mut store, 0..2, 1_795_000_000_123).unwrap();
    append_until(&mut store, 2..3, 0).unwrap();
    append_until(&mut store, 3..4, u64::MAX).unwrap();
    drop(store);
    let expected: Vec<_> = [1_795_000_000_123, 1_795_000_000_123, 0, u64::MAX]
        .into_iter()
        .enumerate()
        .map(|(number, expires_ms)| (packet(number as u64).0, expires_ms))
        .collect();
    assert!(index_path(folder.path(), 1).exists());
    assert_eq!(found_with_times(folder.path()), expected);
    // Without the index the times are read from the file.
    std::fs::remove_file(index_path(folder.path(), 1)).unwrap();
    assert_eq!(found_with_times(folder.path()), expected);
    // The check of a record covers the time as well as the packet.
    let file = OpenOptions::new().write(true).open(last_file(folder.path())).unwrap();
    file.write_all_at(&[0], MAGIC.len() as u64 + 4).unwrap();
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_eq!(found.len(), 3);
    assert!(store.losses() != (0, 0));
}

/// Writes a file in the first format.
fn write_first_format(path: &Path, numbers: std::ops::Range<u64>) {
    let mut octets = Format::One.magic().to_vec();
    for number in numbers {
        let packet = packet(number).1;
        let length = (packet.len() as u32).to_le_bytes();
        octets.extend_from_slice(&length);
        octets.extend((0..8).map(|i| blake3::hash(&packet).as_bytes()[i] ^ length[i % 4]));
        octets.extend_from_slice(&packet);
    }
    std::fs::write(path, octets).unwrap();
}

#[test]
fn a_first_format_store_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    write_first_format(&packets_path(folder.path(), 1), 0..3);
    write_first_format(&packets_path(folder.path(), 2), 3..5);
    std::fs::write(index_path(folder.path(), 1), b"namely-index-001 and what it had").unwrap();
    for _ in 0..2 {
        let (store, found) = open(folder.path(), OCTETS_MAX);
        assert_holds(&store, &found, 0..5);
        assert_eq!(store.losses(), (0, 0));
    }
    let before = std::fs::read(packets_path(folder.path(), 2)).unwrap();
    let (mut store, _) = open(folder.path(), OCTETS_MAX);
    assert_eq!(append(&mut store, 5..7).unwrap()[0].file, 3);
    drop(store);
    assert_eq!(std::fs::read(packets_path(folder.path(), 2)).unwrap(), before);
    for _ in 0..2 {
        let (store, found) = open(folder.path(), OCTETS_MAX);
        assert_holds(&store, &found, 0..7);
    }
    // The last record of such a file may be torn, too.
    let folder = tempfile::tempdir().unwrap();
    let path = packets_path(folder.path(), 1);
    write_first_format(&path, 0..3);
    let octets = path.metadata().unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(octets - 1).unwrap();
    let (mut store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..2);
    append(&mut store, 2..3).unwrap();
    drop(store);
    let (store, found) = open(folder.path(), OCTETS_MAX);
    assert_holds(&store, &found, 0..3);
}

//! A tier on a device. A regular file stands for the device; for root, a loop device.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::super::device::format_with_segments;
use super::*;

/// A file that stands for a device of `octets`.
fn device(octets: u64) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    File::create_new(&path).unwrap().set_len(octets).unwrap();
    (folder, path)
}

fn open(path: &Path) -> Result<Tier, TierError> {
    Tier::open(path, &options(EngineKind::Inline))
}

fn put(path: &Path, octets: &[u8], at: u64) {
    File::options().write(true).open(path).unwrap().write_all_at(octets, at).unwrap();
}

fn names(path: &Path) -> Vec<Name> {
    let mut names = Vec::new();
    let root = Name::default();
    let mut found = |listed: ListedPacket<'_>| names.push(listed.name.to_name());
    list(path, root.as_name(), &mut found, &mut |_, _| {}).unwrap();
    names.sort();
    names
}

#[test]
fn a_device_record_survives_a_restart() {
    for engine in [EngineKind::Inline, EngineKind::Threads(3), EngineKind::Auto] {
        let (_folder, path) = device(DEVICE_OCTETS_MIN);
        let tier = Tier::open(&path, &options(engine)).unwrap();
        assert_eq!(write(&tier, 0..100).len(), 100);
        assert!(names(&path).len() <= 100);
        tier.erase(packet(3).0.as_name()).unwrap();
        tier.close().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), DEVICE_OCTETS_MIN);
        let tier = Tier::open(&path, &options(engine)).unwrap();
        let mut caller = tier.caller().unwrap();
        for number in 0..100 {
            let expected = (number != 3).then(|| packet(number).1);
            assert_eq!(read(&tier, &mut caller, number), expected, "{engine:?}: {number}");
        }
        assert_eq!((tier.status().records, tier.status().counters.damaged), (99, 0));
        assert_eq!(names(&path).len(), 99);
    }
}

#[test]
fn device_regions_are_reused_oldest_first() {
    let (_folder, path) = device(DEVICE_OCTETS_MIN);
    format_with_segments(&path, 64 << 10).unwrap();
    // With a budget above the device's size the tier uses the whole device.
    let all = Options { octets_max: 1 << 40, ..options(EngineKind::Inline) };
    let tier = Tier::open(&path, &all).unwrap();
    let octets_max = tier.status().octets_max;
    assert!((2 << 20..3 << 20).contains(&octets_max), "{octets_max}");
    write(&tier, 0..3000);
    let status = tier.status();
    assert!(status.octets <= octets_max && status.counters.evicted > 1500, "{status:?}");
    let mut caller = tier.caller().unwrap();
    let kept: Vec<u64> = (0..3000).filter(|n| read(&tier, &mut caller, *n).is_some()).collect();
    assert!(kept.len() > 600 && kept.contains(&2999), "{}", kept.len());
    drop(caller);
    tier.close().unwrap();
    let tier = Tier::open(&path, &all).unwrap();
    let mut caller = tier.caller().unwrap();
    assert!(kept.iter().all(|n| read(&tier, &mut caller, *n) == Some(packet(*n).1)));
    assert_eq!(tier.status().counters.damaged, 0, "nothing of what was there before is taken for a record");
    tier.set_octets_max(0);
    tier.turn();
    assert!(tier.status().octets <= OCTETS_MIN);
}

#[test]
fn a_reused_region_restores_no_erased_record() {
    let (_folder, path) = device(DEVICE_OCTETS_MIN);
    format_with_segments(&path, 64 << 10).unwrap();
    let tier = open(&path).unwrap();
    write(&tier, 0..20);
    tier.erase(packet(0).0.as_name().without_last(1)).unwrap();
    tier.turn();
    assert_eq!((tier.status().erasing, tier.status().records), (0, 0));
    // Other Data fills the device again and again. Each image is the device after a power cut, in
    // the middle of some segment.
    let name = |n: u64| format!("/other/v={n}/seg=0").parse::<Name>().unwrap();
    let image = path.with_extension("image");
    for n in 0..1000 {
        offer(&tier, &name(n), &namely_testkit::signed(&name(n), 1, 3000));
        tier.turn();
        if n < 700 {
            continue;
        }
        tier.sync().unwrap();
        std::fs::copy(&path, &image).unwrap();
        let left = open(&image).unwrap();
        let mut caller = left.caller().unwrap();
        assert!((0..20).all(|n| read(&left, &mut caller, n).is_none()), "{n}");
        assert!(
            left.status().records > 150 && left.status().counters.damaged == 0,
            "{n}: {:?}",
            left.status()
        );
    }
    assert!(names(&path).iter().all(|name| name.to_string().starts_with("/other")));
}

#[test]
fn a_device_segment_without_index_is_scanned() {
    let (_folder, path) = device(DEVICE_OCTETS_MIN);
    format_with_segments(&path, 64 << 10).unwrap();
    let tier = open(&path).unwrap();
    let name = |n: u64| format!("/{}/{n}", n % 2).parse::<Name>().unwrap();
    for n in 0..600 {
        offer(&tier, &name(n), &namely_testkit::signed(&name(n), 1, 1));
        tier.turn();
    }
    let records = tier.status().records;
    assert!(records > 500, "{records}");
    tier.close().unwrap();
    let tier = open(&path).unwrap();
    assert_eq!(tier.status().records, records);
    tier.erase(name(1).as_name().without_last(1)).unwrap();
    tier.turn();
    assert_eq!(tier.status().erasing, 0);
    tier.close().unwrap();
    let tier = open(&path).unwrap();
    assert!(tier.status().records < records);
    assert!(names(&path).iter().all(|n| n.to_string().starts_with("/0/")));
}

#[test]
fn a_device_belongs_to_one_tier() {
    let (_folder, path) = device(DEVICE_OCTETS_MIN);
    let tier = open(&path).unwrap();
    let said = open(&path).unwrap_err().to_string();
    assert!(said.contains("is in use by another router, or mounted"), "{said}");
    assert!(matches!(format(&path, true), Err(TierError::Busy(_))));
    let caller = tier.caller().unwrap();
    tier.close().unwrap();
    drop(open(&path).unwrap());
    drop(caller);
}

#[test]
fn a_foreign_device_needs_formatting() {
    for (octets, at, what) in [
        (&[0x53, 0xef][..], 0x438, "an ext2, ext3 or ext4 file system"),
        (b"XFSB", 0, "an XFS file system"),
        (b"_BHRfS_M", 0x1_0040, "a btrfs file system"),
        (b"EFI PART", 512, "a table of partitions (GPT)"),
        (&[0x55, 0xaa], 510, "a boot sector, or a table of partitions"),
        (b"mine", 700_000, "something that is no cache"),
        (b"at the end", DEVICE_OCTETS_MIN - 512, "something that is no cache"),
        (b"namely-device-99", 0, "a cache of another version"),
        (b"name and address", 0, "something that is no cache"),
    ] {
        let (_folder, path) = device(DEVICE_OCTETS_MIN);
        put(&path, octets, at);
        let before = std::fs::read(&path).unwrap();
        let said = open(&path).unwrap_err().to_string();
        assert!(said.contains(what) && said.contains("format"), "{said}");
        let refused = format(&path, false);
        assert!(
            matches!(refused, Err(TierError::UntrustedFile { .. })) || what.contains("version"),
            "{what}"
        );
        if refused.is_err() {
            assert!(std::fs::read(&path).unwrap() == before, "{what}: it is as it was");
            assert!(list(&path, Name::default().as_name(), &mut |_| {}, &mut |_, _| {}).is_err());
            assert!(format(&path, true).unwrap() >= OCTETS_MIN);
        }
        drop(open(&path).unwrap());
    }
}

#[test]
fn a_device_has_a_minimum_size() {
    let (_folder, path) = device(DEVICE_OCTETS_MIN - 4096);
    for refused in [open(&path).map(drop), format(&path, true).map(drop)] {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("4190208 octets") && said.contains("4 MiB"), "{said}");
    }
    let (_folder, path) = device(0);
    assert!(matches!(open(&path), Err(TierError::Small { octets: 0, .. })));
    let (_folder, path) = device(DEVICE_OCTETS_MIN);
    drop(open(&path).unwrap());
    // The device becomes smaller than its superblock states.
    File::options().write(true).open(&path).unwrap().set_len(DEVICE_OCTETS_MIN - 4096).unwrap();
    let said = open(&path).unwrap_err().to_string();
    assert!(said.contains("damaged") && said.contains("format"), "{said}");
    assert!(matches!(format(path.parent().unwrap(), true), Err(TierError::NoDevice(_))));
}

#[test]
fn damaged_device_regions_lose_only_their_records() {
    let (_folder, path) = device(DEVICE_OCTETS_MIN);
    let tier = open(&path).unwrap();
    write(&tier, 0..100);
    tier.close().unwrap();
    // An octet in every ten kilobytes, except in the first block.
    (4096..DEVICE_OCTETS_MIN).step_by(10_000).for_each(|at| put(&path, &[0x5a], at));
    let tier = open(&path).unwrap();
    let mut caller = tier.caller().unwrap();
    for number in 0..100 {
        let found = read(&tier, &mut caller, number);
        assert!(found.is_none_or(|found| found == packet(number).1), "{number}");
    }
}

/// A loop device over a file, which is detached when this is dropped.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            namely_testkit::skip(namely_testkit::Need::Root, "only root can make a device");
            return None;
        }
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Loop(String::from_utf8_lossy(&made.stdout).trim().to_owned()))
            }
            made => {
                namely_testkit::skip(namely_testkit::Need::Mount, format_args!("no loop device: {made:?}"));
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A file system mounted in a mount namespace of its own. A namespace that another test makes
/// meanwhile copies the mounts of this process: such a copy would keep the device in use.
struct Mounted(Child);

impl Mounted {
    fn new(device: &Path, at: &Path) -> Option<Self> {
        let script = "mount \"$0\" \"$1\" && echo mounted && { read -r _; umount \"$1\"; }";
        let mut shell = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .args([device, at])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(shell.stdout.take()?).read_line(&mut line).ok()?;
        if line.trim() != "mounted" {
            let _ = shell.wait();
            return None;
        }
        Some(Self(shell))
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn a_block_device_survives_a_restart() {
    let (folder, file) = device(64 << 20);
    let Some(disk) = Loop::new(&file) else { return };
    let path = Path::new(&disk.0);
    for engine in [EngineKind::Auto, EngineKind::Threads(2)] {
        let all = Options { octets_max: OCTETS_MAX, ..options(engine) };
        let tier = Tier::open(path, &all).unwrap();
        assert!(tier.status().octets_max > 48 << 20);
        assert!(matches!(open(path), Err(TierError::Busy(_))));
        write(&tier, 0..200);
        tier.close().unwrap();
        let tier = Tier::open(path, &all).unwrap();
        let mut caller = tier.caller().unwrap();
        assert!((0..200).all(|n| read(&tier, &mut caller, n) == Some(packet(n).1)), "{engine:?}");
    }
    assert_eq!(names(path).len(), 200);
    // A file system is not overwritten without a request, and a mounted one never.
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(path).status();
    if !made.is_ok_and(|made| made.success()) {
        return namely_testkit::skip(namely_testkit::Need::Mount, "no mkfs.ext4");
    }
    assert!(matches!(open(path), Err(TierError::UntrustedFile { what, .. }) if what.contains("ext4")));
    let at = folder.path().join("mounted");
    std::fs::create_dir(&at).unwrap();
    let Some(mounted) = Mounted::new(path, &at) else {
        return namely_testkit::skip(namely_testkit::Need::Mount, "nothing can be mounted");
    };
    let refused = format(path, true);
    mounted.end();
    assert!(matches!(refused, Err(TierError::Busy(_))), "{refused:?}");
    format(path, true).unwrap();
    drop(open(path).unwrap());
}

//! Runs work on a simulated disk with the faults that a test chooses.

use std::path::Path;

use namely_host::disk::faults::{CrashSurvival, Disk, Fault};

/// Runs `work` in a folder that is at `at` on a disk with these faults, cuts the power if the case
/// has survivors, and lets `check` examine the remaining files. Returns the operations.
pub fn on_faulty_disk<K: Default>(
    at: &str,
    prepare: fn(&Path),
    faults: &[(u64, Fault)],
    survives: Option<CrashSurvival>,
    work: impl FnOnce(&Path, &mut K),
    check: impl FnOnce(&Path, K, &str),
) -> Vec<String> {
    // The folder is in memory if the system has one there, because the disk is simulated.
    let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (root, removed) = (place.path().join("disk"), place.path().join("removed"));
    let removed_later = place.path().join("removed later");
    for folder in [&root, &removed, &removed_later] {
        std::fs::create_dir(folder).unwrap();
    }
    let folder = root.join(at);
    prepare(&folder);
    let mut known = K::default();
    let ((), disk) = Disk::new(&root, &removed, faults).run(|| work(&folder, &mut known));
    let operations = disk.operations().to_vec();
    let what = faults
        .iter()
        .map(|(at, fault)| format!("{at} ({:?}): {fault:?}", disk.operations().get(*at as usize)));
    let case = format!("{:?}, {survives:?}", what.collect::<Vec<_>>());
    if let Some(survives) = survives {
        disk.power_cut(survives);
    }
    Disk::new(&root, &removed_later, &[]).run(|| check(&folder, known, &case));
    operations
}

/// The survivors of a power cut that are tried for operation `at`.
pub fn survivals(at: u64) -> [CrashSurvival; 4] {
    [CrashSurvival::Nothing, CrashSurvival::All, CrashSurvival::Some(at), CrashSurvival::Some(at + 10_000)]
}

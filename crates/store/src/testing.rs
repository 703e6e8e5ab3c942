//! What several tests of this crate stand on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use namely_host::disk::faults::{Disk, Fault, Survives};
use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, Name};

/// What a keyed hash of a number could be (SplitMix64).
pub(crate) fn hash(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A Data with `octets` octets of content, each `fill`; signed once.
pub(crate) fn signed(name: &Name, fill: u8, octets: usize) -> Vec<u8> {
    type Signed = BTreeMap<(String, u8, usize), Vec<u8>>;
    thread_local!(static PACKETS: RefCell<Signed> = const { RefCell::new(BTreeMap::new()) });
    let sign = || {
        let data = DataBuilder::new(name.as_name());
        sign_data(&data, &vec![fill; octets], &Signer::digest_sha256()).unwrap()
    };
    let key = (name.to_string(), fill, octets);
    PACKETS.with_borrow_mut(|packets| packets.entry(key).or_insert_with(sign).clone())
}

/// Does `work` in a folder that is at `at` on a disk with these faults, cuts the power if something
/// is to survive that, and has `check` look at what is left. Returns the operations that there
/// were.
pub(crate) fn on_faulty_disk<K: Default>(
    (at, prepare): (&str, fn(&Path)),
    faults: &[(u64, Fault)],
    survives: Option<Survives>,
    work: impl FnOnce(&Path, &mut K),
    check: impl FnOnce(&Path, K, &str),
) -> Vec<String> {
    // In memory where there is such a folder: what is on a disk is simulated.
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

/// What survives in the cases of operation `at`.
pub(crate) fn survivals(at: u64) -> [Survives; 4] {
    [Survives::Nothing, Survives::All, Survives::Some(at), Survives::Some(at + 10_000)]
}

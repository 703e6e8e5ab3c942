//! Lookups by a name above the packet's own.

use namely_host::shares::Owner;

use super::*;
use namely_testkit::signed;

/// Returns the name of the tier's packet below a name, for a reader that accepts stale Data.
fn below(tier: &Tier, uri: &str) -> Option<Name> {
    let mut caller = tier.caller().unwrap();
    let name = uri.parse::<Name>().unwrap();
    let (name, impossible) = (name.as_name(), Bypass::Impossible);
    let asked = caller.read_for(Owner::Root, ReadId(1), name, NameMatch::Prefix, None, impossible);
    if asked == LookupResult::Absent {
        return None;
    }
    tier.turn();
    let found = caller.completed().expect("it was done").outcome.found()?;
    Some(namely_wire::DataView::parse(found.packet()).unwrap().name.to_name())
}

fn write(tier: &Tier, uri: &str) {
    let name: Name = uri.parse().unwrap();
    offer(tier, &name, &signed(&name, 7, 1000));
    tier.turn();
}

fn open(folder: &tempfile::TempDir) -> Tier {
    Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap()
}

fn name(uri: &str) -> Option<Name> {
    Some(uri.parse().unwrap())
}

/// Checks an object of two versions, a key, and names outside of both.
fn check(tier: &Tier) {
    assert_eq!(below(tier, "/lab/run"), name("/lab/run/v=2/seg=0"), "what was written last");
    assert_eq!(below(tier, "/lab/run/v=1"), name("/lab/run/v=1/seg=0"));
    assert_eq!(below(tier, "/lab/KEY/k"), name("/lab/KEY/k/self/v=3"));
    assert_eq!(below(tier, "/lab/run/v=1/seg=1"), name("/lab/run/v=1/seg=1"), "its own name comes first");
    assert_eq!(below(tier, "/lab"), None, "three components are missing");
    assert_eq!(below(tier, "/lab/run/v=3"), None);
}

#[test]
fn objects_and_keys_are_found_by_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(&folder);
    for uri in ["v=1/seg=0", "v=1/seg=1", "v=2/seg=0", "v=2/seg=1"] {
        write(&tier, &format!("/lab/run/{uri}"));
    }
    write(&tier, "/lab/KEY/k/self/v=3");
    check(&tier);
    tier.close().unwrap();
    let tier = open(&folder);
    check(&tier);
    tier.close().unwrap();
    // A segment without an index is read in full.
    std::fs::remove_file(segment::index_path(folder.path(), 1)).unwrap();
    check(&open(&folder));
}

#[test]
fn an_erased_object_is_not_found_by_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(&folder);
    write(&tier, "/lab/run/v=1/seg=0");
    tier.erase("/lab/run/v=1".parse::<Name>().unwrap().as_name()).unwrap();
    assert_eq!(below(&tier, "/lab/run"), None, "before anything was taken out");
    tier.turn();
    assert_eq!((below(&tier, "/lab/run"), tier.status().counters.erased), (None, 1));
    write(&tier, "/lab/run/v=2/seg=0");
    assert_eq!(below(&tier, "/lab/run"), name("/lab/run/v=2/seg=0"));
    tier.close().unwrap();
    assert_eq!(below(&open(&folder), "/lab/run"), name("/lab/run/v=2/seg=0"));
}

/// A tier of 1 MiB remembers 32 prefixes of names.
#[test]
fn known_prefixes_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(&folder);
    assert_eq!(tier.shared.options.names_above(), 32);
    (0..33).for_each(|n| write(&tier, &format!("/{n}/x")));
    let found = (0..33).filter(|n| below(&tier, &format!("/{n}")).is_some()).count();
    assert!((8..=32).contains(&found), "{found}");
    assert!(below(&tier, "/32").is_some(), "the last one is known");
    assert_eq!(tier.status().records, 33, "each is found by its name");
}

#[test]
fn a_reinserted_record_is_found_by_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(&folder);
    write(&tier, "/kept/v=1/seg=0");
    tier.pin("/kept".parse::<Name>().unwrap().as_name()).unwrap();
    let mut n = 0;
    while tier.status().counters.reinserted == 0 {
        write(&tier, &format!("/other/v=1/seg={}", n + 1));
        n += 1;
        assert!(n < 5000, "its segment goes");
    }
    assert_eq!(below(&tier, "/kept"), name("/kept/v=1/seg=0"));
    tier.close().unwrap();
    assert_eq!(below(&open(&folder), "/kept"), name("/kept/v=1/seg=0"));
}

#[test]
fn an_older_index_format_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(&folder);
    write(&tier, "/lab/run/v=1/seg=0");
    let key = tier.shared.key.clone();
    tier.close().unwrap();
    let path = segment::index_path(folder.path(), 1);
    let mut octets = std::fs::read(&path).unwrap();
    // The header, one entry, and no heads of packets.
    octets.truncate(36 + 24);
    octets[..16].copy_from_slice(b"namely-seg-idx-1");
    let digest = key.digest(&octets);
    octets.extend_from_slice(&digest);
    std::fs::write(&path, octets).unwrap();
    let tier = open(&folder);
    assert_eq!(below(&tier, "/lab/run/v=1/seg=0"), name("/lab/run/v=1/seg=0"));
    assert_eq!(below(&tier, "/lab/run"), None);
}

//! Erasures of single packets by full name.

use namely_security::sha256;
use namely_wire::Component;
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;

use super::super::limits::EXACT_ERASURES_MAX;
use super::*;

/// The name of packet `number` with this digest.
fn named(number: u64, digest: &[u8; 32]) -> Name {
    packet(number).0.join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: digest })
}

/// The full name of packet `number`.
fn full_name(number: u64) -> Name {
    named(number, &sha256(&packet(number).1))
}

/// Another packet with the name of packet `number`.
fn other(number: u64) -> Vec<u8> {
    let name = packet(number).0;
    sign_data(&DataBuilder::new(name.as_name()), b"other", &Signer::digest_sha256()).unwrap()
}

fn open(folder: &Path) -> Tier {
    Tier::open(folder, &options(EngineKind::Inline)).unwrap()
}

/// Checks that packet `gone` alone of the first `count` is missing.
fn check(tier: &Tier, gone: u64, count: u64) {
    let mut caller = tier.caller().unwrap();
    for number in 0..count {
        let expected = Some(packet(number).1).filter(|_| number != gone);
        assert_eq!(read(tier, &mut caller, number), expected, "{number} of {count}");
    }
}

#[test]
fn a_packet_is_erased_by_full_name() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path());
    let mut caller = tier.caller().unwrap();
    for number in 0..4 {
        offer(&tier, &packet(number).0, &packet(number).1);
    }
    tier.erase_exact(full_name(3).as_name(), sha256).unwrap();
    let name = packet(3).0;
    assert_eq!(caller.read(ReadId(3), name.as_name(), None, Bypass::Impossible), LookupResult::Reading);
    assert!(caller.completed().unwrap().outcome.found().is_none(), "before anything was taken out");
    tier.turn();
    assert_eq!((tier.status().counters.erased, tier.status().records), (1, 3));
    check(&tier, 3, 4);
    // Its octets are in the segment that is being filled. The index of the segment leaves them out.
    tier.close().unwrap();
    check(&open(folder.path()), 3, 4);
}

#[test]
fn sealed_segments_forget_an_erased_packet() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path());
    write(&tier, 0..100);
    assert!(tier.status().segments > 2, "the first one is sealed: {:?}", tier.status());
    tier.erase_exact(full_name(0).as_name(), sha256).unwrap();
    tier.turn();
    assert_eq!(tier.status().counters.erased, 1);
    check(&tier, 0, 100);
    tier.close().unwrap();
    let tier = open(folder.path());
    check(&tier, 0, 100);
    // All segments are sealed now. The erasure of a name writes the index of the first one again.
    tier.erase_exact(full_name(99).as_name(), sha256).unwrap();
    tier.erase(packet(1).0.as_name()).unwrap();
    tier.turn();
    tier.close().unwrap();
    let tier = open(folder.path());
    let mut caller = tier.caller().unwrap();
    assert!([0, 1, 99].iter().all(|number| read(&tier, &mut caller, *number).is_none()));
    assert_eq!((tier.status().records, read(&tier, &mut caller, 2)), (97, Some(packet(2).1)));
}

#[test]
fn a_refused_packet_can_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path());
    let (name, wire) = packet(1);
    offer(&tier, &name, &wire);
    assert_eq!(tier.write(name.as_name(), &other(1), 0), WriteOutcome::Duplicate);
    tier.erase_exact(full_name(1).as_name(), sha256).unwrap();
    let later_ms = u64::MAX / 2;
    assert_eq!(tier.write(name.as_name(), &other(1), later_ms), WriteOutcome::Duplicate, "not yet removed");
    tier.turn();
    assert_eq!(tier.status().counters.erased, 1);
    assert_eq!(tier.write(name.as_name(), &other(1), 0), WriteOutcome::Accepted);
    assert_eq!(read(&tier, &mut tier.caller().unwrap(), 1), Some(other(1)));
    tier.close().unwrap();
    let tier = open(folder.path());
    assert_eq!(read(&tier, &mut tier.caller().unwrap(), 1), Some(other(1)));
}

#[test]
fn a_replaced_packet_never_returns() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path());
    write(&tier, 0..100);
    tier.erase_exact(full_name(0).as_name(), sha256).unwrap();
    tier.turn();
    assert_eq!(tier.write(packet(0).0.as_name(), &other(0), 0), WriteOutcome::Accepted);
    // The erasure of a name writes the index of the first segment again.
    tier.erase(packet(1).0.as_name()).unwrap();
    tier.turn();
    // The newer packet is erased as well, so that nothing hides the older one.
    let newer = named(0, &sha256(&other(0)));
    tier.erase_exact(newer.as_name(), sha256).unwrap();
    tier.turn();
    assert_eq!(tier.status().counters.erased, 3);
    tier.close().unwrap();
    let tier = open(folder.path());
    let mut caller = tier.caller().unwrap();
    assert!(read(&tier, &mut caller, 0).is_none());
    assert_eq!(tier.status().records, 98);
}

#[test]
fn a_wrong_digest_erases_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path());
    write(&tier, 0..4);
    let above = packet(0).0.as_name().without_last(1).to_name();
    let above = above.join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &[0; 32] });
    for name in [named(1, &[0; 32]), named(1, &sha256(&packet(2).1)), above, packet(1).0] {
        tier.erase_exact(name.as_name(), sha256).unwrap();
        check(&tier, u64::MAX, 4);
    }
    assert_eq!((tier.status().counters.erased, tier.status().records), (0, 4));
}

#[test]
fn erasures_by_full_name_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path());
    write(&tier, 0..1);
    let erase =
        |digest: usize| tier.erase_exact(named(0, &[u8::try_from(digest).unwrap(); 32]).as_name(), sha256);
    assert!((0..EXACT_ERASURES_MAX).all(|digest| erase(digest).is_ok()));
    erase(0).expect("it waits already");
    let one_more = erase(EXACT_ERASURES_MAX);
    assert!(matches!(one_more, Err(TierError::TooMany { max: EXACT_ERASURES_MAX, .. })), "{one_more:?}");
    tier.turn();
    erase(EXACT_ERASURES_MAX).expect("the others are done");
}

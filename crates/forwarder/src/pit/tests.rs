//! Tests of the PIT against a list of Interests that is searched linearly.

use crate::config::Config;
use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_messages::FaceScope;
use namely_wire::{
    Component, DataBuilder, DataView, InterestBuilder, InterestView, Name, SignatureInfo, types,
};
use proptest::prelude::*;

use super::*;
use crate::hash::NameHasher;
use crate::limits::PitLimits;
use crate::reserve::Reserve;
use crate::shares::Owner;

type Packet = Arc<[u8]>;
type Table = Pit<Packet, parking_lot::RawMutex>;

const MS: u64 = 1_000_000;

fn digest(octets: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[0] = octets.iter().fold(0, |sum: u8, octet| sum.wrapping_mul(31).wrapping_add(*octet));
    digest
}

fn data(name: &Name, content: u8) -> Vec<u8> {
    DataBuilder::new(name.as_name()).build(&[content], &SignatureInfo::digest_sha256()).finish(&[0; 32])
}

fn face(slot: u32) -> FaceKey {
    FaceKey { slot, generation: 0 }
}

/// The face that Interests are sent to and Data comes from.
const UPSTREAM: u32 = 90;

/// Records that an entry was sent to a face.
fn sent_to(pit: &Table, id: Id, slot: u32) {
    let mut state = pit.slot(id).unwrap().state.lock();
    let entry = state.storage.get_mut().unwrap();
    entry.out_records.retain(|record| record.face != face(slot));
    assert!(pit.add_upstream(
        entry,
        OutRecord {
            face: face(slot),
            nonce: [0; 4],
            sent_at_ns: 0,
            expires_at_ns: 0,
            suppression_ns: 0,
            nack: None,
        }
    ));
}

fn record(slot: u32, expires_at_ns: u64) -> InRecord {
    InRecord { face: face(slot), nonce: [0; 4], token: None, expires_at_ns }
}

/// A table with the faces of slots 0 to 9.
fn pit(config: &Config) -> Table {
    let pit = Pit::new(&config.pit, config.faces_max, config.threads_max).unwrap();
    (0..10).for_each(|slot| pit.open(face(slot), Owner::Face(face(slot)), FaceScope::Local).unwrap());
    pit
}

/// Runs the work of a batch of one packet.
fn alone<T>(pit: &Table, with: impl FnOnce(&Reserve) -> T) -> T {
    let reserve = Reserve::new(1);
    let done = with(&reserve);
    pit.settle(&reserve);
    done
}

fn take_expired(pit: &Table, now_ns: u64) -> Option<Expired<Packet>> {
    alone(pit, |reserve| pit.take_expired(now_ns, reserve))
}

/// Enters an Interest as the pipeline does, and sends it to [`UPSTREAM`].
fn enter(
    pit: &Table,
    hasher: &NameHasher,
    packet: &Packet,
    record: InRecord,
    now_ns: u64,
) -> Result<Id, PitFull> {
    enter_unsent(pit, hasher, packet, record, now_ns).inspect(|id| sent_to(pit, *id, UPSTREAM))
}

fn enter_unsent(
    pit: &Table,
    hasher: &NameHasher,
    packet: &Packet,
    record: InRecord,
    now_ns: u64,
) -> Result<Id, PitFull> {
    let view = InterestView::parse(packet).unwrap();
    let hashes = hasher.prefixes(view.name);
    alone(pit, |reserve| {
        match pit.insert(packet, &InterestKey::new(&view, &hashes), record, now_ns, reserve)? {
            InsertOutcome::New(locked) => Ok(locked.id),
            InsertOutcome::Existing(mut locked) => {
                pit.add_downstream(&mut locked, record, now_ns, reserve).map(|()| locked.id)
            }
        }
    })
}

/// The entries that a Data takes, and whether its digest was needed.
fn satisfy(pit: &Table, hasher: &NameHasher, wire: &[u8]) -> (Vec<PitEntry<Packet>>, bool) {
    satisfy_from(pit, hasher, UPSTREAM, wire)
}

/// The same for Data that comes from another face.
fn satisfy_from(pit: &Table, hasher: &NameHasher, slot: u32, wire: &[u8]) -> (Vec<PitEntry<Packet>>, bool) {
    let view = DataView::parse(wire).unwrap();
    let hashes = hasher.prefixes(view.name);
    let (mut taken, mut known) = (Vec::new(), None);
    loop {
        let mut satisfied = Satisfied::new();
        let matched = alone(pit, |reserve| {
            pit.take_matches(face(slot), view.name, &hashes, known.as_ref(), &mut satisfied, reserve)
        });
        taken.extend(satisfied);
        match matched {
            DataMatch::All => return (taken, known.is_some()),
            DataMatch::Some => {}
            DataMatch::DigestNeeded => known = Some(digest(wire)),
        }
    }
}

/// Runs `with` on an entry.
fn look<T>(pit: &Table, id: Id, with: impl FnOnce(&PitEntry<Packet>) -> T) -> T {
    with(pit.slot(id).unwrap().state.lock().storage.get().unwrap())
}

fn interest(uri: &str) -> InterestBuilder {
    InterestBuilder::new(uri.parse().unwrap()).nonce([1; 4])
}

/// `IS-27`: an entry stores one Interest packet. Of a duplicate only the face and the lifetime are
/// recorded.
#[test]
fn a_duplicate_keeps_only_face_and_lifetime() {
    let (config, hasher) = (Config::new(digest), NameHasher::fixed());
    let pit = pit(&config);
    let first: Packet = interest("/a/b").build().into();
    let second: Packet = interest("/a/b").nonce([2; 4]).build().into();
    let id = enter(&pit, &hasher, &first, record(1, 100 * MS), 0).unwrap();
    assert_eq!(enter(&pit, &hasher, &second, record(2, 300 * MS), 0), Ok(id));
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (2, 1));
    look(&pit, id, |entry| {
        assert_eq!(entry.expires_at_ns, 300 * MS);
        assert_eq!(entry.in_records.iter().map(|r| r.face.slot).collect::<Vec<_>>(), [1, 2]);
    });
}

/// `IS-27`: the name is never copied.
#[test]
fn an_entry_name_lies_in_its_packet() {
    let (config, hasher) = (Config::new(digest), NameHasher::fixed());
    let pit = pit(&config);
    let packet: Packet = interest("/a/b").build().into();
    let id = enter(&pit, &hasher, &packet, record(1, MS), 0).unwrap();
    let name = look(&pit, id, |entry| entry.name().as_ptr_range());
    let octets = packet.as_ptr_range();
    assert!(octets.start <= name.start && name.end <= octets.end);
}

/// `IS-27`, `IS-34`: a bucket with its lock takes 8 octets, so that 65,536 buckets of each of three
/// tables take 1.5 MB; a million pending Interests take at most 256 MiB beside their packets.
#[test]
fn a_million_entries_take_bounded_memory() {
    type Lock = parking_lot::RawMutex;
    assert_eq!(size_of::<Mutex<Lock, Id>>(), 8);
    let timer = crate::wheel::TIMER_OCTETS;
    let octets = size_of::<Slot<Packet, Lock>>() + timer + size_of::<Mutex<Lock, Id>>();
    let storage = size_of::<Option<PitEntry<Packet>>>();
    assert!((octets + storage) * 1_000_000 <= 256 << 20, "{octets} + {storage}");
}

/// `IS-33`, `IS-34`: of simultaneous Interests for one name, one makes the entry.
#[test]
fn concurrent_interests_make_one_entry() {
    let (config, hasher) = (Config::new(digest), NameHasher::fixed());
    let pit = pit(&config);
    for round in 0..200 {
        let packet: Packet = interest(&alloc::format!("/a/{round}")).build().into();
        let start = std::sync::Barrier::new(2);
        let new = std::thread::scope(|scope| {
            let enter = |slot| {
                let view = InterestView::parse(&packet).unwrap();
                let hashes = hasher.prefixes(view.name);
                start.wait();
                alone(&pit, |reserve| {
                    let entered =
                        pit.insert(&packet, &InterestKey::new(&view, &hashes), record(slot, MS), 0, reserve);
                    usize::from(matches!(entered, Ok(InsertOutcome::New(_))))
                })
            };
            let threads = [1, 2].map(|slot| scope.spawn(move || enter(slot)));
            threads.map(|thread| thread.join().unwrap()).iter().sum::<usize>()
        });
        assert_eq!((new, pit.len()), (1, round + 1));
    }
}

/// An entry that was found is taken only if it is still the same.
#[test]
fn a_stale_key_takes_nothing() {
    let (config, hasher) = (
        Config { pit: PitLimits { entries_max: 1, ..PitLimits::default() }, ..Config::new(digest) },
        NameHasher::fixed(),
    );
    let pit = pit(&config);
    let id = enter(&pit, &hasher, &interest("/a").build().into(), record(1, MS), 0).unwrap();
    let key = EntryKey { id, serial: pit.slot(id).unwrap().state.lock().serial };
    let take_if = |condition: bool| alone(&pit, |reserve| pit.take_if(key, |_| condition, reserve));
    assert!(take_if(false).is_none());
    assert!(take_if(true).is_some());
    assert!(take_if(true).is_none());
    assert_eq!(enter(&pit, &hasher, &interest("/b").build().into(), record(1, MS), 0), Ok(id));
    assert!(take_if(true).is_none(), "another entry has the place now");
    assert_eq!(pit.len(), 1);
}

/// A slot respects the deadline of its present entry while a timer of an earlier entry still runs.
#[test]
fn a_leftover_timer_delays_no_entry() {
    let (config, hasher) = (
        Config { pit: PitLimits { entries_max: 1, ..PitLimits::default() }, ..Config::new(digest) },
        NameHasher::fixed(),
    );
    let pit = pit(&config);
    let satisfied = |uri: &str| satisfy(&pit, &hasher, &data(&uri.parse().unwrap(), 0)).0.len();
    let enter = |uri: &str, until_ms, now_ms| {
        enter(&pit, &hasher, &interest(uri).build().into(), record(1, until_ms * MS), now_ms * MS).unwrap();
    };
    enter("/a", 100, 0);
    assert_eq!(satisfied("/a"), 1);
    assert_eq!(pit.next_deadline_ns(), None, "nothing is pending");
    enter("/b", 300, 10);
    assert!(matches!(take_expired(&pit, 150 * MS), Some(Expired::Nothing)));
    assert!(take_expired(&pit, 250 * MS).is_none());
    assert!(matches!(take_expired(&pit, 302 * MS), Some(Expired::Entry(_))));
    enter("/c", 500, 310);
    assert_eq!(satisfied("/c"), 1);
    enter("/d", 400, 320);
    assert!(
        matches!(take_expired(&pit, 402 * MS), Some(Expired::Entry(_))),
        "an earlier deadline moves the timer"
    );
    assert_eq!((pit.len(), pit.next_deadline_ns()), (0, None));
}

#[test]
fn selectors_and_hints_make_different_entries() {
    let (config, hasher) = (Config::new(digest), NameHasher::fixed());
    let pit = pit(&config);
    let variants = [
        interest("/a"),
        interest("/a").can_be_prefix(),
        interest("/a").must_be_fresh(),
        interest("/a").can_be_prefix().must_be_fresh(),
        interest("/a").forwarding_hint("/h".parse().unwrap()),
        interest("/a").forwarding_hint("/i".parse().unwrap()),
    ];
    for builder in &variants {
        enter(&pit, &hasher, &builder.build().into(), record(1, MS), 0).unwrap();
        enter(&pit, &hasher, &builder.clone().lifetime_ms(9).build().into(), record(2, MS), 0).unwrap();
    }
    assert_eq!(pit.len(), variants.len());
    let (taken, _) = satisfy(&pit, &hasher, &data(&"/a".parse().unwrap(), 0));
    assert_eq!(taken.len(), variants.len());
}

#[test]
fn digests_are_computed_only_on_demand() {
    let (config, hasher) = (Config::new(digest), NameHasher::fixed());
    let pit = pit(&config);
    let name: Name = "/a/b".parse().unwrap();
    let wanted = data(&name, 1);
    let full = name.join(Component { typ: types::IMPLICIT_DIGEST_COMPONENT, value: &digest(&wanted) });
    let of_full: Packet = InterestBuilder::new(full).nonce([1; 4]).build().into();
    enter(&pit, &hasher, &of_full, record(1, MS), 0).unwrap();
    enter(&pit, &hasher, &interest("/a").can_be_prefix().build().into(), record(1, MS), 0).unwrap();
    let (taken, needed) = satisfy(&pit, &hasher, &data(&"/a/c".parse().unwrap(), 1));
    assert_eq!((taken.len(), needed), (1, false));
    let (taken, needed) = satisfy(&pit, &hasher, &data(&name, 2));
    assert_eq!((taken.len(), needed), (0, true));
    let (taken, needed) = satisfy_from(&pit, &hasher, UPSTREAM + 1, &wanted);
    assert_eq!((taken.len(), needed), (0, false), "nor for a face that was not asked");
    let (taken, needed) = satisfy(&pit, &hasher, &wanted);
    assert_eq!((taken.len(), needed), (1, true));
}

#[test]
fn an_interest_past_each_limit_is_refused() {
    let hasher = NameHasher::fixed();
    let config = Config {
        pit: PitLimits { entries_max: 3, entries_per_face_max: 2, in_records_max: 2, ..PitLimits::default() },
        ..Config::new(digest)
    };
    let pit = pit(&config);
    let enter = |uri: &str, slot, now_ns| {
        enter(&pit, &hasher, &interest(uri).build().into(), record(slot, now_ns + MS), now_ns).map(|_| ())
    };
    assert_eq!(enter("/1", 1, 0), Ok(()));
    assert_eq!(enter("/2", 1, 0), Ok(()));
    assert_eq!(enter("/3", 1, 0), Err(PitFull::Face));
    assert_eq!(enter("/3", 2, 0), Ok(()));
    assert_eq!(enter("/4", 2, 0), Err(PitFull::Table));
    assert_eq!(enter("/1", 2, 0), Ok(()));
    assert_eq!(enter("/1", 2, 0), Ok(()), "a downstream that is there is renewed");
    assert_eq!(enter("/2", 2, 0), Err(PitFull::Face));
    assert_eq!(enter("/1", 3, 0), Err(PitFull::InRecords));
    assert_eq!(enter("/1", 3, 2 * MS), Ok(()), "downstreams whose time is over make room");
    assert_eq!(enter("/2", 2, 2 * MS), Ok(()), "and count no longer against their face");
}

#[derive(Clone, Debug)]
struct ModelEntry {
    packet: Packet,
    name: Name,
    can_be_prefix: bool,
    faces: Vec<(u32, u64)>,
    upstreams: Vec<u32>,
}

impl ModelEntry {
    fn is_satisfied_by(&self, from: u32, name: &Name, wire: &[u8]) -> bool {
        if !self.upstreams.contains(&from) {
            return false;
        }
        match self.name.as_name().last() {
            Some(last) if last.is_implicit_digest() => {
                self.name.as_name().without_last(1) == name.as_name() && last.value == digest(wire)
            }
            _ if self.can_be_prefix => self.name.is_prefix_of(name.as_name()),
            _ => self.name == *name,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    InterestKey {
        name: Name,
        by_digest: Option<u8>,
        can_be_prefix: bool,
        must_be_fresh: bool,
        face: u32,
        upstream: u32,
        lifetime: u64,
    },
    Data {
        from: u32,
        name: Name,
        content: u8,
    },
    Expire {
        passed: u64,
    },
}

fn name() -> impl Strategy<Value = Name> {
    namely_testkit::names(2, 1..5)
}

fn step() -> impl Strategy<Value = Step> {
    let interest = (
        name(),
        proptest::option::weighted(0.2, 0u8..3),
        any::<(bool, bool)>(),
        (0u32..4, 8u32..10),
        1u64..2000,
    );
    prop_oneof![
        5 => interest.prop_map(|(name, by_digest, (can_be_prefix, must_be_fresh), (face, upstream), lifetime)| {
            let lifetime = lifetime * MS;
            Step::InterestKey { name, by_digest, can_be_prefix, must_be_fresh, face, upstream, lifetime }
        }),
        3 => (8u32..10, name(), 0u8..3).prop_map(|(from, name, content)| Step::Data { from, name, content }),
        1 => (1u64..1500).prop_map(|passed| Step::Expire { passed: passed * MS }),
    ]
}

fn interest_packet(name: &Name, can_be_prefix: bool, must_be_fresh: bool) -> Packet {
    let mut builder = InterestBuilder::new(name.clone()).nonce([1; 4]);
    if can_be_prefix {
        builder = builder.can_be_prefix();
    }
    if must_be_fresh {
        builder = builder.must_be_fresh();
    }
    builder.build().into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// `IS-28`: exact match first, then each prefix with CanBePrefix, among the Interests sent to
    /// the face that answers; compared with a list.
    #[test]
    fn the_pit_matches_a_list_despite_collisions(
        steps in proptest::collection::vec(step(), 1..80),
        mask in prop_oneof![Just(0), Just(1), Just(u64::MAX)],
    ) {
        let (config, hasher) = (Config::new(digest), NameHasher::colliding(mask));
        let pit = pit(&config);
        let mut model: Vec<ModelEntry> = Vec::new();
        let mut now_ns = 0;
        for step in steps {
            match step {
                Step::InterestKey { name, by_digest, can_be_prefix, must_be_fresh, face, upstream, lifetime } => {
                    let name = match by_digest {
                        Some(content) => {
                            let value = digest(&data(&name, content));
                            name.join(Component { typ: types::IMPLICIT_DIGEST_COMPONENT, value: &value })
                        }
                        None => name,
                    };
                    let packet = interest_packet(&name, can_be_prefix, must_be_fresh);
                    let expires = now_ns + lifetime;
                    let id = enter_unsent(&pit, &hasher, &packet, record(face, expires), now_ns);
                    prop_assert!(id.is_ok());
                    sent_to(&pit, id.unwrap(), upstream);
                    let same = |entry: &&mut ModelEntry| entry.packet == packet;
                    if let Some(entry) = model.iter_mut().find(same) {
                        entry.faces.retain(|(known, _)| *known != face);
                        entry.faces.push((face, expires));
                        entry.upstreams.push(upstream);
                    } else {
                        let (faces, upstreams) = ([(face, expires)].into(), [upstream].into());
                        model.push(ModelEntry { packet, name, can_be_prefix, faces, upstreams });
                    }
                }
                Step::Data { from, name, content } => {
                    let wire = data(&name, content);
                    let (taken, _) = satisfy_from(&pit, &hasher, from, &wire);
                    let exact_last = taken.windows(2).any(|pair| pair[0].name().len() < pair[1].name().len()
                        && pair[1].digest().is_none());
                    prop_assert!(!exact_last, "longer names match first");
                    let mut taken: Vec<_> = taken.iter().map(|entry| {
                        let mut faces: Vec<_> = entry.in_records.iter().map(|r| (r.face.slot, r.expires_at_ns)).collect();
                        faces.sort_unstable();
                        (entry.packet.clone(), faces)
                    }).collect();
                    let mut expected = Vec::new();
                    model.retain(|entry| {
                        let satisfied = entry.is_satisfied_by(from, &name, &wire);
                        if satisfied {
                            let mut faces = entry.faces.clone();
                            faces.sort_unstable();
                            expected.push((entry.packet.clone(), faces));
                        }
                        !satisfied
                    });
                    taken.sort();
                    expected.sort();
                    prop_assert_eq!(taken, expected);
                }
                Step::Expire { passed } => {
                    now_ns += passed;
                    let mut gone: Vec<Packet> = core::iter::from_fn(|| take_expired(&pit, now_ns))
                        .filter_map(|expired| match expired {
                            Expired::Entry(entry) => Some(entry.packet),
                            Expired::Nothing => None,
                        })
                        .collect();
                    let (mut expected, tick_ns) = (Vec::new(), 1 << crate::wheel::TICK_SHIFT);
                    model.retain(|entry| {
                        let last = entry.faces.iter().map(|(_, at)| *at).max().unwrap();
                        let over = last.div_ceil(tick_ns) * tick_ns <= now_ns;
                        if over {
                            expected.push(entry.packet.clone());
                        }
                        !over
                    });
                    gone.sort();
                    expected.sort();
                    prop_assert_eq!(gone, expected);
                }
            }
            prop_assert_eq!(pit.len(), model.len());
        }
        for slot in 0..4 {
            let pending = model.iter().flat_map(|entry| &entry.faces).filter(|(face, _)| *face == slot).count();
            prop_assert_eq!(pit.by_face.counted(face(slot)), pending);
        }
    }
}

#[test]
fn unused_storage_above_the_minimum_is_freed() {
    let limits = Config {
        pit: PitLimits { entries_max: 20_000, entries_per_face_max: 20_000, ..PitLimits::default() },
        ..Config::new(digest)
    };
    let (pit, hasher) = (pit(&limits), NameHasher::fixed());
    let mut now_ns = 0;
    let mut fill = |count: u64| {
        for i in 0..count {
            let packet = interest_packet(&Name::new().join_segment(i), false, false);
            enter(&pit, &hasher, &packet, record(1, now_ns + 10 * MS), now_ns).unwrap();
        }
        now_ns += 20 * MS;
        while take_expired(&pit, now_ns).is_some() {}
        assert_eq!(pit.len(), 0);
    };
    fill(u64::from(storage::KEPT_MIN));
    assert_eq!((pit.storages.count(), pit.give_back(0, 512)), (storage::KEPT_MIN, None));
    fill(u64::from(storage::KEPT_MIN) + 1);
    let second = pit.give_back(0, 512).expect("too many at the first look");
    assert_eq!(pit.give_back(second - 1, 512), Some(second), "and it is waited for the second one");
    let mut next_ns = second;
    while let Some(at_ns) = pit.give_back(next_ns, 512) {
        next_ns = at_ns;
    }
    assert_eq!(pit.storages.count(), 0);
    fill(100);
    assert_eq!((pit.storages.count(), pit.give_back(next_ns, 512)), (100, None));
}

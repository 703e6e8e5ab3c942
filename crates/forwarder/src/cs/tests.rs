//! Compares the content store with a list of Data that is searched from end to end.

use crate::config::Config;
use alloc::sync::Arc;
use alloc::vec::Vec;

use namely_wire::{Component, DataBuilder, InterestBuilder, InterestView, Name, SignatureInfo, types};
use proptest::prelude::*;

use super::*;
use crate::face_id::FaceId;
use crate::hash::NameHasher;
use crate::limits::CsLimits;
use crate::packet::Outgoing;
use crate::prefix_table::with_key;
use crate::reserve::Reserve;

type Packet = Arc<[u8]>;

/// An embedder without a tier.
pub(super) type Sent<B> = Vec<(FaceId, Outgoing<B>)>;

const MS: u64 = 1_000_000;

fn digest(octets: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[0] = octets.iter().fold(0, |sum: u8, octet| sum.wrapping_mul(31).wrapping_add(*octet));
    digest
}

fn data(name: &Name, freshness_ms: u64, content: &[u8]) -> Packet {
    let builder = DataBuilder::new(name.as_name()).freshness_ms(freshness_ms);
    builder.build(content, &SignatureInfo::digest_sha256()).finish(&[0; 32]).into()
}

fn uri(uri: &str) -> Name {
    uri.parse().unwrap()
}

struct Store {
    cs: Cs<Packet, parking_lot::RawMutex>,
    hasher: NameHasher,
}

impl Store {
    /// With LRU: its order is easy to follow.
    fn new(packets_max: usize, entries_max: usize, octets_max: u64) -> Self {
        Store::with(CsPolicy::Lru, packets_max, entries_max, octets_max)
    }

    fn with(policy: CsPolicy, packets_max: usize, entries_max: usize, octets_max: u64) -> Self {
        let config = Config {
            cs: CsLimits { packets_max, entries_max, octets_max },
            cs_policy: policy,
            ..Config::new(digest)
        };
        Store {
            cs: Cs::new(&config.cs, config.cs_policy, config.cs_admit, config.cs_serve).unwrap(),
            hasher: NameHasher::fixed(),
        }
    }

    fn insert(&mut self, packet: &Packet, now_ns: u64) {
        let view = DataView::parse(packet).unwrap();
        let reserve = Reserve::new(1);
        with_key(&self.hasher, view.name, |key| {
            self.cs.insert(
                IncomingData::new(packet, &view, key, None, now_ns),
                &reserve,
                &mut Sent::<Packet>::new(),
            );
        });
        self.cs.settle(&reserve);
    }

    fn find(&mut self, builder: &InterestBuilder, now_ns: u64) -> Option<Packet> {
        let wire = builder.clone().nonce([0; 4]).build();
        let view = InterestView::parse(&wire).unwrap();
        let hashes = self.hasher.prefixes(view.name);
        loop {
            match self.cs.find::<Sent<Packet>>(&InterestKey::new(&view, &hashes), now_ns) {
                Lookup::Hit(packet) => return Some(packet),
                Lookup::Miss => return None,
                Lookup::DigestNeeded(cached) => {
                    let digest = digest(&cached.packet);
                    self.cs.set_digest(&cached, digest);
                }
            }
        }
    }

    fn has(&mut self, name: &str) -> bool {
        self.find(&InterestBuilder::new(uri(name)), 0).is_some()
    }

    fn holds(&self, packet: &Packet) -> bool {
        let view = DataView::parse(packet).unwrap();
        let mut holds = false;
        with_key(&self.hasher, view.name, |key| {
            self.cs.index.visit(key, key.hashes.len(), false, usize::MAX, &mut |_, cached| {
                holds |= cached.packet == *packet;
                holds
            });
        });
        holds
    }

    fn erase(&mut self, name: &str, count: usize) -> (usize, bool) {
        with_key(&self.hasher, uri(name).as_name(), |key| self.cs.erase(key, count))
    }
}

/// `IS-30`, `IS-31`: every prefix of a cached name finds it, for names of 1 component up to the
/// maximum.
#[test]
fn each_prefix_finds_its_data() {
    let most = namely_wire::COMPONENTS_MAX;
    for components in [1, 2, 7, most] {
        let mut store = Store::new(10, 1000, 1 << 20);
        let name = (0..components).fold(Name::new(), |name, i| name.join_generic([i as u8]));
        let packet = data(&name, 0, b"");
        store.insert(&packet, 0);
        assert_eq!(store.cs.info(0, 0).entries, components);
        for n in 1..=components {
            let prefix = name.as_name().prefix(n).to_name();
            let exact = store.find(&InterestBuilder::new(prefix.clone()), 0);
            assert_eq!(exact.is_some(), n == components);
            let found = store.find(&InterestBuilder::new(prefix).can_be_prefix(), 0).unwrap();
            assert!(Arc::ptr_eq(&found, &packet), "the packet is not copied");
        }
        assert_eq!(store.erase("/", 10), (1, false));
        assert_eq!(
            (store.cs.info(0, 0).entries, store.cs.info(0, 0).octets, store.cs.index.in_use() == 0),
            (0, 0, true)
        );
    }
}

/// `IS-30`: Data whose names share prefixes are erased independently.
#[test]
fn erasing_data_leaves_those_sharing_prefixes() {
    let mut store = Store::new(10, 1000, 1 << 20);
    for name in ["/a/b/1", "/a/b/2", "/a/c", "/a/b"] {
        store.insert(&data(&uri(name), 0, b""), 0);
    }
    assert_eq!(store.erase("/a/b/1", 10), (1, false));
    assert!(!store.has("/a/b/1") && store.has("/a/b/2") && store.has("/a/c") && store.has("/a/b"));
    assert_eq!(store.erase("/a/b", 1), (1, true));
    assert_eq!(store.erase("/a/b", 5), (1, false));
    assert_eq!(store.erase("/a/b", 5), (0, false));
    assert_eq!(store.cs.info(0, 0).packets, 1);
    assert_eq!(store.cs.info(0, 0).entries, 2);
}

/// `IS-35`: three limits, each in force while the others have room.
#[test]
fn each_limit_evicts_the_least_recently_used() {
    let octets = data(&uri("/a/1"), 0, b"xx").len() as u64;
    for (packets, entries, octets_max) in [(3, 100, 1 << 20), (100, 6, 1 << 20), (100, 100, 3 * octets)] {
        let mut store = Store::new(packets, entries, octets_max);
        for i in 1..=3 {
            store.insert(&data(&uri(&alloc::format!("/a/{i}")), 0, b"xx"), 0);
        }
        assert_eq!(store.cs.info(0, 0).packets, 3);
        assert!(store.has("/a/1"));
        store.insert(&data(&uri("/a/4"), 0, b"xx"), 0);
        assert_eq!(store.cs.info(0, 0).packets, 3);
        assert_eq!(store.cs.info(0, 0).evicted, 1);
        assert!(store.has("/a/1") && !store.has("/a/2") && store.has("/a/3") && store.has("/a/4"));
    }
}

#[test]
fn smaller_limits_hold_at_once() {
    let octets = data(&uri("/a/1"), 0, b"xx").len() as u64;
    for (entries, octets_max, left) in
        [(8, 1 << 20, 4), (7, 1 << 20, 3), (100, 3 * octets, 3), (100, 3 * octets - 1, 2)]
    {
        let mut store = Store::new(100, 100, 1 << 20);
        for i in 1..=5 {
            store.insert(&data(&uri(&alloc::format!("/a/{i}")), 0, b"xx"), 0);
        }
        store.cs.limit(entries, octets_max);
        store.cs.shrink(usize::MAX);
        assert_eq!(store.cs.info(0, 0).packets, left, "{entries} entries, {octets_max} octets");
        assert!(store.has("/a/5") && !store.has("/a/1"));
    }
}

/// A packet in a buffer of 1000 octets.
#[derive(Clone)]
struct Roomy(Packet);

impl AsRef<[u8]> for Roomy {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PacketBuf for Roomy {
    fn build(len: usize, write: impl FnOnce(&mut [u8])) -> Option<Self> {
        Packet::build(len, write).map(Roomy)
    }

    fn memory_octets(&self) -> usize {
        1000
    }
}

/// `IS-35`: Data is charged for the memory that it occupies, not for its length.
#[test]
fn a_data_is_charged_for_its_buffer() {
    for (octets_max, held, refused) in [(999, 0, 3), (1000, 1, 0), (2999, 2, 0), (3000, 3, 0)] {
        let config = Config { cs: CsLimits { octets_max, ..CsLimits::default() }, ..Config::new(digest) };
        let cs = Cs::<Roomy, parking_lot::RawMutex>::new(
            &config.cs,
            config.cs_policy,
            config.cs_admit,
            config.cs_serve,
        )
        .unwrap();
        for name in ["/a", "/b", "/c"] {
            let packet = Roomy(data(&uri(name), 0, b""));
            let view = DataView::parse(&packet.0).unwrap();
            let reserve = Reserve::new(1);
            with_key(&NameHasher::fixed(), view.name, |key| {
                cs.insert(
                    IncomingData::new(&packet, &view, key, None, 0),
                    &reserve,
                    &mut Sent::<Roomy>::new(),
                )
            });
        }
        assert_eq!((cs.info(0, 0).octets, cs.info(0, 0).refused), (1000 * held, refused));
    }
}

/// `IS-35`: a long name counts for as many entries as it has prefixes.
#[test]
fn long_names_cannot_swamp_the_index() {
    let mut store = Store::new(1000, 20, 1 << 20);
    let long =
        |first: u8, n| (0..n).fold(Name::new().join_generic([first]), |name, i: u8| name.join_generic([i]));
    store.insert(&data(&long(1, 18), 0, b""), 0);
    store.insert(&data(&uri("/x"), 0, b""), 0);
    assert_eq!((store.cs.info(0, 0).packets, store.cs.info(0, 0).entries), (2, 20));
    store.insert(&data(&long(2, 19), 0, b""), 0);
    assert_eq!((store.cs.info(0, 0).packets, store.cs.info(0, 0).entries), (1, 20));
    store.insert(&data(&long(3, 20), 0, b""), 0);
    assert_eq!((store.cs.info(0, 0).packets, store.cs.info(0, 0).refused), (1, 1));
}

#[test]
fn stale_data_answers_unless_must_be_fresh() {
    let mut store = Store::new(10, 100, 1 << 20);
    store.insert(&data(&uri("/a/v=1"), 100, b""), 0);
    store.insert(&data(&uri("/b"), 0, b""), 0);
    let fresh = InterestBuilder::new(uri("/a")).can_be_prefix().must_be_fresh();
    assert!(store.find(&fresh, 100 * MS - 1).is_some());
    assert!(store.find(&fresh, 100 * MS).is_none());
    assert!(store.find(&InterestBuilder::new(uri("/a")).can_be_prefix(), 100 * MS).is_some());
    assert!(store.find(&InterestBuilder::new(uri("/b")).must_be_fresh(), 0).is_none());
    store.insert(&data(&uri("/a/v=1"), 100, b""), 100 * MS);
    assert!(store.find(&fresh, 199 * MS).is_some(), "freshness counts from the latest arrival");
    assert_eq!(store.cs.info(0, 0).packets, 2);
}

#[test]
fn a_lookup_examines_bounded_data() {
    let mut store = Store::new(1000, 10_000, 1 << 20);
    store.insert(&data(&uri("/a/fresh"), 10_000, b""), 0);
    for i in 0..CS_EXAMINED_MAX as u64 - 1 {
        store.insert(&data(&uri("/a").join_segment(i), 0, b""), 0);
    }
    let fresh = InterestBuilder::new(uri("/a")).can_be_prefix().must_be_fresh();
    assert!(store.find(&fresh, 1).is_some());
    store.insert(&data(&uri("/a/one-more"), 0, b""), 0);
    assert!(store.find(&fresh, 1).is_none(), "a cache may miss");
    assert!(store.find(&InterestBuilder::new(uri("/a/fresh")).must_be_fresh(), 1).is_some());
}

/// Names that share the first component alone, and fill an entry's links and several blocks.
#[test]
fn a_prefix_lookup_is_bounded_by_data() {
    for (others, found) in [(CS_EXAMINED_MAX - 1, true), (CS_EXAMINED_MAX, false)] {
        let mut store = Store::new(1000, 100_000, 1 << 20);
        store.insert(&data(&uri("/a/fresh"), 10_000, b""), 0);
        for i in 0..others as u64 {
            let name = (1..15).fold(uri("/a").join_segment(i), |name, _| name.join_generic("x"));
            store.insert(&data(&name, 0, b""), 0);
        }
        let fresh = InterestBuilder::new(uri("/a")).can_be_prefix().must_be_fresh();
        assert_eq!(store.find(&fresh, 1).is_some(), found, "a cache may miss");
        store.cs.check();
    }
}

#[test]
fn a_digest_selects_among_equal_names() {
    let mut store = Store::new(10, 100, 1 << 20);
    let packets = [data(&uri("/a"), 0, b"1"), data(&uri("/a"), 0, b"2"), data(&uri("/a"), 0, b"3")];
    packets[..2].iter().for_each(|packet| store.insert(packet, 0));
    for (packet, cached) in packets.iter().zip([true, true, false]) {
        let value = digest(packet);
        let full = uri("/a").join(Component { typ: types::IMPLICIT_DIGEST_COMPONENT, value: &value });
        let found = store.find(&InterestBuilder::new(full), 0);
        assert_eq!(found.is_some(), cached);
        assert!(found.is_none_or(|found| Arc::ptr_eq(&found, packet)));
    }
}

#[test]
fn a_late_digest_is_not_given_to_another() {
    let mut store = Store::new(1, 100, 1 << 20);
    let [first, second] = [data(&uri("/a"), 0, b"1"), data(&uri("/a"), 0, b"2")];
    store.insert(&first, 0);
    let value = digest(&first);
    let full = uri("/a").join(Component { typ: types::IMPLICIT_DIGEST_COMPONENT, value: &value });
    let builder = InterestBuilder::new(full);
    let wire = builder.clone().nonce([0; 4]).build();
    let view = InterestView::parse(&wire).unwrap();
    let hashes = store.hasher.prefixes(view.name);
    let Lookup::DigestNeeded(undigested) =
        store.cs.find::<Sent<Packet>>(&InterestKey::new(&view, &hashes), 0)
    else {
        panic!()
    };
    store.insert(&second, 0);
    store.cs.set_digest(&undigested, digest(&first));
    assert!(store.find(&builder, 0).is_none());
}

#[test]
fn capacity_and_flags_change_at_run_time() {
    let mut store = Store::new(4, 100, 1 << 20);
    (0..4).for_each(|i| store.insert(&data(&uri("/a").join_segment(i), 0, b""), 0));
    store.cs.configure(&CsChange { packets_max: Some(2), ..CsChange::default() });
    store.cs.shrink(usize::MAX);
    assert_eq!(store.cs.info(0, 0).packets, 2);
    assert!(store.has("/a/seg=3") && !store.has("/a/seg=1"));
    store.cs.configure(&CsChange { admit: Some(false), ..CsChange::default() });
    store.insert(&data(&uri("/b"), 0, b""), 0);
    assert!(!store.has("/b"));
    store.cs.configure(&CsChange { admit: Some(true), serve: Some(false), ..CsChange::default() });
    assert!(!store.has("/a/seg=3"));
    store.cs.configure(&CsChange { packets_max: Some(0), serve: Some(true), ..CsChange::default() });
    store.cs.shrink(usize::MAX);
    store.insert(&data(&uri("/b"), 0, b""), 0);
    assert_eq!((store.cs.info(0, 0).packets, store.cs.info(0, 0).octets), (0, 0));
}

/// The new policy evicts Data in the order in which the old one would have evicted them.
#[test]
fn a_policy_change_keeps_contents_and_order() {
    for to in [CsPolicy::Fifo, CsPolicy::S3Fifo, CsPolicy::Lfu, CsPolicy::Arc, CsPolicy::Sieve] {
        let mut store = Store::new(4, 100, 1 << 20);
        (0..4).for_each(|i| store.insert(&data(&uri("/a").join_segment(i), 0, b""), 0));
        assert!(store.has("/a/seg=0"));
        store.cs.configure(&CsChange { policy: Some(to), ..CsChange::default() });
        while store.cs.shrink(3) {}
        assert_eq!((store.cs.info(0, 0).policy, store.cs.info(0, 0).packets), (to, 4));
        for (new, gone) in [(5, 1), (6, 2), (7, 3), (8, 0)] {
            let holds = |store: &Store, i| store.holds(&data(&uri("/a").join_segment(i), 0, b""));
            assert!(holds(&store, gone), "{to:?} {gone}");
            store.insert(&data(&uri("/a").join_segment(new), 0, b""), 0);
            assert!(!holds(&store, gone), "{to:?} {gone}");
        }
    }
}

/// No call of a change does more than its bound. Data between two policies is found, evicted and
/// erased as any other; a second change waits for the end of the first one.
#[test]
fn a_policy_change_moves_bounded_data() {
    for (from, to) in CsPolicy::ALL.into_iter().zip(CsPolicy::ALL.into_iter().cycle().skip(1)) {
        let mut store = Store::with(from, 100, 1000, 1 << 20);
        let nth = |i| uri("/a").join_segment(i);
        (0..100).for_each(|i| store.insert(&data(&nth(i), 0, b""), 0));
        store.cs.configure(&CsChange { policy: Some(to), ..CsChange::default() });
        assert!(store.cs.shrink(10), "{to:?}: 90 are left");
        store.cs.check();
        let held = (0..100).filter(|i| store.find(&InterestBuilder::new(nth(*i)), 0).is_some()).count();
        assert_eq!((held, store.cs.info(0, 0).policy), (100, to));
        store.insert(&data(&nth(100), 0, b""), 0);
        store.cs.check();
        assert_eq!(with_key(&store.hasher, nth(100).as_name(), |key| store.cs.erase(key, 1)), (1, false));
        // The old policy evicted one Data for the insertion, and the inserted Data was erased
        // again.
        store.cs.configure(&CsChange { policy: Some(from), ..CsChange::default() });
        assert_eq!(store.cs.info(0, 0).policy, to);
        let calls = 1 + (0..).take_while(|_| store.cs.shrink(10)).count();
        store.cs.check();
        // Nine calls move 89 Data into the new policy; the last of them starts the change back. Ten
        // calls move 99 Data back.
        assert_eq!((calls, store.cs.info(0, 0).packets), (9 + 10, 99), "{from:?}, {to:?}");
        assert_eq!(store.cs.info(0, 0).policy, from);
        let all = with_key(&store.hasher, Name::new().as_name(), |key| store.cs.erase(key, usize::MAX));
        assert_eq!(all, (99, false));
    }
}

#[derive(Clone, Debug)]
struct Kept {
    name: Name,
    packet: Packet,
    fresh_until_ns: u64,
    used: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Insert { name: Name, freshness_ms: u64, content: u8 },
    Find { name: Name, by_digest: Option<(u64, u8)>, can_be_prefix: bool, must_be_fresh: bool },
    Erase { name: Name, count: usize },
    Pass { ms: u64 },
    Change { policy: CsPolicy },
}

fn name() -> impl Strategy<Value = Name> {
    namely_testkit::names(2, 1..6)
}

fn step() -> impl Strategy<Value = Step> {
    let freshness = prop_oneof![Just(0u64), Just(50u64)];
    let find = (name(), proptest::option::weighted(0.2, (freshness.clone(), 0u8..2)), any::<(bool, bool)>());
    prop_oneof![
        5 => (name(), freshness, 0u8..2)
            .prop_map(|(name, freshness_ms, content)| Step::Insert { name, freshness_ms, content }),
        5 => find.prop_map(|(name, by_digest, (can_be_prefix, must_be_fresh))| {
            Step::Find { name, by_digest, can_be_prefix, must_be_fresh }
        }),
        1 => (name(), 1usize..3).prop_map(|(name, count)| Step::Erase { name, count }),
        1 => (1u64..40).prop_map(|ms| Step::Pass { ms }),
        1 => proptest::sample::select(&CsPolicy::ALL[..]).prop_map(|policy| Step::Change { policy }),
    ]
}

/// Returns true if the limits leave `model` room for one more Data with `octets` octets and
/// `entries` entries.
fn fits(model: &[Kept], octets: usize, entries: usize, limits: (usize, usize, u64)) -> bool {
    let all_entries: usize = model.iter().map(|kept| kept.name.len()).sum();
    let all_octets: usize = model.iter().map(|kept| kept.packet.len()).sum();
    model.len() < limits.0 && all_entries + entries <= limits.1 && (all_octets + octets) as u64 <= limits.2
}

/// Evicts the least recently used from `model` until `octets` and `entries` fit into the limits.
fn make_room(model: &mut Vec<Kept>, octets: usize, entries: usize, limits: (usize, usize, u64)) {
    while !fits(model, octets, entries, limits) {
        let oldest = model.iter().enumerate().min_by_key(|(_, kept)| kept.used).unwrap().0;
        model.remove(oldest);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// `IS-30`, `IS-31`, `IS-35`, `IS-36`: for LRU, the order of eviction; for every policy, that
    /// no Data is evicted without need, and that index, policy and limits agree.
    #[test]
    fn the_store_matches_a_list_despite_collisions(
        steps in proptest::collection::vec(step(), 1..100),
        mask in prop_oneof![Just(0), Just(1), Just(u64::MAX)],
        limits in prop_oneof![Just((4, 1000, 1u64 << 20)), Just((1000, 12, 1 << 20)), Just((1000, 1000, 400))],
        policy in proptest::sample::select(&CsPolicy::ALL[..]),
    ) {
        let mut store = Store {
            hasher: NameHasher::colliding(mask),
            ..Store::with(policy, limits.0, limits.1, limits.2)
        };
        let mut model: Vec<Kept> = Vec::new();
        let mut now_ns = 0;
        for (time, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert { name, freshness_ms, content } => {
                    let packet = data(&name, freshness_ms, &[content]);
                    store.insert(&packet, now_ns);
                    let fresh_until_ns = now_ns + freshness_ms * MS;
                    if let Some(kept) = model.iter_mut().find(|kept| kept.packet == packet) {
                        (kept.fresh_until_ns, kept.used) = (fresh_until_ns, time);
                    } else {
                        if policy == CsPolicy::Lru {
                            make_room(&mut model, packet.len(), name.len(), limits);
                        } else if !fits(&model, packet.len(), name.len(), limits) {
                            let all = model.len();
                            model.retain(|kept| store.holds(&kept.packet));
                            prop_assert!(model.len() < all && fits(&model, packet.len(), name.len(), limits));
                        }
                        model.push(Kept { name, packet, fresh_until_ns, used: time });
                    }
                }
                Step::Find { name, by_digest, can_be_prefix, must_be_fresh } => {
                    let requested = by_digest
                        .map(|(freshness, content)| digest(&data(&name, freshness, &[content])));
                    let full = requested.map_or(name.clone(), |value| {
                        name.join(Component { typ: types::IMPLICIT_DIGEST_COMPONENT, value: &value })
                    });
                    let mut builder = InterestBuilder::new(full);
                    if can_be_prefix {
                        builder = builder.can_be_prefix();
                    }
                    if must_be_fresh {
                        builder = builder.must_be_fresh();
                    }
                    let found = store.find(&builder, now_ns);
                    let satisfies = |kept: &&mut Kept| {
                        let named = match requested {
                            Some(requested) => kept.name == name && digest(&kept.packet) == requested,
                            None if can_be_prefix => name.is_prefix_of(kept.name.as_name()),
                            None => kept.name == name,
                        };
                        named && (!must_be_fresh || now_ns < kept.fresh_until_ns)
                    };
                    match found {
                        None => prop_assert!(model.iter_mut().find(satisfies).is_none()),
                        Some(found) => {
                            let kept = model.iter_mut().filter(satisfies).find(|kept| kept.packet == found);
                            prop_assert!(kept.is_some());
                            kept.unwrap().used = time;
                        }
                    }
                }
                Step::Erase { name, count } => {
                    let under = model.iter().filter(|kept| name.is_prefix_of(kept.name.as_name())).count();
                    let erased = with_key(&store.hasher, name.as_name(), |key| store.cs.erase(key, count));
                    prop_assert_eq!(erased, (under.min(count), under > count));
                    // The store chooses the Data to erase; the model adopts its choice.
                    model.retain(|kept| store.holds(&kept.packet));
                }
                Step::Pass { ms } => now_ns += ms * MS,
                Step::Change { policy: to } if policy != CsPolicy::Lru => {
                    store.cs.configure(&CsChange { policy: Some(to), ..CsChange::default() });
                }
                Step::Change { .. } => {}
            }
            prop_assert!(model.iter().all(|kept| store.holds(&kept.packet)));
            store.cs.check();
            // So that most steps find Data between two policies.
            store.cs.shrink(1);
            store.cs.check();
            let info = store.cs.info(0, 0);
            prop_assert_eq!(info.packets, model.len());
            prop_assert_eq!(info.entries, model.iter().map(|kept| kept.name.len()).sum::<usize>());
            prop_assert_eq!(info.octets as usize, model.iter().map(|kept| kept.packet.len()).sum::<usize>());
        }
        let all = with_key(&store.hasher, Name::new().as_name(), |key| store.cs.erase(key, usize::MAX));
        prop_assert_eq!(all, (model.len(), false));
        prop_assert!(store.cs.index.in_use() == 0, "nothing outlives its Data");
    }
}

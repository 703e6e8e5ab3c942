//! Compares objects in the content store with a model of lists that are searched from end to end.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use namely_wire::{DataBuilder, DataView, InterestBuilder, InterestView, Name, SignatureInfo};
use proptest::prelude::*;

use super::*;
use crate::config::Config;
use crate::cs::objects::TURN;
use crate::cs::status::CsChange;
use crate::cs::tests::Sent;
use crate::cs::{CsPolicy, Lookup, ObjectPlacement};
use crate::hash::NameHasher;
use crate::interest_key::InterestKey;
use crate::limits::CsLimits;
use crate::prefix_table::with_key;

type Packet = Arc<[u8]>;

const OBJECTS: usize = 6;

struct Store {
    cs: Cs<Packet, parking_lot::RawMutex>,
    hasher: NameHasher,
}

fn name(object: u64, segment: u64) -> Name {
    std::format!("/store/{object}/{segment}").parse().unwrap()
}

fn data(name: &Name, octets: usize) -> Packet {
    let builder = DataBuilder::new(name.as_name());
    let packet = builder.build(&vec![7; octets], &SignatureInfo::digest_sha256());
    packet.finish(&[0; 32]).into()
}

fn in_memory(worth: u64, octets: u64) -> ObjectPlan {
    ObjectPlan { placement: ObjectPlacement::Memory, worth, octets }
}

impl Store {
    fn new(packets: usize, octets: u64) -> Self {
        let config = Config {
            cs: CsLimits { packets_max: 30, entries_max: 100, ..CsLimits::default() },
            cs_policy: CsPolicy::Lru,
            ..Config::new(|_| [0; 32])
        };
        let store = Store {
            cs: Cs::new(&config.cs, config.cs_policy, config.cs_admit, config.cs_serve).unwrap(),
            hasher: NameHasher::fixed(),
        };
        store.cs.limit_objects(packets, octets);
        store
    }

    /// A catalogue of objects with these ids.
    fn with(packets: usize, octets: u64, ids: &[u64]) -> Self {
        let store = Store::new(packets, octets);
        store.exchange(ids);
        store
    }

    fn exchange(&self, ids: &[u64]) {
        let mut new = NewObjects::new(OBJECTS).unwrap();
        new.ids.iter_mut().zip(ids).for_each(|(slot, id)| *slot = Some(*id));
        self.cs.exchange_objects(new);
    }

    fn insert(&self, (object, id): (u32, u64), segment: u64, octets: usize) {
        let packet = data(&name(id, segment), octets);
        let view = DataView::parse(&packet).unwrap();
        let reserve = Reserve::new(1);
        with_key(&self.hasher, view.name, |key| {
            let arriving = IncomingData::new(&packet, &view, key, None, 0);
            let out = &mut Sent::<Packet>::new();
            self.cs.insert_object_data(arriving, ObjectMatch { object, id }, &reserve, out);
        });
        self.cs.settle(&reserve);
    }

    fn has(&self, id: u64, segment: u64) -> bool {
        let wire = InterestBuilder::new(name(id, segment)).nonce([0; 4]).build();
        let view = InterestView::parse(&wire).unwrap();
        let hashes = self.hasher.prefixes(view.name);
        matches!(self.cs.find::<Sent<Packet>>(&InterestKey::new(&view, &hashes), 0), Lookup::Hit(_))
    }

    fn turn(&self, budget: usize) -> bool {
        self.cs.evict_objects(budget, &mut Sent::<Packet>::new())
    }

    fn packets(&self, object: u32) -> usize {
        self.cs.object_usage(object).packets
    }
}

/// Octets that a Data of `octets` is charged for.
fn charged(id: u64, segment: u64, octets: usize) -> u64 {
    data(&name(id, segment), octets).len() as u64
}

#[test]
fn an_object_worth_more_evicts_the_least() {
    let one = charged(10, 0, 100);
    // Room for two objects of four Data.
    let store = Store::with(100, 8 * one, &[10, 11, 12]);
    for (object, worth) in [(0, 5), (1, 3), (2, 4)] {
        store.cs.plan_object(object, in_memory(worth, 4 * one));
    }
    for segment in 0..4 {
        store.insert((0, 10), segment, 100);
        store.insert((1, 11), segment, 100);
    }
    assert_eq!((store.packets(0), store.packets(1)), (4, 4));
    store.insert((2, 12), 0, 100);
    assert_eq!(store.cs.object_usage(1), ObjectUsage { packets: 3, octets: 3 * one, is_leaving: true });
    assert!(store.has(12, 0) && store.has(11, 3), "what is still there answers");
    assert!(!store.turn(100));
    assert_eq!((store.packets(0), store.packets(1), store.packets(2)), (4, 0, 1));
    store.insert((1, 11), 0, 100);
    assert!(!store.has(11, 0), "nothing is worth less than it");
    let counts = store.cs.object_counts();
    assert_eq!((counts.evicted, counts.evicted_data, counts.refused), (1, 4, 1));
    store.cs.check();
}

#[test]
fn unwanted_objects_stay_until_room_is_needed() {
    let one = charged(10, 0, 100);
    let store = Store::with(100, 4 * one, &[10, 11]);
    store.cs.plan_object(0, in_memory(5, 4 * one));
    (0..4).for_each(|segment| store.insert((0, 10), segment, 100));
    store.cs.plan_object(0, ObjectPlan::default());
    assert!(!store.turn(100) && store.has(10, 0));
    store.cs.plan_object(1, in_memory(1, 4 * one));
    store.insert((1, 11), 0, 100);
    store.turn(100);
    assert_eq!((store.packets(0), store.packets(1)), (0, 1));
}

#[test]
fn objects_planned_as_others_follow_the_policy() {
    let one = charged(10, 0, 100);
    let store = Store::with(100, 2 * one, &[10, 11]);
    store.cs.plan_object(0, in_memory(1, 0));
    store.insert((0, 10), 0, 100);
    store.insert((0, 10), 1, 100);
    let as_others = ObjectPlan { placement: ObjectPlacement::Unplanned, ..ObjectPlan::default() };
    store.cs.plan_object(0, as_others);
    store.cs.plan_object(1, as_others);
    for segment in 1..6 {
        store.insert((0, 10), segment, 100);
        store.insert((1, 11), segment, 100);
    }
    assert_eq!((store.packets(0), store.packets(1)), (2, 0), "what was kept stays, and no more comes");
    assert!((0..6).all(|segment| store.has(10, segment)) && (1..6).all(|segment| store.has(11, segment)));
    // Retained Data of an unlisted object is evicted at once.
    store.exchange(&[10, 12]);
    store.cs.plan_object(1, in_memory(1, 0));
    store.insert((1, 12), 0, 100);
    while store.turn(100) {}
    store.insert((1, 12), 0, 100);
    assert_eq!((store.packets(0), store.packets(1)), (0, 1));
    assert!(store.has(10, 2) && !store.has(10, 0));
}

#[test]
fn a_leaving_object_accepts_no_more_data() {
    let one = charged(10, 0, 100);
    let store = Store::with(100, 4 * one, &[10, 11]);
    store.cs.plan_object(0, in_memory(1, 4 * one));
    store.cs.plan_object(1, in_memory(2, 4 * one));
    (0..4).for_each(|segment| store.insert((0, 10), segment, 100));
    store.insert((1, 11), 0, 100);
    store.cs.plan_object(0, in_memory(3, 4 * one));
    store.insert((0, 10), 7, 100);
    assert!(!store.has(10, 7) && store.cs.object_usage(0).is_leaving);
    while store.turn(1) {}
    store.insert((0, 10), 7, 100);
    assert!(store.has(10, 7) && !store.cs.object_usage(0).is_leaving);
    store.cs.check();
}

/// Limits of octets, packets and of one object, each at the limit and one past it.
#[test]
fn the_object_budget_is_filled_exactly() {
    let one = charged(10, 0, 100);
    let store = Store::with(100, 4 * one, &[10, 11]);
    store.cs.plan_object(0, in_memory(1, 0));
    store.cs.plan_object(1, in_memory(1, 0));
    (0..4).for_each(|segment| store.insert((0, 10), segment, 100));
    store.insert((0, 10), 4, 100);
    store.insert((1, 11), 0, 100);
    assert_eq!((store.packets(0), store.packets(1)), (4, 0), "of equal worth the first stays");
    assert_eq!(store.cs.object_counts().octets, 4 * one);
    // The limit of packets is reached.
    let store = Store::with(3, 100 * one, &[10, 11]);
    store.cs.plan_object(0, in_memory(1, 0));
    (0..4).for_each(|segment| store.insert((0, 10), segment, 100));
    assert_eq!(store.packets(0), 3);
    store.cs.plan_object(1, in_memory(2, 0));
    store.insert((1, 11), 0, 100);
    store.turn(100);
    assert_eq!((store.packets(0), store.packets(1)), (0, 1));
    // An object that needs the whole budget, and one that needs an octet more.
    let store = Store::with(100, 10 * one, &[10, 11]);
    store.cs.plan_object(0, in_memory(9, 10 * one + 1));
    store.cs.plan_object(1, in_memory(1, 10 * one));
    store.insert((0, 10), 0, 100);
    store.insert((1, 11), 0, 100);
    assert_eq!((store.packets(0), store.packets(1)), (0, 1));
}

#[test]
fn an_object_that_cannot_fit_evicts_nothing() {
    let one = charged(10, 0, 100);
    let store = Store::with(100, 10 * one, &[10, 11, 12]);
    store.cs.plan_object(0, in_memory(1, 3 * one));
    store.cs.plan_object(1, in_memory(7, 6 * one));
    store.insert((0, 10), 0, 100);
    store.insert((1, 11), 0, 100);
    store.cs.plan_object(2, in_memory(5, 5 * one));
    store.insert((2, 12), 0, 100);
    assert_eq!((store.packets(0), store.packets(1), store.packets(2)), (1, 1, 0));
    store.cs.plan_object(2, in_memory(5, 4 * one));
    store.insert((2, 12), 0, 100);
    assert_eq!(store.packets(2), 1);
    assert_eq!(store.cs.object_counts().evicted, 1);
}

#[test]
fn a_smaller_data_follows_a_refusal() {
    let (small, large) = (charged(11, 0, 10), charged(11, 1, 50));
    let store = Store::with(10, large - 1, &[10, 11]);
    store.cs.plan_object(0, in_memory(1, 0));
    store.cs.plan_object(1, in_memory(2, 0));
    store.insert((0, 10), 0, 10);
    // Nothing could make room for this Data, and the refusal is remembered.
    store.insert((1, 11), 1, 50);
    assert_eq!((store.packets(0), store.packets(1)), (1, 0), "{large}");
    // Object 0 can make room for this one.
    store.insert((1, 11), 0, 10);
    assert_eq!((store.packets(0), store.packets(1)), (0, 1), "{small}");
}

#[test]
fn a_larger_object_leaves_in_bounded_turns() {
    let store = Store::with(10_000, u64::MAX, &[10]);
    store.cs.plan_object(0, in_memory(1, 0));
    let packets = 3 * TURN + 1;
    (0..packets as u64).for_each(|segment| store.insert((0, 10), segment, 1));
    store.cs.limit_objects(0, 0);
    for turn in 1..=3 {
        assert!(store.turn(TURN));
        assert_eq!(store.packets(0), packets - turn * TURN);
    }
    assert!(!store.turn(TURN));
    assert_eq!((store.packets(0), store.cs.object_counts().octets), (0, 0));
    assert_eq!(store.cs.index.in_use(), 0);
}

#[test]
fn an_object_keeps_its_plan_across_catalogues() {
    let store = Store::with(100, 1 << 20, &[10, 11, 12]);
    (0..3).for_each(|object| store.cs.plan_object(object, in_memory(1, 0)));
    (0..3).for_each(|object| store.insert((object, u64::from(object) + 10), 0, 100));
    store.exchange(&[20, 12, 10]);
    assert!(store.has(10, 0) && !store.has(11, 0) && store.has(12, 0));
    assert_eq!([0, 1, 2].map(|object| store.packets(object)), [0, 1, 1]);
    store.insert((0, 20), 0, 100);
    assert!(!store.has(20, 0), "a new object is kept nowhere until it has a plan");
    store.insert((1, 12), 1, 100);
    store.insert((0, 11), 1, 100);
    assert!(store.has(12, 1) && !store.has(11, 1), "a number of the catalogue before is none of this one");
    store.exchange(&[]);
    assert_eq!((store.cs.object_counts().packets, store.cs.index.in_use()), (0, 0));
    store.cs.check();
}

/// A plan may reserve more octets than have arrived. When a catalogue drops the object, all of them
/// are free again.
#[test]
fn a_dropped_object_returns_its_whole_reservation() {
    let store = Store::with(10, 10_000, &[1, 2]);
    store.cs.plan_object(0, in_memory(5, 8_000));
    store.insert((0, 1), 0, 100);
    store.exchange(&[2]);
    while store.turn(10) {}
    store.cs.check();
    store.cs.plan_object(0, in_memory(5, 8_000));
    store.insert((0, 2), 0, 100);
    assert!(store.has(2, 0), "the memory of the dropped object is free");
    store.cs.check();
}

#[test]
fn a_catalogue_of_equal_size_is_exchanged() {
    let ids = |from: u64| -> Vec<u64> { (from..).take(OBJECTS).collect() };
    let store = Store::with(100, 1 << 20, &ids(10));
    for from in [10, 100, 103, 7] {
        store.exchange(&ids(from));
        for (object, id) in (0..).zip(ids(from)) {
            store.cs.plan_object(object, in_memory(1, 0));
            store.insert((object, id), 0, 10);
            assert!(store.has(id, 0));
        }
        store.cs.check();
    }
}

/// Number and charged size of each Data.
type Held = Vec<(u64, u64)>;

#[derive(Clone, Debug, Default)]
struct Object {
    plan: ObjectPlan,
    data: Held,
}

impl Object {
    fn octets(&self) -> u64 {
        self.data.iter().map(|(_, octets)| octets).sum()
    }

    fn room(&self) -> u64 {
        self.plan.octets.max(self.octets())
    }

    fn worth(&self) -> u64 {
        if self.plan.placement == ObjectPlacement::Memory { self.plan.worth } else { 0 }
    }
}

/// A simple model of [`ObjectSlots`], which searches all its lists.
#[derive(Debug, Default)]
struct Model {
    objects: BTreeMap<u32, Object>,
    /// The last one leaves first.
    leaving: Vec<(u32, Held)>,
    packets_max: usize,
    octets_max: u64,
    evicted: u64,
}

impl Model {
    fn held(&self) -> impl Iterator<Item = (u32, &Object)> {
        self.objects.iter().filter(|(_, object)| !object.data.is_empty()).map(|(k, object)| (*k, object))
    }

    fn packets(&self) -> usize {
        self.held().map(|(_, object)| object.data.len()).sum()
    }

    fn leaving_packets(&self) -> usize {
        self.leaving.iter().map(|(_, data)| data.len()).sum()
    }

    fn octets(&self) -> u64 {
        let leaving = self.leaving.iter().flat_map(|(_, data)| data).map(|(_, octets)| octets).sum::<u64>();
        self.held().map(|(_, object)| object.octets()).sum::<u64>() + leaving
    }

    fn dismiss(&mut self, k: u32) {
        let data = core::mem::take(&mut self.objects.get_mut(&k).unwrap().data);
        self.evicted += 1;
        self.leaving.push((k, data));
    }

    fn turn(&mut self, count: usize) {
        for _ in 0..count {
            let Some((_, data)) = self.leaving.last_mut() else { return };
            data.remove(0);
            if data.is_empty() {
                self.leaving.pop();
            }
        }
    }

    /// The objects of less worth, in the order of eviction: by worth, the last of equal ones first.
    fn worse(&self, worth: u64) -> Vec<u32> {
        let mut worse: Vec<(u64, i64)> =
            self.held().filter(|(_, o)| o.worth() < worth).map(|(k, o)| (o.worth(), -i64::from(k))).collect();
        worse.sort_unstable();
        worse.into_iter().map(|(_, k)| -k as u32).collect()
    }

    fn fits(&self, k: u32, octets: u64, without: &[u32]) -> bool {
        let others = self.held().filter(|(other, _)| *other != k && !without.contains(other));
        let others: Vec<&Object> = others.map(|(_, object)| object).collect();
        let own = &self.objects[&k];
        let reserved: u64 = others.iter().map(|o| o.room()).sum();
        let packets: usize = others.iter().map(|o| o.data.len()).sum();
        reserved + own.plan.octets.max(own.octets() + octets) <= self.octets_max
            && packets + own.data.len() < self.packets_max
    }

    fn insert(&mut self, k: u32, segment: u64, octets: u64) {
        let object = self.objects.entry(k).or_default();
        let (worth, placement) = (object.worth(), object.plan.placement);
        let is_there = object.data.iter().any(|(known, _)| *known == segment);
        let is_leaving = self.leaving.iter().any(|(other, _)| *other == k);
        if placement != ObjectPlacement::Memory || is_there || is_leaving {
            return;
        }
        let worse = self.worse(worth);
        let Some(n) = (0..=worse.len()).find(|n| self.fits(k, octets, &worse[..*n])) else { return };
        worse[..n].iter().for_each(|worst| self.dismiss(*worst));
        while self.octets() + octets > self.octets_max
            || self.packets() + self.leaving_packets() + 1 > self.packets_max
        {
            self.turn(1);
        }
        self.objects.get_mut(&k).unwrap().data.push((segment, octets));
    }

    fn limit(&mut self, packets_max: usize, octets_max: u64) {
        (self.packets_max, self.octets_max) = (packets_max, octets_max);
        while self.held().map(|(_, o)| o.room()).sum::<u64>() > octets_max || self.packets() > packets_max {
            let worst = self.worse(u64::MAX)[0];
            self.dismiss(worst);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64, usize),
    Plan(u32, ObjectPlan),
    Turn(usize),
    Limit(usize, u64),
    Policy(CsPolicy),
}

fn step() -> impl Strategy<Value = Step> {
    let placement = prop_oneof![
        Just(ObjectPlacement::Nowhere),
        Just(ObjectPlacement::Memory),
        Just(ObjectPlacement::Memory)
    ];
    let plan = (placement, 0u64..9, 0u64..900).prop_map(|(placement, worth, octets)| ObjectPlan {
        placement,
        worth,
        octets,
    });
    prop_oneof![
        12 => (0u32..5, 0u64..8, 1usize..40).prop_map(|(k, segment, octets)| Step::Insert(k, segment, octets)),
        3 => (0u32..5, plan).prop_map(|(k, plan)| Step::Plan(k, plan)),
        2 => (1usize..5).prop_map(Step::Turn),
        1 => (0usize..25, 0u64..2500).prop_map(|(packets, octets)| Step::Limit(packets, octets)),
        1 => (0usize..CsPolicy::ALL.len()).prop_map(|i| Step::Policy(CsPolicy::ALL[i])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(72))]
    /// `VI-18`, `VI-19`: retained Data, evicted Data, and the order of eviction.
    #[test]
    fn planned_objects_match_searched_lists(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let ids: Vec<u64> = (0..5).collect();
        let store = Store::with(12, 1600, &ids);
        let mut model = Model { packets_max: 12, octets_max: 1600, ..Model::default() };
        for step in steps {
            match step {
                Step::Insert(k, segment, octets) => {
                    // Each segment has a fixed size, so that a repeated Data is the same.
                    let octets = (octets * 7 + segment as usize * 5) % 40;
                    let size = data(&name(u64::from(k), segment), octets).len() as u64;
                    let known = model.objects.get(&k).and_then(|o| {
                        o.data.iter().find(|(other, _)| *other == segment).map(|(_, size)| *size)
                    });
                    // Packets of two sizes with one name are two Data, which the model does not
                    // represent.
                    if known.is_none_or(|known| known == size) {
                        store.insert((k, u64::from(k)), segment, octets);
                        if model.octets_max > 0 && model.packets_max > 0 {
                            model.insert(k, segment, size);
                        }
                    }
                }
                Step::Plan(k, plan) => {
                    store.cs.plan_object(k, plan);
                    model.objects.entry(k).or_default().plan = plan;
                }
                Step::Turn(n) => {
                    let is_more = store.turn(n);
                    model.turn(n);
                    prop_assert_eq!(is_more, model.leaving_packets() > 0);
                }
                Step::Limit(packets, octets) => {
                    let (packets, octets) = (packets.max(1), octets.max(1));
                    store.cs.limit_objects(packets, octets);
                    model.limit(packets, octets);
                }
                Step::Policy(policy) => {
                    store.cs.configure(&CsChange { policy: Some(policy), ..CsChange::default() });
                }
            }
            store.cs.check();
            let counts = store.cs.object_counts();
            prop_assert_eq!(counts.packets, model.packets() + model.leaving_packets());
            prop_assert_eq!((counts.octets, counts.evicted), (model.octets(), model.evicted));
            for k in 0..5 {
                let held = model.objects.get(&k).map_or(0, |object| object.data.len());
                let leaving = model.leaving.iter().find(|(other, _)| *other == k);
                let expected = leaving.map_or(held, |(_, data)| data.len());
                prop_assert_eq!(store.packets(k), expected);
                for segment in 0..8 {
                    let is = |data: &Held| data.iter().any(|(other, _)| *other == segment);
                    let is_held = model.objects.get(&k).is_some_and(|object| is(&object.data));
                    let expected = is_held || leaving.is_some_and(|(_, data)| is(data));
                    prop_assert_eq!(store.has(u64::from(k), segment), expected);
                }
            }
        }
    }
}

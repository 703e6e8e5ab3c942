//! Tests of the FIB against a list of next hops. The tests of the prefix table cover the
//! longest-prefix match.

use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::hash::NameHasher;
use crate::prefix_table::with_key;
use namely_wire::{Name, PACKET_OCTETS_MAX};

fn face(slot: u32) -> FaceKey {
    FaceKey { slot, generation: 0 }
}

fn uri(uri: &str) -> Name {
    uri.parse().unwrap()
}

struct Bench {
    fib: Fib<parking_lot::RawMutex>,
    hasher: NameHasher,
}

impl Bench {
    fn new(entries_max: usize, nexthops_max: usize) -> Self {
        Bench {
            fib: Fib::new(&FibLimits { entries_max, nexthops_max }).unwrap(),
            hasher: NameHasher::fixed(),
        }
    }

    fn add(&self, name: &Name, slot: u32, cost: u64) -> Result<(), FibError> {
        with_key(&self.hasher, name.as_name(), |key| self.fib.add(key, face(slot), cost))
    }

    fn remove(&self, name: &Name, slot: u32) -> bool {
        with_key(&self.hasher, name.as_name(), |key| self.fib.remove(key, face(slot)))
    }

    fn hops(&self, name: &Name) -> Vec<(u32, u64)> {
        with_key(&self.hasher, name.as_name(), |key| {
            let faces: Vec<u32> = self.fib.longest_match(key).faces.iter().map(|face| face.slot).collect();
            let mut costs = Vec::new();
            let read = |_, pairs: Pairs<'_>| Some(pairs.map(NextHop::from_pair).collect::<Vec<_>>());
            let found = self.fib.table.find_longest(self.fib.control.mutex(), key, read);
            costs.extend(found.into_iter().flatten().map(|hop| (hop.face.slot, hop.cost)));
            assert_eq!(costs.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), faces);
            costs
        })
    }

    fn remove_face(&self, slot: u32, count: usize) -> bool {
        let mut work = Work::new().unwrap();
        work.make_room(PACKET_OCTETS_MAX).unwrap();
        self.fib.remove_face(&self.hasher, &mut work, face(slot), count, |_| {})
    }
}

#[test]
fn nexthops_are_ordered_by_cost() {
    let bench = Bench::new(10, 10);
    let name = uri("/a");
    for (slot, cost) in [(1, 5), (2, 1), (3, 5), (4, 3), (1, 3)] {
        bench.add(&name, slot, cost).unwrap();
    }
    assert_eq!(bench.hops(&name), [(2, 1), (4, 3), (1, 3), (3, 5)]);
}

#[test]
fn a_nexthop_past_each_limit_is_refused() {
    let bench = Bench::new(2, 2);
    assert_eq!(bench.add(&uri("/a"), 1, 0), Ok(()));
    assert_eq!(bench.add(&uri("/a"), 2, 0), Ok(()));
    assert_eq!(bench.add(&uri("/a"), 3, 0), Err(FibError::NextHopsFull));
    assert_eq!(bench.add(&uri("/a"), 2, 9), Ok(()), "a cost may always change");
    assert_eq!(bench.add(&uri("/b"), 1, 0), Ok(()));
    assert_eq!(bench.add(&uri("/c"), 1, 0), Err(FibError::TableFull));
    assert!(bench.remove(&uri("/b"), 1));
    assert_eq!(bench.add(&uri("/c"), 1, 0), Ok(()));
}

#[test]
fn a_removed_face_is_cleared_in_turns() {
    let bench = Bench::new(100, 10);
    for i in 0..10 {
        bench.add(&uri("/a").join_segment(i), 1, 0).unwrap();
        bench.add(&uri("/a").join_segment(i), 2, 0).unwrap();
    }
    assert!(bench.remove_face(1, 4));
    assert_eq!((0..10).filter(|i| bench.hops(&uri("/a").join_segment(*i)).len() == 1).count(), 4);
    assert!(bench.remove_face(1, 6));
    assert!(!bench.remove_face(1, 1));
    assert!((0..10).all(|i| bench.hops(&uri("/a").join_segment(i)) == [(2, 0)]));
    assert!(!bench.remove_face(2, 100));
    assert_eq!((bench.fib.len(), bench.fib.control.lock().by_face.len()), (0, 0));
}

fn name() -> impl Strategy<Value = Name> {
    namely_testkit::names(2, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_fib_matches_a_list_despite_collisions(
        steps in proptest::collection::vec((0u8..4, name(), 0u32..3, 0u64..3), 1..60),
        mask in prop_oneof![Just(0), Just(3), Just(u64::MAX)],
    ) {
        let bench = Bench { hasher: NameHasher::colliding(mask), ..Bench::new(1000, 10) };
        let mut model: Vec<(Name, u32, u64)> = Vec::new();
        for (operation, name, slot, cost) in steps {
            let is = |hop: &(Name, u32, u64)| hop.0 == name && hop.1 == slot;
            match operation {
                0 | 1 => {
                    prop_assert_eq!(bench.add(&name, slot, cost), Ok(()));
                    model.retain(|hop| !is(hop));
                    model.push((name, slot, cost));
                }
                2 => {
                    prop_assert_eq!(bench.remove(&name, slot), model.iter().any(is));
                    model.retain(|hop| !is(hop));
                }
                _ => {
                    let longest = model.iter().filter(|hop| hop.0.is_prefix_of(name.as_name())).max_by_key(|hop| hop.0.len());
                    let mut expected: Vec<(u32, u64)> = longest.map_or(vec![], |longest| {
                        model.iter().filter(|hop| hop.0 == longest.0).map(|hop| (hop.1, hop.2)).collect()
                    });
                    expected.sort_by_key(|(_, cost)| *cost);
                    prop_assert_eq!(bench.hops(&name), expected);
                }
            }
            let names: alloc::collections::BTreeSet<&Name> = model.iter().map(|hop| &hop.0).collect();
            prop_assert_eq!(bench.fib.len(), names.len());
        }
    }
}

//! Compares the BPT with a list of bindings.

use alloc::vec::Vec;

use namely_wire::{Name, PACKET_OCTETS_MAX};
use proptest::prelude::*;

use super::*;
use crate::hash::NameHasher;
use crate::prefix_table::with_key;
use crate::shares::Names;

fn face(slot: u32) -> FaceKey {
    FaceKey { slot, generation: 0 }
}

fn uri(uri: &str) -> Name {
    uri.parse().unwrap()
}

struct Bench {
    bpt: Bpt<parking_lot::RawMutex>,
    hasher: NameHasher,
}

impl Bench {
    fn new(bindings_max: usize) -> Self {
        Bench::with(bindings_max, Names::ALL)
    }

    fn with(bindings_max: usize, holder_max: Names) -> Self {
        let limits = BindingLimits {
            entries_max: bindings_max,
            entries_per_holder_max: holder_max.count,
            octets_per_holder_max: holder_max.octets,
        };
        Bench { bpt: Bpt::new(&limits).unwrap(), hasher: NameHasher::fixed() }
    }

    fn bind(&self, name: &Name, slot: u32) -> Result<(), BindError> {
        with_key(&self.hasher, name.as_name(), |key| self.bpt.bind(key, face(slot), Owner::Face(face(slot))))
    }

    fn unbind(&self, name: &Name, slot: u32) -> bool {
        with_key(&self.hasher, name.as_name(), |key| self.bpt.unbind(key, face(slot)))
    }

    fn all(&self) -> Vec<(Name, u32)> {
        let mut all = Vec::new();
        self.bpt.walk(1, u32::MAX, &mut [0; PACKET_OCTETS_MAX], |name, face| {
            all.push((name.into(), (face.0 - FaceId::FIRST.0) as u32));
            true
        });
        all
    }

    /// Releases a face: its names are unbound three at a time.
    fn remove_face(&self, slot: u32) {
        let mut work = Work::new().unwrap();
        work.make_room(PACKET_OCTETS_MAX).unwrap();
        while self.bpt.remove_face(&self.hasher, &mut work, face(slot), 3) > 0 {}
    }

    fn find(&self, name: &Name) -> Option<u32> {
        with_key(&self.hasher, name.as_name(), |key| self.bpt.find(key)).map(|face| face.slot)
    }
}

/// `IS-06`: pairs of prefixes in both orders: equal, shorter, longer, sibling, and a component that
/// begins with the other one.
#[test]
fn overlapping_bound_prefixes_are_refused() {
    let pairs = [
        ("/A/B", "/A/B", true),
        ("/A/B", "/A", true),
        ("/A/B", "/A/B/C", true),
        ("/A/B", "/", true),
        ("/A/B/C/D", "/A", true),
        ("/A/B", "/A/C", false),
        ("/A/B", "/A/BC", false),
        ("/A/B", "/B/A", false),
        ("/A/B", "/A/32=B", false),
    ];
    for (one, other, refused) in pairs {
        for (first, second) in [(one, other), (other, one)] {
            let bench = Bench::new(10);
            assert_eq!(bench.bind(&uri(first), 1), Ok(()));
            let expected = if refused { Err(BindError::InUse) } else { Ok(()) };
            assert_eq!(bench.bind(&uri(second), 2), expected, "{first} then {second}");
            assert_eq!(bench.bind(&uri(second), 1), Err(BindError::InUse), "even by the same application");
        }
    }
}

/// `IS-05`: lookups among 0, 1 and many prefixes.
#[test]
fn an_interest_finds_its_bound_application() {
    let bench = Bench::new(2000);
    assert_eq!(bench.find(&uri("/a/b")), None);
    bench.bind(&uri("/a/b"), 1).unwrap();
    assert_eq!(bench.find(&uri("/a/b")), Some(1));
    assert_eq!(bench.find(&uri("/a/b/c/d")), Some(1));
    assert_eq!(bench.find(&uri("/a")), None);
    assert_eq!(bench.find(&uri("/a/bc")), None);
    (0..1000).for_each(|i| bench.bind(&uri("/x").join_segment(i), i as u32).unwrap());
    assert!((0..1000).all(|i| bench.find(&uri("/x").join_segment(i).join_generic("y")) == Some(i as u32)));
    assert!((0..1000).all(|i| bench.unbind(&uri("/x").join_segment(i), i as u32)));
    assert_eq!((bench.bpt.len(), bench.bpt.table.len()), (1, 3));
}

/// `IS-08`: several prefixes of one application under a common routable prefix.
#[test]
fn an_application_may_bind_several_prefixes() {
    let bench = Bench::new(10);
    bench.bind(&uri("/r/a"), 1).unwrap();
    bench.bind(&uri("/r/b"), 1).unwrap();
    assert_eq!(bench.all(), [(uri("/r/a"), 1), (uri("/r/b"), 1)]);
    assert!(!bench.unbind(&uri("/r/a"), 2), "only who bound a prefix unbinds it");
    assert!(bench.unbind(&uri("/r/a"), 1));
    assert_eq!((bench.find(&uri("/r/a/1")), bench.find(&uri("/r/b/1"))), (None, Some(1)));
}

#[test]
fn binds_past_the_table_limit_are_refused() {
    let bench = Bench::new(2);
    assert_eq!(bench.bind(&uri("/a"), 1), Ok(()));
    assert_eq!(bench.bind(&uri("/b"), 1), Ok(()));
    assert_eq!(bench.bind(&uri("/c"), 1), Err(BindError::TableFull));
    assert!(bench.unbind(&uri("/a"), 1));
    assert_eq!(bench.bind(&uri("/c"), 1), Ok(()));
}

#[test]
fn binds_past_a_holders_limits_are_refused() {
    let bench = Bench::with(10, Names { count: 2, octets: 20 });
    assert_eq!(bench.bind(&uri("/a"), 1), Ok(()));
    assert_eq!(bench.bind(&uri("/bbbbbbbbbbbbbbbb"), 1), Err(BindError::OwnerFull), "of 18 octets");
    assert_eq!(bench.bind(&uri("/b"), 1), Ok(()));
    assert_eq!(bench.bind(&uri("/c"), 1), Err(BindError::OwnerFull));
    assert_eq!(bench.bind(&uri("/c"), 2), Ok(()), "another one is served");
    assert!(bench.unbind(&uri("/a"), 1));
    assert_eq!(bench.bind(&uri("/a"), 1), Ok(()));
}

fn name() -> impl Strategy<Value = Name> {
    namely_testkit::names(3, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_bpt_matches_a_list_despite_collisions(
        steps in proptest::collection::vec((0u8..3, name(), 0u32..3), 1..80),
        mask in prop_oneof![Just(0), Just(3), Just(u64::MAX)],
    ) {
        let bench = Bench { hasher: NameHasher::colliding(mask), ..Bench::new(1000) };
        let mut model: Vec<(Name, u32)> = Vec::new();
        for (what, name, slot) in steps {
            match what {
                0 => {
                    let overlaps = |(bound, _): &(Name, u32)| {
                        bound.is_prefix_of(name.as_name()) || name.is_prefix_of(bound.as_name())
                    };
                    let free = !model.iter().any(overlaps);
                    prop_assert_eq!(bench.bind(&name, slot), if free { Ok(()) } else { Err(BindError::InUse) });
                    if free {
                        model.push((name, slot));
                    }
                }
                1 => {
                    let before = model.len();
                    model.retain(|binding| *binding != (name.clone(), slot));
                    prop_assert_eq!(bench.unbind(&name, slot), model.len() < before);
                }
                _ => {
                    let found = model.iter().find(|(bound, _)| bound.is_prefix_of(name.as_name()));
                    prop_assert_eq!(bench.find(&name), found.map(|(_, slot)| *slot));
                }
            }
            prop_assert_eq!(bench.bpt.len(), model.len());
        }
        bench.remove_face(1);
        model.retain(|(_, slot)| *slot != 1);
        let mut all = bench.all();
        all.sort();
        model.sort();
        prop_assert_eq!(&all, &model);
        for (name, slot) in model {
            prop_assert!(bench.unbind(&name, slot));
        }
        let control = bench.bpt.control.lock();
        prop_assert_eq!((bench.bpt.table.len(), control.by_face.len(), control.binders.len()), (0, 0, 0));
    }
}

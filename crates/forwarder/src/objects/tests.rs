//! Tests of the Name Map Table against a plain map, and of its exchange under concurrent readers.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;

use namely_wire::Name;
use parking_lot::RawMutex;
use proptest::prelude::*;

use super::*;

type Map = Objects<RawMutex>;

fn map(names_max: usize, objects_max: usize) -> Map {
    Map::new(&ObjectLimits { objects_max, names_max })
}

fn name() -> impl Strategy<Value = Name> {
    namely_testkit::names(4, 0..6)
}

/// A catalogue of these names. An object is the index of its name, and its id is 7 more.
fn names(list: &[Name]) -> impl Iterator<Item = ObjectName<'_>> {
    list.iter().zip(0..).map(|(name, object)| ObjectName {
        name: name.as_name(),
        object,
        id: u64::from(object) + 7,
    })
}

fn exchange(map: &Map, hasher: &NameHasher, list: &[Name]) -> Result<usize, ObjectsError> {
    map.exchange(hasher, &mut NameHashes::new(), names(list))
}

fn find(map: &Map, hasher: &NameHasher, name: &Name) -> Option<ObjectMatch> {
    map.find(Key::filled(hasher, name.as_name(), &mut NameHashes::new()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn the_longest_file_name_determines_the_object(
        catalogues in proptest::collection::vec(proptest::collection::btree_set(name(), 0..30), 1..5),
        probes in proptest::collection::vec(name(), 1..20),
        mask in prop_oneof![Just(0), Just(3), Just(u64::MAX)],
    ) {
        let (map, hasher) = (map(100, 100), NameHasher::colliding(mask));
        for catalogue in catalogues {
            let list: Vec<Name> = catalogue.into_iter().collect();
            prop_assert_eq!(exchange(&map, &hasher, &list), Ok(list.len()));
            let model: BTreeMap<&Name, u32> = list.iter().zip(0..).collect();
            for probe in &probes {
                let prefixes = model.iter().filter(|(name, _)| name.is_prefix_of(probe.as_name()));
                let longest = prefixes.max_by_key(|(name, _)| name.len());
                let expected = longest.map(|(_, object)| ObjectMatch { object: *object, id: u64::from(*object) + 7 });
                prop_assert_eq!(find(&map, &hasher, probe), expected);
            }
        }
    }
}

fn numbered(n: u32, of: &str) -> Vec<Name> {
    (0..n).map(|i| format!("/store/{of}/{i}").parse().unwrap()).collect()
}

#[test]
fn a_catalogue_past_the_limits_is_refused() {
    let hasher = NameHasher::fixed();
    let map = map(4, 6);
    let four = numbered(4, "a");
    assert_eq!(exchange(&map, &hasher, &four), Ok(4));
    assert_eq!(exchange(&map, &hasher, &numbered(5, "b")), Err(ObjectsError::TableFull));
    let object = |object| [ObjectName { name: four[0].as_name(), object, id: 1 }].into_iter();
    let mut hashes = NameHashes::new();
    assert_eq!(map.exchange(&hasher, &mut hashes, object(6)), Err(ObjectsError::NoSuchObject));
    assert_eq!(find(&map, &hasher, &four[3]).map(|found| found.object), Some(3));
    assert_eq!(find(&map, &hasher, &numbered(1, "b")[0]), None);
    assert_eq!(map.exchange(&hasher, &mut hashes, object(5)), Ok(1));
    assert_eq!(find(&map, &hasher, &four[0]).map(|found| found.object), Some(5));
    assert_eq!(find(&map, &hasher, &four[3]), None);
}

#[test]
fn a_file_in_two_objects_is_refused() {
    let (map, hasher) = (map(10, 10), NameHasher::fixed());
    let list = numbered(2, "a");
    assert_eq!(exchange(&map, &hasher, &list), Ok(2));
    let twice = [&numbered(3, "b")[..], &numbered(1, "b")].concat();
    assert_eq!(exchange(&map, &hasher, &twice), Err(ObjectsError::Repeated));
    assert_eq!(find(&map, &hasher, &list[1]).map(|found| found.object), Some(1));
    assert_eq!(exchange(&map, &hasher, &[]), Ok(0));
    assert_eq!(find(&map, &hasher, &list[1]), None);
}

#[test]
fn readers_see_one_whole_catalogue() {
    let (map, hasher) = (map(1000, 1000), NameHasher::fixed());
    // Every name is in all catalogues, and belongs to a different object in each.
    let catalogues = [0, 1, 2].map(|shift: usize| {
        let mut list = numbered(300, "x");
        list.rotate_left(shift * 7);
        list
    });
    exchange(&map, &hasher, &catalogues[0]).unwrap();
    let probes = numbered(300, "x");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut looked = 0u32;
                    while !stop.load(core::sync::atomic::Ordering::Relaxed) || looked < 300 {
                        let i = looked as usize % probes.len();
                        let found = find(&map, &hasher, &probes[i]).expect("it is in every catalogue");
                        let shifted = (i + 300 - found.object as usize) % 300;
                        assert!(matches!(shifted, 0 | 7 | 14), "{i} is of {found:?}");
                        looked += 1;
                    }
                })
            })
            .collect();
        for round in 1..60 {
            exchange(&map, &hasher, &catalogues[round % 3]).unwrap();
        }
        stop.store(true, core::sync::atomic::Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("it panics not"));
    });
}

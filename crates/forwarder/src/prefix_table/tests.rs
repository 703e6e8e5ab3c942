//! Tests of the table: against a list of names, with concurrent readers and writers, and for the
//! cost of a lookup.

use alloc::collections::BTreeMap;
use alloc::vec;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;

use parking_lot::RawMutex;
use proptest::prelude::*;

use super::*;

type Control = Mutex<RawMutex, Writer>;

/// Names of up to `len` components, each of up to 60 octets: some need blocks of their own.
fn name_of(parts: &[u8]) -> Name {
    parts
        .iter()
        .fold(Name::new(), |name, part| name.join_generic([b'a' + part].repeat(1 + 20 * *part as usize)))
}

fn name() -> impl Strategy<Value = Name> {
    proptest::collection::vec(0u8..4, 0..6).prop_map(|parts| name_of(&parts))
}

fn all(table: &PrefixTable, control: &Control, key: Key<'_>) -> Vec<u64> {
    let mut found = Vec::new();
    // Each lookup finds one more of the matching entries.
    while let Some(value) = table.find_longest(control, key, |_, mut pairs| {
        let value = pairs.next().map(|pair| pair.0)?;
        (!found.contains(&value)).then_some(value)
    }) {
        found.push(value);
    }
    found
}

fn set(table: &PrefixTable, writer: &mut Writer, id: Id, pairs: &[Pair]) -> Result<(), NoBlock> {
    table.set_pairs(writer, id, pairs.len(), pairs.iter().copied())
}

fn walked(table: &PrefixTable, control: &Control) -> BTreeMap<Name, Vec<Pair>> {
    let mut entries = BTreeMap::new();
    let mut from = Some(1);
    while let Some(start) = from {
        let writer = control.lock();
        from = table.walk(&writer, start, 3, &mut [0; PACKET_OCTETS_MAX], |name, pairs| {
            entries.insert(name.into(), pairs.collect());
            true
        });
    }
    entries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn the_prefix_table_matches_a_searched_list(
        steps in proptest::collection::vec((0u8..3, name(), 1usize..9), 1..120),
        probes in proptest::collection::vec(name(), 1..10),
        mask in prop_oneof![Just(0), Just(3), Just(u64::MAX)],
    ) {
        let (hasher, control) = (NameHasher::colliding(mask), Control::new(Writer::default()));
        let table = PrefixTable::new(200).unwrap();
        let mut model: BTreeMap<Name, Vec<Pair>> = BTreeMap::new();
        for (i, (what, name, count)) in steps.into_iter().enumerate() {
            let done: Result<(), TestCaseError> = with_key(&hasher, name.as_name(), |key| {
                let (n, writer) = (key.hashes.len(), &mut *control.lock());
                let found = table.find(writer, key, n);
                assert_eq!(found.is_some(), model.contains_key(&name));
                let pairs: Vec<Pair> = (0..count as u64).map(|k| (i as u64 * 100 + k, k)).collect();
                match (what, found) {
                    (0, None) => {
                        table.insert(writer, key, n, pairs[0]).unwrap();
                        model.insert(name.clone(), vec![pairs[0]]);
                    }
                    (0, Some(id)) => {
                        set(&table, writer, id, &pairs).unwrap();
                        model.insert(name.clone(), pairs);
                    }
                    (1, Some(id)) => {
                        let keep = |pair: Pair| pair.1 % 3 != i as u64 % 3;
                        let kept = &mut model.get_mut(&name).unwrap();
                        let after: Vec<Pair> = kept.iter().copied().filter(|pair| keep(*pair)).collect();
                        prop_assert_eq!(table.retain_pairs(writer, id, keep), after.len());
                        if !after.is_empty() {
                            **kept = after;
                        }
                    }
                    (_, Some(id)) => {
                        table.remove(writer, key, n, id);
                        model.remove(&name);
                    }
                    _ => {}
                }
                Ok(())
            });
            done?;
            prop_assert_eq!(table.len(), model.len());
        }
        for probe in probes {
            let mut expected: Vec<_> =
                model.iter().filter(|(n, _)| n.is_prefix_of(probe.as_name())).collect();
            expected.sort_by_key(|(n, _)| core::cmp::Reverse(n.len()));
            let expected: Vec<u64> = expected.into_iter().map(|(_, pairs)| pairs[0].0).collect();
            prop_assert_eq!(with_key(&hasher, probe.as_name(), |key| all(&table, &control, key)), expected);
        }
        prop_assert_eq!(walked(&table, &control), model);
    }
}

#[test]
fn prefix_table_memory_is_reused() {
    let (hasher, control) = (NameHasher::fixed(), Control::new(Writer::default()));
    let table = PrefixTable::new(100).unwrap();
    let writer = &mut *control.lock();
    let names: Vec<Name> = (0..100).map(|i| name_of(&[3, 3, 3]).join_segment(i)).collect();
    for _ in 0..50 {
        let mut ids = Vec::new();
        for name in &names {
            let id = with_key(&hasher, name.as_name(), |key| table.insert(writer, key, 4, (1, 1))).unwrap();
            set(&table, writer, id, &[(2, 2); 10]).unwrap();
            ids.push(id);
        }
        let full = name_of(&[1]);
        with_key(&hasher, full.as_name(), |key| {
            assert_eq!(table.insert(writer, key, 1, (1, 1)), Err(NoBlock::Full))
        });
        for (name, id) in names.iter().zip(ids) {
            with_key(&hasher, name.as_name(), |key| table.remove(writer, key, 4, id));
        }
    }
    assert_eq!(table.len(), 0);
    assert_eq!(table.entries.end(), 101);
    assert!(table.more.end() < 1000, "{}", table.more.end());
}

#[test]
fn a_name_without_room_leaves_nothing_behind() {
    let (hasher, control) = (NameHasher::fixed(), Control::new(Writer::default()));
    let table = PrefixTable { more: Blocks::new(4).unwrap(), ..PrefixTable::new(100).unwrap() };
    let writer = &mut *control.lock();
    let insert = |writer: &mut Writer, octets: usize| {
        let name = Name::new().join_generic([b'x'].repeat(octets));
        with_key(&hasher, name.as_name(), |key| table.insert(writer, key, 1, (1, 1)))
    };
    // The pool has memory for a whole chunk, but its limit still counts.
    assert_eq!(insert(writer, 42 + 4 * 56), Err(NoBlock::Full));
    let id = insert(writer, 42 + 4 * 56 - 4).expect("it fits just so");
    assert_eq!(set(&table, writer, id, &[(1, 1), (2, 2)]), Err(NoBlock::Full));
    assert!(table.pairs(writer, id).eq([(1, 1)]));
    assert_eq!(insert(writer, 41), Err(NoBlock::Full));
    assert!(insert(writer, 40).is_ok());
    assert_eq!(table.len(), 2);
}

/// Creates a table of `count` routes.
fn routes(count: u64) -> (NameHasher, PrefixTable, Control) {
    let (hasher, control) = (NameHasher::fixed(), Control::new(Writer::default()));
    let table = PrefixTable::new(count as usize).unwrap();
    let writer = &mut *control.lock();
    for i in 0..count {
        with_key(&hasher, route(i).as_name(), |key| {
            table.insert(writer, key, key.hashes.len(), (i, 0)).expect("room")
        });
    }
    (hasher, table, Control::new(core::mem::take(writer)))
}

/// The name of route `i`. Half of the names have two components, the others three. There are ten
/// different first components.
fn route(i: u64) -> Name {
    let name = Name::new().join_segment(i % 10).join_segment(i);
    if (i / 10).is_multiple_of(2) { name } else { name.join_generic("below") }
}

#[test]
fn lookup_probes_do_not_grow_with_routes() {
    let costs = [1000u64, 1_000_000].map(|count| {
        let (hasher, table, control) = routes(count);
        let samples = 1000;
        let mut total = Cost::default();
        for i in (0..samples).map(|i| i * (count / samples) + i % (count / samples)) {
            let name = route(i).join_generic("below").join_segment(1).join_segment(2);
            with_key(&hasher, name.as_name(), |key| {
                let found = table.find_longest(&control, key, |_, mut pairs| pairs.next());
                assert_eq!(found.map(|pair| pair.0), Some(i));
                let cost = table.cost(key);
                // A bucket for each of the two lengths, and sometimes the next block of a full
                // bucket.
                assert!((2..=4).contains(&cost.buckets), "{cost:?}");
                total = Cost { buckets: total.buckets + cost.buckets, names: total.names + cost.names };
            });
        }
        total
    });
    let [list, many] = costs.map(|cost| (cost.buckets as f64 / 1000.0, cost.names as f64 / 1000.0));
    assert!((list.0 - many.0).abs() < 0.1 && (list.1 - many.1).abs() < 0.1, "{costs:?}");
    assert!((2.0..2.2).contains(&many.0) && (1.0..1.1).contains(&many.1), "{costs:?}");
}

/// A lookup in a part of the array of lengths that has no memory finds nothing.
#[test]
fn lengths_are_allocated_with_the_first_entry() {
    let (hasher, table) = (NameHasher::fixed(), PrefixTable::new(1 << 20).unwrap());
    let name = |i: u64| Name::new().join_segment(i);
    let lengths = |i| with_key(&hasher, name(i).as_name(), |key| table.lengths.of(key.hashes).count());
    assert_eq!((0..200).map(lengths).sum::<usize>(), 0);
    let control = Control::new(Writer::default());
    for i in 0..200 {
        let writer = &mut *control.lock();
        with_key(&hasher, name(i).as_name(), |key| table.insert(writer, key, 1, (i, 0))).unwrap();
        assert!((0..=i).all(|i| lengths(i) == 1), "{i}");
    }
    for i in 0..200 {
        with_key(&hasher, name(i).as_name(), |key| {
            let writer = &mut *control.lock();
            let id = table.find(writer, key, 1).unwrap();
            table.remove(writer, key, 1, id);
        });
    }
    assert_eq!((0..200).map(lengths).sum::<usize>(), 0);
}

#[test]
fn unrelated_prefix_lengths_are_not_probed() {
    let (hasher, control) = (NameHasher::fixed(), Control::new(Writer::default()));
    let table = PrefixTable::new(1_000_000).unwrap();
    let insert = |name: &Name| {
        with_key(&hasher, name.as_name(), |key| {
            table.insert(&mut control.lock(), key, key.hashes.len(), (1, 1))
        })
    };
    let deep = |first: &str| (0..100).fold(Name::new().join_generic(first), |name, i| name.join_segment(i));
    for n in 1..=100 {
        insert(&deep("long").as_name().prefix(n).to_name()).unwrap();
    }
    insert(&Name::new().join_generic("short")).unwrap();
    let cost = |name: &Name| with_key(&hasher, name.as_name(), |key| table.cost(key).buckets);
    assert!((100..=103).contains(&cost(&deep("long"))), "a bucket for each length");
    assert!(cost(&deep("short")) <= 2);
    assert_eq!(cost(&deep("neither")), 0);
}

#[test]
fn readers_always_see_a_written_value() {
    let hasher = NameHasher::fixed();
    let (table, control) = (PrefixTable::new(4096).unwrap(), Control::new(Writer::default()));
    let stays: Vec<Name> = (0..64).map(|i| name_of(&[1, 2]).join_segment(i)).collect();
    for (i, name) in stays.iter().enumerate() {
        with_key(&hasher, name.as_name(), |key| {
            let writer = &mut *control.lock();
            let id = table.insert(writer, key, 3, (i as u64, 0)).unwrap();
            set(&table, writer, id, &[(i as u64, 0); 5]).unwrap();
        });
    }
    let (done, barrier) = (AtomicBool::new(false), Barrier::new(4));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (table, control, stays, done, barrier, hasher) =
                (&table, &control, &stays, &done, &barrier, &hasher);
            scope.spawn(move || {
                barrier.wait();
                let mut i = worker;
                while !done.load(Ordering::Relaxed) {
                    let name = stays[i % 64].join_segment(9);
                    let read = |_, pairs: Pairs<'_>| Some(pairs.take(100).collect::<Vec<_>>());
                    let found =
                        with_key(hasher, name.as_name(), |key| table.find_longest(control, key, read));
                    let found = found.expect("it is there all the time");
                    let value = (i % 64) as u64;
                    // All pairs are of one state: as they were inserted, or as the writer has
                    // changed them.
                    assert!(found.iter().all(|pair| pair.0 == value && pair.1 == found[0].1), "{found:?}");
                    assert_eq!(found.len(), if found[0].1 == 0 { 5 } else { 1 + (found[0].1 % 8) as usize });
                    i += 1;
                }
            });
        }
        for worker in 0..2u64 {
            let (table, control, stays, done, barrier, hasher) =
                (&table, &control, &stays, &done, &barrier, &hasher);
            scope.spawn(move || {
                barrier.wait();
                for i in 0..3000u64 {
                    // The name is inserted and removed in turn, so that blocks are reused for other
                    // names and buckets split.
                    let name = name_of(&[(i % 4) as u8; 3]).join_segment(worker).join_segment(i % 700);
                    with_key(hasher, name.as_name(), |key| {
                        let writer = &mut *control.lock();
                        match table.find(writer, key, key.hashes.len()) {
                            Some(id) => table.remove(writer, key, key.hashes.len(), id),
                            None => {
                                table.insert(writer, key, key.hashes.len(), (u64::MAX, u64::MAX)).unwrap();
                            }
                        }
                    });
                    let at = (i % 64) as usize;
                    with_key(hasher, stays[at].as_name(), |key| {
                        let writer = &mut *control.lock();
                        let id = table.find(writer, key, 3).unwrap();
                        let version = i + 1;
                        let pairs = &[(at as u64, version); 8][..1 + (version % 8) as usize];
                        set(table, writer, id, pairs).unwrap();
                    });
                }
                done.store(true, Ordering::Relaxed);
            });
        }
    });
}

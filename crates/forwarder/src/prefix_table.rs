//! A table from names to values with longest-prefix match, whose cost does not grow with the number of
//! names: one probe for each length that both the name looked up has and some entry has. FIB, BPT and
//! strategy choice are such tables.

use alloc::boxed::Box;
use alloc::vec;

use namely_wire::name::COMPONENTS_MAX;
use namely_wire::{Name, NameRef};

use crate::chains::{Chained, Chains};
use crate::hash::{NameHasher, NameHashes};
use crate::slab::{Id, NONE};

/// A name with its prefix hashes: what every lookup takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) octets: &'a [u8],
    pub(crate) hashes: &'a NameHashes,
}

impl<'a> Key<'a> {
    pub(crate) fn new(name: NameRef<'a>, hashes: &'a NameHashes) -> Self {
        Key { octets: name.as_bytes(), hashes }
    }

    /// The octets of the first `n` components.
    pub(crate) fn prefix(&self, n: usize) -> &'a [u8] {
        &self.octets[..self.hashes.end(n)]
    }
}

pub(crate) struct PrefixTable<V> {
    chains: Chains<Entry<V>>,
    // How many entries have n components: lengths without any are not probed.
    lengths: Box<[u32]>,
}

struct Entry<V> {
    hash: u64,
    next: Id,
    components: u8,
    name: Box<[u8]>,
    value: V,
}

const _: () = assert!(COMPONENTS_MAX <= u8::MAX as usize, "a number of components fits 8 bits");

impl<V> Chained for Entry<V> {
    fn hash(&self) -> u64 {
        self.hash
    }
    fn next(&self) -> Id {
        self.next
    }
    fn set_next(&mut self, next: Id) {
        self.next = next;
    }
}

impl<V> PrefixTable<V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        PrefixTable { chains: Chains::new(entries_max), lengths: vec![0; COMPONENTS_MAX + 1].into() }
    }

    pub(crate) fn len(&self) -> usize {
        self.chains.len()
    }

    /// The entry whose name is exactly the first `n` components of `key`.
    pub(crate) fn find(&self, key: Key<'_>, n: usize) -> Option<Id> {
        let name = key.prefix(n);
        self.chains.find(key.hashes.hash(n), |entry| *entry.name == *name)
    }

    /// Walks the entries that are prefixes of `key`, longest first.
    pub(crate) fn matches(&self, key: Key<'_>) -> impl Iterator<Item = &V> {
        let lengths = (0..=key.hashes.len()).rev().filter(|n| self.lengths[*n] > 0);
        lengths.filter_map(move |n| self.find(key, n)).filter_map(|id| self.value(id))
    }

    pub(crate) fn value(&self, id: Id) -> Option<&V> {
        self.chains.get(id).map(|entry| &entry.value)
    }

    pub(crate) fn value_mut(&mut self, id: Id) -> Option<&mut V> {
        self.chains.get_mut(id).map(|entry| &mut entry.value)
    }

    pub(crate) fn name(&self, id: Id) -> Option<Name> {
        let entry = self.chains.get(id)?;
        NameRef::parse_value(&entry.name).ok().map(Name::from)
    }

    /// Inserts a name of `n` components of `key` that is not in the table.
    pub(crate) fn insert(&mut self, key: Key<'_>, n: usize, value: V) -> Id {
        self.lengths[n] += 1;
        let name = key.prefix(n).into();
        self.chains.insert(Entry { hash: key.hashes.hash(n), next: NONE, components: n as u8, name, value })
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<V> {
        let entry = self.chains.remove(id)?;
        self.lengths[usize::from(entry.components)] -= 1;
        Some(entry.value)
    }

    /// The names and values of the entries with ids from `from`, at most `count` places of the table, and
    /// where to go on. Lets a long walk release its lock in between.
    pub(crate) fn walk(&self, from: Id, count: Id) -> (impl Iterator<Item = (Name, &V)>, Option<Id>) {
        let until = from.saturating_add(count).min(self.chains.end());
        let entries = (from.max(1)..until).filter_map(|id| self.name(id).zip(self.value(id)));
        (entries, (until < self.chains.end()).then_some(until))
    }
}

/// Runs `with` on the key of `name`.
pub(crate) fn with_key<T>(hasher: &NameHasher, name: NameRef<'_>, with: impl FnOnce(Key<'_>) -> T) -> T {
    let hashes = hasher.prefixes(name);
    with(Key::new(name, &hashes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = Name> {
        proptest::collection::vec(0u8..3, 0..5).prop_map(|parts| {
            parts.iter().fold(Name::new(), |name, p| name.join_generic([b'a' + p].repeat(1 + *p as usize)))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn finds_the_prefixes_that_a_list_of_names_finds_even_when_all_hashes_collide(
            steps in proptest::collection::vec((any::<bool>(), name()), 1..60),
            probes in proptest::collection::vec(name(), 1..10),
            mask in prop_oneof![Just(0), Just(3), Just(u64::MAX)],
        ) {
            let hasher = NameHasher::colliding(mask);
            let mut table = PrefixTable::new(16);
            let mut model: BTreeMap<Name, usize> = BTreeMap::new();
            for (i, (insert, name)) in steps.into_iter().enumerate() {
                with_key(&hasher, name.as_name(), |key| {
                    let found = table.find(key, key.hashes.len());
                    match (insert, found) {
                        (true, None) => {
                            table.insert(key, key.hashes.len(), i);
                            model.insert(name.clone(), i);
                        }
                        (false, Some(id)) => assert_eq!(table.remove(id), model.remove(&name)),
                        _ => assert_eq!(found.is_some(), model.contains_key(&name)),
                    }
                });
                prop_assert_eq!(table.len(), model.len());
            }
            for probe in probes {
                let mut expected: Vec<_> =
                    model.iter().filter(|(n, _)| n.is_prefix_of(probe.as_name())).collect();
                expected.sort_by_key(|(n, _)| core::cmp::Reverse(n.len()));
                let expected: Vec<usize> = expected.into_iter().map(|(_, v)| *v).collect();
                let found: Vec<usize> = with_key(&hasher, probe.as_name(), |key| table.matches(key).copied().collect());
                prop_assert_eq!(found, expected);
            }
            let mut walked = BTreeMap::new();
            let mut from = Some(1);
            while let Some(start) = from {
                let (entries, next) = table.walk(start, 3);
                walked.extend(entries.map(|(name, value)| (name, *value)));
                from = next;
            }
            prop_assert_eq!(walked, model);
        }
    }
}

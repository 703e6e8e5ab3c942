//! What of the memory's leavings is written: what was asked for there, all, or what comes again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use super::filter::scale;

/// Maximum number of names that are remembered of what left the memory: 32 MiB.
pub const GHOSTS_MAX: usize = 1 << 24;

/// One name is remembered for so many octets of the disk: at least as many as it holds packets.
pub(crate) const OCTETS_A_GHOST: u64 = 4096;

/// What of the memory's leavings is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// What was asked for while it was in memory.
    Hit,
    /// That, and what had left the memory before, not long ago.
    #[default]
    Again,
    /// Everything.
    All,
}

impl Admission {
    /// All of them.
    pub const ALL: [Admission; 3] = [Admission::Hit, Admission::Again, Admission::All];
}

/// Who decides what is written. It remembers names that were not admitted, by short hashes in
/// memory of one size: one that it takes for another is written once too often, and one that
/// another has put out once too late.
#[derive(Debug)]
pub struct Gate {
    admission: AtomicUsize,
    /// Made when they are first needed.
    ghosts: OnceLock<Ghosts>,
    names: usize,
}

impl Gate {
    /// A gate that remembers about `names`, at most [`GHOSTS_MAX`].
    pub fn new(admission: Admission, names: usize) -> Self {
        Gate { admission: AtomicUsize::new(admission as usize), ghosts: OnceLock::new(), names }
    }

    /// The rule.
    pub fn admission(&self) -> Admission {
        let index = self.admission.load(Ordering::Relaxed);
        Admission::ALL.get(index).copied().unwrap_or_default()
    }

    /// Another rule from now on.
    pub fn set_admission(&self, admission: Admission) {
        self.admission.store(admission as usize, Ordering::Relaxed);
    }

    /// Whether a packet is written that leaves the memory; `hash`: a keyed one of its name. What is
    /// not is remembered, if the rule wants that.
    pub fn admits(&self, hash: u64, was_asked_for: bool) -> bool {
        match self.admission() {
            Admission::All => true,
            _ if was_asked_for => true,
            Admission::Hit => false,
            Admission::Again => self.ghosts.get_or_init(|| Ghosts::new(self.names)).saw(hash),
        }
    }

    /// Octets of memory.
    pub fn memory_octets(&self) -> usize {
        self.ghosts.get().map_or(0, |ghosts| size_of_val(&*ghosts.places))
    }
}

/// Names that share a set; they lie in half a line of the processor's cache.
const SET: usize = 16;

/// Names by 16 bits of their hashes, in sets in which the one that came first goes first. Several
/// threads may change a set at once: a name may then be lost, or be there twice.
#[derive(Debug)]
struct Ghosts {
    /// Sets, each with the newest first; zero is none.
    places: Box<[AtomicU16]>,
}

impl Ghosts {
    fn new(names: usize) -> Self {
        let sets = names.min(GHOSTS_MAX).div_ceil(SET).max(1);
        Ghosts { places: (0..sets * SET).map(|_| AtomicU16::new(0)).collect() }
    }

    /// Whether the name is remembered. It is from now on.
    fn saw(&self, hash: u64) -> bool {
        let name = (hash as u16).max(1);
        let first = scale(hash, self.places.len() / SET) * SET;
        let set = &self.places[first..first + SET];
        if set.iter().any(|place| place.load(Ordering::Relaxed) == name) {
            return true;
        }
        set.iter().fold(name, |newer, place| place.swap(newer, Ordering::Relaxed));
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;
    use crate::testing::hash;

    #[test]
    fn what_left_memory_is_written_by_each_rule_as_it_says() {
        let gate = Gate::new(Admission::Hit, 1000);
        assert_eq!([true, false, false].map(|asked| gate.admits(hash(1), asked)), [true, false, false]);
        assert_eq!(gate.memory_octets(), 0, "nothing is remembered for this rule");
        gate.set_admission(Admission::Again);
        assert_eq!([false, false, true].map(|asked| gate.admits(hash(1), asked)), [false, true, true]);
        assert!(gate.admits(hash(2), true) && !gate.admits(hash(2), false), "what was asked for is no ghost");
        assert_eq!(gate.memory_octets(), 2 * 1008);
        gate.set_admission(Admission::All);
        assert!(gate.admits(hash(3), false));
        assert_eq!(gate.admission(), Admission::All);
    }

    #[test]
    fn so_many_names_are_remembered_and_about_those_that_came_last() {
        let gate = Gate::new(Admission::Again, 10_000);
        assert!((0..100_000).filter(|n| gate.admits(hash(*n), false)).count() < 100);
        // Those of the last half are there, those of ten times as long ago are not.
        let ghosts = gate.ghosts.get().unwrap();
        let remembered = |numbers: std::ops::Range<u64>| {
            let is_there = |n: &u64| {
                let first = scale(hash(*n), ghosts.places.len() / SET) * SET;
                ghosts.places[first..first + SET]
                    .iter()
                    .any(|place| place.load(Ordering::Relaxed) == (hash(*n) as u16).max(1))
            };
            numbers.filter(is_there).count()
        };
        assert!(remembered(95_000..100_000) > 4_800, "{}", remembered(95_000..100_000));
        assert!(remembered(0..50_000) < 100, "{}", remembered(0..50_000));
        let most = Gate::new(Admission::Again, GHOSTS_MAX + 1);
        most.admits(1, false);
        assert_eq!(most.memory_octets(), 2 * GHOSTS_MAX);
    }

    proptest! {
        #[test]
        fn a_gate_remembers_what_a_plain_list_does(
            numbers in proptest::collection::vec((0..2000_u64, any::<bool>()), 1..3000),
            sets in 1..40_usize,
        ) {
            let gate = Gate::new(Admission::Again, sets * SET);
            let mut lists: BTreeMap<usize, VecDeque<u16>> = BTreeMap::new();
            for (number, was_asked) in numbers {
                let (hash, list) = (hash(number), lists.entry(scale(hash(number), sets)).or_default());
                let name = (hash as u16).max(1);
                let was_there = list.contains(&name);
                if !was_asked && !was_there {
                    list.push_front(name);
                    list.truncate(SET);
                }
                prop_assert_eq!(gate.admits(hash, was_asked), was_asked || was_there);
            }
        }
    }
}

//! The rule that decides which packets evicted from memory are written: those with a hit, those
//! evicted repeatedly, or all.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use super::filter::scale;

/// Remembered names of packets that were evicted from memory and not written.
///
/// The names take 32 MiB at most.
///
/// # Limit
/// One of the oldest names is evicted.
/// - Value: one for each 4 KiB of the budget with which the tier is opened, at most 2^24, of two
///   octets each
/// - Tests: `an_admission_gate_remembers_recent_names`
pub const GHOSTS_MAX: usize = 1 << 24;

/// Octets of the disk per remembered name. With packets of 4 KiB or more, at least as many names
/// are remembered as packets are on the disk.
pub(crate) const OCTETS_A_GHOST: u64 = 4096;

/// Selects the packets evicted from memory that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Packets that had a hit while they were in memory.
    Hit,
    /// Packets with a hit, and packets that were evicted from memory before, not long ago.
    #[default]
    Again,
    /// All packets.
    All,
}

impl Admission {
    /// All rules.
    pub const ALL: [Admission; 3] = [Admission::Hit, Admission::Again, Admission::All];
}

/// Decides which packets are written. The gate remembers the names that it refused, as short hashes
/// in a fixed amount of memory. A packet with a colliding hash is written one eviction early; a
/// packet with a displaced name is written one eviction late.
#[derive(Debug)]
pub struct Gate {
    admission: AtomicUsize,
    /// Created on first use.
    ghosts: OnceLock<Ghosts>,
    names: usize,
}

impl Gate {
    /// Creates a gate that remembers about `names` names, at most [`GHOSTS_MAX`].
    pub fn new(admission: Admission, names: usize) -> Self {
        Gate { admission: AtomicUsize::new(admission as usize), ghosts: OnceLock::new(), names }
    }

    /// Returns the rule.
    pub fn admission(&self) -> Admission {
        // Relaxed: the rule guards no other memory, and an eviction may follow the previous rule
        // for a moment.
        let index = self.admission.load(Ordering::Relaxed);
        Admission::ALL.get(index).copied().unwrap_or_default()
    }

    /// Changes the rule.
    pub fn set_admission(&self, admission: Admission) {
        self.admission.store(admission as usize, Ordering::Relaxed);
    }

    /// Returns whether a packet that is evicted from memory is written. `hash` is a keyed hash of
    /// its name. A refused name is remembered if the rule needs it.
    pub fn admits(&self, hash: u64, was_asked_for: bool) -> bool {
        match self.admission() {
            Admission::All => true,
            _ if was_asked_for => true,
            Admission::Hit => false,
            Admission::Again => self.ghosts.get_or_init(|| Ghosts::new(self.names)).saw(hash),
        }
    }

    /// Octets of memory in use.
    pub fn memory_octets(&self) -> usize {
        self.ghosts.get().map_or(0, |ghosts| size_of_val(&*ghosts.places))
    }
}

/// Names per set; a set is half a cache line of the processor.
const SET: usize = 16;

/// Names by 16 bits of their hashes, in sets with first-in, first-out eviction. Several threads may
/// change a set at once: a name may then be lost or stored twice.
#[derive(Debug)]
struct Ghosts {
    /// Sets, each with the newest name first; zero is an empty slot.
    places: Box<[AtomicU16]>,
}

impl Ghosts {
    fn new(names: usize) -> Self {
        let sets = names.min(GHOSTS_MAX).div_ceil(SET).max(1);
        Ghosts { places: (0..sets * SET).map(|_| AtomicU16::new(0)).collect() }
    }

    /// Returns whether the name was remembered, and remembers it.
    fn saw(&self, hash: u64) -> bool {
        // The set is chosen by the highest bits, so the lowest are independent of it. Zero is an
        // empty slot.
        let name = (hash as u16).max(1);
        let first = scale(hash, self.places.len() / SET) * SET;
        let set = &self.places[first..first + SET];
        // Relaxed, here and below: a slot guards no other memory, and a lost name only delays a
        // write by one eviction.
        if set.iter().any(|place| place.load(Ordering::Relaxed) == name) {
            return true;
        }
        // Each swap moves an entry to the next slot, and the last entry is evicted, all without a
        // lock.
        set.iter().fold(name, |newer, place| place.swap(newer, Ordering::Relaxed));
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;
    use namely_testkit::hash;

    #[test]
    fn each_admission_rule_decides_evicted_packets() {
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
    fn an_admission_gate_remembers_recent_names() {
        let gate = Gate::new(Admission::Again, 10_000);
        assert!((0..100_000).filter(|n| gate.admits(hash(*n), false)).count() < 100);
        // Names of the last half are remembered; names ten times as old are not.
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
        fn an_admission_gate_matches_a_plain_list(
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

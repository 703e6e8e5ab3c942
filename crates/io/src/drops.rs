//! Counters of the frames and packets that a face drops, by reason. The labels include those of the
//! link service.

use std::collections::BTreeMap;

use namely_link::LinkDrops;

/// Drops by label. Labels are constants of the program, so a peer cannot make this map grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropCounters {
    counts: BTreeMap<&'static str, u64>,
}

impl DropCounters {
    /// Counts one drop.
    pub fn count(&mut self, label: &'static str) {
        self.add(label, 1);
    }

    /// Counts `n` drops.
    pub fn add(&mut self, label: &'static str, n: u64) {
        let count = self.counts.entry(label).or_default();
        // Saturates, because a wrapped count would look like few drops.
        *count = count.saturating_add(n);
    }

    /// Returns the number of drops with this label.
    pub fn of(&self, label: &str) -> u64 {
        self.counts.get(label).copied().unwrap_or(0)
    }

    /// Iterates over the labels that occurred and their counts, in the order of the labels.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(label, n)| (*label, *n))
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &DropCounters) {
        other.iter().for_each(|(label, n)| self.add(label, n));
    }

    /// Adds the counts of a link service.
    pub fn merge_link(&mut self, drops: &LinkDrops) {
        drops.iter().for_each(|(label, n)| self.add(label, n));
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

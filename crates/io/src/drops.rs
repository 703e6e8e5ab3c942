//! Why frames and packets are dropped at a face, and how often: by labels, those of the link
//! service among them.

use std::collections::BTreeMap;

use namely_link::LinkDrops;

/// Drops by label. Labels are constants of the program, so this stays small whatever a peer sends.
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
        *count = count.saturating_add(n);
    }

    /// How many were dropped for this reason.
    pub fn of(&self, label: &str) -> u64 {
        self.counts.get(label).copied().unwrap_or(0)
    }

    /// Every reason that occurred, with its count, in the order of labels.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(label, n)| (*label, *n))
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &DropCounters) {
        other.iter().for_each(|(label, n)| self.add(label, n));
    }

    /// Adds all that a link service dropped.
    pub fn merge_link(&mut self, drops: &LinkDrops) {
        drops.iter().for_each(|(label, n)| self.add(label, n));
    }

    /// Everything that was dropped.
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

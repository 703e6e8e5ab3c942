//! Heaps by comparisons.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Entry, EventQueue, octets_of};

/// The standard library's binary heap.
#[derive(Clone, Debug, Default)]
pub struct BinaryQueue(BinaryHeap<Reverse<Entry>>);

impl EventQueue for BinaryQueue {
    fn push(&mut self, entry: Entry) {
        self.0.push(Reverse(entry));
    }

    fn pop_before(&mut self, end_ns: u64) -> Option<Entry> {
        if self.0.peek()?.0.key.at_ns >= end_ns {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }

    fn next_ns(&mut self) -> Option<u64> {
        self.0.peek().map(|Reverse(entry)| entry.key.at_ns)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn octets(&self) -> usize {
        self.0.capacity() * size_of::<Entry>()
    }
}

/// Children of a node of [`QuadHeap`]: those of one node are in two cache lines.
const CHILDREN: usize = 4;

/// A heap in which a node has four children. It is half as deep as a binary heap, so it moves fewer
/// entries.
#[derive(Clone, Debug, Default)]
pub struct QuadHeap {
    entries: Vec<Entry>,
}

impl QuadHeap {
    /// Returns the first entry.
    pub(super) fn peek(&self) -> Option<&Entry> {
        self.entries.first()
    }

    /// Removes and returns the first entry.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        let first = *self.entries.first()?;
        let last = self.entries.pop()?;
        if !self.entries.is_empty() {
            self.sift_down(last);
        }
        Some(first)
    }

    /// Puts `entry` in the place of the first one, and moves it down.
    fn sift_down(&mut self, entry: Entry) {
        let entries = &mut self.entries[..];
        let mut at = 0;
        loop {
            let from = at * CHILDREN + 1;
            let children = &entries[from.min(entries.len())..entries.len().min(from + CHILDREN)];
            let Some((first, others)) = children.split_first() else { break };
            let (mut least, mut least_at) = (*first, from);
            for (i, child) in others.iter().enumerate() {
                if is_before(child, &least) {
                    (least, least_at) = (*child, from + 1 + i);
                }
            }
            if !is_before(&least, &entry) {
                break;
            }
            entries[at] = least;
            at = least_at;
        }
        entries[at] = entry;
    }
}

/// Compares times first, which are rarely equal: the derived order compares part by part with a
/// result of three values.
#[inline]
fn is_before(one: &Entry, other: &Entry) -> bool {
    if one.key.at_ns == other.key.at_ns { one < other } else { one.key.at_ns < other.key.at_ns }
}

impl EventQueue for QuadHeap {
    fn push(&mut self, entry: Entry) {
        let mut at = self.entries.len();
        self.entries.push(entry);
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if !is_before(&entry, &self.entries[parent]) {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = entry;
    }

    fn pop_before(&mut self, end_ns: u64) -> Option<Entry> {
        if self.peek()?.key.at_ns >= end_ns {
            return None;
        }
        self.pop()
    }

    fn next_ns(&mut self) -> Option<u64> {
        self.peek().map(|entry| entry.key.at_ns)
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn octets(&self) -> usize {
        octets_of(&self.entries)
    }
}

//! The content store's index: one entry for the whole name of a cached Data and one for each of its proper
//! prefixes (`IS-30`). Entries of one Data form a list; entries of one name form another, newest first,
//! under a node in the hash table, so that equal prefixes of many Data cost one probe.

use crate::chains::{Chained, Chains};
use crate::prefix_table::Key;
use crate::slab::{Id, NONE, Slab};

/// The index. A node's name is never copied: it is read from a packet that has it, through `name_of`.
pub(crate) struct Index {
    nodes: Chains<Node>,
    entries: Slab<Entry>,
}

/// A distinct name: the whole name of some Data, a proper prefix of some, or both.
#[derive(Clone, Copy, Debug)]
struct Node {
    hash: u64,
    next: Id,
    /// Entries of Data with exactly this name.
    exact: Id,
    /// Entries of Data whose names extend this one.
    extended: Id,
    octets: u16,
}

/// A Data under one of its prefixes. The node may be left through any of its lists without a search.
#[derive(Clone, Copy, Debug)]
struct Entry {
    node: Id,
    packet: Id,
    /// Neighbours under the same node.
    newer: Id,
    older: Id,
    /// The next entry of the same Data.
    sibling: Id,
    exact: bool,
}

impl Chained for Node {
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

impl Index {
    pub(super) fn new(entries_max: usize) -> Self {
        Index { nodes: Chains::new(entries_max), entries: Slab::new() }
    }

    /// Entries of all Data.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether neither entries nor nodes are left.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.len() == 0 && self.nodes.len() == 0
    }

    /// Files `packet` under every prefix of `key`; returns the first of its entries.
    pub(super) fn insert<'a>(&mut self, packet: Id, key: Key<'_>, name_of: impl Fn(Id) -> &'a [u8]) -> Id {
        let components = key.hashes.len();
        let mut sibling = NONE;
        for n in 1..=components {
            let node = match self.find(key, n, &name_of) {
                Some(node) => node,
                None => {
                    let octets = key.hashes.end(n) as u16;
                    let hash = key.hashes.hash(n);
                    self.nodes.insert(Node { hash, next: NONE, exact: NONE, extended: NONE, octets })
                }
            };
            sibling = self.file(node, packet, sibling, n == components);
        }
        sibling
    }

    /// Takes out all entries of a Data, given the first.
    pub(super) fn remove(&mut self, first: Id) {
        let mut id = first;
        while let Some(entry) = self.entries.remove(id) {
            match self.entries.get_mut(entry.newer) {
                Some(newer) => newer.older = entry.older,
                None => self.set_head(entry.node, entry.exact, entry.older),
            }
            if let Some(older) = self.entries.get_mut(entry.older) {
                older.newer = entry.newer;
            }
            id = entry.sibling;
        }
    }

    /// The node of the first `n` components of `key`.
    pub(super) fn find<'a>(&self, key: Key<'_>, n: usize, name_of: &impl Fn(Id) -> &'a [u8]) -> Option<Id> {
        let name = key.prefix(n);
        self.nodes.find(key.hashes.hash(n), |node| {
            let any = if node.exact != NONE { node.exact } else { node.extended };
            let packet = self.entries.get(any).map_or(NONE, |entry| entry.packet);
            usize::from(node.octets) == name.len() && name_of(packet).starts_with(name)
        })
    }

    /// The packets with exactly the node's name, newest first.
    pub(super) fn exact(&self, node: Id) -> impl Iterator<Item = Id> {
        self.packets(self.nodes.get(node).map_or(NONE, |node| node.exact))
    }

    /// The packets whose names extend the node's, newest first.
    pub(super) fn extended(&self, node: Id) -> impl Iterator<Item = Id> {
        self.packets(self.nodes.get(node).map_or(NONE, |node| node.extended))
    }

    fn packets(&self, head: Id) -> impl Iterator<Item = Id> {
        let mut id = head;
        core::iter::from_fn(move || {
            let entry = self.entries.get(id)?;
            id = entry.older;
            Some(entry.packet)
        })
    }

    fn file(&mut self, node: Id, packet: Id, sibling: Id, exact: bool) -> Id {
        let older = self.nodes.get(node).map_or(NONE, |n| if exact { n.exact } else { n.extended });
        let id = self.entries.insert(Entry { node, packet, newer: NONE, older, sibling, exact });
        if let Some(older) = self.entries.get_mut(older) {
            older.newer = id;
        }
        self.set_head(node, exact, id);
        id
    }

    /// Changes the newest entry of a list; a node without entries goes.
    fn set_head(&mut self, node: Id, exact: bool, head: Id) {
        let Some(own) = self.nodes.get_mut(node) else { return };
        if exact {
            own.exact = head;
        } else {
            own.extended = head;
        }
        if own.exact == NONE && own.extended == NONE {
            self.nodes.remove(node);
        }
    }
}

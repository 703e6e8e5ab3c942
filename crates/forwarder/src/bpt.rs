//! The binding prefix table: which local application serves which prefix (`IS-05`). Consulted only for
//! Interests that the FIB sent to the face `local`.
//!
//! Rule 1 (`IS-06`): a prefix that is bound is neither equal to, nor a proper prefix of, another bound
//! prefix; the check and the bind happen under one lock, so of two concurrent binds exactly one wins.
//! Rule 2 (`IS-07`): a prefix that no route leads to may be bound; the answer says so.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use namely_wire::Name;

use crate::faces::{FaceId, FaceKey};
use crate::prefix_table::{Key, PrefixTable};
use crate::slab::Id;

/// What a successful bind can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The FIB leads Interests for the prefix to the face `local`.
    Routed,
    /// No FIB entry leads there yet: until one does, the application gets no Interest (rule 2).
    NotRouted,
}

/// Why a bind was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindError {
    /// The prefix equals a bound one, extends one, or is extended by one.
    InUse,
    /// There is no face with this id.
    NoFace,
    /// The face leads to another host; only upper faces bind.
    NotUpper,
    /// `bindings_max` prefixes are bound.
    TableFull,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BindError::InUse => "the prefix overlaps one that is bound: choose a name beside it",
            BindError::NoFace => "no such face: list the faces to see which exist",
            BindError::NotUpper => "only an application's face can bind a prefix",
            BindError::TableFull => "too many prefixes are bound: release some or raise bindings_max",
        })
    }
}

impl core::error::Error for BindError {}

/// A name that is bound, or on the way to names that are.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    face: Option<FaceKey>,
    /// Bound names that extend this one.
    beneath: u32,
}

pub(crate) struct Bpt {
    table: PrefixTable<Node>,
    by_face: BTreeMap<FaceKey, BTreeSet<Name>>,
    len: usize,
    bindings_max: usize,
}

impl Bpt {
    pub(crate) fn new(bindings_max: usize) -> Self {
        Bpt { table: PrefixTable::new(bindings_max), by_face: BTreeMap::new(), len: 0, bindings_max }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The face that bound a prefix of `key`. Rule 1 leaves at most one.
    pub(crate) fn find(&self, key: Key<'_>) -> Option<FaceKey> {
        if self.len == 0 {
            return None;
        }
        self.table.matches(key).find_map(|node| node.face)
    }

    pub(crate) fn bind(&mut self, key: Key<'_>, name: Name, face: FaceKey) -> Result<(), BindError> {
        let n = key.hashes.len();
        let extended = self.table.find(key, n).and_then(|id| self.table.value(id)).is_some();
        if extended || self.find(key).is_some() {
            return Err(BindError::InUse);
        }
        if self.len >= self.bindings_max {
            return Err(BindError::TableFull);
        }
        for prefix in 0..n {
            self.node(key, prefix, |node| node.beneath += 1);
        }
        self.node(key, n, |node| node.face = Some(face));
        self.by_face.entry(face).or_default().insert(name);
        self.len += 1;
        Ok(())
    }

    /// Undoes a bind of `face`; says whether there was one.
    pub(crate) fn unbind(&mut self, key: Key<'_>, name: &Name, face: FaceKey) -> bool {
        let n = key.hashes.len();
        let bound = self.table.find(key, n).filter(|id| self.face(*id) == Some(face));
        let Some(id) = bound else { return false };
        self.table.remove(id);
        for prefix in 0..n {
            self.node(key, prefix, |node| node.beneath -= 1);
            let empty = self.table.find(key, prefix).filter(|id| self.beneath(*id) == 0);
            empty.and_then(|id| self.table.remove(id));
        }
        if let Some(names) = self.by_face.get_mut(&face) {
            names.remove(name);
            if names.is_empty() {
                self.by_face.remove(&face);
            }
        }
        self.len -= 1;
        true
    }

    /// The names that `face` has bound.
    pub(crate) fn names_of(&self, face: FaceKey) -> Vec<Name> {
        self.by_face.get(&face).map(|names| names.iter().cloned().collect()).unwrap_or_default()
    }

    /// All bindings.
    pub(crate) fn snapshot(&self) -> Vec<(Name, FaceId)> {
        let bindings =
            self.by_face.iter().flat_map(|(face, names)| names.iter().map(|n| (n.clone(), face.id())));
        bindings.collect()
    }

    fn face(&self, id: Id) -> Option<FaceKey> {
        self.table.value(id).and_then(|node| node.face)
    }

    fn beneath(&self, id: Id) -> u32 {
        self.table.value(id).map_or(0, |node| node.beneath)
    }

    fn node(&mut self, key: Key<'_>, n: usize, change: impl FnOnce(&mut Node)) {
        let id = match self.table.find(key, n) {
            Some(id) => id,
            None => self.table.insert(key, n, Node::default()),
        };
        if let Some(node) = self.table.value_mut(id) {
            change(node);
        }
    }
}

#[cfg(test)]
mod tests;

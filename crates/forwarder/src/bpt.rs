//! The binding prefix table: which local application serves which prefix (`IS-05`). Consulted only
//! for Interests that the FIB sent to the face `local`.
//!
//! Rule 1 (`IS-06`): a prefix that is bound is neither equal to, nor a proper prefix of, another
//! bound prefix; the check and the bind happen under one lock, so of two concurrent binds exactly
//! one wins. Rule 2 (`IS-07`): a prefix that no route leads to may be bound; the answer says so.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use lock_api::{Mutex, RawMutex};
use namely_wire::Name;

use crate::config::ConfigError;
use crate::faces::{FaceId, FaceKey};
use crate::prefix_table::{Key, Pair, Pairs, PrefixTable, Writer};
use crate::shares::{Holder, Ledger, Names};
use crate::slab::{ENTRIES_MAX, Id};

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
    /// The holder of the face has bound `bindings_per_holder_max` prefixes, or names of
    /// `bindings_octets_per_holder_max` octets.
    HolderFull,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BindError::InUse => "the prefix overlaps one that is bound: choose a name beside it",
            BindError::NoFace => "no such face: list the faces to see which exist",
            BindError::NotUpper => "only an application's face can bind a prefix",
            BindError::TableFull => "too many prefixes are bound: release some or raise bindings_max",
            BindError::HolderFull => "this user has bound as many prefixes, or as long ones, as one may",
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

impl Node {
    /// Low bit of the second number: whether the first one is a face.
    fn pair(self) -> Pair {
        let bound = u64::from(self.face.is_some());
        (self.face.map_or(0, FaceKey::bits), u64::from(self.beneath) << 1 | bound)
    }

    fn from_pair((face, state): Pair) -> Self {
        Node { face: (state & 1 == 1).then(|| FaceKey::from_bits(face)), beneath: (state >> 1) as u32 }
    }
}

pub(crate) struct Bpt<R> {
    table: PrefixTable,
    control: Mutex<R, Control>,
    bindings_max: usize,
}

struct Control {
    writer: Writer,
    by_face: BTreeMap<FaceKey, Bindings>,
    ledger: Ledger,
    len: usize,
}

/// What a face has bound.
struct Bindings {
    /// Who pays.
    who: Holder,
    names: BTreeSet<Name>,
}

impl<R: RawMutex> Bpt<R> {
    /// `holder_max` is what one holder may have.
    pub(crate) fn new(bindings_max: usize, holder_max: Names) -> Result<Self, ConfigError> {
        let nodes_max = bindings_max.saturating_mul(NODES_PER_BINDING).min(ENTRIES_MAX);
        let table = PrefixTable::new(nodes_max)?;
        let (writer, by_face, ledger) = (Writer::default(), BTreeMap::new(), Ledger::new(holder_max));
        let control = Mutex::new(Control { writer, by_face, ledger, len: 0 });
        Ok(Bpt { table, control, bindings_max })
    }

    /// Makes the next memory; returns true if any was made.
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        self.table.grow()
    }

    /// Makes the memory for `names` more names of so many octets each, with the names above them.
    pub(crate) fn make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        // A component has two octets at least, and a name so many of them at most.
        let above = 1 + (octets / 2).min(namely_wire::COMPONENTS_MAX);
        self.table.make_room(names.saturating_mul(above), octets)
    }

    pub(crate) fn len(&self) -> usize {
        self.control.lock().len
    }

    /// The face that bound a prefix of `key`. Rule 1 leaves at most one.
    pub(crate) fn find(&self, key: Key<'_>) -> Option<FaceKey> {
        self.table.find_longest(&self.control, key, bound_to)
    }

    /// Binds a name for a face, for which `who` pays.
    pub(crate) fn bind(&self, key: Key<'_>, name: Name, face: FaceKey, who: Holder) -> Result<(), BindError> {
        let Control { writer, by_face, ledger, len } = &mut *self.control.lock();
        let n = key.hashes.len();
        let extended = self.table.find(writer, key, n).is_some();
        if extended || self.table.find_longest_locked(writer, key, bound_to).is_some() {
            return Err(BindError::InUse);
        }
        if *len >= self.bindings_max {
            return Err(BindError::TableFull);
        }
        let octets = name.as_name().as_bytes().len();
        if !ledger.charge(who, octets) {
            return Err(BindError::HolderFull);
        }
        for prefix in 0..=n {
            let changed = self.change(writer, key, prefix, |node| match prefix == n {
                true => node.face = Some(face),
                false => node.beneath += 1,
            });
            if !changed {
                (0..prefix).for_each(|prefix| self.leave(writer, key, prefix));
                ledger.credit(who, octets);
                return Err(BindError::TableFull);
            }
        }
        by_face.entry(face).or_insert_with(|| Bindings { who, names: BTreeSet::new() }).names.insert(name);
        *len += 1;
        Ok(())
    }

    /// Undoes a bind of `face`; returns true if there was one.
    pub(crate) fn unbind(&self, key: Key<'_>, name: &Name, face: FaceKey) -> bool {
        let Control { writer, by_face, ledger, len } = &mut *self.control.lock();
        let n = key.hashes.len();
        let bound = self.table.find(writer, key, n).filter(|id| self.node(writer, *id).face == Some(face));
        let Some(id) = bound else { return false };
        self.table.remove(writer, key, n, id);
        (0..n).for_each(|prefix| self.leave(writer, key, prefix));
        if let Some(Bindings { who, names }) = by_face.get_mut(&face) {
            ledger.credit(*who, name.as_name().as_bytes().len());
            names.remove(name);
            if names.is_empty() {
                by_face.remove(&face);
            }
        }
        *len -= 1;
        true
    }

    /// How many names `face` has bound.
    pub(crate) fn count_of(&self, face: FaceKey) -> usize {
        self.control.lock().by_face.get(&face).map_or(0, |bindings| bindings.names.len())
    }

    /// Whether `face` has bound this very name.
    pub(crate) fn holds(&self, key: Key<'_>, face: FaceKey) -> bool {
        let Control { writer, .. } = &*self.control.lock();
        let bound = self.table.find(writer, key, key.hashes.len());
        bound.is_some_and(|id| self.node(writer, id).face == Some(face))
    }

    /// The names that `face` has bound, at most `count` of them.
    pub(crate) fn names_of(&self, face: FaceKey, count: usize) -> Vec<Name> {
        let control = self.control.lock();
        control
            .by_face
            .get(&face)
            .map(|bindings| bindings.names.iter().take(count).cloned().collect())
            .unwrap_or_default()
    }

    /// Adds the bindings of up to `count` places from `from` on; returns where to go on.
    pub(crate) fn walk(&self, from: Id, count: Id, bindings: &mut Vec<(Name, FaceId)>) -> Option<Id> {
        let control = self.control.lock();
        let (nodes, next) = self.table.walk(&control.writer, from, count);
        bindings.extend(nodes.filter_map(|(name, pairs)| {
            let face = pairs.first().and_then(|pair| Node::from_pair(*pair).face)?;
            Some((name, face.id()))
        }));
        next
    }

    /// All bindings.
    pub(crate) fn snapshot(&self) -> Vec<(Name, FaceId)> {
        let control = self.control.lock();
        let names = |(face, bindings): (&FaceKey, &Bindings)| {
            let id = face.id();
            bindings.names.iter().map(move |name| (name.clone(), id)).collect::<Vec<_>>()
        };
        control.by_face.iter().flat_map(names).collect()
    }

    fn node(&self, writer: &Writer, id: Id) -> Node {
        self.table.pairs(writer, id).first().copied().map(Node::from_pair).unwrap_or_default()
    }

    /// One name fewer is bound below this prefix; without any it leaves the table.
    fn leave(&self, writer: &mut Writer, key: Key<'_>, prefix: usize) {
        self.change(writer, key, prefix, |node| node.beneath -= 1);
        let empty = self.table.find(writer, key, prefix).filter(|id| self.node(writer, *id).beneath == 0);
        if let Some(id) = empty {
            self.table.remove(writer, key, prefix, id);
        }
    }

    /// Changes a node, which is made if it does not exist; returns false without room for it.
    fn change(&self, writer: &mut Writer, key: Key<'_>, n: usize, change: impl FnOnce(&mut Node)) -> bool {
        let known = self.table.find(writer, key, n);
        let mut node = known.map(|id| self.node(writer, id)).unwrap_or_default();
        change(&mut node);
        match known {
            Some(id) => self.table.set_pairs(writer, id, &[node.pair()]),
            None => self.table.insert(writer, key, n, node.pair()).is_some(),
        }
    }
}

fn bound_to(_: usize, mut pairs: Pairs<'_>) -> Option<FaceKey> {
    pairs.next().and_then(|pair| Node::from_pair(pair).face)
}

/// Nodes that a binding may take on average: one for each component of its name, less what it
/// shares with others.
const NODES_PER_BINDING: usize = 16;

#[cfg(test)]
mod tests;

//! The binding prefix table: which local application serves which prefix (`IS-05`). Consulted only
//! for Interests that the FIB sent to the face `local`.
//!
//! Rule 1 (`IS-06`): a prefix that is bound is neither equal to, nor a proper prefix of, another
//! bound prefix; the check and the bind happen under one lock, so of two concurrent binds exactly
//! one wins. Rule 2 (`IS-07`): a prefix that no route leads to may be bound; the answer says so.

use core::fmt;

use lock_api::RawMutex;
use namely_wire::NameRef;

use crate::error::ConfigError;
use crate::face_id::{FaceId, FaceKey};
use crate::hash::NameHasher;
use crate::limits::BindingLimits;
use crate::lock_order::WriterLock;
use crate::name_keys::Work;
use crate::ordered::Ordered;
use crate::prefix_table::{Key, NameOctets, NoBlock, Pair, Pairs, PrefixTable, Writer};
use crate::shares::{Charged, Holder, Ledger};
use crate::slab::{ENTRIES_MAX, Id, NONE};

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
    /// There is no memory for it.
    NoMemory,
}

impl From<NoBlock> for BindError {
    fn from(none: NoBlock) -> Self {
        match none {
            NoBlock::Full => BindError::TableFull,
            NoBlock::NoMemory => BindError::NoMemory,
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BindError::InUse => "the prefix overlaps one that is bound: choose a name beside it",
            BindError::NoFace => "no such face: list the faces to see which exist",
            BindError::NotUpper => "only an application's face can bind a prefix",
            BindError::TableFull => "too many prefixes are bound: release some or raise bindings_max",
            BindError::HolderFull => "this user has bound as many prefixes, or as long ones, as one may",
            BindError::NoMemory => "there is no memory for it: try again later",
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

    fn from_pair(pair: Pair) -> Self {
        let (face, state) = pair;
        Node { face: (state & 1 == 1).then(|| FaceKey::from_bits(face)), beneath: (state >> 1) as u32 }
    }
}

pub(crate) struct Bpt<R> {
    table: PrefixTable,
    control: WriterLock<R, Control>,
    bindings_max: usize,
}

struct Control {
    writer: Writer,
    /// Which entries each face has bound.
    by_face: Ordered<(FaceKey, Id), ()>,
    /// Those that have any.
    binders: Ordered<FaceKey, Binder>,
    ledger: Ledger,
    len: usize,
}

/// A face that has bound names.
#[derive(Clone, Copy)]
struct Binder {
    /// Who pays.
    who: Holder,
    names: usize,
}

impl<R: RawMutex> Bpt<R> {
    /// `holder_max` is what one holder may have.
    pub(crate) fn new(limits: &BindingLimits) -> Result<Self, ConfigError> {
        let (bindings_max, holder_max) = (limits.entries_max, limits.per_holder_max());
        let nodes_max = bindings_max.saturating_mul(NODES_PER_BINDING).min(ENTRIES_MAX);
        let table = PrefixTable::new(nodes_max)?;
        let control = Control {
            writer: Writer::default(),
            by_face: Ordered::with_room(bindings_max)?,
            binders: Ordered::default(),
            ledger: Ledger::new(holder_max),
            len: 0,
        };
        Ok(Bpt { table, control: WriterLock::new(control), bindings_max })
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
        self.table.find_longest(self.control.mutex(), key, bound_to)
    }

    /// Binds the name of `key` for a face, for which `who` pays. If it is refused, nothing has
    /// changed.
    pub(crate) fn bind(&self, key: Key<'_>, face: FaceKey, who: Holder) -> Result<(), BindError> {
        let Control { writer, by_face, binders, ledger, len } = &mut *self.control.lock();
        let n = key.hashes.len();
        let extended = self.table.find(writer, key, n).is_some();
        if extended || self.table.find_longest_locked(writer, key, bound_to).is_some() {
            return Err(BindError::InUse);
        }
        if *len >= self.bindings_max {
            return Err(BindError::TableFull);
        }
        // The memory of the lists first: after that only a node can be refused, and those before it
        // are taken back.
        by_face.reserve().and_then(|()| binders.reserve()).map_err(|_| BindError::NoMemory)?;
        match ledger.charge(who, key.octets.len()) {
            Charged::Yes => {}
            Charged::Full => return Err(BindError::HolderFull),
            Charged::NoMemory => return Err(BindError::NoMemory),
        }
        for prefix in 0..=n {
            let changed = self.change(writer, key, prefix, |node| match prefix == n {
                true => node.face = Some(face),
                false => node.beneath += 1,
            });
            if let Err(none) = changed {
                // Readers may have seen the nodes above, which bind nothing: only the last one
                // names the face.
                (0..prefix).for_each(|prefix| self.leave(writer, key, prefix));
                ledger.credit(who, key.octets.len());
                return Err(none.into());
            }
        }
        let names = binders.get(&face).map_or(0, |binder| binder.names);
        let bound = self.table.find(writer, key, n).unwrap_or(NONE);
        // There is room for both.
        let _ = by_face.insert((face, bound), ());
        let _ = binders.insert(face, Binder { who, names: names + 1 });
        *len += 1;
        Ok(())
    }

    /// Undoes a bind of `face`; returns true if there was one.
    pub(crate) fn unbind(&self, key: Key<'_>, face: FaceKey) -> bool {
        let control = &mut *self.control.lock();
        let bound = self.table.find(&control.writer, key, key.hashes.len());
        let bound = bound.filter(|id| self.node(&control.writer, *id).face == Some(face));
        bound.is_some_and(|id| self.take_out(control, key, id, face))
    }

    fn take_out(&self, control: &mut Control, key: Key<'_>, id: Id, face: FaceKey) -> bool {
        let Control { writer, by_face, binders, ledger, len } = control;
        let n = key.hashes.len();
        self.table.remove(writer, key, n, id);
        (0..n).for_each(|prefix| self.leave(writer, key, prefix));
        by_face.remove(&(face, id));
        if let Some(binder) = binders.get_mut(&face) {
            ledger.credit(binder.who, key.octets.len());
            binder.names -= 1;
            if binder.names == 0 {
                binders.remove(&face);
            }
        }
        *len -= 1;
        true
    }

    /// Unbinds up to `count` names of a face that is gone; returns how many.
    pub(crate) fn remove_face(
        &self,
        hasher: &NameHasher,
        work: &mut Work,
        face: FaceKey,
        count: usize,
    ) -> usize {
        let (hashes, octets) = work.parts();
        let control = &mut *self.control.lock();
        for removed in 0..count {
            let next = control.by_face.first_from(&(face, NONE)).map(|(next, ())| next);
            let Some((_, id)) = next.filter(|(of, _)| *of == face) else { return removed };
            let Some(name) = self.table.name(&control.writer, id, octets) else { return removed };
            self.take_out(control, Key::filled(hasher, name, hashes), id, face);
        }
        count
    }

    /// How many names `face` has bound.
    pub(crate) fn count_of(&self, face: FaceKey) -> usize {
        self.control.lock().binders.get(&face).map_or(0, |binder| binder.names)
    }

    /// Whether `face` has bound this very name.
    pub(crate) fn holds(&self, key: Key<'_>, face: FaceKey) -> bool {
        let Control { writer, .. } = &*self.control.lock();
        let bound = self.table.find(writer, key, key.hashes.len());
        bound.is_some_and(|id| self.node(writer, id).face == Some(face))
    }

    /// Shows the bindings of some places; see [`PrefixTable::walk`].
    pub(crate) fn walk(
        &self,
        from: Id,
        count: Id,
        octets: &mut NameOctets,
        mut show: impl FnMut(NameRef<'_>, FaceId) -> bool,
    ) -> Option<Id> {
        let control = self.control.lock();
        self.table.walk(&control.writer, from, count, octets, |name, pairs| {
            bound_to(0, pairs).is_none_or(|face| show(name, face.id()))
        })
    }

    fn node(&self, writer: &Writer, id: Id) -> Node {
        self.table.pairs(writer, id).next().map(Node::from_pair).unwrap_or_default()
    }

    /// One name fewer is bound below this prefix; without any it leaves the table.
    fn leave(&self, writer: &mut Writer, key: Key<'_>, prefix: usize) {
        // A node that is there changes in place.
        let _ = self.change(writer, key, prefix, |node| node.beneath -= 1);
        let empty = self.table.find(writer, key, prefix).filter(|id| self.node(writer, *id).beneath == 0);
        if let Some(id) = empty {
            self.table.remove(writer, key, prefix, id);
        }
    }

    /// Changes a node, which is made if it does not exist.
    fn change(
        &self,
        writer: &mut Writer,
        key: Key<'_>,
        n: usize,
        change: impl FnOnce(&mut Node),
    ) -> Result<(), NoBlock> {
        let known = self.table.find(writer, key, n);
        let mut node = known.map(|id| self.node(writer, id)).unwrap_or_default();
        change(&mut node);
        match known {
            Some(id) => self.table.set_pairs(writer, id, 1, core::iter::once(node.pair())),
            None => self.table.insert(writer, key, n, node.pair()).map(drop),
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

//! The binding prefix table: the local applications and the prefixes that they serve (`IS-05`).
//! Used only for Interests that the FIB sent to the face `local`.
//!
//! Rule 1 (`IS-06`): a bound prefix is neither equal to, nor a proper prefix of, another bound
//! prefix. The check and the bind happen under one lock, so exactly one of two concurrent binds
//! succeeds. Rule 2 (`IS-07`): a prefix without a route may be bound; the result reports that.

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
use crate::shares::{ChargeOutcome, Owner, OwnerAccounting};
use crate::slab::{ENTRIES_MAX, Id, NONE};

/// The result of a successful bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The FIB has a route for the prefix to the face `local`.
    Routed,
    /// The FIB has no such route yet. Until it has one, the application receives no Interest (rule
    /// 2).
    NotRouted,
}

/// The reason for which a bind was refused.
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
    /// The owner of the face has bound `bindings_per_holder_max` prefixes, or names of
    /// `bindings_octets_per_holder_max` octets.
    OwnerFull,
    /// There is not enough memory for the binding.
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
            BindError::OwnerFull => "this user has bound as many prefixes, or as long ones, as one may",
            BindError::NoMemory => "no memory for the binding: try again later",
        })
    }
}

impl core::error::Error for BindError {}

/// A bound name, or a prefix of one.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    face: Option<FaceKey>,
    /// Bound names that extend this one.
    beneath: u32,
}

impl Node {
    /// The low bit of the second number is set if the first number is a face.
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
    /// The entries that each face has bound.
    by_face: Ordered<(FaceKey, Id), ()>,
    /// Faces with bindings.
    binders: Ordered<FaceKey, Binder>,
    ledger: OwnerAccounting,
    len: usize,
}

/// A face with bindings.
#[derive(Clone, Copy)]
struct Binder {
    /// The owner that is charged.
    owner: Owner,
    names: usize,
}

impl<R: RawMutex> Bpt<R> {
    /// An empty table with these limits.
    pub(crate) fn new(limits: &BindingLimits) -> Result<Self, ConfigError> {
        let (bindings_max, holder_max) = (limits.entries_max, limits.per_holder_max());
        let nodes_max = bindings_max.saturating_mul(NODES_PER_BINDING).min(ENTRIES_MAX);
        let table = PrefixTable::new(nodes_max)?;
        let control = Control {
            writer: Writer::default(),
            by_face: Ordered::with_room(bindings_max)?,
            binders: Ordered::default(),
            ledger: OwnerAccounting::new(holder_max),
            len: 0,
        };
        Ok(Bpt { table, control: WriterLock::new(control), bindings_max })
    }

    /// Allocates the next memory; returns true if any was allocated.
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        self.table.grow()
    }

    /// Allocates the memory for `names` more names of `octets` octets each, and for the nodes of
    /// their prefixes.
    pub(crate) fn make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        // A component has at least two octets, and a name at most `COMPONENTS_MAX` components.
        let above = 1 + (octets / 2).min(namely_wire::COMPONENTS_MAX);
        self.table.make_room(names.saturating_mul(above), octets)
    }

    pub(crate) fn len(&self) -> usize {
        // Under the lock, because the table counts nodes; only the control path needs the number.
        self.control.lock().len
    }

    /// The face that bound a prefix of `key`. By rule 1 there is at most one.
    pub(crate) fn find(&self, key: Key<'_>) -> Option<FaceKey> {
        self.table.find_longest(self.control.mutex(), key, bound_to)
    }

    /// Binds the name of `key` for a face of `owner`. A refused bind changes nothing.
    pub(crate) fn bind(&self, key: Key<'_>, face: FaceKey, owner: Owner) -> Result<(), BindError> {
        let Control { writer, by_face, binders, ledger, len } = &mut *self.control.lock();
        let n = key.hashes.len();
        // A node of this name is bound or has bound names below it, so this check is one direction
        // of rule 1. The lookup after it is the other one.
        let extended = self.table.find(writer, key, n).is_some();
        if extended || self.table.find_longest_locked(writer, key, bound_to).is_some() {
            return Err(BindError::InUse);
        }
        if *len >= self.bindings_max {
            return Err(BindError::TableFull);
        }
        // The memory of the lists is reserved first, and then the owner is charged. After that only
        // the insertion of a node can fail; the nodes before it are then removed again.
        by_face.reserve().and_then(|()| binders.reserve()).map_err(|_| BindError::NoMemory)?;
        match ledger.charge(owner, key.octets.len()) {
            ChargeOutcome::Yes => {}
            ChargeOutcome::Full => return Err(BindError::OwnerFull),
            ChargeOutcome::NoMemory => return Err(BindError::NoMemory),
        }
        for prefix in 0..=n {
            let changed = self.change(writer, key, prefix, |node| match prefix == n {
                true => node.face = Some(face),
                false => node.beneath += 1,
            });
            if let Err(none) = changed {
                // Readers may have seen the nodes above. These bind nothing, because only the last
                // node has the face.
                (0..prefix).for_each(|prefix| self.leave(writer, key, prefix));
                ledger.credit(owner, key.octets.len());
                return Err(none.into());
            }
        }
        let names = binders.get(&face).map_or(0, |binder| binder.names);
        let bound = self.table.find(writer, key, n).unwrap_or(NONE);
        // There is capacity for both.
        let _ = by_face.insert((face, bound), ());
        let _ = binders.insert(face, Binder { owner, names: names + 1 });
        *len += 1;
        Ok(())
    }

    /// Removes a binding of `face`; returns true if there was one.
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
            ledger.credit(binder.owner, key.octets.len());
            binder.names -= 1;
            if binder.names == 0 {
                binders.remove(&face);
            }
        }
        *len -= 1;
        true
    }

    /// Unbinds up to `count` names of a released face; returns their number.
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

    /// The number of names that `face` has bound.
    pub(crate) fn count_of(&self, face: FaceKey) -> usize {
        self.control.lock().binders.get(&face).map_or(0, |binder| binder.names)
    }

    /// Returns true if `face` has bound exactly this name.
    pub(crate) fn holds(&self, key: Key<'_>, face: FaceKey) -> bool {
        let Control { writer, .. } = &*self.control.lock();
        let bound = self.table.find(writer, key, key.hashes.len());
        bound.is_some_and(|id| self.node(writer, id).face == Some(face))
    }

    /// Visits the bindings of some slots; see [`PrefixTable::walk`].
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

    /// Subtracts one from the number of bound names below this prefix; at zero its node is removed.
    fn leave(&self, writer: &mut Writer, key: Key<'_>, prefix: usize) {
        // An existing node changes in place.
        let _ = self.change(writer, key, prefix, |node| node.beneath -= 1);
        let empty = self.table.find(writer, key, prefix).filter(|id| self.node(writer, *id).beneath == 0);
        if let Some(id) = empty {
            self.table.remove(writer, key, prefix, id);
        }
    }

    /// Changes a node; creates it if it does not exist.
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

/// Average number of nodes of a binding: one for each component of its name, less those shared with
/// others.
const NODES_PER_BINDING: usize = 16;

#[cfg(test)]
mod tests;

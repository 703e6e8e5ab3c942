//! The Name Map Table (`VI-03`, `VI-17`). It finds the registered object of a name by the longest
//! file name that is a prefix of it. For each object it stores the planned face of its Interests
//! and the number of its Interests. Workers read it without a lock.
//!
//! A catalogue is exchanged as a whole: its names are added to the side that is not read, and then
//! the sides are swapped. A reader that was interrupted by the swap repeats its lookup. A router
//! without objects reads one word per packet and has no table.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef, PACKET_OCTETS_MAX};
use once_cell::race::OnceBox;

use crate::error::ConfigError;
use crate::face_id::FaceKey;
use crate::hash::{NameHasher, NameHashes};
use crate::limits::ObjectLimits;
use crate::lock_order::{ExchangeGuard, ExchangeLock, WriterLock};
use crate::pool::boxed;
use crate::prefix_table::{Key, Pairs, PrefixTable, Writer};
use crate::slab::Id;
use crate::sync::{AtomicU64, Ordering, fence};

/// Neighbors whose Interests do not count as demand.
///
/// # Limit
/// Interests of a further neighbor count as those of a consumer.
/// - Tests: `a_neighbor_past_the_limit_is_a_consumer`
pub const OBJECT_NEIGHBOURS_MAX: usize = 64;

/// Names that are removed under one hold of the lock.
const CLEARED_AT_ONCE: Id = 1024;

/// A name of a catalogue. All names below it belong to its object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectName<'a> {
    /// The file's name.
    pub name: NameRef<'a>,
    /// The index of its object, below `objects_max`.
    pub object: u32,
    /// The id of the object, which stays the same in all catalogues.
    pub id: u64,
}

/// The reason for which a catalogue was refused. The previous one stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectsError {
    /// There are more than `object_names_max` names, or no memory for more.
    TableFull,
    /// An object is not below `objects_max`.
    NoSuchObject,
    /// A name occurs twice.
    Repeated,
    /// There is no memory for the tables.
    OutOfMemory,
}

impl fmt::Display for ObjectsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectsError::TableFull => "too many names: register fewer objects or raise object_names_max",
            ObjectsError::NoSuchObject => "too many objects: register fewer or raise objects_max",
            ObjectsError::Repeated => "a file is in two objects: each name may be there once",
            ObjectsError::OutOfMemory => "no memory for the names of objects: register fewer",
        })
    }
}

impl core::error::Error for ObjectsError {}

/// The object of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectMatch {
    pub(crate) object: u32,
    pub(crate) id: u64,
}

/// The state of an object.
#[derive(Debug, Default)]
struct State {
    /// The planned face of its Interests; 0 for none.
    direction: AtomicU64,
    requests: AtomicU64,
}

struct Side<R> {
    table: PrefixTable,
    control: WriterLock<R, Writer>,
}

struct Tables<R> {
    /// The lowest bit selects the side that is read.
    exchanged: AtomicU64,
    sides: [Side<R>; 2],
    states: Box<[State]>,
    neighbours: Box<[AtomicU64]>,
}

pub(crate) struct Objects<R> {
    tables: OnceBox<Tables<R>>,
    /// Held during an exchange of catalogues.
    exchanging: ExchangeLock<R, ()>,
    limits: ObjectLimits,
}

impl<R: RawMutex> Tables<R> {
    fn new(limits: &ObjectLimits) -> Result<Self, ConfigError> {
        let side = || {
            Ok(Side {
                table: PrefixTable::new(limits.names_max)?,
                control: WriterLock::new(Writer::default()),
            })
        };
        Ok(Tables {
            exchanged: AtomicU64::new(0),
            sides: [side()?, side()?],
            states: boxed(limits.objects_max, State::default)?,
            neighbours: boxed(OBJECT_NEIGHBOURS_MAX, || AtomicU64::new(0))?,
        })
    }

    fn find(&self, key: Key<'_>) -> Option<ObjectMatch> {
        let found = |_: usize, mut pairs: Pairs<'_>| {
            pairs.next().map(|(object, id)| ObjectMatch { object: object as u32, id })
        };
        loop {
            // Acquire pairs with the Release of an exchange: the side is filled.
            let before = self.exchanged.load(Ordering::Acquire);
            let side = &self.sides[(before & 1) as usize];
            let found = side.table.find_longest(side.control.mutex(), key, found);
            // The side is written again only after the next exchange. So a reader that has seen a
            // word of such a write also sees the new number here.
            fence(Ordering::Acquire);
            if self.exchanged.load(Ordering::Relaxed) == before {
                return found;
            }
        }
    }
}

impl<R: RawMutex> Side<R> {
    /// Removes all names.
    fn clear(&self, exchanging: &ExchangeGuard<'_, R, ()>, hasher: &NameHasher, hashes: &mut NameHashes) {
        let octets = &mut [0; PACKET_OCTETS_MAX];
        let mut from = Some(1);
        while let Some(start) = from {
            // Copied, because the walk borrows the writer that a removal needs.
            let mut names: Vec<Name> = Vec::new();
            let writer = self.control.lock_under(exchanging);
            from = self.table.walk(&writer, start, CLEARED_AT_ONCE, octets, |name, _| {
                names.push(name.into());
                true
            });
            drop(writer);
            for name in names {
                let key = Key::filled(hasher, name.as_name(), hashes);
                let writer = &mut *self.control.lock_under(exchanging);
                if let Some(id) = self.table.find(writer, key, key.hashes.len()) {
                    self.table.remove(writer, key, key.hashes.len(), id);
                }
            }
        }
    }

    fn insert(
        &self,
        exchanging: &ExchangeGuard<'_, R, ()>,
        name: &ObjectName<'_>,
        key: Key<'_>,
    ) -> Result<(), ObjectsError> {
        let writer = &mut *self.control.lock_under(exchanging);
        let n = key.hashes.len();
        if self.table.find(writer, key, n).is_some() {
            return Err(ObjectsError::Repeated);
        }
        let pair = (u64::from(name.object), name.id);
        self.table.insert(writer, key, n, pair).map(drop).map_err(|_| ObjectsError::TableFull)
    }
}

impl<R: RawMutex> Objects<R> {
    /// Creates a table for at most the names and objects that `limits` allow. Nothing is allocated
    /// yet.
    pub(crate) fn new(limits: &ObjectLimits) -> Self {
        Objects { tables: OnceBox::new(), exchanging: ExchangeLock::new(()), limits: *limits }
    }

    /// The maximum number of objects in a catalogue.
    pub(crate) fn objects_max(&self) -> usize {
        self.limits.objects_max
    }

    /// Exchanges the catalogue. Packets are forwarded by the previous one until this one is
    /// complete.
    pub(crate) fn exchange<'a>(
        &self,
        hasher: &NameHasher,
        hashes: &mut NameHashes,
        names: impl Iterator<Item = ObjectName<'a>>,
    ) -> Result<usize, ObjectsError> {
        let exchanging = &self.exchanging.lock();
        let make = || Tables::new(&self.limits).map(Box::new);
        let tables = self.tables.get_or_try_init(make).map_err(|_| ObjectsError::OutOfMemory)?;
        // Relaxed: it is written only under the exchange's lock, which this thread holds.
        let exchanged = tables.exchanged.load(Ordering::Relaxed) + 1;
        let side = &tables.sides[(exchanged & 1) as usize];
        // Only readers that began before the last exchange still read this side, and they repeat
        // the lookup because the number has changed. The side may still have the names of the
        // catalogue before the last one.
        side.clear(exchanging, hasher, hashes);
        for name in names {
            let entered = match (name.object as usize) < self.limits.objects_max {
                true if side.table.len() >= self.limits.names_max => Err(ObjectsError::TableFull),
                true => side.insert(exchanging, &name, Key::filled(hasher, name.name, hashes)),
                false => Err(ObjectsError::NoSuchObject),
            };
            if let Err(error) = entered {
                side.clear(exchanging, hasher, hashes);
                return Err(error);
            }
        }
        // Release: a reader that sees this number sees all names.
        tables.exchanged.store(exchanged, Ordering::Release);
        Ok(side.table.len())
    }

    /// The object of a name.
    #[inline]
    pub(crate) fn find(&self, key: Key<'_>) -> Option<ObjectMatch> {
        self.tables.get()?.find(key)
    }

    /// Sets the neighbors whose Interests do not count as demand, because they report their demand
    /// themselves.
    pub(crate) fn set_neighbours(&self, faces: impl Iterator<Item = FaceKey>) {
        let Some(tables) = self.tables.get() else { return };
        let faces = faces.map(FaceKey::bits).chain(core::iter::repeat(0));
        for (neighbour, face) in tables.neighbours.iter().zip(faces) {
            // Relaxed: an Interest that arrives meanwhile may be counted by the old list.
            neighbour.store(face, Ordering::Relaxed);
        }
    }

    /// Returns true once the tables exist, which the first exchange allocates.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.tables.get().is_some()
    }

    /// Counts a new Interest from a face. Without tables ([`Objects::are_there`]) the call does
    /// nothing and may be omitted.
    #[inline(never)]
    pub(crate) fn count(&self, key: Key<'_>, ingress: FaceKey) {
        if let Some(tables) = self.tables.get() {
            tables.count(key, ingress);
        }
    }

    /// The number of Interests for an object since the tables were allocated.
    pub(crate) fn requests(&self, object: u32) -> u64 {
        self.state(object).map_or(0, |state| state.requests.load(Ordering::Relaxed))
    }

    /// Sets the planned face of an object's Interests.
    pub(crate) fn direct(&self, object: u32, face: Option<FaceKey>) {
        if let Some(state) = self.state(object) {
            state.direction.store(face.map_or(0, FaceKey::bits), Ordering::Relaxed);
        }
    }

    /// The planned face of an object's Interests.
    pub(crate) fn direction(&self, object: u32) -> Option<FaceKey> {
        let bits = self.state(object)?.direction.load(Ordering::Relaxed);
        (bits != 0).then(|| FaceKey::from_bits(bits))
    }

    fn state(&self, object: u32) -> Option<&State> {
        self.tables.get()?.states.get(object as usize)
    }
}

impl<R: RawMutex> Tables<R> {
    fn count(&self, key: Key<'_>, ingress: FaceKey) {
        let Some(state) = self.find(key).and_then(|found| self.states.get(found.object as usize)) else {
            return;
        };
        let mut neighbours = self.neighbours.iter().map(|face| face.load(Ordering::Relaxed));
        let is_neighbour =
            neighbours.by_ref().take_while(|face| *face != 0).any(|face| face == ingress.bits());
        if !is_neighbour {
            // Relaxed: readers only need the sum.
            state.requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;

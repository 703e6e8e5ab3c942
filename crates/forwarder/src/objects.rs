//! The Name Map Table (`VI-03`, `VI-17`): which registered object a name belongs to, by the longest
//! file name that is a prefix of it, and what is known of the object: the way that its Interests
//! are to go, and how often it was asked for. Workers read it without a lock.
//!
//! A catalogue is exchanged whole: names go into the table that nobody reads, and then that is the
//! one which is read. Who was reading meanwhile looks again. A router without objects reads one
//! word for a packet and has no table.

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

/// Most neighbours whose Interests are no demand.
pub const OBJECT_NEIGHBOURS_MAX: usize = 64;

/// Names that are taken out under one hold of the lock.
const CLEARED_AT_ONCE: Id = 1024;

/// A name of a catalogue: below it lies what belongs to an object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectName<'a> {
    /// The file's name.
    pub name: NameRef<'a>,
    /// Its object, below `objects_max`.
    pub object: u32,
    /// A number of the object that it keeps from catalogue to catalogue.
    pub id: u64,
}

/// Why a catalogue was refused. The one before it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectsError {
    /// There are `object_names_max` names, or no memory for more.
    TableFull,
    /// An object is not below `objects_max`.
    NoSuchObject,
    /// A name is there twice.
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

/// What a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) object: u32,
    pub(crate) id: u64,
}

/// What is known of an object.
#[derive(Debug, Default)]
struct State {
    /// Where its Interests are to go; 0 is nowhere in particular.
    direction: AtomicU64,
    asked: AtomicU64,
}

struct Side<R> {
    table: PrefixTable,
    control: WriterLock<R, Writer>,
}

struct Tables<R> {
    /// The last bit says which side is read.
    exchanged: AtomicU64,
    sides: [Side<R>; 2],
    states: Box<[State]>,
    neighbours: Box<[AtomicU64]>,
}

pub(crate) struct Objects<R> {
    tables: OnceBox<Tables<R>>,
    /// Who exchanges catalogues excludes others.
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

    fn find(&self, key: Key<'_>) -> Option<Found> {
        let found = |_: usize, mut pairs: Pairs<'_>| {
            pairs.next().map(|(object, id)| Found { object: object as u32, id })
        };
        loop {
            // Acquire pairs with the Release of an exchange: the side is filled.
            let before = self.exchanged.load(Ordering::Acquire);
            let side = &self.sides[(before & 1) as usize];
            let found = side.table.find_longest(side.control.mutex(), key, found);
            // The side is written again only after the next exchange: who has seen a word of that
            // sees that number, too.
            fence(Ordering::Acquire);
            if self.exchanged.load(Ordering::Relaxed) == before {
                return found;
            }
        }
    }
}

impl<R: RawMutex> Side<R> {
    /// Takes out all names.
    fn clear(&self, exchanging: &ExchangeGuard<'_, R, ()>, hasher: &NameHasher, hashes: &mut NameHashes) {
        let octets = &mut [0; PACKET_OCTETS_MAX];
        let mut from = Some(1);
        while let Some(start) = from {
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
    /// Room for so many names and objects. Nothing is made for them yet.
    pub(crate) fn new(limits: &ObjectLimits) -> Self {
        Objects { tables: OnceBox::new(), exchanging: ExchangeLock::new(()), limits: *limits }
    }

    /// How many objects a catalogue may have.
    pub(crate) fn objects_max(&self) -> usize {
        self.limits.objects_max
    }

    /// Exchanges the catalogue. Packets go on being forwarded by the one before until this one is
    /// whole.
    pub(crate) fn exchange<'a>(
        &self,
        hasher: &NameHasher,
        hashes: &mut NameHashes,
        names: impl Iterator<Item = ObjectName<'a>>,
    ) -> Result<usize, ObjectsError> {
        let exchanging = &self.exchanging.lock();
        let make = || Tables::new(&self.limits).map(Box::new);
        let tables = self.tables.get_or_try_init(make).map_err(|_| ObjectsError::OutOfMemory)?;
        let exchanged = tables.exchanged.load(Ordering::Relaxed) + 1;
        let side = &tables.sides[(exchanged & 1) as usize];
        // Nobody reads this side but a reader that began before the last exchange, which will look
        // again because of the number. The side may still have the names of the catalogue before
        // the last one.
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
        // Release: who reads by this number sees all names.
        tables.exchanged.store(exchanged, Ordering::Release);
        Ok(side.table.len())
    }

    /// What the name belongs to.
    #[inline]
    pub(crate) fn find(&self, key: Key<'_>) -> Option<Found> {
        self.tables.get()?.find(key)
    }

    /// Says whose Interests are no demand, because the neighbour tells its demand itself.
    pub(crate) fn set_neighbours(&self, faces: impl Iterator<Item = FaceKey>) {
        let Some(tables) = self.tables.get() else { return };
        let faces = faces.map(FaceKey::bits).chain(core::iter::repeat(0));
        for (neighbour, face) in tables.neighbours.iter().zip(faces) {
            neighbour.store(face, Ordering::Relaxed);
        }
    }

    /// Returns true if there ever was a catalogue.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.tables.get().is_some()
    }

    /// An Interest that is new came from a face. Whoever has none ([`Objects::are_there`]) need not
    /// ask.
    #[inline(never)]
    pub(crate) fn count(&self, key: Key<'_>, ingress: FaceKey) {
        if let Some(tables) = self.tables.get() {
            tables.count(key, ingress);
        }
    }

    /// How often an object was asked for since the tables were made.
    pub(crate) fn asked(&self, object: u32) -> u64 {
        self.state(object).map_or(0, |state| state.asked.load(Ordering::Relaxed))
    }

    /// Sets where an object's Interests are to go.
    pub(crate) fn direct(&self, object: u32, face: Option<FaceKey>) {
        if let Some(state) = self.state(object) {
            state.direction.store(face.map_or(0, FaceKey::bits), Ordering::Relaxed);
        }
    }

    /// Where an object's Interests are to go.
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
            // Relaxed: whoever reads it wants a sum, and nothing follows from the order.
            state.asked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;

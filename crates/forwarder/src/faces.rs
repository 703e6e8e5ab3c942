//! The face table: upper faces (applications, internal services) and lower faces (channels to remote hosts
//! or groups) behind one kind of id (`IS-09`, `IS-10`, `IS-12`), and the permanent face `local` (`IS-11`).
//!
//! The control path registers and releases; the data path holds and puts (`IS-13`). The user count is the
//! reference count of the face's cell: `register` makes the first reference and `hold` another; `release`
//! drops the first one without waiting for the others. If others remain the face is an orphan: its id reads
//! 0 and whatever is sent to it falls into a counted black hole; the last `put` frees the shell (`IS-14`).
//!
//! Other tables name a face by [`FaceKey`], never by the public id: ids are used again, keys are not.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lock_api::{Mutex, RawMutex};

use crate::counters::{FaceCounters, PacketCounts};

/// Names a face to everybody outside the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(pub u64);

impl FaceId {
    /// No face: what the id of an orphaned face reads as.
    pub const NONE: FaceId = FaceId(0);
    /// The permanent upper face that leads from the FIB to the BPT. It can be a next hop; nothing can be
    /// received from it and it cannot be released.
    pub const LOCAL: FaceId = FaceId(1);
    /// What IncomingFaceId says on Data from the content store (the number that NFD uses).
    pub const CONTENT_STORE: FaceId = FaceId(254);
    /// The smallest id that registration gives out (as in NFD).
    pub const FIRST: FaceId = FaceId(256);
}

impl fmt::Display for FaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which table of the two-layer face system a face is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceLayer {
    /// An application's socket or a local service; it may bind prefixes.
    Upper,
    /// A channel between this host and a remote host or group.
    Lower,
}

/// Whether the other end is on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceScope {
    /// On another host: no `/localhost` packet crosses it.
    NonLocal,
    /// On this host.
    Local,
}

/// How many peers a face reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Exactly one.
    PointToPoint,
    /// A group, all of whose members hear each other.
    MultiAccess,
    /// A group, not all of whose members hear each other: a packet may go back where it came from.
    AdHoc,
}

/// What a face is, as its home describes it when it registers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceSpec {
    /// Upper or lower.
    pub layer: FaceLayer,
    /// Local or not.
    pub scope: FaceScope,
    /// Point-to-point or not.
    pub link_type: LinkType,
    /// Whether IncomingFaceId is sent and NextHopFaceId accepted; see [`crate::Forwarder::face_set_local_fields`].
    pub local_fields: bool,
}

impl FaceSpec {
    /// An application on this host.
    pub const fn application() -> Self {
        FaceSpec {
            layer: FaceLayer::Upper,
            scope: FaceScope::Local,
            link_type: LinkType::PointToPoint,
            local_fields: false,
        }
    }

    /// A channel to one remote host.
    pub const fn remote() -> Self {
        FaceSpec {
            layer: FaceLayer::Lower,
            scope: FaceScope::NonLocal,
            link_type: LinkType::PointToPoint,
            local_fields: false,
        }
    }

    /// A channel to a group of remote hosts.
    pub const fn group() -> Self {
        FaceSpec { link_type: LinkType::MultiAccess, ..FaceSpec::remote() }
    }
}

/// Why a face operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceError {
    /// `faces_max` faces exist.
    TableFull,
    /// There is no face with this id.
    NotFound,
    /// The face `local` is permanent.
    Permanent,
}

impl fmt::Display for FaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaceError::TableFull => "the face table is full: destroy faces or raise faces_max",
            FaceError::NotFound => "no such face: list the faces to see which exist",
            FaceError::Permanent => "the face local is permanent and cannot be released",
        })
    }
}

impl core::error::Error for FaceError {}

/// One face in a snapshot of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceStatus {
    /// Its id.
    pub id: FaceId,
    /// What it is; `local_fields` as it is now.
    pub spec: FaceSpec,
    /// Its user count: 1 for the registration and 1 for each holder.
    pub users: usize,
    /// Its packets.
    pub packets: PacketCounts,
}

/// Names a registration of a face. Never used again, so a record of a dead face matches no later face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FaceKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl FaceKey {
    /// The face `local`.
    pub(crate) const LOCAL: FaceKey = FaceKey { slot: u32::MAX, generation: 0 };

    /// The id that the face has or had.
    pub(crate) fn id(self) -> FaceId {
        if self == FaceKey::LOCAL { FaceId::LOCAL } else { FaceId(FaceId::FIRST.0 + u64::from(self.slot)) }
    }
}

/// A face as its holders see it.
#[derive(Debug)]
pub(crate) struct FaceCell {
    pub(crate) key: FaceKey,
    pub(crate) layer: FaceLayer,
    pub(crate) scope: FaceScope,
    pub(crate) link_type: LinkType,
    local_fields: AtomicBool,
    id: AtomicU64,
    pub(crate) counters: FaceCounters,
}

impl FaceCell {
    /// The face's id, or [`FaceId::NONE`] once it is released.
    pub(crate) fn id(&self) -> FaceId {
        FaceId(self.id.load(Ordering::Acquire))
    }

    pub(crate) fn local_fields(&self) -> bool {
        self.local_fields.load(Ordering::Relaxed)
    }

    pub(crate) fn is_local(&self) -> bool {
        self.scope == FaceScope::Local
    }

    fn spec(&self) -> FaceSpec {
        FaceSpec {
            layer: self.layer,
            scope: self.scope,
            link_type: self.link_type,
            local_fields: self.local_fields(),
        }
    }
}

/// A held face: `face_hold` makes one, and dropping it is `face_put`.
#[derive(Clone, Debug)]
pub struct FaceHold {
    pub(crate) cell: Arc<FaceCell>,
}

impl FaceHold {
    /// The face's id; [`FaceId::NONE`] once the face is orphaned.
    pub fn id(&self) -> FaceId {
        self.cell.id()
    }

    /// The packets that the face has carried.
    pub fn packets(&self) -> PacketCounts {
        self.cell.counters.read()
    }
}

/// What became of a released face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// Nobody held it: it is freed.
    Freed,
    /// Somebody holds it: it is an orphan until the last holder puts it.
    Orphaned,
}

/// The table of registered faces.
pub(crate) struct Faces<R> {
    table: Mutex<R, Table>,
}

struct Table {
    slots: Vec<Slot>,
    // The slot that has been free the longest is used first, so that an id rests before it returns.
    free: VecDeque<u32>,
    faces_max: usize,
    retired: PacketCounts,
}

struct Slot {
    generation: u32,
    cell: Option<Arc<FaceCell>>,
}

impl<R: RawMutex> Faces<R> {
    pub(crate) fn new(faces_max: usize) -> Self {
        let table =
            Table { slots: Vec::new(), free: VecDeque::new(), faces_max, retired: PacketCounts::default() };
        Faces { table: Mutex::new(table) }
    }

    pub(crate) fn register(&self, spec: FaceSpec) -> Result<FaceId, FaceError> {
        let mut table = self.table.lock();
        let slot = table.vacant_slot()?;
        let generation = table.slots[slot as usize].generation;
        let key = FaceKey { slot, generation };
        table.slots[slot as usize].cell = Some(Arc::new(FaceCell {
            key,
            layer: spec.layer,
            scope: spec.scope,
            link_type: spec.link_type,
            local_fields: AtomicBool::new(spec.local_fields),
            id: AtomicU64::new(key.id().0),
            counters: FaceCounters::default(),
        }));
        Ok(key.id())
    }

    /// Takes the face out of the table; never waits for its holders. The caller clears other tables.
    pub(crate) fn release(&self, id: FaceId) -> Result<(FaceKey, Released), FaceError> {
        let mut table = self.table.lock();
        let slot = table.slot_of(id)?;
        let place = &mut table.slots[slot as usize];
        let Some(cell) = place.cell.take() else { return Err(FaceError::NotFound) };
        place.generation = place.generation.wrapping_add(1);
        table.free.push_back(slot);
        table.retired.add(cell.counters.read());
        drop(table);
        let key = cell.key;
        cell.id.store(FaceId::NONE.0, Ordering::Release);
        let released = if Arc::into_inner(cell).is_some() { Released::Freed } else { Released::Orphaned };
        Ok((key, released))
    }

    pub(crate) fn hold(&self, id: FaceId) -> Option<FaceHold> {
        let table = self.table.lock();
        let slot = table.slot_of(id).ok()?;
        table.slots.get(slot as usize)?.cell.clone().map(|cell| FaceHold { cell })
    }

    pub(crate) fn hold_key(&self, key: FaceKey) -> Option<FaceHold> {
        let table = self.table.lock();
        let cell = table.slots.get(key.slot as usize)?.cell.as_ref()?;
        (cell.key == key).then(|| FaceHold { cell: cell.clone() })
    }

    pub(crate) fn set_local_fields(&self, id: FaceId, enabled: bool) -> Result<(), FaceError> {
        let face = self.hold(id).ok_or(FaceError::NotFound)?;
        face.cell.local_fields.store(enabled, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn snapshot(&self) -> Vec<FaceStatus> {
        let table = self.table.lock();
        let cells = table.slots.iter().filter_map(|slot| slot.cell.as_ref());
        cells
            .map(|cell| FaceStatus {
                id: cell.key.id(),
                spec: cell.spec(),
                users: Arc::strong_count(cell),
                packets: cell.counters.read(),
            })
            .collect()
    }

    /// The packets of all faces, those released included.
    pub(crate) fn packets(&self) -> PacketCounts {
        let table = self.table.lock();
        let mut sum = table.retired;
        table.slots.iter().filter_map(|s| s.cell.as_ref()).for_each(|c| sum.add(c.counters.read()));
        sum
    }
}

impl Table {
    fn vacant_slot(&mut self) -> Result<u32, FaceError> {
        if self.slots.len() - self.free.len() >= self.faces_max {
            return Err(FaceError::TableFull);
        }
        let rested = self.free.len() > FACE_IDS_RESTING || self.slots.len() >= self.faces_max;
        if rested && let Some(slot) = self.free.pop_front() {
            return Ok(slot);
        }
        self.slots.push(Slot { generation: 0, cell: None });
        Ok(self.slots.len() as u32 - 1)
    }

    fn slot_of(&self, id: FaceId) -> Result<u32, FaceError> {
        if id == FaceId::LOCAL {
            return Err(FaceError::Permanent);
        }
        let slot = id.0.checked_sub(FaceId::FIRST.0).and_then(|slot| u32::try_from(slot).ok());
        slot.filter(|slot| (*slot as usize) < self.slots.len()).ok_or(FaceError::NotFound)
    }
}

/// How many freed ids rest before the first of them is given out again, while there are unused ones.
const FACE_IDS_RESTING: usize = 64;

#[cfg(test)]
mod tests;

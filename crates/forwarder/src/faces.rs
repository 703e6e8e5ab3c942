//! The face table: upper faces (applications, internal services) and lower faces (channels to
//! remote hosts or groups), whose ids share one space (`IS-09`, `IS-10`, `IS-12`), and the
//! permanent face `local` (`IS-11`).
//!
//! The control path registers and releases faces. The data path holds and puts them (`IS-13`), each
//! with one atomic operation on the face's cell and without a lock. The cell counts its users:
//! `register` adds the first one and `hold` another. `release` removes the first one without
//! waiting for the others. If others remain, the face is an orphan: its id reads 0, and packets to
//! it are dropped and counted. The last `put` frees the cell for another face (`IS-14`).
//!
//! Other tables refer to a face by [`FaceKey`], never by the public id, because ids are reused and
//! keys are not.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use lock_api::RawMutex;
use namely_messages::{FaceScope, LinkType};

use crate::counters::{FaceCounters, FaceTally, PacketCounts, Packets};
use crate::error::ConfigError;
use crate::limits::WALK_PLACES;
use crate::lock_order::LeafLock;
use crate::pool::{Pool, page_of};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

use crate::face_id::{FaceId, FaceKey};

/// The table of the two-layer face system that a face is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceLayer {
    /// An application's socket or a local service; it may bind prefixes.
    Upper,
    /// A channel between this host and a remote host or group.
    Lower,
}

/// The properties of a face, as its embedder registers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceProperties {
    /// Upper or lower.
    pub layer: FaceLayer,
    /// Local or not.
    pub scope: FaceScope,
    /// Point-to-point or not.
    pub link_type: LinkType,
    /// True if IncomingFaceId is sent and NextHopFaceId accepted; see
    /// [`Faces::set_local_fields`].
    pub local_fields: bool,
    /// True if Interests under `/localhost/nfd` are accepted from the face although it is not
    /// local. The management then checks permissions itself. No other name under `/localhost`
    /// crosses the face, and the flag lets no Interest leave through it.
    pub is_management_client: bool,
}

impl FaceProperties {
    /// An application on this host.
    pub const fn application() -> Self {
        FaceProperties {
            layer: FaceLayer::Upper,
            scope: FaceScope::Local,
            link_type: LinkType::PointToPoint,
            local_fields: false,
            is_management_client: false,
        }
    }

    /// A channel to one remote host.
    pub const fn remote() -> Self {
        FaceProperties {
            layer: FaceLayer::Lower,
            scope: FaceScope::NonLocal,
            link_type: LinkType::PointToPoint,
            local_fields: false,
            is_management_client: false,
        }
    }

    /// A channel to a group of remote hosts.
    pub const fn group() -> Self {
        FaceProperties { link_type: LinkType::MultiAccess, ..FaceProperties::remote() }
    }
}

/// The reason for which a face operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceError {
    /// `faces_max` faces exist.
    TableFull,
    /// There is no face with this id.
    NotFound,
    /// The face `local` is permanent.
    Permanent,
    /// There is no memory for the face.
    NoMemory,
}

impl fmt::Display for FaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaceError::TableFull => "the face table is full: destroy faces or raise faces_max",
            FaceError::NotFound => "no such face: list the faces to see which exist",
            FaceError::Permanent => "the face local is permanent and cannot be released",
            FaceError::NoMemory => "no memory for the face: try again later",
        })
    }
}

impl core::error::Error for FaceError {}

/// One face in a snapshot of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceSnapshot {
    /// Its id.
    pub id: FaceId,
    /// Its properties; `local_fields` is the current value.
    pub spec: FaceProperties,
    /// Its user count: 1 for the registration and 1 for each hold.
    pub users: usize,
    /// Its packets.
    pub packets: PacketCounts,
}

/// The part of a face that its holds share. It is one cache line, because a thread that holds a
/// face also counts its packets.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct FaceCell {
    // The registration's generation, RELEASED, and the number of users.
    state: AtomicU64,
    spec: AtomicU32,
    /// The tick until which the neighbor has announced congestion; 0 if it has not.
    congested_until: AtomicU32,
    pub(crate) counters: FaceCounters,
}

/// Congestion is measured in ticks of about a millisecond.
const CONGESTION_TICK_SHIFT: u32 = 20;

/// The bit of a cell's state that is set when the face is released.
const RELEASED: u64 = 1 << 31;

/// The bits of a cell's state that count users.
const USERS: u64 = RELEASED - 1;

impl FaceCell {
    fn new() -> Self {
        FaceCell {
            state: AtomicU64::new(RELEASED),
            spec: AtomicU32::new(0),
            congested_until: AtomicU32::new(0),
            counters: FaceCounters::default(),
        }
    }

    /// Adds a user if the face is registered, and under `generation` if one is given; returns its
    /// generation.
    fn hold(&self, generation: Option<u32>) -> Option<u32> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let own = (state >> 32) as u32;
            if state & RELEASED != 0 || generation.is_some_and(|generation| generation != own) {
                return None;
            }
            // One exchange for check and count: a face that is released in between receives no
            // user. Acquire pairs with the Release of `register`, so that the new user sees this
            // registration's spec.
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(own),
                Err(now) => state = now,
            }
        }
    }

    fn put(&self) {
        // Pairs with the Acquire of `is_free`: everything that this user did comes before the
        // cell's next face.
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Returns true if the cell has no user, so that it can be registered again.
    fn is_free(&self) -> bool {
        self.state.load(Ordering::Acquire) & (RELEASED | USERS) == RELEASED
    }

    /// Returns true if the face is released and still held.
    fn is_orphan(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state & RELEASED != 0 && state & USERS != 0
    }

    /// Registers a face in a free cell, under the table's lock.
    fn register(&self, spec: FaceProperties) -> u32 {
        let generation = ((self.state.load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
        // The state is stored last, and with Release: it makes the cell visible to `hold`. Before
        // that only this thread, which has the table's lock, uses the cell, so the rest is Relaxed.
        self.spec.store(spec.pack(), Ordering::Relaxed);
        self.congested_until.store(0, Ordering::Relaxed);
        self.counters.reset();
        self.state.store(u64::from(generation) << 32 | 1, Ordering::Release);
        generation
    }

    /// Removes the registration's user, under the table's lock.
    fn release(&self) -> Option<(u32, Released)> {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & RELEASED == 0 {
            let next = (state | RELEASED) - 1;
            // The bit is set and the user removed in one step, so that the last `put` finds the bit
            // set and the cell is freed only once. Acquire pairs with the Release of `put`: if no
            // user remains, everything that the users did comes before the cell's next face.
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    let released = if next & USERS == 0 { Released::Freed } else { Released::Orphaned };
                    return Some(((next >> 32) as u32, released));
                }
                Err(now) => state = now,
            }
        }
        None
    }

    fn spec(&self) -> FaceProperties {
        // Relaxed: the caller has read the state with Acquire, after which this spec is visible.
        FaceProperties::unpack(self.spec.load(Ordering::Relaxed))
    }

    /// The face in a snapshot, if the cell is that of a registered one.
    fn status(&self, slot: u32) -> Option<FaceSnapshot> {
        let state = self.state.load(Ordering::Acquire);
        let key = FaceKey { slot, generation: (state >> 32) as u32 };
        (state & RELEASED == 0).then(|| FaceSnapshot {
            id: key.id(),
            spec: self.spec(),
            users: (state & USERS) as usize,
            packets: self.counters.read(),
        })
    }
}

impl FaceProperties {
    const LOWER: u32 = 1;
    const LOCAL: u32 = 1 << 1;
    const LOCAL_FIELDS: u32 = 1 << 2;
    const ASKS_MANAGEMENT: u32 = 1 << 3;
    const LINK_SHIFT: u32 = 4;
    const LINK_MASK: u32 = 0b11;
    /// Set while the embedder reports that the face cannot send; no property of the face.
    const DOWN: u32 = 1 << 6;

    fn pack(self) -> u32 {
        let link = match self.link_type {
            LinkType::PointToPoint => 0,
            LinkType::MultiAccess => 1,
            LinkType::AdHoc => 2,
        };
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(self.layer == FaceLayer::Lower, Self::LOWER)
            | bit(self.scope == FaceScope::Local, Self::LOCAL)
            | bit(self.local_fields, Self::LOCAL_FIELDS)
            | bit(self.is_management_client, Self::ASKS_MANAGEMENT)
            | (link << Self::LINK_SHIFT)
    }

    fn unpack(bits: u32) -> Self {
        FaceProperties {
            layer: if bits & Self::LOWER != 0 { FaceLayer::Lower } else { FaceLayer::Upper },
            scope: if bits & Self::LOCAL != 0 { FaceScope::Local } else { FaceScope::NonLocal },
            link_type: match (bits >> Self::LINK_SHIFT) & Self::LINK_MASK {
                0 => LinkType::PointToPoint,
                1 => LinkType::MultiAccess,
                _ => LinkType::AdHoc,
            },
            local_fields: bits & Self::LOCAL_FIELDS != 0,
            is_management_client: bits & Self::ASKS_MANAGEMENT != 0,
        }
    }
}

/// A counted reference to a face. [`Faces::hold`] takes it; dropping it puts the face.
#[derive(Debug)]
pub struct FaceHold<'a> {
    cell: &'a FaceCell,
    key: FaceKey,
    /// The tally that counts this hold's packets, if this hold is lent by another one that outlives
    /// it. A lent hold is not counted as a user.
    lent: Option<&'a FaceTally>,
}

impl FaceHold<'_> {
    /// Puts the face. Dropping the hold does the same.
    pub fn put(self) {}

    /// The face's id; [`FaceId::NONE`] once the face is orphaned.
    pub fn id(&self) -> FaceId {
        if self.is_released() { FaceId::NONE } else { self.key.id() }
    }

    fn is_released(&self) -> bool {
        self.cell.state.load(Ordering::Acquire) & RELEASED != 0
    }

    /// A hold of the same face that ends before this one. Its packets are counted in `tally`.
    fn lend<'a>(&'a self, tally: &'a FaceTally) -> FaceHold<'a> {
        FaceHold { cell: self.cell, key: self.key, lent: Some(tally) }
    }

    /// The packets that the face has carried.
    pub fn packets(&self) -> PacketCounts {
        self.cell.counters.read()
    }

    pub(crate) fn key(&self) -> FaceKey {
        self.key
    }

    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&self, packets: Packets) {
        match self.lent {
            Some(tally) => tally.add(packets),
            None => self.cell.counters.add(packets, 1),
        }
    }

    pub(crate) fn layer(&self) -> FaceLayer {
        self.cell.spec().layer
    }

    pub(crate) fn link_type(&self) -> LinkType {
        self.cell.spec().link_type
    }

    pub(crate) fn is_local(&self) -> bool {
        self.cell.spec.load(Ordering::Relaxed) & FaceProperties::LOCAL != 0
    }

    pub(crate) fn is_management_client(&self) -> bool {
        self.cell.spec.load(Ordering::Relaxed) & FaceProperties::ASKS_MANAGEMENT != 0
    }

    /// Returns true while the embedder reports that the face cannot send.
    pub(crate) fn is_down(&self) -> bool {
        self.cell.spec.load(Ordering::Relaxed) & FaceProperties::DOWN != 0
    }

    /// Records that the neighbor has announced congestion until `until_ns`. 0 ends the congestion.
    pub(crate) fn set_congested(&self, until_ns: u64) {
        let tick = until_ns.div_ceil(1 << CONGESTION_TICK_SHIFT) as u32;
        self.cell.congested_until.store(if until_ns == 0 { 0 } else { tick.max(1) }, Ordering::Relaxed);
    }

    /// Returns true unless the neighbor has recently announced congestion.
    pub(crate) fn is_available(&self, now_ns: u64) -> bool {
        let until = self.cell.congested_until.load(Ordering::Relaxed);
        if until == 0 {
            return true;
        }
        // Ticks wrap around after seven weeks, so an expired value is cleared.
        let is_over = until.wrapping_sub((now_ns >> CONGESTION_TICK_SHIFT) as u32) as i32 <= 0;
        if is_over {
            self.cell.congested_until.store(0, Ordering::Relaxed);
        }
        is_over
    }

    pub(crate) fn local_fields(&self) -> bool {
        self.cell.spec().local_fields
    }
}

impl Drop for FaceHold<'_> {
    fn drop(&mut self) {
        if self.lent.is_none() {
            self.cell.put();
        }
    }
}

/// The state of a released face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It has no user: it is freed.
    Freed,
    /// It is still held: it is an orphan until the last user puts it.
    Orphaned,
}

/// Number of released ids that wait for reuse. Once more wait, the oldest is reused. Until then an
/// unused id is assigned, as long as fewer than `faces_max` ids were ever used.
const FACE_IDS_RESTING: usize = 64;

/// Released faces that a packet still holds.
///
/// The table has this number of cells in addition to those of `faces_max` faces. A worker holds few
/// faces, and none longer than it takes to process a batch of packets.
///
/// # Limit
/// A further face is refused until one is put.
/// - Tests: `an_orphans_cell_awaits_its_last_put`
const ORPHANS_MAX: usize = 1024;

/// Slots that a table of `faces_max` faces can have.
pub(crate) fn slots_max(faces_max: usize) -> usize {
    faces_max.saturating_add(ORPHANS_MAX)
}

/// The table of registered faces.
pub struct Faces<R> {
    cells: Pool<FaceCell, { page_of(16) }>,
    table: LeafLock<R, Table>,
}

/// State that only the control path uses.
struct Table {
    /// Slots that were ever used.
    slots: u32,
    // First in, first out, so that an id is not reused at once.
    free: VecDeque<u32>,
    registered: usize,
    faces_max: usize,
    retired: PacketCounts,
}

impl<R: RawMutex> Faces<R> {
    pub(crate) fn new(faces_max: usize) -> Result<Self, ConfigError> {
        let retired = PacketCounts::default();
        let table = Table { slots: 0, free: VecDeque::new(), registered: 0, faces_max, retired };
        Ok(Faces { cells: Pool::new(slots_max(faces_max))?, table: LeafLock::new(table) })
    }

    #[cfg(test)]
    pub(crate) fn register(&self, spec: FaceProperties) -> Result<FaceId, FaceError> {
        self.enter(spec).map(FaceKey::id)
    }

    pub(crate) fn enter(&self, spec: FaceProperties) -> Result<FaceKey, FaceError> {
        let mut table = self.table.lock();
        let (slot, cell) = self.vacant(&mut table)?;
        let generation = cell.register(spec);
        table.registered += 1;
        Ok(FaceKey { slot, generation })
    }

    /// Returns true if the face is still registered.
    pub(crate) fn is_registered(&self, key: FaceKey) -> bool {
        let state = self.cells.get(key.slot as usize).map(|cell| cell.state.load(Ordering::Acquire));
        state.is_some_and(|state| (state >> 32) as u32 == key.generation && state & RELEASED == 0)
    }

    /// Returns true if a released face is no longer held, so that none of its packets is being
    /// processed.
    pub(crate) fn is_put(&self, key: FaceKey) -> bool {
        let state = self.cells.get(key.slot as usize).map(|cell| cell.state.load(Ordering::Acquire));
        // An orphan's cell retains its generation until its last user puts it.
        state.is_none_or(|state| (state >> 32) as u32 != key.generation || state & USERS == 0)
    }

    /// Removes the face from the table; never waits for its users. The caller clears other tables.
    pub(crate) fn release(&self, id: FaceId) -> Result<(FaceKey, Released), FaceError> {
        if id == FaceId::LOCAL {
            return Err(FaceError::Permanent);
        }
        let mut table = self.table.lock();
        let (slot, cell) = self.cell_of(id).ok_or(FaceError::NotFound)?;
        // The sum lacks the packets that an orphan's last users count after this, because the
        // counters are not read again.
        let packets = cell.counters.read();
        let (generation, released) = cell.release().ok_or(FaceError::NotFound)?;
        table.registered -= 1;
        table.free.push_back(slot);
        table.retired.add(packets);
        Ok((FaceKey { slot, generation }, released))
    }

    /// Holds a face: its cell stays until it is put, even if the face is released in between.
    pub fn hold(&self, id: FaceId) -> Option<FaceHold<'_>> {
        let (slot, cell) = self.cell_of(id)?;
        let generation = cell.hold(None)?;
        Some(FaceHold { cell, key: FaceKey { slot, generation }, lent: None })
    }

    pub(crate) fn hold_key(&self, key: FaceKey) -> Option<FaceHold<'_>> {
        let cell = self.cells.get(key.slot as usize)?;
        cell.hold(Some(key.generation))?;
        Some(FaceHold { cell, key, lent: None })
    }

    /// Enables or disables IncomingFaceId and NextHopFaceId on a face.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face.
    pub fn set_local_fields(&self, id: FaceId, enabled: bool) -> Result<(), FaceError> {
        let face = self.hold(id).ok_or(FaceError::NotFound)?;
        if enabled {
            // Relaxed: a packet under way follows the old or the new value.
            face.cell.spec.fetch_or(FaceProperties::LOCAL_FIELDS, Ordering::Relaxed);
        } else {
            face.cell.spec.fetch_and(!FaceProperties::LOCAL_FIELDS, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Records whether a face cannot send at present. Strategies choose other next hops instead, if
    /// there are any.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face.
    pub fn set_down(&self, id: FaceId, is_down: bool) -> Result<(), FaceError> {
        let face = self.hold(id).ok_or(FaceError::NotFound)?;
        if is_down {
            // Relaxed: a packet under way follows the old or the new value.
            face.cell.spec.fetch_or(FaceProperties::DOWN, Ordering::Relaxed);
        } else {
            face.cell.spec.fetch_and(!FaceProperties::DOWN, Ordering::Relaxed);
        }
        Ok(())
    }

    /// All registered faces except `local`.
    pub fn snapshot(&self) -> Vec<FaceSnapshot> {
        let mut faces = Vec::new();
        self.walk_slots(0, u32::MAX, &mut faces);
        faces
    }

    /// Adds the registered faces of at most [`crate::WALK_PLACES`] slots to `faces`: the first
    /// slots, or those from a position that an earlier call returned. Returns the next position, if
    /// there is one.
    pub fn walk(&self, from: Option<u32>, faces: &mut Vec<FaceSnapshot>) -> Option<u32> {
        self.walk_slots(from.unwrap_or(0), WALK_PLACES, faces)
    }

    /// Adds the faces of `count` slots from `from` on; returns the next position.
    fn walk_slots(&self, from: u32, count: u32, faces: &mut Vec<FaceSnapshot>) -> Option<u32> {
        let slots = self.table.lock().slots;
        let until = from.saturating_add(count).min(slots);
        faces.extend((from..until).filter_map(|slot| self.cells.get(slot as usize)?.status(slot)));
        (until < slots).then_some(until)
    }

    /// The number of released faces that are still held.
    pub(crate) fn orphans(&self) -> usize {
        let slots = self.table.lock().slots;
        let is_orphan = |slot: &u32| self.cells.get(*slot as usize).is_some_and(FaceCell::is_orphan);
        (0..slots).filter(is_orphan).count()
    }

    /// The packet counts of all faces, including released ones.
    pub(crate) fn packets(&self) -> PacketCounts {
        // Under the lock, so that a face that is released meanwhile counts once.
        let table = self.table.lock();
        let mut sum = table.retired;
        let faces = (0..table.slots).filter_map(|slot| self.cells.get(slot as usize)?.status(slot));
        faces.for_each(|face| sum.add(face.packets));
        sum
    }

    /// The key of a face that can be a next hop.
    pub(crate) fn key_of(&self, face: FaceId) -> Option<FaceKey> {
        if face == FaceId::LOCAL {
            return Some(FaceKey::LOCAL);
        }
        self.hold(face).map(|hold| hold.key())
    }

    /// Returns true if a face was released since its key was read. A caller that has meanwhile
    /// added an entry for the face then removes the entry, because the sweep of the release may
    /// have come too early. The caller checks after it adds the entry, and the release removes the
    /// face from the table before its sweep. So at least one of them sees the other.
    pub(crate) fn was_released(&self, key: FaceKey) -> bool {
        key != FaceKey::LOCAL && self.hold_key(key).is_none()
    }

    fn cell_of(&self, id: FaceId) -> Option<(u32, &FaceCell)> {
        let slot = id.0.checked_sub(FaceId::FIRST.0).and_then(|slot| u32::try_from(slot).ok())?;
        Some((slot, self.cells.get(slot as usize)?))
    }

    /// A slot for a new face. The slot that has been free the longest is reused if more than
    /// [`FACE_IDS_RESTING`] are free or `faces_max` were ever used. Otherwise, or if all free slots
    /// belong to orphans, it is an unused one.
    fn vacant(&self, table: &mut Table) -> Result<(u32, &FaceCell), FaceError> {
        if table.registered >= table.faces_max {
            return Err(FaceError::TableFull);
        }
        if table.free.len() > FACE_IDS_RESTING || table.slots as usize >= table.faces_max {
            for _ in 0..table.free.len() {
                let Some(slot) = table.free.pop_front() else { break };
                match self.cells.get(slot as usize).filter(|cell| cell.is_free()) {
                    Some(cell) => return Ok((slot, cell)),
                    // An orphan: its cell is freed later.
                    None => table.free.push_back(slot),
                }
            }
        }
        let slot = table.slots;
        // The queue has capacity for all slots, so that a release allocates nothing.
        table.free.try_reserve(slot as usize + 1 - table.free.len()).map_err(|_| FaceError::NoMemory)?;
        if slot as usize >= slots_max(table.faces_max) {
            return Err(FaceError::TableFull);
        }
        let cell = self.cells.get_or_make(slot as usize, FaceCell::new).ok_or(FaceError::NoMemory)?;
        table.slots += 1;
        Ok((slot, cell))
    }
}

pub(crate) mod batch_context;
#[cfg(test)]
mod tests;

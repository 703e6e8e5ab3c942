//! Owners of entries: the choice of the owner that is charged when the table is full, and the
//! removal of the records of released faces.

use lock_api::RawMutex;
use namely_messages::FaceScope;

use super::Pit;
use crate::face_id::FaceKey;
use crate::hash::mix;
use crate::ordered::NoMemory;
use crate::pit::entry::PitEntry;
use crate::pit::key::EntryKey;
use crate::reserve::Reserve;
use crate::shares::{Owner, pays};
use crate::slab::Id;
use crate::sync::Ordering;

/// Random slots that are checked for the entry of the largest owner. An owner of half of the table
/// is missed once in 65,536 times.
const SAMPLES: u32 = 16;

/// Maximum number of rounds of sampling for a newcomer whose owner has less than its reserve, and
/// for an exempt newcomer. Any other newcomer has one round.
const ROUNDS_RESERVED: u32 = 8;
const ROUNDS_EXEMPT: u32 = 64;

/// Maximum number of downstreams of an entry that may be evicted. The eviction of an entry with
/// more would harm many.
const DOWNSTREAMS_CONSIDERED_MAX: usize = 4;

impl<B: AsRef<[u8]> + Clone, R: RawMutex> Pit<B, R> {
    /// Registers a face before its Interests arrive. `owner` is charged for them.
    pub(crate) fn open(&self, face: FaceKey, owner: Owner, scope: FaceScope) -> Result<(), NoMemory> {
        self.by_face.open(face, owner, scope)
    }

    /// Refuses new Interests and new downstreams of other hosts from now on.
    pub(crate) fn drain(&self) {
        self.by_face.drain();
    }

    /// Removes a face whose records were swept.
    pub(crate) fn close(&self, face: FaceKey) {
        self.by_face.close(face);
    }

    /// The owner that is charged for a face.
    pub(crate) fn owner_of(&self, face: FaceKey) -> Owner {
        self.by_face.owner_of(face)
    }

    /// Returns true if records of a face are counted.
    pub(crate) fn has_records_of(&self, face: FaceKey) -> bool {
        self.by_face.counted(face) > 0
    }

    /// Removes the entry of the largest owner among some samples, to make room for `newcomer`.
    /// Returns `None` if none of the sampled owners has more than the owner of `newcomer` and more
    /// than the reserve. The size of an entry is that of the smallest owner among its downstreams.
    /// So a small owner's Interest is not evicted because a large owner requests the same.
    #[cold]
    pub(crate) fn take_from_largest(&self, newcomer: FaceKey, reserve: &Reserve) -> Option<PitEntry<B>> {
        // It would be refused in the free slot, too.
        if self.by_face.drains(newcomer) {
            return None;
        }
        let own = self.by_face.owner_grants(newcomer);
        let (kept, rounds) = match self.entries_reserve {
            // An exempt newcomer may also evict from the reserve of others.
            _ if own == 0 && self.by_face.owner_of(newcomer) == Owner::ROUTER => (0, ROUNDS_EXEMPT),
            reserve if own < reserve => (reserve, ROUNDS_RESERVED),
            reserve => (reserve, 1),
        };
        (0..rounds).find_map(|_| {
            // The sampled entry is not held while its bucket is locked, because the order is
            // bucket, then entry. So the condition is checked again under both locks.
            let (_, key) = self.sample().filter(|(size, _)| pays(*size, own, kept))?;
            let still = |entry: &PitEntry<B>| self.size(entry).is_some_and(|size| pays(size, own, kept));
            self.take_if(key, still, reserve)
        })
    }

    /// The entry of the largest owner among random samples.
    fn sample(&self) -> Option<(u32, EntryKey)> {
        let first = self.samples.fetch_add(SAMPLES, Ordering::Relaxed);
        let slots = u64::from(self.ids.end()).saturating_sub(1).max(1);
        let slot = |i| (mix(u64::from(first.wrapping_add(i))) % slots) as Id + 1;
        (0..SAMPLES).filter_map(|i| self.size_of(slot(i))).max_by_key(|(size, _)| *size)
    }

    fn size_of(&self, id: Id) -> Option<(u32, EntryKey)> {
        let state = self.slot(id)?.state.lock();
        let size = state.storage.get().and_then(|entry| self.size(entry))?;
        Some((size, EntryKey { id, serial: state.serial }))
    }

    /// The use of the smallest owner among the downstreams of an entry.
    fn size(&self, entry: &PitEntry<B>) -> Option<u32> {
        let few = entry.in_records.len() <= DOWNSTREAMS_CONSIDERED_MAX;
        entry.in_records.iter().filter(|_| few).map(|record| self.by_face.owner_grants(record.face)).min()
    }

    /// Removes the downstreams of released faces from the entries of `count` slots from `from`.
    /// Calls `left` with each entry that has no downstream left, until it returns false. Returns
    /// the next position.
    #[inline(never)]
    pub(crate) fn sweep(
        &self,
        from: Id,
        count: Id,
        is_gone: impl Fn(FaceKey) -> bool,
        reserve: &Reserve,
        mut left: impl FnMut(&mut PitEntry<B>) -> bool,
    ) -> Option<Id> {
        let until = from.saturating_add(count).min(self.ids.end());
        for id in from.max(1)..until {
            let Some(slot) = self.slot(id) else { continue };
            let mut state = slot.state.lock();
            let key = EntryKey { id, serial: state.serial };
            let Some(entry) = state.storage.get_mut() else { continue };
            let before = entry.in_records.len();
            let gone = entry.in_records.iter().filter(|record| is_gone(record.face));
            gone.for_each(|record| self.by_face.sub(record.face, reserve));
            entry.in_records.retain(|record| !is_gone(record.face));
            let is_left = before > 0 && entry.in_records.is_empty();
            // As in `take_from_largest`: released before `take_if` locks the bucket.
            drop(state);
            if is_left
                && let Some(mut entry) = self.take_if(key, |entry| entry.in_records.is_empty(), reserve)
                && !left(&mut entry)
            {
                return Some(id + 1).filter(|next| *next < self.ids.end());
            }
        }
        (until < self.ids.end()).then_some(until)
    }
}

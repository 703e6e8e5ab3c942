//! Whose the entries are: who pays when the table is full, and what faces that are gone have left.

use lock_api::RawMutex;

use super::Pit;
use crate::face_id::FaceKey;
use crate::hash::mix;
use crate::ordered::NoMemory;
use crate::pit::entry::PitEntry;
use crate::pit::key::EntryKey;
use crate::reserve::Reserve;
use crate::shares::{Holder, pays};
use crate::slab::Id;
use crate::sync::Ordering;

/// Places that are looked at, at random, for the entry of the largest holder. One that has half of
/// the table is missed once in 65,536 times.
const SAMPLES: u32 = 16;

/// How often that is done for one whose holder has less than its reserve, and for one who is
/// exempt, until somebody is found who pays.
const ROUNDS_RESERVED: u32 = 8;
const ROUNDS_EXEMPT: u32 = 64;

/// Downstreams of an entry that is considered: with more, many would pay.
const DOWNSTREAMS_CONSIDERED_MAX: usize = 4;

impl<B: AsRef<[u8]> + Clone, R: RawMutex> Pit<B, R> {
    /// Enters a face whose Interests `who` pays for, before any of them comes.
    pub(crate) fn open(&self, face: FaceKey, who: Holder) -> Result<(), NoMemory> {
        self.by_face.open(face, who)
    }

    /// Forgets a face whose records were swept.
    pub(crate) fn close(&self, face: FaceKey) {
        self.by_face.close(face);
    }

    /// Who pays for a face.
    pub(crate) fn holder_of(&self, face: FaceKey) -> Holder {
        self.by_face.holder_of(face)
    }

    /// Returns true if records of a face are counted.
    pub(crate) fn has_records_of(&self, face: FaceKey) -> bool {
        self.by_face.counted(face) > 0
    }

    /// Takes out an entry of the largest holder among some that are looked at, so that `newcomer`
    /// has room; `None` if none of them has more than it. An entry is as large as the smallest of
    /// its downstreams, so that nobody pays because another one asks for the same.
    #[cold]
    pub(crate) fn take_of_largest(&self, newcomer: FaceKey, reserve: &Reserve) -> Option<PitEntry<B>> {
        let own = self.by_face.held_for(newcomer);
        let (kept, rounds) = match self.entries_reserve {
            // Nobody's reserve stands in the way of who is exempt.
            _ if own == 0 && self.by_face.holder_of(newcomer) == Holder::ROUTER => (0, ROUNDS_EXEMPT),
            reserve if own < reserve => (reserve, ROUNDS_RESERVED),
            reserve => (reserve, 1),
        };
        (0..rounds).find_map(|_| {
            // The entry found is not held while its bucket is taken, because the order is bucket,
            // then entry; so the condition is checked again under both locks.
            let (_, key) = self.sample().filter(|(size, _)| pays(*size, own, kept))?;
            let still = |entry: &PitEntry<B>| self.size(entry).is_some_and(|size| pays(size, own, kept));
            self.take_if(key, still, reserve)
        })
    }

    /// The entry of the largest holder among some at random.
    fn sample(&self) -> Option<(u32, EntryKey)> {
        let first = self.samples.fetch_add(SAMPLES, Ordering::Relaxed);
        let places = u64::from(self.ids.end()).saturating_sub(1).max(1);
        let place = |i| (mix(u64::from(first.wrapping_add(i))) % places) as Id + 1;
        (0..SAMPLES).filter_map(|i| self.size_of(place(i))).max_by_key(|(size, _)| *size)
    }

    fn size_of(&self, id: Id) -> Option<(u32, EntryKey)> {
        let state = self.slot(id)?.state.lock();
        let size = state.storage.get().and_then(|entry| self.size(entry))?;
        Some((size, EntryKey { id, serial: state.serial }))
    }

    /// What the smallest of the holders has that wait for an entry.
    fn size(&self, entry: &PitEntry<B>) -> Option<u32> {
        let few = entry.in_records.len() <= DOWNSTREAMS_CONSIDERED_MAX;
        entry.in_records.iter().filter(|_| few).map(|record| self.by_face.held_for(record.face)).min()
    }

    /// Takes the downstreams that are gone out of the entries of `count` places from `from`, and
    /// calls `left` with each entry that has none then, until that returns false. Returns where to
    /// go on.
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
            // As above: released before `take_if` comes by the bucket.
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

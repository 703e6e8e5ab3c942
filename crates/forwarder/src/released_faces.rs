//! Released faces that tables still refer to, until sweeps have cleared them.
//!
//! Capacity for a face is allocated when it is registered, so that its release needs no memory.

use lock_api::RawMutex;

use crate::face_id::FaceKey;
use crate::faces::Faces;
use crate::lock_order::ReleasedFacesLock;
use crate::ordered::{NoMemory, Ordered};
use crate::pit::Pit;
use crate::slab::Id;

/// The released faces.
pub(crate) struct ReleasedFaces<R>(ReleasedFacesLock<R, ReleasedFacesState>);

#[derive(Default)]
struct ReleasedFacesState {
    /// Faces that are registered.
    registered: usize,
    /// Faces that FIB or BPT may refer to.
    tables: Ordered<FaceKey, ()>,
    /// Faces that the PIT may refer to: true if the current sweep removes their records, false if
    /// they wait for the next sweep.
    pending: Ordered<FaceKey, bool>,
    /// The next position of the sweep.
    next: Option<Id>,
}

impl ReleasedFacesState {
    /// Faces that the PIT may refer to, each with whether the current sweep includes it.
    fn pending(&self) -> impl Iterator<Item = (FaceKey, bool)> {
        let first = self.pending.first_from(&FaceKey::FIRST);
        core::iter::successors(first, |(face, _)| self.pending.first_after(face))
    }

    /// Begins a sweep for the waiting faces with records; returns false if there is none.
    fn begin_sweep<B: AsRef<[u8]> + Clone, R: RawMutex>(
        &mut self,
        faces: &Faces<R>,
        pit: &Pit<B, R>,
    ) -> bool {
        let has_records = |face| !faces.is_put(face) || pit.has_records_of(face);
        let is_needed = self.pending().any(|(face, _)| has_records(face));
        // A packet of the face that is being processed may add a record behind the sweep. Only a
        // face without users adds no more. So a face that is still held waits for the next sweep.
        let mut next = self.pending.first_from(&FaceKey::FIRST);
        while let Some((face, _)) = next {
            next = self.pending.first_after(&face);
            if !faces.is_put(face) {
                continue;
            }
            if is_needed {
                let _ = self.pending.insert(face, true);
            } else {
                self.pending.remove(&face);
                pit.close(face);
            }
        }
        self.next = is_needed.then_some(1);
        is_needed
    }
}

impl<R: RawMutex> ReleasedFaces<R> {
    pub(crate) fn new() -> Self {
        ReleasedFaces(ReleasedFacesLock::new(ReleasedFacesState::default()))
    }

    /// Reserves capacity for a face that is about to be registered.
    pub(crate) fn promise(&self) -> Result<(), NoMemory> {
        let mut gone = self.0.lock();
        let registered = gone.registered + 1;
        let (tables, pending) = (gone.tables.len() + registered, gone.pending.len() + registered);
        // For all registered faces, and the released ones in the lists: each of them may enter both
        // lists.
        gone.tables.reserve_for(tables)?;
        gone.pending.reserve_for(pending)?;
        gone.registered = registered;
        Ok(())
    }

    /// Undoes `promise` after a registration that failed.
    pub(crate) fn cancel_promise(&self) {
        self.0.lock().registered -= 1;
    }

    /// Adds a released face.
    pub(crate) fn add(&self, face: FaceKey) {
        let mut gone = self.0.lock();
        gone.registered -= 1;
        // There is capacity, which `promise` reserved.
        let _ = gone.tables.insert(face, ());
        let _ = gone.pending.insert(face, false);
    }

    /// Returns true if entries may remain to be cleared.
    pub(crate) fn is_any(&self) -> bool {
        let ReleasedFacesState { tables, pending, .. } = &*self.0.lock();
        tables.len() + pending.len() > 0
    }

    /// The first face that FIB or BPT may refer to.
    pub(crate) fn first(&self) -> Option<FaceKey> {
        self.0.lock().tables.first_from(&FaceKey::FIRST).map(|(face, ())| face)
    }

    /// FIB and BPT no longer refer to the face.
    pub(crate) fn cleared(&self, face: FaceKey) {
        self.0.lock().tables.remove(&face);
    }

    /// The PIT entry at which the next round of the sweep starts; `None` if no face waits for one.
    pub(crate) fn sweep_start<B: AsRef<[u8]> + Clone>(
        &self,
        faces: &Faces<R>,
        pit: &Pit<B, R>,
    ) -> Option<Id> {
        let mut gone = self.0.lock();
        if gone.next.is_none() && !gone.begin_sweep(faces, pit) {
            return None;
        }
        gone.next.or(Some(1))
    }

    /// Ends a round that began at `from` and has reached `next`, or the end of the PIT. Returns
    /// true if faces wait for another round.
    pub(crate) fn end_sweep<B: AsRef<[u8]> + Clone>(
        &self,
        from: Id,
        next: Option<Id>,
        pit: &Pit<B, R>,
    ) -> bool {
        let mut gone = self.0.lock();
        // Another thread has swept the same slots meanwhile and has advanced the position, so its
        // state is newer.
        if gone.next.is_none_or(|at| at != from) {
            return true;
        }
        gone.next = next;
        if next.is_none() {
            let mut next = gone.pending.first_from(&FaceKey::FIRST);
            while let Some((face, is_swept)) = next {
                next = gone.pending.first_after(&face);
                if is_swept {
                    gone.pending.remove(&face);
                    pit.close(face);
                }
            }
        }
        gone.pending.len() > 0
    }
}

//! Released faces that tables still mention, until sweeps have cleared them.
//!
//! Room for a face is made when it is registered, so that its release needs no memory.

use lock_api::RawMutex;

use crate::face_id::FaceKey;
use crate::faces::Faces;
use crate::lock_order::DepartedLock;
use crate::ordered::{NoMemory, Ordered};
use crate::pit::Pit;
use crate::slab::Id;

/// The faces that have gone.
pub(crate) struct Departed<R>(DepartedLock<R, Gone>);

#[derive(Default)]
struct Gone {
    /// Faces that are registered.
    registered: usize,
    /// By FIB or BPT.
    tables: Ordered<FaceKey, ()>,
    /// By the PIT: whether the sweep of it that is under way looks for them, or they wait for one.
    pending: Ordered<FaceKey, bool>,
    /// Where the sweep goes on.
    next: Option<Id>,
}

impl Gone {
    /// Those that the PIT may mention: whether they are swept.
    fn pending(&self) -> impl Iterator<Item = (FaceKey, bool)> {
        let first = self.pending.first_from(&FaceKey::FIRST);
        core::iter::successors(first, |(face, _)| self.pending.first_after(face))
    }

    /// Begins a sweep for the faces that wait for one and have records; returns false if none has.
    fn begin_sweep<B: AsRef<[u8]> + Clone, R: RawMutex>(
        &mut self,
        faces: &Faces<R>,
        pit: &Pit<B, R>,
    ) -> bool {
        let has_records = |face| !faces.is_put(face) || pit.has_records_of(face);
        let is_needed = self.pending().any(|(face, _)| has_records(face));
        // A packet of the face that is processed at this moment may enter a record behind the
        // sweep, and only a face that nobody holds enters no more. So a face that is still held
        // waits for the next sweep.
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

impl<R: RawMutex> Departed<R> {
    pub(crate) fn new() -> Self {
        Departed(DepartedLock::new(Gone::default()))
    }

    /// A face is to be registered.
    pub(crate) fn promise(&self) -> Result<(), NoMemory> {
        let mut gone = self.0.lock();
        let registered = gone.registered + 1;
        let (tables, pending) = (gone.tables.len() + registered, gone.pending.len() + registered);
        // For all that are registered, those already gone included: each of them may come into both
        // lists.
        gone.tables.reserve_for(tables)?;
        gone.pending.reserve_for(pending)?;
        gone.registered = registered;
        Ok(())
    }

    /// It was not.
    pub(crate) fn take_back(&self) {
        self.0.lock().registered -= 1;
    }

    /// A face was released.
    pub(crate) fn add(&self, face: FaceKey) {
        let mut gone = self.0.lock();
        gone.registered -= 1;
        // There is room, as was promised.
        let _ = gone.tables.insert(face, ());
        let _ = gone.pending.insert(face, false);
    }

    /// Returns true if something may be left to clear.
    pub(crate) fn is_any(&self) -> bool {
        let Gone { tables, pending, .. } = &*self.0.lock();
        tables.len() + pending.len() > 0
    }

    /// The first face that FIB or BPT may mention.
    pub(crate) fn first(&self) -> Option<FaceKey> {
        self.0.lock().tables.first_from(&FaceKey::FIRST).map(|(face, ())| face)
    }

    /// FIB and BPT mention the face no more.
    pub(crate) fn cleared(&self, face: FaceKey) {
        self.0.lock().tables.remove(&face);
    }

    /// The place of the PIT from which a turn of the sweep goes on; `None` if no face waits for
    /// one.
    pub(crate) fn turn_from<B: AsRef<[u8]> + Clone>(&self, faces: &Faces<R>, pit: &Pit<B, R>) -> Option<Id> {
        let mut gone = self.0.lock();
        if gone.next.is_none() && !gone.begin_sweep(faces, pit) {
            return None;
        }
        gone.next.or(Some(1))
    }

    /// A turn that began at `from` has come to `next`, or to the end of the PIT. Returns true if
    /// faces wait for another turn.
    pub(crate) fn turn_ended<B: AsRef<[u8]> + Clone>(
        &self,
        from: Id,
        next: Option<Id>,
        pit: &Pit<B, R>,
    ) -> bool {
        let mut gone = self.0.lock();
        // Another thread has swept the same places meanwhile, and went on from there: its state is
        // the newer one.
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

//! State that the packets of a batch share. The batch holds each face once, not once for each
//! packet. It counts locally and adds its counts to the shared counters when it ends.

use alloc::boxed::Box;
use core::cell::{Cell, OnceCell, RefCell};

use lock_api::RawMutex;

use super::{FaceHold, Faces};
use crate::counters::{Counters, FaceTally, HotCounter, HotTally};
use crate::face_id::{FaceId, FaceKey};
use crate::hash::NameHashes;
use crate::reserve::Reserve;

/// Number of faces whose holds are cached. A further face is held anew for each packet.
// Few, because they are searched one by one for each packet.
const HELD: usize = 4;

/// The time of the batch, its faces, and its counts.
pub(crate) struct BatchContext<'f, R> {
    faces: &'f Faces<R>,
    held: [OnceCell<HeldFace<'f>>; HELD],
    counters: &'f Counters,
    tally: HotTally,
    /// The slot of an ingress face, which selects the part of the counters.
    slot: Cell<u32>,
    pub(crate) reserve: &'f Reserve,
    /// Memory for the hashes of a forwarding hint's names, if the caller supplies any.
    pub(crate) hint: Option<&'f RefCell<Box<[NameHashes]>>>,
    pub(crate) now_ns: u64,
}

struct HeldFace<'f> {
    hold: FaceHold<'f>,
    tally: FaceTally,
}

impl Drop for HeldFace<'_> {
    fn drop(&mut self) {
        self.tally.settle(&self.hold.cell.counters);
    }
}

impl<R> Drop for BatchContext<'_, R> {
    fn drop(&mut self) {
        self.tally.settle(self.counters.of(self.slot.get()));
    }
}

impl<'f, R: RawMutex> BatchContext<'f, R> {
    /// A context for the batch that `reserve` belongs to.
    pub(crate) fn new(
        faces: &'f Faces<R>,
        counters: &'f Counters,
        reserve: &'f Reserve,
        hint: Option<&'f RefCell<Box<[NameHashes]>>>,
        now_ns: u64,
    ) -> Self {
        let held = [const { OnceCell::new() }; HELD];
        let (tally, slot) = (HotTally::default(), Cell::new(0));
        BatchContext { faces, held, counters, tally, slot, reserve, hint, now_ns }
    }

    /// Counts `n` events of the batch.
    #[inline]
    pub(crate) fn count(&self, what: HotCounter, n: u32) {
        self.tally.add(what, n);
    }

    /// As [`Faces::hold`], for the ingress of a packet.
    pub(crate) fn hold_ingress(&self, id: FaceId) -> Option<FaceHold<'_>> {
        let hold = self.hold(id)?;
        // The last ingress of the batch selects the part. The sum over all parts is the same.
        self.slot.set(hold.key.slot);
        Some(hold)
    }

    /// As [`Faces::hold`].
    pub(crate) fn hold(&self, id: FaceId) -> Option<FaceHold<'_>> {
        self.find(|hold| hold.key.id() == id, || self.faces.hold(id))
    }

    /// As [`Faces::hold_key`].
    pub(crate) fn hold_key(&self, key: FaceKey) -> Option<FaceHold<'_>> {
        self.find(|hold| hold.key == key, || self.faces.hold_key(key))
    }

    /// The cached hold of a face, unless the face was released since; otherwise the result of
    /// `hold`.
    #[inline]
    fn find(
        &self,
        is_it: impl Fn(&FaceHold<'_>) -> bool,
        hold: impl FnOnce() -> Option<FaceHold<'f>>,
    ) -> Option<FaceHold<'_>> {
        for slot in &self.held {
            match slot.get() {
                // A face that is released within the batch must not be used for its other packets.
                Some(held) if is_it(&held.hold) && !held.hold.is_released() => {
                    return Some(held.hold.lend(&held.tally));
                }
                Some(_) => {}
                None => {
                    let hold = hold()?;
                    let held = slot.get_or_init(|| HeldFace { hold, tally: FaceTally::default() });
                    return Some(held.hold.lend(&held.tally));
                }
            }
        }
        hold()
    }
}

//! What packets that are processed together share: the faces they come from and go to, held once
//! and not once for each packet, and what is counted of them, which all others see when the turn
//! ends.

use alloc::boxed::Box;
use core::cell::{Cell, OnceCell, RefCell};

use lock_api::RawMutex;

use super::{FaceHold, Faces};
use crate::counters::{Counters, FaceTally, HotCounter, HotTally};
use crate::face_id::{FaceId, FaceKey};
use crate::hash::NameHashes;
use crate::reserve::Reserve;

/// Faces that a turn remembers. More are held for each packet anew.
const HELD: usize = 4;

/// The time at which packets are processed, the faces they met, and what was counted.
pub(crate) struct BatchContext<'f, R> {
    faces: &'f Faces<R>,
    held: [OnceCell<Held<'f>>; HELD],
    counters: &'f Counters,
    tally: HotTally,
    /// The slot of a face that packets came from: chooses the part of the counters.
    slot: Cell<u32>,
    pub(crate) reserve: &'f Reserve,
    /// Where the names of a forwarding hint are hashed, if the caller has brought memory for it.
    pub(crate) hint: Option<&'f RefCell<Box<[NameHashes]>>>,
    pub(crate) now_ns: u64,
}

struct Held<'f> {
    hold: FaceHold<'f>,
    tally: FaceTally,
}

impl Drop for Held<'_> {
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
    /// For the packets that `reserve` is for.
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

    /// Counts `n` of what packets of the turn did.
    #[inline]
    pub(crate) fn count(&self, what: HotCounter, n: u32) {
        self.tally.add(what, n);
    }

    /// As [`Faces::hold`], of the face that a packet came from.
    pub(crate) fn hold_ingress(&self, id: FaceId) -> Option<FaceHold<'_>> {
        let hold = self.hold(id)?;
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

    /// The face that is held already, unless it was released since, or else what `hold` yields.
    #[inline]
    fn find(
        &self,
        is_it: impl Fn(&FaceHold<'_>) -> bool,
        hold: impl FnOnce() -> Option<FaceHold<'f>>,
    ) -> Option<FaceHold<'_>> {
        for place in &self.held {
            match place.get() {
                Some(held) if is_it(&held.hold) && !held.hold.is_released() => {
                    return Some(held.hold.lend(&held.tally));
                }
                Some(_) => {}
                None => {
                    let hold = hold()?;
                    let held = place.get_or_init(|| Held { hold, tally: FaceTally::default() });
                    return Some(held.hold.lend(&held.tally));
                }
            }
        }
        hold()
    }
}

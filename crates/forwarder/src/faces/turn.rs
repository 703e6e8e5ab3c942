//! The faces that packets processed together come from and go to: held once, not once for each packet.

use core::cell::OnceCell;

use super::{FaceHold, FaceId, FaceKey, Faces};
use lock_api::RawMutex;

/// Faces that a turn remembers. More are held for each packet anew.
const HELD: usize = 4;

/// The time at which packets are processed, and the faces they met.
pub(crate) struct Turn<'f, R> {
    faces: &'f Faces<R>,
    held: [OnceCell<FaceHold<'f>>; HELD],
    pub(crate) now_ns: u64,
}

impl<'f, R: RawMutex> Turn<'f, R> {
    pub(crate) fn new(faces: &'f Faces<R>, now_ns: u64) -> Self {
        Turn { faces, held: [const { OnceCell::new() }; HELD], now_ns }
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
                Some(held) if is_it(held) && !held.is_released() => return Some(held.lend()),
                Some(_) => {}
                None => {
                    let hold = hold()?;
                    return Some(place.get_or_init(|| hold).lend());
                }
            }
        }
        hold()
    }
}

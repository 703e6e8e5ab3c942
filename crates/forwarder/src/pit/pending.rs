//! How many downstream records each face has. A face that is gone leaves its records to expire; its slot's next
//! user starts from 0.

use crate::config::ConfigError;
use crate::faces::{FaceKey, slots_max};
use crate::pool::Pool;
use crate::sync::{AtomicU64, Ordering};

/// Counts by face, without a lock.
pub(super) struct PendingByFace {
    slots: Pool<Pending, 64>,
}

/// A registration's generation and its count, on a cache line of their own: faces of different workers do not
/// disturb each other.
#[repr(align(64))]
struct Pending(AtomicU64);

const COUNT: u64 = u32::MAX as u64;

impl PendingByFace {
    pub(super) fn new(faces_max: usize) -> Result<Self, ConfigError> {
        Ok(PendingByFace { slots: Pool::new(slots_max(faces_max))? })
    }

    #[cfg(test)]
    pub(super) fn count(&self, face: FaceKey) -> usize {
        let state = self.slots.get(face.slot as usize).map_or(0, |slot| slot.0.load(Ordering::Relaxed));
        if (state >> 32) as u32 == face.generation { (state & COUNT) as usize } else { 0 }
    }

    /// Counts one more unless the face has `most`; says whether it did.
    pub(super) fn add(&self, face: FaceKey, most: usize) -> bool {
        let Some(slot) = self.slots.get_or_make(face.slot as usize, || Pending(AtomicU64::new(0))) else {
            return false;
        };
        let mut state = slot.0.load(Ordering::Relaxed);
        loop {
            let generation = (state >> 32) as u32;
            let next = if generation == face.generation {
                if (state & COUNT) as usize >= most {
                    return false;
                }
                state + 1
            } else if (face.generation.wrapping_sub(generation) as i32) < 0 {
                // The face went while its packet was on the way; its slot counts for another now.
                return true;
            } else {
                u64::from(face.generation) << 32 | 1
            };
            match slot.0.compare_exchange_weak(state, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    pub(super) fn sub(&self, face: FaceKey) {
        let Some(slot) = self.slots.get(face.slot as usize) else { return };
        let mut state = slot.0.load(Ordering::Relaxed);
        while (state >> 32) as u32 == face.generation && state & COUNT > 0 {
            match slot.0.compare_exchange_weak(state, state - 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_user_of_a_slot_starts_from_0_and_the_last_one_no_longer_counts() {
        let pending = PendingByFace::new(10).unwrap();
        let (old, new) = (FaceKey { slot: 3, generation: 1 }, FaceKey { slot: 3, generation: 2 });
        assert!(pending.add(old, 2) && pending.add(old, 2));
        assert!(!pending.add(old, 2));
        assert!(pending.add(new, 1));
        assert!(!pending.add(new, 1));
        assert!(pending.add(old, 2), "a late packet of a face that is gone");
        pending.sub(old);
        assert_eq!((pending.count(old), pending.count(new)), (0, 1));
        pending.sub(new);
        pending.sub(new);
        assert_eq!(pending.count(new), 0);
    }
}

//! What a worker has taken from the tables for a batch of packets and not used yet, or used no
//! longer and not given back yet: ids of places, and what faces may have pending. Taking and giving
//! back for each packet would be a locked operation each time, on lines that all workers write.
//!
//! What is in here counts as in use. A worker takes no more than its batch may need, uses what it
//! has before it reports that a table is full, and gives everything back when the batch ends
//! ([`crate::Forwarder::receive_batch`]): so limits are never exceeded, and met exactly unless
//! another worker is at work at the same moment.

use core::cell::Cell;

use crate::face_id::FaceKey;
use crate::slab::{Id, NONE};

/// Packets for which a worker takes ids and counts at once.
pub(crate) const AT_ONCE: usize = 32;

/// Faces whose counts are kept; those of others are settled at once.
const FACES: usize = 4;

/// Ids that are free, the last one to come the first to be used.
pub(crate) struct Magazine<const N: usize> {
    ids: [Cell<Id>; N],
    len: Cell<usize>,
}

impl<const N: usize> Magazine<N> {
    fn new() -> Self {
        Magazine { ids: [const { Cell::new(NONE) }; N], len: Cell::new(0) }
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Id> {
        let len = self.len.get().checked_sub(1)?;
        self.len.set(len);
        self.ids.get(len).map(Cell::get)
    }

    /// Puts an id in; returns false if there is no room for it.
    #[inline]
    pub(crate) fn put(&self, id: Id) -> bool {
        let len = self.len.get();
        let place = self.ids.get(len);
        if let Some(place) = place {
            place.set(id);
            self.len.set(len + 1);
        }
        place.is_some()
    }
}

/// How many downstream records more a face may have without asking.
struct Allowance {
    face: Cell<FaceKey>,
    records: Cell<u32>,
}

/// See the module.
pub(crate) struct Reserve {
    /// Packets of the batch that are not processed yet, this one included.
    left: Cell<usize>,
    pub(crate) pit: Magazine<{ 2 * AT_ONCE }>,
    pub(crate) cs_entries: Magazine<8>,
    pub(crate) cs_blocks: Magazine<32>,
    allowances: [Allowance; FACES],
}

impl Reserve {
    /// For a batch of so many packets.
    pub(crate) fn new(packets: usize) -> Self {
        let allowance = || Allowance { face: Cell::new(FaceKey::LOCAL), records: Cell::new(0) };
        Reserve {
            left: Cell::new(packets),
            pit: Magazine::new(),
            cs_entries: Magazine::new(),
            cs_blocks: Magazine::new(),
            allowances: core::array::from_fn(|_| allowance()),
        }
    }

    /// Begins anew, with nothing in it, for a batch of so many packets.
    pub(crate) fn begin(&self, packets: usize) {
        self.left.set(packets);
    }

    /// A packet was processed.
    pub(crate) fn next(&self) {
        self.left.set(self.left.get().saturating_sub(1));
    }

    /// For how many packets to take something.
    pub(crate) fn needed(&self) -> usize {
        self.left.get().clamp(1, AT_ONCE)
    }

    /// Uses one record of what `face` may have; returns false if it has none left.
    #[inline]
    pub(crate) fn use_record(&self, face: FaceKey) -> bool {
        let used = self.allowance(face).and_then(|own| {
            let records = own.records.get().checked_sub(1)?;
            own.records.set(records);
            Some(())
        });
        used.is_some()
    }

    /// Adds to what `face` may have; returns false if there is no room for another face.
    #[inline]
    pub(crate) fn add_records(&self, face: FaceKey, records: u32) -> bool {
        let vacant = || self.allowances.iter().find(|own| own.records.get() == 0);
        let Some(own) = self.allowance(face).or_else(vacant) else { return false };
        own.face.set(face);
        own.records.set(own.records.get() + records);
        true
    }

    fn allowance(&self, face: FaceKey) -> Option<&Allowance> {
        self.allowances.iter().find(|own| own.face.get() == face)
    }

    /// Takes out what a face may have more than it has.
    pub(crate) fn take_records(&self) -> Option<(FaceKey, u32)> {
        let own = self.allowances.iter().find(|own| own.records.get() > 0)?;
        Some((own.face.get(), own.records.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_magazine_holds_so_many_ids_and_gives_back_the_last_one_first() {
        let magazine = Magazine::<3>::new();
        assert!((1..=3).all(|id| magazine.put(id)) && !magazine.put(4));
        assert_eq!([(); 4].map(|()| magazine.take()), [Some(3), Some(2), Some(1), None]);
    }

    #[test]
    fn records_belong_to_their_face_and_a_fifth_face_finds_no_room() {
        let reserve = Reserve::new(1);
        let face = |slot| FaceKey { slot, generation: 1 };
        assert!((0..FACES as u32).all(|slot| reserve.add_records(face(slot), slot + 1)));
        assert!(!reserve.add_records(face(9), 1) && !reserve.use_record(face(9)));
        assert!(reserve.use_record(face(0)) && !reserve.use_record(face(0)));
        assert!(reserve.add_records(face(9), 1), "one that has none left makes room");
        let mut left = [(); FACES].map(|()| reserve.take_records().unwrap());
        left.sort_unstable();
        assert_eq!(left, [(face(1), 2), (face(2), 3), (face(3), 4), (face(9), 1)]);
        assert_eq!(reserve.take_records(), None);
    }

    #[test]
    fn no_more_is_taken_than_the_batch_may_need() {
        let reserve = Reserve::new(AT_ONCE + 1);
        assert_eq!(reserve.needed(), AT_ONCE);
        (0..AT_ONCE).for_each(|_| reserve.next());
        assert_eq!(reserve.needed(), 1);
        reserve.next();
        assert_eq!(reserve.needed(), 1, "somebody asks, so something is needed");
    }
}

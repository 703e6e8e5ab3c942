//! A worker's reserve for one batch of packets: ids of slots, and counts of pending records of
//! faces. They were taken from the tables and are not used yet, or are free again and not returned
//! yet. Without the reserve each packet would need locked operations on cache lines that all
//! workers write.
//!
//! The reserve counts as in use. A worker takes no more than its batch may need, uses its reserve
//! before it reports a full table, and returns everything when the batch ends
//! ([`crate::Forwarder::receive_batch`]). So limits are never exceeded, and are met exactly unless
//! another worker runs at the same moment.

use core::cell::Cell;

use crate::face_id::FaceKey;
use crate::slab::{Id, NONE};

/// Maximum number of packets for which a worker takes ids and counts at once.
pub(crate) const AT_ONCE: usize = 32;

/// Number of faces with a reserve of counts; those of other faces are settled at once.
const FACES: usize = 4;

/// A stack of free ids: the last one returned is the first one used.
pub(crate) struct Magazine<const N: usize> {
    // Cells and not atomics: a reserve belongs to one worker.
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

    /// Adds an id; returns false if there is no room for it.
    #[inline]
    pub(crate) fn put(&self, id: Id) -> bool {
        let len = self.len.get();
        let slot = self.ids.get(len);
        if let Some(slot) = slot {
            slot.set(id);
            self.len.set(len + 1);
        }
        slot.is_some()
    }
}

/// The number of further downstream records that a face may add without a count in the table.
struct Allowance {
    face: Cell<FaceKey>,
    records: Cell<u32>,
}

/// See the module documentation.
pub(crate) struct Reserve {
    /// Packets of the batch that are not processed yet, including the current one.
    left: Cell<usize>,
    // For the ids that are taken at once, and for as many that the batch frees.
    pub(crate) pit: Magazine<{ 2 * AT_ONCE }>,
    pub(crate) cs_entries: Magazine<8>,
    pub(crate) cs_blocks: Magazine<32>,
    allowances: [Allowance; FACES],
}

impl Reserve {
    /// Creates a reserve for a batch of `packets` packets.
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

    /// Begins a batch of `packets` packets; the reserve is empty.
    pub(crate) fn begin(&self, packets: usize) {
        self.left.set(packets);
    }

    /// Ends the processing of a packet.
    pub(crate) fn next(&self) {
        self.left.set(self.left.get().saturating_sub(1));
    }

    /// The number of packets to take ids or counts for.
    pub(crate) fn needed(&self) -> usize {
        // At least the one for this call, and no more than fit into the magazine.
        self.left.get().clamp(1, AT_ONCE)
    }

    /// Uses one of the reserved records of `face`; returns false if there is none left.
    #[inline]
    pub(crate) fn use_record(&self, face: FaceKey) -> bool {
        let used = self.allowance(face).and_then(|own| {
            let records = own.records.get().checked_sub(1)?;
            own.records.set(records);
            Some(())
        });
        used.is_some()
    }

    /// Adds to the reserved records of `face`; returns false if there is no room for another face.
    #[inline]
    pub(crate) fn add_records(&self, face: FaceKey, records: u32) -> bool {
        // A face without records left needs its slot no longer.
        let vacant = || self.allowances.iter().find(|own| own.records.get() == 0);
        let Some(own) = self.allowance(face).or_else(vacant) else { return false };
        own.face.set(face);
        own.records.set(own.records.get() + records);
        true
    }

    fn allowance(&self, face: FaceKey) -> Option<&Allowance> {
        self.allowances.iter().find(|own| own.face.get() == face)
    }

    /// Removes and returns the unused records of a face.
    pub(crate) fn take_records(&self) -> Option<(FaceKey, u32)> {
        let own = self.allowances.iter().find(|own| own.records.get() > 0)?;
        Some((own.face.get(), own.records.take()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_magazine_returns_the_last_id_first() {
        let magazine = Magazine::<3>::new();
        assert!((1..=3).all(|id| magazine.put(id)) && !magazine.put(4));
        assert_eq!([(); 4].map(|()| magazine.take()), [Some(3), Some(2), Some(1), None]);
    }

    #[test]
    fn a_fifth_face_gets_no_records() {
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
    fn a_batch_takes_no_more_than_needed() {
        let reserve = Reserve::new(AT_ONCE + 1);
        assert_eq!(reserve.needed(), AT_ONCE);
        (0..AT_ONCE).for_each(|_| reserve.next());
        assert_eq!(reserve.needed(), 1);
        reserve.next();
        assert_eq!(reserve.needed(), 1, "somebody asks, so something is needed");
    }
}

//! What is found by a name above its own: an Interest with CanBePrefix for an object, for a version
//! of it, or for a key.
//!
//! A packet is found by its name without the last component and without the last two: the first
//! segment by its object and by its version, a certificate by its key, another Data by what it is
//! one of. Of several below a name it is the one that was written last. Segments behind the first
//! are found by their own names alone. As many names are known as [`OCTETS_A_NAME`] allows; those
//! that were written longest ago are forgotten first, and what is not found is asked for upstream.

use namely_wire::NameRef;
use parking_lot::Mutex;

use super::filter::scale;
use super::record::Key;

/// Octets of the disk for each name above others that is known: half an octet of memory a KiB.
pub(crate) const OCTETS_A_NAME: u64 = 32 << 10;

/// Components that may be missing.
const MISSING_MAX: usize = 2;

/// Names that may lie in one place: of these the oldest is forgotten.
const WAYS: usize = 8;

/// That a packet lies below a name: hashes of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Of the name above; 0: none.
    pub(crate) above: u64,
    /// Of the packet's own.
    pub(crate) hash: u64,
}

/// By what the packet of a name, with this hash, is found beside its name.
pub(crate) fn heads(key: &Key, name: NameRef<'_>, hash: u64) -> impl Iterator<Item = Head> {
    let is_behind = name.last().and_then(|last| last.segment()).is_some_and(|segment| segment > 0);
    let most = if is_behind { 0 } else { MISSING_MAX.min(name.len().saturating_sub(1)) };
    (1..=most).map(move |missing| Head { above: key.hash(name.without_last(missing).as_bytes()), hash })
}

/// Names above others, and a packet below each.
#[derive(Debug)]
pub(crate) struct Above(Mutex<Box<[[Head; WAYS]]>>);

impl Above {
    /// For so many names.
    pub(crate) fn new(names: usize) -> Self {
        Above(Mutex::new(vec![[Head::default(); WAYS]; (names / WAYS).max(1)].into_boxed_slice()))
    }

    /// A packet has been written: from now on it is the one that is found.
    pub(crate) fn insert(&self, head: Head) {
        self.at(head.above, |ways| {
            // The newest first.
            let end = ways.iter().position(|known| known.above == head.above).unwrap_or(WAYS - 1);
            ways[..=end].rotate_right(1);
            ways[0] = head;
        });
    }

    /// The same of one that was written before all that are known.
    pub(crate) fn insert_older(&self, head: Head) {
        self.at(head.above, |ways| {
            let free = ways.iter_mut().find(|known| known.above == 0 || known.above == head.above);
            if let Some(free) = free.filter(|free| free.above == 0) {
                *free = head;
            }
        });
    }

    /// The hash of a packet below a name.
    pub(crate) fn find(&self, above: u64) -> Option<u64> {
        self.at(above, |ways| ways.iter().find(|known| known.above == above).map(|known| known.hash))
    }

    fn at<T>(&self, above: u64, look: impl FnOnce(&mut [Head; WAYS]) -> T) -> T {
        let mut all = self.0.lock();
        let place = scale(above, all.len());
        look(&mut all[place])
    }

    pub(crate) fn memory_octets(&self) -> usize {
        size_of_val(&**self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use namely_wire::Name;

    use super::*;
    use crate::testing::hash;

    #[test]
    fn a_packet_is_found_by_the_names_above_it_unless_it_is_a_segment_behind_the_first() {
        let key = Key::new(&[7; 32]);
        let of = |uri: &str| {
            let name: Name = uri.parse().unwrap();
            heads(&key, name.as_name(), 1).map(|head| head.above).collect::<Vec<_>>()
        };
        let hash = |uri: &str| key.hash(uri.parse::<Name>().unwrap().as_name().as_bytes());
        assert_eq!(of("/lab/run/v=1/seg=0"), [hash("/lab/run/v=1"), hash("/lab/run")]);
        assert_eq!(of("/lab/KEY/k/self/v=2"), [hash("/lab/KEY/k/self"), hash("/lab/KEY/k")]);
        assert_eq!(of("/lab/run/v=1/seg=1"), []);
        assert_eq!((of("/lab/run").len(), of("/lab").len(), of("/").len()), (1, 0, 0));
    }

    #[test]
    fn of_so_many_names_in_a_place_the_oldest_is_forgotten_for_one_more() {
        let above = Above::new(WAYS);
        let head = |n: u64| Head { above: hash(n), hash: n };
        (0..WAYS as u64).for_each(|n| above.insert(head(n)));
        assert!((0..WAYS as u64).all(|n| above.find(hash(n)) == Some(n)));
        // One that is known already takes no more room, and is the newest then.
        above.insert(Head { hash: 77, ..head(0) });
        above.insert(head(100));
        assert_eq!([0, 1, 2, 100].map(|n| above.find(hash(n))), [Some(77), None, Some(2), Some(100)]);
        // What is older puts nothing out and replaces nothing.
        above.insert_older(head(1));
        above.insert_older(Head { hash: 5, ..head(0) });
        assert_eq!([0, 1].map(|n| above.find(hash(n))), [Some(77), None]);
        let above = Above::new(WAYS);
        above.insert_older(head(3));
        above.insert_older(Head { hash: 4, ..head(3) });
        assert_eq!(above.find(hash(3)), Some(3));
    }
}

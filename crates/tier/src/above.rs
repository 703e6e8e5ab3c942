//! Finds packets by a name above their own, for an Interest with CanBePrefix: the name of an
//! object, of a version of an object, or of a key.
//!
//! A packet is found by its name without the last component, and without the last two. So the name
//! of an object or of its version finds the first segment, and the name of a key finds a
//! certificate. Of several packets below a name, the one written last is returned. Segments after
//! the first are found only by their own names. The number of names is limited by
//! [`OCTETS_A_NAME`]; the oldest are evicted first, and an Interest that finds nothing goes
//! upstream.

use namely_wire::NameRef;
use parking_lot::Mutex;

use super::filter::scale;
use super::record::Key;

/// Names above those of records by which packets are found.
///
/// The constant is the octets of the disk per name: half an octet of memory per KiB of the disk.
///
/// # Limit
/// The oldest name of the same set is evicted, and packets below it are found only by their own
/// names.
/// - Value: one for each 32 KiB of the budget with which the tier is opened, of 16 octets each
/// - Tests: `a_full_slot_forgets_its_oldest_name`,
///   `known_prefixes_are_limited`
pub(crate) const OCTETS_A_NAME: u64 = 32 << 10;

/// Maximum number of components that an Interest may leave out.
const MISSING_MAX: usize = 2;

/// Names per set; the oldest of them is evicted.
const WAYS: usize = 8;

/// A packet below a name: hashes of both names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixEntry {
    /// Hash of the name above; 0 for an empty slot.
    pub(crate) above: u64,
    /// Hash of the packet's own name.
    pub(crate) hash: u64,
}

/// Returns the names above a packet that find it, in addition to its own name. `hash` is the hash
/// of the packet's own name.
pub(crate) fn heads(key: &Key, name: NameRef<'_>, hash: u64) -> impl Iterator<Item = PrefixEntry> {
    // Segments after the first are found by their own names, and would evict the names of other
    // packets.
    let is_behind = name.last().and_then(|last| last.segment()).is_some_and(|segment| segment > 0);
    let most = if is_behind { 0 } else { MISSING_MAX.min(name.len().saturating_sub(1)) };
    (1..=most)
        .map(move |missing| PrefixEntry { above: key.hash(name.without_last(missing).as_bytes()), hash })
}

/// Names above packets, each with one packet below it.
#[derive(Debug)]
pub(crate) struct PrefixIndex(Mutex<Box<[[PrefixEntry; WAYS]]>>);

impl PrefixIndex {
    /// Creates a table for `names` names.
    pub(crate) fn new(names: usize) -> Self {
        PrefixIndex(Mutex::new(
            vec![[PrefixEntry::default(); WAYS]; (names / WAYS).max(1)].into_boxed_slice(),
        ))
    }

    /// Records a packet that has been written. Later lookups return it.
    pub(crate) fn insert(&self, head: PrefixEntry) {
        self.at(head.above, |ways| {
            // The newest entry is the first.
            let end = ways.iter().position(|known| known.above == head.above).unwrap_or(WAYS - 1);
            ways[..=end].rotate_right(1);
            ways[0] = head;
        });
    }

    /// Records a packet that is older than all packets recorded so far.
    pub(crate) fn insert_older(&self, head: PrefixEntry) {
        self.at(head.above, |ways| {
            // An entry of the same name is newer, so it stays.
            let free = ways.iter_mut().find(|known| known.above == 0 || known.above == head.above);
            if let Some(free) = free.filter(|free| free.above == 0) {
                *free = head;
            }
        });
    }

    /// Returns the hash of a packet below a name.
    pub(crate) fn find(&self, above: u64) -> Option<u64> {
        self.at(above, |ways| ways.iter().find(|known| known.above == above).map(|known| known.hash))
    }

    fn at<T>(&self, above: u64, look: impl FnOnce(&mut [PrefixEntry; WAYS]) -> T) -> T {
        // One lock for all sets, because it is held only for a search among [`WAYS`] entries.
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
    use namely_testkit::hash;

    #[test]
    fn only_first_segments_are_found_by_prefix() {
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
    fn a_full_slot_forgets_its_oldest_name() {
        let above = PrefixIndex::new(WAYS);
        let head = |n: u64| PrefixEntry { above: hash(n), hash: n };
        (0..WAYS as u64).for_each(|n| above.insert(head(n)));
        assert!((0..WAYS as u64).all(|n| above.find(hash(n)) == Some(n)));
        // A name that is recorded already takes no further slot and becomes the newest.
        above.insert(PrefixEntry { hash: 77, ..head(0) });
        above.insert(head(100));
        assert_eq!([0, 1, 2, 100].map(|n| above.find(hash(n))), [Some(77), None, Some(2), Some(100)]);
        // An older packet evicts nothing and replaces nothing.
        above.insert_older(head(1));
        above.insert_older(PrefixEntry { hash: 5, ..head(0) });
        assert_eq!([0, 1].map(|n| above.find(hash(n))), [Some(77), None]);
        let above = PrefixIndex::new(WAYS);
        above.insert_older(head(3));
        above.insert_older(PrefixEntry { hash: 4, ..head(3) });
        assert_eq!(above.find(hash(3)), Some(3));
    }
}

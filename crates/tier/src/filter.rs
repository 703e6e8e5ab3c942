//! First-stage bypass: the filter reports hashes that are certainly not in the index. Deletion
//! removes only inserted hashes, so there is never a false negative.
//!
//! A cuckoo filter (Fan and others, CoNEXT 2014), or a counting Bloom filter as in NB-Cache.

/// The filter in front of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterKind {
    /// A cuckoo filter with fingerprints of 16 bits.
    #[default]
    Cuckoo,
    /// A counting Bloom filter: 12 counters of four bits per record; a lookup reads 7.
    CountingBloom,
    /// No filter: every lookup reads the index. For comparison in experiments.
    None,
}

/// A filter of hashes.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    Cuckoo(Cuckoo),
    Bloom(CountingBloom),
    /// No filter, or one that could not be built: every hash passes.
    Any,
}

/// Maximum number of attempts to build a larger cuckoo filter after one is full.
const BUILDS_MAX: usize = 16;

impl Filter {
    /// Builds a filter of these hashes with room for `records`.
    pub(crate) fn build(kind: FilterKind, records: usize, hashes: impl Iterator<Item = u64> + Clone) -> Self {
        match kind {
            FilterKind::CountingBloom => {
                let mut bloom = CountingBloom::new(records);
                hashes.for_each(|hash| bloom.insert(hash));
                Filter::Bloom(bloom)
            }
            FilterKind::None => Filter::Any,
            FilterKind::Cuckoo => {
                let mut room = records;
                for _ in 0..BUILDS_MAX {
                    let mut cuckoo = Cuckoo::new(room);
                    // A failed insertion has displaced another fingerprint, so the whole filter is
                    // discarded.
                    if hashes.clone().all(|hash| cuckoo.insert(hash)) {
                        return Filter::Cuckoo(cuckoo);
                    }
                    room += room / 8 + 1;
                }
                // Without a filter lookups are slower, but still correct.
                Filter::Any
            }
        }
    }

    /// Inserts a hash. Returns false if the filter is full and must be rebuilt.
    pub(crate) fn insert(&mut self, hash: u64) -> bool {
        match self {
            Filter::Cuckoo(cuckoo) => cuckoo.insert(hash),
            Filter::Bloom(bloom) => {
                bloom.insert(hash);
                true
            }
            Filter::Any => true,
        }
    }

    /// Removes an inserted hash once.
    pub(crate) fn remove(&mut self, hash: u64) {
        match self {
            Filter::Cuckoo(cuckoo) => cuckoo.remove(hash),
            Filter::Bloom(bloom) => bloom.remove(hash),
            Filter::Any => {}
        }
    }

    /// Returns false if the hash is certainly not in the filter.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        match self {
            Filter::Cuckoo(cuckoo) => cuckoo.may_have(hash),
            Filter::Bloom(bloom) => bloom.may_have(hash),
            Filter::Any => true,
        }
    }

    pub(crate) fn memory_octets(&self) -> usize {
        match self {
            Filter::Cuckoo(cuckoo) => cuckoo.buckets.capacity() * size_of::<Bucket>(),
            Filter::Bloom(bloom) => bloom.counters.capacity() * size_of::<u64>(),
            Filter::Any => 0,
        }
    }
}

/// Fingerprints that share a bucket; zero is an empty slot.
type Bucket = [u16; 4];

/// Displacements of an insertion before the filter counts as full.
const KICKS_MAX: usize = 256;

/// A cuckoo filter: the fingerprint of a hash lies in one of two buckets, and each bucket follows
/// from the other and the fingerprint.
#[derive(Clone, Debug)]
pub(crate) struct Cuckoo {
    buckets: Vec<Bucket>,
}

impl Cuckoo {
    /// Creates a filter with room for `records`, and six percent of spare slots.
    fn new(records: usize) -> Self {
        let buckets = (records + records / 16).div_ceil(4).max(2);
        Cuckoo { buckets: vec![Bucket::default(); buckets] }
    }

    fn fingerprint(hash: u64) -> u16 {
        ((hash >> 16) as u16).max(1)
    }

    fn first(&self, hash: u64) -> usize {
        // Uses the highest bits. The fingerprint and the index's shard use other bits.
        scale(hash, self.buckets.len())
    }

    /// Returns the other bucket of a fingerprint. The sum of both buckets depends only on the
    /// fingerprint, so each bucket yields the other in a filter of any size.
    fn other(&self, bucket: usize, fingerprint: u16) -> usize {
        // A multiplicative hash: the overflow is discarded, and `scale` uses the highest bits.
        let sum = scale(u64::from(fingerprint).wrapping_mul(0x9e37_79b9_7f4a_7c15), self.buckets.len());
        let other = sum + self.buckets.len() - bucket;
        if other >= self.buckets.len() { other - self.buckets.len() } else { other }
    }

    fn put(&mut self, bucket: usize, fingerprint: u16) -> bool {
        let free = self.buckets[bucket].iter_mut().find(|place| **place == 0);
        free.map(|place| *place = fingerprint).is_some()
    }

    fn insert(&mut self, hash: u64) -> bool {
        let mut fingerprint = Self::fingerprint(hash);
        let first = self.first(hash);
        let mut bucket = self.other(first, fingerprint);
        if self.put(first, fingerprint) || self.put(bucket, fingerprint) {
            return true;
        }
        // The hash is keyed, so a peer cannot predict the displacements.
        let mut random = hash | 1;
        for _ in 0..KICKS_MAX {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            std::mem::swap(&mut self.buckets[bucket][(random >> 62) as usize], &mut fingerprint);
            bucket = self.other(bucket, fingerprint);
            if self.put(bucket, fingerprint) {
                return true;
            }
        }
        false
    }

    fn remove(&mut self, hash: u64) {
        let fingerprint = Self::fingerprint(hash);
        let first = self.first(hash);
        // Equal fingerprints are interchangeable, so either of them may be removed.
        for bucket in [first, self.other(first, fingerprint)] {
            if let Some(place) = self.buckets[bucket].iter_mut().find(|place| **place == fingerprint) {
                *place = 0;
                return;
            }
        }
    }

    fn may_have(&self, hash: u64) -> bool {
        let fingerprint = Self::fingerprint(hash);
        let first = self.first(hash);
        self.buckets[first].contains(&fingerprint)
            || self.buckets[self.other(first, fingerprint)].contains(&fingerprint)
    }
}

const COUNTERS_PER_RECORD: usize = 12;
const BLOOM_HASHES: u64 = 7;
const COUNTERS_PER_WORD: usize = 16;

/// A counting Bloom filter. A counter at its maximum stays there.
#[derive(Clone, Debug)]
pub(crate) struct CountingBloom {
    counters: Vec<u64>,
}

impl CountingBloom {
    fn new(records: usize) -> Self {
        let words = (records * COUNTERS_PER_RECORD).div_ceil(COUNTERS_PER_WORD).max(1);
        CountingBloom { counters: vec![0; words] }
    }

    /// Returns each counter of a hash: its word, and the shift in the word.
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u32)> + use<> {
        let counters = self.counters.len() * COUNTERS_PER_WORD;
        // The step is never zero, which would yield one counter seven times.
        let step = hash.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..BLOOM_HASHES).map(move |i| {
            let counter = scale(hash.rotate_left(24).wrapping_add(step.wrapping_mul(i)), counters);
            (counter / COUNTERS_PER_WORD, (counter % COUNTERS_PER_WORD * 4) as u32)
        })
    }

    fn insert(&mut self, hash: u64) {
        for (word, shift) in self.places(hash) {
            if self.counters[word] >> shift & 15 < 15 {
                self.counters[word] += 1 << shift;
            }
        }
    }

    fn remove(&mut self, hash: u64) {
        for (word, shift) in self.places(hash) {
            // At 15 the true count is unknown, and a decrement could cause a false negative.
            if (1..15).contains(&(self.counters[word] >> shift & 15)) {
                self.counters[word] -= 1 << shift;
            }
        }
    }

    fn may_have(&self, hash: u64) -> bool {
        self.places(hash).all(|(word, shift)| self.counters[word] >> shift & 15 > 0)
    }
}

/// A number below `limit`, from the highest bits of `hash`.
pub(crate) fn scale(hash: u64, limit: usize) -> usize {
    // A multiplication avoids a division, and `limit` need not be a power of two.
    ((u128::from(hash) * limit as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use namely_testkit::hash;

    const KINDS: [FilterKind; 2] = [FilterKind::Cuckoo, FilterKind::CountingBloom];

    #[test]
    fn a_full_filter_has_few_false_positives() {
        for kind in KINDS {
            let records = 20_000;
            let filter = Filter::build(kind, records as usize, (0..records).map(hash));
            assert!((0..records).all(|n| filter.may_have(hash(n))));
            let false_positives = (records..records + 200_000).filter(|n| filter.may_have(hash(*n))).count();
            assert!(false_positives < 1000, "{kind:?}: {false_positives} of 200000");
        }
    }

    #[test]
    fn a_filter_reports_when_it_is_full() {
        let mut cuckoo = Cuckoo::new(1000);
        let taken = (0..100_000).take_while(|n| cuckoo.insert(hash(*n))).count();
        assert!((1000..1100).contains(&taken), "{taken}");
        // The same hash fits as often as it has slots, and no more.
        let mut cuckoo = Cuckoo::new(1000);
        assert_eq!((0..100).take_while(|_| cuckoo.insert(hash(7))).count(), 8);
        // A larger filter has no more slots for one hash, so every hash passes.
        assert!(matches!(Filter::build(FilterKind::Cuckoo, 9, std::iter::repeat_n(hash(7), 9)), Filter::Any));
    }

    proptest! {
        #[test]
        fn a_filter_never_denies_a_present_record(
            steps in proptest::collection::vec((any::<bool>(), 0..300_u64), 1..2000),
            is_bloom in any::<bool>(),
        ) {
            let kind = if is_bloom { FilterKind::CountingBloom } else { FilterKind::Cuckoo };
            let mut there = BTreeSet::new();
            let mut filter = Filter::build(kind, 64, std::iter::empty());
            for (inserts, n) in steps {
                if inserts && there.insert(n) {
                    if !filter.insert(hash(n)) {
                        filter = Filter::build(kind, there.len() * 5 / 4, there.iter().map(|n| hash(*n)));
                    }
                } else if !inserts && there.remove(&n) {
                    filter.remove(hash(n));
                }
                prop_assert!(there.iter().all(|n| filter.may_have(hash(*n))));
            }
        }
    }
}

//! The buckets of the PIT. Their number grows with the entries, so that an unused table takes
//! little memory.
//!
//! Buckets are in stages. Each stage has 16 times as many as the one before, and the last one has
//! as many as the table has entries. A stage is begun when the table has more entries than the
//! present stage has buckets. Its buckets are then *unsplit*: their entries are still in the bucket
//! of the stage before that has the same lower bits of the hash. The first lookup in an unsplit
//! bucket splits it: it moves the entries of one chain. So a packet moves at most one chain for
//! each stage, and none pays for a rehash. The packet that begins a stage clears its buckets, 8
//! octets for each, unless [`crate::Forwarder::grow`] has allocated them before.
//!
//! # Locks
//!
//! A split holds the bucket of the earlier stage and then that of the later one, so two splits
//! never wait for each other. All other work holds one bucket.
//!
//! A thread that has locked a bucket checks that no later stage has begun. A split takes entries
//! out of the bucket under the same lock, and reads the later stage before. So if a split came
//! first, the thread reads that stage, too, and looks again; otherwise the split waits for it.

use alloc::boxed::Box;

use lock_api::{Mutex, MutexGuard, RawMutex};
use once_cell::race::OnceBox;

use crate::error::ConfigError;
use crate::pool::{PAGE_OCTETS, boxed};
use crate::prefetch::prefetch;
use crate::slab::{Id, NONE};
use crate::sync::{AtomicU32, Ordering, plain};

/// Minimum and maximum number of buckets of the last stage. With more entries than the maximum,
/// chains are longer and lookups slower, but still correct.
const BUCKETS_MIN: usize = if cfg!(loom) { 1 } else { 16 };
const BUCKETS_MAX: usize = if cfg!(loom) { 1 } else { 1 << 22 };

/// The bits of a hash that one more stage uses.
const STAGE_BITS: u32 = 4;

/// Minimum bits of the first stage, and maximum number of stages.
const FIRST_BITS_MIN: u32 = BUCKETS_MIN.trailing_zeros();
const STAGES_MAX: usize = ((BUCKETS_MAX.trailing_zeros() - FIRST_BITS_MIN) / STAGE_BITS) as usize + 1;

/// The head of a bucket that is not split from the stage before. No slot has this id.
const UNSPLIT: Id = Id::MAX;

/// The buckets of a stage, in a box of their own.
type Stage<R> = [Box<[Bucket<R>]>; 1];

/// See the module documentation.
pub(super) struct Buckets<R> {
    /// The first of `count` stages always exists, and so do all up to the one in use.
    stages: [OnceBox<Stage<R>>; STAGES_MAX],
    count: u32,
    /// The bits of a hash that the first stage uses.
    first_bits: u32,
    /// The stage in use. It only grows. Plain, because there is one stage under `loom`.
    stage: plain::AtomicU32,
}

/// A chain of entries.
pub(super) struct Bucket<R> {
    lock: Mutex<R, ()>,
    /// The first entry. Written under the lock. Only prefetches and [`Buckets::split`] read it
    /// without the lock.
    head: AtomicU32,
}

/// A bucket under its lock.
pub(super) struct Chain<'a, R: RawMutex> {
    _guard: MutexGuard<'a, R, ()>,
    head: &'a AtomicU32,
}

/// An entry in a chain. Both fields are written under the bucket's lock.
pub(super) struct Node<'a> {
    pub(super) hash: u64,
    /// The next entry of the chain.
    pub(super) next: &'a AtomicU32,
}

impl<R: RawMutex> Bucket<R> {
    fn new(head: Id) -> Self {
        Bucket { lock: Mutex::new(()), head: AtomicU32::new(head) }
    }

    #[inline]
    fn lock(&self) -> Chain<'_, R> {
        Chain { _guard: self.lock.lock(), head: &self.head }
    }
}

impl<R: RawMutex> Chain<'_, R> {
    pub(super) fn first(&self) -> Id {
        self.head.load(Ordering::Relaxed)
    }

    pub(super) fn set_first(&mut self, id: Id) {
        self.head.store(id, Ordering::Relaxed);
    }
}

/// The buckets of the stage in use, for the prefetches of a batch.
pub(super) struct PresentBuckets<'a, R>(&'a [Bucket<R>]);

impl<R> PresentBuckets<'_, R> {
    /// Prefetches the bucket of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        bucket_in(self.0, hash).into_iter().for_each(prefetch);
    }

    /// The first entry of the chain of a hash. If another thread changes the chain meanwhile, it
    /// may be any entry, or none.
    #[inline]
    pub(super) fn first(&self, hash: u64) -> Id {
        bucket_in(self.0, hash).map_or(NONE, |bucket| bucket.head.load(Ordering::Relaxed))
    }
}

/// The bucket of a hash among those of a stage, whose number is a power of two.
#[inline]
fn bucket_in<R>(buckets: &[Bucket<R>], hash: u64) -> Option<&Bucket<R>> {
    buckets.get(hash as usize & buckets.len().wrapping_sub(1))
}

impl<R: RawMutex> Buckets<R> {
    /// Buckets for `entries_max` entries; those of the first stage are allocated.
    pub(super) fn new(entries_max: usize) -> Result<Self, ConfigError> {
        let bits = entries_max.clamp(BUCKETS_MIN, BUCKETS_MAX).next_power_of_two().trailing_zeros();
        let more = (bits - FIRST_BITS_MIN) / STAGE_BITS;
        let buckets = Buckets {
            stages: [const { OnceBox::new() }; STAGES_MAX],
            count: more + 1,
            first_bits: bits - more * STAGE_BITS,
            stage: plain::AtomicU32::new(0),
        };
        buckets.make(0)?;
        Ok(buckets)
    }

    /// Allocates the buckets of all stages.
    pub(super) fn prepare(&self) -> Result<(), ConfigError> {
        (1..self.count).try_for_each(|stage| self.make(stage))
    }

    /// Returns true if [`Buckets::fill_ahead`] would allocate a stage.
    pub(super) fn is_behind(&self, used: usize) -> bool {
        self.ahead(used).is_some()
    }

    /// Allocates the next stage once more than half as many entries are used as the present one has
    /// buckets. Returns true if it was allocated.
    pub(super) fn fill_ahead(&self, used: usize) -> Result<bool, ConfigError> {
        self.ahead(used).map_or(Ok(false), |stage| self.make(stage).map(|()| true))
    }

    /// The stage that must exist when `used` entries are used, if it does not. A stage of one page
    /// is left to the packet that begins it.
    fn ahead(&self, used: usize) -> Option<u32> {
        let next = self.stage.load(Ordering::Relaxed) + 1;
        let is_due = next < self.count
            && used > self.len_of(next) >> (STAGE_BITS + 1)
            && self.len_of(next) * size_of::<Bucket<R>>() > PAGE_OCTETS;
        (is_due && self.of(next).is_empty()).then_some(next)
    }

    /// Begins the next stages, as far as `entries` entries need them. Without memory for a stage,
    /// chains have more entries than intended: slower, but not wrong.
    #[cold]
    pub(super) fn grow(&self, entries: usize) {
        loop {
            let stage = self.stage.load(Ordering::Acquire);
            if entries <= self.len_of(stage) || stage + 1 >= self.count || self.make(stage + 1).is_err() {
                return;
            }
            // Release pairs with the Acquire of `present` and `lock_split`: a thread that reads the
            // stage finds its buckets. If it fails, another thread has begun the stage.
            let _ = self.stage.compare_exchange(stage, stage + 1, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// The buckets of the stage in use.
    pub(super) fn present(&self) -> PresentBuckets<'_, R> {
        PresentBuckets(self.of(self.stage.load(Ordering::Acquire)))
    }

    /// Locks the bucket of a hash, which then has all entries of this hash. `node` returns an
    /// entry.
    #[inline]
    pub(super) fn lock<'a>(&'a self, hash: u64, node: impl Fn(Id) -> Option<Node<'a>>) -> Chain<'a, R> {
        let stage = self.stage.load(Ordering::Acquire);
        if let Some(bucket) = bucket_in(self.of(stage), hash) {
            let chain = bucket.lock();
            if self.is_present(stage, &chain) {
                return chain;
            }
        }
        self.lock_split(hash, node)
    }

    /// As `lock`, for a bucket that is not split, or if a stage has begun.
    #[cold]
    fn lock_split<'a>(&'a self, hash: u64, node: impl Fn(Id) -> Option<Node<'a>>) -> Chain<'a, R> {
        // Repeated only if a stage begins meanwhile, and there are few.
        loop {
            let stage = self.stage.load(Ordering::Acquire);
            (1..=stage).for_each(|stage| self.split(stage, hash, &node));
            let Some(bucket) = bucket_in(self.of(stage), hash) else { continue };
            let chain = bucket.lock();
            if self.is_present(stage, &chain) {
                return chain;
            }
        }
    }

    /// Returns true if a locked bucket of a stage has all entries of its hashes.
    #[inline]
    fn is_present(&self, stage: u32, chain: &Chain<'_, R>) -> bool {
        // Relaxed: if a split has taken entries out of the bucket, it has read a later stage before
        // it released the bucket's lock, which this thread has taken since. So this thread does not
        // read an earlier value.
        chain.first() != UNSPLIT && self.stage.load(Ordering::Relaxed) == stage
    }

    /// Splits the bucket of a hash in a stage after the first, unless it is split. Those of the
    /// stages before are split.
    fn split<'a>(&'a self, stage: u32, hash: u64, node: &impl Fn(Id) -> Option<Node<'a>>) {
        let buckets = self.of(stage);
        let from = bucket_in(self.of(stage - 1), hash);
        let (Some(from), Some(to)) = (from, bucket_in(buckets, hash)) else { return };
        // Relaxed: a bucket that is split stays so, and its entries are read under its lock only.
        if to.head.load(Ordering::Relaxed) != UNSPLIT {
            return;
        }
        // The earlier stage first, as in every split.
        let (mut from, mut to) = (from.lock(), to.lock());
        if to.first() != UNSPLIT {
            return;
        }
        let mask = buckets.len() - 1;
        let mut id = from.first();
        from.set_first(NONE);
        to.set_first(NONE);
        let (mut last_from, mut last_to) = (None, None);
        // Both chains keep the order of their entries.
        while let Some(Node { hash: own, next }) = node(id) {
            let moves = (own ^ hash) as usize & mask == 0;
            let (chain, last) = if moves { (&mut to, &mut last_to) } else { (&mut from, &mut last_from) };
            match last.replace(next) {
                None => chain.set_first(id),
                Some(before) => before.store(id, Ordering::Relaxed),
            }
            id = next.load(Ordering::Relaxed);
            next.store(NONE, Ordering::Relaxed);
        }
    }

    /// The buckets of a stage; none if it is not allocated.
    #[inline]
    fn of(&self, stage: u32) -> &[Bucket<R>] {
        match self.stages.get(stage as usize).and_then(OnceBox::get) {
            Some(buckets) => &buckets[0],
            None => &[],
        }
    }

    /// Allocates the buckets of a stage.
    fn make(&self, stage: u32) -> Result<(), ConfigError> {
        let Some(cell) = self.stages.get(stage as usize) else { return Ok(()) };
        let head = if stage == 0 { NONE } else { UNSPLIT };
        let made = || -> Result<Box<Stage<R>>, ConfigError> {
            let mut buckets = Some(boxed(self.len_of(stage), || Bucket::new(head))?);
            let apart = boxed(1, || buckets.take().unwrap_or_default())?;
            apart.try_into().map_err(|_| ConfigError::OutOfMemory)
        };
        // Without a lock: of two threads that make the same stage, one wins and the other drops its
        // own.
        cell.get_or_try_init(made).map(|_| ())
    }

    /// The number of buckets of a stage.
    fn len_of(&self, stage: u32) -> usize {
        1 << (self.first_bits + stage * STAGE_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    use alloc::vec::Vec;

    use crate::hash::mix;
    use crate::sync::AtomicU64;

    type Raw = parking_lot::RawMutex;

    /// A table of hashes: entry `id` has the hash at index `id - 1`.
    struct Table {
        buckets: Buckets<Raw>,
        hashes: Vec<u64>,
        links: Vec<AtomicU32>,
    }

    impl Table {
        fn new(hashes: Vec<u64>) -> Self {
            let links = hashes.iter().map(|_| AtomicU32::new(NONE)).collect();
            Table { buckets: Buckets::new(hashes.len()).unwrap(), hashes, links }
        }

        fn node(&self, id: Id) -> Option<Node<'_>> {
            let i = (id as usize).wrapping_sub(1);
            Some(Node { hash: *self.hashes.get(i)?, next: self.links.get(i)? })
        }

        fn lock(&self, hash: u64) -> Chain<'_, Raw> {
            self.buckets.lock(hash, |id| self.node(id))
        }

        fn insert(&self, id: Id) {
            let node = self.node(id).unwrap();
            let mut chain = self.lock(node.hash);
            node.next.store(chain.first(), Ordering::Relaxed);
            chain.set_first(id);
        }

        /// The entries of a chain with this hash.
        fn find(&self, hash: u64) -> Vec<Id> {
            let chain = self.lock(hash);
            let next = |id: &Id| Some(self.node(*id)?.next.load(Ordering::Relaxed));
            let ids = core::iter::successors(Some(chain.first()), next).take_while(|id| *id != NONE);
            ids.filter(|id| self.node(*id).unwrap().hash == hash).collect()
        }
    }

    #[test]
    fn stages_end_with_a_bucket_for_each_entry() {
        for (entries, sizes) in [
            (1, &[16][..]),
            (255, &[16, 256][..]),
            (4096, &[16, 256, 4096][..]),
            (262_144, &[64, 1024, 16_384, 262_144][..]),
            (1 << 30, &[64, 1024, 16_384, 262_144, 1 << 22][..]),
        ] {
            let buckets = Buckets::<Raw>::new(entries).unwrap();
            assert!((0..buckets.count).map(|stage| buckets.len_of(stage)).eq(sizes.iter().copied()));
            assert_eq!((buckets.of(0).len(), buckets.of(1).len()), (sizes[0], 0));
        }
    }

    /// Entries with colliding hashes are found in their order at each number of entries.
    #[test]
    fn entries_are_found_in_every_stage() {
        let hashes: Vec<u64> = (0..5000).map(|i| mix(i / 3)).collect();
        let table = Table::new(hashes);
        for n in 1..=5000usize {
            table.buckets.grow(n);
            table.insert(n as Id);
            for i in [n, n / 2 + 1, n / 16 + 1, 1] {
                let newest = (i - 1) / 3 * 3 + 3;
                let expected: Vec<Id> =
                    (i.div_ceil(3) * 3 - 2..=newest.min(n)).rev().map(|id| id as Id).collect();
                assert_eq!(table.find(table.hashes[i - 1]), expected, "{i} of {n}");
            }
        }
        assert_eq!(table.buckets.stage.load(Ordering::Relaxed), table.buckets.count - 1);
        assert!((0..5000).all(|i| table.find(table.hashes[i]).contains(&(i as Id + 1))));
    }

    /// One lookup after the growth moves few entries, also if all stages begin at once.
    #[test]
    fn a_lookup_moves_the_entries_of_few_chains() {
        let table = Table::new((0..4096).map(mix).collect());
        (1..=16).for_each(|id| table.insert(id));
        table.buckets.grow(4096);
        let mut moved = 0;
        for hash in &table.hashes {
            let visited = Cell::new(0);
            let node = |id: Id| {
                visited.set(visited.get() + usize::from(id != NONE));
                table.node(id)
            };
            drop(table.buckets.lock(*hash, node));
            assert!(visited.get() <= 12, "{} entries for one lookup", visited.get());
            moved += visited.get();
        }
        assert!(moved >= 16, "{moved}");
        assert!((1..=16u32).all(|id| table.find(table.hashes[id as usize - 1]) == [id]));
    }

    #[test]
    fn large_stages_are_made_ahead() {
        let buckets = Buckets::<Raw>::new(4096).unwrap();
        assert!(!buckets.is_behind(4096), "the second stage is a page");
        buckets.grow(17);
        assert_eq!((buckets.is_behind(128), buckets.is_behind(129)), (false, true));
        assert_eq!([buckets.fill_ahead(128), buckets.fill_ahead(129)], [Ok(false), Ok(true)]);
        assert_eq!((buckets.of(2).len(), buckets.is_behind(4096)), (4096, false));
        assert_eq!(buckets.stage.load(Ordering::Relaxed), 1, "it is not begun yet");
        let prepared = Buckets::<Raw>::new(262_144).unwrap();
        prepared.prepare().unwrap();
        assert_eq!((prepared.of(3).len(), prepared.of(4).len()), (262_144, 0));
    }

    /// Threads look for entries and add others while stages begin and buckets are split.
    #[test]
    fn no_entry_is_lost_while_stages_begin() {
        const EACH: usize = 6000;
        let table = Table::new((0..3 * EACH as u64).map(mix).collect());
        let added = AtomicU64::new(0);
        std::thread::scope(|threads| {
            for thread in 0..3 {
                let (table, added) = (&table, &added);
                threads.spawn(move || {
                    for i in 0..EACH {
                        let own = thread * EACH + i;
                        let entries = added.fetch_add(1, Ordering::Relaxed) as usize + 1;
                        table.buckets.grow(entries);
                        table.insert(own as Id + 1);
                        for known in [own, own - i, own - i / 2] {
                            assert_eq!(table.find(table.hashes[known]), [known as Id + 1]);
                        }
                    }
                });
            }
        });
        assert_eq!(table.buckets.stage.load(Ordering::Relaxed), table.buckets.count - 1);
        assert!((1..=3 * EACH as Id).all(|id| table.find(table.hashes[id as usize - 1]) == [id]));
    }
}

//! Packets in recycled buffers: at a steady rate nothing is allocated for a packet.
//!
//! A buffer has one of a few sizes. Each thread has two caches of spare buffers of each size
//! (magazines). Full and empty magazines are exchanged with a depot that all threads share, so
//! buffers return from a worker that only sends to one that only receives, at the cost of one lock
//! for [`MAGAZINE_BUFFERS`] packets. Magazines and depot are bounded. A buffer beyond the bounds
//! returns to its [`Chunk`], and new buffers are taken from chunks. Unused spare buffers return to
//! the chunks after a while ([`release_spares`]), and unused chunks to the system. If much of the
//! chunks is free then, the threads return their own spare buffers too ([`share_spares`]), because
//! each of them may be the only one that keeps a chunk mapped.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use namely_forwarder::PacketBuf;
use namely_host::clock::thread_cpu_ns;
use namely_io::Buffer;
use parking_lot::Mutex;

use crate::buffers::{CHUNK_OCTETS_MAX, CHUNK_OCTETS_MIN, Chunk, HEADER_OCTETS, OwnedBuffer, SharedBuffer};

/// Sizes of buffers with their headers, octets. Above 1088 and up to 9280 each size is at most a
/// half larger than the one before, so that a stored packet of such a length takes at most a half
/// more than its length. All sizes but the first are odd multiples of a cache line, so that the
/// beginnings of packets do not compete for the same few sets of a cache. The last but one holds
/// any packet that a link delivers.
const SIZES: [usize; 12] = [128, 320, 576, 1088, 1600, 2112, 3136, 4160, 6208, 8256, 9280, LONGEST];

/// For packets that do not come from a network. Longer packets do not occur.
const LONGEST: usize = (128 << 10) + 64;

/// Spare packet buffers of one size in a magazine of a thread.
///
/// A thread has two magazines of each size. It retains one of the two for longer than a second.
///
/// # Limit
/// A full magazine moves to the depot of all threads.
/// - Value: 64 in each of 2 magazines
/// - Tests: `spare_buffers_return_from_other_threads`
const MAGAZINE_BUFFERS: usize = 64;

/// Spare packet buffers of the longest size in a magazine.
///
/// This size is rare.
///
/// # Limit
/// A full magazine moves to the depot of all threads.
/// - Value: 4 in each of 2 magazines
/// - Tests: `spare_buffers_return_from_other_threads`
const LONGEST_MAGAZINE_BUFFERS: usize = 4;

/// Buffers that a thread takes from a chunk at once.
const TAKEN_AT_ONCE: usize = 8;

/// Octets of spare packet buffers of one size for all threads.
///
/// Buffers that were not needed for a second are returned while packets pass, and twice more when
/// no packets pass.
///
/// # Limit
/// Buffers return to their chunks, and chunks with all of their buffers to the system.
/// - Value: 16 MiB
/// - Tests: `spare_buffers_return_from_other_threads`,
///   `unneeded_spare_buffers_return_to_the_system`
const DEPOT_OCTETS_MAX: usize = 16 << 20;

/// Free octets in the chunks of one size of packet buffers.
///
/// New buffers are taken from the first chunks, so that the others become free.
///
/// # Limit
/// Each thread returns all its spare buffers of the size within a second.
/// - Value: 512 KiB
/// - Tests: `spare_buffers_of_threads_pin_no_chunks`
const SPARSE_OCTETS: usize = CHUNK_OCTETS_MAX / 4;

/// The forwarding core, with this crate's packets and the host's lock.
pub type Core = namely_forwarder::Router<Packet, namely_host::CoreLock>;

/// A packet in memory: the one copy of an arrived packet. Clones share the octets.
#[derive(Clone)]
pub struct Packet {
    /// A buffer at least as long as the packet; `None` after the packet was dropped.
    buffer: Option<SharedBuffer>,
    /// The packet's offset in it.
    start: u32,
    octets: u32,
}

impl Packet {
    /// A packet of `octets` octets that `fill` writes.
    pub fn filled(octets: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        let mut spare = take(class_of(octets));
        fill(&mut spare.octets_mut()[..octets]);
        Packet { buffer: Some(spare.share()), start: 0, octets: octets as u32 }
    }
}

/// Spare buffers of one size.
type BufferCache = Vec<OwnedBuffer>;

#[derive(Default)]
struct ThreadBuffers {
    loaded: BufferCache,
    previous: BufferCache,
    /// The last value of [`RECALLS`] that this thread has followed.
    recalls: u32,
}

/// The state of one size that all threads share.
struct SharedBuffers {
    full: Vec<BufferCache>,
    /// The lowest number of full magazines since the last call of `release_spares`.
    full_least: usize,
    empty: Vec<BufferCache>,
    /// The chunks by number. The header of each buffer has the number of its chunk.
    chunks: Vec<Option<Chunk>>,
    /// The numbers of chunks with buffers. Buffers are taken from the first one, so that the others
    /// become unused.
    with_room: BTreeSet<u32>,
}

static DEPOTS: [Mutex<SharedBuffers>; SIZES.len()] =
    [const { Mutex::new(SharedBuffers::new()) }; SIZES.len()];

/// Number of requests to all threads to return their spare buffers, for each size.
static RECALLS: [AtomicU32; SIZES.len()] = [const { AtomicU32::new(0) }; SIZES.len()];

/// Buffers that were taken from chunks.
static BUFFERS_MADE: AtomicU64 = AtomicU64::new(0);

/// Decides whether new chunks have huge pages. At best the system provides a huge page in a tenth
/// of the time that small pages of the same total size take. But it may first have to move the
/// memory of other processes, or wait for a hypervisor that reclaimed unused memory of its guest.
#[derive(Debug)]
struct HugePages {
    /// Chunks still to map without huge pages, and the value of `left` when the last pause began.
    left: u32,
    pause: u32,
}

/// Time of a thread for a huge page.
///
/// As many small pages take about as long.
///
/// # Limit
/// The next chunks have small pages.
/// - Tests: `slow_huge_pages_are_retried_ever_later`
const HUGE_PAGE_NS_MAX: u64 = 500_000;

/// Chunks without huge pages after one that took too long.
///
/// It is the number at first and at most.
///
/// # Limit
/// The next chunk has huge pages again.
/// - Value: 16, twice as many each time, at most 1024
/// - Tests: `slow_huge_pages_are_retried_ever_later`
const PAUSE_CHUNKS: (u32, u32) = (16, 1024);

static HUGE_PAGES: Mutex<HugePages> = Mutex::new(HugePages { left: 0, pause: 0 });

impl HugePages {
    fn is_worth_a_try(&mut self) -> bool {
        self.left = match self.left.checked_sub(1) {
            Some(left) => left,
            None => return true,
        };
        false
    }

    /// Records how long the first access to a chunk with a huge page took.
    fn note(&mut self, took_ns: u64) {
        let is_slow = took_ns > HUGE_PAGE_NS_MAX;
        self.pause = if is_slow { (2 * self.pause).clamp(PAUSE_CHUNKS.0, PAUSE_CHUNKS.1) } else { 0 };
        self.left = self.pause;
    }
}

thread_local! {
    static RESERVE: RefCell<[ThreadBuffers; SIZES.len()]> = RefCell::default();
}

/// Magazines whose buffers are returned to their chunks before a depot's lock is released. Workers
/// wait for that lock.
const MAGAZINES_GIVEN_BACK: usize = 4;

/// Returns to their chunks the spare buffers that were not needed since the last call. Called about
/// once a second, by a thread for which no other thread waits.
pub fn release_spares() {
    for (depot, recalls) in DEPOTS.iter().zip(&RECALLS) {
        // The lock is released between the rounds.
        while depot.lock().release_spares(MAGAZINES_GIVEN_BACK) {}
        if depot.lock().is_sparse() {
            // Relaxed: a thread may read it later and follow it later.
            recalls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes the spare buffers of this thread available to others, except one magazine of each size.
/// Returns all spare buffers of a size to their chunks if [`release_spares`] found much of these
/// chunks free.
pub fn share_spares() {
    RESERVE.with(|spares| {
        for (class, reserve) in spares.borrow_mut().iter_mut().enumerate() {
            let recalls = RECALLS[class].load(Ordering::Relaxed);
            if mem::replace(&mut reserve.recalls, recalls) != recalls {
                reserve.release_all(class);
            } else if !reserve.previous.is_empty() {
                let spare = mem::take(&mut reserve.previous);
                reserve.previous = DEPOTS[class].lock().exchange(class, spare);
            }
        }
    });
}

/// Returns the number of buffers that were taken from chunks since the process started.
pub fn buffers_made() -> u64 {
    BUFFERS_MADE.load(Ordering::Relaxed)
}

impl SharedBuffers {
    const fn new() -> Self {
        SharedBuffers {
            full: Vec::new(),
            full_least: 0,
            empty: Vec::new(),
            chunks: Vec::new(),
            with_room: BTreeSet::new(),
        }
    }

    /// Takes a few buffers from chunks; at least one.
    #[cold]
    fn cut(&mut self, class: usize, into: &mut BufferCache) {
        while into.len() < TAKEN_AT_ONCE {
            let number = match self.with_room.first() {
                Some(number) => *number,
                // A chunk is mapped only if no buffer was found. Otherwise the few buffers found so
                // far suffice.
                None if into.is_empty() => self.grow(class),
                None => break,
            };
            let Some(chunk) = self.chunks.get_mut(number as usize).and_then(Option::as_mut) else { break };
            into.extend(chunk.take(class as u32, number));
            if !chunk.has_room() {
                self.with_room.pop_first();
            }
        }
        BUFFERS_MADE.fetch_add(into.len() as u64, Ordering::Relaxed);
    }

    /// Stores a magazine of spare buffers, or returns its buffers to their chunks if the depot is
    /// full. Returns an empty magazine.
    fn exchange(&mut self, class: usize, mut magazine: BufferCache) -> BufferCache {
        if (self.full.len() + 1) * cache_buffers(class) * SIZES[class] > DEPOT_OCTETS_MAX {
            magazine.drain(..).for_each(|spare| self.give_back(spare));
            return magazine;
        }
        self.full.push(magazine);
        self.empty.pop().unwrap_or_else(|| Vec::with_capacity(cache_buffers(class)))
    }

    /// Maps another chunk. Returns its number.
    fn grow(&mut self, class: usize) -> u32 {
        let number = self.chunks.iter().position(Option::is_none).unwrap_or(self.chunks.len());
        // Each chunk is twice as large as the one before. The first has room for a few buffers.
        let least = CHUNK_OCTETS_MIN.max((2 * SIZES[class]).next_power_of_two());
        let octets = (least << number.min(16)).min(CHUNK_OCTETS_MAX);
        // This lock is taken under the depot's lock, and is not held during a system call.
        let is_huge = octets == CHUNK_OCTETS_MAX && HUGE_PAGES.lock().is_worth_a_try();
        let mut chunk = Chunk::map(octets, SIZES[class], is_huge).unwrap_or_else(|_| {
            // As for any other failed allocation of the process.
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; CHUNK_OCTETS_MIN]>())
        });
        if is_huge {
            // The thread's own time: preemption does not count against huge pages.
            let before_ns = thread_cpu_ns();
            // The first buffer's header is the first access to the page.
            chunk.take(class as u32, number as u32).into_iter().for_each(|first| chunk.put(first));
            HUGE_PAGES.lock().note(thread_cpu_ns().saturating_sub(before_ns));
        }
        if number == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[number] = Some(chunk);
        self.with_room.insert(number as u32);
        number as u32
    }

    /// Returns a buffer to its chunk. Unmaps the chunk if all its buffers are back, unless it is
    /// one of the few small ones.
    fn give_back(&mut self, spare: OwnedBuffer) {
        let (_, number) = spare.class_and_chunk();
        let Some(slot) = self.chunks.get_mut(number as usize) else { return };
        let Some(chunk) = slot else { return };
        if !chunk.has_room() {
            self.with_room.insert(number);
        }
        chunk.put(spare);
        // The slot of the chunk stays, because buffers know their chunks by number.
        if chunk.is_unused() && chunk.octets() == CHUNK_OCTETS_MAX {
            self.with_room.remove(&number);
            slot.take().into_iter().for_each(Chunk::unmap);
        }
    }

    /// Returns true if much of the chunks is free, so that fewer of them would do.
    fn is_sparse(&self) -> bool {
        self.chunks.iter().flatten().map(Chunk::octets_free).sum::<usize>() > SPARSE_OCTETS
    }

    /// Returns the buffers of all full magazines to the chunks, at most `magazines_max` magazines
    /// in one call, if the depot had a full magazine at all times since the last call. All are
    /// returned, because any of them may keep a chunk mapped. Buffers that are needed again come
    /// from the first chunks. Unmaps small chunks with all of their buffers too, except the first.
    /// Returns true if more full magazines are left.
    fn release_spares(&mut self, magazines_max: usize) -> bool {
        if self.full_least > 0 {
            for _ in 0..self.full.len().min(magazines_max) {
                let magazine = self.full.pop().unwrap_or_default();
                magazine.into_iter().for_each(|spare| self.give_back(spare));
            }
            if !self.full.is_empty() {
                return true;
            }
        }
        self.full_least = self.full.len();
        self.empty = Vec::new();
        for (number, slot) in self.chunks.iter_mut().enumerate().skip(1) {
            if slot.as_ref().is_some_and(Chunk::is_unused) {
                self.with_room.remove(&(number as u32));
                slot.take().into_iter().for_each(Chunk::unmap);
            }
        }
        false
    }
}

impl ThreadBuffers {
    /// Returns a buffer; `None` only if chunks have none, which does not happen.
    fn take(&mut self, class: usize) -> Option<OwnedBuffer> {
        if self.loaded.is_empty() {
            mem::swap(&mut self.loaded, &mut self.previous);
        }
        if self.loaded.is_empty() {
            let mut depot = DEPOTS[class].lock();
            match depot.full.pop() {
                Some(full) => {
                    depot.full_least = depot.full_least.min(depot.full.len());
                    let empty = mem::replace(&mut self.loaded, full);
                    depot.empty.push(empty);
                }
                None => depot.cut(class, &mut self.loaded),
            }
        }
        let taken = self.loaded.pop();
        // The next buffer has probably left the processor's cache, because the content store may
        // have held its last packet for long.
        if let Some(next) = self.loaded.last() {
            next.prefetch(SIZES[class]);
        }
        taken
    }

    fn give(&mut self, class: usize, buffer: OwnedBuffer) {
        let most = cache_buffers(class);
        if self.loaded.len() >= most {
            mem::swap(&mut self.loaded, &mut self.previous);
        }
        if self.loaded.len() >= most {
            self.loaded = DEPOTS[class].lock().exchange(class, mem::take(&mut self.loaded));
        }
        self.loaded.push(buffer);
    }
}

impl ThreadBuffers {
    /// Returns all spare buffers to their chunks.
    fn release_all(&mut self, class: usize) {
        for magazine in [&mut self.loaded, &mut self.previous] {
            if !magazine.is_empty() {
                let mut depot = DEPOTS[class].lock();
                magazine.drain(..).for_each(|spare| depot.give_back(spare));
            }
        }
    }
}

/// Returns the buffers of a thread that ends.
impl Drop for ThreadBuffers {
    fn drop(&mut self) {
        for spare in self.loaded.drain(..).chain(self.previous.drain(..)) {
            let (class, _) = spare.class_and_chunk();
            DEPOTS[class].lock().give_back(spare);
        }
    }
}

/// Returns the number of buffers that a magazine of a size holds.
fn cache_buffers(class: usize) -> usize {
    if class + 1 == SIZES.len() { LONGEST_MAGAZINE_BUFFERS } else { MAGAZINE_BUFFERS }
}

/// Returns the index of the smallest size that holds `octets` octets.
fn class_of(octets: usize) -> usize {
    let class = SIZES.iter().position(|size| octets <= size - HEADER_OCTETS);
    class.expect("no packet is longer than the longest buffer")
}

/// Returns a buffer with one owner.
fn take(class: usize) -> OwnedBuffer {
    // `with` would panic in a thread whose cache is gone.
    let spare = RESERVE.try_with(|spares| spares.borrow_mut()[class].take(class)).ok().flatten();
    // A thread that ends has no cache any more.
    spare.unwrap_or_else(|| {
        ThreadBuffers::default().take(class).expect("chunks give a buffer or end the process")
    })
}

impl From<&[u8]> for Packet {
    fn from(octets: &[u8]) -> Self {
        Packet::filled(octets.len(), |buffer| buffer.copy_from_slice(octets))
    }
}

impl From<Vec<u8>> for Packet {
    fn from(octets: Vec<u8>) -> Self {
        octets.as_slice().into()
    }
}

impl AsRef<[u8]> for Packet {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let (start, octets) = (self.start as usize, self.octets as usize);
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.octets()[start..start + octets])
    }
}

impl std::ops::Deref for Packet {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl Buffer for Packet {
    fn filled(octets: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        Packet::filled(octets, fill)
    }

    /// Returns the part in the same buffer, or a copy if a smaller buffer can hold it.
    fn into_part(mut self, part: Range<usize>) -> Self {
        if class_of(part.len()) != class_of(self.octets as usize) {
            return self.as_ref()[part].into();
        }
        debug_assert!(part.end <= self.octets as usize, "a part of another packet");
        self.start += part.start as u32;
        self.octets = part.len() as u32;
        self
    }
}

impl PacketBuf for Packet {
    fn build(len: usize, write: impl FnOnce(&mut [u8])) -> Option<Self> {
        Some(Packet::filled(len, write))
    }

    fn memory_octets(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.octets().len() + HEADER_OCTETS)
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for Packet {}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} octets", self.octets)
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        let Some(spare) = self.buffer.take().and_then(SharedBuffer::release) else { return };
        let (class, _) = spare.class_and_chunk();
        let mut spare = Some(spare);
        let kept = RESERVE.try_with(|spares| {
            spare.take().into_iter().for_each(|spare| spares.borrow_mut()[class].give(class, spare));
        });
        // A thread that ends retains no buffers.
        if kept.is_err() {
            spare.into_iter().for_each(|spare| DEPOTS[class].lock().give_back(spare));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_every_length_keep_their_octets() {
        let at_limits = SIZES.iter().flat_map(|size| [size - HEADER_OCTETS - 1, size - HEADER_OCTETS]);
        for octets in at_limits.chain([0, 1, 113, 8800, 9232, 70_000]) {
            let original: Vec<u8> = (0..octets).map(|n| n as u8).collect();
            let packet = Packet::from(original.as_slice());
            let clone = packet.clone();
            drop(packet);
            let other = Packet::from(vec![9; octets]);
            assert_eq!(clone.as_ref(), original);
            assert_eq!(
                clone.memory_octets(),
                SIZES[class_of(octets)],
                "the content store is charged with the buffer"
            );
            assert!(other.iter().all(|octet| *octet == 9) && other.len() == octets);
        }
    }

    #[test]
    fn a_packet_part_moves_only_to_smaller_buffers() {
        let octets: Vec<u8> = (0..1000).map(|n| n as u8).collect();
        for (range, is_here) in
            [(0..1000, true), (7..1000, true), (7..995, true), (10..30, false), (5..5, false)]
        {
            let whole = Packet::filled(octets.len(), |room| room.copy_from_slice(&octets));
            let start = whole.as_ptr() as usize;
            let packet = whole.into_part(range.clone());
            let stayed = packet.as_ptr() as usize == start + range.start;
            assert_eq!(stayed, is_here, "{range:?}");
            assert_eq!(packet.as_ref(), &octets[range.clone()]);
            assert_eq!(packet.clone().as_ref(), &octets[range]);
            assert_eq!(packet.memory_octets(), SIZES[class_of(packet.len())]);
        }
    }

    #[test]
    fn slow_huge_pages_are_retried_ever_later() {
        let mut pages = HugePages { left: 0, pause: 0 };
        let mut waits = |took_ns| {
            assert!(pages.is_worth_a_try());
            pages.note(took_ns);
            let waits = (0..5000).take_while(|_| !pages.is_worth_a_try()).count();
            pages.left = 0;
            waits as u32
        };
        assert_eq!(waits(HUGE_PAGE_NS_MAX), 0);
        assert_eq!([1, 2, 3].map(|_| waits(HUGE_PAGE_NS_MAX + 1)), [16, 32, 64]);
        assert_eq!((0..10).map(|_| waits(u64::MAX)).last(), Some(PAUSE_CHUNKS.1));
        assert_eq!([waits(0), waits(u64::MAX)], [0, PAUSE_CHUNKS.0]);
    }

    #[test]
    fn a_held_buffer_is_not_reused() {
        let held: Vec<Packet> = (0..1000).map(|n| Packet::from(vec![n as u8; 100])).collect();
        let clones: Vec<Packet> = held.to_vec();
        drop(held);
        let others: Vec<Packet> = (0..1000).map(|_| Packet::from(vec![255; 100])).collect();
        assert!(clones.iter().enumerate().all(|(n, packet)| packet.iter().all(|o| *o == n as u8)));
        drop(others);
    }

    /// Tests of depots run one at a time, because depots are global to the process.
    static DEPOTS_TESTED: Mutex<()> = Mutex::new(());

    #[test]
    fn spare_buffers_return_from_other_threads() {
        let _alone = DEPOTS_TESTED.lock();
        // A size that no other test uses.
        let (size, class) = (4000, class_of(4000));
        let packets = |n: usize| (0..n).map(|_| Packet::from(vec![1; size])).collect::<Vec<_>>();
        let (sender, receiver) = std::sync::mpsc::channel::<Vec<Packet>>();
        let (done, dropped) = std::sync::mpsc::channel();
        let dropping = std::thread::spawn(move || {
            receiver.iter().for_each(|packets| {
                drop(packets);
                done.send(()).unwrap();
            });
        });
        let mut made_later = Vec::new();
        for _ in 0..10 {
            let before = buffers_made();
            sender.send(packets(10 * MAGAZINE_BUFFERS)).unwrap();
            dropped.recv().unwrap();
            made_later.push(buffers_made() - before);
        }
        // The other thread retains two magazines at most; other tests make a few buffers of other
        // sizes meanwhile.
        assert!(made_later[0] >= 10 * MAGAZINE_BUFFERS as u64, "{made_later:?}");
        let at_most = 3 * made_later[0];
        assert!(made_later.iter().sum::<u64>() < at_most, "{made_later:?}");
        drop(sender);
        dropping.join().unwrap();
        let max = DEPOT_OCTETS_MAX / (MAGAZINE_BUFFERS * SIZES[class]);
        let chunks = || DEPOTS[class].lock().chunks.iter().flatten().count();
        let many = packets((max + 64) * MAGAZINE_BUFFERS);
        let chunks_before = chunks();
        drop(many);
        assert_eq!(DEPOTS[class].lock().full.len(), max, "one magazine more goes back to the chunks");
        assert!(chunks() < chunks_before, "and chunks that have all buffers go back to the system");
        drop(packets(100));
    }

    #[test]
    fn spare_buffers_of_threads_pin_no_chunks() {
        let _alone = DEPOTS_TESTED.lock();
        // A size that no other test uses.
        let (size, class) = (2600, class_of(2600));
        let chunks = || DEPOTS[class].lock().chunks.iter().flatten().count();
        let packets = |count: usize| -> Vec<Packet> {
            (0..count).map(|_| Packet::filled(size, |room| room.fill(1))).collect()
        };
        let held = packets(10_000);
        let most = chunks();
        assert!(most >= 10, "{most}");
        // The last packets that a thread drops, and whose buffers it retains, are from every chunk.
        let (last, first) = held.into_iter().enumerate().partition::<Vec<_>, _>(|(n, _)| n % 100 == 0);
        let (share, requests) = std::sync::mpsc::channel::<()>();
        let (dropped, is_dropped) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            drop((first, last));
            dropped.send(()).unwrap();
            requests.iter().for_each(|()| {
                share_spares();
                dropped.send(()).unwrap();
            });
        });
        is_dropped.recv().unwrap();
        (0..3).for_each(|_| release_spares());
        let kept = chunks();
        assert!(kept > most / 2, "{kept} chunks are held by the buffers that the thread keeps");
        for _ in 0..2 {
            share.send(()).unwrap();
            is_dropped.recv().unwrap();
            share_spares();
            release_spares();
        }
        drop(share);
        other.join().unwrap();
        assert!(chunks() <= 2, "{} of {most} chunks stay", chunks());
    }

    #[test]
    fn unneeded_spare_buffers_return_to_the_system() {
        let _alone = DEPOTS_TESTED.lock();
        // A size that no other test uses.
        let class = class_of(6000);
        let octets = || DEPOTS[class].lock().chunks.iter().flatten().map(Chunk::octets).sum::<usize>();
        let packets = |count: usize| -> Vec<Packet> {
            (0..count).map(|_| Packet::filled(6000, |room| room.fill(1))).collect()
        };
        let held = packets(4000);
        let most = octets();
        assert!(most >= 4000 * 6208);
        drop(held);
        assert!(octets() >= 12 << 20, "they are kept for others");
        release_spares();
        // Each round needs 1000 buffers again.
        for _ in 0..6 {
            drop(packets(1000));
            release_spares();
        }
        assert!((1000 * 6208..most / 2).contains(&octets()), "{} octets of {most}", octets());
        share_spares();
        release_spares();
        release_spares();
        // This thread, and those of other tests, retain a few.
        assert!(octets() <= 3 * CHUNK_OCTETS_MAX, "{} octets", octets());
    }
}

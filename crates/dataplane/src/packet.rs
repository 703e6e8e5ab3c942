//! Packets in buffers that are used again: at a steady rate nothing is allocated for a packet.
//!
//! A buffer has one of a few sizes. Each thread keeps two magazines of spare buffers of each size;
//! full and empty magazines go to and from a depot that all threads share, so that buffers come
//! back from a worker that only sends to one that only receives, at the cost of one lock for
//! [`MAGAZINE_BUFFERS`] packets. All of this is bounded; what finds no room goes back to its
//! [`Chunk`], and what finds no buffer takes one from there. What nobody needed for a while goes
//! back to the chunks ([`give_back_spares`]), and they to the system. Where much of the chunks is
//! free then, the threads' own spare buffers follow ([`share_spares`]): each of them could be the
//! one that keeps a chunk from going.

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

/// Sizes of buffers with their headers, octets: about steps by half, so that a stored packet takes
/// at most a half more than its length (the smallest ones aside), and odd multiples of a cache
/// line, so that the beginnings of packets do not fight for the same few places of a cache. The
/// last but one holds any packet that a link delivers.
const SIZES: [usize; 12] = [128, 320, 576, 1088, 1600, 2112, 3136, 4160, 6208, 8256, 9280, LONGEST];

/// For what does not come from a network; longer packets there are not.
const LONGEST: usize = (128 << 10) + 64;

/// Spare buffers of a magazine.
const MAGAZINE_BUFFERS: usize = 64;

/// The same of the longest ones, which are rare.
const LONGEST_MAGAZINE_BUFFERS: usize = 4;

/// Buffers that a thread takes from a chunk at once.
const TAKEN_AT_ONCE: usize = 8;

/// Octets of spare buffers of one size that the depot holds at most.
const DEPOT_OCTETS_MAX: usize = 16 << 20;

/// Octets that may be free in the chunks of a size before threads give back all that they have of
/// it: what is taken anew comes from the first chunks, so that the others become free.
const SPARSE_OCTETS: usize = CHUNK_OCTETS_MAX / 4;

/// The forwarding core in this home.
pub type Core = namely_forwarder::Router<Packet, namely_host::CoreLock>;

/// A packet as the router keeps it: the one copy that it makes of what arrived. Clones share the
/// octets.
#[derive(Clone)]
pub struct Packet {
    /// A buffer, longer than the packet or as long; `None` after the packet was dropped.
    buffer: Option<SharedBuffer>,
    /// Where the packet lies in it.
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
type Magazine = Vec<OwnedBuffer>;

#[derive(Default)]
struct Reserve {
    loaded: Magazine,
    previous: Magazine,
    /// What of [`RECALLS`] was followed.
    recalls: u32,
}

/// What all threads share of one size.
struct Depot {
    full: Vec<Magazine>,
    /// The fewest that were there since it was last asked what can be spared.
    full_least: usize,
    empty: Vec<Magazine>,
    /// By their numbers, which buffers know.
    chunks: Vec<Option<Chunk>>,
    /// The numbers of those that have buffers. The first is taken from, so that the others come to
    /// have all of theirs back.
    with_room: BTreeSet<u32>,
}

static DEPOTS: [Mutex<Depot>; SIZES.len()] = [const { Mutex::new(Depot::new()) }; SIZES.len()];

/// How often all threads were asked for their spare buffers of each size.
static RECALLS: [AtomicU32; SIZES.len()] = [const { AtomicU32::new(0) }; SIZES.len()];

/// Buffers that came from chunks.
static BUFFERS_MADE: AtomicU64 = AtomicU64::new(0);

/// Whether huge pages are worth it. The system gives one in a tenth of the time that as many small
/// pages take, but it may first have to move others' memory for it, or wait for a host that had
/// taken back what its guest did not use.
#[derive(Debug)]
struct HugePages {
    /// Chunks that will go without, and how many went without the last time.
    left: u32,
    pause: u32,
}

/// The longest that a huge page may take, ns of this thread: about what as many small pages take.
const HUGE_PAGE_NS_MAX: u64 = 500_000;

/// Chunks that go without huge pages after one that took too long, at first and at most: twice as
/// many each time.
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

    /// A chunk with a huge page was touched for the first time; that took so long.
    fn note(&mut self, took_ns: u64) {
        let is_slow = took_ns > HUGE_PAGE_NS_MAX;
        self.pause = if is_slow { (2 * self.pause).clamp(PAUSE_CHUNKS.0, PAUSE_CHUNKS.1) } else { 0 };
        self.left = self.pause;
    }
}

thread_local! {
    static RESERVE: RefCell<[Reserve; SIZES.len()]> = RefCell::default();
}

/// Magazines whose buffers go back to their chunks under one hold of a depot's lock, for which
/// workers wait.
const MAGAZINES_GIVEN_BACK: usize = 4;

/// Gives back the spare buffers that nobody needed since this was last called. For a thread that
/// nobody waits for, every second or so.
pub fn give_back_spares() {
    for (depot, recalls) in DEPOTS.iter().zip(&RECALLS) {
        while depot.lock().give_back_spares(MAGAZINES_GIVEN_BACK) {}
        if depot.lock().is_sparse() {
            // Relaxed: a thread that sees it later follows it later.
            recalls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Lets other threads have the spare buffers of this one, but a magazine of each size; and gives
/// back all of a size whose chunks hold much that is free.
pub fn share_spares() {
    RESERVE.with(|spares| {
        for (class, reserve) in spares.borrow_mut().iter_mut().enumerate() {
            let recalls = RECALLS[class].load(Ordering::Relaxed);
            if mem::replace(&mut reserve.recalls, recalls) != recalls {
                reserve.give_back_all(class);
            } else if !reserve.previous.is_empty() {
                let spare = mem::take(&mut reserve.previous);
                reserve.previous = DEPOTS[class].lock().exchange(class, spare);
            }
        }
    });
}

/// How many buffers had to be taken from the memory of chunks since the process started.
pub fn buffers_made() -> u64 {
    BUFFERS_MADE.load(Ordering::Relaxed)
}

impl Depot {
    const fn new() -> Self {
        Depot {
            full: Vec::new(),
            full_least: 0,
            empty: Vec::new(),
            chunks: Vec::new(),
            with_room: BTreeSet::new(),
        }
    }

    /// Takes a few buffers from chunks; at least one.
    #[cold]
    fn cut(&mut self, class: usize, into: &mut Magazine) {
        while into.len() < TAKEN_AT_ONCE {
            let number = match self.with_room.first() {
                Some(number) => *number,
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

    /// Takes a magazine of spare buffers, if there is room. Returns an empty one.
    fn exchange(&mut self, class: usize, mut magazine: Magazine) -> Magazine {
        if (self.full.len() + 1) * magazine_buffers(class) * SIZES[class] > DEPOT_OCTETS_MAX {
            magazine.drain(..).for_each(|spare| self.give_back(spare));
            return magazine;
        }
        self.full.push(magazine);
        self.empty.pop().unwrap_or_else(|| Vec::with_capacity(magazine_buffers(class)))
    }

    /// Asks the system for another chunk. Its number.
    fn grow(&mut self, class: usize) -> u32 {
        let place = self.chunks.iter().position(Option::is_none).unwrap_or(self.chunks.len());
        // Twice as large each time, from one that has room for a few.
        let least = CHUNK_OCTETS_MIN.max((2 * SIZES[class]).next_power_of_two());
        let octets = (least << place.min(16)).min(CHUNK_OCTETS_MAX);
        let is_huge = octets == CHUNK_OCTETS_MAX && HUGE_PAGES.lock().is_worth_a_try();
        let mut chunk = Chunk::map(octets, SIZES[class], is_huge).unwrap_or_else(|_| {
            // As with any other memory that a process does not get.
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; CHUNK_OCTETS_MIN]>())
        });
        if is_huge {
            let before_ns = thread_cpu_ns();
            chunk.take(class as u32, place as u32).into_iter().for_each(|first| chunk.put(first));
            HUGE_PAGES.lock().note(thread_cpu_ns().saturating_sub(before_ns));
        }
        if place == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[place] = Some(chunk);
        self.with_room.insert(place as u32);
        place as u32
    }

    /// Gives a buffer back to its chunk, and a chunk that has all of its buffers to the system,
    /// unless it is one of the few small ones.
    fn give_back(&mut self, spare: OwnedBuffer) {
        let (_, number) = spare.place();
        let Some(slot) = self.chunks.get_mut(number as usize) else { return };
        let Some(chunk) = slot else { return };
        if !chunk.has_room() {
            self.with_room.insert(number);
        }
        chunk.put(spare);
        if chunk.is_unused() && chunk.octets() == CHUNK_OCTETS_MAX {
            self.with_room.remove(&number);
            slot.take().into_iter().for_each(Chunk::unmap);
        }
    }

    /// Returns true if much of the chunks is free, so that fewer of them would do.
    fn is_sparse(&self) -> bool {
        self.chunks.iter().flatten().map(Chunk::octets_free).sum::<usize>() > SPARSE_OCTETS
    }

    /// Where there were magazines all the time since this was last called, gives back all that are
    /// there, at most so many at once: which of them are in the way of a chunk's going is not
    /// known, and what is needed again comes from the first chunks. Small chunks that have all of
    /// their buffers go too, but the first. Returns true if there are more.
    fn give_back_spares(&mut self, magazines_max: usize) -> bool {
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

impl Reserve {
    /// A buffer; `None` only when chunks have none to give, which does not happen.
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
        // Nobody has touched it for as long as the content store kept what was in it.
        if let Some(next) = self.loaded.last() {
            next.prefetch(SIZES[class]);
        }
        taken
    }

    fn give(&mut self, class: usize, buffer: OwnedBuffer) {
        let most = magazine_buffers(class);
        if self.loaded.len() >= most {
            mem::swap(&mut self.loaded, &mut self.previous);
        }
        if self.loaded.len() >= most {
            self.loaded = DEPOTS[class].lock().exchange(class, mem::take(&mut self.loaded));
        }
        self.loaded.push(buffer);
    }
}

impl Reserve {
    /// Gives all spare buffers back to their chunks.
    fn give_back_all(&mut self, class: usize) {
        for magazine in [&mut self.loaded, &mut self.previous] {
            if !magazine.is_empty() {
                let mut depot = DEPOTS[class].lock();
                magazine.drain(..).for_each(|spare| depot.give_back(spare));
            }
        }
    }
}

/// What a thread that ends has goes back.
impl Drop for Reserve {
    fn drop(&mut self) {
        for spare in self.loaded.drain(..).chain(self.previous.drain(..)) {
            let (class, _) = spare.place();
            DEPOTS[class].lock().give_back(spare);
        }
    }
}

/// How many buffers a magazine of a size holds.
fn magazine_buffers(class: usize) -> usize {
    if class + 1 == SIZES.len() { LONGEST_MAGAZINE_BUFFERS } else { MAGAZINE_BUFFERS }
}

/// The size that holds so many octets.
fn class_of(octets: usize) -> usize {
    let class = SIZES.iter().position(|size| octets <= size - HEADER_OCTETS);
    class.expect("no packet is longer than the longest buffer")
}

/// A buffer that nobody else has.
fn take(class: usize) -> OwnedBuffer {
    let spare = RESERVE.try_with(|spares| spares.borrow_mut()[class].take(class)).ok().flatten();
    // Of a thread that ends.
    spare.unwrap_or_else(|| Reserve::default().take(class).expect("chunks give a buffer or end the process"))
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

    /// Its place here, or a copy if that takes a smaller buffer.
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

    fn octets_held(&self) -> usize {
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
        let (class, _) = spare.place();
        let mut spare = Some(spare);
        let kept = RESERVE.try_with(|spares| {
            spare.take().into_iter().for_each(|spare| spares.borrow_mut()[class].give(class, spare));
        });
        // A thread that ends keeps nothing.
        if kept.is_err() {
            spare.into_iter().for_each(|spare| DEPOTS[class].lock().give_back(spare));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_every_length_keep_their_octets_and_clones_share_them() {
        let at_limits = SIZES.iter().flat_map(|size| [size - HEADER_OCTETS - 1, size - HEADER_OCTETS]);
        for octets in at_limits.chain([0, 1, 113, 8800, 9232, 70_000]) {
            let original: Vec<u8> = (0..octets).map(|n| n as u8).collect();
            let packet = Packet::from(original.as_slice());
            let clone = packet.clone();
            drop(packet);
            let other = Packet::from(vec![9; octets]);
            assert_eq!(clone.as_ref(), original);
            assert_eq!(
                clone.octets_held(),
                SIZES[class_of(octets)],
                "the content store is charged with the buffer"
            );
            assert!(other.iter().all(|octet| *octet == 9) && other.len() == octets);
        }
    }

    #[test]
    fn a_part_of_a_packet_stays_where_it_is_unless_a_smaller_buffer_holds_it() {
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
            assert_eq!(packet.octets_held(), SIZES[class_of(packet.len())]);
        }
    }

    #[test]
    fn huge_pages_that_take_long_are_left_alone_for_ever_longer_until_one_does_not() {
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
    fn a_buffer_is_not_used_again_while_somebody_has_it() {
        let held: Vec<Packet> = (0..1000).map(|n| Packet::from(vec![n as u8; 100])).collect();
        let clones: Vec<Packet> = held.to_vec();
        drop(held);
        let others: Vec<Packet> = (0..1000).map(|_| Packet::from(vec![255; 100])).collect();
        assert!(clones.iter().enumerate().all(|(n, packet)| packet.iter().all(|o| *o == n as u8)));
        drop(others);
    }

    /// What is about depots is done by one test at a time, as they are the process's.
    static DEPOTS_TESTED: Mutex<()> = Mutex::new(());

    #[test]
    fn spare_buffers_come_back_from_other_threads_up_to_the_limit() {
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
        // The other thread keeps two magazines at most; other tests make a few buffers of other
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
    fn spare_buffers_that_threads_keep_hold_no_chunks_from_going() {
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
        // The last that a thread drops, which it keeps, are from every chunk.
        let (last, first) = held.into_iter().enumerate().partition::<Vec<_>, _>(|(n, _)| n % 100 == 0);
        let (share, told) = std::sync::mpsc::channel::<()>();
        let (dropped, is_dropped) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            drop((first, last));
            dropped.send(()).unwrap();
            told.iter().for_each(|()| {
                share_spares();
                dropped.send(()).unwrap();
            });
        });
        is_dropped.recv().unwrap();
        (0..3).for_each(|_| give_back_spares());
        let kept = chunks();
        assert!(kept > most / 2, "{kept} chunks are held by the buffers that the thread keeps");
        for _ in 0..2 {
            share.send(()).unwrap();
            is_dropped.recv().unwrap();
            share_spares();
            give_back_spares();
        }
        drop(share);
        other.join().unwrap();
        assert!(chunks() <= 2, "{} of {most} chunks stay", chunks());
    }

    #[test]
    fn spare_buffers_that_nobody_needs_go_back_to_the_system_and_others_stay() {
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
        give_back_spares();
        // So many are needed again and again.
        for _ in 0..6 {
            drop(packets(1000));
            give_back_spares();
        }
        assert!((1000 * 6208..most / 2).contains(&octets()), "{} octets of {most}", octets());
        share_spares();
        give_back_spares();
        give_back_spares();
        // This thread, and those of other tests, keep a few.
        assert!(octets() <= 3 * CHUNK_OCTETS_MAX, "{} octets", octets());
    }
}

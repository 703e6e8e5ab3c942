//! Packets in buffers that are used again: at a steady rate nothing is allocated for a packet.
//!
//! A buffer has one of a few sizes. Each thread keeps two magazines of spare buffers of each size; full and empty
//! magazines go to and from a depot that all threads share, so that buffers come back from a worker that only sends to
//! one that only receives, at the cost of one lock for [`MAGAZINE_BUFFERS`] packets. All of this is bounded; what finds
//! no room is given back to the allocator, and what finds no buffer allocates one.

use std::cell::RefCell;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_forwarder::PacketBuf;
use parking_lot::Mutex;

/// Sizes of buffers, octets: about twofold steps, so that a stored packet takes at most twice its length (the
/// smallest ones aside). Segments of 8000 octets get two pages of memory, with the reference counts before them.
const SIZES: [usize; 9] = [128, 256, 512, 1024, 2048, 4096, 6144, 8176, 9216];

/// Spare buffers of a magazine.
const MAGAZINE_BUFFERS: usize = 64;

/// Octets of spare buffers of one size that the depot holds at most.
const DEPOT_OCTETS_MAX: usize = 16 << 20;

/// A packet as the router keeps it: the one copy that it makes of what arrived. Clones share the octets.
#[derive(Clone)]
pub struct Packet {
    /// A buffer, longer than the packet or as long; none when there are no octets.
    buffer: Option<Arc<[u8]>>,
    octets: usize,
}

/// Spare buffers of one size.
type Magazine = Vec<Arc<[u8]>>;

#[derive(Default)]
struct Spares {
    loaded: Magazine,
    previous: Magazine,
}

struct Depot {
    full: Vec<Magazine>,
    empty: Vec<Magazine>,
}

static DEPOTS: [Mutex<Depot>; SIZES.len()] =
    [const { Mutex::new(Depot { full: Vec::new(), empty: Vec::new() }) }; SIZES.len()];

/// Buffers that had to be allocated.
static BUFFERS_MADE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SPARES: RefCell<[Spares; SIZES.len()]> = RefCell::default();
}

/// How many buffers had to be allocated since the process started.
pub fn buffers_made() -> u64 {
    BUFFERS_MADE.load(Ordering::Relaxed)
}

impl Spares {
    fn take(&mut self, class: usize) -> Option<Arc<[u8]>> {
        if self.loaded.is_empty() {
            mem::swap(&mut self.loaded, &mut self.previous);
        }
        if self.loaded.is_empty() {
            let mut depot = DEPOTS[class].lock();
            let full = depot.full.pop()?;
            let empty = mem::replace(&mut self.loaded, full);
            depot.empty.push(empty);
        }
        self.loaded.pop()
    }

    fn give(&mut self, class: usize, buffer: Arc<[u8]>) {
        if self.loaded.len() >= MAGAZINE_BUFFERS {
            mem::swap(&mut self.loaded, &mut self.previous);
        }
        if self.loaded.len() >= MAGAZINE_BUFFERS {
            let mut depot = DEPOTS[class].lock();
            if (depot.full.len() + 1) * MAGAZINE_BUFFERS * SIZES[class] > DEPOT_OCTETS_MAX {
                return;
            }
            let empty = depot.empty.pop().unwrap_or_else(|| Vec::with_capacity(MAGAZINE_BUFFERS));
            depot.full.push(mem::replace(&mut self.loaded, empty));
        }
        self.loaded.push(buffer);
    }
}

/// The size that holds so many octets; none if they are more than any.
fn class_of(octets: usize) -> Option<usize> {
    SIZES.iter().position(|size| octets <= *size)
}

/// A buffer that nobody else has.
fn take(class: usize) -> Arc<[u8]> {
    let spare = SPARES.try_with(|spares| spares.borrow_mut()[class].take(class)).ok().flatten();
    spare.unwrap_or_else(|| make(SIZES[class]))
}

#[cold]
fn make(octets: usize) -> Arc<[u8]> {
    BUFFERS_MADE.fetch_add(1, Ordering::Relaxed);
    std::iter::repeat_n(0, octets).collect()
}

impl From<&[u8]> for Packet {
    fn from(octets: &[u8]) -> Self {
        let mut buffer = class_of(octets.len()).map_or_else(|| make(octets.len()), take);
        match Arc::get_mut(&mut buffer) {
            Some(room) => room[..octets.len()].copy_from_slice(octets),
            // Only buffers that nobody else has are spare.
            None => buffer = octets.into(),
        }
        Packet { buffer: Some(buffer), octets: octets.len() }
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
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..self.octets])
    }
}

impl std::ops::Deref for Packet {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl PacketBuf for Packet {
    fn copy_from(octets: &[u8]) -> Option<Self> {
        Some(octets.into())
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
        let Some(buffer) = self.buffer.take() else { return };
        // Of two that let go of a packet at once, none may be the last here; the buffer is then freed.
        if Arc::strong_count(&buffer) == 1
            && let Some(class) = SIZES.iter().position(|size| buffer.len() == *size)
        {
            // A thread that ends keeps nothing.
            let _ = SPARES.try_with(|spares| spares.borrow_mut()[class].give(class, buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_every_length_keep_their_octets_and_clones_share_them() {
        for octets in [0, 1, 127, 128, 129, 256, 257, 2048, 6144, 6145, 8800, 9216, 9217, 70_000] {
            let original: Vec<u8> = (0..octets).map(|n| n as u8).collect();
            let packet = Packet::from(original.as_slice());
            let clone = packet.clone();
            drop(packet);
            let other = Packet::from(vec![9; octets]);
            assert_eq!(clone.as_ref(), original);
            assert!(other.iter().all(|octet| *octet == 9) && other.len() == octets);
        }
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

    /// Everything about the depot in one test, as it is the process's.
    #[test]
    fn spare_buffers_come_back_from_other_threads_up_to_the_limit() {
        // A size that no other test uses.
        let (size, class) = (4000, class_of(4000).unwrap());
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
        // The other thread keeps two magazines at most; other tests make a few buffers of other sizes meanwhile.
        assert!(made_later[0] >= 10 * MAGAZINE_BUFFERS as u64, "{made_later:?}");
        let at_most = made_later[0] + 3 * MAGAZINE_BUFFERS as u64 + 3000;
        assert!(made_later.iter().sum::<u64>() < at_most, "{made_later:?}");
        drop(sender);
        dropping.join().unwrap();
        let max = DEPOT_OCTETS_MAX / (MAGAZINE_BUFFERS * SIZES[class]);
        drop(packets((max + 10) * MAGAZINE_BUFFERS));
        assert_eq!(DEPOTS[class].lock().full.len(), max, "one magazine more is freed");
    }
}

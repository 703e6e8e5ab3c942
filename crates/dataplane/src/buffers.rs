//! Memory for packets: buffers of one size, cut from chunks that are asked of the system as a
//! whole.
//!
//! A chunk that may have huge pages costs one page fault where its buffers alone would cost a
//! thousand, and none of them a system call: while a content store fills, each packet takes memory
//! that nobody had before. A chunk whose buffers have all come back goes back to the system.
//!
//! With `unsafe` code. The invariants, on which each block below rests:
//! 1. `start..start + octets` of a [`Chunk`] is mapped readable and writable, zeroed at first, from
//!    [`Chunk::map`] to [`Chunk::unmap`], which only a chunk whose buffers are all in `free` or
//!    were never handed out gets to.
//! 2. Buffer n of a chunk lies at `start + n * stride`, which is a multiple of 16: a [`Header`],
//!    then `stride` less 16 octets. It belongs to exactly one [`OwnedBuffer`], or to as many
//!    [`SharedBuffer`] as its header counts, at any time.
//! 3. The octets of a buffer are written through a [`OwnedBuffer`] only, and read through
//!    [`SharedBuffer`] and [`OwnedBuffer`].

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Octets of a huge page, and of all chunks but the first ones.
pub(super) const CHUNK_OCTETS_MAX: usize = 2 << 20;

/// Octets of the first chunk of a size; the next ones are twice as large each, so that a size that
/// is hardly used takes little.
pub(super) const CHUNK_OCTETS_MIN: usize = 64 << 10;

/// Octets that the system is asked for at once.
const POPULATED_OCTETS: usize = 64 << 10;

const _: () = assert!(CHUNK_OCTETS_MAX.is_multiple_of(POPULATED_OCTETS));

/// Octets of a buffer that are asked for ahead: what follows them the processor asks for by itself.
const PREFETCHED_OCTETS: usize = 1536;

const CACHE_LINE_OCTETS: usize = 64;

/// Octets before those of a buffer.
pub(super) const HEADER_OCTETS: usize = size_of::<Header>();

const _: () = assert!(HEADER_OCTETS == 16);

/// What stands before a buffer's octets.
#[repr(C, align(16))]
struct Header {
    references: AtomicU32,
    /// The number of the chunk among those of its size.
    chunk: u32,
    /// The number of its size.
    class: u32,
    octets: u32,
}

/// Buffers of one size.
#[derive(Debug)]
pub(super) struct Chunk {
    start: NonNull<u8>,
    octets: usize,
    stride: usize,
    /// How many buffers were handed out ever, from the front.
    touched: usize,
    /// Those of them that came back.
    free: Vec<OwnedBuffer>,
    /// Octets from the front that the system was asked to give at once.
    populated: usize,
}

// SAFETY: the mapping belongs to the process; by invariant 2 whoever has the chunk has its free
// buffers, and nothing else of it is reached through the chunk.
unsafe impl Send for Chunk {}

/// A buffer that nobody else has. It is never dropped but given back to its chunk; otherwise its
/// memory stays.
#[derive(Debug)]
pub(super) struct OwnedBuffer(NonNull<Header>);

// SAFETY: by invariant 2 its owner is the only one to reach the buffer.
unsafe impl Send for OwnedBuffer {}

/// A buffer that several may read. The last of them gets a [`OwnedBuffer`].
#[derive(Debug)]
pub(super) struct SharedBuffer(NonNull<Header>);

// SAFETY: by invariant 3 the octets do not change while there is a `SharedBuffer`, and the count of
// references is atomic.
unsafe impl Send for SharedBuffer {}
// SAFETY: as above.
unsafe impl Sync for SharedBuffer {}

impl Chunk {
    /// A chunk of `octets`, a power of two, whose buffers are `stride` octets apart. With `is_huge`
    /// it lies so that it may have huge pages, and the system is asked for them.
    ///
    /// # Errors
    /// Environment: there is no memory.
    pub(super) fn map(octets: usize, stride: usize, is_huge: bool) -> Result<Self, Errno> {
        debug_assert!(stride.is_multiple_of(HEADER_OCTETS) && (2 * HEADER_OCTETS..=octets).contains(&stride));
        let mapped = if is_huge { 2 * octets } else { octets };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice; nothing that exists is replaced.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), mapped, protection, MapFlags::PRIVATE)?
        };
        let mut start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        if is_huge {
            let before = start.as_ptr().align_offset(octets);
            // SAFETY: both ends of the mapping of twice the octets around an aligned part, `before`
            // being less than `octets`; nobody knows of them. Advice does not change what memory
            // holds.
            unsafe {
                let aligned = start.as_ptr().add(before);
                if before > 0 {
                    rustix::mm::munmap(start.as_ptr().cast(), before)?;
                }
                rustix::mm::munmap(aligned.add(octets).cast(), octets - before)?;
                start = NonNull::new_unchecked(aligned);
                // Where the system has no huge pages, small ones do.
                let _ = rustix::mm::madvise(start.as_ptr().cast(), octets, Advice::LinuxHugepage);
            }
        }
        // The first chunks of a size that is hardly used take no more than is touched.
        let populated = if octets < CHUNK_OCTETS_MAX { octets } else { 0 };
        Ok(Chunk { start, octets, stride, touched: 0, free: Vec::new(), populated })
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    /// A buffer, rather one that was used before; `None` if there is none left. `class` and `chunk`
    /// are what [`OwnedBuffer::place`] is to say of it.
    pub(super) fn take(&mut self, class: u32, chunk: u32) -> Option<OwnedBuffer> {
        if let Some(spare) = self.free.pop() {
            return Some(spare);
        }
        let offset = self.touched * self.stride;
        if offset + self.stride > self.octets {
            return None;
        }
        if offset + self.stride > self.populated {
            self.populate(offset + self.stride);
        }
        self.touched += 1;
        let octets = (self.stride - HEADER_OCTETS) as u32;
        let header = Header { references: AtomicU32::new(0), chunk, class, octets };
        // SAFETY: buffer number `touched` lies inside the mapping (checked above), is aligned
        // (invariant 2: start and stride are multiples of 16) and was not handed out before.
        unsafe {
            let place = self.start.add(offset).cast::<Header>();
            place.write(header);
            Some(OwnedBuffer(place))
        }
    }

    /// Asks the system for the pages of the next buffers, up to `least` octets from the start and
    /// some more: where there is no huge page, a page fault for each page costs a fifth more.
    #[cold]
    fn populate(&mut self, least: usize) {
        let from = self.populated;
        let end = least.next_multiple_of(POPULATED_OCTETS).min(self.octets);
        self.populated = end;
        // SAFETY: both ends lie inside the mapping (invariant 1), on pages' borders: `from` and
        // `end` are multiples of `POPULATED_OCTETS`. What memory holds does not change. A system
        // that cannot do this gives pages one by one.
        let _ = unsafe {
            rustix::mm::madvise(self.start.add(from).as_ptr().cast(), end - from, Advice::LinuxPopulateWrite)
        };
    }

    /// Takes back a buffer of this chunk.
    pub(super) fn put(&mut self, spare: OwnedBuffer) {
        let offset = (spare.0.as_ptr() as usize).wrapping_sub(self.start.as_ptr() as usize);
        assert!(offset < self.octets, "a buffer of another chunk");
        self.free.push(spare);
    }

    /// Returns true if there is a buffer to take.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || (self.touched + 1) * self.stride <= self.octets
    }

    /// Octets of the buffers that came back.
    pub(super) fn octets_free(&self) -> usize {
        self.free.len() * self.stride
    }

    /// Returns true if all of its buffers are here.
    pub(super) fn is_unused(&self) -> bool {
        self.free.len() == self.touched
    }

    /// Gives the memory back to the system.
    pub(super) fn unmap(self) {
        assert!(self.is_unused(), "somebody has a buffer of this chunk");
        // SAFETY: invariant 1, just checked: `free` holds as many different buffers of this chunk
        // (`put`) as were handed out, and they go with it. Unmapping what is mapped does not fail.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.octets) };
    }
}

impl OwnedBuffer {
    /// The buffer's size, the chunk that it belongs to, both as [`Chunk::take`] was told.
    pub(super) fn place(&self) -> (usize, u32) {
        // SAFETY: the buffer is mapped as long as it is not in its chunk (invariant 1), with a
        // header (invariant 2).
        let header = unsafe { self.0.as_ref() };
        (header.class as usize, header.chunk)
    }

    /// Asks the processor for the first cache lines of a buffer of `octets` octets, without waiting
    /// for them.
    #[inline]
    pub(super) fn prefetch(&self, octets: usize) {
        let start = self.0.as_ptr().cast::<u8>().cast_const();
        for at in (0..octets.min(PREFETCHED_OCTETS)).step_by(CACHE_LINE_OCTETS) {
            namely_forwarder::prefetch_line(start.wrapping_add(at));
        }
    }

    /// The buffer's octets.
    #[inline]
    pub(super) fn octets_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `octets_of`, and by invariant 2 nobody else reaches them while `self` is
        // borrowed.
        unsafe {
            let octets = self.0.as_ref().octets as usize;
            std::slice::from_raw_parts_mut(self.0.add(1).as_ptr().cast(), octets)
        }
    }

    /// From now on several may read it.
    #[inline]
    pub(super) fn share(self) -> SharedBuffer {
        // SAFETY: as in `place`. Nobody else reads the count: it becomes known by what
        // `SharedBuffer` is sent over.
        unsafe { self.0.as_ref() }.references.store(1, Ordering::Relaxed);
        SharedBuffer(self.0)
    }
}

impl SharedBuffer {
    /// The buffer's octets.
    #[inline]
    pub(super) fn octets(&self) -> &[u8] {
        // SAFETY: a buffer with a `SharedBuffer` is in no chunk, hence mapped (invariant 1); behind
        // its header lie as many octets as that says (invariant 2), which were zeroed by the system
        // or written since, and which nobody writes meanwhile (invariant 3).
        unsafe {
            let octets = self.0.as_ref().octets as usize;
            std::slice::from_raw_parts(self.0.add(1).as_ptr().cast(), octets)
        }
    }

    /// Releases the buffer; whoever is the last gets it.
    #[inline]
    pub(super) fn release(self) -> Option<OwnedBuffer> {
        let this = ManuallyDrop::new(self);
        // SAFETY: as in `octets`; the count includes this reference until the next line is done.
        let is_last = unsafe { this.0.as_ref() }.references.fetch_sub(1, Ordering::Release) == 1;
        if !is_last {
            return None;
        }
        // What others read of it they have read before it is written again.
        fence(Ordering::Acquire);
        Some(OwnedBuffer(this.0))
    }
}

impl Clone for SharedBuffer {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: as in `octets`.
        let before = unsafe { self.0.as_ref() }.references.fetch_add(1, Ordering::Relaxed);
        // As many clones would take more memory than there is; a count that wraps would be unsound.
        assert!(before < u32::MAX / 2, "too many references to a packet");
        SharedBuffer(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_hands_out_each_buffer_once_and_goes_when_all_are_back() {
        for (octets, stride) in [(CHUNK_OCTETS_MIN, 48), (CHUNK_OCTETS_MAX, 8192)] {
            let mut chunk = Chunk::map(octets, stride, octets == CHUNK_OCTETS_MAX).unwrap();
            let mut taken: Vec<OwnedBuffer> = std::iter::from_fn(|| chunk.take(3, 7)).collect();
            assert_eq!(taken.len(), octets / stride);
            assert!(!chunk.has_room() && !chunk.is_unused());
            for (n, spare) in taken.iter_mut().enumerate() {
                assert_eq!(spare.place(), (3, 7));
                assert_eq!(spare.octets_mut().len(), stride - HEADER_OCTETS);
                spare.octets_mut().fill(n as u8);
            }
            assert!(taken.iter_mut().enumerate().all(|(n, s)| s.octets_mut().iter().all(|o| *o == n as u8)));
            taken.into_iter().for_each(|spare| chunk.put(spare));
            assert!(chunk.has_room() && chunk.is_unused());
            chunk.unmap();
        }
    }

    #[test]
    fn pages_are_asked_for_a_little_ahead_of_buffers_and_never_past_the_chunk() {
        for stride in [1088, 8256, 9280] {
            let mut chunk = Chunk::map(CHUNK_OCTETS_MAX, stride, false).unwrap();
            let mut taken = Vec::new();
            while let Some(spare) = chunk.take(0, 0) {
                taken.push(spare);
                let in_use = taken.len() * stride;
                assert!(
                    (in_use..in_use + POPULATED_OCTETS).contains(&chunk.populated),
                    "{in_use} {}",
                    chunk.populated
                );
                assert!(chunk.populated <= CHUNK_OCTETS_MAX);
            }
            taken.into_iter().for_each(|spare| chunk.put(spare));
            chunk.unmap();
        }
    }

    #[test]
    fn a_shared_buffer_comes_back_from_the_last_who_has_it() {
        let mut chunk = Chunk::map(CHUNK_OCTETS_MIN, 1024, false).unwrap();
        let mut spare = chunk.take(0, 0).unwrap();
        spare.octets_mut()[0] = 9;
        let shared = spare.share();
        let threads: Vec<_> = (0..4).map(|_| shared.clone()).collect();
        assert!(shared.release().is_none());
        let threads: Vec<_> = threads
            .into_iter()
            .map(|shared| {
                std::thread::spawn(move || {
                    assert_eq!(shared.octets()[0], 9);
                    shared.release()
                })
            })
            .collect();
        let back: Vec<OwnedBuffer> =
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(back.len(), 1);
        back.into_iter().for_each(|spare| chunk.put(spare));
        chunk.unmap();
    }

    #[test]
    #[should_panic(expected = "somebody has a buffer of this chunk")]
    fn a_chunk_of_which_somebody_has_a_buffer_is_not_unmapped() {
        let mut chunk = Chunk::map(CHUNK_OCTETS_MIN, 1024, false).unwrap();
        let _spare = chunk.take(0, 0).unwrap();
        chunk.unmap();
    }
}

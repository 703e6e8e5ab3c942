//! Memory for packets: buffers of one size, cut from chunks that are mapped as a whole.
//!
//! While a content store fills, each packet takes new memory. A chunk in a huge page costs one page
//! fault instead of 512 (for pages of 4 KiB), and a buffer costs no system call. A chunk can be
//! unmapped once all its buffers were returned.
//!
//! This module has `unsafe` code. Each block below relies on these invariants:
//! 1. `start..start + octets` of a [`Chunk`] is mapped readable and writable, zeroed at first, from
//!    [`Chunk::map`] to [`Chunk::unmap`]. Only a chunk whose buffers are all in `free` or were
//!    never handed out is passed to [`Chunk::unmap`].
//! 2. Buffer n of a chunk lies at `start + n * stride`, which is a multiple of 16. It consists of a
//!    [`Header`] and `stride - 16` octets. At any time it belongs to exactly one [`OwnedBuffer`],
//!    or to as many [`SharedBuffer`] as its header counts.
//! 3. The octets of a buffer are written through an [`OwnedBuffer`] only, and read through
//!    [`SharedBuffer`] and [`OwnedBuffer`].

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Octets of a chunk of packet buffers.
///
/// It is the size of a huge page, and of all chunks except the first ones.
///
/// # Limit
/// Another chunk is mapped.
/// - Value: 2 MiB; the first chunk has 64 KiB, and each further one twice as many
/// - Tests: `a_chunk_hands_out_each_buffer_once`
pub(super) const CHUNK_OCTETS_MAX: usize = 2 << 20;

/// Octets of the first chunk of a size. Each following chunk is twice as large, so a rarely used
/// size takes little memory.
pub(super) const CHUNK_OCTETS_MIN: usize = 64 << 10;

/// Minimum number of octets that one system call populates.
const POPULATED_OCTETS: usize = 64 << 10;

const _: () = assert!(CHUNK_OCTETS_MAX.is_multiple_of(POPULATED_OCTETS));

/// Octets of a buffer that are prefetched. The processor prefetches the following ones by itself.
const PREFETCHED_OCTETS: usize = 1536;

const CACHE_LINE_OCTETS: usize = 64;

/// Octets of the header before a buffer's octets.
pub(super) const HEADER_OCTETS: usize = size_of::<Header>();

const _: () = assert!(HEADER_OCTETS == 16);

/// The header before a buffer's octets.
#[repr(C, align(16))]
struct Header {
    references: AtomicU32,
    /// The number of the chunk within its size.
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
    /// Number of different buffers that were handed out so far. They lie at the front of the chunk.
    touched: usize,
    /// Buffers that were handed out and returned.
    free: Vec<OwnedBuffer>,
    /// Octets from the front that `populate` need not populate: those it has populated, or all of a
    /// small chunk.
    populated: usize,
}

// SAFETY: the mapping belongs to the process. By invariant 2 the owner of the chunk owns the free
// buffers, and the chunk accesses no other buffer that was handed out.
unsafe impl Send for Chunk {}

/// A buffer with one owner. It must be returned to its chunk instead of being dropped; otherwise
/// its memory leaks.
#[derive(Debug)]
pub(super) struct OwnedBuffer(NonNull<Header>);

// SAFETY: by invariant 2 only the owner of the `OwnedBuffer` accesses the buffer.
unsafe impl Send for OwnedBuffer {}

/// A buffer that several owners may read. The release of the last one returns the [`OwnedBuffer`].
#[derive(Debug)]
pub(super) struct SharedBuffer(NonNull<Header>);

// SAFETY: by invariant 3 the octets do not change while there is a `SharedBuffer`, and the count of
// references is atomic.
unsafe impl Send for SharedBuffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedBuffer {}

impl Chunk {
    /// Maps a chunk of `octets`, a power of two, whose buffers are `stride` octets apart. With
    /// `is_huge` the chunk is aligned for huge pages, and `map` requests them from the system.
    ///
    /// # Errors
    /// Environment: there is no memory.
    pub(super) fn map(octets: usize, stride: usize, is_huge: bool) -> Result<Self, Errno> {
        debug_assert!(stride.is_multiple_of(HEADER_OCTETS) && (2 * HEADER_OCTETS..=octets).contains(&stride));
        // A mapping of twice the size contains an aligned range of the size, wherever it lies.
        let mapped = if is_huge { 2 * octets } else { octets };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; no existing mapping is
        // replaced.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), mapped, protection, MapFlags::PRIVATE)?
        };
        let mut start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        if is_huge {
            let before = start.as_ptr().align_offset(octets);
            // SAFETY: the mapping has `2 * octets`, and `before` is less than `octets`. So the
            // unmapped ranges before and after the aligned range lie inside it, and no other code
            // has their addresses. Advice does not change the contents of memory.
            unsafe {
                let aligned = start.as_ptr().add(before);
                if before > 0 {
                    rustix::mm::munmap(start.as_ptr().cast(), before)?;
                }
                rustix::mm::munmap(aligned.add(octets).cast(), octets - before)?;
                start = NonNull::new_unchecked(aligned);
                // Without huge pages the system uses small ones.
                let _ = rustix::mm::madvise(start.as_ptr().cast(), octets, Advice::LinuxHugepage);
            }
        }
        // Small chunks are never populated ahead, so a rarely used size takes only the pages it
        // touches.
        let populated = if octets < CHUNK_OCTETS_MAX { octets } else { 0 };
        Ok(Chunk { start, octets, stride, touched: 0, free: Vec::new(), populated })
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    /// Returns a buffer, preferably a used one; `None` if there is none left.
    /// [`OwnedBuffer::place`] later returns `class` and `chunk`.
    pub(super) fn take(&mut self, class: u32, chunk: u32) -> Option<OwnedBuffer> {
        // The pages of a used buffer are populated already.
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
        // An owned buffer has no count; `share` sets it.
        let header = Header { references: AtomicU32::new(0), chunk, class, octets };
        // SAFETY: buffer number `touched` lies inside the mapping (checked above), is aligned
        // (invariant 2: start and stride are multiples of 16) and was not handed out before.
        unsafe {
            let buffer = self.start.add(offset).cast::<Header>();
            buffer.write(header);
            Some(OwnedBuffer(buffer))
        }
    }

    /// Populates the pages of the next buffers, at least up to `least` octets from the start.
    /// Without a huge page, a page fault for each page would take a fifth more time than this call.
    #[cold]
    fn populate(&mut self, least: usize) {
        let from = self.populated;
        let end = least.next_multiple_of(POPULATED_OCTETS).min(self.octets);
        self.populated = end;
        // SAFETY: both ends lie inside the mapping (invariant 1), on page boundaries: `from` and
        // `end` are multiples of `POPULATED_OCTETS`. The contents of memory do not change. A system
        // without this advice populates pages one by one.
        let _ = unsafe {
            rustix::mm::madvise(self.start.add(from).as_ptr().cast(), end - from, Advice::LinuxPopulateWrite)
        };
    }

    /// Takes back a buffer of this chunk.
    pub(super) fn put(&mut self, spare: OwnedBuffer) {
        // A lower address wraps to an offset that the assertion rejects.
        let offset = (spare.0.as_ptr() as usize).wrapping_sub(self.start.as_ptr() as usize);
        assert!(offset < self.octets, "a buffer of another chunk");
        self.free.push(spare);
    }

    /// Returns true if a buffer is available.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || (self.touched + 1) * self.stride <= self.octets
    }

    /// Octets of the buffers that were returned.
    pub(super) fn octets_free(&self) -> usize {
        self.free.len() * self.stride
    }

    /// Returns true if all buffers that were handed out were returned.
    pub(super) fn is_unused(&self) -> bool {
        self.free.len() == self.touched
    }

    /// Returns the memory to the system.
    pub(super) fn unmap(self) {
        assert!(self.is_unused(), "somebody has a buffer of this chunk");
        // SAFETY: invariant 1, just checked: `free` holds as many different buffers of this chunk
        // (`put`) as were handed out, and they are dropped with it. Unmapping a mapped range does
        // not fail.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.octets) };
    }
}

impl OwnedBuffer {
    /// Returns the buffer's size class and the number of its chunk, as passed to [`Chunk::take`].
    pub(super) fn class_and_chunk(&self) -> (usize, u32) {
        // SAFETY: the buffer is mapped as long as it is not in `free` of its chunk (invariant 1),
        // with a header (invariant 2).
        let header = unsafe { self.0.as_ref() };
        (header.class as usize, header.chunk)
    }

    /// Prefetches the first cache lines of a buffer of `octets` octets, without waiting for them.
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
        // SAFETY: as in `SharedBuffer::octets`, and by invariant 2 no other code reaches them while
        // `self` is borrowed.
        unsafe {
            let octets = self.0.as_ref().octets as usize;
            std::slice::from_raw_parts_mut(self.0.add(1).as_ptr().cast(), octets)
        }
    }

    /// Converts this buffer into one that several owners may read.
    #[inline]
    pub(super) fn share(self) -> SharedBuffer {
        // SAFETY: as in `place`. Relaxed: another thread reads the count only after it has received
        // the `SharedBuffer`, and that transfer synchronizes.
        unsafe { self.0.as_ref() }.references.store(1, Ordering::Relaxed);
        SharedBuffer(self.0)
    }
}

impl SharedBuffer {
    /// The buffer's octets.
    #[inline]
    pub(super) fn octets(&self) -> &[u8] {
        // SAFETY: a buffer with a `SharedBuffer` is not in `free` of its chunk, hence mapped
        // (invariant 1). Behind its header lie as many octets as the header states (invariant 2).
        // All are initialized, because the system zeroed them. No code writes them while a
        // `SharedBuffer` exists (invariant 3).
        unsafe {
            let octets = self.0.as_ref().octets as usize;
            std::slice::from_raw_parts(self.0.add(1).as_ptr().cast(), octets)
        }
    }

    /// Releases the buffer. Returns it if this was the last reference.
    #[inline]
    pub(super) fn release(self) -> Option<OwnedBuffer> {
        let this = ManuallyDrop::new(self);
        // SAFETY: as in `octets`. The count includes this reference until `fetch_sub` has
        // subtracted it.
        let is_last = unsafe { this.0.as_ref() }.references.fetch_sub(1, Ordering::Release) == 1;
        if !is_last {
            return None;
        }
        // With the Release of the other threads, their reads happen before the buffer is written
        // again.
        fence(Ordering::Acquire);
        Some(OwnedBuffer(this.0))
    }
}

impl Clone for SharedBuffer {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: as in `octets`.
        let before = unsafe { self.0.as_ref() }.references.fetch_add(1, Ordering::Relaxed);
        // A count that wraps would be unsound. No router has so many references to one packet.
        assert!(before < u32::MAX / 2, "too many references to a packet");
        SharedBuffer(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_hands_out_each_buffer_once() {
        for (octets, stride) in [(CHUNK_OCTETS_MIN, 48), (CHUNK_OCTETS_MAX, 8192)] {
            let mut chunk = Chunk::map(octets, stride, octets == CHUNK_OCTETS_MAX).unwrap();
            let mut taken: Vec<OwnedBuffer> = std::iter::from_fn(|| chunk.take(3, 7)).collect();
            assert_eq!(taken.len(), octets / stride);
            assert!(!chunk.has_room() && !chunk.is_unused());
            for (n, spare) in taken.iter_mut().enumerate() {
                assert_eq!(spare.class_and_chunk(), (3, 7));
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
    fn pages_are_populated_just_ahead_of_buffers() {
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
    fn a_shared_buffer_returns_from_its_last_holder() {
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
    fn a_chunk_in_use_stays_mapped() {
        let mut chunk = Chunk::map(CHUNK_OCTETS_MIN, 1024, false).unwrap();
        let _spare = chunk.take(0, 0).unwrap();
        chunk.unmap();
    }
}

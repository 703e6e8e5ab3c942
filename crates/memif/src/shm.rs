//! Memory that another process maps too.
//!
//! The invariants, on which each `unsafe` block below rests:
//! 1. `start..start + octets` is mapped readable and writable from [`Region::map`] to its drop, and
//!    no other code unmaps it: the pointer never leaves this module.
//! 2. The pages stay. The file is a memfd whose size is at least `octets` and which carries
//!    `F_SEAL_SHRINK`, so that no process can truncate it. It is not on hugetlbfs, where a page can
//!    be missing when it is touched.
//! 3. Nothing here makes a reference to plain octets of the region, because another process may
//!    write there at any time. Words are accessed as atomics; octets are copied by pointer. A copy
//!    may be torn; it consists of octets, of which any value is valid, and callers read their own
//!    copy only.
//! 4. [`RingMemory`] holds an offset that is a multiple of 8 and whose whole ring lies inside its
//!    region.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use namely_host::shares::Share;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// `HUGETLBFS_MAGIC` of statfs(2).
const HUGETLBFS: i128 = 0x9584_58f6;

/// Octets of a packet that are prefetched. The processor prefetches the following ones by itself.
const PREFETCHED_OCTETS: usize = 1536;

const CACHE_LINE_OCTETS: usize = 64;

/// A mapped memfd.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    octets: usize,
    /// Released with the mapping.
    share: Option<Arc<Share>>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and by invariant 3 no thread holds a
// reference to octets that another one (or another process) writes.
unsafe impl Send for Region {}
// SAFETY: as above; each access is atomic or a copy of octets that may change at any time anyway.
unsafe impl Sync for Region {}

impl Region {
    /// Creates memory of `octets` octets, zeroed and sealed. Returns it with the descriptor to pass
    /// to the peer.
    ///
    /// # Errors
    /// Environment: the system has no memory or descriptor to give.
    pub fn create(octets: usize) -> Result<(Self, OwnedFd), Errno> {
        let fd = rustix::fs::memfd_create("namely-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, octets as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&fd, octets, None)?, fd))
    }

    /// Maps the first `octets` octets of `fd`.
    ///
    /// # Errors
    /// EPERM: `fd` is not a memfd, or the peer could shrink it. EINVAL: it is shorter than
    /// `octets`, or `octets` is 0.
    pub(crate) fn map(fd: impl AsFd, octets: usize, share: Option<Arc<Share>>) -> Result<Self, Errno> {
        // Only memfds support seals; this also excludes files whose pages come from elsewhere.
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| Errno::PERM)?;
        let is_huge = rustix::fs::fstatfs(&fd)?.f_type as i128 == HUGETLBFS;
        if !seals.contains(SealFlags::SHRINK) || is_huge {
            return Err(Errno::PERM);
        }
        // Read after the seal was seen: the size does not shrink any more.
        let size = u64::try_from(rustix::fs::fstat(&fd)?.st_size).map_err(|_| Errno::INVAL)?;
        if octets == 0 || (octets as u64) > size || octets > isize::MAX as usize {
            return Err(Errno::INVAL);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; no existing mapping is
        // replaced.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), octets, protection, MapFlags::SHARED, fd, 0)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Region { start, octets, share })
    }

    /// Returns the share to which the memory is charged.
    pub(crate) fn share(&self) -> Option<&Arc<Share>> {
        self.share.as_ref()
    }

    /// Octets mapped.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Returns true if `octets` octets at `offset` lie inside the region.
    #[inline]
    pub(crate) fn has(&self, offset: usize, octets: usize) -> bool {
        offset.checked_add(octets).is_some_and(|end| end <= self.octets)
    }

    /// Fills `into` with the octets at `offset`. Returns false if not all of them are inside.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        if !self.has(offset, into.len()) {
            return false;
        }
        // SAFETY: the source lies in the mapping (invariant 1, checked above), to which by
        // invariant 3 no reference exists, hence `into` does not overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), into.as_mut_ptr(), into.len())
        };
        true
    }

    /// Prefetches the first cache lines at `offset`, as far as they are inside, without waiting for
    /// them.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize, octets: usize) {
        for at in (0..octets.min(PREFETCHED_OCTETS)).step_by(CACHE_LINE_OCTETS) {
            if !self.has(offset + at, 1) {
                return;
            }
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the instruction has no effect that a program can observe and never faults,
            // for any address.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(self.start.as_ptr().wrapping_add(offset + at).cast());
            }
        }
    }

    /// Copies `from` to `offset`; false if it does not fit.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        if !self.has(offset, from.len()) {
            return false;
        }
        // SAFETY: the target lies in the mapping (invariant 1, checked above), to which by
        // invariant 3 no reference exists, hence `from` does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(offset), from.len()) };
        true
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: invariant 1: mapped once with this size, and `self` held the last copy of the
        // pointer. Unmapping a mapped range does not fail.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.octets) };
    }
}

/// Octets of a ring before its descriptors: two cache lines (`memif_ring_t`).
const RING_HEADER_OCTETS: usize = 128;

/// Octets of a descriptor (`memif_desc_t`).
const DESCRIPTOR_OCTETS: usize = 16;

const COOKIE_AT: usize = 0;
const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;

/// A slot of a ring, as it was read once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) octets: u32,
    pub(crate) offset: u32,
}

/// The words of one ring.
#[derive(Clone, Debug)]
pub(crate) struct RingMemory {
    region: Arc<Region>,
    offset: usize,
    size_log2: u8,
}

impl RingMemory {
    /// Octets of a ring of 2^`size_log2` slots.
    pub(crate) fn octets_of(size_log2: u8) -> usize {
        RING_HEADER_OCTETS + (DESCRIPTOR_OCTETS << size_log2)
    }

    /// The ring at `offset`; `None` if it is not wholly inside the region or its words would not be
    /// aligned.
    pub(crate) fn new(region: Arc<Region>, offset: usize, size_log2: u8) -> Option<Self> {
        let fits = size_log2 <= crate::RING_SIZE_LOG2_MAX
            && offset.is_multiple_of(8)
            && region.has(offset, Self::octets_of(size_log2));
        fits.then_some(RingMemory { region, offset, size_log2 })
    }

    /// Returns the number of slots.
    pub(crate) fn size(&self) -> u16 {
        1 << self.size_log2
    }

    #[inline]
    fn u16_at(&self, at: usize) -> &AtomicU16 {
        debug_assert!(at.is_multiple_of(2) && at + 2 <= RING_HEADER_OCTETS);
        // SAFETY: invariant 4: the header lies in the mapping, which lives as long as
        // `self.region`, hence as long as the reference; the start of a mapping and the offset are
        // multiples of 8 and `at` of 2.
        unsafe { AtomicU16::from_ptr(self.region.start.as_ptr().add(self.offset + at).cast()) }
    }

    #[inline]
    fn half_of(&self, slot: u16, half: usize) -> &AtomicU64 {
        let slot = usize::from(slot & (self.size() - 1));
        let at = self.offset + RING_HEADER_OCTETS + slot * DESCRIPTOR_OCTETS + half * 8;
        // SAFETY: invariant 4: slots up to the ring's size lie in the mapping, and the mask keeps
        // `slot` below it; `at` is a multiple of 8; `half` is 0 or 1.
        unsafe { AtomicU64::from_ptr(self.region.start.as_ptr().add(at).cast()) }
    }

    pub(crate) fn cookie(&self) -> &AtomicU32 {
        // SAFETY: as in `u16_at`, with a multiple of 4.
        unsafe { AtomicU32::from_ptr(self.region.start.as_ptr().add(self.offset + COOKIE_AT).cast()) }
    }

    /// The client's index.
    #[inline]
    pub(crate) fn head(&self) -> &AtomicU16 {
        self.u16_at(HEAD_AT)
    }

    /// The server's index.
    #[inline]
    pub(crate) fn tail(&self) -> &AtomicU16 {
        self.u16_at(TAIL_AT)
    }

    /// The flags that the receiving end sets.
    #[inline]
    pub(crate) fn flags(&self) -> &AtomicU16 {
        self.u16_at(FLAGS_AT)
    }

    /// Reads a slot, each half once. Slot numbers increase without end; the ring uses them modulo
    /// its size.
    #[inline]
    pub(crate) fn descriptor(&self, slot: u16) -> Descriptor {
        // Relaxed: the index that makes the slot readable was acquired before. If the peer changes
        // the slot nevertheless, either the old or the new value is read, and both are checked.
        let (first, second) = (self.half_of(slot, 0), self.half_of(slot, 1));
        let first = first.load(Ordering::Relaxed).to_ne_bytes();
        let second = second.load(Ordering::Relaxed).to_ne_bytes();
        Descriptor {
            flags: u16::from_ne_bytes([first[0], first[1]]),
            region: u16::from_ne_bytes([first[2], first[3]]),
            octets: u32::from_ne_bytes([first[4], first[5], first[6], first[7]]),
            offset: u32::from_ne_bytes([second[0], second[1], second[2], second[3]]),
        }
    }

    #[inline]
    pub(crate) fn set_descriptor(&self, slot: u16, descriptor: Descriptor) {
        let (flags, region) = (descriptor.flags.to_ne_bytes(), descriptor.region.to_ne_bytes());
        let [a, b, c, d] = descriptor.octets.to_ne_bytes();
        let first = [flags[0], flags[1], region[0], region[1], a, b, c, d];
        let [a, b, c, d] = descriptor.offset.to_ne_bytes();
        // Relaxed: the index that publishes the slot to the peer is released afterwards.
        self.half_of(slot, 0).store(u64::from_ne_bytes(first), Ordering::Relaxed);
        self.half_of(slot, 1).store(u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memfd(octets: u64, seals: SealFlags) -> OwnedFd {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, octets).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        fd
    }

    #[test]
    fn unsealed_memory_of_a_peer_is_refused() {
        let refused = |fd: &OwnedFd, octets| Region::map(fd, octets, None).map(|r| r.octets());
        assert_eq!(refused(&memfd(4096, SealFlags::empty()), 4096), Err(Errno::PERM));
        assert_eq!(refused(&memfd(4096, SealFlags::GROW), 4096), Err(Errno::PERM));
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        rustix::fs::ftruncate(&file, 4096).unwrap();
        assert_eq!(refused(&file, 4096), Err(Errno::PERM), "no file that another could cut");
        let sealed = memfd(4096, SealFlags::SHRINK);
        assert_eq!(refused(&sealed, 4096), Ok(4096));
        assert_eq!(refused(&sealed, 4097), Err(Errno::INVAL));
        assert_eq!(refused(&sealed, 0), Err(Errno::INVAL));
        assert_eq!(rustix::fs::ftruncate(&sealed, 0), Err(Errno::PERM), "the seal holds");
    }

    #[test]
    fn accesses_outside_a_region_are_refused() {
        let (region, _fd) = Region::create(4096).unwrap();
        let mut read = [0; 6];
        assert!(region.write(4090, b"abcdef") && region.read(4090, &mut read));
        assert_eq!(read, *b"abcdef");
        assert!(!region.write(4091, b"ABCDEF") && !region.read(4091, &mut read));
        assert!(!region.write(usize::MAX, b"a") && !region.read(usize::MAX, &mut read));
        assert_eq!(read, *b"abcdef");
    }

    #[test]
    fn a_ring_is_aligned_inside_its_region() {
        let octets = RingMemory::octets_of(4);
        assert_eq!(octets, 128 + 16 * 16);
        let (region, _fd) = Region::create(octets + 64).unwrap();
        let region = Arc::new(region);
        let ring = |offset, log2| RingMemory::new(region.clone(), offset, log2).is_some();
        assert!(ring(0, 4) && ring(64, 4) && ring(8, 4));
        assert!(!ring(72, 4) && !ring(4, 4) && !ring(64, 5) && !ring(usize::MAX - 7, 4) && !ring(0, 15));
    }

    /// Offsets of `memif_ring_t` and `memif_desc_t`.
    #[cfg(target_endian = "little")]
    #[test]
    fn ring_words_match_libmemif() {
        let (region, _fd) = Region::create(4096).unwrap();
        let region = Arc::new(region);
        let ring = RingMemory::new(region.clone(), 0, 2).unwrap();
        ring.cookie().store(crate::message::COOKIE, Ordering::Relaxed);
        ring.flags().store(1, Ordering::Relaxed);
        ring.head().store(0x0203, Ordering::Relaxed);
        ring.tail().store(0x0405, Ordering::Relaxed);
        let descriptor = Descriptor { flags: 1, region: 0x0203, octets: 0x0405_0607, offset: 0x0809_0a0b };
        ring.set_descriptor(5, descriptor);
        assert_eq!((ring.descriptor(1), ring.descriptor(2)), (descriptor, Descriptor::default()));
        let mut read = [0; 160];
        assert!(region.read(0, &mut read));
        assert_eq!(read[..8], [0x20, 0x1f, 0xe3, 0x03, 1, 0, 3, 2]);
        assert_eq!(read[64..66], [5, 4]);
        assert_eq!(read[144..160], [1, 0, 3, 2, 7, 6, 5, 4, 0x0b, 0x0a, 9, 8, 0, 0, 0, 0]);
    }
}

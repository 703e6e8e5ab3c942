//! The system's allocator, with huge pages for large memory if the kernel has them.
//!
//! The core's tables grow by chunks of 2 MiB and more, whose entries are accessed in any order.
//! With pages of 4 KiB, such an access is likely to miss both the processor's TLB and the cached
//! page tables. Inside a virtual machine that costs more than the access to memory itself.
//!
//! The invariant on which the blocks below rest: [`layout_of`] depends on the caller's layout only,
//! so memory is freed, and moved, with the very layout with which it was allocated.

use std::alloc::{GlobalAlloc, Layout, System};

use rustix::mm::{Advice, madvise};

/// Octets of a huge page. Memory of at least this size is aligned to it.
pub const HUGE_PAGE_OCTETS: usize = 2 << 20;

/// Makes the system's allocator return unused memory to the system. It scans all of the allocator's
/// memory, so it should be called rarely, by a thread that no other thread waits for. The call has
/// no effect where it is not supported.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and touches no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Free octets at the end of a heap of the system's allocator.
///
/// The allocator maps a piece of memory of this size separately.
///
/// # Limit
/// The octets are returned to the system.
/// - Value: 1 MiB for each thread that allocates
/// - Tests: `freed_thread_memory_returns_to_the_system`
#[cfg(target_env = "gnu")]
const HEAP_END_OCTETS: libc::c_int = 1 << 20;

/// Makes the system's allocator retain little free memory at the ends of its heaps from now on.
/// Otherwise it retains there twice the size of the largest piece that was ever freed, up to 64 MiB
/// for each allocating thread. [`give_back_memory`] does not release that memory. The call has no
/// effect where it is not supported.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it changes numbers of the allocator under its own lock, and touches no memory that is
    // in use.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, HEAP_END_OCTETS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, HEAP_END_OCTETS);
    }
}

/// An allocator for programs that hold large tables:
///
/// ```
/// #[global_allocator]
/// static MEMORY: namely_host::HugePages = namely_host::HugePages;
/// # let large = vec![1u8; 3 * namely_host::HUGE_PAGE_OCTETS];
/// # assert!(large.as_ptr().addr().is_multiple_of(namely_host::HUGE_PAGE_OCTETS));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HugePages;

// SAFETY: all memory is the system allocator's, requested with a layout of the same size and no
// smaller alignment, and freed with that very layout.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let own = layout_of(layout);
        // SAFETY: the caller's layout has a size above 0, and so has this.
        advised(unsafe { System.alloc(own) }, own)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let own = layout_of(layout);
        // SAFETY: as above.
        advised(unsafe { System.alloc_zeroed(own) }, own)
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the memory was allocated with the result of `layout_of` for the same layout.
        unsafe { System.dealloc(start, layout_of(layout)) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, octets: usize) -> *mut u8 {
        if layout.size().max(octets) < HUGE_PAGE_OCTETS {
            // SAFETY: neither layout differs from the caller's.
            return unsafe { System.realloc(start, layout, octets) };
        }
        // SAFETY: the caller vouches that `octets`, rounded up to the alignment, are no more than
        // isize::MAX.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(octets, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have at least the copied number of octets, and the new one has no other
            // owner.
            unsafe {
                core::ptr::copy_nonoverlapping(start, new, layout.size().min(octets));
                self.dealloc(start, layout);
            }
        }
        new
    }
}

/// The layout with which memory for `layout` is taken.
fn layout_of(layout: Layout) -> Layout {
    if layout.size() < HUGE_PAGE_OCTETS {
        return layout;
    }
    layout.align_to(HUGE_PAGE_OCTETS).unwrap_or(layout)
}

/// Advises the kernel to use huge pages for large memory. If it has none, it uses small ones.
fn advised(start: *mut u8, layout: Layout) -> *mut u8 {
    let octets = layout.size() & !(HUGE_PAGE_OCTETS - 1);
    if octets > 0 && !start.is_null() {
        // SAFETY: the advice changes no octet of the memory, which is the caller's.
        let _ = unsafe { madvise(start.cast(), octets, Advice::LinuxHugepage) };
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static MEMORY: HugePages = HugePages;

    fn is_huge(octets: &[u8]) -> bool {
        octets.as_ptr().addr().is_multiple_of(HUGE_PAGE_OCTETS)
    }

    #[test]
    fn large_allocations_start_on_a_huge_page() {
        let large: Vec<Vec<u8>> = (0..4).map(|i| vec![i; HUGE_PAGE_OCTETS + usize::from(i)]).collect();
        assert!(large.iter().zip(0..).all(|(octets, i)| is_huge(octets) && octets.iter().all(|o| *o == i)));
        let small: Vec<Vec<u8>> = (0..8).map(|_| vec![0; HUGE_PAGE_OCTETS - 1]).collect();
        assert!(!small.iter().all(|octets| is_huge(octets)));
    }

    #[test]
    fn memory_survives_growth_past_a_huge_page() {
        let mut octets: Vec<u8> = Vec::with_capacity(1000);
        let wanted: Vec<u8> = (0..3 * HUGE_PAGE_OCTETS).map(|i| (i / 7) as u8).collect();
        wanted.chunks(100_000).for_each(|chunk| octets.extend_from_slice(chunk));
        assert!(octets == wanted && is_huge(&octets));
        octets.truncate(1 << 20);
        octets.shrink_to_fit();
        assert_eq!(octets, &wanted[..1 << 20]);
    }

    #[test]
    fn zeroed_memory_is_zero() {
        assert!(vec![0u8; 5 * HUGE_PAGE_OCTETS + 1].iter().all(|octet| *octet == 0));
    }
}

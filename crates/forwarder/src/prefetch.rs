//! Prefetches: bring memory into the processor's caches before its use, without waiting for it.
//!
//! An ordinary read ahead of its use would wait. A processor has a few hundred instructions under
//! way at once, and the oldest of them must retire first, so only the misses of a few packets
//! overlap. A prefetch retires at once, and affects no result. On a processor without such an
//! instruction, nothing is prefetched.

#![allow(unsafe_code)]

/// Octets of a cache line.
const LINE: usize = 64;

/// Prefetches the lines of `item`.
#[inline(always)]
pub(crate) fn prefetch<T>(item: &T) {
    let start = core::ptr::from_ref(item).cast::<u8>();
    (0..size_of::<T>().div_ceil(LINE)).for_each(|line| prefetch_line(start.wrapping_add(line * LINE)));
}

/// Octets from a packet's reference count to its octets, in the usual layout.
const COUNT_OCTETS: usize = 16;

/// Prefetches the first `lines` cache lines of a packet, including its reference count.
#[inline(always)]
pub(crate) fn prefetch_packet(octets: &[u8], lines: usize) {
    let start = octets.as_ptr().wrapping_sub(COUNT_OCTETS);
    (0..lines).for_each(|line| prefetch_line(start.wrapping_add(line * LINE)));
}

/// Prefetches the line at an arbitrary address. The program cannot observe the read.
#[inline(always)]
pub fn prefetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction changes no register, flag or memory and never faults, for any
    // address.
    unsafe {
        core::arch::asm!("prefetcht0 [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

//! What the kernel gives the core: memory, a lock, SHA-256, a way to stop, and who takes what comes
//! out. The functions are in shim.c and face.c of `kernel/module`. A check of the crate for another
//! target than a kernel's leaves memory and panics to that target.

use alloc::boxed::Box;
#[cfg(target_os = "none")]
use core::alloc::GlobalAlloc;
use core::alloc::Layout;
use core::ffi::c_void;
#[cfg(target_os = "none")]
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering};

use namely_forwarder::FaceId;

use crate::instance::Refused;
use crate::packets::Link;
use crate::skb::Skb;

unsafe extern "C" {
    #[cfg(target_os = "none")]
    fn nk_alloc(octets: usize, align: usize) -> *mut u8;
    #[cfg(target_os = "none")]
    fn nk_free(at: *mut u8, octets: usize);
    /// Does not come back.
    #[cfg(target_os = "none")]
    fn nk_panic(text: *const u8, octets: usize);
    /// Comes back after a moment, or not at all if the holder of the lock has panicked.
    fn nk_lock_wait();
    fn nk_sha256(octets: *const u8, len: usize, digest: *mut u8);
    /// The `Link` of a face, or null.
    fn nk_link_of(home: *mut c_void, face: u64) -> *const c_void;
    fn nk_emit(home: *mut c_void, face: u64, emitted: *const Emitted);
    fn nk_out_full(home: *mut c_void);
    fn nk_row(home: *mut c_void, row: *const Row) -> bool;
    fn nk_linger();
    fn nk_store_read(home: *mut c_void, asked: *const Asked) -> u32;
    fn nk_store_write(home: *mut c_void, data: *const u8, len: u32, fresh_ms: u64) -> u32;
}

/// SHA-256 by the kernel's library.
pub fn sha256(octets: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    // SAFETY: reads `len` octets, writes the 32 of a SHA-256 digest.
    unsafe { nk_sha256(octets.as_ptr(), octets.len(), digest.as_mut_ptr()) };
    digest
}

/// The kernel's memory. Whether an allocation may wait is known there, by the context.
#[cfg(target_os = "none")]
struct Memory;

// SAFETY: `nk_alloc` gives memory of at least this size, aligned to this power of two, or null;
// `nk_free` takes back what it gave. Neither panics, and neither uses this allocator.
#[cfg(target_os = "none")]
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any numbers may be asked for.
        unsafe { nk_alloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller has `at` from `alloc` with the same layout.
        unsafe { nk_free(at, layout.size()) }
    }
}

#[cfg(target_os = "none")]
#[global_allocator]
static MEMORY: Memory = Memory;

/// A spin lock of one octet, for who has bottom halves off: nobody on its processor interrupts its
/// holder and wants it too.
pub struct Lock(AtomicU8);

const FREE: u8 = 0;
const TAKEN: u8 = 1;

// SAFETY: between a successful exchange of FREE for TAKEN and the store of FREE, no other exchange
// succeeds; acquire and release order what is done in between.
unsafe impl lock_api::RawMutex for Lock {
    // Each lock is made from it by copying a value, which is what `lock_api` asks for.
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Lock = Lock(AtomicU8::new(FREE));
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        while self.0.compare_exchange_weak(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}

impl Lock {
    #[cold]
    fn wait(&self) {
        while self.0.load(Ordering::Relaxed) != FREE {
            // SAFETY: no arguments. If it does not come back, the frames of this call are left as
            // by a panic: nothing of them is used again (see `nk_panic`).
            unsafe { nk_lock_wait() };
        }
    }
}

/// One frame or packet for a face: header octets, then a range of an sk_buff.
#[repr(C)]
pub(crate) struct Emitted {
    /// Whose octets follow the header; the callee takes references of its own.
    pub(crate) skb: *mut c_void,
    pub(crate) header: *const u8,
    /// From the first octet of `skb`'s data.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) header_len: u32,
    /// The octet of the range to change on the way out, or -1.
    pub(crate) patch_at: i32,
    pub(crate) patch_value: u8,
    /// Not 0 if the range begins within a packet: then what is before it is not free to write.
    pub(crate) within: u8,
}

/// One row of a table, for who lists it. Which fields mean something depends on the table.
#[repr(C)]
pub(crate) struct Row {
    pub(crate) name: *const u8,
    pub(crate) more: *const u8,
    pub(crate) name_len: u32,
    pub(crate) more_len: u32,
    pub(crate) face: u64,
    pub(crate) value: u64,
}

/// What an Interest asks a store outside for: `struct nn_asked` of nnet.h.
#[repr(C)]
pub(crate) struct Asked {
    pub(crate) name: *const u8,
    pub(crate) ticket: u64,
    pub(crate) name_len: u32,
    /// Data with a longer name will do.
    pub(crate) can_be_prefix: u8,
    pub(crate) must_be_fresh: u8,
}

/// What becomes of a question to a store outside, or of Data for it.
pub(crate) enum Store {
    None,
    Busy,
    Taken,
}

impl Store {
    fn of(answer: u32) -> Self {
        match answer {
            0 => Store::None,
            1 => Store::Busy,
            _ => Store::Taken,
        }
    }
}

/// Whom the core works for: one network namespace, as the module sees it.
#[derive(Clone, Copy)]
pub(crate) struct Home(*mut c_void);

impl Home {
    /// # Safety
    ///
    /// `home` is what `kernel/module` takes for the instance that is called, until the call ends.
    pub(crate) unsafe fn from_raw(home: *mut c_void) -> Self {
        Home(home)
    }

    /// The link service of a face; `None` if there is no such face.
    pub(crate) fn link_of(&self, face: FaceId) -> Option<&Link> {
        // SAFETY: the home looks it up among its faces: what `MAKE_LINK` answered, or null. A link
        // is freed after a grace period of RCU, and the module holds RCU's read lock for as long as
        // the door is open.
        unsafe { nk_link_of(self.0, face.0).cast::<Link>().as_ref() }
    }

    /// Hands a frame over, to be sent when the door has closed. `header` and a range of `packet`;
    /// `patch`: an octet of that range and what to send in its place.
    pub(crate) fn emit(&self, face: FaceId, header: &[u8], packet: &Skb, range: Part) {
        let (skb, base) = packet.place();
        let emitted = Emitted {
            skb,
            header: header.as_ptr(),
            offset: base + range.offset,
            len: range.len,
            header_len: header.len() as u32,
            patch_at: range.patch.map_or(-1, |(at, _)| at as i32),
            patch_value: range.patch.map_or(0, |(_, value)| value),
            within: u8::from(range.offset > 0),
        };
        // SAFETY: the callee reads the structure and the header during the call, and takes a
        // reference of the sk_buff or a copy; the range is within the packet's octets.
        unsafe { nk_emit(self.0, face.0, &emitted) }
    }

    /// Asks the store outside, whose answer comes later.
    pub(crate) fn store_read(&self, asked: &Asked) -> Store {
        // SAFETY: the home is good; the callee reads the structure and its name during the call.
        Store::of(unsafe { nk_store_read(self.0, asked) })
    }

    /// Gives the store outside a Data.
    pub(crate) fn store_write(&self, data: &[u8], fresh_ms: u64) -> Store {
        // SAFETY: the home is good; the callee reads so many octets during the call.
        Store::of(unsafe { nk_store_write(self.0, data.as_ptr(), data.len() as u32, fresh_ms) })
    }

    /// Counts what found no room in the queue of a workspace.
    pub(crate) fn count_out_full(&self) {
        // SAFETY: the home is good, as `from_raw` demands.
        unsafe { nk_out_full(self.0) }
    }

    /// Gives a row of a table to who lists it; false if that takes no more.
    pub(crate) fn row(&self, name: &[u8], more: &[u8], face: u64, value: u64) -> bool {
        let row = Row {
            name: name.as_ptr(),
            more: more.as_ptr(),
            name_len: name.len() as u32,
            more_len: more.len() as u32,
            face,
            value,
        };
        // SAFETY: the callee reads the structure and both slices during the call.
        unsafe { nk_row(self.0, &row) }
    }
}

/// A range of a packet, and the octet of it that goes out changed.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) patch: Option<(u32, u8)>,
}

/// A place on the heap for a value, if there is memory for it.
pub(crate) fn place_for<T>() -> Result<Box<MaybeUninit<T>>, Refused> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: its layout is not of 0 octets.
    let at = unsafe { alloc::alloc::alloc(Layout::new::<T>()) }.cast::<MaybeUninit<T>>();
    if at.is_null() {
        return Err(Refused::NoMemory);
    }
    // SAFETY: memory of this layout from the allocator that a `Box` gives it back to, in which
    // nothing need be.
    Ok(unsafe { Box::from_raw(at) })
}

/// Stays for a while, so that a test can have another processor wait for a lock.
pub(crate) fn linger() {
    // SAFETY: no arguments; it waits without sleeping.
    unsafe { nk_linger() }
}

/// What a panic says, cut to what fits.
#[cfg(target_os = "none")]
struct Text {
    octets: [u8; 160],
    len: usize,
}

#[cfg(target_os = "none")]
impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for octet in text.bytes() {
            let Some(place) = self.octets.get_mut(self.len) else { break };
            *place = octet;
            self.len += 1;
        }
        Ok(())
    }
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    let mut text = Text { octets: [0; 160], len: 0 };
    // Cannot fail: what does not fit is left out.
    let _ = write!(text, "{info}");
    // SAFETY: reads so many octets. It leaves to the guard of the innermost call: the frames in
    // between are never run again, so whatever they own is lost, and locks that they hold stay
    // taken. The instance is not entered again, and who waits for such a lock leaves too.
    unsafe { nk_panic(text.octets.as_ptr(), text.len) };
    never_reached()
}

/// An end of a function that objtool knows.
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
#[inline(always)]
fn never_reached() -> ! {
    // SAFETY: it is not reached, for `nk_panic` does not come back.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

#[cfg(all(target_os = "none", not(target_arch = "x86_64")))]
#[inline(always)]
fn never_reached() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

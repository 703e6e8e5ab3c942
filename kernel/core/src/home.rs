//! The services that the kernel provides to the core: memory, a lock, SHA-256, a way to stop, and
//! the receiver of output. The functions are in shim.c and face.c of `kernel/module`. If the crate
//! is checked for another target than a kernel's, memory and panics are left to that target.

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
    /// Does not return.
    #[cfg(target_os = "none")]
    fn nk_panic(text: *const u8, octets: usize);
    /// Returns after a moment, or not at all if the owner of the lock has panicked.
    fn nk_lock_wait();
    fn nk_sha256(octets: *const u8, len: usize, digest: *mut u8);
    /// The `Link` of a face, or null.
    fn nk_link_of(home: *mut c_void, face: u64) -> *const c_void;
    fn nk_emit(home: *mut c_void, face: u64, emitted: *const OutgoingFrame);
    fn nk_out_full(home: *mut c_void);
    fn nk_row(home: *mut c_void, row: *const Row) -> bool;
    fn nk_linger();
    fn nk_store_read(home: *mut c_void, asked: *const StoreRequest) -> u32;
    fn nk_store_write(home: *mut c_void, data: *const u8, len: u32, fresh_ms: u64) -> u32;
}

/// SHA-256 by the kernel's library.
pub fn sha256(octets: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    // SAFETY: reads `len` octets, writes the 32 of a SHA-256 digest.
    unsafe { nk_sha256(octets.as_ptr(), octets.len(), digest.as_mut_ptr()) };
    digest
}

/// The kernel's memory. `nk_alloc` derives from its context whether an allocation may wait.
#[cfg(target_os = "none")]
struct Memory;

// SAFETY: `nk_alloc` returns memory of at least this size, aligned to this power of two, or null.
// `nk_free` accepts memory from `nk_alloc`. Neither panics, and neither uses this allocator.
#[cfg(target_os = "none")]
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `nk_alloc` accepts any numbers.
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

/// A spin lock of one octet. It is taken only with bottom halves off: otherwise a softirq could
/// interrupt the owner on its processor and wait for the same lock.
pub struct Lock(AtomicU8);

const FREE: u8 = 0;
const TAKEN: u8 = 1;

// SAFETY: between a successful exchange of FREE for TAKEN and the store of FREE, no other exchange
// succeeds. Acquire and release order the accesses in between.
unsafe impl lock_api::RawMutex for Lock {
    // Each lock is made by copying this value, as `lock_api` requires.
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
            // SAFETY: the call has no arguments. If it does not return, it abandons the frames of
            // this call as a panic does: none of them is used again (see `nk_panic`).
            unsafe { nk_lock_wait() };
        }
    }
}

/// One frame or packet for a face: header octets, then a range of an sk_buff.
#[repr(C)]
pub(crate) struct OutgoingFrame {
    /// The sk_buff whose octets follow the header. The callee takes references of its own.
    pub(crate) skb: *mut c_void,
    pub(crate) header: *const u8,
    /// From the first octet of `skb`'s data.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) header_len: u32,
    /// Offset within the range of the octet that is replaced in the sent packet, or -1.
    pub(crate) patch_at: i32,
    pub(crate) patch_value: u8,
    /// Not 0 if the range begins inside a packet: the octets before it must not be overwritten.
    pub(crate) within: u8,
}

/// One row of a listing. The table determines which fields have a meaning.
#[repr(C)]
pub(crate) struct Row {
    pub(crate) name: *const u8,
    pub(crate) more: *const u8,
    pub(crate) name_len: u32,
    pub(crate) more_len: u32,
    pub(crate) face: u64,
    pub(crate) value: u64,
}

/// A request for an Interest to an external store: `struct nn_asked` of nnet.h.
#[repr(C)]
pub(crate) struct StoreRequest {
    pub(crate) name: *const u8,
    pub(crate) ticket: u64,
    pub(crate) name_len: u32,
    /// Data with a longer name matches.
    pub(crate) can_be_prefix: u8,
    pub(crate) must_be_fresh: u8,
}

/// The result of a request to an external store, or of an offer of Data to it.
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

/// The embedder of the core: one network namespace, as the module sees it.
#[derive(Clone, Copy)]
pub(crate) struct Embedder(*mut c_void);

impl Embedder {
    /// # Safety
    ///
    /// `home` is the pointer that `kernel/module` uses for the instance of the call. It is valid
    /// until the call ends.
    pub(crate) unsafe fn from_raw(home: *mut c_void) -> Self {
        Embedder(home)
    }

    /// The link service of a face; `None` if there is no such face.
    pub(crate) fn link_of(&self, face: FaceId) -> Option<&Link> {
        // SAFETY: the home looks it up among its faces and returns a pointer from `MAKE_LINK`, or
        // null. A link is freed after a grace period of RCU, and the module holds RCU's read lock
        // until the call of the core ends.
        unsafe { nk_link_of(self.0, face.0).cast::<Link>().as_ref() }
    }

    /// Queues a frame that the module sends after the call of the core has ended. The frame is
    /// `header` and `range` of `packet`. `range.patch` replaces one octet of the range.
    pub(crate) fn emit(&self, face: FaceId, header: &[u8], packet: &Skb, range: Part) {
        let (skb, base) = packet.place();
        let emitted = OutgoingFrame {
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

    /// Sends a request to the external store, which answers later.
    pub(crate) fn store_read(&self, asked: &StoreRequest) -> Store {
        // SAFETY: the home is good; the callee reads the structure and its name during the call.
        Store::of(unsafe { nk_store_read(self.0, asked) })
    }

    /// Offers a Data to the external store.
    pub(crate) fn store_write(&self, data: &[u8], fresh_ms: u64) -> Store {
        // SAFETY: the home is good; the callee reads `data.len()` octets during the call.
        Store::of(unsafe { nk_store_write(self.0, data.as_ptr(), data.len() as u32, fresh_ms) })
    }

    /// Counts packets that found the queue of a workspace full.
    pub(crate) fn count_out_full(&self) {
        // SAFETY: the home is good, as `from_raw` demands.
        unsafe { nk_out_full(self.0) }
    }

    /// Passes a row of a table to the listing. Returns false if it accepts no more rows.
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

/// A range of a packet, and the octet of the range that is replaced in the sent packet.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) patch: Option<(u32, u8)>,
}

/// Allocates memory for a value on the heap. Fails if there is none.
pub(crate) fn allocate<T>() -> Result<Box<MaybeUninit<T>>, Refused> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: its layout is not of 0 octets.
    let at = unsafe { alloc::alloc::alloc(Layout::new::<T>()) }.cast::<MaybeUninit<T>>();
    if at.is_null() {
        return Err(Refused::NoMemory);
    }
    // SAFETY: memory of this layout from the allocator to which a `Box` returns it. It need not be
    // initialized.
    Ok(unsafe { Box::from_raw(at) })
}

/// Waits for some time, so that a test can have another processor wait for a lock.
pub(crate) fn linger() {
    // SAFETY: the call has no arguments. It waits without sleeping.
    unsafe { nk_linger() }
}

/// The message of a panic, cut to the buffer's length.
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
    // Cannot fail: octets beyond the buffer are left out.
    let _ = write!(text, "{info}");
    // SAFETY: reads `len` octets. It jumps to the guard of the innermost call. The frames in
    // between never run again, so everything that they own is leaked, and locks that they hold stay
    // taken. The instance is not entered again, and a call that waits for such a lock is left in
    // the same way.
    unsafe { nk_panic(text.octets.as_ptr(), text.len) };
    never_reached()
}

/// A function end that objtool recognizes.
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
#[inline(always)]
fn never_reached() -> ! {
    // SAFETY: it is not reached, because `nk_panic` does not return.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

#[cfg(all(target_os = "none", not(target_arch = "x86_64")))]
#[inline(always)]
fn never_reached() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

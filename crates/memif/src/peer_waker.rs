//! Wakes a peer through its eventfd, without ever blocking.
//!
//! A write to an eventfd blocks while its counter is full, unless the descriptor is non-blocking.
//! The peer shares counter and setting: it could fill the counter and change the setting between
//! any check and the write. The kernel's own increment at the end of an asynchronous request
//! (`IOCB_FLAG_RESFD` of io_submit(2)) saturates and never blocks. The peer is therefore woken by a
//! request that ends at once: a read of no octets from this process's empty memfd.
//!
//! The invariants, on which each `unsafe` block below rests:
//! 1. `context` came from io_setup(2) and is never destroyed; the kernel accepts it from any
//!    thread.
//! 2. The kernel reads the given structures during the call and keeps no pointer to them: a request
//!    is copied, and this one reads no octets, so that it has no buffer.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;

/// Requests that may have ended without having been reaped. The kernel has room for more.
const REQUESTS: u32 = 128;

/// Wake-ups after which ended requests are reaped.
const TAKEN_BACK: u32 = 32;

/// `IOCB_CMD_PREAD` and `IOCB_FLAG_RESFD`.
const READ: u16 = 0;
const HAS_EVENT: u32 = 1;

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    data: u64,
    /// `aio_key` and `aio_rw_flags`, in an order that depends on the processor; both are 0.
    key_and_flags: [u32; 2],
    operation: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    octets: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct CompletionEvent {
    data: u64,
    request: u64,
    results: [i64; 2],
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<CompletionEvent>() == 32);

/// The request context with which this process wakes its peers.
#[derive(Debug)]
struct PeerWaker {
    context: libc::c_ulong,
    empty: OwnedFd,
    rung: AtomicU32,
}

/// The permitted cost of waking a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakePolicy {
    /// Never blocks, regardless of the peer's actions.
    NeverWaits,
    /// A write to an eventfd, which does not block unless the peer changes its setting. The write
    /// takes half as long as a request. At the end of the process the kernel has nothing to wait
    /// for, whereas releasing the resources of asynchronous requests takes 20 ms.
    Writes,
}

/// Adds one to a peer's eventfd, unless it is full: then the peer is awake, or ignores its
/// wake-ups.
pub(crate) fn ring(event: &OwnedFd, waking: WakePolicy) {
    match waking {
        WakePolicy::NeverWaits => request(event),
        // The only failure is a counter that is full.
        WakePolicy::Writes => drop(rustix::io::write(event, &1u64.to_ne_bytes())),
    }
}

/// The request context of this process.
static BELL: OnceLock<PeerWaker> = OnceLock::new();

/// Attempts to submit a request before the wake-up is abandoned. Other threads reap ended requests
/// meanwhile.
const TRIES: usize = 8;

/// Makes the request context, once for the process. Without it no peer can be woken, so the caller
/// should not connect.
///
/// # Errors
/// Environment: the system has no asynchronous requests, or other processes use all of them
/// (`fs.aio-max-nr`).
pub fn prepare() -> Result<(), Errno> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if BELL.get().is_none() {
        let bell = PeerWaker::new()?;
        // Does not fail: the lock excludes other threads.
        let _ = BELL.set(bell);
    }
    Ok(())
}

fn request(event: &OwnedFd) {
    if BELL.get().is_none() {
        let _ = prepare();
    }
    if let Some(bell) = BELL.get() {
        bell.ring(event);
    }
}

impl PeerWaker {
    fn new() -> Result<Self, Errno> {
        let empty = rustix::fs::memfd_create("namely-bell", MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word, to a variable of that size.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, REQUESTS, &raw mut context) };
        if made != 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        Ok(PeerWaker { context, empty, rung: AtomicU32::new(0) })
    }

    /// Never waits.
    fn ring(&self, event: &OwnedFd) {
        let request = Request {
            operation: READ,
            file: self.empty.as_raw_fd() as u32,
            flags: HAS_EVENT,
            event: event.as_raw_fd() as u32,
            ..Request::default()
        };
        let requests = [&raw const request];
        let submit = || {
            // SAFETY: invariants 1 and 2; one pointer, to a request that lives until the call
            // returns.
            unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, requests.as_ptr()) == 1 }
        };
        for _ in 0..TRIES {
            if submit() {
                break;
            }
            // Other threads may not have reaped ended requests yet.
            self.reap();
        }
        // Relaxed: the count only spaces out the reaping, whichever thread counts.
        if self.rung.fetch_add(1, Ordering::Relaxed) % TAKEN_BACK == TAKEN_BACK - 1 {
            self.reap();
        }
    }

    /// Reaps ended requests, so that the kernel has room for new ones. Does not wait.
    fn reap(&self) {
        let mut ended = [CompletionEvent::default(); REQUESTS as usize];
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: invariant 1; the kernel writes at most as many structures as there is room for,
        // and reads the time.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0,
                libc::c_long::from(REQUESTS as i32),
                ended.as_mut_ptr(),
                &raw const at_once,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use namely_testkit::{Need, skip};
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn count(event: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    #[test]
    fn a_full_blocking_eventfd_blocks_no_ring() {
        if let Err(errno) = prepare() {
            return skip(Need::Kernel, format_args!("the system has no asynchronous requests: {errno}"));
        }
        // Without NONBLOCK.
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let rings = 3 * u64::from(REQUESTS) + 1;
        (0..rings).for_each(|_| ring(&event, WakePolicy::NeverWaits));
        assert_eq!(count(&event), rings);
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        (0..rings).for_each(|_| ring(&event, WakePolicy::NeverWaits));
        assert_eq!(count(&event), u64::MAX);
    }

    #[test]
    fn a_full_nonblocking_eventfd_blocks_no_write() {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        (0..3).for_each(|_| ring(&event, WakePolicy::Writes));
        assert_eq!(count(&event), 3);
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        ring(&event, WakePolicy::Writes);
        assert_eq!(count(&event), u64::MAX - 1);
    }

    #[test]
    fn several_threads_ring_at_once() {
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| ring(&event, WakePolicy::NeverWaits)));
            }
        });
        assert_eq!(count(&event), 4000);
    }
}

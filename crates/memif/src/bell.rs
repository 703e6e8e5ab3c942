//! Wakes a peer through its eventfd, without ever waiting for it.
//!
//! A write to an eventfd waits while its counter is full, unless the descriptor is set not to
//! block. Counter and setting belong to the peer as much as to this end: it could fill the one and
//! change the other between any check and the write. What the kernel itself counts up when an
//! asynchronous request ends (`IOCB_FLAG_RESFD` of io_submit(2)) saturates and never waits. So a
//! bell is rung by a request that ends at once: to read nothing from an empty memfd of one's own.
//!
//! The invariants, on which each `unsafe` block below rests:
//! 1. `context` came from io_setup(2) and is destroyed by nobody; the kernel takes it from any
//!    thread.
//! 2. The kernel reads the structures that it is given during the call and keeps no pointer to
//!    them: a request is copied, and this one reads no octets, so that it has no buffer.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;

/// Requests that may have ended without having been taken back; the kernel keeps room for more.
const REQUESTS: u32 = 128;

/// Rings after which those that ended are taken back.
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
struct Ended {
    data: u64,
    request: u64,
    results: [i64; 2],
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Ended>() == 32);

/// What rings all bells of this process.
#[derive(Debug)]
struct Bell {
    context: libc::c_ulong,
    empty: OwnedFd,
    rung: AtomicU32,
}

/// What waking a peer may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waking {
    /// Never a wait, whatever the peer does.
    NeverWaits,
    /// A write, on an eventfd that does not block as long as the peer does not change that. It
    /// takes half as long, and leaves the kernel nothing to wait for when the process ends: taking
    /// down what asynchronous requests need takes 20 ms.
    Writes,
}

/// Adds one to a peer's eventfd, unless it is full: then the peer is awake, or does not want to be.
pub(crate) fn ring(event: &OwnedFd, waking: Waking) {
    match waking {
        Waking::NeverWaits => request(event),
        // The only failure is a counter that is full.
        Waking::Writes => drop(rustix::io::write(event, &1u64.to_ne_bytes())),
    }
}

/// The bell of this process.
static BELL: OnceLock<Bell> = OnceLock::new();

/// Requests that are tried before a peer is not woken: others take theirs back meanwhile.
const TRIES: usize = 8;

/// Makes the bell, once for the process. Without one nobody can be woken, and nobody should be
/// connected to.
///
/// # Errors
/// Environment: the system has no asynchronous requests, or others have all that it gives
/// (`fs.aio-max-nr`).
pub fn prepare() -> Result<(), Errno> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if BELL.get().is_none() {
        let bell = Bell::new()?;
        // Nobody else makes one.
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

impl Bell {
    fn new() -> Result<Self, Errno> {
        let empty = rustix::fs::memfd_create("namely-bell", MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word, to a variable of that size.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, REQUESTS, &raw mut context) };
        if made != 0 {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        Ok(Bell { context, empty, rung: AtomicU32::new(0) })
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
            // Others may not have taken back what ended yet.
            self.take_back();
        }
        // Relaxed: it only spaces out the taking back, whoever counts.
        if self.rung.fetch_add(1, Ordering::Relaxed) % TAKEN_BACK == TAKEN_BACK - 1 {
            self.take_back();
        }
    }

    /// Gives the room of requests that ended back to the kernel. Does not wait.
    fn take_back(&self) {
        let mut ended = [Ended::default(); REQUESTS as usize];
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
    use namely_skip::{Need, skip};
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn count(event: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    #[test]
    fn each_ring_counts_and_a_full_counter_holds_nobody_up() {
        if let Err(errno) = prepare() {
            return skip(Need::Kernel, format_args!("the system has no asynchronous requests: {errno}"));
        }
        // Without NONBLOCK.
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let rings = 3 * u64::from(REQUESTS) + 1;
        (0..rings).for_each(|_| ring(&event, Waking::NeverWaits));
        assert_eq!(count(&event), rings);
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        (0..rings).for_each(|_| ring(&event, Waking::NeverWaits));
        assert_eq!(count(&event), u64::MAX);
    }

    #[test]
    fn a_write_counts_and_a_full_counter_that_does_not_block_holds_nobody_up() {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        (0..3).for_each(|_| ring(&event, Waking::Writes));
        assert_eq!(count(&event), 3);
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        ring(&event, Waking::Writes);
        assert_eq!(count(&event), u64::MAX - 1);
    }

    #[test]
    fn threads_ring_at_once() {
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| ring(&event, Waking::NeverWaits)));
            }
        });
        assert_eq!(count(&event), 4000);
    }
}

//! The two system calls that the calls of `namely.h` need and that no library offers without
//! `unsafe`: poll(2) on a C caller's descriptors, and the signals that a thread takes.
//!
//! Has `unsafe` (ARCHITECTURE.md, Invariants); knows no socket and no pointer of a caller.
#![allow(unsafe_code, reason = "system calls on state outside the type system")]

use std::mem::MaybeUninit;
use std::{io, ptr};

use libc::{c_int, nfds_t};

use crate::failure::Errno;

/// poll(2). Returns the number of entries of `polled` with events.
///
/// # Errors
/// The system's error, for instance EINTR.
pub(crate) fn poll_descriptors(polled: &mut [libc::pollfd], timeout_ms: c_int) -> Result<c_int, Errno> {
    // SAFETY: as many structures as the slice has, ours until the call returns; the kernel checks
    // the descriptors.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as nfds_t, timeout_ms) };
    if ready < 0 {
        Err(Errno(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)))
    } else {
        Ok(ready)
    }
}

/// Runs `with` with all signals blocked in this thread, which threads that it starts inherit.
pub(crate) fn signals_blocked<R>(with: impl FnOnce() -> R) -> R {
    let mut before = MaybeUninit::uninit();
    let mut all = MaybeUninit::uninit();
    // SAFETY: both point to a `sigset_t` of this function. sigfillset writes the first before it is
    // read, and pthread_sigmask the second; neither fails with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = with();
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}

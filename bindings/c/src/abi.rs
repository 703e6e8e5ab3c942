//! The functions of `namely.h`. Each converts the caller's pointers, calls a safe function of this
//! crate, and returns its value or sets errno. A panic in the call becomes EIO.
//!
//! Has `unsafe` (ARCHITECTURE.md, Invariants): a C caller's pointers, `errno`, and exported
//! symbols.
#![allow(unsafe_code, reason = "a C interface takes pointers")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header states for each pointer whether it must be readable, writable, or may be null"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use libc::{iovec, nfds_t, size_t, socklen_t, ssize_t};
use namely_wire::{Name, rdr};

use crate::address::{address_of, name_of, used_octets};
use crate::failure::{Errno, Failure, meaning};
use crate::system::signals_blocked;
use crate::types::{
    ICN_RANGES_MAX, ICN_TRUNC, icn_entry_fn, icn_msghdr, icn_pollfd, icn_published, icn_range, icn_stat,
    sockaddr_icn,
};
use crate::{failure, messages, objects, opened, options, poll, socket};

/// Buffers of one C datagram, as IOV_MAX of Linux.
///
/// # Limit
/// The call is refused with `EINVAL`.
/// - Tests: `c_programs_get_errors_beyond_the_limits`
const BUFFERS_MAX: usize = 1024;

/// Runs a call. Returns its value, or -1 after setting errno and the sentence of `icn_lasterror`.
fn run<T: From<i8>>(call: impl FnOnce() -> Result<T, Failure>) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::panicked(panic.as_ref()),
    };
    set_errno(&failure);
    T::from(-1)
}

fn set_errno(failure: &Failure) {
    failure::remember(failure);
    // SAFETY: the C library returns the address of this thread's errno, which is valid as long as
    // the thread runs.
    unsafe { *libc::__errno_location() = failure.errno };
}

/// Returns the octets at `from`; none if `len` is 0, for any `from`.
///
/// # Safety
/// `from` is null or readable for `len` octets until the slice is no longer used, and the octets
/// are not written meanwhile.
unsafe fn octets<'a>(from: *const c_void, len: size_t) -> Result<&'a [u8], Failure> {
    match (from.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno(libc::EFAULT).into()),
        (false, len) if isize::try_from(len).is_err() => Err(Errno(libc::EINVAL).into()),
        // SAFETY: not null, of a length that an object may have, and readable as this function's
        // caller guarantees.
        (false, len) => Ok(unsafe { slice::from_raw_parts(from.cast(), len) }),
    }
}

/// Returns the buffer at `to`; empty if `len` is 0.
///
/// # Safety
/// `to` is null or writable for `len` octets until the slice is no longer used, and the octets have
/// no other user meanwhile.
unsafe fn buffer<'a>(to: *mut c_void, len: size_t) -> Result<&'a mut [u8], Failure> {
    match (to.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno(libc::EFAULT).into()),
        (false, len) if isize::try_from(len).is_err() => Err(Errno(libc::EINVAL).into()),
        // SAFETY: not null, of a length that an object may have, and writable as this function's
        // caller guarantees. Memory from outside of Rust counts as initialized, and this crate only
        // writes to it.
        (false, len) => Ok(unsafe { slice::from_raw_parts_mut(to.cast(), len) }),
    }
}

/// Returns the text at `from`.
///
/// # Safety
/// `from` is null or points to text that ends with a zero and does not change while the slice is
/// used.
unsafe fn text<'a>(from: *const c_char) -> Result<&'a str, Failure> {
    if from.is_null() {
        return Err(Errno(libc::EFAULT).into());
    }
    // SAFETY: not null, and ends with a zero, as this function's caller guarantees.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| Failure::new(libc::EINVAL, "the text is not UTF-8"))
}

/// A value of the caller's; a null pointer fails with EFAULT.
///
/// # Safety
/// `at` is null or points to a `T` that has no other user while the reference lives.
unsafe fn target<'a, T>(at: *mut T) -> Result<&'a mut T, Failure> {
    if !at.is_aligned() {
        return Err(Errno(libc::EINVAL).into());
    }
    // SAFETY: aligned, and null or a `T` of the caller's, as this function's caller guarantees.
    unsafe { at.as_mut() }.ok_or_else(|| Errno(libc::EFAULT).into())
}

/// A value of the caller's that is only read; a null pointer fails with EFAULT.
///
/// # Safety
/// `at` is null or points to a `T` that is not changed while the reference lives.
unsafe fn source<'a, T>(at: *const T) -> Result<&'a T, Failure> {
    if !at.is_aligned() {
        return Err(Errno(libc::EINVAL).into());
    }
    // SAFETY: aligned, and null or a `T` of the caller's, as this function's caller guarantees.
    unsafe { at.as_ref() }.ok_or_else(|| Errno(libc::EFAULT).into())
}

/// Returns the name at `address`, of which `len` octets are present.
///
/// # Safety
/// `address` is null or readable for `len` octets.
unsafe fn name_at(address: *const sockaddr_icn, len: socklen_t) -> Result<Name, Failure> {
    let len = (len as usize).min(size_of::<sockaddr_icn>());
    // SAFETY: readable for the octets that the caller states; no more than these are read.
    let given = unsafe { octets(address.cast(), len) }?;
    if given.len() < used_octets(0) {
        return Err(Failure::new(libc::EINVAL, "the address is shorter than its length fields"));
    }
    let mut copy = sockaddr_icn::default();
    // SAFETY: `copy` is larger than `given`, any octets are a `sockaddr_icn` (integers only), and
    // the two do not overlap.
    unsafe { ptr::copy_nonoverlapping(given.as_ptr(), (&raw mut copy).cast(), given.len()) };
    Ok(name_of(&copy, given.len())?)
}

/// Writes the address of `name` to `to`, as much as `*len` octets take, and its length to `len`.
/// Does nothing if either is null.
///
/// # Safety
/// `len` is null or the caller's own; `to` is null or writable for `*len` octets.
unsafe fn write_name(name: &Name, to: *mut sockaddr_icn, len: *mut socklen_t) -> Result<(), Failure> {
    if to.is_null() || len.is_null() {
        return Ok(());
    }
    let address = address_of(name)?;
    let used = used_octets(usize::from(address.sicn_octets));
    // SAFETY: the caller passes its own variable, which is not null.
    let len = unsafe { target(len) }?;
    let written = used.min(*len as usize);
    // SAFETY: `to` is writable for `*len` octets, `address` has at least `used`; they do not
    // overlap.
    unsafe { ptr::copy_nonoverlapping((&raw const address).cast::<u8>(), to.cast(), written) };
    *len = used as socklen_t;
    Ok(())
}

/// The buffers of a datagram.
///
/// # Safety
/// `iov` is null or `count` vectors, each null or readable and writable for its length while the
/// slice is used.
unsafe fn vectors<'a>(iov: *mut iovec, count: size_t) -> Result<&'a [iovec], Failure> {
    match (iov.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno(libc::EFAULT).into()),
        (false, count) if count > BUFFERS_MAX || !iov.is_aligned() => Err(Errno(libc::EINVAL).into()),
        // SAFETY: not null, aligned, and `count` vectors, as this function's caller guarantees.
        (false, count) => Ok(unsafe { slice::from_raw_parts(iov, count) }),
    }
}

/// Makes a socket that is not bound yet. `domain` is AF_ICN, `type` SOCK_CONS or SOCK_PROD (or'ed
/// with ICN_NONBLOCK), `protocol` CONS_REL, CONS_UNREL, PROD_REL or PROD_UNREL.
///
/// Returns its number, which is no descriptor (see icn_fileno), or -1: EAFNOSUPPORT,
/// EPROTONOSUPPORT (no such type or protocol), EPROTOTYPE (a protocol of the other type), EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn icn_socket(domain: c_int, r#type: c_int, protocol: c_int) -> c_int {
    run(|| socket::open(domain, r#type, protocol))
}

/// Connects the socket to the router and binds it to the prefix, below which its names lie. The
/// router adds a route from a producer's prefix to the socket.
///
/// Returns 0, or -1: ECONNREFUSED, EADDRINUSE, EACCES, ENAMETOOLONG, EINVAL, EISCONN (bound
/// already).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_bind(socket: c_int, addr: *const sockaddr_icn, addrlen: socklen_t) -> c_int {
    run(|| {
        // SAFETY: the caller passes its address and its length.
        let prefix = unsafe { name_at(addr, addrlen) }?;
        // The threads that it starts take no signal that the program waits for.
        signals_blocked(|| socket::bind(socket, prefix))?;
        Ok(0)
    })
}

/// Closes the socket. Calls that wait on it end with ECANCELED; a producer's publications are gone,
/// except those in its store.
///
/// Returns 0, or -1: EBADF, EBADFD.
#[unsafe(no_mangle)]
pub extern "C" fn icn_close(socket: c_int) -> c_int {
    run(|| socket::close(socket).map(|()| 0))
}

/// Producer: publishes `len` octets as the object `name` with the options of the socket, and
/// answers the Interests that wait for it. icn_publish also returns the versioned name.
///
/// Returns `len`, or -1: EADDRNOTAVAIL, ENAMETOOLONG, EMSGSIZE, ENOKEY, ENOBUFS, ENOSPC, ENOTCONN,
/// EOPNOTSUPP (a consumer).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_sendto(
    socket: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    name: *const sockaddr_icn,
    namelen: socklen_t,
) -> ssize_t {
    run(|| {
        socket::check_flags(flags, 0)?;
        // SAFETY: the caller passes its address and its length, and its content, which it does not
        // change during the call.
        let (name, content) = unsafe { (name_at(name, namelen)?, octets(buf, len)?) };
        messages::publish(socket, &name, content, None)?;
        Ok(content.len() as ssize_t)
    })
}

/// Producer: as icn_sendto; `options` (may be null) apply to this object only ("suite=ecdsa-p256
/// manifest=off"), and `published` (may be null) receives its name and number of segments.
///
/// Returns 0, or -1 as icn_sendto; EINVAL and ENOPROTOOPT for `options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_publish(
    socket: c_int,
    name: *const sockaddr_icn,
    namelen: socklen_t,
    buf: *const c_void,
    len: size_t,
    options: *const c_char,
    published: *mut icn_published,
) -> c_int {
    run(|| {
        // SAFETY: the caller passes its address and its length, and its content, which it does not
        // change during the call.
        let (name, content) = unsafe { (name_at(name, namelen)?, octets(buf, len)?) };
        // SAFETY: null, or the caller's text.
        let options = if options.is_null() { None } else { Some(unsafe { text(options) }?) };
        let (versioned, segments) = messages::publish(socket, &name, content, options)?;
        if !published.is_null() {
            // SAFETY: the caller passes its own variable, which is not null.
            let published = unsafe { target(published) }?;
            *published = icn_published { pub_name: address_of(&versioned)?, pub_segments: segments };
        }
        Ok(0)
    })
}

/// Consumer: reads the object `name` like a stream, verified and in order. The first call starts
/// the fetch and waits for octets; each further call with the name continues where the last one
/// ended. After the end, which is 0, the next call starts the object again. With ICN_WAITALL a call
/// returns when the buffer is full or the object ends. `name` becomes the name with the fetched
/// version, if `*namelen` has room for it. Calls for several objects may alternate; icn_forget
/// abandons one.
///
/// Returns the number of octets, 0 at the end, or -1: EAGAIN (nothing has arrived yet, with
/// ICN_DONTWAIT; the fetch continues), EINTR (the same), ENODATA (unreliable: a segment was lost,
/// the next call continues after it), ENETUNREACH, ENOENT, EISDIR, ETIMEDOUT, ENOKEY,
/// EKEYREJECTED, EKEYEXPIRED, EKEYREVOKED, EBADMSG, EFBIG, EADDRNOTAVAIL, ENAMETOOLONG, ENOBUFS
/// (ICN_OBJECTS_MAX begun), ENOTCONN, ECANCELED, EOPNOTSUPP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_recvfrom(
    socket: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    name: *mut sockaddr_icn,
    namelen: *mut socklen_t,
) -> ssize_t {
    run(|| {
        // SAFETY: the caller passes the length of its address.
        let given = *unsafe { target(namelen) }?;
        // SAFETY: the caller passes its address of that length, and its buffer, which has no other
        // user during the call.
        let (wanted, buffer) = unsafe { (name_at(name, given)?, buffer(buf, len)?) };
        let (octets, versioned) = objects::receive_object(socket, &wanted, buffer, flags)?;
        if versioned != wanted && used_octets(versioned.as_bytes().len()) <= given as usize {
            // SAFETY: writable for the octets of the address that the caller gave.
            unsafe { write_name(&versioned, name, namelen) }?;
        }
        Ok(octets as ssize_t)
    })
}

/// Consumer: abandons an object that icn_recvfrom began.
///
/// Returns 0, or -1: ENOENT (none was begun).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_forget(socket: c_int, name: *const sockaddr_icn, namelen: socklen_t) -> c_int {
    run(|| {
        // SAFETY: the caller passes its address and its length.
        let name = unsafe { name_at(name, namelen) }?;
        objects::forget(socket, &name).map(|()| 0)
    })
}

/// Consumer: sets the position of the next icn_recvfrom of the object; `whence` is SEEK_SET,
/// SEEK_CUR or SEEK_END.
///
/// Returns the position in octets, or -1 as icn_recvfrom; EINVAL for a position before the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_seek(
    socket: c_int,
    name: *const sockaddr_icn,
    namelen: socklen_t,
    offset: i64,
    whence: c_int,
) -> i64 {
    run(|| {
        // SAFETY: the caller passes its address and its length.
        let name = unsafe { name_at(name, namelen) }?;
        objects::seek(socket, &name, offset, whence)
    })
}

/// Consumer: `len` octets of the object from `offset` on, independent of icn_recvfrom's position.
/// Only the segments that hold them are requested. It waits even on a non-blocking socket. Until
/// icn_forget each call reads the same version, and the object counts toward ICN_OBJECTS_MAX.
///
/// Returns the number of octets, fewer than `len` at the object's end only, or -1 as icn_recvfrom;
/// EINVAL for an offset before the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_pread(
    socket: c_int,
    buf: *mut c_void,
    len: size_t,
    offset: i64,
    name: *const sockaddr_icn,
    namelen: socklen_t,
) -> ssize_t {
    run(|| {
        // SAFETY: the caller passes its address and its length, and its buffer, which has no other
        // user during the call.
        let (name, buffer) = unsafe { (name_at(name, namelen)?, buffer(buf, len)?) };
        Ok(objects::read_range(socket, &name, buffer, offset)? as ssize_t)
    })
}

/// Consumer: the properties of the object `name`, such as its size, without fetching it. It waits
/// even on a non-blocking socket.
///
/// Returns 0, or -1 as icn_recvfrom.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_stat(
    socket: c_int,
    name: *const sockaddr_icn,
    namelen: socklen_t,
    stat: *mut icn_stat,
) -> c_int {
    run(|| {
        // SAFETY: the caller passes its address and its length, and its structure.
        let (name, stat) = unsafe { (name_at(name, namelen)?, target(stat)?) };
        *stat = objects::stat(socket, &name)?;
        Ok(0)
    })
}

/// Consumer: opens one version of the object `name`, which stays the same when others are
/// published. No content is requested. The object has a number of its own. This call and all calls
/// with the number wait, even on a non-blocking socket. Threads may share the number.
///
/// Returns the number, or -1 as icn_recvfrom; EMFILE (ICN_OPEN_MAX are open).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_open(socket: c_int, name: *const sockaddr_icn, namelen: socklen_t) -> c_int {
    run(|| {
        // SAFETY: the caller passes its address and its length.
        let name = unsafe { name_at(name, namelen) }?;
        opened::open(socket, &name)
    })
}

/// Closes an object that icn_open opened. Calls with it that are under way go on to their end.
///
/// Returns 0, or -1: EBADF, EBADFD.
#[unsafe(no_mangle)]
pub extern "C" fn icn_shut(object: c_int) -> c_int {
    run(|| opened::shut(object).map(|()| 0))
}

/// The properties of an open object; never waits.
///
/// Returns 0, or -1: EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_fstat(object: c_int, stat: *mut icn_stat) -> c_int {
    run(|| {
        // SAFETY: the caller passes its structure.
        let stat = unsafe { target(stat) }?;
        *stat = opened::stat(object)?;
        Ok(0)
    })
}

/// `len` octets of an open object from `offset` on, verified. Only the segments that hold them are
/// requested. With ICN_AHEAD the octets after them are requested, too; the next read with ICN_AHEAD
/// finds them if it continues where this one ended. Reads with ICN_AHEAD of one object run one
/// after the other.
///
/// Returns the number of octets, fewer than `len` at the object's end only, or -1 as icn_recvfrom;
/// EINVAL for an offset before the object, ENOBUFS if the socket's limit of requests under way is
/// reached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_read_at(
    object: c_int,
    buf: *mut c_void,
    len: size_t,
    offset: i64,
    flags: c_int,
) -> ssize_t {
    run(|| {
        // SAFETY: the caller passes its buffer, which has no other user during the call.
        let buffer = unsafe { buffer(buf, len) }?;
        Ok(opened::read_at(object, buffer, offset, flags)? as ssize_t)
    })
}

/// Stops reading ahead on an open object, and frees the octets read ahead.
///
/// Returns 0, or -1: EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn icn_calm(object: c_int) -> c_int {
    run(|| opened::calm(object).map(|()| 0))
}

/// Reads octets of an open object from many positions, requested in parallel. `rng_read` of each
/// range becomes the number of octets read: fewer than requested only at the object's end.
///
/// Returns the number of octets in all, or -1 as icn_read_at, and then no range is read; EINVAL for
/// more than ICN_RANGES_MAX ranges or ICN_RANGES_OCTETS_MAX octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_readv_at(object: c_int, ranges: *mut icn_range, count: size_t) -> ssize_t {
    run(|| {
        if count == 0 {
            return Ok(0);
        }
        if ranges.is_null() {
            return Err(Errno(libc::EFAULT).into());
        }
        if count > ICN_RANGES_MAX || !ranges.is_aligned() {
            return Err(Errno(libc::EINVAL).into());
        }
        // SAFETY: not null, aligned, and `count` structures of the caller's, which have no other
        // user during the call.
        let ranges = unsafe { slice::from_raw_parts_mut(ranges, count) };
        let wanted: Vec<_> = ranges.iter().map(|range| (range.rng_offset, range.rng_len)).collect();
        let read = opened::read_ranges(object, &wanted)?;
        let mut octets = 0;
        for (range, content) in ranges.iter_mut().zip(&read) {
            // SAFETY: the caller passes its buffer of that length; each is written before the next
            // slice is made.
            let buffer = unsafe { buffer(range.rng_base, range.rng_len) }?;
            buffer[..content.len()].copy_from_slice(content);
            range.rng_read = content.len();
            octets += content.len();
        }
        Ok(octets as ssize_t)
    })
}

/// Consumer: calls `entry` with `arg` for each entry of the directory `name`, verified. It waits
/// even on a non-blocking socket.
///
/// Returns 0, the value of `entry` if that ended the listing, or -1 as icn_recvfrom.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_listdir(
    socket: c_int,
    name: *const sockaddr_icn,
    namelen: socklen_t,
    entry: icn_entry_fn,
    arg: *mut c_void,
) -> c_int {
    run(|| {
        // SAFETY: the caller passes its address and its length.
        let name = unsafe { name_at(name, namelen) }?;
        let entry = entry.ok_or(Errno(libc::EFAULT))?;
        let listing = opened::list(socket, &name)?;
        for one in rdr::listing(&listing).flatten() {
            let text = CString::new(one.name).map_err(|_| Errno(libc::EBADMSG))?;
            // SAFETY: the caller's function receives its own argument, and a text that lives as
            // long as the call.
            let ended = unsafe { entry(arg, text.as_ptr(), one.name.len(), one.is_directory.into()) };
            if ended != 0 {
                return Ok(ended);
            }
        }
        Ok(0)
    })
}

/// Consumer: sends one Interest for msg_name, with the content as ApplicationParameters if
/// msg_iovlen is not 0; icn_recvmsg receives its Data. Producer: answers the request msg_request
/// with the content, denies that the object exists (ICN_DENY), or refuses it (ICN_REFUSE); if
/// msg_request is 0, publishes the content as msg_name.
///
/// Returns the octets of content, or -1: EMSGSIZE, ENOBUFS, EADDRNOTAVAIL, ENAMETOOLONG, EINVAL (no
/// such request), ENOTCONN, ECANCELED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_sendmsg(socket: c_int, msg: *const icn_msghdr, flags: c_int) -> ssize_t {
    run(|| {
        // SAFETY: the caller passes its structure, which is only read, by this call and perhaps
        // others.
        let msg = unsafe { source(msg) }?;
        // SAFETY: the caller passes its vectors, readable for their lengths.
        let vectors = unsafe { vectors(msg.msg_iov, msg.msg_iovlen) }?;
        let mut content = Vec::new();
        for vector in vectors {
            // SAFETY: as above, and not changed during the call.
            content.extend_from_slice(unsafe { octets(vector.iov_base, vector.iov_len) }?);
        }
        let name = match msg.msg_name.is_null() {
            true => None,
            // SAFETY: the caller passes its address and its length.
            false => Some(unsafe { name_at(msg.msg_name, msg.msg_namelen) }?),
        };
        // SAFETY: null, or the caller's text.
        let options = if msg.msg_options.is_null() { None } else { Some(unsafe { text(msg.msg_options) }?) };
        let message = messages::Message {
            name: name.as_ref(),
            content: &content,
            has_content: msg.msg_iovlen > 0,
            request: msg.msg_request,
            lifetime_ms: msg.msg_lifetime_ms,
            options,
        };
        messages::send(socket, &message, flags)?;
        Ok(content.len() as ssize_t)
    })
}

/// Consumer: receives the next Data that answers an icn_sendmsg, verified; if an Interest stays
/// unanswered, the call fails and msg_name has its name. Producer: receives the next request that
/// no publication answers: its name, its parameters, and in msg_request its number, with which
/// icn_sendmsg answers. With ICN_PUSH: receives a consumer's offer: its name, and in msg_request
/// the number for icn_pull. The call then returns the number of octets offered.
///
/// Returns the octets that were written. Content that does not fit is cut, and ICN_TRUNC is set in
/// msg_flags; with the flag ICN_TRUNC the whole length is returned. -1: EAGAIN, EINTR, ETIMEDOUT,
/// ENETUNREACH, ENOKEY, EKEYREJECTED, …, ENOTCONN, ECANCELED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_recvmsg(socket: c_int, msg: *mut icn_msghdr, flags: c_int) -> ssize_t {
    run(|| {
        // SAFETY: the caller passes its structure, which has no other user during the call.
        let msg = unsafe { target(msg) }?;
        // SAFETY: the caller passes its vectors, writable for their lengths.
        let vectors = unsafe { vectors(msg.msg_iov, msg.msg_iovlen) }?;
        let received = match messages::receive(socket, flags) {
            Ok(received) => received,
            Err((failure, about)) => {
                if let Some(name) = about {
                    // SAFETY: null, or the caller's address, writable for its length.
                    unsafe { write_name(&name, msg.msg_name, &raw mut msg.msg_namelen) }?;
                }
                return Err(failure);
            }
        };
        let mut rest = &received.content[..];
        for vector in vectors {
            // SAFETY: as above; each vector is written before the next one is read.
            let buffer = unsafe { buffer(vector.iov_base, vector.iov_len) }?;
            let (now, later) = rest.split_at(buffer.len().min(rest.len()));
            buffer[..now.len()].copy_from_slice(now);
            rest = later;
        }
        // SAFETY: null, or the caller's address, writable for its length.
        unsafe { write_name(&received.name, msg.msg_name, &raw mut msg.msg_namelen) }?;
        msg.msg_request = received.request;
        msg.msg_content_type = received.content_type;
        msg.msg_flags = if rest.is_empty() { 0 } else { ICN_TRUNC };
        let written = received.content.len() - rest.len();
        Ok(match received.offered {
            Some(octets) => ssize_t::try_from(octets).unwrap_or(ssize_t::MAX),
            None if flags & ICN_TRUNC != 0 => received.content.len() as ssize_t,
            None => written as ssize_t,
        })
    })
}

/// Producer: publishes the content as `name`, lets the producer bound to `server` fetch it (reverse
/// pull), and waits until that producer confirms the object.
///
/// Returns 0, or -1 as icn_sendto; ENETUNREACH (no producer accepts it), ETIMEDOUT, EKEYREJECTED,
/// EBADMSG (it confirms other content).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_push(
    socket: c_int,
    server: *const sockaddr_icn,
    name: *const sockaddr_icn,
    buf: *const c_void,
    len: size_t,
) -> c_int {
    run(|| {
        let whole = size_of::<sockaddr_icn>() as socklen_t;
        // SAFETY: the caller passes its addresses, which are whole, and its content.
        let (server, name, content) =
            unsafe { (name_at(server, whole)?, name_at(name, whole)?, octets(buf, len)?) };
        messages::push(socket, &server, &name, content).map(|()| 0)
    })
}

/// Producer: fetches the object of `request`, which icn_recvmsg received with ICN_PUSH. The prefix
/// and options of the consumer socket `consumer` limit the names that are fetched and the keys that
/// are trusted. Confirms the object to the client.
///
/// Returns the octets of the object, or -1 as icn_recvfrom; EINVAL (no such request), EMSGSIZE
/// (`len` is too small; it may be called again).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_pull(
    socket: c_int,
    request: u64,
    consumer: c_int,
    buf: *mut c_void,
    len: size_t,
) -> ssize_t {
    run(|| {
        // SAFETY: the caller passes its buffer, which has no other user during the call.
        let room = unsafe { buffer(buf, len) }?;
        Ok(messages::pull(socket, request, consumer, room)? as ssize_t)
    })
}

/// Sets an option: `level` is SOL_ICN, `optname` one of ICN_OPT_…. Options that are text take text
/// of `optlen` octets (a zero at its end may be counted); numbers and switches take an int or an
/// int64_t.
///
/// Returns 0, or -1: ENOPROTOOPT (no such option for this socket), EINVAL (no such value), EISCONN
/// (only before icn_bind).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_setsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: socklen_t,
) -> c_int {
    run(|| {
        // SAFETY: the caller passes its value and its length.
        let value = unsafe { octets(optval, optlen as size_t) }?;
        options::set(socket, level, optname, value).map(|()| 0)
    })
}

/// Reads an option: words as text that ends with a zero; numbers and switches as an int64_t if
/// `*optlen` is 8, else as an int. `*optlen` becomes the length of the value.
///
/// Returns 0, or -1: ENOPROTOOPT, EINVAL (no room for the value).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_getsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut socklen_t,
) -> c_int {
    run(|| {
        // SAFETY: the caller passes its own length.
        let len = unsafe { target(optlen) }?;
        // SAFETY: the caller passes its memory of that length, which has no other user during the
        // call.
        let room = unsafe { buffer(optval, *len as size_t) }?;
        *len = options::get(socket, level, optname, room)? as socklen_t;
        Ok(0)
    })
}

/// The prefix of a bound socket.
///
/// Returns 0, or -1: ENOTCONN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_getsockname(
    socket: c_int,
    addr: *mut sockaddr_icn,
    addrlen: *mut socklen_t,
) -> c_int {
    run(|| {
        let prefix = socket::prefix(socket)?;
        // SAFETY: the caller passes its address, writable for its length.
        unsafe { write_name(&prefix, addr, addrlen) }?;
        Ok(0)
    })
}

/// Waits until one of `count` sockets and descriptors is ready, at most `timeout_ms` milliseconds
/// (-1: without limit).
///
/// Returns the number of ready ones, or -1: EINTR, EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_poll(fds: *mut icn_pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    run(|| {
        let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
        if count > poll::POLLED_MAX || !fds.is_aligned() {
            return Err(Errno(libc::EINVAL).into());
        }
        let fds = match (fds.is_null(), count) {
            (_, 0) => &mut [][..],
            (true, _) => return Err(Errno(libc::EFAULT).into()),
            // SAFETY: not null, aligned, and `count` structures of the caller's, which have no
            // other user during the call.
            (false, count) => unsafe { slice::from_raw_parts_mut(fds, count) },
        };
        poll::poll(fds, timeout_ms)
    })
}

/// A descriptor that is readable when the socket is ready (ICN_POLLIN), for poll, select and epoll.
/// It belongs to the socket: only wait for it.
///
/// Returns it, or -1: ENOTCONN.
#[unsafe(no_mangle)]
pub extern "C" fn icn_fileno(socket: c_int) -> c_int {
    run(|| socket::descriptor(socket))
}

/// Makes an address of a name's URI ("/a/b/v=1").
///
/// Returns 0, or -1: EINVAL, ENAMETOOLONG.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_pton(uri: *const c_char, addr: *mut sockaddr_icn) -> c_int {
    run(|| {
        // SAFETY: the caller passes its text and address.
        let (uri, address) = unsafe { (text(uri)?, target(addr)?) };
        let name: Name =
            uri.parse().map_err(|e| Failure::new(libc::EINVAL, format!("'{uri}' is not a name: {e}")))?;
        *address = address_of(&name)?;
        Ok(0)
    })
}

/// Writes the URI of an address's name to `buf`, which ends with a zero.
///
/// Returns `buf`, or null: ENOSPC (`size` is too small), EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn icn_ntop(
    addr: *const sockaddr_icn,
    buf: *mut c_char,
    size: size_t,
) -> *const c_char {
    let written: c_int = run(|| {
        // SAFETY: the caller passes its address, whole, and its buffer.
        let (name, room) =
            unsafe { (name_at(addr, size_of::<sockaddr_icn>() as socklen_t)?, buffer(buf.cast(), size)?) };
        let uri = CString::new(name.to_string()).map_err(|_| Errno(libc::EINVAL))?;
        let octets = uri.as_bytes_with_nul();
        room.get_mut(..octets.len()).ok_or(Errno(libc::ENOSPC))?.copy_from_slice(octets);
        Ok(0)
    });
    if written < 0 { ptr::null() } else { buf }
}

/// The meaning of an errno of these functions.
#[unsafe(no_mangle)]
pub extern "C" fn icn_strerror(errnum: c_int) -> *const c_char {
    meaning(errnum).as_ptr()
}

/// The reason of this thread's last failed call, with the names that it concerns. Valid until the
/// next failure.
#[unsafe(no_mangle)]
pub extern "C" fn icn_lasterror() -> *const c_char {
    failure::last(CStr::as_ptr)
}

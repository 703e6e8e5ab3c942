//! The calls that read objects: `icn_recvfrom`, which takes an object's name instead of a number,
//! its relatives, and `icn_stat`.
//!
//! Follows docs/c.md. The state of a read between two calls is in `reading`.

use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::sync::Arc;

use libc::c_int;
use namely_socket::{ObjectInfo, ObjectStream};
use namely_wire::Name;

use crate::failure::{Errno, Failure};
use crate::reading::{Object, Reading, is_passing, of_stream, timeout};
use crate::socket::{Socket, check_flags, find};
use crate::system::signals_blocked;
use crate::types::{ICN_DONTWAIT, ICN_WAITALL, icn_stat};

/// Requests the next octets of the stream, and watches its descriptor, which a new start replaces.
fn begin(stream: &mut ObjectStream, socket: &Socket) -> io::Result<()> {
    if stream.begins_anew() {
        socket.unwatch(stream.as_fd());
        signals_blocked(|| stream.begin())?;
    }
    socket.watch(stream.as_fd());
    Ok(())
}

/// `icn_recvfrom`: the next octets, and the name of the version that is read.
pub(crate) fn receive_object(
    number: c_int,
    name: &Name,
    buffer: &mut [u8],
    flags: c_int,
) -> Result<(usize, Name), Failure> {
    check_flags(flags, ICN_DONTWAIT | ICN_WAITALL)?;
    let socket = find(number)?;
    let consumer = socket.consumer()?;
    let object = socket.objects.begun(name, &consumer, true)?;
    let may_wait = socket.may_wait(flags);
    let read = object.reading(may_wait).and_then(|mut reading| {
        reading.open(&consumer, may_wait, &socket.waker)?;
        if let Reading::Open { stream, .. } = &mut *reading {
            object.versioned.get_or_init(|| stream.name().clone());
            begin(stream, &socket).map_err(|error| of_stream(&error))?;
        }
        reading.read(buffer, may_wait, flags & ICN_WAITALL != 0)
    });
    let over = match &read {
        Ok(octets) => *octets == 0 && !buffer.is_empty(),
        Err(failure) => !is_passing(failure),
    };
    if over {
        forget_object(&socket, &object);
    }
    socket.announce();
    Ok((read?, object.versioned.get().unwrap_or(name).clone()))
}

/// `icn_forget`.
pub(crate) fn forget(number: c_int, name: &Name) -> Result<(), Failure> {
    let socket = find(number)?;
    socket.consumer()?;
    let object = socket.objects.find(name);
    let object = object.ok_or_else(|| Failure::new(libc::ENOENT, format!("{name} is not being read")))?;
    forget_object(&socket, &object);
    socket.announce();
    Ok(())
}

fn forget_object(socket: &Socket, object: &Arc<Object>) {
    socket.objects.forget(object);
    if let Ok(reading) = object.reading(false)
        && let Reading::Open { stream, .. } = &*reading
    {
        socket.unwatch(stream.as_fd());
    }
}

/// `icn_seek`.
pub(crate) fn seek(number: c_int, name: &Name, offset: i64, whence: c_int) -> Result<i64, Failure> {
    let to = match whence {
        libc::SEEK_SET => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?),
        libc::SEEK_CUR => SeekFrom::Current(offset),
        libc::SEEK_END => SeekFrom::End(offset),
        _ => return Err(Failure::new(libc::EINVAL, "whence is SEEK_SET, SEEK_CUR or SEEK_END")),
    };
    let socket = find(number)?;
    let consumer = socket.consumer()?;
    let object = socket.objects.begun(name, &consumer, false)?;
    let may_wait = socket.may_wait(0);
    let mut reading = object.reading(may_wait)?;
    reading.open(&consumer, may_wait, &socket.waker)?;
    let failure = match &mut *reading {
        Reading::Opening(_) => return Err(Errno(libc::EAGAIN).into()),
        Reading::Failed(failure) => failure.clone(),
        Reading::Open { stream, more, .. } => {
            let position = stream.seek(to);
            *more = true;
            let position = position.map_err(|error| of_stream(&error))?;
            return i64::try_from(position).map_err(|_| Errno(libc::EOVERFLOW).into());
        }
    };
    drop(reading);
    forget_object(&socket, &object);
    Err(failure)
}

/// `icn_pread`.
pub(crate) fn read_range(
    number: c_int,
    name: &Name,
    buffer: &mut [u8],
    offset: i64,
) -> Result<usize, Failure> {
    let from = u64::try_from(offset)
        .map_err(|_| Failure::new(libc::EINVAL, "no place in an object is before its beginning"))?;
    let socket = find(number)?;
    let consumer = socket.consumer()?;
    let object = socket.objects.begun(name, &consumer, false)?;
    let mut reading = object.reading(true)?;
    reading.found(&consumer)?;
    let failure = match &*reading {
        Reading::Opening(_) => return Err(Errno(libc::EAGAIN).into()),
        Reading::Failed(failure) => failure.clone(),
        Reading::Open { stream, .. } => {
            let pending = signals_blocked(|| stream.read_range_async(from, buffer.len()));
            // Other threads may read meanwhile.
            drop(reading);
            let content = pending?.wait(timeout(&consumer))?;
            buffer[..content.len()].copy_from_slice(&content);
            return Ok(content.len());
        }
    };
    drop(reading);
    forget_object(&socket, &object);
    Err(failure)
}

/// `icn_stat`.
pub(crate) fn stat(number: c_int, name: &Name) -> Result<icn_stat, Failure> {
    let consumer = find(number)?.consumer()?;
    let info = signals_blocked(|| consumer.stat_async(name))?.wait(timeout(&consumer))?;
    Ok(stat_of(&info))
}

/// The properties of an object for a C program.
pub(crate) fn stat_of(info: &ObjectInfo) -> icn_stat {
    let number = |known: Option<u64>| known.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
    let version = info.name.components().last().and_then(|last| last.version());
    icn_stat {
        st_octets: number(info.octets),
        st_segments: number(info.segments),
        st_version: version.unwrap_or(0),
        st_changed_ns: number(info.mtime_ns),
        st_is_directory: info.is_directory.into(),
    }
}

//! Objects that a program reads by `icn_recvfrom`, which names an object instead of holding one:
//! those that were begun, by name, until their end.

use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

use libc::c_int;
use namely_socket::{Consumer, FetchError, ObjectStream, Pending};
use namely_wire::Name;

use crate::abi::signals_blocked;
use crate::failure::{Errno, Failure};
use crate::socket::{Socket, check_flags, find, timeout};
use crate::types::{ICN_DONTWAIT, ICN_OBJECTS_MAX, ICN_WAITALL, icn_stat};

/// The objects of one socket, at most [`ICN_OBJECTS_MAX`].
#[derive(Default)]
pub(crate) struct Objects(Mutex<Vec<Arc<Object>>>);

struct Object {
    name: Name,
    /// The name of the version that is read, once it is known: the caller may go on by either.
    versioned: OnceLock<Name>,
    reading: Mutex<Reading>,
}

enum Reading {
    Opening(Pending<Result<ObjectStream, FetchError>>),
    Open {
        stream: Box<ObjectStream>,
        /// The last read was not cut short, so there may be more at once.
        more: bool,
        /// A segment was lost behind what was read last: the next read says so.
        lost: Option<Failure>,
    },
    Failed(Failure),
}

impl Objects {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Object>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &Name) -> Option<Arc<Object>> {
        self.list().iter().find(|object| object.is(name)).cloned()
    }

    /// The object that `name` began, or a new one, of which more than its description is asked for
    /// if `at_once`.
    fn begun(&self, name: &Name, consumer: &Consumer, at_once: bool) -> Result<Arc<Object>, Failure> {
        let mut list = self.list();
        if let Some(object) = list.iter().find(|object| object.is(name)) {
            return Ok(object.clone());
        }
        if list.len() >= ICN_OBJECTS_MAX {
            let sentence =
                format!("{ICN_OBJECTS_MAX} objects are being read: read one to its end, or icn_forget it");
            return Err(Failure::new(libc::ENOBUFS, sentence));
        }
        let open = if at_once { Consumer::stream_async } else { Consumer::open_async };
        let pending = signals_blocked(|| open(consumer, name))?;
        let reading = Mutex::new(Reading::Opening(pending));
        let object = Arc::new(Object { name: name.clone(), versioned: OnceLock::new(), reading });
        list.push(object.clone());
        Ok(object)
    }

    fn forget(&self, object: &Arc<Object>) {
        self.list().retain(|held| !Arc::ptr_eq(held, object));
    }

    /// Whether an object has something that its descriptor does not tell; if not, `waker` is woken
    /// once it has.
    pub(crate) fn are_ready(&self, waker: &namely_host::Waker) -> bool {
        // An object that another thread reads is told about by that thread.
        let ready =
            |object: &Arc<Object>| object.reading.try_lock().is_ok_and(|mut reading| reading.is_ready(waker));
        // All are asked, so that all have the waker.
        self.list().iter().filter(|object| ready(object)).count() > 0
    }
}

impl Object {
    fn is(&self, name: &Name) -> bool {
        self.name == *name || self.versioned.get() == Some(name)
    }

    /// What is read, for one thread at a time.
    fn reading(&self, may_wait: bool) -> Result<MutexGuard<'_, Reading>, Failure> {
        match self.reading.try_lock() {
            Ok(reading) => Ok(reading),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if !may_wait => Err(Errno(libc::EAGAIN).into()),
            Err(TryLockError::WouldBlock) => Ok(self.reading.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl Reading {
    /// Takes what has arrived of the object's description; `waker` is woken once there is
    /// something.
    fn advance(&mut self, waker: &Waker) {
        if let Reading::Opening(pending) = self
            && let Poll::Ready(found) = Pin::new(pending).poll(&mut Context::from_waker(waker))
        {
            *self = Reading::of(found);
        }
    }

    fn of(found: Result<ObjectStream, FetchError>) -> Self {
        match found {
            Ok(stream) => Reading::Open { stream: Box::new(stream), more: true, lost: None },
            Err(error) => Reading::Failed(error.into()),
        }
    }

    fn is_ready(&mut self, waker: &namely_host::Waker) -> bool {
        self.advance(&Waker::from(waker.clone()));
        match self {
            Reading::Opening(_) => false,
            Reading::Open { more, .. } => *more,
            Reading::Failed(_) => true,
        }
    }

    /// Waits until the object was found, or was not.
    fn found(&mut self, consumer: &Consumer) -> Result<(), Failure> {
        if let Reading::Opening(pending) = self {
            let found = pending.wait(timeout(consumer));
            if let Err(error) = &found
                && error.errno() == libc::EINTR
            {
                return Err(Failure::new(libc::EINTR, error.to_string()));
            }
            *self = Reading::of(found);
        }
        Ok(())
    }

    /// The stream, waited for if the call may wait.
    fn stream(
        &mut self,
        socket: &Socket,
        consumer: &Consumer,
        flags: c_int,
    ) -> Result<&mut Reading, Failure> {
        if socket.may_wait(flags) {
            self.found(consumer)?;
        } else {
            self.advance(&Waker::from(socket.waker.clone()));
        }
        Ok(self)
    }

    /// Reads the next octets, until `buffer` is full or the object at its end if `all`.
    fn read(&mut self, buffer: &mut [u8], may_wait: bool, all: bool) -> Result<usize, Failure> {
        let (stream, more, lost) = match self {
            Reading::Opening(_) => return Err(Errno(libc::EAGAIN).into()),
            Reading::Failed(failure) => return Err(failure.clone()),
            Reading::Open { stream, more, lost } => (stream, more, lost),
        };
        if let Some(failure) = lost.take() {
            return Err(failure);
        }
        let mut octets = 0;
        loop {
            let rest = &mut buffer[octets..];
            let read = if may_wait { stream.read(rest) } else { stream.try_read(rest) };
            match read {
                Ok(0) => break,
                Ok(now) => octets += now,
                Err(error) => {
                    let failure = of_stream(&error);
                    *more = false;
                    if octets == 0 {
                        return Err(failure);
                    }
                    // What came before is handed out first.
                    if failure.errno == libc::ENODATA {
                        *lost = Some(failure);
                        *more = true;
                    } else if !is_passing(&failure) {
                        *self = Reading::Failed(failure);
                    }
                    return Ok(octets);
                }
            }
            if octets == buffer.len() || !all {
                break;
            }
        }
        *more = true;
        Ok(octets)
    }
}

/// Whether the same call may succeed later, or goes on behind what was lost.
fn is_passing(failure: &Failure) -> bool {
    matches!(failure.errno, libc::EAGAIN | libc::EINTR | libc::ENODATA)
}

/// Asks for what the stream is to read next, and watches its descriptor, which changes then.
fn begin(stream: &mut ObjectStream, socket: &Socket) -> io::Result<()> {
    if stream.begins_anew() {
        socket.unwatch(stream.as_fd());
        signals_blocked(|| stream.begin())?;
    }
    socket.watch(stream.as_fd());
    Ok(())
}

/// What an error of a stream has inside.
fn of_stream(error: &io::Error) -> Failure {
    let inside = error.get_ref().and_then(|inside| inside.downcast_ref::<FetchError>());
    let errno = match inside {
        Some(error) => error.errno(),
        None if error.kind() == io::ErrorKind::InvalidInput => libc::EINVAL,
        None if error.kind() == io::ErrorKind::Unsupported => libc::ESPIPE,
        None => error.raw_os_error().unwrap_or(libc::EIO),
    };
    Failure::new(errno, error.to_string())
}

/// `icn_recvfrom`: the octets that come next, and the name of the version that is read.
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
        let reading = reading.stream(&socket, &consumer, flags)?;
        if let Reading::Open { stream, .. } = reading {
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
    if let Ok(reading) = object.reading.try_lock()
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
    let mut reading = object.reading(socket.may_wait(0))?;
    let failure = match reading.stream(&socket, &consumer, 0)? {
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
            // Others may read meanwhile.
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
    let number = |known: Option<u64>| known.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
    let version = info.name.components().last().and_then(|last| last.version());
    Ok(icn_stat {
        st_octets: number(info.octets),
        st_segments: number(info.segments),
        st_version: version.unwrap_or(0),
    })
}

//! An object as a stream: verified octets as they come, in order, with a bounded read-ahead (SOCK_STREAM, IS-26).

use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use namely_transport::object::Object;

use super::job::{How, Job, Sink};
use super::shared::Shared;
use crate::error::{CallError, FetchError};
use crate::inbox::Inbox;
use crate::pending::Promise;
use crate::sleep;

/// Octets of a stream that are verified and wait to be read; the backlog of what is not verified comes on top.
pub const READ_AHEAD_OCTETS: usize = 4 << 20;

/// Segments of a stream that are asked for ahead of what was verified.
const STREAM_SPAN_MAX: usize = 512;

/// A seek forward of so many octets at most reads them away instead of asking anew.
const SKIP_OCTETS_MAX: u64 = 1 << 20;

/// How often a waiting thread looks whether the stream was given up.
const LOOK: Duration = Duration::from_millis(50);

/// What lies between the thread that fetches and the one that reads.
pub(super) struct Pipe {
    inbox: Inbox<Chunk>,
    held: Mutex<usize>,
    room: Condvar,
    gone: AtomicBool,
}

enum Chunk {
    Content(Vec<u8>),
    End(Result<(), FetchError>),
}

impl Pipe {
    fn new() -> io::Result<Self> {
        Ok(Pipe {
            inbox: Inbox::new()?,
            held: Mutex::new(0),
            room: Condvar::new(),
            gone: AtomicBool::new(false),
        })
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn taken(&self, octets: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held -= octets;
        if *held < READ_AHEAD_OCTETS {
            self.room.notify_one();
        }
    }
}

/// The end where content goes in.
struct Filler<'a> {
    pipe: &'a Pipe,
    shared: &'a Shared,
}

impl Sink for Filler<'_> {
    fn write(&mut self, content: &[u8]) -> Result<(), FetchError> {
        let mut held = self.pipe.held.lock().unwrap_or_else(PoisonError::into_inner);
        while *held >= READ_AHEAD_OCTETS {
            if self.pipe.is_gone() || self.shared.engine.is_closed() {
                return Err(CallError::Closed.into());
            }
            held = self.pipe.room.wait_timeout(held, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *held += content.len();
        drop(held);
        if !content.is_empty() {
            self.pipe.inbox.put(Chunk::Content(content.to_vec()));
        }
        Ok(())
    }
}

/// An object that is being read: `io::Read` and `io::Seek`. An error of `read` has a [`FetchError`] inside. Dropping it ends
/// the fetch. A seek by itself asks for nothing, the next read does. Its descriptor is readable when `read` would not wait,
/// and is another one once a read came after a seek.
pub struct ObjectStream {
    shared: Arc<Shared>,
    how: How,
    object: Arc<Object>,
    pipe: Arc<Pipe>,
    timeout: Option<Duration>,
    position: u64,
    /// Where the next read is to be, after a seek: only then is anything asked for.
    sought: Option<u64>,
    /// Octets to read away first.
    skip: u64,
    chunk: Vec<u8>,
    used: usize,
    ended: bool,
}

impl std::fmt::Debug for ObjectStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStream")
            .field("name", &self.object.name)
            .field("position", &self.position)
            .finish()
    }
}

/// Finds the object and begins; what is found is a stream.
pub(super) fn open(
    shared: &Arc<Shared>,
    name: namely_wire::Name,
    how: How,
    timeout: Option<Duration>,
    promise: Promise<Result<ObjectStream, FetchError>>,
) -> Result<(), FetchError> {
    let mut how = how;
    how.read.fetch.span_max = how.read.fetch.span_max.min(STREAM_SPAN_MAX);
    how.read.fetch.window_max = how.read.fetch.window_max.min(how.read.fetch.span_max);
    let pipe = Arc::new(Pipe::new().map_err(|error| CallError::from_io(&error))?);
    shared.spawn(move |shared| {
        let given_up = || promise.is_given_up();
        let mut job = Job::new(shared, how, &given_up);
        let found = job.find(&name);
        drop(job);
        let object = match found {
            Ok(object) => Arc::new(object),
            Err(error) => return promise.keep(Err(error)),
        };
        let stream = ObjectStream {
            shared: shared.clone(),
            how,
            object: object.clone(),
            pipe: pipe.clone(),
            timeout,
            position: 0,
            sought: None,
            skip: 0,
            chunk: Vec::new(),
            used: 0,
            ended: false,
        };
        promise.keep(Ok(stream));
        fill(shared, &object, 0, how, &pipe);
    })?;
    Ok(())
}

/// Fetches from `first_segment` on into `pipe`.
fn fill(shared: &Shared, object: &Object, first_segment: u64, how: How, pipe: &Pipe) {
    let given_up = || pipe.is_gone();
    let mut job = Job::new(shared, how, &given_up);
    let done = job.transfer(object, first_segment, &mut Filler { pipe, shared });
    pipe.inbox.put(Chunk::End(done));
}

impl ObjectStream {
    /// The object's versioned name.
    pub fn name(&self) -> &namely_wire::Name {
        &self.object.name
    }

    /// Octets of the whole object, if they are known.
    pub fn octets(&self) -> Option<u64> {
        self.object.octets()
    }

    /// [`Read::read`], waiting for `timeout` at most.
    pub fn read_timeout(&mut self, buf: &mut [u8], timeout: Duration) -> io::Result<usize> {
        self.read_until(buf, Instant::now().checked_add(timeout))
    }

    /// [`Read::read`] without waiting: [`io::ErrorKind::WouldBlock`] if nothing is there.
    pub fn try_read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.arrive()? {
            return Ok(0);
        }
        while !self.has_content() && !self.ended {
            let chunk = self.pipe.inbox.try_take().map_err(failed)?;
            self.take(chunk)?;
        }
        Ok(self.copy(buf))
    }

    fn read_until(&mut self, buf: &mut [u8], until: Option<Instant>) -> io::Result<usize> {
        if buf.is_empty() || !self.arrive()? {
            return Ok(0);
        }
        while !self.has_content() && !self.ended {
            self.shared.engine.check_process().map_err(failed)?;
            let pipe = self.pipe.clone();
            let taken = sleep::wait(&mut pipe.inbox.take(), until).and_then(|taken| taken);
            self.take(taken.map_err(failed)?)?;
        }
        Ok(self.copy(buf))
    }

    fn has_content(&self) -> bool {
        self.used < self.chunk.len()
    }

    fn take(&mut self, chunk: Chunk) -> io::Result<()> {
        match chunk {
            Chunk::Content(content) => {
                self.pipe.taken(content.len());
                self.used = usize::try_from(self.skip).unwrap_or(usize::MAX).min(content.len());
                self.skip -= self.used as u64;
                self.chunk = content;
                Ok(())
            }
            Chunk::End(end) => {
                self.ended = true;
                end.map_err(failed)
            }
        }
    }

    fn copy(&mut self, buf: &mut [u8]) -> usize {
        let octets = buf.len().min(self.chunk.len() - self.used);
        buf[..octets].copy_from_slice(&self.chunk[self.used..self.used + octets]);
        self.used += octets;
        self.position += octets as u64;
        octets
    }

    /// Goes where the last seek said. False past the end.
    fn arrive(&mut self) -> io::Result<bool> {
        let Some(position) = self.sought else { return Ok(true) };
        if self.octets().is_some_and(|octets| position >= octets) {
            return Ok(false);
        }
        self.go_to(position)?;
        self.sought = None;
        Ok(true)
    }

    /// Goes to `position` by reading away what lies before it, or by asking anew.
    fn go_to(&mut self, position: u64) -> io::Result<()> {
        let in_chunk = position.checked_sub(self.position);
        match in_chunk {
            Some(ahead) if ahead <= (self.chunk.len() - self.used) as u64 => self.used += ahead as usize,
            Some(ahead) if ahead <= SKIP_OCTETS_MAX && !self.ended => {
                self.skip += ahead - (self.chunk.len() - self.used) as u64;
                self.used = self.chunk.len();
            }
            _ => self.begin_at(position)?,
        }
        self.position = position;
        Ok(())
    }

    fn begin_at(&mut self, position: u64) -> io::Result<()> {
        let sizes = self.object.metadata.as_ref().and_then(|metadata| metadata.segment_size_octets);
        let segment_octets = sizes.filter(|octets| *octets > 0 && self.object.whole.is_none());
        let wanted = segment_octets.map_or(0, |octets| position / octets);
        // Past the end there is nothing to ask for: the last segment says so.
        let wanted = wanted.min(self.object.segments.unwrap_or(u64::MAX).saturating_sub(1));
        let pipe = Arc::new(Pipe::new()?);
        let (object, how, filled) = (self.object.clone(), self.how, pipe.clone());
        let spawned = self.shared.spawn(move |shared| fill(shared, &object, wanted, how, &filled));
        spawned.map_err(failed)?;
        self.pipe.gone.store(true, Ordering::Relaxed);
        self.pipe = pipe;
        self.skip = position - wanted.saturating_mul(segment_octets.unwrap_or(0)).min(position);
        self.chunk.clear();
        self.used = 0;
        self.ended = false;
        Ok(())
    }
}

impl Read for ObjectStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let until = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.read_until(buf, until)
    }
}

impl Seek for ObjectStream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let base = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.sought.unwrap_or(self.position).checked_add_signed(by),
            SeekFrom::End(by) => {
                let octets = self.octets().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
                octets.checked_add_signed(by)
            }
        };
        let position = base.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.sought = (position != self.position).then_some(position);
        Ok(position)
    }
}

impl AsFd for ObjectStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.inbox.as_fd()
    }
}

impl Drop for ObjectStream {
    fn drop(&mut self) {
        self.pipe.gone.store(true, Ordering::Relaxed);
    }
}

/// An error of a stream, with its cause inside.
fn failed(error: impl Into<FetchError>) -> io::Error {
    let error = error.into();
    let kind = match &error {
        FetchError::Call(CallError::WouldBlock) => io::ErrorKind::WouldBlock,
        FetchError::Call(CallError::Interrupted) => io::ErrorKind::Interrupted,
        FetchError::Call(CallError::TimedOut) => io::ErrorKind::TimedOut,
        _ => io::Error::from_raw_os_error(error.errno()).kind(),
    };
    io::Error::new(kind, error)
}

//! An object as a stream: verified octets in order as they arrive, with a bounded read-ahead
//! (SOCK_STREAM, IS-26).

use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ObjectInfo;
use super::job::{Content, ContentSink, FetchParams, Job, SEGMENT_OCTETS};
use super::queue::LOOK;
use super::range::{LocatedObject, Range, RangePart};
use super::ranges::{self, Ranges};
use super::shared::{FetchSlot, Shared};
use crate::error::{CallError, FetchError};
use crate::inbox::Inbox;
use crate::options::STREAM_OCTETS_FIRST;
use crate::pending::{Pending, Promise, call};
use crate::sleep;

/// A seek forward by at most this number of octets, and at most the read-ahead, reads and discards
/// them. A longer seek restarts the fetch.
const SKIP_OCTETS_MAX: u64 = 1 << 20;

/// The channel between the fetching thread and the reader.
pub(super) struct Pipe {
    inbox: Inbox<Chunk>,
    read_ahead: usize,
    held: Mutex<usize>,
    room: Condvar,
    gone: AtomicBool,
}

enum Chunk {
    Content(Content),
    /// A segment that is lost for good, and its number of octets.
    Gap(FetchError, u64),
    End(Result<(), FetchError>),
}

impl Pipe {
    fn new(read_ahead: usize) -> io::Result<Self> {
        Ok(Pipe {
            inbox: Inbox::new()?,
            read_ahead: read_ahead.min(STREAM_OCTETS_FIRST),
            held: Mutex::new(0),
            room: Condvar::new(),
            gone: AtomicBool::new(false),
        })
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, usize> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self, octets: usize) {
        let mut held = self.held();
        *held -= octets;
        if *held < self.read_ahead {
            self.room.notify_one();
        }
    }
}

/// The writing end. Content is added a run at a time, so that the reader is woken once for each
/// run.
struct StreamWriter<'a> {
    pipe: &'a Pipe,
    shared: &'a Shared,
    /// Octets to skip first.
    skip: u64,
    /// Octets of a segment.
    segment_octets: u64,
    run: Vec<Chunk>,
    run_octets: usize,
}

impl ContentSink for StreamWriter<'_> {
    fn write(&mut self, mut content: Content) -> Result<(), FetchError> {
        content.pass_by(&mut self.skip);
        if *self.pipe.held() + self.run_octets >= self.pipe.read_ahead {
            self.flush()?;
        }
        let mut held = self.pipe.held();
        while *held >= self.pipe.read_ahead {
            if self.pipe.is_gone() || self.shared.engine.is_closed() {
                return Err(CallError::Closed.into());
            }
            held = self.pipe.room.wait_timeout(held, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(held);
        let octets = content.as_ref().len();
        if octets > 0 {
            self.run_octets += octets;
            self.run.push(Chunk::Content(content));
        }
        Ok(())
    }

    fn gap(&mut self, lost: FetchError) -> Result<(), FetchError> {
        let skipped = self.skip.min(self.segment_octets);
        self.skip -= skipped;
        self.run.push(Chunk::Gap(lost, self.segment_octets - skipped));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FetchError> {
        *self.pipe.held() += std::mem::take(&mut self.run_octets);
        self.pipe.inbox.put_all(self.run.drain(..));
        Ok(())
    }
}

/// An object that is being read, with `io::Read` and `io::Seek`. An error of `read` contains a
/// [`FetchError`]. Dropping the stream ends the fetch.
///
/// On an unreliable consumer a segment that is lost for good is an error ([`FetchError::Lost`]),
/// and the next read continues after it. A seek requests nothing; the next read or
/// [`ObjectStream::begin`] does. [`ObjectStream::read_range`] requests only the range that it
/// reads. The descriptor is readable when `read` would not block. It changes when the fetch
/// restarts.
pub struct ObjectStream {
    shared: Arc<Shared>,
    params: FetchParams,
    found: Arc<LocatedObject>,
    pipe: Arc<Pipe>,
    timeout: Option<Duration>,
    position: u64,
    /// The position of the next read after a seek. The seek itself requests nothing.
    sought: Option<u64>,
    /// Octets to discard first.
    skip: u64,
    chunk: Content,
    /// Octets of `chunk` that were read.
    used: usize,
    ended: bool,
    /// Whether a fetch was started.
    begun: bool,
    /// Whether the next read must restart the fetch, because the fetch in progress does not cover
    /// it.
    anew: bool,
    /// The end of reading; later octets are not requested.
    limit: u64,
    /// Whether the fetch in progress ends before the object does.
    bounded: bool,
}

impl std::fmt::Debug for ObjectStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStream")
            .field("name", &self.found.object.name)
            .field("position", &self.position)
            .finish()
    }
}

/// Finds the object and returns it as a stream. Its content is requested at once if `begin`.
pub(super) fn open(
    shared: &Arc<Shared>,
    name: namely_wire::Name,
    params: FetchParams,
    timeout: Option<Duration>,
    begin: bool,
    promise: Promise<Result<ObjectStream, FetchError>>,
) -> Result<(), FetchError> {
    let pipe = Arc::new(Pipe::new(params.read_ahead).map_err(|error| CallError::from_io(&error))?);
    shared.spawn(move |shared| {
        let stopped = || promise.is_abandoned().then_some(CallError::Closed);
        let found = Job::new(&shared, params, &stopped).find_content(&name);
        let found = match found {
            Ok(object) => Arc::new(LocatedObject::new(object)),
            Err(error) => {
                drop(shared);
                return promise.complete(Err(error));
            }
        };
        let mut stream = ObjectStream::new(shared.clone(), params, found.clone(), pipe.clone(), timeout);
        stream.begun = begin;
        if begin {
            promise.complete(Ok(stream));
            fill(&shared, &found, 0, u64::MAX, params, &pipe);
        } else {
            // The slot is released before the result is delivered, so that the first read can take
            // one.
            drop(shared);
            promise.complete(Ok(stream));
        }
    })?;
    Ok(())
}

/// Fetches the octets between `from` and `end`, and the rest of the last segment, into `pipe`.
fn fill(shared: &Shared, found: &LocatedObject, from: u64, end: u64, params: FetchParams, pipe: &Pipe) {
    let stopped = || pipe.is_gone().then_some(CallError::Closed);
    let mut job = Job::new(shared, params, &stopped);
    let mut filler = StreamWriter {
        pipe,
        shared,
        skip: 0,
        segment_octets: SEGMENT_OCTETS,
        run: Vec::new(),
        run_octets: 0,
    };
    let done = found.locate(&mut job, from, end).and_then(|RangePart { part, skip, segment_octets }| {
        job.span(params.read_ahead as u64);
        filler.skip = skip;
        filler.segment_octets = segment_octets.unwrap_or(SEGMENT_OCTETS);
        job.transfer(&found.object, &[part], &mut filler)
    });
    // Content that arrived before an error is delivered, too.
    let done = done.and(filler.flush());
    pipe.inbox.put(Chunk::End(done));
}

impl ObjectStream {
    /// Creates a stream at the object's beginning. Nothing is requested.
    fn new(
        shared: Arc<Shared>,
        params: FetchParams,
        found: Arc<LocatedObject>,
        pipe: Arc<Pipe>,
        timeout: Option<Duration>,
    ) -> Self {
        ObjectStream {
            shared,
            params,
            found,
            pipe,
            timeout,
            position: 0,
            sought: None,
            skip: 0,
            chunk: Vec::new().into(),
            used: 0,
            ended: false,
            begun: false,
            anew: false,
            limit: u64::MAX,
            bounded: false,
        }
    }

    /// The object's versioned name.
    pub fn name(&self) -> &namely_wire::Name {
        &self.found.object.name
    }

    /// Returns true if the next read may restart the fetch, and so change the descriptor.
    pub fn begins_anew(&self) -> bool {
        !self.begun || self.anew || self.sought.is_some()
    }

    /// Starts the fetch for the next read if necessary, and does not wait for it. For callers that
    /// wait for the descriptor first.
    ///
    /// # Errors
    /// The socket was closed, or has the maximum number of fetches.
    pub fn begin(&mut self) -> io::Result<()> {
        self.arrive().map(drop)
    }

    /// Octets of the whole object, if the size is known.
    pub fn octets(&self) -> Option<u64> {
        self.found.object.octets()
    }

    /// Ends reading before octet `end`, as [`Read::take`] would. A fetch that starts later requests
    /// no segments after it. [`u64::MAX`]: no limit.
    pub fn set_limit(&mut self, end: u64) {
        if end > self.limit && self.bounded {
            // Octets after the old limit were not requested.
            self.sought.get_or_insert(self.position);
            self.anew = true;
        }
        self.limit = end;
    }

    /// Reads the `octets` octets from `from` on, independently of the stream's position. Returns
    /// fewer if the object ends before. Only the segments that contain them are requested, and the
    /// manifests of these segments. Waits at most as long as the consumer's option `timeout_ms`.
    ///
    /// # Errors
    /// As [`Consumer::fetch`](crate::Consumer::fetch).
    pub fn read_range(&self, from: u64, octets: usize) -> Result<Vec<u8>, FetchError> {
        self.read_range_async(from, octets)?.wait(self.timeout)
    }

    /// [`ObjectStream::read_range`] as a future, which the caller can also poll without waiting, or
    /// wait for more than once.
    ///
    /// # Errors
    /// The call cannot begin.
    pub fn read_range_async(
        &self,
        from: u64,
        octets: usize,
    ) -> Result<Pending<Result<Vec<u8>, FetchError>>, FetchError> {
        self.shared.engine.check_process()?;
        let (promise, pending) = call();
        let end = from.saturating_add(octets as u64).min(self.octets().unwrap_or(u64::MAX));
        if from >= end {
            promise.complete(Ok(Vec::new()));
            return Ok(pending);
        }
        let (found, params) = (self.found.clone(), self.params);
        self.shared.spawn(move |shared| {
            let stopped = || promise.is_abandoned().then_some(CallError::Closed);
            let mut job = Job::new(&shared, params, &stopped);
            let read = found.locate(&mut job, from, end).and_then(|RangePart { part, skip, .. }| {
                let mut range = Range::new(skip, end - from);
                let done = job.transfer(&found.object, &[part], &mut range);
                range.content(done)
            });
            drop(job);
            drop(shared);
            promise.complete(read);
        })?;
        Ok(pending)
    }

    /// Reads each range (start and length), independently of the stream's position. All ranges are
    /// requested in parallel, and common segments once.
    ///
    /// # Errors
    /// As [`ObjectStream::read_range`]. A range that cannot be read fails the call.
    pub fn read_ranges(&self, ranges: &[(u64, usize)]) -> Result<Ranges, FetchError> {
        self.read_ranges_async(ranges)?.wait(self.timeout)
    }

    /// [`ObjectStream::read_ranges`] as a future, which the caller can also poll without waiting,
    /// or wait for more than once.
    ///
    /// # Errors
    /// The call cannot begin.
    pub fn read_ranges_async(
        &self,
        ranges: &[(u64, usize)],
    ) -> Result<Pending<Result<Ranges, FetchError>>, FetchError> {
        self.shared.engine.check_process()?;
        let (promise, pending) = call();
        let octets_max = self.octets().unwrap_or(u64::MAX);
        let within =
            |(from, octets): &(u64, usize)| *from..from.saturating_add(*octets as u64).min(octets_max);
        let ranges: Vec<_> = ranges.iter().map(within).collect();
        if ranges.iter().all(std::ops::Range::is_empty) {
            promise.complete(Ok(vec![Vec::new(); ranges.len()]));
            return Ok(pending);
        }
        let (found, params) = (self.found.clone(), self.params);
        self.shared.spawn(move |shared| {
            let stopped = || promise.is_abandoned().then_some(CallError::Closed);
            let read = ranges::read(&mut Job::new(&shared, params, &stopped), &found, &ranges);
            drop(shared);
            promise.complete(read);
        })?;
        Ok(pending)
    }

    /// Returns another stream of the same version, at its beginning. Nothing is requested.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn again(&self) -> Result<ObjectStream, FetchError> {
        let pipe = Pipe::new(self.params.read_ahead).map_err(|error| CallError::from_io(&error))?;
        let (shared, timeout) = (self.shared.clone(), self.timeout);
        Ok(ObjectStream::new(shared, self.params, self.found.clone(), Arc::new(pipe), timeout))
    }

    /// Properties of the object.
    pub fn info(&self) -> ObjectInfo {
        ObjectInfo::of(&self.found.object)
    }

    /// [`Read::read`], waiting for `timeout` at most.
    ///
    /// # Errors
    /// As [`Read::read`].
    pub fn read_timeout(&mut self, buf: &mut [u8], timeout: Duration) -> io::Result<usize> {
        self.read_until(buf, Instant::now().checked_add(timeout))
    }

    /// [`Read::read`] without waiting: [`io::ErrorKind::WouldBlock`] if no data is available.
    ///
    /// # Errors
    /// As [`Read::read`].
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
        self.left() > 0
    }

    /// Octets of the chunk that are not read yet.
    fn left(&self) -> usize {
        self.chunk.as_ref().len() - self.used
    }

    fn take(&mut self, chunk: Chunk) -> io::Result<()> {
        match chunk {
            Chunk::Content(content) => {
                let octets = content.as_ref().len();
                self.pipe.taken(octets);
                self.used = usize::try_from(self.skip).unwrap_or(usize::MAX).min(octets);
                self.skip -= self.used as u64;
                self.chunk = content;
                Ok(())
            }
            Chunk::Gap(lost, octets) => {
                let skipped = self.skip.min(octets);
                self.skip -= skipped;
                let end = self.octets().unwrap_or(u64::MAX).max(self.position);
                self.position = self.position.saturating_add(octets - skipped).min(end);
                Err(failed(lost))
            }
            Chunk::End(end) => {
                self.ended = true;
                end.map_err(failed)
            }
        }
    }

    fn copy(&mut self, buf: &mut [u8]) -> usize {
        let left = &self.chunk.as_ref()[self.used..];
        let octets = buf.len().min(left.len());
        let octets = octets.min(usize::try_from(self.limit.saturating_sub(self.position)).unwrap_or(octets));
        buf[..octets].copy_from_slice(&left[..octets]);
        self.used += octets;
        self.position += octets as u64;
        octets
    }

    /// Moves to the position of the last seek, and starts a fetch if there is none. Returns false
    /// past the end.
    fn arrive(&mut self) -> io::Result<bool> {
        let position = self.sought.unwrap_or(self.position);
        if position >= self.limit {
            return Ok(false);
        }
        if self.sought.is_none() && self.begun && !self.anew {
            return Ok(true);
        }
        if position > 0 && self.octets().is_some_and(|octets| position >= octets) {
            return Ok(false);
        }
        self.go_to(position)?;
        self.sought = None;
        Ok(true)
    }

    /// Moves to `position` by discarding the octets before it, or by restarting the fetch.
    fn go_to(&mut self, position: u64) -> io::Result<()> {
        let in_chunk = position.checked_sub(self.position).filter(|_| self.begun && !self.anew);
        match in_chunk {
            Some(ahead) if ahead <= self.left() as u64 => self.used += ahead as usize,
            Some(ahead) if ahead <= SKIP_OCTETS_MAX.min(self.params.read_ahead as u64) && !self.ended => {
                self.skip += ahead - self.left() as u64;
                self.used = self.chunk.as_ref().len();
            }
            _ => self.begin_at(position)?,
        }
        self.position = position;
        Ok(())
    }

    fn begin_at(&mut self, position: u64) -> io::Result<()> {
        let pipe = Arc::new(Pipe::new(self.params.read_ahead)?);
        let (found, params, limit, filled) = (self.found.clone(), self.params, self.limit, pipe.clone());
        let fill = move |shared: FetchSlot| fill(&shared, &found, position, limit, params, &filled);
        self.pipe.gone.store(true, Ordering::Relaxed);
        let spawned = if self.begun { self.shared.spawn_instead(fill) } else { self.shared.spawn(fill) };
        spawned.map_err(failed)?;
        self.pipe = pipe;
        self.skip = 0;
        self.begun = true;
        self.anew = false;
        self.bounded = limit < u64::MAX;
        self.chunk = Vec::new().into();
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

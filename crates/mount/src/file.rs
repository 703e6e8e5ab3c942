//! Open files: reads in the order of the kernel's requests, with a read-ahead for reads that
//! follow one another.

use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use fuser::{Errno, ReplyData};
use namely_socket::ObjectStream;
use namely_wire::Name;

use crate::error::{errno, errno_of_read};
use crate::log::FailureLog;

/// A file that has not been read for this time loses its read-ahead to another file.
const STREAM_IDLE: Duration = Duration::from_secs(1);

/// An open file. It keeps its version.
pub(crate) struct OpenFile {
    name: Arc<Name>,
    octets: u64,
    object: ObjectStream,
    order: Mutex<ReadOrder>,
    stream: Mutex<Option<ActiveStream>>,
}

/// A stream of content, with the time of its last read.
struct ActiveStream {
    content: ObjectStream,
    used: Instant,
}

/// The reads that follow one another.
#[derive(Default)]
struct ReadOrder {
    /// The end of the last read, where a read that follows it begins.
    next: Option<u64>,
    waiting: VecDeque<ReadRequest>,
    /// Whether a thread processes `waiting`.
    is_running: bool,
}

/// A request of the kernel.
pub(crate) struct ReadRequest {
    pub(crate) offset: u64,
    pub(crate) octets: usize,
    pub(crate) reply: ReplyData,
}

/// The next step for a request.
pub(crate) enum ReadStep {
    /// Call [`OpenFile::read_range`]: it does not follow another read.
    Range(ReadRequest),
    /// Call [`OpenFile::read_waiting`]: no thread processes the waiting reads.
    Waiting,
    /// A thread processes it already.
    Queued,
}

impl OpenFile {
    pub(crate) fn new(name: Arc<Name>, octets: u64, object: ObjectStream) -> Self {
        OpenFile { name, octets, object, order: Mutex::default(), stream: Mutex::default() }
    }

    fn order(&self) -> MutexGuard<'_, ReadOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a request. The caller passes requests in the order in which the kernel sends them:
    /// the kernel's own read-ahead has several in progress.
    pub(crate) fn accept(&self, request: ReadRequest) -> ReadStep {
        let end = request.offset.saturating_add(request.octets as u64).min(self.octets);
        let mut order = self.order();
        let follows = order.next.replace(end) == Some(request.offset);
        if !follows {
            return ReadStep::Range(request);
        }
        order.waiting.push_back(request);
        match std::mem::replace(&mut order.is_running, true) {
            false => ReadStep::Waiting,
            true => ReadStep::Queued,
        }
    }

    /// Processes the reads that follow one another until none waits.
    pub(crate) fn read_waiting(self: &Arc<Self>, streams: &Streams, log: &FailureLog) {
        loop {
            let request = {
                let mut order = self.order();
                let Some(request) = order.waiting.pop_front() else {
                    order.is_running = false;
                    return;
                };
                request
            };
            let read = self.read_stream(request.offset, self.within(&request), streams);
            self.reply(request.reply, read, log);
        }
    }

    /// Processes a read that does not follow another one.
    pub(crate) fn read_range(&self, request: ReadRequest, log: &FailureLog) {
        let read = self.range(request.offset, self.within(&request));
        self.reply(request.reply, read, log);
    }

    /// The octets of the request before the end of the file.
    fn within(&self, request: &ReadRequest) -> usize {
        let left = self.octets.saturating_sub(request.offset);
        request.octets.min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    fn reply(&self, reply: ReplyData, read: Result<Vec<u8>, ReadFailure>, log: &FailureLog) {
        match read {
            Ok(content) => reply.data(&content),
            Err(ReadFailure { errno, reason }) => {
                log.record(&self.name, errno, &reason);
                reply.error(errno);
            }
        }
    }

    /// Fails if the file ends before its stated size: the kernel would fill the rest with zeros.
    fn range(&self, offset: u64, octets: usize) -> Result<Vec<u8>, ReadFailure> {
        let content = self
            .object
            .read_range(offset, octets)
            .map_err(|error| ReadFailure { errno: errno(&error), reason: error.to_string() })?;
        if content.len() < octets {
            return Err(ReadFailure::truncated());
        }
        Ok(content)
    }

    fn read_stream(
        self: &Arc<Self>,
        offset: u64,
        octets: usize,
        streams: &Streams,
    ) -> Result<Vec<u8>, ReadFailure> {
        if octets == 0 {
            return Ok(Vec::new());
        }
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.is_none() && streams.begin(self) {
            // Without a descriptor for the stream, the range is read by itself.
            stream.replace(match self.object.again() {
                Ok(content) => ActiveStream { content, used: Instant::now() },
                Err(_) => return self.range(offset, octets),
            });
        }
        let Some(active) = stream.as_mut() else {
            drop(stream);
            return self.range(offset, octets);
        };
        active.used = Instant::now();
        let mut content = vec![0; octets];
        let read = active
            .content
            .seek(SeekFrom::Start(offset))
            .and_then(|_| active.content.read_exact(&mut content));
        let is_last = offset.saturating_add(octets as u64) >= self.octets;
        if is_last || read.is_err() {
            *stream = None;
        }
        read.map(|()| content).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ReadFailure::truncated(),
            _ => ReadFailure { errno: errno_of_read(&error), reason: error.to_string() },
        })
    }

    /// Whether the file has a stream. A stream in use is locked.
    fn has_stream(&self) -> bool {
        match self.stream.try_lock() {
            Ok(stream) => stream.is_some(),
            Err(TryLockError::Poisoned(stream)) => stream.into_inner().is_some(),
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// Ends the stream if it has been idle. Returns false if it is in use.
    fn end_idle_stream(&self, now: Instant) -> bool {
        let Ok(mut stream) = self.stream.try_lock() else { return false };
        let is_idle =
            stream.as_ref().is_none_or(|active| now.saturating_duration_since(active.used) >= STREAM_IDLE);
        if is_idle {
            *stream = None;
        }
        is_idle
    }
}

/// The reason why a read failed.
struct ReadFailure {
    errno: Errno,
    reason: String,
}

impl ReadFailure {
    fn truncated() -> Self {
        ReadFailure { errno: Errno::EIO, reason: "the file ends before the size in its metadata".into() }
    }
}

/// The files with a read-ahead.
pub(crate) struct Streams {
    files: Mutex<Vec<Weak<OpenFile>>>,
    max: usize,
}

impl Streams {
    pub(crate) fn new(max: usize) -> Self {
        Streams { files: Mutex::default(), max }
    }

    /// Returns true if `file` may begin a stream. The caller holds the lock of the file's stream,
    /// and no other file's: this function only tries the locks of other files, so that no cycle of
    /// waiting threads can arise.
    fn begin(&self, file: &Arc<OpenFile>) -> bool {
        let this = Arc::downgrade(file);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|of| !of.ptr_eq(&this) && of.upgrade().is_some_and(|of| of.has_stream()));
        if files.len() >= self.max {
            let now = Instant::now();
            let idle = files.iter().position(|of| of.upgrade().is_none_or(|of| of.end_idle_stream(now)));
            let Some(idle) = idle else { return false };
            files.swap_remove(idle);
        }
        files.push(this);
        true
    }
}

//! Fetches an object into a sink of the caller, on the caller's thread.

use std::io;
use std::time::{Duration, Instant};

use namely_security::Verified;
use namely_transport::object::{Object, ObjectError, OnBadSegment, Part, Progress};

use super::job::{Content, ContentSink, FetchParams, Job};
use super::queue::VerifyQueue;
use super::shared::Shared;
use crate::error::{CallError, FetchError};

/// Interval at which progress is reported to the caller.
const WATCH: Duration = Duration::from_millis(100);

/// Receives the content of an object: verified, in order, without gaps.
pub trait Sink {
    /// Receives segment `segment`.
    ///
    /// # Errors
    /// An error ends the fetch, as [`ObjectError::Sink`].
    fn write(&mut self, segment: u64, data: &Verified<Vec<u8>>) -> io::Result<()>;
}

/// The decision of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The fetch continues.
    Continue,
    /// The fetch ends with [`ObjectError::Stopped`].
    Stop,
}

/// Fetches `part` of `object` into `sink`.
pub(super) fn fetch(
    shared: &Shared,
    object: &Object,
    part: Part,
    sink: &mut dyn Sink,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<Progress, FetchError> {
    let (mut params, timeout) = {
        let options = shared.options();
        (FetchParams::of(&options), options.timeout)
    };
    // The sink receives verified content only. A segment that fails verification is therefore
    // requested again, although the option accepts it.
    if params.on_bad == OnBadSegment::Accept {
        params.on_bad = OnBadSegment::Refetch;
    }
    let stopped = stop_after(timeout);
    let mut job = Job::here(shared, params, &stopped);
    job.request_origins()?;
    let now = Instant::now();
    let mut watched = WatchedSink {
        sink,
        watch,
        started: now,
        watch_at: now,
        progress: Progress {
            octets_done: skipped_octets(object, part),
            octets_total: object.octets(),
            segments_total: object.segments,
            ..Progress::default()
        },
    };
    job.transfer(object, &[part], &mut watched)?;
    watched.progress.segments_total = object.segments.or(job.segments());
    watched.progress.elapsed_ns = watched.elapsed_ns();
    (watched.watch)(&watched.progress);
    Ok(watched.progress)
}

/// Returns a function that yields [`CallError::TimedOut`] once `timeout` has passed from now on.
pub(super) fn stop_after(timeout: Option<Duration>) -> impl Fn() -> Option<CallError> {
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    move || until.filter(|until| Instant::now() >= *until).map(|_| CallError::TimedOut)
}

/// The number of octets before `part`, computed from the metadata.
fn skipped_octets(object: &Object, part: Part) -> u64 {
    let segment_octets = object.metadata.as_ref().and_then(|metadata| metadata.segment_size_octets);
    segment_octets.unwrap_or(0).saturating_mul(part.first)
}

/// The caller's sink and its progress.
struct WatchedSink<'a> {
    sink: &'a mut dyn Sink,
    watch: &'a mut dyn FnMut(&Progress) -> Flow,
    started: Instant,
    watch_at: Instant,
    progress: Progress,
}

impl WatchedSink<'_> {
    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes over the part of the progress that the requesting thread recorded in `queue`.
    fn update(&mut self, queue: &VerifyQueue<FetchError>) {
        let Progress { octets, octets_done, octets_total, segments, segments_total, .. } = self.progress;
        let elapsed_ns = self.elapsed_ns();
        self.progress = Progress {
            octets,
            octets_done,
            octets_total,
            segments,
            segments_total,
            elapsed_ns,
            ..queue.progress()
        };
    }
}

impl ContentSink for WatchedSink<'_> {
    /// Refuses the content: only unverified content is passed to this function.
    fn write(&mut self, _: Content) -> Result<(), FetchError> {
        Err(ObjectError::Sink(io::Error::from(io::ErrorKind::InvalidData)).into())
    }

    fn segment(
        &mut self,
        segment: u64,
        data: Verified<Vec<u8>>,
        used: &mut Vec<Vec<u8>>,
    ) -> Result<(), FetchError> {
        self.sink.write(segment, &data).map_err(ObjectError::Sink)?;
        let octets = data.content().len() as u64;
        self.progress.octets += octets;
        self.progress.octets_done += octets;
        self.progress.segments += 1;
        used.push(data.into_octets());
        Ok(())
    }

    fn look(&mut self, queue: &VerifyQueue<FetchError>) -> Result<(), FetchError> {
        let now = Instant::now();
        if now < self.watch_at {
            return Ok(());
        }
        self.watch_at = now + WATCH;
        self.update(queue);
        match (self.watch)(&self.progress) {
            Flow::Continue => Ok(()),
            Flow::Stop => Err(ObjectError::Stopped.into()),
        }
    }

    fn end(&mut self, queue: &VerifyQueue<FetchError>) {
        self.update(queue);
    }
}

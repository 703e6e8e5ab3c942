//! Fetches one object: finds it, verifies its pieces in runs as they come, hands them over. A job
//! runs on a thread of its own while the socket's thread drives, or on a caller's thread that
//! drives too ([`Here`]).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use namely_security::{
    Preparation, RevocationStatement, RevocationStatus, TrustReason, Verified, Verifier, revocation_prefix,
};
use namely_transport::object::{
    Checked, Discovery, Object, ObjectError, OnBadSegment, Part, ReadOptions, SegmentVerifier, report_refused,
};
use namely_transport::publish::SEGMENT_OCTETS_DEFAULT;
use namely_wire::{DataView, InterestBuilder, Name};

use super::queue::{LOOK, Piece, RUN_MAX, Taken, VerifyQueue};
use super::revocation::{LIFETIME_MS, Outcome};
use super::role::{ConsumerRole, Order};
use super::shared::{Asker, Shared};
use crate::engine::Here;
use crate::error::{CallError, FetchError};
use crate::options::{ConsumerOptions, Revocation};

/// Maximum number of segments of a stream that are requested ahead of what was verified, however
/// small they are.
const STREAM_SPAN_MAX: usize = 512;

/// Octets of a segment where nobody says how large they are.
pub(super) const SEGMENT_OCTETS: u64 = SEGMENT_OCTETS_DEFAULT as u64;

/// A whole object is put together in memory that is set aside at once up to this size.
pub(super) const SET_ASIDE_OCTETS_MAX: u64 = 64 << 20;

/// Maximum number of certificates fetched for one object.
const CERTIFICATES_MAX: usize = 16;

/// How an object is fetched: options as they were when the call was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchParams {
    pub(super) read: ReadOptions,
    /// Threads that verify, the fetch's own included; 0: one for each processor, within limits.
    pub(super) verify_threads: usize,
    pub(super) on_bad: OnBadSegment,
    pub(super) revocation: Revocation,
    /// Octets that a stream holds for its reader.
    pub(super) read_ahead: usize,
}

impl FetchParams {
    pub(super) fn of(options: &ConsumerOptions) -> Self {
        let mut read = options.read;
        let fetch = &mut read.fetch;
        fetch.span_max = options.backlog_segments;
        fetch.window_max = fetch.window_max.min(fetch.span_max);
        if !options.reliable {
            fetch.give_up_ns = Some(read.lifetime_ms.saturating_mul(1_000_000));
            read.attempts = 1;
        }
        FetchParams {
            read,
            verify_threads: options.verify_threads,
            on_bad: options.on_bad_segment,
            revocation: options.revocation,
            read_ahead: options.read_ahead_octets,
        }
    }
}

/// The content of a segment, in the memory of its packet: what hands it on copies nothing.
#[derive(Debug)]
pub(super) struct Content {
    octets: Vec<u8>,
    place: Range<usize>,
}

impl Content {
    pub(super) fn of(data: Verified<Vec<u8>>) -> Self {
        let (octets, place) = data.into_content();
        Content { octets, place }
    }

    /// Leaves out the first `skip` octets, or what is left of these to pass by.
    pub(super) fn pass_by(&mut self, skip: &mut u64) {
        let skipped = self.place.len().min(usize::try_from(*skip).unwrap_or(usize::MAX));
        *skip -= skipped as u64;
        self.place.start += skipped;
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.octets[self.place.clone()]
    }
}

impl From<Vec<u8>> for Content {
    fn from(octets: Vec<u8>) -> Self {
        Content { place: 0..octets.len(), octets }
    }
}

/// Takes content in order.
pub(super) trait ContentSink {
    /// Takes the content of a segment.
    fn write(&mut self, content: Content) -> Result<(), FetchError>;

    /// Takes a verified segment; what needs its memory no longer adds it to `used`.
    fn segment(
        &mut self,
        _: u64,
        data: Verified<Vec<u8>>,
        _used: &mut Vec<Vec<u8>>,
    ) -> Result<(), FetchError> {
        self.write(Content::of(data))
    }

    /// A segment is lost for good, as `lost` says. An error ends the transfer.
    fn gap(&mut self, lost: FetchError) -> Result<(), FetchError> {
        Err(lost)
    }

    /// A run of segments has been written: the reader may be told.
    fn flush(&mut self) -> Result<(), FetchError> {
        Ok(())
    }

    /// Called some times a second. An error ends the transfer.
    fn look(&mut self, _: &VerifyQueue<FetchError>) -> Result<(), FetchError> {
        Ok(())
    }

    /// Everything came.
    fn end(&mut self, _: &VerifyQueue<FetchError>) {}
}

/// A fetch under way.
pub(super) struct Job<'a> {
    shared: &'a Shared,
    verifier: Option<Verifier>,
    params: FetchParams,
    /// Returns why the job is to end, once nobody waits for its result.
    stopped: &'a dyn Fn() -> Option<CallError>,
    /// How many segments the object has, as a verified one said of an object whose end nobody knew.
    segments: Option<u64>,
    /// Drives the socket, if the job's thread does.
    here: Option<Here<'a, ConsumerRole>>,
}

impl<'a> Job<'a> {
    /// A job on a thread of its own.
    pub(super) fn new(
        shared: &'a Shared,
        params: FetchParams,
        stopped: &'a dyn Fn() -> Option<CallError>,
    ) -> Self {
        Job { shared, verifier: Some(shared.verifier()), params, stopped, segments: None, here: None }
    }

    /// A job on the thread that calls, which drives the socket unless somebody else does already.
    pub(super) fn here(
        shared: &'a Shared,
        params: FetchParams,
        stopped: &'a dyn Fn() -> Option<CallError>,
    ) -> Self {
        let mut job = Job::new(shared, params, stopped);
        job.here = shared.engine.drive_here();
        job
    }

    /// Asks a router on this host to tell from where Data come (IncomingFaceId), unless others use
    /// the socket too.
    pub(super) fn ask_for_origins(&mut self) -> Result<(), FetchError> {
        let Some(here) = &mut self.here else { return Ok(()) };
        Ok(here.with_connection(|connection| connection.ask_for_origins())?)
    }

    /// Why the job is to end, if it is.
    fn check_stopped(&self) -> Result<(), FetchError> {
        let closed = self.shared.engine.is_closed().then_some(CallError::Closed);
        (self.stopped)().or(closed).map_or(Ok(()), |why| Err(why.into()))
    }

    /// Tells who drives that there is something new; nothing to do where that is this thread.
    fn wake(&self) {
        if self.here.is_none() {
            self.shared.engine.wake();
        }
    }

    /// Asks no further ahead than by `octets`, of segments of `segment_octets`.
    pub(super) fn span(&mut self, octets: u64, segment_octets: Option<u64>) {
        let segments = octets.div_ceil(segment_octets.unwrap_or(SEGMENT_OCTETS)).max(1);
        let segments = usize::try_from(segments).unwrap_or(usize::MAX).min(STREAM_SPAN_MAX);
        let fetch = &mut self.params.read.fetch;
        fetch.span_max = fetch.span_max.min(segments);
        fetch.window_max = fetch.window_max.min(fetch.span_max);
    }

    /// Fetches what lies all over an object: begins with a window of so many pieces, if that is
    /// more than it would be, and does not take for a queue that some come from a cache and others
    /// do not.
    pub(super) fn spread(&mut self, pieces: usize) {
        let fetch = &mut self.params.read.fetch;
        fetch.window_initial = fetch.window_initial.max(pieces);
        fetch.congestion = fetch.congestion.without_delay();
    }

    /// How many segments the object has, if a segment that was fetched said so first.
    pub(super) fn segments(&self) -> Option<u64> {
        self.segments
    }

    /// Finds `name`.
    pub(super) fn find(&mut self, name: &Name) -> Result<Object, FetchError> {
        let read = self.params.read;
        let object =
            self.requesting(|asker, verifier| Discovery::new(asker, verifier, read).find(name.as_name()))?;
        for reason in object.reason.iter().chain(object.whole.as_ref().map(|whole| whole.reason())) {
            self.check_revocation(&reason.clone())?;
        }
        Ok(object)
    }

    /// Fetches `parts` of `object`, each of which begins behind the end of the one before.
    pub(super) fn transfer(
        &mut self,
        object: &Object,
        parts: &[Part],
        sink: &mut dyn ContentSink,
    ) -> Result<(), FetchError> {
        if let Some(whole) = &object.whole {
            sink.segment(0, whole.clone(), &mut Vec::new())?;
            return sink.flush();
        }
        let mut verifier = SegmentVerifier::new(object, parts, self.params.on_bad);
        let queue = Arc::new(VerifyQueue::new(verifier.first()));
        let shared = self.shared;
        shared.engine.order(Order::Transfer {
            object: Box::new(object.clone()),
            parts: parts.to_vec(),
            read: self.params.read,
            queue: queue.clone(),
        })?;
        let (helpers, counts) = (&shared.helpers, &shared.counts);
        let threads = self.params.verify_threads;
        let done = helpers.with(&queue, threads, |help| self.verify_all(&mut verifier, &queue, sink, help));
        self.wake();
        counts.backlog_most.fetch_max(queue.most() as u64, Ordering::Relaxed);
        counts.verify_helpers_most.fetch_max(helpers.most() as u64, Ordering::Relaxed);
        done
    }

    fn verify_all(
        &mut self,
        verifier: &mut SegmentVerifier,
        queue: &VerifyQueue<FetchError>,
        sink: &mut dyn ContentSink,
        help: &dyn Fn(),
    ) -> Result<(), FetchError> {
        let mut next = verifier.first();
        let mut told = next;
        let mut preparation = None;
        let mut used = Vec::new();
        // Who drives need not know of each run at once, unless it may be waiting for it.
        let tell_every = (self.params.read.fetch.span_max as u64 / 4).clamp(1, RUN_MAX as u64);
        while verifier.end() != Some(next) {
            self.check_stopped()?;
            sink.look(queue)?;
            let is_slow = matches!(verifier.preparation(), Some(Preparation::Signatures(_)));
            let Some(mut run) = self.run(queue, is_slow, &mut used, help)? else { continue };
            // What came behind the end was requested when nobody knew where it is.
            while verifier.end() != Some(next)
                && let Some(wire) = run.pop_front()
            {
                if wire.packet().is_empty() {
                    self.shared.counts.lost.fetch_add(1, Ordering::Relaxed);
                    let segment = verifier.segment_name(next).unwrap_or_default();
                    sink.gap(FetchError::Lost { segment })?;
                    next += 1;
                    continue;
                }
                match self.verify(verifier, next, wire, queue, sink, &mut used)? {
                    Next::On => next += 1,
                    Next::Again => {
                        queue.give_back(next, std::mem::take(&mut run));
                        self.wake();
                    }
                }
            }
            sink.flush()?;
            // In this order: what was given back is in the queue before anybody requests further
            // pieces.
            queue.hand_over(next);
            if preparation.as_ref() != Some(&verifier.preparation().cloned()) {
                preparation = Some(verifier.preparation().cloned());
                queue.prepare(verifier.preparation().cloned());
            }
            if next - told >= tell_every {
                told = next;
                self.wake();
            }
        }
        sink.end(queue);
        Ok(())
    }

    /// The next pieces, if some came within [`LOOK`]; `is_slow` where verifying them takes longer
    /// than receiving them.
    fn run(
        &mut self,
        queue: &VerifyQueue<FetchError>,
        is_slow: bool,
        used: &mut Vec<Vec<u8>>,
        help: &dyn Fn(),
    ) -> Result<Option<VecDeque<Piece>>, FetchError> {
        // Digests of what came in one turn are done in the time that waking a thread takes: on the
        // calling thread, unless its user wants more threads.
        let alone = self.here.is_some() && !is_slow && self.params.verify_threads == 0;
        let help: &dyn Fn() = if alone { &|| () } else { help };
        let wait = match &mut self.here {
            // What came is verified before more is received, while it is in the processor's cache
            // still. Where that takes long, packets are received between runs.
            Some(here) => {
                let is_ready = queue.is_ready();
                if is_slow || !is_ready {
                    here.turn(if is_ready { Duration::ZERO } else { LOOK })?;
                }
                Duration::ZERO
            }
            None => LOOK,
        };
        match queue.take(wait, used, help)? {
            Taken::Run(run) => Ok(Some(run)),
            Taken::Prepared | Taken::Nothing => Ok(None),
        }
    }

    fn verify(
        &mut self,
        segments: &mut SegmentVerifier,
        number: u64,
        wire: Piece,
        queue: &VerifyQueue<FetchError>,
        sink: &mut dyn ContentSink,
        used: &mut Vec<Vec<u8>>,
    ) -> Result<Next, FetchError> {
        let counts = self.shared.counts.clone();
        let mut wire = wire;
        for _ in 0..CERTIFICATES_MAX {
            let verifier = self.verifier.get_or_insert_with(|| self.shared.verifier());
            match segments.check(number, wire, verifier) {
                Checked::Segment { segment, data, last } => {
                    if !matches!(data.reason(), TrustReason::Manifest(_) | TrustReason::Unchecked) {
                        counts.signatures.fetch_add(1, Ordering::Relaxed);
                        self.check_revocation(data.reason())?;
                    }
                    if let Some(last) = last {
                        self.segments = Some(last.saturating_add(1));
                        queue.tell_last(last);
                        self.wake();
                    }
                    self.count(data.content().len());
                    sink.segment(segment, data, used)?;
                    return Ok(Next::On);
                }
                Checked::Unverified { data, .. } => {
                    counts.unverified.fetch_add(1, Ordering::Relaxed);
                    let content =
                        DataView::parse(&data).map(|view| view.content.to_vec()).unwrap_or_default();
                    self.count(content.len());
                    sink.write(content.into())?;
                    return Ok(Next::On);
                }
                Checked::Manifest(reason) => {
                    counts.signatures.fetch_add(1, Ordering::Relaxed);
                    self.check_revocation(&reason)?;
                    return Ok(Next::On);
                }
                Checked::Corrupt(refused) => {
                    counts.corrupt.fetch_add(1, Ordering::Relaxed);
                    self.report(refused)?;
                    return Ok(Next::Again);
                }
                Checked::Failed(error) => {
                    if matches!(error, ObjectError::Corrupt(_) | ObjectError::Untrusted(_)) {
                        counts.corrupt.fetch_add(1, Ordering::Relaxed);
                        self.report(error.refused_data())?;
                    }
                    return Err(error.into());
                }
                Checked::Need { certificate, data } => {
                    let name = DataView::parse(&data).map(|view| view.name.to_name()).unwrap_or_default();
                    let read = self.params.read;
                    self.requesting(|asker, verifier| {
                        Discovery::new(asker, verifier, read).supply(&certificate, &name)
                    })?;
                    wire = data.into();
                }
            }
        }
        let name = DataView::parse(wire.packet()).map(|view| view.name.to_name()).unwrap_or_default();
        Err(ObjectError::NoCertificate { certificate: name.clone(), name, fault: None }.into())
    }

    /// Says to the router which Data is not believed, so that the next answer is another's.
    fn report(&mut self, refused: Option<Name>) -> Result<(), FetchError> {
        let Some(refused) = refused else { return Ok(()) };
        self.requesting(|asker, _| {
            report_refused(asker, &refused);
            Ok(())
        })
    }

    fn count(&self, octets: usize) {
        self.shared.counts.segments.fetch_add(1, Ordering::Relaxed);
        self.shared.counts.octets.fetch_add(octets as u64, Ordering::Relaxed);
    }

    /// Runs `request`, which may request packets.
    pub(super) fn requesting<T>(
        &mut self,
        request: impl FnOnce(&mut Asker<'_, 'a>, &mut Verifier) -> Result<T, ObjectError>,
    ) -> Result<T, FetchError> {
        let verifier = self.verifier.get_or_insert_with(|| self.shared.verifier());
        let (shared, stopped) = (self.shared, self.stopped);
        let mut asker = Asker { shared, stopped, here: self.here.as_mut(), failed: None };
        let answer = request(&mut asker, verifier);
        match asker.failed {
            Some(failed) => Err(failed.into()),
            None => Ok(answer?),
        }
    }

    /// Refuses what a revoked certificate vouches for. Trust anchors are the user's own choice.
    pub(super) fn check_revocation(&mut self, reason: &TrustReason) -> Result<(), FetchError> {
        if self.params.revocation == Revocation::Off {
            return Ok(());
        }
        let Some([below @ .., _anchor]) = reason.chain().map(|chain| &chain.certificates[..]) else {
            return Ok(());
        };
        for name in below {
            let outcome = match self.shared.revocations.known(name) {
                Some(outcome) => outcome,
                None => {
                    let outcome = self.ask_revocation(name)?;
                    self.shared.counts.revocations_checked.fetch_add(1, Ordering::Relaxed);
                    self.shared.revocations.learn(name.clone(), outcome);
                    outcome
                }
            };
            outcome.judge(name, self.params.revocation)?;
        }
        Ok(())
    }

    fn ask_revocation(&mut self, name: &Name) -> Result<Outcome, FetchError> {
        let verifier = self.verifier.get_or_insert_with(|| self.shared.verifier());
        let Some(certificate) = verifier.certificate(name.as_name()).cloned() else {
            return Ok(Outcome::Unknown);
        };
        let Ok(asked) = revocation_prefix(name.as_name()) else { return Ok(Outcome::Unknown) };
        let interest = InterestBuilder::new(asked.clone()).can_be_prefix().must_be_fresh();
        let interest = interest.lifetime_ms(LIFETIME_MS);
        let read = ReadOptions { attempts: 1, ..self.params.read };
        let answer = self.requesting(|asker, verifier| {
            Discovery::new(asker, verifier, read).packet(&interest, asked.as_name())
        });
        match answer {
            Ok(data) => match RevocationStatement::read(&data, &certificate) {
                Ok(RevocationStatement { status: RevocationStatus::Good, .. }) => Ok(Outcome::Good),
                Ok(RevocationStatement { status: RevocationStatus::Revoked(_), .. }) => Ok(Outcome::Revoked),
                Err(error) => {
                    tracing::warn!(%name, %error, "no statement whether this certificate is revoked");
                    Ok(Outcome::Unknown)
                }
            },
            Err(FetchError::Call(stopped)) => Err(stopped.into()),
            Err(error) => {
                tracing::debug!(%name, %error, "not known whether this certificate is revoked");
                Ok(Outcome::Unknown)
            }
        }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if let Some(verifier) = self.verifier.take() {
            self.shared.keep(verifier);
        }
    }
}

/// What follows on a piece.
enum Next {
    /// The next one.
    On,
    /// The same, once it came again.
    Again,
}

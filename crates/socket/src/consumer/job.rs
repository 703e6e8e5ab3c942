//! Fetches one object: finds it, verifies its pieces (segments and manifests) in runs as they
//! arrive, and delivers their content. A job has a thread of its own, while the socket's thread
//! drives the connection. Otherwise it runs on the caller's thread, which also drives the
//! connection unless another thread does ([`DrivingCall`]).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use namely_security::{
    Preparation, RevocationStatement, RevocationStatus, TrustReason, Verified, Verifier, revocation_prefix,
};
use namely_transport::connection::Answer;
use namely_transport::object::{
    Discovery, Object, ObjectError, OnBadSegment, PAUSES_MAX, Part, PieceOutcome, ReadOptions,
    SegmentVerifier, again_after_ns, full_name, report_refused,
};
use namely_transport::publish::SEGMENT_OCTETS_DEFAULT;
use namely_wire::rdr::Metadata;
use namely_wire::{DataView, InterestBuilder, NackReason, Name, PACKET_OCTETS_MAX};

use super::queue::{LOOK, NextPieces, Piece, RUN_MAX, VerifyQueue};
use super::revocation::{QueryResult, query_options};
use super::role::{ConsumerRole, Order};
use super::shared::{PacketRequester, Shared};
use crate::engine::DrivingCall;
use crate::error::{CallError, FetchError};
use crate::options::{ConsumerOptions, Revocation, STREAM_OCTETS_FIRST};

/// Octets of a segment if the metadata does not give its size.
pub(super) const SEGMENT_OCTETS: u64 = SEGMENT_OCTETS_DEFAULT as u64;

/// Maximum memory allocated in advance for the content of an object, octets.
pub(super) const SET_ASIDE_OCTETS_MAX: u64 = 64 << 20;

/// Maximum number of certificates fetched to verify one piece.
const CERTIFICATES_MAX: usize = 16;

/// Time for another copy of a piece that a revoked key signed: that of the pauses between requests,
/// and as long again. Where its producer is gone, the revocation is the error and not the silence.
const REPLACEMENT: Duration = Duration::from_secs(3);

/// The options of a fetch at the time of the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchParams {
    pub(super) read: ReadOptions,
    /// Number of verifying threads, including the fetch's own. 0: one for each processor, within
    /// limits.
    pub(super) verify_threads: usize,
    pub(super) on_bad: OnBadSegment,
    pub(super) revocation: Revocation,
    /// Octets that a stream buffers for its reader.
    pub(super) read_ahead: usize,
}

impl FetchParams {
    pub(super) fn of(options: &ConsumerOptions) -> Self {
        let mut read = options.read;
        let fetch = &mut read.fetch;
        fetch.span_octets_max = options.backlog_octets as u64;
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

/// The content of a segment, in the memory of its packet, so that delivery copies nothing.
#[derive(Debug)]
pub(super) struct Content {
    octets: Vec<u8>,
    range: Range<usize>,
}

impl Content {
    pub(super) fn of(data: Verified<Vec<u8>>) -> Self {
        let (octets, range) = data.into_content();
        Content { octets, range }
    }

    /// Skips the first `skip` octets, and subtracts the skipped number from `skip`.
    pub(super) fn pass_by(&mut self, skip: &mut u64) {
        let skipped = self.range.len().min(usize::try_from(*skip).unwrap_or(usize::MAX));
        *skip -= skipped as u64;
        self.range.start += skipped;
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.octets[self.range.clone()]
    }
}

impl From<Vec<u8>> for Content {
    fn from(octets: Vec<u8>) -> Self {
        Content { range: 0..octets.len(), octets }
    }
}

/// Receives content in order.
pub(super) trait ContentSink {
    /// Receives the content of a segment.
    fn write(&mut self, content: Content) -> Result<(), FetchError>;

    /// Receives a verified segment. An implementation that no longer needs the memory of the
    /// segment adds it to `used`.
    fn segment(
        &mut self,
        _: u64,
        data: Verified<Vec<u8>>,
        _used: &mut Vec<Vec<u8>>,
    ) -> Result<(), FetchError> {
        self.write(Content::of(data))
    }

    /// Receives the loss of a segment, with its reason `lost`. An error ends the transfer.
    fn gap(&mut self, lost: FetchError) -> Result<(), FetchError> {
        Err(lost)
    }

    /// Called after a run of segments was written. The implementation may wake the reader.
    fn flush(&mut self) -> Result<(), FetchError> {
        Ok(())
    }

    /// Called several times a second. An error ends the transfer.
    fn look(&mut self, _: &VerifyQueue<FetchError>) -> Result<(), FetchError> {
        Ok(())
    }

    /// Called after the last segment.
    fn end(&mut self, _: &VerifyQueue<FetchError>) {}
}

/// A running fetch.
pub(super) struct Job<'a> {
    shared: &'a Shared,
    verifier: Option<Verifier>,
    params: FetchParams,
    /// Returns the reason to end the job, if there is one: its result is no longer awaited, or its
    /// timeout passed.
    stopped: &'a dyn Fn() -> Option<CallError>,
    /// Number of segments of the object, once a verified segment has reported the last one.
    segments: Option<u64>,
    /// Drives the socket if the job runs on the calling thread.
    here: Option<DrivingCall<'a, ConsumerRole>>,
    /// The piece that is requested again because a revoked key signed it.
    revoked: Option<RevokedPiece>,
}

/// A piece that a revoked key signed. Another copy of it was requested past the caches.
struct RevokedPiece {
    certificate: Name,
    until: Instant,
}

impl RevokedPiece {
    fn error(&self) -> FetchError {
        FetchError::Revoked { certificate: self.certificate.clone() }
    }
}

impl<'a> Job<'a> {
    /// Creates a job on a thread of its own.
    pub(super) fn new(
        shared: &'a Shared,
        params: FetchParams,
        stopped: &'a dyn Fn() -> Option<CallError>,
    ) -> Self {
        let verifier = Some(shared.verifier());
        Job { shared, verifier, params, stopped, segments: None, here: None, revoked: None }
    }

    /// Creates a job on the calling thread, which drives the socket unless another thread drives it
    /// already.
    pub(super) fn here(
        shared: &'a Shared,
        params: FetchParams,
        stopped: &'a dyn Fn() -> Option<CallError>,
    ) -> Self {
        let mut job = Job::new(shared, params, stopped);
        job.here = shared.engine.drive_inline();
        job
    }

    /// Requests IncomingFaceId from a router on this host, unless other threads use the socket,
    /// too.
    pub(super) fn request_origins(&mut self) -> Result<(), FetchError> {
        let Some(here) = &mut self.here else { return Ok(()) };
        Ok(here.with_connection(|connection| connection.request_origins())?)
    }

    /// Returns an error if the job must end.
    fn check_stopped(&self) -> Result<(), FetchError> {
        let closed = self.shared.engine.is_closed().then_some(CallError::Closed);
        (self.stopped)().or(closed).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Notifies the driving thread. Does nothing if this thread drives.
    fn wake(&self) {
        if self.here.is_none() {
            self.shared.engine.wake();
        }
    }

    /// Limits the packets requested ahead of a stream to `octets`.
    pub(super) fn span(&mut self, octets: u64) {
        let fetch = &mut self.params.read.fetch;
        fetch.span_octets_max = fetch.span_octets_max.min(octets);
        fetch.span_octets_first = fetch.span_octets_first.min(STREAM_OCTETS_FIRST as u64);
    }

    /// Prepares a fetch of pieces scattered over an object. The congestion window begins with at
    /// least `pieces`. Delay is no congestion signal here, because pieces from a cache and pieces
    /// from the producer differ in delay without any queue.
    pub(super) fn spread(&mut self, pieces: usize) {
        let fetch = &mut self.params.read.fetch;
        fetch.window_initial = fetch.window_initial.max(pieces);
        fetch.congestion = fetch.congestion.without_delay();
    }

    /// The number of segments, if a verified segment has reported the last one.
    pub(super) fn segments(&self) -> Option<u64> {
        self.segments
    }

    /// Finds the object `name`, and checks the revocation status of the certificates that
    /// authenticate it. A description that a revoked key signed may come from a cache, although the
    /// producer has another key by now, so it is requested again after growing pauses.
    pub(super) fn find(&mut self, name: &Name) -> Result<Object, FetchError> {
        let mut object = self.discover(name)?;
        let mut pauses = 0;
        while let Err(error) = self.check_object(&object) {
            if pauses == PAUSES_MAX || !matches!(error, FetchError::Revoked { .. }) {
                return Err(error);
            }
            self.report(object.whole.as_ref().map(full_name))?;
            std::thread::sleep(Duration::from_nanos(again_after_ns(pauses)));
            pauses += 1;
            self.check_stopped()?;
            object = match self.discover(name) {
                // No other copy arrived, so the revocation is the result.
                Err(FetchError::Object(gone)) if !matches!(gone, ObjectError::NotFound { .. }) => {
                    return Err(error);
                }
                found => found?,
            };
        }
        Ok(object)
    }

    /// [`Job::find`] before a request for the object's content.
    pub(super) fn find_content(&mut self, name: &Name) -> Result<Object, FetchError> {
        let object = self.find(name)?;
        // The metadata of a directory leads to its listing, whose metadata has the directory's mode
        // too.
        let is_directory = object.metadata.as_ref().is_some_and(Metadata::is_directory);
        if is_directory && object.name.as_name().without_last(1) != name.as_name() {
            return Err(ObjectError::IsDirectory { name: name.clone() }.into());
        }
        Ok(object)
    }

    fn discover(&mut self, name: &Name) -> Result<Object, FetchError> {
        let read = self.params.read;
        self.requesting(|requester, verifier| Discovery::new(requester, verifier, read).find(name.as_name()))
    }

    fn check_object(&mut self, object: &Object) -> Result<(), FetchError> {
        for reason in object.reason.iter().chain(object.whole.as_ref().map(|whole| whole.reason())) {
            self.check_revocation(reason)?;
        }
        Ok(())
    }

    /// Fetches `parts` of `object`. Each part begins after the end of the previous one.
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
        let mut notified = next;
        let mut preparation = None;
        let mut used = Vec::new();
        // The driving thread is notified at least once in a quarter of the span, not after each
        // run. It requests no further pieces while the span is full.
        let fetch = &self.params.read.fetch;
        let span_octets = fetch.span_octets_first.min(fetch.span_octets_max);
        let notify_every = (span_octets / (4 * PACKET_OCTETS_MAX as u64)).clamp(1, RUN_MAX as u64);
        while verifier.end() != Some(next) {
            self.check_stopped()?;
            self.check_replaced()?;
            sink.look(queue)?;
            let is_slow = matches!(verifier.preparation(), Some(Preparation::Signatures(_)));
            let run = self.run(queue, is_slow, &mut used, help);
            let Some(mut run) = run.map_err(|error| self.cause(error))? else { continue };
            // A run may contain pieces after the end, because they were requested while the end was
            // unknown.
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
                    NextStep::On => (next, self.revoked) = (next + 1, None),
                    NextStep::Again => {
                        queue.give_back(next, std::mem::take(&mut run));
                        self.wake();
                    }
                }
            }
            sink.flush()?;
            // This follows `give_back`: returned pieces must be in the queue before further pieces
            // are requested.
            queue.hand_over(next);
            if preparation.as_ref() != Some(&verifier.preparation().cloned()) {
                preparation = Some(verifier.preparation().cloned());
                queue.prepare(verifier.preparation().cloned());
            }
            if next - notified >= notify_every {
                notified = next;
                self.wake();
            }
        }
        sink.end(queue);
        Ok(())
    }

    /// Returns the next pieces, if some arrived within [`LOOK`]. `is_slow` is set if verifying them
    /// takes longer than receiving them.
    fn run(
        &mut self,
        queue: &VerifyQueue<FetchError>,
        is_slow: bool,
        used: &mut Vec<Vec<u8>>,
        help: &dyn Fn(),
    ) -> Result<Option<VecDeque<Piece>>, FetchError> {
        // Waking a thread takes as long as computing the digests of the packets received in one
        // round. The calling thread therefore computes them alone, unless the option
        // `verify_threads` is set.
        let alone = self.here.is_some() && !is_slow && self.params.verify_threads == 0;
        let help: &dyn Fn() = if alone { &|| () } else { help };
        let wait = match &mut self.here {
            // Pieces are verified before more are received, while they are still in the processor's
            // cache. If verification is slow, packets are received between runs.
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
            NextPieces::Run(run) => Ok(Some(run)),
            NextPieces::Prepared | NextPieces::Nothing => Ok(None),
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
    ) -> Result<NextStep, FetchError> {
        let counts = self.shared.counts.clone();
        let mut wire = wire;
        for _ in 0..CERTIFICATES_MAX {
            let verifier = self.verifier.get_or_insert_with(|| self.shared.verifier());
            match segments.check(number, wire, verifier) {
                PieceOutcome::Segment { segment, data, last } => {
                    if !matches!(data.reason(), TrustReason::Manifest(_) | TrustReason::Unchecked)
                        && !self.check_signed(segments, number, last.is_some(), &data)?
                    {
                        return Ok(NextStep::Again);
                    }
                    if let Some(last) = last {
                        self.segments = Some(last.saturating_add(1));
                        queue.set_last_segment(last);
                        self.wake();
                    }
                    self.count(data.content().len());
                    sink.segment(segment, data, used)?;
                    return Ok(NextStep::On);
                }
                PieceOutcome::Unverified { data, .. } => {
                    counts.unverified.fetch_add(1, Ordering::Relaxed);
                    let content =
                        DataView::parse(&data).map(|view| view.content.to_vec()).unwrap_or_default();
                    self.count(content.len());
                    sink.write(content.into())?;
                    return Ok(NextStep::On);
                }
                PieceOutcome::Manifest(data) => {
                    let is_valid = self.check_signed(segments, number, false, &data)?;
                    return Ok(if is_valid { NextStep::On } else { NextStep::Again });
                }
                PieceOutcome::Corrupt(refused) => {
                    counts.corrupt.fetch_add(1, Ordering::Relaxed);
                    self.report(refused)?;
                    return Ok(NextStep::Again);
                }
                PieceOutcome::Failed(error) => {
                    if matches!(error, ObjectError::Corrupt(_) | ObjectError::Untrusted(_)) {
                        counts.corrupt.fetch_add(1, Ordering::Relaxed);
                        self.report(error.refused_data())?;
                    }
                    return Err(error.into());
                }
                PieceOutcome::Need { certificate, data } => {
                    let name = DataView::parse(&data).map(|view| view.name.to_name()).unwrap_or_default();
                    let read = self.params.read;
                    self.requesting(|requester, verifier| {
                        Discovery::new(requester, verifier, read).supply(&certificate, &name)
                    })?;
                    wire = data.into();
                }
            }
        }
        let name = DataView::parse(wire.packet()).map(|view| view.name.to_name()).unwrap_or_default();
        Err(ObjectError::NoCertificate { certificate: name.clone(), name, fault: None }.into())
    }

    /// Checks the keys that authenticate piece `number`, which has a signature of its own. Returns
    /// false if one was revoked and another copy was requested past the caches. `named_last` is
    /// true if the piece named the last segment.
    fn check_signed(
        &mut self,
        segments: &mut SegmentVerifier,
        number: u64,
        named_last: bool,
        data: &Verified,
    ) -> Result<bool, FetchError> {
        self.shared.counts.signatures.fetch_add(1, Ordering::Relaxed);
        match self.check_revocation(data.reason()) {
            Err(FetchError::Revoked { certificate }) if segments.take_back(number, named_last) => {
                self.shared.counts.corrupt.fetch_add(1, Ordering::Relaxed);
                let until = Instant::now() + REPLACEMENT;
                self.revoked.get_or_insert(RevokedPiece { certificate, until });
                self.report(Some(full_name(data)))?;
                Ok(false)
            }
            checked => checked.map(|()| true),
        }
    }

    /// Returns an error if the other copy of a piece is late.
    fn check_replaced(&self) -> Result<(), FetchError> {
        match &self.revoked {
            Some(piece) if Instant::now() >= piece.until => Err(piece.error()),
            _ => Ok(()),
        }
    }

    /// Returns the reason for which no further piece arrives, given the `error` of the requests.
    fn cause(&self, error: FetchError) -> FetchError {
        match (&self.revoked, error) {
            (Some(piece), FetchError::Object(_)) => piece.error(),
            (_, error) => error,
        }
    }

    /// Sends the Interest `wire` once, and waits for its answer.
    pub(super) fn send(&mut self, wire: Vec<u8>) -> Result<Answer, FetchError> {
        let (shared, stopped) = (self.shared, self.stopped);
        let mut requester = PacketRequester { shared, stopped, here: self.here.as_mut(), failed: None };
        Ok(requester.send(wire)?)
    }

    /// Reports the refused Data to the router, so that the next answer comes from another source.
    pub(super) fn report(&mut self, refused: Option<Name>) -> Result<(), FetchError> {
        let Some(refused) = refused else { return Ok(()) };
        self.requesting(|requester, _| {
            report_refused(requester, &refused);
            Ok(())
        })
    }

    fn count(&self, octets: usize) {
        self.shared.counts.segments.fetch_add(1, Ordering::Relaxed);
        self.shared.counts.octets.fetch_add(octets as u64, Ordering::Relaxed);
    }

    /// Runs `request`, which may request packets from the network.
    pub(super) fn requesting<T>(
        &mut self,
        request: impl FnOnce(&mut PacketRequester<'_, 'a>, &mut Verifier) -> Result<T, ObjectError>,
    ) -> Result<T, FetchError> {
        let verifier = self.verifier.get_or_insert_with(|| self.shared.verifier());
        let (shared, stopped) = (self.shared, self.stopped);
        let mut requester = PacketRequester { shared, stopped, here: self.here.as_mut(), failed: None };
        let answer = request(&mut requester, verifier);
        match requester.failed {
            Some(failed) => Err(failed.into()),
            None => Ok(answer?),
        }
    }

    /// Refuses data signed under a revoked certificate. Trust anchors are the user's own choice and
    /// are not checked.
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
                    let result = self.query_revocation(name)?;
                    self.shared.counts.revocations_checked.fetch_add(1, Ordering::Relaxed);
                    self.shared.revocations.learn(name.clone(), result)
                }
            };
            outcome.judge(name, self.params.revocation)?;
        }
        Ok(())
    }

    fn query_revocation(&mut self, name: &Name) -> Result<QueryResult, FetchError> {
        let verifier = self.verifier.get_or_insert_with(|| self.shared.verifier());
        let Some(certificate) = verifier.certificate(name.as_name()).cloned() else {
            return Ok(QueryResult::Silent);
        };
        let Ok(prefix) = revocation_prefix(name.as_name()) else { return Ok(QueryResult::Silent) };
        let read = query_options(self.params.read);
        let interest = InterestBuilder::new(prefix.clone()).can_be_prefix().must_be_fresh();
        let interest = interest.lifetime_ms(read.lifetime_ms);
        let answer = self.requesting(|requester, verifier| {
            Discovery::new(requester, verifier, read).packet(&interest, prefix.as_name())
        });
        match answer {
            Ok(data) => match RevocationStatement::read(&data, &certificate) {
                Ok(RevocationStatement { status: RevocationStatus::Good, .. }) => Ok(QueryResult::Good),
                Ok(RevocationStatement { status: RevocationStatus::Revoked(_), .. }) => {
                    Ok(QueryResult::Revoked)
                }
                Err(error) => {
                    tracing::warn!(%name, %error, "no statement whether this certificate is revoked");
                    Ok(QueryResult::Silent)
                }
            },
            Err(FetchError::Call(stopped)) => Err(stopped.into()),
            Err(FetchError::Object(ObjectError::Refused { reason: NackReason::NoRoute, .. })) => {
                tracing::debug!(%name, "no route leads to statements whether this certificate is revoked");
                Ok(QueryResult::Unrouted)
            }
            Err(error) => {
                tracing::debug!(%name, %error, "not known whether this certificate is revoked");
                Ok(QueryResult::Silent)
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

/// The step after a piece.
enum NextStep {
    /// Continue with the next piece.
    On,
    /// Request the same piece again.
    Again,
}

//! Fetching one object, on a thread of its own: find it, check its pieces in runs as they come, hand them over.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_security::revocation::{Statement, Status, revocation_prefix};
use namely_security::{TrustReason, Verified, Verifier};
use namely_transport::object::backlog::{Backlog, Piece, RUN_MAX, Stopped};
use namely_transport::object::{
    Checked, Checking, Finder, Object, ObjectError, OnBadSegment, Part, ReadOptions,
};
use namely_transport::publish::SEGMENT_OCTETS_DEFAULT;
use namely_wire::{DataView, InterestBuilder, Name};

use super::revocation::{LIFETIME_MS, Outcome};
use super::role::Order;
use super::shared::{Asker, Shared};
use crate::error::{CallError, FetchError};
use crate::options::{ConsumerOptions, Revocation};

/// Segments of a stream that are asked for ahead of what was verified, however small they are.
const STREAM_SPAN_MAX: usize = 512;

/// Octets of a segment where nobody says how large they are.
pub(super) const SEGMENT_OCTETS: u64 = SEGMENT_OCTETS_DEFAULT as u64;

/// Certificates fetched for one object at most.
const CERTIFICATES_MAX: usize = 16;

/// How an object is fetched: options as they were when the call was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) read: ReadOptions,
    pub(super) on_bad: OnBadSegment,
    pub(super) revocation: Revocation,
    /// Octets that a stream holds for its reader.
    pub(super) read_ahead: usize,
}

impl How {
    pub(super) fn of(options: &ConsumerOptions) -> Self {
        let mut read = options.read;
        let fetch = &mut read.fetch;
        fetch.span_max = options.backlog_segments;
        fetch.window_max = fetch.window_max.min(fetch.span_max);
        if !options.reliable {
            fetch.give_up_ns = Some(read.lifetime_ms.saturating_mul(1_000_000));
            read.attempts = 1;
        }
        How {
            read,
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
    fn of(data: Verified<Vec<u8>>) -> Self {
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
pub(super) trait Sink {
    /// Takes the content of a segment.
    fn write(&mut self, content: Content) -> Result<(), FetchError>;

    /// A segment is lost for good, as `lost` says. An error ends the transfer.
    fn gap(&mut self, lost: FetchError) -> Result<(), FetchError> {
        Err(lost)
    }

    /// A run of segments has been written: the reader may be told.
    fn flush(&mut self) -> Result<(), FetchError> {
        Ok(())
    }
}

/// A thread that fetches.
pub(super) struct Job<'a> {
    shared: &'a Shared,
    verifier: Option<Verifier>,
    how: How,
    given_up: &'a dyn Fn() -> bool,
    /// How many segments the object has, as a verified one said of an object whose end nobody knew.
    segments: Option<u64>,
}

impl<'a> Job<'a> {
    pub(super) fn new(shared: &'a Shared, how: How, given_up: &'a dyn Fn() -> bool) -> Self {
        Job { shared, verifier: Some(shared.verifier()), how, given_up, segments: None }
    }

    /// Asks no further ahead than by `octets`, of segments of `segment_octets`.
    pub(super) fn span(&mut self, octets: u64, segment_octets: Option<u64>) {
        let segments = octets.div_ceil(segment_octets.unwrap_or(SEGMENT_OCTETS)).max(1);
        let segments = usize::try_from(segments).unwrap_or(usize::MAX).min(STREAM_SPAN_MAX);
        let fetch = &mut self.how.read.fetch;
        fetch.span_max = fetch.span_max.min(segments);
        fetch.window_max = fetch.window_max.min(fetch.span_max);
    }

    /// How many segments the object has, if a segment that was fetched said so first.
    pub(super) fn segments(&self) -> Option<u64> {
        self.segments
    }

    /// Finds `name`.
    pub(super) fn find(&mut self, name: &Name) -> Result<Object, FetchError> {
        let read = self.how.read;
        let object =
            self.asking(|asker, verifier| Finder::new(asker, verifier, read).find(name.as_name()))?;
        for reason in object.reason.iter().chain(object.whole.as_ref().map(|whole| whole.reason())) {
            self.check_revocation(&reason.clone())?;
        }
        Ok(object)
    }

    /// Fetches `part` of `object`.
    pub(super) fn transfer(
        &mut self,
        object: &Object,
        part: Part,
        sink: &mut dyn Sink,
    ) -> Result<(), FetchError> {
        if let Some(whole) = &object.whole {
            sink.write(whole.content().to_vec().into())?;
            return sink.flush();
        }
        let mut checking = Checking::new(object, part, self.how.on_bad);
        let backlog = Arc::new(Backlog::new(checking.first()));
        let (object, read) = (Box::new(object.clone()), self.how.read);
        self.shared.engine.order(Order::Transfer { object, part, read, backlog: backlog.clone() })?;
        let (helpers, counts) = (&self.shared.helpers, &self.shared.counts);
        let threads = read.verify_threads;
        let done =
            helpers.with(&backlog, threads, |help| self.check_all(&mut checking, &backlog, sink, help));
        self.shared.engine.wake();
        counts.backlog_most.fetch_max(backlog.most() as u64, Ordering::Relaxed);
        counts.verify_helpers_most.fetch_max(helpers.most() as u64, Ordering::Relaxed);
        done
    }

    fn check_all(
        &mut self,
        checking: &mut Checking,
        backlog: &Backlog<FetchError>,
        sink: &mut dyn Sink,
        help: &dyn Fn(),
    ) -> Result<(), FetchError> {
        let (shared, given_up) = (self.shared, self.given_up);
        let given_up = || given_up() || shared.engine.is_closed();
        let mut next = checking.first();
        let mut told = next;
        let mut preparation = None;
        // The socket's thread need not know of each run at once, unless it may be waiting for it.
        let tell_every = (self.how.read.fetch.span_max as u64 / 4).clamp(1, RUN_MAX as u64);
        while checking.end() != Some(next) {
            let mut run = match backlog.take(&given_up, help) {
                Ok(run) => run,
                Err(Stopped::Ended(error)) => return Err(error),
                Err(Stopped::GivenUp) => return Err(CallError::Closed.into()),
            };
            // What came behind the end was asked for when nobody knew where it is.
            while checking.end() != Some(next)
                && let Some(wire) = run.pop_front()
            {
                if wire.packet().is_empty() {
                    self.shared.counts.lost.fetch_add(1, Ordering::Relaxed);
                    let segment = checking.segment_name(next).unwrap_or_default();
                    sink.gap(FetchError::Lost { segment })?;
                    next += 1;
                    continue;
                }
                match self.check(checking, next, wire, backlog, sink)? {
                    Next::On => next += 1,
                    Next::Again => {
                        backlog.give_back(next, std::mem::take(&mut run));
                        self.shared.engine.wake();
                    }
                }
            }
            sink.flush()?;
            backlog.hand_over(next);
            if preparation.as_ref() != Some(&checking.preparation().cloned()) {
                preparation = Some(checking.preparation().cloned());
                backlog.prepare(checking.preparation().cloned());
            }
            if next - told >= tell_every {
                told = next;
                self.shared.engine.wake();
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        checking: &mut Checking,
        number: u64,
        wire: Piece,
        backlog: &Backlog<FetchError>,
        sink: &mut dyn Sink,
    ) -> Result<Next, FetchError> {
        let counts = self.shared.counts.clone();
        let mut wire = wire;
        for _ in 0..CERTIFICATES_MAX {
            let verifier = self.verifier.get_or_insert_with(|| self.shared.verifier());
            match checking.check(number, wire, verifier) {
                Checked::Segment { data, last, .. } => {
                    if !matches!(data.reason(), TrustReason::Manifest(_) | TrustReason::Unchecked) {
                        counts.signatures.fetch_add(1, Ordering::Relaxed);
                        self.check_revocation(data.reason())?;
                    }
                    if let Some(last) = last {
                        self.segments = Some(last.saturating_add(1));
                        backlog.tell_last(last);
                        self.shared.engine.wake();
                    }
                    self.hand_out(Content::of(data), sink)?;
                    return Ok(Next::On);
                }
                Checked::Unverified { data, .. } => {
                    counts.unverified.fetch_add(1, Ordering::Relaxed);
                    let content =
                        DataView::parse(&data).map(|view| view.content.to_vec()).unwrap_or_default();
                    self.hand_out(content.into(), sink)?;
                    return Ok(Next::On);
                }
                Checked::Manifest(reason) => {
                    counts.signatures.fetch_add(1, Ordering::Relaxed);
                    self.check_revocation(&reason)?;
                    return Ok(Next::On);
                }
                Checked::Corrupt => {
                    counts.corrupt.fetch_add(1, Ordering::Relaxed);
                    return Ok(Next::Again);
                }
                Checked::Failed(error) => {
                    if matches!(error, ObjectError::Corrupt(_) | ObjectError::Untrusted(_)) {
                        counts.corrupt.fetch_add(1, Ordering::Relaxed);
                    }
                    return Err(error.into());
                }
                Checked::Need { certificate, data } => {
                    let name = DataView::parse(&data).map(|view| view.name.to_name()).unwrap_or_default();
                    let read = self.how.read;
                    self.asking(|asker, verifier| {
                        Finder::new(asker, verifier, read).supply(&certificate, &name)
                    })?;
                    wire = data.into();
                }
            }
        }
        let name = DataView::parse(wire.packet()).map(|view| view.name.to_name()).unwrap_or_default();
        Err(ObjectError::NoCertificate { certificate: name.clone(), name, fault: None }.into())
    }

    fn hand_out(&self, content: Content, sink: &mut dyn Sink) -> Result<(), FetchError> {
        self.shared.counts.segments.fetch_add(1, Ordering::Relaxed);
        self.shared.counts.octets.fetch_add(content.place.len() as u64, Ordering::Relaxed);
        sink.write(content)
    }

    /// Runs `ask`, which may ask for packets.
    pub(super) fn asking<T>(
        &mut self,
        ask: impl FnOnce(&mut Asker<'_>, &mut Verifier) -> Result<T, ObjectError>,
    ) -> Result<T, FetchError> {
        let verifier = self.verifier.get_or_insert_with(|| self.shared.verifier());
        let mut asker = Asker { shared: self.shared, given_up: self.given_up, stopped: None };
        let asked = ask(&mut asker, verifier);
        match asker.stopped {
            Some(stopped) => Err(stopped.into()),
            None => Ok(asked?),
        }
    }

    /// Refuses what a revoked certificate vouches for. Trust anchors are the user's own choice.
    pub(super) fn check_revocation(&mut self, reason: &TrustReason) -> Result<(), FetchError> {
        if self.how.revocation == Revocation::Off {
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
            outcome.judge(name, self.how.revocation)?;
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
        let read = ReadOptions { attempts: 1, ..self.how.read };
        let answer = self
            .asking(|asker, verifier| Finder::new(asker, verifier, read).packet(&interest, asked.as_name()));
        match answer {
            Ok(data) => match Statement::read(&data, &certificate) {
                Ok(Statement { status: Status::Good, .. }) => Ok(Outcome::Good),
                Ok(Statement { status: Status::Revoked(_), .. }) => Ok(Outcome::Revoked),
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

//! The work of reading: pieces come in any order, are verified in order, and go to the sink.
//!
//! A piece that comes in turn is verified and handed over from the receive buffer; one that comes early is
//! copied and waits, at most [`crate::fetch::Options::span_max`] of them.

use std::collections::VecDeque;

use namely_security::manifest::SegmentFault;
use namely_security::{
    MANIFEST_ENTRIES, Rejection, Verdict, Verified, VerifiedManifest, Verifier, Why, manifest_index,
    manifest_name,
};
use namely_wire::{ContentType, DataView, LpHeaders, Name, NameRef};

use super::layout::{Layout, Piece};
use super::progress::{Flow, Progress};
use super::{
    CERTIFICATES_MAX, Object, ObjectError, Reader, Sink, Vouching, fetch_certificate, wall_clock_ns,
};
use crate::connection::{Connection, Incoming, Packet};
use crate::fetch::{Arrival, Failure, Fetch, Taken};
use crate::segment::PieceInterest;

/// How often one piece may come and be wrong before the reading fails: a damaged copy in a cache is worked
/// around, a producer that makes wrong packets is not.
const CORRUPT_MAX: u32 = 3;

/// How often the watcher is told.
const WATCH_NS: u64 = 100_000_000;

/// The IncomingFaceId of Data from a router's content store (NFD reserves it, and namelyd follows).
const FACE_OF_CONTENT_STORE: u64 = 254;

/// Manifests kept: those of the group under way and of the next one, and a spare.
const MANIFESTS_MAX: usize = 3;

impl Object {
    /// Where a reading that wants `segment` starts: under manifests at the beginning of its group.
    pub fn first_segment(&self, segment: u64) -> u64 {
        Layout::of(self, segment).first_segment(segment)
    }
}

impl Layout {
    fn of(object: &Object, first_segment: u64) -> Self {
        match (object.vouching, object.segments) {
            (Vouching::Manifests, Some(segments)) => Layout::manifests(first_segment, segments),
            _ => Layout::Plain,
        }
    }
}

impl Reader<'_> {
    /// Reads `object` from [`Object::first_segment`] of `first_segment` on into `sink`; `watch` is told about
    /// ten times a second, and may stop it.
    pub fn read(
        &mut self,
        object: &Object,
        first_segment: u64,
        sink: &mut dyn Sink,
        watch: &mut dyn FnMut(&Progress) -> Flow,
    ) -> Result<Progress, ObjectError> {
        if let Some(whole) = &object.whole {
            return read_whole(whole, sink);
        }
        self.connection.ask_for_origins()?;
        let fetch = Fetch::new(self.options.fetch, self.connection.now_ns());
        let mut pull = Pull::new(object, first_segment, fetch, self.options.lifetime_ms, sink)?;
        let mut watch_at_ns = 0;
        let mut epoch = self.connection.epoch();
        loop {
            pull.ask(self.connection);
            let due_ns = pull.fetch.next_timeout_ns().min(watch_at_ns);
            self.connection.turn(due_ns, &mut |incoming, _| pull.take(&incoming, Some(self.verifier)))?;
            while let Some((certificate, name)) = pull.certificate_wanted()? {
                let (connection, verifier) = (&mut *self.connection, &mut *self.verifier);
                let mut keep = |incoming: Incoming<'_>, _: &mut _| pull.take(&incoming, None);
                fetch_certificate(connection, verifier, &self.options, &certificate, &name, &mut keep)?;
                pull.drain(verifier);
            }
            let now_ns = self.connection.now_ns();
            if epoch != self.connection.epoch() {
                epoch = self.connection.epoch();
                pull.fetch.on_reconnect(now_ns);
            }
            pull.fetch.expire(now_ns);
            if let Some(error) = pull.error.take() {
                return Err(error);
            }
            let complete = pull.fetch.is_complete();
            if complete || now_ns >= watch_at_ns {
                watch_at_ns = now_ns + WATCH_NS;
                let progress = pull.progress(now_ns);
                match watch(&progress) {
                    _ if complete => return Ok(progress),
                    Flow::Continue => {}
                    Flow::Stop => return Err(ObjectError::Stopped),
                }
            }
            pull.check_failure()?;
        }
    }
}

fn read_whole(whole: &Verified, sink: &mut dyn Sink) -> Result<Progress, ObjectError> {
    let octets = whole.content().len() as u64;
    sink.write(0, &whole.as_ref()).map_err(ObjectError::Sink)?;
    Ok(Progress {
        octets,
        octets_done: octets,
        octets_total: Some(octets),
        segments: 1,
        segments_total: Some(1),
        ..Progress::default()
    })
}

/// A reading under way.
struct Pull<'a> {
    object: &'a Object,
    layout: Layout,
    fetch: Fetch,
    segments: PieceInterest,
    manifests: PieceInterest,
    /// The piece to hand over next.
    next: u64,
    /// Pieces that wait, from `next` on.
    early: VecDeque<Option<Vec<u8>>>,
    known: VecDeque<VerifiedManifest>,
    /// The piece that came wrong last, and how often.
    corrupt: Option<(u64, u32)>,
    /// The certificate without which nothing goes on, and what needs it.
    needed: Option<(Name, Name)>,
    certificates: usize,
    error: Option<ObjectError>,
    sink: &'a mut dyn Sink,
    started_ns: Option<u64>,
    progress: Progress,
}

/// What became of a piece that was in turn.
enum Settled {
    HandedOver,
    Corrupt,
    Waits,
}

impl<'a> Pull<'a> {
    fn new(
        object: &'a Object,
        first_segment: u64,
        fetch: Fetch,
        lifetime_ms: u64,
        sink: &'a mut dyn Sink,
    ) -> Result<Self, ObjectError> {
        let layout = Layout::of(object, first_segment);
        let prefix = object.name.as_name();
        let of_manifests = manifest_name(prefix, 0);
        let start = layout.first_segment(first_segment);
        let skipped =
            object.metadata.as_ref().and_then(|m| m.segment_size_octets).unwrap_or(0).saturating_mul(start);
        let mut pull = Pull {
            object,
            layout,
            fetch,
            segments: PieceInterest::new(prefix, lifetime_ms),
            manifests: PieceInterest::new(of_manifests.as_name().without_last(1), lifetime_ms),
            next: 0,
            early: VecDeque::new(),
            known: VecDeque::new(),
            corrupt: None,
            needed: None,
            certificates: 0,
            error: None,
            sink,
            started_ns: None,
            progress: Progress {
                octets_done: skipped,
                octets_total: object.octets(),
                segments_total: object.segments,
                ..Progress::default()
            },
        };
        let pieces = layout.pieces(start, object.segments.unwrap_or(start));
        pull.next = pieces.start;
        pull.fetch.start_at(pieces.start);
        if object.segments.is_some() {
            pull.fetch.set_end(pieces.end.max(pieces.start)).map_err(|failure| pull.failed(failure))?;
        }
        Ok(pull)
    }

    /// Sends the Interests that may go out now.
    fn ask(&mut self, connection: &mut Connection) {
        let now_ns = connection.now_ns();
        self.started_ns.get_or_insert(now_ns);
        while let Some(number) = self.fetch.request(now_ns) {
            let fresh = self.corrupt.is_some_and(|(corrupt, _)| corrupt == number);
            let (template, piece) = match self.layout.piece(number) {
                Piece::Segment(segment) => (&self.segments, segment),
                Piece::Manifest(index) => (&self.manifests, index),
            };
            let nonce = connection.nonces().next();
            let octets = template.octets(piece, fresh);
            let composed = connection.outbox().compose(&LpHeaders::default(), octets, |buf| {
                template.write(piece, fresh, nonce, buf);
                Ok::<(), std::convert::Infallible>(())
            });
            match composed {
                Ok(()) => {}
                Err(never) => match never {},
            }
        }
    }

    /// Takes a packet in. Without a verifier at hand it is only kept.
    fn take(&mut self, incoming: &Incoming<'_>, verifier: Option<&mut Verifier>) {
        match incoming.packet {
            Packet::Data(data) => {
                let Some(number) = self.number(data.name) else { return };
                let arrival = Arrival {
                    now_ns: incoming.received_ns,
                    marked: incoming.headers.is_marked(),
                    from_cache: self.note_origin(incoming.headers),
                };
                if self.fetch.on_data(number, arrival) == Taken::New {
                    self.take_new(number, &data, verifier);
                }
            }
            Packet::Nack(interest, reason) => {
                if let Some(number) = self.number(interest.name) {
                    self.fetch.on_nack(number, reason, incoming.received_ns);
                }
            }
            Packet::Interest(_) => {}
        }
    }

    fn take_new(&mut self, number: u64, data: &DataView<'_>, verifier: Option<&mut Verifier>) {
        let in_turn = number == self.next && self.needed.is_none() && self.error.is_none();
        let Some(verifier) = verifier.filter(|_| in_turn) else { return self.keep(number, data.wire) };
        match self.settle(data, verifier) {
            Settled::HandedOver => {
                self.advance();
                self.drain(verifier);
            }
            Settled::Corrupt => self.fetch.on_corrupt(number),
            Settled::Waits => self.keep(number, data.wire),
        }
    }

    fn keep(&mut self, number: u64, wire: &[u8]) {
        let Some(i) = number.checked_sub(self.next).and_then(|i| usize::try_from(i).ok()) else { return };
        if self.early.len() <= i {
            self.early.resize(i + 1, None);
        }
        self.early[i] = Some(wire.to_vec());
    }

    /// Hands over what waited, up to the first gap.
    fn drain(&mut self, verifier: &mut Verifier) {
        while self.error.is_none() && self.needed.is_none() {
            let Some(wire) = self.early.front_mut().and_then(Option::take) else { return };
            let Ok(data) = DataView::parse(&wire) else { return self.fetch.on_corrupt(self.next) };
            match self.settle(&data, verifier) {
                Settled::HandedOver => self.advance(),
                Settled::Corrupt => return self.fetch.on_corrupt(self.next),
                Settled::Waits => {
                    if let Some(front) = self.early.front_mut() {
                        *front = Some(wire);
                    }
                    return;
                }
            }
        }
    }

    fn advance(&mut self) {
        self.next += 1;
        self.early.pop_front();
        self.fetch.advance(self.next);
    }

    /// Verifies the piece that is in turn, and hands it over if it is a segment.
    fn settle(&mut self, data: &DataView<'_>, verifier: &mut Verifier) -> Settled {
        match (self.layout.piece(self.next), self.object.vouching) {
            (Piece::Manifest(_), _) => self.settle_manifest(data, verifier),
            (Piece::Segment(segment), Vouching::Manifests) => self.settle_listed(segment, data),
            (Piece::Segment(segment), Vouching::Segments) => self.settle_signed(segment, data, verifier),
        }
    }

    fn settle_manifest(&mut self, data: &DataView<'_>, verifier: &mut Verifier) -> Settled {
        let verified = match verifier.verify(data.wire, wall_clock_ns()) {
            Verdict::Verified(verified) => verified,
            Verdict::NeedCertificate(needed) => return self.want(needed.certificate, data.name),
            Verdict::Rejected(rejection) => return self.rejected(rejection),
        };
        match VerifiedManifest::open(&verified) {
            Ok(manifest) => {
                if self.known.len() == MANIFESTS_MAX {
                    self.known.pop_front();
                }
                self.known.push_back(manifest);
                Settled::HandedOver
            }
            Err(error) => self.fail(ObjectError::Manifest { name: data.name.to_name(), error }),
        }
    }

    fn settle_listed(&mut self, segment: u64, data: &DataView<'_>) -> Settled {
        let covers = |manifest: &&VerifiedManifest| {
            manifest_index(manifest.segments().start) == manifest_index(segment)
        };
        let Some(manifest) = self.known.iter().find(covers) else {
            // The layout puts each manifest before its segments.
            let name = manifest_name(self.object.name.as_name(), segment / MANIFEST_ENTRIES);
            return self.fail(ObjectError::NoAnswer { name });
        };
        match manifest.verify(data.wire) {
            Ok(verified) => self.hand_over(segment, &verified),
            Err(rejection) => match rejection.why {
                SegmentFault::BadDigest | SegmentFault::Malformed(_) => {
                    self.came_wrong(ObjectError::Corrupt(rejection))
                }
                _ => self.fail(ObjectError::Corrupt(rejection)),
            },
        }
    }

    fn settle_signed(&mut self, segment: u64, data: &DataView<'_>, verifier: &mut Verifier) -> Settled {
        match verifier.verify(data.wire, wall_clock_ns()) {
            Verdict::Verified(_) if data.content_type == ContentType::Nack => {
                self.fail(ObjectError::NotFound { name: data.name.to_name() })
            }
            Verdict::Verified(verified) => self.hand_over(segment, &verified),
            Verdict::NeedCertificate(needed) => self.want(needed.certificate, data.name),
            Verdict::Rejected(rejection) => self.rejected(rejection),
        }
    }

    fn hand_over(&mut self, segment: u64, verified: &Verified<&[u8]>) -> Settled {
        // What is the last segment is believed of verified ones only.
        let end_is_due = self.fetch.end().is_none() || self.progress.segments == 0;
        if end_is_due
            && let Some(last) = verified.final_block_id().and_then(|last| last.segment())
            && let Err(failure) = self.note_last(last)
        {
            return self.fail(self.failed(failure));
        }
        if let Err(error) = self.sink.write(segment, verified) {
            return self.fail(ObjectError::Sink(error));
        }
        let octets = verified.content().len() as u64;
        self.progress.octets += octets;
        self.progress.octets_done += octets;
        self.progress.segments += 1;
        Settled::HandedOver
    }

    fn note_last(&mut self, last: u64) -> Result<(), Failure> {
        let segments = last.saturating_add(1);
        if let Some(known) = self.object.segments {
            let agrees = known == segments;
            return if agrees { Ok(()) } else { Err(Failure::EndMoved { known, claimed: segments }) };
        }
        self.progress.segments_total = Some(segments);
        self.fetch.set_end(segments)
    }

    fn rejected(&mut self, rejection: Rejection) -> Settled {
        match rejection.why {
            Why::BadSignature | Why::BadDigest | Why::Malformed(_) => {
                self.came_wrong(ObjectError::Untrusted(rejection))
            }
            _ => self.fail(ObjectError::Untrusted(rejection)),
        }
    }

    /// The piece in turn is not what it should be: another copy may be, unless that was tried often enough.
    fn came_wrong(&mut self, error: ObjectError) -> Settled {
        let times = match self.corrupt {
            Some((number, times)) if number == self.next => times + 1,
            _ => 1,
        };
        self.corrupt = Some((self.next, times));
        if times >= CORRUPT_MAX { self.fail(error) } else { Settled::Corrupt }
    }

    fn want(&mut self, certificate: Name, name: NameRef<'_>) -> Settled {
        self.needed = Some((certificate, name.to_name()));
        Settled::Waits
    }

    fn fail(&mut self, error: ObjectError) -> Settled {
        self.error = Some(error);
        Settled::Waits
    }

    /// The certificate to fetch before anything goes on.
    fn certificate_wanted(&mut self) -> Result<Option<(Name, Name)>, ObjectError> {
        let Some((certificate, name)) = self.needed.take() else { return Ok(None) };
        self.certificates += 1;
        if self.certificates > CERTIFICATES_MAX {
            return Err(ObjectError::NoCertificate { name, certificate, fault: None });
        }
        Ok(Some((certificate, name)))
    }

    fn check_failure(&self) -> Result<(), ObjectError> {
        self.fetch.failure().map_or(Ok(()), |failure| Err(self.failed(failure)))
    }

    fn failed(&self, failure: Failure) -> ObjectError {
        match failure {
            Failure::Refused { piece, reason } => ObjectError::Refused { name: self.name(piece), reason },
            Failure::Silence { piece, .. } | Failure::Unanswered { piece, .. } => {
                ObjectError::Fetch { name: self.name(piece), failure }
            }
            Failure::EndMoved { .. } => ObjectError::Fetch { name: self.object.name.clone(), failure },
        }
    }

    fn name(&self, number: u64) -> Name {
        match self.layout.piece(number) {
            Piece::Segment(segment) => self.object.name.join_segment(segment),
            Piece::Manifest(index) => manifest_name(self.object.name.as_name(), index),
        }
    }

    fn number(&self, name: NameRef<'_>) -> Option<u64> {
        let piece = match self.segments.piece(name) {
            Some(segment) => Piece::Segment(segment),
            None => Piece::Manifest(self.manifests.piece(name)?),
        };
        self.layout.number(piece)
    }

    /// Whether the router says that the Data came from its content store.
    fn note_origin(&mut self, headers: &LpHeaders) -> bool {
        let Some(face) = headers.incoming_face_id else { return false };
        let from_cache = face == FACE_OF_CONTENT_STORE;
        self.progress.origin_told += 1;
        self.progress.from_cache += u64::from(from_cache);
        from_cache
    }

    fn progress(&self, now_ns: u64) -> Progress {
        Progress {
            elapsed_ns: now_ns.saturating_sub(self.started_ns.unwrap_or(now_ns)),
            fetch: self.fetch.counters(),
            rtt_ns: self.fetch.rtt_ns(),
            window: self.fetch.window(),
            ..self.progress
        }
    }
}

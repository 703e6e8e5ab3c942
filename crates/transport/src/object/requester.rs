//! Requests the pieces of an object, and controls their order and rate. Nothing is verified here.
//! Received pieces are assumed to be valid until the verifier reports them as corrupt, so that
//! verifying signatures does not delay Interests (HT-19).

use std::convert::Infallible;

use namely_security::manifest_name;
use namely_wire::{DataView, LpHeaders, Name, NameRef, PACKET_OCTETS_MAX};

use super::descriptor::again_after_ns;
use super::layout::{Layout, Piece};
use super::{Object, ObjectError, Part, Progress, ReadOptions};
use crate::connection::{Connection, Incoming, Packet};
use crate::fetch::{Arrival, Counters, DataOutcome, Failure, Fetch, RateLimit, Share};
use crate::segment::PieceInterest;

/// The IncomingFaceId of Data from a router's content store (NFD reserves it, and namelyd follows).
const FACE_OF_CONTENT_STORE: u64 = 254;

/// Usual octets of a segment's packet beside its content: name, signature, headers.
const OVERHEAD_OCTETS: u64 = 500;

/// Requests the pieces of one object. The pieces are segments, and the manifests that list them.
/// They are numbered in the order of the requests.
#[derive(Debug)]
pub struct SegmentRequester {
    object: Name,
    layout: Layout,
    fetch: Fetch,
    segments: PieceInterest,
    manifests: PieceInterest,
    /// The last corrupt piece. Its Interests have MustBeFresh, to bypass stale copies in caches.
    corrupt: Option<CorruptPiece>,
    started_ns: Option<u64>,
    origin_told: u64,
    from_cache: u64,
    /// Octets per second, if they are limited.
    rate_max: Option<u64>,
    /// Octets that an Interest is expected to bring.
    expected_octets: u64,
}

/// A corrupt piece.
#[derive(Debug)]
struct CorruptPiece {
    number: u64,
    /// Number of corrupt copies.
    times: u32,
    again: RetryTime,
}

/// The time at which the piece is requested again.
#[derive(Debug, PartialEq, Eq)]
enum RetryTime {
    /// The time is not set yet, because [`SegmentRequester::on_corrupt`] does not know the present
    /// one.
    Soon,
    /// At this time of the connection's clock.
    At(u64),
    /// It was requested again.
    Requested,
}

impl SegmentRequester {
    /// Requests `parts` of `object`, starting at `now_ns`. Each part begins after the end of the
    /// previous one.
    ///
    /// # Errors
    /// [`ObjectError::Fetch`] if the end of the parts is contradictory. Parts beyond the end of the
    /// object are no error: the fetch is complete at once.
    pub fn new(
        object: &Object,
        parts: &[Part],
        options: &ReadOptions,
        now_ns: u64,
    ) -> Result<Self, ObjectError> {
        let layout = Layout::of(object, parts);
        let (first, end) = (layout.first(), layout.end(object.segments));
        let prefix = object.name.as_name();
        let of_manifests = manifest_name(prefix, 0);
        let mut requester = SegmentRequester {
            object: object.name.clone(),
            layout,
            fetch: Fetch::new(options.fetch, now_ns),
            segments: PieceInterest::new(prefix, options.lifetime_ms),
            manifests: PieceInterest::new(of_manifests.as_name().without_last(1), options.lifetime_ms),
            corrupt: None,
            started_ns: None,
            origin_told: 0,
            from_cache: 0,
            rate_max: options.rate_max,
            expected_octets: expected_octets(object),
        };
        requester.fetch.start_at(first);
        requester.fetch.set_piece_octets(requester.expected_octets);
        match end {
            // If the length of the object is unknown, the parts only limit the requests. A verified
            // segment later names the end.
            Some(end) if object.segments.is_some() => {
                requester.fetch.set_end(end.max(first)).map_err(|failure| requester.failed(failure))?;
            }
            stop => requester.fetch.stop_at(stop.unwrap_or(u64::MAX)),
        }
        Ok(requester)
    }

    /// Sets the share in the limits of octets of all fetches together.
    pub fn set_share(&mut self, share: Share) {
        self.fetch.set_share(share);
    }

    /// Octets between the first piece that is not delivered and the last that was requested.
    pub fn octets(&self) -> u64 {
        self.fetch.octets()
    }

    /// Sends the Interests that are allowed now. `limit` is that of all fetches together.
    pub fn send_interests(&mut self, connection: &mut Connection, limit: &mut RateLimit) {
        let now_ns = connection.now_ns();
        self.started_ns.get_or_insert(now_ns);
        self.request_again(now_ns);
        while self.is_within(limit, now_ns)
            && let Some(number) = self.fetch.request(now_ns)
        {
            if let Some(rate) = self.rate_max {
                limit.charge(now_ns, self.expected_octets, rate);
            }
            let fresh = self.corrupt.as_ref().is_some_and(|wrong| wrong.number == number);
            let (template, piece) = match self.layout.piece(number) {
                Piece::Segment(segment) => (&self.segments, segment),
                Piece::Manifest(index) => {
                    // A whole group of segments is useless without its manifest.
                    self.fetch.insist(number);
                    (&self.manifests, index)
                }
            };
            let nonce = connection.nonces().next();
            let octets = template.octets(piece, fresh);
            let composed = connection.outbox().compose(&LpHeaders::default(), octets, |buf| {
                template.write(piece, fresh, nonce, buf);
                Ok::<(), Infallible>(())
            });
            match composed {
                Ok(()) => {}
                Err(never) => match never {},
            }
        }
    }

    /// Returns true if `limit` allows an Interest now. Otherwise the fetch waits for it.
    fn is_within(&mut self, limit: &RateLimit, now_ns: u64) -> bool {
        let is_within = self.rate_max.is_none() || limit.ready_ns() <= now_ns;
        if !is_within {
            self.fetch.hold(now_ns, limit.ready_ns());
        }
        is_within
    }

    /// Processes a packet. Returns the number and the packet of a new piece.
    pub fn take<'a>(
        &mut self,
        incoming: &Incoming<'a>,
        limit: &mut RateLimit,
    ) -> Option<(u64, DataView<'a>)> {
        match incoming.packet {
            Packet::Data(data) => {
                let number = self.number(data.name)?;
                let origin = incoming.headers.incoming_face_id;
                let from_cache = origin == Some(FACE_OF_CONTENT_STORE);
                let arrival = Arrival {
                    now_ns: incoming.received_ns,
                    octets: data.wire.len(),
                    marked: incoming.headers.is_marked(),
                    // Without the field, loss detection assumes that it came over the network.
                    from_cache,
                };
                if self.fetch.on_data(number, arrival) != DataOutcome::New {
                    return None;
                }
                if let Some(rate) = self.rate_max {
                    limit.correct(self.expected_octets, data.wire.len() as u64, rate);
                }
                self.origin_told += u64::from(origin.is_some());
                self.from_cache += u64::from(from_cache);
                Some((number, data))
            }
            Packet::Nack(interest, reason) => {
                if let Some(number) = self.number(interest.name) {
                    self.fetch.on_nack(number, reason, incoming.received_ns);
                }
                None
            }
            Packet::Interest(_) => None,
        }
    }

    /// Records that all pieces before `number` were delivered, so that further ones may be
    /// requested.
    pub fn advance(&mut self, number: u64) {
        self.fetch.advance(number);
    }

    /// Returns the number of the next piece that is lost for good.
    pub fn lost_for_good(&mut self) -> Option<u64> {
        self.fetch.lost_for_good()
    }

    /// Records that piece `number` is corrupt.
    pub fn on_corrupt(&mut self, number: u64) {
        // Pieces are verified in order. If another piece is corrupt, the previous one was replaced
        // by a valid copy.
        let before = self.corrupt.take().filter(|wrong| wrong.number == number);
        let times = before.map_or(1, |wrong| wrong.times + 1);
        self.corrupt = Some(CorruptPiece { number, times, again: RetryTime::Soon });
    }

    /// Requests a corrupt piece again: at once for the first time, later after pauses, so that
    /// corrupt copies in caches become stale.
    fn request_again(&mut self, now_ns: u64) {
        let Some(wrong) = &mut self.corrupt else { return };
        if wrong.again == RetryTime::Soon {
            let pause_ns = wrong.times.checked_sub(2).map_or(0, again_after_ns);
            wrong.again = RetryTime::At(now_ns.saturating_add(pause_ns));
        }
        if matches!(wrong.again, RetryTime::At(at_ns) if at_ns <= now_ns) {
            wrong.again = RetryTime::Requested;
            self.fetch.on_corrupt(wrong.number);
        }
    }

    /// Records `last` as the last segment, from a verified segment. Only for objects of unknown
    /// length.
    ///
    /// # Errors
    /// [`ObjectError::Fetch`] if a different end is known already.
    pub fn set_last_segment(&mut self, last: u64) -> Result<(), ObjectError> {
        let end = self.layout.end(Some(last.saturating_add(1))).unwrap_or(u64::MAX);
        self.fetch.set_end(end).map_err(|failure| self.failed(failure))
    }

    /// Requests outstanding pieces again after a reconnection.
    pub fn on_reconnect(&mut self, now_ns: u64) {
        self.fetch.on_reconnect(now_ns);
    }

    /// Detects losses and timeouts.
    pub fn expire(&mut self, now_ns: u64) {
        self.fetch.expire(now_ns);
    }

    /// The time of the next [`SegmentRequester::send_interests`] and [`SegmentRequester::expire`],
    /// if no packet arrives before.
    pub fn next_timeout_ns(&mut self) -> u64 {
        let again_ns = match &self.corrupt {
            Some(CorruptPiece { again: RetryTime::At(at_ns), .. }) => *at_ns,
            _ => u64::MAX,
        };
        self.fetch.next_timeout_ns().min(again_ns)
    }

    /// Returns true if every piece arrived and was handed over.
    pub fn is_complete(&self) -> bool {
        self.fetch.is_complete()
    }

    /// Returns an error if the fetch has failed.
    ///
    /// # Errors
    /// [`ObjectError::Refused`] by the router; [`ObjectError::Fetch`] after too much silence or too
    /// many attempts.
    pub fn check(&self) -> Result<(), ObjectError> {
        self.fetch.failure().map_or(Ok(()), |failure| Err(self.failed(failure)))
    }

    /// The counters of the fetch.
    pub fn counters(&self) -> Counters {
        self.fetch.counters()
    }

    /// The progress as far as it is known here. The caller adds the delivered octets and segments.
    pub fn progress(&self, now_ns: u64) -> Progress {
        Progress {
            elapsed_ns: now_ns.saturating_sub(self.started_ns.unwrap_or(now_ns)),
            fetch: self.counters(),
            rtt_ns: self.fetch.rtt_ns(),
            window: self.fetch.window(),
            origin_told: self.origin_told,
            from_cache: self.from_cache,
            ..Progress::default()
        }
    }

    fn failed(&self, failure: Failure) -> ObjectError {
        let name = |piece| match self.layout.piece(piece) {
            Piece::Segment(segment) => self.object.join_segment(segment),
            Piece::Manifest(index) => manifest_name(self.object.as_name(), index),
        };
        match failure {
            Failure::Refused { piece, reason } => ObjectError::Refused { name: name(piece), reason },
            Failure::Silence { piece, .. }
            | Failure::Unanswered { piece, .. }
            | Failure::Congested { piece, .. } => ObjectError::Fetch { name: name(piece), failure },
            Failure::EndMoved { .. } => ObjectError::Fetch { name: self.object.clone(), failure },
        }
    }

    fn number(&self, name: NameRef<'_>) -> Option<u64> {
        let piece = match self.segments.piece(name) {
            Some(segment) => Piece::Segment(segment),
            None => Piece::Manifest(self.manifests.piece(name)?),
        };
        self.layout.number(piece)
    }
}

/// The octets of a full segment's packet, as far as the metadata gives them.
fn expected_octets(object: &Object) -> u64 {
    let content_octets = object.metadata.as_ref().and_then(|metadata| metadata.segment_size_octets);
    let octets = content_octets.map_or(u64::MAX, |octets| octets.saturating_add(OVERHEAD_OCTETS));
    octets.min(PACKET_OCTETS_MAX as u64)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use namely_security::{MANIFEST_ENTRIES, Signer, sign_data};
    use namely_wire::DataBuilder;

    use super::super::SignatureMode;
    use super::*;
    use crate::congestion::Algorithm;

    fn object(segments: u64) -> Object {
        Object {
            name: "/p/o/v=1".parse().unwrap(),
            segments: Some(segments),
            signature_mode: SignatureMode::Segments,
            manifest_entries: MANIFEST_ENTRIES,
            metadata: None,
            as_of_ns: None,
            reason: None,
            whole: None,
        }
    }

    #[test]
    fn fetches_share_one_limit_of_the_rate() {
        let (near, _router) = UnixStream::pair().unwrap();
        let mut connection = Connection::from_stream(near).unwrap();
        let mut limit = RateLimit::default();
        let mut requested = |rate_max| {
            let options = ReadOptions { rate_max, ..ReadOptions::default() };
            let mut requester = SegmentRequester::new(&object(9), &[Part::from(0)], &options, 0).unwrap();
            requester.send_interests(&mut connection, &mut limit);
            (requester.counters().interests, requester.next_timeout_ns(), limit.ready_ns())
        };
        let (first, _, ready_ns) = requested(Some(1));
        assert_eq!((first, ready_ns > 8000 * 1_000_000_000), (1, true), "{ready_ns}");
        assert_eq!(requested(Some(1)), (0, ready_ns, ready_ns), "another fetch waits as long");
        assert_eq!(requested(None).0, 9, "a fetch without a limit does not");
    }

    #[test]
    fn a_share_of_the_octets_bounds_requests() {
        let (near, _router) = UnixStream::pair().unwrap();
        let mut connection = Connection::from_stream(near).unwrap();
        let mut options = ReadOptions::default();
        options.fetch.congestion = Algorithm::Fixed(1000);
        options.fetch.span_octets_max = 100 * 8800;
        let mut requester = SegmentRequester::new(&object(1000), &[Part::from(0)], &options, 0).unwrap();
        let mut requested = |fetches, others_octets| {
            requester.set_share(Share { fetches, others_octets });
            requester.send_interests(&mut connection, &mut RateLimit::default());
            (requester.counters().interests, requester.octets())
        };
        assert_eq!(requested(4, 100 * 8800), (25, 25 * 8800), "an equal part");
        assert_eq!(requested(4, 60 * 8800), (40, 40 * 8800), "the rest");
        assert_eq!(requested(2, 100 * 8800).0, 50);
        assert_eq!(requested(1, 0), (100, 100 * 8800));
    }

    #[test]
    fn duplicates_never_change_the_cache_share() {
        let (near, _router) = UnixStream::pair().unwrap();
        let mut connection = Connection::from_stream(near).unwrap();
        let object = object(2);
        let mut requester =
            SegmentRequester::new(&object, &[Part::from(0)], &ReadOptions::default(), 0).unwrap();
        let mut limit = RateLimit::default();
        requester.send_interests(&mut connection, &mut limit);
        let mut is_new = |segment, face| {
            let name = object.name.join_segment(segment);
            let wire = sign_data(&DataBuilder::new(name.as_name()), b"", &Signer::digest_sha256()).unwrap();
            let headers = LpHeaders { incoming_face_id: Some(face), ..LpHeaders::default() };
            let packet = Packet::Data(DataView::parse(&wire).unwrap());
            requester.take(&Incoming { packet, headers: &headers, received_ns: 1 }, &mut limit).is_some()
        };
        assert!(is_new(0, FACE_OF_CONTENT_STORE) && is_new(1, 300));
        // A copy that answers a retransmission comes from the cache.
        assert!(!is_new(1, FACE_OF_CONTENT_STORE));
        assert_eq!(requester.progress(1).cache_share(), Some(0.5));
    }
}

//! SegmentRequester for the pieces of an object: which, in what order and how fast. No
//! verification: what comes is taken on trust until somebody says that it is corrupt, so that the
//! price of a signature does not slow the Interests (HT-19).

use std::convert::Infallible;

use namely_security::manifest_name;
use namely_wire::{DataView, LpHeaders, Name, NameRef};

use super::descriptor::again_after_ns;
use super::layout::{Layout, Piece};
use super::{Object, ObjectError, Part, Progress, ReadOptions};
use crate::connection::{Connection, Incoming, Packet};
use crate::fetch::{Arrival, Counters, Failure, Fetch, Taken};
use crate::segment::PieceInterest;

/// The IncomingFaceId of Data from a router's content store (NFD reserves it, and namelyd follows).
const FACE_OF_CONTENT_STORE: u64 = 254;

/// Requests the pieces of one object. They are numbered in the order in which they are requested:
/// segments, and the manifests that list them.
#[derive(Debug)]
pub struct SegmentRequester {
    object: Name,
    layout: Layout,
    fetch: Fetch,
    segments: PieceInterest,
    manifests: PieceInterest,
    /// The piece that came wrong last: stale copies in caches are passed by.
    corrupt: Option<Wrong>,
    started_ns: Option<u64>,
    origin_told: u64,
    from_cache: u64,
}

/// A piece that came wrong.
#[derive(Debug)]
struct Wrong {
    number: u64,
    /// How often.
    times: u32,
    again: Again,
}

/// When it is asked for again.
#[derive(Debug, PartialEq, Eq)]
enum Again {
    /// When the time is known.
    Soon,
    /// Then, by the connection's clock.
    At(u64),
    /// It was.
    Asked,
}

impl SegmentRequester {
    /// Requests `parts` of `object`, each of which begins behind the end of the one before,
    /// starting at `now_ns`.
    ///
    /// # Errors
    /// [`ObjectError::Fetch`] if all begin behind the end of the object.
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
        };
        requester.fetch.start_at(first);
        match end {
            Some(end) if object.segments.is_some() => {
                requester.fetch.set_end(end.max(first)).map_err(|failure| requester.failed(failure))?;
            }
            stop => requester.fetch.stop_at(stop.unwrap_or(u64::MAX)),
        }
        Ok(requester)
    }

    /// Sends the Interests that may go out now.
    pub fn send_interests(&mut self, connection: &mut Connection) {
        let now_ns = connection.now_ns();
        self.started_ns.get_or_insert(now_ns);
        self.ask_again(now_ns);
        while let Some(number) = self.fetch.request(now_ns) {
            let fresh = self.corrupt.as_ref().is_some_and(|wrong| wrong.number == number);
            let (template, piece) = match self.layout.piece(number) {
                Piece::Segment(segment) => (&self.segments, segment),
                Piece::Manifest(index) => {
                    // Without it a whole group of segments is of no use.
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

    /// Takes a packet in. The number and the packet of a piece that is new.
    pub fn take<'a>(&mut self, incoming: &Incoming<'a>) -> Option<(u64, DataView<'a>)> {
        match incoming.packet {
            Packet::Data(data) => {
                let number = self.number(data.name)?;
                let arrival = Arrival {
                    now_ns: incoming.received_ns,
                    marked: incoming.headers.is_marked(),
                    from_cache: self.count_origin(incoming.headers),
                };
                (self.fetch.on_data(number, arrival) == Taken::New).then_some((number, data))
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

    /// Everything before piece `number` was handed over: further ones may be asked for.
    pub fn advance(&mut self, number: u64) {
        self.fetch.advance(number);
    }

    /// The number of a piece that is lost for good and was not returned before.
    pub fn lost_for_good(&mut self) -> Option<u64> {
        self.fetch.lost_for_good()
    }

    /// Piece `number` came and is not what it should be.
    pub fn on_corrupt(&mut self, number: u64) {
        let before = self.corrupt.take().filter(|wrong| wrong.number == number);
        let times = before.map_or(1, |wrong| wrong.times + 1);
        self.corrupt = Some(Wrong { number, times, again: Again::Soon });
    }

    /// Has a piece that came wrong asked for again: at once the first time, later after pauses, in
    /// which wrong copies in caches become stale.
    fn ask_again(&mut self, now_ns: u64) {
        let Some(wrong) = &mut self.corrupt else { return };
        if wrong.again == Again::Soon {
            let pause_ns = wrong.times.checked_sub(2).map_or(0, again_after_ns);
            wrong.again = Again::At(now_ns.saturating_add(pause_ns));
        }
        if matches!(wrong.again, Again::At(at_ns) if at_ns <= now_ns) {
            wrong.again = Again::Asked;
            self.fetch.on_corrupt(wrong.number);
        }
    }

    /// Records that `last` is the last segment, as a verified one says. Only of objects whose end
    /// is not known.
    ///
    /// # Errors
    /// [`ObjectError::Fetch`] if the end is known already and another one.
    pub fn set_last_segment(&mut self, last: u64) -> Result<(), ObjectError> {
        let end = self.layout.end(Some(last.saturating_add(1))).unwrap_or(u64::MAX);
        self.fetch.set_end(end).map_err(|failure| self.failed(failure))
    }

    /// All that is outstanding was lost with the connection.
    pub fn on_reconnect(&mut self, now_ns: u64) {
        self.fetch.on_reconnect(now_ns);
    }

    /// Finds what is lost by now.
    pub fn expire(&mut self, now_ns: u64) {
        self.fetch.expire(now_ns);
    }

    /// When to [`SegmentRequester::send_interests`] and [`SegmentRequester::expire`] again, if no
    /// packet comes before.
    pub fn next_timeout_ns(&mut self) -> u64 {
        let again_ns = match &self.corrupt {
            Some(Wrong { again: Again::At(at_ns), .. }) => *at_ns,
            _ => u64::MAX,
        };
        self.fetch.next_timeout_ns().min(again_ns)
    }

    /// Returns true once every piece came and was handed over.
    pub fn is_complete(&self) -> bool {
        self.fetch.is_complete()
    }

    /// Returns why the fetch has failed, if it has.
    ///
    /// # Errors
    /// [`ObjectError::Refused`] by the router; [`ObjectError::Fetch`] after too much silence or too
    /// many attempts.
    pub fn check(&self) -> Result<(), ObjectError> {
        self.fetch.failure().map_or(Ok(()), |failure| Err(self.failed(failure)))
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.fetch.counters()
    }

    /// What is known here of how far it is; the octets and segments handed over are for the caller
    /// to add.
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

    /// Counts a Data by its origin; returns true if the router says that it came from its content
    /// store.
    fn count_origin(&mut self, headers: &LpHeaders) -> bool {
        let Some(face) = headers.incoming_face_id else { return false };
        let from_cache = face == FACE_OF_CONTENT_STORE;
        self.origin_told += 1;
        self.from_cache += u64::from(from_cache);
        from_cache
    }
}

//! The work of reading on one thread: pieces come in any order, are verified in order, and go to the sink.
//!
//! Pieces are copied out of the receive buffer and wait, at most [`crate::fetch::Options::span_max`] of them. As soon as a run of
//! [`RUN_MAX`] is whole it is verified and handed over, since hashing several at once costs half as much as one by one, and at
//! the end of each turn so is what there is: a piece that comes alone waits for no other.

use std::collections::VecDeque;

use namely_security::{Prepared, Verified, Verifier};
use namely_wire::{DataView, InterestBuilder, Name};

use super::asking::Asking;
use super::checking::{Checked, Checking, OnBadSegment};
use super::finder::{CERTIFICATES_MAX, Express, fetch_certificate};
use super::progress::{Flow, Progress};
use super::{Object, ObjectError, Part, Reader, Sink};
use crate::connection::{Answer, Connection, ConnectionError, Incoming};

/// How often the watcher is told.
const WATCH_NS: u64 = 100_000_000;

impl Reader<'_> {
    /// Reads `object` from `first_segment` on into `sink`; `watch` is told about
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
        let asking = Asking::new(object, Part::from(first_segment), &self.options, self.connection.now_ns())?;
        let mut pull = Pull::new(object, first_segment, asking, sink);
        let mut watch_at_ns = 0;
        let mut epoch = self.connection.epoch();
        loop {
            pull.asking.ask(self.connection);
            let due_ns = pull.asking.next_timeout_ns().min(watch_at_ns);
            self.connection.turn(due_ns, &mut |incoming, _| pull.take(&incoming, Some(self.verifier)))?;
            pull.drain(self.verifier);
            while let Some((certificate, name)) = pull.certificate_wanted()? {
                let mut between = Between { connection: self.connection, pull: &mut pull };
                fetch_certificate(&mut between, self.verifier, &self.options, &certificate, &name)?;
                pull.drain(self.verifier);
            }
            let now_ns = self.connection.now_ns();
            if epoch != self.connection.epoch() {
                epoch = self.connection.epoch();
                pull.asking.on_reconnect(now_ns);
            }
            pull.asking.expire(now_ns);
            if let Some(error) = pull.error.take() {
                return Err(error);
            }
            let complete = pull.asking.is_complete();
            if complete || now_ns >= watch_at_ns {
                watch_at_ns = now_ns + WATCH_NS;
                let progress = pull.progress(now_ns);
                match watch(&progress) {
                    _ if complete => return Ok(progress),
                    Flow::Continue => {}
                    Flow::Stop => return Err(ObjectError::Stopped),
                }
            }
            pull.asking.check()?;
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

/// Asks for a certificate while pieces come in.
struct Between<'a, 'b> {
    connection: &'a mut Connection,
    pull: &'a mut Pull<'b>,
}

impl Express for Between<'_, '_> {
    fn express_retrying(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
    ) -> Result<Answer, ConnectionError> {
        let keep = &mut |incoming: Incoming<'_>, _: &mut _| self.pull.take(&incoming, None);
        self.connection.express_retrying_beside(interest, attempts, keep)
    }
}

/// Pieces verified together: as many as processors hash side by side, few enough to be in their caches still.
const RUN_MAX: usize = 16;

/// Buffers kept for the next pieces.
const SPARE_MAX: usize = 64;

/// A reading under way.
struct Pull<'a> {
    asking: Asking,
    checking: Checking,
    /// The piece to hand over next.
    next: u64,
    /// Pieces that wait, from `next` on.
    early: VecDeque<Option<Vec<u8>>>,
    /// How many of `early` are there without a gap, from the first on.
    ready: usize,
    /// Memory of pieces that were handed over.
    spare: Vec<Vec<u8>>,
    /// The certificate without which nothing goes on, and what needs it.
    needed: Option<(Name, Name)>,
    certificates: usize,
    error: Option<ObjectError>,
    sink: &'a mut dyn Sink,
    progress: Progress,
}

/// What became of a piece that was in turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    HandedOver,
    Corrupt,
    /// For a certificate, or because the reading failed.
    Waits,
}

impl<'a> Pull<'a> {
    fn new(object: &Object, first_segment: u64, asking: Asking, sink: &'a mut dyn Sink) -> Self {
        let segment_octets = object.metadata.as_ref().and_then(|m| m.segment_size_octets).unwrap_or(0);
        let checking = Checking::new(object, Part::from(first_segment), OnBadSegment::Refetch);
        Pull {
            asking,
            next: checking.first(),
            checking,
            early: VecDeque::new(),
            ready: 0,
            spare: Vec::new(),
            needed: None,
            certificates: 0,
            error: None,
            sink,
            progress: Progress {
                octets_done: segment_octets.saturating_mul(first_segment),
                octets_total: object.octets(),
                segments_total: object.segments,
                ..Progress::default()
            },
        }
    }

    /// Takes a packet in. Without a verifier at hand it is only kept.
    fn take(&mut self, incoming: &Incoming<'_>, verifier: Option<&mut Verifier>) {
        let Some((number, data)) = self.asking.take(incoming) else { return };
        self.keep(number, data.wire);
        if let Some(verifier) = verifier.filter(|_| self.ready >= RUN_MAX) {
            self.drain(verifier);
        }
    }

    fn keep(&mut self, number: u64, wire: &[u8]) {
        let Some(i) = number.checked_sub(self.next).and_then(|i| usize::try_from(i).ok()) else { return };
        if self.early.len() <= i {
            self.early.resize(i + 1, None);
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(wire);
        self.early[i] = Some(kept);
        self.count_ready();
    }

    fn count_ready(&mut self) {
        while matches!(self.early.get(self.ready), Some(Some(_))) {
            self.ready += 1;
        }
    }

    /// Hands over what waits, up to the first gap.
    fn drain(&mut self, verifier: &mut Verifier) {
        while self.ready > 0 && self.error.is_none() && self.needed.is_none() {
            let mut run: Vec<_> = self.early.drain(..self.ready.min(RUN_MAX)).flatten().collect();
            let mut settled = Settled::HandedOver;
            let mut handed = 0;
            for piece in self.checking.prepare(run.iter().map(Vec::as_slice)) {
                if self.is_at_end() {
                    break;
                }
                settled = self.settle(piece, verifier);
                if settled != Settled::HandedOver {
                    break;
                }
                handed += 1;
                self.next += 1;
            }
            let left = run.split_off(handed);
            left.into_iter().rev().for_each(|piece| self.early.push_front(Some(piece)));
            self.spare.append(&mut run);
            self.spare.truncate(SPARE_MAX);
            self.asking.advance(self.next);
            if settled == Settled::Corrupt {
                self.early[0] = None;
                self.asking.on_corrupt(self.next);
            }
            if self.is_at_end() {
                // What came behind it was asked for when nobody knew where the object ends.
                self.early.clear();
            }
            self.ready = 0;
            self.count_ready();
        }
    }

    fn is_at_end(&self) -> bool {
        self.checking.end() == Some(self.next)
    }

    /// Verifies the piece that is in turn, and hands it over if it is a segment.
    fn settle(&mut self, data: Prepared<&[u8]>, verifier: &mut Verifier) -> Settled {
        match self.checking.check(self.next, data, verifier) {
            Checked::Segment { segment, data, last } => self.hand_over(segment, &data, last),
            Checked::Manifest(_) => Settled::HandedOver,
            // What is bad is asked for again here, so that nothing unverified comes out.
            Checked::Corrupt | Checked::Unverified { .. } => Settled::Corrupt,
            Checked::Need { certificate, data } => {
                let name = DataView::parse(data).map(|data| data.name.to_name()).unwrap_or_default();
                self.needed = Some((certificate, name));
                Settled::Waits
            }
            Checked::Failed(error) => self.fail(error),
        }
    }

    fn hand_over(&mut self, segment: u64, data: &Verified<&[u8]>, last: Option<u64>) -> Settled {
        if let Some(last) = last {
            self.progress.segments_total = Some(last.saturating_add(1));
            if let Err(error) = self.asking.set_last_segment(last) {
                return self.fail(error);
            }
        }
        if let Err(error) = self.sink.write(segment, data) {
            return self.fail(ObjectError::Sink(error));
        }
        let octets = data.content().len() as u64;
        self.progress.octets += octets;
        self.progress.octets_done += octets;
        self.progress.segments += 1;
        Settled::HandedOver
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

    fn progress(&self, now_ns: u64) -> Progress {
        let asked = self.asking.progress(now_ns);
        Progress {
            octets: self.progress.octets,
            octets_done: self.progress.octets_done,
            octets_total: self.progress.octets_total,
            segments: self.progress.segments,
            segments_total: self.progress.segments_total,
            ..asked
        }
    }
}

//! Requests numbered pieces until all have come: window, loss detection, retransmission. No I/O, no
//! clock, no names: a piece is a number, whose name the caller knows.
//!
//! The caller's loop:
//! 1. while [`Fetch::request`] yields a piece, send its Interest;
//! 2. wait for packets, until [`Fetch::next_timeout_ns`] at most;
//! 3. tell [`Fetch::on_data`], [`Fetch::on_nack`], [`Fetch::on_corrupt`]; and [`Fetch::advance`]
//!    for what it has delivered in order;
//! 4. [`Fetch::expire`]; then again, until [`Fetch::is_complete`] or [`Fetch::failure`].
//!
//! ```
//! use namely_transport::fetch::{Arrival, Fetch, Options};
//! let mut fetch = Fetch::new(Options::default(), 0);
//! fetch.set_end(3)?;
//! let mut now_ns = 0;
//! while !fetch.is_complete() {
//!     let piece = fetch.request(now_ns).expect("nothing is outstanding");
//!     now_ns += 1_000_000;
//!     fetch.on_data(piece, Arrival::at(now_ns));
//!     fetch.advance(piece + 1);
//! }
//! # Ok::<(), namely_transport::fetch::Failure>(())
//! ```
//!
//! Loss is found in two ways. An Interest that later ones overtook counts as lost after the longest
//! recent round trip and a quarter: that is a matter of milliseconds. Silence, with nothing coming
//! at all, makes the oldest Interest go out again after the retransmission timeout, alone: a
//! producer that pauses is not a path that lost everything. The state kept is bounded by
//! [`Options::span_max`] pieces.

mod failure;
mod rtt;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use namely_wire::NackReason;

pub use self::failure::Failure;
use self::rtt::Rtt;
use crate::congestion::{Algorithm, CongestionControl, Path, Sample, Signal, WINDOW_INITIAL};
pub use crate::segment::PieceInterest;

/// Pause after a Nack before anything is asked again; doubled while no Data comes.
const PAUSE_NS: (u64, u64) = (10_000_000, 1_000_000_000);

/// Over how many packets the share of lost ones is averaged.
const LOSS_MEMORY: f64 = 64.0;

/// How far a paced fetch may fall behind its rate and still make up for it, ns: what a timer of the
/// host is late.
const CATCH_UP_NS: u64 = 2_000_000;

/// How a fetch behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Decides the window, and how fast it is used.
    pub congestion: Algorithm,
    /// The window before anything is known of the path, in pieces.
    pub window_initial: usize,
    /// Largest window, in pieces.
    pub window_max: usize,
    /// Most pieces between the first that is not delivered and the last that was asked for: bounds
    /// what has to be kept out of order.
    pub span_max: usize,
    /// How often one piece is asked for before the fetch fails.
    pub attempts_max: u8,
    /// How long the fetch goes on without any Data.
    pub silence_ns_max: u64,
    /// How long the fetch goes on, once Data came, when all that comes is refusals: a producer or
    /// router that restarts is back by then. Before any Data a refusal ends the fetch at once.
    pub refused_ns_max: u64,
    /// After this time a piece that did not come is lost for good ([`Fetch::lost_for_good`]): it is
    /// not asked for again, and the fetch goes on behind it. None: what is lost is asked for again.
    pub give_up_ns: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            congestion: Algorithm::Cubic,
            window_initial: WINDOW_INITIAL as usize,
            window_max: 1024,
            span_max: 2048,
            attempts_max: 20,
            silence_ns_max: 20_000_000_000,
            refused_ns_max: 10_000_000_000,
            give_up_ns: None,
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Interests, repeated ones included.
    pub interests: u64,
    /// Interests for a piece that was asked for before.
    pub retransmissions: u64,
    /// Pieces taken for lost because later ones were answered.
    pub losses: u64,
    /// Times that nothing came for a whole timeout.
    pub timeouts: u64,
    /// Pieces that came right after they were asked for again: they had not been lost.
    pub spurious: u64,
    /// Pieces that came.
    pub data: u64,
    /// Data for pieces that were there already, or never asked for.
    pub duplicates: u64,
    /// Pieces that came and were not what they should be.
    pub corrupt: u64,
    /// Interests that the router refused.
    pub nacks: u64,
    /// Data with a congestion mark.
    pub marks: u64,
}

/// How a Data came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub now_ns: u64,
    /// With a congestion mark.
    pub marked: bool,
    /// From the content store of the first router, as the router says. It overtook nothing then:
    /// what was asked for before may just be farther away.
    pub from_cache: bool,
}

impl Arrival {
    /// Unmarked, from nobody knows where.
    pub fn at(now_ns: u64) -> Self {
        Arrival { now_ns, ..Arrival::default() }
    }
}

/// What a Data was to a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The piece was missing.
    New,
    /// The piece is there already, or nobody asked for it.
    Unneeded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceState {
    InFlight,
    Lost,
    Here,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    state: PieceState,
    attempts: u8,
    /// Whether it is asked for again however unreliable the fetch is.
    insisted: bool,
    sent_ns: u64,
    /// What had come when the Interest went out.
    before: Delivered,
}

/// How much has come, and until when: what a rate is measured between.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    pieces: u64,
    at_ns: u64,
    /// When the Interest was sent whose Data came last.
    sent_ns: u64,
    /// Whether there was too little to ask for.
    starved: bool,
}

/// How fast pieces come, measured between the sending of an Interest and the coming of its Data.
#[derive(Debug)]
struct Rate {
    delivered: Delivered,
    /// While fewer pieces than this have come, the rate is not the path's but the caller's.
    starved_until: u64,
    sample: Sample,
    /// When a paced fetch may request next.
    send_at_ns: u64,
}

/// Up to which Interest all have been overtaken by an answer to a later one: who finds the loss of
/// one looks here only, so both times grow and never fall back.
#[derive(Debug, Default)]
struct Overtaken {
    /// When the latest Interest was sent that has certainly been answered.
    answered_sent_ns: u64,
    /// The same for one that was sent more than once, so that the answer may be to an earlier one.
    perhaps_sent_ns: u64,
}

/// For how long nothing came. Two times, because a timeout sends one Interest again and begins
/// `quiet_since_ns` anew, while only Data, or a start after nothing was outstanding, moves
/// `heard_at_ns`: timeouts that follow one another still add up to [`Options::silence_ns_max`].
#[derive(Debug)]
struct Silence {
    /// When the last Data, the start, or the last timeout was.
    quiet_since_ns: u64,
    heard_at_ns: u64,
    /// Data came.
    heard: bool,
    /// A piece was lost for good since Data came: who was silent then was silent while something
    /// was requested.
    gave_up: bool,
}

/// Nacks, and the pause after them.
#[derive(Debug, Default)]
struct Refusals {
    pause_ns: u64,
    paused_until_ns: u64,
    /// Since when all that comes is refusals.
    since_ns: Option<u64>,
    /// Refusals for congestion since anything came.
    nacks_congested: u64,
}

impl Refusals {
    /// Why `piece` did not come, if it is not congestion.
    fn congested(&self, piece: u64, otherwise: Failure) -> Failure {
        match self.nacks_congested {
            0 => otherwise,
            nacks => Failure::Congested { piece, nacks },
        }
    }
}

/// Fetches the pieces from a first one to an end.
///
/// What holds between the fields: `slots[i]` is piece `base + i`, so a piece before `base` or
/// behind the slots has none. `in_flight` is the number of slots in `PieceState::InFlight`: each
/// change of a state changes it in the same function. A piece whose slot is `PieceState::Lost` is
/// in `lost`, but `lost` may have pieces that have come since, and `sent` and `again` Interests
/// that are no longer the last for their piece: whoever takes from them looks at the slot, by its
/// state and its time of sending (`Fetch::skip_stale`).
#[derive(Debug)]
pub struct Fetch {
    options: Options,
    control: Box<dyn CongestionControl>,
    /// One slot for each piece from `base` on that was requested.
    slots: VecDeque<Slot>,
    base: u64,
    end: Option<u64>,
    /// Nothing is requested from this piece on.
    stop: u64,
    in_flight: usize,
    lost: VecDeque<u64>,
    /// Pieces lost for good that [`Fetch::lost_for_good`] has not returned.
    gone: VecDeque<u64>,
    /// Every piece before this one came or is lost for good, if any may be.
    settled: u64,
    /// Every Interest that was the first for its piece, in the order of sending, with its time.
    sent: VecDeque<(u64, u64)>,
    /// Every later one, by the time until which it is waited for; then its own time and piece.
    again: BinaryHeap<Reverse<(u64, u64, u64)>>,
    rtt: Rtt,
    /// Share of packets lost, averaged over the last [`LOSS_MEMORY`].
    loss: f64,
    rate: Rate,
    overtaken: Overtaken,
    silence: Silence,
    refusals: Refusals,
    /// Signals of packets whose Interests were sent before are of a round trip that was reacted to.
    decreased_at_ns: u64,
    counters: Counters,
    failure: Option<Failure>,
}

impl Fetch {
    /// Fetches from piece 0 on, starting at `now_ns`.
    pub fn new(options: Options, now_ns: u64) -> Self {
        let mut control = options.congestion.controller(options.window_max);
        control.begin_with(options.window_initial);
        Fetch {
            control,
            options,
            slots: VecDeque::new(),
            base: 0,
            end: None,
            stop: u64::MAX,
            in_flight: 0,
            lost: VecDeque::new(),
            gone: VecDeque::new(),
            settled: 0,
            sent: VecDeque::new(),
            again: BinaryHeap::new(),
            rtt: Rtt::default(),
            loss: 0.0,
            rate: Rate {
                delivered: Delivered { at_ns: now_ns, sent_ns: now_ns, ..Delivered::default() },
                starved_until: 0,
                sample: Sample::default(),
                send_at_ns: 0,
            },
            overtaken: Overtaken::default(),
            silence: Silence { quiet_since_ns: now_ns, heard_at_ns: now_ns, heard: false, gave_up: false },
            refusals: Refusals { pause_ns: PAUSE_NS.0, ..Refusals::default() },
            decreased_at_ns: 0,
            counters: Counters::default(),
            failure: None,
        }
    }

    /// Fetches from piece `first` on instead; only before anything was asked for.
    pub(crate) fn start_at(&mut self, first: u64) {
        debug_assert!(self.slots.is_empty());
        self.base = first;
    }

    /// Requests nothing from piece `stop` on, wherever the end may be: what lies there is not
    /// wanted.
    pub(crate) fn stop_at(&mut self, stop: u64) {
        self.stop = stop;
    }

    /// Replaces the congestion control by one of the caller's own.
    pub fn with_control(mut self, control: Box<dyn CongestionControl>) -> Self {
        self.control = control;
        self
    }

    /// Sets how many pieces there are: the last one is `end - 1`.
    ///
    /// # Errors
    /// [`Failure::EndMoved`] if it is known already and differs, or lies before what was delivered.
    pub fn set_end(&mut self, end: u64) -> Result<(), Failure> {
        if self.end.is_some_and(|known| known != end) || end < self.base {
            let failure = Failure::EndMoved { known: self.end.unwrap_or(self.base), claimed: end };
            self.failure = Some(failure);
            return Err(failure);
        }
        self.end = Some(end);
        while self.base + self.slots.len() as u64 > end {
            if let Some(Slot { state: PieceState::InFlight, .. }) = self.slots.pop_back() {
                self.in_flight -= 1;
            }
        }
        Ok(())
    }

    /// How many pieces there are, once it is known.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// Returns true once every piece came and was delivered.
    pub fn is_complete(&self) -> bool {
        self.end == Some(self.base)
    }

    /// Why the fetch ended without all pieces, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Interests that may be outstanding now.
    pub fn window(&self) -> usize {
        self.control.window()
    }

    /// The smoothed round trip; 0 before the first.
    pub fn rtt_ns(&self) -> u64 {
        self.rtt.smoothed_ns()
    }

    /// The next piece to request, if one may be requested now. The caller sends its Interest.
    pub fn request(&mut self, now_ns: u64) -> Option<u64> {
        if self.failure.is_some()
            || now_ns < self.refusals.paused_until_ns
            || self.in_flight >= self.control.window()
        {
            return None;
        }
        let pace = self.control.pace();
        if pace.is_some() && now_ns < self.rate.send_at_ns {
            return None;
        }
        let Some(piece) = self.next_lost().or_else(|| self.next_new()) else {
            self.rate.starved_until = self.rate.delivered.pieces + self.in_flight as u64;
            return None;
        };
        if self.in_flight == 0 {
            // Measuring begins anew: the time without anything outstanding is not the path's.
            self.rate.delivered = Delivered { at_ns: now_ns, sent_ns: now_ns, ..self.rate.delivered };
        }
        let starved = self.rate.starved_until > self.rate.delivered.pieces;
        let before = Delivered { starved, ..self.rate.delivered };
        let attempts_max = self.options.attempts_max;
        let idle = self.in_flight == 0 && self.lost.is_empty();
        if idle && !self.silence.gave_up && self.slot(piece)?.attempts == 0 {
            // Nobody was silent while nothing was asked for.
            self.silence.heard_at_ns = self.silence.heard_at_ns.max(now_ns);
        }
        let slot = self.slot(piece)?;
        if slot.attempts >= attempts_max {
            self.failure =
                Some(self.refusals.congested(piece, Failure::Unanswered { piece, attempts: attempts_max }));
            return None;
        }
        slot.state = PieceState::InFlight;
        slot.attempts += 1;
        slot.sent_ns = now_ns;
        slot.before = before;
        let (attempts, again) = (slot.attempts, slot.attempts > 1);
        if self.in_flight == 0 {
            self.silence.quiet_since_ns = now_ns;
        }
        self.in_flight += 1;
        if again {
            let until_ns = now_ns.saturating_add(self.rtt.retry_ns(attempts));
            self.again.push(Reverse((until_ns, now_ns, piece)));
        } else {
            self.sent.push_back((piece, now_ns));
        }
        if let Some(rate) = pace {
            let interval_ns = (1e9 / rate.max(f64::MIN_POSITIVE)).min(1e9) as u64;
            self.rate.send_at_ns = self.rate.send_at_ns.max(now_ns.saturating_sub(CATCH_UP_NS)) + interval_ns;
        }
        self.counters.interests += 1;
        self.counters.retransmissions += u64::from(again);
        Some(piece)
    }

    fn next_lost(&mut self) -> Option<u64> {
        while let Some(piece) = self.lost.pop_front() {
            let reliable = self.options.give_up_ns.is_none();
            if self
                .slot(piece)
                .is_some_and(|slot| slot.state == PieceState::Lost && (reliable || slot.insisted))
            {
                return Some(piece);
            }
        }
        None
    }

    fn next_new(&mut self) -> Option<u64> {
        if !self.has_new() {
            return None;
        }
        let next = self.base + self.slots.len() as u64;
        self.slots.push_back(Slot {
            state: PieceState::Lost,
            attempts: 0,
            insisted: false,
            sent_ns: 0,
            before: Delivered::default(),
        });
        Some(next)
    }

    /// Returns true if there is a piece that was never requested and may be.
    fn has_new(&self) -> bool {
        let next = self.base + self.slots.len() as u64;
        next < self.end.unwrap_or(self.stop).min(self.stop) && self.slots.len() < self.options.span_max
    }

    fn slot(&mut self, piece: u64) -> Option<&mut Slot> {
        let i = usize::try_from(piece.checked_sub(self.base)?).ok()?;
        self.slots.get_mut(i)
    }

    /// Requests `piece`, which was requested just now, until it comes, even where others are lost
    /// for good.
    pub(crate) fn insist(&mut self, piece: u64) {
        if let Some(slot) = self.slot(piece) {
            slot.insisted = true;
        }
    }

    /// The next piece that is lost for good: see [`Options::give_up_ns`]. It counts as come.
    pub fn lost_for_good(&mut self) -> Option<u64> {
        self.gone.pop_front()
    }

    /// When the first piece that is missing will be lost for good.
    fn give_up_at_ns(&mut self) -> u64 {
        let Some(after_ns) = self.options.give_up_ns else { return u64::MAX };
        self.settled = self.settled.max(self.base);
        while let Some(slot) = self.slot(self.settled) {
            if slot.state != PieceState::Here {
                return if slot.insisted { u64::MAX } else { slot.sent_ns.saturating_add(after_ns) };
            }
            self.settled += 1;
        }
        u64::MAX
    }

    /// Pieces are requested once, in their order: the first that is missing is the first to be lost
    /// for good.
    fn give_up(&mut self, now_ns: u64) {
        loop {
            let at_ns = self.give_up_at_ns();
            // At u64::MAX nothing is ever lost for good, not even then.
            if now_ns < at_ns || at_ns == u64::MAX {
                return;
            }
            let piece = self.settled;
            let Some(slot) = self.slot(piece) else { return };
            let (was, sent_ns) = (slot.state, slot.sent_ns);
            slot.state = PieceState::Here;
            self.gone.push_back(piece);
            self.silence.gave_up = true;
            if was == PieceState::InFlight {
                self.in_flight -= 1;
                self.counters.losses += 1;
                self.congested(Signal::Loss, sent_ns, now_ns);
            }
        }
    }

    /// The Data of `piece` came, and it is what it should be as far as the caller can tell by now.
    pub fn on_data(&mut self, piece: u64, arrival: Arrival) -> Taken {
        let now_ns = arrival.now_ns;
        let rtt_min_ns = self.rtt.min_ns();
        let limited = self.in_flight >= self.control.window();
        let taken = match self.slot(piece) {
            Some(slot) if slot.state != PieceState::Here => {
                let was = *slot;
                slot.state = PieceState::Here;
                Some(was)
            }
            _ => None,
        };
        let Some(Slot { state, attempts, sent_ns, before, .. }) = taken else {
            self.counters.duplicates += 1;
            return Taken::Unneeded;
        };
        let took_ns = now_ns.saturating_sub(sent_ns);
        let mut round_sent_ns = None;
        if attempts == 1 {
            round_sent_ns = self.rtt.sample(took_ns, now_ns);
        } else if state == PieceState::Lost || took_ns < rtt_min_ns / 4 * 3 {
            self.counters.spurious += 1;
            self.rtt.spurious();
        }
        match attempts {
            _ if arrival.from_cache => {}
            1 => self.overtaken.answered_sent_ns = sent_ns.max(self.overtaken.answered_sent_ns),
            _ => self.overtaken.perhaps_sent_ns = sent_ns.max(self.overtaken.perhaps_sent_ns),
        }
        if state == PieceState::InFlight {
            self.in_flight -= 1;
        }
        self.counters.data += 1;
        self.measure(before, sent_ns, (attempts == 1).then_some(took_ns), now_ns);
        self.on_heard(now_ns);
        self.loss -= self.loss / LOSS_MEMORY;
        let path = self.path(now_ns);
        self.control.on_data(&path, limited);
        if arrival.marked {
            self.counters.marks += 1;
            self.congested(Signal::Mark, sent_ns, now_ns);
        }
        if let Some(sent_ns) = round_sent_ns.filter(|_| path.has_queue()) {
            self.congested(Signal::Queue, sent_ns, now_ns);
        }
        Taken::New
    }

    /// The rate at which Data came while one Interest was outstanding (as
    /// draft-cheng-iccrg-delivery-rate-estimation has it for TCP): the slower of asking and
    /// answering, so that Data that had queued do not look like a fast path.
    fn measure(&mut self, before: Delivered, sent_ns: u64, rtt_ns: Option<u64>, now_ns: u64) {
        self.rate.delivered.pieces += 1;
        self.rate.delivered.at_ns = now_ns;
        self.rate.delivered.sent_ns = self.rate.delivered.sent_ns.max(sent_ns);
        let asking_ns = sent_ns.saturating_sub(before.sent_ns);
        let answering_ns = now_ns.saturating_sub(before.at_ns);
        let pieces = self.rate.delivered.pieces - before.pieces;
        self.rate.sample = Sample {
            rtt_ns,
            rate: pieces as f64 * 1e9 / asking_ns.max(answering_ns).max(1) as f64,
            starved: before.starved,
            delivered_before: before.pieces,
        };
    }

    fn on_heard(&mut self, now_ns: u64) {
        self.silence.heard = true;
        self.silence.gave_up = false;
        self.silence.heard_at_ns = now_ns;
        self.silence.quiet_since_ns = now_ns;
        self.refusals.since_ns = None;
        self.refusals.nacks_congested = 0;
        self.refusals.pause_ns = PAUSE_NS.0;
    }

    /// The Data of `piece` came, or was taken before by [`Fetch::on_data`], and is not what it
    /// should be: ask again. That says nothing about the path.
    pub fn on_corrupt(&mut self, piece: u64) {
        let Some(slot) = self.slot(piece) else { return };
        if slot.state == PieceState::Lost {
            return;
        }
        let was = std::mem::replace(&mut slot.state, PieceState::Lost);
        if was == PieceState::InFlight {
            self.in_flight -= 1;
        }
        self.counters.corrupt += 1;
        self.lost.push_back(piece);
    }

    /// The router refused the Interest for `piece`.
    pub fn on_nack(&mut self, piece: u64, reason: NackReason, now_ns: u64) {
        let Some(slot) = self.slot(piece).filter(|slot| slot.state == PieceState::InFlight) else { return };
        slot.state = PieceState::Lost;
        let sent_ns = slot.sent_ns;
        let final_refusal = !matches!(reason, NackReason::Congestion | NackReason::Duplicate);
        if final_refusal {
            // How long refusals are borne is a matter of time, not of attempts.
            slot.attempts -= 1;
        }
        self.in_flight -= 1;
        self.lost.push_back(piece);
        self.counters.nacks += 1;
        if now_ns >= self.refusals.paused_until_ns {
            self.refusals.paused_until_ns = now_ns.saturating_add(self.refusals.pause_ns);
            self.refusals.pause_ns = (self.refusals.pause_ns * 2).min(PAUSE_NS.1);
        }
        if reason == NackReason::Congestion {
            self.refusals.nacks_congested += 1;
            self.congested(Signal::Mark, sent_ns, now_ns);
        }
        if final_refusal {
            let since_ns = *self.refusals.since_ns.get_or_insert(now_ns);
            if !self.silence.heard || now_ns.saturating_sub(since_ns) >= self.options.refused_ns_max {
                self.failure = Some(Failure::Refused { piece, reason });
            }
        }
    }

    /// Everything below `piece` has been delivered: it is not needed here any longer.
    pub fn advance(&mut self, piece: u64) {
        while self.base < piece && self.slots.front().is_some_and(|slot| slot.state == PieceState::Here) {
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// All that is outstanding was lost with the connection: ask again, and think no worse of the
    /// path.
    pub fn on_reconnect(&mut self, now_ns: u64) {
        let base = self.base;
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if slot.state == PieceState::InFlight {
                slot.state = PieceState::Lost;
                slot.attempts -= 1;
                self.lost.push_back(base + i as u64);
            }
        }
        self.sent.clear();
        self.again.clear();
        self.in_flight = 0;
        self.silence.quiet_since_ns = now_ns;
        self.silence.heard_at_ns = now_ns;
    }

    /// When [`Fetch::expire`] or [`Fetch::request`] will have something to do, if no packet comes
    /// before.
    pub fn next_timeout_ns(&mut self) -> u64 {
        self.skip_stale();
        let paused_ns = if self.refusals.paused_until_ns > 0 && !self.lost.is_empty() {
            self.refusals.paused_until_ns
        } else {
            u64::MAX
        };
        let ask_ns = paused_ns.min(self.paced_ns()).min(self.give_up_at_ns());
        let Some((_, sent_ns)) = self.oldest() else { return ask_ns };
        let quiet_ns = self.silence.quiet_since_ns.max(sent_ns).saturating_add(self.rtt.timeout_ns());
        let lost_ns = self.first_lost().map_or(u64::MAX, |(_, _, at_ns)| at_ns);
        quiet_ns.min(lost_ns).min(ask_ns)
    }

    /// The outstanding Interest that will be the next to count as lost, when it was sent, and when
    /// it will.
    fn first_lost(&self) -> Option<(u64, u64, u64)> {
        let first =
            self.sent.front().map(|(piece, sent_ns)| (*piece, *sent_ns, self.overtaken_at_ns(*sent_ns)));
        let again = self.again.peek().map(|Reverse((until_ns, sent_ns, piece))| {
            (*piece, *sent_ns, self.overtaken_at_ns(*sent_ns).max(*until_ns))
        });
        first.into_iter().chain(again).min_by_key(|(_, _, at_ns)| *at_ns)
    }

    /// When the rate lets the next piece be asked for, if it is the rate that keeps it back.
    fn paced_ns(&self) -> u64 {
        let held_back = self.control.pace().is_some()
            && self.in_flight < self.control.window()
            && (!self.lost.is_empty() || self.has_new());
        if held_back { self.rate.send_at_ns.max(self.refusals.paused_until_ns) } else { u64::MAX }
    }

    /// When an Interest that was sent at `sent_ns` counts as lost because later ones have been
    /// answered.
    fn overtaken_at_ns(&self, sent_ns: u64) -> u64 {
        if sent_ns < self.overtaken.answered_sent_ns {
            return sent_ns.saturating_add(self.rtt.early_ns());
        }
        if sent_ns < self.overtaken.perhaps_sent_ns {
            // Either all before it is lost, or all comes late: as long as something comes, it is
            // the latter.
            return self.silence.heard_at_ns.saturating_add(self.rtt.early_ns());
        }
        u64::MAX
    }

    /// Finds what is lost by now.
    pub fn expire(&mut self, now_ns: u64) {
        self.give_up(now_ns);
        loop {
            self.skip_stale();
            let Some((piece, sent_ns, at_ns)) = self.first_lost() else { break };
            if now_ns < at_ns {
                break;
            }
            self.counters.losses += 1;
            self.lose(piece);
            self.loss += (1.0 - self.loss) / LOSS_MEMORY;
            self.congested(Signal::Loss, sent_ns, now_ns);
        }
        let Some((piece, sent_ns)) = self.oldest() else { return };
        if now_ns < self.silence.quiet_since_ns.max(sent_ns).saturating_add(self.rtt.timeout_ns()) {
            return;
        }
        if now_ns.saturating_sub(self.silence.heard_at_ns) >= self.options.silence_ns_max {
            let (piece, for_ns) = (self.base, now_ns - self.silence.heard_at_ns);
            self.failure = Some(self.refusals.congested(piece, Failure::Silence { piece, for_ns }));
            return;
        }
        self.counters.timeouts += 1;
        self.lose(piece);
        self.rtt.back_off();
        self.silence.quiet_since_ns = now_ns;
    }

    /// The outstanding Interest that was sent first; of those that repeat one, the one that is
    /// waited for least.
    fn oldest(&mut self) -> Option<(u64, u64)> {
        self.skip_stale();
        let again = self.again.peek().map(|Reverse((_, sent_ns, piece))| (*piece, *sent_ns));
        self.sent.front().copied().into_iter().chain(again).min_by_key(|(_, sent_ns)| *sent_ns)
    }

    fn skip_stale(&mut self) {
        while let Some((piece, sent_ns)) = self.sent.front().copied()
            && !self.is_live(piece, sent_ns)
        {
            self.sent.pop_front();
        }
        while let Some(Reverse((_, sent_ns, piece))) = self.again.peek().copied()
            && !self.is_live(piece, sent_ns)
        {
            self.again.pop();
        }
    }

    fn is_live(&mut self, piece: u64, sent_ns: u64) -> bool {
        self.slot(piece).is_some_and(|slot| slot.state == PieceState::InFlight && slot.sent_ns == sent_ns)
    }

    fn lose(&mut self, piece: u64) {
        if let Some(slot) = self.slot(piece) {
            slot.state = PieceState::Lost;
            self.in_flight -= 1;
            self.lost.push_back(piece);
        }
    }

    /// One reaction to all the signals that packets of one round trip carry.
    fn congested(&mut self, signal: Signal, sent_ns: u64, now_ns: u64) {
        if sent_ns >= self.decreased_at_ns && self.control.on_congestion(&self.path(now_ns), signal) {
            self.decreased_at_ns = now_ns;
            // What was lost before the decrease is paid for.
            self.loss = 0.0;
        }
    }

    fn path(&self, now_ns: u64) -> Path {
        Path {
            now_ns,
            rtt_min_ns: self.rtt.min_ns(),
            rtt_recent_ns: self.rtt.recent_min_ns(),
            rtt_round_ns: self.rtt.last_round_min_ns(),
            rtt_smoothed_ns: self.rtt.smoothed_ns(),
            loss: self.loss,
            in_flight: self.in_flight,
            delivered: self.rate.delivered.pieces,
            sample: self.rate.sample,
        }
    }
}

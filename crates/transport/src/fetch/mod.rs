//! Requests numbered pieces until all have arrived: window, loss detection, retransmission. No I/O,
//! no clock, no names: a piece is a number, which the caller maps to a name.
//!
//! The caller's loop:
//! 1. while [`Fetch::request`] yields a piece, send its Interest;
//! 2. wait for packets, until [`Fetch::next_timeout_ns`] at most;
//! 3. call [`Fetch::on_data`], [`Fetch::on_nack`], [`Fetch::on_corrupt`]; and [`Fetch::advance`]
//!    for the pieces delivered in order;
//! 4. call [`Fetch::expire`]; then repeat, until [`Fetch::is_complete`] or [`Fetch::failure`].
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
//! Loss is detected by time (RFC 8985): if later Interests were answered first, an Interest counts
//! as lost after the longest recent round trip and a reordering window, and 20 ms at least. If no
//! Data arrive for two round trips, the oldest Interest is repeated once. After the retransmission
//! timeout, too, only the oldest Interest is retransmitted, because a pause of the producer does
//! not mean that all Interests were lost. The state is bounded by
//! [`Options::span_octets_max`].

mod failure;
mod losses;
mod options;
mod rate;
mod rate_limit;
mod recovery;
mod report;
mod rtt;
mod span;

use std::cmp::Reverse;
use std::collections::VecDeque;

use namely_wire::NackReason;

pub use self::failure::Failure;
use self::losses::Losses;
pub use self::options::Options;
use self::rate::{DeliverySample, Rate};
pub use self::rate_limit::RateLimit;
use self::recovery::LossDetection;
pub use self::report::{Arrival, Counters, DataOutcome};
use self::rtt::Rtt;
pub use self::span::Share;
use self::span::Span;
use crate::congestion::{CongestionControl, Path, Signal};
pub use crate::segment::PieceInterest;

/// Minimum and maximum pause after a Nack before the next request; it doubles while no Data arrive.
const PAUSE_NS: (u64, u64) = (10_000_000, 1_000_000_000);

/// Maximum time by which a paced fetch that is late catches up, ns: the usual delay of a timer.
const CATCH_UP_NS: u64 = 2_000_000;

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
    /// Whether it is requested again even in an unreliable fetch.
    insisted: bool,
    /// Whether its loss was assumed before the distance of its source was known.
    is_loss_assumed: bool,
    /// Octets of the packet, once it arrived.
    octets: u16,
    sent_ns: u64,
    first_sent_ns: u64,
    /// The deliveries before the Interest was sent.
    before: DeliverySample,
}

/// The time without Data. There are two times, because a timeout retransmits one Interest and
/// restarts `quiet_since_ns`. Only Data, a reconnection, or a request while nothing is outstanding
/// changes `received_at_ns`. Consecutive timeouts therefore add up to [`Options::silence_ns_max`].
#[derive(Debug)]
struct Silence {
    /// The time of the last Data, the start, or the last timeout.
    quiet_since_ns: u64,
    received_at_ns: u64,
    /// Whether Data arrived.
    received: bool,
    /// Whether a piece was lost for good since the last Data, so that new requests do not end the
    /// silence.
    gave_up: bool,
    /// Whether an Interest was repeated as a probe since the last Data.
    probed: bool,
    /// Whether one lost piece may be requested although the window is full. After silence the
    /// outstanding Interests may all be lost, and the window may have become smaller than their
    /// number.
    beyond_window: bool,
}

/// Nacks, and the pause after them.
#[derive(Debug, Default)]
struct Refusals {
    pause_ns: u64,
    paused_until_ns: u64,
    /// The start of the present period with refusals only.
    since_ns: Option<u64>,
    /// Number of refusals for congestion since the last Data.
    nacks_congested: u64,
}

impl Refusals {
    /// Returns the reason for the missing `piece`: congestion, or `otherwise`.
    fn congested(&self, piece: u64, otherwise: Failure) -> Failure {
        match self.nacks_congested {
            0 => otherwise,
            nacks => Failure::Congested { piece, nacks },
        }
    }
}

/// Fetches the pieces from a first one to an end.
///
/// Invariants: `slots[i]` is piece `base + i`, so a piece before `base` or after the slots has
/// none. `in_flight` is the number of slots in `PieceState::InFlight`: each change of a state
/// updates it in the same function. A piece with a slot in `PieceState::Lost` is in `lost`, unless
/// [`Options::give_up_ns`] forbids its repetition. `lost` may also contain pieces that have arrived
/// since, and `sent` and `overtaken.again` may contain Interests that are no longer the last for
/// their piece. Code that reads them must check the state and the sending time of the slot
/// (`Fetch::skip_stale`).
#[derive(Debug)]
pub struct Fetch {
    options: Options,
    control: Box<dyn CongestionControl>,
    /// One slot for each requested piece from `base` on.
    slots: VecDeque<Slot>,
    base: u64,
    end: Option<u64>,
    /// Nothing is requested from this piece on.
    stop: u64,
    in_flight: usize,
    lost: VecDeque<u64>,
    /// Pieces lost for good that [`Fetch::lost_for_good`] has not returned yet.
    gone: VecDeque<u64>,
    /// Every piece before this one arrived or is lost for good.
    settled: u64,
    /// The first Interest of each piece and its sending time, in order.
    sent: VecDeque<(u64, u64)>,
    span: Span,
    rtt: Rtt,
    losses: Losses,
    rate: Rate,
    overtaken: LossDetection,
    silence: Silence,
    refusals: Refusals,
    counters: Counters,
    failure: Option<Failure>,
}

impl Fetch {
    /// Creates a fetch from piece 0 on, starting at `now_ns`.
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
            span: Span::new(&options),
            rtt: Rtt::default(),
            losses: Losses::default(),
            rate: Rate::new(now_ns),
            overtaken: LossDetection::default(),
            silence: Silence {
                quiet_since_ns: now_ns,
                received_at_ns: now_ns,
                received: false,
                gave_up: false,
                probed: false,
                beyond_window: false,
            },
            refusals: Refusals { pause_ns: PAUSE_NS.0, ..Refusals::default() },
            counters: Counters::default(),
            failure: None,
        }
    }

    /// Starts at piece `first` instead; only before the first request.
    pub(crate) fn start_at(&mut self, first: u64) {
        debug_assert!(self.slots.is_empty());
        self.base = first;
    }

    /// Requests nothing from piece `stop` on, because those pieces are not needed.
    pub(crate) fn stop_at(&mut self, stop: u64) {
        self.stop = stop;
    }

    /// Sets the octets of the largest packet, as the object's metadata announces them. Without it
    /// each packet counts as the largest possible one.
    pub(crate) fn set_piece_octets(&mut self, octets: u64) {
        self.span.set_piece_octets(octets);
    }

    /// Sets the share in the limits of octets of all fetches together.
    pub(crate) fn set_share(&mut self, share: Share) {
        self.span.set_share(share);
    }

    /// Octets between the first piece that is not delivered and the last that was requested.
    pub(crate) fn octets(&self) -> u64 {
        (self.slots.len() as u64).saturating_mul(self.span.piece_octets())
    }

    /// Replaces the congestion control by the caller's own.
    pub fn with_control(mut self, control: Box<dyn CongestionControl>) -> Self {
        self.control = control;
        self
    }

    /// Sets the number of pieces: the last one is `end - 1`.
    ///
    /// # Errors
    /// [`Failure::EndMoved`] if it is known already and differs, or is before the delivered pieces.
    pub fn set_end(&mut self, end: u64) -> Result<(), Failure> {
        if self.end.is_some_and(|known| known != end) || end < self.base {
            let failure = Failure::EndMoved { known: self.end.unwrap_or(self.base), claimed: end };
            self.failure = Some(failure);
            return Err(failure);
        }
        self.end = Some(end);
        // Pieces past the end were requested before it was known. They do not exist.
        while self.base + self.slots.len() as u64 > end {
            let Some(slot) = self.slots.pop_back() else { break };
            self.in_flight -= usize::from(slot.state == PieceState::InFlight);
            self.span.release(u64::from(slot.octets));
        }
        Ok(())
    }

    /// The number of pieces, once it is known.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// Returns true if every piece arrived and was delivered.
    pub fn is_complete(&self) -> bool {
        self.end == Some(self.base)
    }

    /// The reason for which the fetch ended without all pieces, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The counters of the fetch.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Maximum number of outstanding Interests now.
    pub fn window(&self) -> usize {
        self.control.window().min(self.span.window())
    }

    /// The smoothed round trip; 0 before the first measurement.
    pub fn rtt_ns(&self) -> u64 {
        self.rtt.smoothed_ns()
    }

    /// Allows no request before `until_ns`, because of a limit of the rate.
    pub fn hold(&mut self, now_ns: u64, until_ns: u64) {
        let is_idle = self.in_flight == 0;
        self.rate.held_from_ns = is_idle.then_some(self.rate.held_from_ns.unwrap_or(now_ns));
        self.rate.held_until_ns = until_ns;
        self.rate.starved_until = self.rate.delivered.pieces + self.in_flight as u64;
    }

    /// Returns the next piece to request, if a request is allowed now. The caller sends its
    /// Interest.
    pub fn request(&mut self, now_ns: u64) -> Option<u64> {
        if self.failure.is_some()
            || now_ns < self.refusals.paused_until_ns.max(self.rate.held_until_ns)
            || !self.has_room()
        {
            return None;
        }
        let pace = self.control.pace();
        if pace.is_some() && now_ns < self.rate.send_at_ns {
            return None;
        }
        let Some(piece) = self.next_lost().or_else(|| self.next_new()) else {
            self.span.limit(self.slots.len());
            self.rate.starved_until = self.rate.delivered.pieces + self.in_flight as u64;
            return None;
        };
        if self.in_flight == 0 {
            // The measurement restarts, because the time without outstanding Interests says nothing
            // about the path.
            self.rate.delivered = DeliverySample { at_ns: now_ns, sent_ns: now_ns, ..self.rate.delivered };
        }
        let starved = self.rate.starved_until > self.rate.delivered.pieces;
        let (in_flight, lost) = (self.in_flight + 1, self.counters.losses);
        let before = DeliverySample { starved, in_flight, lost, ..self.rate.delivered };
        let attempts_max = self.options.attempts_max;
        let idle = self.in_flight == 0 && self.lost.is_empty();
        if idle && !self.silence.gave_up && self.slot(piece)?.attempts == 0 {
            // Time without requests does not count as silence.
            self.silence.received_at_ns = self.silence.received_at_ns.max(now_ns);
        }
        self.silence.beyond_window = false;
        let slot = self.slot(piece)?;
        if slot.attempts >= attempts_max {
            self.failure =
                Some(self.refusals.congested(piece, Failure::Unanswered { piece, attempts: attempts_max }));
            return None;
        }
        slot.state = PieceState::InFlight;
        slot.attempts += 1;
        slot.sent_ns = now_ns;
        slot.before = before; // the rate is measured from here
        let (attempts, again) = (slot.attempts, slot.attempts > 1);
        if !again {
            slot.first_sent_ns = now_ns;
        }
        if let Some(from_ns) = self.rate.held_from_ns.take() {
            // Nor does the time for which the caller allowed no request.
            let held_ns = self.rate.held_until_ns.min(now_ns).saturating_sub(from_ns);
            self.silence.received_at_ns = self.silence.received_at_ns.saturating_add(held_ns).min(now_ns);
        }
        if self.in_flight == 0 {
            self.silence.quiet_since_ns = now_ns;
        }
        self.in_flight += 1;
        if again {
            let until_ns = now_ns.saturating_add(self.rtt.retry_ns(attempts));
            self.overtaken.again.push(Reverse((until_ns, now_ns, piece)));
        } else {
            self.sent.push_back((piece, now_ns));
        }
        if let Some(rate) = pace {
            let next_ns = self.rate.send_at_ns.max(now_ns.saturating_sub(CATCH_UP_NS));
            self.rate.send_at_ns = next_ns + rate::interval_ns(rate);
        }
        self.counters.interests += 1;
        self.counters.retransmissions += u64::from(again);
        Some(piece)
    }

    /// Returns true if the window, or a timeout, allows one more Interest.
    fn has_room(&self) -> bool {
        self.in_flight < self.window() || (self.silence.beyond_window && !self.lost.is_empty())
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
            is_loss_assumed: false,
            octets: 0,
            sent_ns: 0,
            first_sent_ns: 0,
            before: DeliverySample::default(),
        });
        Some(next)
    }

    /// Returns true if a new piece may be requested.
    fn has_new(&self) -> bool {
        let next = self.base + self.slots.len() as u64;
        next < self.end.unwrap_or(self.stop).min(self.stop) && self.slots.len() < self.span.pieces()
    }

    fn slot(&mut self, piece: u64) -> Option<&mut Slot> {
        let i = usize::try_from(piece.checked_sub(self.base)?).ok()?;
        self.slots.get_mut(i)
    }

    /// Repeats the request of `piece`, which was requested just now, until it arrives, even if
    /// other pieces may be lost for good.
    pub(crate) fn insist(&mut self, piece: u64) {
        if let Some(slot) = self.slot(piece) {
            slot.insisted = true;
        }
    }

    /// Returns the next piece that is lost for good: see [`Options::give_up_ns`]. The fetch treats
    /// it as received.
    pub fn lost_for_good(&mut self) -> Option<u64> {
        self.gone.pop_front()
    }

    /// The time at which the first missing piece will be lost for good.
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

    /// Marks expired pieces as lost for good. Pieces are requested once and in order, so the first
    /// missing one expires first.
    fn give_up(&mut self, now_ns: u64) {
        loop {
            let at_ns = self.give_up_at_ns();
            // At u64::MAX no piece is ever lost for good.
            if now_ns < at_ns || at_ns == u64::MAX {
                return;
            }
            let piece = self.settled;
            let Some(slot) = self.slot(piece) else { return };
            let (was, sent_ns) = (slot.state, slot.sent_ns);
            slot.state = PieceState::Here;
            self.gone.push_back(piece); // the caller must skip it
            self.silence.gave_up = true;
            if was == PieceState::InFlight {
                self.in_flight -= 1;
                self.counters.losses += 1;
                self.congested(Signal::Loss, sent_ns, now_ns);
            }
        }
    }

    /// Marks `piece` as received. Returns its slot as it was; none if the piece is not missing, or
    /// has no room.
    fn arrive(&mut self, piece: u64, octets: usize) -> Option<Slot> {
        let is_first = piece == self.base;
        let octets = if octets == 0 { self.span.piece_octets() } else { octets as u64 };
        let octets = u16::try_from(octets).unwrap_or(u16::MAX);
        let was = match self.slot(piece) {
            Some(slot) if slot.state != PieceState::Here => *slot, // the slot borrows the fetch
            _ => {
                self.counters.duplicates += 1;
                return None;
            }
        };
        if !self.span.hold(u64::from(octets), is_first) {
            self.counters.overfull += 1;
            if was.state == PieceState::InFlight {
                self.lose(piece);
            }
            return None;
        }
        let slot = self.slot(piece)?;
        (slot.state, slot.octets) = (PieceState::Here, octets);
        Some(was)
    }

    /// Processes the Data of `piece`. The caller may verify it later, and report it by
    /// [`Fetch::on_corrupt`].
    pub fn on_data(&mut self, piece: u64, arrival: Arrival) -> DataOutcome {
        let now_ns = arrival.now_ns;
        let rtt_min_ns = self.rtt.nearest_min_ns();
        let limited = self.in_flight >= self.control.window(); // before this Data frees a slot
        let Some(was) = self.arrive(piece, arrival.octets) else { return DataOutcome::Unneeded };
        let Slot { state, attempts, sent_ns, first_sent_ns, before, .. } = was;
        let took_ns = now_ns.saturating_sub(sent_ns);
        let mut round_sent_ns = None;
        let is_distant = was.is_loss_assumed && self.rtt.is_distant(attempts, took_ns);
        if attempts == 1 {
            round_sent_ns = self.rtt.sample(sent_ns, now_ns); // unambiguous (RFC 6298, 3)
        } else if is_distant {
            self.counters.spurious += 1;
            self.rtt.sample(first_sent_ns, now_ns);
            self.rtt.spurious(first_sent_ns, now_ns);
        } else if state == PieceState::Lost
            || took_ns < rtt_min_ns / 4 * 3
            || (was.is_loss_assumed && took_ns > self.rtt.early_ns())
        {
            self.counters.spurious += 1; // it answers an earlier Interest
            self.rtt.spurious(first_sent_ns, now_ns);
        } else if was.is_loss_assumed {
            // The answer came as soon as those of the known sources, so the first one was lost.
            self.note_loss(was.before, first_sent_ns, now_ns);
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
        let is_sampled = attempts == 1;
        if is_sampled && self.rtt.is_beside_path() {
            self.rate.pass(self.control.pace());
        } else {
            // A near cache does not show the length of the path that the window fills.
            let is_of_path = is_sampled && self.rtt.is_of_farther();
            self.rate.measure(before, sent_ns, is_of_path.then_some(took_ns), now_ns);
        }
        self.span.turn(self.base, self.counters.data, self.rtt.smoothed_ns(), now_ns);
        self.note_arrival(now_ns);
        self.losses.count_data();
        if self.rtt.confirm_farther(took_ns, now_ns) {
            self.control.on_farther_source(self.rtt.farthest_min_ns(), now_ns);
        }
        let path = self.path(now_ns); // with this Data counted
        self.control.on_data(&path, limited);
        if arrival.marked {
            self.counters.marks += 1;
            self.congested(Signal::Mark, sent_ns, now_ns);
        }
        if let Some(sent_ns) = round_sent_ns.filter(|_| path.has_queue()) {
            self.congested(Signal::Queue, sent_ns, now_ns);
        }
        DataOutcome::New
    }

    fn note_arrival(&mut self, now_ns: u64) {
        self.silence.received = true;
        self.silence.gave_up = false;
        self.silence.probed = false;
        self.silence.beyond_window = false;
        self.silence.received_at_ns = now_ns;
        self.silence.quiet_since_ns = now_ns;
        self.refusals.since_ns = None;
        self.refusals.nacks_congested = 0;
        self.refusals.pause_ns = PAUSE_NS.0; // Data ends the refusals
    }

    /// Requests `piece` again, because its Data is invalid. [`Fetch::on_data`] may have processed
    /// the Data before. An invalid Data is no evidence about the path.
    pub fn on_corrupt(&mut self, piece: u64) {
        let Some(slot) = self.slot(piece) else { return };
        if slot.state == PieceState::Lost {
            return;
        }
        let was = std::mem::replace(&mut slot.state, PieceState::Lost);
        let octets = std::mem::take(&mut slot.octets);
        self.span.release(u64::from(octets));
        if was == PieceState::InFlight {
            self.in_flight -= 1;
        }
        self.counters.corrupt += 1;
        self.lost.push_back(piece);
    }

    /// Processes a Nack for `piece`.
    pub fn on_nack(&mut self, piece: u64, reason: NackReason, now_ns: u64) {
        let Some(slot) = self.slot(piece).filter(|slot| slot.state == PieceState::InFlight) else { return };
        slot.state = PieceState::Lost;
        let sent_ns = slot.sent_ns;
        let final_refusal = !matches!(reason, NackReason::Congestion | NackReason::Duplicate);
        if final_refusal {
            // Refusals are limited by time ([`Options::refused_ns_max`]) and not by attempts.
            slot.attempts -= 1;
        }
        self.in_flight -= 1;
        self.lost.push_back(piece);
        self.counters.nacks += 1;
        // The Nacks for one burst of Interests double the pause only once.
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
            if !self.silence.received || now_ns.saturating_sub(since_ns) >= self.options.refused_ns_max {
                self.failure = Some(Failure::Refused { piece, reason });
            }
        }
    }

    /// Releases the pieces below `piece`, which were delivered.
    pub fn advance(&mut self, piece: u64) {
        while self.base < piece
            && let Some(Slot { state: PieceState::Here, octets, .. }) = self.slots.front()
        {
            self.span.release(u64::from(*octets));
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// Requests all outstanding pieces again after a reconnection. They do not count as losses.
    pub fn on_reconnect(&mut self, now_ns: u64) {
        let base = self.base;
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if slot.state == PieceState::InFlight {
                slot.state = PieceState::Lost;
                slot.attempts -= 1;
                self.lost.push_back(base + i as u64);
            }
        }
        self.sent.clear(); // their answers are lost with the connection
        self.overtaken.again.clear();
        self.in_flight = 0;
        self.silence.quiet_since_ns = now_ns;
        self.silence.received_at_ns = now_ns;
    }

    /// The time of the next [`Fetch::expire`] or [`Fetch::request`], if no packet arrives before.
    pub fn next_timeout_ns(&mut self) -> u64 {
        self.skip_stale();
        let paused_ns = if self.refusals.paused_until_ns > 0 && !self.lost.is_empty() {
            self.refusals.paused_until_ns.max(self.rate.held_until_ns)
        } else {
            u64::MAX
        };
        let request_ns = paused_ns.min(self.paced_ns()).min(self.give_up_at_ns());
        let Some((_, sent_ns)) = self.oldest() else { return request_ns };
        let quiet_ns = self.quiet_until_ns(sent_ns);
        let lost_ns = self.first_lost().map_or(u64::MAX, |(_, _, at_ns)| at_ns);
        quiet_ns.min(lost_ns).min(request_ns)
    }

    /// The time of the next request, if only the rate delays it.
    fn paced_ns(&self) -> u64 {
        let Rate { send_at_ns, held_until_ns, .. } = self.rate;
        let held_back = (self.control.pace().is_some() || held_until_ns > 0)
            && self.has_room()
            && (!self.lost.is_empty() || self.has_new());
        let paced_ns = send_at_ns.max(held_until_ns).max(self.refusals.paused_until_ns);
        if held_back { paced_ns } else { u64::MAX }
    }

    /// Reacts to at most one signal within a round trip.
    fn congested(&mut self, signal: Signal, sent_ns: u64, now_ns: u64) {
        if self.losses.is_news(sent_ns) && self.control.on_congestion(&self.path(now_ns), signal) {
            self.losses.decreased(now_ns);
        }
    }

    fn path(&self, now_ns: u64) -> Path {
        Path {
            now_ns,
            rtt_min_ns: self.rtt.min_ns(),
            rtt_recent_ns: self.rtt.recent_min_ns(),
            rtt_round_ns: self.rtt.last_round_min_ns(),
            rtt_smoothed_ns: self.rtt.smoothed_ns(),
            loss: self.losses.share(),
            in_flight: self.in_flight,
            delivered: self.rate.delivered.pieces,
            lost: self.counters.losses,
            sample: self.rate.sample,
        }
    }
}

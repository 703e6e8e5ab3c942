//! The transfer of one object's segments.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::congestion::{Signal, Window};
use crate::path::Path;
use crate::rto::Rto;

/// Segments from the first missing one to the last requested one.
///
/// # Limit
/// No further segment is requested until the first missing one arrives.
/// - Tests: `a_clean_path_needs_one_interest_each`,
///   `interests_stay_within_the_given_room`
pub const SEGMENTS_MAX: usize = 256;

/// Timeouts of one segment.
///
/// # Limit
/// The transfer fails.
/// - Tests: `a_missing_segment_fails_the_transfer`
pub const TIMEOUTS_MAX: u8 = 6;

/// Nacks of one segment.
///
/// # Limit
/// The transfer fails.
/// - Value: 3; 9 if the last Nack reports congestion
/// - Tests: `no_route_nacks_fail_sooner_than_congestion`
pub const NACKS_MAX: u8 = 3;

/// Forwarders suppress a second Interest for a name within this time after the first. The time
/// doubles with each further Interest.
pub const SUPPRESSION_NS: u64 = 12_000_000;

/// A segment counts as lost if this number of segments requested later have arrived (RFC 9002,
/// 6.1.1). Each time the path reorders, the number doubles, but not for a segment that is also late
/// (RFC 8985).
const REORDERED: u64 = 3;
const PATIENCE_MAX: u32 = 4;

/// Interests for a segment that blocks others, without a timeout.
///
/// After the first Interest, up to three are sent before the timer of the segment.
///
/// # Limit
/// The segment waits for its timer, even if it blocks others.
/// - Tests: `a_tail_loss_is_retried_before_timeout`
const PROBED_MAX: u8 = 4;

/// Number of sendings that are remembered in their order.
const SENDINGS: usize = 2 * SEGMENTS_MAX;

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Request this segment by an Interest of this lifetime with a new Nonce, then call again.
    Request {
        /// Its number.
        segment: u64,
        /// The Interest's lifetime.
        lifetime_ms: u32,
    },
    /// Wait until this time or the next packet. The largest number: no timer is needed.
    Wait {
        /// By the clock of `now_ns`.
        until_ns: u64,
    },
    /// All segments up to the last one arrived.
    Ended,
    /// The transfer has failed for good.
    Failed(Fault),
}

/// The reason for which a transfer failed. The fault is always the network's or the producer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A segment did not arrive after all attempts.
    TimedOut,
    /// A router has no route.
    NoRoute,
    /// Repeatedly refused for another reason: congestion, or a producer that denies the segment.
    Refused,
}

/// The reason for which an Interest was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A Nack for congestion.
    Congestion,
    /// A Nack for a repeated Nonce.
    Duplicate,
    /// A Nack for a missing route.
    NoRoute,
    /// Any other reason.
    Other,
}

/// The result of a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The segment was missing: the host keeps it.
    Taken,
    /// The segment was not requested, or is no longer needed.
    NotRequested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not requested in this round of the ring.
    Free,
    /// Requested, and not answered yet.
    Pending,
    /// To be requested again from `due_ns` on.
    Again,
    /// It arrived before a segment with a lower number.
    Held,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    state: State,
    timeouts: u8,
    nacks: u8,
    /// Number of its requests.
    sendings: u8,
    /// The number of its latest sending among all.
    order: u64,
    sent_ns: u64,
    /// The end of its timer, or the time of its next request.
    due_ns: u64,
}

const FREE: Segment =
    Segment { state: State::Free, timeouts: 0, nacks: 0, sendings: 0, order: 0, sent_ns: 0, due_ns: 0 };

/// A consumer's transfer of one object, from segment 0 to the one that FinalBlockId names.
///
/// ```
/// use namely_window::{Fate, Step, Transfer};
/// let mut transfer = Transfer::new().unwrap();
/// let Step::Request { segment: 0, .. } = transfer.next(0, 64) else { panic!() };
/// let Step::Request { segment: 1, .. } = transfer.next(0, 64) else { panic!() };
/// assert_eq!(transfer.data(1, Some(1), false, 1_000_000), Fate::Taken);
/// assert_eq!(transfer.first_missing(), 0); // 1 waits for 0
/// assert_eq!(transfer.data(0, None, false, 2_000_000), Fate::Taken);
/// assert_eq!(transfer.next(2_000_000, 64), Step::Ended);
/// ```
#[derive(Debug)]
pub struct Transfer {
    window: Window,
    path: Path,
    segments: Box<[Segment]>,
    /// Maps the n-th sending to its segment, in a ring.
    sendings: Box<[u64]>,
    /// The lowest segment that is missing.
    first: u64,
    /// The lowest segment that was never requested.
    next: u64,
    last: Option<u64>,
    outstanding: u32,
    again: u32,
    /// Number of refused segments that wait to be requested again.
    refused: u32,
    held: u32,
    /// Number of the next sending, and of the first that may still be found lost.
    order: u64,
    unjudged: u64,
    /// Sendings before this number belong to a round trip in which the window was reduced already.
    shrunk_until: u64,
    /// The first sending of the current round trip, and of the next one.
    round: u64,
    round_next: u64,
    /// Number of segments that counted as lost and were late.
    patience: u32,
    data_ns: u64,
    /// The earliest end of a timer or repeated request.
    wake_ns: u64,
    fault: Option<Fault>,
}

impl Transfer {
    /// Creates a transfer without any request; `None` if there is no memory.
    pub fn new() -> Option<Self> {
        Some(Transfer {
            window: Window::new(SEGMENTS_MAX as u32),
            path: Path::default(),
            segments: filled(SEGMENTS_MAX, FREE)?,
            sendings: filled(SENDINGS, 0)?,
            first: 0,
            next: 0,
            last: None,
            outstanding: 0,
            again: 0,
            refused: 0,
            held: 0,
            order: 0,
            unjudged: 0,
            shrunk_until: 0,
            round: 0,
            round_next: 0,
            patience: 0,
            data_ns: 0,
            wake_ns: u64::MAX,
            fault: None,
        })
    }

    /// The lowest segment that is missing.
    pub fn first_missing(&self) -> u64 {
        self.first
    }

    /// Number of segments requested and not answered.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// The window, in segments.
    pub fn window(&self) -> u32 {
        self.window.segments()
    }

    /// Returns the action at `now_ns`. New segments are requested while fewer than `room` are
    /// outstanding. `room` is the capacity of the host's buffer. Call it until it does not return
    /// [`Step::Request`].
    pub fn next(&mut self, now_ns: u64, room: u32) -> Step {
        if now_ns >= self.wake_ns {
            self.judge_by_time(now_ns);
        }
        if let Some(fault) = self.fault {
            return Step::Failed(fault);
        }
        if self.last.is_some_and(|last| self.first > last) {
            return Step::Ended;
        }
        let probe_ns = self.probe(now_ns);
        if self.outstanding < self.window.segments() {
            if let Some(segment) = self.due_again(now_ns) {
                self.leave_again(segment);
                return self.request(segment, now_ns);
            }
            let is_within = self.next - self.first < SEGMENTS_MAX as u64;
            let is_there = self.last.is_none_or(|last| self.next <= last);
            // A refused segment still occupies the window. Otherwise each Nack would cause one more
            // Interest.
            let has_room = self.outstanding + self.refused < self.window.segments();
            if is_within && is_there && has_room && self.outstanding + self.again < room {
                let segment = self.next;
                self.next += 1;
                *self.at(segment) = FREE;
                return self.request(segment, now_ns);
            }
        }
        Step::Wait { until_ns: self.wake_ns.min(probe_ns) }
    }

    /// Processes a Data for `segment`. `last` is the last segment that it names, `is_marked` a
    /// congestion mark.
    pub fn data(&mut self, segment: u64, last: Option<u64>, is_marked: bool, now_ns: u64) -> Fate {
        if !self.is_open(segment) {
            return Fate::NotRequested;
        }
        let known = *self.at(segment);
        let is_limited = self.outstanding >= self.window.segments();
        match known.state {
            State::Pending => self.outstanding -= 1,
            State::Again => self.leave_again(segment),
            State::Free | State::Held => return Fate::NotRequested,
        }
        self.at(segment).state = State::Held;
        self.held += 1;
        self.data_ns = now_ns;
        let rtt_ns = self.learn(&known, now_ns);
        if let Some(last) = last.filter(|last| *last >= segment) {
            self.end_at(last);
        }
        while self.first < self.next && self.at(self.first).state == State::Held {
            let first = self.first;
            *self.at(first) = FREE;
            self.held -= 1;
            self.first += 1;
        }
        self.window.grow(&self.path, rtt_ns, self.outstanding, is_limited && !is_marked, now_ns);
        if is_marked {
            self.congested(Signal::Mark, known.order, now_ns);
        }
        if known.state == State::Pending {
            self.judge_by_order(known.order, now_ns);
        }
        Fate::Taken
    }

    /// Processes a refusal of the Interest for `segment`.
    pub fn refused(&mut self, segment: u64, reason: Refusal, now_ns: u64) {
        if !self.is_open(segment) || self.at(segment).state != State::Pending {
            return;
        }
        let wait_ns = self.path.rto.wait_ns(0);
        let known = self.at(segment);
        known.nacks = known.nacks.saturating_add(1);
        let (nacks, order) = (known.nacks, known.order);
        let (later_ns, nacks_max) = match reason {
            // The queue that refused it needs time to empty. The refusal is no evidence about a
            // route.
            Refusal::Congestion => (wait_ns << u32::from(nacks.min(4)), NACKS_MAX + TIMEOUTS_MAX),
            _ => (SUPPRESSION_NS << u32::from(nacks.min(8)), NACKS_MAX),
        };
        if nacks >= nacks_max {
            self.fault = Some(if reason == Refusal::NoRoute { Fault::NoRoute } else { Fault::Refused });
        }
        if reason == Refusal::Congestion {
            self.congested(Signal::Mark, order, now_ns);
        }
        self.request_again(segment, now_ns.saturating_add(later_ns.min(Rto::MAX_NS)));
    }

    /// The producer denies the segment. Other producers will not have it either.
    pub fn denied(&mut self) {
        self.fault = Some(Fault::Refused);
    }

    fn is_open(&self, segment: u64) -> bool {
        (self.first..self.next).contains(&segment)
    }

    fn at(&mut self, segment: u64) -> &mut Segment {
        &mut self.segments[segment as usize % SEGMENTS_MAX]
    }

    fn request(&mut self, segment: u64, now_ns: u64) -> Step {
        let order = self.order;
        self.order += 1;
        self.sendings[order as usize % SENDINGS] = segment;
        let timeouts = self.at(segment).timeouts;
        let wait_ns = self.path.rto.wait_ns(timeouts);
        let due_ns = now_ns.saturating_add(wait_ns);
        let known = self.at(segment);
        known.state = State::Pending;
        known.order = order;
        known.sent_ns = now_ns;
        known.due_ns = due_ns;
        known.sendings = known.sendings.saturating_add(1);
        self.outstanding += 1;
        self.wake_ns = self.wake_ns.min(due_ns);
        Step::Request { segment, lifetime_ms: wait_ns.div_ceil(1_000_000) as u32 }
    }

    /// Takes a requested segment out of the window until `due_ns`.
    fn request_again(&mut self, segment: u64, due_ns: u64) {
        let known = self.at(segment);
        known.state = State::Again;
        known.due_ns = due_ns;
        let was_refused = known.nacks > 0;
        self.outstanding -= 1;
        self.again += 1;
        self.refused += u32::from(was_refused);
        self.wake_ns = self.wake_ns.min(due_ns);
    }

    /// Removes a segment from those to be requested again.
    fn leave_again(&mut self, segment: u64) {
        let was_refused = self.at(segment).nacks > 0;
        self.again -= 1;
        self.refused -= u32::from(was_refused);
    }

    /// Returns the lowest segment with a repeated request that is due.
    fn due_again(&mut self, now_ns: u64) -> Option<u64> {
        if self.again == 0 {
            return None;
        }
        (self.first..self.next).find(|segment| {
            let known = self.at(*segment);
            known.state == State::Again && known.due_ns <= now_ns
        })
    }

    /// Updates the path by an answer. Returns its round trip, if it is known.
    fn learn(&mut self, known: &Segment, now_ns: u64) -> Option<u64> {
        let since_ns = now_ns.saturating_sub(known.sent_ns);
        self.path.count_data();
        if known.sendings == 1 && known.state == State::Pending {
            let is_new_round = known.order >= self.round_next;
            self.path.measured(since_ns, is_new_round, now_ns);
            if is_new_round {
                let round = core::mem::replace(&mut self.round, self.round_next);
                self.round_next = self.order;
                if self.path.has_queue() {
                    self.congested(Signal::Queue, round, now_ns);
                }
            }
            return Some(since_ns);
        }
        if known.timeouts == 0 && (known.state == State::Again || since_ns < self.path.least_ns() / 2) {
            // It answers the previous sending, so the segment was late and not lost.
            self.patience = (self.patience + 1).min(PATIENCE_MAX);
            self.path.was_late();
        }
        None
    }

    /// Sets the last segment. Segments beyond `last` are not needed.
    fn end_at(&mut self, last: u64) {
        self.last = Some(last);
        let end = last.saturating_add(1);
        for segment in end.max(self.first)..self.next {
            match self.at(segment).state {
                State::Pending => self.outstanding -= 1,
                State::Again => self.leave_again(segment),
                State::Held => self.held -= 1,
                State::Free => {}
            }
            *self.at(segment) = FREE;
        }
        self.next = self.next.min(end.max(self.first));
    }

    /// Reacts to only one signal of the answers of one round trip.
    fn congested(&mut self, signal: Signal, order: u64, now_ns: u64) {
        if order >= self.shrunk_until && self.window.congested(&self.path, signal, now_ns) {
            self.shrunk_until = self.order;
            self.path.forget_loss();
        }
    }

    fn lost(&mut self, order: u64, now_ns: u64) {
        self.path.was_lost();
        self.congested(Signal::Loss, order, now_ns);
    }

    /// Marks segments as lost that were requested well before one that arrived.
    fn judge_by_order(&mut self, order: u64, now_ns: u64) {
        self.unjudged = self.unjudged.max(self.order.saturating_sub(SENDINGS as u64));
        let late_ns = self.late_ns();
        while self.unjudged + REORDERED <= order {
            let judged = self.unjudged;
            let segment = self.sendings[judged as usize % SENDINGS];
            let is_open = self.is_open(segment);
            let known = *self.at(segment);
            if is_open && known.state == State::Pending && known.order == judged {
                if judged + (REORDERED << self.patience) > order
                    && now_ns < known.sent_ns.saturating_add(late_ns)
                {
                    break;
                }
                self.lost(judged, now_ns);
                self.request_again(segment, now_ns.max(known.sent_ns.saturating_add(pause_ns(&known))));
            }
            self.unjudged += 1;
        }
    }

    /// The time after which an answer counts as lost, if others have arrived.
    fn late_ns(&self) -> u64 {
        let late_ns = self.path.rto.late_ns();
        late_ns + late_ns / 4 * u64::from(self.patience)
    }

    /// If no further segment can be requested before the first missing one arrives, no later answer
    /// can reveal its loss. In this case it counts as lost when it is late (RFC 8985, 7). Returns
    /// the time at which it is late.
    fn probe(&mut self, now_ns: u64) -> u64 {
        let is_at_end = self.last.is_some_and(|last| self.next > last);
        let first = self.first;
        let known = *self.at(first);
        let is_held_up = is_at_end || self.next - first >= SEGMENTS_MAX as u64;
        if !is_held_up || known.state != State::Pending || known.sendings >= PROBED_MAX || self.data_ns == 0 {
            return u64::MAX;
        }
        let wait_ns = (self.late_ns() << u32::from(known.timeouts.min(8))).max(pause_ns(&known));
        let late_ns = known.sent_ns.saturating_add(wait_ns);
        if now_ns < late_ns {
            return late_ns;
        }
        self.path.was_lost();
        self.request_again(first, now_ns);
        u64::MAX
    }

    /// Marks segments with an expired timer for a new request, and computes the next expiry.
    fn judge_by_time(&mut self, now_ns: u64) {
        let mut wake_ns = u64::MAX;
        for segment in self.first..self.next {
            let known = *self.at(segment);
            if known.state == State::Pending && known.due_ns <= now_ns {
                self.time_out(segment, &known, now_ns);
            } else if known.state == State::Pending || (known.state == State::Again && known.due_ns > now_ns)
            {
                // A due segment that waits for the window is sent when a packet opens the window.
                wake_ns = wake_ns.min(known.due_ns);
            }
        }
        self.wake_ns = wake_ns;
    }

    fn time_out(&mut self, segment: u64, known: &Segment, now_ns: u64) {
        let timeouts = known.timeouts.saturating_add(1);
        self.at(segment).timeouts = timeouts;
        if timeouts >= TIMEOUTS_MAX {
            self.fault = Some(Fault::TimedOut);
        }
        if self.data_ns > known.sent_ns {
            self.lost(known.order, now_ns);
        } else if known.order >= self.shrunk_until {
            self.window.collapse();
            self.shrunk_until = self.order;
        }
        self.request_again(segment, now_ns);
    }
}

/// The time after the latest sending of a segment during which forwarders suppress its next
/// Interest.
fn pause_ns(known: &Segment) -> u64 {
    SUPPRESSION_NS << u32::from(known.sendings.saturating_sub(1).min(4))
}

fn filled<T: Copy>(count: usize, with: T) -> Option<Box<[T]>> {
    let mut room = Vec::new();
    room.try_reserve_exact(count).ok()?;
    room.resize(count, with);
    Some(room.into_boxed_slice())
}

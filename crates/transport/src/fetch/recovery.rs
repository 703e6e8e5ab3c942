//! Detection of losses by time, tail probes and timeouts (RFC 8985, RFC 6298).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::rate::DeliverySample;
use super::{Failure, Fetch, PieceState};
use crate::congestion::Signal;

/// The sending times of the latest answered Interests. An outstanding Interest that was sent
/// earlier was overtaken. Loss detection only compares with these times, so they never decrease.
#[derive(Debug, Default)]
pub(super) struct LossDetection {
    /// The sending time of the latest Interest that was certainly answered.
    pub(super) answered_sent_ns: u64,
    /// The sending time of the latest answered Interest that was sent more than once, so that the
    /// answer may belong to an earlier transmission.
    pub(super) perhaps_sent_ns: u64,
    /// Losses of Interests that were sent before this time belong to one recovery.
    recovered_at_ns: u64,
    /// Each retransmitted Interest: the earliest time of its loss, its sending time, and its piece.
    pub(super) again: BinaryHeap<Reverse<(u64, u64, u64)>>,
}

impl Fetch {
    /// Returns the piece of the next Interest to count as lost, its sending time, and the time of
    /// its loss.
    pub(super) fn first_lost(&self) -> Option<(u64, u64, u64)> {
        let first =
            self.sent.front().map(|(piece, sent_ns)| (*piece, *sent_ns, self.overtaken_at_ns(*sent_ns)));
        let again = self.overtaken.again.peek().map(|Reverse((until_ns, sent_ns, piece))| {
            (*piece, *sent_ns, self.overtaken_at_ns(*sent_ns).max(*until_ns))
        });
        first.into_iter().chain(again).min_by_key(|(_, _, at_ns)| *at_ns)
    }

    /// The time at which an Interest sent at `sent_ns` counts as lost because later ones were
    /// answered.
    fn overtaken_at_ns(&self, sent_ns: u64) -> u64 {
        if sent_ns < self.overtaken.answered_sent_ns {
            return sent_ns.saturating_add(self.rtt.early_ns());
        }
        if sent_ns < self.overtaken.perhaps_sent_ns {
            // Either all earlier Interests are lost, or their answers are late. The latter is
            // assumed while Data arrive.
            return self.silence.received_at_ns.saturating_add(self.rtt.early_ns());
        }
        u64::MAX
    }

    /// The end of the time without Data in which nothing is requested again. The oldest outstanding
    /// Interest was sent at `sent_ns`.
    pub(super) fn quiet_until_ns(&self, sent_ns: u64) -> u64 {
        let probe_ns = self.rtt.probe_ns().filter(|_| !self.silence.probed);
        let after_ns = probe_ns.unwrap_or_else(|| self.rtt.timeout_ns());
        self.silence.quiet_since_ns.max(sent_ns).saturating_add(after_ns)
    }

    /// Detects losses and timeouts.
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
            let is_assumed = !self.rtt.is_distance_known();
            match self.slot(piece) {
                // A farther source than those of the known round trips may answer later.
                Some(slot) if is_assumed => slot.is_loss_assumed = true,
                Some(slot) => {
                    let before = slot.before;
                    self.note_loss(before, sent_ns, now_ns);
                }
                None => {}
            }
        }
        let Some((piece, sent_ns)) = self.oldest() else { return };
        if now_ns < self.quiet_until_ns(sent_ns) {
            return;
        }
        if !std::mem::replace(&mut self.silence.probed, true) && self.rtt.probe_ns().is_some() {
            self.counters.probes += 1;
            self.lose(piece);
            self.silence.beyond_window = true;
            return;
        }
        if now_ns.saturating_sub(self.silence.received_at_ns) >= self.options.silence_ns_max {
            let (piece, for_ns) = (self.base, now_ns - self.silence.received_at_ns);
            self.failure = Some(self.refusals.congested(piece, Failure::Silence { piece, for_ns }));
            return;
        }
        self.counters.timeouts += 1;
        self.lose(piece);
        self.silence.beyond_window = true;
        self.rtt.back_off(); // RFC 6298, 5.5
        self.silence.quiet_since_ns = now_ns;
    }

    /// Reacts to the loss of an Interest that was sent at `sent_ns`, or of its Data.
    pub(super) fn note_loss(&mut self, before: DeliverySample, sent_ns: u64, now_ns: u64) {
        self.losses.count_loss();
        self.rate.note_loss(before);
        if sent_ns >= self.overtaken.recovered_at_ns {
            self.overtaken.recovered_at_ns = now_ns;
            self.rtt.recover();
        }
        self.congested(Signal::Loss, sent_ns, now_ns);
    }

    /// Returns the outstanding Interest that was sent first. Of the retransmitted ones only the one
    /// that expires first is considered.
    pub(super) fn oldest(&mut self) -> Option<(u64, u64)> {
        self.skip_stale();
        let again = self.overtaken.again.peek().map(|Reverse((_, sent_ns, piece))| (*piece, *sent_ns));
        self.sent.front().copied().into_iter().chain(again).min_by_key(|(_, sent_ns)| *sent_ns)
    }

    pub(super) fn skip_stale(&mut self) {
        while let Some((piece, sent_ns)) = self.sent.front().copied()
            && !self.is_live(piece, sent_ns)
        {
            self.sent.pop_front();
        }
        while let Some(Reverse((_, sent_ns, piece))) = self.overtaken.again.peek().copied()
            && !self.is_live(piece, sent_ns)
        {
            self.overtaken.again.pop();
        }
    }

    fn is_live(&mut self, piece: u64, sent_ns: u64) -> bool {
        self.slot(piece).is_some_and(|slot| slot.state == PieceState::InFlight && slot.sent_ns == sent_ns)
    }

    pub(super) fn lose(&mut self, piece: u64) {
        if let Some(slot) = self.slot(piece) {
            slot.state = PieceState::Lost;
            self.in_flight -= 1;
            self.lost.push_back(piece);
        }
    }
}

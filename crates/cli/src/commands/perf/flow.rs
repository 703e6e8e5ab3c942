//! One flow of a client: its Interests and their times, its checks of answers, and its counters. A
//! flow has no I/O and no clock. The client's thread passes time and packets.

use hdrhistogram::Histogram;
use namely_transport::Nonces;
use namely_transport::connection::{Incoming, Outbox, Packet};
use namely_wire::{DataView, LpHeaders};

use super::outstanding::Outstanding;
use super::packets::InterestTemplate;
use super::signing::Checker;

/// Maximum latency of the histogram.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// At a rate, Interests that are due within this time are sent together, because a wakeup for each
/// would itself be the load.
const PACE_NS: u64 = 100_000;

/// Parameters of a flow.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) template: InterestTemplate,
    /// Interests in a second; `None` selects a window.
    pub(super) rate: Option<u64>,
    pub(super) lifetime_ns: u64,
    /// The required size of each payload in octets.
    pub(super) payload_octets: usize,
    /// Also checks content and signature.
    pub(super) checker: Option<Checker>,
}

/// Counters of a period.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Interests sent, repeated ones included.
    pub(super) interests: u64,
    /// Correct answers.
    pub(super) exchanges: u64,
    /// Octets of payload of the correct answers.
    pub(super) payload_octets: u64,
    /// Interests sent again.
    pub(super) retransmissions: u64,
    /// Interests without an answer within their lifetime.
    pub(super) timeouts: u64,
    /// Interests that a router refused.
    pub(super) nacks: u64,
    /// Answers with a congestion mark.
    pub(super) marks: u64,
    /// Answers with a wrong payload or signature.
    pub(super) wrong: u64,
    /// Data that was not requested, or was answered already.
    pub(super) unexpected: u64,
    /// Interests that were due by the rate, but for which the window had no room.
    pub(super) held_back: u64,
    /// Time from the first sending of an Interest to its answer, ns.
    pub(super) latency_ns: Histogram<u64>,
}

impl Tally {
    /// Returns a tally of zeros.
    pub(super) fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
        Tally {
            interests: 0,
            exchanges: 0,
            payload_octets: 0,
            retransmissions: 0,
            timeouts: 0,
            nacks: 0,
            marks: 0,
            wrong: 0,
            unexpected: 0,
            held_back: 0,
            latency_ns: latency_ns.expect("bounds and precision are in the range of the library"),
        }
    }

    /// Adds the counters of `other`.
    pub(super) fn add(&mut self, other: &Tally) {
        let sums = [
            (&mut self.interests, other.interests),
            (&mut self.exchanges, other.exchanges),
            (&mut self.payload_octets, other.payload_octets),
            (&mut self.retransmissions, other.retransmissions),
            (&mut self.timeouts, other.timeouts),
            (&mut self.nacks, other.nacks),
            (&mut self.marks, other.marks),
            (&mut self.wrong, other.wrong),
            (&mut self.unexpected, other.unexpected),
            (&mut self.held_back, other.held_back),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
        // The addition does not fail, because both histograms have the same bounds.
        let _ = self.latency_ns.add(&other.latency_ns);
    }
}

/// A flow under way.
#[derive(Debug)]
pub(super) struct Flow {
    plan: Plan,
    outstanding: Outstanding,
    nonces: Nonces,
    started_ns: u64,
    /// Interests that were due by the rate so far.
    due_count: u64,
    pub(super) tally: Tally,
}

impl Flow {
    /// Creates a flow that starts at `now_ns`.
    pub(super) fn new(plan: Plan, outstanding: Outstanding, nonces: Nonces, now_ns: u64) -> Self {
        Flow { plan, outstanding, nonces, started_ns: now_ns, due_count: 0, tally: Tally::new() }
    }

    /// Sends the Interests that are due: as many as the window has room for, or as the rate
    /// requires.
    pub(super) fn fill(&mut self, now_ns: u64, outbox: &mut Outbox) {
        let Some(rate) = self.plan.rate else {
            while self.send_next(now_ns, outbox) {}
            return;
        };
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.started_ns));
        let due = (elapsed_ns * u128::from(rate) / 1_000_000_000) as u64;
        while self.due_count < due && self.send_next(now_ns, outbox) {
            self.due_count += 1;
        }
        self.tally.held_back += due.saturating_sub(self.due_count);
        self.due_count = self.due_count.max(due);
    }

    fn send_next(&mut self, now_ns: u64, outbox: &mut Outbox) -> bool {
        let deadline_ns = now_ns.saturating_add(self.plan.lifetime_ns);
        let Some(number) = self.outstanding.begin(now_ns, deadline_ns) else { return false };
        self.send(number, outbox);
        true
    }

    fn send(&mut self, number: u64, outbox: &mut Outbox) {
        let (template, nonce) = (&self.plan.template, self.nonces.next());
        let sent: Result<(), std::convert::Infallible> =
            outbox.compose(&LpHeaders::default(), template.octets(), |out| {
                template.write(number, nonce, out);
                Ok(())
            });
        match sent {
            Ok(()) => self.tally.interests += 1,
            Err(never) => match never {},
        }
    }

    /// Processes a packet. With a window, an answer is followed by the next Interest, so that the
    /// Interests for a batch of answers are sent in a batch.
    pub(super) fn take(&mut self, incoming: &Incoming<'_>, outbox: &mut Outbox) {
        match incoming.packet {
            Packet::Data(data) => self.take_data(&data, incoming, outbox),
            // The Interest stays under way until its lifetime is over, because a router would
            // refuse an immediate retransmission again.
            Packet::Nack(interest, _) => {
                let number = self.plan.template.number(interest.name);
                let is_outstanding = number.is_some_and(|number| self.outstanding.has(number));
                self.tally.nacks += u64::from(is_outstanding);
            }
            Packet::Interest(_) => self.tally.unexpected += 1,
        }
    }

    fn take_data(&mut self, data: &DataView<'_>, incoming: &Incoming<'_>, outbox: &mut Outbox) {
        let number = self.plan.template.number(data.name);
        let Some(first_sent_ns) = number.and_then(|number| self.outstanding.finish(number)) else {
            self.tally.unexpected += 1;
            return;
        };
        let is_right = data.content.len() == self.plan.payload_octets
            && self.plan.checker.as_ref().is_none_or(|checker| checker.is_right(data));
        if is_right {
            self.tally.exchanges += 1;
            self.tally.payload_octets += data.content.len() as u64;
            let latency_ns = incoming.received_ns.saturating_sub(first_sent_ns);
            self.tally.latency_ns.saturating_record(latency_ns.max(1));
        } else {
            self.tally.wrong += 1;
        }
        self.tally.marks += u64::from(incoming.headers.is_marked());
        if self.plan.rate.is_none() {
            self.send_next(incoming.received_ns, outbox);
        }
    }

    /// Expires unanswered Interests. With a window, they are sent again. At a rate, they count as
    /// lost.
    pub(super) fn expire(&mut self, now_ns: u64, outbox: &mut Outbox) {
        while let Some(number) = self.outstanding.overdue(now_ns) {
            self.tally.timeouts += 1;
            if self.plan.rate.is_some() {
                self.outstanding.finish(number);
                continue;
            }
            self.outstanding.again(number, now_ns.saturating_add(self.plan.lifetime_ns.max(1)));
            self.tally.retransmissions += 1;
            self.send(number, outbox);
        }
    }

    /// Returns the time at which the flow has to act without a packet.
    pub(super) fn due_ns(&self, now_ns: u64) -> u64 {
        let Some(rate) = self.plan.rate else { return self.outstanding.due_ns() };
        let next = u128::from(self.due_count + 1) * 1_000_000_000 / u128::from(rate.max(1));
        let next_ns = self.started_ns.saturating_add(u64::try_from(next).unwrap_or(u64::MAX));
        next_ns.max(now_ns.saturating_add(PACE_NS)).min(self.outstanding.due_ns())
    }
}

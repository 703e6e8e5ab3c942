//! One flow of a client: what it asks for and when, what an answer is worth, and what it counts.
//! Without I/O and without a clock: the client's thread brings time and packets.

use hdrhistogram::Histogram;
use namely_transport::Nonces;
use namely_transport::connection::{Incoming, Outbox, Packet};
use namely_wire::{DataView, LpHeaders};

use super::outstanding::Outstanding;
use super::packets::InterestTemplate;
use super::signing::Checker;

/// Longest latency that is told from longer ones.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// At a rate, Interests that are due within this time leave together: waking up for each would be
/// the load itself.
const PACE_NS: u64 = 100_000;

/// How a flow asks.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) template: InterestTemplate,
    /// Interests a second; none: as fast as answers come.
    pub(super) rate: Option<u64>,
    pub(super) lifetime_ns: u64,
    /// The size that each payload must have, octets.
    pub(super) payload_octets: usize,
    /// Checks content and signature too.
    pub(super) checker: Option<Checker>,
}

/// What happened in some time.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Interests sent, repeated ones included.
    pub(super) interests: u64,
    /// Right answers.
    pub(super) exchanges: u64,
    /// Octets of their payload.
    pub(super) payload_octets: u64,
    /// Interests sent again.
    pub(super) retransmissions: u64,
    /// Interests that nothing answered within their lifetime.
    pub(super) timeouts: u64,
    /// Interests that a router refused.
    pub(super) nacks: u64,
    /// Answers with a congestion mark.
    pub(super) marks: u64,
    /// Answers with another payload or signature than they should have.
    pub(super) wrong: u64,
    /// Data that was not asked for, or answered already.
    pub(super) unexpected: u64,
    /// Interests that the rate asked for and the window had no room for.
    pub(super) held_back: u64,
    /// From the first sending of an Interest to its answer, ns.
    pub(super) latency_ns: Histogram<u64>,
}

impl Tally {
    /// Of nothing yet.
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

    /// Adds what `other` counted.
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
        // Both have the same bounds.
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
    /// Interests that the rate has asked for so far.
    asked: u64,
    pub(super) tally: Tally,
}

impl Flow {
    /// Starts at `now_ns`.
    pub(super) fn new(plan: Plan, outstanding: Outstanding, nonces: Nonces, now_ns: u64) -> Self {
        Flow { plan, outstanding, nonces, started_ns: now_ns, asked: 0, tally: Tally::new() }
    }

    /// Sends what is due: what the window has room for, or as many as the rate says.
    pub(super) fn fill(&mut self, now_ns: u64, outbox: &mut Outbox) {
        let Some(rate) = self.plan.rate else {
            while self.send_next(now_ns, outbox) {}
            return;
        };
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.started_ns));
        let due = (elapsed_ns * u128::from(rate) / 1_000_000_000) as u64;
        while self.asked < due && self.send_next(now_ns, outbox) {
            self.asked += 1;
        }
        self.tally.held_back += due.saturating_sub(self.asked);
        self.asked = self.asked.max(due);
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

    /// Takes a packet; with a window, the next Interest leaves with the answers of the same turn.
    pub(super) fn take(&mut self, incoming: &Incoming<'_>, outbox: &mut Outbox) {
        match incoming.packet {
            Packet::Data(data) => self.take_data(&data, incoming, outbox),
            // It stays under way until its time is over: asking again at once would only be refused
            // again.
            Packet::Nack(interest, _) => {
                let number = self.plan.template.number(interest.name);
                let ours = number.is_some_and(|number| self.outstanding.has(number));
                self.tally.nacks += u64::from(ours);
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
        let right = data.content.len() == self.plan.payload_octets
            && self.plan.checker.as_ref().is_none_or(|checker| checker.is_right(data));
        if right {
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

    /// Ends the wait for what was not answered in time: with a window it is asked for again, at a
    /// rate it is lost.
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

    /// When the flow has something to do without a packet coming.
    pub(super) fn due_ns(&self, now_ns: u64) -> u64 {
        let Some(rate) = self.plan.rate else { return self.outstanding.due_ns() };
        let next = u128::from(self.asked + 1) * 1_000_000_000 / u128::from(rate.max(1));
        let next_ns = self.started_ns.saturating_add(u64::try_from(next).unwrap_or(u64::MAX));
        next_ns.max(now_ns.saturating_add(PACE_NS)).min(self.outstanding.due_ns())
    }
}

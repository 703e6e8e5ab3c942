//! A consumer that sends Interests at a constant rate, regardless of answers.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use namely_forwarder::Received;
use namely_transport::fetch::PieceInterest;
use namely_wire::{DataView, Name};

use crate::behaviour::{Behaviour, Context};
use crate::packet::Packet;

/// InterestLifetime in ms, and the maximum wait for an answer.
const LIFETIME_MS: u64 = 2_000;

/// Maximum round trip of the histogram in ns.
const RTT_NS_MAX: u64 = 10_000_000_000;

/// A consumer at a constant rate: pieces in order, or drawn at random from a catalogue.
#[derive(Debug)]
pub struct ConstantRate {
    template: PieceInterest,
    interval_ns: u64,
    catalogue: Option<u64>,
    next: u64,
    /// Time of sending of each outstanding piece.
    pending: BTreeMap<u64, u64>,
    /// Interests sent.
    pub interests: u64,
    /// Data received in time.
    pub data: u64,
    /// Interests that a router refused.
    pub nacks: u64,
    /// Round trips in ns.
    pub rtt_ns: Histogram<u64>,
}

impl ConstantRate {
    /// Requests `per_second` pieces under `prefix` each second, in order.
    pub fn new(prefix: Name, per_second: u64) -> Self {
        ConstantRate {
            template: PieceInterest::new(prefix.as_name(), LIFETIME_MS),
            interval_ns: 1_000_000_000 / per_second.max(1),
            catalogue: None,
            next: 0,
            pending: BTreeMap::new(),
            interests: 0,
            data: 0,
            nacks: 0,
            rtt_ns: Histogram::new_with_bounds(1, RTT_NS_MAX, 2).expect("bounds that a histogram can have"),
        }
    }

    /// Draws each piece from `pieces` at random instead, so that caches have hits.
    #[must_use]
    pub fn from_catalogue(mut self, pieces: u64) -> Self {
        self.catalogue = Some(pieces);
        self
    }
}

impl Behaviour for ConstantRate {
    fn start(&mut self, context: &mut Context<'_>) {
        // A random offset, so that consumers do not all start at the same nanosecond.
        let offset_ns = context.random().below(self.interval_ns);
        context.wake_at(context.now_ns() + offset_ns);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        if packet.headers.nack.is_some() {
            self.nacks += 1;
            return;
        }
        let Ok(data) = DataView::parse(&packet.packet) else { return };
        let sent_ns = self.template.piece(data.name).and_then(|piece| self.pending.remove(&piece));
        if let Some(sent_ns) = sent_ns {
            self.data += 1;
            self.rtt_ns.saturating_record(context.now_ns() - sent_ns);
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        context.wake_at(now_ns + self.interval_ns);
        let piece = match self.catalogue {
            Some(pieces) => context.random().below(pieces),
            None => self.next,
        };
        self.next += 1;
        let late_ns = now_ns.saturating_sub(LIFETIME_MS * 1_000_000);
        if self.next.is_multiple_of(64) {
            self.pending.retain(|_, sent_ns| *sent_ns >= late_ns);
        }
        self.pending.insert(piece, now_ns);
        self.interests += 1;
        let nonce = context.random().nonce();
        context.send(Packet::new(|out| self.template.write(piece, false, nonce, out)));
    }
}

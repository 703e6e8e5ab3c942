//! A consumer that requests the names of a trace at their times.

use std::collections::BTreeMap;

use namely_forwarder::Received;
use namely_wire::{DataView, InterestBuilder};

use crate::behaviour::{Behaviour, Context};
use crate::behaviours::Requests;
use crate::packet::Packet;
use crate::trace::TraceRequest;
use crate::units::MS;

/// InterestLifetime in ms, and the maximum wait for an answer.
const LIFETIME_MS: u64 = 4_000;

/// A consumer of a trace's requests.
#[derive(Debug)]
pub struct TraceConsumer {
    trace: Vec<TraceRequest>,
    next: usize,
    /// Times of outstanding requests, by the octets of their names.
    pending: BTreeMap<Vec<u8>, u64>,
    /// Its measurements.
    pub requests: Requests,
}

impl TraceConsumer {
    /// Creates a consumer with its own requests, which are sorted by time.
    pub fn new(trace: Vec<TraceRequest>) -> Self {
        TraceConsumer { trace, next: 0, pending: BTreeMap::new(), requests: Requests::default() }
    }

    /// Forgets requests without an answer in time.
    fn forget(&mut self, now_ns: u64) {
        let before = self.pending.len();
        self.pending.retain(|_, sent_ns| *sent_ns + LIFETIME_MS * MS > now_ns);
        self.requests.unanswered += (before - self.pending.len()) as u64;
    }

    fn wait(&self, context: &mut Context<'_>) {
        let next_ns = self.trace.get(self.next).map(|request| request.at_ns);
        // After the last request, the outstanding ones are counted.
        let last_ns = self.pending.values().max().map(|sent_ns| sent_ns + LIFETIME_MS * MS);
        context.wake_at(next_ns.or(last_ns).unwrap_or(u64::MAX));
    }
}

impl Behaviour for TraceConsumer {
    fn start(&mut self, context: &mut Context<'_>) {
        self.wait(context);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        if packet.headers.nack.is_some() {
            self.requests.nacks += 1;
            return;
        }
        let Ok(data) = DataView::parse(&packet.packet) else { return };
        if let Some(sent_ns) = self.pending.remove(data.name.as_bytes()) {
            self.requests.answered(context.now_ns() - sent_ns, packet.packet.len());
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        while let Some(TraceRequest { at_ns, name, .. }) = self.trace.get(self.next) {
            if *at_ns > now_ns {
                break;
            }
            self.next += 1;
            self.requests.interests += 1;
            self.pending.insert(name.as_bytes().to_vec(), now_ns);
            let interest = InterestBuilder::new(name.clone()).nonce(context.random().nonce());
            context.send(interest.lifetime_ms(LIFETIME_MS).build());
        }
        if self.next == self.trace.len() || self.next.is_multiple_of(64) {
            self.forget(now_ns);
        }
        self.wait(context);
    }
}

//! A producer that answers every Interest under a prefix, at once.

use namely_forwarder::Received;
use namely_wire::{DataBuilder, InterestView, LpHeaders, Name, SignatureInfo};

use crate::behaviour::{Behaviour, Context};
use crate::packet::Packet;

/// A producer. It routes its prefix to itself at its own node. Its Data have the null signature,
/// because verification is not simulated.
#[derive(Debug)]
pub struct Producer {
    prefix: Name,
    content: Vec<u8>,
    freshness_ms: u64,
    /// Interests answered.
    pub answered: u64,
}

impl Producer {
    /// Creates a producer under `prefix` with `content_octets` of zeros, fresh for ten seconds.
    pub fn new(prefix: Name, content_octets: usize) -> Self {
        Producer { prefix, content: vec![0; content_octets], freshness_ms: 10_000, answered: 0 }
    }
}

impl Behaviour for Producer {
    fn start(&mut self, context: &mut Context<'_>) {
        let face = context.face();
        // Without the route no Interest arrives here, which the consumers' counters show.
        let _ = context.forwarder().fib().add_nexthop(self.prefix.as_name(), face, 0);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        let Ok(interest) = InterestView::parse(&packet.packet) else { return };
        self.answered += 1;
        let builder = DataBuilder::new(interest.name).freshness_ms(self.freshness_ms);
        let data = builder.build(&self.content, &SignatureInfo::null()).finish(&[]);
        let headers = LpHeaders { pit_token: packet.headers.pit_token, ..LpHeaders::default() };
        context.send_with(data, headers);
    }
}

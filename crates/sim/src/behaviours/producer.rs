//! A producer that answers every Interest under a prefix, at once.

use namely_forwarder::Received;
use namely_wire::{InterestView, LpHeaders, Name};

use crate::behaviour::{Behaviour, Context};
use crate::behaviours::data_template::DataTemplate;
use crate::packet::Packet;

/// FreshnessPeriod in ms.
const FRESHNESS_MS: u64 = 10_000;

/// A producer. It routes its prefix to itself at its own node. Its Data have the null signature,
/// because verification is not simulated.
#[derive(Debug)]
pub struct Producer {
    prefix: Name,
    data: DataTemplate,
    /// Interests answered.
    pub answered: u64,
}

impl Producer {
    /// Creates a producer under `prefix` with `content_octets` of zeros, fresh for ten seconds.
    pub fn new(prefix: Name, content_octets: usize) -> Self {
        let data = DataTemplate::new(&vec![0; content_octets], FRESHNESS_MS);
        Producer { prefix, data, answered: 0 }
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
        let headers = LpHeaders { pit_token: packet.headers.pit_token, ..LpHeaders::default() };
        context.send_with(Packet::new(|out| self.data.write(interest.name, out)), headers);
    }
}

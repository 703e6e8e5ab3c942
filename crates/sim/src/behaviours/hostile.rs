//! A hostile neighbor. It sends as many Interests for nonexistent names as a router accepts, and
//! unsolicited Data under names that other nodes request.

use namely_forwarder::Received;
use namely_transport::fetch::PieceInterest;
use namely_wire::{DataBuilder, InterestBuilder, InterestView, Name, SignatureInfo};

use crate::behaviour::{Behaviour, Context};
use crate::packet::Packet;

/// InterestLifetime, ms: an hour.
const LIFETIME_MS: u64 = 3_600_000;

/// Attach it with [`crate::Network::attach_neighbour`]: a forwarder of its own would limit it.
#[derive(Debug)]
pub struct Hostile {
    void: Name,
    template: PieceInterest,
    pieces: u64,
    interval_ns: u64,
    /// Interests sent.
    pub interests: u64,
    /// Interests that the router refused.
    pub nacks: u64,
    /// Unsolicited Data sent.
    pub data: u64,
}

impl Hostile {
    /// Creates a neighbor that sends `per_second` Interests per second for new names under `void`,
    /// and as many Data in the place of one of `pieces` under `prefix`.
    pub fn new(void: Name, prefix: &Name, pieces: u64, per_second: u64) -> Self {
        Hostile {
            void,
            template: PieceInterest::new(prefix.as_name(), LIFETIME_MS),
            pieces: pieces.max(1),
            interval_ns: 1_000_000_000 / per_second.max(1),
            interests: 0,
            nacks: 0,
            data: 0,
        }
    }

    fn send_interest(&mut self, context: &mut Context<'_>) {
        let name = self.void.clone().join_number(50, self.interests);
        let interest = InterestBuilder::new(name).nonce(context.random().nonce()).lifetime_ms(LIFETIME_MS);
        self.interests += 1;
        context.send(interest.build());
    }

    fn send_data(&mut self, context: &mut Context<'_>) {
        let (piece, mut wire) = (context.random().below(self.pieces), Vec::new());
        self.template.write(piece, false, [0; 4], &mut wire);
        let Ok(interest) = InterestView::parse(&wire) else { return };
        let builder = DataBuilder::new(interest.name).freshness_ms(LIFETIME_MS);
        self.data += 1;
        context.send(builder.build(b"poison", &SignatureInfo::null()).finish(&[]));
    }
}

impl Behaviour for Hostile {
    fn start(&mut self, context: &mut Context<'_>) {
        context.wake_at(context.now_ns());
    }

    fn receive(&mut self, packet: &Received<Packet>, _: &mut Context<'_>) {
        self.nacks += u64::from(packet.headers.nack.is_some());
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        context.wake_at(context.now_ns() + self.interval_ns);
        self.send_interest(context);
        self.send_data(context);
    }
}

//! Packets received from the router.

use namely_wire::{DataView, InterestView, LpHeaders, NackReason};

/// A packet from the router.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The network packet.
    pub packet: Packet<'a>,
    /// Its link headers. An answer to an Interest carries the Interest's PIT token: see
    /// [`Incoming::answer_headers`].
    pub headers: &'a LpHeaders,
    /// The time at which it was read, by the connection's clock.
    pub received_ns: u64,
}

/// A network packet, checked.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// An Interest to answer.
    Interest(InterestView<'a>),
    /// Data.
    Data(DataView<'a>),
    /// An Interest of this client that the router refused.
    Nack(InterestView<'a>, NackReason),
}

impl Incoming<'_> {
    /// Headers for the answer to this Interest. They contain its PIT token, of any length.
    pub fn answer_headers(&self) -> LpHeaders {
        LpHeaders { pit_token: self.headers.pit_token, ..LpHeaders::default() }
    }
}

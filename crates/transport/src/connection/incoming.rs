//! Packets that came from the router.

use namely_wire::{DataView, InterestView, LpHeaders, NackReason};

/// A packet from the router.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The network packet.
    pub packet: Packet<'a>,
    /// Its link headers. An answer to an Interest carries the Interest's PIT token: see
    /// [`Incoming::answer_headers`].
    pub headers: &'a LpHeaders,
    /// When it was read, by the connection's clock.
    pub received_ns: u64,
}

/// A network packet, checked.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// An Interest to answer.
    Interest(InterestView<'a>),
    /// Data.
    Data(DataView<'a>),
    /// An Interest of ours that the router refused.
    Nack(InterestView<'a>, NackReason),
}

impl Incoming<'_> {
    /// Headers for the answer to this Interest: its PIT token comes back, of any length.
    pub fn answer_headers(&self) -> LpHeaders {
        LpHeaders { pit_token: self.headers.pit_token, ..LpHeaders::default() }
    }
}

//! Serving: a producer behind a connection, registered and asked for as long as the caller wants.

use namely_wire::{InterestView, LpHeaders, Name};

use crate::connection::{CommandError, Connection, ConnectionError, Outbox, Packet};
use crate::publish::Publication;

/// How long one turn waits before the caller is asked whether to go on.
const TURN_NS: u64 = 200_000_000;

/// Something that answers Interests.
pub trait Producer {
    /// The prefixes under which it is asked: registered with the router.
    fn prefixes(&self) -> Vec<Name>;

    /// Answers `interest` by at most one packet put into `outbox` with `headers`; silence means
    /// that there is no such data.
    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox);
}

impl Producer for Publication {
    fn prefixes(&self) -> Vec<Name> {
        vec![self.object().without_last(1).to_name()]
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        if let Some(wire) = Publication::answer(self, interest) {
            outbox.send(headers, wire);
        }
    }
}

/// Registers the producer's prefixes. It is asked already while the last of them are being
/// registered.
///
/// # Errors
/// The router is gone, refuses, or does not answer.
pub fn register(connection: &mut Connection, producer: &mut dyn Producer) -> Result<(), CommandError> {
    for prefix in producer.prefixes() {
        connection.register(&prefix, &mut |incoming, outbox| {
            if let Packet::Interest(interest) = incoming.packet {
                producer.answer(&interest, &incoming.answer_headers(), outbox);
            }
        })?;
    }
    Ok(())
}

/// Answers until `go_on`, asked several times a second, says no. Answers leave in the order of the
/// Interests, all those of one turn in one write.
///
/// # Errors
/// The router went away and did not come back.
pub fn serve(
    connection: &mut Connection,
    producer: &mut dyn Producer,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), ConnectionError> {
    while go_on() {
        let deadline_ns = connection.now_ns().saturating_add(TURN_NS);
        connection.turn(deadline_ns, &mut |incoming, outbox| {
            if let Packet::Interest(interest) = incoming.packet {
                producer.answer(&interest, &incoming.answer_headers(), outbox);
            }
        })?;
    }
    Ok(())
}

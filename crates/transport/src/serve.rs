//! Serving: a producer behind a connection, registered and asked for as long as the caller wants.

use namely_wire::{InterestView, LpHeaders, Name};

use crate::connection::{CommandError, Connection, ConnectionError, Incoming, Outbox, Packet, Reach};
use crate::publish::Publication;

/// How long one turn waits before the caller is asked whether to go on.
const TURN_NS: u64 = 200_000_000;

/// Something that answers Interests.
pub trait Producer {
    /// The prefixes under which it is asked, which the router is told of: its own first, then those
    /// below which others may answer too, such as the names of keys.
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

/// Makes the producer's prefixes known to the router, and tells how Interests come to its own one.
/// It is asked already while the last of them are being registered.
///
/// # Errors
/// The router is gone, refuses, or does not answer. That it refuses a prefix which others may
/// answer for is logged only.
pub fn register(connection: &mut Connection, producer: &mut dyn Producer) -> Result<Reach, CommandError> {
    let mut reach = None;
    for prefix in producer.prefixes() {
        let handler = &mut |incoming: Incoming<'_>, outbox: &mut Outbox| {
            if let Packet::Interest(interest) = incoming.packet {
                producer.answer(&interest, &incoming.answer_headers(), outbox);
            }
        };
        if reach.is_none() {
            reach = Some(connection.register(&prefix, handler)?);
            continue;
        }
        match connection.register_shared(&prefix, handler) {
            Err(error @ (CommandError::Refused(_) | CommandError::NotBound(_))) => {
                tracing::warn!(%prefix, %error, "the router does not lead to a certificate");
            }
            other => drop(other?),
        }
    }
    Ok(reach.unwrap_or(Reach::Route))
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

//! Serves a producer over a connection: registers its prefixes, and passes it Interests until the
//! caller ends it.

use namely_wire::{InterestView, LpHeaders, Name};

use crate::connection::{CommandError, Connection, ConnectionError, Incoming, Outbox, Packet, Reachability};
use crate::publish::Publication;

/// Maximum wait of one round before the caller decides whether to continue.
const TURN_NS: u64 = 200_000_000;

/// A source of answers to Interests.
pub trait Producer {
    /// The prefixes to register with the router. The first is the producer's own. Below the others,
    /// such as the names of keys, other clients may answer, too.
    fn prefixes(&self) -> Vec<Name>;

    /// Answers `interest`: queues at most one packet in `outbox`, with `headers`. No packet means
    /// that there is no such Data.
    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox);
}

impl Producer for Publication {
    fn prefixes(&self) -> Vec<Name> {
        // The prefix has no version, so that Interests for metadata arrive, too.
        vec![self.object().without_last(1).to_name()]
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        if let Some(wire) = Publication::answer(self, interest) {
            outbox.send(headers, wire);
        }
    }
}

/// Registers the producer's prefixes with the router. Returns the way in which Interests reach its
/// own prefix. The producer answers Interests already while further prefixes are being registered.
///
/// # Errors
/// The router is gone, refuses, or does not answer. A refusal of a shared prefix is only logged.
pub fn register(
    connection: &mut Connection,
    producer: &mut dyn Producer,
) -> Result<Reachability, CommandError> {
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
            // Consumers may have the certificate already, so serving continues.
            Err(error @ (CommandError::Refused(_) | CommandError::NotBound(_))) => {
                tracing::warn!(%prefix, %error, "the router does not lead to a certificate");
            }
            other => drop(other?),
        }
    }
    Ok(reach.unwrap_or(Reachability::Route))
}

/// Answers Interests until `go_on` returns false. It is called at least several times a second.
/// Answers are sent in the order of the Interests, those of one round together.
///
/// # Errors
/// The connection to the router was lost and could not be restored.
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

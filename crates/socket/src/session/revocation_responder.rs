//! Serves the revocation records of ended sessions until the process ends (HT-11).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use namely_transport::answers;
use namely_transport::connection::{Connection, ConnectionError, Incoming, Options, Outbox, Packet};
use namely_wire::{DataView, Name};

use crate::engine::{Engine, Role};
use crate::error::BindError;

/// Revocation records that a process serves at each router.
///
/// # Limit
/// The oldest record is no longer served.
/// - Tests: `a_revocation_responder_forgets_its_oldest_record`
pub(crate) const RECORDS_MAX: usize = 1024;

/// Routers at which a process serves revocation records.
///
/// A router counts once for each signing key.
///
/// # Limit
/// Records are not served at a further router.
/// - Tests: `a_revocation_responder_forgets_its_oldest_record`
const ROUTERS_MAX: usize = 64;

/// A router, and the key that signs commands to it.
type RouterKey = (String, Option<Name>);

static RESPONDERS: Mutex<BTreeMap<RouterKey, Engine<RevocationResponder>>> = Mutex::new(BTreeMap::new());

/// One record, and its registered prefix.
pub(super) struct Record {
    /// Registered with the router.
    pub(super) prefix: Name,
    /// A Data.
    pub(super) wire: Vec<u8>,
}

/// Serves `record` at `router` from now on, over a connection with these options.
pub(super) fn announce(router: &str, record: Record, options: Options) -> Result<(), BindError> {
    let mut responders = RESPONDERS.lock().unwrap_or_else(PoisonError::into_inner);
    // A responder with a lost router, or of a parent process, refuses the record.
    let key = (router.to_owned(), options.signer.key_name().cloned());
    let taken = match responders.get(&key) {
        Some(responder) => responder.try_order(record),
        None => Err(record),
    };
    let Err(record) = taken else { return Ok(()) };
    if responders.len() >= ROUTERS_MAX && !responders.contains_key(&key) {
        tracing::warn!(router, "revocation records are announced at too many routers already");
        return Ok(());
    }
    let connection = Connection::find(Some(router), options)?;
    let engine = Engine::start("namely-revoked", connection, RevocationResponder::default())?;
    let _ = engine.try_order(record);
    responders.insert(key, engine);
    Ok(())
}

#[derive(Default)]
struct RevocationResponder {
    records: VecDeque<Record>,
}

impl RevocationResponder {
    /// Adds a record; returns the one that is evicted for it.
    fn keep(&mut self, record: Record) -> Option<Record> {
        let oldest = if self.records.len() == RECORDS_MAX { self.records.pop_front() } else { None };
        self.records.push_back(record);
        oldest
    }

    fn answer(&self, incoming: &Incoming<'_>, outbox: &mut Outbox) {
        let Packet::Interest(interest) = &incoming.packet else { return };
        let is_answer =
            |record: &&Record| DataView::parse(&record.wire).is_ok_and(|data| answers(interest, &data));
        if let Some(record) = self.records.iter().find(is_answer) {
            outbox.send(&incoming.answer_headers(), &record.wire);
        }
    }
}

impl Role for RevocationResponder {
    type Order = Record;

    fn order(&mut self, order: Record, connection: &mut Connection) {
        let prefix = order.prefix.clone();
        if let Some(oldest) = self.keep(order) {
            let _ = connection.unregister(&oldest.prefix);
        }
        // The prefix is registered as shared instead of bound, so that the next producer can bind
        // the identity's prefix.
        let handler = &mut |incoming: Incoming<'_>, outbox: &mut Outbox| self.answer(&incoming, outbox);
        let registered = connection.register_shared(&prefix, handler);
        if let Err(error) = registered {
            tracing::warn!(%prefix, %error, "the router does not lead to revocation records");
        }
    }

    fn poll(&mut self, _: &mut Connection) -> u64 {
        u64::MAX
    }

    fn take(&mut self, incoming: Incoming<'_>, outbox: &mut Outbox) {
        self.answer(&incoming, outbox);
    }

    fn close(self, _: &mut Connection) {}

    fn lost(self, error: ConnectionError) {
        tracing::debug!(%error, "revocation records are announced no longer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_responder_forgets_its_oldest_record() {
        let record = |i: usize| Record { prefix: Name::new().join_generic(i.to_string()), wire: Vec::new() };
        let mut responder = RevocationResponder::default();
        assert!((0..RECORDS_MAX).all(|i| responder.keep(record(i)).is_none()));
        let oldest = responder.keep(record(RECORDS_MAX)).unwrap();
        assert_eq!((oldest.prefix, responder.records.len()), (record(0).prefix, RECORDS_MAX));
    }
}

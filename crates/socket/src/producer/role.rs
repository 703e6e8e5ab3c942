//! What a producer's thread does: answers Interests, and sends what other threads answered.

use std::convert::Infallible;
use std::sync::Arc;

use namely_transport::connection::{Connection, ConnectionError, Incoming, Outbox, Packet};
use namely_wire::Name;

use super::shared::Shared;
use crate::engine::Role;
use crate::error::CallError;

/// What is asked of it: nothing, other threads reach it by what they share.
pub(super) type Order = Infallible;

/// The state of a producer's thread.
pub(super) struct ProducerRole {
    registered: Vec<Name>,
    shared: Arc<Shared>,
}

impl ProducerRole {
    pub(super) fn new(registered: Vec<Name>, shared: Arc<Shared>) -> Self {
        ProducerRole { registered, shared }
    }
}

impl Role for ProducerRole {
    type Order = Order;

    fn order(&mut self, order: Order, _: &mut Connection) {
        match order {}
    }

    fn poll(&mut self, connection: &mut Connection) -> u64 {
        let now_ns = connection.now_ns();
        self.shared.follow_path(connection);
        self.shared.poll(now_ns, connection.outbox())
    }

    fn take(&mut self, incoming: Incoming<'_>, outbox: &mut Outbox) {
        if let Packet::Interest(interest) = &incoming.packet {
            self.shared.take(interest, &incoming, outbox);
        }
    }

    fn close(self, connection: &mut Connection) {
        for prefix in &self.registered {
            // A router that is gone forgot it by itself.
            if connection.is_connected()
                && let Err(error) = connection.unregister(prefix)
            {
                tracing::debug!(%prefix, %error, "the router was not told that the prefix is free");
            }
        }
    }

    fn lost(self, _: ConnectionError) {
        self.shared.end(CallError::RouterLost);
    }
}

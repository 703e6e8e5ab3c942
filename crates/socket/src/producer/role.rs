//! What a producer's thread does.

use std::convert::Infallible;
use std::sync::Arc;

use namely_transport::connection::{Connection, ConnectionError, Incoming, Outbox, Packet};
use namely_wire::Name;

use super::buffer::Buffer;
use crate::engine::Role;

/// What is asked of it: nothing yet that the buffer does not do by itself.
pub(super) type Order = Infallible;

/// The state of a producer.
pub(super) struct ProducerRole {
    prefix: Name,
    buffer: Arc<Buffer>,
}

impl ProducerRole {
    pub(super) fn new(prefix: Name, buffer: Arc<Buffer>) -> Self {
        ProducerRole { prefix, buffer }
    }
}

impl Role for ProducerRole {
    type Order = Order;

    fn order(&mut self, order: Order, _: &mut Connection) {
        match order {}
    }

    fn poll(&mut self, _: &mut Connection) -> u64 {
        u64::MAX
    }

    fn take(&mut self, incoming: Incoming<'_>, outbox: &mut Outbox) {
        if let Packet::Interest(interest) = &incoming.packet {
            self.buffer.answer(interest, &incoming.answer_headers(), outbox);
        }
    }

    fn close(self, connection: &mut Connection) {
        if let Err(error) = connection.unregister(&self.prefix) {
            tracing::debug!(%error, "the router was not told that the prefix is free");
        }
    }

    fn lost(self, _: ConnectionError) {}
}

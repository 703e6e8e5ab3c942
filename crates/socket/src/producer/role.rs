//! What a producer's thread does: answers Interests, and sends what other threads answered.

use std::convert::Infallible;
use std::sync::Arc;

use namely_security::Signer;
use namely_transport::connection::{Connection, ConnectionError, Incoming, Outbox, Reach};
use namely_wire::Name;

use super::shared::Shared;
use crate::engine::Role;
use crate::error::{BindError, CallError};

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

    /// Signs commands by `identity` from now on, and answers where its certificates are.
    fn follow(&mut self, identity: Signer, connection: &mut Connection) {
        connection.set_signer(identity);
        register_certificates(connection, &self.shared, &mut self.registered);
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
        if let Some(identity) = self.shared.take_identity() {
            self.follow(identity, connection);
        }
        self.shared.poll(now_ns, connection.outbox())
    }

    fn take(&mut self, incoming: Incoming<'_>, outbox: &mut Outbox) {
        self.shared.take_incoming(&incoming, outbox);
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

/// Registers what the socket answers for: its prefix, and where the identity's certificates are if
/// that is elsewhere.
pub(super) fn register(
    connection: &mut Connection,
    prefix: &Name,
    shared: &Shared,
) -> Result<Vec<Name>, BindError> {
    let reach =
        connection.register(prefix, &mut |incoming, outbox| shared.take_incoming(&incoming, outbox))?;
    if reach == Reach::NoRouteYet {
        tracing::warn!(%prefix, "bound, but no route leads there yet: no Interest comes until there is one");
    }
    let mut registered = vec![prefix.clone()];
    register_certificates(connection, shared, &mut registered);
    Ok(registered)
}

/// Registers the names of the keys whose certificates the socket answers for, but where it is asked
/// already.
fn register_certificates(connection: &mut Connection, shared: &Shared, registered: &mut Vec<Name>) {
    for key_name in shared.key_names() {
        if registered.iter().any(|known| known.is_prefix_of(key_name.as_name())) {
            continue;
        }
        let handler =
            &mut |incoming: Incoming<'_>, outbox: &mut Outbox| shared.take_incoming(&incoming, outbox);
        match connection.register_shared(&key_name, handler) {
            Ok(_) => registered.push(key_name),
            // Others may serve it, and who trusts the identity mostly has it.
            Err(error) => tracing::debug!(%key_name, %error, "the router does not lead to a certificate"),
        }
    }
}

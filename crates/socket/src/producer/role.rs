//! The role of a producer's thread: it answers Interests, and sends the answers of other threads.

use std::convert::Infallible;
use std::sync::Arc;

use namely_security::Signer;
use namely_transport::connection::{Connection, ConnectionError, Incoming, Outbox, Reachability};
use namely_wire::Name;

use super::shared::Shared;
use crate::engine::Role;
use crate::error::{BindError, CallError};

/// The producer's thread takes no orders; other threads use the shared state.
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

    /// Signs commands by `identity` from now on, and registers the names of its certificates.
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
            // A lost router has removed the prefix itself.
            if connection.is_connected()
                && let Err(error) = connection.unregister(prefix)
            {
                tracing::debug!(%prefix, %error, "cannot unregister the prefix at the router");
            }
        }
    }

    fn lost(self, _: ConnectionError) {
        self.shared.end(CallError::RouterLost);
    }
}

/// Registers the names that the socket answers: its prefix, and the names of certificates that are
/// outside the prefix.
pub(super) fn register(
    connection: &mut Connection,
    prefix: &Name,
    shared: &Shared,
) -> Result<Vec<Name>, BindError> {
    let reach =
        connection.register(prefix, &mut |incoming, outbox| shared.take_incoming(&incoming, outbox))?;
    if reach == Reachability::NoRouteYet {
        tracing::warn!(%prefix, "bound, but no route leads there yet: no Interest comes until there is one");
    }
    if reach == Reachability::Shared {
        tracing::info!(%prefix, "other applications have registered the prefix, too: each answers a part");
    }
    let mut registered = vec![prefix.clone()];
    register_certificates(connection, shared, &mut registered);
    Ok(registered)
}

/// Registers the names of the keys with certificates on this socket, except names below a
/// registered one.
fn register_certificates(connection: &mut Connection, shared: &Shared, registered: &mut Vec<Name>) {
    for key_name in shared.key_names() {
        if registered.iter().any(|known| known.is_prefix_of(key_name.as_name())) {
            continue;
        }
        let handler =
            &mut |incoming: Incoming<'_>, outbox: &mut Outbox| shared.take_incoming(&incoming, outbox);
        match connection.register_shared(&key_name, handler) {
            Ok(_) => registered.push(key_name),
            // This is no failure: other hosts may serve the certificate, and most consumers that
            // trust the identity have it.
            Err(error) => tracing::debug!(%key_name, %error, "the router does not lead to a certificate"),
        }
    }
}

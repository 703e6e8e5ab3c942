//! What a consumer's thread does.

use namely_security::Verifier;
use namely_transport::connection::{Connection, ConnectionError, Incoming, Outbox};
use namely_transport::object::{ObjectError, ReadOptions, Reader};
use namely_wire::Name;

use crate::engine::Role;
use crate::error::{CallError, FetchError};
use crate::pending::Promise;

/// What is asked of it.
pub(super) enum Order {
    /// Fetch an object.
    Fetch { name: Name, read: ReadOptions, octets_max: u64, promise: Promise<Result<Vec<u8>, FetchError>> },
}

/// The state of a consumer.
pub(super) struct ConsumerRole {
    verifier: Verifier,
}

impl ConsumerRole {
    pub(super) fn new(verifier: Verifier) -> Self {
        ConsumerRole { verifier }
    }
}

impl Role for ConsumerRole {
    type Order = Order;

    fn order(&mut self, order: Order, connection: &mut Connection) {
        match order {
            Order::Fetch { promise, .. } if promise.is_given_up() => {}
            Order::Fetch { name, read, octets_max, promise } => {
                let fetched = Reader::new(connection, &mut self.verifier, read).read_to_vec(name, octets_max);
                promise.keep(fetched.map_err(|error| match error {
                    ObjectError::Connection(ConnectionError::Lost { .. }) => CallError::RouterLost.into(),
                    error => error.into(),
                }));
            }
        }
    }

    fn poll(&mut self, _: &mut Connection) -> u64 {
        u64::MAX
    }

    fn take(&mut self, _: Incoming<'_>, _: &mut Outbox) {}

    fn close(self, _: &mut Connection) {}

    fn lost(self, _: ConnectionError) {}
}

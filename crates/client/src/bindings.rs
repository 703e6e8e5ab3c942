//! Prefixes bound by applications of this host: namely's router only (docs/sockets.md).

use namely_messages::{Binding, Command, ControlParameters, Dataset};
use namely_wire::Name;

use crate::{Client, ClientError};

/// The face from the FIB to the applications of the router's host. Routable prefixes lead to it,
/// and applications bind prefixes below them.
pub const FACE_LOCAL: u64 = 1;

/// Name of [`FACE_LOCAL`] for users.
pub(crate) const LOCAL: &str = "local";

impl Client {
    /// Returns all bound prefixes (`bpt/list`).
    ///
    /// # Errors
    /// See [`ClientError`]: the router is gone, has no such table, does not answer, or its answer
    /// is malformed.
    pub fn bindings(&mut self) -> Result<Vec<Binding>, ClientError> {
        self.entries(Dataset::BptList)
    }

    /// Removes a bound prefix of the application at `face_id` (`bpt/unbind`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: that face has not bound it, or the router refuses.
    pub fn unbind(&mut self, prefix: &Name, face_id: u64) -> Result<(), ClientError> {
        let (name, face_id) = (Some(prefix.clone()), Some(face_id));
        self.command(Command::BptUnbind, &ControlParameters { name, face_id, ..Default::default() }).map(drop)
    }

    /// Returns the routable prefix that leads `name` to the applications of this host, if there is
    /// one and none of them has bound a prefix of `name`. In this case there is no route to `name`.
    ///
    /// # Errors
    /// Those of [`Client::bindings`].
    pub fn unbound_below(&mut self, name: &Name) -> Result<Option<Name>, ClientError> {
        let longest = self
            .fib()?
            .into_iter()
            .filter(|entry| entry.prefix.is_prefix_of(name.as_name()))
            .max_by_key(|entry| entry.prefix.len());
        let Some(entry) = longest.filter(|entry| entry.next_hops.iter().any(|hop| hop.face_id == FACE_LOCAL))
        else {
            return Ok(None);
        };
        let is_bound = self.bindings()?.iter().any(|binding| binding.prefix.is_prefix_of(name.as_name()));
        Ok((!is_bound).then_some(entry.prefix))
    }
}

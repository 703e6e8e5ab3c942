//! Prefixes that this host's applications have bound: namely's router only (docs/sockets.md).

use namely_wire::Name;
use namely_wire::mgmt::{Binding, Command, ControlParameters, Dataset};

use crate::{Client, ClientError};

/// The face from the FIB to the applications of the router's host: routable prefixes lead there,
/// and applications bind prefixes below them.
pub const FACE_LOCAL: u64 = 1;

/// What people call [`FACE_LOCAL`].
pub(crate) const LOCAL: &str = "local";

impl Client {
    /// All bound prefixes (`bpt/list`).
    ///
    /// # Errors
    /// See [`ClientError`]: the router is gone, has no such table, does not answer, or answers
    /// nonsense.
    pub fn bindings(&mut self) -> Result<Vec<Binding>, ClientError> {
        self.entries(Dataset::BptList)
    }

    /// Takes a bound prefix from the application at `face_id` (`bpt/unbind`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: that face has not bound it, or the router refuses.
    pub fn unbind(&mut self, prefix: &Name, face_id: u64) -> Result<(), ClientError> {
        let (name, face_id) = (Some(prefix.clone()), Some(face_id));
        self.command(Command::BptUnbind, &ControlParameters { name, face_id, ..Default::default() }).map(drop)
    }

    /// The routable prefix that leads `name` to the applications of this host, if one does and none
    /// has bound a prefix of `name`: the reason why there is no route to it.
    ///
    /// # Errors
    /// As of [`Client::bindings`].
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

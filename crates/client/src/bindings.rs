//! Prefixes bound by applications of this host: namely's router only (docs/sockets.md).

use namely_messages::{Binding, Command, ControlParameters, Dataset, FaceScope, FaceStatus, FibEntry};
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
        Ok(match self.upstream(name)? {
            Upstream::Unbound(prefix) => Some(prefix),
            _ => None,
        })
    }

    /// Returns the place to which the router would send an Interest for `name`. A Nack with the
    /// reason NoRoute does not contain whether the router itself or one behind it has no route.
    ///
    /// # Errors
    /// Those of [`Client::bindings`].
    pub fn upstream(&mut self, name: &Name) -> Result<Upstream, ClientError> {
        let longest = self
            .fib()?
            .into_iter()
            .filter(|entry| entry.prefix.is_prefix_of(name.as_name()))
            .max_by_key(|entry| entry.prefix.len());
        let Some(FibEntry { prefix, next_hops }) = longest else { return Ok(Upstream::None) };
        let faces = self.faces()?;
        let faces = faces.into_iter().filter(|face| next_hops.iter().any(|hop| hop.face_id == face.face_id));
        let (local, remote): (Vec<FaceStatus>, Vec<FaceStatus>) =
            faces.partition(|face| face.face_scope == FaceScope::Local);
        if !remote.is_empty() {
            return Ok(Upstream::Routers(remote.into_iter().map(|face| face.uri).collect()));
        }
        let is_bindable = local.iter().any(|face| face.face_id == FACE_LOCAL);
        let is_bound = |bindings: Vec<Binding>| {
            bindings.iter().any(|binding| binding.prefix.is_prefix_of(name.as_name()))
        };
        if is_bindable && !is_bound(self.bindings()?) {
            return Ok(Upstream::Unbound(prefix));
        }
        Ok(if local.is_empty() { Upstream::None } else { Upstream::Application(prefix) })
    }
}

/// The place to which a router sends Interests for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// No route leads anywhere, or the faces of the route are gone.
    None,
    /// This routable prefix leads to the applications of the router's host, and none of them has
    /// bound a prefix of the name.
    Unbound(Name),
    /// An application of the router's host serves this prefix.
    Application(Name),
    /// Other routers, at these URIs.
    Routers(Vec<String>),
}

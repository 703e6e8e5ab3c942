//! Routes of the RIB, and the resulting FIB of the router (NFD RIB and FIB Management).

use std::time::Duration;

use namely_messages::{Command, ControlParameters, Dataset, FibEntry, RibEntry, RouteOrigin, route_flags};
use namely_wire::Name;

use crate::{Client, ClientError};

/// Properties of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Origin of the route. A prefix has one route for each face and origin.
    pub origin: RouteOrigin,
    /// Cost; lower is better.
    pub cost: u64,
    /// Whether longer prefixes with routes of their own also use it.
    pub child_inherit: bool,
    /// Whether this prefix ignores routes of shorter prefixes.
    pub capture: bool,
    /// Time after which the router removes it; `None`: never.
    pub expires: Option<Duration>,
}

impl Default for RouteOptions {
    /// A static route for all names below its prefix, without expiration.
    fn default() -> Self {
        let origin = RouteOrigin::STATIC;
        RouteOptions { origin, cost: 0, child_inherit: true, capture: false, expires: None }
    }
}

impl Client {
    /// Returns all routes (`rib/list`).
    ///
    /// # Errors
    /// See [`ClientError`]: the router is gone, refuses, does not answer, or its answer is
    /// malformed.
    pub fn rib(&mut self) -> Result<Vec<RibEntry>, ClientError> {
        self.entries(Dataset::RibList)
    }

    /// Returns the FIB, sorted by prefix (`fib/list`).
    ///
    /// # Errors
    /// Those of [`Client::rib`].
    pub fn fib(&mut self) -> Result<Vec<FibEntry>, ClientError> {
        // A router with a large FIB sends it unsorted.
        let mut entries: Vec<FibEntry> = self.entries(Dataset::FibList)?;
        entries.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        Ok(entries)
    }

    /// Adds a route from `prefix` to a face, or changes that route (`rib/register`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: there is no such face, or the router refuses.
    pub fn add_route(
        &mut self,
        prefix: &Name,
        face_id: u64,
        options: &RouteOptions,
    ) -> Result<(), ClientError> {
        let flags = if options.child_inherit { route_flags::CHILD_INHERIT } else { 0 }
            | if options.capture { route_flags::CAPTURE } else { 0 };
        let ms = |expires: Duration| u64::try_from(expires.as_millis()).unwrap_or(u64::MAX);
        let parameters = ControlParameters {
            cost: Some(options.cost),
            flags: Some(flags),
            expiration_period_ms: options.expires.map(ms),
            ..route(prefix, face_id, options.origin)
        };
        self.command(Command::RibRegister, &parameters).map(drop)
    }

    /// Removes a route, if it exists (`rib/unregister`).
    ///
    /// # Errors
    /// [`ClientError::Command`]: the router refuses.
    pub fn remove_route(
        &mut self,
        prefix: &Name,
        face_id: u64,
        origin: RouteOrigin,
    ) -> Result<(), ClientError> {
        self.command(Command::RibUnregister, &route(prefix, face_id, origin)).map(drop)
    }
}

fn route(prefix: &Name, face_id: u64, origin: RouteOrigin) -> ControlParameters {
    ControlParameters {
        name: Some(prefix.clone()),
        face_id: Some(face_id),
        origin: Some(origin),
        ..Default::default()
    }
}

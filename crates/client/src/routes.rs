//! Routes of the RIB, and the FIB that the router makes of them (NFD RIB and FIB Management).

use std::time::Duration;

use namely_wire::Name;
use namely_wire::mgmt::{Command, ControlParameters, Dataset, FibEntry, RibEntry, RouteOrigin, route_flags};

use crate::{Client, ClientError};

/// How a route is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Who the route comes from. A prefix has one route for each face and origin.
    pub origin: RouteOrigin,
    /// Lower is better.
    pub cost: u64,
    /// Whether it serves longer prefixes that have routes of their own, too.
    pub child_inherit: bool,
    /// Whether routes of shorter prefixes do not serve this one.
    pub capture: bool,
    /// After how long the router removes it; `None` is never.
    pub expires: Option<Duration>,
}

impl Default for RouteOptions {
    /// A static route that serves all below its prefix and stays.
    fn default() -> Self {
        let origin = RouteOrigin::STATIC;
        RouteOptions { origin, cost: 0, child_inherit: true, capture: false, expires: None }
    }
}

impl Client {
    /// All routes (`rib/list`).
    ///
    /// # Errors
    /// See [`ClientError`]: the router is gone, refuses, does not answer, or answers nonsense.
    pub fn rib(&mut self) -> Result<Vec<RibEntry>, ClientError> {
        self.entries(Dataset::RibList)
    }

    /// Where Interests really go (`fib/list`).
    ///
    /// # Errors
    /// As of [`Client::rib`].
    pub fn fib(&mut self) -> Result<Vec<FibEntry>, ClientError> {
        // A router that has much sends it as it lies there.
        let mut entries: Vec<FibEntry> = self.entries(Dataset::FibList)?;
        entries.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        Ok(entries)
    }

    /// Has Interests below `prefix` go to a face, or changes that route (`rib/register`).
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

    /// Removes a route, if it is there (`rib/unregister`).
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

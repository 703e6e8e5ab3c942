//! Routes that a new neighbor receives, like `nfd-autoreg` of NFD.

use std::net::IpAddr;

use namely_host::Subnet;
use namely_wire::Name;
use serde::Deserialize;

use super::values;

/// Prefixes that are routed to every neighbor that connects to this router.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autoreg {
    /// The prefixes.
    #[serde(deserialize_with = "values::names")]
    pub prefixes: Vec<Name>,
    /// The networks that the neighbor's address must be in, such as `192.0.2.0/24`; absent: any.
    #[serde(default, deserialize_with = "values::subnets")]
    pub from: Vec<Subnet>,
    /// The routes' cost.
    #[serde(default)]
    pub cost: u64,
}

impl Autoreg {
    /// Returns true if a neighbor at `address` receives the routes.
    pub fn admits(&self, address: IpAddr) -> bool {
        self.from.is_empty() || self.from.iter().any(|subnet| subnet.contains(address))
    }
}

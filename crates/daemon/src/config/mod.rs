//! The configuration: what `namelyd` reads from TOML, with a default for every key.
//!
//! A key that is not known is refused, with file, line and what is allowed: a misspelt limit must not
//! silently be no limit. `docs/configuration.md` describes every key; `docs/namely.toml` is a sample that a
//! test loads.

mod authorization;
mod autoreg;
mod faces;
mod forwarder;
mod links;
mod load;
mod policy;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::collections::BTreeMap;

use namely_wire::Name;
use serde::Deserialize;

pub use authorization::{Authorization, KeyRule, User, UserRule};
pub use autoreg::{Autoreg, Subnet};
pub use faces::{Faces, MulticastGroup, Persistency, StaticFace, StaticRoute};
pub use links::{By, Dispatcher, Memif};
pub use load::{CONFIG_OCTETS_MAX, ConfigError, default_files};
pub use policy::PolicyError;
pub use tables::{Tables, Unsolicited};

/// Everything that can be configured. `Config::default()` is a router that serves this machine only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to listen, and what new faces are given.
    pub faces: Faces,
    /// Limits of the forwarder's tables.
    pub tables: Tables,
    /// What this node is called on the network.
    pub network: Network,
    /// The strategy of each prefix, beside the default `best-route` of `/`.
    #[serde(deserialize_with = "values::named")]
    pub strategy: BTreeMap<Name, String>,
    /// Faces made at start and kept.
    #[serde(deserialize_with = "faces::distinct")]
    pub face: Vec<StaticFace>,
    /// Routes made at start, to a face named by its remote URI.
    pub route: Vec<StaticRoute>,
    /// Routes for neighbours who make a face to this router.
    pub autoreg: Vec<Autoreg>,
    /// Who may change what.
    pub authorization: Authorization,
    /// What is written to standard error.
    pub log: Log,
}

/// What this node is called on the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// The names of the regions this router is in: an Interest whose forwarding hint names one of them is
    /// forwarded by its own name again.
    #[serde(deserialize_with = "values::names")]
    pub regions: Vec<Name>,
}

/// What is written to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`) or directives such as
    /// `info,namely_mgmt=debug`. Nothing is logged per packet above `trace`.
    #[serde(deserialize_with = "values::log_filter")]
    pub level: String,
}

impl Default for Log {
    fn default() -> Self {
        Log { level: "info".into() }
    }
}

impl Config {
    /// The settings in which `new` differs that only take effect when the router starts again.
    pub fn restart_needed(&self, new: &Config) -> Vec<&'static str> {
        let mut keys = self.tables.restart_needed(&new.tables);
        let mut differs = |key, changed: bool| {
            if changed {
                keys.push(key);
            }
        };
        differs("faces.listen", self.faces.listen != new.faces.listen);
        differs("faces.workers", self.faces.workers != new.faces.workers);
        differs("faces.multicast", self.faces.multicast != new.faces.multicast);
        differs("faces.idle_timeout_s", self.faces.idle_timeout_s != new.faces.idle_timeout_s);
        differs("faces.faces_max", self.faces.faces_max != new.faces.faces_max);
        let queues = |faces: &Faces| {
            (faces.codel_target_us, faces.codel_interval_ms, faces.congestion_threshold_octets)
        };
        differs("faces.dispatcher", self.faces.dispatcher != new.faces.dispatcher);
        differs("faces.memif", self.faces.memif != new.faces.memif);
        differs("faces.ethernet", self.faces.ethernet != new.faces.ethernet);
        differs("faces.busy_poll_us", self.faces.busy_poll_us != new.faces.busy_poll_us);
        let reading = |faces: &Faces| (faces.read_octets_per_turn, faces.read_datagrams_per_turn);
        differs("faces.read_*", reading(&self.faces) != reading(&new.faces));
        differs("faces.codel_*", queues(&self.faces) != queues(&new.faces));
        differs("network.regions", self.network != new.network);
        keys
    }
}

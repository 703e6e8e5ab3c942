//! The configuration of `namelyd` in TOML, with a default for every key.
//!
//! An unknown key is refused with file, line, column and the known keys. Otherwise a misspelled
//! limit would silently have no effect. One report lists all errors of a file.
//! `docs/configuration.md` describes every key; `docs/namely.toml` is a sample that a test loads.

mod authorization;
mod autoreg;
mod cs;
mod discovery;
mod document;
mod error;
mod examples;
mod faces;
mod faults;
mod forwarder;
mod kernel;
mod links;
mod listing;
mod load;
mod metrics;
mod policy;
mod process;
mod readvertise;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod values;
#[cfg_attr(not(feature = "vip"), path = "vip/absent.rs")]
mod vip;
mod words;

use std::collections::BTreeMap;

use namely_wire::Name;
use serde::Deserialize;

pub use crate::log::LogFormat;

pub use authorization::{Authorization, KeyRule, User, UserRule};
pub use autoreg::Autoreg;
pub(crate) use cs::check_budget;
pub use cs::{Admission, Cs, CsDisk, Engine, Filter, Queue, Variant};
pub use discovery::{AcceptRule, Discovery};
pub(crate) use error::Step;
pub use error::{ConfigError, Fault, Position};
pub(crate) use faces::default_listeners;
pub(crate) use faces::default_socket;
#[cfg(test)]
pub(crate) use faces::local_listeners;
pub use faces::{Faces, MulticastGroup, StaticFace, StaticRoute};
pub use kernel::Kernel;
pub use links::{Dispatcher, Memif};
pub(crate) use listing::{defaults, written};
pub(crate) use load::has_json_log;
pub use load::{CONFIG_OCTETS_MAX, Source, default_files};
pub use metrics::Metrics;
pub use policy::PolicyError;
pub use process::Process;
pub use readvertise::Readvertise;
pub use tables::Tables;
pub use values::{parse_name, parse_octets};
pub use vip::Vip;
#[cfg(feature = "vip")]
pub use vip::{Register, Trust, Unregistered, VipNeighbour};
pub(crate) use words::suggestion;

/// The whole configuration. `Config::default()` is a router that serves this machine only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Listeners, and settings of new faces.
    pub faces: Faces,
    /// Limits of the forwarder's tables.
    pub tables: Tables,
    /// The content store's disk.
    pub cs: Cs,
    /// The names of this node.
    pub network: Network,
    /// The strategy of each prefix, beside the default `best-route` of `/`.
    #[serde(deserialize_with = "values::named")]
    pub strategy: BTreeMap<Name, String>,
    /// Faces that are made at start.
    #[serde(deserialize_with = "faces::distinct")]
    pub face: Vec<StaticFace>,
    /// Routes made at start, to a face named by its remote URI.
    pub route: Vec<StaticRoute>,
    /// Routes for neighbors that connect to this router.
    pub autoreg: Vec<Autoreg>,
    /// Routes that are reported to a routing daemon on this machine.
    pub readvertise: Readvertise,
    /// Authorization rules.
    pub authorization: Authorization,
    /// Neighbor discovery on network devices.
    pub discovery: Discovery,
    /// Forwarding by the kernel.
    pub kernel: Kernel,
    /// The virtual plane of VIP, if enabled.
    pub vip: Option<Vip>,
    /// The user of the process, and its restrictions.
    pub process: Process,
    /// The listener for metrics.
    pub metrics: Metrics,
    /// Logging to standard error.
    pub log: Log,
    /// The file of these settings.
    #[serde(skip)]
    pub source: Source,
}

/// The names of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// The regions of this router. If a name of an Interest's forwarding hint is a prefix of a
    /// region, the Interest is forwarded by its own name again.
    #[serde(deserialize_with = "values::names")]
    pub regions: Vec<Name>,
    /// Routable prefixes of this machine. Interests below them are sent to the applications that
    /// have bound prefixes there.
    #[serde(deserialize_with = "values::names")]
    pub local: Vec<Name>,
}

/// Logging to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`) or directives such as
    /// `info,namely_mgmt=debug`. Only the level `trace` logs single packets.
    #[serde(deserialize_with = "values::log_filter")]
    pub level: String,
    /// The format of a line.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Log { level: "info".into(), format: LogFormat::default() }
    }
}

/// Iterates over the changed keys of one table of the configuration, by their full names.
macro_rules! changed_keys {
    ($old:expr, $new:expr, $table:literal: $($key:ident),* $(,)?) => {
        [$((concat!($table, ".", stringify!($key)), $old.$key != $new.$key)),*]
            .into_iter()
            .filter_map(|(key, is_changed)| is_changed.then_some(key))
    };
}
use changed_keys;

impl Config {
    /// Keys that differ in `new` and take effect only at the next start. The others take effect at
    /// a reload, or for faces made after it.
    pub fn restart_needed(&self, new: &Config) -> Vec<&'static str> {
        let faces = changed_keys!(
            self.faces, new.faces, "faces":
            listen, listen_also, unix_mode, workers, multicast, idle_timeout_s, idle_unanswered_s, faces_max,
            faces_per_uid_max, faces_per_address_max, faces_local_reserve, queue_octets_total_max, interests_from,
            unproven_address_mbit_s, unproven_total_mbit_s, stall_timeout_s, codel_target_us, codel_interval_ms,
            congestion_threshold_octets, read_octets_per_turn, read_datagrams_per_turn, busy_poll_us, dispatcher,
            memif, ethernet,
        );
        // `localhop_rib` also sets a route at start and a property of faces.
        let authorization = changed_keys!(
            self.authorization, new.authorization, "authorization": localhop_rib, loopback_udp,
        );
        let process = changed_keys!(
            self.process, new.process, "process": user, core_dumps, confine_files, confine_calls,
        );
        let tables = self.tables.restart_needed(&new.tables);
        let discovery = changed_keys!(
            self.discovery, new.discovery, "discovery": enabled, key_chain,
        );
        let disk = self.cs.disk.restart_needed(&new.cs.disk);
        // The plane starts and stops with the router, but a reload can change its settings.
        let has_plane = |config: &Config| config.vip.as_ref().map(|vip| vip.router.clone());
        let vip = (has_plane(self) != has_plane(new)).then_some("vip.router");
        // Tables are allocated for this number of blocks.
        let blocks_max = |config: &Config| config.vip.as_ref().map(|vip| vip.blocks_max());
        let has_both = self.vip.is_some() && new.vip.is_some();
        let register = (has_both && blocks_max(self) != blocks_max(new)).then_some("vip.register");
        let metrics = changed_keys!(self.metrics, new.metrics, "metrics": listen, hosts, faces_max);
        let kernel = changed_keys!(self.kernel, new.kernel, "kernel": enabled);
        let log = changed_keys!(self.log, new.log, "log": format);
        let all = faces.chain(tables).chain(disk).chain(authorization).chain(process).chain(discovery);
        all.chain(metrics).chain(log).chain(kernel).chain(vip).chain(register).collect()
    }
}

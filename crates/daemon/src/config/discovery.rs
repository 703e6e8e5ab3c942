//! Neighbor discovery on network devices.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use namely_discovery::Key;
use namely_security::read_certificate;
use namely_wire::Name;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::error::ConfigError;
use super::values;

/// Settings of neighbor discovery on the listening network devices (docs/discovery.md).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Discovery {
    /// Whether discovery runs.
    pub enabled: bool,
    /// Time between two hellos, ms. A neighbor that is silent for three intervals is removed.
    #[serde(deserialize_with = "heartbeat_ms")]
    pub heartbeat_ms: u64,
    /// Smallest MTU that a neighbor may have, octets.
    #[serde(deserialize_with = "mtu_octets_min")]
    pub mtu_octets_min: usize,
    /// Floor of the group MTU, octets. Multicast packets for a neighbor with a smaller MTU are
    /// sent to it by unicast.
    #[serde(deserialize_with = "mtu_octets_min")]
    pub group_mtu_octets_min: usize,
    /// Maximum number of neighbors on one device. Further ones are refused.
    pub neighbours_max: usize,
    /// Maximum number of neighbors on all devices together.
    pub neighbours_total_max: usize,
    /// Number of faults at which a peer is quarantined; one is forgiven each second.
    pub quarantine_faults: u64,
    /// Duration of a quarantine, seconds.
    pub quarantine_s: u64,
    /// Prefixes that this router announces; `/` for a router with a default route.
    #[serde(deserialize_with = "values::names")]
    pub prefixes: Vec<Name>,
    /// Rules for the prefixes of neighbors that become routes.
    pub accept: Vec<AcceptRule>,
    /// Accepts all prefixes, for a lab.
    pub open: bool,
    /// The folder with the router's link key. The default is `keys` in the service's state folder
    /// of systemd, if there is one. Without a folder, each start generates a new key.
    pub key_chain: Option<PathBuf>,
}

/// Prefixes that become routes when the neighbor with the given key announces them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptRule {
    /// This prefix and those below it.
    #[serde(deserialize_with = "values::name")]
    pub prefix: Name,
    /// The neighbor's key, as `namely neighbors --json` shows it: 64 hexadecimal digits.
    #[serde(default, deserialize_with = "key")]
    pub key: Option<Key>,
    /// Alternatively, a file with a certificate of that key.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
}

impl Default for Discovery {
    fn default() -> Self {
        let default = namely_discovery::Config::default();
        Discovery {
            enabled: true,
            heartbeat_ms: default.heartbeat_ns / 1_000_000,
            mtu_octets_min: default.mtu_octets_min,
            group_mtu_octets_min: default.group_mtu_octets_min,
            neighbours_max: default.neighbours_max,
            neighbours_total_max: default.neighbours_total_max,
            quarantine_faults: default.quarantine_faults,
            quarantine_s: default.quarantine_ns / 1_000_000_000,
            prefixes: Vec::new(),
            accept: Vec::new(),
            open: false,
            key_chain: None,
        }
    }
}

impl Discovery {
    /// The settings of the state machine.
    ///
    /// # Errors
    /// [`ConfigError`]: a rule whose key cannot be found, or too many prefixes.
    pub(crate) fn settings(&self) -> Result<namely_discovery::Config, ConfigError> {
        if self.prefixes.len() > namely_discovery::limits::PREFIXES_MAX {
            let most = namely_discovery::limits::PREFIXES_MAX;
            let why = format!("discovery.prefixes: a router announces at most {most} prefixes");
            return Err(ConfigError::at(["discovery".into(), "prefixes".into()], &why));
        }
        Ok(namely_discovery::Config {
            heartbeat_ns: self.heartbeat_ms.saturating_mul(1_000_000),
            mtu_octets_min: self.mtu_octets_min,
            group_mtu_octets_min: self.group_mtu_octets_min,
            neighbours_max: self.neighbours_max,
            neighbours_total_max: self.neighbours_total_max,
            quarantine_faults: self.quarantine_faults.max(1),
            quarantine_ns: self.quarantine_s.saturating_mul(1_000_000_000),
            prefixes: self.prefixes.clone(),
            accept: self
                .accept
                .iter()
                .enumerate()
                .map(|(n, rule)| rule.resolve(n))
                .collect::<Result<_, _>>()?,
            open: self.open,
        })
    }

    /// The certificate files of the rules.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = &Path> {
        self.accept.iter().filter_map(|rule| rule.certificate.as_deref())
    }
}

impl AcceptRule {
    /// The rule, which is the entry `number` of the list.
    fn resolve(&self, number: usize) -> Result<namely_discovery::AcceptRule, ConfigError> {
        let why = |why: &dyn Display| {
            let why = format!("discovery.accept of {}: {why}", self.prefix);
            ConfigError::at(["discovery".into(), "accept".into(), number.into()], &why)
        };
        let key = match (self.key, &self.certificate) {
            (Some(key), None) => key,
            (None, Some(path)) => {
                let certificate = read_certificate(path).map_err(|error| why(&error))?;
                let key = certificate.public_key().ed25519_octets();
                key.ok_or_else(|| why(&"routers have Ed25519 keys, and the certificate's is another"))?
            }
            _ => return Err(why(&"name the neighbor by `key` or by `certificate`")),
        };
        Ok(namely_discovery::AcceptRule { prefix: self.prefix.clone(), key })
    }
}

fn heartbeat_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        ms @ 100..=600_000 => Ok(ms),
        ms => Err(D::Error::custom(format!("{ms} ms: use 100 to 600000"))),
    }
}

fn mtu_octets_min<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        octets @ namely_link::MTU_OCTETS_MIN..=1500 => Ok(octets),
        octets => {
            let min = namely_link::MTU_OCTETS_MIN;
            Err(D::Error::custom(format!("{octets} octets: use {min} to 1500")))
        }
    }
}

pub(super) fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Key>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = || D::Error::custom(format!("`{text}` is not a key: write 64 hexadecimal digits"));
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(digits());
    }
    let mut key = [0; 32];
    for (octet, pair) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| digits())?;
        *octet = u8::from_str_radix(pair, 16).map_err(|_| digits())?;
    }
    Ok(Some(key))
}

//! Settings of neighbour discovery.

use alloc::vec::Vec;

use namely_wire::{Name, NameRef};

use crate::station::Key;

/// Settings of neighbour discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Time between two hellos (T_h), ns. A neighbour that is silent for three of them is gone.
    pub heartbeat_ns: u64,
    /// Smallest MTU that a neighbour may have, octets. Who has a smaller one is refused.
    pub mtu_octets_min: usize,
    /// Floor of what is multicast, octets: a neighbour with a smaller MTU shrinks nobody's frames,
    /// it receives what the group receives by unicast.
    pub group_mtu_octets_min: usize,
    /// Neighbours on one interface. Those that are there stay; a further one is refused.
    pub neighbours_max: usize,
    /// Neighbours on all interfaces.
    pub neighbours_total_max: usize,
    /// Faults of a station at which it is quarantined. One is forgiven each second.
    pub quarantine_faults: u64,
    /// For how long, ns.
    pub quarantine_ns: u64,
    /// What this router announces.
    pub prefixes: Vec<Name>,
    /// Which prefixes of neighbours become routes.
    pub accept: Vec<AcceptRule>,
    /// Whether all do. For a lab.
    pub open: bool,
}

/// Prefixes that a neighbour may announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptRule {
    /// This prefix, and any below it.
    pub prefix: Name,
    /// Whose: the neighbour's key.
    pub key: Key,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            heartbeat_ns: 3_000_000_000,
            mtu_octets_min: 64,
            group_mtu_octets_min: 576,
            neighbours_max: 256,
            neighbours_total_max: 1024,
            quarantine_faults: 16,
            quarantine_ns: 30_000_000_000,
            prefixes: Vec::new(),
            accept: Vec::new(),
            open: false,
        }
    }
}

impl Config {
    /// Whether a neighbour with this key may announce a prefix.
    pub(crate) fn accepts(&self, key: &Key, prefix: NameRef<'_>) -> bool {
        let by_rule = |rule: &AcceptRule| rule.key == *key && rule.prefix.is_prefix_of(prefix);
        self.open || self.accept.iter().any(by_rule)
    }
}

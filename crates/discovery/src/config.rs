//! Settings of neighbor discovery.

use alloc::vec::Vec;

use namely_wire::{Name, NameRef};

use crate::link_address::Key;

/// Settings of neighbor discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Time between two hellos (T_h), ns. After three such times of silence, a neighbor is removed.
    pub heartbeat_ns: u64,
    /// Smallest MTU of a neighbor.
    ///
    /// # Limit
    /// A peer with a smaller MTU does not become a neighbor.
    /// - Value: 64 octets
    /// - Setting: `discovery.mtu_octets_min`
    /// - Counter: `discovery.mtu_too_small`
    /// - Tests: `an_mtu_below_the_minimum_is_refused`
    pub mtu_octets_min: usize,
    /// Floor of the group MTU.
    ///
    /// A neighbor with a smaller MTU does not reduce the group MTU.
    ///
    /// # Limit
    /// Multicast packets are sent by unicast to a neighbor with a smaller MTU.
    /// - Value: 576 octets
    /// - Setting: `discovery.group_mtu_octets_min`
    /// - Tests: `a_group_mtu_stops_at_its_floor`
    pub group_mtu_octets_min: usize,
    /// Neighbors on one interface.
    ///
    /// # Limit
    /// A further neighbor is refused, and the existing ones stay.
    /// - Value: 256, of which half may be unproven
    /// - Setting: `discovery.neighbours_max`
    /// - Counter: `discovery.too_many_neighbours`
    /// - Tests: `known_neighbors_stay_when_the_table_is_full`,
    ///   `unproven_neighbors_get_half_the_table`
    pub neighbours_max: usize,
    /// Neighbors on all interfaces.
    ///
    /// # Limit
    /// A further neighbor is refused, and the existing ones stay.
    /// - Value: 1024
    /// - Setting: `discovery.neighbours_total_max`
    /// - Counter: `discovery.too_many_neighbours`
    /// - Tests: `known_neighbors_stay_when_the_table_is_full`
    pub neighbours_total_max: usize,
    /// Faults of a peer.
    ///
    /// # Limit
    /// Messages of the peer are dropped for the time `discovery.quarantine_s`.
    /// - Value: 16, of which one is forgiven each second
    /// - Setting: `discovery.quarantine_faults`
    /// - Counter: `discovery.quarantined`
    /// - Tests: `repeated_bad_signatures_cause_quarantine`
    pub quarantine_faults: u64,
    /// Duration of a quarantine, ns.
    pub quarantine_ns: u64,
    /// Prefixes that this router announces.
    pub prefixes: Vec<Name>,
    /// Rules for the prefixes of neighbors that become routes.
    pub accept: Vec<AcceptRule>,
    /// Whether all prefixes are accepted. For a lab.
    pub open: bool,
}

/// Prefixes that a neighbor may announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptRule {
    /// The rule covers this prefix and all prefixes below it.
    pub prefix: Name,
    /// The key of the neighbor that may announce them.
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
    /// Returns true if a neighbor with this key may announce a prefix.
    pub(crate) fn accepts(&self, key: &Key, prefix: NameRef<'_>) -> bool {
        let by_rule = |rule: &AcceptRule| rule.key == *key && rule.prefix.is_prefix_of(prefix);
        self.open || self.accept.iter().any(by_rule)
    }
}

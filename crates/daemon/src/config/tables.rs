//! Limits of the forwarder's tables.

use namely_forwarder::CsPolicy;
use serde::Deserialize;

use super::{changed_keys, values};

/// Limits of the forwarder's tables. What happens at each is in `docs/limits.md`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tables {
    /// Data packets that the content store holds: what `cs/config` calls capacity. 0: no store.
    pub cs_packets_max: usize,
    /// Entries of the content store's index: one for each prefix of each cached name.
    pub cs_entries_max: usize,
    /// Octets that the content store's packets may take, as a number or as text such as `"256MiB"`.
    #[serde(deserialize_with = "values::octets")]
    pub cs_octets_max: u64,
    /// What leaves the content store first.
    #[serde(deserialize_with = "values::text")]
    pub cs_policy: CsPolicy,
    /// Whether Data enters the content store.
    pub cs_admit: bool,
    /// Whether the content store answers Interests.
    pub cs_serve: bool,
    /// What becomes of Data that no Interest asked for.
    pub cs_unsolicited: Unsolicited,
    /// Pending Interests.
    pub pit_entries_max: usize,
    /// Pending Interests of one face.
    pub pit_entries_per_face_max: usize,
    /// Longest time that an Interest is kept pending, ms.
    pub interest_lifetime_ms_max: u64,
    /// Nonces remembered after their Interest is gone.
    pub dead_nonces_max: usize,
    /// How long they are remembered, ms.
    pub dead_nonce_lifetime_ms: u64,
    /// Prefixes in the FIB.
    pub fib_entries_max: usize,
    /// Next hops of one prefix.
    pub nexthops_max: usize,
    /// Routes in the RIB.
    pub rib_routes_max: usize,
    /// Prefixes with a strategy of their own.
    pub strategy_choices_max: usize,
    /// Whether an Interest that cannot go anywhere is answered with a NoRoute Nack.
    pub nack_no_route: bool,
}

impl Default for Tables {
    fn default() -> Self {
        Tables {
            cs_packets_max: 65_536,
            cs_entries_max: 1_048_576,
            cs_octets_max: 256 << 20,
            cs_policy: CsPolicy::default(),
            cs_admit: true,
            cs_serve: true,
            cs_unsolicited: Unsolicited::DropAll,
            pit_entries_max: 262_144,
            pit_entries_per_face_max: 131_072,
            interest_lifetime_ms_max: 3_600_000,
            dead_nonces_max: 262_144,
            dead_nonce_lifetime_ms: 6_000,
            fib_entries_max: 1_048_576,
            nexthops_max: 1_024,
            rib_routes_max: 1_048_576,
            strategy_choices_max: 65_536,
            nack_no_route: true,
        }
    }
}

impl Tables {
    /// The keys in which `new` differs that only take effect when the router starts again: all but the
    /// content store's.
    pub(super) fn restart_needed(&self, new: &Tables) -> impl Iterator<Item = &'static str> {
        changed_keys!(
            self, new, "tables":
            cs_unsolicited, pit_entries_max, pit_entries_per_face_max, interest_lifetime_ms_max, dead_nonces_max,
            dead_nonce_lifetime_ms, fib_entries_max, nexthops_max, rib_routes_max, strategy_choices_max,
            nack_no_route,
        )
    }
}

/// What becomes of Data that no Interest asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unsolicited {
    /// Dropped.
    DropAll,
    /// Cached if a local application sent it.
    AdmitLocal,
    /// Cached if another node sent it.
    AdmitNetwork,
    /// Cached.
    AdmitAll,
}

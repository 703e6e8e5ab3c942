//! Limits of the forwarder's tables.

use namely_forwarder::{CsPolicy, UnsolicitedPolicy};
use namely_security::sha256;
use serde::{Deserialize, Deserializer};

use super::{changed_keys, values};

/// One ms, ns.
const MS_NS: u64 = 1_000_000;

/// Limits of the forwarder's tables; the defaults are the forwarder's own. `docs/limits.md`
/// describes the behavior at each.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tables {
    /// Data packets in the content store, called capacity in `cs/config`. 0: no store.
    pub cs_packets_max: usize,
    /// Entries of the content store's index: one for each prefix of each cached name.
    pub cs_entries_max: usize,
    /// Octets that the content store's packets may take, as a number or as text such as `"256MiB"`.
    #[serde(deserialize_with = "values::octets")]
    pub cs_octets_max: u64,
    /// The replacement policy of the content store.
    #[serde(deserialize_with = "values::text")]
    pub cs_policy: CsPolicy,
    /// Whether Data enters the content store.
    pub cs_admit: bool,
    /// Whether the content store answers Interests.
    pub cs_serve: bool,
    /// The treatment of unsolicited Data.
    #[serde(deserialize_with = "unsolicited")]
    pub cs_unsolicited: UnsolicitedPolicy,
    /// Pending Interests.
    pub pit_entries_max: usize,
    /// Pending Interests of one face.
    pub pit_entries_per_face_max: usize,
    /// Pending Interests of all faces of one user or host.
    pub pit_entries_per_holder_max: usize,
    /// Pending Interests of a user or host that are never evicted for another's.
    pub pit_entries_reserve: usize,
    /// Longest lifetime of a pending Interest, ms.
    pub interest_lifetime_ms_max: u64,
    /// The same for Interests of other hosts.
    pub interest_lifetime_remote_ms_max: u64,
    /// Nonces remembered after their Interest was removed.
    ///
    /// # Limit
    /// The oldest Nonce is evicted.
    /// - Value: 262,144 for 6 s
    /// - Setting: `tables.dead_nonces_max`
    /// - Tests: `the_oldest_nonce_is_forgotten_first`
    pub dead_nonces_max: usize,
    /// Retention time of these Nonces, ms.
    pub dead_nonce_lifetime_ms: u64,
    /// Prefixes in the FIB.
    pub fib_entries_max: usize,
    /// Next hops of one prefix.
    pub nexthops_max: usize,
    /// Routes in the RIB.
    pub rib_routes_max: usize,
    /// Routes that one user or host may register for its own faces.
    pub rib_routes_per_holder_max: usize,
    /// Octets of the names of these routes.
    #[serde(deserialize_with = "values::octets")]
    pub rib_octets_per_holder_max: u64,
    /// Prefixes with a strategy of their own.
    pub strategy_choices_max: usize,
    /// Prefixes for which strategies retain measurements.
    pub strategy_prefixes_max: usize,
    /// Faces with measurements for each of these prefixes.
    pub strategy_faces_max: usize,
    /// Whether an Interest without a usable route is answered with a NoRoute Nack.
    pub nack_no_route: bool,
}

impl Default for Tables {
    fn default() -> Self {
        let core = namely_forwarder::Config::new(sha256);
        Tables {
            cs_packets_max: core.cs.packets_max,
            cs_entries_max: core.cs.entries_max,
            cs_octets_max: core.cs.octets_max,
            cs_policy: core.cs_policy,
            cs_admit: core.cs_admit,
            cs_serve: core.cs_serve,
            cs_unsolicited: core.unsolicited,
            pit_entries_max: core.pit.entries_max,
            pit_entries_per_face_max: core.pit.entries_per_face_max,
            pit_entries_per_holder_max: core.pit.entries_per_holder_max,
            pit_entries_reserve: core.pit.entries_reserve,
            interest_lifetime_ms_max: core.pit.interest_lifetime_ms_max,
            interest_lifetime_remote_ms_max: core.pit.interest_lifetime_remote_ms_max,
            dead_nonces_max: core.dead_nonces.entries_max,
            dead_nonce_lifetime_ms: core.dead_nonces.lifetime_ns / MS_NS,
            fib_entries_max: core.fib.entries_max,
            nexthops_max: core.fib.nexthops_max,
            rib_routes_max: core.rib.routes_max,
            rib_routes_per_holder_max: core.rib.routes_per_holder_max,
            rib_octets_per_holder_max: core.rib.octets_per_holder_max as u64,
            strategy_choices_max: core.strategies.choices_max,
            strategy_prefixes_max: core.strategies.prefixes_max,
            strategy_faces_max: core.strategies.faces_max,
            nack_no_route: core.nack_no_route,
        }
    }
}

impl Tables {
    /// Keys that differ in `new` and take effect only at the next start: all but those of the
    /// content store. `cs_unsolicited` also needs a restart.
    pub(super) fn restart_needed(&self, new: &Tables) -> impl Iterator<Item = &'static str> {
        changed_keys!(
            self, new, "tables":
            cs_unsolicited, pit_entries_max, pit_entries_per_face_max, pit_entries_per_holder_max,
            pit_entries_reserve, interest_lifetime_ms_max, interest_lifetime_remote_ms_max, dead_nonces_max,
            dead_nonce_lifetime_ms, fib_entries_max, nexthops_max, rib_routes_max, rib_routes_per_holder_max,
            rib_octets_per_holder_max, strategy_choices_max,
            strategy_prefixes_max, strategy_faces_max, nack_no_route,
        )
    }
}

fn unsolicited<'de, D: Deserializer<'de>>(deserializer: D) -> Result<UnsolicitedPolicy, D::Error> {
    values::choice(
        deserializer,
        &[
            ("drop-all", UnsolicitedPolicy::DropAll),
            ("admit-local", UnsolicitedPolicy::AdmitLocal),
            ("admit-network", UnsolicitedPolicy::AdmitNetwork),
            ("admit-all", UnsolicitedPolicy::AdmitAll),
        ],
    )
}

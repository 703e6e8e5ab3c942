//! Limits of the forwarder's tables.

use serde::Deserialize;

use super::values;

/// Limits of the forwarder's tables. What happens at each is in `docs/limits.md`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tables {
    /// Data packets that the content store holds. 0 turns the store off.
    pub cs_entries_max: u64,
    /// Octets that the content store's packets may take, as a number or as text such as `"256MiB"`.
    #[serde(deserialize_with = "values::octets")]
    pub cs_octets_max: u64,
    /// Whether Data enters the content store.
    pub cs_admit: bool,
    /// Whether the content store answers Interests.
    pub cs_serve: bool,
    /// What becomes of Data that no Interest asked for.
    pub cs_unsolicited: Unsolicited,
    /// Pending Interests.
    pub pit_entries_max: u64,
    /// Prefixes in the FIB.
    pub fib_entries_max: u64,
    /// Routes in the RIB.
    pub rib_routes_max: u64,
}

impl Default for Tables {
    fn default() -> Self {
        Tables {
            cs_entries_max: 65_536,
            cs_octets_max: 256 << 20,
            cs_admit: true,
            cs_serve: true,
            cs_unsolicited: Unsolicited::DropAll,
            pit_entries_max: 65_536,
            fib_entries_max: 65_536,
            rib_routes_max: 65_536,
        }
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

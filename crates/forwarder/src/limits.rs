//! The limits of each table. A table takes its own and knows no others; [`crate::Config`] is made
//! of all of them.
//!
//! The defaults suit a router for one machine. [`crate::ConfigError`] names a limit as the
//! configuration of a router does: `pit_entries_max` is [`PitLimits::entries_max`].

use crate::error::ConfigError;
use crate::shares::Names;
use crate::slab::ENTRIES_MAX;

/// Largest limit of [`StrategyLimits::prefixes_max`]: the id of a record has 20 bits for its
/// number.
pub(crate) const STRATEGY_PREFIXES_MAX: usize = 1 << 20;

/// Largest limit of [`StrategyLimits::faces_max`]: the faces of a record are searched one after the
/// other.
pub(crate) const STRATEGY_FACES_MAX: usize = 256;

/// Table places read under one hold of a lock.
pub const WALK_PLACES: u32 = 1024;

/// Limits of the PIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PitLimits {
    /// Maximum number of pending Interests. When full, a new Interest replaces one of a holder that
    /// has more ([`crate::HolderId`]); the holder with most is refused. A Congestion Nack reports
    /// both.
    pub entries_max: usize,
    /// Maximum number of pending Interests that one face may have. Beyond it, a new Interest of
    /// that face is refused with a Congestion Nack.
    pub entries_per_face_max: usize,
    /// Maximum number of pending Interests that all faces of one holder may have. Beyond it, the
    /// same.
    pub entries_per_holder_max: usize,
    /// Pending Interests of a holder that never give way to another's.
    pub entries_reserve: usize,
    /// Maximum number of downstream faces of one pending Interest. Beyond it the Interest is
    /// dropped.
    pub in_records_max: usize,
    /// Maximum number of upstream faces of one pending Interest. Beyond it the Interest goes to no
    /// further face.
    pub out_records_max: usize,
}

impl Default for PitLimits {
    fn default() -> Self {
        PitLimits {
            entries_max: 262_144,
            entries_per_face_max: 32_768,
            entries_per_holder_max: 65_536,
            entries_reserve: 64,
            in_records_max: 4_096,
            out_records_max: 1_024,
        }
    }
}

impl PitLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("pit_entries_max", self.entries_max)?;
        needed("pit_entries_per_face_max", self.entries_per_face_max)?;
        needed("pit_entries_per_holder_max", self.entries_per_holder_max)?;
        needed("in_records_max", self.in_records_max)?;
        needed("out_records_max", self.out_records_max)
    }
}

/// Limits of the content store, which are in force together. With one of them 0 it is empty: a
/// router without a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsLimits {
    /// Maximum number of Data packets: the capacity that `cs/config` sets.
    pub packets_max: usize,
    /// Maximum number of index entries: one for each prefix of each cached name, so that long names
    /// cannot swamp the index.
    pub entries_max: usize,
    /// Maximum number of octets that Data hold on to ([`crate::PacketBuf::octets_held`]).
    pub octets_max: u64,
}

impl Default for CsLimits {
    fn default() -> Self {
        CsLimits { packets_max: 65_536, entries_max: 1_048_576, octets_max: 256 << 20 }
    }
}

impl CsLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        at_most("cs_packets_max", self.packets_max, ENTRIES_MAX)?;
        at_most("cs_entries_max", self.entries_max, ENTRIES_MAX)
    }
}

/// Limits of the FIB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibLimits {
    /// Maximum number of names. When full, a new route is refused.
    pub entries_max: usize,
    /// Maximum number of next hops of one name. When full, a further next hop is refused.
    pub nexthops_max: usize,
}

impl Default for FibLimits {
    fn default() -> Self {
        FibLimits { entries_max: 1_048_576, nexthops_max: 1_024 }
    }
}

impl FibLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("fib_entries_max", self.entries_max)?;
        needed("nexthops_max", self.nexthops_max)
    }
}

/// Limits of the RIB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RibLimits {
    /// Maximum number of routes. When full, a new route is refused.
    pub routes_max: usize,
    /// Maximum number of routes that are counted for one holder ([`crate::Charge::Holder`]), and of
    /// octets of their names. Beyond either, a new route is refused.
    pub routes_per_holder_max: usize,
    /// See there.
    pub octets_per_holder_max: usize,
}

impl Default for RibLimits {
    fn default() -> Self {
        RibLimits { routes_max: 1_048_576, routes_per_holder_max: 16_384, octets_per_holder_max: 2 << 20 }
    }
}

impl RibLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("rib_routes_max", self.routes_max)
    }

    pub(crate) fn per_holder_max(&self) -> Names {
        Names { count: self.routes_per_holder_max, octets: self.octets_per_holder_max }
    }
}

/// Limits of the BPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingLimits {
    /// Maximum number of bound prefixes. When full, a bind is refused.
    pub entries_max: usize,
    /// Maximum number of bound prefixes of one holder, and of octets of their names. Beyond either,
    /// a bind is refused.
    pub entries_per_holder_max: usize,
    /// See there.
    pub octets_per_holder_max: usize,
}

impl Default for BindingLimits {
    fn default() -> Self {
        BindingLimits { entries_max: 65_536, entries_per_holder_max: 4_096, octets_per_holder_max: 512 << 10 }
    }
}

impl BindingLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("bindings_max", self.entries_max)
    }

    pub(crate) fn per_holder_max(&self) -> Names {
        Names { count: self.entries_per_holder_max, octets: self.octets_per_holder_max }
    }
}

/// Limits of the strategy choices, and of the strategies' memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrategyLimits {
    /// Maximum number of names that have a strategy of their own. When full, a new choice is
    /// refused.
    pub choices_max: usize,
    /// Maximum number of prefixes that strategies remember something of. When full, a further one
    /// is forwarded as if nothing were remembered, which is counted.
    pub prefixes_max: usize,
    /// Maximum number of faces that they remember for each prefix. When full, a further one counts
    /// as never measured.
    pub faces_max: usize,
}

impl Default for StrategyLimits {
    fn default() -> Self {
        StrategyLimits { choices_max: 65_536, prefixes_max: 65_536, faces_max: 16 }
    }
}

impl StrategyLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("strategy_choices_max", self.choices_max)?;
        // Strategies may be left without memory.
        at_most("strategy_prefixes_max", self.prefixes_max, STRATEGY_PREFIXES_MAX)?;
        at_most("strategy_faces_max", self.faces_max, STRATEGY_FACES_MAX)
    }
}

/// Limits of the registered objects (VIP). A catalogue with more is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLimits {
    /// Maximum number of objects.
    pub objects_max: usize,
    /// Maximum number of names of their files.
    pub names_max: usize,
}

impl Default for ObjectLimits {
    fn default() -> Self {
        ObjectLimits { objects_max: 4_096, names_max: 1_048_576 }
    }
}

impl ObjectLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("objects_max", self.objects_max)?;
        needed("object_names_max", self.names_max)
    }
}

/// Limits of the dead-nonce list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadNonceLimits {
    /// Maximum number of Nonces remembered after their Interest is gone. When full, the oldest is
    /// forgotten.
    pub entries_max: usize,
    /// How long such a Nonce is remembered, ns.
    pub lifetime_ns: u64,
}

impl Default for DeadNonceLimits {
    fn default() -> Self {
        DeadNonceLimits { entries_max: 262_144, lifetime_ns: 6_000_000_000 }
    }
}

impl DeadNonceLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("dead_nonces_max", self.entries_max)
    }
}

/// Refuses a limit without which the router cannot work, and one that no table can have.
pub(crate) fn needed(limit: &'static str, value: usize) -> Result<(), ConfigError> {
    if value == 0 {
        return Err(ConfigError::Zero { limit });
    }
    at_most(limit, value, ENTRIES_MAX)
}

/// Refuses a limit that is too large; one of 0 leaves its table empty.
fn at_most(limit: &'static str, value: usize, most: usize) -> Result<(), ConfigError> {
    if value > most { Err(ConfigError::TooLarge { limit, most }) } else { Ok(()) }
}

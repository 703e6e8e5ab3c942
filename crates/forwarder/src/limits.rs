//! The limits of each table. A table receives only its own; [`crate::Config`] contains all of them.
//!
//! The defaults suit a router for one machine. [`crate::ConfigError`] names a limit as a router's
//! configuration does: `pit_entries_max` is [`PitLimits::entries_max`].

use crate::error::ConfigError;
use crate::shares::Names;
use crate::slab::ENTRIES_MAX;

/// Maximum of [`StrategyLimits::prefixes_max`]: the id of a record has 20 bits for its index.
pub(crate) const STRATEGY_PREFIXES_MAX: usize = 1 << 20;

/// Maximum of [`StrategyLimits::faces_max`]: the faces of a record are searched linearly.
pub(crate) const STRATEGY_FACES_MAX: usize = 256;

/// Maximum of [`crate::Config::threads_max`]: the id of a strategy's record has 4 bits for its
/// part.
pub(crate) const THREADS_MAX: usize = 16;

/// The parts of a table for `threads_max` threads. A power of two, so that a mask selects a part.
pub(crate) fn parts_of(threads_max: usize) -> usize {
    threads_max.clamp(1, THREADS_MAX).next_power_of_two()
}

/// Table entries that are read under one hold of a lock.
///
/// One dataset of each table is made at a time. A routing daemon's view of the RIB is read in such
/// steps, too.
///
/// # Limit
/// The rest is read in the next step, after waiting packets and requests.
/// - Counter: `datasets_joined`
/// - Tests: `a_long_rib_is_readvertised_in_steps`,
///   `root_waits_for_one_dataset_part`
pub const WALK_PLACES: u32 = 1024;

/// Limits of the PIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PitLimits {
    /// Pending Interests.
    ///
    /// The larger owner ([`crate::OwnerId`]) is found among 16 random entries.
    ///
    /// # Limit
    /// A new Interest evicts one of a larger owner with a Congestion Nack, or is refused with such
    /// a Nack.
    /// - Value: 262,144
    /// - Setting: `tables.pit_entries_max`
    /// - Counter: `pit_evicted`, `pit_full`
    /// - Tests: `a_full_pit_refuses_new_interests`,
    ///   `a_full_pit_charges_the_largest_holder`,
    ///   `an_aggregated_interest_is_not_evicted`,
    ///   `a_batch_meets_pit_limits_exactly`
    pub entries_max: usize,
    /// Pending Interests of one face.
    ///
    /// # Limit
    /// A new Interest of the face is refused with a Congestion Nack.
    /// - Value: 32,768
    /// - Setting: `tables.pit_entries_per_face_max`
    /// - Counter: `pit_face_full`
    /// - Tests: `one_face_cannot_fill_the_pit`,
    ///   `a_batch_meets_pit_limits_exactly`
    pub entries_per_face_max: usize,
    /// Pending Interests of all faces of one owner.
    ///
    /// An owner is a user, an address or a station. Its faces receive their parts in grants of 16.
    ///
    /// # Limit
    /// A new Interest of the owner is refused with a Congestion Nack.
    /// - Value: 65,536; none for the router and root
    /// - Setting: `tables.pit_entries_per_holder_max`
    /// - Counter: `pit_holder_full`
    /// - Tests: `one_holder_cannot_fill_the_pit`,
    ///   `faces_of_one_holder_share_a_ceiling`,
    ///   `the_router_is_never_refused`, `faces_of_one_holder_pay_together`
    pub entries_per_holder_max: usize,
    /// Pending Interests of an owner that are never evicted for others.
    ///
    /// # Limit
    /// Further Interests of the owner may be evicted.
    /// - Value: 64
    /// - Setting: `tables.pit_entries_reserve`
    /// - Counter: `pit_evicted`
    /// - Tests: `a_holder_below_its_reserve_never_pays`
    pub entries_reserve: usize,
    /// Downstream faces of a pending Interest.
    ///
    /// Records whose time is over are removed first.
    ///
    /// # Limit
    /// The Interest is dropped.
    /// - Value: 4096
    /// - Counter: `in_records_full`
    /// - Tests: `an_interest_takes_bounded_downstreams`
    pub in_records_max: usize,
    /// Upstream faces of a pending Interest.
    ///
    /// # Limit
    /// The Interest is sent to no further face.
    /// - Value: 1024
    /// - Counter: `out_records_full`
    /// - Tests: `an_interest_reaches_bounded_upstreams`
    pub out_records_max: usize,
    /// Time that an Interest is pending.
    ///
    /// # Limit
    /// A longer InterestLifetime is shortened to it.
    /// - Value: 1 h
    /// - Setting: `tables.interest_lifetime_ms_max`
    /// - Tests: `a_lifetime_is_cut_to_the_limit`
    pub interest_lifetime_ms_max: u64,
    /// Time that an Interest from a non-local face is pending.
    ///
    /// It is at most `interest_lifetime_ms_max`.
    ///
    /// # Limit
    /// A longer InterestLifetime is shortened to it.
    /// - Value: 60 s
    /// - Setting: `tables.interest_lifetime_remote_ms_max`
    /// - Tests: `a_neighbor_lifetime_is_cut_sooner`
    pub interest_lifetime_remote_ms_max: u64,
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
            interest_lifetime_ms_max: 3_600_000,
            interest_lifetime_remote_ms_max: 60_000,
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

/// Limits of the content store. All of them apply at the same time. If one is 0, the store stays
/// empty: a router without a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsLimits {
    /// Data packets in the content store.
    ///
    /// It is the capacity that `cs/config` sets.
    ///
    /// # Limit
    /// The policy `tables.cs_policy` evicts a Data.
    /// - Value: 65,536
    /// - Setting: `tables.cs_packets_max`
    /// - Counter: `evicted` of `CsStatus`
    /// - Tests: `each_limit_evicts_the_least_recently_used`
    pub packets_max: usize,
    /// Index entries of the content store.
    ///
    /// There is one for each prefix of each cached name, so that long names cannot fill the index.
    /// A Data that needs more entries alone is not cached.
    ///
    /// # Limit
    /// The policy `tables.cs_policy` evicts Data.
    /// - Value: 1,048,576
    /// - Setting: `tables.cs_entries_max`
    /// - Counter: `evicted`, `refused`
    /// - Tests: `each_limit_evicts_the_least_recently_used`,
    ///   `long_names_cannot_swamp_the_index`
    pub entries_max: usize,
    /// Octets of the buffers of cached Data.
    ///
    /// A Data is charged with its whole buffer ([`crate::PacketBuf::memory_octets`]). A Data that
    /// needs more octets alone is not cached.
    ///
    /// # Limit
    /// The policy `tables.cs_policy` evicts Data.
    /// - Value: 256 MiB
    /// - Setting: `tables.cs_octets_max`
    /// - Counter: `evicted`, `refused`
    /// - Tests: `each_limit_evicts_the_least_recently_used`,
    ///   `a_data_is_charged_for_its_buffer`,
    ///   `distinct_names_respect_all_three_limits`
    pub octets_max: u64,
}

impl Default for CsLimits {
    fn default() -> Self {
        // Enough for 16 components and 4 KiB of each Data.
        CsLimits { packets_max: 65_536, entries_max: 1_048_576, octets_max: 256 << 20 }
    }
}

impl CsLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        // 0 is allowed: a router without a cache.
        at_most("cs_packets_max", self.packets_max, ENTRIES_MAX)?;
        at_most("cs_entries_max", self.entries_max, ENTRIES_MAX)
    }
}

/// Limits of the FIB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibLimits {
    /// Names in the FIB.
    ///
    /// # Limit
    /// The route is refused.
    /// - Value: 1,048,576
    /// - Setting: `tables.fib_entries_max`
    /// - Tests: `a_nexthop_past_each_limit_is_refused`
    pub entries_max: usize,
    /// Next hops of one name.
    ///
    /// # Limit
    /// The next hop is refused.
    /// - Value: 1024
    /// - Setting: `tables.nexthops_max`
    /// - Tests: `a_nexthop_past_each_limit_is_refused`
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
    /// Routes in the RIB.
    ///
    /// # Limit
    /// The route is refused.
    /// - Value: 1,048,576
    /// - Setting: `tables.rib_routes_max`
    /// - Tests: `a_route_past_the_limit_is_refused`
    pub routes_max: usize,
    /// Routes of one owner for its own faces.
    ///
    /// They are charged to it by [`crate::Charge::Owner`]. Root, the router, and routes that a
    /// manager registers for other faces are exempt.
    ///
    /// # Limit
    /// The route is refused with status 403.
    /// - Value: 16,384
    /// - Setting: `tables.rib_routes_per_holder_max`
    /// - Tests: `a_route_past_holder_limits_is_refused`,
    ///   `the_route_limit_is_per_user`,
    ///   `the_memory_of_a_holder_is_returned`
    pub routes_per_holder_max: usize,
    /// Octets of the names of one owner's routes.
    ///
    /// # Limit
    /// The route is refused with status 403.
    /// - Value: 2 MiB
    /// - Setting: `tables.rib_octets_per_holder_max`
    /// - Tests: `a_route_past_holder_limits_is_refused`,
    ///   `the_route_limit_is_per_user`,
    ///   `the_memory_of_a_holder_is_returned`
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
        // The limits of an owner may be 0: then only routes that are exempt from them are accepted.
        needed("rib_routes_max", self.routes_max)
    }

    pub(crate) fn per_holder_max(&self) -> Names {
        Names { count: self.routes_per_holder_max, octets: self.octets_per_holder_max }
    }
}

/// Limits of the BPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingLimits {
    /// Bound prefixes.
    ///
    /// # Limit
    /// The bind is refused.
    /// - Value: 65,536
    /// - Tests: `binds_past_the_table_limit_are_refused`
    pub entries_max: usize,
    /// Bound prefixes of one owner.
    ///
    /// # Limit
    /// The bind is refused.
    /// - Value: 4096
    /// - Tests: `binds_past_a_holders_limits_are_refused`
    pub entries_per_holder_max: usize,
    /// Octets of the names of one owner's bound prefixes.
    ///
    /// # Limit
    /// The bind is refused.
    /// - Value: 512 KiB
    /// - Tests: `binds_past_a_holders_limits_are_refused`
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
    /// Names with a strategy of their own.
    ///
    /// # Limit
    /// The choice is refused.
    /// - Value: 65,536
    /// - Setting: `tables.strategy_choices_max`
    /// - Tests: `strategy_choices_end_at_their_limit`
    pub choices_max: usize,
    /// Prefixes with a record of a strategy.
    ///
    /// # Limit
    /// The prefix is forwarded without a record, as by best route or multicast.
    /// - Value: 65,536
    /// - Setting: `tables.strategy_prefixes_max`
    /// - Counter: `strategy_memory_full`
    /// - Tests:
    ///   `strategy_memory_ends_at_its_limits`,
    ///   `prefixes_past_the_memory_limit_are_counted`
    pub prefixes_max: usize,
    /// Faces in each record of a strategy.
    ///
    /// # Limit
    /// A further face counts as never measured.
    /// - Value: 16
    /// - Setting: `tables.strategy_faces_max`
    /// - Counter: `strategy_memory_full`
    /// - Tests: `faces_past_the_memory_limit_are_counted`
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
        // 0 is allowed: strategies without memory.
        at_most("strategy_prefixes_max", self.prefixes_max, STRATEGY_PREFIXES_MAX)?;
        at_most("strategy_faces_max", self.faces_max, STRATEGY_FACES_MAX)
    }
}

/// Limits of the registered objects (VIP). A catalogue with more is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLimits {
    /// Registered objects of the core.
    ///
    /// # Limit
    /// A catalogue with more is refused, and the previous one stays.
    /// - Value: 4096
    /// - Tests:
    ///   `a_catalogue_past_the_limits_is_refused`
    pub objects_max: usize,
    /// Names of the files of registered objects.
    ///
    /// An error reports this limit as `object_names_max`.
    ///
    /// # Limit
    /// A catalogue with more is refused, and the previous one stays.
    /// - Value: 1,048,576
    /// - Tests:
    ///   `a_catalogue_past_the_limits_is_refused`
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
    /// Maximum number of Nonces stored after their Interest ended. When full, the oldest is
    /// removed.
    pub entries_max: usize,
    /// The time for which such a Nonce is stored, ns.
    pub lifetime_ns: u64,
}

impl Default for DeadNonceLimits {
    fn default() -> Self {
        // NFD's dead-nonce list has this lifetime, too.
        DeadNonceLimits { entries_max: 262_144, lifetime_ns: 6_000_000_000 }
    }
}

impl DeadNonceLimits {
    /// Refuses limits beyond the capacity of the table.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("dead_nonces_max", self.entries_max)
    }
}

/// Refuses a limit of 0, and one beyond the capacity of a table.
pub(crate) fn needed(limit: &'static str, value: usize) -> Result<(), ConfigError> {
    if value == 0 {
        return Err(ConfigError::Zero { limit });
    }
    at_most(limit, value, ENTRIES_MAX)
}

/// Refuses a limit that is too large. 0 is allowed and leaves the table empty.
pub(crate) fn at_most(limit: &'static str, value: usize, most: usize) -> Result<(), ConfigError> {
    if value > most { Err(ConfigError::TooLarge { limit, most }) } else { Ok(()) }
}

//! What a home of the core chooses: limits, policies, and the functions that the core does not
//! bring.

use alloc::vec::Vec;
use core::fmt;

use namely_wire::Name;

use crate::congestion::TierMarking;
use crate::cs::CsPolicy;
use crate::shares::Names;
use crate::slab::ENTRIES_MAX;
use crate::strategy::{STRATEGY_FACES_MAX, STRATEGY_PREFIXES_MAX};

/// SHA-256, supplied by the home: the core has no cryptography of its own.
pub type Sha256 = fn(&[u8]) -> [u8; 32];

/// Everything that can be chosen when a forwarder is made. The defaults suit a router for one
/// machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum number of faces at once. When full, [`crate::FaceError::TableFull`].
    pub faces_max: usize,
    /// Maximum number of pending Interests. When full, one of a holder that has more gives way to a
    /// new one of a holder that has less ([`crate::HolderId`]); who has most is refused. Both are
    /// told by a Congestion Nack.
    pub pit_entries_max: usize,
    /// Maximum number of pending Interests that one face may have. Beyond it, a new Interest of
    /// that face is refused with a Congestion Nack.
    pub pit_entries_per_face_max: usize,
    /// Maximum number of pending Interests that all faces of one holder may have. Beyond it, the
    /// same.
    pub pit_entries_per_holder_max: usize,
    /// Pending Interests of a holder that never give way to another's.
    pub pit_entries_reserve: usize,
    /// Maximum number of downstream faces of one pending Interest. Beyond it the Interest is
    /// dropped.
    pub in_records_max: usize,
    /// Maximum number of upstream faces of one pending Interest. Beyond it the Interest goes to no
    /// further face.
    pub out_records_max: usize,
    /// Longest time an Interest is kept pending, ms; a longer InterestLifetime is cut to it.
    pub interest_lifetime_ms_max: u64,
    /// The same for Interests from non-local faces, which end no later than local ones.
    pub interest_lifetime_remote_ms_max: u64,
    /// Maximum number of Data packets in the content store: the capacity that `cs/config` sets.
    pub cs_packets_max: usize,
    /// Maximum number of index entries in the content store: one for each prefix of each cached
    /// name, so that long names cannot swamp the index. In force together with the other two
    /// limits.
    pub cs_entries_max: usize,
    /// Maximum number of octets that Data in the content store hold on to
    /// ([`crate::PacketBuf::octets_held`]).
    pub cs_octets_max: u64,
    /// Which Data leaves the content store first.
    pub cs_policy: CsPolicy,
    /// True if the content store takes Data in.
    pub cs_admit: bool,
    /// True if the content store answers Interests.
    pub cs_serve: bool,
    /// Who marks Data that comes from a tier below the content store in memory.
    pub cs_marking: TierMarking,
    /// How often a router whose tier has too much to do says so to those that ask it, ns; 0: never.
    pub cs_announce_ns: u64,
    /// What happens to Data that no pending Interest requested.
    pub unsolicited: UnsolicitedPolicy,
    /// Maximum number of names in the FIB. When full, a new route is refused.
    pub fib_entries_max: usize,
    /// Maximum number of next hops of one FIB entry. When full, a further next hop is refused.
    pub nexthops_max: usize,
    /// Maximum number of routes in the RIB. When full, a new route is refused.
    pub rib_routes_max: usize,
    /// Maximum number of routes that are counted for one holder ([`crate::Charge::Holder`]), and of
    /// octets of their names. Beyond either, a new route is refused.
    pub rib_routes_per_holder_max: usize,
    /// See there.
    pub rib_octets_per_holder_max: usize,
    /// Maximum number of bound prefixes. When full, a bind is refused.
    pub bindings_max: usize,
    /// Maximum number of bound prefixes of one holder, and of octets of their names. Beyond either,
    /// a bind is refused.
    pub bindings_per_holder_max: usize,
    /// See there.
    pub bindings_octets_per_holder_max: usize,
    /// Maximum number of names that have a strategy of their own. When full, a new choice is
    /// refused.
    pub strategy_choices_max: usize,
    /// Maximum number of prefixes that strategies remember something of. When full, a further one
    /// is forwarded as if nothing were remembered, which is counted.
    pub strategy_prefixes_max: usize,
    /// Maximum number of faces that they remember for each prefix. When full, a further one counts
    /// as never measured.
    pub strategy_faces_max: usize,
    /// Maximum number of registered objects, and of names of their files. A catalogue with more is
    /// refused.
    pub objects_max: usize,
    /// See there.
    pub object_names_max: usize,
    /// Maximum number of Nonces remembered after their Interest is gone. When full, the oldest is
    /// forgotten.
    pub dead_nonces_max: usize,
    /// How long such a Nonce is remembered, ns.
    pub dead_nonce_lifetime_ns: u64,
    /// Names of the regions this router is in: an Interest whose forwarding hint has reached one of
    /// them goes on by its own name.
    pub regions: Vec<Name>,
    /// True if an Interest that cannot go anywhere is answered with a NoRoute Nack.
    pub nack_no_route: bool,
    /// SHA-256, for implicit digests.
    pub sha256: Sha256,
}

impl Config {
    /// The defaults, with the given SHA-256.
    pub fn new(sha256: Sha256) -> Self {
        Config {
            faces_max: 16_384,
            pit_entries_max: 262_144,
            pit_entries_per_face_max: 32_768,
            pit_entries_per_holder_max: 65_536,
            pit_entries_reserve: 64,
            in_records_max: 4_096,
            out_records_max: 1_024,
            interest_lifetime_ms_max: 3_600_000,
            interest_lifetime_remote_ms_max: 60_000,
            cs_packets_max: 65_536,
            cs_entries_max: 1_048_576,
            cs_octets_max: 256 << 20,
            cs_policy: CsPolicy::default(),
            cs_admit: true,
            cs_serve: true,
            cs_marking: TierMarking::default(),
            cs_announce_ns: 0,
            unsolicited: UnsolicitedPolicy::DropAll,
            fib_entries_max: 1_048_576,
            nexthops_max: 1_024,
            rib_routes_max: 1_048_576,
            rib_routes_per_holder_max: 16_384,
            rib_octets_per_holder_max: 2 << 20,
            bindings_max: 65_536,
            bindings_per_holder_max: 4_096,
            bindings_octets_per_holder_max: 512 << 10,
            strategy_choices_max: 65_536,
            strategy_prefixes_max: 65_536,
            strategy_faces_max: 16,
            objects_max: 4_096,
            object_names_max: 1_048_576,
            dead_nonces_max: 262_144,
            dead_nonce_lifetime_ns: 6_000_000_000,
            regions: Vec::new(),
            nack_no_route: true,
            sha256,
        }
    }

    pub(crate) fn routes_per_holder_max(&self) -> Names {
        Names { count: self.rib_routes_per_holder_max, octets: self.rib_octets_per_holder_max }
    }

    pub(crate) fn bindings_per_holder_max(&self) -> Names {
        Names { count: self.bindings_per_holder_max, octets: self.bindings_octets_per_holder_max }
    }

    /// Refuses limits that no table can have.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        // Content store limits may be 0: that is a router without a cache.
        let needed = [
            ("faces_max", self.faces_max),
            ("pit_entries_max", self.pit_entries_max),
            ("pit_entries_per_face_max", self.pit_entries_per_face_max),
            ("pit_entries_per_holder_max", self.pit_entries_per_holder_max),
            ("in_records_max", self.in_records_max),
            ("out_records_max", self.out_records_max),
            ("fib_entries_max", self.fib_entries_max),
            ("nexthops_max", self.nexthops_max),
            ("rib_routes_max", self.rib_routes_max),
            ("bindings_max", self.bindings_max),
            ("strategy_choices_max", self.strategy_choices_max),
            ("objects_max", self.objects_max),
            ("object_names_max", self.object_names_max),
            ("dead_nonces_max", self.dead_nonces_max),
        ];
        if let Some((limit, _)) = needed.iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::Zero { limit });
        }
        let optional = [("cs_packets_max", self.cs_packets_max), ("cs_entries_max", self.cs_entries_max)];
        if let Some((limit, _)) = needed.iter().chain(&optional).find(|(_, value)| *value > ENTRIES_MAX) {
            return Err(ConfigError::TooLarge { limit, most: ENTRIES_MAX });
        }
        // Strategies may be left without memory, too.
        let memory = [
            ("strategy_prefixes_max", self.strategy_prefixes_max, STRATEGY_PREFIXES_MAX),
            ("strategy_faces_max", self.strategy_faces_max, STRATEGY_FACES_MAX),
        ];
        match memory.into_iter().find(|(_, value, most)| value > most) {
            Some((limit, _, most)) => Err(ConfigError::TooLarge { limit, most }),
            None => Ok(()),
        }
    }
}

/// What happens to Data that no pending Interest requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsolicitedPolicy {
    /// Drop it.
    #[default]
    DropAll,
    /// Cache it when it comes from a local face.
    AdmitLocal,
    /// Cache it when it comes from a non-local face.
    AdmitNetwork,
    /// Cache it.
    AdmitAll,
}

/// A configuration that no forwarder can have: the caller's fault, or for want of memory the
/// environment's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A limit is 0 where the router cannot work without at least one.
    Zero {
        /// The field of [`Config`].
        limit: &'static str,
    },
    /// A limit is beyond what a table can hold.
    TooLarge {
        /// The field of [`Config`].
        limit: &'static str,
        /// The largest value it may have.
        most: usize,
    },
    /// There is no memory for tables of this size.
    OutOfMemory,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Zero { limit } => write!(f, "{limit} is 0: set it to 1 or more"),
            ConfigError::TooLarge { limit, most } => {
                write!(f, "{limit} is too large: set it to {most} or less")
            }
            ConfigError::OutOfMemory => f.write_str("no memory for tables of this size: lower their limits"),
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_defaults_are_accepted_and_impossible_limits_are_named() {
        let config = Config::new(|_| [0; 32]);
        assert_eq!(config.check(), Ok(()));
        let zero = Config { pit_entries_max: 0, ..config.clone() };
        assert_eq!(zero.check(), Err(ConfigError::Zero { limit: "pit_entries_max" }));
        let most = Config { cs_entries_max: ENTRIES_MAX, ..config.clone() };
        assert_eq!(most.check(), Ok(()));
        let beyond = Config { cs_entries_max: ENTRIES_MAX + 1, ..config.clone() };
        let error = beyond.check().unwrap_err();
        assert_eq!(error, ConfigError::TooLarge { limit: "cs_entries_max", most: ENTRIES_MAX });
        assert_eq!(error.to_string(), "cs_entries_max is too large: set it to 1073741824 or less");
        let most = Config { strategy_prefixes_max: 1 << 20, strategy_faces_max: 256, ..config.clone() };
        assert_eq!(most.check(), Ok(()));
        let beyond = Config { strategy_faces_max: 257, ..config.clone() };
        let error = ConfigError::TooLarge { limit: "strategy_faces_max", most: 256 };
        assert_eq!(beyond.check(), Err(error));
        let no_cache = Config { cs_packets_max: 0, cs_entries_max: 0, cs_octets_max: 0, ..config };
        assert_eq!(no_cache.check(), Ok(()));
    }
}

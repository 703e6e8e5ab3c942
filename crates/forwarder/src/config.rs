//! What a home of the core chooses: limits, policies, and the functions that the core does not
//! bring.

use crate::error::ConfigError;
use alloc::vec::Vec;

use namely_wire::Name;

use crate::cs::CsPolicy;
use crate::limits::{
    BindingLimits, CsLimits, DeadNonceLimits, FibLimits, ObjectLimits, PitLimits, RibLimits, StrategyLimits,
    needed,
};
use crate::tier::TierMarking;

/// SHA-256, supplied by the home: the core has no cryptography of its own.
pub type Sha256 = fn(&[u8]) -> [u8; 32];

/// Everything that can be chosen when a forwarder is made. The defaults suit a router for one
/// machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum number of faces at once. When full, [`crate::FaceError::TableFull`].
    pub faces_max: usize,
    /// Of the PIT.
    pub pit: PitLimits,
    /// Longest time an Interest is kept pending, ms; a longer InterestLifetime is cut to it.
    pub interest_lifetime_ms_max: u64,
    /// The same for Interests from non-local faces, which end no later than local ones.
    pub interest_lifetime_remote_ms_max: u64,
    /// Of the content store.
    pub cs: CsLimits,
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
    /// Of the FIB.
    pub fib: FibLimits,
    /// Of the RIB of a [`crate::Router`].
    pub rib: RibLimits,
    /// Of the BPT.
    pub bindings: BindingLimits,
    /// Of strategy choices, and of the strategies' memory.
    pub strategies: StrategyLimits,
    /// Of registered objects.
    pub objects: ObjectLimits,
    /// Of the dead-nonce list.
    pub dead_nonces: DeadNonceLimits,
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
            pit: PitLimits::default(),
            interest_lifetime_ms_max: 3_600_000,
            interest_lifetime_remote_ms_max: 60_000,
            cs: CsLimits::default(),
            cs_policy: CsPolicy::default(),
            cs_admit: true,
            cs_serve: true,
            cs_marking: TierMarking::default(),
            cs_announce_ns: 0,
            unsolicited: UnsolicitedPolicy::DropAll,
            fib: FibLimits::default(),
            rib: RibLimits::default(),
            bindings: BindingLimits::default(),
            strategies: StrategyLimits::default(),
            objects: ObjectLimits::default(),
            dead_nonces: DeadNonceLimits::default(),
            regions: Vec::new(),
            nack_no_route: true,
            sha256,
        }
    }

    /// Refuses limits that no table can have.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("faces_max", self.faces_max)?;
        self.pit.check()?;
        self.cs.check()?;
        self.fib.check()?;
        self.rib.check()?;
        self.bindings.check()?;
        self.strategies.check()?;
        self.objects.check()?;
        self.dead_nonces.check()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::ENTRIES_MAX;
    use alloc::string::ToString;

    #[test]
    fn the_defaults_are_accepted_and_impossible_limits_are_named() {
        let config = Config::new(|_| [0; 32]);
        assert_eq!(config.check(), Ok(()));
        let zero = Config { pit: PitLimits { entries_max: 0, ..config.pit }, ..config.clone() };
        assert_eq!(zero.check(), Err(ConfigError::Zero { limit: "pit_entries_max" }));
        let most = Config { cs: CsLimits { entries_max: ENTRIES_MAX, ..config.cs }, ..config.clone() };
        assert_eq!(most.check(), Ok(()));
        let beyond = Config { cs: CsLimits { entries_max: ENTRIES_MAX + 1, ..config.cs }, ..config.clone() };
        let error = beyond.check().unwrap_err();
        assert_eq!(error, ConfigError::TooLarge { limit: "cs_entries_max", most: ENTRIES_MAX });
        assert_eq!(error.to_string(), "cs_entries_max is too large: set it to 1073741824 or less");
        let most = Config {
            strategies: StrategyLimits { prefixes_max: 1 << 20, faces_max: 256, ..config.strategies },
            ..config.clone()
        };
        assert_eq!(most.check(), Ok(()));
        let beyond =
            Config { strategies: StrategyLimits { faces_max: 257, ..config.strategies }, ..config.clone() };
        let error = ConfigError::TooLarge { limit: "strategy_faces_max", most: 256 };
        assert_eq!(beyond.check(), Err(error));
        let no_cache = Config { cs: CsLimits { packets_max: 0, entries_max: 0, octets_max: 0 }, ..config };
        assert_eq!(no_cache.check(), Ok(()));
    }
}

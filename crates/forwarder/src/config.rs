//! The configuration of the core by its embedder: limits, policies, and functions that the core
//! lacks.

use crate::error::ConfigError;
use alloc::vec::Vec;

use namely_wire::Name;

use crate::cs::CsPolicy;
use crate::limits::{
    BindingLimits, CsLimits, DeadNonceLimits, FibLimits, ObjectLimits, PitLimits, RibLimits, StrategyLimits,
    THREADS_MAX, at_most, needed,
};
use crate::tier::TierMarking;

/// SHA-256, supplied by the embedder: the core has no cryptography of its own.
pub type Sha256 = fn(&[u8]) -> [u8; 32];

/// The configuration of a forwarder. The defaults suit a router for one machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Faces of a forwarder.
    ///
    /// The error is [`crate::FaceError::TableFull`].
    ///
    /// # Limit
    /// A further face is refused.
    /// - Value: 16,384; in a router 1024 more than `faces.faces_max`
    /// - Tests: `a_face_past_the_limit_is_refused`
    pub faces_max: usize,
    /// Threads that process packets at the same time: 16 by default and at most.
    ///
    /// Locks, timer wheels, counters and lists of free entries have as many parts, rounded up to a
    /// power of two. More threads work as well, but wait for each other more often.
    pub threads_max: usize,
    /// Limits of the PIT.
    pub pit: PitLimits,
    /// Limits of the content store.
    pub cs: CsLimits,
    /// The eviction policy of the content store.
    pub cs_policy: CsPolicy,
    /// True if the content store admits Data.
    pub cs_admit: bool,
    /// True if the content store answers Interests.
    pub cs_serve: bool,
    /// The rule by which Data from the tier below the content store is marked.
    pub cs_marking: TierMarking,
    /// The interval at which a router with an overloaded tier announces this to its neighbors, ns;
    /// 0: never.
    pub cs_announce_ns: u64,
    /// The policy for Data that no pending Interest requested.
    pub unsolicited: UnsolicitedPolicy,
    /// Limits of the FIB.
    pub fib: FibLimits,
    /// Limits of the RIB of a [`crate::Router`].
    pub rib: RibLimits,
    /// Limits of the BPT.
    pub bindings: BindingLimits,
    /// Limits of strategy choices, and of the strategies' memory.
    pub strategies: StrategyLimits,
    /// Limits of registered objects.
    pub objects: ObjectLimits,
    /// Limits of the dead-nonce list.
    pub dead_nonces: DeadNonceLimits,
    /// Names of this router's regions: an Interest whose forwarding hint has reached one of them is
    /// forwarded by its own name.
    pub regions: Vec<Name>,
    /// True if an Interest without a route is answered with a NoRoute Nack.
    pub nack_no_route: bool,
    /// SHA-256, for implicit digests.
    pub sha256: Sha256,
}

impl Config {
    /// The defaults, with the given SHA-256.
    pub fn new(sha256: Sha256) -> Self {
        Config {
            faces_max: 16_384,
            threads_max: THREADS_MAX,
            pit: PitLimits::default(),
            cs: CsLimits::default(),
            cs_policy: CsPolicy::default(),
            cs_admit: true,
            cs_serve: true,
            cs_marking: TierMarking::default(),
            cs_announce_ns: 0,
            // NFD's default: otherwise any peer could fill the cache.
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

    /// Refuses limits beyond the capacity of the tables, and zero for limits that must not be zero.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        needed("faces_max", self.faces_max)?;
        needed("threads_max", self.threads_max)?;
        at_most("threads_max", self.threads_max, THREADS_MAX)?;
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

/// The policy for Data that no pending Interest requested.
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
    fn impossible_limits_are_refused_by_name() {
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
        let threads = |threads_max| Config { threads_max, ..config.clone() }.check();
        assert_eq!((threads(1), threads(THREADS_MAX)), (Ok(()), Ok(())));
        assert_eq!(threads(0), Err(ConfigError::Zero { limit: "threads_max" }));
        let error = ConfigError::TooLarge { limit: "threads_max", most: THREADS_MAX };
        assert_eq!(threads(THREADS_MAX + 1), Err(error));
        let no_cache = Config { cs: CsLimits { packets_max: 0, entries_max: 0, octets_max: 0 }, ..config };
        assert_eq!(no_cache.check(), Ok(()));
    }
}

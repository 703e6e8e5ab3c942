//! The content store as the control path reads and changes it.

use namely_wire::Name;

use super::policy::CsPolicy;

/// The state of the content store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsStatus {
    /// Maximum number of packets it may hold.
    pub packets_max: usize,
    /// The eviction policy.
    pub policy: CsPolicy,
    /// True if it takes Data in.
    pub admit: bool,
    /// True if it answers.
    pub serve: bool,
    /// Packets it holds.
    pub packets: usize,
    /// Index entries it is charged for: one for each prefix of each name.
    pub entries: usize,
    /// Octets that its packets hold on to ([`crate::PacketBuf::octets_held`]).
    pub octets: u64,
    /// Interests it answered.
    pub hits: u64,
    /// Interests it could not answer.
    pub misses: u64,
    /// Data it refused: NoCache, an empty name, or larger than a limit.
    pub refused: u64,
    /// Data that left to make room.
    pub evicted: u64,
}

/// Changes of the content store; a field that is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsChange {
    /// Maximum number of packets it may hold.
    pub packets_max: Option<usize>,
    /// True if it takes Data in.
    pub admit: Option<bool>,
    /// True if it answers.
    pub serve: Option<bool>,
    /// The eviction policy. Without memory for another policy the old one stays.
    pub policy: Option<CsPolicy>,
}

/// A Data in the content store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedData {
    /// Its name.
    pub name: Name,
    /// Its octets.
    pub octets: usize,
    /// Until when it is fresh, ns.
    pub fresh_until_ns: u64,
}

//! The content store's state and configuration for the control path.

use namely_wire::Name;

use super::policy::CsPolicy;

/// The state of the content store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsStatus {
    /// Maximum number of packets.
    pub packets_max: usize,
    /// The eviction policy.
    pub policy: CsPolicy,
    /// True if it admits Data.
    pub admit: bool,
    /// True if it answers Interests.
    pub serve: bool,
    /// Cached packets.
    pub packets: usize,
    /// Index entries in use: one for each prefix of each name.
    pub entries: usize,
    /// Octets that its packets occupy ([`crate::PacketBuf::memory_octets`]).
    pub octets: u64,
    /// Interests that it answered.
    pub hits: u64,
    /// Interests that it could not answer.
    pub misses: u64,
    /// Refused Data: NoCache, an empty name, or larger than a limit.
    pub refused: u64,
    /// Data evicted to make room.
    pub evicted: u64,
}

/// Changes of the content store; a field that is `None` changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsChange {
    /// Maximum number of packets.
    pub packets_max: Option<usize>,
    /// True if it admits Data.
    pub admit: Option<bool>,
    /// True if it answers Interests.
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
    /// The time until which it is fresh, ns.
    pub fresh_until_ns: u64,
}

//! Datasets about tables: `fib/list`, `rib/list`, `strategy-choice/list`, `cs/info`, `bpt/list`.

use alloc::string::String;
use alloc::vec::Vec;

use super::field::block;
use super::numbers::*;
use super::values::RouteOrigin;
use namely_wire::Name;
use namely_wire::types::NAME;

block! {
    /// FibEntry: one prefix of `fib/list`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FibEntry: ENTRY {
        /// Name.
        pub prefix: Name = NAME;
        /// The prefix's NextHopRecords.
        pub next_hops: Vec<NextHop> = NEXT_HOP_RECORD;
    }
}

block! {
    /// NextHopRecord.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NextHop: NEXT_HOP_RECORD {
        /// FaceId.
        pub face_id: u64 = FACE_ID;
        /// Cost.
        pub cost: u64 = COST;
    }
}

block! {
    /// RibEntry: one prefix of `rib/list`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RibEntry: ENTRY {
        /// Name.
        pub prefix: Name = NAME;
        /// The prefix's Routes.
        pub routes: Vec<Route> = ROUTE;
    }
}

block! {
    /// Route.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Route: ROUTE {
        /// FaceId.
        pub face_id: u64 = FACE_ID;
        /// Origin.
        pub origin: RouteOrigin = ORIGIN;
        /// Cost.
        pub cost: u64 = COST;
        /// Flags: see [`super::route_flags`].
        pub flags: u64 = FLAGS;
        /// ExpirationPeriod: the time left, ms; `None` for a permanent route.
        pub expiration_period_ms: Option<u64> = EXPIRATION_PERIOD;
    }
}

block! {
    /// One prefix of `bpt/list` and its owner. Namely's own.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Binding: ENTRY {
        /// Name.
        pub prefix: Name = NAME;
        /// FaceId: the application's.
        pub face_id: u64 = FACE_ID;
        /// Flags: see [`super::bind_flags`].
        pub flags: u64 = FLAGS;
    }
}

/// The prefix of every strategy's full name.
pub const STRATEGY_PREFIX: [&str; 3] = ["localhost", "nfd", "strategy"];

/// The full name of a strategy, from its full name or its last component, such as `multicast`.
/// `None` if `text` is not a name.
///
/// ```
/// use namely_messages::strategy_name;
/// let full = strategy_name("multicast").unwrap();
/// assert_eq!(full.to_string(), "/localhost/nfd/strategy/multicast");
/// assert_eq!(strategy_name("/localhost/nfd/strategy/multicast"), Some(full));
/// assert_eq!(strategy_name("%"), None);
/// ```
pub fn strategy_name(text: &str) -> Option<Name> {
    if text.starts_with('/') || text.starts_with("ndn:/") {
        return text.parse().ok();
    }
    let last: Name = alloc::format!("/{text}").parse().ok()?;
    Some(
        STRATEGY_PREFIX
            .iter()
            .fold(Name::new(), |name, word| name.join_generic(word))
            .join_name(last.as_name()),
    )
}

block! {
    /// StrategyChoice: one prefix of `strategy-choice/list`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct StrategyChoice: ENTRY {
        /// Name: the prefix.
        pub prefix: Name = NAME;
        /// Strategy: the name of the strategy in force below the prefix.
        pub strategy: Name = STRATEGY;
    }
}

block! {
    /// CsInfo: the one entry of `cs/info`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CsInfo: ENTRY {
        /// Capacity, packets.
        pub capacity: u64 = CAPACITY;
        /// Flags: see [`super::cs_flags`].
        pub flags: u64 = FLAGS;
        /// NCsEntries: packets stored.
        pub entries: u64 = N_CS_ENTRIES;
        /// NHits.
        pub hits: u64 = N_HITS;
        /// NMisses.
        pub misses: u64 = N_MISSES;
        /// CsPolicy: the replacement policy. Namely's own.
        pub policy: Option<String> = CS_POLICY;
    }
}

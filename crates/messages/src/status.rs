//! The general status: the whole Content of `/localhost/nfd/status/general`, without a block around
//! it; and the entries of `status/counters`, which is namely's own.

use alloc::string::String;
use alloc::vec::Vec;

use super::field::block;
use super::numbers::*;
use namely_wire::DecodeError;
use namely_wire::tlv::Writer;

block! {
    /// The router's version, times, table sizes and packet counters.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GeneralStatus {
        /// NfdVersion: the router's name and version.
        pub version: String = NFD_VERSION;
        /// StartTimestamp, ms since the Unix epoch.
        pub start_ms: u64 = START_TIMESTAMP;
        /// CurrentTimestamp, ms since the Unix epoch.
        pub current_ms: u64 = CURRENT_TIMESTAMP;
        /// NNameTreeEntries.
        pub name_tree_entries: u64 = N_NAME_TREE_ENTRIES;
        /// NFibEntries.
        pub fib_entries: u64 = N_FIB_ENTRIES;
        /// NPitEntries.
        pub pit_entries: u64 = N_PIT_ENTRIES;
        /// NMeasurementsEntries.
        pub measurements_entries: u64 = N_MEASUREMENTS_ENTRIES;
        /// NCsEntries.
        pub cs_entries: u64 = N_CS_ENTRIES;
        /// NInInterests.
        pub in_interests: u64 = N_IN_INTERESTS;
        /// NInData.
        pub in_data: u64 = N_IN_DATA;
        /// NInNacks.
        pub in_nacks: u64 = N_IN_NACKS;
        /// NOutInterests.
        pub out_interests: u64 = N_OUT_INTERESTS;
        /// NOutData.
        pub out_data: u64 = N_OUT_DATA;
        /// NOutNacks.
        pub out_nacks: u64 = N_OUT_NACKS;
        /// NSatisfiedInterests: pending Interests that got Data; absent before NFD 0.7.
        pub satisfied_interests: u64 = N_SATISFIED_INTERESTS, default;
        /// NUnsatisfiedInterests: pending Interests that expired.
        pub unsatisfied_interests: u64 = N_UNSATISFIED_INTERESTS, default;
        /// Routes of all names. Namely's own: a client need not read the RIB to count them.
        pub routes: Option<u64> = N_ROUTES;
        /// Faces: namely's own, for the same reason.
        pub faces: Option<u64> = N_FACES;
        /// Namely's own values; other routers have none.
        pub details: Option<RouterDetails> = ROUTER_DETAILS;
    }
}

block! {
    /// Values of a router that NFD does not report.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RouterDetails: ROUTER_DETAILS {
        /// Time since the start by the monotonic clock, ms.
        pub uptime_ms: u64 = ROUTER_UPTIME;
        /// Octets of link packets received on all present and former faces.
        pub in_octets: u64 = ROUTER_IN_OCTETS;
        /// Octets of link packets sent on them.
        pub out_octets: u64 = ROUTER_OUT_OCTETS;
        /// Addresses of the configuration for whose devices the router waits.
        pub awaited: Vec<String> = ROUTER_AWAITED;
        /// The pending Interests that the router still answers before it stops; absent unless it
        /// drains.
        pub draining: Option<u64> = ROUTER_DRAINING;
    }
}

impl GeneralStatus {
    /// Reads the dataset's octets.
    ///
    /// # Errors
    /// [`DecodeError`]: a field is malformed or missing.
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_value(content)
    }

    /// Time since the router's start, ms. Other routers than namely's report times of the wall
    /// clock only, which may have been set meanwhile.
    pub fn uptime_ms(&self) -> u64 {
        let by_wall_clock = || self.current_ms.saturating_sub(self.start_ms);
        self.details.as_ref().map_or_else(by_wall_clock, |details| details.uptime_ms)
    }

    /// The dataset's octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.encode_value(&mut w);
        w.into_vec()
    }
}

block! {
    /// One counter of `status/counters`: a dataset that only namely has, for counts that no dataset
    /// of NFD has.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Counter: ENTRY {
        /// Its label, such as `forwarder.no_route`; docs/counters.md lists them.
        pub label: String = COUNTER_LABEL;
        /// The face that it belongs to; `None` for the whole router.
        pub face_id: Option<u64> = FACE_ID;
        /// The value of the counter.
        pub value: u64 = COUNTER_VALUE;
    }
}

impl Counter {
    /// A counter of the whole router.
    pub fn new(label: impl Into<String>, value: u64) -> Self {
        Counter { label: label.into(), face_id: None, value }
    }
}

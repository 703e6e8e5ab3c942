//! ControlParameters: the argument of every command, and the body of its response.

use alloc::string::String;

use super::field::block;
use super::numbers::*;
use super::values::{FacePersistency, RouteOrigin};
use namely_wire::Name;
use namely_wire::types::NAME;

block! {
    /// ControlParameters. All fields are optional here; each command defines the ones that it
    /// needs.
    ///
    /// ```
    /// use namely_messages::{Block, ControlParameters};
    /// let all = ControlParameters { face_id: Some(300), cost: Some(10), ..Default::default() };
    /// assert_eq!(ControlParameters::decode(&all.to_vec()), Ok(all));
    /// ```
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ControlParameters: strict CONTROL_PARAMETERS {
        /// Name: of a route, a strategy choice, or the content to erase.
        pub name: Option<Name> = NAME;
        /// FaceId; 0 means the face that the command came from.
        pub face_id: Option<u64> = FACE_ID;
        /// Uri: the face's remote end.
        pub uri: Option<String> = URI;
        /// LocalUri: the face's local end.
        pub local_uri: Option<String> = LOCAL_URI;
        /// Origin of a route.
        pub origin: Option<RouteOrigin> = ORIGIN;
        /// Cost of a route or next hop.
        pub cost: Option<u64> = COST;
        /// Capacity of the content store, in packets.
        pub capacity: Option<u64> = CAPACITY;
        /// Count of packets to erase.
        pub count: Option<u64> = COUNT;
        /// Flags: see [`super::face_flags`], [`super::cs_flags`], [`super::route_flags`].
        pub flags: Option<u64> = FLAGS;
        /// Mask: the bits of Flags that the command sets.
        pub mask: Option<u64> = MASK;
        /// Strategy.
        pub strategy: Option<Name> = STRATEGY;
        /// ExpirationPeriod of a route, ms.
        pub expiration_period_ms: Option<u64> = EXPIRATION_PERIOD;
        /// FacePersistency.
        pub face_persistency: Option<FacePersistency> = FACE_PERSISTENCY;
        /// BaseCongestionMarkingInterval, ns.
        pub base_congestion_marking_interval_ns: Option<u64> = BASE_CONGESTION_MARKING_INTERVAL;
        /// DefaultCongestionThreshold, octets of send queue.
        pub default_congestion_threshold_octets: Option<u64> = DEFAULT_CONGESTION_THRESHOLD;
        /// Mtu, octets.
        pub mtu: Option<u64> = MTU;
        /// CsPolicy: the replacement policy of the content store. Namely's own.
        pub cs_policy: Option<String> = CS_POLICY;
        /// Maximum octets of the content store's disk. Namely's own, like the following fields.
        pub cs_disk_octets: Option<u64> = CS_DISK_OCTETS_MAX;
        /// The admission rule of its disk.
        pub cs_disk_admission: Option<String> = CS_DISK_ADMISSION;
        /// Number of pending requests from which the router bypasses its disk.
        pub cs_disk_threshold: Option<u64> = CS_DISK_THRESHOLD;
        /// The order of reads and writes of its disk.
        pub cs_disk_queue: Option<String> = CS_DISK_QUEUE;
        /// The number of a trace.
        pub trace_id: Option<u64> = TRACE_ID;
    }
}

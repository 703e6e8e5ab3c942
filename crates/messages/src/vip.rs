//! The datasets `vip/status`, `vip/objects` and `vip/neighbours`, namely's own: the virtual plane
//! of VIP, its objects and its neighbors.
//!
//! VIPs are in units of 2^-20, as routers count them.

use alloc::string::String;
use alloc::vec::Vec;

use super::field::block;
use super::numbers::*;
use super::status::Counter;

block! {
    /// The one entry of `vip/status`. A router that does not run VIP has none.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct VipStatus: ENTRY {
        /// Its name in the exchange.
        pub router: String = VIP_ROUTER;
        /// Its Ed25519 public key, which neighbors have to trust.
        pub key: Vec<u8> = NEIGHBOR_KEY;
        /// Whether it accepts messages of neighbors without a signature.
        pub is_open: bool = VIP_OPEN;
        /// The number of its current slot.
        pub slot: u64 = VIP_SLOT;
        /// Duration of a slot, ms.
        pub period_ms: u64 = VIP_PERIOD;
        /// The file of its catalogue.
        pub catalogue: String = VIP_CATALOGUE;
        /// The version of the catalogue.
        pub version: u64 = VIP_VERSION;
        /// Number of registered objects.
        pub objects: u64 = VIP_OBJECTS;
        /// Blocks of the catalogue. The registered objects are some of them.
        pub blocks: u64 = VIP_BLOCKS;
        /// Files of the catalogue.
        pub files: u64 = VIP_FILES;
        /// Octets of the registered objects.
        pub octets: u64 = VIP_OCTETS;
        /// Room for objects retained in memory, octets.
        pub room: u64 = VIP_ROOM;
        /// Room for objects retained on disk, octets, if there is a disk for them.
        pub disk_room: Option<u64> = VIP_DISK_ROOM;
        /// The rate at which the disk can be read, octets/s.
        pub disk_octets_per_s: Option<u64> = VIP_DISK_RATE;
        /// The counters; docs/counters.md lists them.
        pub counters: Vec<Counter> = VIP_COUNTER;
    }
}

block! {
    /// An entry of `vip/objects`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct VipObject: ENTRY {
        /// Its name in the catalogue.
        pub name: String = VIP_OBJECT;
        /// The number by which routers identify it to each other.
        pub id: u64 = VIP_ID;
        /// Octets.
        pub octets: u64 = VIP_OCTETS;
        /// V: VIPs that wait here.
        pub count: u64 = VIP_COUNT;
        /// The decayed sum of received VIPs.
        pub score: u64 = VIP_SCORE;
        /// VIPs of requests that began here since it was registered.
        pub asked: u64 = VIP_ASKED;
        /// Its octets that the content store has in memory.
        pub held: u64 = VIP_HELD;
        /// The tier that retains it; `None` if none does.
        pub tier: Option<u64> = VIP_TIER;
        /// Whether this router is its source.
        pub is_source: bool = VIP_SOURCE;
        /// The face to which its Interests are sent; `None` if no neighbor leads to it.
        pub face_id: Option<u64> = FACE_ID;
    }
}

block! {
    /// An entry of `vip/neighbours`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct VipNeighbour: ENTRY {
        /// The face's remote URI, as the configuration has it.
        pub remote: String = URI;
        /// Its name in the exchange; empty if it does not speak VIP.
        pub router: String = VIP_ROUTER, default;
        /// The face that leads there; `None` while there is none.
        pub face_id: Option<u64> = FACE_ID;
        /// The boot number of its present run.
        pub boot: Option<u64> = VIP_BOOT;
        /// The remaining time for which its counts are used, ms; `None` if they are not used.
        pub fresh_ms: Option<u64> = VIP_FRESH;
        /// VIPs that it has not acknowledged.
        pub under_way: u64 = VIP_UNDER_WAY;
        /// Slots of these VIPs.
        pub slots_under_way: u64 = VIP_SLOTS_UNDER_WAY;
        /// Its latest slot whose VIPs were added here.
        pub entered: u64 = VIP_ENTERED;
        /// Its refused packets, by reason.
        pub counters: Vec<Counter> = VIP_COUNTER;
    }
}

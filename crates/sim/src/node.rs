//! A router of the network: its forwarder, its faces, and its unprocessed packets.

use std::collections::{BTreeMap, VecDeque};

use namely_forwarder::{
    BindingLimits, Config, CsLimits, CsPolicy, DeadNonceLimits, FaceId, FaceProperties, FibLimits, PitLimits,
    Received, RibLimits, StrategyLimits, TierMarking,
};

use crate::alarm::Alarm;
use crate::disk::{Disk, DiskSpec};
use crate::neighbours::Neighbours;
use crate::packet::Packet;

/// The forwarder that a node runs, with its routes.
pub type Router = namely_forwarder::Router<Packet, parking_lot::RawMutex>;

/// Properties of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterSpec {
    /// Capacity of its content store in Data packets; 0 for none.
    pub cs_packets_max: usize,
    /// Policy of its content store.
    pub cs_policy: CsPolicy,
    /// Maximum number of pending Interests.
    pub pit_entries_max: usize,
    /// Maximum number of these of one neighbor or application.
    pub pit_entries_per_face_max: usize,
    /// Maximum number of faces.
    pub faces_max: usize,
    /// A disk below its content store.
    pub disk: Option<DiskSpec>,
    /// Marking of Data from the disk.
    pub cs_marking: TierMarking,
    /// Interval of announcements to downstreams that its disk is busy in ns; 0: never.
    pub cs_announce_ns: u64,
}

impl Default for RouterSpec {
    /// 256 Data, 4,096 pending Interests, all of which one face may have, and 64 faces: small, so
    /// that thousands of routers fit into memory.
    fn default() -> Self {
        RouterSpec {
            cs_packets_max: 256,
            cs_policy: CsPolicy::default(),
            pit_entries_max: 4096,
            pit_entries_per_face_max: 4096,
            faces_max: 64,
            disk: None,
            cs_marking: TierMarking::default(),
            cs_announce_ns: 0,
        }
    }
}

impl RouterSpec {
    /// Returns the forwarder's configuration. The SHA-256 of implicit digests is replaced by zeros,
    /// because no scenario requests data by digest.
    pub(crate) fn config(&self) -> Config {
        Config {
            faces_max: self.faces_max,
            pit: PitLimits {
                entries_max: self.pit_entries_max,
                entries_per_face_max: self.pit_entries_per_face_max,
                entries_per_holder_max: self.pit_entries_max,
                ..PitLimits::default()
            },
            cs: CsLimits {
                packets_max: self.cs_packets_max,
                entries_max: self.cs_packets_max * 8,
                ..CsLimits::default()
            },
            cs_policy: self.cs_policy,
            cs_marking: self.cs_marking,
            cs_announce_ns: self.cs_announce_ns,
            fib: FibLimits { entries_max: 4096, ..FibLimits::default() },
            rib: RibLimits { routes_max: 4096, ..RibLimits::default() },
            bindings: BindingLimits { entries_max: 1024, ..BindingLimits::default() },
            strategies: StrategyLimits { choices_max: 64, prefixes_max: 1024, ..StrategyLimits::default() },
            dead_nonces: DeadNonceLimits { entries_max: self.pit_entries_max, ..DeadNonceLimits::default() },
            ..Config::new(|_| [0; 32])
        }
    }
}

/// The target behind a face.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    App(usize),
    LinkEnd(usize),
}

pub(crate) struct Node {
    pub(crate) forwarder: Router,
    pub(crate) faces: BTreeMap<FaceId, Target>,
    /// Faces in the order in which they were registered.
    pub(crate) registered: Vec<(FaceId, FaceProperties)>,
    /// Received packets.
    pub(crate) inbox: VecDeque<(FaceId, Received<Packet>)>,
    pub(crate) disk: Option<Disk>,
    pub(crate) neighbours: Option<Box<Neighbours>>,
    /// Time until which its processor is occupied.
    pub(crate) occupied_until_ns: u64,
    pub(crate) alarm: Alarm,
}

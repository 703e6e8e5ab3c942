//! A router of the network: its forwarder, its faces, and the packets that it has still to process.

use std::collections::{BTreeMap, VecDeque};

use namely_forwarder::{Config, CsPolicy, FaceId, FaceProperties, Received, TierMarking};

use crate::alarm::Alarm;
use crate::disk::{Disk, DiskSpec};
use crate::neighbours::Neighbours;
use crate::packet::Packet;

/// The forwarder that a node runs, with its routes.
pub type Router = namely_forwarder::Router<Packet, parking_lot::RawMutex>;

/// What a router is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterSpec {
    /// Data packets that its content store holds; 0 for none.
    pub cs_packets_max: usize,
    /// Which Data leaves it first.
    pub cs_policy: CsPolicy,
    /// Pending Interests that it holds.
    pub pit_entries_max: usize,
    /// Of these, those of one neighbour or application.
    pub pit_entries_per_face_max: usize,
    /// Faces that it may have.
    pub faces_max: usize,
    /// A disk below its content store.
    pub disk: Option<DiskSpec>,
    /// Who marks Data that comes from the disk.
    pub cs_marking: TierMarking,
    /// How often it says to those that ask it that its disk is busy, ns; 0: never.
    pub cs_announce_ns: u64,
}

impl Default for RouterSpec {
    /// 256 Data, 4,096 pending Interests, all of which one face may have, 64 faces: small, so that
    /// thousands of routers fit.
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
    /// The forwarder's configuration. The SHA-256 of implicit digests stands in as zeros: no
    /// scenario asks by digest.
    pub(crate) fn config(&self) -> Config {
        Config {
            faces_max: self.faces_max,
            pit_entries_max: self.pit_entries_max,
            pit_entries_per_face_max: self.pit_entries_per_face_max,
            pit_entries_per_holder_max: self.pit_entries_max,
            cs_packets_max: self.cs_packets_max,
            cs_entries_max: self.cs_packets_max * 8,
            cs_policy: self.cs_policy,
            cs_marking: self.cs_marking,
            cs_announce_ns: self.cs_announce_ns,
            fib_entries_max: 4096,
            rib_routes_max: 4096,
            bindings_max: 1024,
            strategy_choices_max: 64,
            strategy_prefixes_max: 1024,
            dead_nonces_max: self.pit_entries_max,
            ..Config::new(|_| [0; 32])
        }
    }
}

/// What is behind a face.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    App(usize),
    Port(usize),
}

pub(crate) struct Node {
    pub(crate) forwarder: Router,
    pub(crate) faces: BTreeMap<FaceId, Target>,
    /// Faces in the order in which they were registered.
    pub(crate) registered: Vec<(FaceId, FaceProperties)>,
    /// Packets that faces have yielded.
    pub(crate) inbox: VecDeque<(FaceId, Received<Packet>)>,
    pub(crate) disk: Option<Disk>,
    pub(crate) neighbours: Option<Box<Neighbours>>,
    /// Until when its processor is occupied.
    pub(crate) occupied_until_ns: u64,
    pub(crate) alarm: Alarm,
}

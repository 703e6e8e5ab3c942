//! A router of the network: its forwarder, its links and behaviors, and its unprocessed packets. A
//! node contains all state that its events use, so that nodes share nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use namely_forwarder::{
    BindingLimits, Config, CsLimits, CsPolicy, DeadNonceLimits, FaceId, FaceProperties, FibLimits, PitLimits,
    Received, RibLimits, StrategyLimits, TierMarking,
};
use namely_link::ReassemblyTotal;

use crate::alarm::Alarm;
use crate::behaviour::Behaviour;
use crate::disk::{Disk, DiskSpec};
use crate::engine::Turn;
use crate::event::{EventKind, LinkEndId};
use crate::link::{LinkEnd, LinkSpec, REASSEMBLY_OCTETS_MAX};
use crate::neighbours::Neighbours;
use crate::packet::Packet;
use crate::queue::EventKey;
use crate::random::{Random, Stream};

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
            // Each node runs in one thread at a time.
            threads_max: 1,
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

/// The target behind a face: a behavior or a port of the node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    App(usize),
    LinkEnd(usize),
}

/// A behavior and its face.
pub(crate) struct App {
    pub(crate) face: FaceId,
    pub(crate) behaviour: Option<Box<dyn Behaviour>>,
    pub(crate) started: bool,
    pub(crate) alarm: Alarm,
    pub(crate) random: Random,
}

pub(crate) struct Node {
    pub(crate) id: u32,
    /// The network's seed.
    seed: u64,
    pub(crate) forwarder: Router,
    pub(crate) faces: BTreeMap<FaceId, Target>,
    /// Faces in the order in which they were registered.
    pub(crate) registered: Vec<(FaceId, FaceProperties)>,
    pub(crate) ends: Vec<LinkEnd>,
    pub(crate) apps: Vec<App>,
    /// Received packets.
    pub(crate) inbox: VecDeque<(FaceId, Received<Packet>)>,
    pub(crate) disk: Option<Disk>,
    pub(crate) neighbours: Option<Box<Neighbours>>,
    /// Time until which its processor is occupied.
    pub(crate) occupied_until_ns: u64,
    pub(crate) alarm: Alarm,
    /// The node's own generator. Ports and behaviors have others.
    pub(crate) random: Random,
    /// Number of events that the node has scheduled.
    scheduled: u64,
    reassembly: Arc<ReassemblyTotal>,
    /// Digest of the frames that arrived, if they are traced.
    pub(crate) trace: Option<Box<blake3::Hasher>>,
}

impl Node {
    /// # Panics
    /// If `spec` has a limit that no forwarder can have.
    pub(crate) fn new(id: u32, seed: u64, spec: &RouterSpec) -> Self {
        let mut random = Random::of(seed, Stream::Node, [id, 0]);
        let forwarder =
            Router::new(spec.config(), random.next_u64().into()).expect("limits that a forwarder can have");
        Node {
            id,
            seed,
            forwarder,
            faces: BTreeMap::new(),
            registered: Vec::new(),
            ends: Vec::new(),
            apps: Vec::new(),
            inbox: VecDeque::new(),
            disk: spec.disk.map(Disk::new),
            neighbours: None,
            occupied_until_ns: 0,
            alarm: Alarm::OFF,
            random,
            scheduled: 0,
            reassembly: ReassemblyTotal::new(REASSEMBLY_OCTETS_MAX),
            trace: None,
        }
    }

    /// Adds a face that stays, also when the forwarder is restarted.
    ///
    /// # Panics
    /// If the node has its maximum of faces.
    pub(crate) fn add_face(&mut self, properties: FaceProperties, target: Target) -> FaceId {
        let face = self.forwarder.face_register(properties).expect("room for a face");
        self.faces.insert(face, target);
        self.registered.push((face, properties));
        face
    }

    /// Adds a port with a face.
    ///
    /// # Panics
    /// If the node has its maximum of faces.
    pub(crate) fn add_end(&mut self, properties: FaceProperties, peers: Vec<LinkEndId>, spec: LinkSpec) {
        let face = self.add_face(properties, Target::LinkEnd(self.ends.len()));
        // A hub may have more links than discovery faces; the others receive no discoveries.
        let _ = self.forwarder.discovery().set(face, true);
        let end = self.new_end(face, peers, spec);
        self.ends.push(end);
    }

    /// Adds a behavior with a face. Returns its index.
    ///
    /// # Panics
    /// If the node has its maximum of faces.
    pub(crate) fn add_app(&mut self, properties: FaceProperties, behaviour: Box<dyn Behaviour>) -> usize {
        let index = self.apps.len();
        let face = self.add_face(properties, Target::App(index));
        let random = Random::of(self.seed, Stream::App, [self.id, index as u32]);
        let behaviour = Some(behaviour);
        self.apps.push(App { face, behaviour, started: false, alarm: Alarm::OFF, random });
        index
    }

    /// Creates the node's next port, behind `face`.
    pub(crate) fn new_end(&self, face: FaceId, peers: Vec<LinkEndId>, spec: LinkSpec) -> LinkEnd {
        let random = Random::of(self.seed, Stream::LinkEnd, [self.id, self.ends.len() as u32]);
        LinkEnd::new(face, peers, spec, self.reassembly.clone(), random)
    }

    /// Replaces the forwarder: see [`crate::Network::restart`].
    pub(crate) fn restart(&mut self, spec: &RouterSpec) {
        let seed = self.random.next_u64();
        let forwarder = Router::new(spec.config(), seed.into()).expect("limits that a forwarder can have");
        for (face, properties) in &self.registered {
            let anew = forwarder.face_register(*properties).expect("room for a face");
            assert_eq!(anew, *face, "faces have the numbers that they had");
            if matches!(self.faces.get(face), Some(Target::LinkEnd(_))) {
                let _ = forwarder.discovery().set(*face, true);
            }
        }
        self.inbox.clear();
        self.forwarder = forwarder;
    }

    /// Schedules an event at this node.
    pub(crate) fn schedule(&mut self, at_ns: u64, event: EventKind, turn: &mut Turn<'_>) {
        self.schedule_at(self.id, at_ns, event, turn);
    }

    /// Schedules an event at this node, if there is a time for it.
    pub(crate) fn schedule_if(&mut self, at_ns: Option<u64>, event: EventKind, turn: &mut Turn<'_>) {
        if let Some(at_ns) = at_ns {
            self.schedule(at_ns, event, turn);
        }
    }

    /// Schedules an event at a node.
    pub(crate) fn schedule_at(&mut self, node: u32, at_ns: u64, event: EventKind, turn: &mut Turn<'_>) {
        self.scheduled += 1;
        let at_ns = at_ns.max(turn.now_ns);
        let key = EventKey { at_ns, node, source: self.id, number: self.scheduled };
        turn.schedule.push(key, event);
    }

    /// Identifies a port of this node.
    pub(crate) fn end_id(&self, end: usize) -> LinkEndId {
        LinkEndId { node: self.id, end: end as u32 }
    }
}

//! What a node does beyond forwarding.

use std::any::Any;

use namely_forwarder::{FaceId, Received};
use namely_wire::{LpHeaders, Name};

use crate::disk::Disk;
use crate::node::Router;
use crate::packet::{NodeId, Packet};
use crate::random::Random;

/// Something at a node that gets packets and time: a consumer, a producer, a routing protocol, a
/// controller of the cache. It sits behind an application's face of the node's forwarder.
///
/// A behaviour must be a function of what it is given: it reads no clock and no randomness but the
/// context's, and iterates over nothing whose order is not fixed (no `HashMap`).
pub trait Behaviour: Any {
    /// The network runs: called once, at time 0 or when it is attached later.
    fn start(&mut self, context: &mut Context<'_>);

    /// The forwarder sent this to the face.
    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>);

    /// The time given to [`Context::wake_at`] has come.
    fn wake(&mut self, context: &mut Context<'_>) {
        let _ = context;
    }
}

/// What a behaviour may do when it is called.
pub struct Context<'a> {
    pub(crate) now_ns: u64,
    pub(crate) node: NodeId,
    pub(crate) face: FaceId,
    pub(crate) random: &'a mut Random,
    pub(crate) forwarder: &'a Router,
    pub(crate) disk: Option<&'a mut Disk>,
    pub(crate) sent: &'a mut Vec<Received<Packet>>,
    pub(crate) wake_at_ns: Option<u64>,
}

impl Context<'_> {
    /// Now, ns since the network's beginning.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The behaviour's own face at the node's forwarder.
    pub fn face(&self) -> FaceId {
        self.face
    }

    /// The network's randomness.
    pub fn random(&mut self) -> &mut Random {
        self.random
    }

    /// The node's forwarder, to read or change its tables.
    pub fn forwarder(&self) -> &Router {
        self.forwarder
    }

    /// Says what the node's disk is to keep, if it has one: what is below these names leaves it
    /// last. To be said from [`Behaviour::wake`]; in the middle of a packet it is not heard.
    pub fn disk_plan(&mut self, names: Vec<Name>) {
        if let Some(disk) = &mut self.disk {
            disk.plan(names);
        }
    }

    /// Sends a packet to the forwarder.
    pub fn send(&mut self, packet: impl Into<Packet>) {
        self.send_with(packet, LpHeaders::default());
    }

    /// Sends a packet with headers to the forwarder.
    pub fn send_with(&mut self, packet: impl Into<Packet>, headers: LpHeaders) {
        self.sent.push(Received { packet: packet.into(), headers });
    }

    /// Moves the behaviour's one timer to `at_ns`; [`u64::MAX`] stops it.
    pub fn wake_at(&mut self, at_ns: u64) {
        self.wake_at_ns = Some(at_ns);
    }
}

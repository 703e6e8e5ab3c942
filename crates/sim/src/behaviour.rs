//! Functions of a node beyond forwarding.

use std::any::Any;

use namely_forwarder::{FaceId, Received};
use namely_wire::{LpHeaders, Name};

use crate::disk::Disk;
use crate::node::Router;
use crate::packet::{NodeId, Packet};
use crate::random::Random;

/// A function of a node that receives packets and time: a consumer, a producer, a routing protocol,
/// a controller of the cache. It is behind an application's face of the node's forwarder.
///
/// A behavior has to be deterministic: it reads no clock and no randomness except the context's,
/// and does not iterate over a collection without a fixed order (no `HashMap`). It shares no state
/// with other behaviors, because a thread may process its node beside others.
pub trait Behaviour: Any + Send {
    /// Starts the behavior: called once, at time 0 or when it is attached later.
    fn start(&mut self, context: &mut Context<'_>);

    /// Receives a packet that the forwarder sent to the face.
    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>);

    /// Called at the time passed to [`Context::wake_at`].
    fn wake(&mut self, context: &mut Context<'_>) {
        let _ = context;
    }
}

/// The operations that a behavior may use when it is called.
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
    /// Returns the current time, in ns since the network's beginning.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the behavior's face at the node's forwarder.
    pub fn face(&self) -> FaceId {
        self.face
    }

    /// Returns the behavior's random generator.
    pub fn random(&mut self) -> &mut Random {
        self.random
    }

    /// Returns the node's forwarder, to read or change its tables.
    pub fn forwarder(&self) -> &Router {
        self.forwarder
    }

    /// Sets the names that the node's disk is to retain, if it has one: Data below them is evicted
    /// last. Call it from [`Behaviour::wake`]; it has no effect while a packet is processed.
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

    /// Moves the behavior's one timer to `at_ns`; [`u64::MAX`] stops it.
    pub fn wake_at(&mut self, at_ns: u64) {
        self.wake_at_ns = Some(at_ns);
    }
}

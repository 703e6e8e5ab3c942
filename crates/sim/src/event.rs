//! Events, their order, and the ports that frames travel between.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::disk::{Job, ReadResult};
use crate::packet::Packet;
use crate::slab::Slab;

/// Identifies one direction of a link by its sending end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkEndId {
    /// Node of the end.
    pub(crate) node: u32,
    /// Index among the ends of the node.
    pub(crate) end: u32,
}

/// A frame that arrives at a port of a node.
pub(crate) struct Arrival {
    /// The node's port.
    pub(crate) end: u32,
    /// The port that sent it.
    pub(crate) from: LinkEndId,
    /// The port whose device sent it: for the face of a neighbor the port to the group.
    pub(crate) device: LinkEndId,
    pub(crate) octets: Packet,
}

/// An event at a node. Ports and behaviors are indices of the node.
pub(crate) enum EventKind {
    /// A frame arrives.
    Frame(Arrival),
    /// A port goes off its link or returns.
    Link(usize, bool),
    /// A port goes off its link or returns, and the node is notified.
    Device(usize, bool),
    /// The node's discovery has to act.
    Discover,
    /// A link service has to act.
    Tick(usize),
    /// A behavior's timer.
    Wake(usize),
    /// The forwarder's timers.
    Expire,
    /// The node's processor is free again.
    Process,
    /// The node's disk has completed a request.
    Disk(Job),
    /// The node is notified of it.
    Read(ReadResult),
}

/// The order of events: by time and node, and at one node by the node that scheduled them and by
/// their number there. No part depends on events of other nodes at the same time. So the events of
/// a node have one order, whichever nodes are processed between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventKey {
    /// Time.
    pub(crate) at_ns: u64,
    /// Node that the event happens at.
    pub(crate) node: u32,
    /// Node that scheduled the event.
    pub(crate) source: u32,
    /// Number of the event among those that the source has scheduled.
    pub(crate) number: u64,
}

/// Pending events. The queue moves keys and the numbers of slots only.
#[derive(Default)]
pub(crate) struct Schedule {
    queue: BinaryHeap<Reverse<(EventKey, u32)>>,
    events: Slab<EventKind>,
}

impl Schedule {
    pub(crate) fn push(&mut self, key: EventKey, kind: EventKind) {
        let slot = self.events.insert(kind);
        self.queue.push(Reverse((key, slot)));
    }

    /// Removes and returns the first event before `end_ns`.
    pub(crate) fn pop_before(&mut self, end_ns: u64) -> Option<(EventKey, EventKind)> {
        if self.queue.peek()?.0.0.at_ns >= end_ns {
            return None;
        }
        let Reverse((key, slot)) = self.queue.pop()?;
        self.events.remove(slot).map(|kind| (key, kind))
    }
}

//! Events, and the ports that frames travel between.

use crate::disk::{Job, ReadResult};
use crate::packet::Packet;
use crate::queue::{DefaultQueue, Entry, EventKey, EventQueue};
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

/// Maximum number of recorded offsets.
const RECORDED_MAX: usize = 1 << 22;

/// Pending events. The queue moves keys and the numbers of slots only.
#[derive(Default)]
pub(crate) struct Schedule {
    queue: DefaultQueue,
    events: Slab<EventKind>,
    /// Time of the last event.
    now_ns: u64,
    /// Times from the last event to those that were scheduled since, if they are recorded.
    pub(crate) recorded: Option<Vec<u64>>,
}

impl Schedule {
    pub(crate) fn push(&mut self, key: EventKey, kind: EventKind) {
        if let Some(recorded) = &mut self.recorded
            && recorded.len() < RECORDED_MAX
        {
            recorded.push(key.at_ns.saturating_sub(self.now_ns));
        }
        let slot = self.events.insert(kind);
        self.queue.push(Entry { key, slot });
    }

    /// Removes and returns the first event before `end_ns`.
    pub(crate) fn pop_before(&mut self, end_ns: u64) -> Option<(EventKey, EventKind)> {
        let Entry { key, slot } = self.queue.pop_before(end_ns)?;
        self.now_ns = key.at_ns;
        self.events.remove(slot).map(|kind| (key, kind))
    }

    /// Returns the number of pending events.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

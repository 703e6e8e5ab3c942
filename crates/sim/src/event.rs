//! Events, and the ports that frames travel between.

use std::sync::Arc;

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
    /// An outage of a port begins (true) or ends.
    Outage(usize, bool),
    /// An outage of all ports begins (true) or ends.
    NodeOutage(bool),
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

/// An event on its way to another engine.
pub(crate) struct Event {
    pub(crate) key: EventKey,
    pub(crate) kind: EventKind,
}

/// The engines that nodes belong to.
#[derive(Clone)]
pub(crate) struct Placement {
    own: u16,
    /// Engine of each node; nodes that were added later belong to the first one.
    of_node: Arc<[u16]>,
}

impl Placement {
    /// Returns the engine of a node if it is another one.
    fn other(&self, node: u32) -> Option<usize> {
        let engine = self.of_node.get(node as usize).copied().unwrap_or(0);
        (engine != self.own).then_some(usize::from(engine))
    }
}

/// Maximum number of recorded offsets.
const RECORDED_MAX: usize = 1 << 22;

/// Pending events. The queue moves keys and the numbers of slots only.
#[derive(Default)]
pub(crate) struct Schedule {
    queue: DefaultQueue,
    events: Slab<EventKind>,
    /// None if there is one engine.
    placement: Option<Placement>,
    /// Events for other engines, by engine.
    outboxes: Vec<Vec<Event>>,
    /// Time of the last event.
    now_ns: u64,
    /// Times from the last event to those that were scheduled since, if they are recorded.
    pub(crate) recorded: Option<Vec<u64>>,
}

impl Schedule {
    /// Creates the schedule of the engine `own` of several.
    pub(crate) fn of_engine(own: usize, of_node: &Arc<[u16]>, engines: usize) -> Self {
        let placement = (engines > 1).then(|| Placement { own: own as u16, of_node: of_node.clone() });
        let outboxes = (0..engines).map(|_| Vec::new()).collect();
        Schedule { placement, outboxes, ..Schedule::default() }
    }

    pub(crate) fn push(&mut self, key: EventKey, kind: EventKind) {
        if let Some(engine) = self.placement.as_ref().and_then(|placement| placement.other(key.node)) {
            self.outboxes[engine].push(Event { key, kind });
            return;
        }
        if let Some(recorded) = &mut self.recorded
            && recorded.len() < RECORDED_MAX
        {
            recorded.push(key.at_ns.saturating_sub(self.now_ns));
        }
        let slot = self.events.insert(kind);
        self.queue.push(Entry { key, slot });
    }

    /// Removes and returns the first event before `end_ns`.
    pub(crate) fn pop_before(&mut self, end_ns: u64) -> Option<Event> {
        let Entry { key, slot } = self.queue.pop_before(end_ns)?;
        self.now_ns = key.at_ns;
        self.events.remove(slot).map(|kind| Event { key, kind })
    }

    /// Returns the time of the first event; [`u64::MAX`] if there is none.
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.queue.next_ns().unwrap_or(u64::MAX)
    }

    /// Returns the number of pending events.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the events for other engines, by engine.
    pub(crate) fn outboxes(&mut self) -> &mut [Vec<Event>] {
        &mut self.outboxes
    }

    /// Removes and returns all events, also those for other engines.
    pub(crate) fn drain(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = std::iter::from_fn(|| self.pop_before(u64::MAX)).collect();
        self.outboxes.iter_mut().for_each(|outbox| events.append(outbox));
        events
    }
}

//! Processes the events of nodes in their order.

use std::sync::Arc;

use namely_forwarder::{Batch, FaceId, Learned, Outgoing, Output, Received};
use namely_wire::Name;
use parking_lot::Mutex;

use crate::disk::Disk;
use crate::event::{Event, Schedule};
use crate::link::LinkOutput;
use crate::node::Node;
use crate::packet::Packet;

/// Packets and routes of a forwarder, and the disk below it.
#[derive(Default)]
pub(crate) struct ForwarderOutput {
    /// Disk of the node that is being processed.
    pub(crate) disk: Option<Disk>,
    pub(crate) packets: Vec<(FaceId, Outgoing<Packet>)>,
    pub(crate) learned: Vec<(FaceId, Name)>,
}

impl Output<Packet> for ForwarderOutput {
    type Tier = Disk;
    type Tracer = ();

    fn send(&mut self, face: FaceId, packet: Outgoing<Packet>) {
        self.packets.push((face, packet));
    }

    fn learned(&mut self, learned: Learned<'_>) {
        self.learned.extend(learned.object().map(|prefix| (learned.face, prefix.to_name())));
    }

    fn tier(&mut self) -> Option<&mut Disk> {
        self.disk.as_mut()
    }
}

/// Memory that the events of all nodes use in turn. It is empty between two events.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) link: LinkOutput,
    /// Work memory of all forwarders.
    pub(crate) batch: Batch<Packet>,
    pub(crate) outgoing: ForwarderOutput,
    pub(crate) sent: Vec<Received<Packet>>,
}

/// The parts of an engine that a node uses while it processes an event.
pub(crate) struct Turn<'a> {
    pub(crate) now_ns: u64,
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) scratch: &'a mut Scratch,
}

/// A partition of the nodes, and their events. Nodes reach each other only by events.
#[derive(Default)]
pub(crate) struct Engine {
    /// Nodes by their ids; none for those of other engines.
    pub(crate) nodes: Vec<Option<Box<Node>>>,
    pub(crate) schedule: Schedule,
    scratch: Scratch,
    /// Number of processed events.
    pub(crate) done: u64,
}

// Each engine may run in a thread of its own.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Engine>();
};

impl Engine {
    /// Creates the engine `own` of several, without nodes.
    pub(crate) fn of_several(own: usize, of_node: &Arc<[u16]>, engines: usize) -> Self {
        Engine { schedule: Schedule::of_engine(own, of_node, engines), ..Engine::default() }
    }

    /// Adds a node.
    pub(crate) fn add(&mut self, node: Box<Node>) {
        let id = node.id as usize;
        if self.nodes.len() <= id {
            self.nodes.resize_with(id + 1, || None);
        }
        self.nodes[id] = Some(node);
    }

    pub(crate) fn node(&self, node: u32) -> &Node {
        self.nodes[node as usize].as_deref().expect("a node of this engine")
    }

    pub(crate) fn node_mut(&mut self, node: u32) -> &mut Node {
        self.nodes[node as usize].as_deref_mut().expect("a node of this engine")
    }

    /// Calls `act` with a node at `now_ns`.
    pub(crate) fn with<T>(
        &mut self,
        node: u32,
        now_ns: u64,
        act: impl FnOnce(&mut Node, &mut Turn<'_>) -> T,
    ) -> T {
        let Engine { nodes, schedule, scratch, .. } = self;
        let node = nodes[node as usize].as_deref_mut().expect("a node of this engine");
        act(node, &mut Turn { now_ns, schedule, scratch })
    }

    /// Processes all events before `end_ns`.
    pub(crate) fn run_before(&mut self, end_ns: u64) {
        while let Some(Event { key, kind }) = self.schedule.pop_before(end_ns) {
            self.done += 1;
            self.with(key.node, key.at_ns, |node, turn| node.process(kind, turn));
        }
    }

    /// Returns the time of the first event; [`u64::MAX`] if there is none.
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.schedule.next_ns()
    }

    /// Takes the events of other engines.
    pub(crate) fn receive(&mut self, mailbox: &mut Vec<Event>) {
        mailbox.drain(..).for_each(|Event { key, kind }| self.schedule.push(key, kind));
    }

    /// Moves the events for other engines to their mailboxes.
    pub(crate) fn post(&mut self, mailboxes: &[Mutex<Vec<Event>>]) {
        for (outbox, mailbox) in self.schedule.outboxes().iter_mut().zip(mailboxes) {
            if !outbox.is_empty() {
                mailbox.lock().append(outbox);
            }
        }
    }
}

//! Processes the events of nodes in their order.

use namely_forwarder::{FaceId, Learned, Outgoing, Output, Received};
use namely_wire::Name;

use crate::disk::Disk;
use crate::event::Schedule;
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
    pub(crate) outgoing: ForwarderOutput,
    pub(crate) sent: Vec<Received<Packet>>,
}

/// The parts of an engine that a node uses while it processes an event.
pub(crate) struct Turn<'a> {
    pub(crate) now_ns: u64,
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) scratch: &'a mut Scratch,
}

/// Nodes and their events. Nodes reach each other only by events.
#[derive(Default)]
pub(crate) struct Engine {
    pub(crate) nodes: Vec<Node>,
    pub(crate) schedule: Schedule,
    scratch: Scratch,
    /// Number of processed events.
    pub(crate) done: u64,
}

impl Engine {
    /// Calls `act` with a node at `now_ns`.
    pub(crate) fn with<T>(
        &mut self,
        node: u32,
        now_ns: u64,
        act: impl FnOnce(&mut Node, &mut Turn<'_>) -> T,
    ) -> T {
        let Engine { nodes, schedule, scratch, .. } = self;
        act(&mut nodes[node as usize], &mut Turn { now_ns, schedule, scratch })
    }

    /// Processes all events before `end_ns`.
    pub(crate) fn run_before(&mut self, end_ns: u64) {
        while let Some((key, kind)) = self.schedule.pop_before(end_ns) {
            self.done += 1;
            self.with(key.node, key.at_ns, |node, turn| node.process(kind, turn));
        }
    }
}

//! Calls of a network for neighbor discovery at its nodes.

use namely_discovery::{Config, Counters, Discovery, LinkAddress, NeighbourStatus, Note, Phase};
use namely_forwarder::FaceId;

use crate::event::{EventKind, LinkEndId};
use crate::network::Network;
use crate::packet::NodeId;

impl Network {
    /// Enables discovery on a port to a shared medium. All such ports of a node have the settings
    /// of the first.
    ///
    /// # Panics
    /// If the port is not one of a shared medium.
    pub fn discover(&mut self, port: LinkEndId, config: Config) {
        assert!(self.end(port).is_group, "neighbors are looked for on shared media");
        self.with(port.node, |node, turn| node.discover(port.end as usize, config, turn));
    }

    /// Returns a node's neighbors on all of its links.
    pub fn neighbours(&self, node: NodeId) -> Vec<NeighbourStatus> {
        let machine = self.node(node).neighbours.as_ref().and_then(|own| own.machine.as_ref());
        machine.map(|machine| machine.neighbours(self.now_ns).collect()).unwrap_or_default()
    }

    /// Returns the number of neighbors that are proven and have faces.
    pub fn neighbours_proven(&self, node: NodeId) -> usize {
        let is_proven = |n: &&NeighbourStatus| n.phase == Phase::Proven && n.face.is_some();
        self.neighbours(node).iter().filter(is_proven).count()
    }

    /// Returns the counters of a node's discovery.
    pub fn discovery_counters(&self, node: NodeId) -> Option<&Counters> {
        let machine = self.node(node).neighbours.as_ref()?.machine.as_ref();
        machine.map(Discovery::counters)
    }

    /// Returns the log entries of a node's discovery, with the times in ns.
    pub fn discovery_notes(&self, node: NodeId) -> &[(u64, LinkAddress, Note)] {
        self.node(node).neighbours.as_ref().map_or(&[], |own| &own.notes)
    }

    /// Returns the face of a node towards the node of another port of the same medium, and the
    /// longest frame that it sends there; none before they have discovered each other.
    pub fn face_towards(&self, own: LinkEndId, other: LinkEndId) -> Option<(FaceId, usize)> {
        let node = self.node(NodeId(own.node as usize));
        let port = *node.neighbours.as_ref()?.by_station.get(&(own.end as usize, other))?;
        Some((node.ends[port].face, node.ends[port].spec.mtu_octets))
    }

    /// Schedules a port's device to go up or down at `at_ns`, as [`Network::set_up_at`] does. The
    /// node's discovery is notified, too, as by the carrier event of a system.
    pub fn set_device_at(&mut self, at_ns: u64, port: LinkEndId, is_up: bool) {
        self.schedule(port.node, at_ns, EventKind::Device(port.end as usize, is_up));
    }

    /// Changes the longest frame of a port to a shared medium. Longer frames do not reach it.
    pub fn set_mtu(&mut self, port: LinkEndId, mtu_octets: usize) {
        self.end_mut(port).set_mtu(mtu_octets);
        self.with(port.node, |node, turn| node.notify_link(port.end as usize, turn));
    }
}

//! Packets, and the numbers of the nodes that they travel between.

use std::sync::Arc;

/// A packet in the simulator.
pub type Packet = Arc<[u8]>;

/// Identifies a node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

impl NodeId {
    /// Returns the node's index, in the order of creation.
    pub fn index(self) -> usize {
        self.0
    }
}

//! Packets, and the numbers of the nodes that they travel between.

use std::sync::Arc;

/// A packet in the simulator.
pub type Packet = Arc<[u8]>;

/// Names a node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

impl NodeId {
    /// Which node it is, counted from 0 in the order of adding.
    pub fn index(self) -> usize {
        self.0
    }
}

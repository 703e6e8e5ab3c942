//! Settings of the data plane.

use namely_io::IoOptions;
use namely_link::{MarkingConfig, ReassemblyLimits};

/// Settings of the data plane; the defaults suit a router for one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlaneOptions {
    /// Sockets and queues.
    pub io: IoOptions,
    /// Congestion marking of new faces.
    pub marking: MarkingConfig,
    /// Limits on incomplete messages of each face.
    pub reassembly: ReassemblyLimits,
    /// Most octets that incomplete messages of all faces take.
    pub reassembly_octets_total_max: usize,
    /// Largest link packet sent on new UDP faces, octets. Peers take no more than 8800.
    pub udp_mtu: usize,
}

impl Default for DataPlaneOptions {
    fn default() -> Self {
        DataPlaneOptions {
            io: IoOptions::default(),
            marking: MarkingConfig::default(),
            reassembly: ReassemblyLimits::default(),
            reassembly_octets_total_max: 64 << 20,
            udp_mtu: namely_wire::PACKET_OCTETS_MAX,
        }
    }
}

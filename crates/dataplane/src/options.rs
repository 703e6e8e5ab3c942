//! Settings of the data plane.

use std::num::NonZeroUsize;
use std::sync::Arc;

use namely_host::Subnet;
use namely_io::IoOptions;
use namely_link::CodelConfig;

use crate::dispatcher::DispatcherOptions;

/// Settings of the data plane; the defaults suit a router for one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPlaneOptions {
    /// Threads that move packets; `None` for one per core that this process may use. At most
    /// [`namely_io::WORKERS_MAX`].
    pub workers: Option<NonZeroUsize>,
    /// Sockets and queues.
    pub io: IoOptions,
    /// When the send queue of a new face is bad: it then marks packets, and drops some if that does
    /// not help.
    pub codel: CodelConfig,
    /// Links whose packets are handed to other workers than the one that reads them.
    pub dispatcher: DispatcherOptions,
    /// Largest link packet sent on new UDP faces, octets. Peers take no more than 8800.
    pub udp_mtu: usize,
    /// Networks whose addresses get a face by sending to a UDP port; empty: all.
    pub interests_from: Arc<[Subnet]>,
    /// Whether users of this machine are known by the sockets that their datagrams come from, and
    /// may ask for management by them.
    pub loopback_udp: bool,
    /// Whether packets are forwarded by the kernel, to which each face has a socket, and here only
    /// what is for management.
    pub kernel: bool,
}

impl Default for DataPlaneOptions {
    fn default() -> Self {
        DataPlaneOptions {
            workers: None,
            io: IoOptions::default(),
            codel: CodelConfig::default(),
            dispatcher: DispatcherOptions::default(),
            udp_mtu: namely_wire::PACKET_OCTETS_MAX,
            interests_from: Arc::default(),
            loopback_udp: false,
            kernel: false,
        }
    }
}

impl DataPlaneOptions {
    /// How many workers there will be.
    pub fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.workers.map_or_else(cores, NonZeroUsize::get).min(namely_io::WORKERS_MAX)
    }
}

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
    /// When the send queue of a new face counts as bad. The face then marks packets, and drops some
    /// if the queue stays bad.
    pub codel: CodelConfig,
    /// Links whose packets the reading worker hands to other workers.
    pub dispatcher: DispatcherOptions,
    /// Largest link packet sent on new UDP faces, octets. Peers accept at most 8800.
    pub udp_mtu: usize,
    /// Networks whose addresses receive a face when they send to a UDP listener. Empty means all
    /// networks.
    pub interests_from: Arc<[Subnet]>,
    /// Whether the router identifies the user of this machine that sent a datagram, by the sending
    /// socket. Such a user may use management over UDP.
    pub loopback_udp: bool,
    /// Whether the kernel forwards packets. Each face then has a socket to the kernel, and only
    /// packets for management are handled here.
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
    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.workers.map_or_else(cores, NonZeroUsize::get).min(namely_io::WORKERS_MAX)
    }
}

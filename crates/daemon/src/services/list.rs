//! The list of services.

use super::Services;
use super::addresses::AddressMonitor;
use super::disk::StoreDisk;
use super::drain::Drain;
use super::folders::SocketFolders;
use super::kernel::KernelForwarder;
use super::readvertise::Readvertise;
use super::traces::PacketTraces;
use crate::discovery::NeighborDiscovery;
use crate::metrics::MetricsServer;
use crate::vip::VirtualPlane;

/// All services, in the order in which they start.
pub(crate) fn all() -> Services {
    Services::new(vec![
        Box::<StoreDisk>::default(),
        Box::<KernelForwarder>::default(),
        Box::<VirtualPlane>::default(),
        // It stops before the ones above, so that the router still works when its goodbye is sent.
        Box::<NeighborDiscovery>::default(),
        Box::<AddressMonitor>::default(),
        Box::<SocketFolders>::default(),
        Box::<PacketTraces>::default(),
        Box::<Readvertise>::default(),
        Box::<Drain>::default(),
        // It reads all others.
        Box::<MetricsServer>::default(),
    ])
}

//! The one list of services.

use super::Services;
use super::disk::StoreDisk;
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
        // Stops before the others, so that its goodbye finds a router that still works.
        Box::<NeighborDiscovery>::default(),
        Box::<PacketTraces>::default(),
        Box::<Readvertise>::default(),
        // Reads all others.
        Box::<MetricsServer>::default(),
    ])
}

//! The addresses of the configuration for whose network devices the router waits.

use std::net::SocketAddr;

use namely_dataplane::{DataPlane, ListenError, ListenSpec, MulticastOptions};
use namely_mgmt::Faces;
use namely_wire::{Endpoint, FaceUri, MacAddress};
use parking_lot::Mutex;

/// The parts of an address on a device.
#[derive(Clone, Debug)]
pub(crate) enum AwaitedTarget {
    /// `dev://NAME`.
    Device(String),
    /// A UDP group.
    Group(MulticastOptions),
    /// An Ethernet group.
    EthernetGroup {
        /// The device.
        interface: String,
        /// The group.
        group: MacAddress,
    },
}

impl AwaitedTarget {
    /// The listener at this address.
    pub(crate) fn spec(&self) -> ListenSpec {
        match self.clone() {
            AwaitedTarget::Device(name) => ListenSpec::Ethernet(name),
            AwaitedTarget::Group(options) => ListenSpec::Multicast(options),
            AwaitedTarget::EthernetGroup { interface, group } => {
                ListenSpec::EthernetGroup { interface, group }
            }
        }
    }

    /// Returns true if the face of this Ethernet group is there. Neighbor discovery makes it, too,
    /// as soon as the device is there.
    fn is_served(&self, plane: &DataPlane) -> bool {
        let AwaitedTarget::EthernetGroup { interface, group } = self else { return false };
        let (remote, local) = (FaceUri::Ether(*group), FaceUri::Device(interface.clone()));
        let (remote, local) = (remote.to_string(), local.to_string());
        plane.faces().iter().any(|face| face.uri == remote && face.local_uri == local)
    }

    /// The text for people.
    fn text(&self) -> String {
        let udp = |address: SocketAddr| FaceUri::Udp(Endpoint::Address(address));
        match self {
            AwaitedTarget::Device(name) => FaceUri::Device(name.clone()).to_string(),
            AwaitedTarget::Group(options) => {
                format!("{} on dev://{}", udp(options.group), options.interface)
            }
            AwaitedTarget::EthernetGroup { interface, group } => {
                format!("{} on dev://{interface}", FaceUri::Ether(*group))
            }
        }
    }
}

/// An address that waits for its device.
#[derive(Debug)]
struct AwaitedListener {
    target: AwaitedTarget,
    /// The last reason, so that each is logged once.
    reason: String,
}

/// The addresses that wait. The configuration bounds their number.
#[derive(Debug, Default)]
pub(crate) struct Awaited(Mutex<Vec<AwaitedListener>>);

impl Awaited {
    /// Adds an address whose device is absent.
    pub(crate) fn add(&self, plane: &DataPlane, target: AwaitedTarget, reason: String) {
        tracing::warn!("{reason}: the router listens on {} as soon as the device is there", target.text());
        let mut awaited = self.0.lock();
        awaited.push(AwaitedListener { target, reason });
        list(plane, &awaited);
    }

    /// Listens on the devices that have come.
    pub(crate) fn listen(&self, plane: &DataPlane) {
        let mut awaited = self.0.lock();
        if awaited.is_empty() {
            return;
        }
        awaited.retain_mut(|listener| match plane.listen(listener.target.spec()) {
            Ok(_) => {
                tracing::info!("listening on {}: its device has come", listener.target.text());
                false
            }
            Err(ListenError::NoDevice(_)) => true,
            Err(ListenError::Refused(_)) if listener.target.is_served(plane) => false,
            Err(ListenError::Refused(reason)) => {
                // The device has no address yet, for example.
                if reason != listener.reason {
                    tracing::warn!("not listening on {} yet: {reason}", listener.target.text());
                    listener.reason = reason;
                }
                true
            }
        });
        list(plane, &awaited);
    }
}

/// Lists the addresses in the general status.
fn list(plane: &DataPlane, awaited: &[AwaitedListener]) {
    plane.set_awaited(awaited.iter().map(|listener| listener.target.text()).collect());
}

//! The addresses of the configuration for whose network devices or folders the router waits.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use namely_dataplane::{DataPlane, ListenError, ListenSpec, MulticastOptions};
use namely_mgmt::Faces;
use namely_wire::{Endpoint, FaceUri, MacAddress};
use parking_lot::Mutex;

use crate::{confinement, socket_folders};

/// The parts of an address on a device or in a folder.
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
    /// `unix://PATH`.
    Unix {
        /// The socket.
        path: PathBuf,
        /// File mode of the socket.
        mode: u32,
    },
    /// `memif://PATH`.
    Memif {
        /// The control socket.
        path: PathBuf,
        /// File mode of the socket.
        mode: u32,
    },
}

impl AwaitedTarget {
    /// The target of a socket whose folder is missing, and the reason that the router must wait.
    pub(crate) fn of_missing_folder(spec: &ListenSpec) -> Option<(Self, String)> {
        let (target, path) = match spec {
            ListenSpec::Unix { path, mode } => {
                (AwaitedTarget::Unix { path: path.clone(), mode: *mode }, path)
            }
            ListenSpec::Memif { path, mode } => {
                (AwaitedTarget::Memif { path: path.clone(), mode: *mode }, path)
            }
            _ => return None,
        };
        Some((target, socket_folders::absence(path)?))
    }

    /// The listener at this address.
    pub(crate) fn spec(&self) -> ListenSpec {
        match self.clone() {
            AwaitedTarget::Device(name) => ListenSpec::Ethernet(name),
            AwaitedTarget::Group(options) => ListenSpec::Multicast(options),
            AwaitedTarget::EthernetGroup { interface, group } => {
                ListenSpec::EthernetGroup { interface, group }
            }
            AwaitedTarget::Unix { path, mode } => ListenSpec::Unix { path, mode },
            AwaitedTarget::Memif { path, mode } => ListenSpec::Memif { path, mode },
        }
    }

    /// The path of the socket, for a target that waits for its folder.
    fn socket(&self) -> Option<&Path> {
        match self {
            AwaitedTarget::Unix { path, .. } | AwaitedTarget::Memif { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The part of the machine for which it waits.
    fn home(&self) -> &'static str {
        if self.socket().is_some() { "folder" } else { "device" }
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
            AwaitedTarget::Unix { path, .. } => FaceUri::Unix(path.display().to_string()).to_string(),
            AwaitedTarget::Memif { path, .. } => {
                FaceUri::Memif { path: path.display().to_string(), id: 0 }.to_string()
            }
        }
    }
}

/// An address that waits for its device or its folder.
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
    /// Adds an address whose device or folder is absent.
    pub(crate) fn add(&self, plane: &DataPlane, target: AwaitedTarget, reason: String) {
        let (text, home) = (target.text(), target.home());
        tracing::warn!("{reason}: the router listens on {text} as soon as the {home} is there");
        let mut awaited = self.0.lock();
        awaited.push(AwaitedListener { target, reason });
        list(plane, &awaited);
    }

    /// Returns true if an address waits for its folder.
    pub(crate) fn awaits_folders(&self) -> bool {
        self.0.lock().iter().any(|listener| listener.target.socket().is_some())
    }

    /// Listens on the devices and in the folders that have come.
    pub(crate) fn listen(&self, plane: &DataPlane) {
        let mut awaited = self.0.lock();
        if awaited.is_empty() {
            return;
        }
        awaited.retain_mut(|listener| match try_listening(&listener.target, plane) {
            Ok(()) => {
                let (text, home) = (listener.target.text(), listener.target.home());
                tracing::info!("listening on {text}: its {home} has come");
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

/// Listens on `target`, if its folder is there and trustworthy.
fn try_listening(target: &AwaitedTarget, plane: &DataPlane) -> Result<(), ListenError> {
    if let Some(path) = target.socket() {
        socket_folders::check_late(path).map_err(ListenError::Refused)?;
    }
    plane.listen(target.spec()).map(|_| ()).map_err(|error| match (error, target.socket()) {
        (ListenError::Refused(reason), Some(path)) => {
            ListenError::Refused(confinement::explain_socket(path, reason))
        }
        (error, _) => error,
    })
}

/// Lists the addresses in the general status.
fn list(plane: &DataPlane, awaited: &[AwaitedListener]) {
    plane.set_awaited(awaited.iter().map(|listener| listener.target.text()).collect());
}

//! The addresses on which the router can listen: how they are written and opened. This is the only
//! module that distinguishes the kinds of faces for listening.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use namely_host::Subnet;
use namely_io::{Faces, Handler, OpenError};
use namely_wire::{Endpoint, FaceUri, MacAddress};

/// Something to listen on.
#[derive(Debug)]
pub enum ListenSpec {
    /// A Unix stream socket. A stale socket file is replaced; a live one is refused.
    Unix {
        /// Path of the socket.
        path: std::path::PathBuf,
        /// File mode of the socket, such as 0o666.
        mode: u32,
    },
    /// A Unix stream socket that listens already and whose file belongs to another process.
    Given {
        /// Its address.
        uri: FaceUri,
        /// The socket, which does not block.
        socket: OwnedFd,
    },
    /// The control socket of shared-memory faces.
    Memif {
        /// Path of the socket.
        path: std::path::PathBuf,
        /// File mode of the socket.
        mode: u32,
    },
    /// A TCP port.
    Tcp(std::net::SocketAddr),
    /// A UDP port: every remote address receives an on-demand face.
    Udp(std::net::SocketAddr),
    /// A TCP port for WebSocket connections, as browsers make them. Its faces are never local.
    #[cfg(feature = "websocket")]
    WebSocket(std::net::SocketAddr),
    /// One UDP multicast face on one interface.
    Multicast(namely_io::MulticastOptions),
    /// A network device: each link address that sends to it receives an on-demand face.
    Ethernet(String),
    /// One Ethernet multicast face.
    EthernetGroup {
        /// The network device.
        interface: String,
        /// The group.
        group: MacAddress,
    },
}

impl ListenSpec {
    /// The URIs on which a router can listen.
    pub const URIS: &str = "unix:///path, memif:///path, tcp://ADDRESS:PORT, udp://ADDRESS:PORT, \
        ws://ADDRESS:PORT or dev://INTERFACE";

    /// Returns the listener for `uri`, with `mode` for its socket file if it has one; `None` if a
    /// router cannot listen on it.
    pub fn new(uri: &FaceUri, mode: u32) -> Option<Self> {
        match uri {
            FaceUri::Unix(path) => Some(ListenSpec::Unix { path: path.into(), mode }),
            FaceUri::Memif { path, id: 0 } => Some(ListenSpec::Memif { path: path.into(), mode }),
            FaceUri::Tcp(Endpoint::Address(address)) => Some(ListenSpec::Tcp(*address)),
            FaceUri::Udp(Endpoint::Address(address)) if !address.ip().is_multicast() => {
                Some(ListenSpec::Udp(*address))
            }
            #[cfg(feature = "websocket")]
            FaceUri::Ws(Endpoint::Address(address)) => Some(ListenSpec::WebSocket(*address)),
            FaceUri::Device(interface) => Some(ListenSpec::Ethernet(interface.clone())),
            _ => None,
        }
    }

    /// Returns the feature that listening on `uri` requires and that this build lacks.
    pub fn missing_feature(uri: &FaceUri) -> Option<&'static str> {
        let is_missing = !cfg!(feature = "websocket") && matches!(uri, FaceUri::Ws(_));
        is_missing.then_some("websocket")
    }

    /// Returns the path of the socket file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            ListenSpec::Unix { path, .. } | ListenSpec::Memif { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Opens the listener at a worker. A UDP listener accepts peers of the networks
    /// `interests_from`, or all peers if the list is empty. Returns `None` for a multicast group,
    /// which is a face and not a listener.
    ///
    /// # Errors
    /// [`OpenError`], such as an address in use, or a device that does not exist.
    pub(super) fn open<H: Handler>(
        self,
        io: &mut Faces<H>,
        interests_from: &Arc<[Subnet]>,
    ) -> Option<Result<FaceUri, OpenError>> {
        Some(match self {
            ListenSpec::Unix { path, mode } => io.listen_unix(&path, mode),
            ListenSpec::Given { uri, socket } => io.listen_passed(socket, uri),
            ListenSpec::Memif { path, mode } => io.listen_memif(&path, mode),
            ListenSpec::Tcp(address) => io.listen_tcp(address),
            ListenSpec::Udp(address) => io.listen_udp_from(address, interests_from.clone()),
            #[cfg(feature = "websocket")]
            ListenSpec::WebSocket(address) => io.listen_websocket(address),
            ListenSpec::Ethernet(interface) => io.listen_ethernet(&interface),
            ListenSpec::Multicast(_) | ListenSpec::EthernetGroup { .. } => return None,
        })
    }
}

/// The reason for which the router does not listen; always the environment's or the configuration's
/// fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// There is no such network device, which may come later.
    #[error("{0}")]
    NoDevice(String),
    /// Another reason.
    #[error("{0}")]
    Refused(String),
}

impl From<OpenError> for ListenError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NoSuchInterface(_) => ListenError::NoDevice(error.to_string()),
            error => ListenError::Refused(error.to_string()),
        }
    }
}

//! What the router can be asked to listen on: how it is written, and how it is opened. The one
//! place that knows it of every kind of face.

use std::fmt;
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
    /// A Unix stream socket that listens already, and whose file is somebody else's.
    Given {
        /// Where it listens.
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
    /// A UDP port: every remote address gets an on-demand face.
    Udp(std::net::SocketAddr),
    /// A TCP port for WebSocket connections, as browsers make them. Its faces are never local.
    #[cfg(feature = "websocket")]
    WebSocket(std::net::SocketAddr),
    /// One UDP multicast face on one interface.
    Multicast(namely_io::MulticastOptions),
    /// A network device: every station that sends to it gets an on-demand face.
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
    /// How the addresses are written that a router can listen on.
    pub const URIS: &str = "unix:///path, memif:///path, tcp://ADDRESS:PORT, udp://ADDRESS:PORT, \
        ws://ADDRESS:PORT or dev://INTERFACE";

    /// What listening on `uri` is, with `mode` for the file of a socket that has one; `None` if a
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

    /// The feature without which this router cannot listen on `uri`, if it was built without it.
    pub fn missing_feature(uri: &FaceUri) -> Option<&'static str> {
        let is_missing = !cfg!(feature = "websocket") && matches!(uri, FaceUri::Ws(_));
        is_missing.then_some("websocket")
    }

    /// The socket file, of what has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            ListenSpec::Unix { path, .. } | ListenSpec::Memif { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Opens it at a worker; UDP for peers of these networks, or of all if there are none. `None`
    /// for a group, which is one face and no listener.
    ///
    /// # Errors
    /// The environment's: an address in use, a device that is not there.
    pub(super) fn open<H: Handler>(
        self,
        io: &mut Faces<H>,
        interests_from: &Arc<[Subnet]>,
    ) -> Option<Result<FaceUri, OpenError>> {
        Some(match self {
            ListenSpec::Unix { path, mode } => io.listen_unix(&path, mode),
            ListenSpec::Given { uri, socket } => io.listen_given(socket, uri),
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

/// Why the router does not listen; always the environment's or the configuration's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenError(pub String);

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ListenError {}

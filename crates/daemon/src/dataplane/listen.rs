//! What the router can be asked to listen on.

use std::fmt;

use namely_wire::MacAddress;

/// Something to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenSpec {
    /// A Unix stream socket. A stale socket file is replaced; a live one is refused.
    Unix {
        /// Path of the socket.
        path: std::path::PathBuf,
        /// File mode of the socket, such as 0o666.
        mode: u32,
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

/// Why the router does not listen; always the environment's or the configuration's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenError(pub String);

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ListenError {}

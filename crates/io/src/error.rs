//! Errors when a face or listener is opened, and reasons for which a face closes.

use std::fmt;

use rustix::io::Errno;

/// The error of opening a listener or face.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Environment: the address is in use by another listener.
    #[error(fmt = in_use)]
    InUse(String),
    /// Environment: this process lacks the permission to receive Ethernet frames.
    #[error(
        "{0}: not permitted: Ethernet needs the capability CAP_NET_RAW; with systemd, \
         AmbientCapabilities=CAP_NET_RAW, otherwise `setcap cap_net_raw=ep` on the program"
    )]
    NotPermitted(String),
    /// Environment: the path of a Unix socket exists and is not a socket.
    #[error("{0} exists and is not a socket; remove it or choose another path")]
    NotASocket(String),
    /// Environment: AF_XDP cannot read a network device, and the configuration requires it.
    #[error("AF_XDP cannot read {device}: {why}; with xdp = \"auto\" AF_PACKET does where it cannot")]
    NoXdp {
        /// The device.
        device: String,
        /// The reason, as text.
        why: String,
    },
    /// Configuration: there is no such network interface.
    #[error("there is no network interface {0}")]
    NoSuchInterface(String),
    /// Caller: the two addresses are of different IP versions, or an address is of the wrong kind.
    #[error("{0}")]
    BadAddress(String),
    /// Environment: the number of faces has reached the configured maximum.
    #[error("there are as many faces as the configuration allows")]
    TooManyFaces,
    /// Environment: a system call failed.
    #[error("{doing}: {errno}")]
    System {
        /// The operation that failed.
        doing: String,
        /// The error number that the system returned.
        #[source]
        errno: Errno,
    },
}

impl OpenError {
    /// Makes the error of a failed system call.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(Errno) -> OpenError {
        move |errno| OpenError::System { doing: doing.into(), errno }
    }

    /// Makes the error of a failed call that returns a `std::io::Error`.
    pub(crate) fn std(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> OpenError {
        move |error| OpenError::System {
            doing: doing.into(),
            // An error that the standard library makes itself has no error number.
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        }
    }
}

fn in_use(address: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{address} is in use")?;
    f.write_str(if address.starts_with("unix:") || address.starts_with("memif:") {
        ": another router is running there; stop it or listen elsewhere"
    } else {
        // Any program may use a port number, not only a router.
        " by another program, or another user's router; listen elsewhere"
    })
}

/// The reason for which a face closed without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed the connection.
    Peer,
    /// The peer's stream is not a sequence of packets, or a packet exceeds the maximum length.
    BadStream(namely_wire::DecodeError),
    /// The peer violates the WebSocket protocol or sends text. Holds the counter's label.
    BadWebSocket(&'static str),
    /// Nothing arrived for the idle timeout.
    Idle,
    /// Frames waited in the queue, and the peer accepted none of them for too long.
    Stalled,
    /// The number of faces had reached its maximum, and this face had been idle longest.
    Evicted,
    /// Connecting took too long.
    ConnectTimeout,
    /// The network device is down or has no carrier.
    DeviceDown,
    /// The network device was removed.
    DeviceGone,
    /// The peer violated the rules of a ring in shared memory.
    BadRing(namely_memif::RingFault),
    /// The control channel of a shared-memory face ended.
    Memif(namely_memif::Fault),
    /// The system reported a failure.
    System(Errno),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Peer => f.write_str("closed by the peer"),
            CloseReason::BadStream(error) => write!(f, "the peer's stream is out of step: {error}"),
            CloseReason::BadWebSocket(label) => {
                write!(f, "the peer does not speak WebSocket as it must: {label}")
            }
            CloseReason::Idle => f.write_str("idle"),
            CloseReason::Stalled => f.write_str("the peer has taken nothing for long"),
            CloseReason::Evicted => f.write_str("idle, and another needed the room"),
            CloseReason::DeviceDown => f.write_str("the network device is down"),
            CloseReason::DeviceGone => f.write_str("the network device was removed"),
            CloseReason::ConnectTimeout => f.write_str("no answer to the connection request"),
            CloseReason::BadRing(fault) => write!(f, "the peer's shared memory is out of order: {fault}"),
            CloseReason::Memif(fault) => fault.fmt(f),
            CloseReason::System(errno) => errno.fmt(f),
        }
    }
}

//! Why sockets are not opened, and why they close.

use std::fmt;

use rustix::io::Errno;

/// Why a listener or face was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Environment: another process listens there.
    InUse(String),
    /// Environment: this process may not see frames.
    NotPermitted(String),
    /// Environment: the path of a Unix socket holds something that is no socket.
    NotASocket(String),
    /// Environment: a network device cannot be read by AF_XDP, as the configuration wants it.
    NoXdp {
        /// The device.
        device: String,
        /// Why, in words.
        why: String,
    },
    /// Configuration: there is no such network interface.
    NoSuchInterface(String),
    /// Caller: the two addresses are not of one IP version, or an address is of the wrong sort.
    BadAddress(String),
    /// Environment: as many faces as the settings allow.
    TooManyFaces,
    /// Environment: the system refused.
    System {
        /// What was tried.
        doing: String,
        /// The system's answer.
        errno: Errno,
    },
}

impl OpenError {
    /// Makes the error of a failed system call.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(Errno) -> OpenError {
        move |errno| OpenError::System { doing: doing.into(), errno }
    }

    /// The same for calls that give a `std::io::Error`.
    pub(crate) fn std(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> OpenError {
        move |error| OpenError::System {
            doing: doing.into(),
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse(address) if address.starts_with("unix:") || address.starts_with("memif:") => {
                write!(f, "{address} is in use: another router is running there; stop it or listen elsewhere")
            }
            // A port may be any program's.
            OpenError::InUse(address) => {
                write!(
                    f,
                    "{address} is in use by another program, or another user's router; listen elsewhere"
                )
            }
            OpenError::NotPermitted(doing) => write!(
                f,
                "{doing}: not permitted: Ethernet needs the capability CAP_NET_RAW; with systemd, \
                 AmbientCapabilities=CAP_NET_RAW, otherwise `setcap cap_net_raw=ep` on the program"
            ),
            OpenError::NotASocket(path) => {
                write!(f, "{path} exists and is not a socket; remove it or choose another path")
            }
            OpenError::NoXdp { device, why } => {
                write!(
                    f,
                    "AF_XDP cannot read {device}: {why}; with xdp = \"auto\" AF_PACKET does where it cannot"
                )
            }
            OpenError::NoSuchInterface(name) => write!(f, "there is no network interface {name}"),
            OpenError::BadAddress(why) => f.write_str(why),
            OpenError::TooManyFaces => f.write_str("there are as many faces as the configuration allows"),
            OpenError::System { doing, errno } => {
                write!(f, "{doing}: {}", std::io::Error::from_raw_os_error(errno.raw_os_error()))
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// Why a face closed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed the connection.
    Peer,
    /// The peer's stream is no sequence of packets, or one of them is longer than any may be.
    BadStream(namely_wire::DecodeError),
    /// The peer does not keep to the WebSocket protocol, or sends text; the counter that says how.
    BadWebSocket(&'static str),
    /// Nothing arrived for long.
    Idle,
    /// The peer has taken nothing for long while something waited.
    Stalled,
    /// There were as many faces as there may be, and this one was idle for longest.
    Evicted,
    /// Connecting took too long.
    ConnectTimeout,
    /// The network device is down, or has no carrier.
    DeviceDown,
    /// The network device was removed.
    DeviceGone,
    /// The peer broke the rules of a ring in shared memory.
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
            CloseReason::System(errno) => std::io::Error::from_raw_os_error(errno.raw_os_error()).fmt(f),
        }
    }
}

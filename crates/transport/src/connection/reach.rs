//! The ways in which Interests reach a client that serves a prefix, and the reasons for a failure.

use rustix::io::Errno;

use super::ndndpdk::ManagementError;

/// The way in which Interests reach a registered prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// A route of its own leads to this client, as in NFD.
    Route,
    /// A route of its own leads to this client, and others of the same prefix lead to other
    /// applications of the router's machine. The router's strategy chooses among them.
    Shared,
    /// It is bound below a prefix that the router's operator routes to this host's applications.
    Bound,
    /// It is bound, but not below such a prefix yet, so no Interest arrives.
    NoRouteYet,
}

/// The reason for which a forwarder with its own way of registration (the kernel's or NDN-DPDK's)
/// does not deliver a prefix to this client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBound {
    /// Caller: another application has bound it, or a prefix above or below it.
    #[error("another application has bound it, or a prefix above or below it")]
    InUse,
    /// Caller: below /localhost, which requires CAP_NET_ADMIN.
    #[error("below /localhost only who may administer the network binds")]
    NotPermitted,
    /// Caller: longer than 8,192 octets.
    #[error("a prefix to bind has 8,192 octets at most")]
    TooLong,
    /// Caller: below /localhost/nfd, which is reserved for a router's management.
    #[error("below /localhost/nfd is a router's management, no application")]
    Reserved,
    /// Caller: several applications may answer below it. This requires a route to each, and
    /// CAP_NET_ADMIN to add it.
    #[error("several applications may answer below it, which takes a route and CAP_NET_ADMIN in the kernel")]
    Shared,
    /// Environment: the module's maximum number of bindings is reached.
    #[error("the kernel's forwarder has as many bindings as it may")]
    Full,
    /// Environment: the system refuses.
    #[error("the kernel's forwarder does not bind it: {0}")]
    System(#[source] Errno),
    /// An error of NDN-DPDK's management.
    #[error(transparent)]
    NdnDpdk(ManagementError),
}

impl NotBound {
    /// The remedy, if the user has one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            NotBound::InUse => {
                Some("`namely kernel bind list` shows which prefixes are bound, and by which face")
            }
            NotBound::NotPermitted => Some("run it as root, or with CAP_NET_ADMIN"),
            NotBound::Full => Some("`namely kernel load` takes bindings_max=N"),
            NotBound::NdnDpdk(error) => Some(error.hint()),
            NotBound::TooLong | NotBound::Reserved | NotBound::Shared | NotBound::System(_) => None,
        }
    }

    /// The matching `errno` of a system call.
    pub fn errno(&self) -> Errno {
        match self {
            NotBound::InUse => Errno::ADDRINUSE,
            NotBound::NotPermitted | NotBound::Reserved | NotBound::Shared => Errno::ACCESS,
            NotBound::TooLong => Errno::INVAL,
            NotBound::Full => Errno::NOSPC,
            NotBound::System(errno) => *errno,
            NotBound::NdnDpdk(error) => error.errno(),
        }
    }
}

//! How Interests come to a prefix that a client serves, and why they do not.

use std::fmt;

use rustix::io::Errno;

use super::ndndpdk::ManagementError;

/// How Interests come to a prefix that the router was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A route of its own leads to this client, as in NFD.
    Route,
    /// It is bound below a prefix that the router's operator leads to this host's applications.
    Bound,
    /// It is bound, and not yet below such a prefix: until it is, no Interest comes.
    NoRouteYet,
}

/// Why a forwarder that is told of prefixes in a way of its own, the kernel's or NDN-DPDK's, does
/// not lead one here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotBound {
    /// Caller: another application has it, or one above or below it.
    InUse,
    /// Caller: below /localhost, which takes CAP_NET_ADMIN.
    NotPermitted,
    /// Caller: longer than 8,192 octets.
    TooLong,
    /// Caller: below /localhost/nfd, where a router's management is.
    Reserved,
    /// Caller: several applications are to answer below it. That takes a route to each, and
    /// CAP_NET_ADMIN to add it.
    Shared,
    /// Environment: there are as many bindings as the module allows.
    Full,
    /// Environment: the system refuses.
    System(Errno),
    /// An error of NDN-DPDK's management.
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

    /// The number by which a system call tells it.
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

impl fmt::Display for NotBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotBound::InUse => f.write_str("another application has bound it, or a prefix above or below it"),
            NotBound::NotPermitted => {
                f.write_str("below /localhost only who may administer the network binds")
            }
            NotBound::TooLong => f.write_str("a prefix to bind has 8,192 octets at most"),
            NotBound::Reserved => f.write_str("below /localhost/nfd is a router's management, no application"),
            NotBound::Shared => f.write_str(
                "several applications may answer below it, which takes a route and CAP_NET_ADMIN in the kernel",
            ),
            NotBound::Full => f.write_str("the kernel's forwarder has as many bindings as it may"),
            NotBound::System(errno) => write!(f, "the kernel's forwarder does not bind it: {errno}"),
            NotBound::NdnDpdk(error) => error.fmt(f),
        }
    }
}

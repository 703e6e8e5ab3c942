//! Why NDN-DPDK's management did not do what it was asked.

use std::fmt;
use std::io::{self, ErrorKind};

use rustix::io::Errno;

use super::control::{ANSWER_OCTETS_MAX, TIME_MAX};

/// Why NDN-DPDK's management did not do what it was asked, or its socket cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagementError {
    /// Environment: nobody is there, or the connection broke.
    Unreachable(ErrorKind),
    /// Peer: no whole answer in time.
    Slow,
    /// Peer: an answer of too many octets.
    TooLong,
    /// Peer: HTTP status of an answer that is none of GraphQL.
    Status(u16),
    /// Peer: what is wrong with its answer.
    Malformed(&'static str),
    /// The caller's or the environment's, by the forwarder's judgement: its first message.
    Refused(String),
    /// Environment: the face was made, and the socket at this path cannot be used from here.
    Socket(String, ErrorKind),
}

impl ManagementError {
    /// What the person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ManagementError::Unreachable(_) | ManagementError::Slow => {
                "start ndndpdk-svc there, or name the address that its GraphQL server listens on"
            }
            ManagementError::TooLong | ManagementError::Status(_) | ManagementError::Malformed(_) => {
                "name the address of ndndpdk-svc's GraphQL server, as a rule ndndpdk://127.0.0.1:3030"
            }
            ManagementError::Refused(_) => {
                "see the log of ndndpdk-svc, and whether it was activated as a forwarder"
            }
            ManagementError::Socket(..) => {
                "name a folder that both programs see and may use, as in ndndpdk://127.0.0.1:3030?sockets=/run/ndn"
            }
        }
    }

    /// The number by which a system call would tell it.
    pub fn errno(&self) -> Errno {
        match self {
            ManagementError::Unreachable(_) | ManagementError::Socket(..) => Errno::CONNREFUSED,
            ManagementError::Slow => Errno::TIMEDOUT,
            ManagementError::TooLong | ManagementError::Status(_) | ManagementError::Malformed(_) => {
                Errno::PROTO
            }
            ManagementError::Refused(_) => Errno::ACCESS,
        }
    }

    /// Returns true if asking for something else would end in the same way.
    pub(super) fn is_of_all(&self) -> bool {
        matches!(self, ManagementError::Unreachable(_) | ManagementError::Slow)
    }
}

impl fmt::Display for ManagementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let management = "the management of NDN-DPDK";
        match self {
            ManagementError::Unreachable(kind) => write!(f, "{management} is not there: {kind}"),
            ManagementError::Slow => {
                write!(f, "{management} did not answer within {} s", TIME_MAX.as_secs())
            }
            ManagementError::TooLong => {
                write!(f, "{management} answers with more than {ANSWER_OCTETS_MAX} octets")
            }
            ManagementError::Status(status) => write!(f, "{management} answers with HTTP status {status}"),
            ManagementError::Malformed(what) => write!(f, "the answer of {management} is malformed: {what}"),
            ManagementError::Refused(message) => write!(f, "{management} refuses: {message}"),
            ManagementError::Socket(path, kind) => {
                write!(f, "NDN-DPDK has made a face, and its socket {path} cannot be used: {kind}")
            }
        }
    }
}

impl std::error::Error for ManagementError {}

impl From<ManagementError> for io::Error {
    fn from(error: ManagementError) -> Self {
        let kind = match &error {
            ManagementError::Unreachable(kind) | ManagementError::Socket(_, kind) => *kind,
            ManagementError::Slow => ErrorKind::TimedOut,
            ManagementError::Refused(_) => ErrorKind::PermissionDenied,
            _ => ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

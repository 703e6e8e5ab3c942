//! Errors of NDN-DPDK's management.

use std::io::{self, ErrorKind};

use rustix::io::Errno;

use super::control::{ANSWER_OCTETS_MAX, TIME_MAX};

const MANAGEMENT: &str = "the management of NDN-DPDK";

/// The reason for which NDN-DPDK's management did not execute a request, or its socket cannot be
/// used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagementError {
    /// Environment: no server answers, or the connection was interrupted.
    #[error("{MANAGEMENT} is not there: {0}")]
    Unreachable(ErrorKind),
    /// Peer: no complete answer in time.
    #[error("{MANAGEMENT} did not answer within {} s", TIME_MAX.as_secs())]
    Slow,
    /// Peer: the answer is too long.
    #[error("{MANAGEMENT} answers with more than {ANSWER_OCTETS_MAX} octets")]
    TooLong,
    /// Peer: HTTP status of an answer that is not GraphQL.
    #[error("{MANAGEMENT} answers with HTTP status {0}")]
    Status(u16),
    /// Peer: the defect of its answer.
    #[error("the answer of {MANAGEMENT} is malformed: {0}")]
    Malformed(&'static str),
    /// The caller's or the environment's: the forwarder refuses, with the first of its error
    /// messages.
    #[error("{MANAGEMENT} refuses: {0}")]
    Refused(String),
    /// Environment: the face was created, but the socket at this path cannot be used by this
    /// process.
    #[error("NDN-DPDK has made a face, and its socket {0} cannot be used: {1}")]
    Socket(String, ErrorKind),
}

impl ManagementError {
    /// Advice for the user.
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

    /// The matching `errno` of a system call.
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

    /// Returns true if other requests would fail in the same way.
    pub(super) fn is_of_all(&self) -> bool {
        matches!(self, ManagementError::Unreachable(_) | ManagementError::Slow)
    }
}

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

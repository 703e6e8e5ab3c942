//! The faults that end a link. The connection reconnects afterwards.

use namely_memif::RingFault;
use namely_wire::DecodeError;
use rustix::io::Errno;

/// The reason for which a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The router closed it.
    #[error("the router closed the connection")]
    Closed,
    /// The router was reached again but does not answer.
    #[error("the router does not answer")]
    Silent,
    /// The socket failed.
    #[error(transparent)]
    Socket(#[from] Errno),
    /// The router violated the protocol of shared memory.
    #[error(transparent)]
    Ring(#[from] RingFault),
    /// The stream cannot be split into packets.
    #[error(transparent)]
    Unframed(#[from] DecodeError),
}

impl From<namely_memif::Fault> for Fault {
    fn from(fault: namely_memif::Fault) -> Self {
        match fault {
            namely_memif::Fault::System(errno) => Fault::Socket(errno),
            _ => Fault::Closed,
        }
    }
}

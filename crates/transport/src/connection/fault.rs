//! The faults that end a link; the connection then connects anew.

use namely_memif::RingFault;
use namely_wire::DecodeError;
use rustix::io::Errno;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Fault {
    /// The router closed it.
    Closed,
    /// The router was reached again and does not answer.
    Silent,
    /// The socket failed.
    Socket(#[allow(dead_code, reason = "shown in the log")] Errno),
    /// The router broke the rules of shared memory.
    Ring(#[allow(dead_code, reason = "shown in the log")] RingFault),
    /// The stream cannot be cut into packets.
    Unframed(#[allow(dead_code, reason = "shown in the log")] DecodeError),
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        Fault::Socket(error)
    }
}

impl From<RingFault> for Fault {
    fn from(fault: RingFault) -> Self {
        Fault::Ring(fault)
    }
}

impl From<namely_memif::Fault> for Fault {
    fn from(fault: namely_memif::Fault) -> Self {
        match fault {
            namely_memif::Fault::System(errno) => Fault::Socket(errno),
            _ => Fault::Closed,
        }
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Fault::Unframed(error)
    }
}

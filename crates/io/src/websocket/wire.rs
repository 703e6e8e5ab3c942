//! The connection for the protocol's state machine: reads within a budget, and writes of control
//! frames.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::outgoing::Outgoing;

/// A non-blocking connection.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Arc<OwnedFd>,
    outgoing: Arc<Mutex<Outgoing>>,
    /// Octets that may still be read.
    budget: usize,
    /// The result of a read when the budget is used up: nothing is available now, or there was too
    /// much.
    at_end: io::ErrorKind,
}

impl Wire {
    /// Makes the connection of a handshake. At most `octets_max` octets of it are read.
    pub(super) fn new(socket: Arc<OwnedFd>, octets_max: usize) -> Self {
        let outgoing = Arc::new(Mutex::new(Outgoing::new(socket.clone())));
        Wire { socket, outgoing, budget: octets_max, at_end: io::ErrorKind::FileTooLarge }
    }

    /// Sets the octets that may be read in this turn.
    pub(super) fn begin_turn(&mut self, octets: usize) {
        self.budget = octets;
        self.at_end = io::ErrorKind::WouldBlock;
    }

    pub(super) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    pub(super) fn outgoing(&self) -> &Arc<Mutex<Outgoing>> {
        &self.outgoing
    }
}

impl Read for Wire {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.budget == 0 {
            return Err(self.at_end.into());
        }
        let octets = buf.len().min(self.budget);
        loop {
            match rustix::net::recv(self.socket.as_fd(), &mut buf[..octets], RecvFlags::DONTWAIT) {
                Ok((arrived, _)) => {
                    self.budget -= arrived;
                    return Ok(arrived);
                }
                Err(Errno::INTR) => (),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Write for Wire {
    /// Writes the answer to a handshake, a ping or a close: at once, or after a message that is
    /// half written.
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.outgoing.lock().control(octets)?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

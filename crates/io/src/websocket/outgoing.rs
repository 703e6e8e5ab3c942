//! The writing side of a connection: messages, and control frames between them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport};
use crate::sockets;

/// Messages of one write.
const MESSAGES_MAX: usize = 64;

/// Writes in one turn.
const WRITES_PER_TURN_MAX: usize = 8;

/// Octets of WebSocket control frames behind a half-written message.
///
/// A peer that requests more does not read.
///
/// # Limit
/// The connection is closed.
/// - Value: 1 KiB
/// - Counter: `websocket_control_full`
/// - Tests: `a_pinging_peer_that_never_reads_ends`
const CONTROL_OCTETS_MAX: usize = 1 << 10;

/// The header of an unmasked binary message: RFC 6455, section 5.2.
#[derive(Clone, Copy, Debug, Default)]
struct Header {
    octets: [u8; 4],
    length: usize,
}

impl Header {
    /// For a message of at most 65,535 octets, which every link packet is.
    fn of(octets: usize) -> Self {
        const FINAL_BINARY: u8 = 0x82;
        const LENGTH_OF_16_BITS: u8 = 126;
        let [high, low] = (octets as u16).to_be_bytes();
        if octets < usize::from(LENGTH_OF_16_BITS) {
            Header { octets: [FINAL_BINARY, low, 0, 0], length: 2 }
        } else {
            Header { octets: [FINAL_BINARY, LENGTH_OF_16_BITS, high, low], length: 4 }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

/// The writing end of a connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    socket: Arc<OwnedFd>,
    /// Octets of the first waiting message that are written already, its header included.
    written: usize,
    /// Control frames that wait for the rest of that message.
    control: Vec<u8>,
}

impl Outgoing {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        Outgoing { socket, written: 0, control: Vec::new() }
    }

    /// Sends a control frame between two messages.
    pub(super) fn control(&mut self, octets: &[u8]) -> io::Result<()> {
        if self.written > 0 || !self.control.is_empty() {
            if self.control.len() + octets.len() > CONTROL_OCTETS_MAX {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.control.extend_from_slice(octets);
            return Ok(());
        }
        // A socket has room for so few octets unless the peer reads nothing. Such a peer need not
        // be answered.
        match self.write_control(octets) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::StorageFull.into()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends a Close frame, unless a message is half written or the peer does not read.
    pub(super) fn close(&mut self, code: u16) {
        /// The first octet of a Close frame of one piece.
        const FINAL_CLOSE: u8 = 0x88;
        if self.written == 0 {
            let [high, low] = code.to_be_bytes();
            // The connection ends whether or not the peer receives the frame.
            let _ = self.write_control(&[FINAL_CLOSE, 2, high, low]);
        }
    }

    /// Returns true if all of `octets` was written. After a partial write the stream is out of step
    /// and must end.
    fn write_control(&self, octets: &[u8]) -> Result<bool, Errno> {
        loop {
            match rustix::net::send(&self.socket, octets, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(written) => return Ok(written == octets.len()),
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Writes messages from the front of the queue, as far as the socket takes them.
    pub(super) fn flush<P: AsRef<[u8]>>(
        &mut self,
        queue: &mut FrameQueue<P>,
        sent: &mut FlushReport,
    ) -> Result<FlushProgress, Errno> {
        for _ in 0..WRITES_PER_TURN_MAX {
            if queue.is_empty() {
                return Ok(FlushProgress::All);
            }
            match self.write(queue, sent) {
                Ok(true) => (),
                Ok(false) | Err(Errno::AGAIN) => return Ok(FlushProgress::Blocked),
                Err(Errno::INTR) => (),
                Err(errno) => return Err(errno),
            }
            if self.written == 0 && !self.control.is_empty() {
                let control = std::mem::take(&mut self.control);
                if !self.write_control(&control)? {
                    // The rest of a control frame is not retained, so the stream cannot go on.
                    return Err(Errno::NOBUFS);
                }
            }
        }
        Ok(if queue.is_empty() { FlushProgress::All } else { FlushProgress::Some })
    }

    /// Makes one write. Returns true if the socket accepted all of it.
    fn write<P: AsRef<[u8]>>(
        &mut self,
        queue: &mut FrameQueue<P>,
        sent: &mut FlushReport,
    ) -> Result<bool, Errno> {
        // A waiting control frame follows directly after the message that is half written.
        let messages_max = if self.control.is_empty() { MESSAGES_MAX } else { 1 };
        let headers: Vec<Header> =
            queue.frames().take(messages_max).map(|frame| Header::of(frame.octets())).collect();
        // A header and at most four slices for each message.
        let mut slices = Vec::with_capacity(headers.len() * 5);
        let (mut skip, mut offered) = (self.written, 0);
        for (header, frame) in headers.iter().zip(queue.frames()) {
            for slice in std::iter::once(header.as_bytes()).chain(frame.slices()) {
                let skipped = skip.min(slice.len());
                skip -= skipped;
                if skipped < slice.len() {
                    offered += slice.len() - skipped;
                    slices.push(io::IoSlice::new(&slice[skipped..]));
                }
            }
        }
        let written = sockets::write(&self.socket, &slices)?;
        // The slices borrow from the queue, which changes below.
        drop(slices);
        self.written += written;
        for header in headers {
            let Some(octets) = queue.frames().next().map(|frame| frame.octets()) else { break };
            if self.written < header.length + octets {
                break;
            }
            self.written -= header.length + octets;
            queue.pop();
            sent.frames += 1;
            sent.octets += octets as u64;
        }
        Ok(written == offered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_short_as_possible() {
        assert_eq!(Header::of(0).as_bytes(), [0x82, 0]);
        assert_eq!(Header::of(125).as_bytes(), [0x82, 125]);
        assert_eq!(Header::of(126).as_bytes(), [0x82, 126, 0, 126]);
        assert_eq!(Header::of(8800).as_bytes(), [0x82, 126, 0x22, 0x60]);
    }
}

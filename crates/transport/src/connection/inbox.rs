//! What was read of a stream and not yet handled: cuts it into link packets.

use std::os::fd::AsFd;

use namely_wire::{DecodeError, LP_PACKET_OCTETS_MAX, tlv};
use rustix::io::Errno;

/// Octets read at once: some thirty packets of the largest size.
const READ_OCTETS: usize = 256 << 10;

/// Octets received from the router.
#[derive(Debug)]
pub(super) struct Inbox {
    buf: Box<[u8]>,
    start: usize,
    end: usize,
}

/// What one read did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There is something to handle.
    Some,
    /// Nothing is there for now.
    Nothing,
    /// The router closed the connection.
    Closed,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Inbox { buf: vec![0; READ_OCTETS].into(), start: 0, end: 0 }
    }

    /// Reads once. What was there is kept; a partial packet moves to the front.
    pub(super) fn fill(&mut self, socket: impl AsFd) -> Result<Filled, Errno> {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match rustix::io::read(socket, &mut self.buf[self.end..]) {
            Ok(0) => Ok(Filled::Closed),
            Ok(octets) => {
                self.end += octets;
                Ok(Filled::Some)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Filled::Nothing),
            Err(error) => Err(error),
        }
    }

    /// The next whole link packet, if one is there. An error says that the stream can no longer be
    /// cut into packets.
    pub(super) fn next_packet(&mut self) -> Result<Option<&[u8]>, DecodeError> {
        let unread = &self.buf[self.start..self.end];
        if unread.is_empty() {
            return Ok(None);
        }
        let octets = whole_packet(unread)?;
        if octets == 0 {
            return Ok(None);
        }
        let start = self.start;
        self.start += octets;
        Ok(Some(&self.buf[start..start + octets]))
    }
}

/// Octets of the packet that starts `unread`; 0 when its end is not there yet.
fn whole_packet(unread: &[u8]) -> Result<usize, DecodeError> {
    let (_, length, header) = match tlv::read_header(unread) {
        Ok(read) => read,
        Err(DecodeError::Truncated) => return Ok(0),
        Err(error) => return Err(error),
    };
    if length > LP_PACKET_OCTETS_MAX {
        return Err(DecodeError::LengthTooLarge);
    }
    Ok(if header + length <= unread.len() { header + length } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn packets_are_cut_wherever_the_reads_fall() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut inbox = Inbox::new();
        let stream = b"\x06\x03abc\x05\x00\x64\x01x";
        let mut packets = Vec::new();
        for octet in stream {
            far.write_all(&[*octet]).unwrap();
            assert_eq!(inbox.fill(&near), Ok(Filled::Some));
            while let Some(packet) = inbox.next_packet().unwrap() {
                packets.push(packet.to_vec());
            }
        }
        assert_eq!(packets, [b"\x06\x03abc".to_vec(), b"\x05\x00".to_vec(), b"\x64\x01x".to_vec()]);
        assert_eq!(inbox.fill(&near), Ok(Filled::Nothing));
        drop(far);
        assert_eq!(inbox.fill(&near), Ok(Filled::Closed));
    }

    #[test]
    fn a_packet_longer_than_any_is_refused_before_it_is_read() {
        let longest = LP_PACKET_OCTETS_MAX as u16;
        for (length, refused) in [(longest, false), (longest + 1, true)] {
            let (near, mut far) = UnixStream::pair().unwrap();
            let mut inbox = Inbox::new();
            let [high, low] = length.to_be_bytes();
            far.write_all(&[6, 253, high, low]).unwrap();
            inbox.fill(&near).unwrap();
            assert_eq!(inbox.next_packet().is_err(), refused);
        }
    }
}

//! What was read of a stream and not yet handled: cuts it into link packets, and tells since when
//! each has been there.
//!
//! A stream does not say when its octets came. But when the buffer does not hold all that waits,
//! the system says how much more there is, so that later on those octets are known to have been
//! there by then.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use namely_wire::{DecodeError, LP_PACKET_OCTETS_MAX, tlv};
use rustix::io::Errno;

/// Octets read at once: some thirty packets of the largest size.
const READ_OCTETS: usize = 256 << 10;

/// Moments that are remembered. More make ages shorter, never longer.
const ARRIVALS_MAX: usize = 64;

/// All octets before `end`, counted from the stream's first, were there at `at_ns`.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    end: u64,
    at_ns: u64,
}

/// Octets received from the router.
#[derive(Debug)]
pub(super) struct Inbox {
    buf: Box<[u8]>,
    start: usize,
    end: usize,
    /// Octets read since the beginning.
    read: u64,
    arrivals: VecDeque<Arrival>,
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
        Inbox::with_room(READ_OCTETS)
    }

    fn with_room(octets: usize) -> Self {
        Inbox { buf: vec![0; octets].into(), start: 0, end: 0, read: 0, arrivals: VecDeque::new() }
    }

    /// Reads once, at `now_ns`. What was there is kept; a partial packet moves to the front.
    pub(super) fn fill(&mut self, socket: impl AsFd, now_ns: u64) -> Result<Filled, Errno> {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match rustix::io::read(&socket, &mut self.buf[self.end..]) {
            Ok(0) => Ok(Filled::Closed),
            Ok(octets) => {
                self.end += octets;
                self.read += octets as u64;
                let is_full = self.end == self.buf.len();
                let waiting = if is_full { rustix::io::ioctl_fionread(&socket).unwrap_or(0) } else { 0 };
                self.note_arrival(Arrival { end: self.read + waiting, at_ns: now_ns });
                Ok(Filled::Some)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Filled::Nothing),
            Err(error) => Err(error),
        }
    }

    fn note_arrival(&mut self, arrival: Arrival) {
        let is_full = self.arrivals.len() >= ARRIVALS_MAX;
        match self.arrivals.back_mut() {
            Some(last) if last.end >= arrival.end => {}
            Some(last) if is_full => *last = arrival,
            _ => self.arrivals.push_back(arrival),
        }
    }

    /// When all octets before `end` were there, as far as is known.
    fn arrived_ns(&mut self, end: u64) -> u64 {
        while self.arrivals.len() > 1 && self.arrivals.front().is_some_and(|first| first.end < end) {
            self.arrivals.pop_front();
        }
        self.arrivals.front().map_or(0, |first| first.at_ns)
    }

    /// The next whole link packet, if one is there, and when it was there at the latest. An error
    /// says that the stream can no longer be cut into packets.
    pub(super) fn next_packet(&mut self) -> Result<Option<(&[u8], u64)>, DecodeError> {
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
        let arrived_ns = self.arrived_ns(self.read - (self.end - self.start) as u64);
        Ok(Some((&self.buf[start..start + octets], arrived_ns)))
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
            assert_eq!(inbox.fill(&near, 0), Ok(Filled::Some));
            while let Some((packet, _)) = inbox.next_packet().unwrap() {
                packets.push(packet.to_vec());
            }
        }
        assert_eq!(packets, [b"\x06\x03abc".to_vec(), b"\x05\x00".to_vec(), b"\x64\x01x".to_vec()]);
        assert_eq!(inbox.fill(&near, 0), Ok(Filled::Nothing));
        drop(far);
        assert_eq!(inbox.fill(&near, 0), Ok(Filled::Closed));
    }

    #[test]
    fn what_the_buffer_had_no_room_for_is_known_to_have_been_there_when_it_was_read() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut inbox = Inbox::with_room(10);
        let mut take = |now_ns| {
            assert_eq!(inbox.fill(&near, now_ns), Ok(Filled::Some));
            let mut arrived = Vec::new();
            while let Some((_, arrived_ns)) = inbox.next_packet().unwrap() {
                arrived.push(arrived_ns);
            }
            arrived
        };
        // Packets of four octets.
        far.write_all(&b"\x05\x02ab".repeat(5)).unwrap();
        assert_eq!(take(100), [100, 100]);
        far.write_all(b"\x05\x02ab").unwrap();
        assert_eq!(take(200), [100, 100]);
        assert_eq!(take(300), [100, 200], "the last one came in between");
        far.write_all(b"\x05\x02ab").unwrap();
        assert_eq!(take(400), [400]);
    }

    #[test]
    fn more_moments_than_the_limit_make_packets_younger_and_take_no_memory() {
        let mut inbox = Inbox::with_room(10);
        for n in 1..=ARRIVALS_MAX as u64 + 1 {
            inbox.note_arrival(Arrival { end: n, at_ns: n });
        }
        assert_eq!(inbox.arrivals.len(), ARRIVALS_MAX);
        let most = ARRIVALS_MAX as u64;
        assert_eq!(
            [most - 1, most, most + 1].map(|end| inbox.arrived_ns(end)),
            [most - 1, most + 1, most + 1]
        );
    }

    #[test]
    fn a_packet_longer_than_any_is_refused_before_it_is_read() {
        let longest = LP_PACKET_OCTETS_MAX as u16;
        for (length, refused) in [(longest, false), (longest + 1, true)] {
            let (near, mut far) = UnixStream::pair().unwrap();
            let mut inbox = Inbox::new();
            let [high, low] = length.to_be_bytes();
            far.write_all(&[6, 253, high, low]).unwrap();
            inbox.fill(&near, 0).unwrap();
            assert_eq!(inbox.next_packet().is_err(), refused);
        }
    }
}

//! The receive buffer of a stream. Splits it into link packets, and estimates the arrival time of
//! each.
//!
//! A stream does not report when its octets arrived. If a read fills the buffer, the system reports
//! the number of octets that still wait. These octets had arrived by the time of that read, even if
//! a later read returns them.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use namely_wire::{DecodeError, LP_PACKET_OCTETS_MAX, tlv};
use rustix::io::Errno;

/// Octets read at once: about thirty packets of the largest size.
const READ_OCTETS: usize = 256 << 10;

/// Remembered arrival times of octets in a client's stream.
///
/// # Limit
/// Octets that arrive later appear younger, never older.
/// - Tests: `recorded_arrival_times_are_limited`
const ARRIVALS_MAX: usize = 64;

/// All octets before `end`, counted from the stream's first, had arrived at `at_ns`.
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

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadStatus {
    /// There are octets to process.
    Some,
    /// No octets are available now.
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

    /// Reads once, at `now_ns`. Unprocessed octets are retained, and move to the front of the
    /// buffer.
    pub(super) fn fill(&mut self, socket: impl AsFd, now_ns: u64) -> Result<ReadStatus, Errno> {
        if self.start > 0 {
            // Packets must be contiguous, because they are parsed in place.
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match rustix::io::read(&socket, &mut self.buf[self.end..]) {
            Ok(0) => Ok(ReadStatus::Closed),
            Ok(octets) => {
                self.end += octets;
                self.read += octets as u64;
                let is_full = self.end == self.buf.len();
                // Octets are left in the socket only if the buffer is full, so otherwise the system
                // call is saved.
                let waiting = if is_full { rustix::io::ioctl_fionread(&socket).unwrap_or(0) } else { 0 };
                self.note_arrival(Arrival { end: self.read + waiting, at_ns: now_ns });
                Ok(ReadStatus::Some)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(ReadStatus::Nothing),
            Err(error) => Err(error),
        }
    }

    fn note_arrival(&mut self, arrival: Arrival) {
        let is_full = self.arrivals.len() >= ARRIVALS_MAX;
        match self.arrivals.back_mut() {
            // An earlier read reported these octets already, with an earlier time.
            Some(last) if last.end >= arrival.end => {}
            // The octets of the last entry then appear to have arrived later. Their ages are too
            // short, never too long.
            Some(last) if is_full => *last = arrival,
            _ => self.arrivals.push_back(arrival),
        }
    }

    /// The latest possible arrival time of all octets before `end`.
    fn arrived_ns(&mut self, end: u64) -> u64 {
        // The last entry stays, because it covers all octets that were read.
        while self.arrivals.len() > 1 && self.arrivals.front().is_some_and(|first| first.end < end) {
            self.arrivals.pop_front();
        }
        self.arrivals.front().map_or(0, |first| first.at_ns)
    }

    /// Returns the next whole link packet, if there is one, and its latest possible arrival time.
    /// After an error the stream can no longer be split into packets.
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

/// Returns the octets of the packet at the start of `unread`; 0 if it is incomplete.
fn whole_packet(unread: &[u8]) -> Result<usize, DecodeError> {
    let (_, length, header) = match tlv::read_header(unread) {
        Ok(read) => read,
        Err(DecodeError::Truncated) => return Ok(0),
        Err(error) => return Err(error),
    };
    // A longer packet might never fit into the buffer, and the stream would stall.
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
    fn packets_are_split_at_any_read_boundary() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut inbox = Inbox::new();
        let stream = b"\x06\x03abc\x05\x00\x64\x01x";
        let mut packets = Vec::new();
        for octet in stream {
            far.write_all(&[*octet]).unwrap();
            assert_eq!(inbox.fill(&near, 0), Ok(ReadStatus::Some));
            while let Some((packet, _)) = inbox.next_packet().unwrap() {
                packets.push(packet.to_vec());
            }
        }
        assert_eq!(packets, [b"\x06\x03abc".to_vec(), b"\x05\x00".to_vec(), b"\x64\x01x".to_vec()]);
        assert_eq!(inbox.fill(&near, 0), Ok(ReadStatus::Nothing));
        drop(far);
        assert_eq!(inbox.fill(&near, 0), Ok(ReadStatus::Closed));
    }

    #[test]
    fn unread_packets_keep_their_arrival_time() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut inbox = Inbox::with_room(10);
        let mut take = |now_ns| {
            assert_eq!(inbox.fill(&near, now_ns), Ok(ReadStatus::Some));
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
    fn recorded_arrival_times_are_limited() {
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
    fn an_overlong_packet_is_refused_unread() {
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

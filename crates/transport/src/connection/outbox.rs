//! What waits to be written: link packets one behind the other in one buffer, so that a whole
//! turn's packets leave in one system call on a stream, and in few on datagram sockets.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use namely_link::{Frame, LinkConfig, LinkKind, LinkSender, Outbound};
use namely_memif::{Pushed, RingFault};
use namely_wire::{LpFraming, LpHeaders, LpView, PACKET_OCTETS_MAX, encode_lp_header};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::shown;

/// Octets that may wait before the connection stops taking packets in; one turn may exceed it by
/// what a single packet's handler adds.
pub const OUTBOX_OCTETS_MAX: usize = 1 << 20;

/// Buffered octets above which memory is given back once all has been written.
const KEPT_OCTETS_MAX: usize = 2 * OUTBOX_OCTETS_MAX;

/// Packets on their way to the router.
#[derive(Debug)]
pub struct Outbox {
    buf: Vec<u8>,
    written: usize,
    /// Where each datagram ends in `buf`; empty on a stream.
    ends: VecDeque<usize>,
    /// Cuts packets that are longer than a datagram may be; `None` on a stream.
    link: Option<Box<LinkSender<Vec<u8>>>>,
    datagram_octets_max: usize,
    /// When the turn began, ns.
    now_ns: u64,
    packets: u64,
    /// Datagrams that the system did not take.
    unsent: u64,
}

impl Outbox {
    /// `datagram_octets_max`: `None` on a stream.
    pub(super) fn new(datagram_octets_max: Option<usize>) -> Self {
        let link = datagram_octets_max.map(|mtu| {
            let config = LinkConfig { marking: false, ..LinkConfig::new(LinkKind::Datagram { mtu }) };
            Box::new(LinkSender::new(config, 0))
        });
        Outbox {
            buf: Vec::new(),
            written: 0,
            ends: VecDeque::new(),
            link,
            datagram_octets_max: datagram_octets_max.unwrap_or(usize::MAX),
            now_ns: 0,
            packets: 0,
            unsent: 0,
        }
    }

    /// Longer packets are cut from now on.
    pub(super) fn set_datagram_octets_max(&mut self, octets: usize) {
        let Some(link) = &mut self.link else { return };
        link.reconfigure(LinkConfig { kind: LinkKind::Datagram { mtu: octets }, ..*link.config() });
        self.datagram_octets_max = link.mtu().unwrap_or(octets);
    }

    /// Finds out by probes what the path to the router carries, where nobody tells. Returns when
    /// there is something to do for that, ns.
    pub(super) fn probe_path(&mut self, now_ns: u64) -> Option<u64> {
        self.now_ns = now_ns;
        let Outbox { link: Some(link), buf, ends, .. } = self else { return None };
        link.discover_path(true);
        link.tick(now_ns, &mut |frame| append(&frame, buf, ends));
        self.datagram_octets_max = link.mtu().unwrap_or(self.datagram_octets_max);
        link.due_ns()
    }

    /// Records what an IDLE packet from the router says of the path, or answers it: one of the two
    /// probes what it carries.
    pub(super) fn on_arrival(&mut self, view: &LpView<'_>) {
        let Outbox { link: Some(link), buf, ends, now_ns, .. } = self else { return };
        // Only the reliability service, which is off, takes a frame for a duplicate.
        let _ = link.on_arrival(view, *now_ns, &mut |frame| append(&frame, buf, ends));
        self.datagram_octets_max = link.mtu().unwrap_or(self.datagram_octets_max);
    }

    /// The longest datagram; none on a stream.
    pub(super) fn datagram_octets_max(&self) -> Option<usize> {
        self.link.is_some().then_some(self.datagram_octets_max)
    }

    /// Datagrams that the system did not take: too long for the link, or no memory.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Queues `packet` with `headers`.
    pub fn send(&mut self, headers: &LpHeaders, packet: &[u8]) {
        let sent: Result<(), std::convert::Infallible> = self.compose(headers, packet.len(), |buf| {
            buf.extend_from_slice(packet);
            Ok(())
        });
        match sent {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// Queues `packet` with a PrefixAnnouncement, or without where that leaves them no room: on a
    /// stream in what NFD reads, otherwise in the first frame.
    pub fn send_announced(&mut self, headers: &LpHeaders, packet: &[u8], announcement: &[u8]) {
        let start = self.buf.len();
        let Outbox { link, buf, ends, now_ns, .. } = self;
        if let Some(link) = link {
            let outbound = Outbound { headers: *headers, packet: packet.to_vec(), hop_limit: None };
            let mut emit = |frame| append(&frame, buf, ends);
            let sent = link.send_announced(outbound, announcement, |together| together, *now_ns, &mut emit);
            debug_assert!(sent.is_ok(), "the largest packet fits into the fragments allowed");
        } else {
            let framing = LpFraming::default();
            encode_lp_header(headers, &framing, Some(announcement), Some(packet.len()), buf);
            if buf.len() - start + packet.len() > PACKET_OCTETS_MAX {
                buf.truncate(start);
                return self.send(headers, packet);
            }
            buf.extend_from_slice(packet);
        }
        self.packets += 1;
        shown::sent(headers, packet);
    }

    /// Queues a packet that `fill` appends in place; it must append exactly `octets`. When it
    /// fails, or appends another number of octets, nothing is queued.
    ///
    /// # Errors
    /// What `fill` fails with.
    pub fn compose<E>(
        &mut self,
        headers: &LpHeaders,
        octets: usize,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.buf.len();
        if !headers.is_empty() {
            encode_lp_header(headers, &LpFraming::default(), None, Some(octets), &mut self.buf);
        }
        let packet = self.buf.len();
        let filled = fill(&mut self.buf);
        debug_assert!(octets <= PACKET_OCTETS_MAX, "packets are at most {PACKET_OCTETS_MAX} octets");
        if filled.is_err() || self.buf.len() != packet + octets {
            debug_assert!(filled.is_err(), "a packet of another size than announced");
            self.buf.truncate(start);
            return filled;
        }
        self.packets += 1;
        shown::sent(headers, &self.buf[packet..]);
        if self.link.is_some() {
            self.end_datagram(start, packet, headers);
        }
        filled
    }

    /// Notes where the datagram that begins at `start` ends; one that is too long is cut into
    /// fragments.
    fn end_datagram(&mut self, start: usize, packet: usize, headers: &LpHeaders) {
        let Some(link) = &mut self.link else { return };
        let octets = self.buf.len() - start;
        if octets <= self.datagram_octets_max {
            link.note_packet(octets, self.now_ns);
            self.ends.push_back(self.buf.len());
            return;
        }
        let octets = self.buf.split_off(packet);
        self.buf.truncate(start);
        let (buf, ends) = (&mut self.buf, &mut self.ends);
        let outbound = Outbound { headers: *headers, packet: octets, hop_limit: None };
        let cut = link.send(outbound, self.now_ns, &mut |frame| append(&frame, buf, ends));
        // Nothing is sent of a packet that cannot be cut: its answer is missed as if it were lost.
        debug_assert!(cut.is_ok(), "the largest packet fits into the fragments allowed");
    }

    /// Octets that wait.
    pub fn len(&self) -> usize {
        self.buf.len() - self.written
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets queued since the connection was made.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= OUTBOX_OCTETS_MAX
    }

    /// Writes what a stream takes. `Ok(true)`: all is written.
    pub(super) fn flush(&mut self, stream: impl AsFd) -> Result<bool, Errno> {
        while !self.is_empty() {
            match rustix::net::send(&stream, &self.buf[self.written..], SendFlags::NOSIGNAL) {
                Ok(written) => self.written += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.clear();
        Ok(true)
    }

    /// Writes datagrams as far as they are taken. `send` tells how many it took from the front.
    /// `Ok(true)`: all is written.
    pub(super) fn flush_datagrams(
        &mut self,
        mut send: impl FnMut(Datagrams<'_>) -> Result<usize, Errno>,
    ) -> Result<bool, Errno> {
        while let Some(end) = self.ends.front().copied() {
            match send(Datagrams { buf: &self.buf, start: self.written, ends: self.ends.iter() }) {
                Ok(count) => self.datagrams_done(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                // This one datagram cannot be sent: too long for the link, or the queue is full.
                Err(Errno::MSGSIZE | Errno::NOBUFS) => {
                    self.unsent += 1;
                    self.datagram_done(end);
                }
                Err(error) => return Err(error),
            }
        }
        self.clear();
        Ok(true)
    }

    /// Writes what the router's ring takes, a packet each. `Ok(true)`: all is written.
    pub(super) fn flush_to_ring(&mut self, sender: &mut namely_memif::Sender) -> Result<bool, RingFault> {
        while let Some(end) = self.ends.front().copied() {
            match sender.push(&[&self.buf[self.written..end]])? {
                Pushed::Full => {
                    sender.publish();
                    return Ok(false);
                }
                // One that is too long for the whole ring is missed as if it were lost.
                Pushed::Taken => self.datagram_done(end),
                Pushed::TooLong => {
                    self.unsent += 1;
                    self.datagram_done(end);
                }
            }
        }
        sender.publish();
        self.clear();
        Ok(true)
    }

    fn datagrams_done(&mut self, count: usize) {
        if let Some(end) = self.ends.drain(..count).next_back() {
            self.written = end;
        }
    }

    fn datagram_done(&mut self, end: usize) {
        self.written = end;
        self.ends.pop_front();
    }

    /// Forgets what waits: the connection it was meant for is gone.
    pub(super) fn clear(&mut self) {
        self.buf.clear();
        self.ends.clear();
        self.written = 0;
        if self.buf.capacity() > KEPT_OCTETS_MAX {
            self.buf = Vec::new();
        }
    }
}

/// Queues one datagram.
fn append(frame: &Frame<Vec<u8>>, buf: &mut Vec<u8>, ends: &mut VecDeque<usize>) {
    frame.slices().iter().for_each(|slice| buf.extend_from_slice(slice));
    ends.push_back(buf.len());
}

/// The datagrams that wait, first one first.
#[derive(Clone, Debug)]
pub(super) struct Datagrams<'a> {
    buf: &'a [u8],
    start: usize,
    ends: std::collections::vec_deque::Iter<'a, usize>,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = *self.ends.next()?;
        self.buf.get(std::mem::replace(&mut self.start, end)..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    use namely_datagrams::udp::UdpSender;
    use namely_link::{LinkService, ReassemblyTotal};

    /// A socket that is connected to another one.
    fn pair() -> (UdpSocket, UdpSocket) {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        (near, far)
    }

    fn flush(outbox: &mut Outbox, socket: &UdpSocket) -> Result<bool, Errno> {
        let mut sender = UdpSender::default();
        outbox.flush_datagrams(|datagrams| sender.send(socket, datagrams))
    }

    #[test]
    fn all_packets_of_a_turn_arrive_in_order_on_a_stream() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::new(None);
        outbox.send(&LpHeaders::default(), b"\x06\x01a");
        let marked = LpHeaders { congestion_mark: Some(1), ..LpHeaders::default() };
        outbox.send(&marked, b"\x06\x01b");
        assert_eq!(outbox.flush(&near), Ok(true));
        let mut received = [0; 64];
        let octets = far.read(&mut received).unwrap();
        assert_eq!(received[..3], *b"\x06\x01a");
        let link = namely_wire::LpView::parse(&received[3..octets]).unwrap();
        assert!(link.headers.is_marked());
        assert_eq!(link.fragment, Some(&b"\x06\x01b"[..]));
    }

    #[test]
    fn each_packet_is_one_datagram() {
        let (near, far) = pair();
        let mut outbox = Outbox::new(Some(8800));
        outbox.send(&LpHeaders::default(), b"\x06\x01a");
        outbox.send(&LpHeaders::default(), b"\x06\x02bc");
        assert_eq!(flush(&mut outbox, &near), Ok(true));
        let mut received = [0; 64];
        assert_eq!(far.recv(&mut received).unwrap(), 3);
        assert_eq!(far.recv(&mut received).unwrap(), 4);
    }

    #[test]
    fn a_packet_longer_than_a_datagram_is_cut_and_fits_together_again() {
        let (near, far) = pair();
        let mut outbox = Outbox::new(Some(1000));
        let mut packet = vec![6, 253, 8, 0];
        packet.resize(4 + 2048, 9);
        outbox.send(
            &LpHeaders { pit_token: namely_wire::PitToken::new(&[1]), ..LpHeaders::default() },
            &packet,
        );
        assert_eq!(flush(&mut outbox, &near), Ok(true));
        let config = LinkConfig::new(LinkKind::Datagram { mtu: 1000 });
        let mut link: LinkService<Vec<u8>> = LinkService::new(config, ReassemblyTotal::new(1 << 20), 0);
        let mut received = [0; 2000];
        for last in [false, false, true] {
            let octets = far.recv(&mut received).unwrap();
            assert!(octets <= 1000);
            let whole = link.receive(&received[..octets], (), 0, &mut |_| {}).unwrap();
            assert_eq!(whole.map(|whole| whole.packet.octets(&received) == packet), last.then_some(true));
        }
    }

    #[test]
    fn an_announcement_goes_with_the_first_datagram_and_on_a_stream_with_what_it_leaves_room_for() {
        let mut packet = vec![6, 253, 8, 0];
        packet.resize(4 + 2048, 9);
        let (near, far) = pair();
        let mut outbox = Outbox::new(Some(1000));
        outbox.send_announced(&LpHeaders::default(), &packet, &[7; 300]);
        assert_eq!(flush(&mut outbox, &near), Ok(true));
        let config = LinkConfig::new(LinkKind::Datagram { mtu: 1000 });
        let mut link: LinkService<Vec<u8>> = LinkService::new(config, ReassemblyTotal::new(1 << 20), 0);
        let mut received = [0; 2000];
        for last in [false, false, true] {
            let octets = far.recv(&mut received).unwrap();
            assert!(octets <= 1000);
            let whole = link.receive(&received[..octets], (), 0, &mut |_| {}).unwrap();
            let seen = whole.map(|whole| (whole.packet.octets(&received) == packet, whole.announcement));
            assert_eq!(seen, last.then(|| (true, Some(vec![7; 300].into()))));
        }
        for (octets, is_announced) in [(8000, true), (8700, false)] {
            let (near, mut far) = UnixStream::pair().unwrap();
            let mut outbox = Outbox::new(None);
            let packet = [&[6, 253, (octets >> 8) as u8, octets as u8], &vec![9; octets][..]].concat();
            outbox.send_announced(&LpHeaders::default(), &packet, &[7; 300]);
            let waiting = outbox.len();
            assert_eq!(outbox.flush(&near), Ok(true));
            let mut received = vec![0; waiting];
            far.read_exact(&mut received).unwrap();
            let link = namely_wire::LpView::parse(&received).unwrap();
            assert_eq!(
                (link.fragment, link.prefix_announcement.is_some()),
                (Some(&packet[..]), is_announced)
            );
        }
    }

    #[test]
    fn a_packet_that_cannot_be_filled_leaves_nothing_behind() {
        let mut outbox = Outbox::new(None);
        let marked = LpHeaders { congestion_mark: Some(1), ..LpHeaders::default() };
        let failed = outbox.compose(&marked, 10, |buf| {
            buf.push(6);
            Err("the file is gone")
        });
        assert_eq!(failed, Err("the file is gone"));
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_full_socket_keeps_the_rest_for_later() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut outbox = Outbox::new(None);
        while !outbox.is_full() {
            outbox.send(&LpHeaders::default(), &[7; 8000]);
        }
        let total = outbox.len();
        assert_eq!(outbox.flush(&near), Ok(false));
        let mut received = 0;
        let mut buf = vec![0; 65536];
        while received < total {
            received += far.read(&mut buf).unwrap();
            outbox.flush(&near).unwrap();
        }
        assert!(outbox.is_empty());
    }
}

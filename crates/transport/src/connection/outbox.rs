//! The send queue: link packets one after another in one buffer. The packets of a round are thus
//! sent in one system call on a stream, and in few on datagram sockets.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use namely_link::{Frame, LinkConfig, LinkKind, LinkSender, Outbound};
use namely_memif::{PushOutcome, RingFault};
use namely_wire::{LpFraming, LpHeaders, LpView, PACKET_OCTETS_MAX, encode_lp_header};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::shown;

/// Octets of answers that wait for a client's router.
///
/// One round may exceed the limit by the output of a single packet's handler.
///
/// # Limit
/// The connection receives no further packet; packets of the router wait in the socket.
/// - Value: 1 MiB and one packet
/// - Tests: `a_stalled_router_fills_only_the_outbox`
pub const OUTBOX_OCTETS_MAX: usize = 1 << 20;

/// A larger buffer is released once the queue is empty.
const KEPT_OCTETS_MAX: usize = 2 * OUTBOX_OCTETS_MAX;

/// Queued packets to the router.
#[derive(Debug)]
pub struct Outbox {
    buf: Vec<u8>,
    written: usize,
    /// The end of each datagram in `buf`; empty on a stream.
    ends: VecDeque<usize>,
    /// Fragments packets that do not fit into a datagram; `None` on a stream.
    link: Option<Box<LinkSender<Vec<u8>>>>,
    datagram_octets_max: usize,
    /// The start of the round, ns.
    now_ns: u64,
    packets: u64,
    /// Datagrams that the system refused.
    unsent: u64,
}

impl Outbox {
    /// `datagram_octets_max`: `None` on a stream.
    pub(super) fn new(datagram_octets_max: Option<usize>) -> Self {
        let link = datagram_octets_max.map(|mtu| {
            // A client does not mark its own packets. Its queue is bounded by
            // [`OUTBOX_OCTETS_MAX`].
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

    /// Sets the maximum length of datagrams. Longer packets are fragmented from now on.
    pub(super) fn set_datagram_octets_max(&mut self, octets: usize) {
        let Some(link) = &mut self.link else { return };
        link.reconfigure(LinkConfig { kind: LinkKind::Datagram { mtu: octets }, ..*link.config() });
        self.datagram_octets_max = link.mtu().unwrap_or(octets);
    }

    /// Probes the maximum frame length of the path to the router, if the path does not report it.
    /// Returns the time of the next call, ns.
    pub(super) fn probe_path(&mut self, now_ns: u64) -> Option<u64> {
        self.now_ns = now_ns;
        let Outbox { link: Some(link), buf, ends, .. } = self else { return None };
        link.discover_path(true);
        link.tick(now_ns, &mut |frame| append(&frame, buf, ends));
        self.datagram_octets_max = link.mtu().unwrap_or(self.datagram_octets_max);
        link.due_ns()
    }

    /// Processes an IDLE packet from the router: either an answer to a probe, or a probe to answer.
    pub(super) fn on_arrival(&mut self, view: &LpView<'_>) {
        let Outbox { link: Some(link), buf, ends, now_ns, .. } = self else { return };
        // Only the reliability service reports duplicates, and it is off.
        let _ = link.on_arrival(view, *now_ns, &mut |frame| append(&frame, buf, ends));
        self.datagram_octets_max = link.mtu().unwrap_or(self.datagram_octets_max);
    }

    /// The longest datagram; none on a stream.
    pub(super) fn datagram_octets_max(&self) -> Option<usize> {
        self.link.is_some().then_some(self.datagram_octets_max)
    }

    /// Datagrams that the system refused: too long for the link, or no memory.
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

    /// Queues `packet` with a PrefixAnnouncement. If both do not fit together, the packet is sent
    /// without the announcement. They must fit into NFD's packet size on a stream, and into the
    /// first frame otherwise.
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

    /// Queues a packet that `fill` appends in place; it must append exactly `octets`. If it fails,
    /// or appends another number of octets, nothing is queued.
    ///
    /// # Errors
    /// The error of `fill`.
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
        // The link header contains the length, so a packet of another size would break the framing.
        if filled.is_err() || self.buf.len() != packet + octets {
            debug_assert!(filled.is_err(), "a packet of another size than announced");
            self.buf.truncate(start);
            return filled;
        }
        self.packets += 1;
        // The packet is logged first, because `end_datagram` may move it into fragments.
        shown::sent(headers, &self.buf[packet..]);
        if self.link.is_some() {
            self.end_datagram(start, packet, headers);
        }
        filled
    }

    /// Records the end of the datagram that begins at `start`. A datagram that is too long is split
    /// into fragments.
    fn end_datagram(&mut self, start: usize, packet: usize, headers: &LpHeaders) {
        let Some(link) = &mut self.link else { return };
        let octets = self.buf.len() - start;
        if octets <= self.datagram_octets_max {
            link.note_packet(octets, self.now_ns);
            self.ends.push_back(self.buf.len());
            return;
        }
        // Only packets to fragment are copied, because the link sender takes ownership of them.
        let octets = self.buf.split_off(packet);
        self.buf.truncate(start);
        let (buf, ends) = (&mut self.buf, &mut self.ends);
        let outbound = Outbound { headers: *headers, packet: octets, hop_limit: None };
        let cut = link.send(outbound, self.now_ns, &mut |frame| append(&frame, buf, ends));
        // A packet that cannot be fragmented is not sent. It is treated like a lost packet.
        debug_assert!(cut.is_ok(), "the largest packet fits into the fragments allowed");
    }

    /// Number of queued octets.
    pub fn len(&self) -> usize {
        self.buf.len() - self.written
    }

    /// Returns true if the queue is empty.
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

    /// Writes as much as the stream accepts. `Ok(true)`: all is written.
    pub(super) fn flush(&mut self, stream: impl AsFd) -> Result<bool, Errno> {
        while !self.is_empty() {
            // Without NOSIGNAL a closed peer would end the process by SIGPIPE.
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

    /// Writes as many datagrams as the link accepts. `send` returns the number of accepted
    /// datagrams from the front. `Ok(true)`: all is written.
    pub(super) fn flush_datagrams(
        &mut self,
        mut send: impl FnMut(Datagrams<'_>) -> Result<usize, Errno>,
    ) -> Result<bool, Errno> {
        while let Some(end) = self.ends.front().copied() {
            match send(Datagrams { buf: &self.buf, start: self.written, ends: self.ends.iter() }) {
                Ok(count) => self.datagrams_done(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                // This datagram cannot be sent: it is too long for the link, or the queue is full.
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

    /// Writes as many packets as the router's ring accepts, one slot each. `Ok(true)`: all is
    /// written.
    pub(super) fn flush_to_ring(&mut self, sender: &mut namely_memif::Sender) -> Result<bool, RingFault> {
        while let Some(end) = self.ends.front().copied() {
            match sender.push(&[&self.buf[self.written..end]])? {
                PushOutcome::Full => {
                    // The packets so far are published, because otherwise the router would not free
                    // slots.
                    sender.publish();
                    return Ok(false);
                }
                // A packet that is too long for the whole ring is treated like a lost packet.
                PushOutcome::Accepted => self.datagram_done(end),
                PushOutcome::TooLong => {
                    self.unsent += 1;
                    self.datagram_done(end);
                }
            }
        }
        // One publication for all packets, so that the router is woken once.
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

    /// Empties the queue after everything was written, or after the connection was lost.
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

/// The queued datagrams, the oldest first.
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
    fn packets_of_a_turn_arrive_in_order() {
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
    fn an_oversized_packet_is_fragmented_and_reassembled() {
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
    fn an_announcement_leaves_with_the_first_datagram() {
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
    fn a_failed_packet_leaves_the_outbox_empty() {
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
    fn a_full_socket_keeps_remaining_packets() {
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

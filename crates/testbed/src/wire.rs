//! A wire emulated in user space. Packets from one end go to the other at a rate, after a delay,
//! through a queue of limited length. Some are lost or reordered. It serves kernels without netem,
//! and behaves alike on every machine. Its ends are UDP sockets ([`Link`]) or network devices
//! ([`Frames`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use namely_datagrams::ethernet::ring::TAP_OCTETS;
use namely_datagrams::mmsg;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::net::{RecvFlags, SendFlags};
use socket2::SockRef;

/// Size of the kernel's buffer for a socket, in octets. It is large so that packets are dropped by
/// the emulated queue and not by the socket.
const SOCKET_OCTETS: usize = 8 << 20;

/// Largest packet, with the header before a frame.
const PACKET_OCTETS_MAX: usize = 65_536 + 64;

/// Maximum number of packets under way in a direction. It bounds a wire without a rate.
const UNDER_WAY_MAX: usize = 65_536;

/// Limit on the measured wait of a packet for its thread. Without it a clock that was set would
/// produce a wrong time.
const WAITED_MAX: Duration = Duration::from_secs(1);

/// Maximum sleep of a direction before it checks for the end.
const LOOK: Duration = Duration::from_millis(20);

/// Properties of a wire, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireSpec {
    /// Rate in bit/s; none for no limit.
    pub rate_bps: Option<u64>,
    /// Delay of each direction.
    pub delay: Duration,
    /// Size of the queue, as the time to send it.
    pub queue: Duration,
    /// Share of packets that are lost.
    pub loss: f64,
    /// Packets that are delayed further, so that others overtake them.
    pub late: Reordering,
}

/// Packets that others overtake.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reordering {
    /// Share of packets that come later.
    pub share: f64,
    /// Their additional delay.
    pub by: Duration,
}

/// Counters of one direction.
#[derive(Debug, Default)]
pub struct WireCounters {
    /// Octets sent on.
    pub octets: AtomicU64,
    /// Packets lost, as configured.
    pub lost: AtomicU64,
    /// Packets delayed further, as configured.
    pub late: AtomicU64,
    /// Packets for which the queue had no room.
    pub full: AtomicU64,
    /// Time that each packet waited in the queue, in us. Recorded only on request.
    waits_us: Option<Mutex<Vec<f64>>>,
}

impl WireCounters {
    /// Returns the recorded waits, and clears them.
    pub fn take_waits_us(&self) -> Vec<f64> {
        let waits = self.waits_us.as_ref();
        waits.map_or(Vec::new(), |waits| {
            std::mem::take(&mut *waits.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    fn waited(&self, wait: Duration) {
        if let Some(waits) = &self.waits_us {
            waits.lock().unwrap_or_else(PoisonError::into_inner).push(wait.as_secs_f64() * 1e6);
        }
    }
}

/// One end of a wire. Its calls do not block.
pub trait End: AsFd + Send + 'static {
    /// Receives the next packet from the end.
    fn receive(&self, into: &mut [u8]) -> io::Result<usize>;
    /// Sends a packet into the end.
    fn send(&self, packet: &[u8]) -> io::Result<usize>;
    /// Returns the size of the header before a packet, which takes no time on the wire.
    fn header_octets(&self) -> usize;
}

/// A running wire. Dropping it stops it.
#[derive(Debug)]
pub struct Wire {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Wire {
    /// Starts a wire between two ends.
    ///
    /// # Errors
    /// Environment: a descriptor cannot be duplicated.
    pub fn start<E: End + TryClone>(spec: WireSpec, [a, b]: [E; 2]) -> io::Result<Self> {
        let directions = [(a.twin()?, b.twin()?), (b, a)];
        Ok(Self::run(spec, directions.map(|(from, to)| (from, to, Arc::default()))))
    }

    fn run<E: End>(spec: WireSpec, directions: [(E, E, Arc<WireCounters>); 2]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seeds = [0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321];
        let threads = directions.into_iter().zip(seeds).map(|((from, to, passed), random)| {
            // The kernel records arrivals from this call on. A packet without a record would seem
            // to arrive when it is read, thus after packets behind it.
            let _ = mmsg::waited(&from);
            let direction = Direction { spec, from, to, passed, stop: stop.clone(), random };
            thread::spawn(move || direction.run())
        });
        let threads = threads.collect();
        Wire { stop, threads }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// An end that can be duplicated, for the other direction.
pub trait TryClone: Sized {
    /// Returns a duplicate of this end.
    ///
    /// # Errors
    /// Environment: no descriptor is available.
    fn twin(&self) -> io::Result<Self>;
}

/// A network device whose frames a wire carries: a socket of `ring::tap_socket`.
#[derive(Debug)]
pub struct Frames(OwnedFd);

impl Frames {
    /// Wraps a socket that is bound to a device.
    pub fn new(socket: OwnedFd) -> Self {
        widen(&socket);
        Frames(socket)
    }
}

impl TryClone for Frames {
    fn twin(&self) -> io::Result<Self> {
        self.0.try_clone().map(Frames)
    }
}

impl AsFd for Frames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl End for Frames {
    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.0, into, RecvFlags::DONTWAIT)?.1)
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0, packet, SendFlags::DONTWAIT)?)
    }

    fn header_octets(&self) -> usize {
        TAP_OCTETS
    }
}

/// A wire between a UDP socket and the last peer that sent to another. Dropping it stops it.
#[derive(Debug)]
pub struct Link {
    near: SocketAddr,
    /// Counters towards the near end: from the router that the link leads to.
    back: Arc<WireCounters>,
    _wire: Wire,
}

/// A UDP socket. Without a connected peer it sends to the source of the last packet.
#[derive(Debug)]
struct Datagrams {
    socket: UdpSocket,
    caller: Option<Arc<Mutex<Option<SocketAddr>>>>,
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl End for Datagrams {
    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let (octets, from) = self.socket.recv_from(into)?;
        if let Some(caller) = &self.caller {
            *caller.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
        }
        Ok(octets)
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        match self.caller.as_ref().map(|caller| *caller.lock().unwrap_or_else(PoisonError::into_inner)) {
            None => self.socket.send(packet),
            Some(Some(caller)) => self.socket.send_to(packet, caller),
            Some(None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn header_octets(&self) -> usize {
        0
    }
}

impl Link {
    /// Starts a link to `far`. The near end is the peer that sends to [`Link::near`].
    ///
    /// # Errors
    /// Environment: the sockets cannot be opened.
    pub fn start(spec: WireSpec, far: SocketAddr) -> io::Result<Self> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            widen(&socket);
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let (near, out) = (open()?, open()?);
        out.connect(far)?;
        let address = near.local_addr()?;
        let caller = Some(Arc::new(Mutex::new(None)));
        let near = [near.try_clone()?, near].map(|socket| Datagrams { socket, caller: caller.clone() });
        let far = [out.try_clone()?, out].map(|socket| Datagrams { socket, caller: None });
        let back = Arc::new(WireCounters { waits_us: Some(Mutex::default()), ..WireCounters::default() });
        let ([near_in, near_out], [far_in, far_out]) = (near, far);
        let directions = [(near_in, far_out, Arc::default()), (far_in, near_out, back.clone())];
        Ok(Link { near: address, back, _wire: Wire::run(spec, directions) })
    }

    /// Returns the address that the near end sends to.
    pub fn near(&self) -> SocketAddr {
        self.near
    }

    /// Returns the counters towards the near end.
    pub fn back(&self) -> &WireCounters {
        &self.back
    }
}

/// Enlarges the buffers of a socket as far as the system allows. Root may exceed its limit for
/// receive buffers.
fn widen(socket: &impl AsFd) {
    let options = SockRef::from(socket);
    let _ = options.set_recv_buffer_size(SOCKET_OCTETS);
    let _ = options.set_send_buffer_size(SOCKET_OCTETS);
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_OCTETS);
}

struct Direction<E> {
    spec: WireSpec,
    from: E,
    to: E,
    passed: Arc<WireCounters>,
    stop: Arc<AtomicBool>,
    random: u64,
}

impl<E: End> Direction<E> {
    fn run(mut self) {
        let mut buffer = vec![0; PACKET_OCTETS_MAX];
        // Ordered by due time, and then by arrival.
        let mut under_way: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>> = BinaryHeap::new();
        let (mut free_at, mut count) = (Instant::now(), 0);
        while !self.stop.load(Ordering::Relaxed) {
            while under_way.peek().is_some_and(|Reverse((due, ..))| *due <= Instant::now()) {
                if let Some(Reverse((.., packet))) = under_way.pop() {
                    self.send(&packet);
                }
            }
            let wait = under_way
                .peek()
                .map_or(LOOK, |Reverse((due, ..))| due.saturating_duration_since(Instant::now()).min(LOOK));
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            let _ = poll(&mut [PollFd::new(&self.from, PollFlags::IN)], Some(&timeout));
            while let Ok(octets) = self.from.receive(&mut buffer) {
                let now = Instant::now();
                // The wire has its rate even if this thread runs seldom. A packet is under way from
                // its arrival, not from the moment at which the thread reads it.
                let waited = mmsg::waited(&self.from).unwrap_or_default().min(WAITED_MAX);
                let came = now.checked_sub(waited).unwrap_or(now);
                if let Some(due) = self.admit(octets, came, &mut free_at, under_way.len()) {
                    under_way.push(Reverse((due, count, buffer[..octets].to_vec())));
                    count += 1;
                }
                if under_way.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
                    break;
                }
            }
        }
    }

    /// Returns the time at which a packet that came at `came` reaches the other end; none if it is
    /// lost.
    fn admit(
        &mut self,
        octets: usize,
        came: Instant,
        free_at: &mut Instant,
        under_way: usize,
    ) -> Option<Instant> {
        let wait = free_at.saturating_duration_since(came);
        if wait > self.spec.queue || under_way >= UNDER_WAY_MAX {
            self.passed.full.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.passed.waited(wait);
        let octets = octets.saturating_sub(self.from.header_octets());
        let seconds = self.spec.rate_bps.map_or(0.0, |rate| octets as f64 * 8.0 / rate as f64);
        *free_at = (*free_at).max(came) + Duration::from_secs_f64(seconds);
        // A lost packet has used the wire, too.
        if self.is_one_of(self.spec.loss) {
            self.passed.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let Reordering { share, by } = self.spec.late;
        let is_late = share > 0.0 && self.is_one_of(share);
        self.passed.late.fetch_add(u64::from(is_late), Ordering::Relaxed);
        Some(*free_at + self.spec.delay + if is_late { by } else { Duration::ZERO })
    }

    fn send(&self, packet: &[u8]) {
        if let Ok(octets) = self.to.send(packet) {
            self.passed.octets.fetch_add(octets as u64, Ordering::Relaxed);
        }
    }

    fn is_one_of(&mut self, share: f64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64 <= share && share > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(spec: WireSpec) -> (UdpSocket, UdpSocket, Link) {
        let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let link = Link::start(spec, far.local_addr().unwrap()).unwrap();
        let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        near.connect(link.near()).unwrap();
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(namely_testkit::PATIENCE)).unwrap();
        }
        (near, far, link)
    }

    /// Receives until each of `sent` packets has come or is counted by `dropped`. Returns those
    /// that came.
    fn arrivals(near: &UdpSocket, sent: u64, dropped: &AtomicU64) -> u64 {
        near.set_nonblocking(true).unwrap();
        let (mut arrived, mut buffer) = (0, [0; 2000]);
        namely_testkit::eventually("each packet comes or is dropped", || {
            while near.recv(&mut buffer).is_ok() {
                arrived += 1;
            }
            arrived + dropped.load(Ordering::Relaxed) >= sent
        });
        arrived
    }

    const SPEC: WireSpec = WireSpec {
        rate_bps: Some(8_000_000),
        delay: Duration::from_millis(30),
        queue: Duration::from_millis(50),
        loss: 0.0,
        late: Reordering { share: 0.0, by: Duration::ZERO },
    };

    #[test]
    fn overtaken_packets_are_not_lost() {
        let late = Reordering { share: 0.2, by: Duration::from_millis(40) };
        let (near, far, link) =
            ends(WireSpec { rate_bps: Some(80_000_000), queue: Duration::from_secs(1), late, ..SPEC });
        let mut buffer = [0; 2000];
        near.send(b"hello").unwrap();
        let (_, from) = namely_testkit::uninterrupted(|| far.recv_from(&mut buffer)).unwrap();
        let mut came = Vec::new();
        // A round sends no more packets than a socket holds.
        for round in 0..4_u32 {
            (0..100).for_each(|n| assert!(far.send_to(&(100 * round + n).to_be_bytes(), from).is_ok()));
            for _ in 0..100 {
                let octets = namely_testkit::uninterrupted(|| near.recv(&mut buffer)).unwrap();
                came.push(u32::from_be_bytes(buffer[..octets].try_into().unwrap()));
            }
        }
        let overtaken = came.windows(2).filter(|pair| pair[1] < pair[0]).count();
        came.sort_unstable();
        assert!(came.into_iter().eq(0..400) && overtaken > 0);
        let late = link.back().late.load(Ordering::Relaxed);
        assert!((40..160).contains(&late), "{late}");
    }

    #[test]
    fn the_wire_delays_and_spaces_datagrams() {
        let (near, far, _link) = ends(SPEC);
        let (started, mut buffer) = (Instant::now(), [0; 2000]);
        near.send(b"there").unwrap();
        let (octets, from) = namely_testkit::uninterrupted(|| far.recv_from(&mut buffer)).unwrap();
        assert_eq!(&buffer[..octets], b"there");
        far.send_to(b"back", from).unwrap();
        assert_eq!(namely_testkit::uninterrupted(|| near.recv(&mut buffer)).unwrap(), 4);
        assert!(started.elapsed() >= Duration::from_millis(60));
        let started = Instant::now();
        // 20 datagrams of a millisecond each.
        (0..20).for_each(|_| assert!(near.send(&[0; 1000]).is_ok()));
        (0..20).for_each(|_| assert!(namely_testkit::uninterrupted(|| far.recv(&mut buffer)).is_ok()));
        assert!(started.elapsed() >= Duration::from_millis(50));
    }

    #[test]
    fn waiting_packets_count_as_in_flight() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let end = || Datagrams { socket: socket.try_clone().unwrap(), caller: None };
        let (stop, passed) = (Arc::default(), Arc::default());
        let mut wire = Direction { spec: SPEC, from: end(), to: end(), passed, stop, random: 1 };
        // 200 packets of a millisecond each arrived one per millisecond, and are read together.
        let began = Instant::now();
        let mut free_at = began;
        for n in 0..200 {
            let came = began + Duration::from_millis(n);
            let due = wire.admit(1000, came, &mut free_at, 0).unwrap();
            assert_eq!(due, came + Duration::from_millis(31));
        }
        // Of packets that arrive at once the queue holds 50, beside the one that is being sent.
        let at = free_at;
        let held = (0..200).filter(|_| wire.admit(1000, at, &mut free_at, 0).is_some()).count();
        assert_eq!((held, wire.passed.full.load(Ordering::Relaxed)), (51, 149));
    }

    #[test]
    fn dropped_datagrams_are_counted() {
        // Ten milliseconds for each packet: the queue is full even if the sends take a second.
        let (near, far, link) = ends(WireSpec { rate_bps: Some(800_000), ..SPEC });
        let mut buffer = [0; 2000];
        near.send(b"hello").unwrap();
        let (_, from) = namely_testkit::uninterrupted(|| far.recv_from(&mut buffer)).unwrap();
        (0..200).for_each(|_| assert!(far.send_to(&[0; 1000], from).is_ok()));
        let arrived = arrivals(&near, 200, &link.back().full);
        let full = link.back().full.load(Ordering::Relaxed);
        // How many arrive depends on the time that the sends take. The exact number is in
        // `waiting_packets_count_as_in_flight`.
        assert!((1..200).contains(&arrived) && arrived + full == 200, "{arrived} {full}");
        assert_eq!(link.back().take_waits_us().len() as u64, arrived);
        let (near, far, link) = ends(WireSpec { loss: 0.5, rate_bps: Some(800_000_000), ..SPEC });
        near.send(b"hello").unwrap();
        near.send(b"hello").unwrap();
        (0..20).for_each(|_| assert!(near.send(b"hello").is_ok()));
        let (_, from) = namely_testkit::uninterrupted(|| far.recv_from(&mut buffer)).unwrap();
        (0..400).for_each(|_| assert!(far.send_to(&[0; 100], from).is_ok()));
        let arrived = arrivals(&near, 400, &link.back().lost);
        let lost = link.back().lost.load(Ordering::Relaxed);
        assert!((120..280).contains(&arrived) && arrived + lost == 400, "{arrived} {lost}");
    }
}

//! A link emulated in user space: datagrams pass between two UDP sockets at a rate, after a delay,
//! through a queue of limited length, and some are lost. For kernels without netem, and the same on
//! every machine.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use socket2::SockRef;

/// Octets that the kernel may hold for a socket of ours: the emulated queue shall drop, not the
/// socket's.
const SOCKET_OCTETS: usize = 8 << 20;

/// Largest datagram.
const DATAGRAM_OCTETS_MAX: usize = 65_536;

/// How long a direction sleeps at most before it looks whether it shall end.
const LOOK: Duration = Duration::from_millis(20);

/// What a link is like, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpec {
    /// Rate, bit/s.
    pub rate_bps: u64,
    /// Delay of each direction.
    pub delay: Duration,
    /// What the queue holds, as the time that it takes to send.
    pub queue: Duration,
    /// Share of datagrams that are lost.
    pub loss: f64,
}

/// What passed in one direction.
#[derive(Debug, Default)]
pub struct Passed {
    /// Octets sent on.
    pub octets: AtomicU64,
    /// Datagrams lost on the way, as asked for.
    pub lost: AtomicU64,
    /// Datagrams for which the queue had no room.
    pub full: AtomicU64,
    /// How long each datagram waited in the queue, us.
    waits_us: Mutex<Vec<f64>>,
}

impl Passed {
    /// The waits so far, and none from now on.
    pub fn take_waits_us(&self) -> Vec<f64> {
        std::mem::take(&mut *self.waits_us.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A link that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Link {
    near: SocketAddr,
    /// Towards the near end: from the router that the link leads to.
    back: Arc<Passed>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Link {
    /// A link to `far`. Whoever sends to [`Link::near`] is the near end.
    pub fn start(spec: LinkSpec, far: SocketAddr) -> io::Result<Self> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            let options = SockRef::from(&socket);
            // As much as the system lets us have.
            let _ = options.set_recv_buffer_size(SOCKET_OCTETS);
            let _ = options.set_send_buffer_size(SOCKET_OCTETS);
            Ok(socket)
        };
        let (near, out) = (open()?, open()?);
        out.connect(far)?;
        let address = near.local_addr()?;
        let (stop, back, caller) =
            (Arc::new(AtomicBool::new(false)), Arc::default(), Arc::new(Mutex::new(None)));
        let there = Direction {
            spec,
            from: near.try_clone()?,
            to: out.try_clone()?,
            caller: caller.clone(),
            answers: false,
            passed: Arc::default(),
            stop: stop.clone(),
            random: 0x1234_5678_9abc_def1,
        };
        let here = Direction {
            spec,
            from: out,
            to: near,
            caller,
            answers: true,
            passed: Arc::clone(&back),
            stop: stop.clone(),
            random: 0x0fed_cba9_8765_4321,
        };
        let threads = vec![thread::spawn(move || there.run()), thread::spawn(move || here.run())];
        Ok(Link { near: address, back, stop, threads })
    }

    /// Where the near end sends to.
    pub fn near(&self) -> SocketAddr {
        self.near
    }

    /// What passed towards the near end.
    pub fn back(&self) -> &Passed {
        &self.back
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Direction {
    spec: LinkSpec,
    from: UdpSocket,
    to: UdpSocket,
    /// The near end, once it has sent.
    caller: Arc<Mutex<Option<SocketAddr>>>,
    /// Whether this direction is towards the near end.
    answers: bool,
    passed: Arc<Passed>,
    stop: Arc<AtomicBool>,
    random: u64,
}

impl Direction {
    fn run(mut self) {
        let mut buffer = vec![0; DATAGRAM_OCTETS_MAX];
        let mut under_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        let mut free_at = Instant::now();
        if self.from.set_nonblocking(true).is_err() {
            return;
        }
        while !self.stop.load(Ordering::Relaxed) {
            while under_way.front().is_some_and(|(due, _)| *due <= Instant::now()) {
                if let Some((_, datagram)) = under_way.pop_front() {
                    self.send(&datagram);
                }
            }
            let wait = under_way
                .front()
                .map_or(LOOK, |(due, _)| due.saturating_duration_since(Instant::now()).min(LOOK));
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            let _ = poll(&mut [PollFd::new(&self.from, PollFlags::IN)], Some(&timeout));
            while let Ok((octets, from)) = self.from.recv_from(&mut buffer) {
                if !self.answers {
                    *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
                }
                let now = Instant::now();
                let wait = free_at.saturating_duration_since(now);
                if wait > self.spec.queue {
                    self.passed.full.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                self.passed
                    .waits_us
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(wait.as_secs_f64() * 1e6);
                let sending = Duration::from_secs_f64(octets as f64 * 8.0 / self.spec.rate_bps as f64);
                free_at = free_at.max(now) + sending;
                // What is lost has used the link too.
                if self.is_lost() {
                    self.passed.lost.fetch_add(1, Ordering::Relaxed);
                } else {
                    under_way.push_back((free_at + self.spec.delay, buffer[..octets].to_vec()));
                }
            }
        }
    }

    fn send(&self, datagram: &[u8]) {
        let sent = if self.answers {
            let caller = *self.caller.lock().unwrap_or_else(PoisonError::into_inner);
            caller.map(|caller| self.to.send_to(datagram, caller))
        } else {
            Some(self.to.send(datagram))
        };
        if let Some(Ok(octets)) = sent {
            self.passed.octets.fetch_add(octets as u64, Ordering::Relaxed);
        }
    }

    fn is_lost(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64 <= self.spec.loss && self.spec.loss > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(spec: LinkSpec) -> (UdpSocket, UdpSocket, Link) {
        let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let link = Link::start(spec, far.local_addr().unwrap()).unwrap();
        let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        near.connect(link.near()).unwrap();
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
        }
        (near, far, link)
    }

    const SPEC: LinkSpec = LinkSpec {
        rate_bps: 8_000_000,
        delay: Duration::from_millis(30),
        queue: Duration::from_millis(50),
        loss: 0.0,
    };

    #[test]
    fn datagrams_take_their_delay_both_ways_and_the_rate_spaces_them() {
        let (near, far, _link) = ends(SPEC);
        let (started, mut buffer) = (Instant::now(), [0; 2000]);
        near.send(b"there").unwrap();
        let (octets, from) = far.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..octets], b"there");
        far.send_to(b"back", from).unwrap();
        assert_eq!(near.recv(&mut buffer).unwrap(), 4);
        assert!(started.elapsed() >= Duration::from_millis(60));
        let started = Instant::now();
        // 20 datagrams of a millisecond each.
        (0..20).for_each(|_| assert!(near.send(&[0; 1000]).is_ok()));
        (0..20).for_each(|_| assert!(far.recv(&mut buffer).is_ok()));
        assert!(started.elapsed() >= Duration::from_millis(50));
    }

    #[test]
    fn a_full_queue_and_the_loss_asked_for_drop_and_are_counted() {
        let (near, far, link) = ends(SPEC);
        let mut buffer = [0; 2000];
        near.send(b"hello").unwrap();
        let (_, from) = far.recv_from(&mut buffer).unwrap();
        (0..200).for_each(|_| assert!(far.send_to(&[0; 1000], from).is_ok()));
        let arrived = std::iter::from_fn(|| near.recv(&mut buffer).ok()).count() as u64;
        let full = link.back().full.load(Ordering::Relaxed);
        assert!((45..200).contains(&arrived) && arrived + full == 200, "{arrived} {full}");
        assert_eq!(link.back().take_waits_us().len() as u64, arrived);
        let (near, far, link) = ends(LinkSpec { loss: 0.5, rate_bps: 800_000_000, ..SPEC });
        near.send(b"hello").unwrap();
        near.send(b"hello").unwrap();
        (0..20).for_each(|_| assert!(near.send(b"hello").is_ok()));
        let (_, from) = far.recv_from(&mut buffer).unwrap();
        (0..400).for_each(|_| assert!(far.send_to(&[0; 100], from).is_ok()));
        let arrived = std::iter::from_fn(|| near.recv(&mut buffer).ok()).count();
        let lost = link.back().lost.load(Ordering::Relaxed);
        assert!((120..280).contains(&arrived) && arrived as u64 + lost == 400, "{arrived} {lost}");
    }
}

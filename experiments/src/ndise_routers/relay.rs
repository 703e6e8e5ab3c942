//! The baseline of a router's throughput: datagrams of the same content through two plain relays
//! over the same link, requested by as many consumers with the same window. There are no names and
//! no signatures, and one system call for each datagram received or sent.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use namely_bench::error::Error;
use namely_testbed::Lab;
use socket2::SockRef;

use super::ends::CONTENT_OCTETS;
use super::network::node;

/// Interval between two checks for the end.
const LOOK: Duration = Duration::from_millis(50);

/// After this number of checks without a datagram a consumer sends its window again.
const LOOKS_MAX: u32 = 40;

/// Buffer of a socket if the system permits it: larger than all windows together.
const SOCKET_OCTETS: usize = 8 << 20;

/// Octets of a request: the number of the consumer.
const QUESTION_OCTETS: usize = 8;

/// The sockets on the path from the consumers to the source.
#[derive(Debug)]
pub(super) struct Relays {
    consumers: Vec<UdpSocket>,
    /// Sockets of the relay next to the consumers: to the consumers, and to the other relay.
    near: [UdpSocket; 2],
    /// Sockets of the relay next to the source: to the other relay, and to the source.
    far: [UdpSocket; 2],
    source: UdpSocket,
}

impl Relays {
    /// Opens the sockets in the namespaces of a line of two.
    pub(super) fn open(lab: &Lab, consumers: usize) -> Result<Self, Error> {
        let address = |n: usize| {
            let device = lab.devices().iter().find(|device| device.node == node(n));
            device.and_then(|device| device.addresses.ipv4().parse().ok()).unwrap_or(Ipv4Addr::LOCALHOST)
        };
        let (near, far) = (address(0), address(1));
        let opened = || -> io::Result<Self> {
            let (beyond, source) = lab.net().enter(&node(1), || -> io::Result<_> {
                let source = socket(Ipv4Addr::LOCALHOST)?;
                let inner = socket(Ipv4Addr::LOCALHOST)?;
                inner.connect(source.local_addr()?)?;
                Ok(([socket(far)?, inner], source))
            })?;
            let (before, consumers) = lab.net().enter(&node(0), || -> io::Result<_> {
                let (inner, outer) = (socket(Ipv4Addr::LOCALHOST)?, socket(near)?);
                outer.connect(beyond[0].local_addr()?)?;
                let consumers = (0..consumers).map(|_| {
                    let consumer = socket(Ipv4Addr::LOCALHOST)?;
                    consumer.connect(inner.local_addr()?)?;
                    Ok(consumer)
                });
                let consumers = consumers.collect::<io::Result<Vec<_>>>()?;
                Ok(([inner, outer], consumers))
            })?;
            beyond[0].connect(before[1].local_addr()?)?;
            Ok(Relays { consumers, near: before, far: beyond, source })
        };
        opened().map_err(|e| Error::environment("cannot open a relay's sockets", e))
    }

    /// Consumers send requests with a window until the end. `counts` are the octets that arrive at
    /// each.
    pub(super) fn run<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        window: usize,
        counts: &'env [AtomicU64],
        is_over: &'env AtomicBool,
    ) {
        let ([to_consumers, up], [down, to_source]) = (&self.near, &self.far);
        for (n, (consumer, count)) in self.consumers.iter().zip(counts).enumerate() {
            scope.spawn(move || consume(consumer, n as u64, window, count, is_over));
        }
        scope.spawn(move || {
            each(&self.source, is_over, |question, from| {
                let mut answer = [7; CONTENT_OCTETS];
                if question.len() == QUESTION_OCTETS {
                    answer[..QUESTION_OCTETS].copy_from_slice(question);
                    let _ = self.source.send_to(&answer, from);
                }
            });
        });
        for (from, to) in [(down, to_source), (to_source, down)] {
            scope.spawn(move || each(from, is_over, |datagram, _| drop(to.send(datagram))));
        }
        let callers = std::sync::Arc::new(Mutex::new(vec![None; self.consumers.len()]));
        let known = callers.clone();
        scope.spawn(move || {
            each(to_consumers, is_over, |question, from| {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(caller) = number(question).and_then(|n| known.get_mut(n)) {
                    *caller = Some(from);
                    let _ = up.send(question);
                }
            });
        });
        scope.spawn(move || {
            each(up, is_over, |answer, _| {
                let callers = callers.lock().unwrap_or_else(PoisonError::into_inner);
                let caller: Option<SocketAddr> = number(answer).and_then(|n| *callers.get(n)?);
                if let Some(caller) = caller {
                    let _ = to_consumers.send_to(answer, caller);
                }
            });
        });
    }
}

fn number(datagram: &[u8]) -> Option<usize> {
    let own = datagram.first_chunk::<QUESTION_OCTETS>()?;
    usize::try_from(u64::from_be_bytes(*own)).ok()
}

fn socket(address: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, 0))?;
    socket.set_read_timeout(Some(LOOK))?;
    let _ = SockRef::from(&socket).set_recv_buffer_size(SOCKET_OCTETS);
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_OCTETS);
    Ok(socket)
}

fn each(socket: &UdpSocket, is_over: &AtomicBool, mut take: impl FnMut(&[u8], SocketAddr)) {
    let mut buffer = [0; CONTENT_OCTETS];
    while !is_over.load(Ordering::Relaxed) {
        if let Ok((octets, from)) = socket.recv_from(&mut buffer) {
            take(&buffer[..octets], from);
        }
    }
}

fn consume(socket: &UdpSocket, own: u64, window: usize, count: &AtomicU64, is_over: &AtomicBool) {
    let (question, mut buffer) = (own.to_be_bytes(), [0; CONTENT_OCTETS]);
    let mut looks = LOOKS_MAX;
    while !is_over.load(Ordering::Relaxed) {
        if looks == LOOKS_MAX {
            (0..window).for_each(|_| drop(socket.send(&question)));
            looks = 0;
        }
        match socket.recv(&mut buffer) {
            Ok(CONTENT_OCTETS) => {
                looks = 0;
                count.fetch_add(CONTENT_OCTETS as u64, Ordering::Relaxed);
                let _ = socket.send(&question);
            }
            _ => looks += 1,
        }
    }
}

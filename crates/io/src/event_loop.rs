//! The loop: sleep until a socket is ready or a timer is due, read, write what was queued, again.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::clock;
use crate::error::OpenError;
use crate::mmsg;
use crate::options::IoOptions;
use crate::stream;
use crate::tcp;
use crate::transport::{Kind, TransportId, TransportState};
use crate::transports::{Event, ListenerKind, Source, Transports};
use crate::udp;
use crate::unix;
use crate::waker::Waker;

/// Octets read from a stream at once, and hence the most that one stream is served per turn.
const READ_OCTETS_MAX: usize = 256 << 10;

/// Sockets served per turn; the others come next.
const READY_MAX: usize = 256;

/// The epoll number of the waker; no transport has it.
const WAKER: u64 = u64::MAX;

/// Who sent a frame, on a transport with several peers.
pub type Remote = Option<SocketAddr>;

/// What an event loop drives.
pub trait Handler<P> {
    /// A frame arrived: one whole link packet, unchecked but for its first TYPE and LENGTH on streams.
    fn frame(&mut self, io: &mut Transports<P>, transport: TransportId, remote: Remote, frame: &[u8]);

    /// Something happened to a transport.
    fn event(&mut self, io: &mut Transports<P>, event: Event);

    /// Another thread called [`Waker::wake`]. `Break` ends the loop.
    fn woken(&mut self, io: &mut Transports<P>) -> ControlFlow<()>;

    /// Called once a turn. Returns when it must be called again at the latest, ns of [`crate::clock`].
    fn tick(&mut self, io: &mut Transports<P>) -> Option<u64>;
}

/// An event loop; it does nothing until [`EventLoop::run`].
pub struct EventLoop<P> {
    transports: Transports<P>,
    waker: Waker,
    scratch: Vec<u8>,
}

impl<P: AsRef<[u8]> + Clone> EventLoop<P> {
    /// A loop without transports.
    pub fn new(options: IoOptions) -> Result<Self, OpenError> {
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(OpenError::system("opening an epoll instance"))?;
        let waker = Waker::new().map_err(OpenError::system("opening an eventfd"))?;
        epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN)
            .map_err(OpenError::system("watching the eventfd"))?;
        Ok(EventLoop {
            transports: Transports::new(options, epoll),
            waker,
            scratch: vec![0; mmsg::RECEIVE_OCTETS],
        })
    }

    /// Wakes this loop from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The transports, to open the first ones.
    pub fn transports(&mut self) -> &mut Transports<P> {
        &mut self.transports
    }

    /// Runs until the handler breaks. What was queued then is written as far as the sockets take it.
    ///
    /// # Errors
    /// Environment: the system cannot wait for sockets any more.
    pub fn run(&mut self, handler: &mut impl Handler<P>) -> Result<(), Errno> {
        let mut due_ns = None;
        let mut ready = Vec::with_capacity(READY_MAX);
        loop {
            self.wait(due_ns, &mut ready)?;
            self.transports.set_now(clock::monotonic_ns());
            let flow = self.serve(&ready, handler);
            self.transports.run_timers();
            dispatch(&mut self.transports, handler);
            due_ns = handler.tick(&mut self.transports);
            self.transports.flush_dirty();
            dispatch(&mut self.transports, handler);
            if flow.is_break() {
                return Ok(());
            }
        }
    }

    /// Sleeps until a socket is ready or a timer is due.
    fn wait(&mut self, due_ns: Option<u64>, ready: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let due_ns = due_ns.into_iter().chain(self.transports.due_ns()).min();
        let timeout = due_ns.map(|due_ns| {
            let wait_ns = due_ns.saturating_sub(if due_ns == 0 { 0 } else { clock::monotonic_ns() });
            Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 }
        });
        ready.clear();
        let spare = rustix::buffer::spare_capacity(ready);
        match epoll::wait(&self.transports.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn serve(&mut self, ready: &[epoll::Event], handler: &mut impl Handler<P>) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for event in ready {
            let (number, flags) = (event.data.u64(), event.flags);
            if number == WAKER {
                self.waker.reset();
                flow = handler.woken(&mut self.transports);
            } else {
                serve_source(&mut self.transports, TransportId(number), flags, &mut self.scratch, handler);
            }
            dispatch(&mut self.transports, handler);
        }
        flow
    }
}

/// Tells the handler what happened.
pub(crate) fn dispatch<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, handler: &mut impl Handler<P>) {
    while let Some(event) = io.events.pop_front() {
        handler.event(io, event);
    }
}

fn serve_source<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    flags: EventFlags,
    scratch: &mut [u8],
    handler: &mut impl Handler<P>,
) {
    match io.source_mut(id) {
        Some(Source::Listener(listener)) => match &listener.kind {
            ListenerKind::Unix { .. } => unix::accept(io, id),
            ListenerKind::Tcp => tcp::accept(io, id),
            ListenerKind::Udp(_) => udp::read_channel(io, id, scratch, handler),
        },
        Some(Source::Transport(transport)) => {
            if transport.state == TransportState::Connecting || transport.state == TransportState::Down {
                return tcp::on_connected(io, id);
            }
            let (is_stream, is_multicast) =
                (transport.kind.is_stream(), matches!(transport.kind, Kind::Multicast { .. }));
            if flags.contains(EventFlags::OUT) {
                io.flush(id);
            }
            if !flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
                return;
            }
            if is_stream {
                stream::read(io, id, &mut scratch[..READ_OCTETS_MAX], handler);
            } else if is_multicast {
                udp::read_multicast(io, id, scratch, handler);
            } else {
                udp::read(io, id, scratch, handler);
            }
        }
        None => (),
    }
}

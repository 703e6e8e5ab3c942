//! The loop of one worker: sleep until a socket is ready or a timer is due, read, write what was queued, again.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use namely_datagrams::mmsg;
use namely_host::{Waker, clock};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::error::OpenError;
use crate::options::{DispatchedLinks, IoOptions};
use crate::port::Port;
use crate::shared::{Shared, Station, WORKERS_MAX};
use crate::transport::TransportId;
use crate::transports::{Event, Transports};

/// Sockets served per turn; the others come next.
const READY_MAX: usize = 256;

/// The epoll number of the waker; no transport has it.
const WAKER: u64 = u64::MAX;

/// Who sent a frame, on a transport with several peers.
pub type Remote = Option<SocketAddr>;

/// A frame in memory that is shared with its sender.
pub use namely_memif::Arrived as Unread;

/// What an event loop drives.
pub trait Handler<P> {
    /// A frame arrived: one whole link packet, unchecked but for its first TYPE and LENGTH on streams.
    fn frame(&mut self, io: &mut Transports<P>, transport: TransportId, remote: Remote, frame: &[u8]);

    /// The same for a frame in memory that the peer can still change: whoever takes it copies it to where it is to stay.
    fn unread(&mut self, io: &mut Transports<P>, transport: TransportId, frame: Unread<'_>) {
        let mut copy = vec![0; frame.octets()];
        frame.copy_to(&mut copy);
        self.frame(io, transport, None, &copy);
    }

    /// The same for a transport that another worker reads: all that one sender sends on it comes to one worker, as long
    /// as the link is not opened anew.
    fn foreign(&mut self, io: &mut Transports<P>, port: &Arc<Port<P>>, remote: Remote, frame: &[u8]);

    /// Something happened to a transport.
    fn event(&mut self, io: &mut Transports<P>, event: Event);

    /// Another thread called [`Waker::wake`]. `Break` ends the loop.
    fn woken(&mut self, io: &mut Transports<P>) -> ControlFlow<()>;

    /// Called once a turn, when all frames of the turn were handed over. Returns when it must be called again at the latest, ns of [`clock::monotonic_ns`].
    fn tick(&mut self, io: &mut Transports<P>) -> Option<u64>;
}

/// The event loop of one worker; it does nothing until [`EventLoop::run`].
pub struct EventLoop<P> {
    transports: Transports<P>,
    scratch: Vec<u8>,
}

impl<P: AsRef<[u8]> + Clone + Send + 'static> EventLoop<P> {
    /// The only worker, without transports.
    ///
    /// # Errors
    /// Environment: the system refused a resource.
    pub fn new(options: IoOptions) -> Result<Self, OpenError> {
        Ok(Self::worker(&Shared::new(options, DispatchedLinks::default(), vec![station(0)?]), 0))
    }

    /// As many workers as asked for, but at least one and at most [`WORKERS_MAX`]. New transports go to the one that
    /// reads the fewest, wherever they are opened; but see [`DispatchedLinks::own_worker`].
    ///
    /// # Errors
    /// Environment: the system refused a resource.
    pub fn workers(
        options: IoOptions,
        dispatched: DispatchedLinks,
        workers: usize,
    ) -> Result<Vec<Self>, OpenError> {
        let workers = workers.clamp(1, WORKERS_MAX);
        let stations = (0..workers).map(station).collect::<Result<_, _>>()?;
        let shared = Shared::new(options, dispatched, stations);
        Ok((0..workers).map(|index| Self::worker(&shared, index)).collect())
    }

    fn worker(shared: &Arc<Shared<P>>, index: usize) -> Self {
        let transports = Transports::new(shared.clone(), shared.stations[index].clone());
        EventLoop {
            transports,
            scratch: vec![0; mmsg::RECEIVE_OCTETS.max(shared.options.read_octets_per_turn)],
        }
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<Shared<P>> {
        self.transports.shared.clone()
    }

    /// Wakes this loop from another thread.
    pub fn waker(&self) -> Waker {
        self.transports.station.waker.clone()
    }

    /// The transports, to open the first ones.
    pub fn transports(&mut self) -> &mut Transports<P> {
        &mut self.transports
    }

    /// Runs until the handler breaks. What was queued then is written as far as the sockets take it.
    ///
    /// # Errors
    /// Environment: the system cannot wait for sockets any more.
    pub fn run(&mut self, handler: &mut dyn Handler<P>) -> Result<(), Errno> {
        let mut due_ns = None;
        let mut ready = Vec::with_capacity(READY_MAX);
        loop {
            self.wait(due_ns, &mut ready)?;
            let io = &mut self.transports;
            io.set_now(clock::monotonic_ns());
            let flow = serve(io, &ready, &mut self.scratch, handler);
            io.run_timers(handler);
            dispatch(io, handler);
            io.serve_notes(handler);
            // Nothing is handed over after the tick: what the handler has put together is complete.
            due_ns = handler.tick(io);
            io.flush_all();
            dispatch(io, handler);
            if flow.is_break() {
                io.finish();
                return Ok(());
            }
        }
    }

    /// Waits until a socket is ready or a timer is due.
    fn wait(&mut self, due_ns: Option<u64>, ready: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let due_ns = due_ns.into_iter().chain(self.transports.due_ns()).min();
        ready.clear();
        if due_ns != Some(0) && self.busy_poll(due_ns, ready)? {
            return Ok(());
        }
        let timeout = due_ns.map(|due_ns| {
            let wait_ns = due_ns.saturating_sub(if due_ns == 0 { 0 } else { clock::monotonic_ns() });
            Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 }
        });
        self.poll(timeout.as_ref(), ready)
    }

    /// Looks again and again for as long as that is wanted. False if nothing has come.
    fn busy_poll(&self, due_ns: Option<u64>, ready: &mut Vec<epoll::Event>) -> Result<bool, Errno> {
        let spin_ns = u64::from(self.transports.options().busy_poll_us) * 1000;
        if spin_ns == 0 {
            return Ok(false);
        }
        let end_ns = (clock::monotonic_ns() + spin_ns).min(due_ns.unwrap_or(u64::MAX));
        loop {
            self.poll(Some(&Timespec::default()), ready)?;
            if !ready.is_empty() || clock::monotonic_ns() >= end_ns {
                return Ok(!ready.is_empty());
            }
            std::hint::spin_loop();
        }
    }

    /// Asks which sockets are ready, after waiting for one for so long.
    fn poll(&self, timeout: Option<&Timespec>, ready: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let spare = rustix::buffer::spare_capacity(ready);
        match epoll::wait(&self.transports.station.epoll, spare, timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

fn station<P>(index: usize) -> Result<Arc<Station<P>>, OpenError> {
    let epoll =
        epoll::create(CreateFlags::CLOEXEC).map_err(OpenError::system("opening an epoll instance"))?;
    let waker = Waker::new().map_err(OpenError::system("opening an eventfd"))?;
    epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN)
        .map_err(OpenError::system("watching the eventfd"))?;
    Ok(Station::new(index, epoll, waker))
}

fn serve<P: AsRef<[u8]> + Clone + Send + 'static>(
    io: &mut Transports<P>,
    ready: &[epoll::Event],
    scratch: &mut [u8],
    handler: &mut dyn Handler<P>,
) -> ControlFlow<()> {
    let mut flow = ControlFlow::Continue(());
    for event in ready {
        let (number, flags) = (event.data.u64(), event.flags);
        if number == WAKER {
            io.station.waker.reset();
            io.serve_notes(handler);
            flow = handler.woken(io);
        } else {
            let is_readable = flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP);
            let is_writable = flags.contains(EventFlags::OUT);
            io.serve_ready(TransportId(number), is_readable, is_writable, scratch, handler);
        }
        dispatch(io, handler);
    }
    flow
}

/// Tells the handler what happened.
pub(crate) fn dispatch<P: AsRef<[u8]> + Clone + Send + 'static>(
    io: &mut Transports<P>,
    handler: &mut dyn Handler<P>,
) {
    while let Some(event) = io.events.pop_front() {
        handler.event(io, event);
    }
}
